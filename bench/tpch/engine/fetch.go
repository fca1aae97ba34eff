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
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"golang.org/x/sync/errgroup"

	"github.com/phoebe-sched/phoebe/bench/tpch/data"
	"github.com/phoebe-sched/phoebe/worker/exec"
)

// serveData serves the files of the worker's node, whole or in parts. A file is only served if it matches its
// digest.
func (w *Worker) serveData(rw http.ResponseWriter, r *http.Request) {
	file := filepath.Join(w.cfg.Data, filepath.FromSlash(path.Clean("/"+r.PathValue("name"))))
	if err := w.checkDigest(file, File{SHA256: r.FormValue("sha256")}); err != nil {
		http.Error(rw, err.Error(), http.StatusNotFound)
		return
	}
	http.ServeFile(rw, r, file)
}

// taskFiles are the files of a task: the worker's own files, and copies from other workers. Copies serve a
// single task, so that a worker does not gather all data.
type taskFiles struct {
	worker *Worker
	slot   *slot
	query  string

	mu     sync.Mutex
	out    *Output // the task's report, with the number of fetched files and the bad files
	copies []string
}

// fetchesAtOnce is the number of files in transfer at a time, for each task. Files are many and small, and most
// of the time of a fetch is waiting.
const fetchesAtOnce = 8

// peerClient fetches files from other workers.
var peerClient = func() *http.Client {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.MaxIdleConnsPerHost = fetchesAtOnce
	return &http.Client{Transport: t}
}()

// findPaths returns the paths of good copies of the files of tables. If the worker has no good copy of a file,
// findPaths fetches the file.
func (f *taskFiles) findPaths(ctx context.Context, tables []Table) ([][]string, error) {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(fetchesAtOnce)
	paths := make([][]string, len(tables))
	for i, t := range tables {
		paths[i] = make([]string, len(t.Files))
		for k, file := range t.Files {
			own := filepath.Join(f.worker.cfg.Data, file.Name)
			err := f.worker.checkDigest(own, file)
			if err == nil {
				paths[i][k] = own
				continue
			}
			group.Go(func() (failed error) {
				paths[i][k], failed = f.fetchFile(ctx, file, err)
				return failed
			})
		}
	}
	return paths, group.Wait()
}

// fetchFile fetches a copy of a file, and returns the path of the copy. ownErr says why the worker's own copy
// is no good.
func (f *taskFiles) fetchFile(ctx context.Context, file File, ownErr error) (path string, err error) {
	w := f.worker
	var bad []string
	if !errors.Is(ownErr, os.ErrNotExist) || slices.Contains(file.At, w.Addr()) {
		bad = append(bad, fmt.Sprintf("%s at %s: %v", file.Name, w.Addr(), ownErr))
	}
	for _, addr := range file.At {
		if addr == w.Addr() {
			continue
		}
		if path, err = f.slot.fetchColumns(ctx, addr, file, f.query); err != nil {
			bad = append(bad, fmt.Sprintf("%s at %s: %v", file.Name, addr, err))
			continue
		}
		for _, b := range bad {
			w.cfg.Log.Warn("a copy of a file is bad, and another copy is read", "file", b, "from", addr)
		}
		f.mu.Lock()
		defer f.mu.Unlock()
		f.out.Fetched++
		f.out.Bad = append(f.out.Bad, bad...)
		f.copies = append(f.copies, path)
		return path, nil
	}
	if len(bad) == 0 {
		bad = []string{file.Name + ": no running worker is known to have the file"}
	}
	return "", &exec.Error{Code: NoData, Retry: exec.Never, Err: errors.New(strings.Join(bad, ", and "))}
}

// removeCopies deletes the fetched copies.
func (f *taskFiles) removeCopies() {
	for _, path := range f.copies {
		os.Remove(path)
	}
}

// span is a range of bytes in a file. The byte at to is not included.
type span struct{ from, to int64 }

// footerGuess is the number of bytes in the first fetch, at the end of a file. Most footers are shorter.
const footerGuess = 32 << 10

// fetchColumns copies the needed parts of a Parquet file: the footer, and the columns named in the text of the
// query (projection pushdown). Each part goes to its own offset in the copy.
func (s *slot) fetchColumns(ctx context.Context, addr string, f File, text string) (copied string, err error) {
	h := fnv.New64a()
	io.WriteString(h, text)
	// not a random name, because DuckDB remembers files by name
	copied = filepath.Join(s.fetchDir, fmt.Sprintf("%s-%x.parquet", f.SHA256, h.Sum64()))
	file, err := os.Create(copied)
	if err != nil {
		return "", err
	}
	url := "http://" + addr + "/data/" + f.Name + "?sha256=" + f.SHA256
	err = func() error {
		if err := file.Truncate(f.Bytes); err != nil {
			return err
		}
		end := span{max(0, f.Bytes-footerGuess), f.Bytes}
		s.mu.Lock()
		l := s.layouts[f.SHA256]
		s.mu.Unlock()
		if l == nil {
			if err := getSpans(ctx, url, file, end); err != nil || end.from == 0 {
				return err
			}
			// the footer is longer than footerGuess: fetch the whole file
			if l, err = s.readLayout(ctx, copied); err != nil {
				return getSpans(ctx, url, file, span{0, f.Bytes})
			}
			s.mu.Lock()
			s.layouts[f.SHA256], end.to = l, end.from
			s.mu.Unlock()
		}
		return getSpans(ctx, url, file, append(l.columnSpans(text), span{l.end, max(l.end, end.to)})...)
	}()
	if err = errors.Join(err, file.Close()); err != nil {
		os.Remove(copied)
		return "", err
	}
	return copied, nil
}

