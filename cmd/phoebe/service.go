package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/VictoriaMetrics/metrics"

	"github.com/phoebe-sched/phoebe/frontend/client/admin"
	"github.com/phoebe-sched/phoebe/frontend/ui"
	"github.com/phoebe-sched/phoebe/probe/audit"
	"github.com/phoebe-sched/phoebe/probe/door"
	"github.com/phoebe-sched/phoebe/probe/exposition"
	"github.com/phoebe-sched/phoebe/probe/identity"
)

// serviceFlags are flags of all commands that serve until a signal.
type serviceFlags struct {
	Admin             string        `placeholder:"HOST:PORT" help:"Address of the admin port: /metrics (Prometheus), /livez, /readyz, /debug/pprof, and at frontends the web page /ui/. Without a host, loopback only. Requests from pages of other sites are refused. Default: off; for dev a free port."`
	AdminHosts        []string      `placeholder:"NAME" help:"Names by which browsers reach --admin, such as those of a proxy. A request to another name is refused, unless the name is localhost, an IP address, the host of --admin or the machine's name. With --tls-dir, names count only on loopback. Default: none."`
	AdminTokenFile    string        `placeholder:"FILE" help:"File with a token for changes at --admin (such as cancel on the web page) and profiles, sent as a bearer token or a password. Default: none, the web page is read-only."`
	MetricsHistograms string        `default:"le" enum:"le,vmrange,both" help:"Buckets of histograms in /metrics: ${enum}. Prometheus needs le; VictoriaMetrics reads either, and vmrange is finer. Default ${default}."`
	AuditLog          string        `placeholder:"FILE" help:"Append a line of JSON to this file for each submit, cancel, explain, change through --admin, drain, reload of keys, and refusal, and for the first events of a job and the first read of a file: caller, address, action and decision. Default: none."`
	DrainTimeout      time.Duration `default:"30s" placeholder:"D" help:"How long running work may take to end after SIGTERM, SIGINT or SIGHUP. A second signal ends the process at once. Default ${default}."`
}

// service is a frontend, a worker or a cluster, as the process sees it.
type service struct {
	ready    func() error                    // nil while the service should get work
	warning  func() string                   // a problem of a ready service, or ""; nil: never a problem
	failed   func(ctx context.Context) error // waits until the service fails by itself
	delay    time.Duration                   // time between not ready and drain
	drain    func(ctx context.Context) error // waits until running work has ended
	close    func() error
	admin    map[string]http.HandlerFunc // further handlers of the admin port, by pattern
	page     *admin.Client               // client for the web page; nil: no page
	notePage func(page string)           // gets the page's address; nil: nobody asks
}

// runService runs s, which is already started, until ctx ends or s fails. When ctx ends, s drains.
func (f *serviceFlags) runService(ctx context.Context, log *slog.Logger, set *metrics.Set, peers trust,
	s service) (err error) {
	defer func() {
		if s.page != nil {
			err = errors.Join(err, s.page.Close())
		}
		err = errors.Join(err, s.close(), peers.audit.Close())
	}()
	var draining atomic.Bool
	if f.Admin != "" {
		admin, err := f.startAdmin(log, set, peers, s, &draining)
		if err != nil {
			return err
		}
		defer admin.Close()
	}
	failed := make(chan error, 1)
	watch, stop := context.WithCancel(context.Background())
	defer stop()
	peers.watchFiles(watch, log)
	go func() { failed <- s.failed(watch) }()
	if err := notifySystemd("READY=1"); err != nil {
		log.Warn("systemd was not told that the service is ready", "err", err)
	}
	if every := watchdogInterval(); every > 0 {
		go feedWatchdog(s.ready, every, watch.Done())
	}
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	defer tellOfDrain(ctx, log, f.DrainTimeout)()
	draining.Store(true)
	peers.audit.Note(audit.Entry{What: "drain", Name: context.Cause(ctx).Error()}, nil)
	_ = notifySystemd("STOPPING=1") // the process ends, whether or not systemd knows
	if s.delay > 0 && f.Admin != "" {
		log.Info("not ready any more, still accepts jobs", "reason", context.Cause(ctx).Error(), "delay",
			s.delay.String())
		select {
		case <-time.After(s.delay):
		case err := <-failed:
			return err
		}
	}
	log.Info("drains", "reason", context.Cause(ctx).Error(), "timeout", f.DrainTimeout.String())
	until, cancel := context.WithTimeoutCause(context.Background(), f.DrainTimeout,
		fmt.Errorf("not drained within --drain-timeout %v", f.DrainTimeout))
	defer cancel()
	return s.drain(until)
}

