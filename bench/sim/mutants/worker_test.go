package mutants

// worker lists the mutants of package worker. Keep the old texts short and central, so that they stay valid.
var worker = packageMutants{"worker", []mutant{
	{
		"who meets another task hears it at once", "Core.enqueue",
		"answer.Wait = c.waitOf(p, now)", "",
	},
	{
		"no place is asked early that could start", "Core.preemptFor",
		" || p.launch == nil && p.needs().fits(c.free)", "",
	},
	{
		"what runs and is covered now is not stopped for others", "Core.restamp",
		"a.standing == yields && m.Standing.Class != probe.Spare", "false",
	},
	{
		"only its own frontend says how an attempt stands", "Core.restamp",
		"a.owner == l && a.state == running && a.standing == yields", "a.state == running && a.standing == yields",
	},
	{
		"spare work starts only where nothing regular can", "Core.fill",
		"acts = c.fillSpare(now, c.preempt(now, acts))\n\tif c.queue.len() > 0 {", "if c.queue.len() > 0 {",
	},
	{
		"room that is freed for a regular place is kept for it", "Core.fillSpare",
		"if c.stopping.Len() > 0 && c.regularWaits() {", "if false {",
	},
	{
		"nothing is stopped for a place that has just come", "clearing.tooSoon",
		"wait := c.cfg.PreemptAfter - waited", "wait := -waited",
	},
	{
		"the more would be lost, the longer regular places wait", "clearing.tooSoon",
		"min(worthWait*ran,", "min(0*ran,",
	},
	{
		"however much would be lost, regular places do not wait for long", "clearing.tooSoon",
		"min(worthWait*ran, mostPatience*c.cfg.PreemptAfter)", "worthWait*ran",
	},
	{
		"those that wait do so together", "Core.preemptFor",
		"if n++; n > planDepth {\n\t\t\tbreak\n\t\t}\n\t\ts.count(p, 1)", "if n++; n > 1 {\n\t\t\tbreak\n\t\t}\n\t\ts.count(p, 1)",
	},
	{
		"a reservation is asked before something is stopped for it", "Core.preemptFor",
		"case p.launch == nil:", "case false:",
	},
	{
		"who asked has something stopped for what it gets", "Core.preemptFor",
		"p.clears = true", "p.clears = false",
	},
	{
		"what is bound waits while something stops for it", "Core.patience",
		"if a.clears && c.stopping.Len() > 0 {", "if false {",
	},
	{
		"what is about to end is not stopped", "Core.seekVictims",
		"remaining(expected, ran) > c.cfg.PreemptAfter", "remaining(expected, ran) >= 0",
	},
	{
		"the youngest is stopped first", "Core.seekVictims",
		"b.startedAt.Compare(a.startedAt)", "a.startedAt.Compare(b.startedAt)",
	},
	{
		"what is yielded is not stopped", "Core.start",
		"if a.class == probe.Spare {\n\t\tc.Stats.SpareStarted++", "if a.class != probe.Regular {\n\t\tc.Stats.SpareStarted++",
	},
	{
		"one that does not stop when told counts like any other", "Core.disobey",
		"c.setStanding(c.stopping.First().attempt, stays)", "c.stopping.Remove(c.stopping.First())",
	},
	{
		"what is due is regular", "Core.expire",
		"c.promote()\n", "",
	},
	{
		"an older frontend is not told of preemption", "Core.finished",
		"status == probe.Preempted && a.owner.features&probe.Classes == 0", "false",
	},
	{
		"what was told to stop and ended well has ended well", "Core.stopped",
		"!a.unwanted && ev.Status == probe.Killed", "!a.unwanted",
	},
	{
		"spare places leave half of the queue to regular ones", "Core.room",
		"n -= c.spare.len()", "",
	},
	{
		"of spare places of a tenant the one goes first whose job has the least left", "fair.push",
		"p.key = float64(p.left)", "p.key = 0",
	},
	{
		"a cancelled place goes", "Core.receive",
		"c.dropPlace(p)\n\t\t\t\tc.Stats.Cancelled++", "c.Stats.Cancelled++",
	},
	{
		"a cancel that overtakes its reserve leaves a tombstone", "Core.receive",
		"l.seen.Mark(id)", "",
	},
	{
		"a decline frees the slot that was held", "Core.receive",
		"l.learn(now.Sub(p.askedAt))\n\t\t\tc.dropPlace(p)", "l.learn(now.Sub(p.askedAt))\n\t\t\tc.unask(p)\n\t\t\tdelete(l.places, p.res)",
	},
	{
		"what runs is not stopped by a sync of who has not heard yet that it is its owner", "Core.adopt",
		"a.owner, a.since = l, now", "a.owner = l",
	},
	{
		"an ack counts from the owner only", "Core.acknowledged",
		"a == nil || a.owner != l && a.owner != nil || a.state != ended", "a == nil || a.state != ended",
	},
	{
		"an ack forgets only what has ended", "Core.acknowledged",
		"a == nil || a.owner != l && a.owner != nil || a.state != ended", "a == nil || a.owner != l && a.owner != nil",
	},
	{
		"what is closed to long tasks may be taken by them", "Core.inShortShare",
		" || !needs.fits(free) {", " {",
	},
	{
		"long tasks that have more than is open to them are nothing to short ones", "room.fits",
		"(r.open == probe.Demand{} || r.open.Fits(in.open))", "r.open.Fits(in.open)",
	},
	{
		"an attempt that is forgotten is used again once", "reused.next",
		"	*r = (*r)[:n-1]\n", "",
	},
	{
		"a link that was silent takes part again when it is heard", "Core.Step",
		"c.unpark(l)", "",
	},
	{
		"an attempt that ends frees its slot", "Core.exited",
		"c.give(needs(a.demand, a.long))", "",
	},
	{
		"a result is kept until it is acknowledged", "Core.conclude",
		"return c.send(a.owner, c.finished(a), acts)", "acts = c.send(a.owner, c.finished(a, now), acts)\n\tc.forget(a)\n\treturn acts",
	},
	{
		"a task that is here under an id is found on a later link of its frontend", "Core.linkUp",
		"l.top = max(l.top, id.Seq)\n\t\t}\n\t}\n\tc.links", "}\n\t}\n\tc.links",
	},
	{
		"an id that is used twice is told from one that is new", "Core.has",
		"id.Seq <= l.top)", "false)",
	},
	{
		"a kill that overtakes its place leaves a tombstone", "Core.kill",
		"l.seen.Mark(m.Res)", "",
	},
	{
		"an attempt has one owner: the earlier one hears of a claim", "Core.adopt",
		"if a.owner != nil && a.owner != l {", "if false {",
	},
	{
		"a claim changes the owner", "Core.adopt",
		"a.owner, a.since = l, now", "a.since = now",
	},
	{
		"a claim leaves a tombstone", "Core.claim",
		"known.owner, known.generation = l.frontend, m.Generation", "_ = known",
	},
	{
		"what comes of a job that was claimed since is refused", "Core.moved",
		"return m != nil && m.owner != 0 && (g < m.generation", "return m != nil && m.owner != 0 && (false",
	},
	{
		"of two frontends of one generation the one that claimed last has the job", "Core.moved",
		"g == m.generation && m.owner != l.frontend)", "false)",
	},
	{
		"a claim of an earlier generation comes too late", "Core.claim",
		"m.Generation < known.generation {", "false {",
	},
	{
		"a frontend that comes back forgets the places that it had before", "Core.claim",
		"(other != l || p.generation < m.Generation)", "other != l",
	},
	{
		"an attempt is not claimed by who lost its job", "Core.claimAttempt",
		"if c.moved(l, m.Job, m.Generation) {\n\t\treturn c.refuse(", "if false {\n\t\treturn c.refuse(",
	},
	{
		"a sync does not take an attempt of a job that has moved", "Core.sync",
		"a.owner == nil && c.moved(l, a.job, a.generation):", "false:",
	},
	{
		"a task bound early of a job that has moved is refused", "Core.enqueue",
		"time.Duration(0)\n\tif c.moved(l, m.Job, m.Generation) {", "time.Duration(0)\n\tif false {",
	},
	{
		"a turn is not given to a task of a job that has moved", "Core.bind",
		"!own && c.moved(l, job, generation)", "false",
	},
	{
		"what is remembered of jobs is not kept for ever", "Core.unremember",
		"now.Sub(m.at) >= rememberFor", "false",
	},
	{
		"of a job of which something was forgotten no worker says that it knows all", "Core.knows",
		"m != nil && m.forgot || c.leaving {", "m != nil && false {",
	},
	{
		"an attempt that was stopped counts as forgotten", "Core.abandon",
		"a.unwanted = true\n\t\t\tc.loseTrack(a, now)", "a.unwanted = true",
	},
	{
		"a result that nobody claimed counts as forgotten", "Core.expireResults",
		"c.Stats.Forgotten++\n\t\tc.loseTrack(a, now)", "c.Stats.Forgotten++",
	},
	{
		"what is no longer remembered is not known", "Core.unremember",
		"c.since = m.at", "",
	},
	{
		"a result that is disowned waits to be claimed", "Core.acknowledged",
		"if disowned {", "if false {",
	},
	{
		"a place that came round often goes to the back", "Core.bind",
		"(p.turn+1)%maxTurns == 0", "false",
	},
	{
		"a sync spares places that have just come back", "Core.sync",
		"now.Sub(p.toldAt) >= probe.SyncAge", "now.Sub(p.queuedAt) >= probe.SyncAge",
	},
	{
		"a sync keeps live places", "Core.sync",
		"named := live[p.res]", "named := false",
	},
	{
		"a sync keeps tasks bound early whose end is awaited", "Core.sync",
		"named = wanted[p.launch.Attempt]", "",
	},
	{
		"a sync spares places whose reserve it crossed", "Core.sync",
		"p.res < m.Next &&", "",
	},
	{
		"a sync spares young places", "Core.sync",
		"now.Sub(p.toldAt) >= probe.SyncAge", "true",
	},
	{
		"a sync is told of attempts that are waited for in vain", "Core.sync",
		"case a == nil && !waits[id]:", "case false:",
	},
	{
		"who leaves evicts parked places too", "Core.leave",
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
		"a place is taken once, however often its reserve comes", "Core.reserve",
		"if !l.seen.Mark(id) {", "if false {",
	},
	{
		"a task bound early is taken once", "Core.enqueue",
		"if !l.seen.Mark(m.Res) {", "if false {",
	},
	{
		"the queue has a bound, and parked places count", "Core.room",
		"c.queue.len() - c.spare.len() - c.parked", "c.queue.len() - c.spare.len()",
	},
	{
		"who leaves takes nothing new", "Core.unacceptable",
		"case c.leaving:\n", "case false:\n",
	},
	{
		"a task that rides along does not overtake the queue", "Core.reserve",
		"ride = gap\n", "",
	},
	{
		"nor does one that delays others, though there is room", "Core.fillGap",
		"if !c.forecast.mayStart(needs, takes) ||", "if",
	},
	{
		"a slot is held or given, not both", "Core.begin",
		"c.hold(p)\n\t\treturn c.ask(p, held, now, acts)", "return c.ask(p, held, now, acts)",
	},
	{
		"no more is asked ahead than will fall free", "Core.askAhead",
		"!c.promised.Add(p.demand).Fits(c.free.all.Add(c.dueRoom))", "false",
	},
	{
		"an answer is for one turn of its place", "Core.askedPlace",
		"p.turn == turn &&", "",
	},
	{
		"a place that comes round again has another turn", "Core.requeue",
		"p.turn++", "",
	},
	{
		"a repeated bind is not refused", "Core.bind",
		"!l.bound.Mark(probe.ResID(m.Launch.Attempt.Seq)) ||", "",
	},
	{
		"a bundle that came too late is refused whole", "Core.bind",
		"acts = c.refuseAll(l, m.Bundle, probe.Expired, acts)", "",
	},
	{
		"a task bound ahead of its slot waits for it", "Core.bind",
		"if wasHeld {", "if wasHeld || true {",
	},
	{
		"a turn that expires frees the slot that was held", "Core.expire",
		"c.learned.turned(false)\n\t\tc.dropPlace(p)", "c.learned.turned(false)\n\t\tc.unask(p)\n\t\tdelete(p.link.places, p.res)",
	},
	{
		"a link whose turn expired is out of the way", "Core.expire",
		"if !p.link.silent {", "if false {",
	},
	{
		"who leaves does not stay for results that nobody claims", "Core.claimable",
		"return min(c.cfg.Retain, c.cfg.Grace)", "return c.cfg.Retain",
	},
	{
		"results beyond the bound go", "Core.expireResults",
		"case c.kept <= c.cfg.MaxRetained:", "case true:",
	},
	{
		"the place of a task that is handed back is queued again", "Core.handBack",
		"if p := a.from; p != nil && !c.leaving {", "if p := a.from; p != nil && false {",
	},
	{
		"who fills a gap delays nobody ahead", "Core.findGaps",
		"(deep || f.mayStart(p.needs(), p.longest()))", "p.needs().fits(f.spans[0].free)",
	},
	{
		"a share is closed to long tasks once a short one had to wait for them", "Core.cameShort",
		"if !needs.fits(c.free) && c.free.open != c.capacity.open {", "if false {",
	},
	{
		"nothing is closed to long tasks while short ones find room", "Core.cameShort",
		"if !needs.fits(c.free) && c.free.open != c.capacity.open {", "{",
	},
	{
		"what is closed is opened once short tasks stay away", "Core.reopen",
		"if c.capacity.open != c.capacity.all && c.quiet(now) {", "if false {",
	},
	{
		"nothing is opened while a short task waits", "Core.quiet",
		" && !c.shortWaits()\n}", "\n}",
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
		"&& (!shareOnly || c.inShortShare(p.needs(), f.spans[0].free))", "",
	},
	{
		"a later stage stands where it would if it had come with its job", "place.Before",
		"return p.came < q.came", "return p.seq < q.seq",
	},
	{
		"reservations count at their chance", "Core.cost",
		"chance = c.learned.chance", "",
	},
	{
		"a share is closed to long tasks", "needs",
		"return room{d, d}", "return room{all: d}",
	},
	{
		"a task waits for its files", "Core.fillInOrder",
		"if p.fetching() || !p.needs().fits(c.free) {", "if !p.needs().fits(c.free) {",
	},
	{
		"a task without its files does not fill a gap", "Core.findGaps",
		"case fetched > 0:\n\t\t\tbefore", "case false:\n\t\t\tbefore",
	},
	{
		"behind many, short tasks overtake long ones only", "Core.findGaps",
		"deep && held", "false",
	},
	{
		"a task whose files are late holds nobody up", "Core.findGaps",
		"continue // late", "// late",
	},
	{
		"files of a place that goes are released", "Core.dropPlace",
		"c.release(p.launch.Attempt)", "",
	},
	{
		"files of an attempt that ends are released", "Core.exited",
		"c.release(ev.Attempt)", "",
	},
	{
		"a task that needs files is bound early", "Core.unfitLate",
		"return probe.NeedsFiles", "return 0",
	},
	{
		"a task whose files cannot be had does not start", "Core.fetched",
		`if ev.Err == "" {`, "if true {",
	},
	{
		"the queue has a bound for tasks bound early, too", "Core.enqueue",
		"if reason == 0 && !q.takes(m.Tenant, c.room(class)) {", "if false {",
	},
	{
		"a tenant leaves room in the queue for others", "queue.takes",
		"q.tenant(name).n <= maxHold*free", "true",
	},
	{
		"under shortest, nobody starves", "shortest.starves",
		"now.Sub(p.queuedAt) >= s.bound", "now.Sub(p.queuedAt) >= 1000*s.bound",
	},
	{
		"under fair, a tenant that was away saves nothing up", "fair.join",
		"a.start = max(a.start, a.above.virtual)", "",
	},
	{
		"under fair, a tenant pays for what it used", "bill.settle",
		"a.start += (float64(used)*float64(b.cpu) - b.paid) / a.weight", "",
	},
	{
		"under fair, tasks that ride along pay", "Core.reserve",
		"c.take(need)\n\t\t\t\ta.bill = c.queue.chargeMore(of, m.Demand, a.expected)", "c.take(need)",
	},
	{
		"under fair, nobody waits for what others paid in advance", "account.advance",
		"min(a.start, served)", "max(a.start, served)",
	},
	{
		"under fair, a tenant that owes is not forgotten first", "queue.forget",
		"cmp.Compare(t.owes(), u.owes())", "cmp.Compare(u.owes(), t.owes())",
	},
	{
		"under fair, what a tenant pays those above it pay too", "account.charge",
		"a.start += b.paid / a.weight\n", "a.start += b.paid / a.weight\n\t\tbreak\n",
	},
	{
		"under fair, tenants below a path share what it gets", "fair.open",
		"above = f.between(path, above)", "continue",
	},
	{
		"under fair, frontends tell the weights", "fair.weigh",
		"a.weight = float64(weights[i])", "",
	},
	{
		"under fair, the parts of a path have a weight each", "fair.weigh",
		"a.weight = float64(weights[i])", "a.weight = float64(weights[0])",
	},
	{
		"under fair, a tenant that others come to be below of keeps what it owes", "fair.between",
		"a.weight, a.start, a.virtual = own.weight, own.start, own.start", "a.weight = own.weight",
	},
	{
		"under fair, a tenant's own jobs go by priority", "fair.push",
		"p.key = -float64(p.priority)", "",
	},
	{
		"under fair, a turn is expected to cost what such tasks typically take", "fair.charge",
		"p.bill = p.of.account.charge(p.demand, p.expected)", "p.bill = p.of.account.charge(p.demand, p.estimate)",
	},
	{
		"plans foresee the turns of paths", "fair.foresee",
		"c.start += toll / c.account.weight", "c.start += toll * 0",
	},
	{
		"a place counts for what its tasks typically take", "Core.reserve",
		"expected: cmp.Or(m.Estimate, m.Typical), mayAskEarly", "expected: m.Estimate, mayAskEarly",
	},
	{
		"what is told late is forgotten in time", "Core.expire",
		"	c.expireCommons(now)\n", "",
	},
	{
		"what tasks have in common stays while it is used", "Core.unfit",
		"		c.used(common, now)\n", "",
	},
	{
		"what a launch has in common with others is there", "Core.unfit",
		"case common == nil && m.Context != nil", "case false && m.Context != nil",
	},
	{
		"what is in common is that of its job", "link.named",
		"commonKey{job, launch.Context.Common}]", "commonKey{number: launch.Context.Common}]",
	},
	{
		"a deadline is counted from when it was told, not from the start", "Core.start",
		"max(launch.Deadline-now.Sub(a.arrivedAt), 1)", "launch.Deadline",
	},
	{
		"a short task waits for room in all of the worker", "forecast.short",
		"probe.MatrixStep(all.CPU, i-1) > free.CPU || ", "probe.MatrixStep(all.CPU, i-1) >= free.CPU || ",
	},
	{
		"a wait behind one's own tenant is told apart", "Core.occupy",
		"a.of.taken.add(cpu, c.queue.now)", "",
	},
	{
		"a worker tells each frontend how long its own tasks wait", "Core.expect",
		"p.link == l && p.launch != nil", "p.launch != nil",
	},
	{
		"how fast a task goes is how fast it went lately", "progress.told",
		"whole = (p.whole + whole) / 2", "whole = time.Duration(float64(at) / done)",
	},
	{
		"a task that says nothing more goes on for as long again", "progress.left",
		"(1-p.done))-silent, silent)", "(1-p.done))-silent, 0)",
	},
	{
		"what was said shortly after is not compared with what was said before", "progress.told",
		"|| p.done > 0 && at-p.at < tellEach {", "{",
	},
	{
		"forecasts go by what tasks say of their progress", "Core.occupied",
		"left := c.left(a, now)", "left := remaining(expectedCost(a.expected, c.learned.run, 1), now.Sub(a.startedAt))",
	},
	{
		"two long tasks do not tell a worker's pace", "Core.pace",
		"len(all) < leastPaces", "false",
	},
	{
		"what runs tells a worker's pace before what has ended", "Core.pace",
		"p := &a.progress; a.long && p.done > 0 && a.expected > 0", "p := &a.progress; false && p != nil",
	},
	{
		"only long tasks that succeeded tell a worker's pace", "Core.exited",
		"a.long && a.expected > 0 && ev.Status == probe.Succeeded", "a.expected > 0",
	},
}}
