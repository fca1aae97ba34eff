package plan

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// query is a SELECT or a set operation, its names resolved. Inner joins are flat: elems, and conditions in where.
type query struct {
	elems     []*elem
	where     []node
	sel       []item
	group     []node
	groupSets []any // of positions in group; more than one are grouping sets
	having    []node
	agg       bool
	distinct  bool

	setop       string // UNION, EXCEPT or INTERSECT, of left and right
	setopAll    bool
	left, right *query

	order         []order
	limit, offset node

	semi bool // its rows are only asked for membership: doubles do no harm
}

type item struct {
	expr node
	name string
}

type order struct {
	expr       node // of a set operation: a position among its columns
	dir, nulls string
}

// elem is a leaf or an outer join of two.
type elem struct {
	*leaf
	kind        string // of the join: LEFT, RIGHT, FULL or, below one of these, INNER; "" of a leaf
	left, right *elem
	on          []node
	known       *piece // what it is, if what is in it has been moved
}

// leaf is a table, the output of a stage, or a query.
type leaf struct {
	alias  string
	table  string
	sub    *query
	stage  *stage
	spread Spread
	cols   []string
}

func (e *elem) leaves() []*leaf {
	if e.kind == "" {
		return []*leaf{e.leaf}
	}
	return append(e.left.leaves(), e.right.leaves()...)
}

func (e *elem) aliases() map[string]bool {
	out := map[string]bool{}
	for _, l := range e.leaves() {
		out[l.alias] = true
	}
	return out
}

func (e *elem) rewrite(f func(node) node) *elem {
	if e.kind == "" {
		l := *e.leaf
		if l.sub != nil {
			l.sub = l.sub.rewrite(f)
		}
		return &elem{leaf: &l}
	}
	return &elem{kind: e.kind, left: e.left.rewrite(f), right: e.right.rewrite(f), on: rewriteAll(e.on, f), known: e.known}
}

func (q *query) rewrite(f func(node) node) *query {
	r := *q
	r.elems = nil
	for _, e := range q.elems {
		r.elems = append(r.elems, e.rewrite(f))
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
		r.left, r.right = q.left.rewrite(f), q.right.rewrite(f)
	}
	return &r
}

// expressions are all of q, and of the queries in its FROM.
func (q *query) expressions() []any {
	out := anys(q.where)
	for _, s := range q.sel {
		out = append(out, s.expr)
	}
	out = append(out, anys(q.group)...)
	out = append(out, anys(q.having)...)
	for _, o := range q.order {
		out = append(out, o.expr)
	}
	var from func(e *elem)
	from = func(e *elem) {
		if e.kind == "" {
			if e.sub != nil {
				out = append(out, e.sub)
			}
			return
		}
		out = append(out, anys(e.on)...)
		from(e.left)
		from(e.right)
	}
	for _, e := range q.elems {
		from(e)
	}
	if q.setop != "" {
		out = append(out, q.left, q.right)
	}
	return out
}

func (q *query) columns() []string {
	if q.setop != "" {
		return q.left.columns()
	}
	var out []string
	for _, s := range q.sel {
		out = append(out, s.name)
	}
	return out
}

// defined are the aliases of all leaves in q, at any depth.
func (q *query) defined() map[string]bool {
	out := map[string]bool{}
	var of func(q *query)
	of = func(q *query) {
		for _, e := range q.elems {
			for _, l := range e.leaves() {
				out[l.alias] = true
				if l.sub != nil {
					of(l.sub)
				}
			}
		}
		if q.setop != "" {
			of(q.left)
			of(q.right)
		}
		for _, e := range q.expressions() {
			visit(e, func(n node) bool {
				if s, ok := n["query"].(*query); ok {
					of(s)
				}
				return true
			})
		}
	}
	of(q)
	return out
}

// outer are the aliases that q refers to and does not define.
func (q *query) outer() map[string]bool {
	out, own := refs(q), q.defined()
	maps.DeleteFunc(out, func(a string, _ bool) bool { return own[a] })
	return out
}

// RefusedError names what the planner does not plan.
type RefusedError struct{ What string }

func (e *RefusedError) Error() string { return "not planned: " + e.What }

func refuse(format string, args ...any) { panic(&RefusedError{fmt.Sprintf(format, args...)}) }

// scope is what names mean at one place.
type scope struct {
	parent *scope
	leaves []*leaf
	names  []string          // what the query calls them
	using  map[string]string // columns that a USING has joined: the alias that stands for them
	sel    []item            // names that the select list gives, once it is bound
	ctes   map[string]*cte
}

