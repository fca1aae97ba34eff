package mutants

// frontend lists the mutants of package frontend. Keep the old texts short and central, so that they stay valid.
var frontend = packageMutants{"frontend", []mutant{
	{
		"tasks take what finished ones of their class used", "group.refine",
		"if t.Class == \"\" {", "if true {",
	},
	{
		"what a function uses says nothing of a class", "group.refine",
		"if t.Class == \"\" {", "if false {",
	},
	{
		"what is refined is at no worker more than it has", "group.demandAt",
		"if g.seen == 0 {", "if true {",
	},
	{
		"who hears that its task waits looks soon whether it is late", "Core.take",
		"c.hurry(w, &m, now)", "",
	},
	{
		"workers are asked before a copy starts where nobody was to wait", "planner.askSince",
		"old(choice.Choice()) {", "false {",
	},
	{
		"what is lost with its worker is made again", "ledger.missing",
		"case len(lost) > 0:", "case false:",
	},
	{
		"what may start only once is not made again", "ledger.remake",
		"case !p.spec.Retryable:", "case false:",
	},
	{
		"what ran for another frontend is made again, if its client says how", "ledger.recall",
		"if by == nil || by.Spec == nil {", "if true {",
	},
	{
		"what a worker has thrown away is made again", "ledger.missing",
		"gone := slices.", "gone := false && slices.",
	},
	{
		"what was made again since is there", "ledger.missing",
		"gone && m.at.After(a.sent)", "false",
	},
	{
		"what runs again for another frontend passes on what it has left", "jobs.checkPassing",
		"read(m.Spec)", "_ = read",
	},
	{
		"a task that runs again for another frontend is counted once", "ledger.recall",
		"c.settled(j, 1)\n\treturn t", "return t",
	},
	{
		"how a task runs again fits its job", "jobs.checkStages",
		"if wrong := reads.check(m.Spec); wrong != \"\" {", "if wrong := \"\"; wrong != \"\" {",
	},
	{
		"nothing is made again for ever", "ledger.remake",
		"p.state == done && p.remade == maxRemade:", "false:",
	},
	{
		"a worker that was started again has nothing of before", "ledger.stays",
		" && (m.run == 0 || m.run == w.Welcome().Incarnation)", "",
	},
	{
		"a client hears once of a task that runs again", "ledger.end",
		"if t.remade > 0 {\n\t\tacts = c.remadeEnded", "if t.remade > 0 {\n\t\tacts = append(acts, &Done{j.ID, *o})\n\t\tacts = c.remadeEnded",
	},
	{
		"what was left before is not passed beside what is left now", "jobs.leaves",
		"if t.remade > 0 {\n\t\tj.replaced", "if false {\n\t\tj.replaced",
	},
	{
		"a result that is a file is no output for later stages", "ledger.conclude",
		"o.Outputs[n-1].Partition == probe.ResultPartition", "false",
	},
	{
		"tasks of a full job are not bound by queue lengths", "planner.finishRound",
		"c.await(t); t.state == waiting {", "c.await(t); true {",
	},
	{
		"no task of a full job starts", "job.blocks",
		"return j.full || ", "return ",
	},
	{
		"what waits of a job that is full does not start, either", "jobs.fill",
		"case full && (t.state == waiting", "case false && (t.state == waiting",
	},
	{
		"a job that is not full any more goes on", "jobs.fill",
		"case t.state == blocked && !j.blocks(t):", "case false:",
	},
	{
		"places that a full job does not need are cancelled", "Core.Step",
		"ev.Full && j.Policy.Cancel", "false",
	},
	{
		"what is added to a full job does not start", "jobs.block",
		"if !j.full && (len(", "if (len(",
	},
	{
		"preempted is no failure", "ledger.over",
		"case m.Status == probe.Preempted:", "case false:",
	},
	{
		"to be stopped is no failure when it is told to a claim, either", "ledger.finishedElsewhere",
		"t.group.job.serve()\n\t\treturn c.over(", "t.group.job.serve()\n\t\treturn c.conclude(",
	},
	{
		"the class of what has ended is told", "sampled.add",
		"s.first, s.why, s.class, s.demand = first, g.why, g.told(), g.takesWhy()", "s.first, s.why = first, g.why",
	},
	{
		"the class of what is placed by estimation is told", "jobs.decided",
		"d.Class, d.Choice, d.At = x.task.told(), ", "d.Choice, d.At = ",
	},
	{
		"a hint alone does not say that a task is late", "planner.remains",
		"t.spec.Estimate > 0 && ran <= hintsWithin*run", "false",
	},
	{
		"what is spare takes nothing of the tokens", "usage.moved",
		"t.spare = t.spare || t.group.class != probe.Regular; t.spare", "t.spare",
	},
	{
		"what tokens do not cover is spare", "task.class",
		"case !t.isBeyond():", "default:\n\t\treturn t.group.class\n\tcase false:",
	},
	{
		"who names the class regular is regular beyond tokens", "jobs.cover",
		"t.spare = t.group.job.Class == Auto", "t.spare = true",
	},
	{
		"of what is beyond tokens no more waits at workers than twice what they cover", "jobs.overdrawn",
		"return of.queued+about+g.takes() >", "return false && of.queued+about+g.takes() >",
	},
	{
		"one task beyond tokens may always wait at a worker", "jobs.overdrawn",
		" || of.queued+about == 0 {", " {",
	},
	{
		"a token that falls free makes the most urgent regular", "ledger.settleDebts",
		"for c.coversNext(of) {", "for false {",
	},
	{
		"a token that falls free covers what runs first", "debt.Before",
		"y.task.state == bound; a != b {", "y.task.state == bound; false && a != b {",
	},
	{
		"those that wait for tokens are placed when there are some", "ledger.settleDebts",
		"\t\t\tc.admitCrowd(g)\n", "",
	},
	{
		"a worker that knows no classes is not sent a Restamp", "ledger.restamp",
		"a.w.Linked() && a.w.Has(probe.Classes)", "a.w.Linked()",
	},
	{
		"that there is no room for spare work says nothing of the rest", "ledger.refused",
		"regular = r.group.class == probe.Regular", "_ = r",
	},
	{
		"where spare work goes is not taken", "ledger.put",
		"if a.class != probe.Spare {\n\t\tc.view.Take(", "{\n\t\tc.view.Take(",
	},
	{
		"jobs that are refused come back one after the other", "unserved.comesAgain",
		"u.again = now.Add(", "_ = now.Add(",
	},
	{
		"as fast as jobs are served", "unserved.comesAgain",
		"if u.rate > 0 {", "if false {",
	},
	{
		"nobody is sent away for long because of others", "unserved.comesAgain",
		"if after > soonest+longestAway {", "if false {",
	},
	{
		"a job is taken in if few others wait, however long one of them has", "jobs.waitsTooLong",
		"&& u.many(limit, span, now) {", "{",
	},
	{
		"how many jobs are served is counted over a limit without deadlines", "jobs.waitsTooLong",
		"u.many(limit, span, now)", "u.many(limit, limit, now)",
	},
	{
		"a job waits once, however many groups it has", "jobs.waits",
		"if slices.Contains(j.waitsIn, u) {", "if false {",
	},
	{
		"jobs that came and went behind one that waits are not kept", "jobs.waits",
		"if len(u.jobs) > 2*u.waiting+64 {", "if false {",
	},
	{
		"jobs come back as fast as all frontends serve them", "unserved.comesAgain",
		"/time.Duration(frontends)", "+0*time.Duration(frontends)",
	},
	{
		"a job that was claimed and runs does not wait", "ledger.adopt",
		"a.job.serve()\n", "\n",
	},
	{
		"nor does one that was claimed and had ended", "ledger.finishedElsewhere",
		"t.attempts++\n\t\tt.group.job.serve()", "t.attempts++",
	},
	{
		"a job that ends without being served is not counted as served", "ledger.forget",
		"j.leave()", "j.serve()",
	},
	{
		"those that no longer wait are not counted", "job.leave",
		"u.waiting--", "_ = u",
	},
	{
		"tasks that may start only once have places of their own class", "jobs.group",
		"j.Job.class(t) == last.class && ", "",
	},
	{
		"a task that may start only once is not stopped for others", "Job.class",
		"case !t.Retryable:\n\t\treturn probe.Yielded", "case false:",
	},
	{
		"a task that may start only once gets no place of those that may be stopped", "jobs.choose",
		"other.class == g.class && ", "",
	},
	{
		"a job is regular when it is due", "group.standing",
		"!j.due.IsZero() && !now.Before(j.due)", "false",
	},
	{
		"spare jobs wait, and others are not refused for that", "jobs.waits",
		"if c.cfg.MaxWait < 0 || j.Class == Spare {\n\t\treturn\n", "if c.cfg.MaxWait < 0 {\n\t\treturn\n",
	},
	{
		"before a job goes on that was held, workers are asked whether it is still here", "planner.letGo",
		"now.Sub(j.vouchedAt) >= vouchFor", "false",
	},
	{
		"those are asked that have been there for longest", "planner.elders",
		"cmp.Or(a.since.Compare(b.since)", "cmp.Or(b.since.Compare(a.since)",
	},
	{
		"a job goes on when all that were asked have answered", "ledger.claimed",
		"j.vouched(j.vouchers-1, now)", "j.vouched(0, now)",
	},
	{
		"whoever is asked and does not answer holds up nothing for long", "jobs.settle",
		"soonest(j.vouchUntil)", "",
	},
	{
		"a full queue is no reason to wait while another one may have room", "ledger.allFull",
		"w != last.Worker && now.After(c.at(w).fullUntil)", "false",
	},
	{
		"when all queues are full, the tasks of a job wait for others of it to end", "planner.match",
		"g.isFull(picked[g]) || ", "",
	},
	{
		"a worker that comes has room for some that wait for others to end", "ledger.link",
		"c.widenBy(w.Worker)\n", "",
	},
	{
		"a task that waits for others to end can be cancelled", "jobs.unmatch",
		"t.group.crowd.Remove(x)", "",
	},
	{
		"a failure that a claim has found beside another attempt counts once", "ledger.again",
		"claims || m.Attempt.Frontend != c.cfg.ID {", "claims {",
	},
	{
		"a task that was lost with its link is not lost", "ledger.refused",
		"m.Knows > now.Sub(a.sent)", "false",
	},
	{
		"what a worker knows has to reach back to when the task was sent", "ledger.refused",
		"m.Knows > now.Sub(a.sent)", "m.Knows > 0",
	},
	{
		"a turn goes to the later stage of an older job", "planner.ready",
		"if g := c.share(r.group, w, now, true); g != nil {", "if g := c.share(r.group, w, now, true); g != nil && false {",
	},
	{
		"a turn goes to no later stage of a younger job", "planner.share",
		"|| senior && compareJobs(k, j) >= 0 {", "{",
	},
	{
		"a turn goes to no first stage of an older job", "planner.share",
		"k.Policy.Seniority && other.later()", "k.Policy.Seniority",
	},
	{
		"a place that has lent its turn stays", "ledger.bind",
		"if bind.Keep = own.Policy.Sticky &&", "if bind.Keep = !shared && own.Policy.Sticky &&",
	},
	{
		"a later stage tells the age of its job", "group.standing",
		"s.Age = j.age(now)", "s.Age = 0",
	},
	{
		"a tenant's queue has the limit of its entry", "jobs.overfull",
		"case pending+n > limit:", "case false:",
	},
	{
		"a job that is larger than its tenant's queue will never do", "jobs.overfull",
		"case n > limit:", "case false:",
	},
	{
		"a tenant's jobs come no faster than its entry allows", "jobs.tooFast",
		"- time.Second; early > 0 {", "- time.Second; false && early > 0 {",
	},
	{
		"jobs count against the rates of those above their tenant", "jobs.pace",
		"c.paced[path] = later(c.paced[path], now)", "c.paced[name] = later(c.paced[name], now)",
	},
	{
		"those below a path together have its limits", "jobs.settled",
		"for t := j.tenant; t != nil; t = t.above {\n\t\tt.pending -= n", "for t := j.tenant; t != nil; t = nil {\n\t\tt.pending -= n",
	},
	{
		"a new tenant of a path leaves room as those that are there", "jobs.tooMuch",
		"for t := c.nearest(j.Tenant);", "for t := c.tenants[j.Tenant];",
	},
	{
		"a tenant uses no more than its maximum", "jobs.fits",
		"of.used.at[let]+n <= may.All ||", "may.All >= 0 ||",
	},
	{
		"tokens cover as much as they are", "jobs.cover",
		"if has+t.takes() > may {", "if has+t.takes() >= may {",
	},
	{
		"tokens that a task has come back when it ends", "usage.moved",
		"t.spare = false\n\t\tu.spare -= n", "t.spare = false",
	},
	{
		"what ends lets go what is held", "planner.plan",
		"if len(c.holding) > 0 {", "if false {",
	},
	{
		"workers are told what tenants weigh", "ledger.reserve",
		"if m.Weights = j.tenant.weights; g.estimate == 0 {", "if g.estimate == 0 {",
	},
	{
		"workers are told what tenants of long tasks weigh", "ledger.sendEarly",
		"Matrix: t.long != nil, Weights: j.tenant.weights,", "Matrix: t.long != nil,",
	},
	{
		"a new file holds for the tenants that there are", "jobs.setTerms",
		"t.weights = terms.Weights(t.name)", "_ = t",
	},
	{
		"who reserves says what tasks without an estimate typically take", "ledger.reserve",
		"m.Typical = g.Runs.Stats().Typical()", "m.Typical = 0",
	},
	{
		"who leaves accepts no job", "jobs.admit",
		"case c.leaving:", "case false:",
	},
	{
		"the tasks that wait have a bound", "jobs.tooMuch",
		"if free < 0 {", "if free < -9*r.limit {",
	},
	{
		"a tenant leaves room for pending tasks of others", "jobs.tooMuch",
		"of > 0 && (of+r.more)/maxHold > free {", "of < 0 {",
	},
	{
		"the payloads that are held have a bound", "jobs.tooMuch",
		"c.payloads, j.payloads, c.cfg.MaxPayloads,", "0, j.payloads, c.cfg.MaxPayloads,",
	},
	{
		"payloads are let go of with their tasks", "ledger.end",
		"c.unload(j, len(t.spec.Payload))", "",
	},
	{
		"payloads are let go of with their job", "jobs.depart",
		"c.unload(j, j.payloads)", "",
	},
	{
		"a tenant is not refused because another one waits", "jobs.waitsTooLong",
		"u := c.forgetServed(waiters{g.Set, c.tenants[j.Tenant]})\n", "u := (*unserved)(nil)\n\t\tfor of := range c.unserved {\n\t\t\tu = c.forgetServed(of)\n\t\t}\n",
	},
	{
		"room is offered to tenants by turns", "hungry.served",
		"if list.Has(t) && h.all.Last() != t {", "if false {",
	},
	{
		"the jobs looked at are not those of one tenant", "hungry.first",
		"jobs = append(jobs, t.hungry.First())\n\t}", "for j := range t.hungry.All() {\n\t\t\tif len(jobs) < mostLooked {\n\t\t\t\tjobs = append(jobs, j)\n\t\t\t}\n\t\t}\n\t}",
	},
	{
		"a turn for which no task waits is declined", "planner.ready",
		"if r == nil {\n\t\treturn c.decline(w, m, acts)", "if r == nil {\n\t\treturn acts",
	},
	{
		"a place that was declined is gone", "planner.ready",
		"c.dropPlace(w, m.Res, r, place.Declined)", "_ = place.Declined",
	},
	{
		"a deadline that a worker tells of is that of the job", "ledger.conclude",
		"return c.overdue(j, now, acts) // it knew", "return c.end(t, Outcome{Kind: DeadlineExceeded}, now, acts) // it knew",
	},
	{
		"a claimed attempt that failed counts once", "ledger.finishedElsewhere",
		" || t.group.job.failed[m.Attempt]", "",
	},
	{
		"who was told when to come back does not come before", "jobs.putOff",
		"j.retryAt = until", "j.retryAt = now",
	},
	{
		"tasks that were given out before go first", "task.move",
		"if from == blocked || from == held || from == claiming {", "if true {",
	},
	{
		"tasks that have waited for others go last", "task.move",
		"if from == blocked || from == held || from == claiming {", "if false {",
	},
	{
		"a sample that is forgotten has no fates", "decisions.fates",
		"r.sample+maxSamples <= ds.taken ||", "",
	},
	{
		"what becomes of a place is remembered", "ledger.dropPlace",
		"c.log.fates(r).Add(fate, 1)", "",
	},
	{
		"a job whose link broke gets other places", "ledger.dropPlaces",
		"c.want(r.group)\n\t\tc.dropPlace", "c.dropPlace",
	},
	{
		"a worker that comes is offered to all that wait", "ledger.link",
		"c.wantAll = true", "",
	},
	{
		"a job whose places are used up gets others", "ledger.bind",
		"own.live == 0 && own.job.waiting > 0", "false",
	},
	{
		"rides that come back are bound in their order", "ledger.queued",
		"for i := m.Count; i > 0; i-- { // the first one goes to the front last\n\t\tid := m.First + probe.ResID(i-1)", "for i := range m.Count {\n\t\tid := m.First + probe.ResID(i)",
	},
	{
		"tasks of a worker that went away are bound in their order", "Core.workerGone",
		"slices.Backward(w.attemptsInOrder())", "slices.All(w.attemptsInOrder())",
	},
	{
		"a job lets go of reservations that are used up", "reservation.release",
		"r.group.places.Remove(r)", "",
	},
	{
		"a place is kept only while tasks wait", "ledger.bind",
		"own.Policy.Sticky && c.choose(own, w, now) != nil", "own.Policy.Sticky",
	},
	{
		"a task that rode along and was not started waits again", "planner.ready",
		"c.unride(a, r) // its Queued was overtaken", "_ = a",
	},
	{
		"a place serves only tasks that may run there", "job.hungryAt",
		"s.group.Set.Contains(w.Worker) && !yield", "!yield",
	},
	{
		"a place serves only tasks that it has room for", "jobs.choose",
		"other.Demand.Fits(g.Demand) && c.first(other, w, now) != nil {", "c.first(other, w, now) != nil {",
	},
	{
		"a place whose task may have started is not cancelled", "ledger.cancel",
		"r.w.places[id] != r || r.ride(id) != nil", "r.w.places[id] != r",
	},
	{
		"a result is acknowledged when the client has it", "ledger.delivered",
		"acts = c.ack(w, r.Attempt, now, acts)", "",
	},
	{
		"a result is not acknowledged before the client has it", "ledger.receipt",
		"if w.State() == view.Draining {\n\t\treturn Receipt{}", "if true {\n\t\treturn Receipt{}",
	},
	{
		"a worker that leaves does not wait for clients", "ledger.receipt",
		"if w.State() == view.Draining {\n\t\treturn Receipt{}", "if false {\n\t\treturn Receipt{}",
	},
	{
		"a failure that is tried again is acknowledged", "ledger.again",
		"acts = c.ack(a.w, m.Attempt, now, acts)\n\tclaims :=", "claims :=",
	},
	{
		"an attempt that is claimed and failed may have been followed by another", "ledger.again",
		"if claims {\n\t\treturn acts", "if false {\n\t\treturn acts",
	},
	{
		"a result of a job that is not here is left to who has it", "ledger.finishedElsewhere",
		"case t == nil: // whoever", "case false: // whoever",
	},
	{
		"an answer to an earlier claim is none to this one", "ledger.claimed",
		"j == nil || j.Generation != m.Generation", "j == nil",
	},
	{
		"a claim that comes too late ends the job here", "ledger.claimed",
		"case m.Moved:", "case false:",
	},
	{
		"places that are refused as moved end the job here", "ledger.refused",
		"case probe.Moved:\n\t\treturn c.allMoved(now, acts)\n\tcase probe.QueueFull:", "case probe.QueueFull:",
	},
	{
		"a task that may start only once waits for the end of the claim", "ledger.unclaimed",
		"case !t.spec.Retryable && !over:", "case false:",
	},
	{
		"who started since cannot say that a task never did", "ledger.claimed",
		"j.Age == 0 || m.Knows < j.age(now)+c.sureFor()", "false",
	},
	{
		"who cannot be reached may have started a task", "ledger.doubt",
		"case w.Listed() && w.State() == view.Down:", "case false:",
	},
	{
		"who has left may have started a task", "ledger.doubt",
		"if left := c.view.LastDeparture(); left != (view.Departure{}) &&", "if left := c.view.LastDeparture(); false &&",
	},
	{
		"a frontend that has just started waits for its first links", "ledger.claim",
		"if w.State() != view.Down || w.Awaited() {", "if w.State() != view.Down {",
	},
	{
		"a worker that comes later is told whose a job is", "ledger.link",
		"j.untold[w] || fresh && j.Generation > 0", "j.untold[w] || fresh && j.Generation < 0",
	},
	{
		"so is one that was away", "ledger.link",
		"j.untold[w] || fresh && j.Generation > 0", "fresh && j.Generation > 0",
	},
	{
		"a result that is told again stays no longer than one that nobody owns", "ledger.finishedElsewhere",
		"what acknowledged it may have been lost\n\t\treturn disown(w, m.Attempt, acts)", "\n\t\treturn acts",
	},
	{
		"who leaves acknowledges what it has", "ledger.leave",
		"if w != nil && len(w.acks) > 0 {", "if false {",
	},
	{
		"who leaves acknowledges at once what still comes", "ledger.ack",
		"len(w.acks) == ackBatch || c.leaving", "len(w.acks) == ackBatch",
	},
	{
		"a result counts once", "ledger.finished",
		"c.dropAttempt(a)\n\treturn c.over(", "return c.over(",
	},
	{
		"a task that may start only once is not started again when it was killed", "ledger.over",
		"m.Status == probe.Killed && !t.spec.Retryable", "false",
	},
	{
		"a task that may start only once is not started again when it failed", "ledger.triesAgain",
		"t.failures < t.spec.Retries && t.spec.Retryable", "t.failures < t.spec.Retries",
	},
	{
		"a task that may start only once is not started again when it was lost", "ledger.lose",
		"if !t.spec.Retryable {\n\t\tc.Stats.Lost++", "if false {\n\t\tc.Stats.Lost++",
	},
	{
		"a task that may start only once is not started again when its frontend was lost", "ledger.unclaimed",
		"case !t.spec.Retryable && doubt != \"\":", "case false:",
	},
	{
		"a task that kills workers is poison", "ledger.lose",
		"t.losses >= c.cfg.PoisonAfter", "t.losses > c.cfg.PoisonAfter",
	},
	{
		"only a task that ran is poison", "ledger.lose",
		"if died && a.ran {", "if died {",
	},
	{
		"an attempt whose task has its outcome is killed", "ledger.started",
		"probe.Kill{Attempt: m.Attempt}}) // its task", "probe.Kill{}}) // its task",
	},
	{
		"a stray result does not end a task that has another attempt", "ledger.finishedElsewhere",
		"case t.state == claiming:\n\t\tt.attempts++", "case t.state != done:\n\t\tt.attempts++",
	},
	{
		"a job that moved is left alone", "ledger.allMoved",
		"for _, j := range c.wanting() {\n\t\tacts = c.moved(j, now, acts)", "for range c.wanting() {",
	},
	{
		"the place of a task that is handed back is believed in again", "ledger.refused",
		"c.restore(a)\n", "",
	},
	{
		"what crossed a gone is not lost", "ledger.gone",
		"now.Sub(a.sent) >= probe.SyncAge", "true",
	},
	{
		"a resubmitted job starts when all workers have answered", "ledger.answered",
		"if delete(j.asked, w); len(j.asked) == 0 {", "if delete(j.asked, w); true {",
	},
	{
		"a job that ends cancels its places", "ledger.forget",
		"acts)\n\tc.depart(j)", "acts)[:len(acts)]\n\tc.depart(j)",
	},
	{
		"a job that is cancelled stops its attempts", "ledger.halt",
		"probe.Kill{Attempt: a.id, Res: a.res, Turn: a.turn}", "probe.Kill{}",
	},
	{
		"attempts at another life of a worker are lost", "Core.workerUp",
		"if w.State() == view.Adrift && w.Welcome().Incarnation != ev.Welcome.Incarnation {", "if false {",
	},
	{
		"attempts are claimed when the link is back", "ledger.link",
		"probe.Claim{Job: a.job.ID, Attempt: a.id, Generation: a.job.Generation}", "probe.Pong{Seq: a.id.Seq}",
	},
	{
		"a link that breaks takes its places along", "ledger.unlink",
		"c.dropPlaces(w)\n", "\n",
	},
	{
		"queue lengths of a link that breaks count no more", "Core.linkLost",
		"return c.forgetRounds(w, now, acts)", "return acts",
	},
	{
		"the attempts at a worker that is gone are lost", "Core.workerGone",
		"acts = c.lose(a, true, fmt.Sprintf(\"worker %s went away\", w.Welcome().Worker), now, acts)", "_ = fmt.Sprint(a)",
	},
	{
		"a sync does not name places whose tasks may have started", "worker.sync",
		"if r.ride(id) == nil {", "if r != nil {",
	},
	{
		"a worker whose queue is full gets no more until it tells its matrix", "ledger.full",
		"c.view.ForgetMatrix(w.Worker)\n\tw.askFrom", "w.askFrom",
	},
	{
		"who does not tell its matrix is not waited for", "planner.placeLong",
		"c.unanswered() && now.Before(l.until)", "c.unanswered()",
	},
	{
		"a task that is larger than what is open to long ones may use all", "ledger.hitch",
		"t.long.whole = true", "",
	},
	{
		"a task that is refused by name of its attempt and place is counted as such", "ledger.hitch",
		"if t.hitches++; t.hitches < maxHitches {", "if t.hitches < maxHitches {",
	},
	{
		"what was added before is not added again", "Core.extend",
		"again := ev.From < had && ev.From+n <= had", "again := false",
	},
	{
		"an open job does not end with its tasks", "ledger.end",
		"if j.left == 0 && (!j.Open || j.ending) {", "if j.left == 0 {",
	},
	{
		"an open job that has no task left ends when nothing is added any more", "Core.extend",
		"if j.seal(); j.left == 0 {", "if j.seal(); false {",
	},
	{
		"an open job that has no task left ends with its deadline", "ledger.endAll",
		"if j.ending = true; j.left == 0 {", "if j.ending = true; false {",
	},
	{
		"nothing of an open job is late when it has no task left", "ledger.end",
		"c.settle(j, now) // nothing of it is late any more", "_ = now",
	},
	{
		"nothing is added to a stage that has ended", "jobs.checkStages",
		"if int(t.Stage) < first && s.ended() {", "if false && s.ended() {",
	},
	{
		"a job may not grow beyond what a job may have", "jobs.addition",
		"case j.had+n > most:", "case n > most:",
	},
	{
		"what is added to a job with gaps is found by its index", "jobs.join",
		"if j.byIndex == nil && j.had > len(j.tasks) {", "if false {",
	},
	{
		"what is passed with a task that is added counts from the start", "jobs.join",
		"t.weigh()", "_ = t",
	},
	{
		"whoever comes back with more of a job than is known has it claimed anew", "Core.Knows",
		"return j == nil || j.had >= spec.Had && (spec.Open || !j.Open)", "return j == nil || true",
	},
	{
		"a stage waits for those before it", "job.count",
		"s.blocking, s.ready = j.blockers(s)", "s.blocking, _ = j.blockers(s); s.ready = true",
	},
	{
		"a stage is ready when it goes along all that have not ended", "job.blockers",
		"ready = ready && slices.Contains(s.along, k)", "ready = false",
	},
	{
		"a task waits for its partitions of the stages along which its own goes", "job.blocks",
		"(t.awaits > 0 || !j.stages", "(!j.stages",
	},
	{
		"a task goes on when the last of its partitions has ended", "jobs.partitionOf",
		"c.freed = append(c.freed, next)", "_ = next",
	},
	{
		"a partition has ended when all of its tasks have", "jobs.partitionOf",
		"if s.pending[p]--; s.pending[p] > 0 {", "if s.pending[p]--; false {",
	},
	{
		"a task is passed what its own partitions have left", "task.madeFor",
		"if !slices.Contains(j.stages[t.group.number].along, from) {", "if true {",
	},
	{
		"a stage that others go along is not added to", "jobs.checkStages",
		"if int(t.Stage) < first && j.led(int(t.Stage)) {", "if false {",
	},
	{
		"a stage has not ended before those before it have", "stage.ended",
		"return s.left == 0 && s.blocking == 0", "return s.left == 0",
	},
	{
		"of a job that is submitted again, stages wait, too", "ledger.unclaimed",
		"c.await(t)", "t.move(waiting)",
	},
	{
		"a task that was claimed before its turn, and failed, waits for the stages before its own", "jobs.await",
		"if j.blocks(t) { // also if", "if false { // also if",
	},
	{
		"what stages have in common is told again when a link was made again", "ledger.unlink",
		"	c.untell(w)\n", "",
	},
	{
		"what stages have in common is forgotten with the job", "ledger.forget",
		"acts = c.retract(j, acts)", "_ = c.retract",
	},
	{
		"a function may say that its task is not to be tried again", "ledger.triesAgain",
		" && m.Retry != probe.Never\n", "\n",
	},
	{
		"a task that has failed rests before it is tried again", "ledger.again",
		"if rests > 0 {", "if false {",
	},
	{
		"a task rests longer with each failure", "task.backoff",
		"rests = min(2*rests, maxBackoff)", "rests = min(rests, maxBackoff)",
	},
	{
		"who does not fail by itself does not rest", "ledger.over",
		"case m.Status == probe.Killed:\n\t\treturn c.again(a, m, 0,", "case m.Status == probe.Killed:\n\t\treturn c.again(a, m, t.backoff(),",
	},
	{
		"what rests is woken", "Core.NextWake",
		"soonest(c.resting.Min().rested)", "_ = c.resting.Min().rested",
	},
	{
		"a task that ends rests no more", "jobs.unwait",
		"		c.resting.Remove(rester{t})\n", "",
	},
	{
		"a task that shuns a worker goes to another one", "line.For",
		"if l.shy[i].of != w {", "if true {",
	},
	{
		"a task shuns the only worker in vain", "group.avoidable",
		"if g.Set.Len() > 1 {", "if true {",
	},
	{
		"what is passed comes from its own partition", "task.madeFor",
		".made[in.Partition]", ".made[0]",
	},
	{
		"who does not know of it gets no task that something is passed to", "jobs.group",
		"need.Features = probe.Passing", "need.Features = 0",
	},
	{
		"another frontend gets what tasks have left", "jobs.checkPassing",
		"j.keep(s, m)", "_ = m",
	},
	{
		"a set of workers lets go of jobs that have ended", "jobs.unuse",
		"c.forgetServed(waiters{g.Set, g.job.tenant})", "",
	},
	{
		"nobody waits for matrices when the tasks are gone for which they were asked", "planner.placeLong",
		"c.askedEnough()\n\t\treturn acts", "return acts",
	},
	{
		"a tenant whose part of a maximum is too small for its tasks gets one to run in the end", "jobs.fits",
		"of.used.at[let] == 0 && of.starved > c.patience", "false",
	},
	{
		"a task that rests leaves its room to others of its job", "ledger.again",
		"c.want(t.group) // for another task, if this one rests", "if rests == 0 {\n\t\tc.want(t.group)\n\t}",
	},
	{
		"a full queue takes no more of a job than it has", "ledger.refused",
		"g.narrow()", "",
	},
	{
		"a task that has ended makes room for another of its job", "ledger.end",
		"c.widen(t.group)", "",
	},
	{
		"tasks of a job that go by queue lengths ask different workers", "planner.measure",
		"if first+each > workers {", "if true {",
	},
	{
		"the answer to a probe is waited for once", "planner.measured",
		"delete(c.rounds.bySeq, m.Seq)", "",
	},
	{
		"a job that moves is no longer matched with workers", "ledger.moved",
		"		c.unwait(t)\n		if t.state != done {", "		if t.state != done {",
	},
	{
		"a task that fails fails the stages after its own", "jobs.stageEnded",
		"case j.cause == \"\":", "case false:",
	},
	{
		"a stage without tasks left ends when those before it have", "jobs.startStages",
		"again = again || s.blocking == 0", "",
	},
	{
		"the sets of a job that is being admitted are kept", "jobs.inUse",
		"own[g.Set] = true", "own[g.Set] = false",
	},
	{
		"a launch tells how much of the job's deadline is left", "task.launchAs",
		"max(deadline.Sub(a.sent), 1)", "0",
	},
	{
		"a deadline says that workers were away", "ledger.overdue",
		"if !j.stranded.IsZero() {\n\t\twhy +=", "if false {\n\t\twhy +=",
	},
	{
		"what a frame says is planned for message by message", "Core.receive",
		"acts = c.take(w, m, now, acts)\n\t}", "acts = c.plan(now, c.take(w, m, now, acts))\n\t\tacts = c.offer(w, now, acts)\n\t}",
	},
	{
		"why one job is refused is true of all in its frame", "Core.receive",
		"case probe.Refused, probe.Evicted: //", "case probe.Welcome: //",
	},
	{
		"a group whose tasks all run is no longer looked at", "task.move",
		"g.rise()", "",
	},
	{
		"a ready worker gets the task whose data it has", "jobs.first",
		"[...]shelfKey{{estimate.Disk, row.Host}, {estimate.Rack, row.Rack}, {estimate.Across, \"\"}}", "[...]shelfKey{{estimate.Across, \"\"}, {estimate.Rack, row.Rack}, {estimate.Disk, row.Host}}",
	},
	{
		"what other hosts can do is left to those with least to choose from", "shelf.first",
		"n := x.elsewhere(); n > most", "n := 0; n > most",
	},
	{
		"a task waits for its data as long as that is worth it", "jobs.shelveTask",
		"x.since.Add(x.sites[len(x.sites)-1].Read - best)", "now",
	},
	{
		"and in the rack for less long", "jobs.shelveTask",
		"x.since.Add(at.Read-best)", "x.since.Add(x.sites[len(x.sites)-1].Read-best)",
	},
	{
		"a task that came back has waited all along", "jobs.shelveTask",
		"if x.attempts != t.attempts {", "{",
	},
	{
		"what would wait behind its own job for too long goes elsewhere at once", "jobs.shelveTask",
		"far.After(now) && c.crowded(n, x, now)", "false",
	},
	{
		"nobody waits for data where long tasks hold the workers", "jobs.crowded",
		"g.Set.Contains(w) && !c.view.IsAvoided(w, now)", "g.Set.Contains(w)",
	},
	{
		"why a task reads its inputs from far is told", "jobs.wentNear",
		"d.Far = Crowded", "d.Far = Waited",
	},
	{
		"a task with inputs whose places do not come round is given more", "planner.resample",
		"acts = c.placeShelf(g.near.anywhere(), n, now, acts)", "",
	},
	{
		"tasks with inputs that may all ride get no places before", "planner.coverNear",
		"acts = c.coverShelves(n, (*planner).rideShelf, now, acts)", "",
	},
	{
		"nobody waits for a holder that is gone", "jobs.nearGone",
		"if row == nil {\n\t\treturn\n\t}", "if row != nil {\n\t\treturn\n\t}",
	},
	{
		"who has the data and comes up gets the tasks that nobody had it for", "ledger.link",
		"c.nearUp()", "",
	},
	{
		"when a wait for data is over, places are drawn anywhere", "Core.NextWake",
		"soonest(c.ripening.Min().green.Min().from)", "",
	},
	{
		"a place that is lost near the data is replaced", "near.queued",
		"places < 0 && s.ripe.Len() > 0 && s.missing() > 0", "false && s.missing() > 0",
	},
	{
		"a turn that another job is given is for tasks that may go there", "planner.share",
		"other.Demand.Fits(g.Demand) && c.first(other, w, now) != nil &&\n", "other.Demand.Fits(g.Demand) &&\n",
	},
	{
		"a worker expects a task to read its inputs, too", "task.expect",
		"expected += t.near.read", "",
	},
	{
		"what is learnt of a run leaves out reading inputs", "ledger.remember",
		"run.Read, run.Bytes = x.read, t.spec.inputBytes()", "run.Bytes = t.spec.inputBytes()",
	},
	{
		"dear messages wait for others", "ledger.dear",
		"10*c.view.Price() > LingerFor && ", "false && ",
	},
	{
		"cheap messages do not wait", "ledger.dear",
		"10*c.view.Price() > LingerFor && ", "",
	},
	{
		"messages for tasks that are not short do not wait", "ledger.dear",
		" && g.Short(c.view.Trip())", "",
	},
	{
		"an attempt that was lost is told beside the one that counted", "ledger.lose",
		"c.stopped(a, EndLost, now)\n", "",
	},
	{
		"an outcome tells what its run was expected to be", "task.launch",
		"t.expected = t.expect(trip)\n\treturn t.launchAs(a, t.expected)", "return t.launchAs(a, t.expect(trip))",
	},
	{
		"a copy that finishes first has the other attempt killed", "ledger.prefer",
		"acts = c.halt(a.task.attempt, \"stopped: its copy was done first\", now, acts)", "c.withdraw(a.task.attempt)",
	},
	{
		"the first to finish has its copy killed", "ledger.end",
		"acts = c.stopRest(t, now, acts)\n", "",
	},
	{
		"a copy may take the place of the first attempt while its link is broken", "task.promote",
		"to := bound\n\tswitch {\n\tcase a.w.State() == view.Adrift:", "to := bound\n\tswitch {\n\tcase false:",
	},
	{
		"what may start only once has no copy", "ledger.whyNoCopy",
		"case !t.spec.Retryable:", "case false:",
	},
	{
		"what was lost with a worker has no copy", "ledger.whyNoCopy",
		"case t.losses > 0:", "case false:",
	},
	{
		"copies are a share of the tasks", "ledger.copiesLeft",
		"c.Stats.Copies < max(1, uint64(c.cfg.Copies*float64(c.Stats.Tasks)))", "true",
	},
	{
		"a copy whose link breaks does not set its task adrift", "ledger.unlink",
		"a.task.copy != a && ", "",
	},
	{
		"a copy fails, and the first attempt goes on", "ledger.finished",
		" && !c.triesAgain(t, m, now) {", " {",
	},
	{
		"a copy is worth what it saves", "planner.copyLong",
		"float64(l.left) <= worthCopy*float64(best)", "false",
	},
	{
		"the place of a ride that comes back is cancelled while its copy goes on", "ledger.queued",
		"of.waiting == 0 && of.Policy.Cancel {", "false {",
	},
	{
		"a second attempt that a claim finds becomes the copy", "ledger.adoptsCopy",
		"t.group.job.Generation > 0 && id.Frontend", "false && id.Frontend",
	},
	{
		"a short copy that finds no room is withdrawn", "ledger.queued",
		"a == a.task.copy && a.task.long == nil {", "false {",
	},
	{
		"a tenant with a maximum has no copies", "ledger.whyNoCopy",
		"All != tenants.Unlimited:", "All > tenants.Unlimited:",
	},
	{
		"what has not begun to run has no copy", "task.runs",
		"(t.state == bound || t.state == riding) && !t.attempt.since.IsZero()", "t.attempt != nil",
	},
	{
		"the first copy is always within the budget", "ledger.copiesLeft",
		"max(1, uint64(c.cfg.Copies*float64(c.Stats.Tasks)))", "uint64(c.cfg.Copies*float64(c.Stats.Tasks))",
	},
	{
		"a long task that is late has one copy", "planner.copyLong",
		"if t.copy != nil {\n\t\t\tcontinue // its end is that of its copy, at the latest\n\t\t}\n", "",
	},
	{
		"a short task that is late has one copy", "planner.copyShort",
		"t := l.task\n\t\tif t.copy != nil {\n\t\t\tcontinue\n\t\t}\n", "t := l.task\n",
	},
	{
		"only tasks on which the end of their job depends have copies", "planner.copyLong",
		"l.left <= end || ", "",
	},
	{
		"what has longest left has its copy first", "longestFirst",
		"cmp.Compare(b.left, a.left)", "cmp.Compare(a.left, b.left)",
	},
	{
		"a job whose tasks wait has no copies", "jobs.whyNotLast",
		"case j.waiting+j.matching > 0:", "case false:",
	},
	{
		"a short task is late when it has run twice as long as any other", "planner.shortLate",
		"a.since.Add(2*longest", "a.since.Add(longest",
	},
	{
		"few runs do not tell that a short task is late", "planner.shortLate",
		"seen < enoughRuns", "seen < 1",
	},
	{
		"a short copy goes to another worker", "planner.idleFor",
		"w != t.attempt.w.Worker && w != t.shuns", "w != t.shuns",
	},
	{
		"a short copy goes where there is room", "planner.idleFor",
		" && w.Room(t.spec.Demand) > 0", "",
	},
	{
		"a long copy goes to another worker", "planner.soonest",
		"w == t.attempt.w.Worker || w == t.shuns", "w == t.shuns",
	},
	{
		"a long copy does not go where the task failed", "planner.soonest",
		"w == t.attempt.w.Worker || w == t.shuns || ", "w == t.attempt.w.Worker || ",
	},
	{
		"where one of two attempts is lost, the other goes on", "ledger.lose",
		"if c.goesOn(t) {\n\t\treturn acts\n\t}\n\tc.Stats.Retries++\n\tc.await(t)", "c.Stats.Retries++\n\tc.await(t)",
	},
	{
		"where one of two attempts comes back, the other goes on", "ledger.takeBack",
		"if !c.goesOn(a.task) {\n\t\tc.await(a.task)\n\t}", "c.await(a.task)",
	},
	{
		"where one of two attempts has failed or was killed, the other goes on", "ledger.again",
		"if c.goesOn(t) {\n\t\treturn acts\n\t}\n\tif m.Status", "if m.Status",
	},
	{
		"a copy that waits in its queue goes on there", "task.promote",
		"case !a.ran:\n\t\tto = enqueued", "case false:\n\t\tto = enqueued",
	},
	{
		"of two attempts at a worker that goes away, the second is not lost again if the task has ended with the first", "Core.workerGone",
		"if w.attempts[a.id] != a {", "if false {",
	},
	{
		"a place that is handed back while a copy goes on is cancelled", "ledger.refused",
		"a.job.waiting == 0 && a.job.Policy.Cancel {", "false {",
	},
	{
		"of three attempts that claims find, one is stopped", "ledger.adoptsCopy",
		"t.attempt != nil && t.copy == nil && t.spec", "t.attempt != nil && t.spec",
	},
	{
		"what may start only once has no second attempt that a claim finds", "ledger.adoptsCopy",
		"t.copy == nil && t.spec.Retryable && ", "t.copy == nil && ",
	},
	{
		"a copy that is killed, or stopped for what is regular, does not give the outcome", "ledger.finished",
		"m.Status != probe.Killed && m.Status != probe.Preempted && !c", "!c",
	},
	{
		"a spare job's path is told to be by its class", "jobs.route",
		"Cause: estimate.ByClass", "Cause: estimate.ByMode",
	},
	{
		"why a task has no copy is told", "Core.Explain",
		"d.Copies = c.tellCopy(t)", "_ = t",
	},
	{
		"of which attempt one is a copy is told", "ledger.commitCopy",
		"d.Choice, d.Tries, d.Outcome, d.CopyOf = *choice, 1, \"sent\", t.attempt.id", "d.Choice, d.Tries, d.Outcome = *choice, 1, \"sent\"",
	},
	{
		"the tenants are bounded of which refused jobs are counted", "turnedAway.add",
		"len(c.of) < maxRefused", "true",
	},
	{
		"a tenant that comes late is counted if enough of it is refused", "turnedAway.add",
		"r.tenant, r.missed, r.n = tenant, r.rank(), 0", "r.tenant, r.missed, r.n = tenant, 0, 0",
	},
	{
		"a tenant with refused jobs alone is told of", "Core.Tenants",
		"if c.tenants[name] == nil {", "if false {",
	},
	{
		"what needs files has no copy that is to start at once", "planner.lookAtTail",
		"case t.long == nil && len(t.spec.Files) == 0 && c.mayCopy(t)", "case t.long == nil && c.mayCopy(t)",
	},
	{
		"workers are asked how long a copy would wait there, if it is not known", "planner.copyLong",
		"acts = c.askForCopy(t, now, acts)", "_ = t",
	},
	{
		"of those, the one is not asked where the task is", "planner.askForCopy",
		"w != t.attempt.w && w.mayAsk", "w.mayAsk",
	},
	{
		"spare work has no copies", "jobs.whyNotLast",
		"case j.Class == Spare:", "case false:",
	},
	{
		"what waits for longer than it was to may have a copy", "ledger.whyNoCopy",
		"!t.runs() && !t.slips()", "!t.runs()",
	},
	{
		"what waits for as long as it was to has no copy", "task.slips",
		"t.queues() && t.attempt.starts.After(t.attempt.sent.Add(t.long.wait))", "t.queues()",
	},
	{
		"of two attempts that wait, the first that starts withdraws its copy", "ledger.begun",
		"case a == t.attempt && t.copy != nil && !t.copy.ran:", "case false:",
	},
	{
		"of two attempts that wait, the copy that starts withdraws the first", "ledger.begun",
		"case a == t.copy && !t.attempt.ran:", "case false:",
	},
	{
		"a copy that starts does not withdraw a first attempt that runs", "ledger.begun",
		"a == t.copy && !t.attempt.ran", "a == t.copy",
	},
	{
		"an attempt that is found to run again does not withdraw its copy", "ledger.started",
		"waited := !a.ran", "waited := true",
	},
	{
		"what is left of a task that waits is its wait, and its run", "planner.left",
		"max(a.starts.Sub(now), 0) + x.run", "x.run",
	},
	{
		"where a task of a job that may have no copy ends last, none has a copy", "planner.copyLong",
		"end = l.left\n", "\n",
	},
	{
		"what a task says of its progress tells what is left of it", "planner.left",
		"case a.progress.done > 0:", "case false:",
	},
	{
		"what takes long on a sound machine would take as long elsewhere", "planner.workOfCopy",
		"!t.runs() || p.done == 0 || p.done >= 1 || a.w.Pace() == 0", "true",
	},
	{
		"what takes long on a slow machine would take less long elsewhere", "planner.workOfCopy",
		"times(1/(1-p.done)/a.w.Pace(), p.left)", "times(1/(1-p.done), p.left)",
	},
	{
		"a copy on a slow machine takes longer", "planner.soonest",
		"k.C + times(paceOf(w)-1, k.R)", "k.C",
	},
	{
		"a ride that has not come back counts as a start", "jobs.presumeStarted",
		"if !j.served && j.dropSettledRides()", "if false && j.dropSettledRides()",
	},
	{
		"a ride that comes back late does not count as a start", "jobs.checkPresumed",
		"if !j.presumed || j.dropSettledRides() {", "if true {",
	},
	{
		"a job that waits again does so since it was submitted", "jobs.checkPresumed",
		"u.jobs = slices.Insert(u.jobs, at, j)", "_ = at",
	},
}}
