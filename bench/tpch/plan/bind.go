package plan

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// query is a SELECT or a set operation with resolved names. Inner joins are flat: their elements are in elems,
// and their conditions in where.
type query struct {
	elems     []*elem
	where     []node
	sel       []item
	group     []node
	groupSets []any // positions in group; more than one entry: GROUPING SETS, ROLLUP or CUBE
	having    []node
	agg       bool
	distinct  bool

	setop       string // UNION, EXCEPT or INTERSECT of left and right; "" for a SELECT
	setopAll    bool
	left, right *query

	order         []order
	limit, offset node

	membershipOnly bool // the rows are only used for a semi join: duplicates do no harm
}

// item is a column of a select list: the expression and the name.
type item struct {
	expr node
	name string
}

// order is an expression of ORDER BY.
type order struct {
	expr       node // for a set operation: the position (from 1) of an output column
	dir, nulls string
}

// elem is an element of FROM: a leaf, or a join of two elements.
type elem struct {
	*leaf
	kind        string // kind of the join: LEFT, RIGHT, FULL, or INNER below an outer join; "" for a leaf
	left, right *elem
	on          []node
	moved       *partitioning // partitioning of the rows, if both sides are partitioned by the join key
}

// leaf is a scan: of a table, of a stage's output, or of a query. One of table, stage and sub is set.
type leaf struct {
	alias  string
	table  string
	sub    *query
	plan   *rel // plan of sub; nil until sub is planned
	stage  *stage
	spread Spread
	cols   []string
}

// leaves returns the leaves of e, from left to right.
func (e *elem) leaves() []*leaf {
	if e.kind == "" {
		return []*leaf{e.leaf}
	}
	return append(e.left.leaves(), e.right.leaves()...)
}

// aliases returns the aliases of the leaves of e.
func (e *elem) aliases() map[string]bool {
	out := map[string]bool{}
	for _, l := range e.leaves() {
		out[l.alias] = true
	}
	return out
}

// rewriteExprs returns a copy of e with all expressions rewritten by f (see rewriteAny).
func (e *elem) rewriteExprs(f func(node) node) *elem {
	if e.kind == "" {
		l := *e.leaf
		if l.sub != nil {
			l.sub = l.sub.rewriteExprs(f)
		}
		return &elem{leaf: &l}
	}
	return &elem{kind: e.kind, left: e.left.rewriteExprs(f), right: e.right.rewriteExprs(f), on: rewriteAll(e.on, f),
		moved: e.moved}
}

// rewriteExprs returns a copy of q with all expressions rewritten by f (see rewriteAny).
func (q *query) rewriteExprs(f func(node) node) *query {
	r := *q
	r.elems = nil
	for _, e := range q.elems {
		r.elems = append(r.elems, e.rewriteExprs(f))
	}
	r.where, r.group, r.having = rewriteAll(q.where, f), rewriteAll(q.group, f), rewriteAll(q.having, f)
	r.sel = slices.Clone(q.sel)
	for i := range r.sel {
		r.sel[i].expr = rewriteNode(r.sel[i].expr, f)
	}
	r.order = slices.Clone(q.order)
	for i := range r.order {
		r.order[i].expr = rewriteNode(r.order[i].expr, f)
	}
	if q.setop != "" {
		r.left, r.right = q.left.rewriteExprs(f), q.right.rewriteExprs(f)
	}
	return &r
}

// allExprs returns the expressions of q as nodes. Queries in FROM and the sides of a set operation are returned
// as *query.
func (q *query) allExprs() []any {
	out := toAnys(q.where)
	for _, s := range q.sel {
		out = append(out, s.expr)
	}
	out = append(out, toAnys(q.group)...)
	out = append(out, toAnys(q.having)...)
	for _, o := range q.order {
		out = append(out, o.expr)
	}
	var addFrom func(e *elem)
	addFrom = func(e *elem) {
		if e.kind == "" {
			if e.sub != nil {
				out = append(out, e.sub)
			}
			return
		}
		out = append(out, toAnys(e.on)...)
		addFrom(e.left)
		addFrom(e.right)
	}
	for _, e := range q.elems {
		addFrom(e)
	}
	if q.setop != "" {
		out = append(out, q.left, q.right)
	}
	return out
}

