// Package plan turns SQL into a plan of stages and tasks. DuckDB parses the text and reports errors in the
// text. The planner decides what each task runs on a partition of the tables, and how the outputs of tasks are
// combined. The planner then prints the SQL of each stage. A query without a plan is refused with the name of
// the unsupported feature ([RefusedError]).
package plan

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
)

// Plan says how a query runs. A stage comes after the stages that it reads. The output of the last stage is the
// result.
type Plan struct {
	Stages  []Stage
	Columns []Column // columns of the result
	Order   []int    // positions in Columns by which the result is ordered, up to the first expression without a column
}

// Stage is a set of tasks that run the same SQL. In the SQL, the name of a table with a class stands for the
// task's partition of the table. The name of an input is a table, too: it holds the rows of the earlier stage.
type Stage struct {
	Name  string
	SQL   string
	Tasks int
	// class of the partitioned tables that the tasks scan; "" if the stage scans whole tables only, or no table
	Class   string
	Tables  []string // names of the tables that the tasks scan
	Inputs  []Input
	Buckets int // number of buckets that a task's output is cut into, by the last column; 0: the output is not cut
	Columns []Column
	// once the tasks have made this many rows together, further tasks need not run (LIMIT); -1: all tasks must
	// run
	Enough int
	// the tasks must run without DuckDB's optimizer `deliminator` (see mayMislead)
	NoDeliminator bool
}

// Input is the output of an earlier stage, as a stage reads it.
type Input struct {
	Stage  int // position in Plan.Stages
	Spread Spread
}

// Column is a column of a result. Type is DuckDB's name of the type.
type Column struct{ Name, Type string }

// Planner plans queries over the tables of a catalog. A Planner is safe for concurrent use.
type Planner struct {
	cat Catalog

	mu             sync.Mutex
	db             *sql.DB
	conn           *sql.Conn
	aggregateNames map[string]bool
	sampleAnswers  map[string]float64 // values of aggregates over the samples, by query
}

// New returns a planner for the tables of cat. db holds samples of the tables. The planner owns db from now on,
// and Close closes db.
func New(db *sql.DB, cat Catalog) (*Planner, error) {
	conn, err := db.Conn(context.Background())
	if err != nil {
		return nil, err
	}
	p := &Planner{cat: cat, db: db, conn: conn, aggregateNames: map[string]bool{}, sampleAnswers: map[string]float64{}}
	rows, err := conn.QueryContext(context.Background(), "SELECT DISTINCT function_name FROM duckdb_functions() "+
		"WHERE function_type = 'aggregate'")
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			return nil, err
		}
		p.aggregateNames[name] = true
	}
	p.aggregateNames["count_star"] = true
	return p, rows.Err()
}

// Close closes the planner and its database.
func (p *Planner) Close() error {
	p.conn.Close()
	return p.db.Close()
}

// Plan plans a query. If the query is invalid, the error is DuckDB's. If the planner has no plan for the query,
// the error is a *RefusedError.
func (p *Planner) Plan(ctx context.Context, text string) (*Plan, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	want, err := Describe(ctx, p.conn, text)
	if err != nil {
		return nil, err
	}
	n, err := p.Parse(text)
	if err != nil {
		return nil, err
	}
	sharedCTEs := map[string]bool{}
	for {
		plan, err := p.planOnce(ctx, n, want, sharedCTEs)
		if !errors.Is(err, errAgain) {
			return plan, err
		}
	}
}

