package mutants

// frontendTenants lists the mutants of package frontend/tenants. Keep the old texts short and central, so that they stay valid.
var frontendTenants = packageMutants{"frontend/tenants", []mutant{
	{
		"who is silent is missed, not only who is gone", "Shares.Tell",
		"missed > len(there)-len(silent) &&", "2*len(there) < len(s.last) && missed >= 0 &&",
	},
	{
		"who leaves is not missed", "Shares.Tell",
		"		if s.silent[name] {\n", "		if s.silent[name] || gone(name) {\n",
	},
	{
		"paths have whole units by turns", "Shares.spread",
		"parts = Whole(has, sharers, drawn(sharers, h.Sum64()))", "parts = Waterfill(has, sharers)",
	},
	{
		"whose turn it is has a unit though its share is less", "Whole",
		"first <= all && parts[turn] <", "first < 0 && parts[turn] <",
	},
	{
		"spare jobs want nothing of the tokens", "Shares.Tell",
		"o.Want -= o.Spare", "_ = o",
	},
}}
