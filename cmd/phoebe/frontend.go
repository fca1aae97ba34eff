package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"time"

	"github.com/VictoriaMetrics/metrics"

	"github.com/phoebe-sched/phoebe/frontend"
	"github.com/phoebe-sched/phoebe/frontend/client"
	"github.com/phoebe-sched/phoebe/frontend/estimate"
	"github.com/phoebe-sched/phoebe/frontend/serve"
	"github.com/phoebe-sched/phoebe/frontend/tenants/file"
	"github.com/phoebe-sched/phoebe/probe/names"
	wserve "github.com/phoebe-sched/phoebe/worker/serve"
)

// policyFlags choose how jobs are placed that do not say it themselves.
type policyFlags struct {
	Policy     string  `default:"${policy}" placeholder:"NAME" help:"How tasks are placed, of jobs that name no policy: ${policies}. Parts of one that binds late can be turned off and on: phoebe-overlap, late-binding+ridealong. Default ${default}."`
	ProbeRatio float64 `default:"2" placeholder:"N" help:"Reservations sent for each task, 1 to 10: more find idle workers sooner and cost messages. Default ${default}."`
}

// longFlags say how long tasks are placed.
type longFlags struct {
	LongTask   time.Duration `default:"1s" placeholder:"D" help:"Tasks that are expected to run so long are placed where they will be done first. Default ${default}."`
	Matching   string        `default:"stable" enum:"stable,greedy,optimal" help:"How such tasks that come together are given to workers: ${enum}. Default ${default}."`
	Copies     float64       `default:"0.03" placeholder:"SHARE" help:"Share of tasks that may be started a second time elsewhere, because they run, or are to wait in a queue, for much longer than expected; the first to finish counts. 0: none. Default ${default}."`
	MemoryRate size          `placeholder:"SIZE" help:"Bytes per second that a task reads from the memory of its host. Default 2000000000."`
	DiskRate   size          `placeholder:"SIZE" help:"The same from a disk of its host. Default 160000000."`
	RackRate   size          `placeholder:"SIZE" help:"The same from its rack. Default 100000000."`
	AcrossRate size          `placeholder:"SIZE" help:"The same from another rack, and from a cache of files there. Default 80000000."`
	OriginRate size          `placeholder:"SIZE" help:"The same of files that no worker has. Default 80000000."`
}

func (l *longFlags) apply(c *frontend.Config) {
	c.LongTask, c.Copies = l.LongTask, l.Copies
	c.Matcher, _ = estimate.ParseMatcher(l.Matching) // kong has checked it
	c.Estimate.Rates = estimate.Rates{
		Memory: float64(l.MemoryRate), Disk: float64(l.DiskRate), Rack: float64(l.RackRate), Across: float64(l.AcrossRate), Origin: float64(l.OriginRate),
	}
}

// frontendLimits are the limits of a frontend.
type frontendLimits struct {
	Lease          time.Duration `default:"3s" placeholder:"D" help:"Silence after which the link to a worker is taken for broken. Default ${default}."`
	ClientGrace    time.Duration `default:"30s" placeholder:"D" help:"How long a job goes on whose client does not ask for its events. Default ${default}."`
	MaxWait        time.Duration `default:"1s" placeholder:"D" help:"A job is refused as overload while another one of its tenant has waited longer than this, and more wait than are served in half of it; negative: none is. Default ${default}."`
	MaxPending     int           `default:"200000" placeholder:"N" help:"Tasks without an outcome, over all jobs; jobs beyond are refused, and those that make a tenant hold three times as many as are left. Default ${default}."`
	MaxPayloads    size          `default:"512MiB" placeholder:"SIZE" help:"Payloads of these tasks, refused likewise. Default ${default}."`
	MaxTasksPerJob int           `default:"100000" placeholder:"N" help:"Tasks in one job. Default ${default}."`
	MaxPayload     size          `default:"1MiB" placeholder:"SIZE" help:"Payload of one task. Default ${default}."`
	MaxRequest     size          `default:"64MiB" placeholder:"SIZE" help:"One request of a client. Default ${default}."`
	MaxRunResult   size          `default:"64MiB" placeholder:"SIZE" help:"Results that one call of Run answers with. Default ${default}."`
	MaxKept        size          `default:"256MiB" placeholder:"SIZE" help:"Results of submitted jobs that clients have not fetched: a job that has more of them than are left starts no more tasks until its client has. Default ${default}."`
	SLO            []string      `name:"slo" sep:"none" placeholder:"SLO" help:"An objective, such as policy=phoebe,p99=50ms,window=10s: when it is broken, what happens is recorded in --record-dir. May be repeated. Default: none."`
	RecordDir      string        `placeholder:"DIR" help:"Where to record what happens when an --slo is broken: at most 10 files, and 256 MiB. Default: nowhere."`
	MaxClients     int           `default:"10000" placeholder:"N" help:"Connections of clients; those beyond are closed. Default ${default}."`

	longFlags
}

