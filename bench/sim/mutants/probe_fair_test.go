package mutants

// probeFair lists the mutants of package probe/fair. Short and central old texts stay valid longest.
var probeFair = packageMutants{"probe/fair", []mutant{
	{
		"under fair, an absent tenant saves nothing up", "Tree.catchUpStart",
		"a.startTag = a.nextStart()", "",
	},
	{
		"under fair, a tenant pays for what it used", "Bill.Settle",
		"a.startTag += (float64(used)*float64(b.cpu) - b.paid) / a.weight", "",
	},
	{
		"under fair, no tenant waits for advance payments of others", "Account.nextVirtual",
		"min(child.startTag, served)", "max(child.startTag, served)",
	},
	{
		"under fair, parents pay what a tenant pays", "Account.payInAdvance",
		"a.startTag += b.paid / a.weight\n", "a.startTag += b.paid / a.weight\n\t\tbreak\n",
	},
	{
		"under fair, tenants below a path share the part of the path", "Tree.Open",
		"parent = t.ensureInnerAccount(above, parent)", "continue",
	},
	{
		"under fair, frontends send the weights", "Tree.SetWeights",
		"a.weight = float64(weights[i])", "",
	},
	{
		"under fair, the parts of a path have a weight each", "Tree.SetWeights",
		"a.weight = float64(weights[i])", "a.weight = float64(weights[0])",
	},
	{
		"under fair, a tenant that becomes a parent keeps its debt", "Tree.ensureInnerAccount",
		"a.weight, a.startTag, a.virtualTime = own.weight, own.startTag, own.startTag", "a.weight = own.weight",
	},
	{
		"plans foresee the turns of paths", "Tree.InOrder",
		"c.startTag += cost / c.account.weight", "c.startTag += cost * 0",
	},
	{
		"under fair, a newcomer's turn is foreseen by the place of its tenant", "Tree.ComesNext",
		"below.cursor.startTag", "below.startTag",
	},
	{
		"under fair, a newcomer without an account starts at virtual time", "Tree.ComesNext",
		"a.nextVirtual(), child.startTag", "a.virtualTime, child.startTag",
	},
}}