// columnNames returns the names of the result columns.
func (q *query) columnNames() []string {
	if q.setop != "" {
		return q.left.columnNames()
	}
	var out []string
	for _, s := range q.sel {
		out = append(out, s.name)
	}
	return out
}

// definedAliases returns the aliases of all leaves in q, at any depth.
func (q *query) definedAliases() map[string]bool {
	out := map[string]bool{}
	var collect func(q *query)
	collect = func(q *query) {
		for _, e := range q.elems {
			for _, l := range e.leaves() {
				out[l.alias] = true
				if l.sub != nil {
					collect(l.sub)
				}
			}
		}
		if q.setop != "" {
			collect(q.left)
			collect(q.right)
		}
		for _, e := range q.allExprs() {
			visitNodes(e, func(n node) bool {
				if s, ok := n["query"].(*query); ok {
					collect(s)
				}
				return true
			})
		}
	}
	collect(q)
	return out
}

// outerAliases returns the aliases of outer queries to which q refers.
func (q *query) outerAliases() map[string]bool {
	out, own := aliasesIn(q), q.definedAliases()
	maps.DeleteFunc(out, func(a string, _ bool) bool { return own[a] })
	return out
}

// RefusedError says that the planner has no plan for a query. What names the feature that the planner does not
// support.
type RefusedError struct{ What string }

func (e *RefusedError) Error() string { return "not planned: " + e.What }

// refuse panics with a RefusedError, which planOnce returns as an error.
func refuse(format string, args ...any) { panic(&RefusedError{fmt.Sprintf(format, args...)}) }

// scope gives the meaning of names at one place of a query.
type scope struct {
	parent      *scope
	leaves      []*leaf
	names       []string          // names of the leaves in the query's text
	using       map[string]string // columns joined by USING, with the alias of the leaf that stands for the column
	selectItems []item            // named columns of the select list, once bound
	ctes        map[string]*cte
}

// cte is a query of WITH. A query with one use is inlined. A query with several uses becomes a stage.
type cte struct {
	body          node
	columnAliases []any
	scope         *scope
	uses          int
	stage         *stage // the stage of a query with several uses; nil until the stage is planned
	cols          []string
}

// binder resolves the names in a syntax tree.
type binder struct {
	p         *queryPlanner
	aliasUses map[string]int
}

// newAlias returns a new alias that resembles the given name.
func (b *binder) newAlias(like string) string {
	like = strings.ToLower(like)
	b.aliasUses[like]++
	if n := b.aliasUses[like]; n > 1 {
		return b.newAlias(fmt.Sprintf("%s_%d", like, n))
	}
	return like
}

// findCTE returns the query of WITH with this name, from s or an outer scope, or nil.
func (s *scope) findCTE(name string) *cte {
	for ; s != nil; s = s.parent {
		if c := s.ctes[strings.ToLower(name)]; c != nil {
			return c
		}
	}
	return nil
}

