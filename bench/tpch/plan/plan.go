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
	Broadcast   Spread = iota // each task reads the whole output (broadcast)
	Partitioned               // task i reads bucket i of each task's output (shuffle)
)

// Catalog tells the planner about the tables.
type Catalog interface {
	Table(name string) *Table // nil: the catalog has no table of this name
	Tasks(class string) int   // number of tasks that scan the tables of a class
	// ExchangeTasks is the number of tasks that share the given number of moved rows.
	ExchangeTasks(rows float64) int
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
	Selectivity(table, alias, cond string) (float64, error)    // share of the rows of a table's sample that meet cond
	DistinctValues(table, alias, expr string) (float64, error) // number of distinct values in the sample
}

// stage is a stage of the plan during planning. Its tasks run rel.
type stage struct {
	name       string
	rel        *rel
	keyColumns []node // columns by which the output is cut into buckets
	bucketSQL  string // number of a row's bucket, as SQL with keyHere for keyColumns
	buckets    int    // number of buckets; 0: the output is not cut
}

// class is a way to partition rows by a key. Each task has one partition.
type class struct {
	name      string
	tasks     int
	bucketSQL string // number of the task that has a key, as SQL with keyHere for the key
	// the task is chosen by the key's hash: equal keys of different types may be at different tasks
	byHash bool
}

// rel is a query that tasks can run as it stands. With a class, each task of the class runs the query on its
// partition, and the tasks together give all rows. Without a class, any single task gives all rows.
type rel struct {
	q     *query
	class *class
	keys  map[string]bool // names of the result columns that hold the class's key
	// the query combines outputs of tasks: it runs once, and not in each task of another class
	mergesTasks bool
	rows        float64 // estimated number of rows
}

// queryPlanner plans one query.
type queryPlanner struct {
	cat            Catalog
	sql            SQL
	bind           *binder
	aggregateNames map[string]bool
	sharedCTEs     map[string]bool
	stages         []*stage
	tableClasses   map[string]*class
	exchanges      int
}

// errAgain makes Plan start again, because a WITH query has a second use.
var errAgain = errors.New("plan again")

// keyHere stands for a key in SQL that is written before the key is known.
const keyHere = "$key"

// fewRows is a number of rows that tasks can move at negligible cost.
const fewRows = 50_000

// repeatedRows is the most rows that each task of another class may aggregate or sort anew. With more rows a single
// task does the work for all.
const repeatedRows = 20_000

// isAggregate reports whether n is a call of an aggregate function.
func (p *queryPlanner) isAggregate(n node) bool {
	return strAt(n, "class") == "FUNCTION" && p.aggregateNames[strings.ToLower(strAt(n, "function_name"))]
}

// hasAggregate reports whether n contains an aggregate. Aggregates inside subqueries do not count.
func (p *queryPlanner) hasAggregate(n any) bool {
	found := false
	visitNodes(n, func(n node) bool {
		found = found || p.isAggregate(n)
		return !found && strAt(n, "class") != "SUBQUERY"
	})
	return found
}

// tableClass returns the class of this name in the catalog.
func (p *queryPlanner) tableClass(name string) *class {
	c := p.tableClasses[name]
	if c == nil {
		c = &class{name: name, tasks: p.cat.Tasks(name), bucketSQL: p.cat.Bucket(name, keyHere)}
		p.tableClasses[name] = c
	}
	return c
}

// newExchange returns a new class for rows that an exchange partitions by some key, for a single purpose. The
// number of rows decides the number of tasks.
func (p *queryPlanner) newExchange(rows float64) *class {
	p.exchanges++
	n := p.cat.ExchangeTasks(rows)
	return &class{name: fmt.Sprintf("exchange %d", p.exchanges), tasks: n, byHash: true,
		bucketSQL: fmt.Sprintf("CAST(hash(%s) %% %d AS INTEGER)", keyHere, n)}
}

// addStage makes r a stage. If target is not nil, the output of the stage is cut by keyColumns, for the tasks
// of target.
func (p *queryPlanner) addStage(r *rel, target *class, keyColumns ...node) *stage {
	s := &stage{rel: r}
	if target != nil {
		s.keyColumns, s.bucketSQL, s.buckets = keyColumns, target.bucketSQL, target.tasks
	}
	p.stages = append(p.stages, s)
	s.name = fmt.Sprintf("s%d", len(p.stages))
	return s
}

