package mutants

// frontendServe lists the mutants of package frontend/serve. Short and central old texts stay valid longest.
var frontendServe = packageMutants{"frontend/serve", []mutant{
	{
		"the next call on a connection confirms the last answer", "handler.submitJob",
		"if client != nil {\n\t\th.noteNextCall(client)\n\t}\n", "",
	},
	{
		"a job has blame only if all attempts are remembered", "Server.collectJobs",
		"ok && len(attempts) == c.Tasks", "ok",
	},
	{
		"each failure has its own code", "clientJob.fillOutcome",
		"out.Failure.Code = &code", "out.Failure.Code = &o.Code",
	},
	{
		"the next page of jobs repeats no job", "handler.jobsHere",
		"positionOf(j.JobSummary).compareTo(after) > 0 &&", "",
	},
}}
