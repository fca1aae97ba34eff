package plan

import (
	"fmt"
	"strings"
)

// putItem returns the name of the item of l with this expression. A new item gets a name of kind and a number.
func putItem(l *[]item, kind string, x node) string {
	for _, it := range *l {
		if sameExpr(it.expr, x) {
			return it.name
		}
	}
	*l = append(*l, item{x, fmt.Sprintf("%s%d", kind, len(*l))})
	return (*l)[len(*l)-1].name
}

// parseExpr returns the syntax tree of an expression. The column names arg0, arg1, … stand for args.
func (p *queryPlanner) parseExpr(text string, args ...node) node {
	n, err := p.sql.Parse("SELECT " + text)
	if err != nil {
		panic(err)
	}
	return rewriteNode(nodesAt(n, "select_list")[0], func(n node) node {
		names := listAt(n, "column_names")
		for i, a := range args {
			if len(names) == 1 && names[0] == fmt.Sprint("arg", i) {
				return a
			}
		}
		return nil
	})
}

// moments are the aggregates of squares and products. Each is an expression of m: the number of rows, and then
// either the mean and the sum of squared deviations, or both means, both sums of squares and the sum of products.
var moments = map[string]string{
	"var_pop": "m[3] / m[1]", "var_samp": "CASE WHEN m[1] > 1 THEN m[3] / (m[1] - 1) END",
	"stddev_pop": "sqrt(m[3] / m[1])", "stddev_samp": "CASE WHEN m[1] > 1 THEN sqrt(m[3] / (m[1] - 1)) END",
	"covar_pop": "m[6] / m[1]", "covar_samp": "CASE WHEN m[1] > 1 THEN m[6] / (m[1] - 1) END",
	"corr": "CASE WHEN m[4] * m[5] > 0 THEN m[6] / (sqrt(m[4]) * sqrt(m[5])) " +
		"WHEN m[1] > 0 THEN CAST('NaN' AS DOUBLE) END",
}

// mergeMoments is like mergeAggregate for an aggregate of moments. The parts merge by the formula of Chan, Golub
// and LeVeque (1979), pair by pair: sums of squares would cancel if the mean is large beside the deviations.
func (p *queryPlanner) mergeMoments(n node, f, alias string, put func(string, node) string) node {
	args := nodesAt(n, "children")
	// The mean of equal values must be that value, so rounding must not leave the values' range.
	mean := "greatest(min(CAST(arg%d AS DOUBLE)), least(max(CAST(arg%[1]d AS DOUBLE)), avg(CAST(arg%[1]d AS DOUBLE))))"
	state := "CASE WHEN count(arg0) > 0 THEN [CAST(count(arg0) AS DOUBLE), " + fmt.Sprintf(mean, 0) +
		", var_pop(arg0) * count(arg0)] END"
	merged := "[l[1] + r[1], l[2] + (r[2] - l[2]) * r[1] / (l[1] + r[1]), " +
		"l[3] + r[3] + (r[2] - l[2]) * (r[2] - l[2]) * l[1] * r[1] / (l[1] + r[1])]"
	if len(args) == 2 {
		for i, other := range []int{1, 0} { // a row counts if neither value is NULL
			args[i] = p.parseExpr("CASE WHEN arg0 IS NOT NULL THEN CAST(arg1 AS DOUBLE) END",
				nodesAt(n, "children")[other], args[i])
		}
		state = "CASE WHEN count(arg0) > 0 THEN [CAST(count(arg0) AS DOUBLE), " + fmt.Sprintf(mean, 0) + ", " +
			fmt.Sprintf(mean, 1) + ", var_pop(arg0) * count(arg0), var_pop(arg1) * count(arg0), " +
			"covar_pop(arg0, arg1) * count(arg0)] END"
		part := func(at, x, y int) string {
			return fmt.Sprintf("l[%d] + r[%[1]d] + (r[%d] - l[%[2]d]) * (r[%d] - l[%[3]d]) * l[1] * r[1] / (l[1] + r[1])",
				at, x, y)
		}
		merged = "[l[1] + r[1], l[2] + (r[2] - l[2]) * r[1] / (l[1] + r[1]), " +
			"l[3] + (r[3] - l[3]) * r[1] / (l[1] + r[1]), " + part(4, 2, 2) + ", " + part(5, 3, 3) + ", " +
			part(6, 2, 3) + "]"
	}
	x := p.parseExpr(state, args...)
	if c := nodeAt(n, "filter"); c != nil {
		x = rewriteNode(x, func(n node) node {
			if p.isAggregate(n) {
				return withField(n, "filter", c)
			}
			return nil
		})
	}
	return p.parseExpr("list_transform([list_reduce(list(arg0) FILTER (WHERE arg0 IS NOT NULL), LAMBDA l, r: "+
		merged+")], LAMBDA m: "+moments[f]+")[1]", newColumn(alias, put("a", x)))
}

