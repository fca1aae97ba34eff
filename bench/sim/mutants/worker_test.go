package mutants

// worker lists the mutants of package worker. Keep the old texts short and central, so that they stay valid.
var worker = packageMutants{"worker", []mutant{
	{
		"who meets another task hears it at once", "Core.enqueueTask",
		"answer.Wait = c.expectedWait(p, now)", "",
	},
	{
		"no place is asked early that could start", "Core.preemptForRegular",
		" || p.launch == nil && p.neededRoom().fitsIn(c.free)", "",
	},
	{
		"what runs and is covered now is not stopped for others", "Core.restampPlace",
		"a.standing == stoppable && m.Standing.Class != probe.Spare", "false",
	},
	{
		"only its own frontend says how an attempt stands", "Core.restampPlace",
		"a.owner == l && a.state == running && a.standing == stoppable", "a.state == running && a.standing == stoppable",
	},
	{
		"spare work starts only where nothing regular can", "Core.assignRoom",
		"acts = c.assignToSpare(now, c.preemptSpare(now, acts))\n\tif c.queue.len() > 0 {", "if c.queue.len() > 0 {",
	},
	{
		"room that is freed for a regular place is kept for it", "Core.assignToSpare",
		"if c.stopping.Len() > 0 && c.hasRegularWaiting() {", "if false {",
	},
	{
		"nothing is stopped for a place that has just come", "clearing.isTooSoon",
		"wait := c.cfg.PreemptAfter - waited", "wait := -waited",
	},
	{
		"the more would be lost, the longer regular places wait", "clearing.isTooSoon",
		"min(worthWait*ran,", "min(0*ran,",
	},
	{
		"however much would be lost, regular places do not wait for long", "clearing.isTooSoon",
		"min(worthWait*ran, mostPatience*c.cfg.PreemptAfter)", "worthWait*ran",
	},
	{
		"those that wait do so together", "Core.preemptForRegular",
		"if n++; n > planDepth {\n\t\t\tbreak\n\t\t}\n\t\ts.countWaiting(p, 1)", "if n++; n > 1 {\n\t\t\tbreak\n\t\t}\n\t\ts.countWaiting(p, 1)",
	},
	{
		"a reservation is asked before something is stopped for it", "Core.preemptForRegular",
		"case p.launch == nil:", "case false:",
	},
	{
		"who asked has something stopped for what it gets", "Core.preemptForRegular",
		"p.clearsSpare = true", "p.clearsSpare = false",
	},
	{
		"what is bound waits while something stops for it", "Core.patienceFor",
		"if a.clearsSpare && c.stopping.Len() > 0 {", "if false {",
	},
	{
		"what is about to end is not stopped", "Core.seekVictims",
		"remainingTime(expected, ran) > c.cfg.PreemptAfter", "remainingTime(expected, ran) >= 0",
	},
	{
		"the youngest is stopped first", "Core.seekVictims",
		"b.startedAt.Compare(a.startedAt)", "a.startedAt.Compare(b.startedAt)",
	},
	{
		"what is yielded is not stopped", "Core.startAttempt",
		"if a.class == probe.Spare {\n\t\tc.Stats.SpareStarted++", "if a.class != probe.Regular {\n\t\tc.Stats.SpareStarted++",
	},
	{
		"one that does not stop when told counts like any other", "Core.giveUpStopping",
		"c.setStanding(c.stopping.First().attempt, unstoppable)", "c.stopping.Remove(c.stopping.First())",
	},
	{
		"what is due is regular", "Core.expireOverdue",
		"c.promoteDue()\n", "",
	},
	{
		"an older frontend is not told of preemption", "Core.finishedMsg",
		"status == probe.Preempted && a.owner.features&probe.Classes == 0", "false",
	},
	{
		"what was told to stop and ended well has ended well", "Core.noteSpareEnd",
		"!a.unwanted && ev.Status == probe.Killed", "!a.unwanted",
	},
	{
		"spare places leave half of the queue to regular ones", "Core.freePlaces",
		"n -= c.spareQueue.len()", "",
	},
	{
		"of spare places of a tenant the one goes first whose job has the least left", "fair.addPlace",
		"p.sortKey = float64(p.workLeft)", "p.sortKey = 0",
	},
	{
		"a cancelled place goes", "Core.receiveMsg",
		"c.dropPlace(p)\n\t\t\t\tc.Stats.Cancelled++", "c.Stats.Cancelled++",
	},
	{
		"a cancel that overtakes its reserve leaves a tombstone", "Core.receiveMsg",
		"l.seenPlaces.Mark(id)", "",
	},
	{
		"a decline frees the slot that was held", "Core.receiveMsg",
		"l.learnAnswer(now.Sub(p.askedAt))\n\t\t\tc.dropPlace(p)", "l.learnAnswer(now.Sub(p.askedAt))\n\t\t\tc.stopAsking(p)\n\t\t\tdelete(l.places, p.res)",
	},
	{
		"what runs is not stopped by a sync of who has not heard yet that it is its owner", "Core.adoptAttempt",
		"a.owner, a.stateSince = l, now", "a.owner = l",
	},
	{
		"an ack counts from the owner only", "Core.acknowledgeResult",
		"a == nil || a.owner != l && a.owner != nil || a.state != ended", "a == nil || a.state != ended",
	},
	{
		"an ack forgets only what has ended", "Core.acknowledgeResult",
		"a == nil || a.owner != l && a.owner != nil || a.state != ended", "a == nil || a.owner != l && a.owner != nil",
	},
	{
		"what is closed to long tasks may be taken by them", "Core.fitsShortPart",
		" || !needs.fitsIn(free) {", " {",
	},
	{
		"long tasks that have more than is open to them are nothing to short ones", "room.fitsIn",
		"(r.open == probe.Demand{} || r.open.Fits(free.open))", "r.open.Fits(free.open)",
	},
	{
		"an attempt that is forgotten is used again once", "freeList.getZeroed",
		"	*r = (*r)[:n-1]\n", "",
	},
	{
		"a link that was silent takes part again when it is heard", "Core.Step",
		"c.unparkLink(l)", "",
	},
	{
		"an attempt that ends frees its slot", "Core.endAttempt",
		"c.freeRoom(roomFor(a.demand, a.long))", "",
	},
	{
		"a result is kept until it is acknowledged", "Core.concludeAttempt",
		"return c.sendMsg(a.owner, c.finishedMsg(a), acts)", "acts = c.sendMsg(a.owner, c.finishedMsg(a, now), acts)\n\tc.forgetAttempt(a)\n\treturn acts",
	},
	{
		"a task that is here under an id is found on a later link of its frontend", "Core.linkUp",
		"l.topSeq = max(l.topSeq, id.Seq)\n\t\t}\n\t}\n\tc.links", "}\n\t}\n\tc.links",
	},
	{
		"an id that is used twice is told from one that is new", "Core.hasAttempt",
		"id.Seq <= l.topSeq)", "false)",
	},
	{
		"a kill that overtakes its place leaves a tombstone", "Core.killAttempt",
		"l.seenPlaces.Mark(m.Res)", "",
	},
	{
		"an attempt has one owner: the earlier one hears of a claim", "Core.adoptAttempt",
		"if a.owner != nil && a.owner != l {", "if false {",
	},
	{
		"a claim changes the owner", "Core.adoptAttempt",
		"a.owner, a.stateSince = l, now", "a.stateSince = now",
	},
	{
		"a claim leaves a tombstone", "Core.grantClaim",
		"known.owner, known.generation = l.frontend, m.Generation", "_ = known",
	},
	{
		"what comes of a job that was claimed since is refused", "Core.hasMoved",
		"return m != nil && m.owner != 0 && (g < m.generation", "return m != nil && m.owner != 0 && (false",
	},
	{
		"of two frontends of one generation the one that claimed last has the job", "Core.hasMoved",
		"g == m.generation && m.owner != l.frontend)", "false)",
	},
	{
		"a claim of an earlier generation comes too late", "Core.grantClaim",
		"m.Generation < known.generation {", "false {",
	},
	{
		"a frontend that comes back forgets the places that it had before", "Core.grantClaim",
		"(other != l || p.generation < m.Generation)", "other != l",
	},
	{
		"an attempt is not claimed by who lost its job", "Core.claimAttempt",
		"if c.hasMoved(l, m.Job, m.Generation) {\n\t\treturn c.sendRefused(", "if false {\n\t\treturn c.sendRefused(",
	},
	{
		"a sync does not take an attempt of a job that has moved", "Core.syncLink",
		"a.owner == nil && c.hasMoved(l, a.job, a.generation):", "false:",
	},
	{
		"a task bound early of a job that has moved is refused", "Core.enqueueTask",
		"time.Duration(0)\n\tif c.hasMoved(l, m.Job, m.Generation) {", "time.Duration(0)\n\tif false {",
	},
	{
		"a turn is not given to a task of a job that has moved", "Core.bindTask",
		"!ownJob && c.hasMoved(l, job, generation)", "false",
	},
	{
		"what is remembered of jobs is not kept for ever", "Core.expireMemories",
		"now.Sub(m.changedAt) >= rememberFor", "false",
	},
	{
		"of a job of which something was forgotten no worker says that it knows all", "Core.knownFor",
		"m != nil && m.forgotAttempts || c.leaving {", "m != nil && false {",
	},
	{
		"an attempt that was stopped counts as forgotten", "Core.abandonAttempt",
		"a.unwanted = true\n\t\t\tc.loseTrack(a, now)", "a.unwanted = true",
	},
	{
		"a result that nobody claimed counts as forgotten", "Core.expireResults",
		"c.Stats.Forgotten++\n\t\tc.loseTrack(a, now)", "c.Stats.Forgotten++",
	},
	{
		"what is no longer remembered is not known", "Core.expireMemories",
		"c.knownSince = m.changedAt", "",
	},
	{
		"a result that is disowned waits to be claimed", "Core.acknowledgeResult",
		"if disowned {", "if false {",
	},
	{
		"a place that came round often goes to the back", "Core.bindTask",
		"(p.turn+1)%maxTurns == 0", "false",
	},
	{
		"a sync spares places that have just come back", "Core.syncLink",
		"now.Sub(p.believedSince) >= probe.SyncAge", "now.Sub(p.queuedAt) >= probe.SyncAge",
	},
	{
		"a sync keeps live places", "Core.syncLink",
		"named := live[p.res]", "named := false",
	},
	{
		"a sync keeps tasks bound early whose end is awaited", "Core.syncLink",
		"named = wanted[p.launch.Attempt]", "",
	},
	{
		"a sync spares places whose reserve it crossed", "Core.syncLink",
		"p.res < m.Next &&", "",
	},
	{
		"a sync spares young places", "Core.syncLink",
		"now.Sub(p.believedSince) >= probe.SyncAge", "true",
	},
	{
		"a sync is told of attempts that are waited for in vain", "Core.syncLink",
		"case a == nil && !waits[id]:", "case false:",
	},
	{
		"who leaves evicts parked places too", "Core.startLeaving",
		"return p.state == queued || p.state == parked }", "return p.state == queued }",
	},
	{
		"a newer link of a frontend replaces the older one", "Core.linkUp",
		"c.linkDown(old, now)", "",
	},
	{
		"the places of a link that breaks go", "Core.linkDown",
		"c.dropPlace(p)\n\t}\n\tfor _, a := range", "_ = p\n\t}\n\tfor _, a := range",
	},
	{
		"an attempt whose link breaks is stopped after the grace period", "Core.linkDown",
		"c.orphans.Push(a)", "",
	},
	{
		"a place is taken once, however often its reserve comes", "Core.reservePlaces",
		"if !l.seenPlaces.Mark(id) {", "if false {",
	},
	{
		"a task bound early is taken once", "Core.enqueueTask",
		"if !l.seenPlaces.Mark(m.Res) {", "if false {",
	},
	{
		"the queue has a bound, and parked places count", "Core.freePlaces",
		"c.queue.len() - c.spareQueue.len() - c.parkedCount", "c.queue.len() - c.spareQueue.len()",
	},
	{
		"who leaves takes nothing new", "Core.whyNoPlace",
		"case c.leaving:\n", "case false:\n",
	},
	{
		"a task that rides along does not overtake the queue", "Core.reservePlaces",
		"ride = gap\n", "",
	},
	{
		"nor does one that delays others, though there is room", "Core.takeGap",
		"if !c.forecast.mayStart(needs, takes) ||", "if",
	},
	{
		"a slot is held or given, not both", "Core.beginTurn",
		"c.takePlaceRoom(p)\n\t\treturn c.askPlace(p, asking, now, acts)", "return c.askPlace(p, asking, now, acts)",
	},
	{
		"no more is asked ahead than will fall free", "Core.askAhead",
		"!c.promised.Add(p.demand).Fits(c.free.all.Add(c.endingSoonRoom))", "false",
	},
	{
		"an answer is for one turn of its place", "Core.askedPlace",
		"p.turn == turn &&", "",
	},
	{
		"a place that comes round again has another turn", "Core.requeuePlace",
		"p.turn++", "",
	},
	{
		"a repeated bind is not refused", "Core.bindTask",
		"!l.boundAttempts.Mark(probe.ResID(m.Launch.Attempt.Seq)) ||", "",
	},
	{
		"a bundle that came too late is refused whole", "Core.bindTask",
		"acts = c.refuseBundle(l, m.Bundle, probe.Expired, acts)", "",
	},
	{
		"a task bound ahead of its slot waits for it", "Core.bindTask",
		"if wasAsking {", "if wasAsking || true {",
	},
	{
		"a turn that expires frees the slot that was held", "Core.expireOverdue",
		"c.averages.noteTurn(false)\n\t\tc.dropPlace(p)", "c.averages.noteTurn(false)\n\t\tc.stopAsking(p)\n\t\tdelete(p.link.places, p.res)",
	},
	{
		"a link whose turn expired is out of the way", "Core.expireOverdue",
		"if !p.link.silent {", "if false {",
	},
	{
		"who leaves does not stay for results that nobody claims", "Core.claimableFor",
		"return min(c.cfg.Retain, c.cfg.Grace)", "return c.cfg.Retain",
	},
	{
		"results beyond the bound go", "Core.expireResults",
		"case c.retainedBytes <= c.cfg.MaxRetained:", "case true:",
	},
	{
		"the place of a task that is handed back is queued again", "Core.handBack",
		"if p := a.returnPlace; p != nil && !c.leaving {", "if p := a.returnPlace; p != nil && false {",
	},
	{
		"who fills a gap delays nobody ahead", "Core.findGaps",
		"(deep || f.mayStart(p.neededRoom(), p.longestRun()))", "p.neededRoom().fitsIn(f.spans[0].free)",
	},
	{
		"a share is closed to long tasks once a short one had to wait for them", "Core.noteShort",
		"if !needs.fitsIn(c.free) && c.free.open != c.capacity.open {", "if false {",
	},
	{
		"nothing is closed to long tasks while short ones find room", "Core.noteShort",
		"if !needs.fitsIn(c.free) && c.free.open != c.capacity.open {", "{",
	},
	{
		"what is closed is opened once short tasks stay away", "Core.reopenIfQuiet",
		"if c.capacity.open != c.capacity.all && c.isQuiet(now) {", "if false {",
	},
	{
		"nothing is opened while a short task waits", "Core.isQuiet",
		" && !c.hasShortWaiting()\n}", "\n}",
	},
	{
		"nobody starts before one ahead that is late", "Core.findGaps",
		"case waited <= p.startIn:", "case true:",
	},
	{
		"long tasks that are late hold up short ones only where these may delay them", "Core.findGaps",
		"case !p.long:\n\t\t\treturn", "case true:\n\t\t\treturn",
	},
	{
		"short tasks do not take the room that a late long one waits for", "Core.findGaps",
		"&& (!shortPartOnly || c.fitsShortPart(p.neededRoom(), f.spans[0].free))", "",
	},
	{
		"a later stage stands where it would if it had come with its job", "place.Before",
		"return p.cameAt < q.cameAt", "return p.seq < q.seq",
	},
	{
		"reservations count at their chance", "Core.placeCost",
		"chance = c.averages.bindChance", "",
	},
	{
		"a share is closed to long tasks", "roomFor",
		"return room{d, d}", "return room{all: d}",
	},
	{
		"a task waits for its files", "Core.assignInOrder",
		"if p.waitsForFiles() || !p.neededRoom().fitsIn(c.free) {", "if !p.neededRoom().fitsIn(c.free) {",
	},
	{
		"a task without its files does not fill a gap", "Core.findGaps",
		"case fetched > 0:\n\t\t\tnotBefore", "case false:\n\t\t\tnotBefore",
	},
	{
		"behind many, short tasks overtake long ones only", "Core.findGaps",
		"deep && shortAhead", "false",
	},
	{
		"a task whose files are late holds nobody up", "Core.findGaps",
		"continue // late", "// late",
	},
	{
		"files of a place that goes are released", "Core.dropPlace",
		"c.releaseFiles(p.launch.Attempt)", "",
	},
	{
		"files of an attempt that ends are released", "Core.endAttempt",
		"c.releaseFiles(ev.Attempt)", "",
	},
	{
		"a task that needs files is bound early", "Core.whyCannotRunNow",
		"return probe.NeedsFiles", "return 0",
	},
	{
		"a task whose files cannot be had does not start", "Core.finishFetch",
		`if ev.Err == "" {`, "if true {",
	},
	{
		"the queue has a bound for tasks bound early, too", "Core.enqueueTask",
		"if reason == 0 && !q.mayAddPlace(m.Tenant, c.freePlaces(class)) {", "if false {",
	},
	{
		"a tenant leaves room in the queue for others", "queue.mayAddPlace",
		"q.tenantNamed(name).placeCount <= maxPlacesPerFree*free", "true",
	},
	{
		"under shortest, nobody starves", "shortest.isStarving",
		"now.Sub(p.queuedAt) >= s.starvationBound", "now.Sub(p.queuedAt) >= 1000*s.starvationBound",
	},
	{
		"under fair, a tenant that was away saves nothing up", "fair.raiseStart",
		"a.startTag = max(a.startTag, a.parent.virtualTime)", "",
	},
	{
		"under fair, a tenant pays for what it used", "bill.settle",
		"a.startTag += (float64(used)*float64(b.cpu) - b.paid) / a.weight", "",
	},
	{
		"under fair, tasks that ride along pay", "Core.reservePlaces",
		"c.takeRoom(need)\n\t\t\t\ta.bill = c.queue.chargeAttempt(tenant, m.Demand, a.expectedRun)", "c.takeRoom(need)",
	},
	{
		"under fair, nobody waits for what others paid in advance", "account.advanceVirtual",
		"min(child.startTag, served)", "max(child.startTag, served)",
	},
	{
		"under fair, a tenant that owes is not forgotten first", "queue.forgetIdleTenants",
		"cmp.Compare(t.amountOwed(), u.amountOwed())", "cmp.Compare(u.amountOwed(), t.amountOwed())",
	},
	{
		"under fair, what a tenant pays those above it pay too", "account.payInAdvance",
		"a.startTag += b.paid / a.weight\n", "a.startTag += b.paid / a.weight\n\t\tbreak\n",
	},
	{
		"under fair, tenants below a path share what it gets", "fair.openAccount",
		"parent = f.innerAccount(path, parent)", "continue",
	},
	{
		"under fair, frontends tell the weights", "fair.setWeights",
		"a.weight = float64(weights[i])", "",
	},
	{
		"under fair, the parts of a path have a weight each", "fair.setWeights",
		"a.weight = float64(weights[i])", "a.weight = float64(weights[0])",
	},
	{
		"under fair, a tenant that others come to be below of keeps what it owes", "fair.innerAccount",
		"a.weight, a.startTag, a.virtualTime = own.weight, own.startTag, own.startTag", "a.weight = own.weight",
	},
	{
		"under fair, a tenant's own jobs go by priority", "fair.addPlace",
		"p.sortKey = -float64(p.priority)", "",
	},
	{
		"under fair, a turn is expected to cost what such tasks typically take", "fair.chargeTurn",
		"p.bill = p.queueTenant.account.payInAdvance(p.demand, p.expectedRun)", "p.bill = p.queueTenant.account.payInAdvance(p.demand, p.estimate)",
	},
	{
		"plans foresee the turns of paths", "fair.foreseeOrder",
		"c.startTag += cost / c.account.weight", "c.startTag += cost * 0",
	},
	{
		"a place counts for what its tasks typically take", "Core.reservePlaces",
		"expectedRun: cmp.Or(m.Estimate, m.Typical), mayAskAhead", "expectedRun: m.Estimate, mayAskAhead",
	},
	{
		"what is told late is forgotten in time", "Core.expireOverdue",
		"	c.expireCommons(now)\n", "",
	},
	{
		"what tasks have in common stays while it is used", "Core.whyCannotRun",
		"\t\tc.noteCommonUse(common, now)\n", "",
	},
	{
		"what a launch has in common with others is there", "Core.whyCannotRun",
		"case common == nil && m.Context != nil", "case false && m.Context != nil",
	},
	{
		"what is in common is that of its job", "link.findCommon",
		"commonKey{job, launch.Context.Common}]", "commonKey{number: launch.Context.Common}]",
	},
	{
		"a deadline is counted from when it was told, not from the start", "Core.startAttempt",
		"max(launch.Deadline-now.Sub(a.arrivedAt), 1)", "launch.Deadline",
	},
	{
		"a short task waits for room in all of the worker", "forecast.shortWaits",
		"probe.MatrixStep(all.CPU, i-1) > free.CPU || ", "probe.MatrixStep(all.CPU, i-1) >= free.CPU || ",
	},
	{
		"a wait behind one's own tenant is told apart", "Core.addCPUUse",
		"a.queueTenant.cpuUse.addCPU(cpu, c.queue.now)", "",
	},
	{
		"a worker tells each frontend how long its own tasks wait", "Core.expectedWaits",
		"p.link == l && p.launch != nil", "p.launch != nil",
	},
	{
		"how fast a task goes is how fast it went lately", "progress.noteReport",
		"whole = (p.wholeTime + whole) / 2", "whole = time.Duration(float64(ran) / done)",
	},
	{
		"a task that says nothing more goes on for as long again", "progress.timeLeft",
		"(1-p.doneShare))-silent, silent)", "(1-p.doneShare))-silent, 0)",
	},
	{
		"what was said shortly after is not compared with what was said before", "progress.noteReport",
		"|| p.doneShare > 0 && ran-p.saidAt < reportEvery {", "{",
	},
	{
		"forecasts go by what tasks say of their progress", "Core.beginForecast",
		"timeLeft := c.attemptTimeLeft(a, now)", "timeLeft := remainingTime(expectedCost(a.expectedRun, c.averages.runTime, 1), now.Sub(a.startedAt))",
	},
	{
		"two long tasks do not tell a worker's pace", "Core.currentPace",
		"len(all) < leastPaces", "false",
	},
	{
		"what runs tells a worker's pace before what has ended", "Core.currentPace",
		"p := &a.progress; a.long && p.doneShare > 0 && a.expectedRun > 0", "p := &a.progress; false && p != nil",
	},
	{
		"only long tasks that succeeded tell a worker's pace", "Core.endAttempt",
		"a.long && a.expectedRun > 0 && ev.Status == probe.Succeeded", "a.expectedRun > 0",
	},
}}
