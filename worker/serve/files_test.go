package serve

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/phoebe-sched/phoebe/probe"
	"github.com/phoebe-sched/phoebe/probe/gossip/rows"
	"github.com/phoebe-sched/phoebe/worker/exec"
)

// origin serves files by name over HTTP.
type origin struct {
	*httptest.Server
	tb testing.TB
	// hold makes answers wait until hold is closed, or until the client is gone; nil: no wait.
	hold chan struct{}

	mu        sync.Mutex
	files     map[string][]byte
	asked     map[string]int
	abandoned int // clients gone before their answer
}

func newOrigin(tb testing.TB) *origin {
	o := &origin{tb: tb, files: map[string][]byte{}, asked: map[string]int{}}
	o.Server = httptest.NewServer(http.HandlerFunc(o.serve))
	tb.Cleanup(o.Close)
	return o
}

func (o *origin) serve(w http.ResponseWriter, r *http.Request) {
	o.mu.Lock()
	o.asked[r.URL.Path]++
	content, ok := o.files[r.URL.Path]
	o.mu.Unlock()
	if o.hold != nil {
		select {
		case <-o.hold:
		case <-r.Context().Done():
			o.mu.Lock()
			o.abandoned++
			o.mu.Unlock()
			return
		}
	}
	if !ok {
		http.NotFound(w, r)
		return
	}
	w.Write(content)
}

// add puts a file into the origin.
func (o *origin) add(name, content string) probe.File {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.files["/"+name] = []byte(content)
	return probe.File{Digest: sha256.Sum256([]byte(content)), URL: o.URL + "/" + name, Bytes: uint64(len(content))}
}

func (o *origin) requests(name string) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.asked["/"+name]
}

// withCache gives a worker a cache, and the function cat, which returns the contents of a task's files.
func withCache(tb testing.TB, change func(*Config)) func(*Config) {
	reg := exec.NewRegistry()
	if err := reg.Register("cat", func(ctx context.Context, _ []byte) ([]byte, error) {
		var all []byte
		for _, path := range exec.Files(ctx) {
			content, err := os.ReadFile(path)
			if err != nil {
				return nil, err
			}
			all = append(all, content...)
		}
		return all, nil
	}); err != nil {
		tb.Fatal(err)
	}
	return func(c *Config) {
		c.CacheDir, c.FileHosts, c.Registry = filepath.Join(tb.TempDir(), "cache"), []string{"127.0.0.1"}, reg
		if change != nil {
			change(c)
		}
	}
}

// enqueue makes a task bound early with files.
func enqueue(id probe.ResID, function, payload string, files ...probe.File) probe.Enqueue {
	m := probe.Enqueue{Res: id, Job: probe.JobID{1}, Demand: probe.Slot,
		Launch: launch(7, uint64(id), function, payload)}
	m.Launch.Files = files
	return m
}

// waitFinished waits for the end of a task, and skips other messages.
func (p *peer) waitFinished() *probe.Finished {
	p.tb.Helper()
	for {
		if f, ok := p.next().(*probe.Finished); ok {
			return f
		}
	}
}

// waitCache waits for news about the worker's cache, and skips other messages.
func (p *peer) waitCache() probe.Cache {
	p.tb.Helper()
	for {
		if m, ok := p.next().(probe.Cache); ok {
			return m
		}
	}
}

