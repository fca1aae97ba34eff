package mutants

// frontendPlace lists the mutants of package frontend/place. Short and central old texts stay valid longest.
var frontendPlace = packageMutants{"frontend/place", []mutant{
	{
		"a wrong hint is corrected by the fate of earlier hints", "Kind.Add",
		"estimate = k.Runs.Correct(estimate) + reads\n", "estimate += reads\n",
	},
	{
		"a group is as long as the longest of its tasks", "Kind.Add",
		"k.longest = max(k.longest, estimate)", "k.longest = k.estimateSum / time.Duration(k.hinted)",
	},
	{
		"short tasks keep away from long ones", "Sampler.planPlaces",
		"if skips > 0 && s.view.IsAvoided(worker, now) {", "if false {",
	},
	{
		"a job asks a worker for no more places than its share", "Sampler.planPlaces",
		"min(perWorker, w.Demand", "min(perWorker+maxSticky, w.Demand",
	},
	{
		"tasks of a job placed anywhere go to different workers", "randomPlacer.Place",
		"w.Set.Draw(i%w.Set.Len(), r.rand)", "w.Set.Draw(0*i, r.rand)",
	},
	{
		"a batch uses each worker before two tasks share a worker", "Sampler.BindShortest",
		"if len(answers) >= probes {", "if false {",
	},
	{
		"a short kind gets one place at a worker", "Kind.IsShort",
		"run > 0 && run < shortRun*trip", "run < 0",
	},
	{
		"a kind that is not short gets more places at a worker", "Kind.IsShort",
		"run > 0 && run < shortRun*trip", "run > 0",
	},
}}
