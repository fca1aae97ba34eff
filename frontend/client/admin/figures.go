package admin

import (
	"context"
	"fmt"
	"math"
	"time"

	v1 "github.com/phoebe-sched/phoebe/idl/gen/phoebe/v1"
)

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