// equivalences are sets of columns that are equal in all rows of a block before grouping.
type equivalences struct {
	parent map[string]string // parents in a union-find over "alias.column"; "" at a root
}

// columnName returns a bound column as "alias.column"; "" for any other node.
func columnName(n node) string {
	if a, c := splitColumn(n); a != "" {
		return a + "." + c
	}
	return ""
}

// findRoot returns the column that represents all columns equal to c.
func (f *equivalences) findRoot(c string) string {
	for f.parent[c] != "" {
		c = f.parent[c]
	}
	return c
}

// addEquality notes that the columns a and b are equal.
func (f *equivalences) addEquality(a, b string) {
	if a, b = f.findRoot(a), f.findRoot(b); a != b {
		f.parent[a] = b
	}
}

// anyEqual reports whether some column of a equals some column of b.
func (f *equivalences) anyEqual(a, b map[string]bool) bool {
	for x := range a {
		for y := range b {
			if f.findRoot(x) == f.findRoot(y) {
				return true
			}
		}
	}
	return false
}

// equalsAny reports whether the column c equals one of keys. For c "" it reports false.
func (f *equivalences) equalsAny(c string, keys map[string]bool) bool {
	return c != "" && f.anyEqual(map[string]bool{c: true}, keys)
}

// findEquivalences collects the equalities of columns among conds.
func findEquivalences(conds []node) *equivalences {
	f := &equivalences{map[string]string{}}
	for _, c := range conds {
		if strAt(c, "type") == "COMPARE_EQUAL" {
			if a, b := columnName(nodeAt(c, "left")), columnName(nodeAt(c, "right")); a != "" && b != "" {
				f.addEquality(a, b)
			}
		}
	}
	return f
}

// partitioning describes the rows of an element of FROM: the class, and the columns ("alias.column") that hold
// the class's key in every row.
type partitioning struct {
	class *class
	keys  map[string]bool
}

// planInner plans a query whose rows are not the result.
func (p *queryPlanner) planInner(q *query) *rel { return p.planQuery(q, false) }

// planQuery plans q. If q is the root, the rows are the result and keep their order. In other queries, the
// order only matters with a LIMIT.
func (p *queryPlanner) planQuery(q *query, root bool) *rel {
	if q.setop != "" {
		r := *q
		rows := 0.0
		for _, side := range []**query{&r.left, &r.right} {
			s := p.planInner(*side)
			rows += s.rows
			if s.class == nil && (*side).limit == nil && len((*side).order) == 0 {
				*side = s.q
			} else {
				*side = p.readStage(p.addStage(s, nil), s.q.columnNames())
			}
		}
		return &rel{q: &r, mergesTasks: true, rows: rows}
	}
	if slices.ContainsFunc(append(itemExprs(q.sel), orderExprs(q.order)...), hasWindow) {
		return p.planWindows(q, root)
	}
	return p.newBlock(q.rewriteExprs(func(node) node { return nil }), 0).planBlock(root)
}

// readStage returns a query that reads all rows of a stage.
func (p *queryPlanner) readStage(s *stage, cols []string) *query {
	l := p.newLeaf(s, Broadcast, cols)
	q := &query{elems: []*elem{{leaf: l}}}
	for _, c := range cols {
		q.sel = append(q.sel, item{newColumn(l.alias, c), c})
	}
	return q
}

// newLeaf returns a leaf that reads the output of a stage.
func (p *queryPlanner) newLeaf(s *stage, spread Spread, cols []string) *leaf {
	return &leaf{alias: p.bind.newAlias(s.name), stage: s, spread: spread, cols: cols}
}

// block is a SELECT during planning.
type block struct {
	p *queryPlanner
	*query
	derived     map[string]partitioning // by alias: partitioning of queries in FROM
	equiv       *equivalences
	class       *class          // class of the rows before grouping; nil: any task has all rows
	keys        map[string]bool // columns that hold the class's key
	implied     []node          // derived conditions on a leaf (factorOr)
	mergedRels  map[string]*rel // by alias: queries in FROM that combine outputs of tasks
	readsMerged bool            // the block contains a query that combines outputs of tasks
	rows        float64
}

