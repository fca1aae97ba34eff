package lite

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/phoebe-sched/phoebe/bench/tpch/data"
	"github.com/phoebe-sched/phoebe/bench/tpch/plan"
)

// node is a node of DuckDB's syntax tree, as json_serialize_sql prints the tree.
type node = map[string]any

func strAt(n node, key string) string { s, _ := n[key].(string); return s }
func nodeAt(n node, key string) node  { m, _ := n[key].(node); return m }
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

// refuse panics with an IncomparableError, which translate returns.
func refuse(format string, args ...any) { panic(&IncomparableError{fmt.Sprintf(format, args...)}) }

// translator prints a syntax tree as SQL of SQLite. SQLite has no decimals: a decimal is a double, rounded after
// each operation to the digits that DuckDB keeps. So equal decimals are equal doubles.
type translator struct {
	scales  map[string]int // number of digits behind the point, by column of a table
	derived map[string]int // the same for named columns of queries
}

// noDecimal is the scale of other types. Integers have scale 0.
const noDecimal = -1

// printQuery prints a SELECT or a set operation.
func (t *translator) printQuery(n node) string {
	var with []string
	for _, c := range nodesAt(nodeAt(n, "cte_map"), "map") {
		v := nodeAt(c, "value")
		body := nodeAt(nodeAt(v, "query"), "node")
		if strAt(body, "type") == "RECURSIVE_CTE_NODE" {
			refuse("a recursive WITH")
		}
		name := plan.Quote(strAt(c, "key")) + t.printAliases(v, "aliases", body)
		with = append(with, name+" AS ("+t.printQuery(body)+")")
	}
	text := ""
	if len(with) > 0 {
		text = "WITH " + strings.Join(with, ", ") + " "
	}
	distinct, after := "", ""
	for _, m := range nodesAt(n, "modifiers") {
		switch kind := strAt(m, "type"); kind {
		case "DISTINCT_MODIFIER":
			if len(listAt(m, "distinct_on_targets")) > 0 {
				refuse("DISTINCT ON")
			}
			distinct = "DISTINCT "
		case "ORDER_MODIFIER":
			after += " ORDER BY " + t.printOrders(nodesAt(m, "orders"))
		case "LIMIT_MODIFIER":
			after += " LIMIT "
			if l := nodeAt(m, "limit"); l != nil {
				after += t.printExpr(l)
			} else {
				after += "-1"
			}
			if o := nodeAt(m, "offset"); o != nil {
				after += " OFFSET " + t.printExpr(o)
			}
		default:
			refuse("%s", kind)
		}
	}
	switch kind := strAt(n, "type"); kind {
	case "SELECT_NODE":
		return text + t.printSelect(n, distinct) + after
	case "SET_OPERATION_NODE":
		op := strAt(n, "setop_type")
		if all := n["setop_all"] != false; all && op == "UNION" {
			op = "UNION ALL"
		} else if all || op != "UNION" && op != "EXCEPT" && op != "INTERSECT" {
			refuse("%s ALL", op)
		}
		sides := nodesAt(n, "children")
		if len(sides) == 0 {
			sides = []node{nodeAt(n, "left"), nodeAt(n, "right")}
		}
		for i, s := range sides {
			if i > 0 {
				text += " " + op + " "
			}
			text += "SELECT * FROM (" + t.printQuery(s) + ")"
		}
		return text + after
	default:
		refuse("a %s", kind)
	}
	return ""
}

// printSelect prints a SELECT up to HAVING.
func (t *translator) printSelect(n node, distinct string) string {
	for _, clause := range []string{"qualify", "sample"} {
		if nodeAt(n, clause) != nil {
			refuse("%s", strings.ToUpper(clause))
		}
	}
	if strAt(n, "aggregate_handling") == "FORCE_AGGREGATES" {
		refuse("GROUP BY ALL")
	}
	from := t.printFrom(nodeAt(n, "from_table")) // first, because the select list refers to its columns
	var sel []string
	for _, e := range nodesAt(n, "select_list") {
		x := t.printExpr(e)
		if a := strAt(e, "alias"); a != "" {
			t.noteColumn(a, t.findScale(e))
			x += " AS " + plan.Quote(a)
		}
		sel = append(sel, x)
	}
	text := "SELECT " + distinct + strings.Join(sel, ", ")
	if from != "" {
		text += " FROM " + from
	}
	if w := nodeAt(n, "where_clause"); w != nil {
		text += " WHERE " + t.printExpr(w)
	}
	if group := nodesAt(n, "group_expressions"); len(group) > 0 {
		if len(listAt(n, "group_sets")) > 1 {
			refuse("ROLLUP, CUBE or GROUPING SETS")
		}
		text += " GROUP BY " + t.printList(group)
	}
	if h := nodeAt(n, "having"); h != nil {
		text += " HAVING " + t.printExpr(h)
	}
	return text
}

