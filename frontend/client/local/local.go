// Package local runs a whole cluster, frontends and workers, in your process: for tests of programs that use package
// client, for experiments, and for benchmarks. The parts talk over loopback, as separate processes would.
//
// First put the functions that your tasks call into an exec.Registry. Then start the cluster:
//
//	cluster, err := local.Start(local.Config{Frontends: 2, Workers: 3, Registry: registry})
//	if err != nil {
//		return err
//	}
//	defer cluster.Close()
//
// Then connect a client, and run jobs:
//
//	c, err := client.New(cluster.Frontends())
//
// To test failures, end a part with [Cluster.StopFrontend] or [Cluster.StopWorker] while a job runs.
package local

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/VictoriaMetrics/metrics"

	"github.com/phoebe-sched/phoebe/frontend"
	fserve "github.com/phoebe-sched/phoebe/frontend/serve"
	"github.com/phoebe-sched/phoebe/probe"
	"github.com/phoebe-sched/phoebe/probe/identity"
	"github.com/phoebe-sched/phoebe/worker/exec"
	wserve "github.com/phoebe-sched/phoebe/worker/serve"
)

// Config describes a Cluster. Zero fields take the defaults in their comments.
type Config struct {
	Frontends int // default 1
	Workers   int // default 2
	Slots     int // of each worker; default 4

	// FrontendPort and WorkerPort are the ports of the first frontend and worker, on 127.0.0.1. Further frontends and
	// workers take the following ports. 0: free ports.
	FrontendPort, WorkerPort int
	OrFree                   bool // if a frontend's port is taken, use free ports for all frontends

	// Gossip makes the frontends learn of workers, and of the files in workers' caches, by heartbeats and gossip, as in
	// large fleets. Client.Locate knows files only with Gossip. Default: each frontend starts with a list of all
	// workers, and knows no files.
	Gossip bool

	Registry *exec.Registry    // functions of the workers; default exec.NewRegistry()
	Policy   string            // of jobs without a policy; default the first of frontend.Policies
	Secret   string            // default: none
	Secrets  *identity.Secrets // several secrets instead of Secret; the caller watches their file
	TLSDir   string            // keys for frontend and worker roles, used by all parts; default: no TLS

	Logger  *slog.Logger // default: none
	Metrics *metrics.Set // of all parts together; default: a set for each part

	// Frontend and Worker may change the configuration of frontend or worker i, counted from 0, before its start.
	Frontend func(i int, c *fserve.Config)
	Worker   func(i int, c *wserve.Config)
}

// ConfigError reports a mistake in a Config.
type ConfigError struct{ Err error }

func (e *ConfigError) Error() string { return "local cluster: " + e.Err.Error() }
func (e *ConfigError) Unwrap() error { return e.Err }

// withDefaults returns c with its defaults filled in, or a ConfigError.
func (c Config) withDefaults() (Config, error) {
	for _, n := range []struct {
		what string
		p    *int
		def  int
	}{{"frontends", &c.Frontends, 1}, {"workers", &c.Workers, 2}, {"slots of each worker", &c.Slots, 4}} {
		if *n.p < 0 || *n.p > 10_000 {
			return c, &ConfigError{fmt.Errorf("the number of %s is %d: it must be from 1 to 10000", n.what, *n.p)}
		}
		if *n.p == 0 {
			*n.p = n.def
		}
	}
	for _, p := range []struct{ first, n int }{{c.FrontendPort, c.Frontends}, {c.WorkerPort, c.Workers}} {
		if p.first < 0 || p.first > 0 && p.first+p.n-1 > 65535 {
			return c, &ConfigError{fmt.Errorf("%d ports from %d on: ports go from 1 to 65535", p.n, p.first)}
		}
	}
	if c.Registry == nil {
		c.Registry = exec.NewRegistry()
	}
	if c.Policy == "" {
		c.Policy = frontend.Policies[0].Name
	}
	return c, nil
}

// Cluster is a set of running frontends and workers in the process. The methods are safe for concurrent use. Call Close
// once.
type Cluster struct {
	frontends []*fserve.Server
	workers   []*wserve.Server
	keys      *identity.Keys
	stopWatch context.CancelFunc // ends the watch of the keys

	mu      sync.Mutex
	stopped map[*fserve.Server]bool
}

// linkTimeout bounds the time that Start waits for the links. Links take milliseconds.
const linkTimeout = 30 * time.Second

// Start starts a cluster, and returns when every frontend is linked to every worker. The caller must close the cluster.
func Start(cfg Config) (*Cluster, error) {
	c, err := startParts(cfg)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), linkTimeout)
	defer cancel()
	if err := c.awaitLinks(ctx); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// startParts starts a cluster without waiting for the links.
