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
var tableKeys = map[string][2]string{
	"lineitem": {"orderkey", "l_orderkey"}, "orders": {"orderkey", "o_orderkey"},
	"part": {"partkey", "p_partkey"}, "partsupp": {"partkey", "ps_partkey"},
}

// ScaleName returns the name of a scale factor in paths.
func ScaleName(sf float64) string { return "sf" + strconv.FormatFloat(sf, 'g', -1, 64) }

// scaleDir is the folder of the manifest and the samples.
func (m *Manifest) scaleDir() string { return filepath.Join(m.Root, ScaleName(m.SF)) }

// nodePath is the path of a file in the folder of a node.
func (m *Manifest) nodePath(node, file string) string { return filepath.Join(m.Root, node, file) }

// Read reads the manifest of a scale factor.
func Read(root string, sf float64) (*Manifest, error) {
	m := &Manifest{SF: sf, Root: root}
	b, err := os.ReadFile(filepath.Join(m.scaleDir(), "manifest.json"))
	if err != nil {
		return nil, fmt.Errorf("%w (make the data with: phoebe-tpch gen --sf %g)", err, sf)
	}
	if err := json.Unmarshal(b, m); err != nil {
		return nil, fmt.Errorf("%s: %w", m.scaleDir(), err)
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
	minRows      int            // least number of rows of a task
	filesPerTask map[string]int // number of files for each task, by class
}

// NewCatalog returns a catalog for tasks with at least minRows rows of the largest table of a class. The files
// of a task are always at the same node, even if the task then has fewer rows.
func NewCatalog(m *Manifest, minRows int) Catalog {
	c := Catalog{m, minRows, map[string]int{}}
	for class, files := range Classes {
		largest := 0
		for _, t := range m.Tables {
			if t.Class == class {
				largest = max(largest, t.Rows)
			}
		}
		filesPerNode := max(1, files/len(m.Nodes))
		n := 1
		for n < filesPerNode && (filesPerNode%n != 0 || largest/files*n < minRows) {
			n++
		}
		c.filesPerTask[class] = n
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
func (c Catalog) Tasks(class string) int { return Classes[class] / c.filesPerTask[class] }

// maxExchangeTasks is the largest number of tasks after an exchange.
const maxExchangeTasks = 12

// ExchangeTasks gives each task a quarter of the rows of a task that only scans. Moved rows are grouped or
// joined, and need more work.
func (c Catalog) ExchangeTasks(rows float64) int {
	return int(min(max(1, math.Ceil(4*rows/float64(c.minRows))), maxExchangeTasks))
}

// Bucket is SQL for the number of the task that has this key.
func (c Catalog) Bucket(class, key string) string {
	return fmt.Sprintf("CAST(%s // %d AS INTEGER)", fileNumber(class, key), c.filesPerTask[class])
}

// Parts returns the files of a table for the task with this number.
func (c Catalog) Parts(t *Table, task int) []Part {
	if t.Class == "" {
		return t.Parts
	}
	n := c.filesPerTask[t.Class]
	return t.Parts[task*n : (task+1)*n]
}

// fileNumber is SQL for the number of the file with the rows of this key.
func fileNumber(class, key string) string {
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
		if _, err := db.Exec(fmt.Sprintf("CREATE TABLE %s AS FROM read_parquet(%s)", t.Name,
			QuoteText(filepath.Join(c.scaleDir(), "sample", t.Name+".parquet")))); err != nil {
			return nil, fmt.Errorf("sample of %s: %w", t.Name, err)
		}
	}
	return plan.New(db, c)
}
