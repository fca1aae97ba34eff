package plan

import (
	"fmt"
	"strings"
)

// emitNode returns n in DuckDB's own form: without the changes of the binder.
func emitNode(n node) node {
	return rewriteNode(n, func(n node) node {
		if q, ok := n["query"].(*query); ok {
			out := with(n, "subquery", node{"node": emit(q)})
			delete(out, "query")
			if c := sub(n, "child"); c != nil {
				out["child"] = emitNode(c)
			}
			return out
		}
		if names := list(n, "column_names"); len(names) == 2 && names[0] == "" {
			return with(n, "column_names", names[1:])
		}
		return nil
	})
}

// emitQuery returns q as a node of DuckDB's syntax tree.
func emit(q *query) node {
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
			by := o.expr
			if q.setop == "" {
				by = noPosition(by)
			}
			l = append(l, node{"type": dir, "null_order": nulls, "expression": emitNode(by)})
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
		return node{"type": "SET_OPERATION_NODE", "cte_map": node{"map": []any{}}, "setop_type": q.setop, "setop_all": q.setopAll, "left": emit(q.left), "right": emit(q.right), "modifiers": modifiers}
	}
	n := node{"type": "SELECT_NODE", "cte_map": node{"map": []any{}}, "modifiers": modifiers, "aggregate_handling": "STANDARD_HANDLING"}
	var sel []any
	for _, it := range q.sel {
		e := with(emitNode(it.expr), "alias", it.name)
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
		n["where_clause"] = emitNode(conjunction("AND", q.where))
	}
	if len(q.group) > 0 {
		var l []any
		for _, g := range q.group {
			l = append(l, with(emitNode(noPosition(g)), "alias", ""))
		}
		n["group_expressions"], n["group_sets"] = l, q.groupSets
		if len(q.groupSets) == 0 {
			n["group_sets"] = []any{positions(len(l))}
		}
	}
	if len(q.having) > 0 {
		n["having"] = emitNode(conjunction("AND", q.having))
	}
	return n
}

// hidePosition returns n in a form for GROUP BY and ORDER BY: a bare number there would mean the position of a
// column, so hidePosition adds a cast.
func noPosition(n node) node {
	if str(n, "type") != "VALUE_CONSTANT" {
		return n
	}
	return node{"class": "CAST", "type": "OPERATOR_CAST", "child": n, "cast_type": sub(n, "value")["type"]}
}

// emitElem returns an element of FROM as a node of DuckDB's syntax tree.
func emitElem(e *elem) node {
	if e.kind != "" {
		n := node{"type": "JOIN", "left": emitElem(e.left), "right": emitElem(e.right), "join_type": e.kind, "ref_type": "REGULAR"}
		if len(e.on) == 0 {
			n["condition"] = node{"class": "CONSTANT", "type": "VALUE_CONSTANT", "value": node{"type": node{"id": "BOOLEAN"}, "is_null": false, "value": true}}
		} else {
			n["condition"] = emitNode(conjunction("AND", e.on))
		}
		return n
	}
	switch {
	case e.sub != nil:
		return node{"type": "SUBQUERY", "alias": e.alias, "subquery": node{"node": emit(e.sub)}}
	case e.stage != nil:
		return node{"type": "BASE_TABLE", "alias": e.alias, "table_name": e.stage.name}
	}
	return node{"type": "BASE_TABLE", "alias": e.alias, "table_name": e.table}
}

// visitLeaves calls f for each leaf that q reads, at any depth, also in subqueries.
func (q *query) reads(f func(*leaf)) {
	var ofQuery func(q *query)
	ofNode := func(n any) {
		visit(n, func(n node) bool {
			if s, ok := n["query"].(*query); ok {
				ofQuery(s)
				if c := sub(n, "child"); c != nil {
					(&query{where: []node{c}}).reads(f)
				}
				return false
			}
			return true
		})
	}
	ofQuery = func(q *query) {
		for _, e := range q.elems {
			for _, l := range e.leaves() {
				f(l)
			}
		}
		for _, x := range q.expressions() {
			if s, ok := x.(*query); ok {
				ofQuery(s)
			} else {
				ofNode(x)
			}
		}
	}
	ofQuery(q)
}

// printSQL returns the SQL that the tasks of s run. If the output is cut into buckets, the last column is the
// number of the bucket, and the rows are ordered by that number.
func (s *stage) sql(p *planner) (string, error) {
	text, err := p.sql.Print(emit(s.rel.q))
	if err != nil {
		return "", fmt.Errorf("print the query of %s: %w", s.name, err)
	}
	if s.n > 0 {
		by := make([]string, len(s.by))
		for i, k := range s.by {
			_, c := columnOf(k)
			by[i] = c
		}
		text = fmt.Sprintf("SELECT *, %s AS bucket FROM (%s) ORDER BY bucket", strings.ReplaceAll(s.bucket, keyHere, strings.Join(by, ", ")), text)
	}
	return text, nil
}