// planOnce plans n, a query with the result columns want. If planOnce finds a second use of a WITH query, it
// adds the query to sharedCTEs and returns errAgain. The next call then makes a stage of the WITH query. A
// panic of refuse becomes an error.
func (p *Planner) planOnce(ctx context.Context, n node, want []Column,
	sharedCTEs map[string]bool) (plan *Plan, err error) {
	defer func() {
		switch r := recover().(type) {
		case nil:
		case *RefusedError:
			err = r
		case error:
			if r != errAgain {
				panic(r)
			}
			err = r
		default:
			panic(r)
		}
	}()
	in := &queryPlanner{cat: p.cat, sql: p, aggregateNames: p.aggregateNames, sharedCTEs: sharedCTEs,
		tableClasses: map[string]*class{}}
	in.bind = &binder{p: in, aliasUses: map[string]int{}}
	q := in.bind.bindQuery(n, nil)
	r := in.planQuery(q, true)
	r.q = withColumnNames(r.q, namesOf(want))
	in.addStage(r, nil)
	plan = &Plan{Order: orderedBy(q)}
	at := map[*stage]int{}
	for i, s := range in.stages {
		at[s] = i
	}
	for i, s := range in.stages {
		text, err := s.printSQL(in)
		if err != nil {
			return nil, err
		}
		st := Stage{Name: s.name, SQL: text, Tasks: 1, Buckets: s.buckets, Enough: -1,
			NoDeliminator: mayMislead(s.rel.q)}
		if s.rel.class != nil {
			st.Tasks = s.rel.class.tasks
			if q := s.rel.q; q.limit != nil && len(q.order) == 0 && !q.distinct && s.buckets == 0 {
				st.Enough = constantInt(q.limit)
			}
		}
		seen := map[string]bool{}
		s.rel.q.visitLeaves(func(l *leaf) {
			switch {
			case l.table != "" && !seen[l.table]:
				seen[l.table] = true
				st.Tables = append(st.Tables, l.table)
				if c := in.cat.Table(l.table).Class; c != "" {
					st.Class = c
				}
			case l.stage != nil && !seen[l.stage.name]:
				seen[l.stage.name] = true
				st.Inputs = append(st.Inputs, Input{at[l.stage], l.spread})
			}
		})
		if st.Columns, err = Describe(ctx, p.conn, text); err != nil {
			return nil, fmt.Errorf("DuckDB rejects the SQL that the planner printed: %w\n%s", err, text)
		}
		last := i == len(in.stages)-1
		if last {
			if cast := castList(st.Columns, want); cast != "" {
				st.SQL = fmt.Sprintf("SELECT %s FROM (%s)", cast, text)
			}
			for j := range want {
				st.Columns[j].Type = want[j].Type
			}
			plan.Columns = want
		} else {
			defs := "CREATE OR REPLACE TEMP TABLE " + s.name + " (" + Definitions(st.Columns) + ")"
			if _, err := p.conn.ExecContext(ctx, defs); err != nil {
				return nil, fmt.Errorf("%s: %w", defs, err)
			}
		}
		plan.Stages = append(plan.Stages, st)
	}
	return plan, nil
}

// orderedBy returns the positions of the result columns by which q orders its rows. The list ends before the
// first expression that is no result column.
func orderedBy(q *query) []int {
	var out []int
	for _, o := range q.order {
		at := constantInt(o.expr) - 1
		if q.setop == "" {
			at = slices.IndexFunc(q.sel, func(it item) bool { return sameExpr(it.expr, o.expr) })
		}
		if at < 0 {
			break
		}
		out = append(out, at)
	}
	return out
}

// Definitions returns the columns in the form that CREATE TABLE expects.
func Definitions(l []Column) string {
	var out []string
	for _, c := range l {
		out = append(out, Quote(c.Name)+" "+c.Type)
	}
	return strings.Join(out, ", ")
}

// Quote returns name as a quoted identifier of SQL.
func Quote(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }

func namesOf(l []Column) []string {
	var out []string
	for _, c := range l {
		out = append(out, c.Name)
	}
	return out
}

// castList returns a select list that casts columns to the wanted types, or "" if all types agree already.
// Wanted are the types of the query in DuckDB alone.
func castList(got, want []Column) string {
	var out []string
	differ := false
	for i, c := range got {
		name := Quote(c.Name)
		if c.Type != want[i].Type {
			differ = true
			name = fmt.Sprintf("CAST(%s AS %s) AS %s", name, want[i].Type, name)
		}
		out = append(out, name)
	}
	if !differ {
		return ""
	}
	return strings.Join(out, ", ")
}

