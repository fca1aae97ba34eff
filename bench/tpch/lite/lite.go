// Package lite answers queries with SQLite, over the same rows as DuckDB. An error that the engine shares with
// DuckDB shows up here. DuckDB reads the files and parses the queries. SQLite computes the answers, from a
// translation of the syntax tree into its own SQL. A query without a translation is not comparable, by name.
package lite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	_ "github.com/duckdb/duckdb-go/v2"

	"github.com/phoebe-sched/phoebe/bench/tpch/data"
	"github.com/phoebe-sched/phoebe/bench/tpch/plan"
)

// maxRows is the largest number of rows that an oracle loads: those of scale factor 0.05. SQLite takes minutes
// for many queries over more rows.
const maxRows = 500_000

// Oracle is a SQLite with the tables of a manifest. An Oracle is for one query at a time.
type Oracle struct {
	dir    string
	duck   *sql.DB // parses and describes queries
	lite   *sql.DB
	scales map[string]int // number of digits behind the point of the tables' decimals and integers, by column
}

// IncomparableError says why SQLite cannot answer a query.
type IncomparableError struct{ Why string }

func (e *IncomparableError) Error() string { return "not comparable with SQLite: " + e.Why }

// patience is the longest time for a query.
const patience = 20 * time.Second

// Open loads the tables of m. The caller must close the oracle. If the tables have more than maxRows rows, the
// error is an *IncomparableError.
func Open(ctx context.Context, m *data.Manifest) (*Oracle, error) {
	rows := 0
	for _, t := range m.Tables {
		rows += t.Rows
	}
	if rows > maxRows {
		return nil, &IncomparableError{fmt.Sprintf("%d rows, more than %d", rows, maxRows)}
	}
	dir, err := os.MkdirTemp("", "phoebe-tpch-sqlite")
	if err != nil {
		return nil, err
	}
	o := &Oracle{dir: dir, scales: map[string]int{}}
	if err := o.loadTables(ctx, m); err != nil {
		return nil, errors.Join(err, o.Close())
	}
	return o, nil
}

// loadTables opens the databases, and copies all tables to SQLite.
func (o *Oracle) loadTables(ctx context.Context, m *data.Manifest) (err error) {
	if o.duck, err = sql.Open("duckdb", ""); err != nil {
		return err
	}
	o.duck.SetMaxOpenConns(1)
	if _, err := o.duck.ExecContext(ctx, "SET threads = 1; "+m.Views()); err != nil {
		return err
	}
	if o.lite, err = sql.Open("sqlite", "file:"+filepath.ToSlash(filepath.Join(o.dir, "tables.db"))+
		"?_pragma=journal_mode(off)&_pragma=synchronous(off)&_pragma=case_sensitive_like(on)&_pragma=temp_store(memory)",
	); err != nil {
		return err
	}
	o.lite.SetMaxOpenConns(1)
	for _, t := range m.Tables {
		if err := o.loadTable(ctx, t); err != nil {
			return err
		}
	}
	_, err = o.lite.ExecContext(ctx, "ANALYZE")
	return err
}

// Close closes the databases, and deletes the tables of SQLite.
func (o *Oracle) Close() error {
	var errs []error
	for _, db := range []*sql.DB{o.duck, o.lite} {
		if db != nil {
			errs = append(errs, db.Close())
		}
	}
	return errors.Join(append(errs, os.RemoveAll(o.dir))...)
}

