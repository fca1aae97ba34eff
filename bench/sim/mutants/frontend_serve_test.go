package mutants

// frontendServe lists the mutants of package frontend/serve. Keep the old texts short and central, so that they stay valid.
var frontendServe = packageMutants{"frontend/serve", []mutant{
	{
		"who makes the next call on a connection has the last answer", "handler.submitJob",
		"if client != nil {\n\t\th.noteNextCall(client)\n\t}\n", "",
	},
	{
		"a job of which not all attempts are remembered has no blame", "Server.collectJobs",
		"ok && len(attempts) == c.Tasks", "ok",
	},
	{
		"the code of a failure is not that of another task", "clientJob.fillOutcome",
		"out.Failure.Code = &code", "out.Failure.Code = &o.Code",
	},
	{
		"who asks for the next page of jobs gets none twice", "handler.jobsHere",
		"positionOf(j).compareTo(after) > 0 &&", "",
	},
}}
