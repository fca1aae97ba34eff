package mutants

// frontendRecord lists the mutants of package frontend/record. Keep the old texts short and central, so that they stay valid.
var frontendRecord = packageMutants{"frontend/record", []mutant{
	{
		"of a job all attempts are remembered or none", "Attempts.findAttempt",
		"n == 0 || n+maxAttempts <= r.total", "n == 0",
	},
	{
		"a window does not end before it begins", "Intake.Take",
		"if full.to = now; now.Before(full.from) {", "if full.to = now; false {",
	},
	{
		"a task that stands for others counts for them", "Intake.drawNext",
		"n := p.standsFor\n", "n := uint32(1)\n",
	},
	{
		"of very many tasks those of a part of the jobs are remembered", "Intake.Take",
		"min(1, allRemembered/max(in.submitRate, 1))", "1",
	},
	{
		"earlier attempts are told with the tasks of their page", "Trace.earlierOffset",
		"position >= uint64(from)", "position > uint64(from)",
	},
	{
		"a slot that was given away is asked for again", "Intake.reassignSlots",
		"in.epoch++", "",
	},
	{
		"what there was no room for in a window is counted as lost", "History.packSeries",
		"h.lostCounts += s.countAll()", "",
	},
	{
		"what a longer window tells is not told by shorter ones again", "History.Windows",
		"nextUnchosen = max(nextUnchosen, r.total*ringSpan(i))", "",
	},
	{
		"what is blamed on others in a queue is not blamed on the queue, too", "Blame.addTask",
		"phases[Queue] -= b.addWaits(a, phases[Queue])", "b.addWaits(a, phases[Queue])",
	},
	{
		"a job goes when slower ones have taken its place", "jobList.keepJob",
		"slices.Index(s.jobs, old); i >= 0", "slices.Index(s.jobs, old); i >= len(s.jobs)",
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
		"what runs longer than expected is told apart", "Blame.addTask",
		"phases[Run] -= excess\n", "",
	},
}}
