// Package engine runs plans on a phoebe cluster: the function that workers run, and the client that submits jobs of it. A query is
// a job, and a stage of its plan one of the job's.
package engine

import "github.com/phoebe-sched/phoebe/bench/tpch/plan"

// Function is what a worker runs for a task.
const Function = "tpch"

// Stage is what the tasks of a stage have in common.
type Stage struct {
	SQL     string
	Tables  []Table // that all of them read whole
	Inputs  []Input
	Buckets int  // into which their output is cut, by its last column; 0: it is not
	Last    bool // what they make is the result
}

// Fragment is what a task is told of its own: the pieces of tables that it reads.
type Fragment struct{ Tables []Table }

// Table is a table, or the task's piece of it.
type Table struct {
	Name  string
	Files []File
}

// File is a Parquet file.
type File struct {
	Name   string // below the folder of a worker's data
	SHA256 string
	Bytes  int64
	At     []string // where it can be had, HOST:PORT; first those near
}

// Input is what an earlier stage has made, as a table.
type Input struct {
	Stage   string
	Cut     bool // the task has a bucket of it, that of its number; else all
	Columns []plan.Column
}

// Piece is a part of the result as Arrow IPC: in Data, or, if it is large, at URL.
type Piece struct {
	Rows int
	Data []byte `json:",omitempty"`
	URL  string `json:",omitempty"`
}

// Output is what a task tells of what it has made.
type Output struct {
	Rows    int
	Bytes   int
	Piece   *Piece   `json:",omitempty"` // of the result
	Fetched int      // files that were not at the worker
	Bad     []string `json:",omitempty"` // files that were missing or not what their digests say, and where
}
