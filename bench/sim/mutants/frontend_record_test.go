package mutants

// frontendRecord lists the mutants of package frontend/record. Short and central old texts stay valid longest.
var frontendRecord = packageMutants{"frontend/record", []mutant{
	{
		"all attempts of a job are remembered, or none", "Attempts.findAttempt",
		"n == 0 || n+maxAttempts <= r.total", "n == 0",
	},
	{
		"a window does not end before it begins", "Intake.Take",
		"if full.to = now; now.Before(full.from) {", "if full.to = now; false {",
	},
	{
		"a task that stands for other tasks counts for all", "Intake.drawNext",
		"n := p.standsFor\n", "n := uint32(1)\n",
	},
	{
		"if tasks are very many, a part of the jobs is remembered", "Intake.Take",
		"min(1, allRemembered/max(in.submitRate, 1))", "1",
	},
	{
		"earlier attempts come with the tasks of their page", "Trace.earlierOffset",
		"position >= uint64(from)", "position > uint64(from)",
	},
	{
		"a slot that was given away is requested again", "Intake.reassignSlots",
		"in.epoch++", "",
	},
	{
		"entries without room in a window count as lost", "History.packSeries",
		"h.lostCounts += s.countAll()", "",
	},
	{
		"a shorter window does not repeat a longer window", "History.Windows",
		"nextUnchosen = max(nextUnchosen, r.total*ringSpan(i))", "",
	},
	{
		"time blamed on others in a queue is not blamed on the queue", "Blame.addTask",
		"phases[Queue] -= b.addWaits(a, phases[Queue])", "b.addWaits(a, phases[Queue])",
	},
	{
		"a job goes when slower jobs have taken its place", "jobList.keepJob",
		"slices.Index(s.tickets, old); i >= 0", "slices.Index(s.tickets, old); i >= len(s.jobs)",
	},
	{
		"the critical path goes through the stages before", "NewBlame",
		"a = lastBefore(after, int(a.Stage), last)", "a = nil",
	},
	{
		"fetching is part of the queue at most", "Blame.addTask",
		"min(max(a.Fetched, 0), phases[Queue])", "max(a.Fetched, 0)",
	},
	{
		"the wait for a tenant's maximum is blamed apart", "Blame.addTask",
		"phases[Sampling] -= held", "held = 0",
	},
	{
		"attempts in vain are blamed apart", "Blame.addTask",
		"phases := a.splitPhases(again, done)", "phases := a.splitPhases(released, done)",
	},
	{
		"run time beyond the expected is listed apart", "Blame.addTask",
		"phases[Run] -= excess\n", "",
	},
}}
