package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"golang.org/x/sync/errgroup"

	"github.com/phoebe-sched/phoebe/worker/exec"
)

// serveData serves the files of this worker's node, or parts of them, as long as they are what their digests say.
func (w *Worker) serveData(rw http.ResponseWriter, r *http.Request) {
	file := filepath.Join(w.cfg.Data, filepath.FromSlash(path.Clean("/"+r.PathValue("name"))))
	if err := w.check(file, File{SHA256: r.FormValue("sha256")}); err != nil {
		http.Error(rw, err.Error(), http.StatusNotFound)
		return
	}
	http.ServeFile(rw, r, file)
}

// files are those that a task reads: the worker's own, and copies of others for this task alone, so that a worker does not come to
// have everything.
type files struct {
	worker *Worker
	slot   *slot
	query  string

	mu     sync.Mutex
	out    *Output // where it says what was fetched, and what was no good
	copies []string
}

// fetchesAtOnce is how many files a task fetches at a time. There are many small ones, and what takes long is to wait for each.
const fetchesAtOnce = 8

// peers are other workers.
var peers = func() *http.Client {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.MaxIdleConnsPerHost = fetchesAtOnce
	return &http.Client{Transport: t}
}()

// paths are where good copies of the files of tables are.
func (f *files) paths(ctx context.Context, tables []Table) ([][]string, error) {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(fetchesAtOnce)
	paths := make([][]string, len(tables))
	for i, t := range tables {
		paths[i] = make([]string, len(t.Files))
		for k, file := range t.Files {
			own := filepath.Join(f.worker.cfg.Data, file.Name)
			err := f.worker.check(own, file)
			if err == nil {
				paths[i][k] = own
				continue
			}
			group.Go(func() (failed error) {
				paths[i][k], failed = f.fetch(ctx, file, err)
				return failed
			})
		}
	}
	return paths, group.Wait()
}

// fetch returns the path of a copy of a file, of which the worker's own is no good.
func (f *files) fetch(ctx context.Context, file File, why error) (path string, err error) {
	w := f.worker
	var bad []string
	if !errors.Is(why, os.ErrNotExist) || slices.Contains(file.At, w.Addr()) {
		bad = append(bad, fmt.Sprintf("%s at %s: %v", file.Name, w.Addr(), why))
	}
	for _, at := range file.At {
		if at == w.Addr() {
			continue
		}
		if path, err = f.slot.fetch(ctx, at, file, f.query); err != nil {
			bad = append(bad, fmt.Sprintf("%s at %s: %v", file.Name, at, err))
			continue
		}
		for _, b := range bad {
			w.cfg.Log.Warn("a copy of a file is no good, and another is read", "file", b, "from", at)
		}
		f.mu.Lock()
		defer f.mu.Unlock()
		f.out.Fetched++
		f.out.Bad = append(f.out.Bad, bad...)
		f.copies = append(f.copies, path)
		return path, nil
	}
	if len(bad) == 0 {
		bad = []string{file.Name + ": no worker that is up is known to have it"}
	}
	return "", &exec.Error{Code: NoData, Retry: exec.Never, Err: errors.New(strings.Join(bad, ", and "))}
}

// remove deletes the copies.
func (f *files) remove() {
	for _, path := range f.copies {
		os.Remove(path)
	}
}

// span is a part of a file, its end not included.
type span struct{ from, to int64 }

// tail is how much of the end of a file is asked for first: most footers are shorter.
const tail = 32 << 10

// fetch copies of a Parquet file what a query reads, the columns that its text names and the footer, each to where it is in the file.
func (s *slot) fetch(ctx context.Context, at string, f File, text string) (copied string, err error) {
	h := fnv.New64a()
	io.WriteString(h, text)
	copied = filepath.Join(s.fetched, fmt.Sprintf("%s-%x.parquet", f.SHA256, h.Sum64())) // not by chance: DuckDB remembers what it has read
	file, err := os.Create(copied)
	if err != nil {
		return "", err
	}
	url := "http://" + at + "/data/" + f.Name + "?sha256=" + f.SHA256
	err = func() error {
		if err := file.Truncate(f.Bytes); err != nil {
			return err
		}
		end := span{max(0, f.Bytes-tail), f.Bytes}
		s.mu.Lock()
		l := s.layouts[f.SHA256]
		s.mu.Unlock()
		if l == nil {
			if err := getSpans(ctx, url, file, end); err != nil || end.from == 0 {
				return err
			}
			if l, err = s.layout(ctx, copied); err != nil { // its footer is longer
				return getSpans(ctx, url, file, span{0, f.Bytes})
			}
			s.mu.Lock()
			s.layouts[f.SHA256], end.to = l, end.from
			s.mu.Unlock()
		}
		return getSpans(ctx, url, file, append(l.read(text), span{l.end, max(l.end, end.to)})...)
	}()
	if err = errors.Join(err, file.Close()); err != nil {
		os.Remove(copied)
		return "", err
	}
	return copied, nil
}

