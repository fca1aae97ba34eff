package mutants

// frontend lists the mutants of package frontend. Short and central old texts stay valid longest.
var frontend = packageMutants{"frontend", []mutant{
	{
		"tasks take the use of finished tasks of their class", "group.refineDemand",
		"if t.Class == \"\" {", "if true {",
	},
	{
		"the use of a function does not count for a class", "group.refineDemand",
		"if t.Class == \"\" {", "if false {",
	},
	{
		"a refined demand is at most the capacity of the worker", "group.demandAt",
		"if g.demandSamples == 0 {", "if true {",
	},
	{
		"an input that lacked before a claim is no failure", "ledger.endAttempt",
		"case m.Status == probe.NoInput && a.sentAt.IsZero() && t.spec.Retryable:", "case false:",
	},
	{
		"a queued task moves to a worker that falls idle", "Core.receiveMsgs",
		"return c.moveToRoom(w, now, c.useRoom(w, now, acts))", "return c.useRoom(w, now, acts)",
	},
	{
		"the queue that a task left by a move counts as its wait", "ledger.reckonPhases",
		"x := t.long; t.way == WayEarly && x != nil && !x.movedSince.IsZero()", "false",
	},
	{
		"a new worker is asked for its room for queued tasks", "Core.bringWorkerUp",
		"c.planMoveAsk(w, now)", "",
	},
	{
		"a task that waits longer than expected seeks room elsewhere", "Core.handleMsg",
		"c.seekRoom(w, &m, now)", "",
	},
	{
		"gossip about room moves queued tasks", "Core.Step",
		"c.planMoveAsk(w, now)", "",
	},
	{
		"a task moves a limited number of times", "ledger.noteExpectedStart",
		"x.moves < maxMoves", "true",
	},
	{
		"a worker that would not answer is not asked for a task back", "ledger.noteExpectedStart",
		"a.w.Has(probe.Withdrawing)", "true",
	},
	{
		"a task moves only for a large part of its wait", "planner.gainsByMove",
		"scaleTime(minGainOfWait, wait)", "0",
	},
	{
		"a task that starts soon does not move", "planner.gainsByMove",
		"wait < trips+minMoveGain", "false",
	},
	{
		"a tenant with tasks beyond its tokens moves none", "planner.gainsByMove",
		"j.tenant.debts.Len() > 0 ||", "",
	},
	{
		"a paused job moves no tasks", "planner.gainsByMove",
		"j.paused ||", "",
	},
	{
		"a task does not move to where it failed", "planner.gainsByMove",
		"w.Worker == t.shunned ||", "",
	},
	{
		"a frontend uses its share of the room for moves", "planner.moveToRoom",
		"/c.quotas.Frontends()", "",
	},
	{
		"tasks that move together have room together", "planner.waitsBeside",
		"beside.Demand.Add(taken)", "beside.Demand",
	},
	{
		"a worker is not asked for its room if no task would gain there", "planner.planMoveAsk",
		"len(c.findMovers(1, gains)) == 0", "len(c.findMovers(1, gains)) < 0",
	},
	{
		"a look that is put off waits before it asks again", "planner.moveToRoom",
		"movePause+c.drawMoveDelay()", "c.drawMoveDelay()",
	},
	{
		"the task that starts last moves first", "mover.Before",
		"u.attempt.expectedStart.Compare(t.attempt.expectedStart)", "0",
	},
	{
		"a task that may move has its place by the latest expected start", "ledger.noteExpectedStart",
		"c.movers.Fix(mover{x})", "",
	},
	{
		"a look ends after a number of tasks", "planner.findMovers",
		"&& len(found)+len(passed) < maxMovesLooked", "",
	},
	{
		"tasks passed over by a look go behind others", "ledger.putBackMovers",
		"x.moveRound++", "",
	},
	{
		"tasks passed over by a look that found enough keep their place", "planner.findMovers",
		"len(found) < most && c.movers.Len() > 0)", "c.movers.Len() > 0)",
	},
	{
		"a new task that may move does not go before tasks passed over", "ledger.noteExpectedStart",
		"x.moveRound = c.latestRound", "x.moveRound = 0",
	},
	{
		"a worker that gets no moved task rests", "planner.noteVainLook",
		"w.noteVainMove(now.Add(movePause))", "",
	},
	{
		"looks in vain for idle workers take a hundredth of the time", "planner.planMoveAsk",
		"|| c.looksUntil.Sub(now) > maxLooksAhead", "",
	},
	{
		"looks in vain for workers that report at once run ahead", "planner.planMoveAsk",
		"c.looksUntil.Sub(now) > maxLooksAhead", "c.looksUntil.After(now)",
	},
	{
		"a worker that may run no queued task gets no look", "planner.mayMoveTo",
		"c.mayRunMovers(w) &&", "",
	},
	{
		"no more tasks move to a worker while some are on the way", "planner.mayMoveTo",
		"w.comingMoves == 0 &&", "",
	},
	{
		"an attempt asked back is not lost by a Gone that crosses", "ledger.handleGone",
		"a.lastSentAt()", "a.sentAt",
	},
	{
		"a moved task is no lost attempt", "ledger.takeBackMoved",
		"t.attempts--", "",
	},
	{
		"a moved task may go to the worker with room", "planner.matchBatch",
		"if x.move != nil {", "if false {",
	},
	{
		"a worker with a slot held in vain is asked while long tasks wait", "planner.useRoom",
		"acts = c.askMatrix(w, nil, now, acts)", "",
	},
	{
		"a cancelled turn leaves a slot", "planner.handleReady",
		"w.noteVainTurn() // the Cancel is under way", "",
	},
	{
		"a declined turn leaves a slot", "ledger.declineTurn",
		"w.noteVainTurn()", "",
	},
	{
		"rides that a matrix may not count are counted", "ledger.noteLoad",
		"range w.uncountedRides {", "range w.uncountedRides[:0] {",
	},
	{
		"a Queued task is soon checked for lateness", "Core.handleMsg",
		"c.recheckSoon(w, &m, now)", "",
	},
	{
		"a worker without an expected wait is asked before a copy starts there", "planner.askNewerMatrices",
		"isOld(choice.Choice()) {", "false {",
	},
	{
		"outputs lost with their worker are made again", "ledger.handleMissingInputs",
		"case len(lost) > 0:", "case false:",
	},
	{
		"outputs of a task that may start only once are not made again", "ledger.remakeTasks",
		"case !p.spec.Retryable:", "case false:",
	},
	{
		"outputs from another frontend are made again if the client sends the spec", "ledger.recallTask",
		"if entry == nil || entry.Spec == nil {", "if true {",
	},
	{
		"outputs dropped by a worker are made again", "ledger.handleMissingInputs",
		"gone := slices.", "gone := false && slices.",
	},
	{
		"outputs made again since then are present", "ledger.handleMissingInputs",
		"gone && m.reportedAt.After(a.sentAt)", "false",
	},
	{
		"a task that runs again for another frontend passes its outputs on", "jobs.setPassingLimits",
		"noteReads(m.Spec)", "_ = noteReads",
	},
	{
		"a task that runs again for another frontend is counted once", "ledger.recallTask",
		"c.subtractPending(j, 1)\n\treturn t", "return t",
	},
	{
		"how a task runs again fits its job", "jobs.buildStages",
		"if why := reads.whyInvalid(m.Spec); why != \"\" {", "if why := \"\"; why != \"\" {",
	},
	{
		"outputs are not made again for ever", "ledger.remakeTasks",
		"p.state == done && p.remakes == maxRemade:", "false:",
	},
	{
		"a restarted worker has no outputs from before", "ledger.isMakerLinked",
		" && (m.incarnation == 0 || m.incarnation == w.Welcome().Incarnation)", "",
	},
	{
		"a client hears once of a task that runs again", "ledger.endTask",
		"if t.remakes > 0 {\n\t\tacts = c.resumeReaders",
		"if t.remakes > 0 {\n\t\tacts = append(acts, &Done{j.ID, *o})\n\t\tacts = c.resumeReaders",
	},
	{
		"old outputs are not passed beside new outputs", "jobs.recordOutputs",
		"if t.remakes > 0 {\n\t\tj.forgetOutputs", "if false {\n\t\tj.forgetOutputs",
	},
	{
		"a result that is a file is no output for later stages", "ledger.endOrRetryTask",
		"o.Outputs[n-1].Partition == probe.ResultPartition", "false",
	},
	{
		"tasks of a paused job are not bound by queue lengths", "planner.finishRound",
		"c.awaitNext(t, now); t.state == waiting {", "c.awaitNext(t, now); true {",
	},
	{
		"no task of a paused job starts", "job.mustBlock",
		"return j.paused || ", "return ",
	},
	{
		"waiting tasks of a paused job do not start", "jobs.setPaused",
		"case paused && (t.state == waiting", "case false && (t.state == waiting",
	},
	{
		"a resumed job goes on", "jobs.setPaused",
		"case t.state == blocked && !j.mustBlock(t):", "case false:",
	},
	{
		"a task is sampled no earlier than it could go again", "task.noteSampled",
		"t.againAt.After(t.sampledAt)", "false",
	},
	{
		"a start of a job that has moved is no stray", "ledger.handleStarted",
		"case c.byID[m.Job] == nil:\n\t\treturn acts", "case c.byID[m.Job] == nil:",
	},
	{
		"answers of workers that may not take the task do not count", "planner.finishRound",
		"return !r.group.Set.Contains(a.Worker)", "return false",
	},
	{
		"a task whose ride came back wants a place", "ledger.takeBackRide",
		"c.wantPlaces(r.group)", "",
	},
	{
		"a guarded job shares no turn with a job that is not", "planner.shareTurn",
		"|| k.Guarded != j.Guarded", "",
	},
	{
		"inputs made again release no task that runs", "jobs.resumeFreed",
		"if t.state.isAtWorker() {", "if t.freedAt = now; t.state.isAtWorker() {",
	},
	{
		"places not needed by a paused job are cancelled", "Core.Step",
		"ev.Full && j.Policy.Cancel", "false",
	},
	{
		"tasks added to a paused job do not start", "jobs.blockGroup",
		"if !j.paused && (len(", "if (len(",
	},
	{
		"the failure of a disk is no failure of the task", "ledger.endAttempt",
		"case m.DiskFailed &&", "case false &&",
	},
	{
		"after many failures of disks a task fails", "ledger.endAttempt",
		"t.diskFailures < maxDiskFailures &&", "",
	},
	{
		"a task that may start only once does not run again after a disk failed", "ledger.endAttempt",
		"(t.spec.Retryable || m.Run == 0)", "true",
	},
	{
		"a preemption is no failure", "ledger.endAttempt",
		"case m.Status == probe.Preempted:", "case false:",
	},
	{
		"a preemption reported to a claim is no failure", "ledger.handleFinishedElsewhere",
		"t.group.job.noteServed()\n\t\treturn c.endAttempt(", "t.group.job.noteServed()\n\t\treturn c.endOrRetryTask(",
	},
	{
		"the class of an ended task is shown", "sampledJob.addGroup",
		"s.first, s.why, s.class, s.demand = first, g.pathReason, g.explainClass(), g.explainDemand()",
		"s.first, s.why = first, g.pathReason",
	},
	{
		"the class of a task placed by estimation is shown", "jobs.recordDecision",
		"d.Class, d.Choice, d.At = x.task.explainClass(), ", "d.Choice, d.At = ",
	},
	{
		"a hint alone does not say that a task is late", "planner.chooseForecast",
		"c.workedFor(t, now) <= maxHintedRuns*x.spec.Work.Run", "c.workedFor(t, now) < 0*x.spec.Work.Run",
	},
	{
		"a spare task takes no tokens", "usage.moveTask",
		"t.spare = t.spare || t.group.class != probe.Regular; t.spare", "t.spare",
	},
	{
		"a task without a token is spare", "task.attemptClass",
		"case !t.isBeyond():", "default:\n\t\treturn t.group.class\n\tcase false:",
	},
	{
		"a job that names the class regular is regular beyond tokens", "jobs.coverByTokens",
		"t.spare = t.group.job.Class == Auto", "t.spare = true",
	},
	{
		"tasks beyond tokens wait at workers up to twice the tokens", "jobs.wouldOverdraw",
		"return tenant.queuedDebt+planned+g.tokenCost() >", "return false && tenant.queuedDebt+planned+g.tokenCost() >",
	},
	{
		"one task beyond tokens may always wait at a worker", "jobs.wouldOverdraw",
		" || tenant.queuedDebt+planned == 0 {", " {",
	},
	{
		"a free token makes the most urgent task regular", "ledger.settleDebts",
		"for c.canCoverNext(tenant) {", "for false {",
	},
	{
		"a free token covers a running task first", "debt.Before",
		"y.task.state == bound; a != b {", "y.task.state == bound; false && a != b {",
	},
	{
		"tasks that wait for tokens are placed when tokens fall free", "ledger.settleDebts",
		"\t\t\tc.releaseCrowd(g)\n", "",
	},
	{
		"a worker that knows no classes is not sent a Restamp", "ledger.restampTask",
		"a.w.Linked() && a.w.Has(probe.Classes)", "a.w.Linked()",
	},
	{
		"a refusal of spare work says nothing of room for other work", "ledger.handleRefused",
		"regular = r.group.class == probe.Regular", "_ = r",
	},
	{
		"spare work does not make its worker avoided", "ledger.addAttempt",
		"if a.class != probe.Spare {\n\t\tc.view.Take(", "{\n\t\tc.view.Take(",
	},
	{
		"jobs that are refused come back one after the other", "unserved.assignRetryTime",
		"u.comeAgainAt = now.Add(", "_ = now.Add(",
	},
	{
		"as fast as jobs are served", "unserved.assignRetryTime",
		"if u.rate > 0 {", "if false {",
	},
	{
		"no job is sent away for long because of others", "unserved.assignRetryTime",
		"if wait > soonest+maxRetryAfter {", "if false {",
	},
	{
		"a job is accepted if few others wait, however long", "jobs.refuseOverload",
		"&& u.measureOverload(limit, span, now) {", "{",
	},
	{
		"how many jobs are served is counted over a limit without deadlines", "jobs.refuseOverload",
		"u.measureOverload(limit, span, now)", "u.measureOverload(limit, limit, now)",
	},
	{
		"a job waits once, however many groups it has", "jobs.addUnserved",
		"if slices.ContainsFunc(j.waitLists, func(u *unserved) bool { return u.key == key }) {", "if false {",
	},
	{
		"jobs that came and went behind a waiting job are forgotten", "jobs.addUnserved",
		"if len(u.jobs) > 2*u.waitingJobs+64 {", "if false {",
	},
	{
		"jobs come back as fast as all frontends serve them", "unserved.assignRetryTime",
		"/time.Duration(frontends)", "+0*time.Duration(frontends)",
	},
	{
		"a job that was claimed and runs does not wait", "ledger.adoptAttempt",
		"a.job.noteServed()\n", "\n",
	},
	{
		"a job that was claimed and had ended does not wait", "ledger.handleFinishedElsewhere",
		"t.attempts++\n\t\tt.group.job.noteServed()", "t.attempts++",
	},
	{
		"a job that ends without being served is not counted as served", "ledger.forgetJob",
		"j.leaveUnserved()", "j.noteServed()",
	},
	{
		"jobs that no longer wait are not counted", "job.leaveUnserved",
		"u.waitingJobs--", "_ = u",
	},
	{
		"tasks that may start only once have places of their own class", "jobs.admitTasks",
		"j.Job.classOf(t) == lastGroup.class && ", "",
	},
	{
		"a task that may start only once is not stopped for others", "Job.classOf",
		"case !t.Retryable:\n\t\treturn probe.Yielded", "case false:",
	},
	{
		"a task that may start only once gets no place of tasks that may be stopped", "jobs.chooseGroup",
		"other.class == g.class && ", "",
	},
	{
		"a job is regular when it is due", "group.standingFor",
		"!j.due.IsZero() && !now.Before(j.due)", "false",
	},
	{
		"spare jobs wait, and others are not refused for that", "jobs.addUnserved",
		"c.cfg.MaxWait < 0 || j.Class == Spare {", "c.cfg.MaxWait < 0 {",
	},
	{
		"a job with started tasks waits no more", "jobs.addUnserved",
		"if j.served || ", "if ",
	},
	{
		"while its tasks are claimed a job does not wait for room", "Core.submitJob",
		"acts = c.claimJob(j, now, acts)",
		"acts = c.claimJob(j, now, acts)\n\t\tfor _, g := range j.groups {\n\t\t\tc.addUnserved(g, now)\n\t\t}",
	},
	{
		"after the claims a job waits for room", "jobs.awaitNext",
		"c.addUnserved(t.group, now)\n", "\n",
	},
	{
		"a job does not wait for room for later stages", "Core.beginGroups",
		"if c.blockGroup(g) {\n", "c.addUnserved(g, now)\n\t\tif c.blockGroup(g) {\n",
	},
	{
		"an open job without tasks does not wait for room", "ledger.endTask",
		"j.removeUnserved()\n", "\n",
	},
	{
		"a paused job does not wait for room", "jobs.setPaused",
		"j.removeUnserved()\n", "\n",
	},
	{
		"a job that waits no more for room leaves the list", "job.removeUnserved",
		"u.jobs = slices.DeleteFunc(", "_ = slices.IndexFunc(",
	},
	{
		"a job that waits no more for room is not counted", "job.removeUnserved",
		"u.waitingJobs--", "_ = u",
	},
	{
		"the stage with the longest path leaves the held tasks first", "task.Before",
		"cmp.Compare(u.criticalPath(), t.criticalPath())", "0",
	},
	{
		"the task with the longest hint leaves the held tasks first", "task.Before",
		"cmp.Compare(u.spec.Estimate, t.spec.Estimate)", "0",
	},
	{
		"of a stage the tasks added first leave the held tasks first", "task.Before",
		"t.group.addedAt.Compare(u.group.addedAt)", "0",
	},
	{
		"held tasks are in order after an addition", "jobs.reorderTasks",
		"tenant.held.Reorder()", "",
	},
	{
		"tasks beyond the tokens are in order after an addition", "jobs.reorderTasks",
		"tenant.debts.Reorder()", "",
	},
	{
		"tasks for a batch are in order after an addition", "jobs.reorderTasks",
		"c.batchQueue.reorderTasks(tenant)", "",
	},
	{
		"a stage begins with the most urgent tasks", "jobs.mustHold",
		"t.state == blocked ||", "",
	},
	{
		"a job from another frontend goes on with the most urgent tasks", "jobs.mustHold",
		"|| t.state == claiming", "",
	},
	{
		"a job needs no confirmation after the answers to its claims", "ledger.settleUnclaimed",
		"j.endConfirming(now)", "",
	},
	{
		"no task sleeps while the maximum holds others", "planner.tryPostpone",
		"x.task.group.job.tenant.held.Len() > 0", "false",
	},
	{
		"before a held job goes on, workers confirm the job", "planner.releaseHeld",
		"now.Sub(j.confirmedAt) >= confirmedFor", "false",
	},
	{
		"the oldest workers are asked to confirm", "planner.pickOldWorkers",
		"cmp.Or(a.firstLinkAt.Compare(b.firstLinkAt)", "cmp.Or(b.firstLinkAt.Compare(a.firstLinkAt)",
	},
	{
		"a job goes on when all asked workers have answered", "job.noteConfirmed",
		"len(j.confirmers) == 0", "true",
	},
	{
		"only asked workers confirm a job", "job.noteConfirmed",
		"i := slices.Index(j.confirmers, w); i >= 0", "i := len(j.confirmers) - 1; i >= 0",
	},
	{
		"a worker that does not answer delays nothing for long", "jobs.refreshJob",
		"soonest(j.confirmUntil)", "",
	},
	{
		"a full queue is no reason to wait while another may have room", "ledger.allQueuesFull",
		"w != last.Worker && now.After(c.workerOf(w).fullUntil)", "false",
	},
	{
		"if all queues are full, the tasks of a job wait for the end of others", "planner.matchBatch",
		"g.isWindowFull(picked[g]) || ", "",
	},
	{
		"a new worker has room for tasks that wait for others to end", "ledger.linkWorker",
		"c.widenWindows(w.Worker)\n", "",
	},
	{
		"a task that waits for others to end can be cancelled", "jobs.stopMatching",
		"t.group.crowd.Remove(x)", "",
	},
	{
		"a failure found by a claim beside another attempt counts once", "ledger.retryTask",
		"isClaiming || m.Attempt.Frontend != c.cfg.ID {", "isClaiming {",
	},
	{
		"a task that was lost with its link is not lost", "ledger.handleRefused",
		"m.Knows > now.Sub(a.sentAt)", "false",
	},
	{
		"what a worker knows has to reach back to when the task was sent", "ledger.handleRefused",
		"m.Knows > now.Sub(a.sentAt)", "m.Knows > 0",
	},
	{
		"a turn goes to the later stage of an older job", "planner.handleReady",
		"if g := c.shareTurn(r.group, w, now, true); g != nil {",
		"if g := c.shareTurn(r.group, w, now, true); g != nil && false {",
	},
	{
		"a turn goes to no later stage of a younger job", "planner.shareTurn",
		"|| senior && compareJobs(k, j) >= 0 {", "{",
	},
	{
		"a turn goes to no first stage of an older job", "planner.shareTurn",
		"k.Policy.Seniority && other.isLaterStage()", "k.Policy.Seniority",
	},
	{
		"a place that has lent its turn stays", "ledger.bindTurn",
		"if bind.Keep = placeGroup.Policy.Sticky &&", "if bind.Keep = !shared && placeGroup.Policy.Sticky &&",
	},
	{
		"a later stage tells the age of its job", "group.standingFor",
		"s.Age = j.ageAt(now)", "s.Age = 0",
	},
	{
		"a tenant's queue has the limit of its entry", "jobs.refuseFullQueue",
		"case pending+n > limit:", "case false:",
	},
	{
		"a job that is larger than its tenant's queue will never do", "jobs.refuseFullQueue",
		"case n > limit:", "case false:",
	},
	{
		"a tenant's jobs come no faster than its entry allows", "jobs.refuseRate",
		"- time.Second; tooEarlyBy > 0 {", "- time.Second; false && tooEarlyBy > 0 {",
	},
	{
		"jobs count against the rates of those above their tenant", "jobs.countAgainstRate",
		"c.rateClocks[path] = laterOf(c.rateClocks[path], now)",
		"c.rateClocks[name] = laterOf(c.rateClocks[name], now)",
	},
	{
		"all tenants below a path share its limits", "jobs.subtractPending",
		"for t := j.tenant; t != nil; t = t.parent {\n\t\tt.pending -= n",
		"for t := j.tenant; t != nil; t = nil {\n\t\tt.pending -= n",
	},
	{
		"a new tenant of a path leaves as much room as the others", "jobs.refuseNoRoom",
		"for t := c.nearestTenant(j.Tenant);", "for t := c.tenants[j.Tenant];",
	},
	{
		"a tenant uses no more than its maximum", "jobs.fitsMaximum",
		"tenant.used.atLevel[levelAllowed]+n <= quota.All ||", "quota.All >= 0 ||",
	},
	{
		"tokens cover work up to their full number", "jobs.hasTokensFor",
		"+cost <= c.quotas", "+cost < c.quotas",
	},
	{
		"tokens that a task has come back when it ends", "usage.moveTask",
		"t.spare = false\n\t\tu.spareUse -= n", "t.spare = false",
	},
	{
		"the end of a task releases held tasks", "planner.planWants",
		"if len(c.tenantsHolding) > 0 {", "if false {",
	},
	{
		"workers are told what tenants weigh", "ledger.reservePlaces",
		"if m.Weights = j.tenant.weights; g.estimate == 0 {", "if g.estimate == 0 {",
	},
	{
		"a task beyond its tenant's tokens waits behind all others", "jobs.isRegularBeside",
		"c.hasTokensFor(g.job.tenant, planned+g.tokenCost())", "true",
	},
	{
		"a task beyond tokens waits for the spare tasks of its frontend", "planner.matchBatch",
		"if !c.isRegularBeside(g, pickedDemand[g.job.tenant]-g.tokenCost()) {", "if false {",
	},
	{
		"the run time so far of a spare task does not count", "worker.spareLoadAt",
		"if !a.runsSince.IsZero() {", "if false {",
	},
	{
		"room that spare tasks leave is free for spare tasks", "spareLoad.waitFor",
		"if d.Fits(l.free) {", "if false {",
	},
	{
		"a worker that is asked for its matrix knows the asking task", "task.describeAsker",
		"Priority: j.Priority, ", "",
	},
	{
		"a tenant pays for its placed long tasks", "settleTurn",
		"turn.StartUse()", "",
	},
	{
		"turns of long tasks go by the tokens of tenants", "taskLine.pushTask",
		"l.SetWeights(a, t.weights)", "",
	},
	{
		"the line of long tasks and not the matcher chooses the tenant", "planner.matchBatch",
		"len(batch) >= c.view.Fleet().Len()", "false",
	},
	{
		"of each tenant a long task is left due", "planner.matchBatch",
		"!hasLeftover[tenant]", "false",
	},
	{
		"workers are told what tenants of long tasks weigh", "ledger.sendEnqueue",
		"Matrix: t.long != nil, Weights: j.tenant.weights,", "Matrix: t.long != nil,",
	},
	{
		"a new file holds for the tenants that there are", "jobs.setTerms",
		"t.weights = terms.Weights(t.name)", "_ = t",
	},
	{
		"a Reserve states the typical run time of tasks without an estimate", "ledger.reservePlaces",
		"m.Typical = g.Runs.Stats().Typical()", "m.Typical = 0",
	},
	{
		"a leaving frontend accepts no job", "jobs.admitJob",
		"case c.leaving:", "case false:",
	},
	{
		"the number of waiting tasks has a bound", "jobs.refuseNoRoom",
		"if free < 0 {", "if free < -9*r.limit {",
	},
	{
		"a tenant leaves room for pending tasks of others", "jobs.refuseNoRoom",
		"tenantPending > 0 && (tenantPending+r.more)/maxPendingPerFree > free {", "tenantPending < 0 {",
	},
	{
		"the bytes of kept payloads have a bound", "jobs.refuseNoRoom",
		"c.payloadBytes, j.payloadBytes, c.cfg.MaxPayloads,", "0, j.payloadBytes, c.cfg.MaxPayloads,",
	},
	{
		"payloads are dropped with their tasks", "ledger.endTask",
		"c.releasePayloads(j, len(t.spec.Payload))", "",
	},
	{
		"payloads are dropped with their job", "jobs.removeJob",
		"c.releasePayloads(j, j.payloadBytes)", "",
	},
	{
		"a tenant is not refused because another one waits", "jobs.refuseOverload",
		"u := c.forgetServed(waitKey{g.Set, c.tenants[j.Tenant]})\n",
		"u := (*unserved)(nil)\n\t\tfor of := range c.unserved {\n\t\t\tu = c.forgetServed(of)\n\t\t}\n",
	},
	{
		"room is offered to tenants by turns", "hungry.moveToBack",
		"if list.Has(t) && h.tenants.Last() != t {", "if false {",
	},
	{
		"the jobs considered are not all of one tenant", "hungry.jobsToOffer",
		"jobs = append(jobs, t.hungry.First())\n\t}",
		"for j := range t.hungry.All() {\n\t\t\tif len(jobs) < maxLooked {\n\t\t\t\tjobs = append(jobs, j)\n\t\t\t}\n\t\t}\n\t}",
	},
	{
		"a turn for which no task waits is declined", "planner.handleReady",
		"if r == nil {\n\t\treturn c.declineTurn(w, m, acts)", "if r == nil {\n\t\treturn acts",
	},
	{
		"a place that was declined is gone", "planner.handleReady",
		"c.dropPlace(w, m.Res, r, place.Declined)", "_ = place.Declined",
	},
	{
		"a deadline that a worker tells of is that of the job", "ledger.endOrRetryTask",
		"return c.endOverdue(j, now, acts) // the worker knew",
		"return c.endTask(t, &Outcome{Kind: DeadlineExceeded}, now, acts) // the worker knew",
	},
	{
		"a claimed attempt that failed does not run again", "ledger.handleStarted",
		"case t.group.job.failedAttempts[m.Attempt]:", "case false:",
	},
	{
		"a claimed attempt that failed counts once", "ledger.handleFinishedElsewhere",
		" || t.group.job.failedAttempts[m.Attempt]", "",
	},
	{
		"a job that was told when to return does not return before", "jobs.putOffJob",
		"j.retryAt = until", "j.retryAt = now",
	},
	{
		"tasks bound before go first", "task.move",
		"if from == blocked || from == held || from == claiming {", "if true {",
	},
	{
		"tasks that have waited for others go last", "task.move",
		"if from == blocked || from == held || from == claiming {", "if false {",
	},
	{
		"a forgotten sample has no fates", "decisions.fatesOf",
		"r.sampleNumber+maxSamples <= ds.samplesEver ||", "",
	},
	{
		"the fate of a place is remembered", "ledger.dropPlace",
		"c.log.fatesOf(r).Add(fate, 1)", "",
	},
	{
		"a job whose link broke gets other places", "ledger.dropPlaces",
		"c.wantPlaces(r.group)\n\t\tc.dropPlace", "c.dropPlace",
	},
	{
		"a new worker is offered to all waiting groups", "ledger.linkWorker",
		"c.allWanting = true", "",
	},
	{
		"a job whose places are used up gets others", "ledger.bindTurn",
		"placeGroup.livePlaces == 0 && placeGroup.job.waiting > 0", "false",
	},
	{
		"rides that come back are bound in their order", "ledger.handleQueued",
		"for i := m.Count; i > 0; i-- { // backward, because each task goes to the front of the queue\n\t\tid := m.First + probe.ResID(i-1)",
		"for i := range m.Count {\n\t\tid := m.First + probe.ResID(i)",
	},
	{
		"tasks of a worker that went away are bound in their order", "Core.loseWorker",
		"slices.Backward(w.attemptsInOrder())", "slices.All(w.attemptsInOrder())",
	},
	{
		"a job drops used-up reservations", "reservation.removeIfEmpty",
		"r.group.places.Remove(r)", "",
	},
	{
		"a place is kept only while tasks wait", "ledger.bindTurn",
		"placeGroup.Policy.Sticky && c.chooseGroup(placeGroup, w, now) != nil", "placeGroup.Policy.Sticky",
	},
	{
		"a task that rode along and was not started waits again", "planner.handleReady",
		"c.takeBackRide(a, r, now) // the Ready overtook", "_ = a //",
	},
	{
		"a place serves only tasks that may run there", "job.hungryGroupsAt",
		"s.group.Set.Contains(w.Worker) && !yield", "!yield",
	},
	{
		"a place serves only tasks that it has room for", "jobs.chooseGroup",
		"other.Demand.Fits(g.Demand) && c.nextTask(other, w, now) != nil {", "c.nextTask(other, w, now) != nil {",
	},
	{
		"a place whose task may have started is not cancelled", "ledger.cancelReservation",
		"r.w.places[id] != r || r.rideAt(id) != nil", "r.w.places[id] != r",
	},
	{
		"a result is acknowledged when the client has it", "ledger.ackDelivered",
		"acts = c.ackResult(w, r.Attempt, now, acts)", "",
	},
	{
		"a result is not acknowledged before the client has it", "ledger.issueReceipt",
		"if w.State() == view.Draining {\n\t\treturn Receipt{}", "if true {\n\t\treturn Receipt{}",
	},
	{
		"a worker that leaves does not wait for clients", "ledger.issueReceipt",
		"if w.State() == view.Draining {\n\t\treturn Receipt{}", "if false {\n\t\treturn Receipt{}",
	},
	{
		"a failure that is tried again is acknowledged", "ledger.retryTask",
		"acts = c.ackResult(a.w, m.Attempt, now, acts)\n\tisClaiming :=", "isClaiming :=",
	},
	{
		"an attempt that is claimed and failed may have been followed by another", "ledger.retryTask",
		"if isClaiming {\n\t\treturn acts", "if false {\n\t\treturn acts",
	},
	{
		"a result of a job of another frontend is left to that frontend", "ledger.handleFinishedElsewhere",
		"case t == nil: // if the job", "case false: // if the job",
	},
	{
		"an answer to an earlier claim does not answer the current claim", "ledger.handleClaimed",
		"j == nil || j.Generation != m.Generation", "j == nil",
	},
	{
		"a claim that comes too late ends the job here", "ledger.handleClaimed",
		"case m.Moved:", "case false:",
	},
	{
		"places that are refused as moved end the job here", "ledger.handleRefused",
		"case probe.Moved:\n\t\treturn c.dropWantingJobs(now, acts)\n\tcase probe.QueueFull:", "case probe.QueueFull:",
	},
	{
		"a task that may start only once waits for the end of the claim", "ledger.settleUnclaimed",
		"case !t.spec.Retryable && !timeUp:", "case false:",
	},
	{
		"a worker started since cannot know that a task never started", "ledger.handleClaimed",
		"j.Age == 0 || m.Knows < j.ageAt(now)+c.maxSubmitTime()", "false",
	},
	{
		"an unreachable worker may have started a task", "ledger.whyMayHaveStarted",
		"case w.Listed() && w.State() == view.Down:", "case false:",
	},
	{
		"a departed worker may have started a task", "ledger.whyMayHaveStarted",
		"if departure := c.view.LastDeparture(); departure != (view.Departure{}) &&",
		"if departure := c.view.LastDeparture(); false &&",
	},
	{
		"a frontend that has just started waits for its first links", "ledger.claimJob",
		"if w.State() != view.Down || w.Awaited() {", "if w.State() != view.Down {",
	},
	{
		"a worker linked later is told the owner of a job", "ledger.linkWorker",
		"j.uninformed[w] || isNewRun && j.Generation > 0", "j.uninformed[w] || isNewRun && j.Generation < 0",
	},
	{
		"a worker that was away is told the owner of a job", "ledger.linkWorker",
		"j.uninformed[w] || isNewRun && j.Generation > 0", "isNewRun && j.Generation > 0",
	},
	{
		"a repeated result stays no longer than a result without an owner", "ledger.handleFinishedElsewhere",
		"failedAttempts[m.Attempt]:\n\t\treturn disownResult(w, m.Attempt, acts)",
		"failedAttempts[m.Attempt]:\n\t\treturn acts",
	},
	{
		"a leaving frontend acknowledges its results", "ledger.startLeaving",
		"if w != nil && len(w.acks) > 0 {", "if false {",
	},
	{
		"a leaving frontend acknowledges later results at once", "ledger.ackResult",
		"len(w.acks) == ackBatch || c.leaving", "len(w.acks) == ackBatch",
	},
	{
		"a result counts once", "ledger.handleFinished",
		"c.dropAttempt(a)\n\treturn c.endAttempt(", "return c.endAttempt(",
	},
	{
		"a task that may start only once is not started again when it was killed", "ledger.endAttempt",
		"m.Status == probe.Killed && !t.spec.Retryable", "false",
	},
	{
		"a task that may start only once is not started again when it failed", "ledger.mayRetry",
		"t.failures < t.spec.Retries && t.spec.Retryable", "t.failures < t.spec.Retries",
	},
	{
		"a task that may start only once is not started again when it was lost", "ledger.loseAttempt",
		"if !t.spec.Retryable {\n\t\tc.Stats.Lost++", "if false {\n\t\tc.Stats.Lost++",
	},
	{
		"a task that may start only once is not started again when its frontend was lost", "ledger.settleUnclaimed",
		"case !t.spec.Retryable && why != \"\":", "case false:",
	},
	{
		"a task that kills workers is poison", "ledger.loseAttempt",
		"t.losses >= c.cfg.PoisonAfter", "t.losses > c.cfg.PoisonAfter",
	},
	{
		"only a task that ran is poison", "ledger.loseAttempt",
		"if died && a.hasStarted {", "if died {",
	},
	{
		"an attempt whose task has its outcome is killed", "ledger.handleStarted",
		"probe.Kill{Attempt: m.Attempt}}) // no task", "probe.Kill{}}) // no task",
	},
	{
		"a stray result does not end a task that has another attempt", "ledger.handleFinishedElsewhere",
		"case t.state == claiming:\n\t\tt.attempts++", "case t.state != done:\n\t\tt.attempts++",
	},
	{
		"a job that moved is left alone", "ledger.dropWantingJobs",
		"for _, j := range c.takeWantingJobs() {\n\t\tacts = c.dropMovedJob(j, now, acts)",
		"for range c.takeWantingJobs() {",
	},
	{
		"the place of a task that is handed back is live again", "ledger.handleRefused",
		"c.restorePlace(a)\n", "",
	},
	{
		"a message that crossed a Gone is not lost", "ledger.handleGone",
		"now.Sub(a.lastSentAt()) >= probe.SyncAge", "true",
	},
	{
		"a resubmitted job starts when all workers have answered", "ledger.noteAnswer",
		"if delete(j.claimsDue, w); len(j.claimsDue) == 0 {", "if delete(j.claimsDue, w); true {",
	},
	{
		"a job that ends cancels its places", "ledger.forgetJob",
		"acts)\n\tc.removeJob(j)", "acts)[:len(acts)]\n\tc.removeJob(j)",
	},
	{
		"a job that is cancelled stops its attempts", "ledger.stopAttempt",
		"probe.Kill{Attempt: a.id, Res: a.res, Turn: a.turn}", "probe.Kill{}",
	},
	{
		"attempts at another life of a worker are lost", "Core.bringWorkerUp",
		"if w.State() == view.Adrift && w.Welcome().Incarnation != ev.Welcome.Incarnation {", "if false {",
	},
	{
		"attempts are claimed when the link is back", "ledger.linkWorker",
		"a.job.makeClaim(a.id)", "probe.Pong{Seq: a.id.Seq}",
	},
	{
		"a claim names the tenant of its job", "job.makeClaim",
		", Tenant: j.Tenant, HasTenant: true", "",
	},
	{
		"the places of a guarded job say so", "ledger.reservePlaces",
		"g.standingFor(g.class, now), j.Guarded", "g.standingFor(g.class, now), false",
	},
	{
		"a task bound early of a guarded job says so", "ledger.sendEnqueue",
		"Guarded: j.Guarded,", "",
	},
	{
		"a link that breaks takes its places along", "ledger.unlinkWorker",
		"c.dropPlaces(w)\n", "\n",
	},
	{
		"queue lengths of a link that breaks count no more", "Core.loseLink",
		"return c.forgetAnswers(w, now, acts)", "return acts",
	},
	{
		"the attempts at a worker that is gone are lost", "Core.loseWorker",
		"acts = c.loseAttempt(a, true, fmt.Sprintf(\"worker %s went away\", w.Welcome().Worker), now, acts)",
		"_ = fmt.Sprint(a)",
	},
	{
		"a sync does not name places whose tasks may have started", "worker.syncMessage",
		"if r.rideAt(id) == nil {", "if r != nil {",
	},
	{
		"a worker whose queue is full gets no more until it tells its matrix", "ledger.noteQueueFull",
		"c.view.ForgetMatrix(w.Worker)\n\tw.earliestMatrixAsk", "w.earliestMatrixAsk",
	},
	{
		"a worker that does not send its matrix delays nothing", "planner.placeLong",
		"c.awaitsMatrix() && now.Before(b.answersUntil)", "c.awaitsMatrix()",
	},
	{
		"a task larger than the part open to long tasks may use all of a worker", "ledger.failLaunch",
		"t.long.mayUseAll = true", "",
	},
	{
		"a task refused by attempt and place is counted as refused", "ledger.failLaunch",
		"if t.failedLaunches++; t.failedLaunches < maxFailedLaunches {", "if t.failedLaunches < maxFailedLaunches {",
	},
	{
		"a repeated addition is ignored", "Core.extendJob",
		"repeated := ev.From < before && ev.From+n <= before", "repeated := false",
	},
	{
		"an open job does not end with its tasks", "ledger.endTask",
		"if j.unfinished == 0 && (!j.Open || j.ending) {", "if j.unfinished == 0 {",
	},
	{
		"an open job without a task left ends with the last addition", "Core.extendJob",
		"if j.endAdditions(); j.unfinished == 0 {", "if j.endAdditions(); false {",
	},
	{
		"an open job without a task left ends at its deadline", "ledger.endAllTasks",
		"if j.ending = true; j.unfinished == 0 {", "if j.ending = true; false {",
	},
	{
		"no task of an open job is late without a task left", "ledger.endTask",
		"c.refreshJob(j, now) // no task is late any more", "_ = now",
	},
	{
		"nothing is added to a stage that has ended", "jobs.buildStages",
		"if int(t.Stage) < firstNew && s.hasEnded() {", "if false && s.hasEnded() {",
	},
	{
		"a job may not grow beyond the limits of a job", "jobs.makeAddition",
		"case j.totalTasks+n > limit:", "case n > limit:",
	},
	{
		"a task added to a job with gaps is found by its index", "jobs.mergeTasks",
		"if j.byIndex == nil && j.totalTasks > len(j.tasks) {", "if false {",
	},
	{
		"inputs passed to an added task count from the start", "jobs.mergeTasks",
		"t.updatePassedBytes()", "_ = t",
	},
	{
		"a client that returns with more tasks than known has its job claimed anew", "Core.IsUpToDate",
		"return j == nil || j.totalTasks >= spec.Had && (spec.Open || !j.Open)", "return j == nil || true",
	},
	{
		"a stage waits for the stages before", "job.updateBlocking",
		"s.openPredecessors, s.ready = j.countBlocking(s)",
		"s.openPredecessors, _ = j.countBlocking(s); s.ready = true",
	},
	{
		"a stage is ready if it goes along all unfinished stages", "job.countBlocking",
		"ready = ready && slices.Contains(s.along, k)", "ready = false",
	},
	{
		"a task waits for its partitions of the stages that its stage goes along", "job.mustBlock",
		"(t.awaitedInputs > 0 || !j.stages", "(!j.stages",
	},
	{
		"a task goes on when the last of its partitions has ended", "jobs.countDownPartition",
		"c.freedTasks = append(c.freedTasks, next)", "_ = next",
	},
	{
		"a partition has ended when all of its tasks have", "jobs.countDownPartition",
		"if s.unfinishedIn[p]--; s.unfinishedIn[p] > 0 {", "if s.unfinishedIn[p]--; false {",
	},
	{
		"a task is passed the outputs of its own partitions", "task.outputsFor",
		"if !slices.Contains(j.stages[t.group.stageIndex].along, from) {", "if true {",
	},
	{
		"no task is added to a stage that others go along", "jobs.buildStages",
		"if int(t.Stage) < firstNew && j.hasStagesAlong(int(t.Stage)) {", "if false {",
	},
	{
		"a stage does not end before the stages before", "stage.hasEnded",
		"return s.unfinished == 0 && s.openPredecessors == 0", "return s.unfinished == 0",
	},
	{
		"the stages of a resubmitted job wait, too", "ledger.settleUnclaimed",
		"c.awaitNextAgain(t, now)", "t.move(waiting)",
	},
	{
		"a task that was claimed before its turn, and failed, waits for the stages before its own", "jobs.awaitNext",
		"if j.mustBlock(t) { // also after", "if false { // also after",
	},
	{
		"the common part of a stage is sent again on a new link", "ledger.unlinkWorker",
		"\tc.clearCommonSent(w)\n", "",
	},
	{
		"the common part of a stage is forgotten with its job", "ledger.forgetJob",
		"acts = c.forgetCommon(j, acts)", "_ = c.forgetCommon",
	},
	{
		"a function may say that its task is not to be tried again", "ledger.mayRetry",
		" && m.Retry != probe.Never\n", "\n",
	},
	{
		"a task that has failed rests before it is tried again", "ledger.retryTask",
		"if restFor > 0 {", "if false {",
	},
	{
		"a task rests longer with each failure", "task.backoffTime",
		"rest = min(2*rest, maxBackoff)", "rest = min(rest, maxBackoff)",
	},
	{
		"a task rests only after a failure of its own", "ledger.endAttempt",
		"case m.Status == probe.Killed:\n\t\treturn c.retryTask(a, m, 0,",
		"case m.Status == probe.Killed:\n\t\treturn c.retryTask(a, m, t.backoffTime(),",
	},
	{
		"a resting task is woken", "Core.NextWake",
		"soonest(c.restingTasks.Min().restUntil)", "_ = c.restingTasks.Min().restUntil",
	},
	{
		"a task that ends rests no more", "jobs.stopWaiting",
		"\t\tc.restingTasks.Remove(rester{t})\n", "",
	},
	{
		"a task that shuns a worker goes to another one", "line.FirstFor",
		"if l.shunLists[i].worker != w {", "if true {",
	},
	{
		"a task shuns the only worker in vain", "group.shunFilter",
		"if g.Set.Len() > 1 {", "if true {",
	},
	{
		"a passed output comes from the stated partition", "task.outputsFor",
		".outputs[in.Partition]", ".outputs[0]",
	},
	{
		"a worker without passing gets no task with passed inputs", "jobs.admitTasks",
		"need.Features = probe.Passing", "need.Features = 0",
	},
	{
		"another frontend gets the outputs of tasks", "jobs.setPassingLimits",
		"j.rememberOutputs(s, m)", "_ = m",
	},
	{
		"a set of workers lets go of jobs that have ended", "jobs.releaseSet",
		"c.forgetServed(waitKey{g.Set, g.job.tenant})", "",
	},
	{
		"no task waits for matrices asked for tasks that are gone", "planner.placeLong",
		"c.endAsking()\n\t\treturn acts", "return acts",
	},
	{
		"a tenant with too small a part of its maximum gets one task to run in the end", "jobs.fitsMaximum",
		"tenant.used.atLevel[levelAllowed] == 0 && tenant.starvedRounds > c.patience", "false",
	},
	{
		"a task that rests leaves its room to others of its job", "ledger.retryTask",
		"c.wantPlaces(t.group) // if t rests, another task may use a place",
		"if rest == 0 {\n\t\tc.wantPlaces(t.group)\n\t}",
	},
	{
		"a full queue takes no more of a job than it has", "ledger.handleRefused",
		"g.narrowWindow()", "",
	},
	{
		"a task that has ended makes room for another of its job", "ledger.endTask",
		"c.widenWindow(t.group)", "",
	},
	{
		"tasks of a job that go by queue lengths ask different workers", "planner.measureQueues",
		"if skip+perTask > workers {", "if true {",
	},
	{
		"the answer to a probe is waited for once", "planner.handleQueueLength",
		"delete(c.rounds.bySeq, m.Seq)", "",
	},
	{
		"a job that moves is no longer matched with workers", "ledger.dropMovedJob",
		"\t\tc.stopWaiting(t)\n\t\tif t.state != done {", "		if t.state != done {",
	},
	{
		"a task that fails fails the stages after its own", "jobs.noteStageOutcome",
		"case j.cause == \"\":", "case false:",
	},
	{
		"a stage without tasks left ends when the stages before have ended", "jobs.startStages",
		"changed = changed || s.openPredecessors == 0", "",
	},
	{
		"the sets of a job that is being admitted are kept", "jobs.setsInUse",
		"own[g.Set] = true", "own[g.Set] = false",
	},
	{
		"a launch tells how much of the job's deadline is left", "task.launchExpecting",
		"max(deadline.Sub(a.sentAt), 1)", "0",
	},
	{
		"a deadline says that workers were away", "ledger.endOverdue",
		"if !j.strandedSince.IsZero() {\n\t\twhy +=", "if false {\n\t\twhy +=",
	},
	{
		"the messages of a frame are planned one by one", "Core.receiveMsgs",
		"acts = c.handleMsg(w, m, now, acts)\n\t}",
		"acts = c.planWants(now, c.handleMsg(w, m, now, acts))\n\t\tacts = c.offerTasks(w, now, acts)\n\t}",
	},
	{
		"the reason of a refusal counts for all jobs in its frame", "Core.receiveMsgs",
		"case probe.Refused, probe.Evicted:", "case probe.Welcome:",
	},
	{
		"a group whose tasks all run is no longer looked at", "task.move",
		"g.leaveSeats()", "",
	},
	{
		"a ready worker gets the task whose data it has", "jobs.nextTask",
		"[...]shelfKey{{estimate.Disk, row.Host}, {estimate.Rack, row.Rack}, {estimate.Across, \"\"}}",
		"[...]shelfKey{{estimate.Across, \"\"}, {estimate.Rack, row.Rack}, {estimate.Disk, row.Host}}",
	},
	{
		"a task for several hosts is left to the host with the least choice", "shelf.nextTask",
		"n := x.fewestElsewhere(); n > most", "n := 0; n > most",
	},
	{
		"a task waits for its data as long as the wait pays", "jobs.shelveTask",
		"x.waitsSince.Add(x.sites[len(x.sites)-1].Read - best)", "now",
	},
	{
		"a task waits for a worker in the rack for a shorter time", "jobs.shelveTask",
		"x.waitsSince.Add(site.Read-best)", "x.waitsSince.Add(x.sites[len(x.sites)-1].Read-best)",
	},
	{
		"a task that came back has waited all along", "jobs.shelveTask",
		"if x.attemptsBefore != t.attempts {", "{",
	},
	{
		"a task that would wait too long behind its own job goes elsewhere at once", "jobs.shelveTask",
		"far.After(now) && c.areSitesBusy(n, x, now)", "false",
	},
	{
		"no task waits for data at workers taken by long tasks", "jobs.areSitesBusy",
		"g.Set.Contains(w) && !c.view.IsAvoided(w, now)", "g.Set.Contains(w)",
	},
	{
		"the reason for a read from far is shown", "jobs.noteNearChoice",
		"d.Far = Crowded", "d.Far = Waited",
	},
	{
		"a task with inputs gets more places if its places get no turn", "planner.resampleJob",
		"acts = c.placeShelf(g.near.anywhereShelf(), n, now, acts)", "",
	},
	{
		"tasks with inputs that may all ride get no places before", "planner.planNear",
		"acts = c.planShelves(n, (*planner).rideShelf, now, acts)", "",
	},
	{
		"no task waits for a holder that is gone", "jobs.reshelveGone",
		"if row == nil {\n\t\treturn\n\t}", "if row != nil {\n\t\treturn\n\t}",
	},
	{
		"a new holder of data gets the tasks without a holder", "ledger.linkWorker",
		"c.reshelveSiteless()", "",
	},
	{
		"when a wait for data is over, places are drawn anywhere", "Core.NextWake",
		"soonest(c.ripeningShelves.Min().green.Min().ripeAt)", "",
	},
	{
		"a place that is lost near the data is replaced", "nearGroup.addLivePlaces",
		"places < 0 && s.ripe.Len() > 0 && s.missingProbes() > 0", "false && s.missingProbes() > 0",
	},
	{
		"a shared turn is for tasks that may run at the worker", "planner.shareTurn",
		"other.Demand.Fits(g.Demand) && c.nextTask(other, w, now) != nil &&\n", "other.Demand.Fits(g.Demand) &&\n",
	},
	{
		"a worker expects a task to read its inputs, too", "task.expectedRun",
		"expected += t.near.read", "",
	},
	{
		"the statistics of runs leave out reading inputs", "ledger.addToStats",
		"run.Read, run.Bytes = x.read, t.spec.inputBytes()", "run.Bytes = t.spec.inputBytes()",
	},
	{
		"costly messages wait for others", "ledger.messagesMayWait",
		"10*c.view.Price() > LingerFor && ", "false && ",
	},
	{
		"cheap messages do not wait", "ledger.messagesMayWait",
		"10*c.view.Price() > LingerFor && ", "",
	},
	{
		"messages for tasks that are not short do not wait", "ledger.messagesMayWait",
		" && g.IsShort(c.view.Trip())", "",
	},
	{
		"a lost attempt is listed beside the attempt that counted", "ledger.loseAttempt",
		"c.noteEarlierStopped(a, EndLost, now)\n", "",
	},
	{
		"an outcome states the expected run time", "task.makeLaunch",
		"t.attemptRun = t.expectedRun(trip)\n\treturn t.launchExpecting(a, t.attemptRun)",
		"return t.launchExpecting(a, t.expectedRun(trip))",
	},
	{
		"a copy that finishes first has the other attempt killed", "ledger.letCopyWin",
		"acts = c.stopAttempt(a.task.attempt, \"stopped: its copy was done first\", now, acts)",
		"c.withdrawAttempt(a.task.attempt)",
	},
	{
		"the first to finish has its copy killed", "ledger.endTask",
		"acts = c.stopAttempts(t, now, acts)\n", "",
	},
	{
		"a copy may take the place of the first attempt while its link is broken", "task.promoteCopy",
		"state := bound\n\tswitch {\n\tcase a.w.State() == view.Adrift:", "state := bound\n\tswitch {\n\tcase false:",
	},
	{
		"a task that may start only once has no copy", "ledger.whyNoCopy",
		"case !t.spec.Retryable:", "case false:",
	},
	{
		"a task lost with a worker has no copy", "ledger.whyNoCopy",
		"case t.losses > 0:", "case false:",
	},
	{
		"copies are a share of the tasks", "ledger.mayAddCopy",
		"c.Stats.Copies < max(1, uint64(c.cfg.Copies*float64(c.Stats.Tasks)))", "true",
	},
	{
		"a copy whose link breaks does not set its task adrift", "ledger.unlinkWorker",
		"a.task.copy != a && ", "",
	},
	{
		"a copy fails, and the first attempt goes on", "ledger.handleFinished",
		" && !c.mayRetry(t, m, now) {", " {",
	},
	{
		"a copy is worth what it saves", "planner.copyLong",
		"float64(timeLeft) <= minCopyGain*float64(copyEnd)", "false",
	},
	{
		"the place of a ride that comes back is cancelled while its copy goes on", "ledger.handleQueued",
		"j.waiting == 0 && j.Policy.Cancel {", "false {",
	},
	{
		"a second attempt that a claim finds becomes the copy", "ledger.isEarlierCopy",
		"t.group.job.Generation > 0 &&", "false &&",
	},
	{
		"a job that comes back finds the attempts that its frontend made before", "ledger.isEarlierCopy",
		" || id.Seq <= t.group.job.attemptsBefore", "",
	},
	{
		"a short copy that finds no room is withdrawn", "ledger.handleQueued",
		"a == a.task.copy && a.task.long == nil {", "false {",
	},
	{
		"a tenant with a maximum has no copies", "ledger.whyNoCopy",
		"All != tenants.Unlimited:", "All > tenants.Unlimited:",
	},
	{
		"a task that has not begun to run has no copy", "task.isRunning",
		"(t.state == bound || t.state == riding) && !t.attempt.runsSince.IsZero()", "t.attempt != nil",
	},
	{
		"the first copy is always within the budget", "ledger.mayAddCopy",
		"max(1, uint64(c.cfg.Copies*float64(c.Stats.Tasks)))", "uint64(c.cfg.Copies*float64(c.Stats.Tasks))",
	},
	{
		"a long task that is late has one copy", "planner.copyLong",
		"if t.copy != nil {\n\t\t\tcontinue // t may end sooner, with its copy, so jobEnd stays\n\t\t}\n", "",
	},
	{
		"a short task that is late has one copy", "planner.copyShort",
		"if t.copy != nil {\n\t\t\tcontinue\n\t\t}\n", "",
	},
	{
		"only tasks on which the end of their job depends have copies", "planner.copyLong",
		"timeLeft <= jobEnd || ", "",
	},
	{
		"the task with the most work left has its copy first", "planner.copyLong",
		"cmp.Compare(b.timeLeft, a.timeLeft)", "cmp.Compare(a.timeLeft, b.timeLeft)",
	},
	{
		"a job whose tasks wait has no copies", "jobs.whyJobNoCopy",
		"case j.waiting+j.matching > 0:", "case false:",
	},
	{
		"a short task is late when it has run twice as long as any other", "planner.whenShortLate",
		"a.runsSince.Add(2*longest", "a.runsSince.Add(longest",
	},
	{
		"few runs do not tell that a short task is late", "planner.whenShortLate",
		"seen < enoughRuns", "seen < 1",
	},
	{
		"a short copy goes to another worker", "planner.idleWorkerFor",
		"w != t.attempt.w.Worker && w != t.shunned", "w != t.shunned",
	},
	{
		"a short copy goes where there is room", "planner.idleWorkerFor",
		" && w.Room(t.spec.Demand) > 0", "",
	},
	{
		"a long copy goes to another worker", "planner.chooseSoonest",
		"w == t.attempt.w.Worker || w == t.shunned", "w == t.shunned",
	},
	{
		"a long copy does not go where the task failed", "planner.chooseSoonest",
		"w == t.attempt.w.Worker || w == t.shunned || ", "w == t.attempt.w.Worker || ",
	},
	{
		"if one of two attempts is lost, the other goes on", "ledger.loseAttempt",
		"if c.continueWithOther(t) {\n\t\treturn acts\n\t}\n\tc.Stats.Retries++\n\tc.awaitNextAgain(t, now)",
		"c.Stats.Retries++\n\tc.awaitNextAgain(t, now)",
	},
	{
		"if one of two attempts comes back, the other goes on", "ledger.takeBackTask",
		"if c.continueWithOther(t) {\n\t\treturn\n\t}", "",
	},
	{
		"if one of two attempts fails or is killed, the other goes on", "ledger.retryTask",
		"if c.continueWithOther(t) {\n\t\treturn acts\n\t}\n\tif m.Status", "if m.Status",
	},
	{
		"a copy that waits in its queue goes on there", "task.promoteCopy",
		"case !a.hasStarted:\n\t\tstate = enqueued", "case false:\n\t\tstate = enqueued",
	},
	{
		"if a lost worker had both attempts and the first ended the task, the second is not lost again",
		"Core.loseWorker",
		"if w.attempts[a.id] != a {", "if false {",
	},
	{
		"a place that is handed back while a copy goes on is cancelled", "ledger.handleRefused",
		"a.job.waiting == 0 && a.job.Policy.Cancel {", "false {",
	},
	{
		"if claims find three attempts, one is stopped", "ledger.isEarlierCopy",
		"t.attempt != nil && t.copy == nil && t.spec", "t.attempt != nil && t.spec",
	},
	{
		"a claim adopts no second attempt of a task that may start only once", "ledger.isEarlierCopy",
		"t.copy == nil && t.spec.Retryable && ", "t.copy == nil && ",
	},
	{
		"a killed or preempted copy does not give the outcome", "ledger.handleFinished",
		"m.Status != probe.Killed && m.Status != probe.Preempted && !c", "!c",
	},
	{
		"the path of a spare job is explained by its class", "jobs.choosePath",
		"Cause: estimate.ByClass", "Cause: estimate.ByMode",
	},
	{
		"the reason for no copy is shown", "Core.Explain",
		"d.Copies = c.explainCopy(t)", "_ = t",
	},
	{
		"a copy names its original attempt", "ledger.commitCopy",
		"d.Choice, d.Tries, d.Outcome, d.CopyOf = *choice, 1, \"sent\", t.attempt.id",
		"d.Choice, d.Tries, d.Outcome = *choice, 1, \"sent\"",
	},
	{
		"refused jobs are counted for a bounded number of tenants", "refusals.addRefusal",
		"len(c.byTenant) < maxRefused", "true",
	},
	{
		"a late tenant is counted if enough of its jobs are refused", "refusals.addRefusal",
		"r.tenant, r.missed, r.n = tenant, r.upperBound(), 0", "r.tenant, r.missed, r.n = tenant, 0, 0",
	},
	{
		"a tenant with only refused jobs is listed", "Core.Tenants",
		"if c.tenants[name] == nil {", "if false {",
	},
	{
		"a task with files has no copy that must start at once", "planner.lookAtTail",
		"case t.long == nil && len(t.spec.Files) == 0 && c.mayCopy(t)", "case t.long == nil && c.mayCopy(t)",
	},
	{
		"workers are asked for the wait of a copy, if it is not known", "planner.copyLong",
		"acts = c.askMatricesForCopy(t, now, acts)", "_ = t",
	},
	{
		"the worker of the first attempt is not asked for the wait of a copy", "planner.askMatricesForCopy",
		"w != t.attempt.w && w.mayAskMatrix", "w.mayAskMatrix",
	},
	{
		"spare work has no copies", "jobs.whyJobNoCopy",
		"case j.Class == Spare:", "case false:",
	},
	{
		"a task that waits longer than expected may have a copy", "ledger.whyNoCopy",
		"!t.isRunning() && !t.isSlipping()", "!t.isRunning()",
	},
	{
		"a task that waits as long as expected has no copy", "task.isSlipping",
		"t.isQueued() && t.attempt.expectedStart.After(t.attempt.sentAt.Add(t.long.wait))", "t.isQueued()",
	},
	{
		"if two attempts wait and the first starts, its copy is withdrawn", "ledger.withdrawOtherAttempt",
		"case a == t.attempt && t.copy != nil && !t.copy.hasStarted:", "case false:",
	},
	{
		"if two attempts wait and the copy starts, the first is withdrawn", "ledger.withdrawOtherAttempt",
		"case a == t.copy && !t.attempt.hasStarted:", "case false:",
	},
	{
		"a copy that starts does not withdraw a first attempt that runs", "ledger.withdrawOtherAttempt",
		"a == t.copy && !t.attempt.hasStarted", "a == t.copy",
	},
	{
		"an attempt that is found to run again does not withdraw its copy", "ledger.handleStarted",
		"hasWaited := !a.hasStarted", "hasWaited := true",
	},
	{
		"the time left of a waiting task is its wait and its run", "planner.attemptTimeLeft",
		"max(starts.Sub(now), 0) + read", "read",
	},
	{
		"if the last task of a job may have no copy, no task of the job has a copy", "planner.copyLong",
		"jobEnd = timeLeft\n", "\n",
	},
	{
		"the progress of a task gives its time left", "planner.attemptTimeLeft",
		"case reported.doneShare > 0:", "case false:",
	},
	{
		"a long run on a sound machine would be as long elsewhere", "planner.copyWork",
		"!t.isRunning() || p.doneShare == 0 || p.doneShare >= 1 || a.w.Pace() == 0", "true",
	},
	{
		"a long run on a slow machine would be shorter elsewhere", "planner.copyWork",
		"scaleTime(1/(1-p.doneShare)/a.w.Pace(), p.timeLeft)", "scaleTime(1/(1-p.doneShare), p.timeLeft)",
	},
	{
		"a copy on a slow machine takes longer", "planner.chooseSoonest",
		"slower := scaleTime(paceOf(w)-1, candidate.R)", "slower := time.Duration(0)",
	},
	{
		"a task that has just started has no copy", "planner.copyLong",
		"isYoung := t.isRunning() &&", "isYoung := false &&",
	},
	{
		"progress tells early that a task is late", "planner.copyLong",
		"t.attempt.progress().doneShare == 0 && now", "now",
	},
	{
		"a copy and its task share a forecast", "planner.copyWork",
		"return c.chooseForecast(t, now).workLeft(0)", "return x.spec.Work",
	},
	{
		"a copy is stopped when the first attempt has caught up", "planner.stopSlowerCopy",
		"timeLeft > c.copyTimeLeft(t, now) {", "true {",
	},
	{
		"a copy goes on while it is ahead of the first attempt", "planner.stopSlowerCopy",
		" || timeLeft > c.copyTimeLeft(t, now) {", " {",
	},
	{
		"a task whose first attempt caught up has no further copy", "ledger.whyNoCopy",
		"case t.caughtUp:", "case false:",
	},
	{
		"a copy that is stopped in a queue does not count as an attempt", "ledger.stopCopy",
		"t.attempts--", "",
	},
	{
		"a ride that has not come back counts as a start", "jobs.presumeStarted",
		"if !j.served && j.dropSettledRides()", "if false && j.dropSettledRides()",
	},
	{
		"a ride that comes back late does not count as a start", "jobs.revokePresumed",
		"if !j.presumed || j.dropSettledRides() {", "if true {",
	},
	{
		"a job that waits again is in the list again", "jobs.revokePresumed",
		"u.insertJob(j)", "_ = u",
	},
	{
		"a job that waits again has its earlier place in the list", "unserved.insertJob",
		"if a.unservedSince.After(b.unservedSince) {", "if false {",
	},
	{
		"the wait of a task bound early is not a part of the launch", "ledger.reckonPhases",
		"p.Ready = arrived + min(m.Waited, m.Launch)", "p.Ready = arrived",
	},
	{
		"the time of an attempt in vain is not a part of the wait", "jobs.awaitNextAgain",
		"t.againAt, t.sampledAt, t.heldFor = now, time.Time{}, 0", "t.againAt = now",
	},
	{
		"the wait for a tenant's maximum is told apart", "jobs.startPlacing",
		"t.heldFor += now.Sub(t.placeableSince)", "",
	},
	{
		"room that is free earlier than expected wakes a task", "Core.receiveMsgs",
		"c.useRoom(w, now, acts)", "acts",
	},
	{
		"a task that comes back rides to an idle worker", "planner.makeWant",
		"|| g.Policy.Informed && len(c.view.Idle()) > 0", "",
	},
	{
		"a new worker wakes a task", "Core.bringWorkerUp",
		"acts = c.useRoom(w, now, c.linkWorker(w, ev.Welcome, syncAt, now, acts))",
		"acts = c.linkWorker(w, ev.Welcome, syncAt, now, acts)",
	},
	{
		"a task that does not want some room is not woken for room for ever", "planner.tryPostpone",
		"x.vainWakes < maxVainWakes", "true",
	},
	{
		"frontends wake tasks for the same room at different moments", "planner.tryPostpone",
		"(c.rand.Float64() - 0.5)", "0",
	},
	{
		"the way of a worker's question is binding, not queue", "ledger.reckonPhases",
		"p.Ready = min(max(p.Queued, arrived-m.Held), p.Bound)", "p.Ready = p.Bound",
	},
	{
		"the way of a reservation is link, not queue", "ledger.reckonPhases",
		"p.Queued = min(since(t.placesAskedAt)+oneWay, p.Bound)", "p.Queued = p.Sampled",
	},
	{
		"the way of a result is delivery, not run", "ledger.reckonEnd",
		"m.Kept + trip - oneWay", "m.Kept",
	},
	{
		"a ride that has not come back within a round trip runs", "ledger.stateOf",
		"now.Sub(a.sentAt) <= c.view.Trip()", "true",
	},
	{
		"the attempts of a task without a result were in vain", "ledger.endTask",
		"o.Phases.Again = t.earlier[n-1].Ended", "_ = n",
	},
	{
		"the result of a claimed attempt was on its way, too", "ledger.roundTrip",
		"return c.view.Trip()", "return 0",
	},
	{
		"a process that stands still is late", "ledger.noteStanding",
		"case standsFor >= standsFrom && ", "case false && ",
	},
	{
		"a process stands still only after a while", "ledger.noteStanding",
		"case standsFor >= standsFrom && ", "case ",
	},
	{
		"the reported progress counts before the CPU time", "ledger.noteStanding",
		" || x.progress.doneShare > 0 {", " {",
	},
	{
		"CPU time tells nothing if the stage uses little", "ledger.noteStanding",
		"usual < leastStageCPU || !known", "!known",
	},
	{
		"a process may come to a stop after busy times", "ledger.noteStanding",
		"x.lastBusy = x.use", "_ = 0",
	},
	{
		"a fall of the CPU time tells nothing of a process", "ledger.noteStanding",
		", rate < 0:", ":",
	},
	{
		"a process does not stand still before the run of its stage has passed", "ledger.noteStanding",
		"x.use.Ran-t.long.read) >= run", "x.use.Ran-t.long.read) >= min(run, 0)",
	},
	{
		"reading does not count as the run of a process that stands still", "ledger.noteStanding",
		"x.use.Ran-t.long.read)", "x.use.Ran)",
	},
	{
		"a process that stands still needs longer than a copy", "planner.attemptTimeLeft",
		"if reported.standsFor > 0 {", "if false {",
	},
	{
		"a process that stands still keeps no other task from a copy", "planner.copyLong",
		"if t.attempt.progress().standsFor == 0 {", "if true {",
	},
}}
