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
func (b *block) subqueries(l []node, c *class, keys map[string]bool) []node {
	var out []node
	for _, n := range l {
		out = append(out, rewriteNode(n, func(n node) node {
			if str(n, "class") != "SUBQUERY" {
				return nil
			}
			if child := sub(n, "child"); child != nil {
				n = with(n, "child", b.subqueries([]node{child}, c, keys)[0])
			}
			return b.subquery(n, c, keys)
		}))
	}
	return out
}

// withField returns a copy of n with the value v under the key k.
func with(n node, k string, v any) node {
	out := node{}
	for k, v := range n {
		out[k] = v
	}
	out[k] = v
	return out
}

// planSubquery plans the subquery n, like planSubqueries. If a correlated subquery cannot run in place, it is
// decorrelated.
func (b *block) subquery(n node, c *class, keys map[string]bool) node {
	q, kind := n["query"].(*query), str(n, "subquery_type")
	if kind != "EXISTS" && kind != "NOT_EXISTS" && kind != "SCALAR" && kind != "ANY" {
		refuse("a subquery of kind %s", kind)
	}
	outer := q.outer()
	if len(outer) > 0 {
		if r := b.correlated(q, c, keys); r != nil {
			return with(n, "query", r)
		}
		return b.decorrelate(n, q, kind, outer)
	}
	if kind == "EXISTS" || kind == "NOT_EXISTS" || kind == "ANY" && q.limit == nil {
		r := *q
		if r.limit == nil {
			r.order = nil
		}
		r.semi = true
		if kind != "ANY" && !r.agg && r.setop == "" {
			r.sel = []item{{integer(1), "one"}}
			if r.limit == nil {
				r.limit = integer(1)
			}
		}
		q = &r
	}
	r := b.p.plan(q)
	switch {
	case r.class == nil && (!r.merged || c == nil):
		b.once = b.once || r.merged
		return with(n, "query", r.q)
	case r.class != nil && r.class == c && kind == "ANY" && r.keys[r.q.columns()[0]] && b.facts.among(name(sub(n, "child")), keys):
		return with(n, "query", r.q)
	case r.class != nil && kind == "ANY" && !r.q.agg && r.q.setop == "" && r.q.limit == nil:
		r.q.distinct = true // each task sends each row once
	}
	cols := r.q.columns()
	return with(n, "query", b.p.read(b.p.materialise(r, nil), cols))
}

// planColocated plans the correlated subquery q in place, if each task of class c has all rows that q reads for
// the task's own rows (a co-located join). Otherwise planColocated returns nil.
func (b *block) correlated(q *query, c *class, keys map[string]bool) *query {
	if q.setop != "" {
		return nil
	}
	in := &block{p: b.p, query: q.rewrite(func(node) node { return nil }), derived: map[string]piece{}, merged: map[string]*rel{}}
	in.factor()
	facts := factsOf(append(slices.Clone(b.where), in.where...))
	for _, e := range in.elems {
		for _, l := range e.leaves() {
			if l.sub != nil {
				if len(l.sub.outer()) > 0 {
					refuse("a query in FROM that refers to another")
				}
				return nil
			}
		}
		if e.kind != "" && in.partitioned(e) {
			return nil
		}
		if pc := in.piece(e, false); pc.class != nil && (pc.class != c || !facts.same(pc.keys, keys)) {
			return nil
		}
		// The partition key of each element must equal the outer key. The conditions of both queries count,
		// also by way of a third column.
	}
	in.facts = facts
	saved := b.facts
	in.where = in.nested(in.where, c, keys, facts)
	for i := range in.sel {
		in.sel[i].expr = in.nested([]node{in.sel[i].expr}, c, keys, facts)[0]
	}
	in.having = in.nested(in.having, c, keys, facts)
	b.facts = saved
	b.once = b.once || in.once
	return in.query
}