// bindQuery returns the query of a syntax tree, with resolved names. The scope of the query around is parent,
// or nil.
func (b *binder) bindQuery(n node, parent *scope) *query {
	s := &scope{parent: parent, ctes: map[string]*cte{}, using: map[string]string{}}
	for _, c := range nodesAt(nodeAt(n, "cte_map"), "map") {
		v := nodeAt(c, "value")
		body := nodeAt(nodeAt(v, "query"), "node")
		if strAt(body, "type") == "RECURSIVE_CTE_NODE" {
			refuse("a recursive WITH")
		}
		before := &scope{parent: parent, ctes: maps.Clone(s.ctes)}
		s.ctes[strings.ToLower(strAt(c, "key"))] = &cte{body: body, columnAliases: listAt(v, "aliases"), scope: before}
	}
	var q *query
	switch t := strAt(n, "type"); t {
	case "SELECT_NODE":
		q = b.bindSelect(n, s)
	case "SET_OPERATION_NODE":
		// the tree leaves setop_all out if it is true
		q = &query{setop: strAt(n, "setop_type"), setopAll: n["setop_all"] != false}
		if q.setop == "UNION_BY_NAME" {
			refuse("UNION BY NAME")
		}
		if kids := nodesAt(n, "children"); len(kids) > 0 { // a UNION of more than two
			q.left = b.bindQuery(kids[0], s)
			for _, k := range kids[1 : len(kids)-1] {
				q.left = &query{setop: q.setop, setopAll: q.setopAll, left: q.left, right: b.bindQuery(k, s)}
			}
			q.right = b.bindQuery(kids[len(kids)-1], s)
		} else {
			q.left, q.right = b.bindQuery(nodeAt(n, "left"), s), b.bindQuery(nodeAt(n, "right"), s)
		}
	default:
		refuse("a %s", t)
	}
	b.addModifiers(n, q, s)
	return q
}

// addModifiers adds ORDER BY, LIMIT, OFFSET and DISTINCT to q.
func (b *binder) addModifiers(n node, q *query, s *scope) {
	for _, m := range nodesAt(n, "modifiers") {
		switch t := strAt(m, "type"); t {
		case "ORDER_MODIFIER":
			for _, o := range nodesAt(m, "orders") {
				q.order = append(q.order, order{b.bindOrderBy(nodeAt(o, "expression"), q, s), strAt(o, "type"),
					strAt(o, "null_order")})
			}
		case "LIMIT_MODIFIER":
			q.limit, q.offset = nodeAt(m, "limit"), nodeAt(m, "offset")
			for _, l := range []node{q.limit, q.offset} {
				if l != nil && (strAt(l, "class") != "CONSTANT" || constantInt(l) < 0) {
					refuse("a LIMIT or OFFSET that is not a number")
				}
			}
		case "DISTINCT_MODIFIER":
			if len(listAt(m, "distinct_on_targets")) > 0 {
				refuse("DISTINCT ON")
			}
			q.distinct = true
		default:
			refuse("%s", t)
		}
	}
}

// constantInt returns the integer constant n; -1 for any other node.
func constantInt(n node) int {
	var v int
	if _, err := fmt.Sscan(fmt.Sprint(nodeAt(n, "value")["value"]), &v); err != nil {
		return -1
	}
	return v
}

// bindOrderBy returns the expression of ORDER BY for n. For a set operation the expression is the position of
// an output column.
func (b *binder) bindOrderBy(n node, q *query, s *scope) node {
	at := -1
	if strAt(n, "class") == "CONSTANT" {
		at = constantInt(n) - 1
	} else if names := listAt(n, "column_names"); len(names) == 1 {
		at = slices.IndexFunc(q.columnNames(), func(c string) bool { return strings.EqualFold(c, names[0].(string)) })
	}
	if q.setop != "" {
		if at < 0 {
			refuse("ORDER BY an expression after %s", q.setop)
		}
		return newInt(at + 1)
	}
	if at >= 0 && at < len(q.sel) {
		return q.sel[at].expr
	}
	if strAt(n, "class") == "STAR" {
		refuse("ORDER BY ALL")
	}
	return b.bindExpr(n, s)
}