// layout says where the columns of a Parquet file are. Filters and the footer follow the columns.
type layout struct {
	columns []string
	spans   []span
	end     int64 // end of the last column
}

// readLayout reads the layout of a file, from the end of the file.
func (s *slot) readLayout(ctx context.Context, file string) (*layout, error) {
	l := &layout{}
	s.mu.Lock()
	defer s.mu.Unlock()
	err := s.runQuery(ctx, "SELECT path_in_schema, "+
		"CAST(least(data_page_offset, coalesce(nullif(dictionary_page_offset, 0), data_page_offset)) AS BIGINT), "+
		"CAST(total_compressed_size AS BIGINT) FROM parquet_metadata("+data.QuoteText(file)+")",
		func(_ *arrow.Schema, b arrow.RecordBatch) error {
			names, at, size := b.Column(0).(*array.String), b.Column(1).(*array.Int64), b.Column(2).(*array.Int64)
			for i := range names.Len() {
				c := span{at.Value(i), at.Value(i) + size.Value(i)}
				l.columns, l.spans, l.end = append(l.columns, strings.Clone(names.Value(i))), append(l.spans, c),
					max(l.end, c.to)
			}
			return nil
		})
	return l, err
}

// columnSpans returns the places of the columns named in a text.
func (l *layout) columnSpans(text string) (spans []span) {
	for i, n := range l.columns {
		if strings.Contains(text, n) {
			spans = append(spans, l.spans[i])
		}
	}
	return spans
}

// getSpans fetches parts of a file from url, and writes each part to its own offset in to.
func getSpans(ctx context.Context, url string, to io.WriterAt, spans ...span) error {
	slices.SortFunc(spans, func(a, b span) int { return cmp.Compare(a.from, b.from) })
	var ranges []string
	for i := 0; i < len(spans); i++ {
		s := spans[i]
		for i+1 < len(spans) && spans[i+1].from <= s.to {
			i++
			s.to = max(s.to, spans[i].to)
		}
		if s.from < s.to {
			ranges = append(ranges, fmt.Sprintf("%d-%d", s.from, s.to-1))
		}
	}
	if len(ranges) == 0 {
		return nil
	}
	res, err := getRanges(ctx, url, "bytes="+strings.Join(ranges, ", "))
	if err != nil {
		return err
	}
	defer res.Body.Close()
	part := func(contentRange string, body io.Reader) error {
		from := int64(0)
		if contentRange != "" {
			if _, err := fmt.Sscanf(contentRange, "bytes %d-", &from); err != nil {
				return fmt.Errorf("%s: the range %q: %w", url, contentRange, err)
			}
		}
		_, err := io.Copy(io.NewOffsetWriter(to, from), body)
		return err
	}
	mediaType, params, _ := mime.ParseMediaType(res.Header.Get("Content-Type"))
	if mediaType != "multipart/byteranges" {
		return part(res.Header.Get("Content-Range"), res.Body)
	}
	for parts := multipart.NewReader(res.Body, params["boundary"]); ; {
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

// peerPatience is the longest time without a byte from a worker. Only tests change peerPatience. Before the first byte,
// the worker may have to compare a large file with its digest.
var peerPatience = 10 * time.Second

var errHangs = errors.New("the worker hangs: no byte came in time")

// patientBody ends its request if a Read waits for longer than peerPatience. Time between Reads does not count.
type patientBody struct {
	io.ReadCloser
	ctx     context.Context // of the request
	cancel  context.CancelCauseFunc
	silence *time.Timer // cancels ctx
}

func newPatientBody(ctx context.Context) *patientBody {
	b := &patientBody{}
	b.ctx, b.cancel = context.WithCancelCause(ctx)
	b.silence = time.AfterFunc(peerPatience, func() { b.cancel(errHangs) })
	return b
}

func (b *patientBody) Read(p []byte) (int, error) {
	b.silence.Reset(peerPatience)
	n, err := b.ReadCloser.Read(p)
	b.silence.Stop()
	return n, b.explain(err)
}

func (b *patientBody) Close() error {
	b.silence.Stop()
	defer b.cancel(nil)
	return b.ReadCloser.Close()
}

// explain replaces the error of a request that took too long.
func (b *patientBody) explain(err error) error {
	if err != nil && context.Cause(b.ctx) == errHangs {
		return errHangs
	}
	return err
}

// getRanges requests a file, or ranges of the file if ranges is not "". The caller closes the body.
func getRanges(ctx context.Context, url, ranges string) (*http.Response, error) {
	body := newPatientBody(ctx)
	res, err := requestRanges(body.ctx, url, ranges)
	body.silence.Stop()
	if err != nil {
		body.cancel(nil)
		return nil, body.explain(err)
	}
	body.ReadCloser, res.Body = res.Body, body
	return res, nil
}

func requestRanges(ctx context.Context, url, ranges string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	if ranges != "" {
		req.Header.Set("Range", ranges)
	}
	res, err := peerClient.Do(req)
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