// newBlock returns a block of q, which reads this number of rows. The block counts no columns as equal yet.
func (p *queryPlanner) newBlock(q *query, rows float64) *block {
	return &block{p: p, query: q, derived: map[string]partitioning{}, mergedRels: map[string]*rel{},
		equiv: findEquivalences(nil), rows: rows}
}

// planBlock plans the block: first the queries in FROM, then the joins, the subqueries of WHERE and the rest.
// root: see planQuery.
func (b *block) planBlock(root bool) *rel {
	b.factorOr()
	for _, e := range b.elems {
		for _, l := range e.leaves() {
			if l.sub == nil {
				continue
			}
			if l.plan == nil { // else the leaf comes from a block that moves its rows: sub may read buckets
				l.plan = b.p.planInner(l.sub)
			}
			r := l.plan
			l.sub = r.q
			b.rows = max(b.rows, r.rows)
			if r.class != nil {
				keys := map[string]bool{}
				for k := range r.keys {
					keys[l.alias+"."+k] = true
				}
				b.derived[l.alias] = partitioning{r.class, keys}
			} else if r.mergesTasks {
				b.mergedRels[l.alias] = r
			}
		}
	}
	partitionings := map[*elem]partitioning{}
	for _, e := range b.elems {
		partitionings[e] = b.partitionElem(e, true)
	}
	b.equiv = findEquivalences(b.where)
	b.chooseAnchor(partitionings)
	b.dropImpliedOfLargest()
	b.equiv = findEquivalences(b.where)
	if b.class != nil {
		for _, e := range b.elems {
			for _, l := range e.leaves() {
				if r := b.mergedRels[l.alias]; r != nil {
					l.stage, l.sub = b.p.addStage(r, nil), nil
				}
			}
		}
	} else {
		b.readsMerged = b.readsMerged || len(b.mergedRels) > 0
	}
	b.where = b.planSubqueries(b.where, b.class, b.keys)
	for i, c := range b.where {
		b.where[i] = b.existsToIn(c)
	}
	return b.planGrouping(root)
}

// factorOr adds conditions to WHERE that follow from an OR; the OR itself stays. If all branches contain the
// same comparison of two columns, factorOr adds the comparison. If all branches restrict the same leaf,
// factorOr adds the OR of the restrictions, as a filter for the scan of the leaf.
func (b *block) factorOr() {
	for _, c := range slices.Clone(b.where) {
		if strAt(c, "type") != "CONJUNCTION_OR" {
			continue
		}
		var branches [][]node
		for _, n := range nodesAt(c, "children") {
			branches = append(branches, splitConjuncts(n))
		}
		for _, n := range branches[0] {
			if columnName(nodeAt(n, "left")) == "" || columnName(nodeAt(n, "right")) == "" {
				continue
			}
			k := structureKey(n)
			if !slices.ContainsFunc(branches, func(l []node) bool {
				return !slices.ContainsFunc(l, func(m node) bool { return structureKey(m) == k })
			}) {
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
					if r := aliasesIn(n); len(r) == 1 && r[e.alias] && !hasSubquery(n) {
						own = append(own, n)
					}
				}
				if len(own) > 0 {
					or = append(or, newConjunction("AND", own))
				}
			}
			if own := newConjunction("OR", or); len(or) == len(branches) && !sameExpr(own, c) {
				b.where, b.implied = append(b.where, own), append(b.implied, own)
			}
		}
	}
}

// dropImpliedOfLargest drops the implied conditions on the largest table. The rows of the largest table are the
// probe side and pass the hash tables of the other tables anyway. A second evaluation for each row costs more
// than the filter saves.
func (b *block) dropImpliedOfLargest() {
	var largest *leaf
	rows := 0
	for _, e := range b.elems {
		if e.kind == "" && e.table != "" && b.p.cat.Table(e.table).Rows > rows {
			largest, rows = e.leaf, b.p.cat.Table(e.table).Rows
		}
	}
	b.where = slices.DeleteFunc(b.where, func(c node) bool {
		return largest != nil && aliasesIn(c)[largest.alias] &&
			slices.ContainsFunc(b.implied, func(o node) bool { return sameExpr(o, c) })
	})
}