// noteColumn notes the scale of a named column. Two columns of one name must have the same scale.
func (t *translator) noteColumn(name string, scale int) {
	name = strings.ToLower(name)
	if old, ok := t.derived[name]; ok && old != scale && max(old, scale) > 0 {
		refuse("columns %s of several types", name)
	}
	if table := t.scales[name]; table > 0 && table != scale {
		refuse("a column %s of another type", name)
	}
	t.derived[name] = scale
}

// printAliases prints the names that n gives to the columns of a query.
func (t *translator) printAliases(n node, key string, body node) string {
	names, sel := listAt(n, key), nodesAt(body, "select_list")
	if len(names) == 0 {
		return ""
	}
	for i := range min(len(names), len(sel)) {
		t.noteColumn(names[i].(string), t.findScale(sel[i]))
	}
	return " (" + strings.Join(quoteNames(names), ", ") + ")"
}

// quoteNames returns names as quoted identifiers.
func quoteNames(names []any) []string {
	var out []string
	for _, name := range names {
		out = append(out, plan.Quote(name.(string)))
	}
	return out
}

// printFrom prints an element of FROM.
func (t *translator) printFrom(n node) string {
	alias := ""
	if a := strAt(n, "alias"); a != "" {
		alias = " AS " + plan.Quote(a)
	}
	switch kind := strAt(n, "type"); kind {
	case "EMPTY":
		return ""
	case "BASE_TABLE":
		if len(listAt(n, "column_name_alias")) > 0 || nodeAt(n, "sample") != nil {
			refuse("a table with column aliases or TABLESAMPLE")
		}
		return plan.Quote(strAt(n, "table_name")) + alias
	case "SUBQUERY":
		body := nodeAt(nodeAt(n, "subquery"), "node")
		q := t.printQuery(body)
		if names := t.printAliases(n, "column_name_alias", body); names != "" {
			q = "WITH named" + names + " AS (" + q + ") SELECT * FROM named"
		}
		return "(" + q + ")" + alias
	case "JOIN":
		join := strAt(n, "join_type")
		if ref := strAt(n, "ref_type"); ref != "REGULAR" && ref != "CROSS" ||
			!slices.Contains([]string{"INNER", "LEFT", "RIGHT", "FULL"}, join) {
			refuse("a %s %s JOIN", ref, join)
		}
		right := t.printFrom(nodeAt(n, "right"))
		if strAt(nodeAt(n, "right"), "type") == "JOIN" {
			right = "(" + right + ")"
		}
		text := t.printFrom(nodeAt(n, "left")) + " " + join + " JOIN " + right
		if c := nodeAt(n, "condition"); c != nil {
			text += " ON " + t.printExpr(c)
		} else if l := listAt(n, "using_columns"); len(l) > 0 {
			text += " USING (" + strings.Join(quoteNames(l), ", ") + ")"
		}
		return text
	default:
		refuse("%s in FROM", kind)
	}
	return ""
}

// printOrders prints the expressions of ORDER BY. DuckDB puts NULL last by default, and SQLite first.
func (t *translator) printOrders(l []node) string {
	var out []string
	for _, o := range l {
		if strAt(nodeAt(o, "expression"), "class") == "STAR" {
			refuse("ORDER BY ALL")
		}
		x := t.printExpr(nodeAt(o, "expression"))
		if strAt(o, "type") == "DESCENDING" {
			x += " DESC"
		}
		if nulls := strAt(o, "null_order"); nulls == "NULLS FIRST" || nulls == "NULLS_FIRST" {
			x += " NULLS FIRST"
		} else {
			x += " NULLS LAST"
		}
		out = append(out, x)
	}
	return strings.Join(out, ", ")
}

// printList prints expressions.
func (t *translator) printList(l []node) string {
	var out []string
	for _, n := range l {
		out = append(out, t.printExpr(n))
	}
	return strings.Join(out, ", ")
}

