package serve

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/phoebe-sched/phoebe/probe"
	"github.com/phoebe-sched/phoebe/probe/door"
	"github.com/phoebe-sched/phoebe/probe/gossip/rows"
	"github.com/phoebe-sched/phoebe/probe/identity"
	"github.com/phoebe-sched/phoebe/worker"
	"github.com/phoebe-sched/phoebe/worker/exec"
	"github.com/phoebe-sched/phoebe/worker/files"
)

const (
	defaultCacheSize = 10 << 30 // bytes

	// maxFetches is the number of attempts that have files fetched from an origin at the same time, and maxAllFetches
	// the number from all origins. Other attempts wait in the order of arrival, unless the cache has their files. For
	// the number of files see files.Options.Parallel.
	maxFetches    = 64
	maxAllFetches = 16 * maxFetches

	// maxPeerConns bounds the connections of other workers that read files here, with strangers.
	maxPeerConns = 256
)

// store is a server's part in files. The server's mutex guards the fields from fetches to closed.
type store struct {
	cache      *files.Cache // nil: this worker takes no task that needs files
	addr       string       // host:port, for other workers
	http       *http.Server
	goroutines sync.WaitGroup // of fetches, releases and the listener

	fetches      map[probe.AttemptID]*fetch
	origins      map[string]*originQueue // by fetch.origin; each has fetches
	runningCount int                     // fetches of all origins
	usedChanged  atomic.Bool             // recentFiles may have changed
	closed       bool

	statsMu sync.Mutex // guards the transfer of the cache's counters to the metrics
}

// originQueue is the fetches from an origin. An origin that hangs does not hold up the others.
type originQueue struct {
	running int
	waiting []*fetch // to be started, oldest first; some may be released already
}

// fetch is the transfer of an attempt's files, from the core's Fetch to its Release.
type fetch struct {
	attempt probe.AttemptID
	tenant  string
	files   []probe.File
	origin  string // host of the first file's URL, or of its first peer
	askedAt time.Time
	ctx     context.Context
	cancel  context.CancelFunc

	// The server's mutex guards these.
	released  bool // Release came
	heldFiles []*files.Held
	paths     []string
}

// openStore opens the cache, and serves it to other workers.
func (s *Server) openStore() error {
	cfg := &s.cfg
	if cfg.CacheDir == "" {
		return nil
	}
	options := cfg.fileOptions()
	options.Logger, options.OnDisk = s.log, s.noteDisk
	cache, err := files.Open(cfg.CacheDir, cfg.CacheSize, options)
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", cfg.filesListen())
	if err != nil {
		return errors.Join(fmt.Errorf("serve files: %w", err), cache.Close())
	}
	host, port, _ := net.SplitHostPort(l.Addr().String())
	if cfg.Advertise != "" {
		host, _, _ = net.SplitHostPort(cfg.Advertise)
	}
	handler := cache.Handler()
	s.store.cache, s.store.addr = cache, net.JoinHostPort(host, port)
	s.store.usedChanged.Store(true)
	s.store.http = &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			defer s.followFiles() // even if the handler panics
			handler.ServeHTTP(w, r)
		}),
		ConnContext:       door.ConnContext,
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       5 * time.Second,
		IdleTimeout:       time.Minute,
		MaxHeaderBytes:    probe.MaxHello,
		ErrorLog:          slog.NewLogLogger(s.log.Handler(), slog.LevelDebug), // errors on connections of peers
	}
	peers := door.New(door.Rule{MaxConns: maxPeerConns,
		Closed: func(door.Reason) { s.meters.countFault("too_many_peers") }})
	s.store.goroutines.Go(func() {
		if err := s.store.http.Serve(
			peers.Listen(cfg.Keys.Listen(l, identity.Worker|identity.Frontend)),
		); !errors.Is(err, http.ErrServerClosed) {
			s.fail(fmt.Errorf("serve files: %w", err))
		}
	})
	return nil
}

// closeStore stops all fetches and the listener, and closes the cache. The core must have got its last event.
func (s *Server) closeStore() error {
	s.mu.Lock()
	for _, f := range s.store.fetches { // of a broken core; otherwise the end of the links has released them
		f.cancel()
	}
	clear(s.store.origins)
	s.store.closed = true
	s.mu.Unlock()
	if s.store.cache == nil {
		s.store.goroutines.Wait()
		return nil
	}
	err := s.store.http.Close()
	s.store.goroutines.Wait()
	s.followFiles()
	return errors.Join(err, s.store.cache.Close())
}

// FilesAddr returns the address where other workers read this worker's cache, after Start; "" without a cache.
func (s *Server) FilesAddr() string { return s.store.addr }

// queueFetch queues the fetch of an attempt's files. The mutex is held.
func (s *Server) queueFetch(a *worker.Fetch, now time.Time) {
	f := &fetch{attempt: a.Attempt, tenant: a.Tenant, files: a.Files, askedAt: now, origin: originOf(a.Files)}
	f.ctx, f.cancel = context.WithCancel(context.Background())
	s.store.fetches[f.attempt] = f
	if !s.store.closed {
		s.store.goroutines.Go(func() { s.beginFetch(f) }) // the cache may be busy with its disk
	}
}

