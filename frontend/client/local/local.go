// Package local runs a whole cluster, frontends and workers, in the process that imports it: for the tests of
// programs that use the SDK, for trying things out, and for benchmarks. The parts talk over loopback, as
// separate processes would.
package local

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"strings"
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

// Config is what a Cluster is made of. Zero fields take the defaults that their comments name.
type Config struct {
	Frontends int // default 1
	Workers   int // default 2
	Slots     int // of each worker; default 4

	// FrontendPort and WorkerPort are those of the first frontend and worker, on 127.0.0.1; the others have the
	// ports that follow. 0: free ones.
	FrontendPort, WorkerPort int
	OrFree                   bool // if one of the frontends' ports is taken, all of them have free ones

	// Gossip has the frontends hear of the workers, and of the files in their caches, by heartbeats and gossip, as large fleets do:
	// Client.Locate knows of files by that. Default: each of them is told of all workers when it starts, and of no files.
	Gossip bool

	Registry *exec.Registry    // what the workers run; default exec.NewRegistry()
	Policy   string            // of jobs that name none; default the first of frontend.Policies
	Secret   string            // default: none
	Secrets  *identity.Secrets // several, instead of Secret; who made them watches them
	TLSDir   string            // keys of all parts, which have the roles of both; default: none, they speak in plain

	Logger  *slog.Logger // default: none
	Metrics *metrics.Set // of all parts together; default: a set for each part

	// Frontend and Worker may change what the i-th one, from 0, is started with.
	Frontend func(i int, c *fserve.Config)
	Worker   func(i int, c *wserve.Config)
}

// ConfigError says what is wrong with a Config.
type ConfigError struct{ Err error }

func (e *ConfigError) Error() string { return "local cluster: " + e.Err.Error() }
func (e *ConfigError) Unwrap() error { return e.Err }

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

// Cluster is frontends and workers that run in this process. Its methods are safe for concurrent use; Close may be
// called once.
type Cluster struct {
	frontends []*fserve.Server
	workers   []*wserve.Server
	keys      *identity.Keys
	stopWatch context.CancelFunc // that the keys are watched

	mu      sync.Mutex
	stopped map[*fserve.Server]bool
}

// linkTimeout is how long Start waits for links, which take milliseconds.
const linkTimeout = 30 * time.Second

// Start starts a cluster and returns when every frontend is linked to every worker. The cluster must be closed.
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
				cfg.Logger.Warn("new keys are no use: the old ones stay", "err", err)
			}
		})
	}
	if !cfg.Gossip { // else the workers need to know the frontends
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

// tryFrontends starts the frontends, on other ports if those that were free are not any more.
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
		// A free port that was found may be taken by somebody else before it is used.
		if cfg.FrontendPort > 0 || !errors.Is(err, syscall.EADDRINUSE) || try == 10 {
			return err
		}
	}
}