var comparisons = map[string]string{"COMPARE_EQUAL": "=", "COMPARE_NOTEQUAL": "<>", "COMPARE_LESSTHAN": "<",
	"COMPARE_GREATERTHAN": ">", "COMPARE_LESSTHANOREQUALTO": "<=", "COMPARE_GREATERTHANOREQUALTO": ">=",
	"COMPARE_DISTINCT_FROM": "IS NOT", "COMPARE_NOT_DISTINCT_FROM": "IS"}

// printExpr prints an expression.
func (t *translator) printExpr(n node) string {
	kind := strAt(n, "type")
	switch class := strAt(n, "class"); class {
	case "CONSTANT":
		return t.printConstant(nodeAt(n, "value"))
	case "COLUMN_REF":
		return strings.Join(quoteNames(listAt(n, "column_names")), ".")
	case "STAR":
		if nodeAt(n, "expr") != nil || n["columns"] == true || len(listAt(n, "exclude_list")) > 0 ||
			len(listAt(n, "replace_list")) > 0 {
			refuse("* with changes")
		}
		if r := strAt(n, "relation_name"); r != "" {
			return plan.Quote(r) + ".*"
		}
		return "*"
	case "COMPARISON":
		if comparisons[kind] == "" {
			refuse("%s", kind)
		}
		left, right := t.printExpr(nodeAt(n, "left")), t.printExpr(nodeAt(n, "right"))
		return "(" + left + " " + comparisons[kind] + " " + right + ")"
	case "CONJUNCTION":
		var l []string
		for _, c := range nodesAt(n, "children") {
			l = append(l, t.printExpr(c))
		}
		return "(" + strings.Join(l, " "+strings.TrimPrefix(kind, "CONJUNCTION_")+" ") + ")"
	case "BETWEEN":
		return "(" + t.printExpr(nodeAt(n, "input")) + " BETWEEN " + t.printExpr(nodeAt(n, "lower")) + " AND " +
			t.printExpr(nodeAt(n, "upper")) + ")"
	case "CASE":
		text := "CASE"
		for _, c := range nodesAt(n, "case_checks") {
			text += " WHEN " + t.printExpr(nodeAt(c, "when_expr")) + " THEN " + t.printExpr(nodeAt(c, "then_expr"))
		}
		if e := nodeAt(n, "else_expr"); e != nil {
			text += " ELSE " + t.printExpr(e)
		}
		return text + " END"
	case "CAST":
		return t.printCast(n)
	case "OPERATOR":
		return t.printOperator(n)
	case "SUBQUERY":
		return t.printSubquery(n)
	case "FUNCTION":
		return t.printFunction(n)
	case "WINDOW":
		return t.printWindow(n)
	default:
		refuse("%s", class)
	}
	return ""
}

// printConstant prints a constant.
func (t *translator) printConstant(v node) string {
	if v["is_null"] == true {
		return "NULL"
	}
	kind := nodeAt(v, "type")
	switch id := strAt(kind, "id"); id {
	case "VARCHAR":
		return data.QuoteText(strAt(v, "value"))
	case "BOOLEAN":
		if v["value"] == true {
			return "1"
		}
		return "0"
	case "DECIMAL":
		number, ok := v["value"].(json.Number)
		if !ok {
			refuse("a constant of type %s", id)
		}
		sign, digits := "", number.String()
		if strings.HasPrefix(digits, "-") {
			sign, digits = "-", digits[1:]
		}
		scale := scaleOf(kind)
		if scale == 0 {
			return sign + digits
		}
		for len(digits) <= scale {
			digits = "0" + digits
		}
		return sign + digits[:len(digits)-scale] + "." + digits[len(digits)-scale:]
	default:
		number, ok := v["value"].(json.Number)
		if !ok {
			refuse("a constant of type %s", id)
		}
		return number.String()
	}
}

// scaleOf returns the scale of a type; noDecimal for types that are no numbers, and for doubles.
func scaleOf(kind node) int {
	switch id := strAt(kind, "id"); {
	case id == "DECIMAL":
		s, _ := nodeAt(kind, "type_info")["scale"].(json.Number)
		n, _ := strconv.Atoi(s.String())
		return n
	case isInteger(id):
		return 0
	}
	return noDecimal
}

// isInteger reports whether a type of DuckDB is an integer.
func isInteger(kind string) bool { return strings.HasSuffix(kind, "INT") || kind == "INTEGER" }

