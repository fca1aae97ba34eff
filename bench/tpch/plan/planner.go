// Package plan makes a plan of stages and tasks from SQL. DuckDB parses the text, and tells what is wrong with it; the planner
// decides what each task runs on its piece of the tables and how what they make is put together, and writes that as SQL again. What
// it has no plan for, it refuses by name.
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

// Plan is what is to be done for a query. Stages come after those that they read; the result is the output of the last.
type Plan struct {
	Stages  []Stage
	Columns []Column // of the result
	Order   []int    // columns by which its rows are in order, as far as these are columns of it
}

// Stage is tasks that run the same SQL. In that, a table of a class is the piece of it that the task has, and an input's name
// is a table, too.
type Stage struct {
	Name    string
	SQL     string
	Tasks   int
	Class   string   // of the tables that are cut; "" if it reads none
	Tables  []string // that it reads
	Inputs  []Input
	Buckets int // into which a task's output is cut, by its last column; 0: it is not
	Columns []Column
	Enough  int // rows of all tasks together, whichever they are: when so many are made, the others need not run; -1: all must
}

// Input is the output of a stage.
type Input struct {
	Stage  int // position in Plan.Stages
	Spread Spread
}

// Column is one of a result.
type Column struct{ Name, Type string }

// Planner plans queries over the tables of a catalog. Safe for concurrent use.
type Planner struct {
	cat Catalog

	mu      sync.Mutex
	db      *sql.DB
	conn    *sql.Conn
	agg     map[string]bool
	samples map[string]float64 // what was asked of them
}

// New returns a planner. In db, which becomes its own, are samples of the tables.
func New(db *sql.DB, cat Catalog) (*Planner, error) {
	conn, err := db.Conn(context.Background())
	if err != nil {
		return nil, err
	}
	p := &Planner{cat: cat, db: db, conn: conn, agg: map[string]bool{}, samples: map[string]float64{}}
	rows, err := conn.QueryContext(context.Background(), "SELECT DISTINCT function_name FROM duckdb_functions() WHERE function_type = 'aggregate'")
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			return nil, err
		}
		p.agg[name] = true
	}
	p.agg["count_star"] = true
	return p, rows.Err()
}

// Close closes the planner and its database.
func (p *Planner) Close() error {
	p.conn.Close()
	return p.db.Close()
}

// Plan plans a query. The error is DuckDB's if it is no good one, and a *RefusedError if there is no plan for it.
func (p *Planner) Plan(ctx context.Context, text string) (*Plan, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	want, err := p.describe(ctx, text)
	if err != nil {
		return nil, err
	}
	n, err := p.Parse(text)
	if err != nil {
		return nil, err
	}
	again := map[string]bool{}
	for {
		plan, err := p.once(ctx, n, want, again)
		if !errors.Is(err, errAgain) {
			return plan, err
		}
	}
}

func (p *Planner) once(ctx context.Context, n node, want []Column, again map[string]bool) (plan *Plan, err error) {
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
	in := &planner{cat: p.cat, sql: p, agg: p.agg, again: again, bases: map[string]*class{}}
	in.bind = &binder{p: in, taken: map[string]int{}}
	q := in.bind.query(n, nil)
	r := in.query(q, true)
	r.q = named(r.q, names(want))
	in.materialise(r, nil)
	plan = &Plan{Order: ordered(q)}
	at := map[*stage]int{}
	for i, s := range in.stages {
		at[s] = i
	}
	for i, s := range in.stages {
		text, err := s.sql(in)
		if err != nil {
			return nil, err
		}
		st := Stage{Name: s.name, SQL: text, Tasks: 1, Buckets: s.n, Enough: -1}
		if s.rel.class != nil {
			st.Tasks = s.rel.class.tasks
			if q := s.rel.q; q.limit != nil && len(q.order) == 0 && !q.distinct && s.n == 0 {
				st.Enough = constant(q.limit)
			}
		}
		seen := map[string]bool{}
		s.rel.q.reads(func(l *leaf) {
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
		if st.Columns, err = p.describe(ctx, text); err != nil {
			return nil, fmt.Errorf("the planner made SQL that is no good: %w\n%s", err, text)
		}
		last := i == len(in.stages)-1
		if last {
			if cast := casts(st.Columns, want); cast != "" {
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

func ordered(q *query) []int {
	var out []int
	for _, o := range q.order {
		at := constant(o.expr) - 1
		if q.setop == "" {
			at = slices.IndexFunc(q.sel, func(it item) bool { return same(it.expr, o.expr) })
		}
		if at < 0 {
			break
		}
		out = append(out, at)
	}
	return out
}

// Definitions are the columns as CREATE TABLE wants them.
func Definitions(l []Column) string {
	var out []string
	for _, c := range l {
		out = append(out, Quote(c.Name)+" "+c.Type)
	}
	return strings.Join(out, ", ")
}

// Quote is a name as SQL wants it.
func Quote(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }

func names(l []Column) []string {
	var out []string
	for _, c := range l {
		out = append(out, c.Name)
	}
	return out
}

// casts is the select list that gives columns the types that they have when DuckDB runs the query in one piece; "" if they have.
func casts(have, want []Column) string {
	var out []string
	differ := false
	for i, c := range have {
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

func (p *Planner) describe(ctx context.Context, text string) ([]Column, error) {
	rows, err := p.conn.QueryContext(ctx, "SELECT column_name, column_type FROM (DESCRIBE "+strings.TrimRight(strings.TrimSpace(text), ";")+")")
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

// Parse returns the tree of a SELECT.
func (p *Planner) Parse(text string) (node, error) {
	var out string
	if err := p.conn.QueryRowContext(context.Background(), "SELECT CAST(json_serialize_sql(CAST(? AS VARCHAR), skip_default := true, skip_null := true) AS VARCHAR)", text).Scan(&out); err != nil {
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
	n := rewriteNode(sub(tree.Statements[0], "node"), func(n node) node {
		delete(n, "query_location")
		return nil
	})
	return n, nil
}

// Print returns the text of a tree.
func (p *Planner) Print(n node) (string, error) {
	b, err := json.Marshal(node{"error": false, "statements": []any{node{"node": n}}})
	if err != nil {
		return "", err
	}
	var out string
	if err := p.conn.QueryRowContext(context.Background(), "SELECT json_deserialize_sql(CAST(? AS JSON))", string(b)).Scan(&out); err != nil {
		return "", fmt.Errorf("%w: %s", err, b)
	}
	return out, nil
}

// Aggregates returns the names of DuckDB's aggregate functions.
func (p *Planner) Aggregates() map[string]bool { return p.agg }

// Matches returns the share of a table's rows of which cond holds.
func (p *Planner) Matches(table, alias, cond string) (float64, error) {
	return p.sampled("count(*) FILTER (WHERE "+cond+") / count(*)", table, alias)
}

// Values returns how many values an expression has.
func (p *Planner) Values(table, alias, expr string) (float64, error) {
	return p.sampled("count(DISTINCT "+expr+")", table, alias)
}

// sampled is what an aggregate gives of a table's sample.
func (p *Planner) sampled(agg, table, alias string) (float64, error) {
	q := fmt.Sprintf("SELECT %s FROM %s AS %s", agg, Quote(table), Quote(alias))
	if s, ok := p.samples[q]; ok {
		return s, nil
	}
	var s float64
	err := p.conn.QueryRowContext(context.Background(), q).Scan(&s)
	if err == nil {
		p.samples[q] = s
	}
	return s, err
}