// orderSensitive are the aggregates whose value depends on the order of the rows.
var orderSensitive = map[string]bool{"first": true, "last": true, "arbitrary": true, "list": true,
	"array_agg": true, "string_agg": true, "group_concat": true, "listagg": true}

// refuseUnordered refuses aggregates whose value depends on the order of the rows, without ORDER BY: tasks have
// no order among each other.
func (b *block) refuseUnordered() {
	for _, n := range b.findAggregates() {
		f := strings.ToLower(strAt(n, "function_name"))
		if orderSensitive[f] && len(nodesAt(nodeAt(n, "order_bys"), "orders")) == 0 {
			refuse("the aggregate %s without an order: write %[1]s(… ORDER BY …), or any_value, min or max", f)
		}
	}
}

// findAggregates returns the calls of aggregates after grouping.
func (b *block) findAggregates() []node {
	var out []node
	for _, x := range append(append(itemExprs(b.sel), b.having...), orderExprs(b.order)...) {
		visitNodes(x, func(n node) bool {
			if b.p.isAggregate(n) {
				out = append(out, n)
			}
			return strAt(n, "class") != "SUBQUERY"
		})
	}
	return out
}

// canMerge reports whether mergeAggregate can split n.
func canMerge(n node) bool {
	f, args := strings.ToLower(strAt(n, "function_name")), len(nodesAt(n, "children"))
	if orderSensitive[f] || len(nodesAt(nodeAt(n, "order_bys"), "orders")) > 0 {
		return false
	}
	switch f {
	case "min", "max":
		return args == 1
	case "count_star":
		return true
	}
	if boolAt(n, "distinct") {
		return args == 1
	}
	switch f {
	case "count", "count_if", "countif", "sum", "bool_and", "bool_or", "bit_and", "bit_or", "avg", "mean", "any_value":
		return true
	}
	return moments[momentName(f)] != ""
}

// momentName returns the full name of an aggregate of moments.
func momentName(f string) string {
	switch f {
	case "stddev":
		return "stddev_samp"
	case "variance":
		return "var_samp"
	}
	return f
}

// gatherRows plans an aggregation that cannot be split, such as median. The rows of each group move to a single
// task, by the grouping keys. Without keys, all rows move to one task.
func (b *block) gatherRows(root bool) *rel {
	b.refuseUnordered()
	b.refuseGroupedSubqueries()
	part := query{elems: b.elems, where: b.where}
	alias := b.p.bind.newAlias("rows")
	own := map[string]bool{}
	for _, e := range b.elems {
		for a := range e.aliases() {
			own[a] = true
		}
	}
	grouped := map[string]bool{}
	var keyColumns []node
	for _, g := range b.query.group {
		if len(aliasesIn(g)) == 0 {
			continue
		}
		grouped[structureKey(g)] = true
		keyColumns = append(keyColumns, newColumn("", putItem(&part.sel, "r", g)))
	}
	toColumns := func(n node) node {
		if grouped[structureKey(n)] || own[aliasOf(n)] {
			return newColumn(alias, putItem(&part.sel, "r", n))
		}
		return nil
	}
	rest := *b.query
	rest.elems, rest.where = nil, nil
	f := rest.rewriteExprs(toColumns)
	if len(part.sel) == 0 {
		putItem(&part.sel, "r", newInt(1))
	}
	var target *class
	if len(keyColumns) > 0 && len(b.groupSets) <= 1 && b.p.cat.ExchangeTasks(b.rows) > 1 {
		target = b.p.newExchange(b.rows)
	} else {
		keyColumns = nil
	}
	l := &leaf{alias: alias, stage: b.p.addStage(&rel{q: &part, class: b.class, rows: b.rows}, target, keyColumns...),
		cols: part.columnNames()}
	f.elems = []*elem{{leaf: l}}
	in := b.p.newBlock(f, b.rows)
	if target != nil {
		in.readExchange(l, target, keyColumns)
	}
	in.planAfterGrouping(in.class, in.keys)
	r := in.finishBlock(root)
	r.mergesTasks = r.mergesTasks || r.class == nil
	return r
}
