package plan

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Spread says how the output of a stage reaches the tasks that read the stage.
type Spread int

const (
	All     Spread = iota // each task reads the whole output (broadcast)
	Aligned               // task i reads bucket i of each task's output (shuffle)
)

// Catalog tells the planner about the tables.
type Catalog interface {
	Table(name string) *Table // nil: the catalog has no table of this name
	Tasks(class string) int   // number of tasks that scan the tables of a class
	// ExchangeTasks is the number of tasks that share the given number of moved rows.
	Exchange(rows float64) int
	// Bucket is SQL for the number of the task that reads the rows with this key. The SQL holds for keys of all
	// tables of the class.
	Bucket(class, key string) string
}

// Table is a table of the catalog. All tables of a class are partitioned by their keys in the same way. A table
// without a class is whole wherever a task reads the table.
type Table struct {
	Name     string
	Columns  []string
	Types    []string
	Class    string
	Key      string
	Rows     int
	Distinct map[string]int // estimated number of distinct values of each column
}

// SQL is the part of DuckDB that the planner uses.
type SQL interface {
	Parse(sql string) (node, error)
	Print(stmt node) (string, error)
	Aggregates() map[string]bool
	Matches(table, alias, cond string) (float64, error) // share of the rows of a table's sample that meet cond
	Values(table, alias, expr string) (float64, error)  // number of distinct values in the sample
}

// stage is a stage of the plan during planning. Its tasks run rel.
type stage struct {
	name   string
	rel    *rel
	by     []node // columns by which the output is cut into buckets
	bucket string // number of a row's bucket, as SQL with keyHere for keyColumns
	n      int    // number of buckets; 0: the output is not cut
}

// class is a way to partition rows by a key. Each task has one partition.
type class struct {
	name   string
	tasks  int
	bucket string // number of the task that has a key, as SQL with keyHere for the key
}

// rel is a query that tasks can run as it stands. With a class, each task of the class runs the query on its
// partition, and the tasks together give all rows. Without a class, any single task gives all rows.
type rel struct {
	q      *query
	class  *class
	keys   map[string]bool // names of the result columns that hold the class's key
	merged bool            // the query combines outputs of tasks: it runs once, and not in each task of another class
	rows   float64         // estimated number of rows
}

// queryPlanner plans one query.
type planner struct {
	cat       Catalog
	sql       SQL
	bind      *binder
	agg       map[string]bool
	again     map[string]bool
	stages    []*stage
	bases     map[string]*class
	exchanges int
}

// errAgain makes Plan start again, because a WITH query has a second use.
var errAgain = errors.New("plan again")

// keyHere stands for a key in SQL that is written before the key is known.
const keyHere = "$key"

// fewRows is a number of rows that tasks can move at negligible cost.
const fewRows = 50_000

// isAggregate reports whether n is a call of an aggregate function.
func (p *planner) isAggregate(n node) bool {
	return str(n, "class") == "FUNCTION" && p.agg[strings.ToLower(str(n, "function_name"))]
}

// hasAggregate reports whether n contains an aggregate. Aggregates inside subqueries do not count.
func (p *planner) aggregates(n any) bool {
	found := false
	visit(n, func(n node) bool {
		found = found || p.isAggregate(n)
		return !found && str(n, "class") != "SUBQUERY"
	})
	return found
}

// tableClass returns the class of this name in the catalog.
func (p *planner) base(name string) *class {
	c := p.bases[name]
	if c == nil {
		c = &class{name: name, tasks: p.cat.Tasks(name), bucket: p.cat.Bucket(name, keyHere)}
		p.bases[name] = c
	}
	return c
}

// newExchange returns a new class for rows that an exchange partitions by some key, for a single purpose. The
// number of rows decides the number of tasks.
func (p *planner) exchange(rows float64) *class {
	p.exchanges++
	n := p.cat.Exchange(rows)
	return &class{name: fmt.Sprintf("exchange %d", p.exchanges), tasks: n, bucket: fmt.Sprintf("CAST(hash(%s) %% %d AS INTEGER)", keyHere, n)}
}

