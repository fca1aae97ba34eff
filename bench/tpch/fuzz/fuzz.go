// Package fuzz makes random queries over the tables of TPC-H.
package fuzz

import (
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/phoebe-sched/phoebe/bench/tpch/data"
)

// link is a pair of columns by which two tables are joined.
type link struct{ a, ac, b, bc string }

// links are the foreign keys of TPC-H.
var links = []link{
	{"lineitem", "l_orderkey", "orders", "o_orderkey"}, {"lineitem", "l_partkey", "part", "p_partkey"}, {"lineitem", "l_suppkey", "supplier", "s_suppkey"},
	{"lineitem", "l_partkey", "partsupp", "ps_partkey"}, {"orders", "o_custkey", "customer", "c_custkey"}, {"partsupp", "ps_partkey", "part", "p_partkey"},
	{"partsupp", "ps_suppkey", "supplier", "s_suppkey"}, {"supplier", "s_nationkey", "nation", "n_nationkey"}, {"customer", "c_nationkey", "nation", "n_nationkey"},
	{"nation", "n_regionkey", "region", "r_regionkey"},
}

// generator makes a query.
type gen struct {
	*rand.Rand
	m     *data.Manifest
	n     int
	depth int
}

// source is an element of FROM: a table or a query.
type source struct {
	alias, table string
	cols, types  []string
}

// Query returns a random query. DuckDB accepts the query. The query is the same for the same state of r and the
// same schema.
func Query(r *rand.Rand, m *data.Manifest) string {
	g := &gen{Rand: r, m: m}
	return g.query(true)
}

// pickOne returns a random element of l.
func pick[T any](g *gen, l []T) T { return l[g.IntN(len(l))] }

// chance reports true with probability p.
func (g *gen) chance(p float64) bool { return g.Float64() < p }

// newSource returns a table as a source, with a new alias.
func (g *gen) source(table string) source {
	g.n++
	t := g.m.Lookup(table)
	return source{fmt.Sprintf("t%d", g.n), table, t.Columns, t.Types}
}

