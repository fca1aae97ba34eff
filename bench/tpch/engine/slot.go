package engine

import (
	"bytes"
	"context"
	"database/sql/driver"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"
	_ "unsafe" // for linkname

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/duckdb/duckdb-go/v2"

	"github.com/phoebe-sched/phoebe/bench/tpch/plan"
)

// duckdb-go interrupts a query whose context has ended again and again, as DuckDB may miss it, and waits for so long between, also
// when the query has ended meanwhile. Half a second is far too long for a slot to stand idle.
//
//go:linkname interruptInterval github.com/duckdb/duckdb-go/v2.interruptInterval
var interruptInterval time.Duration

func init() { interruptInterval = 5 * time.Millisecond }

// slot is a DuckDB of its own, for one task at a time: its threads and its memory are the task's.
type slot struct {
	connector *duckdb.Connector
	conn      driver.Conn
	arrow     *duckdb.Arrow
	inputs    []string // those that are tables, by ID, the one used last at the end
	views     map[string]string
	memory    int64 // MiB
}

// inputsKept is how many inputs stay tables for later tasks of their stage.
const inputsKept = 8

func newSlot(threads int, memory int64, temp string) (*slot, error) {
	connector, err := duckdb.NewConnector("", nil)
	if err != nil {
		return nil, err
	}
	s := &slot{connector: connector, views: map[string]string{}, memory: memory}
	if s.conn, err = connector.Connect(context.Background()); err != nil {
		connector.Close()
		return nil, err
	}
	if s.arrow, err = duckdb.NewArrowFromConn(s.conn); err == nil {
		err = s.exec(context.Background(), fmt.Sprintf("SET threads = %d; SET memory_limit = '%dMiB'; SET temp_directory = '%s'; SET parquet_metadata_cache = true; SET autoinstall_known_extensions = false",
			threads, memory, temp))
	}
	if err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

func (s *slot) close() {
	s.conn.Close()
	s.connector.Close()
}

func (s *slot) exec(ctx context.Context, q string) error {
	_, err := s.conn.(driver.ExecerContext).ExecContext(ctx, q, nil)
	return err
}

// limit has queries take no more than this many MiB from now on.
func (s *slot) limit(ctx context.Context, memory int64) error {
	if s.memory == memory {
		return nil
	}
	err := s.exec(ctx, fmt.Sprintf("SET memory_limit = '%dMiB'", memory))
	if err == nil {
		s.memory = memory
	}
	return err
}

// view gives a table or a query a name; the name is gone with the next that takes it.
func (s *slot) view(ctx context.Context, name, of string) error {
	if s.views[name] == of {
		return nil
	}
	delete(s.views, name)
	if err := s.exec(ctx, "CREATE OR REPLACE TEMP VIEW "+plan.Quote(name)+" AS FROM "+of); err != nil {
		return err
	}
	s.views[name] = of
	return nil
}

// input makes an input a table.
func (s *slot) input(ctx context.Context, in *Input, open func(*Piece) (io.ReadCloser, error)) error {
	table := plan.Quote("input " + in.ID)
	if i := slices.Index(s.inputs, in.ID); i >= 0 {
		s.inputs = append(slices.Delete(s.inputs, i, i+1), in.ID)
		return s.view(ctx, in.Name, table)
	}
	if len(s.inputs) >= inputsKept {
		old := s.inputs[0]
		s.inputs = s.inputs[1:]
		if err := s.exec(ctx, "DROP TABLE IF EXISTS "+plan.Quote("input "+old)); err != nil {
			return err
		}
	}
	if err := s.exec(ctx, "CREATE OR REPLACE TEMP TABLE "+table+" ("+plan.Definitions(in.Columns)+")"); err != nil {
		return err
	}
	var batches []arrow.RecordBatch
	var schema *arrow.Schema
	for i := range in.Pieces {
		p := &in.Pieces[i]
		if p.Rows == 0 {
			continue
		}
		b, err := open(p)
		if err != nil {
			return err
		}
		defer b.Close()
		r, err := ipc.NewReader(b)
		if err != nil {
			return &Error{LostInput, fmt.Sprintf("input %s: %v", in.Name, err)}
		}
		schema = r.Schema()
		for r.Next() {
			batch := r.RecordBatch()
			batch.Retain()
			batches = append(batches, batch)
		}
		if err := r.Err(); err != nil {
			return &Error{LostInput, fmt.Sprintf("input %s: %v", in.Name, err)}
		}
	}
	if len(batches) > 0 {
		reader, err := array.NewRecordReader(schema, batches)
		if err != nil {
			return err
		}
		defer reader.Release()
		release, err := s.arrow.RegisterView(reader, "arriving")
		if err != nil {
			return err
		}
		defer release()
		cols := make([]string, len(in.Columns))
		for i, c := range in.Columns {
			cols[i] = plan.Quote(c.Name)
		}
		if err := s.exec(ctx, "INSERT INTO "+table+" SELECT "+strings.Join(cols, ", ")+" FROM arriving"); err != nil {
			return err
		}
	}
	s.inputs = append(s.inputs, in.ID)
	return s.view(ctx, in.Name, table)
}

// run runs a query and calls each for every batch of rows, which is valid until each returns.
func (s *slot) run(ctx context.Context, q string, each func(*arrow.Schema, arrow.RecordBatch) error) error {
	r, err := s.arrow.QueryContext(ctx, q)
	if err != nil {
		return err
	}
	defer r.Release()
	for r.Next() {
		if err := each(r.Schema(), r.RecordBatch()); err != nil {
			return err
		}
	}
	return r.Err()
}

// buckets cuts rows by their last column, which ascends.
type buckets struct {
	spools  []spool
	writers []*ipc.Writer
	cut     bool
}

// newBuckets returns n buckets, or one for all rows, if n is 0. What is over a limit of bytes goes to a file in dir.
func newBuckets(n, limit int, dir string) *buckets {
	b := &buckets{cut: n > 0}
	b.spools, b.writers = make([]spool, max(n, 1)), make([]*ipc.Writer, max(n, 1))
	for i := range b.spools {
		b.spools[i].limit, b.spools[i].dir = limit, dir
	}
	return b
}

func (b *buckets) write(i int, schema *arrow.Schema, batch arrow.RecordBatch) error {
	if batch.NumRows() == 0 {
		return nil
	}
	if b.writers[i] == nil {
		b.writers[i] = ipc.NewWriter(&b.spools[i], ipc.WithSchema(schema))
	}
	b.spools[i].rows += int(batch.NumRows())
	return b.writers[i].Write(batch)
}

func (b *buckets) add(schema *arrow.Schema, batch arrow.RecordBatch) error {
	if !b.cut {
		return b.write(0, schema, batch)
	}
	last := int(batch.NumCols()) - 1
	number := batch.Column(last).(*array.Int32)
	out := arrow.NewSchema(schema.Fields()[:last], nil)
	for i := 0; i < number.Len(); {
		j := i + 1
		for j < number.Len() && number.Value(j) == number.Value(i) {
			j++
		}
		cols := make([]arrow.Array, last)
		for c := range cols {
			cols[c] = array.NewSlice(batch.Column(c), int64(i), int64(j))
		}
		piece := array.NewRecordBatch(out, cols, int64(j-i))
		err := b.write(int(number.Value(i)), out, piece)
		piece.Release()
		for _, c := range cols {
			c.Release()
		}
		if err != nil {
			return err
		}
		i = j
	}
	return nil
}

// close ends what was written, and tells of it.
func (b *buckets) close() ([]Piece, error) {
	out := make([]Piece, len(b.writers))
	for i, w := range b.writers {
		s := &b.spools[i]
		if w != nil {
			if err := w.Close(); err != nil {
				return nil, err
			}
		}
		out[i] = Piece{Size: s.size, Rows: s.rows, data: s.buf.Bytes()}
		if s.file != nil {
			out[i].data, out[i].file = nil, s.file.Name()
			if err := s.file.Close(); err != nil {
				return nil, err
			}
			s.file = nil
		}
	}
	return out, nil
}

// drop deletes what was not closed.
func (b *buckets) drop() {
	for i := range b.spools {
		if f := b.spools[i].file; f != nil {
			f.Close()
			os.Remove(f.Name())
		}
	}
}

// spool is in memory up to its limit, and in a file beyond.
type spool struct {
	limit, size, rows int
	dir               string
	buf               bytes.Buffer
	file              *os.File
}

func (s *spool) Write(p []byte) (int, error) {
	s.size += len(p)
	if s.file == nil && s.size > s.limit {
		var err error
		if s.file, err = os.CreateTemp(s.dir, "*"); err != nil {
			return 0, fmt.Errorf("keep an output: %w", err)
		}
		if _, err := s.file.Write(s.buf.Bytes()); err != nil {
			return 0, fmt.Errorf("keep an output: %w", err)
		}
		s.buf = bytes.Buffer{}
	}
	if s.file != nil {
		return s.file.Write(p)
	}
	return s.buf.Write(p)
}
