package plan

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// planSubqueries returns the expressions of l with planned subqueries, for tasks of class c. The columns keys
// hold the class's key. If the tasks cannot answer a subquery from their own partitions, the subquery becomes a
// stage.
func (b *block) planSubqueries(l []node, c *class, keys map[string]bool) []node {
	var out []node
	for _, n := range l {
		out = append(out, rewriteNode(n, func(n node) node {
			if strAt(n, "class") != "SUBQUERY" {
				return nil
			}
			if child := nodeAt(n, "child"); child != nil {
				n = withField(n, "child", b.planSubqueries([]node{child}, c, keys)[0])
			}
			return b.planSubquery(n, c, keys)
		}))
	}
	return out
}

// withField returns a copy of n with the value v under the key k.
func withField(n node, k string, v any) node {
	out := node{}
	for k, v := range n {
		out[k] = v
	}
	out[k] = v
	return out
}

// planSubquery plans the subquery n, like planSubqueries. If a correlated subquery cannot run in place, it is
// decorrelated.
func (b *block) planSubquery(n node, c *class, keys map[string]bool) node {
	q, kind := n["query"].(*query), strAt(n, "subquery_type")
	if kind != "EXISTS" && kind != "NOT_EXISTS" && kind != "SCALAR" && kind != "ANY" {
		refuse("a subquery of kind %s", kind)
	}
	outer := q.outerAliases()
	if len(outer) > 0 {
		if r := b.planColocated(q, c, keys); r != nil {
			return withField(n, "query", r)
		}
		return b.decorrelate(n, q, kind, outer)
	}
	if kind == "EXISTS" || kind == "NOT_EXISTS" || kind == "ANY" && q.limit == nil {
		r := *q
		if r.limit == nil {
			r.order = nil
		}
		r.membershipOnly = true
		if kind != "ANY" && !r.agg && r.setop == "" {
			r.sel = []item{{newInt(1), "one"}}
			if r.limit == nil {
				r.limit = newInt(1)
			}
		}
		q = &r
	}
	r := b.p.planInner(q)
	switch {
	case r.class == nil && (!r.mergesTasks || c == nil):
		b.readsMerged = b.readsMerged || r.mergesTasks
		return withField(n, "query", r.q)
	case r.class != nil && r.class == c && kind == "ANY" && r.keys[r.q.columnNames()[0]] &&
		b.equiv.equalsAny(columnName(nodeAt(n, "child")), keys):
		return withField(n, "query", r.q)
	case r.class != nil && kind == "ANY" && !r.q.agg && r.q.setop == "" && r.q.limit == nil:
		r.q.distinct = true // each task sends each row once
	}
	cols := r.q.columnNames()
	return withField(n, "query", b.p.readStage(b.p.addStage(r, nil), cols))
}

// planColocated plans the correlated subquery q in place, if each task of class c has all rows that q reads for
// the task's own rows (a co-located join). Otherwise planColocated returns nil.
func (b *block) planColocated(q *query, c *class, keys map[string]bool) *query {
	if q.setop != "" {
		return nil
	}
	in := b.p.newBlock(q.rewriteExprs(func(node) node { return nil }), 0)
	in.factorOr()
	equiv := findEquivalences(append(slices.Clone(b.where), in.where...))
	for _, e := range in.elems {
		for _, l := range e.leaves() {
			if l.sub != nil {
				if len(l.sub.outerAliases()) > 0 {
					refuse("a query in FROM that refers to another")
				}
				return nil
			}
		}
		if e.kind != "" && in.isPartitioned(e) {
			return nil
		}
		if pc := in.partitionElem(e, false); pc.class != nil && (pc.class != c || !equiv.anyEqual(pc.keys, keys)) {
			return nil
		}
		// The partition key of each element must equal the outer key. The conditions of both queries count,
		// also by way of a third column.
	}
	in.equiv = equiv
	saved := b.equiv
	in.where = in.planNested(in.where, c, keys, equiv)
	for i := range in.sel {
		in.sel[i].expr = in.planNested([]node{in.sel[i].expr}, c, keys, equiv)[0]
	}
	in.having = in.planNested(in.having, c, keys, equiv)
	b.equiv = saved
	b.readsMerged = b.readsMerged || in.readsMerged
	return in.query
}