// randomQuery returns the text of a query. Only the root has set operations, WITH, ORDER BY and LIMIT.
func (g *gen) query(root bool) string {
	g.depth++
	defer func() { g.depth-- }()
	if root && g.chance(0.05) {
		op := pick(g, []string{"UNION", "UNION ALL", "EXCEPT", "INTERSECT"})
		a, b := g.source(pick(g, tables)), g.source(pick(g, tables))
		return fmt.Sprintf("SELECT %s AS x FROM %s %s WHERE %s %s SELECT %s AS x FROM %s %s WHERE %s ORDER BY x",
			g.typed([]source{a}, "BIGINT"), a.table, a.alias, g.pred([]source{a}), op, g.typed([]source{b}, "BIGINT"), b.table, b.alias, g.pred([]source{b}))
	}
	from, in := g.from()
	where := []string{}
	for range g.IntN(3) {
		where = append(where, g.pred(in))
	}
	if g.depth < 3 && g.chance(0.35) {
		where = append(where, g.subquery(in))
	}
	clause := ""
	if len(where) > 0 {
		clause = " WHERE " + strings.Join(where, pick(g, []string{" AND ", " AND ", " AND ", " OR "}))
		if strings.Contains(clause, " OR ") && len(in) > 2 { // an OR over many tables takes long
			clause = " WHERE " + strings.Join(where, " AND ")
		}
	}
	var sel, group []string
	agg := g.chance(0.6)
	if agg {
		for range g.IntN(3) {
			group = append(group, g.key(in))
		}
		for _, k := range group {
			sel = append(sel, k)
		}
		for range 1 + g.IntN(3) {
			sel = append(sel, g.aggregate(in))
		}
		if g.depth < 3 && g.chance(0.1) {
			key := g.typed(in, "BIGINT")
			group, sel = append(group, key), append(sel, key, g.value(pick(g, []string{"", key, key, "min(" + g.column(in) + ")"})))
		}
	} else {
		for range 1 + g.IntN(4) {
			sel = append(sel, g.scalar(in))
		}
		if g.depth < 3 && g.chance(0.06) {
			sel = append(sel, g.value(pick(g, []string{"", g.typed(in, "BIGINT")})))
		}
		if g.chance(0.04) {
			sel = append(sel, fmt.Sprintf("rank() OVER (PARTITION BY %s ORDER BY %s)", g.column(in), g.column(in)))
		}
	}
	for i := range sel {
		sel[i] += fmt.Sprintf(" AS c%d", i)
	}
	q := "SELECT "
	if g.chance(0.12) {
		q += "DISTINCT "
	}
	q += strings.Join(sel, ", ") + " FROM " + from + clause
	if len(group) > 0 {
		if g.chance(0.06) {
			q += " GROUP BY ROLLUP (" + strings.Join(group, ", ") + ")"
		} else {
			q += " GROUP BY " + strings.Join(group, ", ")
		}
		switch {
		case g.chance(0.25):
			q += fmt.Sprintf(" HAVING count(*) > %d", g.IntN(5))
		case g.depth < 3 && g.chance(0.1):
			q += fmt.Sprintf(" HAVING %s > %s", g.aggregate(in), g.value(""))
		}
	}
	if root && g.chance(0.5) {
		// Order by all columns, so that a LIMIT is unambiguous.
		var by []string
		for i := range sel {
			by = append(by, fmt.Sprintf("c%d%s", i, pick(g, []string{"", " DESC", " DESC NULLS LAST", " NULLS FIRST"})))
		}
		q += " ORDER BY " + strings.Join(by, ", ")
		if g.chance(0.6) {
			q += fmt.Sprintf(" LIMIT %d", 1+g.IntN(50))
			if g.chance(0.2) {
				q += fmt.Sprintf(" OFFSET %d", g.IntN(20))
			}
		}
	}
	if root && g.chance(0.06) {
		q = "WITH w AS (" + q + ") SELECT w.* FROM w" + pick(g, []string{"", ", (SELECT max(c0) AS m FROM w) AS x WHERE c0 = m"})
	}
	return q
}

var tables = []string{"lineitem", "orders", "part", "partsupp", "customer", "supplier", "nation", "region"}

// randomFrom returns the text of FROM, with the sources. The sources are joined by links.
func (g *gen) from() (string, []source) {
	if g.depth < 3 && g.chance(0.1) { // a query in FROM
		t := g.source(pick(g, tables[:5]))
		k := g.typed([]source{t}, "BIGINT")
		g.n++
		s := source{alias: fmt.Sprintf("q%d", g.n), cols: []string{"k", "n", "v"}, types: []string{"BIGINT", "BIGINT", "DECIMAL(38,2)"}}
		return fmt.Sprintf("(SELECT %s AS k, count(*) AS n, sum(%s) AS v FROM %s %s WHERE %s GROUP BY 1) AS %s", k, g.number([]source{t}), t.table, t.alias, g.pred([]source{t}), s.alias), []source{s}
	}
	in := []source{g.source(pick(g, tables))}
	text := in[0].table + " " + in[0].alias
	for range g.IntN(4) {
		can, at := linksOf(in)
		if len(can) == 0 {
			break
		}
		i := g.IntN(len(can))
		l := can[i]
		if size(l.b) >= 3 && count(in, 3) >= 2 { // a join of three large tables takes long
			continue
		}
		s := g.source(l.b)
		on := fmt.Sprintf("%s.%s = %s.%s", at[i].alias, l.ac, s.alias, l.bc)
		kind := pick(g, []string{"JOIN", "JOIN", "JOIN", "LEFT JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"})
		if kind != "JOIN" && g.chance(0.3) {
			on += " AND " + g.pred([]source{s})
		}
		text += " " + kind + " " + s.table + " " + s.alias + " ON " + on
		in = append(in, s)
	}
	return text, in
}

