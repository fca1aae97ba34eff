package engine

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// WorkerConfig is what a Worker is told.
type WorkerConfig struct {
	Data   string // folder with the files of this worker's node
	Temp   string // folder of its own, for what does not fit elsewhere; what is in it is deleted
	Slots  int    // tasks at once
	Memory int64  // MiB for all of them
	Log    *slog.Logger
}

// Worker runs fragments, and serves its files and what it has made to other workers and to clients.
type Worker struct {
	cfg   WorkerConfig
	slots chan *slot
	http  *http.Server
	ln    net.Listener

	mu   sync.Mutex
	good map[string]stamp // files whose digests were compared, by path
}

type stamp struct {
	size int64
	at   time.Time
	sum  string
}

// kept is how long an output is kept that nobody deletes.
const kept = 10 * time.Minute

// NewWorker makes a worker. It must be closed.
func NewWorker(cfg WorkerConfig) (*Worker, error) {
	w := &Worker{cfg: cfg, slots: make(chan *slot, cfg.Slots), good: map[string]stamp{}}
	if w.cfg.Log == nil {
		w.cfg.Log = slog.New(slog.DiscardHandler)
	}
	if err := os.RemoveAll(cfg.Temp); err != nil {
		return nil, err
	}
	for _, d := range []string{"out", "fetched", "spill"} {
		if err := os.MkdirAll(filepath.Join(cfg.Temp, d), 0o700); err != nil {
			return nil, err
		}
	}
	for range cfg.Slots {
		s, err := newSlot(1, cfg.Memory/int64(cfg.Slots), filepath.Join(cfg.Temp, "spill"))
		if err != nil {
			return nil, errors.Join(err, w.Close())
		}
		w.slots <- s
	}
	var err error
	if w.ln, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		return nil, errors.Join(err, w.Close())
	}
	mux := http.NewServeMux()
	mux.Handle("GET /data/", http.StripPrefix("/data/", http.FileServer(http.Dir(cfg.Data))))
	mux.Handle("GET /out/", http.StripPrefix("/out/", http.FileServer(http.Dir(w.out()))))
	mux.HandleFunc("DELETE /out/{id}", func(_ http.ResponseWriter, r *http.Request) {
		os.Remove(filepath.Join(w.out(), filepath.Base(r.PathValue("id"))))
	})
	w.http = &http.Server{Handler: mux}
	go w.http.Serve(w.ln)
	return w, nil
}

// Addr is where its files are had.
func (w *Worker) Addr() string { return w.ln.Addr().String() }

// Close ends it, once no task runs.
func (w *Worker) Close() error {
	if w.http != nil {
		w.http.Close()
	}
	for range len(w.slots) {
		(<-w.slots).close()
	}
	return os.RemoveAll(w.cfg.Temp)
}

