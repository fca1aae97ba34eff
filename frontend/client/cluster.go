package client

import (
	"context"
	"errors"
	"time"

	v1 "github.com/phoebe-sched/phoebe/idl/gen/phoebe/v1"
)

// Cluster is what one frontend believes of the fleet.
type Cluster struct {
	Frontend     string // its name
	Address      string
	Version      string
	Uptime       time.Duration
	Draining     bool
	Jobs         int
	TasksPending int
	TasksRunning int
	Workers      []Worker
	Members      []Member // the frontends that gossip tells of, itself among them; none without gossip
	Warning      string   // what is not well although it serves
	Clock        time.Time
	FileLimit    int // files that it may have open; 0: not known
	MaxClients   int // connections of clients that it takes
}

// Member is a frontend, as gossip tells.
type Member struct {
	Name      string
	Address   string // for clients
	Gossip    string // for frontends
	Heartbeat string // for workers
}

// Row is what gossip tells of a worker.
type Row struct {
	Age   time.Duration
	From  string   // who it comes from: "itself", or names of frontends
	Flaws []string // what in it was absurd, and replaced
}

// Worker is what a frontend believes of a worker. Queued, Running and Free are as last heard.
type Worker struct {
	Name         string
	Address      string
	State        string // connecting, up, adrift, draining or down
	Host         string
	Labels       []string
	Functions    []string
	Capacity     Demand
	Free         Demand
	Queued       int // places in its queue, of all frontends
	Running      int // tasks, of all frontends
	HeardAgo     time.Duration
	RTT          time.Duration
	Reservations int // of this frontend
	Attempts     int // of this frontend
	Error        string
	Rack         string
	Row          *Row // nil: gossip tells nothing of it
	View         View
}

// View is what a frontend places long tasks by at a worker, from whomever it has that.
type View struct {
	Age time.Duration // of Waits; negative: nothing is known
	// Waits are the worker's expected waits for room: Waits[i][j] is for a task of up to the i-th step of its CPU
	// and the j-th of its memory; the steps are 1, 2, 4, 8, 12, 16, 24 and 32 of 32 parts. Negative: it never fits.
	Waits       [][]time.Duration
	Speed       float64       // how much faster than the average worker it runs tasks; zero: not known
	Files       int           // in its cache
	Maintenance time.Duration // until it is away, as it has announced; negative: it has not
}

// Cluster asks a frontend, the first that answers.
func (c *Client) Cluster(ctx context.Context) (*Cluster, error) {
	if err := c.enter(); err != nil {
		return nil, err
	}
	defer c.background.Done()
	var errs []error
	start := int(c.next.Add(1) % uint32(len(c.frontends)))
	for i := range c.frontends {
		f := c.frontends[(start+i)%len(c.frontends)]
		var resp *v1.ClusterResponse
		err := f.do(ctx, &call{}, c.cfg.rpcTimeout, func(ctx context.Context) (err error) {
			resp, err = f.rpc.Cluster(ctx, &v1.ClusterRequest{Caller: c.caller})
			return err
		})
		if err == nil && resp == nil {
			err = &callError{addr: f.addr, err: errNothing}
		}
		if err == nil {
			return fromCluster(resp), nil
		}
		var refused *RefusedError
		if errors.As(err, &refused) {
			return nil, err
		}
		errs = append(errs, err)
		if ctx.Err() != nil {
			break
		}
	}
	return nil, errors.Join(errs...)
}

func fromCluster(r *v1.ClusterResponse) *Cluster {
	c := &Cluster{
		Frontend: r.Frontend, Address: r.Address, Version: r.Version, Uptime: fromMicros(r.UptimeUs),
		Draining: r.Draining, Jobs: int(r.Jobs), TasksPending: int(r.TasksPending), TasksRunning: int(r.TasksRunning),
		Workers: make([]Worker, len(r.Workers)), Members: make([]Member, len(r.Members)), Warning: r.Warning,
		Clock: time.UnixMicro(r.ClockUs), FileLimit: int(r.FileLimit), MaxClients: int(r.MaxClients),
	}
	for i, m := range r.Members {
		c.Members[i] = Member{Name: m.Name, Address: m.Address, Gossip: m.Gossip, Heartbeat: m.Heartbeat}
	}
	for i, w := range r.Workers {
		c.Workers[i] = Worker{
			Name: w.Name, Address: w.Address, State: w.State, Host: w.Host, Labels: w.Labels, Functions: w.Functions,
			Capacity: fromDemand(w.Capacity), Free: fromDemand(w.Free), Queued: int(w.Queued), Running: int(w.Running),
			HeardAgo: fromMicros(w.HeardUsAgo), RTT: fromMicros(w.RttUs),
			Reservations: int(w.Reservations), Attempts: int(w.Attempts), Error: w.Error, Rack: w.Rack,
			Row: fromRow(w), View: fromView(w),
		}
	}
	return c
}

func fromRow(w *v1.WorkerStatus) *Row {
	if w.RowUsAgo < 0 {
		return nil
	}
	return &Row{Age: fromMicros(w.RowUsAgo), From: w.RowFrom, Flaws: w.RowFlaws}
}

func fromView(w *v1.WorkerStatus) View {
	const side = 8
	v := View{Age: fromMicros(w.WaitUsAgo), Speed: w.Speed, Files: int(w.Files), Maintenance: fromMicros(w.MaintenanceUs)}
	for waits := w.WaitUs; len(waits) >= side && len(v.Waits) < side; waits = waits[side:] {
		line := make([]time.Duration, side)
		for j := range line {
			line[j] = fromMicros(waits[j])
		}
		v.Waits = append(v.Waits, line)
	}
	return v
}

func fromDemand(d *v1.Demand) Demand {
	if d == nil {
		return Demand{}
	}
	return Demand{CPU: d.CpuMillicores, Memory: d.MemoryMib}
}