// linksOf returns the links from the sources in to further tables, and the source of each link.
func linksOf(in []source) (can []link, at []source) {
	for _, s := range in {
		for _, l := range links {
			if l.a == s.table {
				can, at = append(can, l), append(at, s)
			}
			if l.b == s.table {
				can, at = append(can, link{l.b, l.bc, l.a, l.ac}), append(at, s)
			}
		}
	}
	return can, at
}

// sizeClass returns the size of a table: 1 (small) to 3 (large).
func size(table string) int {
	switch table {
	case "lineitem", "orders", "partsupp":
		return 3
	case "region", "nation", "supplier":
		return 1
	}
	return 2
}

// countLarge returns the number of sources with a size class of least or more.
func count(in []source, least int) int {
	n := 0
	for _, s := range in {
		if size(s.table) >= least {
			n++
		}
	}
	return n
}

func (g *gen) column(in []source) string {
	s := pick(g, in)
	return s.alias + "." + pick(g, s.cols)
}

// columnOfType returns a random column whose type begins with t. Without a fitting column, the result is a
// constant.
func (g *gen) typed(in []source, t string) string {
	var l []string
	for _, s := range in {
		for i, c := range s.cols {
			if strings.HasPrefix(s.types[i], t) {
				l = append(l, s.alias+"."+c)
			}
		}
	}
	if len(l) == 0 {
		switch t {
		case "VARCHAR":
			return "'x'"
		case "DATE":
			return "DATE '1995-01-01'"
		}
		return "7"
	}
	return pick(g, l)
}

func (g *gen) number(in []source) string {
	if g.chance(0.5) {
		return g.typed(in, "DECIMAL")
	}
	return g.typed(in, "INTEGER")
}

// randomKey returns an expression for GROUP BY.
func (g *gen) key(in []source) string {
	switch g.IntN(6) {
	case 0:
		return fmt.Sprintf("extract(year FROM %s)", g.typed(in, "DATE"))
	case 1:
		return fmt.Sprintf("substring(%s, 1, 2)", g.typed(in, "VARCHAR"))
	case 2:
		return g.typed(in, "BIGINT")
	}
	return g.column(in)
}

func (g *gen) scalar(in []source) string {
	switch g.IntN(8) {
	case 0:
		return fmt.Sprintf("(%s + %s)", g.number(in), g.typed(in, "INTEGER"))
	case 1:
		return fmt.Sprintf("CASE WHEN %s THEN %s ELSE NULL END", g.pred(in), g.column(in))
	case 2:
		return fmt.Sprintf("upper(%s)", g.typed(in, "VARCHAR"))
	case 3:
		return fmt.Sprintf("(%s * 2)", g.number(in))
	}
	return g.column(in)
}

func (g *gen) aggregate(in []source) string {
	filter := ""
	if g.chance(0.1) {
		filter = " FILTER (WHERE " + g.pred(in) + ")"
	}
	switch g.IntN(12) {
	case 0, 1:
		return "count(*)" + filter
	case 2:
		return "count(" + g.column(in) + ")" + filter
	case 3, 4, 5:
		return "sum(" + g.number(in) + ")" + filter
	case 6, 7:
		return "avg(" + g.number(in) + ")" + filter
	case 8:
		return "min(" + g.column(in) + ")" + filter
	case 9:
		return "max(" + g.column(in) + ")" + filter
	case 10:
		return "count(DISTINCT " + g.column(in) + ")" + filter
	}
	return fmt.Sprintf(pick(g, []string{"stddev(%s)", "sum(%s) / count(*)", "sum(%s) - 1", "sum(DISTINCT %s)", "max(%s) + 1"}), g.number(in))
}