// checkSLO says what is wrong with the objectives.
func (l *frontendLimits) checkSLO() error {
	var errs []error
	for _, text := range l.SLO {
		_, err := serve.ParseSLO(text)
		errs = append(errs, err)
	}
	if (len(l.SLO) > 0) != (l.RecordDir != "") {
		errs = append(errs, errors.New("--slo and --record-dir go together"))
	}
	return errors.Join(errs...)
}

func (l *frontendLimits) apply(c *serve.Config) {
	c.Lease, c.ClientGrace, c.MaxConns = l.Lease, l.ClientGrace, l.MaxClients
	c.RecordDir = l.RecordDir
	for _, text := range l.SLO {
		o, _ := serve.ParseSLO(text) // check has looked at it
		c.SLOs = append(c.SLOs, o)
	}
	c.MaxRequest, c.MaxRunResult, c.MaxKept = int(l.MaxRequest), int(l.MaxRunResult), int(l.MaxKept)
	c.Core.MaxWait, c.Core.MaxPending, c.Core.MaxTasksPerJob = l.MaxWait, l.MaxPending, l.MaxTasksPerJob
	c.Core.MaxPayload, c.Core.MaxPayloads = int(l.MaxPayload), int(l.MaxPayloads)
	l.longFlags.apply(&c.Core)
}

type frontendCmd struct {
	Listen      string   `default:"127.0.0.1:7410" placeholder:"HOST:PORT" help:"Where clients connect; port 0 takes a free one. Beyond loopback --tls-dir or a secret is needed. Default ${default}."`
	Advertise   string   `placeholder:"HOST:PORT" help:"Address by which clients and other frontends reach this one. Default: where it listens."`
	ProxyFrom   []string `placeholder:"CIDR" help:"Addresses of balancers that say for whom they connect, by the PROXY protocol, version 2 (HAProxy: send-proxy-v2), such as 10.0.0.5/32: so clients' own addresses are in logs. Balancers must say it then, and nobody else may connect from there. Default: none."`
	Name        string   `placeholder:"TEXT" help:"Name in logs and on screens. Default: --advertise."`
	Workers     []string `placeholder:"HOST:PORT" xor:"workers" help:"Addresses of the workers, or names of several, looked up again and again: dns:HOST:PORT, srv:_phoebe._tcp.NAME. Default: none."`
	WorkersFile string   `placeholder:"FILE" xor:"workers" help:"File with the workers' addresses, one in each line, read again when it changes. Default: none."`
	Peers       []string `placeholder:"HOST:PORT" help:"Addresses of other frontends: calls for their jobs are forwarded to them. Default: none."`

	Tenants string `placeholder:"FILE" help:"File that says what tenants may have: tokens, which are their weight at workers, slots over the fleet, tasks pending, jobs in a second, and functions; and by which tokens and certificates their clients are known. Read again when it changes; the newest revision holds for all frontends that gossip. Default: none, all weigh the same."`

	Gossip          string   `placeholder:"HOST:PORT" help:"Where frontends tell each other which workers and frontends there are (TCP and UDP); port 0 takes a free one. Beyond loopback a secret is needed, also with --tls-dir. Default: off."`
	GossipAdvertise string   `placeholder:"HOST[:PORT]" help:"Where other frontends reach --gossip; workers reach --heartbeat under the same host. Default: --gossip."`
	Join            []string `placeholder:"HOST:PORT" help:"Gossip addresses of some other frontends, or names, as for --workers: one that answers is enough. Default: none, it waits for others to join it."`
	Heartbeat       string   `placeholder:"HOST:PORT" help:"Where workers announce themselves. Default: port 7412 of the host of --gossip."`

	DrainDelay time.Duration `default:"5s" placeholder:"D" help:"How long it still accepts jobs when it is told to end, while /readyz of --admin says that it drains, for balancers to hear of it; none without --admin. Default ${default}."`

	Seed uint64 `placeholder:"N" help:"Seed of all sampling. Default: drawn at random, and logged."`

	policyFlags
	frontendLimits
	secretFlags
	serviceFlags
}

// spareFiles are the open files that a process has beyond those of its connections.
const spareFiles = 512

// manyWorkers are the open files for workers that come by themselves: for a link to each, and for its heartbeats.
const manyWorkers = 1 << 17