// DuckDB is a DuckDB with the tables of queries: a *sql.DB or a *sql.Conn.
type DuckDB interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// Describe returns the columns of a query's result, as DuckDB binds the query.
func Describe(ctx context.Context, db DuckDB, text string) ([]Column, error) {
	rows, err := db.QueryContext(ctx, "SELECT column_name, column_type "+
		"FROM (DESCRIBE "+strings.TrimRight(strings.TrimSpace(text), ";")+")")
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var out []Column
	for rows.Next() {
		var c Column
		if err := rows.Scan(&c.Name, &c.Type); err != nil {
			return nil, err
		}
		out = append(out, c)
	}
	return out, rows.Err()
}

// Parse is the function Parse, with the planner's DuckDB.
func (p *Planner) Parse(text string) (node, error) { return Parse(context.Background(), p.conn, text) }

// Parse returns the syntax tree of a SELECT, without the positions in the text. Several statements at once are
// refused.
func Parse(ctx context.Context, db DuckDB, text string) (map[string]any, error) {
	var out string
	if err := db.QueryRowContext(ctx,
		"SELECT CAST(json_serialize_sql(CAST(? AS VARCHAR), skip_default := true, skip_null := true) AS VARCHAR)",
		text).Scan(&out); err != nil {
		return nil, err
	}
	var tree struct {
		Error      bool
		Message    string `json:"error_message"`
		Statements []node
	}
	d := json.NewDecoder(bytes.NewReader([]byte(out)))
	d.UseNumber()
	if err := d.Decode(&tree); err != nil {
		return nil, err
	}
	if tree.Error {
		return nil, errors.New(tree.Message)
	}
	if len(tree.Statements) != 1 {
		return nil, &RefusedError{fmt.Sprintf("%d statements at once", len(tree.Statements))}
	}
	n := rewriteNode(nodeAt(tree.Statements[0], "node"), func(n node) node {
		delete(n, "query_location")
		return nil
	})
	return n, nil
}

// Print returns the SQL text of a syntax tree.
func (p *Planner) Print(n node) (string, error) {
	b, err := json.Marshal(node{"error": false, "statements": []any{node{"node": n}}})
	if err != nil {
		return "", err
	}
	var out string
	if err := p.conn.QueryRowContext(context.Background(), "SELECT json_deserialize_sql(CAST(? AS JSON))",
		string(b)).Scan(&out); err != nil {
		return "", fmt.Errorf("%w: %s", err, b)
	}
	return out, nil
}

// Aggregates returns the names of DuckDB's aggregate functions.
func (p *Planner) Aggregates() map[string]bool { return p.aggregateNames }

// Selectivity returns the share (0 to 1) of the rows in a table's sample that meet cond.
func (p *Planner) Selectivity(table, alias, cond string) (float64, error) {
	return p.askSample("count(*) FILTER (WHERE "+cond+") / count(*)", table, alias)
}

// DistinctValues returns the number of distinct values of expr in a table's sample.
func (p *Planner) DistinctValues(table, alias, expr string) (float64, error) {
	return p.askSample("count(DISTINCT "+expr+")", table, alias)
}

// askSample returns the value of an aggregate over a table's sample. Values are cached, because queries often
// ask for the same aggregates.
func (p *Planner) askSample(agg, table, alias string) (float64, error) {
	q := fmt.Sprintf("SELECT %s FROM %s AS %s", agg, Quote(table), Quote(alias))
	if s, ok := p.sampleAnswers[q]; ok {
		return s, nil
	}
	var s float64
	err := p.conn.QueryRowContext(context.Background(), q).Scan(&s)
	if err == nil {
		p.sampleAnswers[q] = s
	}
	return s, err
}
