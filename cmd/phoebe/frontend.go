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

	"github.com/KimMachineGun/automemlimit/memlimit"
	"github.com/VictoriaMetrics/metrics"

	"github.com/phoebe-sched/phoebe/frontend"
	"github.com/phoebe-sched/phoebe/frontend/client/admin"
	"github.com/phoebe-sched/phoebe/frontend/estimate"
	"github.com/phoebe-sched/phoebe/frontend/serve"
	"github.com/phoebe-sched/phoebe/frontend/tenants/file"
	"github.com/phoebe-sched/phoebe/probe/identity"
	"github.com/phoebe-sched/phoebe/probe/names"
	wserve "github.com/phoebe-sched/phoebe/worker/serve"
)

// policyFlags choose the policy of jobs that name no policy.
type policyFlags struct {
	Policy     string  `default:"${policy}" placeholder:"NAME" help:"Policy for jobs without a policy: ${policies}. Suffixes turn parts of a late-binding policy off (phoebe-overlap) or on (late-binding+ridealong). Default ${default}."`
	ProbeRatio float64 `default:"2" placeholder:"N" help:"Reservations (places in workers' queues) for each short task, 1 to 10. More find idle workers sooner and cost messages. Default ${default}."`
}

// longFlags say how long tasks are placed.
type longFlags struct {
	LongTask   time.Duration `default:"1s" placeholder:"D" help:"Tasks expected to run for D or longer go where they will be done first. Default ${default}."`
	Matching   string        `default:"stable" enum:"stable,greedy,optimal" help:"How several long tasks are matched with workers: ${enum}. Default ${default}."`
	Copies     float64       `default:"0.03" placeholder:"SHARE" help:"Share of tasks that may start a second time elsewhere, after a run or wait much longer than expected. The first to finish counts. 0: none. Default ${default}."`
	MemoryRate size          `placeholder:"SIZE" help:"Bytes per second from memory of the task's host, until learnt from tasks. Default 2000000000."`
	DiskRate   size          `placeholder:"SIZE" help:"The same from a disk of the task's host. Default 160000000."`
	RackRate   size          `placeholder:"SIZE" help:"The same from the task's rack. Default 100000000."`
	AcrossRate size          `placeholder:"SIZE" help:"The same from another rack, or from a file cache of another worker. Default 80000000."`
	OriginRate size          `placeholder:"SIZE" help:"The same for files that no worker has. Default 80000000."`
	FixedRates bool          `help:"Keep the five rates above, and learn no rates from tasks. Default: off."`
}

// applyLong puts the flags into the configuration.
func (l *longFlags) applyLong(c *frontend.Config) {
	c.LongTask, c.Copies = l.LongTask, l.Copies
	c.Matcher, _ = estimate.ParseMatcher(l.Matching) // kong has checked the name
	c.Estimate.Rates = estimate.Rates{
		Memory: float64(l.MemoryRate), Disk: float64(l.DiskRate), Rack: float64(l.RackRate),
		Across: float64(l.AcrossRate), Origin: float64(l.OriginRate),
	}
	c.Estimate.FixedRates = l.FixedRates
}

// frontendLimits are the limits of a frontend.
type frontendLimits struct {
	Lease          time.Duration `default:"3s" placeholder:"D" help:"Silence after which the link to a worker counts as broken. Default ${default}."`
	ClientGrace    time.Duration `default:"30s" placeholder:"D" help:"How long a job goes on while its client does not ask for events. Default ${default}."`
	MaxGrace       time.Duration `default:"10m" placeholder:"D" help:"Longest time for which a job may ask to go on while no client asks for events (Job.Grace). Default ${default}."`
	MaxWait        time.Duration `default:"1s" placeholder:"D" help:"Refuse a tenant's jobs while its oldest has waited longer than D (or 20 task runs, if longer) for its first task, and more wait than start in half that time. Negative: never. Default ${default}."`
	MaxPending     int           `default:"200000" placeholder:"N" help:"Most tasks without an outcome, over all jobs; jobs beyond are refused. A tenant may hold three times as many tasks as are free. Default ${default}."`
	MaxPayloads    size          `default:"512MiB" placeholder:"SIZE" help:"Total size of the payloads of all pending tasks; jobs beyond are refused. A tenant may hold three times the free part. Default ${default}."`
	MaxTasksPerJob int           `default:"100000" placeholder:"N" help:"Most tasks in one job. Default ${default}."`
	MaxPayload     size          `default:"1MiB" placeholder:"SIZE" help:"Largest payload of a task. Default ${default}."`
	MaxRequest     size          `default:"64MiB" placeholder:"SIZE" help:"Largest request of a client. Default ${default}."`
	MaxRunResult   size          `default:"64MiB" placeholder:"SIZE" help:"Largest sum of the results that one Run call (client.Run) returns. Default ${default}."`
	MaxKept        size          `default:"256MiB" placeholder:"SIZE" help:"Total size of results that clients have not fetched yet. A job that holds more than the free part starts no tasks until its client fetches results. Default ${default}."`
	SLO            []string      `name:"slo" sep:"none" placeholder:"SLO" help:"Objective, such as policy=phoebe,p99=50ms,window=10s. If the objective is broken, the frontend records tasks and workers in --record-dir. May be repeated. Default: none."`
	RecordDir      string        `placeholder:"DIR" help:"Folder for recordings of broken objectives: at most 10 files, and 256 MiB. Default: none."`
	MaxClients     int           `default:"10000" placeholder:"N" help:"Connections from clients; beyond, the oldest stranger leaves. Default ${default}."`

	longFlags
}

