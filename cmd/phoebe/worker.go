package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/VictoriaMetrics/metrics"

	"github.com/phoebe-sched/phoebe/worker"
	"github.com/phoebe-sched/phoebe/worker/serve"
)

// queueFlags are the queue of a worker, and its limits.
type queueFlags struct {
	Order           string        `default:"fifo" enum:"fifo,priority,fair,shortest" help:"Whose turn comes first: ${enum}. Fair is between tenants, shortest by estimate. Default ${default}."`
	Weights         weights       `placeholder:"TENANT=W;..." help:"Shares of tenants for --order fair; default 1 each."`
	StarvationBound time.Duration `default:"1s" placeholder:"D" help:"For --order shortest: whoever waited this long goes ahead. Default ${default}."`
	ReadyExpiry     time.Duration `default:"500ms" placeholder:"D" help:"How long a slot is held for a frontend that does not answer. Default ${default}."`
	Grace           time.Duration `default:"10s" placeholder:"D" help:"How long tasks of a lost frontend run on, for another to claim them. Default ${default}."`
	Retain          time.Duration `default:"30s" placeholder:"D" help:"How long results are kept that no frontend has acknowledged. Default ${default}."`
	MaxRetained     size          `default:"256MiB" placeholder:"SIZE" help:"Size of those results; the oldest go beyond it. Default ${default}."`
	MaxQueue        int           `default:"16384" placeholder:"N" help:"Places in the queue; reservations beyond are refused. Default ${default}."`
	MaxResult       size          `default:"1MiB" placeholder:"SIZE" help:"Result of one task. Default ${default}."`
}

func (q *queueFlags) apply(c *serve.Config) error {
	order, err := worker.ParseOrder(q.Order)
	if err != nil {
		return usage(err)
	}
	k := &c.Core
	k.Order, k.Weights, k.StarvationBound, k.ReadyExpiry = order, q.Weights, q.StarvationBound, q.ReadyExpiry
	k.Grace, k.Retain, k.MaxRetained, k.MaxQueue = q.Grace, q.Retain, int(q.MaxRetained), q.MaxQueue
	c.MaxResult = int(q.MaxResult)
	return nil
}

type workerCmd struct {
	Listen     string        `default:"127.0.0.1:7420" placeholder:"HOST:PORT" help:"Where frontends connect; port 0 takes a free one. Beyond loopback a secret is needed. Default ${default}."`
	Name       string        `placeholder:"TEXT" help:"Name in logs, on screens and for constraints on hosts. Default: the host's name and the port."`
	Labels     []string      `placeholder:"KEY=VALUE" help:"Labels, for constraints. Default: none."`
	Slots      int           `placeholder:"N" help:"Short tasks that run at once, each with 1000 millicores and 256 MiB. Default: the number of CPUs."`
	AllowExec  bool          `help:"Also run any command as a process, with the rights of this one (function exec). Default: no."`
	MaxPayload size          `default:"1MiB" placeholder:"SIZE" help:"Payload of one task. Default ${default}."`
	MaxLinks   int           `default:"10000" placeholder:"N" help:"Connections of frontends; those beyond are closed. Default ${default}."`
	MaxLease   time.Duration `default:"1m" placeholder:"D" help:"The longest lease that a frontend may ask for. Default ${default}."`

	slotFlags
	queueFlags
	secretFlags
	serviceFlags
}

// Run runs a worker.
func (c *workerCmd) Run(ctx context.Context, out *streams, log *slog.Logger) error {
	host, err := os.Hostname()
	if err != nil {
		host = "localhost"
	}
	cfg := serve.Config{
		Listen: c.Listen, Name: c.Name, Host: host, Labels: c.Labels, AllowExec: c.AllowExec,
		MaxConns: c.MaxLinks, MaxLease: c.MaxLease, Logger: log, Metrics: metrics.NewSet(),
	}
	if cfg.Secret, err = c.secret(); err != nil {
		return err
	}
	if c.Slots == 0 {
		c.Slots = runtime.NumCPU()
	}
	if cfg.Core.Capacity, err = c.capacity(c.Slots); err != nil {
		return err
	}
	cfg.Core.MaxPayload = int(c.MaxPayload)
	if err := c.apply(&cfg); err != nil {
		return err
	}
	s, err := serve.New(cfg)
	if err != nil {
		return usage(err)
	}
	if err := s.Start(); err != nil {
		return errors.Join(err, s.Close())
	}
	fmt.Fprintf(out.out, "worker %s\n", s.Addr())
	var draining atomic.Bool
	return c.serve(ctx, log, cfg.Metrics, service{
		ready: func() error {
			if draining.Load() {
				return errors.New("draining")
			}
			return s.Err()
		},
		failed: func(ctx context.Context) error {
			select {
			case <-s.Done():
				return s.Err()
			case <-ctx.Done():
				return nil
			}
		},
		drain: func(ctx context.Context) error {
			draining.Store(true)
			return s.Drain(ctx)
		},
		close: s.Close,
	})
}
