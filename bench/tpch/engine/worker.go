package engine

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/phoebe-sched/phoebe/bench/tpch/data"
	"github.com/phoebe-sched/phoebe/worker/exec"
)

// WorkerConfig is the configuration of a Worker.
type WorkerConfig struct {
	Listen string // host:port of the file server for other workers; default: a free port of 127.0.0.1
	Data   string // folder with the files of the worker's node
	// folder for results, fetched files and spilled data; NewWorker deletes its old content, and Close deletes
	// the folder
	Temp   string
	Slots  int   // number of tasks at once
	Memory int64 // MiB for all tasks together
	Log    *slog.Logger
}

// Worker runs fragments. A worker serves files to other workers, and results to clients.
type Worker struct {
	cfg   WorkerConfig
	slots chan *slot
	http  *http.Server
	ln    net.Listener

	mu      sync.Mutex
	checked map[string]fileStamp // files with a verified digest, by path
}

// fileStamp is the verified state of a file.
type fileStamp struct {
	size     int64
	modified time.Time
	digest   string
}

// keepResultFor is the time after which a worker deletes a result that no client has deleted.
const keepResultFor = 10 * time.Minute

// NewWorker makes a worker and starts the file server. The caller must close the worker.
func NewWorker(cfg WorkerConfig) (*Worker, error) {
	w := &Worker{cfg: cfg, slots: make(chan *slot, cfg.Slots), checked: map[string]fileStamp{}}
	if w.cfg.Log == nil {
		w.cfg.Log = slog.New(slog.DiscardHandler)
	}
	if err := os.RemoveAll(cfg.Temp); err != nil {
		return nil, err
	}
	for _, d := range []string{"out", "fetched", "spill", "cache"} {
		if err := os.MkdirAll(filepath.Join(cfg.Temp, d), 0o700); err != nil {
			return nil, err
		}
	}
	for i := range cfg.Slots {
		s, err := newSlot(1, cfg.Memory/int64(cfg.Slots), filepath.Join(cfg.Temp, "spill"))
		if err != nil {
			return nil, errors.Join(err, w.Close())
		}
		s.fetchDir, s.thread = filepath.Join(cfg.Temp, "fetched", strconv.Itoa(i)), newThread()
		if err := os.Mkdir(s.fetchDir, 0o700); err != nil {
			s.close()
			return nil, errors.Join(err, w.Close())
		}
		w.slots <- s
	}
	var err error
	if w.ln, err = net.Listen("tcp", cmp.Or(cfg.Listen, "127.0.0.1:0")); err != nil {
		return nil, errors.Join(err, w.Close())
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /data/{name...}", w.serveData)
	mux.Handle("GET /out/", http.StripPrefix("/out/", http.FileServer(http.Dir(w.outDir()))))
	mux.HandleFunc("DELETE /out/{id}", func(_ http.ResponseWriter, r *http.Request) {
		os.Remove(filepath.Join(w.outDir(), filepath.Base(r.PathValue("id"))))
	})
	w.http = &http.Server{Handler: mux}
	go w.http.Serve(w.ln)
	return w, nil
}

// Addr returns the address of the file server.
func (w *Worker) Addr() string { return w.ln.Addr().String() }

// Close stops the worker and deletes its temporary folder. Call Close when no task runs any more.
func (w *Worker) Close() error {
	if w.http != nil {
		w.http.Close()
	}
	for range len(w.slots) {
		(<-w.slots).close()
	}
	return os.RemoveAll(w.cfg.Temp)
}

// Run is the function of a task. Run executes the fragment f in a free slot.
func (w *Worker) Run(ctx context.Context, f Fragment) (out Output, err error) {
	var stage Stage
	if err := json.Unmarshal(exec.Common(ctx), &stage); err != nil {
		return out, err
	}
	var s *slot
	select {
	case s = <-w.slots:
	case <-ctx.Done():
		return out, context.Cause(ctx)
	}
	defer func() { w.slots <- s }()
	s.thread.runAndWait(func() { err = w.runTask(ctx, s, &stage, f.Tables, &out) })
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return out, classifyError(err)
}

// runTask runs a task in the slot s. runTask defines the tables and the inputs of the task, and runs the SQL of
// the stage.
func (w *Worker) runTask(ctx context.Context, s *slot, stage *Stage, pieces []Table, out *Output) error {
	task := exec.Task(ctx)
	if err := s.limitMemory(ctx, int64(task.Memory)); err != nil {
		return err
	}
	if err := s.allowDeliminator(ctx, !stage.NoDeliminator); err != nil {
		return err
	}
	tables := slices.Concat(stage.Tables, pieces)
	files := &taskFiles{worker: w, slot: s, query: stage.SQL, out: out}
	defer files.removeCopies()
	paths, err := files.findPaths(ctx, tables)
	if err != nil {
		return err
	}
	for i, t := range tables {
		if err := s.defineView(ctx, t.Name, "read_parquet("+data.QuoteTexts(paths[i])+")"); err != nil {
			return err
		}
	}
	passed := exec.Inputs(ctx)
	for i := range stage.Inputs {
		in := &stage.Inputs[i]
		id := task.Job + " " + in.Stage
		if in.Cut {
			id += fmt.Sprint(" ", task.Partition)
		}
		n := slices.IndexFunc(passed, func(p exec.Input) bool { return p.Stage != in.Stage })
		if n < 0 {
			n = len(passed)
		}
		if err := s.loadInput(ctx, in, id, passed[:n], max(inputsKept, len(stage.Inputs))); err != nil {
			return err
		}
		passed = passed[n:]
	}
	if err := s.execSQL(ctx, fmt.Sprintf("SET VARIABLE task = %d", task.Partition)); err != nil {
		return err
	}
	if stage.Last {
		return w.runLastStage(ctx, s, stage, out)
	}
	var outputs []io.WriteCloser
	size := 0
	b := newBuckets(stage.Buckets, func(bucket int) (io.Writer, error) {
		o, err := exec.Output(ctx, bucket)
		outputs = append(outputs, o)
		return countingWriter{o, &size}, err
	})
	if err := errors.Join(s.runQuery(ctx, stage.SQL, b.addBatch), b.close()); err != nil {
		return err
	}
	for _, o := range outputs {
		if err := o.Close(); err != nil {
			return err
		}
	}
	out.Rows, out.Bytes = b.rows, size
	return nil
}

// countingWriter counts the written bytes.
type countingWriter struct {
	io.Writer
	size *int
}

func (c countingWriter) Write(b []byte) (int, error) {
	n, err := c.Writer.Write(b)
	*c.size += n
	return n, err
}

// runLastStage runs a task of the last stage. A small result goes into the task's report. A large result stays
// in a file at the worker until a client has read the result.
func (w *Worker) runLastStage(ctx context.Context, s *slot, stage *Stage, out *Output) error {
	w.sweepResults()
	result := spool{dir: w.outDir()}
	b := newBuckets(0, func(int) (io.Writer, error) { return countingWriter{&result, &out.Bytes}, nil })
	err := errors.Join(s.runQuery(ctx, stage.SQL, b.addBatch), b.close())
	out.Rows = b.rows
	out.Piece = &Piece{Rows: b.rows, Data: result.buf.Bytes()}
	if result.file != nil {
		out.Piece.URL = "http://" + w.Addr() + "/out/" + filepath.Base(result.file.Name())
		if err = errors.Join(err, result.file.Close()); err != nil {
			os.Remove(result.file.Name())
		}
	}
	return err
}

// outDir is the folder with large results.
func (w *Worker) outDir() string { return filepath.Join(w.cfg.Temp, "out") }

// sweepResults deletes results older than keepResultFor.
func (w *Worker) sweepResults() {
	l, _ := os.ReadDir(w.outDir())
	for _, e := range l {
		if i, err := e.Info(); err == nil && time.Since(i.ModTime()) > keepResultFor {
			os.Remove(filepath.Join(w.outDir(), e.Name()))
		}
	}
}

// checkDigest compares a file with its digest. A file with unchanged size and time is read only once.
func (w *Worker) checkDigest(path string, f File) error {
	i, err := os.Stat(path)
	if err != nil {
		return err
	}
	now := fileStamp{i.Size(), i.ModTime(), f.SHA256}
	w.mu.Lock()
	known := w.checked[path] == now
	w.mu.Unlock()
	if known {
		return nil
	}
	r, err := os.Open(path)
	if err != nil {
		return err
	}
	defer r.Close()
	h := sha256.New()
	if _, err := io.Copy(h, r); err != nil {
		return err
	}
	if got := hex.EncodeToString(h.Sum(nil)); got != f.SHA256 {
		return fmt.Errorf("the digest of the file is %.12s…, not %.12s…", got, f.SHA256)
	}
	w.mu.Lock()
	w.checked[path] = now
	w.mu.Unlock()
	return nil
}

// openReader opens the Arrow stream of the piece.
func (p *Piece) openReader(ctx context.Context) (io.ReadCloser, error) {
	if p.URL == "" {
		return io.NopCloser(bytes.NewReader(p.Data)), nil
	}
	res, err := getRanges(ctx, p.URL, "")
	if err != nil {
		return nil, err
	}
	return res.Body, nil
}