// bindSelect returns the query of a SELECT. The leaves of FROM are added to s.
func (b *binder) bindSelect(n node, s *scope) *query {
	q := &query{}
	for _, clause := range []string{"qualify", "sample"} {
		if nodeAt(n, clause) != nil {
			refuse("%s", strings.ToUpper(clause))
		}
	}
	b.bindFrom(nodeAt(n, "from_table"), s, q)
	for _, e := range nodesAt(n, "select_list") {
		if strAt(e, "class") == "STAR" {
			q.sel = append(q.sel, b.expandStar(e, s)...)
			continue
		}
		bound := b.bindExpr(e, s)
		name := strAt(e, "alias")
		if name == "" {
			if _, name = splitColumn(bound); name == "" {
				name = fmt.Sprintf("_%d", len(q.sel))
			}
		}
		it := item{bound, name}
		q.sel = append(q.sel, it)
		if strAt(e, "alias") != "" {
			s.selectItems = append(s.selectItems, it)
		}
	}
	q.where = append(q.where, splitConjuncts(b.bindOptional(nodeAt(n, "where_clause"), s))...)
	for _, g := range nodesAt(n, "group_expressions") {
		if strAt(g, "class") == "CONSTANT" {
			if at := constantInt(g); at >= 1 && at <= len(q.sel) {
				q.group = append(q.group, q.sel[at-1].expr)
				continue
			}
		}
		q.group = append(q.group, b.bindExpr(g, s))
	}
	q.groupSets = listAt(n, "group_sets")
	q.having = splitConjuncts(b.bindOptional(nodeAt(n, "having"), s))
	if strAt(n, "aggregate_handling") == "FORCE_AGGREGATES" { // GROUP BY ALL
		for _, it := range q.sel {
			if !b.p.hasAggregate(it.expr) && !hasWindow(it.expr) {
				q.group = append(q.group, it.expr)
			}
		}
		q.agg = true
	}
	q.agg = q.agg || len(q.groupSets) > 0 || len(q.group) > 0 || len(q.having) > 0
	for _, it := range q.sel {
		q.agg = q.agg || b.p.hasAggregate(it.expr)
	}
	return q
}

// bindOptional is bindExpr for a node that may be nil.
func (b *binder) bindOptional(n node, s *scope) node {
	if n == nil {
		return nil
	}
	return b.bindExpr(n, s)
}

// bindFrom adds the element n of FROM to q. An inner join adds the two sides to q.elems, and the conditions to
// q.where.
func (b *binder) bindFrom(n node, s *scope, q *query) {
	if strAt(n, "type") == "JOIN" && strAt(n, "join_type") == "INNER" {
		switch t := strAt(n, "ref_type"); t {
		case "REGULAR", "CROSS":
		default:
			refuse("a %s JOIN", t)
		}
		first := len(s.leaves)
		b.bindFrom(nodeAt(n, "left"), s, q)
		right := len(s.leaves)
		b.bindFrom(nodeAt(n, "right"), s, q)
		q.where = append(q.where, b.bindJoinCondition(n, s, first, right)...)
		return
	}
	if e := b.bindElem(n, s); e != nil {
		q.elems = append(q.elems, e)
	}
}

// bindJoinCondition returns the conditions of the join n. The leaves of the left side are
// s.leaves[first:right], and the leaves of the right side follow.
func (b *binder) bindJoinCondition(n node, s *scope, first, right int) []node {
	on := splitConjuncts(b.bindOptional(nodeAt(n, "condition"), s))
	for _, c := range listAt(n, "using_columns") {
		name := strings.ToLower(c.(string))
		l := s.findLeaf(name, s.leaves[first:right])
		r := s.findLeaf(name, s.leaves[right:])
		if l == nil || r == nil {
			refuse("USING (%s)", name)
		}
		s.using[name] = l.alias
		if strAt(n, "join_type") == "RIGHT" {
			s.using[name] = r.alias
		}
		on = append(on, newEqual(newColumn(l.alias, name), newColumn(r.alias, name)))
	}
	return on
}

// findLeaf returns the first of the leaves with a column of this name, or nil.
func (s *scope) findLeaf(name string, among []*leaf) *leaf {
	for _, l := range among {
		if slices.Contains(l.cols, name) {
			return l
		}
	}
	return nil
}