// partitionElem returns the partitioning of e's rows. If the join of e needs a side elsewhere, partitionElem
// moves the side into a stage. At the top, conditions of WHERE on the first leaf of e apply to the rows of e.
func (b *block) partitionElem(e *elem, top bool) partitioning {
	if e.kind == "" {
		if pc, ok := b.derived[e.alias]; ok {
			return pc
		}
		if e.table != "" {
			if t := b.p.cat.Table(e.table); t.Class != "" {
				return partitioning{b.p.tableClass(t.Class), map[string]bool{e.alias + "." + t.Key: true}}
			}
		}
		return partitioning{}
	}
	if e.moved != nil {
		return partitioning{e.moved.class, copySet(e.moved.keys)}
	}
	if e.kind == "RIGHT" {
		e.kind, e.left, e.right = "LEFT", e.right, e.left
	}
	l, r := b.partitionElem(e.left, top && e.kind != "FULL"), b.partitionElem(e.right, false)
	f := findEquivalences(e.on)
	together := l.class != nil && l.class == r.class && f.anyEqual(l.keys, r.keys)
	switch {
	case l.class == nil && r.class == nil:
		return partitioning{}
	case together && e.kind == "INNER":
		maps.Copy(l.keys, r.keys)
		return l
	case together && e.kind == "LEFT":
		return l
	case together:
		return partitioning{l.class, nil}
	case e.kind == "FULL":
		for _, side := range []**elem{&e.left, &e.right} {
			if b.partitionElem(*side, false).class != nil {
				*side = b.moveElem(*side, nil, nil)
			}
		}
		return partitioning{}
	case r.class == nil:
		return l // the right side is whole, so each row of the left side is joined where the row is
	case l.class == nil && e.kind == "INNER":
		return r
	}
	var own []node // conditions on the right side alone apply before the join
	for _, c := range e.on {
		if allIn(aliasesIn(c), e.right.aliases()) && !hasSubquery(c) {
			own = append(own, c)
		}
	}
	e.on = slices.DeleteFunc(e.on, func(c node) bool {
		return slices.ContainsFunc(own, func(o node) bool { return sameExpr(o, c) })
	})
	if rows := b.p.estimateRows(e.right.leaves(), own); top && l.class == nil && rows > fewRows {
		for _, c := range e.on {
			x, y := nodeAt(c, "left"), nodeAt(c, "right")
			if strAt(c, "type") != "COMPARE_EQUAL" || columnName(x) == "" || columnName(y) == "" {
				continue
			}
			if e.right.aliases()[aliasOf(x)] {
				x, y = y, x
			}
			if t := b.tableColumnType(e.left, x); !e.right.aliases()[aliasOf(y)] || t == "" ||
				t != b.tableColumnType(e.right, y) {
				continue // equal keys have equal hashes only if their types are the same
			}
			keys, sums := b.preaggregationKeys(e.right.aliases())
			if sums {
				groups := b.p.estimateGroups([]*elem{e.right}, keys) * float64(r.class.tasks)
				if sums = 2*groups <= rows; sums {
					rows = groups
				}
			}
			// Both sides are partitioned by the join key. The right side moves. The left side is whole at each
			// task, so each task only keeps the rows of its own bucket.
			target := b.p.newExchange(rows)
			e.right = b.moveElem(e.right, own, target, y)
			if sums {
				b.preaggregateMoved(e.right.leaf, rows)
			}
			b.where = append(b.where, b.p.isOwnKey(target, x))
			e.moved = &partitioning{target, map[string]bool{columnName(x): true}}
			return partitioning{target, copySet(e.moved.keys)}
		}
	}
	e.right = b.moveElem(e.right, own, nil)
	return l
}

// sameExpr reports whether a and b have the same structure (structureKey).
func sameExpr(a, b node) bool { return structureKey(a) == structureKey(b) }

// tableColumnType returns the type of the column n, if n is a column of a table in e; else "".
func (b *block) tableColumnType(e *elem, n node) string {
	a, c := splitColumn(n)
	for _, l := range e.leaves() {
		if l.alias == a && l.table != "" {
			return b.p.cat.Table(l.table).Types[slices.Index(l.cols, c)]
		}
	}
	return ""
}

