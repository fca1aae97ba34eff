package mutants

// frontendEstimate lists the mutants of package frontend/estimate. Short and central old texts stay valid longest.
var frontendEstimate = packageMutants{"frontend/estimate", []mutant{
	{
		"the CPU demand is the upper quartile of the runs", "Stats.fitLine",
		"cpu[(len(cpu)-1)*3/4]", "cpu[len(cpu)-1]",
	},
	{
		"a task that failed at a worker avoids the worker", "Fleet.considerWorker",
		"slices.Contains(t.Avoided, key) &&", "false &&",
	},
	{
		"a task avoids no worker if there is no other", "Fleet.considerWorker",
		"t.Pool.Len() > len(t.Avoided)", "true",
	},
	{
		"frontends choose different ones of equal workers", "Fleet.estimateTask",
		"c.tieBreak = rng.Uint32()", "",
	},
	{
		"a short task is sampled though it has inputs", "Route",
		"case n.Reads >= threshold, n.Reads > 0 &&", "case n.Reads > 0, n.Reads > 0 &&",
	},
	{
		"a task that runs and reads for long is estimated", "Route",
		"w.Run+n.Reads >= threshold:", "false:",
	},
	{
		"short tasks have light workers of their own", "Fleet.considerLight",
		"lightListOf(t.Demand, t.IsShort())", "lightListOf(t.Demand, false)",
	},
	{
		"a task does not queue elsewhere while a better worker has room for it, too", "Fleet.delayOfSecond",
		"both == probe.NeverFits {", "true {",
	},
	{
		"a short task does not queue while long tasks start at once", "Fleet.leaveForRoom",
		"cmp.Compare(max(a.I, a.W), max(b.I, b.W)), ", "",
	},
	{
		"a task waits as tasks of its tenant do", "Fleet.estimateAt",
		"Shares.For(t.Tenant).PartOf(", "Shares.For(0).PartOf(",
	},
	{
		"a placed task makes the next task of its tenant wait longer", "Occupied",
		"+ time.Duration(portion*float64(run))", "+ 0*time.Duration(portion)",
	},
	{
		"an estimated short task waits as short tasks do", "Fleet.estimateAt",
		"t.Demand, c.R < t.LongFrom, c.Steps", "t.Demand, false, c.Steps",
	},
	{
		"the time left comes from runs that were longer", "Stats.TimeLeft",
		"if more := took - ran.Seconds(); more > 0 {", "if more := took; more > 0 {",
	},
	{
		"a worker's own runs do not decide whether its tasks are late", "Stats.Longest",
		"if s.workers[i] != exceptWorker {", "{",
	},
	{
		"a worker that crashed is on probation", "Fleet.survivalChance",
		"math.Log1p(run.Seconds()/(age+probation).Seconds())", "run.Seconds() / f.cfg.Grudge.Seconds()",
	},
	{
		"a worker that crashed gets its share back as it survives", "Fleet.survivalChance",
		"(age+probation).Seconds()", "probation.Seconds()",
	},
	{
		"a worker must survive the run of a task, and not its wait", "Fleet.estimateAt",
		"now, c.R, c.E, t.Work.Dev", "now, c.E, c.E, t.Work.Dev",
	},
	{
		"a task must end before maintenance, with its wait", "Fleet.estimateAt",
		"now, c.R, c.E, t.Work.Dev", "now, c.R, c.R, t.Work.Dev",
	},
	{
		"differences between runs that vary too much do not count", "Fleet.updateRates",
		" && float64(s.dev) <= unit*maxReadSpread", "",
	},
	{
		"the rate from afar is learnt from near and far runs", "Fleet.addDifference",
		"unitTime(far.bytes, far.run) - unitTime(far.bytes, near.run)", "time.Duration(0)",
	},
	{
		"a task that has read fast shows a fast disk", "Fleet.updateRates",
		"return max(start, rateUnit/max(s.Typical(), 1).Seconds())", "return start",
	},
	{
		"a slow task does not show a slow disk", "Fleet.updateRates",
		"return max(start, rateUnit/max(s.Typical(), 1).Seconds())", "return rateUnit / max(s.Typical(), 1).Seconds()",
	},
	{
		"fetches from caches and from the origin teach different rates", "Fleet.NoteFetch",
		"if fromPeers {", "if false {",
	},
	{
		"fixed rates stay", "Fleet.NoteFetch",
		"f.cfg.FixedRates ||", "false ||",
	},
}}