// findScale returns the scale of an expression.
func (t *translator) findScale(n node) int {
	widest := func(l []node) int {
		most := 0
		for _, c := range l {
			s := t.findScale(c)
			if s == noDecimal && nodeAt(c, "value")["is_null"] != true {
				return noDecimal
			}
			most = max(most, s)
		}
		return most
	}
	switch strAt(n, "class") {
	case "CONSTANT":
		return scaleOf(nodeAt(nodeAt(n, "value"), "type"))
	case "CAST":
		return scaleOf(nodeAt(n, "cast_type"))
	case "COLUMN_REF":
		names := listAt(n, "column_names")
		name := strings.ToLower(names[len(names)-1].(string))
		if s, ok := t.derived[name]; ok {
			return s
		}
		if s, ok := t.scales[name]; ok {
			return s
		}
	case "CASE":
		var l []node
		for _, c := range nodesAt(n, "case_checks") {
			l = append(l, nodeAt(c, "then_expr"))
		}
		if e := nodeAt(n, "else_expr"); e != nil {
			l = append(l, e)
		}
		return widest(l)
	case "OPERATOR":
		if strAt(n, "type") == "OPERATOR_COALESCE" {
			return widest(nodesAt(n, "children"))
		}
	case "SUBQUERY":
		if strAt(n, "subquery_type") == "SCALAR" {
			if sel := nodesAt(nodeAt(nodeAt(n, "subquery"), "node"), "select_list"); len(sel) == 1 {
				return t.findScale(sel[0])
			}
		}
	case "FUNCTION", "WINDOW":
		args := nodesAt(n, "children")
		switch f := strings.ToLower(strAt(n, "function_name")); f {
		case "+", "-":
			return widest(args)
		case "*":
			sum := 0
			for _, a := range args {
				if t.findScale(a) == noDecimal {
					return noDecimal
				}
				sum += t.findScale(a)
			}
			return sum
		case "sum", "min", "max", "any_value", "abs", "nullif", "lag", "lead", "first_value", "last_value":
			return t.findScale(args[0])
		case "count", "count_star", "date_part", "year", "month", "day", "length", "rank", "dense_rank", "row_number",
			"ntile", "approx_count_distinct":
			return 0
		}
	}
	return noDecimal
}

// printRounded prints the value x of n, rounded if n is a decimal.
func (t *translator) printRounded(n node, x string) string {
	if s := t.findScale(n); s > 0 {
		return fmt.Sprintf("round(%s, %d)", x, s)
	}
	return x
}

// printCast prints a CAST.
func (t *translator) printCast(n node) string {
	child, to := nodeAt(n, "child"), nodeAt(n, "cast_type")
	if n["try_cast"] == true {
		refuse("TRY_CAST")
	}
	v := nodeAt(child, "value")
	switch id := strAt(to, "id"); {
	case id == "DATE" && v != nil:
		d, err := time.Parse(time.DateOnly, strAt(v, "value"))
		if err != nil {
			refuse("the date %s", strAt(v, "value"))
		}
		return d.Format("'2006-01-02'")
	case id == "BOOLEAN" && v != nil:
		if strAt(v, "value") == "t" {
			return "1"
		}
		return "0"
	case id == "DOUBLE" && t.findScale(child) != noDecimal:
		return "CAST(" + t.printExpr(child) + " AS REAL)"
	case scaleOf(to) == 0 && t.findScale(child) >= 0:
		return "CAST(round(" + t.printExpr(child) + ") AS INTEGER)"
	case scaleOf(to) > 0 && t.findScale(child) >= 0:
		return fmt.Sprintf("round(%s, %d)", t.printExpr(child), scaleOf(to))
	default:
		refuse("a cast to %s", id)
	}
	return ""
}

// printOperator prints an operator.
func (t *translator) printOperator(n node) string {
	l := nodesAt(n, "children")
	switch kind := strAt(n, "type"); kind {
	case "OPERATOR_NOT":
		return "(NOT " + t.printExpr(l[0]) + ")"
	case "OPERATOR_IS_NULL":
		return "(" + t.printExpr(l[0]) + " IS NULL)"
	case "OPERATOR_IS_NOT_NULL":
		return "(" + t.printExpr(l[0]) + " IS NOT NULL)"
	case "OPERATOR_COALESCE":
		return "coalesce(" + t.printList(l) + ")"
	case "COMPARE_IN":
		return "(" + t.printExpr(l[0]) + " IN (" + t.printList(l[1:]) + "))"
	case "COMPARE_NOT_IN":
		return "(" + t.printExpr(l[0]) + " NOT IN (" + t.printList(l[1:]) + "))"
	default:
		refuse("%s", kind)
	}
	return ""
}

