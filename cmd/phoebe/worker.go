package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/KimMachineGun/automemlimit/memlimit"
	"github.com/VictoriaMetrics/metrics"

	"github.com/phoebe-sched/phoebe/worker"
	"github.com/phoebe-sched/phoebe/worker/exec"
	"github.com/phoebe-sched/phoebe/worker/serve"
)

// queueFlags are the order and the limits of a worker's queue.
type queueFlags struct {
	Order           string        `default:"fair" enum:"fair,fifo,priority,shortest" help:"Whose turn comes first: ${enum}. Only with fair does a greedy tenant not delay other tenants; shortest goes by estimates. Default ${default}."`
	Weights         weights       `placeholder:"TENANT=W;..." help:"Shares of tenants for --order fair, if frontends have no --tenants. Default: 1 each."`
	StarvationBound time.Duration `default:"1s" placeholder:"D" help:"With --order shortest: a task that has waited for D goes first. Default ${default}."`
	PreemptAfter    time.Duration `default:"10ms" placeholder:"D" help:"How long regular tasks wait until spare tasks in their way are stopped and retried elsewhere. A spare task that would end within D is not stopped. Negative: never. Default ${default}."`
	ReadyExpiry     time.Duration `default:"500ms" placeholder:"D" help:"How long a slot is held for a frontend that does not answer. Bytes that come from the frontend extend the time. Default ${default}."`
	Grace           time.Duration `default:"10s" placeholder:"D" help:"How long tasks of a lost frontend run on, until another frontend claims them. Default ${default}."`
	Retain          time.Duration `default:"30s" placeholder:"D" help:"How long results of a lost frontend are kept, until another frontend claims them; at most --grace while the worker drains. Default ${default}."`
	MaxRetained     size          `default:"256MiB" placeholder:"SIZE" help:"Total size of the results that --retain keeps. Beyond it, the oldest are dropped. Default ${default}."`
	MaxUnsent       size          `default:"64MiB" placeholder:"SIZE" help:"Results that wait to be sent to a frontend. Beyond it, no task of this frontend starts until half has left. Default ${default}."`
	MaxQueue        int           `default:"16384" placeholder:"N" help:"Places in the queue; reservations beyond are refused. A tenant may hold three times as many places as are free. Default ${default}."`
	MaxResult       size          `default:"1MiB" placeholder:"SIZE" help:"Largest result of a task. Default ${default}."`
}

// applyQueue puts the flags into the configuration.
func (q *queueFlags) applyQueue(c *serve.Config) error {
	order, err := worker.ParseOrder(q.Order)
	if err != nil {
		return usageError(err)
	}
	k := &c.Core
	k.Order, k.Weights, k.StarvationBound, k.ReadyExpiry = order, q.Weights, q.StarvationBound, q.ReadyExpiry
	k.PreemptAfter = q.PreemptAfter
	k.Grace, k.Retain, k.MaxRetained, k.MaxQueue = q.Grace, q.Retain, int(q.MaxRetained), q.MaxQueue
	k.MaxUnsent = int(q.MaxUnsent)
	c.MaxResult = int(q.MaxResult)
	return nil
}

// fileFlags limit the files that a worker fetches for tasks.
type fileFlags struct {
	CacheDir    string         `placeholder:"DIR" help:"Folder for the files of tasks, readable by this user alone. Files are fetched before the task's turn, and kept for later tasks and other workers. Default: none, the worker gets no tasks with files."`
	CacheSize   size           `default:"10GiB" placeholder:"SIZE" help:"Size of the cache. Beyond it, the files used longest ago are removed. Default ${default}."`
	FileRoots   []string       `placeholder:"DIR" help:"Folders that file:// URLs of tasks may read. Default: none."`
	FileHosts   []string       `placeholder:"HOST[:PORT]" help:"Hosts that http:// and https:// URLs of tasks may name. Default: all, except loopback and private addresses."`
	FilePrivate []addressRange `placeholder:"CIDR" help:"Ranges of private addresses, such as 10.0.0.0/8, open to these URLs. Default: none."`

	FileTimeout time.Duration `default:"30s" placeholder:"D" help:"Retry a file if its source sends nothing for D, or less than 256 KiB in ten times D; three tries in all. Default ${default}."`

	MaxFilesSent   int `default:"8" placeholder:"N" help:"Files sent to other workers at a time. Default ${default}."`
	MaxResultsSent int `default:"32" placeholder:"N" help:"Parts of results sent at a time. Default ${default}."`
}

// applyFiles puts the flags into the configuration.
func (f *fileFlags) applyFiles(c *serve.Config) {
	c.CacheDir, c.CacheSize, c.FileRoots, c.FileHosts = f.CacheDir, int64(f.CacheSize), f.FileRoots, f.FileHosts
	c.FileTimeout, c.MaxFilesSent, c.MaxResultsSent = f.FileTimeout, f.MaxFilesSent, f.MaxResultsSent
	for _, r := range f.FilePrivate {
		c.FilePrivate = append(c.FilePrivate, netip.Prefix(r))
	}
}