// Run is the function of a task.
func (w *Worker) Run(ctx context.Context, payload []byte) ([]byte, error) {
	var f Fragment
	if err := f.decode(payload); err != nil {
		return nil, err
	}
	var s *slot
	select {
	case s = <-w.slots:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	defer func() { w.slots <- s }()
	if err := s.limit(ctx, f.Memory); err != nil {
		return nil, kind(err)
	}
	out := Output{}
	for _, t := range f.Tables {
		paths := make([]string, len(t.Files))
		for i, file := range t.Files {
			var err error
			if paths[i], err = w.file(ctx, file, &out); err != nil {
				return nil, err
			}
		}
		if err := s.view(ctx, t.Name, "read_parquet(['"+strings.Join(paths, "', '")+"'])"); err != nil {
			return nil, kind(err)
		}
	}
	for i := range f.Inputs {
		if err := s.input(ctx, &f.Inputs[i], func(p *Piece) (io.ReadCloser, error) { return p.open(ctx) }); err != nil {
			return nil, kind(err)
		}
	}
	if err := s.exec(ctx, fmt.Sprintf("SET VARIABLE task = %d", f.Number)); err != nil {
		return nil, kind(err)
	}
	w.sweep()
	b := newBuckets(f.Buckets, f.Inline, w.out())
	defer b.drop()
	if err := s.run(ctx, f.SQL, b.add); err != nil {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		return nil, kind(err)
	}
	var err error
	if out.Pieces, err = b.close(); err != nil {
		return nil, err
	}
	for i := range out.Pieces {
		if p := &out.Pieces[i]; p.file != "" {
			p.URL = "http://" + w.Addr() + "/out/" + filepath.Base(p.file)
		}
	}
	return encode(&out, out.Pieces)
}

func (w *Worker) out() string { return filepath.Join(w.cfg.Temp, "out") }

// sweep deletes outputs that nobody has asked for in a long time.
func (w *Worker) sweep() {
	l, _ := os.ReadDir(w.out())
	for _, e := range l {
		if i, err := e.Info(); err == nil && time.Since(i.ModTime()) > kept {
			os.Remove(filepath.Join(w.out(), e.Name()))
		}
	}
}

// file returns the path of a good copy: the worker's own, or one that it fetches.
func (w *Worker) file(ctx context.Context, f File, out *Output) (string, error) {
	own := filepath.Join(w.cfg.Data, f.Name)
	err := w.check(own, f)
	if err == nil {
		out.Local++
		return own, nil
	}
	var bad []string
	if !errors.Is(err, os.ErrNotExist) || holds(f, w.Addr()) {
		bad = append(bad, fmt.Sprintf("%s at %s: %v", f.Name, w.Addr(), err))
	}
	fetched := filepath.Join(w.cfg.Temp, "fetched", f.SHA256+".parquet")
	if w.check(fetched, f) == nil {
		out.Remote++
		return fetched, nil
	}
	for _, at := range f.At {
		if at == w.Addr() {
			continue
		}
		if err := fetch(ctx, "http://"+at+"/data/"+f.Name, fetched); err == nil {
			if err = w.check(fetched, f); err == nil {
				out.Remote++
				out.Bad = append(out.Bad, bad...)
				for _, b := range bad {
					w.cfg.Log.Warn("a copy of a file is no good, and another is read", "file", b, "from", at)
				}
				return fetched, nil
			}
			os.Remove(fetched)
			bad = append(bad, fmt.Sprintf("%s at %s: %v", f.Name, at, err))
		} else {
			bad = append(bad, fmt.Sprintf("%s at %s: %v", f.Name, at, err))
		}
	}
	if len(bad) == 0 {
		return "", &Error{LostInput, f.Name + ": no worker that is up is known to have it"}
	}
	return "", &Error{NoData, strings.Join(bad, ", and ")}
}

func holds(f File, at string) bool {
	for _, a := range f.At {
		if a == at {
			return true
		}
	}
	return false
}

// check compares a file with its digest, once for as long as it stays as it is.
func (w *Worker) check(path string, f File) error {
	i, err := os.Stat(path)
	if err != nil {
		return err
	}
	now := stamp{i.Size(), i.ModTime(), f.SHA256}
	w.mu.Lock()
	known := w.good[path] == now
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
		return fmt.Errorf("its digest is %.12s…, not %.12s…", got, f.SHA256)
	}
	w.mu.Lock()
	w.good[path] = now
	w.mu.Unlock()
	return nil
}

func fetch(ctx context.Context, url, path string) error {
	body, err := get(ctx, url)
	if err != nil {
		return err
	}
	defer body.Close()
	tmp, err := os.CreateTemp(filepath.Dir(path), "part")
	if err != nil {
		return err
	}
	defer os.Remove(tmp.Name())
	if _, err := io.Copy(tmp, body); err != nil {
		tmp.Close()
		return err
	}
	if err := tmp.Close(); err != nil {
		return err
	}
	return os.Rename(tmp.Name(), path)
}

func get(ctx context.Context, url string) (io.ReadCloser, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	if res.StatusCode != http.StatusOK {
		res.Body.Close()
		return nil, fmt.Errorf("%s: %s", url, res.Status)
	}
	return res.Body, nil
}

// open reads a piece.
func (p *Piece) open(ctx context.Context) (io.ReadCloser, error) {
	if p.URL == "" {
		return io.NopCloser(bytes.NewReader(p.data)), nil
	}
	body, err := get(ctx, p.URL)
	if err != nil && ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if err != nil {
		return nil, &Error{LostInput, err.Error()}
	}
	return body, nil
}
