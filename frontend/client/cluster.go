package client

import (
	"context"
	"fmt"
	"math"
	"time"

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

// Worker is a frontend's view of a worker. Queued, Running and Free are the last values from the worker.
type Worker struct {
	Name         string
	Address      string
	State        string // connecting, up, adrift, draining or down
	Host         string
	Labels       []string
	Functions    []string
	Capacity     Demand
	Free         Demand  // room for regular tasks: the room of spare tasks counts as free, because they are stopped
	Spare        *Demand // used by spare tasks of this frontend, a part of Free; nil: an older frontend does not tell
	Queued       int     // places in the worker's queue, of all frontends
	Running      int     // tasks, of all frontends
	HeardAgo     time.Duration
	RTT          time.Duration
	Reservations int // of this frontend
	Attempts     int // of this frontend
	Error        string
	CacheError   string // why the worker's cache takes no new files; "": no problem, or no cache
	Rack         string
	Row          *Row // nil: no gossip about the worker
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
		Frontend: q.Frontend, Worker: q.Worker, After: q.After, MaxWorkers: clampInt32(q.Max), Tenants: q.Tenants,
		FrontendsOnly: q.Tenants,
	})
	if err != nil {
		return nil, err
	}
	return fromCluster(resp)
}

// askCluster makes one Cluster call.
func (c *Client) askCluster(ctx context.Context, req *v1.ClusterRequest) (*v1.ClusterResponse, error) {
	req.Caller = c.cfg.wireCaller()
	return askUntilAnswered(ctx, c, "",
		func(ctx context.Context, f *frontend) (*v1.ClusterResponse, error) {
			return f.rpc.Cluster(ctx, req)
		})
}

// clampInt32 limits n to the numbers from 0 to the largest int32.
func clampInt32(n int) int32 { return int32(min(max(n, 0), math.MaxInt32)) }

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
	req.Caller = c.cfg.wireCaller()
	_, err := askUntilAnswered(ctx, c, "",
		func(ctx context.Context, f *frontend) (*v1.LeaveResponse, error) {
			return f.rpc.Leave(ctx, req)
		})
	return err
}

// Figures holds a few numbers of each worker.
type Figures struct {
	List      int64    // version of the four lists below
	Names     []string // the lists are empty if the caller knows this version
	Addresses []string
	Racks     []string
	Hosts     []string // empty also from frontends of version 0.1.0
	Workers   []Figure // in the order of the lists
}

// Figure holds the numbers of a worker. Queued and the fields after it are logarithms, see FigureValue.
type Figure struct {
	State       uint8 // 0 connecting, 1 up, 2 adrift, 3 draining, 4 down
	CPU, Memory uint8 // share in use, of 255
	Queued      uint8 // number of places in the queue
	Running     uint8 // number of running tasks
	Wait        uint8 // expected wait of a task that takes an eighth of the worker
	RoundTrip   uint8
	Silence     uint8 // time since the last message of the worker
	WaitAge     uint8 // age of Wait; not known from frontends of version 0.1.0
}

// FigureValue returns the number that a logarithm in a Figure stands for: places, tasks or microseconds. Negative: not
// known.
func FigureValue(n uint8) float64 {
	switch n {
	case 0:
		return 0
	case math.MaxUint8:
		return -1
	}
	return math.Exp2(float64(n) / 8)
}

// Figures returns a few numbers of all workers, as a frontend sees them. The frontend is given by name or address;
// empty: any. If known is the current List, the lists of names stay empty.
func (c *Client) Figures(ctx context.Context, frontend string, known int64) (*Figures, error) {
	resp, err := c.askCluster(ctx, &v1.ClusterRequest{Frontend: frontend, Figures: true, Known: known})
	if err != nil {
		return nil, err
	}
	f := resp.Figures
	if f == nil {
		return nil, fmt.Errorf("frontend %s of version %s has no figures of workers: upgrade the frontend",
			resp.Frontend, resp.Version)
	}
	const size = 8
	n := len(f.Figures) / size
	if len(f.Figures)%size != 0 || f.Number != known &&
		(len(f.Names) != n || len(f.Addresses) != n || len(f.Racks) != n || len(f.Hosts) > 0 && len(f.Hosts) != n) {
		return nil, fmt.Errorf("frontend %s answered with %d bytes of figures for %d workers: want 8 bytes for each",
			resp.Frontend, len(f.Figures), len(f.Names))
	}
	list := &Figures{List: f.Number, Names: f.Names, Addresses: f.Addresses, Racks: f.Racks, Hosts: f.Hosts,
		Workers: make([]Figure, n)}
	for i := range list.Workers {
		b := f.Figures[i*size:]
		list.Workers[i] = Figure{b[0], b[1], b[2], b[3], b[4], b[5], b[6], b[7], math.MaxUint8}
		if i < len(f.Ages) {
			list.Workers[i].WaitAge = f.Ages[i]
		}
	}
	return list, nil
}