// blockFolder replaces a folder by a file, so that not even root can write there.
func blockFolder(t *testing.T, dir string) {
	t.Helper()
	if err := errors.Join(os.RemoveAll(dir), os.WriteFile(dir, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
}

func TestFiles(t *testing.T) {
	o := newOrigin(t)
	s := newServer(t, 1, withCache(t, nil))
	p, w := join(t, s, 7)
	if w.Cache == "" || w.Cache != s.FilesAddr() {
		t.Errorf("the Welcome names %q for the cache, which is at %q", w.Cache, s.FilesAddr())
	}
	a, b := o.add("a", "first "), o.add("b", "second")
	p.send(enqueue(1, "cat", "", a, b))
	if f := p.waitFinished(); f.Status != probe.Succeeded || string(f.Result) != "first second" ||
		f.Usage.Fetched != 12 || f.Usage.Fetch <= 0 {
		t.Errorf("the task ends as %+v", f)
	}
	b.Bytes = 0 // unknown
	p.send(enqueue(2, "cat", "", b))
	if f := p.waitFinished(); string(f.Result) != "second" || f.Usage.Fetched != 0 {
		t.Errorf("with a file from the cache the task ends as %+v", f)
	}
	p.send(reserve(3, launch(7, 3, "cat", "")))
	if f := p.waitFinished(); f.Status != probe.Succeeded || len(f.Result) > 0 {
		t.Errorf("a task without files ends as %+v", f)
	}
	if n := o.requests("a") + o.requests("b"); n != 2 {
		t.Errorf("%d requests for two files", n)
	}
	for name, want := range map[string]string{
		`phoebe_worker_files_total{outcome="miss"}`: "2", `phoebe_worker_files_total{outcome="hit"}`: "1",
		`phoebe_worker_fetched_bytes_total{from="http"}`: "12",
		"phoebe_worker_cache_bytes":                      "8192",
	} {
		wantMetric(t, s, name, want)
	}
	waitUntil(t, "nobody holds the files", func() bool { return s.store.cache.Stats().Held == 0 })
}

// A worker first asks the peers named for a file, and then the origin. Peers must have the same secret.
func TestFilesFromPeers(t *testing.T) {
	o := newOrigin(t)
	secret := func(text string) func(*Config) {
		return withCache(t, func(c *Config) { c.Secret = text })
	}
	meet := func(s *Server, secret string) *peer {
		p := dial(t, s)
		h := hello(7)
		h.Secret = secret
		p.send(h)
		expect[probe.Welcome](p)
		return p
	}
	first, second, stranger :=
		newServer(t, 1, secret("sesame")), newServer(t, 1, secret("sesame")), newServer(t, 1, secret("simsim"))
	big := o.add("big", strings.Repeat("0123456789", 100_000))
	p := meet(first, "sesame")
	p.send(enqueue(1, "cat", "", big))
	if f := p.waitFinished(); f.Status != probe.Succeeded {
		t.Fatalf("the task ends as %+v", f)
	}
	big.Peers = []string{"127.0.0.1:1", first.FilesAddr()}
	p = meet(second, "sesame")
	p.send(enqueue(1, "cat", "", big))
	if f := p.waitFinished(); f.Status != probe.Succeeded || f.Usage.Fetched != big.Bytes ||
		!bytes.Equal(f.Result, o.files["/big"]) {
		t.Errorf("with a file of a peer the task ends as %v %s, %d bytes, %+v", f.Status, f.Error, len(f.Result),
			f.Usage)
	}
	if n := o.requests("big"); n != 1 {
		t.Errorf("the origin was asked %d times", n)
	}
	wantMetric(t, first, `phoebe_worker_files_total{outcome="served"}`, "1")
	wantMetric(t, second, `phoebe_worker_fetched_bytes_total{from="peer"}`, fmt.Sprint(big.Bytes))
	wantMetric(t, second, "phoebe_worker_peer_failures_total", "1")

	p = meet(stranger, "simsim")
	p.send(enqueue(1, "cat", "", big))
	if f := p.waitFinished(); f.Status != probe.Succeeded {
		t.Errorf("without a peer of its secret the task ends as %v: %s", f.Status, f.Error)
	}
	if n := o.requests("big"); n != 2 {
		t.Errorf("the origin was asked %d times", n)
	}
}

func TestFilesThatCannotBeHad(t *testing.T) {
	o := newOrigin(t)
	root := t.TempDir()
	s := newServer(t, 1, withCache(t, func(c *Config) { c.CacheSize, c.FileRoots = 1<<20, []string{root} }))
	p, _ := join(t, s, 7)
	good := o.add("good", "good")
	wrong := o.add("wrong", "wrong")
	wrong.Digest[3] ^= 1
	long := o.add("long", "long")
	long.Bytes--
	for i, c := range []struct {
		file probe.File
		want []string
	}{
		{wrong, []string{"/wrong", "another sha256"}},
		{long, []string{"/long", "3"}},
		{probe.File{Digest: [32]byte{1}, URL: o.URL + "/none"}, []string{"/none", "404"}},
		{probe.File{Digest: [32]byte{1}, URL: o.URL + "/huge", Bytes: 2 << 20},
			[]string{"/huge", "2097152 bytes", "1048576"}},
		{probe.File{Digest: [32]byte{1}, URL: "file://" + root + "/none"}, []string{root + "/none", "no such file"}},
		{probe.File{Digest: [32]byte{1}, URL: "file:///etc/passwd"}, []string{"/etc/passwd", "not below"}},
	} {
		p.send(enqueue(probe.ResID(i+1), "cat", "", good, c.file))
		f := p.waitFinished()
		if f.Status != probe.NoInput || len(f.Result) > 0 || f.Run != 0 {
			t.Errorf("%s: the task ends as %+v", c.file.URL, f)
		}
		for _, want := range c.want {
			if !strings.Contains(f.Error, want) {
				t.Errorf("%s: the error %q does not tell %q", c.file.URL, f.Error, want)
			}
		}
	}
	waitUntil(t, "nobody holds files", func() bool { return s.store.cache.Stats().Held == 0 })

	bare := newServer(t, 1, nil)
	p, w := join(t, bare, 7)
	if w.Cache != "" || bare.FilesAddr() != "" {
		t.Errorf("a worker without a cache names the address %q", w.Cache)
	}
	p.send(enqueue(1, "echo", "", good))
	if f := p.waitFinished(); f.Status != probe.NoInput || !strings.Contains(f.Error, "--cache-dir") {
		t.Errorf("without a cache the task ends as %+v", f)
	}
}

// Files are fetched while other tasks run. Tasks without files pass tasks that wait for files. The fetch of a
// cancelled task ends.
func TestFilesAreFetchedBeforeTheTurn(t *testing.T) {
	o := newOrigin(t)
	o.hold = make(chan struct{})
	s := newServer(t, 1, withCache(t, nil))
	p, _ := join(t, s, 7)
	p.send(enqueue(1, "sleep", "1h"))
	for _, ok := p.next().(probe.Started); !ok; _, ok = p.next().(probe.Started) {
	}
	p.send(enqueue(2, "cat", "", o.add("a", "a")), enqueue(3, "cat", "", o.add("b", "b")))
	waitUntil(t, "both files are asked for", func() bool { return o.requests("a")+o.requests("b") == 2 })
	p.send(probe.Cancel{First: 2, Count: 1})
	waitUntil(t, "one of them is not wanted any more",
		func() bool { o.mu.Lock(); defer o.mu.Unlock(); return o.abandoned == 1 })
	close(o.hold)
	waitUntil(t, "the other one is there", func() bool { return s.store.cache.Stats().Entries == 1 })

	p.send(probe.Kill{Attempt: probe.AttemptID{Frontend: 7, Seq: 1}})
	if f := p.waitFinished(); f.Attempt.Seq != 3 || string(f.Result) != "b" || f.Usage.Fetched != 1 {
		t.Errorf("the task that waited ends as %+v", f)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := len(s.store.fetches); n != 0 || s.store.runningCount != 0 || len(s.store.origins) != 0 {
		t.Errorf("%d fetches are left, %d run, of %d origins", n, s.store.runningCount, len(s.store.origins))
	}
}

// countWaiting returns the number of waiting fetches. The mutex is held.
func (s *Server) countWaiting() (n int) {
	for _, q := range s.store.origins {
		n += len(q.waiting)
	}
	return n
}

// However many tasks need files from an origin, the worker fetches for at most maxFetches tasks at a time. A closing
// worker waits for no fetch.
func TestFetchesAreBounded(t *testing.T) {
	o := newOrigin(t)
	o.hold = make(chan struct{})
	s := newServer(t, 1, withCache(t, nil))
	p, _ := join(t, s, 7)
	const tasks = maxFetches + 20
	send := func(from int) {
		for i := from; i < from+tasks; i++ {
			text := fmt.Sprint(i)
			p.send(enqueue(probe.ResID(i), "cat", "", o.add(text, text)))
		}
	}
	running := func() (n, waiting int) {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.store.runningCount, s.countWaiting()
	}
	send(1)
	waitUntil(t, "all are known", func() bool { n, waiting := running(); return n+waiting == tasks })
	if n, _ := running(); n != maxFetches {
		t.Errorf("%d attempts have their files fetched at a time, want %d", n, maxFetches)
	}
	close(o.hold)
	for range tasks {
		if f := p.waitFinished(); f.Status != probe.Succeeded || string(f.Result) != fmt.Sprint(f.Attempt.Seq) {
			t.Fatalf("the task ends as %+v", f)
		}
	}
	o.hold = make(chan struct{})
	defer close(o.hold)
	send(1 + tasks)
	waitUntil(t, "all are known again", func() bool { n, waiting := running(); return n+waiting == tasks })
	closed := make(chan error, 1)
	go func() { closed <- s.Close() }()
	select {
	case err := <-closed:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(closeWait / 2):
		t.Error("the worker waits for fetches")
	}
}

// An origin that hangs delays neither files of other origins nor tasks whose files are in the cache.
func TestHungOrigin(t *testing.T) {
	hung, up := newOrigin(t), newOrigin(t)
	hung.hold = make(chan struct{})
	s := newServer(t, 1, withCache(t, nil))
	p, _ := join(t, s, 7)
	p.send(enqueue(1, "cat", "", up.add("cached", "cached")))
	p.waitFinished()
	const tasks = maxFetches + 20
	for i := range tasks {
		text := fmt.Sprint(i)
		p.send(enqueue(probe.ResID(2+i), "cat", "", hung.add(text, text)))
	}
	waitUntil(t, "all are known", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return len(s.store.fetches) == tasks
	})
	for i, name := range []string{"cached", "new"} {
		p.send(enqueue(probe.ResID(2+tasks+i), "cat", "", up.add(name, name)))
		if f := p.waitFinished(); string(f.Result) != name {
			t.Errorf("with the file %q the task ends as %+v", name, f)
		}
	}
	cached := up.add("cached", "cached") // the same content at the origin that hangs
	cached.URL = hung.URL + "/cached"
	p.send(enqueue(4+tasks, "cat", "", cached))
	if f := p.waitFinished(); string(f.Result) != "cached" {
		t.Errorf("with a cached file of the origin that hangs the task ends as %+v", f)
	}
	close(hung.hold)
	for range tasks {
		if f := p.waitFinished(); f.Status != probe.Succeeded {
			t.Fatalf("the task ends as %+v", f)
		}
	}
}

// If the origin does not answer, or answers with an error, each task fails with a reason, after a few tries in
// all. Waiting tasks of the same file do not try anew.
func TestOriginThatFails(t *testing.T) {
	const tasks = maxFetches + 20
	for _, c := range []struct {
		name string
		mute bool // silent; otherwise it answers 503
		says string
	}{{"mute", true, "sent nothing for"}, {"overloaded", false, "503"}} {
		t.Run(c.name, func(t *testing.T) {
			var asked atomic.Int32
			hold := make(chan struct{})
			o := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				asked.Add(1)
				if c.mute {
					<-r.Context().Done()
					return
				}
				<-hold
				w.WriteHeader(http.StatusServiceUnavailable)
			}))
			defer o.Close()
			s := newServer(t, 1, withCache(t, func(cfg *Config) {
				cfg.FileTimeout = 10 * time.Second
				if c.mute {
					cfg.FileTimeout = 50 * time.Millisecond
				}
			}))
			p, _ := join(t, s, 7)
			file := probe.File{Digest: [32]byte{1}, URL: o.URL + "/file", Bytes: 5}
			n := tasks
			if c.mute {
				n = 1
			}
			for i := range n {
				p.send(enqueue(probe.ResID(i+1), "cat", "", file))
			}
			if !c.mute {
				waitUntil(t, "all are known", func() bool {
					s.mu.Lock()
					defer s.mu.Unlock()
					return s.store.runningCount+s.countWaiting() == n
				})
				close(hold)
			}
			for range n {
				f := p.waitFinished()
				if f.Status != probe.NoInput {
					t.Fatalf("the task ends as %+v", f)
				}
				for _, want := range []string{file.URL, c.says, "tried 3 times", "?"} {
					if !strings.Contains(f.Error, want) {
						t.Errorf("the error %q does not tell %q", f.Error, want)
					}
				}
			}
			// On a busy machine, a request that the worker has given up may never reach the mute origin.
			if n := asked.Load(); n > 3 || n < 3 && !c.mute {
				t.Errorf("the origin was asked %d times, want 3", n)
			}
		})
	}
}

