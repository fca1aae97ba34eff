package mutants

// frontendRecord lists the mutants of package frontend/record. Keep the old texts short and central, so that they stay valid.
var frontendRecord = packageMutants{"frontend/record", []mutant{
	{
		"of a job all attempts are remembered or none", "Attempts.get",
		"n == 0 || n+maxAttempts <= r.n", "n == 0",
	},
	{
		"a window does not end before it begins", "Intake.Take",
		"if full.to = now; now.Before(full.from) {", "if full.to = now; false {",
	},
	{
		"a task that stands for others counts for them", "Intake.draw",
		"n := p.of\n", "n := uint32(1)\n",
	},
	{
		"of very many tasks those of a part of the jobs are remembered", "Intake.Take",
		"min(1, perSecond/max(in.rate, 1))", "1",
	},
	{
		"earlier attempts are told with the tasks of their page", "Trace.earlierFrom",
		"position >= uint64(from)", "position > uint64(from)",
	},
	{
		"a slot that was given away is asked for again", "Intake.resettle",
		"in.epoch++", "",
	},
	{
		"what there was no room for in a window is counted as lost", "History.pack",
		"h.lost += s.count()", "",
	},
	{
		"what a longer window tells is not told by shorter ones again", "History.Windows",
		"next = max(next, r.n*span(i))", "",
	},
	{
		"what is blamed on others in a queue is not blamed on the queue, too", "Blame.add",
		"phases[Queue] -= b.addWaits(a, phases[Queue])", "b.addWaits(a, phases[Queue])",
	},
	{
		"a job goes when slower ones have taken its place", "shelf.put",
		"slices.Index(s.jobs, old); i >= 0", "slices.Index(s.jobs, old); i >= len(s.jobs)",
	},
	{
		"the critical path goes through the stages before", "NewBlame",
		"a = before(after, int(a.Stage), last)", "a = nil",
	},
	{
		"fetching is part of the queue at most", "Blame.add",
		"min(max(a.Fetched, 0), phases[Queue])", "max(a.Fetched, 0)",
	},
	{
		"what runs longer than expected is told apart", "Blame.add",
		"phases[Run] -= excess\n", "",
	},
}}