// checkSLO reports the problems of the objectives.
func (l *frontendLimits) checkSLO() error {
	var errs []error
	for _, text := range l.SLO {
		if _, err := serve.ParseSLO(text); err != nil {
			errs = append(errs, fmt.Errorf("--slo: %w", err))
		}
	}
	if (len(l.SLO) > 0) != (l.RecordDir != "") {
		errs = append(errs, errors.New("--slo and --record-dir need each other: give both"))
	}
	return errors.Join(errs...)
}

// applyLimits puts the flags into the configuration. checkSLO must have passed.
func (l *frontendLimits) applyLimits(c *serve.Config) {
	c.Lease, c.ClientGrace, c.MaxGrace, c.MaxConns = l.Lease, l.ClientGrace, l.MaxGrace, l.MaxClients
	c.RecordDir = l.RecordDir
	for _, text := range l.SLO {
		o, _ := serve.ParseSLO(text) // checkSLO has checked the text
		c.SLOs = append(c.SLOs, o)
	}
	c.MaxRequest, c.MaxRunResult, c.MaxUnread = int(l.MaxRequest), int(l.MaxRunResult), int(l.MaxKept)
	c.Core.MaxWait, c.Core.MaxPending, c.Core.MaxTasksPerJob = l.MaxWait, l.MaxPending, l.MaxTasksPerJob
	c.Core.MaxPayload, c.Core.MaxPayloads = int(l.MaxPayload), int(l.MaxPayloads)
	l.longFlags.applyLong(&c.Core)
}

type frontendCmd struct {
	Listen      string   `default:"127.0.0.1:7410" placeholder:"HOST:PORT" help:"Address for clients; port 0 takes a free port. Beyond loopback --tls-dir or a secret is needed. Default ${default}."`
	Advertise   string   `placeholder:"HOST:PORT" help:"Address where clients and other frontends reach this frontend. Default: the address of --listen."`
	ProxyFrom   []string `placeholder:"CIDR" help:"Balancers that name the client by the PROXY protocol, version 2 (HAProxy: send-proxy-v2), such as 10.0.0.5/32. Logs then show the clients' own addresses. Connections from there must use the protocol. Default: none."`
	Name        string   `placeholder:"TEXT" help:"Name in logs and on screens. Default: the address of --advertise."`
	Workers     []string `placeholder:"HOST:PORT" xor:"workers" help:"Addresses of the workers, or names that are looked up again and again: dns:HOST:PORT, srv:_phoebe._tcp.NAME. Default: none."`
	WorkersFile string   `placeholder:"FILE" xor:"workers" help:"File with the workers' addresses, one in each line. Read again when changed. Default: none."`
	Peers       []string `placeholder:"HOST:PORT" help:"Addresses of other frontends. Calls for their jobs are forwarded. Default: none."`

	Tenants string `placeholder:"FILE" help:"File with each tenant's tokens (its weight at workers), limits (slots of the fleet, pending tasks, jobs per second, functions), client tokens and certificates. Read again when changed; the newest revision holds for all frontends that gossip. Default: none, all weigh the same."`

	Gossip           string   `placeholder:"HOST:PORT" help:"Address where frontends gossip about workers and frontends (TCP and UDP); port 0 takes a free port. Beyond loopback a secret is needed, also with --tls-dir. Default: off."`
	GossipAdvertise  string   `placeholder:"HOST[:PORT]" help:"Address where other frontends reach --gossip. Workers reach --heartbeat at the same host. Default: the address of --gossip."`
	GossipSecretFile string   `placeholder:"FILE" help:"File with the secret that encrypts gossip, for frontends alone: no worker can then gossip. Lines and changes as for --secret-file. Default: the secret of --secret-file."`
	Join             []string `placeholder:"HOST:PORT" help:"Gossip addresses of some other frontends, or names as for --workers. One answer is enough. Default: none, the frontend waits for joins."`
	Heartbeat        string   `placeholder:"HOST:PORT" help:"Address where workers announce themselves. Default: port 7412 of the host of --gossip."`

	DrainDelay time.Duration `default:"5s" placeholder:"D" help:"Before a drain, the frontend still accepts jobs for D while /readyz of --admin says draining, so that balancers notice. No delay without --admin. Default ${default}."`

	Seed uint64 `placeholder:"N" help:"Seed of all sampling. Default: drawn at random, and logged."`

	policyFlags
	frontendLimits
	secretFlags
	serviceFlags
}

