package admin

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/phoebe-sched/phoebe/frontend/client"
	"github.com/phoebe-sched/phoebe/frontend/client/internal/inner"
	v1 "github.com/phoebe-sched/phoebe/idl/gen/phoebe/v1"
	"github.com/phoebe-sched/phoebe/probe/histogram"
)

// Histogram counts durations in cells that are 6 % wide at most.
type Histogram = histogram.Histogram

// Series holds the histograms of a path, a policy and a tenant. The name "other" stands for all that frontends do not
// count separately.
type Series struct {
	Path, Policy, Tenant string
	packed               []byte // see Packed
}

// Packed returns the series' histograms in wire format: one for each client.Measure in order, as Histogram.Append
// writes them.
func (s *Series) Packed() []byte { return s.packed }

// Histograms holds a histogram for each client.Measure.
type Histograms [client.Measures]Histogram

// Add adds the counts of a series. To get percentiles over several series or windows, add them all first.
func (h *Histograms) Add(s *Series) {
	b := s.packed
	for m := range h {
		b, _ = h[m].MergeFrom(b) // Watch has checked the format
	}
}

// Window holds the counts of a period. All times are by the clocks of the frontends.
type Window struct {
	At           time.Time
	Length       time.Duration
	Series       []Series
	Accepted     int64                          // accepted jobs
	Tasks        int64                          // tasks with an outcome
	Failed       int64                          // tasks with an outcome, but without a result
	Refused      map[client.RefusedReason]int64 // refused jobs
	QueueAge     time.Duration                  // longest wait of a job for the start of its first task
	TasksPending int                            // maximum
	TasksRunning int                            // maximum
	Frontends    int                            // number of frontends whose counts are included
	// Slots of the workers up, and slots taken by tasks at workers, the largest first. Means over the window. Frontends
	// count the slots each two seconds. Capacity 0: the window has no count. The name "other" stands for all tenants,
	// or functions, beyond the 16 largest.
	Capacity      float64
	TenantSlots   []SlotUse
	FunctionSlots []SlotUse
	Functions     []FunctionSeries
}

// FunctionSeries holds the histograms of a function. The name "other" stands for all functions beyond the 16 with most
// tasks.
type FunctionSeries struct {
	Function string
	packed   []byte
}

// Packed returns the histograms in wire format, see Histograms.
func (s *FunctionSeries) Packed() []byte { return s.packed }

// Measures of a FunctionSeries beside the phases: the time of tasks from their release to their outcome.
const (
	MeasureWhole   = client.MeasureResponse // of tasks with a result
	MeasureFailure = client.MeasureSlowdown // of tasks without a result
)

// AddFunction adds the counts of a function: the phases of tasks with a result, MeasureWhole and MeasureFailure.
func (h *Histograms) AddFunction(s *FunctionSeries) { h.Add(&Series{packed: s.packed}) }

// SlotUse says how many slots the tasks of a tenant, or of a function, take at workers.
type SlotUse struct {
	Name  string
	Slots float64
}

func fromSlotUses(list []*v1.SlotUse) []SlotUse {
	to := make([]SlotUse, len(list))
	for i, u := range list {
		to[i] = SlotUse{u.Name, fromSlots(u.Slots)}
	}
	return to
}

// FrontendReport is a frontend's report about itself, beside an answer of several frontends. If the frontend is not
// part of the answer, Err says why.
type FrontendReport struct {
	Name, Address    string
	Err              string // why the answer lacks the frontend; empty: the answer includes it
	Version          string
	Uptime           time.Duration
	Draining         bool
	Jobs             int // under way
	TasksPending     int // tasks without an outcome
	TasksRunning     int // attempts that run at workers, without attempts in workers' queues
	Workers          int // linked
	Warning          string
	CutOff           bool          // cut off from the gossip
	Silence          time.Duration // since the last gossip from another frontend; negative: no gossip
	Clock            time.Time
	LostMeasurements int64 // measurements that the recorder lost, since the frontend started
	LostJobs         int64 // jobs to be kept that were lost
	KeptJobs         int
	Estimates        []EstimateReport
	RoundTrips       Histogram // to the frontend's workers, since the frontend started
}

// EstimateReport says how good a frontend's estimates were, since the frontend started.
type EstimateReport struct {
	Kind    string        `json:"Of"` // wait or run
	Seen    int64         // number of estimates
	Good    int64         // estimates within 10 % or 1 s of the real time
	TooHigh int64         `json:"Over"` // estimates above the real time
	Error   time.Duration // sum of the differences to the real times
}