// planNested plans the subqueries in l for a query that runs in place. The equalities f come from the query and
// from all outer queries.
func (b *block) planNested(l []node, c *class, keys map[string]bool, f *equivalences) []node {
	k := copySet(keys)
	for _, e := range b.elems {
		for a := range b.partitionElem(e, false).keys {
			k[a] = true
		}
	}
	b.equiv = f
	return b.planSubqueries(l, c, k)
}

// isPartitioned reports whether the join e has a partitioned element.
func (b *block) isPartitioned(e *elem) bool {
	if e.kind == "" {
		return b.partitionElem(e, false).class != nil
	}
	return b.isPartitioned(e.left) || b.isPartitioned(e.right)
}

// decorrelate replaces the correlated subquery n by a stage and a query that reads the stage. The stage holds
// the answers for all values that the outer columns may have. The query looks up the answer for the current
// row.
func (b *block) decorrelate(n node, q *query, kind string, outer map[string]bool) node {
	if q.setop != "" || q.limit != nil || len(q.group) > 0 || len(q.having) > 0 || len(q.groupSets) > 1 {
		refuse("a correlated subquery with GROUP BY, " +
			"HAVING, LIMIT or a set operation, over tables that are not partitioned by the same key")
	}
	if slices.ContainsFunc(itemExprs(q.sel), hasWindow) {
		refuse("a correlated subquery with a window function, over tables that are not partitioned by the same key")
	}
	m := q.rewriteExprs(func(node) node { return nil })
	m.where, m.order = nil, nil
	var corr []node
	for _, c := range q.where {
		if anyIn(freeAliases(c), outer) {
			corr = append(corr, c)
		} else {
			m.where = append(m.where, c)
		}
	}
	for _, x := range append(toAnys(itemExprs(q.sel)), fromExprs(q)...) {
		if anyIn(aliasesIn(x), outer) {
			refuse("a correlated subquery whose outer column is not in its WHERE")
		}
	}
	inner := q.definedAliases()
	var st *stage
	var l *leaf
	planInnerStage := func(cols []item) {
		m.sel = cols
		r := b.p.planInner(m)
		if m.membershipOnly && r.class != nil {
			r.q.distinct = true
		}
		st = b.p.addStage(r, nil)
		l = b.p.newLeaf(st, Broadcast, m.columnNames())
	}
	var cols []item
	add := func(x node) string {
		for _, c := range cols {
			if sameExpr(c.expr, x) {
				return c.name
			}
		}
		cols = append(cols, item{x, fmt.Sprintf("k%d", len(cols))})
		return cols[len(cols)-1].name
	}
	// toStageColumns replaces the subquery's own columns in x by columns of the stage.
	toStageColumns := func(x node) node {
		return rewriteNode(x, func(n node) node {
			if a, _ := splitColumn(n); inner[a] {
				return newColumn(l.alias, add(n))
			}
			if strAt(n, "class") == "SUBQUERY" && anyIn(aliasesIn(n), inner) {
				refuse("a correlated subquery inside a correlated one, over tables that are not partitioned by the " +
					"same key")
			}
			return nil
		})
	}
	switch kind {
	case "EXISTS", "NOT_EXISTS", "ANY":
		if m.agg {
			refuse("a correlated subquery of kind %s with an aggregate", kind)
		}
		m.membershipOnly = true
		for _, c := range corr {
			visitNodes(c, func(n node) bool {
				if a, _ := splitColumn(n); inner[a] {
					add(n)
				}
				return true
			})
		}
		value := ""
		if kind == "ANY" {
			value = add(q.sel[0].expr)
		}
		planInnerStage(cols)
		r := &query{elems: []*elem{{leaf: l}}, sel: []item{{newInt(1), "one"}}}
		if value != "" {
			r.sel = []item{{newColumn(l.alias, value), value}}
		}
		for _, c := range corr {
			r.where = append(r.where, toStageColumns(c))
		}
		return withField(n, "query", r)
	}
	if !m.agg {
		refuse("a correlated subquery that gives a value without an aggregate, over tables that are not partitioned " +
			"by the same key")
	}
	r := &query{}
	type pair struct{ inner, outer node }
	var pairs []pair
	for _, c := range corr {
		x, y := nodeAt(c, "left"), nodeAt(c, "right")
		if strAt(c, "type") != "COMPARE_EQUAL" {
			refuse("a correlated subquery with a condition other than =, over tables that are not partitioned by " +
				"the same key")
		}
		if anyIn(aliasesIn(x), outer) {
			x, y = y, x
		}
		if anyIn(aliasesIn(x), outer) || !allIn(aliasesIn(y), outer) || len(aliasesIn(x)) == 0 {
			refuse("a correlated subquery whose condition has both sides' columns on one side")
		}
		pairs = append(pairs, pair{x, y})
		m.group = append(m.group, x)
		add(x)
	}
	m.where = append(m.where,
		b.semiJoinReducers(pairsOf(pairs, func(p pair) (node, node) { return p.inner, p.outer }))...)
	value := q.sel[0].expr
	cols = append(cols, item{value, "value"})
	m.groupSets = []any{listPositions(len(m.group))}
	planInnerStage(cols)
	for _, p := range pairs {
		r.where = append(r.where, newEqual(newColumn(l.alias, add(p.inner)), p.outer))
	}
	r.elems = []*elem{{leaf: l}}
	r.sel = []item{{newColumn(l.alias, "value"), "value"}}
	out := withField(n, "query", r)
	counts := false
	visitNodes(value, func(n node) bool {
		f := strings.ToLower(strAt(n, "function_name"))
		counts = counts || strings.Contains(f, "count") || f == "entropy" || f == "coalesce"
		return true
	})
	if counts { // over no rows, a count is not NULL
		if f := strings.ToLower(strAt(value, "function_name")); f != "count" && f != "count_star" {
			refuse("a correlated subquery that computes with a count, over tables that are not partitioned by the " +
				"same key")
		}
		return node{"class": "OPERATOR", "type": "OPERATOR_COALESCE", "children": []any{out, newInt(0)}}
	}
	visitNodes(value, func(n node) bool {
		if t := strAt(n, "type"); t == "OPERATOR_COALESCE" || t == "CASE_EXPR" || t == "OPERATOR_IS_NULL" ||
			t == "OPERATOR_IS_NOT_NULL" {
			if b.p.hasAggregate(n) {
				refuse("a correlated subquery that tests its aggregate for NULL, over tables that are not " +
					"partitioned by the same key")
			}
		}
		return true
	})
	return out
}

