package engine

import (
	"bytes"
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"time"
	_ "unsafe" // for linkname

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/duckdb/duckdb-go/v2"

	"github.com/phoebe-sched/phoebe/bench/tpch/data"
	"github.com/phoebe-sched/phoebe/bench/tpch/plan"
	"github.com/phoebe-sched/phoebe/worker/exec"
)

// interruptInterval is the pause of duckdb-go between interrupts. If the context of a query has ended,
// duckdb-go interrupts the query again and again, because DuckDB may miss an interrupt. The module sleeps for
// the interval after each interrupt, even if the query has ended meanwhile. The default of half a second is far
// too long for a slot to stand idle.
//
//go:linkname interruptInterval github.com/duckdb/duckdb-go/v2.interruptInterval
var interruptInterval time.Duration

func init() { interruptInterval = 5 * time.Millisecond }

// slot is a DuckDB for a task at a time. The task has all threads and all memory of the DuckDB.
type slot struct {
	thread      thread
	connector   *duckdb.Connector
	conn        driver.Conn
	arrow       *duckdb.Arrow
	inputIDs    []string // IDs of the inputs with a table; the last used ID is at the end
	views       map[string]string
	memoryLimit int64  // MiB
	fetchDir    string // folder for the fetched files of the slot's task
	// DuckDB's optimizer `deliminator` is off
	noDeliminator bool

	mu      sync.Mutex         // guards layouts and the connection while a task fetches several files at once
	layouts map[string]*layout // layouts of fetched files, by digest
}

// inputsKept is the number of inputs with a table for later tasks of the stage, unless a task reads more.
const inputsKept = 8