type cte struct {
	n     node
	alias []any
	scope *scope
	uses  int
	stage *stage // once it is made
	cols  []string
}

type binder struct {
	p     *planner
	taken map[string]int
}

func (b *binder) alias(like string) string {
	like = strings.ToLower(like)
	b.taken[like]++
	if n := b.taken[like]; n > 1 {
		return b.alias(fmt.Sprintf("%s_%d", like, n))
	}
	return like
}

func (s *scope) cte(name string) *cte {
	for ; s != nil; s = s.parent {
		if c := s.ctes[strings.ToLower(name)]; c != nil {
			return c
		}
	}
	return nil
}

func (b *binder) query(n node, parent *scope) *query {
	s := &scope{parent: parent, ctes: map[string]*cte{}, using: map[string]string{}}
	for _, c := range nodes(sub(n, "cte_map"), "map") {
		v := sub(c, "value")
		body := sub(sub(v, "query"), "node")
		if str(body, "type") == "RECURSIVE_CTE_NODE" {
			refuse("a recursive WITH")
		}
		before := &scope{parent: parent, ctes: maps.Clone(s.ctes)}
		s.ctes[strings.ToLower(str(c, "key"))] = &cte{n: body, alias: list(v, "aliases"), scope: before}
	}
	var q *query
	switch t := str(n, "type"); t {
	case "SELECT_NODE":
		q = b.block(n, s)
	case "SET_OPERATION_NODE":
		q = &query{setop: str(n, "setop_type"), setopAll: n["setop_all"] != false} // which is left out where it is true
		if q.setop == "UNION_BY_NAME" {
			refuse("UNION BY NAME")
		}
		if kids := nodes(n, "children"); len(kids) > 0 { // of a UNION of several
			q.left = b.query(kids[0], s)
			for _, k := range kids[1 : len(kids)-1] {
				q.left = &query{setop: q.setop, setopAll: q.setopAll, left: q.left, right: b.query(k, s)}
			}
			q.right = b.query(kids[len(kids)-1], s)
		} else {
			q.left, q.right = b.query(sub(n, "left"), s), b.query(sub(n, "right"), s)
		}
	default:
		refuse("a %s", t)
	}
	b.modifiers(n, q, s)
	return q
}

func (b *binder) modifiers(n node, q *query, s *scope) {
	for _, m := range nodes(n, "modifiers") {
		switch t := str(m, "type"); t {
		case "ORDER_MODIFIER":
			for _, o := range nodes(m, "orders") {
				q.order = append(q.order, order{b.orderBy(sub(o, "expression"), q, s), str(o, "type"), str(o, "null_order")})
			}
		case "LIMIT_MODIFIER":
			q.limit, q.offset = sub(m, "limit"), sub(m, "offset")
			for _, l := range []node{q.limit, q.offset} {
				if l != nil && (str(l, "class") != "CONSTANT" || constant(l) < 0) {
					refuse("a LIMIT that is no number")
				}
			}
		case "DISTINCT_MODIFIER":
			if len(list(m, "distinct_on_targets")) > 0 {
				refuse("DISTINCT ON")
			}
			q.distinct = true
		default:
			refuse("%s", t)
		}
	}
}

// constant is the number that n is; -1 if it is none.
func constant(n node) int {
	var v int
	if _, err := fmt.Sscan(fmt.Sprint(sub(n, "value")["value"]), &v); err != nil {
		return -1
	}
	return v
}

func (b *binder) orderBy(n node, q *query, s *scope) node {
	at := -1
	if str(n, "class") == "CONSTANT" {
		at = constant(n) - 1
	} else if names := list(n, "column_names"); len(names) == 1 {
		at = slices.IndexFunc(q.columns(), func(c string) bool { return strings.EqualFold(c, names[0].(string)) })
	}
	if q.setop != "" {
		if at < 0 {
			refuse("ORDER BY an expression after %s", q.setop)
		}
		return integer(at + 1)
	}
	if at >= 0 && at < len(q.sel) {
		return q.sel[at].expr
	}
	if str(n, "class") == "STAR" {
		refuse("ORDER BY ALL")
	}
	return b.expr(n, s)
}