// existsToIn rewrites EXISTS as IN (a semi join), if the condition c only compares columns of a stage with
// columns of the outer row for equality. Any other condition stays unchanged. For IN, DuckDB looks each row up.
// For EXISTS, DuckDB first collects the values that the outer rows have. For NULL, both conditions fail. The
// types must be the same, because IN does not cast.
func (b *block) existsToIn(c node) node {
	q, ok := c["query"].(*query)
	if !ok || strAt(c, "subquery_type") != "EXISTS" || len(q.elems) != 1 || q.elems[0].kind != "" ||
		q.elems[0].stage == nil || q.agg || q.limit != nil || len(q.where) == 0 {
		return c
	}
	own := map[string]bool{q.elems[0].alias: true}
	var have, want, known []node
	for _, w := range q.where {
		x, y := nodeAt(w, "left"), nodeAt(w, "right")
		if anyIn(aliasesIn(y), own) {
			x, y = y, x
		}
		if strAt(w, "type") != "COMPARE_EQUAL" || !own[aliasOf(x)] || columnType(b.p.cat, q.elems, x) == "" ||
			columnType(b.p.cat, q.elems, x) != columnType(b.p.cat, b.elems, y) {
			return c
		}
		have, want = append(have, x), append(want, y)
		known = append(known, node{"class": "OPERATOR", "type": "OPERATOR_IS_NOT_NULL", "children": []any{x}})
	}
	m := *q
	m.where = nil
	x, y := have[0], want[0]
	if len(have) > 1 { // NULLs inside row values compare as equal
		x, y, m.where = newCall("row", have...), newCall("row", want...), known
	}
	m.sel = []item{{x, "one"}}
	return node{"class": "SUBQUERY", "type": "SUBQUERY", "subquery_type": "ANY", "comparison_type": "COMPARE_EQUAL",
		"child": y, "query": &m}
}

// columnType returns the type of the column n of elems, if the column comes from a table, through any number of
// queries and stages; else "".
func columnType(cat Catalog, elems []*elem, n node) string {
	a, c := splitColumn(n)
	for _, e := range elems {
		for _, l := range e.leaves() {
			if l.alias != a || a == "" {
				continue
			}
			q := l.sub
			if l.stage != nil {
				q = l.stage.rel.q
			}
			if l.table != "" {
				t := cat.Table(l.table)
				return t.Types[slices.Index(t.Columns, c)]
			}
			if q == nil || q.setop != "" {
				return ""
			}
			if i := slices.IndexFunc(q.sel, func(it item) bool { return it.name == c }); i >= 0 {
				return columnType(cat, q.elems, q.sel[i].expr)
			}
		}
	}
	return ""
}