// config is what the flags ask for; the error joins all that is wrong with it.
func (c *frontendCmd) config() (serve.Config, error) {
	cfg := serve.Config{
		Listen: c.Listen, Advertise: c.Advertise, Name: c.Name, Peers: c.Peers, Seed: c.Seed, Version: version(),
		Tenants: c.Tenants, Gossip: c.Gossip, GossipAdvertise: c.GossipAdvertise, Join: c.Join, Heartbeat: c.Heartbeat,
		Metrics: metrics.NewSet(),
	}
	var err error
	errs := []error{c.checkAdmin()}
	wrong := func(err error) { errs = append(errs, err) }
	if cfg.Secrets, err = c.secrets(); err != nil {
		wrong(err)
	}
	if cfg.Keys, err = c.keys(); err != nil {
		wrong(err)
	}
	if cfg.Policy, err = frontend.ParsePolicy(c.Policy); err != nil {
		wrong(err)
	}
	if c.Tenants != "" {
		if text, err := os.ReadFile(c.Tenants); err != nil {
			wrong(fmt.Errorf("--tenants: %w: write it, such as %s", err, file.Example))
		} else if f, err := file.Parse(c.Tenants, text); err != nil {
			wrong(fmt.Errorf("--tenants: %w", err))
		} else if err := cfg.CheckTenants(f); err != nil {
			wrong(fmt.Errorf("--tenants: %s: %w", c.Tenants, err))
		}
	}
	switch {
	case c.WorkersFile != "":
		cfg.Workers = serve.File{Name: c.WorkersFile}
		if _, err := os.Stat(c.WorkersFile); err != nil {
			wrong(fmt.Errorf("--workers-file: %w: write the workers' addresses into it, one in each line", err))
		}
	case len(c.Workers) > 0:
		cfg.Workers = serve.Names{Addrs: c.Workers}
	case c.Gossip == "":
		wrong(errors.New("this frontend would know no worker: give --gossip, --workers or --workers-file"))
	}
	for _, addr := range c.Workers {
		if err := names.Check(addr); err != nil {
			wrong(fmt.Errorf("--workers %w", err))
		}
	}
	if addr := cmp.Or(c.Advertise, c.Listen); addr != "" {
		if _, _, err := net.SplitHostPort(addr); err != nil {
			wrong(fmt.Errorf("--advertise %q: want host:port, such as 10.0.0.7:7410", addr))
		}
	}
	for _, text := range c.ProxyFrom {
		p, err := netip.ParsePrefix(text)
		if err != nil {
			wrong(fmt.Errorf("--proxy-from %q: want a balancer's address, such as 10.0.0.5/32, or a network of them", text))
		}
		cfg.ProxyFrom = append(cfg.ProxyFrom, p)
	}
	if c.DrainDelay < 0 {
		wrong(fmt.Errorf("--drain-delay is %v: it must be 0 or more", c.DrainDelay))
	}
	wrong(c.checkSLO())
	cfg.Core.ProbeRatio = c.ProbeRatio
	c.apply(&cfg)
	wrong(cfg.Validate())
	return cfg, errors.Join(errs...)
}

// Run runs a frontend.
func (c *frontendCmd) Run(ctx context.Context, out *streams, log *slog.Logger) error {
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
	stays := func(err error) { log.Warn("the list of workers stays as it was", "err", err) }
	switch w := cfg.Workers.(type) {
	case serve.File:
		w.Warn = stays
		cfg.Workers = w
	case serve.Names:
		w.Warn = stays
		cfg.Workers = w
	}
	files := uint64(cfg.MaxConns) + spareFiles
	if c.Gossip != "" {
		files += manyWorkers
	}
	cfg.FileLimit = wserve.RaiseFileLimit(files)
	s, err := serve.New(cfg)
	if err != nil {
		return usage(err)
	}
	if err := s.Start(); err != nil {
		return err
	}
	fmt.Fprintf(out.out, "frontend %s\n", s.Addr())
	if c.Gossip != "" {
		fmt.Fprintf(out.out, "gossip %s\nheartbeat %s\n", s.GossipAddr(), s.HeartbeatAddr())
	}
	var page *client.Client
	if c.Admin != "" {
		if page, err = pageClient([]string{s.Addr()}, &c.secretFlags, log); err != nil {
			return errors.Join(err, s.Close())
		}
	}
	return c.serve(ctx, log, cfg.Metrics, by, service{
		page:    page,
		ready:   s.Ready,
		warning: s.Warning,
		failed: func(ctx context.Context) error {
			select {
			case err := <-s.Failed():
				return err
			case <-ctx.Done():
				return nil
			}
		},
		delay: c.DrainDelay,
		drain: s.Drain,
		close: s.Close,
	})
}
