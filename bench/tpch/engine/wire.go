// Package engine runs plans on a phoebe cluster. Workers run the function of this package for each task. The
// engine is the client: it submits the jobs. A query is a job, and each stage of the plan is a stage of the
// job.
package engine

import (
	"github.com/phoebe-sched/phoebe/bench/tpch/plan"
	"github.com/phoebe-sched/phoebe/idl/typed"
)

// Function is the function of all tasks.
var Function = typed.Func[Fragment, Output]{Name: "tpch"}

// Stage holds the common input of all tasks of a stage (client.Stage.Common).
type Stage struct {
	SQL     string
	Tables  []Table // tables read whole by each task
	Inputs  []Input
	Buckets int  // number of buckets of the output, cut by the last column; 0: the output is not cut
	Last    bool // the output is the result of the query
	// the SQL must run without DuckDB's optimizer `deliminator`; older workers run the SQL with it
	NoDeliminator bool `json:",omitempty"`
}

// Fragment is the payload of a single task: the task's partitions of tables.
type Fragment struct{ Tables []Table }

// Table is a table, or the task's partition of the table.
type Table struct {
	Name  string
	Files []File
}

// File is a Parquet file.
type File struct {
	Name   string // path below the data folder of a worker
	SHA256 string
	Bytes  int64
	At     []string // addresses of the file, HOST:PORT, in the order of the nodes in the manifest
}

// Input is the output of an earlier stage, as a table.
type Input struct {
	Stage   string
	Cut     bool // the task reads the bucket with its own number; else the whole output
	Columns []plan.Column
}

// Piece is a part of the result as Arrow IPC. Data holds a small part, and URL serves a large part.
type Piece struct {
	Rows int
	Data []byte `json:",omitempty"`
	URL  string `json:",omitempty"`
}

// Output is a task's report of its work.
type Output struct {
	Rows    int
	Bytes   int
	Piece   *Piece   `json:",omitempty"` // the task's part of the result
	Fetched int      // number of fetched files
	Bad     []string `json:",omitempty"` // missing files, and files with a wrong digest, with the place
}