func (c *Cluster) startWorkers(cfg Config) error {
	for i := range cfg.Workers {
		wc := wserve.Config{
			Listen: portAddress(cfg.WorkerPort, i), Name: fmt.Sprintf("worker-%d", i),
			Secret: cfg.Secret, Secrets: cfg.Secrets, Keys: c.keys, Registry: cfg.Registry, Logger: cfg.Logger, Metrics: cfg.Metrics, Goroutines: true,
		}
		if cfg.Gossip {
			for _, f := range c.frontends {
				wc.Join = append(wc.Join, f.HeartbeatAddr())
			}
		}
		wc.Core.Capacity = probe.Demand{CPU: probe.Slot.CPU * probe.Millicores(cfg.Slots), Mem: probe.Slot.Mem * probe.MiB(cfg.Slots)}
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

func (c *Cluster) startFrontends(cfg Config, policy frontend.Policy) error {
	addrs, err := frontendAddresses(cfg)
	if err != nil {
		return err
	}
	for i, addr := range addrs {
		fc := fserve.Config{
			Listen: addr, Name: fmt.Sprintf("frontend-%d", i), Secret: cfg.Secret, Secrets: cfg.Secrets, Keys: c.keys, Workers: fserve.Static(c.Workers()),
			Peers: addrs, Policy: policy, Logger: cfg.Logger, Metrics: cfg.Metrics,
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

// frontendAddresses finds where the frontends will listen: each must know all of them before it starts.
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
		defer l.Close() // not before all are found: they must differ
		addrs[i] = l.Addr().String()
	}
	return addrs, nil
}

func portAddress(first, i int) string {
	if first > 0 {
		first += i
	}
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(first))
}

// Frontends are the addresses that clients connect to.
func (c *Cluster) Frontends() []string {
	addrs := make([]string, len(c.frontends))
	for i, f := range c.frontends {
		addrs[i] = f.Addr()
	}
	return addrs
}

// Workers are the addresses that frontends connect to.
func (c *Cluster) Workers() []string {
	addrs := make([]string, len(c.workers))
	for i, w := range c.workers {
		addrs[i] = w.Addr().String()
	}
	return addrs
}

// awaitPoll is how often awaitLinks looks.
const awaitPoll = 2 * time.Millisecond

// errRejected says that a worker will never be linked, whoever waits for it.
var errRejected = errors.New("a worker will not be linked to")

// awaitLinks returns when every frontend is linked to every worker, or says what is missing when ctx ends, or when that
// will never be.
func (c *Cluster) awaitLinks(ctx context.Context) error {
	for _, f := range c.frontends {
		if err := c.awaitLinksOf(ctx, f); err != nil {
			return fmt.Errorf("local cluster: frontend %s: %w", f.Addr(), err)
		}
	}
	return nil
}

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

// whyUnlinked says which worker a frontend is not linked to, if there is one.
func (c *Cluster) whyUnlinked(f *fserve.Server) error {
	res := f.Cluster()
	if n := len(res.Workers); n < len(c.workers) {
		return fmt.Errorf("it has heard of %d workers of %d", n, len(c.workers))
	}
	for _, w := range res.Workers {
		if strings.HasPrefix(w.Error, "rejected") {
			return fmt.Errorf("%w frontend %s: %s", errRejected, res.Frontend, w.Error)
		}
		if w.State != "up" {
			return fmt.Errorf("worker %s is %s (%s)", w.Address, w.State, w.Error)
		}
	}
	return nil
}

// Ready says why the cluster could not run a job now, or nil.
func (c *Cluster) Ready() error {
	for _, f := range c.frontends {
		if err := f.Ready(); err != nil {
			return fmt.Errorf("frontend %s: %w", f.Addr(), err)
		}
	}
	return nil
}

// Failed returns when a part of the cluster fails by itself, with its error, or with nil when ctx ends.
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

// Drain refuses new jobs and waits until those under way have ended, or ctx ends. Close must follow.
func (c *Cluster) Drain(ctx context.Context) error {
	errs := make([]error, len(c.frontends))
	var all sync.WaitGroup
	for i, f := range c.frontends {
		all.Go(func() { errs[i] = f.Drain(ctx) })
	}
	all.Wait()
	return errors.Join(errs...)
}

// Close ends the cluster at once, and what it runs.
func (c *Cluster) Close() error {
	errs := []error{c.closeFrontends()}
	for _, w := range c.workers {
		errs = append(errs, w.Close())
	}
	c.stopWatch()
	return errors.Join(errs...)
}

// StopFrontend ends the i-th frontend at once, for tests of what follows from that.
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

// StopWorker ends the i-th worker at once, and what it runs.
func (c *Cluster) StopWorker(i int) error { return c.workers[i].Close() }

func (c *Cluster) closeFrontends() error {
	var errs []error
	for i := range c.frontends {
		errs = append(errs, c.StopFrontend(i))
	}
	return errors.Join(errs...)
}