func (b *binder) block(n node, s *scope) *query {
	q := &query{}
	for _, what := range []string{"qualify", "sample"} {
		if sub(n, what) != nil {
			refuse("%s", strings.ToUpper(what))
		}
	}
	b.from(sub(n, "from_table"), s, q)
	for _, e := range nodes(n, "select_list") {
		if str(e, "class") == "STAR" {
			q.sel = append(q.sel, b.star(e, s)...)
			continue
		}
		bound := b.expr(e, s)
		name := str(e, "alias")
		if name == "" {
			if _, name = columnOf(bound); name == "" {
				name = fmt.Sprintf("_%d", len(q.sel))
			}
		}
		it := item{bound, name}
		q.sel = append(q.sel, it)
		if str(e, "alias") != "" {
			s.sel = append(s.sel, it)
		}
	}
	q.where = append(q.where, conjuncts(b.maybe(sub(n, "where_clause"), s))...)
	for _, g := range nodes(n, "group_expressions") {
		if str(g, "class") == "CONSTANT" {
			if at := constant(g); at >= 1 && at <= len(q.sel) {
				q.group = append(q.group, q.sel[at-1].expr)
				continue
			}
		}
		q.group = append(q.group, b.expr(g, s))
	}
	q.groupSets = list(n, "group_sets")
	q.having = conjuncts(b.maybe(sub(n, "having"), s))
	if str(n, "aggregate_handling") == "FORCE_AGGREGATES" { // GROUP BY ALL
		for _, it := range q.sel {
			if !b.p.aggregates(it.expr) {
				q.group = append(q.group, it.expr)
			}
		}
		q.agg = true
	}
	q.agg = q.agg || len(q.groupSets) > 0 || len(q.group) > 0 || len(q.having) > 0
	for _, it := range q.sel {
		q.agg = q.agg || b.p.aggregates(it.expr)
	}
	return q
}

func (b *binder) maybe(n node, s *scope) node {
	if n == nil {
		return nil
	}
	return b.expr(n, s)
}

func (b *binder) from(n node, s *scope, q *query) {
	if str(n, "type") == "JOIN" && str(n, "join_type") == "INNER" {
		switch t := str(n, "ref_type"); t {
		case "REGULAR", "CROSS":
		default:
			refuse("a %s JOIN", t)
		}
		first := len(s.leaves)
		b.from(sub(n, "left"), s, q)
		right := len(s.leaves)
		b.from(sub(n, "right"), s, q)
		q.where = append(q.where, b.on(n, s, first, right)...)
		return
	}
	if e := b.elem(n, s); e != nil {
		q.elems = append(q.elems, e)
	}
}

// on is the condition of a join of the leaves from first on with those from right on.
func (b *binder) on(n node, s *scope, first, right int) []node {
	on := conjuncts(b.maybe(sub(n, "condition"), s))
	for _, c := range list(n, "using_columns") {
		name := strings.ToLower(c.(string))
		l := s.find(name, s.leaves[first:right])
		r := s.find(name, s.leaves[right:])
		if l == nil || r == nil {
			refuse("USING (%s)", name)
		}
		s.using[name] = l.alias
		if str(n, "join_type") == "RIGHT" {
			s.using[name] = r.alias
		}
		on = append(on, equal(column(l.alias, name), column(r.alias, name)))
	}
	return on
}

func (s *scope) find(name string, among []*leaf) *leaf {
	for _, l := range among {
		if slices.Contains(l.cols, name) {
			return l
		}
	}
	return nil
}