// printSubquery prints a subquery in an expression.
func (t *translator) printSubquery(n node) string {
	q := "(" + t.printQuery(nodeAt(nodeAt(n, "subquery"), "node")) + ")"
	switch kind := strAt(n, "subquery_type"); {
	case kind == "EXISTS":
		return "EXISTS " + q
	case kind == "NOT_EXISTS":
		return "NOT EXISTS " + q
	case kind == "SCALAR":
		return q
	case kind == "ANY" && strAt(n, "comparison_type") == "COMPARE_EQUAL":
		return "(" + t.printExpr(nodeAt(n, "child")) + " IN " + q + ")"
	default:
		refuse("a subquery of kind %s", kind)
	}
	return ""
}

// renamed are functions with another name in SQLite.
var renamed = map[string]string{"substring": "substr", "mean": "avg", "stddev": "stddev_samp",
	"variance": "var_samp", "bool_and": "min", "bool_or": "max", "any_value": "min", "string_agg": "group_concat"}

// known are functions with the same meaning in SQLite.
var known = []string{"substr", "upper", "lower", "length", "abs", "nullif", "count", "sum", "avg", "min", "max",
	"rank", "dense_rank", "row_number", "ntile", "percent_rank", "cume_dist", "lag", "lead", "first_value",
	"last_value", "group_concat", "round"}

// functionName returns the name of a function in SQLite.
func functionName(n node) string {
	f := strings.ToLower(strAt(n, "function_name"))
	if r := renamed[f]; r != "" {
		f = r
	}
	if _, ok := statistics[f]; !ok && !slices.Contains(known, f) {
		refuse("the function %s", f)
	}
	return f
}

// printFunction prints a call of a function. An interval is a constant, added to a date.
func (t *translator) printFunction(n node) string {
	l := nodesAt(n, "children")
	f := strings.ToLower(strAt(n, "function_name"))
	binary := func(op string) string { return "(" + t.printExpr(l[0]) + " " + op + " " + t.printExpr(l[1]) + ")" }
	switch {
	case (f == "+" || f == "-") && len(l) == 2 && strings.HasPrefix(strAt(l[1], "function_name"), "to_"):
		return t.shiftDate(l[0], l[1], f)
	case (f == "+" || f == "-") && len(l) == 1:
		return "(" + f + t.printExpr(l[0]) + ")"
	case f == "+" || f == "-" || f == "*":
		if f == "-" && t.findScale(n) == noDecimal && (isDate(l[0]) || isDate(l[1])) {
			refuse("arithmetic with dates")
		}
		return t.printRounded(n, binary(f))
	case f == "/":
		return "(CAST(" + t.printExpr(l[0]) + " AS REAL) / " + t.printExpr(l[1]) + ")"
	case f == "//" || f == "%":
		if t.findScale(l[0]) != 0 || t.findScale(l[1]) != 0 {
			refuse("%s of no integers", f)
		}
		return binary(f[:1]) // SQLite divides integers by /
	case f == "~~":
		return binary("LIKE")
	case f == "!~~":
		return binary("NOT LIKE")
	case f == "||":
		if t.findScale(l[0]) > 0 || t.findScale(l[1]) > 0 {
			refuse("the text of a decimal")
		}
		return binary("||")
	case f == "row":
		return "(" + t.printList(l) + ")"
	case f == "date_part" && len(l) == 2:
		return datePart(strings.ToLower(strAt(nodeAt(l[0], "value"), "value")), t.printExpr(l[1]))
	case f == "year" || f == "month" || f == "day":
		return datePart(f, t.printExpr(l[0]))
	case f == "count_star":
		return "count(*)" + t.printFilter(n, "filter")
	case f == "round" && t.findScale(l[0]) > 0:
		refuse("round of a decimal")
	case f == "approx_count_distinct":
		return "count(DISTINCT " + t.printList(l) + ")" + t.printFilter(n, "filter")
	}
	args := t.printList(l)
	if n["distinct"] == true {
		args = "DISTINCT " + args
	}
	if o := nodesAt(nodeAt(n, "order_bys"), "orders"); len(o) > 0 {
		args += " ORDER BY " + t.printOrders(o)
	} else if f == "string_agg" {
		refuse("string_agg without ORDER BY")
	}
	return t.printRounded(n, functionName(n)+"("+args+")"+t.printFilter(n, "filter"))
}

// printFilter prints the FILTER of an aggregate.
func (t *translator) printFilter(n node, key string) string {
	if c := nodeAt(n, key); c != nil {
		return " FILTER (WHERE " + t.printExpr(c) + ")"
	}
	return ""
}