// tellOfDrain logs why the process goes on a second after an interrupt has ended ctx: mostly somebody waits at a
// terminal. The caller calls the result when the drain has ended.
func tellOfDrain(ctx context.Context, log *slog.Logger, timeout time.Duration) (stop func() bool) {
	var cause *interrupted
	if !errors.As(context.Cause(ctx), &cause) || cause.signal != syscall.SIGINT {
		return func() bool { return false }
	}
	return time.AfterFunc(time.Second, func() {
		log.Warn("jobs and tasks may still end: a second interrupt ends the process at once", "drain-timeout",
			timeout.String())
	}).Stop
}

// checkAdmin returns an error if --admin is given and is no address.
func (f *serviceFlags) checkAdmin() error {
	if f.Admin == "" {
		return nil
	}
	if _, err := net.ResolveTCPAddr("tcp", f.Admin); err != nil {
		return fmt.Errorf("--admin %q: %w: want host:port, or :port for loopback", f.Admin, err)
	}
	return nil
}

// checkFiles checks that the token file has a token, and that the audit log's folder exists.
func (f *serviceFlags) checkFiles() error {
	_, err := f.adminToken()
	if f.AuditLog != "" {
		if dir, none := os.Stat(filepath.Dir(f.AuditLog)); none != nil {
			err = errors.Join(err, fmt.Errorf("--audit-log: %w: make the folder, or name a file in another folder",
				none))
		} else if !dir.IsDir() {
			err = errors.Join(err, fmt.Errorf("--audit-log: %s is no folder: name a file in a folder",
				filepath.Dir(f.AuditLog)))
		}
	}
	return err
}

// startAdmin serves the admin port, for operators and monitors.
func (f *serviceFlags) startAdmin(log *slog.Logger, set *metrics.Set, peers trust, served service,
	draining *atomic.Bool) (*http.Server, error) {
	token, err := f.adminToken()
	if err != nil {
		return nil, err
	}
	host, port, err := net.SplitHostPort(f.Admin)
	if err != nil {
		return nil, err
	}
	if host == "" {
		host = "127.0.0.1"
	}
	l, err := net.Listen("tcp", net.JoinHostPort(host, port))
	if err != nil {
		return nil, fmt.Errorf("--admin %s: %w", f.Admin, err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
		if err := exposition.Write(w, set, versionText(), exposition.Histograms(f.MetricsHistograms)); err != nil {
			log.Debug("metrics were not read to the end", "err", err)
		}
	})
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if draining.Load() { // 404, not 503: balancers keep open connections
			http.Error(w, "draining", http.StatusNotFound)
			return
		}
		if err := served.ready(); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "ok")
		if served.warning == nil {
			return
		}
		if text := served.warning(); text != "" {
			fmt.Fprintln(w, "warning:", text)
		}
	})
	for pattern, handle := range served.admin {
		mux.HandleFunc(pattern, handle)
	}
	if served.page != nil {
		mux.Handle(ui.Path, ui.New(served.page, token))
		mux.HandleFunc("GET "+strings.TrimSuffix(ui.Path, "/"), func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", strings.TrimPrefix(ui.Path, "/")) // relative: a proxy may put a path in front
			w.WriteHeader(http.StatusMovedPermanently)
		})
	}
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	s := &http.Server{
		Handler: boundRequests(peers.auditRequests(refuseForeign(noteToken(operatorsOnly(requireToken(mux, token),
			peers.keys), token), newAdminNames(l.Addr(), host, f.AdminHosts, peers.keys != nil)))),
		ReadHeaderTimeout: adminReadTime, IdleTimeout: time.Minute, MaxHeaderBytes: 16 << 10,
		ConnContext: adminConnContext, ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
	go func() {
		err := s.Serve(newAdminDoor().Listen(peers.keys.Listen(l, identity.Anyone)))
		if !errors.Is(err, http.ErrServerClosed) {
			log.Error("the admin port fails", "err", err)
		}
	}()
	log.Info("admin port serves", "address", l.Addr().String())
	if served.notePage != nil {
		scheme := "http"
		if peers.keys != nil {
			scheme = "https"
		}
		served.notePage(fmt.Sprintf("%s://%v%s", scheme, l.Addr(), ui.Path))
	}
	return s, nil
}