// aliasOf returns the alias of a bound column; "" for any other node.
func aliasOf(n node) string { a, _ := splitColumn(n); return a }

// isOwnKey returns a condition that holds for the rows whose key k belongs to the task's own bucket.
func (p *queryPlanner) isOwnKey(c *class, k node) node {
	return newEqual(newCast(newOperator("%", newCall("hash", k), newInt(c.tasks)), "INTEGER"),
		newCast(newCall("getvariable", newString("task")), "INTEGER"))
}

// moveElem makes e, filtered by where, a stage of its own, and returns a leaf that reads the stage. If target
// is not nil, the stage is cut by keyColumns, for the tasks of target. All references of the block to columns
// of e then refer to the leaf.
func (b *block) moveElem(e *elem, where []node, target *class, keyColumns ...node) *elem {
	return b.moveElems([]*elem{e}, where, target, keyColumns...)
}

// moveElems makes the join of elems one stage, like moveElem.
func (b *block) moveElems(elems []*elem, where []node, target *class, keyColumns ...node) *elem {
	own := map[string]bool{}
	for _, e := range elems {
		maps.Copy(own, e.aliases())
	}
	sel := map[string]item{}
	use := func(n node) bool {
		if a, c := splitColumn(n); own[a] {
			sel[a+"__"+c] = item{newColumn(a, c), a + "__" + c}
		}
		return true
	}
	rest := *b.query
	rest.where = slices.DeleteFunc(slices.Clone(b.where), func(c node) bool {
		return slices.ContainsFunc(where, func(w node) bool { return sameExpr(w, c) })
	})
	rest.elems = slices.DeleteFunc(slices.Clone(b.elems), func(e *elem) bool { return slices.Contains(elems, e) })
	for _, x := range rest.allExprs() {
		visitNodes(x, use)
	}
	for _, k := range keyColumns {
		visitNodes(k, use)
	}
	q := &query{elems: elems, where: where}
	for _, k := range slices.Sorted(maps.Keys(sel)) {
		q.sel = append(q.sel, sel[k])
	}
	if len(q.sel) == 0 {
		q.sel = []item{{newInt(1), "one"}}
	}
	r := b.p.planInner(q)
	var cols []node
	for _, k := range keyColumns {
		a, c := splitColumn(k)
		cols = append(cols, newColumn("", a+"__"+c))
	}
	st := b.p.addStage(r, target, cols...)
	spread := Broadcast
	if target != nil {
		spread = Partitioned
	}
	l := b.p.newLeaf(st, spread, q.columnNames())
	moved := func(n node) node {
		if a, c := splitColumn(n); own[a] {
			return newColumn(l.alias, a+"__"+c)
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
	var rewriteOn func(e *elem)
	rewriteOn = func(e *elem) {
		if e.kind != "" {
			e.on = rewriteAll(e.on, moved)
			rewriteOn(e.left)
			rewriteOn(e.right)
		}
	}
	for _, e := range rest.elems {
		rewriteOn(e)
	}
	return &elem{leaf: l}
}

// chooseAnchor chooses the anchor of the block: the elements whose partitions the block's tasks scan. Elements
// joined by their partition keys form a cluster. All other clusters move to the anchor. chooseAnchor takes the
// cluster with the least cost of moves.
func (b *block) chooseAnchor(partitionings map[*elem]partitioning) {
	type cluster struct {
		elems []*elem
		partitioning
		where   []node
		aliases map[string]bool
		rows    float64
	}
	var clusters []*cluster
	for _, e := range b.elems {
		pc := partitionings[e]
		if pc.class == nil {
			continue
		}
		c := &cluster{elems: []*elem{e}, partitioning: partitioning{pc.class, copySet(pc.keys)}}
		for _, o := range clusters {
			if o.class == c.class && b.equiv.anyEqual(o.keys, c.keys) {
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
			if r := freeAliases(w); len(r) > 0 && allIn(r, c.aliases) {
				c.where = append(c.where, w)
			}
		}
		// Keys may be equal by way of a third column. They are equal within the cluster alone, too, so the
		// equality is added.
		for i, x := range slices.Sorted(maps.Keys(c.keys)) {
			for _, y := range slices.Sorted(maps.Keys(c.keys))[:i] {
				if b.equiv.findRoot(x) == b.equiv.findRoot(y) {
					c.where = append(c.where, newEqual(parseColumn(x), parseColumn(y)))
				}
			}
		}
		c.rows = b.p.estimateRows(leaves, c.where)
		b.rows = max(b.rows, c.rows)
	}
	if len(clusters) == 0 {
		for _, e := range b.elems {
			b.rows = max(b.rows, b.p.estimateRows(e.leaves(), b.where))
		}
		return
	}
	// The cost of moving cluster c to the anchor a: all rows to each task (broadcast), or each row to the task
	// that has its key (shuffle).
	hasTypeOfKey := func(a *cluster, n node) bool {
		t := columnType(b.p.cat, b.elems, n)
		return t != "" && !slices.ContainsFunc(slices.Collect(maps.Keys(a.keys)), func(k string) bool {
			return columnType(b.p.cat, b.elems, parseColumn(k)) != t
		})
	}
	findKeyColumn := func(a, c *cluster) node {
		for _, k := range slices.Sorted(maps.Keys(b.equiv.parent)) {
			for _, k := range []string{k, b.equiv.parent[k]} {
				if n := parseColumn(k); c.aliases[aliasOf(n)] && b.equiv.equalsAny(k, a.keys) &&
					(!a.class.byHash || hasTypeOfKey(a, n)) {
					return n
				}
			}
		}
		return nil
	}
	moveCost := func(a, c *cluster) (cost float64, keyColumn node) {
		cost = c.rows * (1 + float64(a.class.tasks)/2)
		if keyColumn := findKeyColumn(a, c); keyColumn != nil && c.rows > fewRows/50 && 2.5*c.rows < cost {
			return 2.5 * c.rows, keyColumn
		}
		return cost, nil
	}
	var best *cluster
	var least float64
	for _, a := range clusters {
		sum := 0.0
		for _, c := range clusters {
			if c != a {
				cost, _ := moveCost(a, c)
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
		_, keyColumn := moveCost(best, c)
		var e *elem
		if keyColumn != nil {
			e = b.moveElems(c.elems, c.where, best.class, keyColumn)
			a, col := splitColumn(keyColumn)
			b.keys[e.alias+"."+a+"__"+col] = true
		} else {
			e = b.moveElems(c.elems, c.where, nil)
		}
		b.elems = append(slices.DeleteFunc(b.elems, func(e *elem) bool { return slices.Contains(c.elems, e) }), e)
	}
}

// parseColumn returns the column that columnName printed as k.
func parseColumn(k string) node {
	a, c, _ := strings.Cut(k, ".")
	return newColumn(a, c)
}

func copySet(m map[string]bool) map[string]bool {
	out := map[string]bool{}
	maps.Copy(out, m)
	return out
}

// estimateRows estimates the number of rows of a join of leaves under the conditions conds. The estimate
// assumes that each row of the largest leaf has a single match in every further leaf.
func (p *queryPlanner) estimateRows(leaves []*leaf, conds []node) float64 {
	rows, share := 1.0, 1.0
	for _, l := range leaves {
		switch {
		case l.table != "":
			t := p.cat.Table(l.table)
			rows = max(rows, float64(t.Rows))
			var own []node
			for _, c := range conds {
				if r := aliasesIn(c); len(r) == 1 && r[l.alias] && !hasSubquery(c) {
					own = append(own, c)
				}
			}
			if len(own) > 0 {
				s, err := p.sql.Selectivity(l.table, l.alias, p.printExpr(newConjunction("AND", own)))
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
func (p *queryPlanner) printExpr(n node) string {
	s, err := p.sql.Print(node{"type": "SELECT_NODE", "cte_map": node{"map": []any{}},
		"select_list": []any{withField(emitNode(n), "alias", "")}, "from_table": node{"type": "EMPTY"},
		"aggregate_handling": "STANDARD_HANDLING"})
	if err != nil {
		panic(err)
	}
	return strings.TrimPrefix(s, "SELECT ")
}