// bindElem returns the element n of FROM, and adds its leaves to s. An empty FROM gives nil.
func (b *binder) bindElem(n node, s *scope) *elem {
	if nodeAt(n, "sample") != nil {
		refuse("TABLESAMPLE")
	}
	name := strAt(n, "alias")
	add := func(l *leaf) *elem {
		for i, c := range listAt(n, "column_name_alias") {
			if l.table != "" {
				refuse("column aliases for the table %s", l.table)
			}
			l.cols[i] = strings.ToLower(c.(string))
		}
		if l.sub != nil {
			l.sub = withColumnNames(l.sub, l.cols)
		}
		l.alias = b.newAlias(name)
		s.leaves, s.names = append(s.leaves, l), append(s.names, strings.ToLower(name))
		return &elem{leaf: l}
	}
	switch t := strAt(n, "type"); t {
	case "EMPTY":
		return nil
	case "BASE_TABLE":
		table := strings.ToLower(strAt(n, "table_name"))
		if name == "" {
			name = table
		}
		if c := s.findCTE(table); c != nil {
			if c.uses++; c.uses == 1 && !b.p.sharedCTEs[structureKey(c.body)] {
				sub := b.bindQuery(c.body, c.scope)
				return add(&leaf{sub: sub, cols: lowerAll(applyAliases(sub.columnNames(), c.columnAliases))})
			}
			if !b.p.sharedCTEs[structureKey(c.body)] { // the first use was inlined before the second use was found
				b.p.sharedCTEs[structureKey(c.body)] = true
				panic(errAgain)
			}
			if c.stage == nil {
				sub := b.bindQuery(c.body, c.scope)
				c.cols = lowerAll(applyAliases(sub.columnNames(), c.columnAliases))
				c.stage = b.p.addStage(b.p.planInner(withColumnNames(sub, c.cols)), nil)
			}
			return add(&leaf{stage: c.stage, cols: slices.Clone(c.cols)})
		}
		info := b.p.cat.Table(table)
		if info == nil {
			refuse("the table %s", table)
		}
		return add(&leaf{table: table, cols: info.Columns})
	case "SUBQUERY":
		if name == "" {
			name = "unnamed"
		}
		q := b.bindQuery(nodeAt(nodeAt(n, "subquery"), "node"), s.fromScope())
		return add(&leaf{sub: q, cols: lowerAll(q.columnNames())})
	case "JOIN":
		kind := strAt(n, "join_type")
		if kind != "LEFT" && kind != "RIGHT" && kind != "FULL" && kind != "INNER" ||
			strAt(n, "ref_type") != "REGULAR" && strAt(n, "ref_type") != "CROSS" {
			refuse("a %s %s JOIN", strAt(n, "ref_type"), kind)
		}
		if kind == "FULL" && len(listAt(n, "using_columns")) > 0 {
			refuse("FULL JOIN with USING")
		}
		first := len(s.leaves)
		l := b.bindElem(nodeAt(n, "left"), s)
		right := len(s.leaves)
		r := b.bindElem(nodeAt(n, "right"), s)
		return &elem{kind: kind, left: l, right: r, on: b.bindJoinCondition(n, s, first, right)}
	default:
		refuse("%s in FROM", t)
	}
	return nil
}

// fromScope returns the scope for queries in FROM. Such a query sees the names of WITH and of outer queries,
// but no neighbour in FROM.
func (s *scope) fromScope() *scope { return &scope{parent: s.parent, ctes: s.ctes} }

func lowerAll(l []string) []string {
	out := make([]string, len(l))
	for i, s := range l {
		out[i] = strings.ToLower(s)
	}
	return out
}

// applyAliases overwrites the first names in cols with aliases, and returns cols.
func applyAliases(cols []string, alias []any) []string {
	for i, a := range alias {
		cols[i] = a.(string)
	}
	return cols
}

// withColumnNames returns a copy of q whose columns have the names cols. If a name occurs twice, the later
// column gets a name with "_" behind, also in cols.
func withColumnNames(q *query, cols []string) *query {
	r := *q
	if q.setop != "" {
		r.left = withColumnNames(q.left, cols)
		return &r
	}
	r.sel = slices.Clone(q.sel)
	seen := map[string]bool{}
	for i := range r.sel {
		for seen[cols[i]] {
			cols[i] += "_"
		}
		seen[cols[i]] = true
		r.sel[i].name = cols[i]
	}
	return &r
}

