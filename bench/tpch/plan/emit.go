package plan

import (
	"fmt"
	"strings"
)

// emitNode returns n in DuckDB's own form: without the changes of the binder.
func emitNode(n node) node {
	return rewriteNode(n, func(n node) node {
		if q, ok := n["query"].(*query); ok {
			out := withField(n, "subquery", node{"node": queryToNode(q)})
			delete(out, "query")
			if c := nodeAt(n, "child"); c != nil {
				out["child"] = emitNode(c)
			}
			return out
		}
		if names := listAt(n, "column_names"); len(names) == 2 && names[0] == "" {
			return withField(n, "column_names", names[1:])
		}
		return nil
	})
}

// queryToNode returns q as a node of DuckDB's syntax tree.
func queryToNode(q *query) node {
	modifiers := []any{}
	if q.distinct {
		modifiers = append(modifiers, node{"type": "DISTINCT_MODIFIER"})
	}
	if len(q.order) > 0 {
		var l []any
		for _, o := range q.order {
			dir, nulls := o.dir, o.nulls
			if dir == "" {
				dir = "ORDER_DEFAULT"
			}
			if nulls == "" {
				nulls = "ORDER_DEFAULT"
			}
			orderExpr := o.expr
			if q.setop == "" {
				orderExpr = hidePosition(orderExpr)
			}
			l = append(l, node{"type": dir, "null_order": nulls, "expression": emitNode(orderExpr)})
		}
		modifiers = append(modifiers, node{"type": "ORDER_MODIFIER", "orders": l})
	}
	if q.limit != nil || q.offset != nil {
		m := node{"type": "LIMIT_MODIFIER"}
		if q.limit != nil {
			m["limit"] = q.limit
		}
		if q.offset != nil {
			m["offset"] = q.offset
		}
		modifiers = append(modifiers, m)
	}
	if q.setop != "" {
		return node{"type": "SET_OPERATION_NODE", "cte_map": node{"map": []any{}}, "setop_type": q.setop,
			"setop_all": q.setopAll, "left": queryToNode(q.left), "right": queryToNode(q.right), "modifiers": modifiers}
	}
	n := node{"type": "SELECT_NODE", "cte_map": node{"map": []any{}}, "modifiers": modifiers,
		"aggregate_handling": "STANDARD_HANDLING"}
	var sel []any
	for _, it := range q.sel {
		e := withField(emitNode(it.expr), "alias", it.name)
		sel = append(sel, e)
	}
	n["select_list"] = sel
	var from node
	for _, e := range q.elems {
		x := emitElem(e)
		if from == nil {
			from = x
		} else {
			from = node{"type": "JOIN", "left": from, "right": x, "join_type": "INNER", "ref_type": "CROSS"}
		}
	}
	if from == nil {
		from = node{"type": "EMPTY"}
	}
	n["from_table"] = from
	if len(q.where) > 0 {
		n["where_clause"] = emitNode(newConjunction("AND", q.where))
	}
	if len(q.group) > 0 {
		var l []any
		for _, g := range q.group {
			l = append(l, withField(emitNode(hidePosition(g)), "alias", ""))
		}
		n["group_expressions"], n["group_sets"] = l, q.groupSets
		if len(q.groupSets) == 0 {
			n["group_sets"] = []any{listPositions(len(l))}
		}
	}
	if len(q.having) > 0 {
		n["having"] = emitNode(newConjunction("AND", q.having))
	}
	return n
}

// hidePosition returns n in a form for GROUP BY and ORDER BY: a bare number there would mean the position of a
// column, so hidePosition adds a cast.
func hidePosition(n node) node {
	if strAt(n, "type") != "VALUE_CONSTANT" {
		return n
	}
	return node{"class": "CAST", "type": "OPERATOR_CAST", "child": n, "cast_type": nodeAt(n, "value")["type"]}
}