// A task whose files or outputs cannot be written fails because of the disk. The worker runs on, and tells its
// frontends about the cache until the folder can be written again.
func TestUnwritableCache(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "cache")
	s := newServer(t, 1, withCache(t, func(c *Config) {
		c.CacheDir = dir
		if err := c.Registry.Register("write", func(ctx context.Context, _ []byte) ([]byte, error) {
			w, err := exec.Output(ctx, 0)
			if err != nil {
				return nil, err
			}
			_, err = w.Write(make([]byte, 1<<20))
			return nil, fmt.Errorf("my own words: %v", errors.Join(err, w.Close()))
		}); err != nil {
			t.Fatal(err)
		}
	}))
	p, _ := join(t, s, 7)
	blockFolder(t, dir)
	p.send(enqueue(1, "write", ""))
	if f := p.waitFinished(); f.Status != probe.Failed || !f.DiskFailed || f.Retry != probe.Elsewhere ||
		!strings.Contains(f.Error, "cannot write to the cache") {
		t.Errorf("the task ends as %+v", f)
	}
	late, _ := join(t, s, 8)
	if m := late.waitCache(); m.Problem == "" {
		t.Error("a frontend hears of no problem")
	}
	p.send(enqueue(2, "cat", "", newOrigin(t).add("a", "a")))
	if f := p.waitFinished(); f.Status != probe.NoInput || !f.DiskFailed || f.Retry != probe.Elsewhere {
		t.Errorf("a task with a file ends as %+v", f)
	}
	p.send(enqueue(3, "echo", "still here"))
	if f := p.waitFinished(); string(f.Result) != "still here" {
		t.Errorf("a task without files ends as %+v", f)
	}
	if err := os.Remove(dir); err != nil { // then the cache makes a new folder
		t.Fatal(err)
	}
	if m := late.waitCache(); m.Problem != "" {
		t.Errorf("a frontend hears %+v", m)
	}
}