func pairsOf[P any](l []P, f func(P) (node, node)) [][2]node {
	var out [][2]node
	for _, p := range l {
		x, y := f(p)
		out = append(out, [2]node{x, y})
	}
	return out
}

// listPositions returns the grouping set of all n grouping columns: their positions.
func listPositions(n int) []any {
	out := []any{}
	for i := range n {
		out = append(out, i)
	}
	return out
}

// itemExprs returns the expressions of a select list.
func itemExprs(l []item) []node {
	var out []node
	for _, it := range l {
		out = append(out, it.expr)
	}
	return out
}

// fromExprs returns the conditions and queries in the FROM of q.
func fromExprs(q *query) []any {
	return (&query{elems: q.elems}).allExprs()
}

// semiJoinReducers returns conditions that reduce the rows of a subquery to the rows that the outer query may
// ask for. Each pair holds a column of the subquery and the outer expression that the column must equal. For
// each filtered leaf of the outer query, a condition (EXISTS) says that the column equals a column of a row
// that passes the filter.
func (b *block) semiJoinReducers(pairs [][2]node) []node {
	var out []node
	for _, e := range b.elems {
		if e.kind != "" || e.sub != nil || e.spread == Partitioned {
			continue
		}
		var own, keys []node
		l := *e.leaf
		l.alias = b.p.bind.newAlias(e.alias)
		moved := func(n node) node {
			if a, c := splitColumn(n); a == e.alias {
				return newColumn(l.alias, c)
			}
			return nil
		}
		for _, p := range pairs {
			if a, _ := splitColumn(p[1]); a == e.alias {
				keys = append(keys, newEqual(rewriteNode(p[1], moved), p[0]))
			}
		}
		for _, w := range b.where {
			if r := freeAliases(w); len(r) == 1 && r[e.alias] && !b.hasScalarSubquery(w) {
				own = append(own, rewriteNode(w, moved))
			}
		}
		if len(keys) == 0 || l.table != "" && len(own) == 0 {
			continue
		}
		out = append(out, node{"class": "SUBQUERY", "type": "SUBQUERY", "subquery_type": "EXISTS",
			"comparison_type": "INVALID", "query": &query{elems: []*elem{{leaf: &l}}, where: append(own, keys...),
				sel: []item{{newInt(1), "one"}}}})
	}
	return out
}

// hasScalarSubquery reports whether n contains a subquery that gives a value. A condition with such a subquery
// is not evaluated twice.
func (b *block) hasScalarSubquery(n node) bool {
	found := false
	visitNodes(n, func(n node) bool {
		found = found || strAt(n, "subquery_type") == "SCALAR"
		return !found
	})
	return found
}

// planGrouping plans all that comes after WHERE. If each group is complete at one task, the tasks aggregate on
// their own. Otherwise the aggregation is split.
func (b *block) planGrouping(root bool) *rel {
	if b.agg {
		complete := b.class == nil || len(b.groupSets) <= 1 &&
			slices.ContainsFunc(b.query.group, func(g node) bool { return b.equiv.equalsAny(columnName(g), b.keys) })
		switch {
		case complete:
		case slices.ContainsFunc(b.findAggregates(), func(n node) bool { return !canMerge(n) }):
			return b.gatherRows(root)
		default:
			return b.splitAggregation(root)
		}
	}
	b.planAfterGrouping(b.class, b.keys)
	return b.finishBlock(root)
}

// planAfterGrouping plans the subqueries in HAVING, in the select list and in ORDER BY, for tasks of class c.
func (b *block) planAfterGrouping(c *class, keys map[string]bool) {
	b.having = b.planSubqueries(b.having, c, keys)
	for i := range b.sel {
		b.sel[i].expr = b.planSubqueries([]node{b.sel[i].expr}, c, keys)[0]
	}
	for i := range b.order {
		b.order[i].expr = b.planSubqueries([]node{b.order[i].expr}, c, keys)[0]
	}
}

// orderExprs returns the expressions of ORDER BY.
func orderExprs(l []order) []node {
	var out []node
	for _, o := range l {
		out = append(out, o.expr)
	}
	return out
}