// planNested plans the subqueries in l for a query that runs in place. The equalities f come from the query and
// from all outer queries.
func (b *block) nested(l []node, c *class, keys map[string]bool, f *facts) []node {
	k := copied(keys)
	for _, e := range b.elems {
		for a := range b.piece(e, false).keys {
			k[a] = true
		}
	}
	b.facts = f
	return b.subqueries(l, c, k)
}

// isPartitioned reports whether the join e has a partitioned element.
func (b *block) partitioned(e *elem) bool {
	if e.kind == "" {
		return b.piece(e, false).class != nil
	}
	return b.partitioned(e.left) || b.partitioned(e.right)
}

// decorrelate replaces the correlated subquery n by a stage and a query that reads the stage. The stage holds
// the answers for all values that the outer columns may have. The query looks up the answer for the current
// row.
func (b *block) decorrelate(n node, q *query, kind string, outer map[string]bool) node {
	if q.setop != "" || q.limit != nil || len(q.group) > 0 || len(q.having) > 0 || len(q.groupSets) > 1 {
		refuse("a correlated subquery with GROUP BY, HAVING, LIMIT or a set operation, over tables that are not cut alike")
	}
	m := q.rewrite(func(node) node { return nil })
	m.where, m.order = nil, nil
	var corr []node
	for _, c := range q.where {
		if meets(free(c), outer) {
			corr = append(corr, c)
		} else {
			m.where = append(m.where, c)
		}
	}
	for _, x := range append(anys(exprs(q.sel)), from(q)...) {
		if meets(refs(x), outer) {
			refuse("a correlated subquery whose outer column is not in its WHERE")
		}
	}
	inner := q.defined()
	var st *stage
	var l *leaf
	read := func(cols []item) {
		m.sel = cols
		r := b.p.plan(m)
		if m.semi && r.class != nil {
			r.q.distinct = true
		}
		st = b.p.materialise(r, nil)
		l = b.p.leaf(st, All, m.columns())
	}
	var cols []item
	add := func(x node) string {
		for _, c := range cols {
			if same(c.expr, x) {
				return c.name
			}
		}
		cols = append(cols, item{x, fmt.Sprintf("k%d", len(cols))})
		return cols[len(cols)-1].name
	}
	// toStageColumns replaces the subquery's own columns in x by columns of the stage.
	columns := func(x node) node {
		return rewriteNode(x, func(n node) node {
			if a, _ := columnOf(n); inner[a] {
				return column(l.alias, add(n))
			}
			if str(n, "class") == "SUBQUERY" && meets(refs(n), inner) {
				refuse("a correlated subquery inside a correlated one, over tables that are not cut alike")
			}
			return nil
		})
	}
	switch kind {
	case "EXISTS", "NOT_EXISTS", "ANY":
		if m.agg {
			refuse("a correlated subquery of kind %s with an aggregate", kind)
		}
		m.semi = true
		for _, c := range corr {
			visit(c, func(n node) bool {
				if a, _ := columnOf(n); inner[a] {
					add(n)
				}
				return true
			})
		}
		value := ""
		if kind == "ANY" {
			value = add(q.sel[0].expr)
		}
		read(cols)
		r := &query{elems: []*elem{{leaf: l}}, sel: []item{{integer(1), "one"}}}
		if value != "" {
			r.sel = []item{{column(l.alias, value), value}}
		}
		for _, c := range corr {
			r.where = append(r.where, columns(c))
		}
		return with(n, "query", r)
	}
	if !m.agg {
		refuse("a correlated subquery that gives a value without an aggregate, over tables that are not cut alike")
	}
	r := &query{}
	type pair struct{ inner, outer node }
	var pairs []pair
	for _, c := range corr {
		x, y := sub(c, "left"), sub(c, "right")
		if str(c, "type") != "COMPARE_EQUAL" {
			refuse("a correlated subquery with a condition other than =, over tables that are not cut alike")
		}
		if meets(refs(x), outer) {
			x, y = y, x
		}
		if meets(refs(x), outer) || !within(refs(y), outer) || len(refs(x)) == 0 {
			refuse("a correlated subquery whose condition has both sides' columns on one side")
		}
		pairs = append(pairs, pair{x, y})
		m.group = append(m.group, x)
		add(x)
	}
	m.where = append(m.where, b.reducers(pairsOf(pairs, func(p pair) (node, node) { return p.inner, p.outer }))...)
	value := q.sel[0].expr
	cols = append(cols, item{value, "value"})
	m.groupSets = []any{positions(len(m.group))}
	read(cols)
	for _, p := range pairs {
		r.where = append(r.where, equal(column(l.alias, add(p.inner)), p.outer))
	}
	r.elems = []*elem{{leaf: l}}
	r.sel = []item{{column(l.alias, "value"), "value"}}
	out := with(n, "query", r)
	counts := false
	visit(value, func(n node) bool {
		counts = counts || strings.HasPrefix(strings.ToLower(str(n, "function_name")), "count") || str(n, "function_name") == "coalesce"
		return true
	})
	if counts { // over no rows, a count is not NULL
		if f := strings.ToLower(str(value, "function_name")); f != "count" && f != "count_star" {
			refuse("a correlated subquery that reckons with a count, over tables that are not cut alike")
		}
		return node{"class": "OPERATOR", "type": "OPERATOR_COALESCE", "children": []any{out, integer(0)}}
	}
	visit(value, func(n node) bool {
		if t := str(n, "type"); t == "OPERATOR_COALESCE" || t == "CASE_EXPR" || t == "OPERATOR_IS_NULL" || t == "OPERATOR_IS_NOT_NULL" {
			if b.p.aggregates(n) {
				refuse("a correlated subquery that looks whether its aggregate is NULL, over tables that are not cut alike")
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
func (b *block) member(c node) node {
	q, ok := c["query"].(*query)
	if !ok || str(c, "subquery_type") != "EXISTS" || len(q.elems) != 1 || q.elems[0].kind != "" || q.elems[0].stage == nil || q.agg || q.limit != nil || len(q.where) == 0 {
		return c
	}
	own := map[string]bool{q.elems[0].alias: true}
	var have, want, known []node
	for _, w := range q.where {
		x, y := sub(w, "left"), sub(w, "right")
		if meets(refs(y), own) {
			x, y = y, x
		}
		if str(w, "type") != "COMPARE_EQUAL" || !own[refOf(x)] || typeIn(b.p.cat, q.elems, x) == "" || typeIn(b.p.cat, q.elems, x) != typeIn(b.p.cat, b.elems, y) {
			return c
		}
		have, want = append(have, x), append(want, y)
		known = append(known, node{"class": "OPERATOR", "type": "OPERATOR_IS_NOT_NULL", "children": []any{x}})
	}
	m := *q
	m.where = nil
	x, y := have[0], want[0]
	if len(have) > 1 { // NULLs inside row values compare as equal
		x, y, m.where = call("row", have...), call("row", want...), known
	}
	m.sel = []item{{x, "one"}}
	return node{"class": "SUBQUERY", "type": "SUBQUERY", "subquery_type": "ANY", "comparison_type": "COMPARE_EQUAL", "child": y, "query": &m}
}

// columnType returns the type of the column n of elems, if the column comes from a table, through any number of
// queries and stages; else "".
func typeIn(cat Catalog, elems []*elem, n node) string {
	a, c := columnOf(n)
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
				return typeIn(cat, q.elems, q.sel[i].expr)
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

// groupingSet returns the grouping set of all n grouping columns: their positions.
func positions(n int) []any {
	out := []any{}
	for i := range n {
		out = append(out, i)
	}
	return out
}

// itemExprs returns the expressions of a select list.
func exprs(l []item) []node {
	var out []node
	for _, it := range l {
		out = append(out, it.expr)
	}
	return out
}

// fromExprs returns the conditions and queries in the FROM of q.
func from(q *query) []any {
	return (&query{elems: q.elems}).expressions()
}

// semiJoinReducers returns conditions that reduce the rows of a subquery to the rows that the outer query may
// ask for. Each pair holds a column of the subquery and the outer expression that the column must equal. For
// each filtered leaf of the outer query, a condition (EXISTS) says that the column equals a column of a row
// that passes the filter.
func (b *block) reducers(pairs [][2]node) []node {
	var out []node
	for _, e := range b.elems {
		if e.kind != "" || e.sub != nil || e.spread == Aligned {
			continue
		}
		var own, keys []node
		l := *e.leaf
		l.alias = b.p.bind.alias(e.alias)
		moved := func(n node) node {
			if a, c := columnOf(n); a == e.alias {
				return column(l.alias, c)
			}
			return nil
		}
		for _, p := range pairs {
			if a, _ := columnOf(p[1]); a == e.alias {
				keys = append(keys, equal(rewriteNode(p[1], moved), p[0]))
			}
		}
		for _, w := range b.where {
			if r := free(w); len(r) == 1 && r[e.alias] && !b.scalar(w) {
				own = append(own, rewriteNode(w, moved))
			}
		}
		if len(keys) == 0 || l.table != "" && len(own) == 0 {
			continue
		}
		out = append(out, node{"class": "SUBQUERY", "type": "SUBQUERY", "subquery_type": "EXISTS", "comparison_type": "INVALID",
			"query": &query{elems: []*elem{{leaf: &l}}, where: append(own, keys...), sel: []item{{integer(1), "one"}}}})
	}
	return out
}

// hasScalarSubquery reports whether n contains a subquery that gives a value. A condition with such a subquery
// is not evaluated twice.
func (b *block) scalar(n node) bool {
	found := false
	visit(n, func(n node) bool {
		found = found || str(n, "subquery_type") == "SCALAR"
		return !found
	})
	return found
}

// planGrouping plans all that comes after WHERE. If each group is complete at one task, the tasks aggregate on
// their own. Otherwise the aggregation is split.
func (b *block) group(root bool) *rel {
	if b.agg {
		complete := b.class == nil || len(b.groupSets) <= 1 && slices.ContainsFunc(b.query.group, func(g node) bool { return b.facts.among(name(g), b.keys) })
		if !complete {
			return b.split(root)
		}
	}
	b.after(b.class, b.keys)
	return b.finish(root)
}

// planAfterGrouping plans the subqueries in HAVING, in the select list and in ORDER BY, for tasks of class c.
func (b *block) after(c *class, keys map[string]bool) {
	b.having = b.subqueries(b.having, c, keys)
	for i := range b.sel {
		b.sel[i].expr = b.subqueries([]node{b.sel[i].expr}, c, keys)[0]
	}
	for i := range b.order {
		b.order[i].expr = b.subqueries([]node{b.order[i].expr}, c, keys)[0]
	}
}

// refuseWindows refuses window functions, because each would need the rows of several tasks.
func (b *block) windows() {
	for _, x := range append(exprs(b.sel), orders(b.order)...) {
		visit(x, func(n node) bool {
			if str(n, "class") == "WINDOW" {
				refuse("the window function %s over rows of several tasks", strings.ToLower(str(n, "function_name")))
			}
			return str(n, "class") != "SUBQUERY"
		})
	}
}

// orderExprs returns the expressions of ORDER BY.
func orders(l []order) []node {
	var out []node
	for _, o := range l {
		out = append(out, o.expr)
	}
	return out
}

// finishBlock returns the rel of a block that each task can run to the end, except for DISTINCT, ORDER BY and
// LIMIT. If the rest needs the rows of all tasks, finishBlock adds a stage, and a single task merges the
// output.
func (b *block) finish(root bool) *rel {
	r := &rel{q: b.query, class: b.class, keys: map[string]bool{}, merged: b.once, rows: b.rows}
	if b.class == nil {
		if b.limit == nil && !root {
			b.order = nil
		}
		if (b.agg || b.distinct) && b.rows > 20_000 {
			r.merged = true // too much work for each task of another class
		}
		return r
	}
	b.windows()
	for _, it := range b.sel {
		if b.facts.among(name(it.expr), b.keys) {
			r.keys[it.name] = true
		}
	}
	again := b.distinct && len(r.keys) == 0 && !b.semi
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
	var cols []string
	put := func(x node) string {
		for _, it := range part.sel {
			if same(it.expr, x) {
				return it.name
			}
		}
		part.sel = append(part.sel, item{x, fmt.Sprintf("c%d", len(part.sel))})
		cols = append(cols, part.sel[len(part.sel)-1].name)
		return part.sel[len(part.sel)-1].name
	}
	var sel, by []string
	for _, it := range b.sel {
		sel = append(sel, put(it.expr))
	}
	for _, o := range b.order {
		by = append(by, put(o.expr))
	}
	if b.limit != nil {
		n := constant(b.limit)
		if b.offset != nil {
			n += constant(b.offset)
		}
		part.limit = integer(n)
	} else {
		part.order = nil
	}
	st := b.p.materialise(&rel{q: &part, class: b.class, rows: b.rows}, nil)
	l := b.p.leaf(st, All, cols)
	whole.elems = []*elem{{leaf: l}}
	for i, it := range b.sel {
		whole.sel = append(whole.sel, item{column(l.alias, sel[i]), it.name})
	}
	whole.order = slices.Clone(b.order)
	for i := range whole.order {
		whole.order[i].expr = column(l.alias, by[i])
	}
	return &rel{q: &whole, merged: true, rows: b.rows}
}

// splitAggregation plans a partial aggregation by each task, and a final aggregation of the partial results.
func (b *block) split(root bool) *rel {
	b.class0()
	part := *b.query
	part.sel, part.having, part.order, part.limit, part.offset, part.distinct = nil, nil, nil, nil, nil, false
	part.group, part.groupSets = nil, nil
	put := func(kind string, x node) string {
		for _, it := range part.sel {
			if same(it.expr, x) {
				return it.name
			}
		}
		part.sel = append(part.sel, item{x, fmt.Sprintf("%s%d", kind, len(part.sel))})
		return part.sel[len(part.sel)-1].name
	}
	alias := b.p.bind.alias("parts")
	byGroup := map[string]node{}
	late := b.lookup()
	part.elems, part.where = late.elems, late.where
	for _, g := range b.query.group {
		if byGroup[key(g)] = g; !meets(refs(g), late.aliases) {
			byGroup[key(g)] = column(alias, put("g", g))
		}
	}
	if late.by != nil {
		late.on = append(late.on, equal(late.of, column(alias, put("g", late.by))))
	}
	group := slices.Clone(exprs(part.sel))
	grouped := func(n node) node { return byGroup[key(n)] }
	var whole func(x node) node
	whole = func(x node) node {
		return rewriteNode(x, func(n node) node {
			switch g := grouped(n); {
			case g != nil:
				return g
			case str(n, "class") == "SUBQUERY": // aggregates inside a subquery stay in the subquery
				n = with(n, "query", n["query"].(*query).rewrite(grouped))
				if child := sub(n, "child"); child != nil {
					n["child"] = whole(child)
				}
				return n
			case b.p.isAggregate(n):
				return b.p.merge(n, alias, put)
			case str(n, "class") == "FUNCTION" && str(n, "function_name") == "grouping":
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
		f.group = append(f.group, byGroup[key(g)])
	}
	f.groupSets = b.groupSets
	// The tasks group by the grouping keys, and by the arguments of DISTINCT aggregates.
	for _, it := range part.sel {
		if strings.HasPrefix(it.name, "g") || strings.HasPrefix(it.name, "d") {
			part.group = append(part.group, it.expr)
		}
	}
	if len(part.sel) == 0 {
		put("n", call("count_star"))
	}
	part.agg = true
	part.groupSets = []any{positions(len(part.group))}
	if len(part.group) == 0 {
		part.groupSets = nil
	}
	var to *class
	var by []node
	groups := b.p.groups(part.elems, part.group)
	moved := min(b.rows, groups*float64(b.class.tasks))
	if len(group) > 0 && len(b.groupSets) <= 1 && b.p.cat.Exchange(moved) > 1 {
		to = b.p.exchange(moved)
		for i := range group {
			by = append(by, column("", part.sel[i].name))
		}
	}
	st := b.p.materialise(&rel{q: &part, class: b.class, rows: moved}, to, by...)
	l := &leaf{alias: alias, stage: st, cols: part.columns()}
	f.elems, f.where = append([]*elem{{leaf: l}}, late.late...), late.on
	in := &block{p: b.p, query: &f, derived: map[string]piece{}, merged: map[string]*rel{}, rows: min(b.rows, groups), facts: factsOf(nil)}
	for _, x := range f.expressions() {
		n, ok := x.(node)
		if !ok {
			continue
		}
		for a := range free(n) {
			if a != alias && !late.aliases[a] {
				refuse("a column that is neither grouped nor aggregated")
			}
		}
	}
	if to != nil {
		l.spread = Aligned
		in.class = to
		in.keys = map[string]bool{}
		if len(group) == 1 {
			in.keys[alias+"."+part.sel[0].name] = true
		}
	}
	in.after(in.class, in.keys)
	r := in.finish(root)
	if r.class == nil && len(group) > 0 {
		r.merged = true
	}
	return r
}

// lateJoin is a set of whole tables that add columns to the groups and filter no rows. The final aggregation
// joins these tables (late materialisation), so the partial aggregation scans fewer tables.
type lookup struct {
	late    []*elem // tables that the final aggregation joins, by lateColumn = groupedColumn
	of, by  node
	on      []node // the other conditions of the late join
	aliases map[string]bool

	elems []*elem // elements that the partial aggregation joins, by earlyWhere
	where []node
}

// findLateJoin finds whole tables that each task would scan in vain, because rows are grouped by the tables'
// key anyway. If there are no such tables, all elements are early.
func (b *block) lookup() *lookup {
	grouped := map[string]bool{}
	for _, g := range b.query.group {
		if n := name(g); n != "" {
			grouped[n] = true
		}
	}
	for i, c := range b.where {
		x, y := sub(c, "left"), sub(c, "right")
		if str(c, "type") != "COMPARE_EQUAL" || name(y) == "" || !b.facts.among(name(x), grouped) || len(b.groupSets) > 1 {
			continue
		}
		where := slices.Delete(slices.Clone(b.where), i, i+1)
		for _, of := range []node{x, y} {
			l := &lookup{of: of, by: y, aliases: map[string]bool{refOf(of): true}}
			if same(of, y) {
				l.by = x
			}
			if b.fill(l, where) {
				return l
			}
		}
	}
	return &lookup{elems: b.elems, where: b.where}
}

// fillLateJoin adds to l the tables joined with the first table of l. It reports whether all of l can be joined
// late.
func (b *block) fill(l *lookup, where []node) bool {
	for n := 0; n < len(l.aliases); {
		n = len(l.aliases)
		for _, c := range where {
			if r := free(c); meets(r, l.aliases) {
				maps.Copy(l.aliases, r)
			}
		}
	}
	if l.aliases[refOf(l.by)] {
		return false
	}
	for _, c := range where {
		switch r := free(c); {
		case !meets(r, l.aliases):
			l.where = append(l.where, c)
		case len(r) == 1 || hasSubquery(c): // a filter removes rows
			return false
		default:
			l.on = append(l.on, c)
		}
	}
	for _, e := range b.elems {
		switch {
		case !meets(e.aliases(), l.aliases):
			l.elems = append(l.elems, e)
		case e.kind != "" || e.table == "" || b.p.cat.Table(e.table).Class != "":
			return false
		default:
			l.late = append(l.late, e)
		}
	}
	for _, g := range b.query.group {
		if r := refs(g); meets(r, l.aliases) && !within(r, l.aliases) {
			return false
		}
	}
	apart := true
	for _, x := range slices.Concat(exprs(b.sel), b.having, orders(b.order)) {
		visit(x, func(n node) bool {
			if b.p.agg[strings.ToLower(str(n, "function_name"))] && meets(refs(n), l.aliases) { // also as a window function
				apart = false
			}
			return apart
		})
	}
	return apart
}

// refuseGroupedSubqueries refuses subqueries in GROUP BY and inside aggregates.
func (b *block) class0() {
	for i, g := range b.query.group {
		if hasSubquery(g) {
			refuse("a subquery in GROUP BY")
		}
		b.query.group[i] = g
	}
	for _, it := range b.sel {
		visit(it.expr, func(n node) bool {
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
func (b *block) summed(of map[string]bool) (keys []node, ok bool) {
	ok = b.agg
	add := func(n node) {
		if a, _ := columnOf(n); of[a] && !slices.ContainsFunc(keys, func(k node) bool { return same(k, n) }) {
			keys = append(keys, n)
		}
	}
	var look func(n node) bool
	look = func(n node) bool {
		add(n)
		if str(n, "class") == "SUBQUERY" {
			visit(n, func(n node) bool { add(n); return true })
			return false
		}
		f := strings.ToLower(str(n, "function_name"))
		if !b.p.isAggregate(n) {
			return true
		}
		extreme := f == "min" || f == "max"
		if !meets(refs(n), of) {
			ok = ok && (extreme || f == "count_star" && sub(n, "filter") == nil)
			return true
		}
		args := nodes(n, "children")
		plain := len(args) == 1 && name(args[0]) != "" && sub(n, "filter") == nil && len(nodes(sub(n, "order_bys"), "orders")) == 0
		ok = ok && plain && (extreme || (f == "count" || f == "sum" || f == "avg" || f == "mean") && !flag(n, "distinct"))
		return false
	}
	for _, x := range b.query.expressions() {
		visit(x, look)
	}
	return keys, ok
}

// preaggregateMoved makes tasks aggregate the moved rows of the leaf l, grouped by preaggregationKeys. After
// the aggregation, the estimated number of rows is rows.
func (b *block) sum(l *leaf, rows float64) {
	keys, _ := b.summed(map[string]bool{l.alias: true})
	from := b.p.bind.alias("moved")
	part := &query{agg: true, elems: []*elem{{leaf: &leaf{alias: from, sub: l.stage.rel.q, cols: l.cols}}}}
	for _, k := range keys {
		_, c := columnOf(k)
		part.group = append(part.group, column(from, c))
		part.sel = append(part.sel, item{column(from, c), c})
	}
	part.groupSets = []any{positions(len(part.group))}
	put := func(kind string, x node) string {
		x = rewriteNode(x, func(n node) node {
			if a, c := columnOf(n); a == l.alias {
				return column(from, c)
			}
			return nil
		})
		for _, it := range part.sel {
			if same(it.expr, x) {
				return it.name
			}
		}
		part.sel = append(part.sel, item{x, fmt.Sprintf("%s%d", kind, len(part.sel))})
		return part.sel[len(part.sel)-1].name
	}
	whole := func(x node) node {
		return rewriteNode(x, func(n node) node {
			if str(n, "class") == "SUBQUERY" {
				return n
			}
			switch f := strings.ToLower(str(n, "function_name")); {
			case !b.p.isAggregate(n):
			case f == "count_star": // a row without a match counts as one row
				one := node{"class": "OPERATOR", "type": "OPERATOR_COALESCE", "children": []any{column(l.alias, put("a", n)), integer(1)}}
				return cast(node{"class": "OPERATOR", "type": "OPERATOR_COALESCE", "children": []any{call("sum", one), integer(0)}}, "BIGINT")
			case refs(n)[l.alias]:
				return b.p.merge(n, l.alias, put)
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
	l.stage.rel, l.cols = &r, part.columns()
}

// mergeAggregate adds the partial aggregates of n to the tasks' output, by put. It returns the expression that
// merges the partial results. An aggregate that cannot be split is refused.
func (p *planner) merge(n node, alias string, put func(string, node) string) node {
	f := strings.ToLower(str(n, "function_name"))
	if len(nodes(sub(n, "order_bys"), "orders")) > 0 {
		refuse("the aggregate %s with ORDER BY", f)
	}
	args := nodes(n, "children")
	if flag(n, "distinct") && f != "min" && f != "max" {
		if len(args) != 1 {
			refuse("the aggregate %s of DISTINCT with %d arguments", f, len(args))
		}
		if f != "count" && f != "sum" && f != "avg" {
			refuse("the aggregate %s of DISTINCT", f)
		}
		out := with(n, "children", []any{column(alias, put("d", args[0]))})
		if c := sub(n, "filter"); c != nil {
			out["filter"] = column(alias, put("d", c))
		}
		return out
	}
	part := with(n, "alias", "")
	delete(part, "distinct")
	sum := func(of node) node { return call("sum", column(alias, put("a", of))) }
	switch f {
	case "count", "count_star":
		return cast(node{"class": "OPERATOR", "type": "OPERATOR_COALESCE", "children": []any{sum(part), integer(0)}}, "BIGINT")
	case "count_if", "countif":
		return node{"class": "OPERATOR", "type": "OPERATOR_COALESCE", "children": []any{sum(part), integer(0)}}
	case "sum":
		return sum(part)
	case "min", "max":
		if len(args) != 1 {
			refuse("the aggregate %s with %d arguments", f, len(args))
		}
		return call(f, column(alias, put("a", part)))
	case "bool_and", "bool_or", "bit_and", "bit_or":
		return call(f, column(alias, put("a", part)))
	case "avg", "mean":
		s, c := with(part, "function_name", "sum"), with(part, "function_name", "count")
		return operator("/", cast(sum(s), "DOUBLE"), cast(sum(c), "DOUBLE"))
	}
	refuse("the aggregate %s", f)
	return nil
}

// estimateGroups estimates the number of groups.
func (p *planner) groups(elems []*elem, by []node) float64 {
	n := 1.0
	for _, g := range by {
		n *= max(1, p.values(elems, g))
	}
	return n
}

// unknownValues is the assumed number of distinct values of an expression about which nothing is known.
const unknownValues = 100

// estimateValues estimates the number of distinct values of an expression.
func (p *planner) values(elems []*elem, g node) float64 {
	a, c := columnOf(g)
	of := refs(g)
	for _, e := range elems {
		for _, l := range e.leaves() {
			switch {
			case len(of) != 1 || !of[l.alias]:
			case l.sub != nil && a != "" && l.sub.setop == "":
				i := slices.IndexFunc(l.sub.sel, func(it item) bool { return it.name == c })
				if i >= 0 {
					return p.values(l.sub.elems, l.sub.sel[i].expr)
				}
			case l.stage != nil && a != "":
				return l.stage.rel.rows
			case l.table != "" && a != "":
				return float64(p.cat.Table(l.table).Distinct[c])
			case l.table != "" && !hasSubquery(g) && !p.aggregates(g):
				if v, err := p.sql.Values(l.table, l.alias, p.text(g)); err == nil {
					return v
				}
			}
		}
	}
	return unknownValues
}
