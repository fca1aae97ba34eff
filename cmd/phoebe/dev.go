package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"github.com/VictoriaMetrics/metrics"

	"github.com/phoebe-sched/phoebe/frontend/client/local"
	fserve "github.com/phoebe-sched/phoebe/frontend/serve"
	"github.com/phoebe-sched/phoebe/worker/exec"
	wserve "github.com/phoebe-sched/phoebe/worker/serve"
)

// devPort is where other commands look for a frontend unless they are told.
const devPort = 7410

type devCmd struct {
	Fleet        bool   `help:"Rehearse a fleet in production: each frontend and worker is a process of its own, which is started again when it ends, behind a balancer. Default: no."`
	Balancer     string `default:"auto" enum:"auto,haproxy,nginx,none" help:"The balancer of --fleet: ${enum}; auto is haproxy where it is installed. Default ${default}."`
	TLS          bool   `name:"tls" help:"With --fleet, by mutual TLS, with certificates that are made for it. Default: no."`
	Frontends    *int   `placeholder:"N" help:"Number of frontends. Default: 2; of --fleet 3."`
	Workers      *int   `placeholder:"N" help:"Number of workers. Default: 4; of --fleet 6."`
	Slots        int    `default:"4" placeholder:"N" help:"Short tasks that each worker runs at once, each with 1000 millicores and 256 MiB. Default ${default}."`
	FrontendPort *int   `placeholder:"PORT" help:"Port of the first frontend on 127.0.0.1; the others have the ones that follow. 0: free ones. Default: 7410, or free ones where that is taken."`
	WorkerPort   int    `placeholder:"PORT" help:"The same for the workers. Default: free ones."`
	AllowExec    bool   `help:"Also run any command as a process, with the rights of this one (function exec). Default: no."`

	policyFlags
	fileFlags
	slotFlags
	queueFlags
	frontendLimits
	secretFlags
	serviceFlags
}

// Help explains what is printed.
func (c *devCmd) Help() string {
	return `Prints "frontend HOST:PORT" and "worker HOST:PORT" lines, "ready", a job to try and where the web page is. SIGINT ends it all. Of --cache-dir,
each worker has a folder of its own.

With --fleet it prints "balancer HOST:PORT pid N", too, and such lines for each process that it starts: end one, and see
what clients notice. Its frontends gossip, and its balancer runs the recipe that the packages ship. What is not a flag of
all its processes comes from variables, such as PHOEBE_WORKER_ORDER.`
}

// Run runs a cluster.
func (c *devCmd) Run(ctx context.Context, out *streams, log *slog.Logger) error {
	secrets, err := c.secrets()
	if err != nil {
		return err
	}
	frontends, workers := 2, 4
	if c.Fleet {
		frontends, workers = 3, 6
	}
	if c.Frontends != nil {
		frontends = *c.Frontends
	}
	if c.Workers != nil {
		workers = *c.Workers
	}
	if frontends < 1 || workers < 1 {
		return usage(errors.New("--frontends and --workers must be 1 or more"))
	}
	if c.TLS && (!c.Fleet || c.TLSDir != "") {
		return usage(errors.New("--tls makes certificates for --fleet: give that, and no --tls-dir"))
	}
	if c.Fleet {
		return c.rehearse(ctx, out, log, frontends, workers)
	}
	capacity, err := c.capacity(c.Slots)
	if err != nil {
		return err
	}
	if c.Admin == "" {
		c.Admin = "127.0.0.1:0"
	}
	if err := errors.Join(c.checkAdmin(), c.checkSLO()); err != nil {
		return usage(err)
	}
	if err := c.queueFlags.apply(&wserve.Config{}); err != nil {
		return err
	}
	registry := exec.NewRegistry()
	if c.AllowExec {
		if err := registry.AllowProcesses(); err != nil {
			return err
		}
	}
	set := metrics.NewSet()
	by := trust{secrets: secrets}
	if err := by.open(c.AuditLog, set); err != nil {
		return err
	}
	fileLimit := wserve.RaiseFileLimit(uint64(frontends)*uint64(c.MaxClients+workers) + spareFiles)
	port := devPort
	if c.FrontendPort != nil {
		port = *c.FrontendPort
	}
	cluster, err := local.Start(local.Config{
		Frontends: frontends, Workers: workers, Slots: c.Slots, FrontendPort: port, OrFree: c.FrontendPort == nil, WorkerPort: c.WorkerPort,
		Registry: registry, Policy: c.Policy, Secrets: secrets, TLSDir: c.TLSDir, Logger: log, Metrics: set,
		Frontend: func(_ int, f *fserve.Config) {
			f.Audit = by.audit
			f.Version, f.FileLimit, f.Core.ProbeRatio = version(), fileLimit, c.ProbeRatio
			c.frontendLimits.apply(f)
		},
		Worker: func(_ int, w *wserve.Config) {
			w.Core.Capacity, w.Core.MaxPayload = capacity, int(c.MaxPayload)
			_ = c.queueFlags.apply(w) // checked above
			c.fileFlags.apply(w)
			if c.CacheDir != "" {
				w.CacheDir = filepath.Join(c.CacheDir, w.Name)
			}
		},
	})
	var wrong *local.ConfigError
	if errors.As(err, &wrong) {
		return usage(wrong.Err)
	}
	if err != nil {
		return err
	}
	for _, a := range cluster.Frontends() {
		fmt.Fprintf(out.out, "frontend %s\n", a)
	}
	for _, a := range cluster.Workers() {
		fmt.Fprintf(out.out, "worker %s\n", a)
	}
	try := []string{os.Args[0], "run", "--connect", cluster.Frontends()[0]}
	if c.SecretFile != "" {
		try = append(try, "--secret-file", c.SecretFile)
	}
	if c.TLSDir != "" {
		try = append(try, "--tls-dir", c.TLSDir)
	}
	fmt.Fprintf(out.out, "ready\n%s --function echo --payload hello\n", strings.Join(try, " "))
	page, err := pageClient(cluster.Frontends(), &c.secretFlags, log)
	if err != nil {
		return errors.Join(err, cluster.Close())
	}
	return c.serve(ctx, log, set, by, service{
		ready: cluster.Ready, failed: cluster.Failed, drain: cluster.Drain, close: cluster.Close, page: page,
		told: func(page string) { fmt.Fprintf(out.out, "page %s\n", page) },
	})
}