// otherFiles counts the open files of a process without its connections.
const otherFiles = 512

// workerFiles counts the open files that a frontend with gossip may need for workers. The number of workers is
// unknown. Each worker takes a link and a connection for heartbeats.
const workerFiles = 1 << 17

// serverConfig returns the configuration that the flags describe. The error joins all problems.
func (c *frontendCmd) serverConfig() (serve.Config, error) {
	cfg := serve.Config{
		Listen: c.Listen, Advertise: c.Advertise, Name: c.Name, Peers: c.Peers, Seed: c.Seed, Version: versionText(),
		Tenants: c.Tenants, Gossip: c.Gossip, GossipAdvertise: c.GossipAdvertise, Join: c.Join, Heartbeat: c.Heartbeat,
		Metrics: metrics.NewSet(),
	}
	var err error
	errs := []error{c.checkAdmin()}
	wrong := func(err error) { errs = append(errs, err) }
	if cfg.Secrets, err = c.openSecrets(); err != nil {
		wrong(err)
	}
	if c.GossipSecretFile != "" {
		if cfg.GossipSecrets, err = identity.OpenSecrets(c.GossipSecretFile); err != nil {
			wrong(fmt.Errorf("--gossip-secret-file: %w", err))
		}
		if c.Gossip == "" {
			wrong(errors.New("--gossip-secret-file without --gossip: give --gossip HOST:PORT too"))
		}
	}
	if cfg.Keys, err = c.openKeys(); err != nil {
		wrong(err)
	}
	if cfg.Policy, err = frontend.ParsePolicy(c.Policy); err != nil {
		wrong(fmt.Errorf("--policy: %w", err))
	}
	if c.Tenants != "" {
		if text, err := os.ReadFile(c.Tenants); err != nil {
			wrong(fmt.Errorf("--tenants: %w: write the file, such as %s", err, file.Example))
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
			wrong(fmt.Errorf("--workers-file: %w: write the workers' addresses into the file, one in each line", err))
		}
	case len(c.Workers) > 0:
		cfg.Workers = serve.Names{Addrs: c.Workers}
	case c.Gossip == "":
		wrong(errors.New("the frontend would find no workers: give --gossip, --workers or --workers-file"))
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
			wrong(fmt.Errorf("--proxy-from %q: want a balancer's address, such as 10.0.0.5/32, or a network of balancers", text))
		}
		cfg.ProxyFrom = append(cfg.ProxyFrom, p)
	}
	if c.DrainDelay < 0 {
		wrong(fmt.Errorf("--drain-delay is %v: it must be 0 or more", c.DrainDelay))
	}
	wrong(c.checkSLO())
	cfg.Core.ProbeRatio = c.ProbeRatio
	c.applyLimits(&cfg)
	wrong(cfg.Validate())
	return cfg, errors.Join(errs...)
}

// Run runs a frontend.
func (c *frontendCmd) Run(ctx context.Context, out *streams, log *slog.Logger) error {
	cfg, err := c.serverConfig()
	if err != nil {
		return usageError(err)
	}
	cfg.Logger = log
	limitMemory(log, memlimit.FromCgroup)
	peers := trust{keys: cfg.Keys, secrets: cfg.Secrets, gossipSecrets: cfg.GossipSecrets}
	if err := peers.openAudit(c.AuditLog, cfg.Metrics); err != nil {
		return err
	}
	cfg.Audit = peers.audit
	warnUnchanged := func(err error) { log.Warn("the list of workers stays as it was", "err", err) }
	switch w := cfg.Workers.(type) {
	case serve.File:
		w.Warn = warnUnchanged
		cfg.Workers = w
	case serve.Names:
		w.Warn = warnUnchanged
		cfg.Workers = w
	}
	files := uint64(cfg.MaxConns) + otherFiles
	if c.Gossip != "" {
		files += workerFiles
	}
	cfg.FileLimit = wserve.RaiseFileLimit(files)
	s, err := serve.New(cfg)
	if err != nil {
		return usageError(err)
	}
	if err := s.Start(); err != nil {
		return err
	}
	fmt.Fprintf(out.out, "frontend %s\n", s.Addr())
	if c.Gossip != "" {
		fmt.Fprintf(out.out, "gossip %s\nheartbeat %s\n", s.GossipAddr(), s.HeartbeatAddr())
	}
	var page *admin.Client
	if c.Admin != "" {
		if page, err = pageClient([]string{s.Addr()}, &c.secretFlags, log); err != nil {
			return errors.Join(err, s.Close())
		}
	}
	return c.runService(ctx, log, cfg.Metrics, peers, service{
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