// FleetHistory holds samples of a frontend's view of the workers: ten minutes, a sample each two seconds.
type FleetHistory struct {
	Clock time.Time   // the frontend's clock at the answer
	At    []time.Time // of the samples, oldest first, by the frontend's clock
	// Addresses of the workers in Samples, those that left included. Empty: there are more than 2,000 workers, and
	// Samples has a row for each percent of the workers, lowest first.
	Addresses []string
	// A Figure for each sample of each row, with State, CPU, Wait, RoundTrip and Silence only. In the row of a worker,
	// State 255 means that the worker was not on the list. In the row of a percent, the workers were not up.
	Samples [][]Figure
	Gone    []GoneWorker // the latest first
}

// GoneWorker is a worker that was up in the last ten minutes, and is not up.
type GoneWorker struct {
	Name, Address, Rack string
	UpAgo               time.Duration // time since the worker was last seen up
	Off                 bool          // the worker is off the list
}

// FleetHistory returns what a frontend remembers of the workers. The frontend is given by name or address; empty: any.
// A frontend of version 0.1.0 remembers nothing, and the result is empty.
func (c *Client) FleetHistory(ctx context.Context, frontend string) (*FleetHistory, error) {
	resp, err := c.askCluster(ctx, &v1.ClusterRequest{Frontend: frontend, FrontendsOnly: true, History: true})
	if err != nil {
		return nil, err
	}
	h := &FleetHistory{Clock: time.UnixMicro(resp.ClockUs)}
	from := resp.History
	if from == nil {
		return h, nil
	}
	const size = 5
	if n := len(from.AtUs) * size; n > 0 && len(from.Figures)%n != 0 ||
		len(from.Addresses) > 0 && len(from.Addresses)*n != len(from.Figures) {
		return nil, fmt.Errorf("frontend %s answered with %d bytes of history for %d workers and %d samples",
			resp.Frontend, len(from.Figures), len(from.Addresses), len(from.AtUs))
	}
	for _, us := range from.AtUs {
		h.At = append(h.At, time.UnixMicro(us))
	}
	h.Addresses = from.Addresses
	for b := from.Figures; len(b) > 0 && len(h.At) > 0; {
		row := make([]Figure, len(h.At))
		for i := range row {
			row[i] = Figure{State: b[0], CPU: b[1], Wait: b[2], RoundTrip: b[3], Silence: b[4]}
			b = b[size:]
		}
		h.Samples = append(h.Samples, row)
	}
	for _, w := range from.Gone {
		h.Gone = append(h.Gone, GoneWorker{w.Name, w.Address, w.Rack, fromMicros(w.UpUsAgo), w.Off})
	}
	return h, nil
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
			Name: w.Name, Address: w.Address, State: w.State, Host: w.Host, Labels: w.Labels, Functions: w.Functions,
			Capacity: fromDemand(w.Capacity), Free: fromDemand(w.Free), Queued: int(w.Queued), Running: int(w.Running),
			HeardAgo: fromMicros(w.HeardUsAgo), RTT: fromMicros(w.RttUs),
			Reservations: int(w.Reservations), Attempts: int(w.Attempts), Error: w.Error, Rack: w.Rack,
			CacheError: w.CacheError,
			Row:        fromRow(w), View: fromView(w),
		}
		if w.Spare != nil {
			spare := fromDemand(w.Spare)
			c.Workers[i].Spare = &spare
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
		Age: fromMicros(w.WaitUsAgo), Speed: w.Speed, Files: int(w.Files), Maintenance: fromMicros(w.MaintenanceUs),
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

// fromDemand converts a demand; nil gives zero.
func fromDemand(d *v1.Demand) Demand {
	if d == nil {
		return Demand{}
	}
	return Demand{CPU: d.CpuMillicores, Memory: d.MemoryMib}
}