func TestAnnouncesFiles(t *testing.T) {
	t.Parallel()
	h, o := newFakeFrontend(t, "127.0.0.1:0", ""), newOrigin(t)
	a := o.add("a", "a")
	change := withCache(t, func(c *Config) { c.Name, c.Join, c.Speed = "w", []string{h.addr}, 0.5 })
	s := newServer(t, 1, change)
	row := h.waitForBeat(t, "a heartbeat with the profile", hasProfile).Row
	if row.Speed != 0.5 || row.Files != nil {
		t.Errorf("an idle worker's row is %+v", row)
	}
	p, _ := join(t, s, 7)
	began := time.Now()
	p.send(enqueue(1, "cat", "", a))
	p.waitFinished()
	has := func(b *rows.Heartbeat) bool { return b.Row.Files.Has(rows.FileIDOf(a.Digest)) }
	if row = h.waitForBeat(t, "the announced file", has).Row; len(*row.Files) != 1 {
		t.Errorf("%d files are announced", len(*row.Files))
	}
	// A second change is not announced at once.
	p.send(enqueue(2, "cat", "", o.add("b", "b")))
	p.waitFinished()
	rounds := row.Seq
	h.waitForBeat(t, "two more heartbeats", func(b *rows.Heartbeat) bool { return b.Row.Seq >= rounds+2 })
	h.mu.Lock()
	if last := h.beats[len(h.beats)-1].Row; last.FilesRev != 1 && time.Since(began) < filesEvery {
		t.Errorf("a second later other files are announced: %+v", last)
	}
	h.mu.Unlock()
}

