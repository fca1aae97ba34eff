package admin

import (
	"context"
	"time"

	"github.com/phoebe-sched/phoebe/frontend/client"
	"github.com/phoebe-sched/phoebe/frontend/client/internal/inner"
	v1 "github.com/phoebe-sched/phoebe/idl/gen/phoebe/v1"
)

// Cluster is one frontend's view of the fleet.
type Cluster struct {
	Frontend     string // name
	Address      string
	Version      string
	Uptime       time.Duration
	Draining     bool
	Jobs         int
	TasksPending int     // tasks without an outcome
	TasksRunning int     // attempts that run at workers, without attempts in workers' queues
	Spare        float64 // slots taken by tasks at workers that are not regular, or not covered by tokens
	Copies       int     // second attempts of late tasks, since the frontend started
	CopiesWon    int     // copies that ended first, or that started first while the first attempt waited
	Preempted    int     // attempts stopped to make room for regular work, since the frontend started
	Workers      []Worker
	Members      []Member // frontends in the gossip, with the answering frontend; empty without gossip
	Warning      string   // a problem of the frontend, although it serves; empty: none
	Clock        time.Time
	FileLimit    int    // number of files that the frontend may have open; 0: not known
	MaxClients   int    // number of client connections that the frontend takes
	Next         string // ClusterQuery.After of the next page; empty: this page is the last
	Total        int    // workers on all pages; 0: not known
	Tenants      []Tenant
	Others       []FrontendReport // other frontends, by name and address; Err tells why gossip has lost one
	LastMinute   *LastMinute      // nil: the frontend is older, or the caller is a tenant's client
	OtherTenants *LastMinute      // sum of the tenants that the frontend does not count separately; nil: there are none
}

// LastMinute holds counts of a frontend over the last minute, or since its start if it started later.
type LastMinute struct {
	Length    time.Duration // of the counted time
	Jobs      int64         // jobs that have ended
	Tasks     int64         // tasks with an outcome
	Failed    int64         // tasks with an outcome, but without a result
	Responses Histogram     // response times of the jobs
}

// Tenant is the state of a tenant at a frontend, if the tenant has jobs there or had jobs refused. Amounts are in
// slots, and leave out the tenants below.
type Tenant struct {
	Path         string
	Used         float64 // by tasks at workers
	Spare        float64 // part of Used: by tasks that are not regular, or not covered by the tenant's tokens
	Wanted       float64 // Used, and what waiting tasks could use
	Tokens, Most float64 // shares of the tenant's tokens and maximum that it may use there; negative: not limited
	Held         int     // tasks that wait because the tenant's maximum is used
	Pending      int     // tasks without an outcome, of tenants below, too
	Refused      int     // refused jobs so far; counted for the 1024 tenants with most refusals
	// Nil: no task of the tenant ended in the last minute, or the frontend counts the tenant among OtherTenants.
	LastMinute *LastMinute
}

// Member is a frontend in the gossip.
type Member struct {
	Name      string
	Address   string // for clients
	Gossip    string // for frontends
	Heartbeat string // for workers
}

// Row is the gossip about a worker.
type Row struct {
	Age   time.Duration
	From  string   // source: "itself", or names of frontends
	Flaws []string // absurd values in the row, which were replaced
}

// Worker is a frontend's view of a worker.
type Worker struct {
	client.Worker

	Spare        *client.Demand // used by spare tasks of this frontend, a part of Free; nil: an older frontend
	HeardAgo     time.Duration
	RTT          time.Duration
	Reservations int // of this frontend
	Attempts     int // of this frontend
	Error        string
	CacheError   string // why the worker's cache takes no new files; "": no problem, or no cache
	Row          *Row   // nil: no gossip about the worker
	View         View
}

// View holds the facts about a worker by which a frontend places long tasks.
type View struct {
	Age time.Duration // of Waits; negative: nothing is known
	// Waits are the expected waits for room at the worker. Waits[i][j] is the wait of a task that takes up to step i of
	// the worker's CPU and step j of its memory. The steps are 1, 2, 4, 8, 12, 16, 24 and 32 of 32 parts. Negative: the
	// task never fits.
	Waits       [][]time.Duration
	Speed       float64       // relative to the average worker; 2 is twice as fast; zero: not known
	Files       int           // number of files in the worker's cache
	Maintenance time.Duration // time until the announced absence; negative: none is announced
}

// Cluster returns the whole view of the first frontend that answers.
func (c *Client) Cluster(ctx context.Context) (*Cluster, error) {
	return c.ClusterPage(ctx, ClusterQuery{})
}

// ClusterQuery selects a part of a frontend's view.
type ClusterQuery struct {
	Frontend string // name or address of the frontend; the asked frontend forwards the call; empty: any
	Worker   string // name or address of a single worker; empty: all workers
	After    string // Cluster.Next of the previous page; empty: the first page
	Max      int    // number of workers on a page; zero: all
	Tenants  bool   // list tenants instead of workers
}

// ClusterPage returns a page of a frontend's view. If Next of the page is not empty, use it as After for the next page.
func (c *Client) ClusterPage(ctx context.Context, q ClusterQuery) (*Cluster, error) {
	resp, err := c.askCluster(ctx, &v1.ClusterRequest{
		Frontend: q.Frontend, Worker: q.Worker, After: q.After, MaxWorkers: inner.ClampInt32(q.Max), Tenants: q.Tenants,
		FrontendsOnly: q.Tenants,
	})
	if err != nil {
		return nil, err
	}
	return fromCluster(resp)
}

