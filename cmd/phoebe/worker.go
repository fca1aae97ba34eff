package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"runtime"
	"time"

	"github.com/VictoriaMetrics/metrics"

	"github.com/phoebe-sched/phoebe/worker"
	"github.com/phoebe-sched/phoebe/worker/serve"
)

// queueFlags are the queue of a worker, and its limits.
type queueFlags struct {
	Order           string        `default:"fair" enum:"fair,fifo,priority,shortest" help:"Whose turn comes first: ${enum}. Fair is between tenants, and the only one where a greedy one does not make others wait; shortest is by estimate. Default ${default}."`
	Weights         weights       `placeholder:"TENANT=W;..." help:"Shares of tenants for --order fair, where frontends have no --tenants; default 1 each."`
	StarvationBound time.Duration `default:"1s" placeholder:"D" help:"For --order shortest: whoever waited this long goes ahead. Default ${default}."`
	PreemptAfter    time.Duration `default:"10ms" placeholder:"D" help:"How long regular tasks wait before spare ones are stopped, and started again elsewhere, that stand in their way and would go on for longer than that. Negative: never. Default ${default}."`
	ReadyExpiry     time.Duration `default:"500ms" placeholder:"D" help:"How long a slot is held for a frontend that does not answer. Default ${default}."`
	Grace           time.Duration `default:"10s" placeholder:"D" help:"How long tasks of a lost frontend run on, for another to claim them. Default ${default}."`
	Retain          time.Duration `default:"30s" placeholder:"D" help:"How long results are kept whose frontend is lost, for another to claim them; by a worker that drains for --grace at most. Default ${default}."`
	MaxRetained     size          `default:"256MiB" placeholder:"SIZE" help:"Size of those results; the oldest go beyond it. Default ${default}."`
	MaxQueue        int           `default:"16384" placeholder:"N" help:"Places in the queue; reservations beyond are refused, and those of a tenant that holds three times as many as are free. Default ${default}."`
	MaxResult       size          `default:"1MiB" placeholder:"SIZE" help:"Result of one task. Default ${default}."`
}

func (q *queueFlags) apply(c *serve.Config) error {
	order, err := worker.ParseOrder(q.Order)
	if err != nil {
		return usage(err)
	}
	k := &c.Core
	k.Order, k.Weights, k.StarvationBound, k.ReadyExpiry = order, q.Weights, q.StarvationBound, q.ReadyExpiry
	k.PreemptAfter = q.PreemptAfter
	k.Grace, k.Retain, k.MaxRetained, k.MaxQueue = q.Grace, q.Retain, int(q.MaxRetained), q.MaxQueue
	c.MaxResult = int(q.MaxResult)
	return nil
}

// fileFlags are what a worker may do about files that tasks need.
type fileFlags struct {
	CacheDir  string   `placeholder:"DIR" help:"Folder for files that tasks need: fetched before their turn, kept for later tasks and for other workers. Of this user alone. Default: none, the worker gets no task that needs files."`
	CacheSize size     `default:"10GiB" placeholder:"SIZE" help:"Size of that cache; the files used longest ago go beyond it. Default ${default}."`
	FileRoots []string `placeholder:"DIR,..." help:"Folders below which file:// URLs of tasks may name files. Default: none."`
	FileHosts []string `placeholder:"HOST[:PORT],..." help:"Hosts that http:// and https:// URLs of tasks may name. Default: all, but for loopback, link-local and multicast addresses."`

	FileTimeout time.Duration `default:"30s" placeholder:"DURATION" help:"How long the source of a file may send nothing before it is tried again, three times in all. Whatever brings 256 KiB in ten times as long is waited for. Default ${default}."`
}

func (f *fileFlags) apply(c *serve.Config) {
	c.CacheDir, c.CacheSize, c.FileRoots, c.FileHosts = f.CacheDir, int64(f.CacheSize), f.FileRoots, f.FileHosts
	c.FileTimeout = f.FileTimeout
}