func startParts(cfg Config) (*Cluster, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	policy, err := frontend.ParsePolicy(cfg.Policy)
	if err != nil {
		return nil, &ConfigError{err}
	}
	c := &Cluster{stopWatch: func() {}}
	if cfg.TLSDir != "" {
		if c.keys, err = identity.Open(cfg.TLSDir); err != nil {
			return nil, &ConfigError{err}
		}
		var ctx context.Context
		ctx, c.stopWatch = context.WithCancel(context.Background())
		go c.keys.Watch(ctx, func(err error) {
			if cfg.Logger != nil && err != nil {
				cfg.Logger.Warn("new keys are unusable: the old keys stay in use", "err", err)
			}
		})
	}
	if !cfg.Gossip { // with gossip, the workers need the frontends' addresses
		err = c.startWorkers(cfg)
	}
	if err == nil {
		err = c.tryFrontends(cfg, policy)
	}
	if err == nil && cfg.Gossip {
		err = c.startWorkers(cfg)
	}
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// tryFrontends starts the frontends. If a free port is taken meanwhile, tryFrontends tries other ports, up to ten
// times. With OrFree, it also replaces fixed ports by free ports if a fixed port is taken.
func (c *Cluster) tryFrontends(cfg Config, policy frontend.Policy) error {
	for try := 0; ; try++ {
		err := c.startFrontends(cfg, policy)
		if err == nil {
			return nil
		}
		c.closeFrontends()
		c.frontends = nil
		if cfg.OrFree && cfg.FrontendPort > 0 && errors.Is(err, syscall.EADDRINUSE) {
			cfg.FrontendPort = 0
			continue
		}
		// Another program may take a free port between its discovery and its use.
		if cfg.FrontendPort > 0 || !errors.Is(err, syscall.EADDRINUSE) || try == 10 {
			return err
		}
	}
}

// startWorkers starts the workers. With gossip, they send heartbeats to the frontends.
func (c *Cluster) startWorkers(cfg Config) error {
	for i := range cfg.Workers {
		wc := wserve.Config{
			Listen: portAddress(cfg.WorkerPort, i), Name: fmt.Sprintf("worker-%d", i),
			Secret: cfg.Secret, Secrets: cfg.Secrets, Keys: c.keys, Registry: cfg.Registry, Logger: cfg.Logger,
			Metrics: cfg.Metrics, Goroutines: true,
		}
		if cfg.Gossip {
			for _, f := range c.frontends {
				wc.Join = append(wc.Join, f.HeartbeatAddr())
			}
		}
		wc.Core.Capacity = probe.Demand{
			CPU: probe.Slot.CPU * probe.Millicores(cfg.Slots), Mem: probe.Slot.Mem * probe.MiB(cfg.Slots),
		}
		if cfg.Worker != nil {
			cfg.Worker(i, &wc)
		}
		w, err := wserve.New(wc)
		if err != nil {
			return &ConfigError{err}
		}
		c.workers = append(c.workers, w)
		if err := w.Start(); err != nil {
			return fmt.Errorf("worker %d: %w", i, err)
		}
	}
	return nil
}

// startFrontends starts the frontends.
func (c *Cluster) startFrontends(cfg Config, policy frontend.Policy) error {
	addrs, err := frontendAddresses(cfg)
	if err != nil {
		return err
	}
	for i, addr := range addrs {
		fc := fserve.Config{
			Listen: addr, Name: fmt.Sprintf("frontend-%d", i), Secret: cfg.Secret, Secrets: cfg.Secrets, Keys: c.keys,
			Workers: fserve.Static(c.Workers()), Peers: addrs, Policy: policy, Logger: cfg.Logger, Metrics: cfg.Metrics,
		}
		if cfg.Gossip {
			fc.Gossip, fc.Heartbeat = portAddress(0, 0), portAddress(0, 0)
			for _, f := range c.frontends {
				fc.Join = append(fc.Join, f.GossipAddr())
			}
		}
		fc.Core.Copies = frontend.FewCopies
		if cfg.Frontend != nil {
			cfg.Frontend(i, &fc)
		}
		f, err := fserve.New(fc)
		if err != nil {
			return &ConfigError{err}
		}
		if err := f.Start(); err != nil {
			return err
		}
		c.frontends = append(c.frontends, f)
	}
	return nil
}

// frontendAddresses chooses the frontends' addresses. Each frontend must know all addresses before its start.
func frontendAddresses(cfg Config) ([]string, error) {
	addrs := make([]string, cfg.Frontends)
	for i := range addrs {
		addrs[i] = portAddress(cfg.FrontendPort, i)
		if cfg.FrontendPort > 0 {
			continue
		}
		l, err := net.Listen("tcp", addrs[i])
		if err != nil {
			return nil, fmt.Errorf("local cluster: find a free port: %w", err)
		}
		defer l.Close() // after the loop, so that all ports differ
		addrs[i] = l.Addr().String()
	}
	return addrs, nil
}

// portAddress returns the address of part i, from the port of the first part. If first is 0, the port is 0, too.
func portAddress(first, i int) string {
	if first > 0 {
		first += i
	}
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(first))
}

