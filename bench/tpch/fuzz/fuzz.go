// Package fuzz makes random queries over the tables of TPC-H.
package fuzz

import (
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/phoebe-sched/phoebe/bench/tpch/data"
)

// link is a pair of columns by which two tables are joined.
type link struct{ left, leftColumn, right, rightColumn string }

// uniqueKeys are the columns that tell the rows of a table apart.
var uniqueKeys = map[string]string{"orders": "o_orderkey", "part": "p_partkey", "customer": "c_custkey",
	"supplier": "s_suppkey", "nation": "n_nationkey", "region": "r_regionkey"}

// links are the foreign keys of TPC-H.
var links = []link{
	{"lineitem", "l_orderkey", "orders", "o_orderkey"}, {"lineitem", "l_partkey", "part", "p_partkey"},
	{"lineitem", "l_suppkey", "supplier", "s_suppkey"},
	{"lineitem", "l_partkey", "partsupp", "ps_partkey"}, {"orders", "o_custkey", "customer", "c_custkey"},
	{"partsupp", "ps_partkey", "part", "p_partkey"},
	{"partsupp", "ps_suppkey", "supplier", "s_suppkey"}, {"supplier", "s_nationkey", "nation", "n_nationkey"},
	{"customer", "c_nationkey", "nation", "n_nationkey"},
	{"nation", "n_regionkey", "region", "r_regionkey"},
}

// generator makes a query.
type generator struct {
	*rand.Rand
	manifest *data.Manifest
	sources  int
	depth    int
}

// source is an element of FROM: a table or a query.
type source struct {
	alias, table string
	cols, types  []string
}

// Query returns a random query. DuckDB accepts the query. The query is the same for the same state of r and the
// same schema.
func Query(r *rand.Rand, m *data.Manifest) string {
	g := &generator{Rand: r, manifest: m}
	return g.randomQuery(true)
}

// pickOne returns a random element of l.
func pickOne[T any](g *generator, l []T) T { return l[g.IntN(len(l))] }

// chance reports true with probability p.
func (g *generator) chance(p float64) bool { return g.Float64() < p }

// newSource returns a table as a source, with a new alias.
func (g *generator) newSource(table string) source {
	g.sources++
	t := g.manifest.Lookup(table)
	return source{fmt.Sprintf("t%d", g.sources), table, t.Columns, t.Types}
}

