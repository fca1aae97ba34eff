package mutants

// workerExec lists the mutants of package worker/exec. Short and central old texts stay valid longest.
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