// addressRange is a range of addresses in a flag.
type addressRange netip.Prefix

func (r *addressRange) UnmarshalText(text []byte) error {
	if err := (*netip.Prefix)(r).UnmarshalText(text); err != nil || len(text) == 0 {
		return fmt.Errorf("%q: want a range of addresses, such as 10.0.0.0/8", text)
	}
	return nil
}

type workerCmd struct {
	Listen     string        `default:"127.0.0.1:7420" placeholder:"HOST:PORT" help:"Address for frontends; port 0 takes a free port. Beyond loopback --tls-dir or a secret is needed. Default ${default}."`
	Name       string        `placeholder:"TEXT" help:"Name in logs, on screens and for constraints on hosts. Default: the host's name and the port."`
	Rack       string        `placeholder:"TEXT" help:"Rack of the worker: nearby workers share a rack. Default: none."`
	Labels     []string      `placeholder:"KEY=VALUE" help:"Labels for constraints of jobs. Default: none."`
	Slots      int           `placeholder:"N" help:"Short tasks that run at once, each with 1000 millicores and 256 MiB. Default: the number of CPUs."`
	Speed      float64       `default:"1" placeholder:"X" help:"Speed relative to estimates: at 2, tasks take half of their estimate. From 0.01 to 100. Default ${default}."`
	AllowExec  bool          `help:"Also run any command as a process (function exec). The log tells the rights of commands. Default: no."`
	ExecUIDs   uidRange      `name:"exec-uids" placeholder:"FIRST-LAST" help:"With --allow-exec: run each process as another user of the range, such as 200000-200255. Then tasks can neither read keys nor reach other tasks. Needs root and cgroups v2. No two workers of a machine may share users. Default: the worker's user."`
	ExecSetuid bool          `help:"With --allow-exec: setuid programs get their rights. Default: no."`
	MaxPayload size          `default:"1MiB" placeholder:"SIZE" help:"Largest payload of a task. Default ${default}."`
	EventLoops int           `placeholder:"N" help:"Event loops (gnet) that read all connections. They need less memory (1.2 KB for an idle connection in place of 4.5 KB), but more CPU. Default: none, each connection has a goroutine."`
	MaxLinks   int           `default:"10000" placeholder:"N" help:"Connections from frontends; connections beyond are closed. Default ${default}."`
	MaxLease   time.Duration `default:"1m" placeholder:"D" help:"Longest lease (frontend --lease: silence after which a link counts as broken) that a frontend may ask for. Default ${default}."`

	Join           []string      `placeholder:"HOST:PORT" help:"Heartbeat addresses of some frontends. The worker announces itself there; one answer is enough. Default: none, frontends must list the worker."`
	Advertise      string        `placeholder:"HOST:PORT" help:"Address where frontends reach this worker. Other workers use its host. Default: the address of --listen."`
	MaintenanceIn  time.Duration `placeholder:"D" help:"Announce that the worker will be away in D. While it runs: POST /maintenance?in=D&for=D at --admin. Default: no maintenance."`
	MaintenanceFor time.Duration `default:"10m" placeholder:"D" help:"How long the worker will be away. Default ${default}."`

	FilesListen string `placeholder:"HOST:PORT" help:"Address where other workers fetch files of the cache. Beyond loopback --tls-dir or a secret is needed. Default: the host of --listen, a free port."`

	fileFlags
	slotFlags
	queueFlags
	secretFlags
	serviceFlags
}

// uidRange is a range of users.
type uidRange struct{ first, last uint32 }

// UnmarshalText implements encoding.TextUnmarshaler.
func (r *uidRange) UnmarshalText(text []byte) error {
	first, last, _ := strings.Cut(string(text), "-")
	low, errFirst := strconv.ParseUint(first, 10, 32)
	high, errLast := strconv.ParseUint(last, 10, 32)
	if errFirst != nil || errLast != nil || low == 0 {
		return fmt.Errorf("%q: want the first and the last user id, such as 200000-200255", text)
	}
	r.first, r.last = uint32(low), uint32(high)
	return nil
}

// keyFiles returns the files that no task may read.
func (c *workerCmd) keyFiles() (files []string) {
	for _, f := range []string{c.SecretFile, c.AdminTokenFile} {
		if f != "" {
			files = append(files, f)
		}
	}
	if c.TLSDir != "" {
		files = append(files, filepath.Join(c.TLSDir, "tls.key"))
	}
	return files
}

// maxMaintenance bounds how far ahead maintenance is announced, and how long the maintenance lasts.
const maxMaintenance = 90 * 24 * time.Hour

// checkMaintenance reports why maintenance cannot be announced, or nil. If lasts is 0, the announcement is called
// off. Only heartbeats carry the announcement, so the worker must have --join.
func checkMaintenance(in, lasts time.Duration, joins bool) error {
	if in < 0 || in > maxMaintenance || lasts < 0 || lasts > maxMaintenance {
		return fmt.Errorf("maintenance in %v for %v: want times from 0 to %v", in, lasts, maxMaintenance)
	}
	if !joins {
		return errors.New("--maintenance-in: no frontend would hear of the maintenance: start the worker with --join")
	}
	return nil
}