// addStage makes r a stage. If target is not nil, the output of the stage is cut by keyColumns, for the tasks
// of target.
func (p *planner) materialise(r *rel, to *class, by ...node) *stage {
	s := &stage{rel: r}
	if to != nil {
		s.by, s.bucket, s.n = by, to.bucket, to.tasks
	}
	p.stages = append(p.stages, s)
	s.name = fmt.Sprintf("s%d", len(p.stages))
	return s
}

// equivalences are sets of columns that are equal in all rows of a block before grouping.
type facts struct {
	equal map[string]string // parents in a union-find over "alias.column"; "" at a root
}

// columnName returns a bound column as "alias.column"; "" for any other node.
func name(n node) string {
	if a, c := columnOf(n); a != "" {
		return a + "." + c
	}
	return ""
}

// findRoot returns the column that represents all columns equal to c.
func (f *facts) root(c string) string {
	for f.equal[c] != "" {
		c = f.equal[c]
	}
	return c
}

// addEquality notes that the columns a and b are equal.
func (f *facts) join(a, b string) {
	if a, b = f.root(a), f.root(b); a != b {
		f.equal[a] = b
	}
}

// anyEqual reports whether some column of a equals some column of b.
func (f *facts) same(a, b map[string]bool) bool {
	for x := range a {
		for y := range b {
			if f.root(x) == f.root(y) {
				return true
			}
		}
	}
	return false
}

// equalsAny reports whether the column c equals one of keys. For c "" it reports false.
func (f *facts) among(c string, keys map[string]bool) bool {
	return c != "" && f.same(map[string]bool{c: true}, keys)
}

// findEquivalences collects the equalities of columns among conds.
func factsOf(conds []node) *facts {
	f := &facts{map[string]string{}}
	for _, c := range conds {
		if str(c, "type") == "COMPARE_EQUAL" {
			if a, b := name(sub(c, "left")), name(sub(c, "right")); a != "" && b != "" {
				f.join(a, b)
			}
		}
	}
	return f
}

// partitioning describes the rows of an element of FROM: the class, and the columns ("alias.column") that hold
// the class's key in every row.
type piece struct {
	class *class
	keys  map[string]bool
}

// planInner plans a query whose rows are not the result.
func (p *planner) plan(q *query) *rel { return p.query(q, false) }

// planQuery plans q. If q is the root, the rows are the result and keep their order. In other queries, the
// order only matters with a LIMIT.
func (p *planner) query(q *query, root bool) *rel {
	if q.setop != "" {
		r := *q
		rows := 0.0
		for _, side := range []**query{&r.left, &r.right} {
			s := p.plan(*side)
			rows += s.rows
			if s.class == nil && (*side).limit == nil && len((*side).order) == 0 {
				*side = s.q
			} else {
				*side = p.read(p.materialise(s, nil), s.q.columns())
			}
		}
		return &rel{q: &r, merged: true, rows: rows}
	}
	b := &block{p: p, query: q.rewrite(func(node) node { return nil }), derived: map[string]piece{}, merged: map[string]*rel{}}
	return b.plan(root)
}

// readStage returns a query that reads all rows of a stage.
func (p *planner) read(s *stage, cols []string) *query {
	l := p.leaf(s, All, cols)
	q := &query{elems: []*elem{{leaf: l}}}
	for _, c := range cols {
		q.sel = append(q.sel, item{column(l.alias, c), c})
	}
	return q
}

// newLeaf returns a leaf that reads the output of a stage.
func (p *planner) leaf(s *stage, spread Spread, cols []string) *leaf {
	return &leaf{alias: p.bind.alias(s.name), stage: s, spread: spread, cols: cols}
}

// block is a SELECT during planning.
type block struct {
	p *planner
	*query
	derived map[string]piece // by alias: partitioning of queries in FROM
	facts   *facts
	class   *class          // class of the rows before grouping; nil: any task has all rows
	keys    map[string]bool // columns that hold the class's key
	implied []node          // derived conditions on a leaf (factorOr)
	merged  map[string]*rel // by alias: queries in FROM that combine outputs of tasks
	once    bool            // the block contains a query that combines outputs of tasks
	rows    float64
}