// loadTable copies a table from DuckDB to SQLite. Decimals become doubles, and dates become texts. Each key gets
// an index.
func (o *Oracle) loadTable(ctx context.Context, t *data.Table) error {
	var defs, cols, marks, indexes []string
	for i, c := range t.Columns {
		kind, source := "TEXT", fmt.Sprintf("CAST(%s AS VARCHAR)", c)
		switch {
		case strings.HasPrefix(t.Types[i], "DECIMAL"):
			kind, source = "REAL", fmt.Sprintf("CAST(%s AS DOUBLE)", c)
			scale, err := strconv.Atoi(strings.Trim(t.Types[i][strings.Index(t.Types[i], ",")+1:], " )"))
			if err != nil {
				return fmt.Errorf("%s.%s has the type %s: %w", t.Name, c, t.Types[i], err)
			}
			o.scales[c] = scale
		case isInteger(t.Types[i]):
			kind, source = "INTEGER", c
			o.scales[c] = 0
		}
		if strings.HasSuffix(c, "key") {
			indexes = append(indexes, fmt.Sprintf("CREATE INDEX %s_%s ON %[1]s (%[2]s); ", t.Name, c))
		}
		defs, cols, marks = append(defs, c+" "+kind), append(cols, source), append(marks, "?")
	}
	rows, err := o.duck.QueryContext(ctx, "SELECT "+strings.Join(cols, ", ")+" FROM "+t.Name)
	if err != nil {
		return err
	}
	defer rows.Close()
	tx, err := o.lite.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if _, err := tx.Exec("CREATE TABLE " + t.Name + " (" + strings.Join(defs, ", ") + ")"); err != nil {
		return err
	}
	insert, err := tx.Prepare("INSERT INTO " + t.Name + " VALUES (" + strings.Join(marks, ", ") + ")")
	if err != nil {
		return err
	}
	values, at := makeRow(len(cols))
	for rows.Next() {
		if err := rows.Scan(at...); err != nil {
			return err
		}
		if _, err := insert.Exec(values...); err != nil {
			return err
		}
	}
	if err := errors.Join(rows.Err(), insert.Close()); err != nil {
		return err
	}
	if _, err := tx.Exec(strings.Join(indexes, "")); err != nil {
		return err
	}
	return tx.Commit()
}

// Rows returns the rows of a query as text, in the form of engine.Text, and the columns. Decimals are computed as
// doubles and rounded, so the columns say DOUBLE for them. If SQLite has no answer, the error is an
// *IncomparableError.
func (o *Oracle) Rows(ctx context.Context, query string) ([][]string, []plan.Column, error) {
	cols, err := plan.Describe(ctx, o.duck, query)
	if err != nil {
		return nil, nil, err
	}
	text, err := o.translate(ctx, query)
	if err != nil {
		return nil, nil, err
	}
	bound, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	fail := func(err error) ([][]string, []plan.Column, error) {
		if ctx.Err() != nil {
			return nil, nil, context.Cause(ctx)
		}
		if bound.Err() != nil {
			return nil, nil, &IncomparableError{fmt.Sprintf("SQLite takes more than %v", patience)}
		}
		return nil, nil, &IncomparableError{fmt.Sprintf("SQLite says %q", err)}
	}
	rows, err := o.lite.QueryContext(bound, text)
	if err != nil {
		return fail(err)
	}
	defer rows.Close()
	values, at := makeRow(len(cols))
	var out [][]string
	for rows.Next() {
		if err := rows.Scan(at...); err != nil {
			return fail(err)
		}
		row := make([]string, len(cols))
		for i, v := range values {
			if row[i], err = formatValue(v, cols[i].Type); err != nil {
				return nil, nil, err
			}
		}
		out = append(out, row)
	}
	if err := rows.Err(); err != nil {
		return fail(err)
	}
	for i := range cols {
		if strings.HasPrefix(cols[i].Type, "DECIMAL") {
			cols[i].Type = "DOUBLE"
		}
	}
	return out, cols, nil
}

// makeRow returns room for the n values of a row, and a pointer to each value for Scan.
func makeRow(n int) (values, at []any) {
	values, at = make([]any, n), make([]any, n)
	for i := range values {
		at[i] = &values[i]
	}
	return values, at
}

// formatValue returns a value of SQLite as engine.Text prints a value of the type.
func formatValue(v any, kind string) (string, error) {
	switch v := v.(type) {
	case nil:
		return "NULL", nil
	case string:
		if kind == "VARCHAR" || kind == "DATE" {
			return v, nil
		}
	case int64:
		if kind == "BOOLEAN" {
			return strconv.FormatBool(v != 0), nil
		}
		return strconv.FormatInt(v, 10), nil
	case float64:
		if kind == "DOUBLE" || strings.HasPrefix(kind, "DECIMAL") {
			return strconv.FormatFloat(v, 'g', 17, 64), nil
		}
		if v == math.Trunc(v) && isInteger(kind) {
			return strconv.FormatFloat(v, 'f', 0, 64), nil
		}
	}
	return "", &IncomparableError{fmt.Sprintf("a %T in a column of type %s", v, kind)}
}

// translate returns a query of DuckDB in the SQL of SQLite.
func (o *Oracle) translate(ctx context.Context, query string) (text string, err error) {
	tree, err := plan.Parse(ctx, o.duck, query)
	if err != nil {
		return "", err
	}
	defer func() {
		if r := recover(); r != nil {
			var ok bool
			if err, ok = r.(*IncomparableError); !ok {
				panic(r)
			}
		}
	}()
	t := &translator{scales: o.scales, derived: map[string]int{}}
	return t.printQuery(tree), nil
}
