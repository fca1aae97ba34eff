package mutants

// workerExec lists the mutants of package worker/exec. Keep the old texts short and central, so that they stay valid.
var workerExec = packageMutants{"worker/exec", []mutant{
	{
		"a function that goes on though it was killed, and ends well, has ended well", "runGuarded",
		"isEnded && (err != nil || ended.status != Killed || time.Since(ended.killedAt) < ignoredKillAfter)", "isEnded",
	},
	{
		"a function that ends at once when it is killed has not ended well", "runGuarded",
		"|| time.Since(ended.killedAt) < ignoredKillAfter)", ")",
	},
}}