// maintenanceHandler announces maintenance for POST /maintenance?in=10m&for=1h. With for=0 the handler calls the
// maintenance off.
func maintenanceHandler(s *serve.Server, joined bool) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		in, errIn := time.ParseDuration(cmp.Or(r.FormValue("in"), "0"))
		lasts, errFor := time.ParseDuration(cmp.Or(r.FormValue("for"), "10m"))
		err := errors.Join(errIn, errFor)
		if err == nil && lasts != 0 && r.FormValue("in") == "" {
			err = errors.New("say when: in=10m, or in=0 for now; for=0 calls it off")
		}
		if err == nil {
			err = checkMaintenance(in, lasts, joined)
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		s.Maintenance(in, lasts)
		if lasts == 0 {
			fmt.Fprintln(w, "called off")
			return
		}
		fmt.Fprintf(w, "announced: away in %v, for %v\n", in, lasts)
	}
}

// serverConfig returns the configuration that the flags describe. The error joins all problems.
func (c *workerCmd) serverConfig() (serve.Config, error) {
	host, err := os.Hostname()
	if err != nil {
		host = "localhost"
	}
	cfg := serve.Config{
		Listen: c.Listen, Name: c.Name, Host: host, Rack: c.Rack, Labels: c.Labels, AllowExec: c.AllowExec,
		Join: c.Join, Advertise: c.Advertise, Speed: c.Speed, FilesListen: c.FilesListen,
		Goroutines: c.EventLoops == 0, EventLoops: c.EventLoops, MaxConns: c.MaxLinks, MaxLease: c.MaxLease,
		Metrics: metrics.NewSet(),
	}
	errs := []error{c.checkAdmin(), c.queueFlags.applyQueue(&cfg)}
	wrong := func(err error) { errs = append(errs, err) }
	if cfg.Secrets, err = c.openSecrets(); err != nil {
		wrong(err)
	}
	if cfg.Keys, err = c.openKeys(); err != nil {
		wrong(err)
	}
	slots := c.Slots
	if slots == 0 {
		slots = runtime.NumCPU()
	}
	if cfg.Core.Capacity, err = c.workerCapacity(slots); err != nil {
		wrong(err)
	}
	if (c.ExecUIDs != uidRange{} || c.ExecSetuid) && !c.AllowExec {
		wrong(errors.New("--exec-uids or --exec-setuid without --allow-exec: give --allow-exec too"))
	}
	cfg.Processes = exec.Processes{
		FirstUID: c.ExecUIDs.first, LastUID: c.ExecUIDs.last, Setuid: c.ExecSetuid, KeyFiles: c.keyFiles(),
	}
	cfg.Core.MaxPayload = int(c.MaxPayload)
	c.fileFlags.applyFiles(&cfg)
	wrong(cfg.Validate())
	if c.MaintenanceIn != 0 {
		wrong(checkMaintenance(c.MaintenanceIn, c.MaintenanceFor, len(c.Join) > 0))
	}
	return cfg, errors.Join(errs...)
}

// Run runs a worker.
func (c *workerCmd) Run(ctx context.Context, out *streams, log *slog.Logger) error {
	cfg, err := c.serverConfig()
	if err != nil {
		return usageError(err)
	}
	if c.AllowExec && os.Getpid() == 1 {
		return runUnderInit()
	}
	cfg.Logger = log
	limitMemory(log, memlimit.FromCgroup)
	peers := trust{keys: cfg.Keys, secrets: cfg.Secrets}
	if err := peers.openAudit(c.AuditLog, cfg.Metrics); err != nil {
		return err
	}
	cfg.Audit = peers.audit
	ctx, leave := context.WithCancelCause(ctx)
	defer leave(nil)
	cfg.OnLeave = func(frontend string) { leave(fmt.Errorf("an operator asked frontend %q for it", frontend)) }
	s, err := serve.New(cfg)
	if err != nil {
		return usageError(err)
	}
	if c.MaintenanceIn != 0 {
		s.Maintenance(c.MaintenanceIn, c.MaintenanceFor)
	}
	if err := s.Start(); err != nil {
		if errors.Is(err, syscall.EADDRINUSE) {
			err = fmt.Errorf("%w: is another worker running there? choose another address", err)
		}
		return errors.Join(err, s.Close())
	}
	fmt.Fprintf(out.out, "worker %s\n", s.Addr())
	return c.runService(ctx, log, cfg.Metrics, peers, service{
		ready: s.Ready,
		failed: func(ctx context.Context) error {
			select {
			case <-s.Done():
				return s.Err()
			case <-ctx.Done():
				return nil
			}
		},
		drain: s.Drain,
		close: s.Close,
		admin: map[string]http.HandlerFunc{"POST /maintenance": maintenanceHandler(s, len(c.Join) > 0)},
	})
}