// askCluster makes one Cluster call.
func (c *Client) askCluster(ctx context.Context, req *v1.ClusterRequest) (*v1.ClusterResponse, error) {
	return ask(ctx, c, func(ctx context.Context, to v1.Phoebe, by *v1.Caller) (*v1.ClusterResponse, error) {
		req.Caller = by
		return to.Cluster(ctx, req)
	})
}

// Drain makes a worker finish its running tasks, take no new tasks, and exit. The worker is given by name or address.
// Drain returns when the order has been sent to the worker, by any frontend with a link to the worker.
func (c *Client) Drain(ctx context.Context, worker string) error { return c.DrainAt(ctx, "", worker) }

// DrainAt is Drain through a single frontend, given by name or address. Empty: any.
func (c *Client) DrainAt(ctx context.Context, frontend, worker string) error {
	return c.sendLeave(ctx, &v1.LeaveRequest{Worker: worker, Drain: true, Frontend: frontend})
}

// Maintenance makes a worker, given by name or address, announce an absence: in is the time until the absence, lasts is
// its length. Frontends that place tasks by estimation take the announcement into account. If lasts is 0, the worker
// takes back its announcement.
func (c *Client) Maintenance(ctx context.Context, worker string, in, lasts time.Duration) error {
	return c.sendLeave(ctx, &v1.LeaveRequest{Worker: worker, InUs: in.Microseconds(), LastsUs: lasts.Microseconds()})
}

// sendLeave makes one Leave call.
func (c *Client) sendLeave(ctx context.Context, req *v1.LeaveRequest) error {
	_, err := ask(ctx, c, func(ctx context.Context, to v1.Phoebe, by *v1.Caller) (*v1.LeaveResponse, error) {
		req.Caller = by
		return to.Leave(ctx, req)
	})
	return err
}

// fromSlots converts thousandths of slots to slots.
func fromSlots(n int64) float64 { return float64(n) / 1000 }

// fromCluster converts an answer.
func fromCluster(r *v1.ClusterResponse) (c *Cluster, err error) {
	c = &Cluster{
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
	if c.Others, err = fromReports(r.Others); err != nil {
		return nil, err
	}
	if len(c.Others) == 0 { // a frontend of an older version
		for _, m := range c.Members {
			if m.Address != "" && m.Address != c.Address {
				c.Others = append(c.Others, FrontendReport{Name: m.Name, Address: m.Address})
			}
		}
	}
	if c.LastMinute, err = fromLastMinute(r.LastMinute); err != nil {
		return nil, err
	}
	if c.OtherTenants, err = fromLastMinute(r.OtherTenants); err != nil {
		return nil, err
	}
	for _, t := range r.Tenants {
		minute, err := fromLastMinute(t.LastMinute)
		if err != nil {
			return nil, err
		}
		c.Tenants = append(c.Tenants, Tenant{
			LastMinute: minute,
			Path:       t.Path, Used: fromSlots(t.Used), Spare: fromSlots(t.Spare), Wanted: fromSlots(t.Wanted),
			Tokens: fromSlots(t.Tokens), Most: fromSlots(t.Most),
			Held: int(t.Held), Pending: int(t.Pending), Refused: int(t.Refused),
		})
	}
	for i, w := range r.Workers {
		c.Workers[i] = Worker{
			Worker:   inner.Worker(w).(client.Worker),
			HeardAgo: fromMicros(w.HeardUsAgo), RTT: fromMicros(w.RttUs),
			Reservations: int(w.Reservations), Attempts: int(w.Attempts), Error: w.Error, CacheError: w.CacheError,
			Row: fromRow(w), View: fromView(w),
		}
		if w.Spare != nil {
			c.Workers[i].Spare = &client.Demand{CPU: w.Spare.CpuMillicores, Memory: w.Spare.MemoryMib}
		}
	}
	return c, nil
}

// fromLastMinute converts counts; nil: there are none.
func fromLastMinute(m *v1.LastMinute) (*LastMinute, error) {
	if m == nil {
		return nil, nil
	}
	to := &LastMinute{Length: fromMicros(m.Us), Jobs: m.Jobs, Tasks: m.Tasks, Failed: m.Failed}
	if _, ok := to.Responses.MergeFrom(m.Responses); !ok {
		return nil, errHistogram
	}
	return to, nil
}

// fromRow converts the gossip about a worker; nil: there is none.
func fromRow(w *v1.WorkerStatus) *Row {
	if w.RowUsAgo < 0 {
		return nil
	}
	return &Row{Age: fromMicros(w.RowUsAgo), From: w.RowFrom, Flaws: w.RowFlaws}
}

// fromView converts the facts for placing long tasks.
func fromView(w *v1.WorkerStatus) View {
	const side = 8
	v := View{
		Age: fromMicros(w.WaitUsAgo), Speed: w.Speed, Files: int(w.Files),
		Maintenance: fromMicros(w.MaintenanceUs),
	}
	for waits := w.WaitUs; len(waits) >= side && len(v.Waits) < side; waits = waits[side:] {
		line := make([]time.Duration, side)
		for j := range line {
			line[j] = fromMicros(waits[j])
		}
		v.Waits = append(v.Waits, line)
	}
	return v
}
