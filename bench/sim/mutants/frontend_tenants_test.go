package mutants

// frontendTenants lists the mutants of package frontend/tenants. Keep the old texts short and central, so that they stay valid.
var frontendTenants = packageMutants{"frontend/tenants", []mutant{
	{
		"who is silent is missed, not only who is gone", "Quotas.Exchange",
		"missed > len(present)-len(silent) &&", "2*len(present) < len(s.frontends) && missed >= 0 &&",
	},
	{
		"who leaves is not missed", "Quotas.Exchange",
		"		if s.silent[name] {\n", "\t\tif s.silent[name] || isGone(name) {\n",
	},
	{
		"paths have whole units by turns", "Quotas.spreadBelow",
		"parts = WaterfillUnits(has, sharers, drawSharer(sharers, h.Sum64()))", "parts = Waterfill(has, sharers)",
	},
	{
		"whose turn it is has a unit though its share is less", "WaterfillUnits",
		"first <= all && parts[turn] <", "first < 0 && parts[turn] <",
	},
	{
		"spare jobs want nothing of the tokens", "Quotas.Exchange",
		"o.Want -= o.Spare", "_ = o",
	},
}}
