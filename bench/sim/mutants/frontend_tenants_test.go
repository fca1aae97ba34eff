package mutants

// frontendTenants lists the mutants of package frontend/tenants. Short and central old texts stay valid longest.
var frontendTenants = packageMutants{"frontend/tenants", []mutant{
	{
		"a lost frontend is not heard, and counts once", "Quotas.Exchange",
		"if slices.Contains(present, name) {", "if true {",
	},
	{
		"a silent frontend is missed, not only a lost frontend", "Quotas.Exchange",
		"s.cutOff = missed > heard;", "s.cutOff = 2*len(present) < len(s.frontends) && missed > -heard;",
	},
	{
		"a leaving frontend is not missed", "Quotas.Exchange",
		"!slices.Contains(silent, name)", "!slices.Contains(silent, name) && slices.Contains(present, name)",
	},
	{
		"a lost frontend is missed for a time, not once", "Quotas.Exchange",
		"now.Sub(since) < ForgetAfter", "now.Sub(since) < ForgetAfter && slices.Contains(s.frontends, name)",
	},
	{
		"a frontend does not miss others without end", "Quotas.Exchange",
		"now.Sub(since) < ForgetAfter", "since != time.Time{}",
	},
	{
		"all of the maximum, before a report, is no part to keep", "Quotas.Exchange",
		"s.dropUnreported()", "",
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
	{
		"a limited number of new tenants get their quotas at once", "Quotas.QuotaOf",
		" || s.divided[top] >= maxDivided", "",
	},
	{
		"after a report all tenants with jobs have quotas", "Quotas.clearQuotas",
		"clear(s.divided)", "",
	},
	{
		"all frontends draw the same of the tenants below a path", "Quotas.divideTenant",
		"return strings.Compare(a.path, b.path)", "return len(a.path) - len(b.path)",
	},
}}