// finishBlock returns the rel of a block that each task can run to the end, except for DISTINCT, ORDER BY and
// LIMIT. If the rest needs the rows of all tasks, finishBlock adds a stage, and a single task merges the
// output.
func (b *block) finishBlock(root bool) *rel {
	r := &rel{q: b.query, class: b.class, keys: map[string]bool{}, mergesTasks: b.readsMerged, rows: b.rows}
	if b.class == nil {
		if b.limit == nil && !root {
			b.order = nil
		}
		if (b.agg || b.distinct) && b.rows > repeatedRows {
			r.mergesTasks = true
		}
		return r
	}
	for _, it := range b.sel {
		if b.equiv.equalsAny(columnName(it.expr), b.keys) {
			r.keys[it.name] = true
		}
	}
	again := b.distinct && len(r.keys) == 0 && !b.membershipOnly
	if b.limit == nil && !again && (!root || len(b.order) == 0) {
		b.order = nil
		return r
	}
	if b.limit == nil && again && !root {
		b.order = nil
	}
	// Each task applies DISTINCT, ORDER BY and LIMIT to its partition. A single task then does the same with
	// the tasks' outputs.
	part, whole := *b.query, query{order: b.order, limit: b.limit, offset: b.offset, distinct: b.distinct}
	part.sel, part.offset = nil, nil
	var sel, orderNames []string
	for _, it := range b.sel {
		sel = append(sel, putItem(&part.sel, "c", it.expr))
	}
	for _, o := range b.order {
		orderNames = append(orderNames, putItem(&part.sel, "c", o.expr))
	}
	if b.limit != nil {
		n := constantInt(b.limit)
		if b.offset != nil {
			n += constantInt(b.offset)
		}
		part.limit = newInt(n)
	} else {
		part.order = nil
	}
	st := b.p.addStage(&rel{q: &part, class: b.class, rows: b.rows}, nil)
	l := b.p.newLeaf(st, Broadcast, part.columnNames())
	whole.elems = []*elem{{leaf: l}}
	for i, it := range b.sel {
		whole.sel = append(whole.sel, item{newColumn(l.alias, sel[i]), it.name})
	}
	whole.order = slices.Clone(b.order)
	for i := range whole.order {
		whole.order[i].expr = newColumn(l.alias, orderNames[i])
	}
	return &rel{q: &whole, mergesTasks: true, rows: b.rows}
}

// readExchange has each task of b read a bucket of l, which a stage has moved to target by keyColumns. If a single
// column chooses the bucket, the column is a key of b.
func (b *block) readExchange(l *leaf, target *class, keyColumns []node) {
	l.spread, b.class, b.keys = Partitioned, target, map[string]bool{}
	if len(keyColumns) == 1 {
		_, column := splitColumn(keyColumns[0])
		b.keys[l.alias+"."+column] = true
	}
}