// Watched holds the counts of all frontends.
type Watched struct {
	Windows        []Window            // in order; the last windows may be incomplete: ask for them again
	Slowest        []client.JobSummary // slowest kept jobs that came in the windows
	Frontends      []FrontendReport
	OmittedWindows int // number of the oldest windows, left out because the answer would have been too large
}

// Watch returns the counts of all frontends in windows of a second, ten seconds or five minutes, and up to top of the
// slowest jobs. The windows start at since or later. A zero since means all windows that frontends remember: 60, 60
// and 72. The asked frontend asks the others.
func (c *Client) Watch(ctx context.Context, window time.Duration, since time.Time, top int) (*Watched, error) {
	req := &v1.WatchRequest{WindowUs: window.Microseconds(), Top: inner.ClampInt32(top)}
	if !since.IsZero() {
		req.SinceUs = since.UnixMicro()
	}
	resp, err := ask(ctx, c, func(ctx context.Context, to v1.Phoebe, by *v1.Caller) (*v1.WatchResponse, error) {
		req.Caller = by
		return to.Watch(ctx, req)
	})
	if err != nil {
		return nil, err
	}
	w := &Watched{
		OmittedWindows: int(resp.LeftOut), Slowest: fromSummaries(resp.Slowest),
		Windows: make([]Window, len(resp.Windows)),
	}
	if w.Frontends, err = fromReports(resp.Frontends); err != nil {
		return nil, err
	}
	for i, x := range resp.Windows {
		to := &w.Windows[i]
		*to = Window{
			At: time.UnixMicro(x.AtUs), Length: fromMicros(x.LengthUs), Accepted: x.Accepted, Tasks: x.Tasks,
			Failed:  x.Failed,
			Refused: map[client.RefusedReason]int64{}, QueueAge: fromMicros(x.QueueAgeUs),
			TasksPending: int(x.TasksPending), TasksRunning: int(x.TasksRunning), Frontends: int(x.Frontends),
			Series:   make([]Series, len(x.Series)),
			Capacity: fromSlots(x.GetCapacity()), TenantSlots: fromSlotUses(x.TenantSlots),
			FunctionSlots: fromSlotUses(x.FunctionSlots),
		}
		for _, r := range x.Refusals {
			to.Refused[client.RefusedReason(r.Reason)] += r.Times
		}
		for k, s := range x.Series {
			if err := checkHistograms(s.Histograms, client.Measures); err != nil {
				return nil, err
			}
			to.Series[k] = Series{s.Path, s.Policy, s.Tenant, s.Histograms}
		}
		for _, s := range x.Functions {
			if err := checkHistograms(s.Histograms, client.Measures); err != nil {
				return nil, err
			}
			to.Functions = append(to.Functions, FunctionSeries{s.FunctionName, s.Histograms})
		}
	}
	return w, nil
}

var errHistogram = errors.New("the frontend's answer holds a malformed histogram")

// checkHistograms returns an error unless b begins with n histograms.
func checkHistograms(b []byte, n int) error {
	for range n {
		rest, ok := new(Histogram).MergeFrom(b)
		if !ok {
			return errHistogram
		}
		b = rest
	}
	return nil
}

// fromReports converts the reports beside an answer.
func fromReports(list []*v1.Told) ([]FrontendReport, error) {
	reports := make([]FrontendReport, len(list))
	for i, t := range list {
		r := &reports[i]
		*r = FrontendReport{
			Name: t.Name, Address: t.Address, Err: t.Error, Version: t.Version, Uptime: fromMicros(t.UptimeUs),
			Draining: t.Draining,
			Jobs:     int(t.Jobs), TasksPending: int(t.TasksPending), TasksRunning: int(t.TasksRunning),
			Workers: int(t.Workers),
			Warning: t.Warning, CutOff: t.CutOff, Silence: fromMicros(t.SilenceUs), Clock: time.UnixMicro(t.ClockUs),
			LostMeasurements: t.LostMeasurements, LostJobs: t.LostJobs, KeptJobs: int(t.KeptJobs),
		}
		for _, e := range t.Estimates {
			r.Estimates = append(r.Estimates, EstimateReport{e.Of, e.Seen, e.Good, e.Over, fromMicros(e.ErrorUs)})
		}
		if len(t.RoundTrips) > 0 {
			if _, ok := r.RoundTrips.MergeFrom(t.RoundTrips); !ok {
				return nil, fmt.Errorf("frontend %s sent malformed round trips", t.Name)
			}
		}
	}
	return reports, nil
}