// A file that a task has written is announced, although the worker has fetched no file since.
func TestWrittenFilesAreRecent(t *testing.T) {
	s := newServer(t, 1, withCache(t, func(c *Config) {
		c.MaxResult = 1000
		if err := c.Registry.Register("blob", func(context.Context, []byte) ([]byte, error) {
			return make([]byte, 2000), nil
		}); err != nil {
			t.Fatal(err)
		}
	}))
	p, _ := join(t, s, 7)
	s.recentFiles()
	m := enqueue(1, "blob", "")
	m.Launch.Context = &probe.Context{Large: true}
	p.send(m)
	f := p.waitFinished()
	if ids, changed := s.recentFiles(); f.Status != probe.Succeeded || !changed || len(ids) != 1 {
		t.Errorf("after a task that ends as %+v, the files have changed: %t, to %v", f, changed, ids)
	}
}

// Silent connections keep no peer from a worker's files, and a peer may not guess without end.
func TestStrangersAtFiles(t *testing.T) {
	s := newServer(t, 1, withCache(t, func(c *Config) { c.Secret = "sesame" }))
	ask := func(client *http.Client, secret string) (status int, last bool) {
		t.Helper()
		req, err := http.NewRequest(http.MethodGet, "http://"+s.FilesAddr()+"/files/", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Phoebe-Secret", secret)
		res, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		if _, err := io.Copy(io.Discard, res.Body); err != nil {
			t.Fatal(err)
		}
		return res.StatusCode, res.Close
	}
	known := &http.Client{Transport: &http.Transport{}}
	defer known.CloseIdleConnections()
	ask(known, "sesame")
	for range maxPeerConns + 10 {
		c, err := net.Dial("tcp", s.FilesAddr())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
	}
	guesser := &http.Client{Transport: &http.Transport{}}
	defer guesser.CloseIdleConnections()
	for i := range 3 {
		if status, last := ask(guesser, "simsim"); status != http.StatusUnauthorized || last != (i == 2) {
			t.Errorf("wrong secret %d: status %d, the last of its connection: %v", i, status, last)
		}
	}
	if status, _ := ask(known, "sesame"); status != http.StatusBadRequest {
		t.Errorf("status %d for a known peer", status)
	}
}

func TestFileSettings(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*Config)
		want   []string // nil: no error
	}{
		{"nothing but a cache", func(c *Config) { c.CacheDir = "x" }, nil},
		{"no cache", func(c *Config) { c.FileHosts = []string{"h"} }, []string{"no cache"}},
		{"small", func(c *Config) { c.CacheDir, c.CacheSize = "x", 7 }, []string{"7 bytes"}},
		{"root", func(c *Config) { c.CacheDir, c.FileRoots = "x", []string{"y"} }, []string{`"y"`, "absolute"}},
		{"host", func(c *Config) { c.CacheDir, c.FileHosts = "x", []string{"http://y"} }, []string{`"http://y"`}},
		{"address", func(c *Config) { c.CacheDir, c.FilesListen = "x", "y" }, []string{`"y"`, "host:port"}},
		{"open to others", func(c *Config) { c.CacheDir, c.FilesListen = "x", "10.1.2.3:0" },
			[]string{"10.1.2.3", "secret"}},
		{"with a secret", func(c *Config) { c.CacheDir, c.FilesListen, c.Secret = "x", "10.1.2.3:0", "s" }, nil},
		{"where none reaches it", func(c *Config) { c.CacheDir, c.Listen, c.Secret = "x", ":0", "s" },
			[]string{"advertise"}},
		{"advertised", func(c *Config) { c.CacheDir, c.Listen, c.Secret, c.Advertise = "x", ":0", "s", "h:7" }, nil},
		{"advertised in vain", func(c *Config) { c.Advertise = "h:7" }, []string{"no frontends"}},
		{"slow", func(c *Config) { c.Speed = 0.001 }, []string{"speed is 0.001"}},
	} {
		cfg := Config{Listen: "127.0.0.1:0"}
		c.change(&cfg)
		err := cfg.Validate()
		if (err == nil) != (c.want == nil) {
			t.Errorf("%s: %v", c.name, err)
		}
		for _, want := range c.want {
			if err != nil && !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v does not tell %q", c.name, err, want)
			}
		}
	}

	// Two workers cannot share a folder.
	dir := filepath.Join(t.TempDir(), "cache")
	first := newServer(t, 1, func(c *Config) { c.CacheDir = dir })
	second, err := New(Config{Listen: "127.0.0.1:0", CacheDir: dir, Goroutines: withGoroutines})
	if err != nil {
		t.Fatal(err)
	}
	if err := second.Start(); err == nil || !strings.Contains(err.Error(), dir) {
		t.Errorf("a second worker of one folder starts with %v", err)
	}
	if err := second.Close(); err != nil {
		t.Error(err)
	}
	if err := first.Close(); err != nil {
		t.Error(err)
	}
	leftover, err := os.ReadDir(dir)
	if err != nil || slices.ContainsFunc(leftover,
		func(e os.DirEntry) bool { return strings.HasPrefix(e.Name(), "partial") }) {
		t.Errorf("in its folder a worker leaves %v, %v", leftover, err)
	}
}