// planBlock plans the block: first the queries in FROM, then the joins, the subqueries of WHERE and the rest.
// root: see planQuery.
func (b *block) plan(root bool) *rel {
	b.factor()
	for _, e := range b.elems {
		for _, l := range e.leaves() {
			if l.sub == nil {
				continue
			}
			r := b.p.plan(l.sub)
			l.sub = r.q
			b.rows = max(b.rows, r.rows)
			if r.class != nil {
				keys := map[string]bool{}
				for k := range r.keys {
					keys[l.alias+"."+k] = true
				}
				b.derived[l.alias] = piece{r.class, keys}
			} else if r.merged {
				b.merged[l.alias] = r
			}
		}
	}
	pieces := map[*elem]piece{}
	for _, e := range b.elems {
		pieces[e] = b.piece(e, true)
	}
	b.facts = factsOf(b.where)
	b.anchor(pieces)
	b.streamed()
	b.facts = factsOf(b.where)
	if b.class != nil {
		for _, e := range b.elems {
			for _, l := range e.leaves() {
				if r := b.merged[l.alias]; r != nil {
					l.stage, l.sub = b.p.materialise(r, nil), nil
				}
			}
		}
	} else {
		b.once = b.once || len(b.merged) > 0
	}
	b.where = b.subqueries(b.where, b.class, b.keys)
	for i, c := range b.where {
		b.where[i] = b.member(c)
	}
	return b.group(root)
}

// factorOr adds conditions to WHERE that follow from an OR; the OR itself stays. If all branches contain the
// same comparison of two columns, factorOr adds the comparison. If all branches restrict the same leaf,
// factorOr adds the OR of the restrictions, as a filter for the scan of the leaf.
func (b *block) factor() {
	for _, c := range slices.Clone(b.where) {
		if str(c, "type") != "CONJUNCTION_OR" {
			continue
		}
		var branches [][]node
		for _, n := range nodes(c, "children") {
			branches = append(branches, conjuncts(n))
		}
		for _, n := range branches[0] {
			if name(sub(n, "left")) == "" || name(sub(n, "right")) == "" {
				continue
			}
			k := key(n)
			if !slices.ContainsFunc(branches, func(l []node) bool { return !slices.ContainsFunc(l, func(m node) bool { return key(m) == k }) }) {
				b.where = append(b.where, n)
			}
		}
		for _, e := range b.elems {
			if e.kind != "" {
				continue
			}
			var or []node
			for _, l := range branches {
				var own []node
				for _, n := range l {
					if r := refs(n); len(r) == 1 && r[e.alias] && !hasSubquery(n) {
						own = append(own, n)
					}
				}
				if len(own) > 0 {
					or = append(or, conjunction("AND", own))
				}
			}
			if own := conjunction("OR", or); len(or) == len(branches) && !same(own, c) {
				b.where, b.implied = append(b.where, own), append(b.implied, own)
			}
		}
	}
}

// dropImpliedOfLargest drops the implied conditions on the largest table. The rows of the largest table are the
// probe side and pass the hash tables of the other tables anyway. A second evaluation for each row costs more
// than the filter saves.
func (b *block) streamed() {
	var largest *leaf
	rows := 0
	for _, e := range b.elems {
		if e.kind == "" && e.table != "" && b.p.cat.Table(e.table).Rows > rows {
			largest, rows = e.leaf, b.p.cat.Table(e.table).Rows
		}
	}
	b.where = slices.DeleteFunc(b.where, func(c node) bool {
		return largest != nil && refs(c)[largest.alias] && slices.ContainsFunc(b.implied, func(o node) bool { return same(o, c) })
	})
}

