// Package data makes the tables of TPC-H as Parquet files and knows where they are.
package data

import (
	"database/sql"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"

	"github.com/phoebe-sched/phoebe/bench/tpch/plan"
)

// Manifest tells of the files of one scale factor, in a folder of its name; those of a node are in a folder of that name.
type Manifest struct {
	SF      float64
	Nodes   []string
	Tables  []*Table
	Queries []string // the 22 queries, as DuckDB's tpch has them
	Answers []string // the published ones, as lines of fields between |; none at scale factors that have none

	Root string `json:"-"` // the folder of all scale factors and nodes
}

// Table is one, and its files.
type Table struct {
	plan.Table
	Parts []Part // each has the rows of one number; of a table without a class there is one, at every node
}

// Part is a file with rows of a table.
type Part struct {
	File   string // in the folder of each of Nodes
	SHA256 string
	Bytes  int64
	Rows   int
	Nodes  []string // that have it
}

// Classes are the ways in which tables are cut, and into how many files.
var Classes = map[string]int{"orderkey": 60, "partkey": 12}

var keys = map[string][2]string{
	"lineitem": {"orderkey", "l_orderkey"}, "orders": {"orderkey", "o_orderkey"},
	"part": {"partkey", "p_partkey"}, "partsupp": {"partkey", "ps_partkey"},
}

// Name is what a scale factor is called in paths.
func Name(sf float64) string { return "sf" + strconv.FormatFloat(sf, 'g', -1, 64) }

func (m *Manifest) dir() string { return filepath.Join(m.Root, Name(m.SF)) }

func (m *Manifest) path(node, file string) string { return filepath.Join(m.Root, node, file) }

// Read reads the manifest of a scale factor.
func Read(root string, sf float64) (*Manifest, error) {
	m := &Manifest{SF: sf, Root: root}
	b, err := os.ReadFile(filepath.Join(m.dir(), "manifest.json"))
	if err != nil {
		return nil, fmt.Errorf("%w (make the data with: phoebe-tpch gen --sf %g)", err, sf)
	}
	if err := json.Unmarshal(b, m); err != nil {
		return nil, fmt.Errorf("%s: %w", m.dir(), err)
	}
	return m, nil
}

// Lookup returns a table, or nil.
func (m *Manifest) Lookup(name string) *Table {
	for _, t := range m.Tables {
		if t.Name == name {
			return t
		}
	}
	return nil
}

// Catalog is the manifest as the planner sees it: a task reads several files of a class, so that it has enough to do.
type Catalog struct {
	*Manifest
	rows  int            // that a task has at least
	files map[string]int // that it reads, by class
}

// NewCatalog returns one in which a task has at least so many rows of the largest table of a class, as long as all of its files
// are at one node.
func NewCatalog(m *Manifest, rows int) Catalog {
	c := Catalog{m, rows, map[string]int{}}
	for class, files := range Classes {
		largest := 0
		for _, t := range m.Tables {
			if t.Class == class {
				largest = max(largest, t.Rows)
			}
		}
		together := max(1, files/len(m.Nodes))
		n := 1
		for n < together && (together%n != 0 || largest/files*n < rows) {
			n++
		}
		c.files[class] = n
	}
	return c
}

func (c Catalog) Table(name string) *plan.Table {
	if t := c.Lookup(name); t != nil {
		return &t.Table
	}
	return nil
}

func (c Catalog) Tasks(class string) int { return Classes[class] / c.files[class] }

// mostExchange is how many tasks share what is moved at most.
const mostExchange = 12

// Exchange gives each task a quarter of the rows that one has which only reads them: those that are moved are grouped or joined.
func (c Catalog) Exchange(rows float64) int {
	return int(min(max(1, math.Ceil(4*rows/float64(c.rows))), mostExchange))
}

func (c Catalog) Bucket(class, key string) string {
	return fmt.Sprintf("CAST(%s // %d AS INTEGER)", number(class, key), c.files[class])
}

// Parts are the files of a table that the task of this number reads.
func (c Catalog) Parts(t *Table, task int) []Part {
	if t.Class == "" {
		return t.Parts
	}
	n := c.files[t.Class]
	return t.Parts[task*n : (task+1)*n]
}

// number is that of the file with the rows of this key, as SQL.
func number(class, key string) string {
	return fmt.Sprintf("hash(CAST(%s AS BIGINT)) %% %d", key, Classes[class])
}

// Planner returns a planner for these tables.
func (c Catalog) Planner() (*plan.Planner, error) {
	db, err := sql.Open("duckdb", "")
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1)
	if _, err := db.Exec("SET threads = 1"); err != nil {
		return nil, err
	}
	for _, t := range c.Tables {
		if _, err := db.Exec(fmt.Sprintf("CREATE TABLE %s AS FROM read_parquet('%s')", t.Name, filepath.Join(c.dir(), "sample", t.Name+".parquet"))); err != nil {
			return nil, fmt.Errorf("sample of %s: %w", t.Name, err)
		}
	}
	return plan.New(db, c)
}