func (b *binder) elem(n node, s *scope) *elem {
	if sub(n, "sample") != nil {
		refuse("TABLESAMPLE")
	}
	name := str(n, "alias")
	add := func(l *leaf) *elem {
		for i, c := range list(n, "column_name_alias") {
			if l.table != "" {
				refuse("names for the columns of the table %s", l.table)
			}
			l.cols[i] = strings.ToLower(c.(string))
		}
		if l.sub != nil {
			l.sub = named(l.sub, l.cols)
		}
		l.alias = b.alias(name)
		s.leaves, s.names = append(s.leaves, l), append(s.names, strings.ToLower(name))
		return &elem{leaf: l}
	}
	switch t := str(n, "type"); t {
	case "EMPTY":
		return nil
	case "BASE_TABLE":
		table := strings.ToLower(str(n, "table_name"))
		if name == "" {
			name = table
		}
		if c := s.cte(table); c != nil {
			if c.uses++; c.uses == 1 && !b.p.again[key(c.n)] {
				sub := b.query(c.n, c.scope)
				return add(&leaf{sub: sub, cols: lower(aliased(sub.columns(), c.alias))})
			}
			if !b.p.again[key(c.n)] { // it was put in place before it was known that there is another use
				b.p.again[key(c.n)] = true
				panic(errAgain)
			}
			if c.stage == nil {
				sub := b.query(c.n, c.scope)
				c.cols = lower(aliased(sub.columns(), c.alias))
				c.stage = b.p.materialise(b.p.plan(named(sub, c.cols)), nil)
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
		q := b.query(sub(sub(n, "subquery"), "node"), s.parentOf())
		return add(&leaf{sub: q, cols: lower(q.columns())})
	case "JOIN":
		kind := str(n, "join_type")
		if kind != "LEFT" && kind != "RIGHT" && kind != "FULL" && kind != "INNER" || str(n, "ref_type") != "REGULAR" && str(n, "ref_type") != "CROSS" {
			refuse("a %s %s JOIN", str(n, "ref_type"), kind)
		}
		if kind == "FULL" && len(list(n, "using_columns")) > 0 {
			refuse("FULL JOIN with USING")
		}
		first := len(s.leaves)
		l := b.elem(sub(n, "left"), s)
		right := len(s.leaves)
		r := b.elem(sub(n, "right"), s)
		return &elem{kind: kind, left: l, right: r, on: b.on(n, s, first, right)}
	default:
		refuse("%s in FROM", t)
	}
	return nil
}

// parentOf is the scope for queries in FROM, which see nothing of their neighbours but the names of WITH.
func (s *scope) parentOf() *scope { return &scope{parent: s.parent, ctes: s.ctes} }

func lower(l []string) []string {
	out := make([]string, len(l))
	for i, s := range l {
		out[i] = strings.ToLower(s)
	}
	return out
}

func aliased(cols []string, alias []any) []string {
	for i, a := range alias {
		cols[i] = a.(string)
	}
	return cols
}

// named is q with these names for its columns.
func named(q *query, cols []string) *query {
	r := *q
	if q.setop != "" {
		r.left = named(q.left, cols)
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

func (b *binder) star(n node, s *scope) []item {
	for _, what := range []string{"exclude_list", "replace_list", "qualified_exclude_list", "rename_list"} {
		if len(list(n, what)) > 0 {
			refuse("* with EXCLUDE, REPLACE or RENAME")
		}
	}
	if flag(n, "columns") || sub(n, "expr") != nil {
		refuse("COLUMNS")
	}
	rel := strings.ToLower(str(n, "relation_name"))
	var out []item
	for i, l := range s.leaves {
		if rel != "" && rel != s.names[i] {
			continue
		}
		for _, c := range l.cols {
			if a, ok := s.using[c]; ok && a != l.alias && rel == "" {
				continue
			}
			out = append(out, item{column(l.alias, c), c})
		}
	}
	return out
}

// expr is n with its names resolved.
func (b *binder) expr(n node, s *scope) node {
	return rewriteNode(n, func(n node) node {
		switch str(n, "class") {
		case "COLUMN_REF":
			return b.column(n, s)
		case "SUBQUERY":
			r := maps.Clone(n)
			delete(r, "subquery")
			r["query"] = b.closed(b.query(sub(sub(n, "subquery"), "node"), s))
			if c := sub(n, "child"); c != nil {
				r["child"] = b.expr(c, s)
			}
			return r
		case "LAMBDA", "LAMBDA_REF", "PARAMETER":
			refuse("%s", str(n, "class"))
		case "STAR":
			refuse("* in an expression")
		}
		return nil
	})
}

// closed returns q, the aggregates of which are its own: one of columns of the query around it would be that query's.
func (b *binder) closed(q *query) *query {
	own := q.defined()
	for _, x := range q.expressions() {
		visit(x, func(n node) bool {
			if r := refs(n); b.p.isAggregate(n) && len(r) > 0 && !meets(r, own) {
				refuse("an aggregate of an outer query's columns in a subquery")
			}
			return str(n, "class") != "SUBQUERY"
		})
	}
	return q
}

func (b *binder) column(n node, s *scope) node {
	var names []string
	for _, c := range list(n, "column_names") {
		names = append(names, strings.ToLower(c.(string)))
	}
	for at := s; at != nil; at = at.parent {
		switch len(names) {
		case 1:
			if a, ok := at.using[names[0]]; ok {
				return column(a, names[0])
			}
			if l := at.find(names[0], at.leaves); l != nil {
				return column(l.alias, names[0])
			}
			for _, it := range at.sel {
				if strings.EqualFold(it.name, names[0]) {
					return rewriteNode(it.expr, func(node) node { return nil })
				}
			}
		case 2:
			for i, l := range at.leaves {
				if at.names[i] == names[0] && slices.Contains(l.cols, names[1]) {
					return column(l.alias, names[1])
				}
			}
		}
	}
	refuse("the name %s", strings.Join(names, "."))
	return nil
}