// isDate reports whether n is a column of a table, or a constant, of type DATE.
func isDate(n node) bool {
	names := listAt(n, "column_names")
	return strAt(nodeAt(n, "cast_type"), "id") == "DATE" ||
		len(names) > 0 && strings.HasSuffix(strings.ToLower(names[len(names)-1].(string)), "date")
}

// datePart prints a part of a date as a number.
func datePart(part, x string) string {
	format := map[string]string{"year": "%Y", "month": "%m", "day": "%d"}[part]
	if format == "" {
		refuse("the part %s of a date", part)
	}
	return "CAST(strftime('" + format + "', " + x + ") AS INTEGER)"
}

// shiftDate prints a date plus or minus a constant interval. Months of other lengths have their own rules in
// each database, so only days move a date after the 28th, or a date that is no constant.
func (t *translator) shiftDate(date, interval node, op string) string {
	count := interval
	for strAt(count, "class") != "CONSTANT" {
		next := nodeAt(count, "child")
		if l := nodesAt(count, "children"); len(l) == 1 {
			next = l[0]
		}
		if next == nil {
			refuse("an interval that is no constant")
		}
		count = next
	}
	number, err := strconv.Atoi(fmt.Sprint(nodeAt(count, "value")["value"]))
	unit := strings.TrimPrefix(strAt(interval, "function_name"), "to_")
	if err != nil || unit != "days" && unit != "months" && unit != "years" {
		refuse("the interval of %v %s", nodeAt(count, "value")["value"], unit)
	}
	text := t.printExpr(date)
	day, err := time.Parse("'2006-01-02'", text)
	if unit != "days" && (err != nil || day.Day() > 28) {
		refuse("%s added to any date", unit)
	}
	return fmt.Sprintf("date(%s, '%s%d %s')", text, op, number, unit)
}

// bounds are the ends of window frames, with $ for an expression.
var bounds = map[string]string{"UNBOUNDED_PRECEDING": "UNBOUNDED PRECEDING", "CURRENT_ROW_RANGE": "CURRENT ROW",
	"CURRENT_ROW_ROWS": "CURRENT ROW", "UNBOUNDED_FOLLOWING": "UNBOUNDED FOLLOWING",
	"EXPR_PRECEDING_ROWS": "$ PRECEDING", "EXPR_FOLLOWING_ROWS": "$ FOLLOWING"}

// printWindow prints a window function.
func (t *translator) printWindow(n node) string {
	if n["ignore_nulls"] == true || n["distinct"] == true || len(listAt(n, "arg_orders")) > 0 ||
		strAt(n, "exclude_clause") != "" && strAt(n, "exclude_clause") != "NO_OTHER" {
		refuse("a window with IGNORE NULLS, DISTINCT, EXCLUDE or an order of arguments")
	}
	args := nodesAt(n, "children")
	for _, key := range []string{"offset_expr", "default_expr"} {
		if x := nodeAt(n, key); x != nil {
			args = append(args, x)
		}
	}
	call := "count(*)"
	if strings.ToLower(strAt(n, "function_name")) != "count_star" {
		call = functionName(n) + "(" + t.printList(args) + ")"
	}
	call += t.printFilter(n, "filter_expr")
	var parts []string
	if p := nodesAt(n, "partitions"); len(p) > 0 {
		parts = append(parts, "PARTITION BY "+t.printList(p))
	}
	if o := nodesAt(n, "orders"); len(o) > 0 {
		parts = append(parts, "ORDER BY "+t.printOrders(o))
	}
	start, end := strAt(n, "start"), strAt(n, "end")
	if start != "UNBOUNDED_PRECEDING" || end != "CURRENT_ROW_RANGE" {
		mode := "RANGE"
		if strings.HasSuffix(start, "_ROWS") || strings.HasSuffix(end, "_ROWS") {
			mode = "ROWS"
		}
		parts = append(parts, mode+" BETWEEN "+t.printBound(start, nodeAt(n, "start_expr"))+" AND "+
			t.printBound(end, nodeAt(n, "end_expr")))
	}
	return t.printRounded(n, call+" OVER ("+strings.Join(parts, " ")+")")
}

// printBound prints an end of a window frame. x is the end's expression, or nil.
func (t *translator) printBound(bound string, x node) string {
	text := bounds[bound]
	if text == "" {
		refuse("the frame %s", bound)
	}
	if x != nil {
		text = strings.Replace(text, "$", t.printExpr(x), 1)
	}
	return text
}