type workerCmd struct {
	Listen     string        `default:"127.0.0.1:7420" placeholder:"HOST:PORT" help:"Where frontends connect; port 0 takes a free one. Beyond loopback --tls-dir or a secret is needed. Default ${default}."`
	Name       string        `placeholder:"TEXT" help:"Name in logs, on screens and for constraints on hosts. Default: the host's name and the port."`
	Rack       string        `placeholder:"TEXT" help:"Rack that it shares with workers near it. Default: none."`
	Labels     []string      `placeholder:"KEY=VALUE" help:"Labels, for constraints. Default: none."`
	Slots      int           `placeholder:"N" help:"Short tasks that run at once, each with 1000 millicores and 256 MiB. Default: the number of CPUs."`
	Speed      float64       `default:"1" placeholder:"X" help:"How fast it runs tasks: at 2, in half the time that estimates tell, which are for 1. From 0.01 to 100. Default ${default}."`
	AllowExec  bool          `help:"Also run any command as a process, with the rights of this one (function exec). Default: no."`
	MaxPayload size          `default:"1MiB" placeholder:"SIZE" help:"Payload of one task. Default ${default}."`
	EventLoops int           `placeholder:"N" help:"Event loops of gnet that read the connections: 1.2 KB for an idle one, not 4.5. Default: none, a goroutine reads each, which takes less CPU."`
	MaxLinks   int           `default:"10000" placeholder:"N" help:"Connections of frontends; those beyond are closed. Default ${default}."`
	MaxLease   time.Duration `default:"1m" placeholder:"D" help:"The longest lease that a frontend may ask for. Default ${default}."`

	Join           []string      `placeholder:"HOST:PORT" help:"Heartbeat addresses of some frontends, to which it announces itself: one that answers is enough. Default: none, frontends must list it."`
	Advertise      string        `placeholder:"HOST:PORT" help:"Address by which frontends reach it; its host is that by which other workers do. Default: where it listens."`
	MaintenanceIn  time.Duration `placeholder:"D" help:"Announce that it will be away in this time; POST /maintenance?in=D&for=D at --admin does while it runs. Default: it will not."`
	MaintenanceFor time.Duration `default:"10m" placeholder:"D" help:"For how long it will be away. Default ${default}."`

	FilesListen string `placeholder:"HOST:PORT" help:"Where other workers get the files of its cache. Beyond loopback --tls-dir or a secret is needed. Default: the host of --listen, a free port."`

	fileFlags
	slotFlags
	queueFlags
	secretFlags
	serviceFlags
}

// maxMaintenance bounds how far ahead maintenance is announced, and how long it takes.
const maxMaintenance = 90 * 24 * time.Hour

// checkMaintenance tells whether maintenance can be announced; one that lasts 0 is called off. The announcement travels
// with the heartbeats of a worker that joins, and in no other way.
func checkMaintenance(in, lasts time.Duration, joins bool) error {
	if in < 0 || in > maxMaintenance || lasts < 0 || lasts > maxMaintenance {
		return fmt.Errorf("maintenance in %v for %v: want times from 0 to %v", in, lasts, maxMaintenance)
	}
	if !joins {
		return errors.New("--maintenance-in: no frontend would hear of the maintenance: start the worker with --join")
	}
	return nil
}

// maintenanceHandler announces what POST /maintenance?in=10m&for=1h says; for=0 calls it off.
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

// config is what the flags ask for; the error joins all that is wrong with it.
func (c *workerCmd) config() (serve.Config, error) {
	host, err := os.Hostname()
	if err != nil {
		host = "localhost"
	}
	cfg := serve.Config{
		Listen: c.Listen, Name: c.Name, Host: host, Rack: c.Rack, Labels: c.Labels, AllowExec: c.AllowExec,
		Join: c.Join, Advertise: c.Advertise, Speed: c.Speed, FilesListen: c.FilesListen,
		Goroutines: c.EventLoops == 0, EventLoops: c.EventLoops, MaxConns: c.MaxLinks, MaxLease: c.MaxLease, Metrics: metrics.NewSet(),
	}
	errs := []error{c.checkAdmin(), c.queueFlags.apply(&cfg)}
	wrong := func(err error) { errs = append(errs, err) }
	if cfg.Secrets, err = c.secrets(); err != nil {
		wrong(err)
	}
	if cfg.Keys, err = c.keys(); err != nil {
		wrong(err)
	}
	slots := c.Slots
	if slots == 0 {
		slots = runtime.NumCPU()
	}
	if cfg.Core.Capacity, err = c.capacity(slots); err != nil {
		wrong(err)
	}
	cfg.Core.MaxPayload = int(c.MaxPayload)
	c.fileFlags.apply(&cfg)
	wrong(cfg.Validate())
	if c.MaintenanceIn != 0 {
		wrong(checkMaintenance(c.MaintenanceIn, c.MaintenanceFor, len(c.Join) > 0))
	}
	return cfg, errors.Join(errs...)
}

// Run runs a worker.
func (c *workerCmd) Run(ctx context.Context, out *streams, log *slog.Logger) error {
	cfg, err := c.config()
	if err != nil {
		return usage(err)
	}
	cfg.Logger = log
	by := trust{keys: cfg.Keys, secrets: cfg.Secrets}
	if err := by.open(c.AuditLog, cfg.Metrics); err != nil {
		return err
	}
	cfg.Audit = by.audit
	ctx, leave := context.WithCancelCause(ctx)
	defer leave(nil)
	cfg.OnLeave = func(frontend string) { leave(fmt.Errorf("an operator asked frontend %q for it", frontend)) }
	s, err := serve.New(cfg)
	if err != nil {
		return usage(err)
	}
	if c.MaintenanceIn != 0 {
		s.Maintenance(c.MaintenanceIn, c.MaintenanceFor)
	}
	if err := s.Start(); err != nil {
		return errors.Join(err, s.Close())
	}
	fmt.Fprintf(out.out, "worker %s\n", s.Addr())
	return c.serve(ctx, log, cfg.Metrics, by, service{
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