// partitionElem returns the partitioning of e's rows. If the join of e needs a side elsewhere, partitionElem
// moves the side into a stage. At the top, conditions of WHERE on the first leaf of e apply to the rows of e.
func (b *block) piece(e *elem, top bool) piece {
	if e.kind == "" {
		if pc, ok := b.derived[e.alias]; ok {
			return pc
		}
		if e.table != "" {
			if t := b.p.cat.Table(e.table); t.Class != "" {
				return piece{b.p.base(t.Class), map[string]bool{e.alias + "." + t.Key: true}}
			}
		}
		return piece{}
	}
	if e.known != nil {
		return piece{e.known.class, copied(e.known.keys)}
	}
	if e.kind == "RIGHT" {
		e.kind, e.left, e.right = "LEFT", e.right, e.left
	}
	l, r := b.piece(e.left, top && e.kind != "FULL"), b.piece(e.right, false)
	f := factsOf(e.on)
	together := l.class != nil && l.class == r.class && f.same(l.keys, r.keys)
	switch {
	case l.class == nil && r.class == nil:
		return piece{}
	case together && e.kind == "INNER":
		maps.Copy(l.keys, r.keys)
		return l
	case together && e.kind == "LEFT":
		return l
	case together:
		return piece{l.class, nil}
	case e.kind == "FULL":
		for _, side := range []**elem{&e.left, &e.right} {
			if b.piece(*side, false).class != nil {
				*side = b.cut(*side, nil, nil)
			}
		}
		return piece{}
	case r.class == nil:
		return l // the right side is whole, so each row of the left side is joined where the row is
	case l.class == nil && e.kind == "INNER":
		return r
	}
	var own []node // conditions on the right side alone apply before the join
	for _, c := range e.on {
		if within(refs(c), e.right.aliases()) && !hasSubquery(c) {
			own = append(own, c)
		}
	}
	e.on = slices.DeleteFunc(e.on, func(c node) bool { return slices.ContainsFunc(own, func(o node) bool { return same(o, c) }) })
	if rows := b.p.estimate(e.right.leaves(), own); top && l.class == nil && rows > fewRows {
		for _, c := range e.on {
			x, y := sub(c, "left"), sub(c, "right")
			if str(c, "type") != "COMPARE_EQUAL" || name(x) == "" || name(y) == "" {
				continue
			}
			if e.right.aliases()[refOf(x)] {
				x, y = y, x
			}
			if t := b.typeOf(e.left, x); !e.right.aliases()[refOf(y)] || t == "" || t != b.typeOf(e.right, y) {
				continue // equal keys have equal hashes only if their types are the same
			}
			keys, sums := b.summed(e.right.aliases())
			if sums {
				groups := b.p.groups([]*elem{e.right}, keys) * float64(r.class.tasks)
				if sums = 2*groups <= rows; sums {
					rows = groups
				}
			}
			// Both sides are partitioned by the join key. The right side moves. The left side is whole at each
			// task, so each task only keeps the rows of its own bucket.
			to := b.p.exchange(rows)
			e.right = b.cut(e.right, own, to, y)
			if sums {
				b.sum(e.right.leaf, rows)
			}
			b.where = append(b.where, b.p.mine(to, x))
			e.known = &piece{to, map[string]bool{name(x): true}}
			return piece{to, copied(e.known.keys)}
		}
	}
	e.right = b.cut(e.right, own, nil)
	return l
}

// sameExpr reports whether a and b have the same structure (structureKey).
func same(a, b node) bool { return key(a) == key(b) }

// tableColumnType returns the type of the column n, if n is a column of a table in e; else "".
func (b *block) typeOf(e *elem, n node) string {
	a, c := columnOf(n)
	for _, l := range e.leaves() {
		if l.alias == a && l.table != "" {
			return b.p.cat.Table(l.table).Types[slices.Index(l.cols, c)]
		}
	}
	return ""
}

// aliasOf returns the alias of a bound column; "" for any other node.
func refOf(n node) string { a, _ := columnOf(n); return a }

// isOwnKey returns a condition that holds for the rows whose key k belongs to the task's own bucket.
func (p *planner) mine(c *class, k node) node {
	return equal(cast(operator("%", call("hash", k), integer(c.tasks)), "INTEGER"), cast(call("getvariable", text("task")), "INTEGER"))
}

