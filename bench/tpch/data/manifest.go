// Package data makes the tables of TPC-H as Parquet files, and says where the files are.
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

// Manifest describes the files of a scale factor. The manifest is in the folder of the scale factor, and the
// files of a node are in the folder of the node.
type Manifest struct {
	SF      float64
	Nodes   []string
	Tables  []*Table
	Queries []string // the 22 queries, in the form of DuckDB's tpch
	// the published answers: lines of fields between |; empty at scale factors without published answers
	Answers []string

	Root string `json:"-"` // folder of all scale factors and nodes
}

// Table is a table and its files.
type Table struct {
	plan.Table
	Parts []Part // part i has the rows with file number i; a table without a class has one part, at every node
}

// Part is a file with rows of a table.
type Part struct {
	File   string // path in the folder of each of Nodes
	SHA256 string
	Bytes  int64
	Rows   int
	Nodes  []string // nodes with a copy of the file
}

// Classes are the ways to partition tables, with the number of files of each.
var Classes = map[string]int{"orderkey": 60, "partkey": 12}

// tableKeys are the class and the key column of each partitioned table.
var keys = map[string][2]string{
	"lineitem": {"orderkey", "l_orderkey"}, "orders": {"orderkey", "o_orderkey"},
	"part": {"partkey", "p_partkey"}, "partsupp": {"partkey", "ps_partkey"},
}

// ScaleName returns the name of a scale factor in paths.
func Name(sf float64) string { return "sf" + strconv.FormatFloat(sf, 'g', -1, 64) }

// scaleDir is the folder of the manifest and the samples.
func (m *Manifest) dir() string { return filepath.Join(m.Root, Name(m.SF)) }

// nodePath is the path of a file in the folder of a node.
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

// Lookup returns the table of this name, or nil.
func (m *Manifest) Lookup(name string) *Table {
	for _, t := range m.Tables {
		if t.Name == name {
			return t
		}
	}
	return nil
}

// Catalog is the planner's view of the manifest. A task reads several files of a class, to have enough work.
type Catalog struct {
	*Manifest
	rows  int            // least number of rows of a task
	files map[string]int // number of files for each task, by class
}

// NewCatalog returns a catalog for tasks with at least minRows rows of the largest table of a class, as long as
// all files of a task are at one node.
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

// Table returns the table of this name, or nil.
func (c Catalog) Table(name string) *plan.Table {
	if t := c.Lookup(name); t != nil {
		return &t.Table
	}
	return nil
}

// Tasks returns the number of scanning tasks for the tables of a class.
func (c Catalog) Tasks(class string) int { return Classes[class] / c.files[class] }

// maxExchangeTasks is the largest number of tasks after an exchange.
const mostExchange = 12

// ExchangeTasks gives each task a quarter of the rows of a task that only scans. Moved rows are grouped or
// joined, and need more work.
func (c Catalog) Exchange(rows float64) int {
	return int(min(max(1, math.Ceil(4*rows/float64(c.rows))), mostExchange))
}

// Bucket is SQL for the number of the task that has this key.
func (c Catalog) Bucket(class, key string) string {
	return fmt.Sprintf("CAST(%s // %d AS INTEGER)", number(class, key), c.files[class])
}

// Parts returns the files of a table for the task with this number.
func (c Catalog) Parts(t *Table, task int) []Part {
	if t.Class == "" {
		return t.Parts
	}
	n := c.files[t.Class]
	return t.Parts[task*n : (task+1)*n]
}

// fileNumber is SQL for the number of the file with the rows of this key.
func number(class, key string) string {
	return fmt.Sprintf("hash(CAST(%s AS BIGINT)) %% %d", key, Classes[class])
}

// Planner returns a planner for the tables, with the samples in memory. The caller must close the planner.
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
