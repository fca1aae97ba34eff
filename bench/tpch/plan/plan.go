package plan

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Spread is how the output of a stage reaches the tasks that read it.
type Spread int

const (
	All     Spread = iota // each task has all of it
	Aligned               // the task of number i has bucket i of each task's output
)

// Catalog is what the planner knows of the tables.
type Catalog interface {
	Table(name string) *Table // nil: there is none
	Tasks(class string) int   // how many tasks read the tables of a class
	// Exchange is how many tasks share so many rows that are moved.
	Exchange(rows float64) int
	// Bucket is the number of the task that reads the rows with this key, as SQL; it holds for keys of other tables, too.
	Bucket(class, key string) string
}

// Table is one of the catalog's. Those of a class are cut by their keys, in the same way; a table without a class is
// whole wherever it is read.
type Table struct {
	Name     string
	Columns  []string
	Types    []string
	Class    string
	Key      string
	Rows     int
	Distinct map[string]int // values of each column
}

// SQL is what the planner asks DuckDB for.
type SQL interface {
	Parse(sql string) (node, error)
	Print(stmt node) (string, error)
	Aggregates() map[string]bool
	Matches(table, alias, cond string) (float64, error) // the share of a table's rows, by a sample of them
	Values(table, alias, expr string) (float64, error)  // how many values there are in the sample
}

type stage struct {
	name   string
	rel    *rel
	by     []node // expressions by which the output is cut into buckets; none: it is not
	bucket string // the bucket's number as SQL, with keyHere for these
	n      int    // of buckets
}

// class is a way in which rows are cut by a key, one piece for each task.
type class struct {
	name   string
	tasks  int
	bucket string // the number of the task that has a key, as SQL with keyHere for it
}

// rel is a query that tasks can run as it is: each of those of a class on its piece, which together give all rows, or any one
// task, if there is no class.
type rel struct {
	q      *query
	class  *class
	keys   map[string]bool // names of columns that are the class's key
	merged bool            // it joins what tasks have made: to be run once, not by each task of another class
	rows   float64         // an estimate
}

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

var errAgain = errors.New("plan again")

// keyHere stands for a key in SQL that is written before the key is known.
const keyHere = "$key"

// fewRows is so many that moving them is no matter.
const fewRows = 50_000

func (p *planner) isAggregate(n node) bool {
	return str(n, "class") == "FUNCTION" && p.agg[strings.ToLower(str(n, "function_name"))]
}

// aggregates tells whether there is an aggregate in n. Those of its subqueries are theirs.
func (p *planner) aggregates(n any) bool {
	found := false
	visit(n, func(n node) bool {
		found = found || p.isAggregate(n)
		return !found && str(n, "class") != "SUBQUERY"
	})
	return found
}

func (p *planner) base(name string) *class {
	c := p.bases[name]
	if c == nil {
		c = &class{name: name, tasks: p.cat.Tasks(name), bucket: p.cat.Bucket(name, keyHere)}
		p.bases[name] = c
	}
	return c
}

// exchange is a class of its own, for so many rows that are cut by some key for one purpose.
func (p *planner) exchange(rows float64) *class {
	p.exchanges++
	n := p.cat.Exchange(rows)
	return &class{name: fmt.Sprintf("exchange %d", p.exchanges), tasks: n, bucket: fmt.Sprintf("CAST(hash(%s) %% %d AS INTEGER)", keyHere, n)}
}

// materialise makes a stage of r. With a class, its output is cut by the columns by, for tasks of that class.
func (p *planner) materialise(r *rel, to *class, by ...node) *stage {
	s := &stage{rel: r}
	if to != nil {
		s.by, s.bucket, s.n = by, to.bucket, to.tasks
	}
	p.stages = append(p.stages, s)
	s.name = fmt.Sprintf("s%d", len(p.stages))
	return s
}

// facts are what holds of the rows of a block before they are grouped.
type facts struct {
	equal map[string]string // union-find over "alias.column"
}

func name(n node) string {
	if a, c := columnOf(n); a != "" {
		return a + "." + c
	}
	return ""
}

func (f *facts) root(c string) string {
	for f.equal[c] != "" {
		c = f.equal[c]
	}
	return c
}

func (f *facts) join(a, b string) {
	if a, b = f.root(a), f.root(b); a != b {
		f.equal[a] = b
	}
}

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

