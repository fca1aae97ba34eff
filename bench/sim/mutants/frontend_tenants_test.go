package mutants

// frontendTenants lists the mutants of package frontend/tenants. Short and central old texts stay valid longest.
var frontendTenants = packageMutants{"frontend/tenants", []mutant{
	{
		"a lost frontend is missed, and heard no less than a frontend that left", "Quotas.Exchange",
		"if s.silent[name] = true; !isGone(name) {", "if s.silent[name] = !isGone(name); !isGone(name) {",
	},
	{
		"a silent frontend is missed, not only a lost frontend", "Quotas.Exchange",
		"missed > heard &&", "2*len(present) < len(s.frontends) && missed > -heard &&",
	},
	{
		"a leaving frontend is not missed", "Quotas.Exchange",
		"		if s.silent[name] {\n", "\t\tif s.silent[name] || isGone(name) {\n",
	},
	{
		"paths get whole units by turns", "Quotas.spreadBelow",
		"parts = WaterfillUnits(has, sharers, drawSharer(sharers, h.Sum64()))", "parts = Waterfill(has, sharers)",
	},
	{
		"at its turn a path gets a unit beyond its share", "WaterfillUnits",
		"first <= all && parts[start] <", "first < 0 && parts[start] <",
	},
	{
		"spare jobs want no tokens", "Quotas.Exchange",
		"o.Want -= o.Spare", "_ = o",
	},
	{
		"a frontend that knows of no jobs of a tenant may use all of the maximum", "Quotas.divideTenant",
		"Want: s.file.TaskMaximum(tenant)", "Want: 0",
	},
}}