// expandStar returns the columns of * or table.*. In *, a column joined by USING appears once.
func (b *binder) expandStar(n node, s *scope) []item {
	for _, option := range []string{"exclude_list", "replace_list", "qualified_exclude_list", "rename_list"} {
		if len(listAt(n, option)) > 0 {
			refuse("* with EXCLUDE, REPLACE or RENAME")
		}
	}
	if boolAt(n, "columns") || nodeAt(n, "expr") != nil {
		refuse("COLUMNS")
	}
	rel := strings.ToLower(strAt(n, "relation_name"))
	var out []item
	for i, l := range s.leaves {
		if rel != "" && rel != s.names[i] {
			continue
		}
		for _, c := range l.cols {
			if a, ok := s.using[c]; ok && a != l.alias && rel == "" {
				continue
			}
			out = append(out, item{newColumn(l.alias, c), c})
		}
	}
	return out
}

// bindExpr returns a copy of n with resolved names.
func (b *binder) bindExpr(n node, s *scope) node {
	return rewriteNode(n, func(n node) node {
		switch strAt(n, "class") {
		case "COLUMN_REF":
			return b.bindColumn(n, s)
		case "SUBQUERY":
			r := maps.Clone(n)
			delete(r, "subquery")
			r["query"] = b.refuseOuterAggregates(b.bindQuery(nodeAt(nodeAt(n, "subquery"), "node"), s))
			if c := nodeAt(n, "child"); c != nil {
				r["child"] = b.bindExpr(c, s)
			}
			return r
		case "FUNCTION":
			if strings.EqualFold(strAt(n, "function_name"), "approx_count_distinct") {
				// Sketches of tasks cannot be merged in SQL. An exact count is an approximation, too.
				exact := withField(withField(n, "function_name", "count"), "distinct", true)
				return b.bindExpr(exact, s)
			}
		case "LAMBDA", "LAMBDA_REF", "PARAMETER":
			refuse("%s", strAt(n, "class"))
		case "STAR":
			refuse("* in an expression")
		}
		return nil
	})
}

// refuseOuterAggregates returns q. If an aggregate in q has only columns of outer queries, q is refused: in SQL
// the aggregate would belong to the outer query.
func (b *binder) refuseOuterAggregates(q *query) *query {
	own := q.definedAliases()
	for _, x := range q.allExprs() {
		visitNodes(x, func(n node) bool {
			if r := aliasesIn(n); b.p.isAggregate(n) && len(r) > 0 && !anyIn(r, own) {
				refuse("an aggregate of an outer query's columns in a subquery")
			}
			return strAt(n, "class") != "SUBQUERY"
		})
	}
	return q
}

// bindColumn returns the column reference n with alias and name. The innermost scope that knows the name
// decides.
func (b *binder) bindColumn(n node, s *scope) node {
	var names []string
	for _, c := range listAt(n, "column_names") {
		names = append(names, strings.ToLower(c.(string)))
	}
	for at := s; at != nil; at = at.parent {
		switch len(names) {
		case 1:
			if a, ok := at.using[names[0]]; ok {
				return newColumn(a, names[0])
			}
			if l := at.findLeaf(names[0], at.leaves); l != nil {
				return newColumn(l.alias, names[0])
			}
			for _, it := range at.selectItems {
				if strings.EqualFold(it.name, names[0]) {
					return rewriteNode(it.expr, func(node) node { return nil })
				}
			}
		case 2:
			for i, l := range at.leaves {
				if at.names[i] == names[0] && slices.Contains(l.cols, names[1]) {
					return newColumn(l.alias, names[1])
				}
			}
		}
	}
	refuse("the name %s", strings.Join(names, "."))
	return nil
}