// newSlot opens a DuckDB with the given number of threads, and memory in MiB. DuckDB spills to the folder temp.
func newSlot(threads int, memory int64, temp string) (*slot, error) {
	connector, err := duckdb.NewConnector("", nil)
	if err != nil {
		return nil, err
	}
	s := &slot{connector: connector, views: map[string]string{}, layouts: map[string]*layout{}, memoryLimit: memory}
	if s.conn, err = connector.Connect(context.Background()); err != nil {
		connector.Close()
		return nil, err
	}
	if s.arrow, err = duckdb.NewArrowFromConn(s.conn); err == nil {
		err = s.execSQL(context.Background(), fmt.Sprintf("SET threads = %d; SET memory_limit = '%dMiB'; "+
			"SET temp_directory = %s; SET parquet_metadata_cache = true; SET autoinstall_known_extensions = false",
			threads, memory, data.QuoteText(temp)))
	}
	if err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

func (s *slot) close() {
	if s.thread != nil {
		close(s.thread)
	}
	s.conn.Close()
	s.connector.Close()
}

// execSQL runs statements without result rows.
func (s *slot) execSQL(ctx context.Context, q string) error {
	_, err := s.conn.(driver.ExecerContext).ExecContext(ctx, q, nil)
	return err
}

// limitMemory limits the memory of all later queries to memory, in MiB.
func (s *slot) limitMemory(ctx context.Context, memory int64) error {
	if s.memoryLimit == memory {
		return nil
	}
	err := s.execSQL(ctx, fmt.Sprintf("SET memory_limit = '%dMiB'", memory))
	if err == nil {
		s.memoryLimit = memory
	}
	return err
}

// allowDeliminator says whether later queries may use DuckDB's optimizer `deliminator`.
func (s *slot) allowDeliminator(ctx context.Context, may bool) error {
	if s.noDeliminator != may {
		return nil
	}
	disabled := "deliminator"
	if may {
		disabled = ""
	}
	err := s.execSQL(ctx, "SET disabled_optimizers = '"+disabled+"'")
	if err == nil {
		s.noDeliminator = !may
	}
	return err
}

// defineView gives a name to a source: a table or a query. A later call with the same name replaces the source.
func (s *slot) defineView(ctx context.Context, name, source string) error {
	if s.views[name] == source {
		return nil
	}
	delete(s.views, name)
	if err := s.execSQL(ctx, "CREATE OR REPLACE TEMP VIEW "+plan.Quote(name)+" AS FROM "+source); err != nil {
		return err
	}
	s.views[name] = source
	return nil
}

// loadInput loads the passed output of an earlier stage into a table. Inputs with the same id have the same
// content, so loadInput uses a table of an earlier task again. The slot keeps the tables of up to keep inputs: at
// least as many as the task reads.
func (s *slot) loadInput(ctx context.Context, in *Input, id string, passed []exec.Input, keep int) error {
	table := plan.Quote("input " + id)
	if i := slices.Index(s.inputIDs, id); i >= 0 {
		s.inputIDs = append(slices.Delete(s.inputIDs, i, i+1), id)
		return s.defineView(ctx, in.Stage, table)
	}
	for len(s.inputIDs) >= keep {
		old := s.inputIDs[0]
		s.inputIDs = s.inputIDs[1:]
		if err := s.execSQL(ctx, "DROP TABLE IF EXISTS "+plan.Quote("input "+old)); err != nil {
			return err
		}
	}
	schema, batches, err := readBatches(ctx, in.Stage, passed)
	if err != nil {
		return err
	}
	if err := s.execSQL(ctx, "CREATE OR REPLACE TEMP TABLE "+table+" ("+plan.Definitions(in.Columns)+")"); err != nil {
		return err
	}
	if err := s.fillTable(ctx, table, in.Columns, schema, batches); err != nil {
		return errors.Join(err, s.execSQL(context.WithoutCancel(ctx), "DROP TABLE "+table))
	}
	s.inputIDs = append(s.inputIDs, id)
	return s.defineView(ctx, in.Stage, table)
}

// readBatches reads the passed output of a stage.
func readBatches(ctx context.Context, stage string, passed []exec.Input) (schema *arrow.Schema,
	batches []arrow.RecordBatch, err error) {
	for i := range passed {
		b, err := passed[i].Open(ctx)
		if err != nil {
			return nil, nil, err
		}
		defer b.Close()
		r, err := ipc.NewReader(b)
		if err != nil {
			return nil, nil, fmt.Errorf("input %s: %w", stage, err)
		}
		schema = r.Schema()
		for r.Next() {
			batch := r.RecordBatch()
			batch.Retain()
			batches = append(batches, batch)
		}
		if err := r.Err(); err != nil {
			return nil, nil, fmt.Errorf("input %s: %w", stage, err)
		}
	}
	return schema, batches, nil
}

// fillTable inserts batches of rows into an empty table.
func (s *slot) fillTable(ctx context.Context, table string, columns []plan.Column, schema *arrow.Schema,
	batches []arrow.RecordBatch) error {
	if len(batches) == 0 {
		return nil
	}
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
	names := make([]string, len(columns))
	for i, c := range columns {
		names[i] = plan.Quote(c.Name)
	}
	return s.execSQL(ctx, "INSERT INTO "+table+" SELECT "+strings.Join(names, ", ")+" FROM arriving")
}

// runQuery runs a query and calls onBatch for every batch of rows. The batch is valid until onBatch returns.
func (s *slot) runQuery(ctx context.Context, q string, onBatch func(*arrow.Schema, arrow.RecordBatch) error) error {
	r, err := s.arrow.QueryContext(ctx, q)
	if err != nil {
		return err
	}
	defer r.Release()
	for r.Next() {
		if err := onBatch(r.Schema(), r.RecordBatch()); err != nil {
			return err
		}
	}
	return r.Err()
}

// buckets write rows as Arrow IPC. Either all rows go into one bucket, or the last column holds the number of a
// row's bucket. Rows then arrive in ascending order of the number.
type buckets struct {
	openBucket   func(bucket int) (io.Writer, error) // called once for each bucket with rows
	writers      []*ipc.Writer
	byLastColumn bool
	rows         int
}

// newBuckets returns n buckets; one bucket for all rows, if n is 0.
func newBuckets(n int, openBucket func(bucket int) (io.Writer, error)) *buckets {
	return &buckets{openBucket: openBucket, writers: make([]*ipc.Writer, max(n, 1)), byLastColumn: n > 0}
}

// writeBatch writes a batch to bucket i. The first batch opens the bucket.
func (b *buckets) writeBatch(i int, schema *arrow.Schema, batch arrow.RecordBatch) error {
	if batch.NumRows() == 0 {
		return nil
	}
	if b.writers[i] == nil {
		w, err := b.openBucket(i)
		if err != nil {
			return err
		}
		b.writers[i] = ipc.NewWriter(w, ipc.WithSchema(schema))
	}
	b.rows += int(batch.NumRows())
	return b.writers[i].Write(batch)
}

// addBatch writes the rows of a batch to the buckets, without the column of bucket numbers.
func (b *buckets) addBatch(schema *arrow.Schema, batch arrow.RecordBatch) error {
	if !b.byLastColumn {
		return b.writeBatch(0, schema, batch)
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
		err := b.writeBatch(int(number.Value(i)), out, piece)
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

// close ends the Arrow stream of each bucket. The writers of openBucket stay open.
func (b *buckets) close() error {
	for _, w := range b.writers {
		if w != nil {
			if err := w.Close(); err != nil {
				return err
			}
		}
	}
	return nil
}

// maxInline (64 KiB) is the largest size of a result that a task sends with the report.
const maxInline = 64 << 10

// spool holds a result: in memory up to maxInline, and in a file beyond.
type spool struct {
	dir  string
	buf  bytes.Buffer
	file *os.File
}

func (s *spool) Write(p []byte) (int, error) {
	if s.file == nil && s.buf.Len()+len(p) > maxInline {
		var err error
		if s.file, err = os.CreateTemp(s.dir, "*"); err != nil {
			return 0, fmt.Errorf("write a large result to a file: %w", err)
		}
		if _, err := s.file.Write(s.buf.Bytes()); err != nil {
			return 0, fmt.Errorf("write a large result to a file: %w", err)
		}
		s.buf = bytes.Buffer{}
	}
	if s.file != nil {
		return s.file.Write(p)
	}
	return s.buf.Write(p)
}