// randomPredicate returns a condition on a random source.
func (g *gen) pred(in []source) string {
	switch g.IntN(9) {
	case 0:
		return fmt.Sprintf("%s > %d", g.typed(in, "DECIMAL"), g.IntN(5000))
	case 1:
		return fmt.Sprintf("%s <= %d", g.typed(in, "INTEGER"), g.IntN(60))
	case 2:
		return fmt.Sprintf("%s < DATE '199%d-0%d-01'", g.typed(in, "DATE"), 2+g.IntN(7), 1+g.IntN(9))
	case 3:
		return fmt.Sprintf("%s LIKE '%%%s%%'", g.typed(in, "VARCHAR"), pick(g, []string{"a", "e", "re", "1", "BRASS", "green", "special"}))
	case 4:
		return fmt.Sprintf("%s BETWEEN %d AND %d", g.typed(in, "BIGINT"), g.IntN(500), 500+g.IntN(3000))
	case 5:
		return fmt.Sprintf("%s IN (%d, %d, %d, %d)", g.typed(in, "INTEGER"), g.IntN(50), g.IntN(50), g.IntN(50), g.IntN(50))
	case 6:
		return fmt.Sprintf("(%s OR %s)", g.simple(in), g.simple(in))
	case 7:
		return fmt.Sprintf("NOT (%s)", g.simple(in))
	}
	return g.column(in) + pick(g, []string{" IS NOT NULL", " IS NULL", " IS NOT NULL"})
}

func (g *gen) simple(in []source) string {
	return fmt.Sprintf("%s %s %d", g.typed(in, "BIGINT"), pick(g, []string{"<", ">", "="}), g.IntN(1500))
}

// scalarSubquery returns a subquery with a single value. If key is not "", the subquery has a value for each
// value of key.
func (g *gen) value(key string) string {
	s := g.source(pick(g, tables))
	one := []source{s}
	where := g.pred(one)
	if key != "" {
		where = fmt.Sprintf("%s = %s AND %s", g.typed(one, "BIGINT"), key, where)
	}
	return fmt.Sprintf("(SELECT %s FROM %s %s WHERE %s)", pick(g, []string{"count(*)", "max(" + g.number(one) + ")", "avg(" + g.number(one) + ")"}), s.table, s.alias, where)
}

// subqueryPredicate returns a condition with a subquery. The condition restricts a random source.
func (g *gen) subquery(in []source) string {
	can, at := linksOf(in)
	if len(can) == 0 {
		return g.pred(in)
	}
	i := g.IntN(len(can))
	l, o := can[i], at[i]
	s := g.source(l.b)
	one := []source{s}
	corr := fmt.Sprintf("%s.%s = %s.%s", s.alias, l.bc, o.alias, l.ac)
	from := s.table + " " + s.alias
	switch g.IntN(7) {
	case 0:
		return fmt.Sprintf("EXISTS (SELECT * FROM %s WHERE %s AND %s)", from, corr, g.pred(one))
	case 1:
		return fmt.Sprintf("NOT EXISTS (SELECT * FROM %s WHERE %s AND %s)", from, corr, g.pred(one))
	case 2:
		return fmt.Sprintf("%s.%s IN (SELECT %s.%s FROM %s WHERE %s)", o.alias, l.ac, s.alias, l.bc, from, g.pred(one))
	case 3:
		return fmt.Sprintf("%s.%s NOT IN (SELECT %s.%s FROM %s WHERE %s)", o.alias, l.ac, s.alias, l.bc, from, g.pred(one))
	case 4:
		return fmt.Sprintf("%s > (SELECT %s(%s) FROM %s WHERE %s)", g.number(in), pick(g, []string{"avg", "min", "sum"}), g.number(one), from, g.pred(one))
	case 5:
		return fmt.Sprintf("%s < (SELECT %s(%s) FROM %s WHERE %s AND %s)", g.number(in), pick(g, []string{"avg", "max", "sum"}), g.number(one), from, corr, g.pred(one))
	}
	return fmt.Sprintf("%d < (SELECT count(*) FROM %s WHERE %s)", g.IntN(3), from, corr)
}
