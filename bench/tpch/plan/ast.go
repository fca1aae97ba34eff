package plan

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
)

// node is a node of DuckDB's syntax tree, as json_serialize_sql prints the tree. The binder changes two kinds
// of nodes. A column reference holds the alias of its leaf and the name of the column. A subquery holds its
// *query under "query".
type node = map[string]any

// strAt and the four functions below return the value under key, or the zero value if n holds no value of the
// type.
func strAt(n node, key string) string { s, _ := n[key].(string); return s }
func nodeAt(n node, key string) node  { m, _ := n[key].(node); return m }
func boolAt(n node, key string) bool  { b, _ := n[key].(bool); return b }
func listAt(n node, key string) []any { l, _ := n[key].([]any); return l }
func nodesAt(n node, key string) []node {
	var out []node
	for _, c := range listAt(n, key) {
		if m, ok := c.(node); ok {
			out = append(out, m)
		}
	}
	return out
}

// newColumn returns a reference to a column of the leaf with this alias. With alias "", the column is printed
// without an alias.
func newColumn(alias, name string) node {
	return node{"class": "COLUMN_REF", "type": "COLUMN_REF", "column_names": []any{alias, name}}
}

// splitColumn returns the alias and the name of a bound column; "" for any other node.
func splitColumn(n node) (alias, name string) {
	if strAt(n, "class") != "COLUMN_REF" {
		return "", ""
	}
	if names := listAt(n, "column_names"); len(names) == 2 {
		return names[0].(string), names[1].(string)
	}
	return "", ""
}

func newInt(v int) node {
	return node{"class": "CONSTANT", "type": "VALUE_CONSTANT",
		"value": node{"type": node{"id": "BIGINT"}, "is_null": false, "value": json.Number(strconv.Itoa(v))}}
}

func newString(s string) node {
	return node{"class": "CONSTANT", "type": "VALUE_CONSTANT",
		"value": node{"type": node{"id": "VARCHAR"}, "is_null": false, "value": s}}
}

func newCall(name string, args ...node) node {
	return node{"class": "FUNCTION", "type": "FUNCTION", "function_name": name, "children": toAnys(args),
		"order_bys": node{"type": "ORDER_MODIFIER"}}
}

func newOperator(name string, a, b node) node {
	n := newCall(name, a, b)
	n["is_operator"] = true
	return n
}

func newCast(n node, to string) node {
	return node{"class": "CAST", "type": "OPERATOR_CAST", "child": n, "cast_type": node{"id": to}}
}

func newEqual(a, b node) node {
	return node{"class": "COMPARISON", "type": "COMPARE_EQUAL", "left": a, "right": b}
}

// newConjunction joins conditions by op: "AND" or "OR".
func newConjunction(op string, l []node) node {
	if len(l) == 1 {
		return l[0]
	}
	return node{"class": "CONJUNCTION", "type": "CONJUNCTION_" + op, "children": toAnys(l)}
}

func toAnys[T any](l []T) []any {
	out := make([]any, len(l))
	for i, v := range l {
		out[i] = v
	}
	return out
}

// splitConjuncts returns the conditions that must all hold for n to hold.
func splitConjuncts(n node) []node {
	if n == nil {
		return nil
	}
	if strAt(n, "type") == "CONJUNCTION_AND" {
		var out []node
		for _, c := range nodesAt(n, "children") {
			out = append(out, splitConjuncts(c)...)
		}
		return out
	}
	return []node{n}
}

// rewriteAny returns a copy of n with f applied to each node from the top down, also in the queries of
// subqueries. If f returns a node, the node takes the place of the old node, and rewriteAny does not descend
// into it. n stays unchanged.
func rewriteAny(n any, f func(node) node) any {
	switch n := n.(type) {
	case node:
		if r := f(n); r != nil {
			return r
		}
		out := make(node, len(n))
		for k, v := range n {
			out[k] = rewriteAny(v, f)
		}
		return out
	case []any:
		out := make([]any, len(n))
		for i, v := range n {
			out[i] = rewriteAny(v, f)
		}
		return out
	case *query:
		return n.rewriteExprs(f)
	}
	return n
}

func rewriteNode(n node, f func(node) node) node {
	if n == nil {
		return nil
	}
	return rewriteAny(n, f).(node)
}

func rewriteAll(l []node, f func(node) node) []node {
	var out []node
	for _, n := range l {
		out = append(out, rewriteNode(n, f))
	}
	return out
}

// visitNodes calls f for each node of n from the top down, also in the queries of subqueries. If f returns
// false, visitNodes skips the nodes below.
func visitNodes(n any, f func(node) bool) {
	switch n := n.(type) {
	case node:
		if f(n) {
			for _, k := range slices.Sorted(maps.Keys(n)) {
				visitNodes(n[k], f)
			}
		}
	case []any:
		for _, v := range n {
			visitNodes(v, f)
		}
	case *query:
		for _, e := range n.allExprs() {
			visitNodes(e, f)
		}
	}
}

// aliasesIn returns the aliases of the columns in n.
func aliasesIn(n any) map[string]bool {
	out := map[string]bool{}
	visitNodes(n, func(n node) bool {
		if a, _ := splitColumn(n); a != "" {
			out[a] = true
		}
		return true
	})
	return out
}

// allIn reports whether b holds all keys of a.
func allIn(a, b map[string]bool) bool {
	for k := range a {
		if !b[k] {
			return false
		}
	}
	return true
}

// anyIn reports whether b holds some key of a.
func anyIn(a, b map[string]bool) bool {
	for k := range a {
		if b[k] {
			return true
		}
	}
	return false
}

// structureKey returns a text that is equal for nodes of equal structure. The names that nodes have as output
// columns do not count.
func structureKey(n node) string {
	b, _ := json.Marshal(withoutAliases(n))
	return string(b)
}

// withoutAliases returns a copy of n without the names that nodes have as output columns.
func withoutAliases(n any) any {
	switch n := n.(type) {
	case node:
		out := make(node, len(n))
		for k, v := range n {
			if k != "alias" {
				out[k] = withoutAliases(v)
			}
		}
		return out
	case []any:
		out := make([]any, len(n))
		for i, v := range n {
			out[i] = withoutAliases(v)
		}
		return out
	case *query:
		return fmt.Sprintf("%p", n) // two subqueries never count as equal
	}
	return n
}

// hasSubquery reports whether n contains a subquery.
func hasSubquery(n node) bool {
	found := false
	visitNodes(n, func(n node) bool {
		found = found || strAt(n, "class") == "SUBQUERY"
		return !found
	})
	return found
}

// freeAliases returns the aliases of the columns in n, except the aliases that a query in n defines.
func freeAliases(n node) map[string]bool {
	out := aliasesIn(n)
	visitNodes(n, func(n node) bool {
		if q, ok := n["query"].(*query); ok {
			for a := range q.definedAliases() {
				delete(out, a)
			}
		}
		return true
	})
	return out
}