func (f *facts) among(c string, keys map[string]bool) bool {
	return c != "" && f.same(map[string]bool{c: true}, keys)
}

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

// piece is what is known of an element of FROM: the class of its rows, and columns that are its key in all of them.
type piece struct {
	class *class
	keys  map[string]bool
}

func (p *planner) plan(q *query) *rel { return p.query(q, false) }

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

// read is all of a stage.
func (p *planner) read(s *stage, cols []string) *query {
	l := p.leaf(s, All, cols)
	q := &query{elems: []*elem{{leaf: l}}}
	for _, c := range cols {
		q.sel = append(q.sel, item{column(l.alias, c), c})
	}
	return q
}

func (p *planner) leaf(s *stage, spread Spread, cols []string) *leaf {
	return &leaf{alias: p.bind.alias(s.name), stage: s, spread: spread, cols: cols}
}

// block is a SELECT that is being planned.
type block struct {
	p *planner
	*query
	derived map[string]piece // by alias: queries in FROM
	facts   *facts
	class   *class          // of its rows before grouping
	keys    map[string]bool // columns that are its key
	implied []node          // conditions that hold of a leaf where others do
	merged  map[string]*rel // by alias: queries in FROM that join what tasks have made
	once    bool            // something in it is merged
	rows    float64
}

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

// factor takes conditions that all branches of an OR share out of it, and adds what it says of each leaf alone.
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

// streamed drops what is only implied of the largest table: its rows go past hash tables of the others anyway, and what is asked of
// each of them twice costs more than it keeps away.
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

// piece tells what e is, with what is in it moved where its join needs that. At the top, what WHERE says of e's first leaf holds
// for its rows.
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
		return l // each row of it is joined where it is
	case l.class == nil && e.kind == "INNER":
		return r
	}
	var own []node // what concerns the right alone holds for it before the join
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
				continue // what is equal must have the same hash
			}
			keys, sums := b.summed(e.right.aliases())
			if sums {
				groups := b.p.groups([]*elem{e.right}, keys) * float64(r.class.tasks)
				if sums = 2*groups <= rows; sums {
					rows = groups
				}
			}
			// Both sides are cut by the key of the join: the right moves, and of the left, which is everywhere, each task takes its piece.
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

func same(a, b node) bool { return key(a) == key(b) }

// typeOf is the type of a column of a table in e; "" of others.
func (b *block) typeOf(e *elem, n node) string {
	a, c := columnOf(n)
	for _, l := range e.leaves() {
		if l.alias == a && l.table != "" {
			return b.p.cat.Table(l.table).Types[slices.Index(l.cols, c)]
		}
	}
	return ""
}

func refOf(n node) string { a, _ := columnOf(n); return a }

// mine holds for the rows with a key that is the task's.
func (p *planner) mine(c *class, k node) node {
	return equal(cast(operator("%", call("hash", k), integer(c.tasks)), "INTEGER"), cast(call("getvariable", text("task")), "INTEGER"))
}

// cut makes e, or what of it passes the conditions, a stage of its own, and returns what reads that in its place. All in
// the block that refers to columns of e refers to the new ones then.
func (b *block) cut(e *elem, where []node, to *class, by ...node) *elem {
	return b.cutAll([]*elem{e}, where, to, by...)
}

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
	// In place: elements are known by their pointers.
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

// anchor chooses the elements whose pieces the block's tasks read; what is cut in another way is moved to them.
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
		// Equalities by way of a third column hold among these alone as well.
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
	// How much is moved with a as the anchor: all to each task, or each row to the task that has its key.
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

func columnNamed(k string) node {
	a, c, _ := strings.Cut(k, ".")
	return column(a, c)
}

func copied(m map[string]bool) map[string]bool {
	out := map[string]bool{}
	maps.Copy(out, m)
	return out
}

// estimate is how many rows a join of these has, if each row of the largest meets one of each of the others.
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

// text is an expression as SQL, without the name that it may have.
func (p *planner) text(n node) string {
	s, err := p.sql.Print(node{"type": "SELECT_NODE", "cte_map": node{"map": []any{}}, "select_list": []any{with(emitNode(n), "alias", "")}, "from_table": node{"type": "EMPTY"}, "aggregate_handling": "STANDARD_HANDLING"})
	if err != nil {
		panic(err)
	}
	return strings.TrimPrefix(s, "SELECT ")
}
