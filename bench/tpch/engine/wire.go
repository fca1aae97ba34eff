// Package engine runs plans on a phoebe cluster: the function that workers run, and the client that submits jobs of it.
package engine

import (
	"encoding/binary"
	"encoding/json"
	"errors"

	"github.com/phoebe-sched/phoebe/bench/tpch/plan"
)

// Function is what a worker runs for a task.
const Function = "tpch"

// Fragment is what a task is told.
type Fragment struct {
	SQL     string
	Number  int   // of the task in its stage
	Buckets int   // into which its output is cut, by the last column; 0: it is not
	Memory  int64 // MiB that it may take
	Inline  int   // an output of so many bytes at most is in the result, a larger one is kept at the worker
	Tables  []Table
	Inputs  []Input
}

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

// Input is what another stage has made, as a table.
type Input struct {
	Name    string
	ID      string // the same for the same content
	Columns []plan.Column
	Pieces  []Piece
}

// Piece is Arrow IPC: Size bytes in the message, or at URL.
type Piece struct {
	Size int
	Rows int
	URL  string `json:",omitempty"`

	data []byte
	file string
}

// Output is what a task's result tells.
type Output struct {
	Pieces []Piece  // one for each bucket
	Local  int      // files that were at the worker
	Remote int      // files that were fetched
	Bad    []string `json:",omitempty"` // files that were missing or not what their digests say, and where
}

// encode writes a message: a header, and what is inline in its pieces.
func encode(header any, pieces []Piece) ([]byte, error) {
	h, err := json.Marshal(header)
	if err != nil {
		return nil, err
	}
	n := 4 + len(h)
	for _, p := range pieces {
		n += len(p.data)
	}
	out := binary.BigEndian.AppendUint32(make([]byte, 0, n), uint32(len(h)))
	out = append(out, h...)
	for _, p := range pieces {
		out = append(out, p.data...)
	}
	return out, nil
}

var errShort = errors.New("a message is cut short")

// decode reads a header, and returns what comes after it.
func decode(b []byte, header any) ([]byte, error) {
	if len(b) < 4 || uint32(len(b)-4) < binary.BigEndian.Uint32(b) {
		return nil, errShort
	}
	n := 4 + int(binary.BigEndian.Uint32(b))
	return b[n:], json.Unmarshal(b[4:n], header)
}

// fill gives pieces that are inline their part of b, and returns what comes after.
func fill(pieces []Piece, b []byte) ([]byte, error) {
	for i := range pieces {
		if p := &pieces[i]; p.URL == "" {
			if p.Size > len(b) {
				return nil, errShort
			}
			p.data, b = b[:p.Size:p.Size], b[p.Size:]
		}
	}
	return b, nil
}

func (f *Fragment) encode() ([]byte, error) {
	var all []Piece
	for _, in := range f.Inputs {
		all = append(all, in.Pieces...)
	}
	return encode(f, all)
}

func (f *Fragment) decode(b []byte) error {
	rest, err := decode(b, f)
	for i := range f.Inputs {
		if err == nil {
			rest, err = fill(f.Inputs[i].Pieces, rest)
		}
	}
	return err
}

func (o *Output) decode(b []byte) error {
	rest, err := decode(b, o)
	if err == nil {
		_, err = fill(o.Pieces, rest)
	}
	return err
}