// splitAggregation plans a partial aggregation by each task, and a final aggregation of the partial results.
func (b *block) splitAggregation(root bool) *rel {
	b.refuseGroupedSubqueries()
	part := *b.query
	part.sel, part.having, part.order, part.limit, part.offset, part.distinct = nil, nil, nil, nil, nil, false
	part.group, part.groupSets = nil, nil
	put := func(kind string, x node) string { return putItem(&part.sel, kind, x) }
	alias := b.p.bind.newAlias("parts")
	byGroup := map[string]node{}
	late := b.findLateJoin()
	part.elems, part.where = late.earlyElems, late.earlyWhere
	for _, g := range b.query.group {
		if byGroup[structureKey(g)] = g; !anyIn(aliasesIn(g), late.aliases) {
			byGroup[structureKey(g)] = newColumn(alias, put("g", g))
		}
	}
	if late.groupedColumn != nil {
		late.lateOn = append(late.lateOn, newEqual(late.lateColumn, newColumn(alias, put("g", late.groupedColumn))))
	}
	group := slices.Clone(itemExprs(part.sel))
	grouped := func(n node) node { return byGroup[structureKey(n)] }
	var whole func(x node) node
	whole = func(x node) node {
		return rewriteNode(x, func(n node) node {
			switch g := grouped(n); {
			case g != nil:
				return g
			case strAt(n, "class") == "SUBQUERY": // aggregates inside a subquery stay in the subquery
				n = withField(n, "query", n["query"].(*query).rewriteExprs(grouped))
				if child := nodeAt(n, "child"); child != nil {
					n["child"] = whole(child)
				}
				return n
			case b.p.isAggregate(n):
				return b.p.mergeAggregate(n, alias, put)
			case strAt(n, "class") == "FUNCTION" && strAt(n, "function_name") == "grouping":
				refuse("grouping()")
			}
			return nil
		})
	}
	f := query{agg: true, distinct: b.distinct, order: slices.Clone(b.order), limit: b.limit, offset: b.offset}
	for _, it := range b.sel {
		f.sel = append(f.sel, item{whole(it.expr), it.name})
	}
	for _, h := range b.having {
		f.having = append(f.having, whole(h))
	}
	for i := range f.order {
		f.order[i].expr = whole(f.order[i].expr)
	}
	for _, g := range b.query.group {
		f.group = append(f.group, byGroup[structureKey(g)])
	}
	f.groupSets = b.groupSets
	// The tasks group by the grouping keys, and by the arguments of DISTINCT aggregates.
	for _, it := range part.sel {
		if strings.HasPrefix(it.name, "g") || strings.HasPrefix(it.name, "d") {
			part.group = append(part.group, it.expr)
		}
	}
	if len(part.sel) == 0 {
		put("n", newCall("count_star"))
	}
	part.agg = true
	part.groupSets = []any{listPositions(len(part.group))}
	if len(part.group) == 0 {
		part.groupSets = nil
	}
	var target *class
	var keyColumns []node
	groups := b.p.estimateGroups(part.elems, part.group)
	moved := min(b.rows, groups*float64(b.class.tasks))
	if len(group) > 0 && len(b.groupSets) <= 1 && b.p.cat.ExchangeTasks(moved) > 1 {
		target = b.p.newExchange(moved)
		for i := range group {
			keyColumns = append(keyColumns, newColumn("", part.sel[i].name))
		}
	}
	st := b.p.addStage(&rel{q: &part, class: b.class, rows: moved}, target, keyColumns...)
	l := &leaf{alias: alias, stage: st, cols: part.columnNames()}
	f.elems, f.where = append([]*elem{{leaf: l}}, late.lateElems...), late.lateOn
	in := b.p.newBlock(&f, min(b.rows, groups))
	for _, x := range f.allExprs() {
		n, ok := x.(node)
		if !ok {
			continue
		}
		for a := range freeAliases(n) {
			if a != alias && !late.aliases[a] {
				refuse("a column that is neither grouped nor aggregated")
			}
		}
	}
	if target != nil {
		in.readExchange(l, target, keyColumns)
	}
	in.planAfterGrouping(in.class, in.keys)
	r := in.finishBlock(root)
	if r.class == nil && len(group) > 0 {
		r.mergesTasks = true
	}
	return r
}

// lateJoin is a set of whole tables that add columns to the groups and filter no rows. The final aggregation
// joins these tables (late materialisation), so the partial aggregation scans fewer tables.
type lateJoin struct {
	lateElems                 []*elem // tables that the final aggregation joins, by lateColumn = groupedColumn
	lateColumn, groupedColumn node
	lateOn                    []node // the other conditions of the late join
	aliases                   map[string]bool

	earlyElems []*elem // elements that the partial aggregation joins, by earlyWhere
	earlyWhere []node
}

// findLateJoin finds whole tables that each task would scan in vain, because rows are grouped by the tables'
// key anyway. If there are no such tables, all elements are early.
func (b *block) findLateJoin() *lateJoin {
	grouped := map[string]bool{}
	for _, g := range b.query.group {
		if n := columnName(g); n != "" {
			grouped[n] = true
		}
	}
	for i, c := range b.where {
		x, y := nodeAt(c, "left"), nodeAt(c, "right")
		if strAt(c, "type") != "COMPARE_EQUAL" || columnName(y) == "" || !b.equiv.equalsAny(columnName(x), grouped) ||
			len(b.groupSets) > 1 {
			continue
		}
		where := slices.Delete(slices.Clone(b.where), i, i+1)
		for _, lateColumn := range []node{x, y} {
			l := &lateJoin{lateColumn: lateColumn, groupedColumn: y,
				aliases: map[string]bool{aliasOf(lateColumn): true}}
			if sameExpr(lateColumn, y) {
				l.groupedColumn = x
			}
			if b.fillLateJoin(l, where) {
				return l
			}
		}
	}
	return &lateJoin{earlyElems: b.elems, earlyWhere: b.where}
}