// moveElem makes e, filtered by where, a stage of its own, and returns a leaf that reads the stage. If target
// is not nil, the stage is cut by keyColumns, for the tasks of target. All references of the block to columns
// of e then refer to the leaf.
func (b *block) cut(e *elem, where []node, to *class, by ...node) *elem {
	return b.cutAll([]*elem{e}, where, to, by...)
}

// moveElems makes the join of elems one stage, like moveElem.
func (b *block) cutAll(elems []*elem, where []node, to *class, by ...node) *elem {
	own := map[string]bool{}
	for _, e := range elems {
		maps.Copy(own, e.aliases())
	}
	sel := map[string]item{}
	use := func(n node) bool {
		if a, c := columnOf(n); own[a] {
			sel[a+"__"+c] = item{column(a, c), a + "__" + c}
		}
		return true
	}
	rest := *b.query
	rest.where = slices.DeleteFunc(slices.Clone(b.where), func(c node) bool { return slices.ContainsFunc(where, func(w node) bool { return same(w, c) }) })
	rest.elems = slices.DeleteFunc(slices.Clone(b.elems), func(e *elem) bool { return slices.Contains(elems, e) })
	for _, x := range rest.expressions() {
		visit(x, use)
	}
	for _, k := range by {
		visit(k, use)
	}
	q := &query{elems: elems, where: where}
	for _, k := range slices.Sorted(maps.Keys(sel)) {
		q.sel = append(q.sel, sel[k])
	}
	if len(q.sel) == 0 {
		q.sel = []item{{integer(1), "one"}}
	}
	r := b.p.plan(q)
	var cols []node
	for _, k := range by {
		a, c := columnOf(k)
		cols = append(cols, column("", a+"__"+c))
	}
	st := b.p.materialise(r, to, cols...)
	spread := All
	if to != nil {
		spread = Aligned
	}
	l := b.p.leaf(st, spread, q.columns())
	moved := func(n node) node {
		if a, c := columnOf(n); own[a] {
			return column(l.alias, a+"__"+c)
		}
		return nil
	}
	// The rewrite is in place, because maps hold elements by their pointers.
	b.where = rewriteAll(rest.where, moved)
	b.query.group, b.having = rewriteAll(b.query.group, moved), rewriteAll(b.having, moved)
	for i := range b.sel {
		b.sel[i].expr = rewriteNode(b.sel[i].expr, moved)
	}
	for i := range b.order {
		b.order[i].expr = rewriteNode(b.order[i].expr, moved)
	}
	var on func(e *elem)
	on = func(e *elem) {
		if e.kind != "" {
			e.on = rewriteAll(e.on, moved)
			on(e.left)
			on(e.right)
		}
	}
	for _, e := range rest.elems {
		on(e)
	}
	return &elem{leaf: l}
}

