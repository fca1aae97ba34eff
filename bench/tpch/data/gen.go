package data

import (
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	_ "github.com/duckdb/duckdb-go/v2"

	"github.com/phoebe-sched/phoebe/bench/tpch/dbgen"
	"github.com/phoebe-sched/phoebe/bench/tpch/plan"
)

// replicas is the number of nodes with a copy of each file of a partitioned table.
const replicas = 2

// sampleRows is the number of rows in the sample of a table. Planners estimate selectivity from the samples.
const sampleRows = 2000

// Gen makes the data of a scale factor in root, for the given number of nodes. If the data is complete already,
// Gen leaves the data alone.
func Gen(root string, sf float64, nodes int, log io.Writer) error {
	if m, err := Read(root, sf); err == nil && len(m.Nodes) == nodes {
		return nil
	}
	m := &Manifest{SF: sf, Root: root}
	dir := m.scaleDir()
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Join(dir, "sample"), 0o755); err != nil {
		return err
	}
	fmt.Fprintf(log, "dbgen at scale factor %g\n", sf)
	file := filepath.Join(dir, "dbgen.duckdb")
	defer os.Remove(file)
	if err := dbgen.Make(file, sf, 2); err != nil {
		return err
	}
	db, err := sql.Open("duckdb", file+"?access_mode=read_only")
	if err != nil {
		return err
	}
	defer db.Close()
	for i := range nodes {
		m.Nodes = append(m.Nodes, fmt.Sprintf("node-%d", i))
		if err := os.MkdirAll(m.nodePath(m.Nodes[i], ScaleName(sf)), 0o755); err != nil {
			return err
		}
	}
	if m.Queries, err = queryStrings(db, "SELECT query FROM queries ORDER BY query_nr"); err != nil {
		return err
	}
	if m.Answers, err = queryStrings(db, "SELECT answer FROM answers ORDER BY query_nr"); err != nil {
		return err
	}
	for _, name := range []string{"region", "nation", "supplier", "customer", "part", "partsupp", "orders",
		"lineitem"} {
		fmt.Fprintf(log, "%s\n", name)
		t, err := m.makeTable(db, name)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		m.Tables = append(m.Tables, t)
	}
	b, err := json.MarshalIndent(m, "", " ")
	if err != nil {
		return err
	}
	// written last: with a manifest, the data is complete
	return os.WriteFile(filepath.Join(dir, "manifest.json"), b, 0o644)
}

// queryStrings returns the first column of a query's rows.
func queryStrings(db *sql.DB, query string, args ...any) ([]string, error) {
	rows, err := db.Query(query, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var out []string
	for rows.Next() {
		var s string
		if err := rows.Scan(&s); err != nil {
			return nil, err
		}
		out = append(out, s)
	}
	return out, rows.Err()
}

// makeTable writes the sample and the files of a table, and returns the description of the table.
func (m *Manifest) makeTable(db *sql.DB, name string) (*Table, error) {
	t := &Table{Table: plan.Table{Name: name, Class: tableKeys[name][0], Key: tableKeys[name][1],
		Distinct: map[string]int{}}}
	var err error
	if t.Columns, err = queryStrings(db, "SELECT column_name FROM (DESCRIBE "+name+")"); err != nil {
		return nil, err
	}
	if t.Types, err = queryStrings(db, "SELECT column_type FROM (DESCRIBE "+name+")"); err != nil {
		return nil, err
	}
	for _, c := range t.Columns {
		var n int
		if err := db.QueryRow("SELECT approx_count_distinct(" + c + ") FROM " + name).Scan(&n); err != nil {
			return nil, err
		}
		t.Distinct[c] = n
	}
	if _, err := db.Exec(fmt.Sprintf("COPY (SELECT * FROM %s USING SAMPLE reservoir(%d ROWS) REPEATABLE (1)) "+
		"TO %s (FORMAT parquet)", name, sampleRows,
		QuoteText(filepath.Join(m.scaleDir(), "sample", name+".parquet")))); err != nil {
		return nil, err
	}
	parts := 1
	if t.Class != "" {
		parts = Classes[t.Class]
	}
	// A single pass over the table sorts the rows by file number. Then each file is written by a plain scan.
	source := name
	if t.Class != "" {
		source = "cut"
		if _, err := db.Exec(fmt.Sprintf("CREATE OR REPLACE TEMP TABLE cut AS SELECT %s AS number, * FROM %s "+
			"ORDER BY number", fileNumber(t.Class, t.Key), name)); err != nil {
			return nil, err
		}
	}
	for i := range parts {
		query := "SELECT * FROM " + source
		if t.Class != "" {
			query = fmt.Sprintf("SELECT * EXCLUDE number FROM cut WHERE number = %d", i)
		}
		p := Part{File: filepath.Join(ScaleName(m.SF), fmt.Sprintf("%s-%02d.parquet", name, i))}
		if t.Class == "" {
			p.Nodes = m.Nodes
		} else {
			// Files with successive numbers are at the same nodes, so a task finds all its files together.
			at := i * len(m.Nodes) / parts
			for r := range min(replicas, len(m.Nodes)) {
				p.Nodes = append(p.Nodes, m.Nodes[(at+r)%len(m.Nodes)])
			}
		}
		first := m.nodePath(p.Nodes[0], p.File)
		if _, err := db.Exec(
			fmt.Sprintf("COPY (%s) TO %s (FORMAT parquet, COMPRESSION snappy)", query, QuoteText(first))); err != nil {
			return nil, err
		}
		if err := db.QueryRow("SELECT sum(num_rows) " +
			"FROM parquet_file_metadata(" + QuoteText(first) + ")").Scan(&p.Rows); err != nil {
			return nil, err
		}
		t.Rows += p.Rows
		b, err := os.ReadFile(first)
		if err != nil {
			return nil, err
		}
		sum := sha256.Sum256(b)
		p.SHA256, p.Bytes = hex.EncodeToString(sum[:]), int64(len(b))
		for _, n := range p.Nodes[1:] {
			if err := os.WriteFile(m.nodePath(n, p.File), b, 0o644); err != nil {
				return nil, err
			}
		}
		t.Parts = append(t.Parts, p)
	}
	return t, nil
}

// QuoteText returns text as a literal of SQL. Names of folders may have quotes.
func QuoteText(text string) string { return "'" + strings.ReplaceAll(text, "'", "''") + "'" }

// QuoteTexts returns texts as a list of literals.
func QuoteTexts(texts []string) string {
	quoted := make([]string, len(texts))
	for i := range texts {
		quoted[i] = QuoteText(texts[i])
	}
	return "[" + strings.Join(quoted, ", ") + "]"
}

// Views returns SQL with a view for each table. The view reads each file at the first node of the file.
func (m *Manifest) Views() string {
	var out strings.Builder
	for _, t := range m.Tables {
		var files []string
		for _, p := range t.Parts {
			files = append(files, m.nodePath(p.Nodes[0], p.File))
		}
		fmt.Fprintf(&out, "CREATE OR REPLACE VIEW %s AS FROM read_parquet(%s);\n", t.Name, QuoteTexts(files))
	}
	return out.String()
}