// fillLateJoin adds to l the tables joined with the first table of l. It reports whether all of l can be joined
// late.
func (b *block) fillLateJoin(l *lateJoin, where []node) bool {
	for n := 0; n < len(l.aliases); {
		n = len(l.aliases)
		for _, c := range where {
			if r := freeAliases(c); anyIn(r, l.aliases) {
				maps.Copy(l.aliases, r)
			}
		}
	}
	if l.aliases[aliasOf(l.groupedColumn)] {
		return false
	}
	for _, c := range where {
		switch r := freeAliases(c); {
		case !anyIn(r, l.aliases):
			l.earlyWhere = append(l.earlyWhere, c)
		case len(r) == 1 || hasSubquery(c): // a filter removes rows
			return false
		default:
			l.lateOn = append(l.lateOn, c)
		}
	}
	for _, e := range b.elems {
		switch {
		case !anyIn(e.aliases(), l.aliases):
			l.earlyElems = append(l.earlyElems, e)
		case e.kind != "" || e.table == "" || b.p.cat.Table(e.table).Class != "":
			return false
		default:
			l.lateElems = append(l.lateElems, e)
		}
	}
	for _, g := range b.query.group {
		if r := aliasesIn(g); anyIn(r, l.aliases) && !allIn(r, l.aliases) {
			return false
		}
	}
	apart := true
	for _, x := range slices.Concat(itemExprs(b.sel), b.having, orderExprs(b.order)) {
		visitNodes(x, func(n node) bool {
			// also as a window function
			if b.p.aggregateNames[strings.ToLower(strAt(n, "function_name"))] && anyIn(aliasesIn(n), l.aliases) {
				apart = false
			}
			return apart
		})
	}
	return apart
}

// refuseGroupedSubqueries refuses subqueries in GROUP BY and inside aggregates.
func (b *block) refuseGroupedSubqueries() {
	for i, g := range b.query.group {
		if hasSubquery(g) {
			refuse("a subquery in GROUP BY")
		}
		b.query.group[i] = g
	}
	for _, it := range b.sel {
		visitNodes(it.expr, func(n node) bool {
			if b.p.isAggregate(n) && hasSubquery(n) {
				refuse("a subquery in an aggregate")
			}
			return true
		})
	}
}

// preaggregationKeys reports whether the moved side of an outer join can be aggregated before the join (eager
// aggregation), and returns the columns to group by. The moved side consists of the leaves aliases. Except for
// the returned columns, the block may only use the side in aggregates of plain columns. In a row without a
// match these columns are NULL. Aggregates over other columns must be min, max or count(*).
func (b *block) preaggregationKeys(aliases map[string]bool) (keys []node, ok bool) {
	ok = b.agg
	add := func(n node) {
		if a, _ := splitColumn(n); aliases[a] &&
			!slices.ContainsFunc(keys, func(k node) bool { return sameExpr(k, n) }) {
			keys = append(keys, n)
		}
	}
	var look func(n node) bool
	look = func(n node) bool {
		add(n)
		if strAt(n, "class") == "SUBQUERY" {
			visitNodes(n, func(n node) bool { add(n); return true })
			return false
		}
		f := strings.ToLower(strAt(n, "function_name"))
		if !b.p.isAggregate(n) {
			return true
		}
		extreme := f == "min" || f == "max"
		if !anyIn(aliasesIn(n), aliases) {
			ok = ok && (extreme || f == "count_star" && nodeAt(n, "filter") == nil)
			return true
		}
		args := nodesAt(n, "children")
		plain := len(args) == 1 && columnName(args[0]) != "" && nodeAt(n, "filter") == nil &&
			len(nodesAt(nodeAt(n, "order_bys"), "orders")) == 0
		ok = ok && plain && (extreme || (f == "count" || f == "sum" || f == "avg" || f == "mean") &&
			!boolAt(n, "distinct"))
		return false
	}
	for _, x := range b.query.allExprs() {
		visitNodes(x, look)
	}
	return keys, ok
}