// Frontends returns the addresses of the frontends, for clients.
func (c *Cluster) Frontends() []string {
	addrs := make([]string, len(c.frontends))
	for i, f := range c.frontends {
		addrs[i] = f.Addr()
	}
	return addrs
}

// Workers returns the addresses of the workers, for frontends.
func (c *Cluster) Workers() []string {
	addrs := make([]string, len(c.workers))
	for i, w := range c.workers {
		addrs[i] = w.Addr().String()
	}
	return addrs
}

// awaitPoll is the interval at which awaitLinks looks.
const awaitPoll = 2 * time.Millisecond

// errRejected says that a worker rejects a frontend. Waiting does not help then.
var errRejected = errors.New("a worker rejects")

// awaitLinks waits until every frontend is linked to every worker. If ctx ends first, or a worker rejects a frontend,
// awaitLinks returns an error with the missing link.
func (c *Cluster) awaitLinks(ctx context.Context) error {
	for _, f := range c.frontends {
		if err := c.awaitLinksOf(ctx, f); err != nil {
			return fmt.Errorf("local cluster: frontend %s: %w", f.Addr(), err)
		}
	}
	return nil
}

// awaitLinksOf is awaitLinks for one frontend.
func (c *Cluster) awaitLinksOf(ctx context.Context, f *fserve.Server) error {
	tick := time.NewTicker(awaitPoll)
	defer tick.Stop()
	for {
		err := c.whyUnlinked(f)
		if err == nil || errors.Is(err, errRejected) {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", context.Cause(ctx), err)
		}
	}
}

// whyUnlinked returns an error with a worker that f is not linked to, or nil if there is no such worker.
func (c *Cluster) whyUnlinked(f *fserve.Server) error {
	res := f.Cluster()
	if n := len(res.Workers); n < len(c.workers) {
		return fmt.Errorf("it knows %d of %d workers", n, len(c.workers))
	}
	for _, why := range f.Rejections() {
		return fmt.Errorf("%w frontend %s: %s", errRejected, res.Frontend, why)
	}
	for _, w := range res.Workers {
		if w.State != "up" {
			return fmt.Errorf("worker %s is %s (%s)", w.Address, w.State, w.Error)
		}
	}
	return nil
}

// Ready returns nil if the cluster can run jobs now, and otherwise the reason.
func (c *Cluster) Ready() error {
	for _, f := range c.frontends {
		if err := f.Ready(); err != nil {
			return fmt.Errorf("frontend %s: %w", f.Addr(), err)
		}
	}
	return nil
}

// Failed waits until a part of the cluster fails by itself, and returns the part's error. If ctx ends first, Failed
// returns nil.
func (c *Cluster) Failed(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	first := make(chan error, 1)
	report := func(err error) {
		select {
		case first <- err:
		default:
		}
	}
	for _, f := range c.frontends {
		go func() {
			select {
			case err := <-f.Failed():
				report(err)
			case <-ctx.Done():
			}
		}()
	}
	for _, w := range c.workers {
		go func() {
			select {
			case <-w.Done():
				report(w.Err())
			case <-ctx.Done():
			}
		}()
	}
	select {
	case err := <-first:
		return err
	case <-ctx.Done():
		return nil
	}
}

// Drain makes the frontends refuse new jobs, and waits until the present jobs have ended or ctx ends. Call Close
// afterwards.
func (c *Cluster) Drain(ctx context.Context) error {
	errs := make([]error, len(c.frontends))
	var all sync.WaitGroup
	for i, f := range c.frontends {
		all.Go(func() { errs[i] = f.Drain(ctx) })
	}
	all.Wait()
	return errors.Join(errs...)
}

// Close ends the cluster and its running tasks at once.
func (c *Cluster) Close() error {
	errs := []error{c.closeFrontends()}
	for _, w := range c.workers {
		errs = append(errs, w.Close())
	}
	c.stopWatch()
	return errors.Join(errs...)
}

// StopFrontend ends frontend i at once, so that tests can observe the failure of a frontend. A second call does
// nothing.
func (c *Cluster) StopFrontend(i int) error {
	f := c.frontends[i]
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stopped[f] {
		return nil
	}
	if c.stopped == nil {
		c.stopped = map[*fserve.Server]bool{}
	}
	c.stopped[f] = true
	return f.Close()
}

// StopWorker ends worker i and its running tasks at once.
func (c *Cluster) StopWorker(i int) error { return c.workers[i].Close() }

// closeFrontends ends all frontends.
func (c *Cluster) closeFrontends() error {
	var errs []error
	for i := range c.frontends {
		errs = append(errs, c.StopFrontend(i))
	}
	return errors.Join(errs...)
}
