package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"github.com/KimMachineGun/automemlimit/memlimit"
	"github.com/VictoriaMetrics/metrics"

	"github.com/phoebe-sched/phoebe/frontend/client/local"
	fserve "github.com/phoebe-sched/phoebe/frontend/serve"
	"github.com/phoebe-sched/phoebe/worker/exec"
	wserve "github.com/phoebe-sched/phoebe/worker/serve"
)

// devPort is the default port of --connect in other commands.
const devPort = 7410

type devCmd struct {
	Fleet        bool   `help:"Rehearse a fleet in production: each frontend and worker is a process behind a balancer, and is started again when it ends. Default: no."`
	Balancer     string `default:"auto" enum:"auto,haproxy,nginx,none" help:"Balancer of --fleet: ${enum}. auto is haproxy if installed, else none. Default ${default}."`
	TLS          bool   `name:"tls" help:"With --fleet: mutual TLS, with certificates made for the fleet. Default: no."`
	Frontends    *int   `placeholder:"N" help:"Number of frontends. Default: 2, with --fleet 3."`
	Workers      *int   `placeholder:"N" help:"Number of workers. Default: 4, with --fleet 6."`
	Slots        int    `default:"4" placeholder:"N" help:"Short tasks that each worker runs at once, each with 1000 millicores and 256 MiB. Default ${default}."`
	FrontendPort *int   `placeholder:"PORT" help:"Port of the first frontend on 127.0.0.1; further frontends take the ports that follow. 0: free ports. Default: 7410, or free ports if 7410 is taken."`
	WorkerPort   int    `placeholder:"PORT" help:"Port of the first worker; further workers take the ports that follow. Default: free ports."`
	AllowExec    bool   `help:"Also run any command as a process, with the rights of this process (function exec). Default: no."`

	policyFlags
	fileFlags
	slotFlags
	queueFlags
	frontendLimits
	secretFlags
	serviceFlags
}

// Help returns the text below the usage line.
func (c *devCmd) Help() string {
	return `Prints "frontend HOST:PORT" and "worker HOST:PORT" lines, "ready", a job to try, and the
address of the web page. SIGINT ends the cluster. Each worker has its own folder in --cache-dir.

With --fleet it also prints "balancer HOST:PORT pid N", and a line like that for each started
process: end a process, and see what clients notice. The frontends gossip, and the balancer runs the
recipe from the packages. This process serves the page, so the page outlives each frontend. Other
settings of the processes come from environment variables, such as PHOEBE_WORKER_ORDER.`
}

// Run runs a cluster.
func (c *devCmd) Run(ctx context.Context, out *streams, log *slog.Logger) error {
	secrets, err := c.openSecrets()
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
		return usageError(errors.New("--frontends and --workers must be 1 or more"))
	}
	if c.TLS && (!c.Fleet || c.TLSDir != "") {
		return usageError(errors.New("--tls makes certificates for --fleet: give --fleet, and leave out --tls-dir"))
	}
	if c.Fleet {
		return c.runFleet(ctx, out, log, frontends, workers)
	}
	capacity, err := c.workerCapacity(c.Slots)
	if err != nil {
		return err
	}
	if c.Admin == "" {
		c.Admin = "127.0.0.1:0"
	}
	if err := errors.Join(c.checkAdmin(), c.checkSLO()); err != nil {
		return usageError(err)
	}
	if err := c.queueFlags.applyQueue(&wserve.Config{}); err != nil {
		return err
	}
	registry := exec.NewRegistry()
	if c.AllowExec {
		if err := registry.AllowProcesses(); err != nil {
			return err
		}
	}
	limitMemory(log, memlimit.FromCgroup)
	set := metrics.NewSet()
	peers := trust{secrets: secrets}
	if err := peers.openAudit(c.AuditLog, set); err != nil {
		return err
	}
	fileLimit := wserve.RaiseFileLimit(uint64(frontends)*uint64(c.MaxClients+workers) + otherFiles)
	port := devPort
	if c.FrontendPort != nil {
		port = *c.FrontendPort
	}
	cluster, err := local.Start(local.Config{
		Frontends: frontends, Workers: workers, Slots: c.Slots, FrontendPort: port, OrFree: c.FrontendPort == nil,
		WorkerPort: c.WorkerPort,
		Registry:   registry, Policy: c.Policy, Secrets: secrets, TLSDir: c.TLSDir, Logger: log, Metrics: set,
		Frontend: func(_ int, f *fserve.Config) {
			f.Audit = peers.audit
			f.Version, f.FileLimit, f.Core.ProbeRatio = versionText(), fileLimit, c.ProbeRatio
			c.frontendLimits.applyLimits(f)
		},
		Worker: func(_ int, w *wserve.Config) {
			w.Core.Capacity, w.Core.MaxPayload = capacity, int(c.MaxPayload)
			_ = c.queueFlags.applyQueue(w) // checked above
			c.fileFlags.applyFiles(w)
			if c.CacheDir != "" {
				w.CacheDir = filepath.Join(c.CacheDir, w.Name)
			}
		},
	})
	var wrong *local.ConfigError
	if errors.As(err, &wrong) {
		return usageError(wrong.Err)
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
	return c.runService(ctx, log, set, peers, service{
		ready: cluster.Ready, failed: cluster.Failed, drain: cluster.Drain, close: cluster.Close, page: page,
		notePage: func(page string) { fmt.Fprintf(out.out, "page %s\n", page) },
	})
}