// chooseAnchor chooses the anchor of the block: the elements whose partitions the block's tasks scan. Elements
// joined by their partition keys form a cluster. All other clusters move to the anchor. chooseAnchor takes the
// cluster with the least cost of moves.
func (b *block) anchor(pieces map[*elem]piece) {
	type cluster struct {
		elems []*elem
		piece
		where   []node
		aliases map[string]bool
		rows    float64
	}
	var clusters []*cluster
	for _, e := range b.elems {
		pc := pieces[e]
		if pc.class == nil {
			continue
		}
		c := &cluster{elems: []*elem{e}, piece: piece{pc.class, copied(pc.keys)}}
		for _, o := range clusters {
			if o.class == c.class && b.facts.same(o.keys, c.keys) {
				c.elems = append(o.elems, c.elems...)
				maps.Copy(c.keys, o.keys)
				o.elems = nil
			}
		}
		clusters = append(slices.DeleteFunc(clusters, func(o *cluster) bool { return o.elems == nil }), c)
	}
	for _, c := range clusters {
		c.aliases = map[string]bool{}
		var leaves []*leaf
		for _, e := range c.elems {
			maps.Copy(c.aliases, e.aliases())
			leaves = append(leaves, e.leaves()...)
		}
		for _, w := range b.where {
			if r := free(w); len(r) > 0 && within(r, c.aliases) {
				c.where = append(c.where, w)
			}
		}
		// Keys may be equal by way of a third column. They are equal within the cluster alone, too, so the
		// equality is added.
		for i, x := range slices.Sorted(maps.Keys(c.keys)) {
			for _, y := range slices.Sorted(maps.Keys(c.keys))[:i] {
				if b.facts.root(x) == b.facts.root(y) {
					c.where = append(c.where, equal(columnNamed(x), columnNamed(y)))
				}
			}
		}
		c.rows = b.p.estimate(leaves, c.where)
		b.rows = max(b.rows, c.rows)
	}
	if len(clusters) == 0 {
		for _, e := range b.elems {
			b.rows = max(b.rows, b.p.estimate(e.leaves(), b.where))
		}
		return
	}
	// The cost of moving cluster c to the anchor a: all rows to each task (broadcast), or each row to the task
	// that has its key (shuffle).
	aligned := func(a, c *cluster) node {
		for _, k := range slices.Sorted(maps.Keys(b.facts.equal)) {
			for _, k := range []string{k, b.facts.equal[k]} {
				if n := columnNamed(k); c.aliases[refOf(n)] && b.facts.among(k, a.keys) {
					return n
				}
			}
		}
		return nil
	}
	moves := func(a, c *cluster) (cost float64, by node) {
		cost = c.rows * (1 + float64(a.class.tasks)/2)
		if by := aligned(a, c); by != nil && c.rows > fewRows/50 && 2.5*c.rows < cost {
			return 2.5 * c.rows, by
		}
		return cost, nil
	}
	var best *cluster
	var least float64
	for _, a := range clusters {
		sum := 0.0
		for _, c := range clusters {
			if c != a {
				cost, _ := moves(a, c)
				sum += cost
			}
		}
		if best == nil || sum < least {
			best, least = a, sum
		}
	}
	b.class, b.keys = best.class, best.keys
	for _, c := range clusters {
		if c == best {
			continue
		}
		_, by := moves(best, c)
		var e *elem
		if by != nil {
			e = b.cutAll(c.elems, c.where, best.class, by)
			a, col := columnOf(by)
			b.keys[e.alias+"."+a+"__"+col] = true
		} else {
			e = b.cutAll(c.elems, c.where, nil)
		}
		b.elems = append(slices.DeleteFunc(b.elems, func(e *elem) bool { return slices.Contains(c.elems, e) }), e)
	}
}

// parseColumn returns the column that columnName printed as k.
func columnNamed(k string) node {
	a, c, _ := strings.Cut(k, ".")
	return column(a, c)
}

func copied(m map[string]bool) map[string]bool {
	out := map[string]bool{}
	maps.Copy(out, m)
	return out
}

// estimateRows estimates the number of rows of a join of leaves under the conditions conds. The estimate
// assumes that each row of the largest leaf has a single match in every further leaf.
func (p *planner) estimate(leaves []*leaf, conds []node) float64 {
	rows, share := 1.0, 1.0
	for _, l := range leaves {
		switch {
		case l.table != "":
			t := p.cat.Table(l.table)
			rows = max(rows, float64(t.Rows))
			var own []node
			for _, c := range conds {
				if r := refs(c); len(r) == 1 && r[l.alias] && !hasSubquery(c) {
					own = append(own, c)
				}
			}
			if len(own) > 0 {
				s, err := p.sql.Matches(l.table, l.alias, p.text(conjunction("AND", own)))
				if err != nil {
					s = 0.3
				}
				share *= s
			}
		case l.stage != nil:
			rows = max(rows, l.stage.rel.rows)
		default:
			rows = max(rows, 10_000)
		}
	}
	return max(1, rows*share)
}

// printExpr returns an expression as SQL, without its name as an output column.
func (p *planner) text(n node) string {
	s, err := p.sql.Print(node{"type": "SELECT_NODE", "cte_map": node{"map": []any{}}, "select_list": []any{with(emitNode(n), "alias", "")}, "from_table": node{"type": "EMPTY"}, "aggregate_handling": "STANDARD_HANDLING"})
	if err != nil {
		panic(err)
	}
	return strings.TrimPrefix(s, "SELECT ")
}