// emitElem returns an element of FROM as a node of DuckDB's syntax tree.
func emitElem(e *elem) node {
	if e.kind != "" {
		n := node{"type": "JOIN", "left": emitElem(e.left), "right": emitElem(e.right), "join_type": e.kind,
			"ref_type": "REGULAR"}
		if len(e.on) == 0 {
			n["condition"] = node{"class": "CONSTANT", "type": "VALUE_CONSTANT",
				"value": node{"type": node{"id": "BOOLEAN"}, "is_null": false, "value": true}}
		} else {
			n["condition"] = emitNode(newConjunction("AND", e.on))
		}
		return n
	}
	switch {
	case e.sub != nil:
		return node{"type": "SUBQUERY", "alias": e.alias, "subquery": node{"node": queryToNode(e.sub)}}
	case e.stage != nil:
		return node{"type": "BASE_TABLE", "alias": e.alias, "table_name": e.stage.name}
	}
	return node{"type": "BASE_TABLE", "alias": e.alias, "table_name": e.table}
}

// visitLeaves calls f for each leaf that q reads, at any depth, also in subqueries.
func (q *query) visitLeaves(f func(*leaf)) {
	var visitQuery func(q *query)
	visitExpr := func(n any) {
		visitNodes(n, func(n node) bool {
			if s, ok := n["query"].(*query); ok {
				visitQuery(s)
				if c := nodeAt(n, "child"); c != nil {
					(&query{where: []node{c}}).visitLeaves(f)
				}
				return false
			}
			return true
		})
	}
	visitQuery = func(q *query) {
		for _, e := range q.elems {
			for _, l := range e.leaves() {
				f(l)
			}
		}
		for _, x := range q.allExprs() {
			if s, ok := x.(*query); ok {
				visitQuery(s)
			} else {
				visitExpr(x)
			}
		}
	}
	visitQuery(q)
}

// mayMislead reports whether DuckDB's optimizer `deliminator` may change the answer of q. In 1.5.5 and 1.5.6 the
// optimizer gives up on a subquery with =, <> and > halfway: it leaves a join with some of the new conditions.
// DuckDB 2.0.0 has no such error. The test is wider than the error: any subquery counts with two comparisons of
// outer columns, except for = as a condition of WHERE.
func mayMislead(q *query) bool {
	found := false
	visitNodes(q, func(n node) bool {
		if s, ok := n["query"].(*query); ok {
			found = found || countUnequal(s, s.outerAliases()) > 1
		}
		return !found
	})
	return found
}

// countUnequal returns the number of comparisons in q with columns of outer, without the conditions of WHERE
// with =.
func countUnequal(q *query, outer map[string]bool) int {
	count := 0
	equal := map[string]bool{}
	for _, c := range q.where {
		if strAt(c, "type") == "COMPARE_EQUAL" {
			equal[structureKey(c)] = true
		}
	}
	for _, x := range q.allExprs() {
		visitNodes(x, func(n node) bool {
			if strings.HasPrefix(strAt(n, "type"), "COMPARE_") && anyIn(aliasesIn(n), outer) &&
				!equal[structureKey(n)] {
				count++
			}
			return true
		})
	}
	return count
}

// printSQL returns the SQL that the tasks of s run. If the output is cut into buckets, the last column is the
// number of the bucket, and the rows are ordered by that number.
func (s *stage) printSQL(p *queryPlanner) (string, error) {
	text, err := p.sql.Print(queryToNode(s.rel.q))
	if err != nil {
		return "", fmt.Errorf("print the query of %s: %w", s.name, err)
	}
	if s.buckets > 0 {
		columns := make([]string, len(s.keyColumns))
		for i, k := range s.keyColumns {
			_, c := splitColumn(k)
			columns[i] = c
		}
		text = fmt.Sprintf("SELECT *, %s AS bucket FROM (%s) ORDER BY bucket",
			strings.ReplaceAll(s.bucketSQL, keyHere, strings.Join(columns, ", ")), text)
	}
	return text, nil
}
