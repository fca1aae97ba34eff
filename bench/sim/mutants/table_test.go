package mutants

// table is the mutants. Keep the old texts short and central, so that they last.
var table = []mutant{
	{
		"tasks take what finished ones of their class used", "frontend/demand.go",
		"if t.Class == \"\" {", "if true {",
	},
	{
		"what a function uses says nothing of a class", "frontend/demand.go",
		"if t.Class == \"\" {", "if false {",
	},
	{
		"what is refined is at no worker more than it has", "frontend/demand.go",
		"if g.seen == 0 {", "if true {",
	},
	{
		"of CPU what most used counts", "frontend/estimate/learn.go",
		"cpu[(len(cpu)-1)*3/4]", "cpu[len(cpu)-1]",
	},
	{
		"who meets another task hears it at once", "worker/places.go",
		"answer.Wait = c.waitOf(p, now)", "",
	},
	{
		"who hears that its task waits looks soon whether it is late", "frontend/core.go",
		"c.hurry(w, &m, now)", "",
	},
	{
		"workers are asked before a copy starts where nobody was to wait", "frontend/tail.go",
		"old(choice.Choice()) {", "false {",
	},
	{
		"no place is asked early that could start", "worker/spare.go",
		" || p.launch == nil && p.needs().fits(c.free)", "",
	},
	{
		"what is lost with its worker is made again", "frontend/remake.go",
		"case len(lost) > 0:", "case false:",
	},
	{
		"what may start only once is not made again", "frontend/remake.go",
		"case !p.spec.Retryable:", "case false:",
	},
	{
		"what ran for another frontend is made again, if its client says how", "frontend/remake.go",
		"if by == nil || by.Spec == nil {", "if true {",
	},
	{
		"what a worker has thrown away is made again", "frontend/remake.go",
		"gone := slices.", "gone := false && slices.",
	},
	{
		"what was made again since is there", "frontend/remake.go",
		"gone && m.at.After(a.sent)", "false",
	},
	{
		"what runs again for another frontend passes on what it has left", "frontend/passing.go",
		"read(m.Spec)", "_ = read",
	},
	{
		"a task that runs again for another frontend is counted once", "frontend/remake.go",
		"c.settled(j, 1)\n\treturn t", "return t",
	},
	{
		"how a task runs again fits its job", "frontend/stages.go",
		"if wrong := reads.check(m.Spec); wrong != \"\" {", "if wrong := \"\"; wrong != \"\" {",
	},
	{
		"nothing is made again for ever", "frontend/remake.go",
		"p.state == done && p.remade == maxRemade:", "false:",
	},
	{
		"a worker that was started again has nothing of before", "frontend/remake.go",
		" && (m.run == 0 || m.run == w.Welcome().Incarnation)", "",
	},
	{
		"a client hears once of a task that runs again", "frontend/outcomes.go",
		"if t.remade > 0 {\n\t\tacts = c.remadeEnded", "if t.remade > 0 {\n\t\tacts = append(acts, &Done{j.ID, *o})\n\t\tacts = c.remadeEnded",
	},
	{
		"what was left before is not passed beside what is left now", "frontend/passing.go",
		"if t.remade > 0 {\n\t\tj.replaced", "if false {\n\t\tj.replaced",
	},
	{
		"a result that is a file is no output for later stages", "frontend/outcomes.go",
		"o.Outputs[n-1].Partition == probe.ResultPartition", "false",
	},
	{
		"tasks of a full job are not bound by queue lengths", "frontend/early.go",
		"c.await(t); t.state == waiting {", "c.await(t); true {",
	},
	{
		"no task of a full job starts", "frontend/stages.go",
		"return j.full || ", "return ",
	},
	{
		"what waits of a job that is full does not start, either", "frontend/tasks.go",
		"case full && (t.state == waiting", "case false && (t.state == waiting",
	},
	{
		"a job that is not full any more goes on", "frontend/tasks.go",
		"case t.state == blocked && !j.blocks(t):", "case false:",
	},
	{
		"places that a full job does not need are cancelled", "frontend/core.go",
		"ev.Full && j.Policy.Cancel", "false",
	},
	{
		"what is added to a full job does not start", "frontend/tasks.go",
		"if !j.full && (len(", "if (len(",
	},
	{
		"preempted is no failure", "frontend/outcomes.go",
		"case m.Status == probe.Preempted:", "case false:",
	},
	{
		"to be stopped is no failure when it is told to a claim, either", "frontend/outcomes.go",
		"t.group.job.serve()\n\t\treturn c.over(", "t.group.job.serve()\n\t\treturn c.conclude(",
	},
	{
		"the class of what has ended is told", "frontend/record.go",
		"s.first, s.why, s.class, s.demand = first, g.why, g.told(), g.takesWhy()", "s.first, s.why = first, g.why",
	},
	{
		"the class of what is placed by estimation is told", "frontend/tasks.go",
		"d.Class, d.Choice, d.At = x.task.told(), ", "d.Choice, d.At = ",
	},
	{
		"a hint alone does not say that a task is late", "frontend/tail.go",
		"t.spec.Estimate > 0 && ran <= hintsWithin*run", "false",
	},
	{
		"what is spare takes nothing of the tokens", "frontend/budget.go",
		"t.spare = t.spare || t.group.class != probe.Regular; t.spare", "t.spare",
	},
	{
		"what tokens do not cover is spare", "frontend/class.go",
		"case !t.isBeyond():", "default:\n\t\treturn t.group.class\n\tcase false:",
	},
	{
		"who names the class regular is regular beyond tokens", "frontend/budget.go",
		"t.spare = t.group.job.Class == Auto", "t.spare = true",
	},
	{
		"of what is beyond tokens no more waits at workers than twice what they cover", "frontend/budget.go",
		"return of.queued+about+g.takes() >", "return false && of.queued+about+g.takes() >",
	},
	{
		"one task beyond tokens may always wait at a worker", "frontend/budget.go",
		" || of.queued+about == 0 {", " {",
	},
	{
		"a token that falls free makes the most urgent regular", "frontend/restamp.go",
		"for c.coversNext(of) {", "for false {",
	},
	{
		"a token that falls free covers what runs first", "frontend/facts.go",
		"y.task.state == bound; a != b {", "y.task.state == bound; false && a != b {",
	},
	{
		"those that wait for tokens are placed when there are some", "frontend/restamp.go",
		"\t\t\tc.admitCrowd(g)\n", "",
	},
	{
		"a worker that knows no classes is not sent a Restamp", "frontend/restamp.go",
		"a.w.Linked() && a.w.Has(probe.Classes)", "a.w.Linked()",
	},
	{
		"what runs and is covered now is not stopped for others", "worker/spare.go",
		"a.standing == yields && m.Standing.Class != probe.Spare", "false",
	},
	{
		"only its own frontend says how an attempt stands", "worker/spare.go",
		"a.owner == l && a.state == running && a.standing == yields", "a.state == running && a.standing == yields",
	},
	{
		"a function that goes on though it was killed, and ends well, has ended well", "worker/exec/gofunc.go",
		"isEnded && (err != nil || ended.status != Killed || time.Since(ended.at) < goesOn)", "isEnded",
	},
	{
		"a function that ends at once when it is killed has not ended well", "worker/exec/gofunc.go",
		"|| time.Since(ended.at) < goesOn)", ")",
	},
	{
		"who is silent is missed, not only who is gone", "frontend/tenants/shares.go",
		"missed > len(there)-len(silent) &&", "2*len(there) < len(s.last) && missed >= 0 &&",
	},
	{
		"who leaves is not missed", "frontend/tenants/shares.go",
		"		if s.silent[name] {\n", "		if s.silent[name] || gone(name) {\n",
	},
	{
		"paths have whole units by turns", "frontend/tenants/shares.go",
		"parts = Whole(has, sharers, drawn(sharers, h.Sum64()))", "parts = Waterfill(has, sharers)",
	},
	{
		"whose turn it is has a unit though its share is less", "frontend/tenants/shares.go",
		"first <= all && parts[turn] <", "first < 0 && parts[turn] <",
	},
	{
		"spare jobs want nothing of the tokens", "frontend/tenants/shares.go",
		"o.Want -= o.Spare", "_ = o",
	},
	{
		"that there is no room for spare work says nothing of the rest", "frontend/outcomes.go",
		"regular = r.group.class == probe.Regular", "_ = r",
	},
	{
		"where spare work goes is not taken", "frontend/places.go",
		"if a.class != probe.Spare {\n\t\tc.view.Take(", "{\n\t\tc.view.Take(",
	},
	{
		"jobs that are refused come back one after the other", "frontend/unserved.go",
		"u.again = now.Add(", "_ = now.Add(",
	},
	{
		"as fast as jobs are served", "frontend/unserved.go",
		"if u.rate > 0 {", "if false {",
	},
	{
		"nobody is sent away for long because of others", "frontend/unserved.go",
		"if after > soonest+longestAway {", "if false {",
	},
	{
		"a job is taken in if few others wait, however long one of them has", "frontend/unserved.go",
		"&& u.many(limit, span, now) {", "{",
	},
	{
		"how many jobs are served is counted over a limit without deadlines", "frontend/unserved.go",
		"u.many(limit, span, now)", "u.many(limit, limit, now)",
	},
	{
		"a job waits once, however many groups it has", "frontend/unserved.go",
		"if slices.Contains(j.waitsIn, u) {", "if false {",
	},
	{
		"jobs that came and went behind one that waits are not kept", "frontend/unserved.go",
		"if len(u.jobs) > 2*u.waiting+64 {", "if false {",
	},
	{
		"jobs come back as fast as all frontends serve them", "frontend/unserved.go",
		"/time.Duration(frontends)", "+0*time.Duration(frontends)",
	},
	{
		"a job that was claimed and runs does not wait", "frontend/places.go",
		"a.job.serve()\n", "\n",
	},
	{
		"nor does one that was claimed and had ended", "frontend/outcomes.go",
		"t.attempts++\n\t\tt.group.job.serve()", "t.attempts++",
	},
	{
		"a job that ends without being served is not counted as served", "frontend/outcomes.go",
		"j.leave()", "j.serve()",
	},
	{
		"those that no longer wait are not counted", "frontend/unserved.go",
		"u.waiting--", "_ = u",
	},
	{
		"tasks that may start only once have places of their own class", "frontend/admit.go",
		"j.Job.class(t) == last.class && ", "",
	},
	{
		"a task that may start only once is not stopped for others", "frontend/class.go",
		"case !t.Retryable:\n\t\treturn probe.Yielded", "case false:",
	},
	{
		"a task that may start only once gets no place of those that may be stopped", "frontend/tasks.go",
		"other.class == g.class && ", "",
	},
	{
		"a job is regular when it is due", "frontend/class.go",
		"!j.due.IsZero() && !now.Before(j.due)", "false",
	},
	{
		"spare jobs wait, and others are not refused for that", "frontend/unserved.go",
		"if c.cfg.MaxWait < 0 || j.Class == Spare {\n\t\treturn\n", "if c.cfg.MaxWait < 0 {\n\t\treturn\n",
	},
	{
		"spare work starts only where nothing regular can", "worker/places.go",
		"acts = c.fillSpare(now, c.preempt(now, acts))\n\tif c.queue.len() > 0 {", "if c.queue.len() > 0 {",
	},
	{
		"room that is freed for a regular place is kept for it", "worker/spare.go",
		"if c.stopping.Len() > 0 && c.regularWaits() {", "if false {",
	},
	{
		"nothing is stopped for a place that has just come", "worker/spare.go",
		"wait := c.cfg.PreemptAfter - waited", "wait := -waited",
	},
	{
		"the more would be lost, the longer regular places wait", "worker/spare.go",
		"min(worthWait*ran,", "min(0*ran,",
	},
	{
		"however much would be lost, regular places do not wait for long", "worker/spare.go",
		"min(worthWait*ran, mostPatience*c.cfg.PreemptAfter)", "worthWait*ran",
	},
	{
		"those that wait do so together", "worker/spare.go",
		"if n++; n > planDepth {\n\t\t\tbreak\n\t\t}\n\t\ts.count(p, 1)", "if n++; n > 1 {\n\t\t\tbreak\n\t\t}\n\t\ts.count(p, 1)",
	},
	{
		"a reservation is asked before something is stopped for it", "worker/spare.go",
		"case p.launch == nil:", "case false:",
	},
	{
		"who asked has something stopped for what it gets", "worker/spare.go",
		"p.clears = true", "p.clears = false",
	},
	{
		"what is bound waits while something stops for it", "worker/places.go",
		"if a.clears && c.stopping.Len() > 0 {", "if false {",
	},
	{
		"what is about to end is not stopped", "worker/spare.go",
		"remaining(expected, ran) > c.cfg.PreemptAfter", "remaining(expected, ran) >= 0",
	},
	{
		"the youngest is stopped first", "worker/spare.go",
		"b.startedAt.Compare(a.startedAt)", "a.startedAt.Compare(b.startedAt)",
	},
	{
		"what is yielded is not stopped", "worker/attempts.go",
		"if a.class == probe.Spare {\n\t\tc.Stats.SpareStarted++", "if a.class != probe.Regular {\n\t\tc.Stats.SpareStarted++",
	},
	{
		"one that does not stop when told counts like any other", "worker/spare.go",
		"c.setStanding(c.stopping.First().attempt, stays)", "c.stopping.Remove(c.stopping.First())",
	},
	{
		"what is due is regular", "worker/places.go",
		"c.promote()\n", "",
	},
	{
		"an older frontend is not told of preemption", "worker/attempts.go",
		"status == probe.Preempted && a.owner.features&probe.Classes == 0", "false",
	},
	{
		"what was told to stop and ended well has ended well", "worker/spare.go",
		"!a.unwanted && ev.Status == probe.Killed", "!a.unwanted",
	},
	{
		"spare places leave half of the queue to regular ones", "worker/places.go",
		"n -= c.spare.len()", "",
	},
	{
		"of spare places of a tenant the one goes first whose job has the least left", "worker/fair.go",
		"p.key = float64(p.left)", "p.key = 0",
	},
	{
		"before a job goes on that was held, workers are asked whether it is still here", "frontend/cover.go",
		"now.Sub(j.vouchedAt) >= vouchFor", "false",
	},
	{
		"those are asked that have been there for longest", "frontend/cover.go",
		"cmp.Or(a.since.Compare(b.since)", "cmp.Or(b.since.Compare(a.since)",
	},
	{
		"a job goes on when all that were asked have answered", "frontend/claims.go",
		"j.vouched(j.vouchers-1, now)", "j.vouched(0, now)",
	},
	{
		"whoever is asked and does not answer holds up nothing for long", "frontend/jobs.go",
		"soonest(j.vouchUntil)", "",
	},
	{
		"a full queue is no reason to wait while another one may have room", "frontend/ledger.go",
		"w != last.Worker && now.After(c.at(w).fullUntil)", "false",
	},
	{
		"when all queues are full, the tasks of a job wait for others of it to end", "frontend/long.go",
		"g.isFull(picked[g]) || ", "",
	},
	{
		"a worker that comes has room for some that wait for others to end", "frontend/claims.go",
		"c.widenBy(w.Worker)\n", "",
	},
	{
		"a task that waits for others to end can be cancelled", "frontend/tasks.go",
		"t.group.crowd.Remove(x)", "",
	},
	{
		"a failure that a claim has found beside another attempt counts once", "frontend/outcomes.go",
		"claims || m.Attempt.Frontend != c.cfg.ID {", "claims {",
	},
	{
		"a cancelled place goes", "worker/core.go",
		"c.dropPlace(p)\n\t\t\t\tc.Stats.Cancelled++", "c.Stats.Cancelled++",
	},
	{
		"a cancel that overtakes its reserve leaves a tombstone", "worker/core.go",
		"l.seen.Mark(id)", "",
	},
	{
		"a decline frees the slot that was held", "worker/core.go",
		"l.learn(now.Sub(p.askedAt))\n\t\t\tc.dropPlace(p)", "l.learn(now.Sub(p.askedAt))\n\t\t\tc.unask(p)\n\t\t\tdelete(l.places, p.res)",
	},
	{
		"what runs is not stopped by a sync of who has not heard yet that it is its owner", "worker/claims.go",
		"a.owner, a.since = l, now", "a.owner = l",
	},
	{
		"an ack counts from the owner only", "worker/claims.go",
		"a == nil || a.owner != l && a.owner != nil || a.state != ended", "a == nil || a.state != ended",
	},
	{
		"an ack forgets only what has ended", "worker/claims.go",
		"a == nil || a.owner != l && a.owner != nil || a.state != ended", "a == nil || a.owner != l && a.owner != nil",
	},
	{
		"what is closed to long tasks may be taken by them", "worker/plan.go",
		" || !needs.fits(free) {", " {",
	},
	{
		"long tasks that have more than is open to them are nothing to short ones", "worker/matrix.go",
		"(r.open == probe.Demand{} || r.open.Fits(in.open))", "r.open.Fits(in.open)",
	},
	{
		"Restamp may be of an attempt without a place", "probe/codec.go",
		"m := Restamp{Res: ResID(r.uint(\"res\"))", "m := Restamp{Res: r.res(\"res\")",
	},
	{
		"an attempt that is forgotten is used again once", "worker/core.go",
		"	*r = (*r)[:n-1]\n", "",
	},
	{
		"who makes the next call on a connection has the last answer", "frontend/serve/handler.go",
		"if client != nil {\n		h.goesOn(client)\n	}\n", "",
	},
	{
		"a link that was silent takes part again when it is heard", "worker/core.go",
		"c.unpark(l)", "",
	},
	{
		"an attempt that ends frees its slot", "worker/attempts.go",
		"c.give(needs(a.demand, a.long))", "",
	},
	{
		"a result is kept until it is acknowledged", "worker/attempts.go",
		"return c.send(a.owner, c.finished(a), acts)",
		"acts = c.send(a.owner, c.finished(a, now), acts)\n\tc.forget(a)\n\treturn acts",
	},
	{
		"a task that is here under an id is found on a later link of its frontend", "worker/attempts.go",
		"l.top = max(l.top, id.Seq)\n\t\t}\n\t}\n\tc.links", "}\n\t}\n\tc.links",
	},
	{
		"an id that is used twice is told from one that is new", "worker/attempts.go",
		"id.Seq <= l.top)", "false)",
	},
	{
		"a kill that overtakes its place leaves a tombstone", "worker/attempts.go",
		"l.seen.Mark(m.Res)", "",
	},
	{
		"an attempt has one owner: the earlier one hears of a claim", "worker/claims.go",
		"if a.owner != nil && a.owner != l {", "if false {",
	},
	{
		"a claim changes the owner", "worker/claims.go",
		"a.owner, a.since = l, now", "a.since = now",
	},
	{
		"a claim leaves a tombstone", "worker/claims.go",
		"known.owner, known.generation = l.frontend, m.Generation", "_ = known",
	},
	{
		"what comes of a job that was claimed since is refused", "worker/claims.go",
		"return m != nil && m.owner != 0 && (g < m.generation", "return m != nil && m.owner != 0 && (false",
	},
	{
		"of two frontends of one generation the one that claimed last has the job", "worker/claims.go",
		"g == m.generation && m.owner != l.frontend)", "false)",
	},
	{
		"a claim of an earlier generation comes too late", "worker/claims.go",
		"m.Generation < known.generation {", "false {",
	},
	{
		"a frontend that comes back forgets the places that it had before", "worker/claims.go",
		"(other != l || p.generation < m.Generation)", "other != l",
	},
	{
		"an attempt is not claimed by who lost its job", "worker/claims.go",
		"if c.moved(l, m.Job, m.Generation) {\n\t\treturn c.refuse(", "if false {\n\t\treturn c.refuse(",
	},
	{
		"a sync does not take an attempt of a job that has moved", "worker/attempts.go",
		"a.owner == nil && c.moved(l, a.job, a.generation):", "false:",
	},
	{
		"a task bound early of a job that has moved is refused", "worker/places.go",
		"time.Duration(0)\n\tif c.moved(l, m.Job, m.Generation) {", "time.Duration(0)\n\tif false {",
	},
	{
		"a turn is not given to a task of a job that has moved", "worker/places.go",
		"!own && c.moved(l, job, generation)", "false",
	},
	{
		"what is remembered of jobs is not kept for ever", "worker/claims.go",
		"now.Sub(m.at) >= rememberFor", "false",
	},
	{
		"of a job of which something was forgotten no worker says that it knows all", "worker/claims.go",
		"m != nil && m.forgot || c.leaving {", "m != nil && false {",
	},
	{
		"a task that was lost with its link is not lost", "frontend/outcomes.go",
		"m.Knows > now.Sub(a.sent)", "false",
	},
	{
		"what a worker knows has to reach back to when the task was sent", "frontend/outcomes.go",
		"m.Knows > now.Sub(a.sent)", "m.Knows > 0",
	},
	{
		"an attempt that was stopped counts as forgotten", "worker/attempts.go",
		"a.unwanted = true\n\t\t\tc.loseTrack(a, now)", "a.unwanted = true",
	},
	{
		"a result that nobody claimed counts as forgotten", "worker/claims.go",
		"c.Stats.Forgotten++\n\t\tc.loseTrack(a, now)", "c.Stats.Forgotten++",
	},
	{
		"what is no longer remembered is not known", "worker/claims.go",
		"c.since = m.at", "",
	},
	{
		"a result that is disowned waits to be claimed", "worker/claims.go",
		"if disowned {", "if false {",
	},
	{
		"a place that came round often goes to the back", "worker/places.go",
		"(p.turn+1)%maxTurns == 0", "false",
	},
	{
		"a sync spares places that have just come back", "worker/attempts.go",
		"now.Sub(p.toldAt) >= probe.SyncAge", "now.Sub(p.queuedAt) >= probe.SyncAge",
	},
	{
		"a sync keeps live places", "worker/attempts.go",
		"named := live[p.res]", "named := false",
	},
	{
		"a sync keeps tasks bound early whose end is awaited", "worker/attempts.go",
		"named = wanted[p.launch.Attempt]", "",
	},
	{
		"a sync spares places whose reserve it crossed", "worker/attempts.go",
		"p.res < m.Next &&", "",
	},
	{
		"a sync spares young places", "worker/attempts.go",
		"now.Sub(p.toldAt) >= probe.SyncAge", "true",
	},
	{
		"a sync is told of attempts that are waited for in vain", "worker/attempts.go",
		"case a == nil && !waits[id]:", "case false:",
	},
	{
		"who leaves evicts parked places too", "worker/attempts.go",
		"return p.state == queued || p.state == parked }", "return p.state == queued }",
	},
	{
		"a newer link of a frontend replaces the older one", "worker/attempts.go",
		"c.linkDown(old, now)", "",
	},
	{
		"the places of a link that breaks go", "worker/attempts.go",
		"c.dropPlace(p)\n\t}\n\tfor _, a := range", "_ = p\n\t}\n\tfor _, a := range",
	},
	{
		"an attempt whose link breaks is stopped after the grace period", "worker/attempts.go",
		"c.orphans.Push(a)", "",
	},
	{
		"a place is taken once, however often its reserve comes", "worker/places.go",
		"if !l.seen.Mark(id) {", "if false {",
	},
	{
		"a task bound early is taken once", "worker/places.go",
		"if !l.seen.Mark(m.Res) {", "if false {",
	},
	{
		"the queue has a bound, and parked places count", "worker/places.go",
		"c.queue.len() - c.spare.len() - c.parked", "c.queue.len() - c.spare.len()",
	},
	{
		"who leaves takes nothing new", "worker/places.go",
		"case c.leaving:\n", "case false:\n",
	},
	{
		"a task that rides along does not overtake the queue", "worker/places.go",
		"ride = gap\n", "",
	},
	{
		"nor does one that delays others, though there is room", "worker/plan.go",
		"if !c.forecast.mayStart(needs, takes) ||", "if",
	},
	{
		"a slot is held or given, not both", "worker/places.go",
		"c.hold(p)\n\t\treturn c.ask(p, held, now, acts)", "return c.ask(p, held, now, acts)",
	},
	{
		"no more is asked ahead than will fall free", "worker/places.go",
		"!c.promised.Add(p.demand).Fits(c.free.all.Add(c.dueRoom))", "false",
	},
	{
		"an answer is for one turn of its place", "worker/places.go",
		"p.turn == turn &&", "",
	},
	{
		"a place that comes round again has another turn", "worker/places.go",
		"p.turn++", "",
	},
	{
		"a repeated bind is not refused", "worker/places.go",
		"!l.bound.Mark(probe.ResID(m.Launch.Attempt.Seq)) ||", "",
	},
	{
		"a bundle that came too late is refused whole", "worker/places.go",
		"acts = c.refuseAll(l, m.Bundle, probe.Expired, acts)", "",
	},
	{
		"a task bound ahead of its slot waits for it", "worker/places.go",
		"if wasHeld {", "if wasHeld || true {",
	},
	{
		"a turn that expires frees the slot that was held", "worker/places.go",
		"c.learned.turned(false)\n\t\tc.dropPlace(p)", "c.learned.turned(false)\n\t\tc.unask(p)\n\t\tdelete(p.link.places, p.res)",
	},
	{
		"a link whose turn expired is out of the way", "worker/places.go",
		"if !p.link.silent {", "if false {",
	},
	{
		"who leaves does not stay for results that nobody claims", "worker/claims.go",
		"return min(c.cfg.Retain, c.cfg.Grace)", "return c.cfg.Retain",
	},
	{
		"results beyond the bound go", "worker/claims.go",
		"case c.kept <= c.cfg.MaxRetained:", "case true:",
	},
	{
		"the place of a task that is handed back is queued again", "worker/places.go",
		"if p := a.from; p != nil && !c.leaving {", "if p := a.from; p != nil && false {",
	},
	{
		"who fills a gap delays nobody ahead", "worker/plan.go",
		"(deep || f.mayStart(p.needs(), p.longest()))", "p.needs().fits(f.spans[0].free)",
	},
	{
		"a share is closed to long tasks once a short one had to wait for them", "worker/share.go",
		"if !needs.fits(c.free) && c.free.open != c.capacity.open {", "if false {",
	},
	{
		"nothing is closed to long tasks while short ones find room", "worker/share.go",
		"if !needs.fits(c.free) && c.free.open != c.capacity.open {", "{",
	},
	{
		"what is closed is opened once short tasks stay away", "worker/share.go",
		"if c.capacity.open != c.capacity.all && c.quiet(now) {", "if false {",
	},
	{
		"nothing is opened while a short task waits", "worker/share.go",
		" && !c.shortWaits()\n}", "\n}",
	},
	{
		"nobody starts before one ahead that is late", "worker/plan.go",
		"case waited <= p.startIn:", "case true:",
	},
	{
		"long tasks that are late hold up short ones only where these may delay them", "worker/plan.go",
		"case !p.long:\n\t\t\treturn", "case true:\n\t\t\treturn",
	},
	{
		"short tasks do not take the room that a late long one waits for", "worker/plan.go",
		"&& (!shareOnly || c.inShortShare(p.needs(), f.spans[0].free))", "",
	},
	{
		"a later stage stands where it would if it had come with its job", "worker/queue.go",
		"return p.came < q.came", "return p.seq < q.seq",
	},
	{
		"a turn goes to the later stage of an older job", "frontend/turns.go",
		"if g := c.share(r.group, w, now, true); g != nil {", "if g := c.share(r.group, w, now, true); g != nil && false {",
	},
	{
		"a turn goes to no later stage of a younger job", "frontend/turns.go",
		"|| senior && compareJobs(k, j) >= 0 {", "{",
	},
	{
		"a turn goes to no first stage of an older job", "frontend/turns.go",
		"k.Policy.Seniority && other.later()", "k.Policy.Seniority",
	},
	{
		"a place that has lent its turn stays", "frontend/places.go",
		"if bind.Keep = own.Policy.Sticky &&", "if bind.Keep = !shared && own.Policy.Sticky &&",
	},
	{
		"a later stage tells the age of its job", "frontend/class.go",
		"s.Age = j.age(now)", "s.Age = 0",
	},
	{
		"reservations count at their chance", "worker/plan.go",
		"chance = c.learned.chance", "",
	},
	{
		"a share is closed to long tasks", "worker/matrix.go",
		"return room{d, d}", "return room{all: d}",
	},
	{
		"a task waits for its files", "worker/places.go",
		"if p.fetching() || !p.needs().fits(c.free) {", "if !p.needs().fits(c.free) {",
	},
	{
		"a task without its files does not fill a gap", "worker/plan.go",
		"case fetched > 0:\n\t\t\tbefore", "case false:\n\t\t\tbefore",
	},
	{
		"behind many, short tasks overtake long ones only", "worker/plan.go",
		"deep && held", "false",
	},
	{
		"a task whose files are late holds nobody up", "worker/plan.go",
		"continue // late", "// late",
	},
	{
		"files of a place that goes are released", "worker/places.go",
		"c.release(p.launch.Attempt)", "",
	},
	{
		"files of an attempt that ends are released", "worker/attempts.go",
		"c.release(ev.Attempt)", "",
	},
	{
		"a task that needs files is bound early", "worker/places.go",
		"return probe.NeedsFiles", "return 0",
	},
	{
		"a task whose files cannot be had does not start", "worker/fetch.go",
		`if ev.Err == "" {`, "if true {",
	},
	{
		"the queue has a bound for tasks bound early, too", "worker/places.go",
		"if reason == 0 && !q.takes(m.Tenant, c.room(class)) {", "if false {",
	},
	{
		"a tenant leaves room in the queue for others", "worker/queue.go",
		"q.tenant(name).n <= maxHold*free", "true",
	},
	{
		"a tenant's queue has the limit of its entry", "frontend/terms.go",
		"case pending+n > limit:", "case false:",
	},
	{
		"a job that is larger than its tenant's queue will never do", "frontend/terms.go",
		"case n > limit:", "case false:",
	},
	{
		"a tenant's jobs come no faster than its entry allows", "frontend/terms.go",
		"- time.Second; early > 0 {", "- time.Second; false && early > 0 {",
	},
	{
		"jobs count against the rates of those above their tenant", "frontend/terms.go",
		"c.paced[path] = later(c.paced[path], now)", "c.paced[name] = later(c.paced[name], now)",
	},
	{
		"those below a path together have its limits", "frontend/jobs.go",
		"for t := j.tenant; t != nil; t = t.above {\n\t\tt.pending -= n", "for t := j.tenant; t != nil; t = nil {\n\t\tt.pending -= n",
	},
	{
		"a new tenant of a path leaves room as those that are there", "frontend/admit.go",
		"for t := c.nearest(j.Tenant);", "for t := c.tenants[j.Tenant];",
	},
	{
		"a tenant uses no more than its maximum", "frontend/budget.go",
		"of.used.at[let]+n <= may.All ||", "may.All >= 0 ||",
	},
	{
		"tokens cover as much as they are", "frontend/budget.go",
		"if has+t.takes() > may {", "if has+t.takes() >= may {",
	},
	{
		"tokens that a task has come back when it ends", "frontend/budget.go",
		"t.spare = false\n\t\tu.spare -= n", "t.spare = false",
	},
	{
		"what ends lets go what is held", "frontend/cover.go",
		"if len(c.holding) > 0 {", "if false {",
	},
	{
		"workers are told what tenants weigh", "frontend/places.go",
		"if m.Weights = j.tenant.weights; g.estimate == 0 {", "if g.estimate == 0 {",
	},
	{
		"workers are told what tenants of long tasks weigh", "frontend/places.go",
		"Matrix: t.long != nil, Weights: j.tenant.weights,", "Matrix: t.long != nil,",
	},
	{
		"a new file holds for the tenants that there are", "frontend/terms.go",
		"t.weights = terms.Weights(t.name)", "_ = t",
	},
	{
		"under shortest, nobody starves", "worker/shortest.go",
		"now.Sub(p.queuedAt) >= s.bound", "now.Sub(p.queuedAt) >= 1000*s.bound",
	},
	{
		"under fair, a tenant that was away saves nothing up", "worker/fair.go",
		"a.start = max(a.start, a.above.virtual)", "",
	},
	{
		"under fair, a tenant pays for what it used", "worker/fair.go",
		"a.start += (float64(used)*float64(b.cpu) - b.paid) / a.weight", "",
	},
	{
		"under fair, tasks that ride along pay", "worker/places.go",
		"c.take(need)\n\t\t\t\ta.bill = c.queue.chargeMore(of, m.Demand, a.expected)", "c.take(need)",
	},
	{
		"under fair, nobody waits for what others paid in advance", "worker/fair.go",
		"min(a.start, served)", "max(a.start, served)",
	},
	{
		"under fair, a tenant that owes is not forgotten first", "worker/queue.go",
		"cmp.Compare(t.owes(), u.owes())", "cmp.Compare(u.owes(), t.owes())",
	},
	{
		"under fair, what a tenant pays those above it pay too", "worker/fair.go",
		"a.start += b.paid / a.weight\n", "a.start += b.paid / a.weight\n\t\tbreak\n",
	},
	{
		"under fair, tenants below a path share what it gets", "worker/fair.go",
		"above = f.between(path, above)", "continue",
	},
	{
		"under fair, frontends tell the weights", "worker/fair.go",
		"a.weight = float64(weights[i])", "",
	},
	{
		"under fair, the parts of a path have a weight each", "worker/fair.go",
		"a.weight = float64(weights[i])", "a.weight = float64(weights[0])",
	},
	{
		"under fair, a tenant that others come to be below of keeps what it owes", "worker/fair.go",
		"a.weight, a.start, a.virtual = own.weight, own.start, own.start", "a.weight = own.weight",
	},
	{
		"under fair, a tenant's own jobs go by priority", "worker/fair.go",
		"p.key = -float64(p.priority)", "",
	},
	{
		"under fair, a turn is expected to cost what such tasks typically take", "worker/fair.go",
		"p.bill = p.of.account.charge(p.demand, p.expected)", "p.bill = p.of.account.charge(p.demand, p.estimate)",
	},
	{
		"plans foresee the turns of paths", "worker/fair.go",
		"c.start += toll / c.account.weight", "c.start += toll * 0",
	},

	{
		"a place counts for what its tasks typically take", "worker/places.go",
		"expected: cmp.Or(m.Estimate, m.Typical), mayAskEarly", "expected: m.Estimate, mayAskEarly",
	},
	{
		"who reserves says what tasks without an estimate typically take", "frontend/places.go",
		"m.Typical = g.Runs.Stats().Typical()", "m.Typical = 0",
	},
	{
		"who leaves accepts no job", "frontend/admit.go",
		"case c.leaving:", "case false:",
	},
	{
		"the tasks that wait have a bound", "frontend/admit.go",
		"if free < 0 {", "if free < -9*r.limit {",
	},
	{
		"a tenant leaves room for pending tasks of others", "frontend/admit.go",
		"of > 0 && (of+r.more)/maxHold > free {", "of < 0 {",
	},
	{
		"the payloads that are held have a bound", "frontend/admit.go",
		"c.payloads, j.payloads, c.cfg.MaxPayloads,", "0, j.payloads, c.cfg.MaxPayloads,",
	},
	{
		"payloads are let go of with their tasks", "frontend/outcomes.go",
		"c.unload(j, len(t.spec.Payload))", "",
	},
	{
		"payloads are let go of with their job", "frontend/admit.go",
		"c.unload(j, j.payloads)", "",
	},
	{
		"a tenant is not refused because another one waits", "frontend/unserved.go",
		"u := c.forgetServed(waiters{g.Set, c.tenants[j.Tenant]})\n", "u := (*unserved)(nil)\n\t\tfor of := range c.unserved {\n\t\t\tu = c.forgetServed(of)\n\t\t}\n",
	},
	{
		"room is offered to tenants by turns", "frontend/tenant.go",
		"if list.Has(t) && h.all.Last() != t {", "if false {",
	},
	{
		"the jobs looked at are not those of one tenant", "frontend/tenant.go",
		"jobs = append(jobs, t.hungry.First())\n\t}", "for j := range t.hungry.All() {\n\t\t\tif len(jobs) < mostLooked {\n\t\t\t\tjobs = append(jobs, j)\n\t\t\t}\n\t\t}\n\t}",
	},
	{
		"a turn for which no task waits is declined", "frontend/turns.go",
		"if r == nil {\n\t\treturn c.decline(w, m, acts)", "if r == nil {\n\t\treturn acts",
	},
	{
		"a place that was declined is gone", "frontend/turns.go",
		"c.dropPlace(w, m.Res, r, place.Declined)", "_ = place.Declined",
	},
	{
		"a deadline that a worker tells of is that of the job", "frontend/outcomes.go",
		"return c.overdue(j, now, acts) // it knew", "return c.end(t, Outcome{Kind: DeadlineExceeded}, now, acts) // it knew",
	},
	{
		"a claimed attempt that failed counts once", "frontend/outcomes.go",
		" || t.group.job.failed[m.Attempt]", "",
	},
	{
		"who was told when to come back does not come before", "frontend/jobs.go",
		"j.retryAt = until", "j.retryAt = now",
	},
	{
		"tasks that were given out before go first", "frontend/tasks.go",
		"if from == blocked || from == held || from == claiming {", "if true {",
	},
	{
		"tasks that have waited for others go last", "frontend/tasks.go",
		"if from == blocked || from == held || from == claiming {", "if false {",
	},
	{
		"a sample that is forgotten has no fates", "frontend/record.go",
		"r.sample+maxSamples <= ds.taken ||", "",
	},
	{
		"what becomes of a place is remembered", "frontend/places.go",
		"c.log.fates(r).Add(fate, 1)", "",
	},
	{
		"a job whose link broke gets other places", "frontend/places.go",
		"c.want(r.group)\n\t\tc.dropPlace", "c.dropPlace",
	},
	{
		"a worker that comes is offered to all that wait", "frontend/claims.go",
		"c.wantAll = true", "",
	},
	{
		"a job whose places are used up gets others", "frontend/places.go",
		"own.live == 0 && own.job.waiting > 0", "false",
	},
	{
		"a wrong hint is corrected by what became of earlier ones", "frontend/place/kind.go",
		"estimate = k.Runs.Correct(estimate) + reads\n", "estimate += reads\n",
	},
	{
		"a group is as long as the longest of its tasks", "frontend/place/kind.go",
		"k.atMost = max(k.atMost, estimate)", "k.atMost = k.sum / time.Duration(k.hinted)",
	},
	{
		"frontends choose different ones of equal workers", "frontend/estimate/decide.go",
		"c.tie = rng.Uint32()", "",
	},
	{
		"rides that come back are bound in their order", "frontend/outcomes.go",
		"for i := m.Count; i > 0; i-- { // the first one goes to the front last\n\t\tid := m.First + probe.ResID(i-1)",
		"for i := range m.Count {\n\t\tid := m.First + probe.ResID(i)",
	},
	{
		"tasks of a worker that went away are bound in their order", "frontend/core.go",
		"slices.Backward(w.attemptsInOrder())", "slices.All(w.attemptsInOrder())",
	},
	{
		"a worker has no more tasks on their way than it has room for", "frontend/view/worker.go",
		"return min(d.Times(w.load.Free), d.Times(w.welcome.Capacity.Sub(w.taken)))", "return d.Times(w.load.Free)",
	},
	{
		"a job lets go of reservations that are used up", "frontend/places.go",
		"r.group.places.Remove(r)", "",
	},
	{
		"a place is kept only while tasks wait", "frontend/places.go",
		"own.Policy.Sticky && c.choose(own, w, now) != nil", "own.Policy.Sticky",
	},
	{
		"a task that rode along and was not started waits again", "frontend/turns.go",
		"c.unride(a, r) // its Queued was overtaken", "_ = a",
	},
	{
		"a place serves only tasks that may run there", "frontend/seats.go",
		"s.group.Set.Contains(w.Worker) && !yield", "!yield",
	},
	{
		"a place serves only tasks that it has room for", "frontend/tasks.go",
		"other.Demand.Fits(g.Demand) && c.first(other, w, now) != nil {", "c.first(other, w, now) != nil {",
	},
	{
		"a place whose task may have started is not cancelled", "frontend/places.go",
		"r.w.places[id] != r || r.ride(id) != nil", "r.w.places[id] != r",
	},
	{
		"a result is acknowledged when the client has it", "frontend/ledger.go",
		"acts = c.ack(w, r.Attempt, now, acts)", "",
	},
	{
		"a result is not acknowledged before the client has it", "frontend/ledger.go",
		"if w.State() == view.Draining {\n\t\treturn Receipt{}", "if true {\n\t\treturn Receipt{}",
	},
	{
		"a worker that leaves does not wait for clients", "frontend/ledger.go",
		"if w.State() == view.Draining {\n\t\treturn Receipt{}", "if false {\n\t\treturn Receipt{}",
	},
	{
		"a failure that is tried again is acknowledged", "frontend/outcomes.go",
		"acts = c.ack(a.w, m.Attempt, now, acts)\n\tclaims :=", "claims :=",
	},
	{
		"an attempt that is claimed and failed may have been followed by another", "frontend/outcomes.go",
		"if claims {\n\t\treturn acts", "if false {\n\t\treturn acts",
	},
	{
		"a result of a job that is not here is left to who has it", "frontend/outcomes.go",
		"case t == nil: // whoever", "case false: // whoever",
	},
	{
		"an answer to an earlier claim is none to this one", "frontend/claims.go",
		"j == nil || j.Generation != m.Generation", "j == nil",
	},
	{
		"a claim that comes too late ends the job here", "frontend/claims.go",
		"case m.Moved:", "case false:",
	},
	{
		"places that are refused as moved end the job here", "frontend/outcomes.go",
		"case probe.Moved:\n\t\treturn c.allMoved(now, acts)\n\tcase probe.QueueFull:", "case probe.QueueFull:",
	},
	{
		"a task that may start only once waits for the end of the claim", "frontend/claims.go",
		"case !t.spec.Retryable && !over:", "case false:",
	},
	{
		"who started since cannot say that a task never did", "frontend/claims.go",
		"j.Age == 0 || m.Knows < j.age(now)+c.sureFor()", "false",
	},
	{
		"who cannot be reached may have started a task", "frontend/claims.go",
		"case w.Listed() && w.State() == view.Down:", "case false:",
	},
	{
		"who has left may have started a task", "frontend/claims.go",
		"if left := c.view.Left(); left != (view.Departure{}) &&", "if left := c.view.Left(); false &&",
	},
	{
		"a frontend that has just started waits for its first links", "frontend/claims.go",
		"if w.State() != view.Down || w.Awaited() {", "if w.State() != view.Down {",
	},
	{
		"a worker that comes later is told whose a job is", "frontend/claims.go",
		"j.untold[w] || fresh && j.Generation > 0", "j.untold[w] || fresh && j.Generation < 0",
	},
	{
		"so is one that was away", "frontend/claims.go",
		"j.untold[w] || fresh && j.Generation > 0", "fresh && j.Generation > 0",
	},
	{
		"a result that is told again stays no longer than one that nobody owns", "frontend/outcomes.go",
		"what acknowledged it may have been lost\n\t\treturn disown(w, m.Attempt, acts)", "\n\t\treturn acts",
	},
	{
		"who leaves acknowledges what it has", "frontend/ledger.go",
		"if w != nil && len(w.acks) > 0 {", "if false {",
	},
	{
		"who leaves acknowledges at once what still comes", "frontend/ledger.go",
		"len(w.acks) == ackBatch || c.leaving", "len(w.acks) == ackBatch",
	},
	{
		"a result counts once", "frontend/outcomes.go",
		"c.dropAttempt(a)\n\treturn c.over(", "return c.over(",
	},
	{
		"a task that may start only once is not started again when it was killed", "frontend/outcomes.go",
		"m.Status == probe.Killed && !t.spec.Retryable", "false",
	},
	{
		"a task that may start only once is not started again when it failed", "frontend/outcomes.go",
		"t.failures < t.spec.Retries && t.spec.Retryable", "t.failures < t.spec.Retries",
	},
	{
		"a task that may start only once is not started again when it was lost", "frontend/outcomes.go",
		"if !t.spec.Retryable {\n\t\tc.Stats.Lost++", "if false {\n\t\tc.Stats.Lost++",
	},
	{
		"a task that may start only once is not started again when its frontend was lost", "frontend/claims.go",
		"case !t.spec.Retryable && doubt != \"\":", "case false:",
	},
	{
		"a task that kills workers is poison", "frontend/outcomes.go",
		"t.losses >= c.cfg.PoisonAfter", "t.losses > c.cfg.PoisonAfter",
	},
	{
		"only a task that ran is poison", "frontend/outcomes.go",
		"if died && a.ran {", "if died {",
	},
	{
		"an attempt whose task has its outcome is killed", "frontend/outcomes.go",
		"probe.Kill{Attempt: m.Attempt}}) // its task", "probe.Kill{}}) // its task",
	},
	{
		"a stray result does not end a task that has another attempt", "frontend/outcomes.go",
		"case t.state == claiming:\n\t\tt.attempts++", "case t.state != done:\n\t\tt.attempts++",
	},
	{
		"a job that moved is left alone", "frontend/outcomes.go",
		"for _, j := range c.wanting() {\n\t\tacts = c.moved(j, now, acts)", "for range c.wanting() {",
	},
	{
		"the place of a task that is handed back is believed in again", "frontend/outcomes.go",
		"c.restore(a)\n", "",
	},
	{
		"what crossed a gone is not lost", "frontend/outcomes.go",
		"now.Sub(a.sent) >= probe.SyncAge", "true",
	},
	{
		"a resubmitted job starts when all workers have answered", "frontend/claims.go",
		"if delete(j.asked, w); len(j.asked) == 0 {", "if delete(j.asked, w); true {",
	},
	{
		"a job that ends cancels its places", "frontend/outcomes.go",
		"acts)\n\tc.depart(j)", "acts)[:len(acts)]\n\tc.depart(j)",
	},
	{
		"a job that is cancelled stops its attempts", "frontend/copy.go",
		"probe.Kill{Attempt: a.id, Res: a.res, Turn: a.turn}", "probe.Kill{}",
	},
	{
		"attempts at another life of a worker are lost", "frontend/core.go",
		"if w.State() == view.Adrift && w.Welcome().Incarnation != ev.Welcome.Incarnation {", "if false {",
	},
	{
		"attempts are claimed when the link is back", "frontend/claims.go",
		"probe.Claim{Job: a.job.ID, Attempt: a.id, Generation: a.job.Generation}", "probe.Pong{Seq: a.id.Seq}",
	},
	{
		"who drains gets nothing new", "frontend/view/view.go",
		"v.withdraw(w)\n\t\tw.state = Draining", "w.state = Draining",
	},
	{
		"a link that breaks takes its places along", "frontend/claims.go",
		"c.dropPlaces(w)\n", "\n",
	},
	{
		"queue lengths of a link that breaks count no more", "frontend/core.go",
		"return c.forgetRounds(w, now, acts)", "return acts",
	},
	{
		"the attempts at a worker that is gone are lost", "frontend/core.go",
		"acts = c.lose(a, true, fmt.Sprintf(\"worker %s went away\", w.Welcome().Worker), now, acts)", "_ = fmt.Sprint(a)",
	},
	{
		"a sync does not name places whose tasks may have started", "frontend/ledger.go",
		"if r.ride(id) == nil {", "if r != nil {",
	},

	{
		"a task that was enqueued counts at its worker until that has answered", "frontend/view/load.go",
		"matrix = estimate.Occupied(matrix, p.Demand, p.Short, p.Run)", "_ = p",
	},
	{
		"a task that was enqueued counts in the matrix of its worker", "frontend/view/load.go",
		"row.Matrix = &occupied", "_ = occupied",
	},
	{
		"who is not up is no candidate", "frontend/view/view.go",
		"s.Draining, s.Matrix = true, nil", "s.Matrix = nil",
	},
	{
		"a worker whose queue is full gets no more until it tells its matrix", "frontend/ledger.go",
		"c.view.Disbelieve(w.Worker)\n\tw.askFrom", "w.askFrom",
	},
	{
		"who does not tell its matrix is not waited for", "frontend/long.go",
		"c.unanswered() && now.Before(l.until)", "c.unanswered()",
	},
	{
		"short tasks keep away from long ones", "frontend/place/place.go",
		"if spared > 0 && s.view.IsHeld(row, now) {", "if false {",
	},
	{
		"what is told late is forgotten in time", "worker/places.go",
		"	c.expireCommons(now)\n", "",
	},
	{
		"what tasks have in common stays while it is used", "worker/places.go",
		"		c.used(common, now)\n", "",
	},
	{
		"a job asks a worker for no more places than its share", "frontend/place/place.go",
		"min(share, w.Demand", "min(share+maxSticky, w.Demand",
	},
	{
		"gossip on another run of a worker does not count", "frontend/view/load.go",
		"r.Incarnation != w.welcome.Incarnation ||", "",
	},
	{
		"old gossip does not count", "frontend/view/load.go",
		"|| r.Seq <= w.heardSeq {", "{",
	},
	{
		"a task that is larger than what is open to long ones may use all", "frontend/outcomes.go",
		"t.long.whole = true", "",
	},
	{
		"a task that is refused by name of its attempt and place is counted as such", "frontend/outcomes.go",
		"if t.hitches++; t.hitches < maxHitches {", "if t.hitches < maxHitches {",
	},
	{
		"a worker that leaves has not failed", "frontend/view/view.go",
		"if w.state != Down && !w.leaves {", "if w.state != Down {",
	},
	{
		"what was added before is not added again", "frontend/core.go",
		"again := ev.From < had && ev.From+n <= had", "again := false",
	},
	{
		"an open job does not end with its tasks", "frontend/outcomes.go",
		"if j.left == 0 && (!j.Open || j.ending) {", "if j.left == 0 {",
	},
	{
		"an open job that has no task left ends when nothing is added any more", "frontend/core.go",
		"if j.seal(); j.left == 0 {", "if j.seal(); false {",
	},
	{
		"an open job that has no task left ends with its deadline", "frontend/outcomes.go",
		"if j.ending = true; j.left == 0 {", "if j.ending = true; false {",
	},
	{
		"nothing of an open job is late when it has no task left", "frontend/outcomes.go",
		"c.settle(j, now) // nothing of it is late any more", "_ = now",
	},
	{
		"nothing is added to a stage that has ended", "frontend/stages.go",
		"if int(t.Stage) < first && s.ended() {", "if false && s.ended() {",
	},
	{
		"a job may not grow beyond what a job may have", "frontend/extend.go",
		"case j.had+n > most:", "case n > most:",
	},
	{
		"what is added to a job with gaps is found by its index", "frontend/extend.go",
		"if j.byIndex == nil && j.had > len(j.tasks) {", "if false {",
	},
	{
		"what is passed with a task that is added counts from the start", "frontend/extend.go",
		"t.weigh()", "_ = t",
	},
	{
		"whoever comes back with more of a job than is known has it claimed anew", "frontend/core.go",
		"return j == nil || j.had >= spec.Had && (spec.Open || !j.Open)", "return j == nil || true",
	},
	{
		"a stage waits for those before it", "frontend/stages.go",
		"s.blocking, s.ready = j.blockers(s)", "s.blocking, _ = j.blockers(s); s.ready = true",
	},
	{
		"a stage is ready when it goes along all that have not ended", "frontend/stages.go",
		"ready = ready && slices.Contains(s.along, k)", "ready = false",
	},
	{
		"a task waits for its partitions of the stages along which its own goes", "frontend/stages.go",
		"(t.awaits > 0 || !j.stages", "(!j.stages",
	},
	{
		"a task goes on when the last of its partitions has ended", "frontend/stages.go",
		"c.freed = append(c.freed, next)", "_ = next",
	},
	{
		"a partition has ended when all of its tasks have", "frontend/stages.go",
		"if s.pending[p]--; s.pending[p] > 0 {", "if s.pending[p]--; false {",
	},
	{
		"a task is passed what its own partitions have left", "frontend/passing.go",
		"if !slices.Contains(j.stages[t.group.number].along, from) {", "if true {",
	},
	{
		"a stage that others go along is not added to", "frontend/stages.go",
		"if int(t.Stage) < first && j.led(int(t.Stage)) {", "if false {",
	},
	{
		"a stage has not ended before those before it have", "frontend/stages.go",
		"return s.left == 0 && s.blocking == 0", "return s.left == 0",
	},
	{
		"of a job that is submitted again, stages wait, too", "frontend/claims.go",
		"c.await(t)", "t.move(waiting)",
	},
	{
		"a task that was claimed before its turn, and failed, waits for the stages before its own", "frontend/tasks.go",
		"if j.blocks(t) { // also if", "if false { // also if",
	},
	{
		"what stages have in common is told again when a link was made again", "frontend/claims.go",
		"	c.untell(w)\n", "",
	},
	{
		"what stages have in common is forgotten with the job", "frontend/outcomes.go",
		"acts = c.retract(j, acts)", "_ = c.retract",
	},
	{
		"a function may say that its task is not to be tried again", "frontend/outcomes.go",
		" && m.Retry != probe.Never\n", "\n",
	},
	{
		"a task that has failed rests before it is tried again", "frontend/outcomes.go",
		"if rests > 0 {", "if false {",
	},
	{
		"a task rests longer with each failure", "frontend/tasks.go",
		"rests = min(2*rests, maxBackoff)", "rests = min(rests, maxBackoff)",
	},
	{
		"who does not fail by itself does not rest", "frontend/outcomes.go",
		"case m.Status == probe.Killed:\n\t\treturn c.again(a, m, 0,", "case m.Status == probe.Killed:\n\t\treturn c.again(a, m, t.backoff(),",
	},
	{
		"what rests is woken", "frontend/core.go",
		"soonest(c.resting.Min().rested)", "_ = c.resting.Min().rested",
	},
	{
		"a task that ends rests no more", "frontend/tasks.go",
		"		c.resting.Remove(rester{t})\n", "",
	},
	{
		"a task that shuns a worker goes to another one", "frontend/line.go",
		"if l.shy[i].of != w {", "if true {",
	},
	{
		"a task shuns the only worker in vain", "frontend/near.go",
		"if g.Set.Len() > 1 {", "if true {",
	},
	{
		"what is passed comes from its own partition", "frontend/passing.go",
		".made[in.Partition]", ".made[0]",
	},
	{
		"who does not know of it gets no task that something is passed to", "frontend/admit.go",
		"need.Features = probe.Passing", "need.Features = 0",
	},
	{
		"another frontend gets what tasks have left", "frontend/passing.go",
		"j.keep(s, m)", "_ = m",
	},
	{
		"what a launch has in common with others is there", "worker/places.go",
		"case common == nil && m.Context != nil", "case false && m.Context != nil",
	},
	{
		"what is in common is that of its job", "worker/common.go",
		"commonKey{job, launch.Context.Common}]", "commonKey{number: launch.Context.Common}]",
	},
	{
		"the constraint of a job holds for its tasks", "frontend/view/sets.go",
		"n.Of.Matches(m.Labels, m.Host, m.Worker) &&", "true &&",
	},
	{
		"the constraint of a task holds", "frontend/view/sets.go",
		"&& n.Own.Matches(m.Labels, m.Host, m.Worker)", "",
	},
	{
		"tasks that need files go where there is a cache", "frontend/view/sets.go",
		"(!n.Files || m.Cache != \"\")", "true",
	},
	{
		"a set of workers lets go of jobs that have ended", "frontend/sets.go",
		"c.forgetServed(waiters{g.Set, g.job.tenant})", "",
	},
	{
		"nobody waits for matrices when the tasks are gone for which they were asked", "frontend/long.go",
		"c.askedEnough()\n\t\treturn acts", "return acts",
	},
	{
		"tasks of a job that go anywhere go to different workers", "frontend/place/early.go",
		"w.Set.Draw(i%w.Set.Len(), r.rand)", "w.Set.Draw(0*i, r.rand)",
	},
	{
		"a tenant whose part of a maximum is too small for its tasks gets one to run in the end", "frontend/budget.go",
		"of.used.at[let] == 0 && of.starved > c.patience", "false",
	},
	{
		"a task that rests leaves its room to others of its job", "frontend/outcomes.go",
		"c.want(t.group) // for another task, if this one rests", "if rests == 0 {\n\t\tc.want(t.group)\n\t}",
	},
	{
		"a full queue takes no more of a job than it has", "frontend/outcomes.go",
		"g.narrow()", "",
	},
	{
		"a task that has ended makes room for another of its job", "frontend/outcomes.go",
		"c.widen(t.group)", "",
	},
	{
		"tasks of a job that go by queue lengths ask different workers", "frontend/early.go",
		"if first+each > workers {", "if true {",
	},
	{
		"a batch puts no two tasks on a worker while there are others", "frontend/place/early.go",
		"if len(answers) >= probes {", "if false {",
	},
	{
		"the answer to a probe is waited for once", "frontend/early.go",
		"delete(c.rounds.bySeq, m.Seq)", "",
	},
	{
		"a job that moves is no longer matched with workers", "frontend/outcomes.go",
		"		c.unwait(t)\n		if t.state != done {", "		if t.state != done {",
	},
	{
		"a task that fails fails the stages after its own", "frontend/stages.go",
		"case j.cause == \"\":", "case false:",
	},
	{
		"a stage without tasks left ends when those before it have", "frontend/tasks.go",
		"again = again || s.blocking == 0", "",
	},
	{
		"the sets of a job that is being admitted are kept", "frontend/sets.go",
		"own[g.Set] = true", "own[g.Set] = false",
	},
	{
		"a launch tells how much of the job's deadline is left", "frontend/places.go",
		"max(deadline.Sub(a.sent), 1)", "0",
	},
	{
		"a deadline is counted from when it was told, not from the start", "worker/attempts.go",
		"max(launch.Deadline-now.Sub(a.arrivedAt), 1)", "launch.Deadline",
	},
	{
		"a deadline says that workers were away", "frontend/outcomes.go",
		"if !j.stranded.IsZero() {\n\t\twhy +=", "if false {\n\t\twhy +=",
	},
	{
		"what a frame says is planned for message by message", "frontend/core.go",
		"acts = c.take(w, m, now, acts)\n\t}", "acts = c.plan(now, c.take(w, m, now, acts))\n\t\tacts = c.offer(w, now, acts)\n\t}",
	},
	{
		"why one job is refused is true of all in its frame", "frontend/core.go",
		"case probe.Refused, probe.Evicted: //", "case probe.Welcome: //",
	},
	{
		"a short task is sampled though it has inputs", "frontend/estimate/route.go",
		"case n.Reads >= threshold, n.Reads > 0 &&", "case n.Reads > 0, n.Reads > 0 &&",
	},
	{
		"what runs and reads for long is estimated", "frontend/estimate/route.go",
		"w.Mean+n.Reads >= threshold:", "false:",
	},
	{
		"a group whose tasks all run is no longer looked at", "frontend/tasks.go",
		"g.rise()", "",
	},
	{
		"a ready worker gets the task whose data it has", "frontend/near.go",
		"[...]shelfKey{{estimate.Disk, row.Host}, {estimate.Rack, row.Rack}, {estimate.Across, \"\"}}", "[...]shelfKey{{estimate.Across, \"\"}, {estimate.Rack, row.Rack}, {estimate.Disk, row.Host}}",
	},
	{
		"what other hosts can do is left to those with least to choose from", "frontend/near.go",
		"n := x.elsewhere(); n > most", "n := 0; n > most",
	},
	{
		"a task waits for its data as long as that is worth it", "frontend/near.go",
		"x.since.Add(x.sites[len(x.sites)-1].Read - best)", "now",
	},
	{
		"and in the rack for less long", "frontend/near.go",
		"x.since.Add(at.Read-best)", "x.since.Add(x.sites[len(x.sites)-1].Read-best)",
	},
	{
		"a task that came back has waited all along", "frontend/near.go",
		"if x.attempts != t.attempts {", "{",
	},
	{
		"what would wait behind its own job for too long goes elsewhere at once", "frontend/near.go",
		"far.After(now) && c.crowded(n, x, now)", "false",
	},
	{
		"nobody waits for data where long tasks hold the workers", "frontend/near.go",
		"g.Set.Contains(w) && !c.view.IsHeld(w, now)", "g.Set.Contains(w)",
	},
	{
		"why a task reads its inputs from far is told", "frontend/near.go",
		"d.Far = Crowded", "d.Far = Waited",
	},
	{
		"a task with inputs whose places do not come round is given more", "frontend/plan.go",
		"acts = c.placeShelf(g.near.anywhere(), n, now, acts)", "",
	},
	{
		"tasks with inputs that may all ride get no places before", "frontend/plan.go",
		"acts = c.coverShelves(n, (*planner).rideShelf, now, acts)", "",
	},
	{
		"workers at which short tasks would start at once are not held", "frontend/view/load.go",
		"m.ShortWait(slot)", "m.Wait(slot)",
	},
	{
		"short tasks have light workers of their own", "frontend/estimate/decide.go",
		"lightList(t.Demand, t.short())", "lightList(t.Demand, false)",
	},
	{
		"nobody waits for a holder that is gone", "frontend/near.go",
		"if row == nil {\n\t\treturn\n\t}", "if row != nil {\n\t\treturn\n\t}",
	},
	{
		"who has the data and comes up gets the tasks that nobody had it for", "frontend/claims.go",
		"c.nearUp()", "",
	},
	{
		"when a wait for data is over, places are drawn anywhere", "frontend/core.go",
		"soonest(c.ripening.Min().green.Min().from)", "",
	},
	{
		"a place that is lost near the data is replaced", "frontend/near.go",
		"places < 0 && s.ripe.Len() > 0 && s.missing() > 0", "false && s.missing() > 0",
	},
	{
		"a turn that another job is given is for tasks that may go there", "frontend/turns.go",
		"other.Demand.Fits(g.Demand) && c.first(other, w, now) != nil &&\n", "other.Demand.Fits(g.Demand) &&\n",
	},
	{
		"a worker expects a task to read its inputs, too", "frontend/places.go",
		"expected += t.near.read", "",
	},
	{
		"what is learnt of a run leaves out reading inputs", "frontend/outcomes.go",
		"run.Read, run.Bytes = x.read, t.spec.inputBytes()", "run.Bytes = t.spec.inputBytes()",
	},
	{
		"a short task waits for room in all of the worker", "worker/matrix.go",
		"probe.MatrixStep(all.CPU, i-1) > free.CPU || ", "probe.MatrixStep(all.CPU, i-1) >= free.CPU || ",
	},
	{
		"an estimated task that is short waits as short ones do", "frontend/estimate/decide.go",
		"t.Demand, c.R < t.LongFrom, c.Steps", "t.Demand, false, c.Steps",
	},
	{
		"dear messages wait for others", "frontend/places.go",
		"10*c.view.Price() > LingerFor && ", "false && ",
	},
	{
		"cheap messages do not wait", "frontend/places.go",
		"10*c.view.Price() > LingerFor && ", "",
	},
	{
		"messages for tasks that are not short do not wait", "frontend/places.go",
		" && g.Short(c.view.Trip())", "",
	},
	{
		"on a busy machine messages are dear", "frontend/view/runs.go",
		" / (1 - min(share, mostBusy))", "",
	},
	{
		"of short tasks one place at a worker must do", "frontend/place/tactic.go",
		"run > 0 && run < shortRun*trip", "run < 0",
	},
	{
		"of tasks that are not short one place does not", "frontend/place/tactic.go",
		"run > 0 && run < shortRun*trip", "run > 0",
	},
	{
		"of a job all attempts are remembered or none", "frontend/record/attempts.go",
		"n == 0 || n+maxAttempts <= r.n", "n == 0",
	},
	{
		"a window does not end before it begins", "frontend/record/intake.go",
		"if full.to = now; now.Before(full.from) {", "if full.to = now; false {",
	},
	{
		"a task that stands for others counts for them", "frontend/record/intake.go",
		"n := p.of\n", "n := uint32(1)\n",
	},
	{
		"of very many tasks those of a part of the jobs are remembered", "frontend/record/intake.go",
		"min(1, perSecond/max(in.rate, 1))", "1",
	},
	{
		"a job of which not all attempts are remembered has no blame", "frontend/serve/recorder.go",
		"ok && len(attempts) == c.Tasks", "ok",
	},
	{
		"an attempt that was lost is told beside the one that counted", "frontend/outcomes.go",
		"c.stopped(a, EndLost, now)\n", "",
	},
	{
		"earlier attempts are told with the tasks of their page", "frontend/record/earlier.go",
		"position >= uint64(from)", "position > uint64(from)",
	},
	{
		"a slot that was given away is asked for again", "frontend/record/intake.go",
		"in.epoch++", "",
	},
	{
		"what there was no room for in a window is counted as lost", "frontend/record/history.go",
		"h.lost += s.count()", "",
	},
	{
		"what a longer window tells is not told by shorter ones again", "frontend/record/windows.go",
		"next = max(next, r.n*span(i))", "",
	},
	{
		"a wait behind one's own tenant is told apart", "worker/waits.go",
		"a.of.taken.add(cpu, c.queue.now)", "",
	},
	{
		"what is blamed on others in a queue is not blamed on the queue, too", "frontend/record/blame.go",
		"phases[Queue] -= b.addWaits(a, phases[Queue])", "b.addWaits(a, phases[Queue])",
	},
	{
		"the code of a failure is not that of another task", "frontend/serve/jobs.go",
		"out.Failure.Code = &code", "out.Failure.Code = &o.Code",
	},
	{
		"who asks for the next page of jobs gets none twice", "frontend/serve/recorded.go",
		"positionOf(j).compare(after) > 0 &&", "",
	},
	{
		"a job goes when slower ones have taken its place", "frontend/record/jobs.go",
		"slices.Index(s.jobs, old); i >= 0", "slices.Index(s.jobs, old); i >= len(s.jobs)",
	},
	{
		"the critical path goes through the stages before", "frontend/record/blame.go",
		"a = before(after, int(a.Stage), last)", "a = nil",
	},
	{
		"fetching is part of the queue at most", "frontend/record/blame.go",
		"min(max(a.Fetched, 0), phases[Queue])", "max(a.Fetched, 0)",
	},
	{
		"what runs longer than expected is told apart", "frontend/record/blame.go",
		"phases[Run] -= excess\n", "",
	},
	{
		"an outcome tells what its run was expected to be", "frontend/places.go",
		"t.expected = t.expect(trip)\n\treturn t.launchAs(a, t.expected)", "return t.launchAs(a, t.expect(trip))",
	},
	{
		"a copy that finishes first has the other attempt killed", "frontend/copy.go",
		"acts = c.halt(a.task.attempt, \"stopped: its copy was done first\", now, acts)", "c.withdraw(a.task.attempt)",
	},
	{
		"the first to finish has its copy killed", "frontend/outcomes.go",
		"acts = c.stopRest(t, now, acts)\n", "",
	},
	{
		"a copy may take the place of the first attempt while its link is broken", "frontend/places.go",
		"to := bound\n\tswitch {\n\tcase a.w.State() == view.Adrift:", "to := bound\n\tswitch {\n\tcase false:",
	},
	{
		"what may start only once has no copy", "frontend/copy.go",
		"case !t.spec.Retryable:", "case false:",
	},
	{
		"what was lost with a worker has no copy", "frontend/copy.go",
		"case t.losses > 0:", "case false:",
	},
	{
		"copies are a share of the tasks", "frontend/copy.go",
		"c.Stats.Copies < max(1, uint64(c.cfg.Copies*float64(c.Stats.Tasks)))", "true",
	},
	{
		"a copy whose link breaks does not set its task adrift", "frontend/claims.go",
		"a.task.copy != a && ", "",
	},
	{
		"a copy fails, and the first attempt goes on", "frontend/outcomes.go",
		" && !c.triesAgain(t, m, now) {", " {",
	},
	{
		"a copy is worth what it saves", "frontend/tail.go",
		"float64(l.left) <= worthCopy*float64(best)", "false",
	},
	{
		"the place of a ride that comes back is cancelled while its copy goes on", "frontend/outcomes.go",
		"of.waiting == 0 && of.Policy.Cancel {", "false {",
	},
	{
		"a second attempt that a claim finds becomes the copy", "frontend/copy.go",
		"t.group.job.Generation > 0 && id.Frontend", "false && id.Frontend",
	},
	{
		"a short copy that finds no room is withdrawn", "frontend/outcomes.go",
		"a == a.task.copy && a.task.long == nil {", "false {",
	},
	{
		"of what others ran longer, the rest is what is left", "frontend/estimate/learn.go",
		"if more := took - ran.Seconds(); more > 0 {", "if more := took; more > 0 {",
	},
	{
		"a worker's own runs say nothing of whether its tasks are late", "frontend/estimate/learn.go",
		"if s.from[i] != beside {", "{",
	},
	{
		"a tenant with a maximum has no copies", "frontend/copy.go",
		"All != tenants.Unlimited:", "All > tenants.Unlimited:",
	},
	{
		"what has not begun to run has no copy", "frontend/copy.go",
		"(t.state == bound || t.state == riding) && !t.attempt.since.IsZero()", "t.attempt != nil",
	},
	{
		"the first copy is always within the budget", "frontend/copy.go",
		"max(1, uint64(c.cfg.Copies*float64(c.Stats.Tasks)))", "uint64(c.cfg.Copies*float64(c.Stats.Tasks))",
	},
	{
		"a long task that is late has one copy", "frontend/tail.go",
		"if t.copy != nil {\n\t\t\tcontinue // its end is that of its copy, at the latest\n\t\t}\n", "",
	},
	{
		"a short task that is late has one copy", "frontend/tail.go",
		"t := l.task\n\t\tif t.copy != nil {\n\t\t\tcontinue\n\t\t}\n", "t := l.task\n",
	},
	{
		"only tasks on which the end of their job depends have copies", "frontend/tail.go",
		"l.left <= end || ", "",
	},
	{
		"what has longest left has its copy first", "frontend/tail.go",
		"cmp.Compare(b.left, a.left)", "cmp.Compare(a.left, b.left)",
	},
	{
		"a job whose tasks wait has no copies", "frontend/jobs.go",
		"case j.waiting+j.matching > 0:", "case false:",
	},
	{
		"a short task is late when it has run twice as long as any other", "frontend/tail.go",
		"a.since.Add(2*longest", "a.since.Add(longest",
	},
	{
		"few runs do not tell that a short task is late", "frontend/tail.go",
		"seen < enoughRuns", "seen < 1",
	},
	{
		"a short copy goes to another worker", "frontend/tail.go",
		"w != t.attempt.w.Worker && w != t.shuns", "w != t.shuns",
	},
	{
		"a short copy goes where there is room", "frontend/tail.go",
		" && w.Room(t.spec.Demand) > 0", "",
	},
	{
		"a long copy goes to another worker", "frontend/tail.go",
		"w == t.attempt.w.Worker || w == t.shuns", "w == t.shuns",
	},
	{
		"a long copy does not go where the task failed", "frontend/tail.go",
		"w == t.attempt.w.Worker || w == t.shuns || ", "w == t.attempt.w.Worker || ",
	},
	{
		"where one of two attempts is lost, the other goes on", "frontend/outcomes.go",
		"if c.goesOn(t) {\n\t\treturn acts\n\t}\n\tc.Stats.Retries++\n\tc.await(t)", "c.Stats.Retries++\n\tc.await(t)",
	},
	{
		"where one of two attempts comes back, the other goes on", "frontend/places.go",
		"if !c.goesOn(a.task) {\n\t\tc.await(a.task)\n\t}", "c.await(a.task)",
	},
	{
		"where one of two attempts has failed or was killed, the other goes on", "frontend/outcomes.go",
		"if c.goesOn(t) {\n\t\treturn acts\n\t}\n\tif m.Status", "if m.Status",
	},
	{
		"a copy that waits in its queue goes on there", "frontend/places.go",
		"case !a.ran:\n\t\tto = enqueued", "case false:\n\t\tto = enqueued",
	},
	{
		"of two attempts at a worker that goes away, the second is not lost again if the task has ended with the first", "frontend/core.go",
		"if w.attempts[a.id] != a {", "if false {",
	},
	{
		"a place that is handed back while a copy goes on is cancelled", "frontend/outcomes.go",
		"a.job.waiting == 0 && a.job.Policy.Cancel {", "false {",
	},
	{
		"of three attempts that claims find, one is stopped", "frontend/copy.go",
		"t.attempt != nil && t.copy == nil && t.spec", "t.attempt != nil && t.spec",
	},
	{
		"what may start only once has no second attempt that a claim finds", "frontend/copy.go",
		"t.copy == nil && t.spec.Retryable && ", "t.copy == nil && ",
	},
	{
		"a copy that is killed, or stopped for what is regular, does not give the outcome", "frontend/outcomes.go",
		"m.Status != probe.Killed && m.Status != probe.Preempted && !c", "!c",
	},
	{
		"a spare job's path is told to be by its class", "frontend/route.go",
		"Cause: estimate.ByClass", "Cause: estimate.ByMode",
	},
	{
		"why a task has no copy is told", "frontend/explain.go",
		"d.Copies = c.tellCopy(t)", "_ = t",
	},
	{
		"of which attempt one is a copy is told", "frontend/copy.go",
		"d.Choice, d.Tries, d.Outcome, d.CopyOf = *choice, 1, \"sent\", t.attempt.id", "d.Choice, d.Tries, d.Outcome = *choice, 1, \"sent\"",
	},
	{
		"the tenants are bounded of which refused jobs are counted", "frontend/refused.go",
		"len(c.of) < maxRefused", "true",
	},
	{
		"a tenant that comes late is counted if enough of it is refused", "frontend/refused.go",
		"r.tenant, r.missed, r.n = tenant, r.rank(), 0", "r.tenant, r.missed, r.n = tenant, 0, 0",
	},
	{
		"a tenant with refused jobs alone is told of", "frontend/core.go",
		"if c.tenants[name] == nil {", "if false {",
	},
	{
		"what needs files has no copy that is to start at once", "frontend/tail.go",
		"case t.long == nil && len(t.spec.Files) == 0 && c.mayCopy(t)", "case t.long == nil && c.mayCopy(t)",
	},
	{
		"workers are asked how long a copy would wait there, if it is not known", "frontend/tail.go",
		"acts = c.askForCopy(t, now, acts)", "_ = t",
	},
	{
		"of those, the one is not asked where the task is", "frontend/tail.go",
		"w != t.attempt.w && w.mayAsk", "w.mayAsk",
	},
	{
		"spare work has no copies", "frontend/jobs.go",
		"case j.Class == Spare:", "case false:",
	},
	{
		"what waits for longer than it was to may have a copy", "frontend/copy.go",
		"!t.runs() && !t.slips()", "!t.runs()",
	},
	{
		"what waits for as long as it was to has no copy", "frontend/copy.go",
		"t.queues() && t.attempt.starts.After(t.attempt.sent.Add(t.long.wait))", "t.queues()",
	},
	{
		"of two attempts that wait, the first that starts withdraws its copy", "frontend/copy.go",
		"case a == t.attempt && t.copy != nil && !t.copy.ran:", "case false:",
	},
	{
		"of two attempts that wait, the copy that starts withdraws the first", "frontend/copy.go",
		"case a == t.copy && !t.attempt.ran:", "case false:",
	},
	{
		"a copy that starts does not withdraw a first attempt that runs", "frontend/copy.go",
		"a == t.copy && !t.attempt.ran", "a == t.copy",
	},
	{
		"an attempt that is found to run again does not withdraw its copy", "frontend/outcomes.go",
		"waited := !a.ran", "waited := true",
	},
	{
		"what is left of a task that waits is its wait, and its run", "frontend/tail.go",
		"max(a.starts.Sub(now), 0) + x.run", "x.run",
	},
	{
		"where a task of a job that may have no copy ends last, none has a copy", "frontend/tail.go",
		"end = l.left\n", "\n",
	},
	{
		"a worker tells each frontend how long its own tasks wait", "worker/plan.go",
		"p.link == l && p.launch != nil", "p.launch != nil",
	},
	{
		"what a task says of its progress tells what is left of it", "frontend/tail.go",
		"case a.progress.done > 0:", "case false:",
	},
	{
		"what takes long on a sound machine would take as long elsewhere", "frontend/tail.go",
		"!t.runs() || p.done == 0 || p.done >= 1 || a.w.Pace() == 0", "true",
	},
	{
		"what takes long on a slow machine would take less long elsewhere", "frontend/tail.go",
		"times(1/(1-p.done)/a.w.Pace(), p.left)", "times(1/(1-p.done), p.left)",
	},
	{
		"a copy on a slow machine takes longer", "frontend/tail.go",
		"k.C + times(paceOf(w)-1, k.R)", "k.C",
	},
	{
		"how fast a task goes is how fast it went lately", "worker/progress.go",
		"whole = (p.whole + whole) / 2", "whole = time.Duration(float64(at) / done)",
	},
	{
		"a task that says nothing more goes on for as long again", "worker/progress.go",
		"(1-p.done))-silent, silent)", "(1-p.done))-silent, 0)",
	},
	{
		"what was said shortly after is not compared with what was said before", "worker/progress.go",
		"|| p.done > 0 && at-p.at < tellEach {", "{",
	},
	{
		"forecasts go by what tasks say of their progress", "worker/plan.go",
		"left := c.left(a, now)", "left := remaining(expectedCost(a.expected, c.learned.run, 1), now.Sub(a.startedAt))",
	},
	{
		"two long tasks do not tell a worker's pace", "worker/progress.go",
		"len(all) < leastPaces", "false",
	},
	{
		"what runs tells a worker's pace before what has ended", "worker/progress.go",
		"p := &a.progress; a.long && p.done > 0 && a.expected > 0", "p := &a.progress; false && p != nil",
	},
	{
		"only long tasks that succeeded tell a worker's pace", "worker/attempts.go",
		"a.long && a.expected > 0 && ev.Status == probe.Succeeded", "a.expected > 0",
	},
}