// layout is where the columns of a Parquet file are: filters and the footer follow.
type layout struct {
	names []string
	spans []span
	end   int64 // of them all
}

// layout is that of a file whose end is there.
func (s *slot) layout(ctx context.Context, file string) (*layout, error) {
	l := &layout{}
	s.mu.Lock()
	defer s.mu.Unlock()
	err := s.run(ctx, "SELECT path_in_schema, CAST(least(data_page_offset, coalesce(nullif(dictionary_page_offset, 0), data_page_offset)) AS BIGINT), CAST(total_compressed_size AS BIGINT) FROM parquet_metadata('"+file+"')",
		func(_ *arrow.Schema, b arrow.RecordBatch) error {
			names, at, size := b.Column(0).(*array.String), b.Column(1).(*array.Int64), b.Column(2).(*array.Int64)
			for i := range names.Len() {
				c := span{at.Value(i), at.Value(i) + size.Value(i)}
				l.names, l.spans, l.end = append(l.names, strings.Clone(names.Value(i))), append(l.spans, c), max(l.end, c.to)
			}
			return nil
		})
	return l, err
}

// read is where the columns are that a text names.
func (l *layout) read(text string) (spans []span) {
	for i, n := range l.names {
		if strings.Contains(text, n) {
			spans = append(spans, l.spans[i])
		}
	}
	return spans
}

// getSpans writes parts of a file that is elsewhere to where they are in it.
func getSpans(ctx context.Context, url string, to io.WriterAt, spans ...span) error {
	slices.SortFunc(spans, func(a, b span) int { return cmp.Compare(a.from, b.from) })
	var asked []string
	for i := 0; i < len(spans); i++ {
		s := spans[i]
		for i+1 < len(spans) && spans[i+1].from <= s.to {
			i++
			s.to = max(s.to, spans[i].to)
		}
		if s.from < s.to {
			asked = append(asked, fmt.Sprintf("%d-%d", s.from, s.to-1))
		}
	}
	if len(asked) == 0 {
		return nil
	}
	res, err := get(ctx, url, "bytes="+strings.Join(asked, ", "))
	if err != nil {
		return err
	}
	defer res.Body.Close()
	part := func(told string, body io.Reader) error {
		from := int64(0)
		if told != "" {
			if _, err := fmt.Sscanf(told, "bytes %d-", &from); err != nil {
				return fmt.Errorf("%s: the range %q: %w", url, told, err)
			}
		}
		_, err := io.Copy(io.NewOffsetWriter(to, from), body)
		return err
	}
	kind, of, _ := mime.ParseMediaType(res.Header.Get("Content-Type"))
	if kind != "multipart/byteranges" {
		return part(res.Header.Get("Content-Range"), res.Body)
	}
	for parts := multipart.NewReader(res.Body, of["boundary"]); ; {
		p, err := parts.NextPart()
		if err == io.EOF {
			return nil
		}
		if err == nil {
			err = part(p.Header.Get("Content-Range"), p)
		}
		if err != nil {
			return err
		}
	}
}

// get asks for a file, or for ranges of it.
func get(ctx context.Context, url, ranges string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	if ranges != "" {
		req.Header.Set("Range", ranges)
	}
	res, err := peers.Do(req)
	if err != nil {
		return nil, err
	}
	if res.StatusCode != http.StatusOK && res.StatusCode != http.StatusPartialContent {
		why, _ := io.ReadAll(io.LimitReader(res.Body, 1<<10))
		res.Body.Close()
		return nil, fmt.Errorf("%s: %s", res.Status, strings.TrimSpace(string(why)))
	}
	return res, nil
}