// beginFetch hands out the files of f if the cache has all files. Otherwise f waits for the origin.
func (s *Server) beginFetch(f *fetch) {
	if s.store.cache == nil || s.store.cache.HasAll(f.files) {
		s.runFetch(f, nil)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.store.closed {
		return
	}
	q := s.store.origins[f.origin]
	if q == nil {
		q = &originQueue{}
		s.store.origins[f.origin] = q
	}
	q.waiting = append(q.waiting, f)
	s.startFetches(f.origin)
}

// originOf returns the origin of the first file.
func originOf(files []probe.File) string {
	if len(files) == 0 {
		return ""
	}
	if u, err := url.Parse(files[0].URL); err == nil && u.Host != "" {
		return u.Host
	}
	if peers := files[0].Peers; len(peers) > 0 {
		return peers[0]
	}
	return ""
}

// noteTenant notes the tenant of a task that has ended, for the files that the task has read and written.
func (st *store) noteTenant(tenant string, inputs []probe.Passed, outputs []probe.Output) {
	for i := range inputs {
		if inputs[i].File {
			st.cache.NoteTenant(inputs[i].Digest, tenant)
		}
	}
	for i := range outputs {
		if outputs[i].File {
			st.usedChanged.Store(true)
			st.cache.NoteTenant(outputs[i].Digest, tenant)
		}
	}
}

// Create implements exec.Store.
func (st *store) Create() (exec.Draft, error) {
	d, err := st.cache.Create()
	if err != nil {
		return nil, err // a nil *files.Draft would be an exec.Draft that is not nil
	}
	return d, nil
}

// Fetch implements exec.Store.
func (st *store) Fetch(ctx context.Context, f probe.File) (path string, release func(), err error) {
	held, err := st.cache.Fetch(ctx, f, peersOf(f))
	if err != nil {
		return "", nil, err
	}
	st.usedChanged.Store(true)
	return held.Path, held.Release, nil
}

// IsDiskFailure implements exec.Store.
func (st *store) IsDiskFailure(err error) bool { return files.IsDiskFailure(err) }

// noteDisk has the core tell frontends whether the cache takes new files.
func (s *Server) noteDisk(problem error) {
	defer s.recoverPanic("reporting the cache", nil)
	ev := worker.CacheChanged{}
	if problem != nil {
		ev.Problem = problem.Error()
	}
	s.withCore(nil, func(now time.Time) { s.stepCore(now, ev) })
}

// startFetches starts waiting fetches of an origin, as many as may run. The mutex is held.
func (s *Server) startFetches(origin string) {
	st := &s.store
	q := st.origins[origin]
	for len(q.waiting) > 0 && q.running < maxFetches && st.runningCount < maxAllFetches {
		f := q.waiting[0]
		q.waiting[0] = nil
		q.waiting = q.waiting[1:]
		if f.released {
			continue
		}
		q.running++
		st.runningCount++
		st.goroutines.Go(func() { s.runFetch(f, q) })
	}
	if q.running+len(q.waiting) == 0 {
		delete(st.origins, origin)
	}
}

var errNoCache = errors.New("the task needs files, and this worker has no cache: start the worker with --cache-dir")

// runFetch fetches the files of f, and reports the outcome. f counts in q, unless q is nil.
func (s *Server) runFetch(f *fetch, q *originQueue) {
	if s.store.cache == nil {
		s.endFetch(f, q, nil, errNoCache)
		return
	}
	held, err := s.store.cache.FetchAll(f.ctx, f.files, peersOf)
	if err == nil {
		for i := range f.files {
			s.store.cache.NoteTenant(f.files[i].Digest, f.tenant)
		}
	}
	s.endFetch(f, q, held, err)
	s.followFiles()
}

// peersOf returns the URLs of the workers that have a file, as a frontend says.
func peersOf(f probe.File) []string {
	urls := make([]string, len(f.Peers))
	for i, addr := range f.Peers {
		urls[i] = "http://" + addr
	}
	return urls
}

// endFetch reports the outcome of a fetch to the core, and starts waiting fetches. If a file is unreachable, waiting
// fetches of the same file fail at once.
func (s *Server) endFetch(f *fetch, q *originQueue, held []*files.Held, err error) {
	defer s.recoverPanic("ending a fetch", nil)
	released := false
	s.withCore(nil, func(now time.Time) {
		s.store.usedChanged.Store(true)
		released = f.released
		s.reportFetched(f, held, err, now)
		if q == nil {
			return
		}
		wasFull := s.store.runningCount == maxAllFetches
		q.running--
		s.store.runningCount--
		if e, ok := errors.AsType[*files.Error](err); ok && e.Reason == files.Unreachable {
			// A fetch of the same file need not wait as long again.
			waiting := q.waiting
			q.waiting = nil
			for _, f := range waiting {
				if f.needsFile(e.File) {
					s.reportFetched(f, nil, err, now)
				} else {
					q.waiting = append(q.waiting, f)
				}
			}
		}
		if s.store.closed {
			return
		}
		if wasFull {
			for origin := range s.store.origins { // in any order, so that no origin is last again and again
				s.startFetches(origin)
			}
		} else {
			s.startFetches(f.origin)
		}
	})
	if released {
		releaseFiles(held)
	}
}

// needsFile reports whether f needs file, from the same sources.
func (f *fetch) needsFile(file probe.File) bool {
	return slices.ContainsFunc(f.files, func(g probe.File) bool {
		return g.Digest == file.Digest && g.URL == file.URL && slices.Equal(g.Peers, file.Peers)
	})
}

// reportFetched reports the outcome of a fetch to the core, unless the fetch was released. The mutex is held.
func (s *Server) reportFetched(f *fetch, held []*files.Held, err error, now time.Time) {
	if f.released {
		return
	}
	f.heldFiles = held
	ev := worker.Fetched{Attempt: f.attempt, Took: now.Sub(f.askedAt)}
	for _, h := range held {
		ev.Bytes += h.Fetched
		f.paths = append(f.paths, h.Path)
	}
	if err != nil {
		ev.Err, ev.DiskFailed = err.Error(), files.IsDiskFailure(err)
		s.log.Warn("a task's files cannot be had", "worker", s.cfg.Name, "attempt", f.attempt.String(), "err", err)
	}
	s.stepCore(now, ev)
}

// releaseFetch releases the files of an attempt, or stops their fetch. The mutex is held.
func (s *Server) releaseFetch(id probe.AttemptID) {
	f := s.store.fetches[id]
	if f == nil {
		return
	}
	delete(s.store.fetches, id)
	f.released = true
	f.cancel()
	if held := f.heldFiles; held != nil && !s.store.closed {
		s.store.goroutines.Go(func() { releaseFiles(held) }) // the cache may be busy with its disk
	}
}

func releaseFiles(held []*files.Held) {
	for _, h := range held {
		h.Release()
	}
}

// filePaths returns the paths of an attempt's files; nil without a fetch. The mutex is held.
func (s *Server) filePaths(id probe.AttemptID) []string {
	if f := s.store.fetches[id]; f != nil {
		return f.paths
	}
	return nil
}

// followFiles updates the metrics from the cache.
func (s *Server) followFiles() {
	s.store.statsMu.Lock()
	defer s.store.statsMu.Unlock()
	stats := s.store.cache.Stats()
	s.meters.followFiles(&stats)
}

// recentFiles returns the most recently used files in the cache. If the files have not changed since the last call,
// changed is false and ids is nil.
func (s *Server) recentFiles() (ids []rows.FileID, changed bool) {
	if !s.store.usedChanged.Swap(false) {
		return nil, false
	}
	for _, digest := range s.store.cache.Digests(rows.MaxFiles) {
		ids = append(ids, rows.FileIDOf(digest))
	}
	return ids, true
}

func (c *Config) fileOptions() files.Options {
	return files.Options{
		Roots: c.FileRoots, Hosts: c.FileHosts, Private: c.FilePrivate, Secrets: c.connSecrets(), Keys: c.Keys,
		Timeout: c.FileTimeout, Public: c.Processes.FirstUID != 0,
		Serve: c.MaxFilesSent, ServeParts: c.MaxResultsSent,
	}
}

// filesListen returns the address to serve the cache on.
func (c *Config) filesListen() string {
	host, _, _ := net.SplitHostPort(c.Listen)
	return cmp.Or(c.FilesListen, net.JoinHostPort(host, "0"))
}

// checkFiles reports errors in the settings of the cache and its listener.
func (c *Config) checkFiles() (errs []error) {
	wrong := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if c.CacheDir == "" {
		if c.FilesListen != "" || len(c.FileRoots)+len(c.FileHosts)+len(c.FilePrivate) > 0 {
			wrong("settings for files, but no cache: name a folder for the cache")
		}
		return errs
	}
	if c.CacheSize < 1<<20 {
		wrong("a cache of %d bytes: it must have at least 1 MiB", c.CacheSize)
	}
	if err := c.fileOptions().Validate(); err != nil {
		errs = append(errs, err)
	}
	listen := c.filesListen()
	addr, err := net.ResolveTCPAddr("tcp", listen)
	switch {
	case err != nil:
		wrong("serve files on %q: %w: want host:port, such as 127.0.0.1:7421", listen, err)
	case c.Secrets.Tell() == "" && c.Keys == nil && !addr.IP.IsLoopback():
		wrong("serve files on %q: anyone on the network could read the cache: give certificates (--tls-dir), "+
			"or set a secret (--secret-file) as at the other workers, or listen on 127.0.0.1", listen)
	case c.Advertise == "" && (addr.IP == nil || addr.IP.IsUnspecified()):
		wrong("serve files on %q: other workers cannot reach this worker at that address: "+
			"set the address to advertise", listen)
	}
	return errs
}
