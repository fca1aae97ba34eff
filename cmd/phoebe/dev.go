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
	Frontends    int  `default:"2" placeholder:"N" help:"Number of frontends. Default ${default}."`
	Workers      int  `default:"4" placeholder:"N" help:"Number of workers. Default ${default}."`
	Slots        int  `default:"4" placeholder:"N" help:"Short tasks that each worker runs at once, each with 1000 millicores and 256 MiB. Default ${default}."`
	FrontendPort *int `placeholder:"PORT" help:"Port of the first frontend on 127.0.0.1; the others have the ones that follow. 0: free ones. Default: 7410, or free ones where that is taken."`
	WorkerPort   int  `placeholder:"PORT" help:"The same for the workers. Default: free ones."`
	AllowExec    bool `help:"Also run any command as a process, with the rights of this one (function exec). Default: no."`

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
	return `Prints "frontend HOST:PORT" and "worker HOST:PORT" lines, "ready" and a job to try. SIGINT ends it all. Of --cache-dir,
each worker has a folder of its own.`
}

// Run runs a cluster.
func (c *devCmd) Run(ctx context.Context, out *streams, log *slog.Logger) error {
	secret, err := c.secret()
	if err != nil {
		return err
	}
	if c.Frontends < 1 || c.Workers < 1 {
		return usage(errors.New("--frontends and --workers must be 1 or more"))
	}
	capacity, err := c.capacity(c.Slots)
	if err != nil {
		return err
	}
	if err := c.checkAdmin(); err != nil {
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
	fileLimit := wserve.RaiseFileLimit(uint64(c.Frontends)*uint64(c.MaxClients+c.Workers) + spareFiles)
	port := devPort
	if c.FrontendPort != nil {
		port = *c.FrontendPort
	}
	cluster, err := local.Start(local.Config{
		Frontends: c.Frontends, Workers: c.Workers, Slots: c.Slots, FrontendPort: port, OrFree: c.FrontendPort == nil, WorkerPort: c.WorkerPort,
		Registry: registry, Policy: c.Policy, Secret: secret, Logger: log, Metrics: set,
		Frontend: func(_ int, f *fserve.Config) {
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
	fmt.Fprintf(out.out, "ready\n%s --function echo --payload hello\n", strings.Join(try, " "))
	return c.serve(ctx, log, set, service{ready: cluster.Ready, failed: cluster.Failed, drain: cluster.Drain, close: cluster.Close})
}
