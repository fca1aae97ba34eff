package mutants

// frontendServe lists the mutants of package frontend/serve. Keep the old texts short and central, so that they stay valid.
var frontendServe = packageMutants{"frontend/serve", []mutant{
	{
		"who makes the next call on a connection has the last answer", "handler.submit",
		"if client != nil {\n		h.goesOn(client)\n	}\n", "",
	},
	{
		"a job of which not all attempts are remembered has no blame", "Server.collectJobs",
		"ok && len(attempts) == c.Tasks", "ok",
	},
	{
		"the code of a failure is not that of another task", "record.fill",
		"out.Failure.Code = &code", "out.Failure.Code = &o.Code",
	},
	{
		"who asks for the next page of jobs gets none twice", "handler.jobsHere",
		"positionOf(j).compare(after) > 0 &&", "",
	},
}}