// preaggregateMoved makes tasks aggregate the moved rows of the leaf l, grouped by preaggregationKeys. After
// the aggregation, the estimated number of rows is rows.
func (b *block) preaggregateMoved(l *leaf, rows float64) {
	keys, _ := b.preaggregationKeys(map[string]bool{l.alias: true})
	from := b.p.bind.newAlias("moved")
	part := &query{agg: true, elems: []*elem{{leaf: &leaf{alias: from, sub: l.stage.rel.q, cols: l.cols}}}}
	for _, k := range keys {
		_, c := splitColumn(k)
		part.group = append(part.group, newColumn(from, c))
		part.sel = append(part.sel, item{newColumn(from, c), c})
	}
	part.groupSets = []any{listPositions(len(part.group))}
	put := func(kind string, x node) string {
		x = rewriteNode(x, func(n node) node {
			if a, c := splitColumn(n); a == l.alias {
				return newColumn(from, c)
			}
			return nil
		})
		return putItem(&part.sel, kind, x)
	}
	whole := func(x node) node {
		return rewriteNode(x, func(n node) node {
			if strAt(n, "class") == "SUBQUERY" {
				return n
			}
			switch f := strings.ToLower(strAt(n, "function_name")); {
			case !b.p.isAggregate(n):
			case f == "count_star": // a row without a match counts as one row
				one := node{"class": "OPERATOR", "type": "OPERATOR_COALESCE",
					"children": []any{newColumn(l.alias, put("a", n)), newInt(1)}}
				return newCast(node{"class": "OPERATOR", "type": "OPERATOR_COALESCE",
					"children": []any{newCall("sum", one), newInt(0)}}, "BIGINT")
			case aliasesIn(n)[l.alias]:
				return b.p.mergeAggregate(n, l.alias, put)
			}
			return nil
		})
	}
	for i := range b.sel {
		b.sel[i].expr = whole(b.sel[i].expr)
	}
	for i := range b.having {
		b.having[i] = whole(b.having[i])
	}
	for i := range b.order {
		b.order[i].expr = whole(b.order[i].expr)
	}
	r := *l.stage.rel
	r.q, r.rows = part, rows
	l.stage.rel, l.cols = &r, part.columnNames()
}

// mergeAggregate adds the partial aggregates of n to the tasks' output, by put. It returns the expression that
// merges the partial results. n is an aggregate that canMerge accepts.
func (p *queryPlanner) mergeAggregate(n node, alias string, put func(string, node) string) node {
	f := strings.ToLower(strAt(n, "function_name"))
	args := nodesAt(n, "children")
	if boolAt(n, "distinct") && f != "min" && f != "max" {
		out := withField(n, "children", []any{newColumn(alias, put("d", args[0]))})
		if c := nodeAt(n, "filter"); c != nil {
			out["filter"] = newColumn(alias, put("d", c))
		}
		return out
	}
	part := withField(n, "alias", "")
	delete(part, "distinct")
	sum := func(partial node) node { return newCall("sum", newColumn(alias, put("a", partial))) }
	switch f {
	case "count", "count_star":
		return newCast(node{"class": "OPERATOR", "type": "OPERATOR_COALESCE",
			"children": []any{sum(part), newInt(0)}}, "BIGINT")
	case "count_if", "countif":
		return node{"class": "OPERATOR", "type": "OPERATOR_COALESCE", "children": []any{sum(part), newInt(0)}}
	case "sum":
		return sum(part)
	case "min", "max", "bool_and", "bool_or", "bit_and", "bit_or", "any_value":
		return newCall(f, newColumn(alias, put("a", part)))
	case "avg", "mean":
		s, c := withField(part, "function_name", "sum"), withField(part, "function_name", "count")
		return newOperator("/", newCast(sum(s), "DOUBLE"), newCast(sum(c), "DOUBLE"))
	}
	return p.mergeMoments(part, momentName(f), alias, put)
}

// estimateGroups estimates the number of groups.
func (p *queryPlanner) estimateGroups(elems []*elem, groupBy []node) float64 {
	n := 1.0
	for _, g := range groupBy {
		n *= max(1, p.estimateValues(elems, g))
	}
	return n
}

// unknownValues is the assumed number of distinct values of an expression about which nothing is known.
const unknownValues = 100

// estimateValues estimates the number of distinct values of an expression.
func (p *queryPlanner) estimateValues(elems []*elem, g node) float64 {
	a, c := splitColumn(g)
	aliases := aliasesIn(g)
	for _, e := range elems {
		for _, l := range e.leaves() {
			switch {
			case len(aliases) != 1 || !aliases[l.alias]:
			case l.sub != nil && a != "" && l.sub.setop == "":
				i := slices.IndexFunc(l.sub.sel, func(it item) bool { return it.name == c })
				if i >= 0 {
					return p.estimateValues(l.sub.elems, l.sub.sel[i].expr)
				}
			case l.stage != nil && a != "":
				return l.stage.rel.rows
			case l.table != "" && a != "":
				return float64(p.cat.Table(l.table).Distinct[c])
			case l.table != "" && !hasSubquery(g) && !p.hasAggregate(g):
				if v, err := p.sql.DistinctValues(l.table, l.alias, p.printExpr(g)); err == nil {
					return v
				}
			}
		}
	}
	return unknownValues
}