// randomQuery returns the text of a query. Only the root has set operations, WITH, ORDER BY and LIMIT.
func (g *generator) randomQuery(root bool) string {
	g.depth++
	defer func() { g.depth-- }()
	if root && g.chance(0.05) {
		op := pickOne(g, []string{"UNION", "UNION ALL", "EXCEPT", "INTERSECT"})
		a, b := g.newSource(pickOne(g, tables)), g.newSource(pickOne(g, tables))
		return fmt.Sprintf("SELECT %s AS x FROM %s %s WHERE %s %s SELECT %s AS x FROM %s %s WHERE %s ORDER BY x",
			g.columnOfType([]source{a}, "BIGINT"), a.table, a.alias, g.randomPredicate([]source{a}), op,
			g.columnOfType([]source{b}, "BIGINT"), b.table, b.alias, g.randomPredicate([]source{b}))
	}
	from, in := g.randomFrom()
	where := []string{}
	for range g.IntN(3) {
		where = append(where, g.randomPredicate(in))
	}
	if g.depth < 3 && g.chance(0.35) {
		where = append(where, g.subqueryPredicate(in))
	}
	clause := ""
	if len(where) > 0 {
		clause = " WHERE " + strings.Join(where, pickOne(g, []string{" AND ", " AND ", " AND ", " OR "}))
		if strings.Contains(clause, " OR ") && len(in) > 2 { // an OR over many tables takes long
			clause = " WHERE " + strings.Join(where, " AND ")
		}
	}
	var sel, group []string
	unique := false // the values hold for a group of all keys only
	agg := g.chance(0.6)
	if agg {
		for range g.IntN(3) {
			group = append(group, g.randomKey(in))
		}
		sel = append(sel, group...)
		for range 1 + g.IntN(3) {
			sel = append(sel, g.randomAggregate(in))
		}
		if s := pickOne(g, in); uniqueKeys[s.table] != "" && g.chance(0.08) { // one value for each key
			unique = true
			group = append(group, s.alias+"."+uniqueKeys[s.table])
			sel = append(sel, "any_value("+s.alias+"."+pickOne(g, s.cols)+")")
		}
		if len(group) > 0 && g.chance(0.06) {
			sel = append(sel, fmt.Sprintf(pickOne(g, []string{"rank() OVER (PARTITION BY %s ORDER BY count(*))",
				"sum(count(*)) OVER (PARTITION BY %s)", "dense_rank() OVER (ORDER BY %s)"}), group[0]))
			unique = true
		}
		if g.depth < 3 && g.chance(0.1) {
			key := g.columnOfType(in, "BIGINT")
			group, sel = append(group, key), append(sel, key,
				g.scalarSubquery(pickOne(g, []string{"", key, key, "min(" + g.randomColumn(in) + ")"})))
		}
	} else {
		for range 1 + g.IntN(4) {
			sel = append(sel, g.randomScalar(in))
		}
		if g.depth < 3 && g.chance(0.06) {
			sel = append(sel, g.scalarSubquery(pickOne(g, []string{"", g.columnOfType(in, "BIGINT")})))
		}
		if g.chance(0.08) {
			sel = append(sel, g.randomWindow(in))
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
		if !unique && g.chance(0.06) {
			q += " GROUP BY ROLLUP (" + strings.Join(group, ", ") + ")"
		} else {
			q += " GROUP BY " + strings.Join(group, ", ")
		}
		switch {
		case g.chance(0.25):
			q += fmt.Sprintf(" HAVING count(*) > %d", g.IntN(5))
		case g.depth < 3 && g.chance(0.1):
			q += fmt.Sprintf(" HAVING %s > %s", g.randomAggregate(in), g.scalarSubquery(""))
		}
	}
	if root && g.chance(0.5) {
		// Order by all columns, so that a LIMIT is unambiguous.
		var by []string
		for i := range sel {
			by = append(by, fmt.Sprintf("c%d%s", i,
				pickOne(g, []string{"", " DESC", " DESC NULLS LAST", " NULLS FIRST"})))
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
		q = "WITH w AS (" + q + ") SELECT w.* FROM w" +
			pickOne(g, []string{"", ", (SELECT max(c0) AS m FROM w) AS x WHERE c0 = m"})
	}
	return q
}

var tables = []string{"lineitem", "orders", "part", "partsupp", "customer", "supplier", "nation", "region"}

// randomFrom returns the text of FROM, with the sources. The sources are joined by links.
func (g *generator) randomFrom() (string, []source) {
	if g.depth < 3 && g.chance(0.1) { // a query in FROM
		t := g.newSource(pickOne(g, tables[:5]))
		k := g.columnOfType([]source{t}, "BIGINT")
		g.sources++
		s := source{alias: fmt.Sprintf("q%d", g.sources), cols: []string{"k", "n", "v"},
			types: []string{"BIGINT", "BIGINT", "DECIMAL(38,2)"}}
		return fmt.Sprintf("(SELECT %s AS k, count(*) AS n, sum(%s) AS v FROM %s %s WHERE %s GROUP BY 1) AS %s", k,
			g.randomNumber([]source{t}), t.table, t.alias, g.randomPredicate([]source{t}), s.alias), []source{s}
	}
	in := []source{g.newSource(pickOne(g, tables))}
	text := in[0].table + " " + in[0].alias
	for range g.IntN(4) {
		candidates, owners := linksOf(in)
		if len(candidates) == 0 {
			break
		}
		i := g.IntN(len(candidates))
		l := candidates[i]
		if sizeClass(l.right) >= 3 && countLarge(in, 3) >= 2 { // a join of three large tables takes long
			continue
		}
		s := g.newSource(l.right)
		on := fmt.Sprintf("%s.%s = %s.%s", owners[i].alias, l.leftColumn, s.alias, l.rightColumn)
		kind := pickOne(g, []string{"JOIN", "JOIN", "JOIN", "LEFT JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"})
		if kind != "JOIN" && g.chance(0.3) {
			on += " AND " + g.randomPredicate([]source{s})
		}
		text += " " + kind + " " + s.table + " " + s.alias + " ON " + on
		in = append(in, s)
	}
	return text, in
}

// linksOf returns the links from the sources in to further tables, and the source of each link.
func linksOf(in []source) (candidates []link, owners []source) {
	for _, s := range in {
		for _, l := range links {
			if l.left == s.table {
				candidates, owners = append(candidates, l), append(owners, s)
			}
			if l.right == s.table {
				candidates, owners = append(candidates, link{l.right, l.rightColumn, l.left, l.leftColumn}),
					append(owners, s)
			}
		}
	}
	return candidates, owners
}

// sizeClass returns the size of a table: 1 (small) to 3 (large).
func sizeClass(table string) int {
	switch table {
	case "lineitem", "orders", "partsupp":
		return 3
	case "region", "nation", "supplier":
		return 1
	}
	return 2
}

// countLarge returns the number of sources with a size class of least or more.
func countLarge(in []source, least int) int {
	n := 0
	for _, s := range in {
		if sizeClass(s.table) >= least {
			n++
		}
	}
	return n
}

func (g *generator) randomColumn(in []source) string {
	s := pickOne(g, in)
	return s.alias + "." + pickOne(g, s.cols)
}

// columnOfType returns a random column whose type begins with t. Without a fitting column, the result is a
// constant.
func (g *generator) columnOfType(in []source, t string) string {
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
	return pickOne(g, l)
}

func (g *generator) randomNumber(in []source) string {
	if g.chance(0.5) {
		return g.columnOfType(in, "DECIMAL")
	}
	return g.columnOfType(in, "INTEGER")
}

// randomKey returns an expression for GROUP BY.
func (g *generator) randomKey(in []source) string {
	switch g.IntN(6) {
	case 0:
		return fmt.Sprintf("extract(year FROM %s)", g.columnOfType(in, "DATE"))
	case 1:
		return fmt.Sprintf("substring(%s, 1, 2)", g.columnOfType(in, "VARCHAR"))
	case 2:
		return g.columnOfType(in, "BIGINT")
	}
	return g.randomColumn(in)
}

func (g *generator) randomScalar(in []source) string {
	switch g.IntN(8) {
	case 0:
		return fmt.Sprintf("(%s + %s)", g.randomNumber(in), g.columnOfType(in, "INTEGER"))
	case 1:
		return fmt.Sprintf("CASE WHEN %s THEN %s ELSE NULL END", g.randomPredicate(in), g.randomColumn(in))
	case 2:
		return fmt.Sprintf("upper(%s)", g.columnOfType(in, "VARCHAR"))
	case 3:
		return fmt.Sprintf("(%s * 2)", g.randomNumber(in))
	}
	return g.randomColumn(in)
}

func (g *generator) randomAggregate(in []source) string {
	filter := ""
	if g.chance(0.1) {
		filter = " FILTER (WHERE " + g.randomPredicate(in) + ")"
	}
	switch g.IntN(15) {
	case 0, 1:
		return "count(*)" + filter
	case 11:
		return fmt.Sprintf("%s(%s)", pickOne(g, []string{"stddev", "stddev_pop", "variance", "var_pop", "median"}),
			g.randomNumber(in)) + filter
	case 12: // rounded, because a sum of products around 0 has no exact digits
		return fmt.Sprintf("round(%s(%s, %s)%s, 4)", pickOne(g, []string{"corr", "covar_pop", "covar_samp"}),
			g.randomNumber(in), g.randomNumber(in), filter)
	case 13:
		return "approx_count_distinct(" + g.randomColumn(in) + ")" + filter
	case 2:
		return "count(" + g.randomColumn(in) + ")" + filter
	case 3, 4, 5:
		return "sum(" + g.randomNumber(in) + ")" + filter
	case 6, 7:
		return "avg(" + g.randomNumber(in) + ")" + filter
	case 8:
		return "min(" + g.randomColumn(in) + ")" + filter
	case 9:
		return "max(" + g.randomColumn(in) + ")" + filter
	case 10:
		return "count(DISTINCT " + g.randomColumn(in) + ")" + filter
	}
	return fmt.Sprintf(pickOne(g, []string{"sum(%s) / count(*)", "sum(%s) - 1", "sum(DISTINCT %s)",
		"max(%s) + 1"}), g.randomNumber(in))
}

// randomWindow returns a window function. Rows that its order does not tell apart have the same value.
func (g *generator) randomWindow(in []source) string {
	call := pickOne(g, []string{"rank()", "dense_rank()", "count(*)", "min(" + g.randomColumn(in) + ")",
		"max(" + g.randomColumn(in) + ")", "sum(" + g.randomNumber(in) + ")", "avg(" + g.randomNumber(in) + ")"})
	return fmt.Sprintf("%s OVER (%sORDER BY %s%s)", call,
		pickOne(g, []string{"", "PARTITION BY " + g.randomColumn(in) + " ", "PARTITION BY " + g.randomKey(in) + " ",
			"PARTITION BY " + g.randomKey(in) + ", " + g.randomColumn(in) + " "}),
		g.randomColumn(in), pickOne(g, []string{"", " DESC"}))
}

// randomPredicate returns a condition on a random source.
func (g *generator) randomPredicate(in []source) string {
	switch g.IntN(9) {
	case 0:
		return fmt.Sprintf("%s > %d", g.columnOfType(in, "DECIMAL"), g.IntN(5000))
	case 1:
		return fmt.Sprintf("%s <= %d", g.columnOfType(in, "INTEGER"), g.IntN(60))
	case 2:
		return fmt.Sprintf("%s < DATE '199%d-0%d-01'", g.columnOfType(in, "DATE"), 2+g.IntN(7), 1+g.IntN(9))
	case 3:
		return fmt.Sprintf("%s LIKE '%%%s%%'", g.columnOfType(in, "VARCHAR"),
			pickOne(g, []string{"a", "e", "re", "1", "BRASS", "green", "special"}))
	case 4:
		return fmt.Sprintf("%s BETWEEN %d AND %d", g.columnOfType(in, "BIGINT"), g.IntN(500), 500+g.IntN(3000))
	case 5:
		return fmt.Sprintf("%s IN (%d, %d, %d, %d)", g.columnOfType(in, "INTEGER"), g.IntN(50), g.IntN(50),
			g.IntN(50), g.IntN(50))
	case 6:
		return fmt.Sprintf("(%s OR %s)", g.randomComparison(in), g.randomComparison(in))
	case 7:
		return fmt.Sprintf("NOT (%s)", g.randomComparison(in))
	}
	return g.randomColumn(in) + pickOne(g, []string{" IS NOT NULL", " IS NULL", " IS NOT NULL"})
}

func (g *generator) randomComparison(in []source) string {
	return fmt.Sprintf("%s %s %d", g.columnOfType(in, "BIGINT"), pickOne(g, []string{"<", ">", "="}), g.IntN(1500))
}

// scalarSubquery returns a subquery with a single value. If key is not "", the subquery has a value for each
// value of key.
func (g *generator) scalarSubquery(key string) string {
	s := g.newSource(pickOne(g, tables))
	sources := []source{s}
	where := g.randomPredicate(sources)
	if key != "" {
		where = fmt.Sprintf("%s = %s AND %s", g.columnOfType(sources, "BIGINT"), key, where)
	}
	return fmt.Sprintf("(SELECT %s FROM %s %s WHERE %s)", pickOne(g, []string{
		"count(*)", "max(" + g.randomNumber(sources) + ")", "avg(" + g.randomNumber(sources) + ")",
	}), s.table, s.alias, where)
}

// subqueryPredicate returns a condition with a subquery. The condition restricts a random source.
func (g *generator) subqueryPredicate(in []source) string {
	candidates, owners := linksOf(in)
	if len(candidates) == 0 {
		return g.randomPredicate(in)
	}
	i := g.IntN(len(candidates))
	l, owner := candidates[i], owners[i]
	s := g.newSource(l.right)
	sources := []source{s}
	corr := fmt.Sprintf("%s.%s = %s.%s", s.alias, l.rightColumn, owner.alias, l.leftColumn)
	from := s.table + " " + s.alias
	switch g.IntN(8) {
	case 6: // DuckDB 1.5.5 alone gives wrong rows for such a condition
		owners := []source{owner}
		t := pickOne(g, []string{"DECIMAL", "INTEGER", "DATE"})
		return fmt.Sprintf("%sEXISTS (SELECT 1 FROM %s WHERE %s AND %s <> %s AND %s > %s)",
			pickOne(g, []string{"", "NOT "}), from, corr, g.columnOfType(sources, "BIGINT"),
			g.columnOfType(owners, "BIGINT"), g.columnOfType(sources, t), g.columnOfType(owners, t))
	case 0:
		return fmt.Sprintf("EXISTS (SELECT * FROM %s WHERE %s AND %s)", from, corr, g.randomPredicate(sources))
	case 1:
		return fmt.Sprintf("NOT EXISTS (SELECT * FROM %s WHERE %s AND %s)", from, corr, g.randomPredicate(sources))
	case 2:
		return fmt.Sprintf("%s.%s IN (SELECT %s.%s FROM %s WHERE %s)", owner.alias, l.leftColumn, s.alias,
			l.rightColumn, from, g.randomPredicate(sources))
	case 3:
		return fmt.Sprintf("%s.%s NOT IN (SELECT %s.%s FROM %s WHERE %s)", owner.alias, l.leftColumn, s.alias,
			l.rightColumn, from, g.randomPredicate(sources))
	case 4:
		return fmt.Sprintf("%s > (SELECT %s(%s) FROM %s WHERE %s)", g.randomNumber(in),
			pickOne(g, []string{"avg", "min", "sum"}), g.randomNumber(sources), from, g.randomPredicate(sources))
	case 5:
		return fmt.Sprintf("%s < (SELECT %s(%s) FROM %s WHERE %s AND %s)", g.randomNumber(in),
			pickOne(g, []string{"avg", "max", "sum"}), g.randomNumber(sources), from, corr, g.randomPredicate(sources))
	}
	return fmt.Sprintf("%d < (SELECT count(*) FROM %s WHERE %s)", g.IntN(3), from, corr)
}