// adminToken returns the token of --admin-token-file, or an empty token without the flag.
func (f *serviceFlags) adminToken() (ui.Token, error) {
	if f.AdminTokenFile == "" {
		return "", nil
	}
	text, err := os.ReadFile(f.AdminTokenFile)
	if err != nil {
		return "", usageError(fmt.Errorf("--admin-token-file: %w", err))
	}
	token := strings.TrimSpace(string(text))
	if token == "" {
		return "", usageError(fmt.Errorf("--admin-token-file: %s is empty: write the token into the file",
			f.AdminTokenFile))
	}
	return ui.Token(token), nil
}

// requireToken lets requests that change something, or take a profile, through only with the token. An empty token
// lets everything through. The web page asks for the token by itself, without the dialog of the browser.
func requireToken(h http.Handler, token ui.Token) http.Handler {
	if token == "" {
		return h
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		looks := (r.Method == http.MethodGet || r.Method == http.MethodHead) &&
			!strings.HasPrefix(r.URL.Path, "/debug/")
		if !looks && !strings.HasPrefix(r.URL.Path, ui.Path) && !token.Shown(r) {
			w.Header().Set("WWW-Authenticate", `Basic realm="phoebe"`)
			http.Error(w, "the token of --admin-token-file is needed, as a bearer token or a password",
				http.StatusUnauthorized)
			return
		}
		h.ServeHTTP(w, r)
	})
}

// connKey is the key of a request's connection, in the request's context.
type connKey struct{}

// auditRequests notes requests that change something, and refused requests, in the audit log.
func (t trust) auditRequests(h http.Handler) http.Handler {
	if t.audit == nil {
		return h
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s := &statusWriter{ResponseWriter: w, status: http.StatusOK}
		h.ServeHTTP(s, r)
		refused := s.status == http.StatusUnauthorized || s.status == http.StatusForbidden ||
			s.status == http.StatusMisdirectedRequest
		if looks := r.Method == http.MethodGet || r.Method == http.MethodHead; looks && !refused {
			return
		}
		var err error
		if s.status >= http.StatusBadRequest {
			err = errors.New(http.StatusText(s.status))
		}
		who := t.keys.Peer(r.Context().Value(connKey{}).(net.Conn))
		entry := audit.Entry{What: r.Method + " " + r.URL.Path, Who: who.String(), From: r.RemoteAddr}
		if refused && who.Roles == 0 {
			t.audit.NoteStranger(entry, err)
		} else {
			t.audit.Note(entry, err)
		}
	})
}

// statusWriter remembers the status of an answer.
type statusWriter struct {
	http.ResponseWriter
	status int
}

func (s *statusWriter) WriteHeader(status int) {
	s.status = status
	s.ResponseWriter.WriteHeader(status)
}

// Unwrap is for http.ResponseController.
func (s *statusWriter) Unwrap() http.ResponseWriter { return s.ResponseWriter }

// operatorsOnly refuses requests without an operator's certificate, except for /livez and /readyz. Without TLS
// everything passes.
func operatorsOnly(h http.Handler, keys *identity.Keys) http.Handler {
	if keys == nil {
		return h
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id := keys.Peer(r.Context().Value(connKey{}).(net.Conn))
		if check := r.URL.Path == "/livez" || r.URL.Path == "/readyz"; !check && id.Roles&identity.Operator == 0 {
			http.Error(w, "only for operators: use a certificate with the role operator", http.StatusForbidden)
			return
		}
		if id.Roles&identity.Operator != 0 {
			door.GuestOf(r.Context()).MarkKnown()
		}
		h.ServeHTTP(w, r)
	})
}

// refuseForeign refuses requests that a page of another site makes a browser send. names guards against an attacker's
// name that resolves to this machine: the attacker's page would count as the same site.
func refuseForeign(h http.Handler, names *adminNames) http.Handler {
	var origins http.CrossOriginProtection
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !names.admit(r) {
			http.Error(w, fmt.Sprintf("this is not %s: ask for localhost, for an IP address or for the host of "+
				"--admin, or start this process with --admin-hosts and the name", r.Host),
				http.StatusMisdirectedRequest)
			return
		}
		asks := *r
		if strings.HasPrefix(r.URL.Path, "/debug/") {
			asks.Method = http.MethodPost // a profile costs CPU, so treat it as a change
		}
		if err := origins.Check(&asks); err != nil {
			http.Error(w, err.Error()+": refused for pages of other sites: open the page at its own address",
				http.StatusForbidden)
			return
		}
		h.ServeHTTP(w, r)
	})
}
