package client

import (
	"context"
	"fmt"
	"math"
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
	Spare        float64 // slots that tasks at workers take that are not regular, or not covered by tokens
	Copies       int     // second attempts of late tasks, since it started
	CopiesWon    int     // of these, those that were done first, or started first of two that waited
	Preempted    int     // attempts that were stopped as they stood in the way of regular work, since it started
	Workers      []Worker
	Members      []Member // the frontends that gossip tells of, itself among them; none without gossip
	Warning      string   // what is not well although it serves
	Clock        time.Time
	FileLimit    int    // files that it may have open; 0: not known
	MaxClients   int    // connections of clients that it takes
	Next         string // the page behind this one is after it; empty: there is none
	Total        int    // workers on all pages; zero of a frontend that does not tell
	Tenants      []Tenant
}

// Tenant is what a frontend has of a tenant with jobs there, or of whom jobs were refused, in slots, and without tenants below it.
type Tenant struct {
	Path         string
	Used         float64 // by tasks at workers
	Spare        float64 // of these, by tasks that are not regular, or not covered by its tokens
	Wanted       float64 // by these, and by tasks that could be there
	Tokens, Most float64 // so much of its tokens, and of its maximum, it may have there; negative: that is not limited
	Held         int     // tasks that its maximum keeps waiting
	Pending      int     // tasks without an outcome, with those of tenants below it
	Refused      int     // jobs, since they are counted: of the 1024 tenants of whom most were
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

// Cluster asks a frontend, the first that answers, for all that it believes.
func (c *Client) Cluster(ctx context.Context) (*Cluster, error) {
	return c.ClusterPage(ctx, ClusterQuery{})
}

// ClusterQuery is what is asked of a frontend.
type ClusterQuery struct {
	Frontend string // name or address of the one that is meant, which the one that is asked forwards to; empty: any
	Worker   string // only the one of this name or address; empty: all
	After    string // address of the last worker of the page before
	Max      int    // workers on a page; zero: all
	Tenants  bool   // tell of tenants instead of workers
}

// ClusterPage is a part of what a frontend believes, of which Next, if it is not empty, is After of the next part.
func (c *Client) ClusterPage(ctx context.Context, q ClusterQuery) (*Cluster, error) {
	resp, err := c.askCluster(ctx, &v1.ClusterRequest{Frontend: q.Frontend, Worker: q.Worker, After: q.After, MaxWorkers: clampInt32(q.Max), Tenants: q.Tenants, FrontendsOnly: q.Tenants})
	if err != nil {
		return nil, err
	}
	return fromCluster(resp), nil
}

func (c *Client) askCluster(ctx context.Context, req *v1.ClusterRequest) (*v1.ClusterResponse, error) {
	req.Caller = c.cfg.wireCaller()
	return askUntilAnswered(ctx, c, c.seedsInTurn(), func(ctx context.Context, f *frontend) (*v1.ClusterResponse, error) { return f.rpc.Cluster(ctx, req) })
}

func clampInt32(n int) int32 { return int32(min(max(n, 0), math.MaxInt32)) }

// Drain has the worker of a name or an address end what runs, take nothing new, and end. It returns when the worker was told.
func (c *Client) Drain(ctx context.Context, worker string) error {
	return c.sendLeave(ctx, &v1.LeaveRequest{Worker: worker, Drain: true})
}

// Maintenance has the worker of a name or an address announce that it will be away in some time, for some time. Frontends that place
// tasks by estimation heed that. For 0, what was announced is taken back.
func (c *Client) Maintenance(ctx context.Context, worker string, in, lasts time.Duration) error {
	return c.sendLeave(ctx, &v1.LeaveRequest{Worker: worker, InUs: in.Microseconds(), LastsUs: lasts.Microseconds()})
}

func (c *Client) sendLeave(ctx context.Context, req *v1.LeaveRequest) error {
	req.Caller = c.cfg.wireCaller()
	_, err := askUntilAnswered(ctx, c, c.seedsInTurn(), func(ctx context.Context, f *frontend) (*v1.LeaveResponse, error) { return f.rpc.Leave(ctx, req) })
	return err
}

// Figures are a few numbers of each of all workers.
type Figures struct {
	List      int64    // stands for the lists below: it changes when they do
	Names     []string // these are empty if List is the one that was known
	Addresses []string
	Racks     []string
	Workers   []Figure // in the same order
}

// Figure is numbers of a worker, of which the last six are logarithms: see FigureValue.
type Figure struct {
	State       uint8 // 0 connecting, 1 up, 2 adrift, 3 draining, 4 down
	CPU, Memory uint8 // the share that is taken, of 255
	Queued      uint8 // places in its queue
	Running     uint8 // tasks there
	Wait        uint8 // expected for a task of an eighth of the worker
	RoundTrip   uint8
	Silence     uint8 // for which it was not heard
	WaitAge     uint8 // how old Wait is; frontends of 0.1.0 do not tell
}

// FigureValue is the number that a logarithm in a Figure stands for: places, tasks or microseconds. Negative: it is not known.
func FigureValue(n uint8) float64 {
	switch n {
	case 0:
		return 0
	case math.MaxUint8:
		return -1
	}
	return math.Exp2(float64(n) / 8)
}

// Figures asks for a few numbers of all workers, as one frontend, or that of a name or address, sees them. The names come unless
// known is still their list.
func (c *Client) Figures(ctx context.Context, frontend string, known int64) (*Figures, error) {
	resp, err := c.askCluster(ctx, &v1.ClusterRequest{Frontend: frontend, Figures: true, Known: known})
	if err != nil {
		return nil, err
	}
	f := resp.Figures
	if f == nil {
		return nil, fmt.Errorf("frontend %s, of version %s, does not know figures of workers", resp.Frontend, resp.Version)
	}
	const size = 8
	n := len(f.Figures) / size
	if len(f.Figures)%size != 0 || f.Number != known && (len(f.Names) != n || len(f.Addresses) != n || len(f.Racks) != n) {
		return nil, fmt.Errorf("frontend %s answers with figures of %d bytes for %d workers", resp.Frontend, len(f.Figures), len(f.Names))
	}
	list := &Figures{List: f.Number, Names: f.Names, Addresses: f.Addresses, Racks: f.Racks, Workers: make([]Figure, n)}
	for i := range list.Workers {
		b := f.Figures[i*size:]
		list.Workers[i] = Figure{b[0], b[1], b[2], b[3], b[4], b[5], b[6], b[7], math.MaxUint8}
		if i < len(f.Ages) {
			list.Workers[i].WaitAge = f.Ages[i]
		}
	}
	return list, nil
}

func fromSlots(n int64) float64 { return float64(n) / 1000 }

func fromCluster(r *v1.ClusterResponse) *Cluster {
	c := &Cluster{
		Frontend: r.Frontend, Address: r.Address, Version: r.Version, Uptime: fromMicros(r.UptimeUs),
		Draining: r.Draining, Jobs: int(r.Jobs), TasksPending: int(r.TasksPending), TasksRunning: int(r.TasksRunning),
		Workers: make([]Worker, len(r.Workers)), Members: make([]Member, len(r.Members)), Warning: r.Warning,
		Clock: time.UnixMicro(r.ClockUs), FileLimit: int(r.FileLimit), MaxClients: int(r.MaxClients),
		Next: r.NextPage, Total: int(r.Total),
		Spare: fromSlots(r.Spare), Copies: int(r.Copies), CopiesWon: int(r.CopiesWon), Preempted: int(r.Preempted),
	}
	for i, m := range r.Members {
		c.Members[i] = Member{Name: m.Name, Address: m.Address, Gossip: m.Gossip, Heartbeat: m.Heartbeat}
	}
	for _, t := range r.Tenants {
		c.Tenants = append(c.Tenants, Tenant{
			Path: t.Path, Used: fromSlots(t.Used), Spare: fromSlots(t.Spare), Wanted: fromSlots(t.Wanted), Tokens: fromSlots(t.Tokens), Most: fromSlots(t.Most),
			Held: int(t.Held), Pending: int(t.Pending), Refused: int(t.Refused),
		})
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
