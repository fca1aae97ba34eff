package mutants

// worker lists the mutants of package worker. Short and central old texts stay valid longest.
var worker = packageMutants{"worker", []mutant{
	{
		"a Cancel with Answer is answered", "Core.receiveMsg",
		"if m.Answer {", "if false {",
	},
	{
		"places of a frontend wait while too many results wait for the frontend", "Core.updateFull",
		"c.parkPlaces(l)", "",
	},
	{
		"no ride starts while too many results wait for its frontend", "Core.reservePlaces",
		"regular && !l.isFull && int(i) < rides", "regular && int(i) < rides",
	},
	{
		"results beyond the window are held back", "Core.mustHold",
		"u.sentBytes+size > c.window()", "false",
	},
	{
		"a claim of a held result is answered", "Core.adoptAttempt",
		"acts = c.answerHeld(a, acts)", "",
	},
	{
		"a frontend whose task meets another hears of it at once", "Core.enqueueTask",
		"answer.Wait = c.expectedWait(p, now)", "",
	},
	{
		"a place that could start is not asked early", "Core.preemptForRegular",
		" || p.launch == nil && p.neededRoom().fitsIn(c.free)", "",
	},
	{
		"a running task that is now covered is not stopped for others", "Core.restampPlace",
		"a.stopState == stoppable && m.Standing.Class != probe.Spare", "false",
	},
	{
		"only the frontend of an attempt may restamp the attempt", "Core.restampPlace",
		"a.owner == l && a.state == running && a.stopState == stoppable",
		"a.state == running && a.stopState == stoppable",
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
		"no task is stopped for a place that has just come", "victimSearch.postponeIfTooSoon",
		"wait := c.cfg.PreemptAfter - waited", "wait := -waited",
	},
	{
		"the more work would be lost, the longer regular places wait", "victimSearch.postponeIfTooSoon",
		"min(waitPerLostRun*ran,", "min(0*ran,",
	},
	{
		"however much work would be lost, regular places do not wait for long", "victimSearch.postponeIfTooSoon",
		"min(waitPerLostRun*ran, maxPatience*c.cfg.PreemptAfter)", "waitPerLostRun*ran",
	},
	{
		"regular places wait together", "Core.preemptForRegular",
		"if n++; n > planDepth {\n\t\t\tbreak\n\t\t}\n\t\ts.countWaiting(p, 1)",
		"if n++; n > 1 {\n\t\t\tbreak\n\t\t}\n\t\ts.countWaiting(p, 1)",
	},
	{
		"a reservation is asked before a task is stopped for it", "Core.preemptForRegular",
		"case p.launch == nil:", "case false:",
	},
	{
		"a reservation that gets a task has another task stopped", "Core.preemptForRegular",
		"p.stopsSpare = true", "p.stopsSpare = false",
	},
	{
		"a bound task waits while another task stops for it", "Core.patienceFor",
		"if a.stopsSpare && c.stopping.Len() > 0 {", "if false {",
	},
	{
		"a task about to end is not stopped", "Core.seekVictims",
		"remainingTime(expected, ran) > c.cfg.PreemptAfter", "remainingTime(expected, ran) >= 0",
	},
	{
		"the youngest is stopped first", "Core.seekVictims",
		"b.startedAt.Compare(a.startedAt)", "a.startedAt.Compare(b.startedAt)",
	},
	{
		"a yielded task is not stopped", "Core.startAttempt",
		"if a.class == probe.Spare {\n\t\tc.Stats.SpareStarted++",
		"if a.class != probe.Regular {\n\t\tc.Stats.SpareStarted++",
	},
	{
		"a task that does not stop counts as normal work", "Core.giveUpStopping",
		"c.setStopState(c.stopping.First().attempt, unstoppable)", "c.stopping.Remove(c.stopping.First())",
	},
	{
		"a due place is regular", "Core.expireOverdue",
		"c.promoteDue()\n", "",
	},
	{
		"an older frontend is not told of preemption", "Core.finishedMsg",
		"status == probe.Preempted && a.owner.features&probe.Classes == 0", "false",
	},
	{
		"a task that was told to stop and ended well has succeeded", "Core.endSpareAttempt",
		"!a.unwanted && ev.Status == probe.Killed", "!a.unwanted",
	},
	{
		"spare places leave half of the queue to regular ones", "Core.freePlaces",
		"n -= c.spareQueue.len()", "",
	},
	{
		"of a tenant's spare places, the job with the least work left goes first", "fair.setSortKey",
		"p.sortKey = float64(p.workLeft)", "p.sortKey = 0",
	},
	{
		"a cancelled place is removed", "Core.receiveMsg",
		"c.dropPlace(p)\n\t\t\t\tc.Stats.Cancelled++", "c.Stats.Cancelled++",
	},
	{
		"a cancel that overtakes its reserve leaves a tombstone", "Core.receiveMsg",
		"l.seenPlaces.Mark(id)", "",
	},
	{
		"a decline frees the slot that was held", "Core.receiveMsg",
		"l.noteAnswerTime(now.Sub(p.askedAt))\n\t\t\tc.dropPlace(p)",
		"l.noteAnswerTime(now.Sub(p.askedAt))\n\t\t\tc.stopAsking(p)\n\t\t\tdelete(l.places, p.res)",
	},
	{
		"a sync from a frontend that does not know its attempts yet stops none", "Core.adoptAttempt",
		"a.owner, a.stateSince = l, now", "a.owner = l",
	},
	{
		"an ack counts from the owner only", "Core.acknowledgeResult",
		"a == nil || a.owner != l && a.owner != nil || a.state != ended", "a == nil || a.state != ended",
	},
	{
		"an ack forgets only ended attempts", "Core.acknowledgeResult",
		"a == nil || a.owner != l && a.owner != nil || a.state != ended", "a == nil || a.owner != l && a.owner != nil",
	},
	{
		"long tasks may use more than the open part", "Core.fitsShortPart",
		" || !needs.fitsIn(free) {", " {",
	},
	{
		"long tasks beyond the open part do not keep short tasks out", "room.fitsIn",
		"(r.open == probe.Demand{} || r.open.Fits(free.open))", "r.open.Fits(free.open)",
	},
	{
		"an attempt that is forgotten is used again once", "freeList.getZeroed",
		"	*r = (*r)[:n-1]\n", "",
	},
	{
		"a link that was silent takes part again when it is heard", "Core.Step",
		"c.noteHeard(l)", "",
	},
	{
		"an attempt that ends frees its slot", "Core.endAttempt",
		"c.freeRoom(roomFor(a.demand, a.long))", "",
	},
	{
		"a result is kept until it is acknowledged", "Core.concludeAttempt",
		"return c.sendResult(a, acts)",
		"acts = c.sendMsg(a.owner, c.finishedMsg(a), acts)\n\tc.forgetAttempt(a)\n\treturn acts",
	},
	{
		"an attempt is found by its id on a later link of its frontend", "Core.linkUp",
		"l.topSeq = max(l.topSeq, id.Seq)\n\t\t}\n\t}\n\tc.links", "}\n\t}\n\tc.links",
	},
	{
		"a repeated id is told from a new id", "Core.hasAttempt",
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
		"messages of a job that was claimed since are refused", "jobMemory.outranks",
		"return m != nil && m.owner != 0 && (g < m.generation", "return m != nil && m.owner != 0 && (false",
	},
	{
		"of two frontends of one generation, the last to claim has the job", "jobMemory.outranks",
		"g == m.generation && m.owner != l.frontend)", "false)",
	},
	{
		"a claim of an earlier generation comes too late", "Core.grantClaim",
		"m.Generation < known.generation {", "false {",
	},
	{
		"the claim of a returning frontend removes its former places", "Core.grantClaim",
		"(other != l || p.generation < m.Generation)", "other != l",
	},
	{
		"a frontend that lost a job cannot claim its attempts", "Core.claimAttempt",
		"if c.hasMoved(l, m.Job, m.Tenant, m.HasTenant, m.Generation) {", "if false {",
	},
	{
		"a sync does not take an attempt of a job that has moved", "Core.syncLink",
		"a.owner == nil && c.hasMoved(l, a.job, a.tenant, a.guarded, a.generation):", "false:",
	},
	{
		"a task bound early of a job that has moved is refused", "Core.enqueueTask",
		"if c.hasMoved(l, m.Job, m.Tenant, m.Guarded, m.Generation) {", "if false {",
	},
	{
		"a turn is not given to a task of a job that has moved", "Core.bindTask",
		"!ownJob && c.hasMoved(l, job, p.tenant, p.guarded, generation)", "false",
	},
	{
		"a claim takes nothing of another tenant's job", "coversTenant",
		"return tenant == m.Tenant", "return true",
	},
	{
		"a claim of an older frontend takes nothing of a guarded job", "coversTenant",
		"return !guarded", "return true",
	},
	{
		"an attempt of another tenant's job cannot be claimed by its id", "Core.claimAttempt",
		"a != nil && !coversTenant(m, a.tenant, a.guarded)", "false",
	},
	{
		"a claim counts for the jobs of its tenant", "keyOf",
		"jobKey{job: m.Job, tenant: m.Tenant}", "jobKey{job: m.Job}",
	},
	{
		"a claim of an older frontend stops no guarded job", "Core.hasMoved",
		"!guarded && c.memories", "c.memories",
	},
	{
		"an older frontend is not told that a guarded task never started", "Core.knownFor",
		"!m.HasTenant && c.guardsJobs", "false",
	},
	{
		"what a tenant's job forgets does not count for another tenant", "Core.noteForgotten",
		"if a.guarded {", "if false {",
	},
	{
		"a claim takes no attempt from a later owner", "Core.grantClaim",
		" && a.generation <= m.Generation", "",
	},
	{
		"memories of jobs are not kept for ever", "Core.expireMemories",
		"now.Sub(m.changedAt) >= rememberFor", "false",
	},
	{
		"a worker that forgot part of a job does not say that it knows all", "Core.knownFor",
		"case c.leaving || c.hasForgotten(keyOf(m)):", "case false:",
	},
	{
		"an attempt that was stopped counts as forgotten", "Core.abandonAttempt",
		"a.unwanted = true\n\t\t\tc.noteForgotten(a, now)", "a.unwanted = true",
	},
	{
		"an unclaimed result counts as forgotten", "Core.expireResults",
		"c.Stats.Forgotten++\n\t\tc.noteForgotten(a, now)", "c.Stats.Forgotten++",
	},
	{
		"a worker does not claim to know expired memories", "Core.expireMemories",
		"c.knownSince = m.changedAt", "",
	},
	{
		"a result that is disowned waits to be claimed", "Core.acknowledgeResult",
		"if disowned {", "if false {",
	},
	{
		"a place after many turns goes to the back", "Core.bindTask",
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
		"a sync is answered with the attempts awaited in vain", "Core.syncLink",
		"case a == nil && !queuedTasks[id]:", "case false:",
	},
	{
		"a leaving worker evicts parked places, too", "Core.startLeaving",
		"return p.state == queued || p.state == parked }", "return p.state == queued }",
	},
	{
		"a newer link of a frontend replaces the older one", "Core.linkUp",
		"c.linkDown(old, now)", "",
	},
	{
		"the places of a broken link are removed", "Core.linkDown",
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
		"a leaving worker takes nothing new", "Core.whyNoPlace",
		"case c.leaving:\n", "case false:\n",
	},
	{
		"a task that rides along does not overtake the queue", "Core.reservePlaces",
		"ride = gap\n", "",
	},
	{
		"a task that rides along and would delay others does not start", "Core.takeGap",
		"if !c.forecast.mayStart(needs, runTime) ||", "if",
	},
	{
		"a slot is held or given, not both", "Core.giveRoom",
		"c.takePlaceRoom(p)\n\t\treturn c.askPlace(p, asking, now, acts)", "return c.askPlace(p, asking, now, acts)",
	},
	{
		"no more places ask ahead than slots will fall free", "Core.askAhead",
		"!c.promised.Add(p.demand).Fits(c.free.all.Add(c.endingSoonRoom))", "false",
	},
	{
		"an answer is for one turn of its place", "Core.askedPlace",
		"p.turn == turn &&", "",
	},
	{
		"a requeued place has another turn", "Core.requeuePlace",
		"p.turn++", "",
	},
	{
		"a repeated bind is not refused", "Core.bindTask",
		"!l.boundAttempts.Mark(probe.ResID(m.Launch.Attempt.Seq)) ||", "",
	},
	{
		"a late bundle is refused whole", "Core.bindTask",
		"acts = c.refuseBundle(l, m.Bundle, probe.Expired, acts)", "",
	},
	{
		"a task bound ahead of its slot waits for it", "Core.bindTask",
		"if wasAsking {", "if wasAsking || true {",
	},
	{
		"a turn that expires frees the slot that was held", "Core.expireOverdue",
		"c.averages.noteTurn(false)\n\t\tc.dropPlace(p)",
		"c.averages.noteTurn(false)\n\t\tc.stopAsking(p)\n\t\tdelete(p.link.places, p.res)",
	},
	{
		"a fetch that fails for the disk is no failure of the task", "Core.finishFetch",
		"if ev.DiskFailed {", "if false {",
	},
	{
		"a new link hears of a dead cache", "Core.linkUp",
		"if c.cacheProblem != \"\" {", "if false {",
	},
	{
		"a turn goes on while its answer comes", "Core.expireOverdue",
		"if p.answerMayArrive(now) {", "if false {",
	},
	{
		"a trickle of bytes does not keep a turn", "place.answerMayArrive",
		"minAnswerRate*now.Sub(p.expiryBegan).Seconds()", "0",
	},
	{
		"a worker does not go while an answer comes", "Core.Idle",
		"len(c.attempts)+c.asked.Len() == 0", "len(c.attempts) == 0",
	},
	{
		"a link whose turn expired is out of the way", "Core.expireOverdue",
		"if !p.link.silent {", "if false {",
	},
	{
		"a leaving worker does not stay for unclaimed results", "Core.claimableFor",
		"return min(c.cfg.Retain, c.cfg.Grace)", "return c.cfg.Retain",
	},
	{
		"results beyond the bound are dropped", "Core.expireResults",
		"case c.retainedBytes <= c.cfg.MaxRetained:", "case true:",
	},
	{
		"the place of a task that is handed back is queued again", "Core.handBack",
		"if p := a.returnPlace; p != nil && !c.leaving {", "if p := a.returnPlace; p != nil && false {",
	},
	{
		"a place that fills a gap delays no place ahead", "Core.findGaps",
		"(deep || f.mayStart(p.neededRoom(), p.maxUse()))", "p.neededRoom().fitsIn(f.spans[0].free)",
	},
	{
		"the short part is closed to long tasks once a short task waited for long tasks", "Core.noteShortArrival",
		"if !needs.fitsIn(c.free) && c.free.open != c.capacity.open {", "if false {",
	},
	{
		"no part is closed to long tasks while short tasks find room", "Core.noteShortArrival",
		"if !needs.fitsIn(c.free) && c.free.open != c.capacity.open {", "{",
	},
	{
		"the short part is opened once short tasks stay away", "Core.reopenIfQuiet",
		"if c.capacity.open != c.capacity.all && c.isQuiet(now) {", "if false {",
	},
	{
		"the short part stays closed while a short task waits", "Core.isQuiet",
		" && !c.hasShortWaiting()\n}", "\n}",
	},
	{
		"no place starts before a late place ahead", "Core.findGaps",
		"case waited <= p.firstPlannedWait:", "case true:",
	},
	{
		"late long tasks hold up short tasks only if these may delay the long tasks", "Core.findGaps",
		"case !p.long:\n\t\t\treturn", "case true:\n\t\t\treturn",
	},
	{
		"short tasks do not take the room of a late long task", "Core.findGaps",
		"&&\n\t\t\t(!shortPartOnly || c.fitsShortPart(p.neededRoom(), f.spans[0].free))", "",
	},
	{
		"a later stage stands as if it had come with its job", "place.Before",
		"return p.cameAt < q.cameAt", "return p.seq < q.seq",
	},
	{
		"reservations count at their chance", "Core.placeCost",
		"chance = c.averages.bindChance", "",
	},
	{
		"the stated share is closed to long tasks", "roomFor",
		"return room{d, d}", "return room{all: d}",
	},
	{
		"a task waits for its files", "Core.assignInOrder",
		"if p.waitsForFiles() || !p.neededRoom().fitsIn(c.free) {", "if !p.neededRoom().fitsIn(c.free) {",
	},
	{
		"a task without its files does not fill a gap", "Core.findGaps",
		"case filesIn > 0:\n\t\t\tnotBefore", "case false:\n\t\t\tnotBefore",
	},
	{
		"behind many places, short tasks overtake only long tasks", "Core.findGaps",
		"deep && shortAhead", "false",
	},
	{
		"a task with late files holds up no place", "Core.findGaps",
		"continue // late", "// late",
	},
	{
		"files of a removed place are released", "Core.dropPlace",
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
		"q.ensureTenant(name).placeCount <= maxPlacesPerFree*free", "true",
	},
	{
		"under shortest, no place starves", "shortest.isStarving",
		"now.Sub(p.queuedAt) >= s.starvationBound", "now.Sub(p.queuedAt) >= 1000*s.starvationBound",
	},
	{
		"under fair, tasks that ride along pay", "Core.reservePlaces",
		"c.takeRoom(need)\n\t\t\t\ta.bill = c.queue.chargeAttempt(tenant, m.Demand, a.expectedRun)", "c.takeRoom(need)",
	},
	{
		"under fair, a shared turn's bundle costs what its own job's tasks take", "Core.bindTask",
		"p.demand, b.expectedRun)", "p.demand, p.expectedRun)",
	},
	{
		"under fair, a tenant that owes is not forgotten first", "queue.forgetIdleTenants",
		"cmp.Compare(t.AmountOwed(), u.AmountOwed())", "cmp.Compare(u.AmountOwed(), t.AmountOwed())",
	},
	{
		"under fair, a tenant's own jobs go by priority", "fair.setSortKey",
		"p.sortKey = -float64(p.priority)", "",
	},
	{
		"under fair, a turn is charged the typical cost of its tasks", "place.TurnCost",
		"return p.demand, p.expectedRun", "return p.demand, p.estimate",
	},
	{
		"a place counts the typical run time of its tasks", "Core.reservePlaces",
		"expectedRun: cmp.Or(m.Estimate, m.Typical), mayAskAhead", "expectedRun: m.Estimate, mayAskAhead",
	},
	{
		"memories that came late are forgotten in time", "Core.expireOverdue",
		"	c.expireCommons(now)\n", "",
	},
	{
		"the common part of tasks stays while in use", "Core.whyCannotRun",
		"\t\tc.noteCommonUse(common, now)\n", "",
	},
	{
		"the common part of a launch is present", "Core.whyCannotRun",
		"case common == nil && m.Context != nil", "case false && m.Context != nil",
	},
	{
		"the common part belongs to its own job", "link.findCommon",
		"commonKey{job, launch.Context.Common}]", "commonKey{number: launch.Context.Common}]",
	},
	{
		"a deadline counts from its arrival, not from the start", "Core.startAttempt",
		"max(launch.Deadline-now.Sub(a.arrivedAt), 1)", "launch.Deadline",
	},
	{
		"a short task waits for room in all of the worker", "forecast.shortWaits",
		"probe.MatrixStep(all.CPU, i-1) > free.CPU || ", "probe.MatrixStep(all.CPU, i-1) >= free.CPU || ",
	},
	{
		"a wait behind the own tenant is counted apart", "Core.addCPUUse",
		"a.queueTenant.cpuUse.addCPU(cpu, c.queue.now)", "",
	},
	{
		"a worker tells each frontend how long its own tasks wait", "Core.expectedWaits",
		"p.link == l && p.launch != nil", "p.launch != nil",
	},
	{
		"the speed of a task is its recent speed", "progress.noteReport",
		"whole = (p.wholeTime + whole) / 2", "whole = time.Duration(float64(ran) / done)",
	},
	{
		"a task without further reports goes on for as long again", "progress.timeLeft",
		"(1-p.doneShare))-silent, silent)", "(1-p.doneShare))-silent, 0)",
	},
	{
		"reports in short succession are not compared", "progress.noteReport",
		"|| p.doneShare > 0 && ran-p.reportedAt < reportEvery {", "{",
	},
	{
		"forecasts use the progress reported by tasks", "Core.beginForecast",
		"timeLeft := c.attemptTimeLeft(a, now)",
		"timeLeft := remainingTime(expectedCost(a.expectedRun, c.averages.runTime, 1), now.Sub(a.startedAt))",
	},
	{
		"two long tasks do not tell a worker's pace", "Core.currentPace",
		"len(all) < leastPaces", "false",
	},
	{
		"running tasks tell a worker's pace before ended tasks", "Core.currentPace",
		"p := &a.progress; a.long && p.doneShare > 0 && a.expectedRun > 0", "p := &a.progress; false && p != nil",
	},
	{
		"only long tasks that succeeded tell a worker's pace", "Core.endAttempt",
		"a.long && a.expectedRun > 0 && ev.Status == probe.Succeeded", "a.expectedRun > 0",
	},
}}
