package client

import (
	"context"
	"errors"
	"fmt"
	"time"

	v1 "github.com/phoebe-sched/phoebe/idl/gen/phoebe/v1"
	"github.com/phoebe-sched/phoebe/probe/histogram"
)

// Histogram counts durations in cells that are 6 % wide at most.
type Histogram = histogram.Histogram

// Measure is one thing that is measured.
type Measure int

// The phases of a task follow each other from when it could start.
const (
	MeasureSampling Measure = iota // until its first places were asked for, or it was decided where it goes
	MeasureLink                    // until the worker had that
	MeasureQueue                   // until its turn came there
	MeasureBinding                 // until the frontend's answer to that was on its way
	MeasureLaunch                  // until it started
	MeasureRun
	MeasureDelivery // until the frontend had the outcome
	MeasureResponse // of a job
	MeasureSlowdown // of a job: its response over the longest chain of runs of its tasks; a millisecond stands for 1
	Measures        = int(iota)
)

// String is a word for it.
func (m Measure) String() string { return enumWords(v1.Measure(m).String()) }

// Series is what was counted of a path, a policy and a tenant. "other" stands for all that are not told apart.
type Series struct {
	Path, Policy, Tenant string
	packed               []byte
}

// Packed are the series' histograms as they travel: of each Measure in order, as Histogram.Append writes it.
func (s *Series) Packed() []byte { return s.packed }

// Histograms are what was counted, by Measure.
type Histograms [Measures]Histogram

// Add adds what a series has counted. Percentiles of several series, windows or both are those of the sum.
func (h *Histograms) Add(s *Series) {
	b := s.packed
	for m := range h {
		b, _ = h[m].MergeFrom(b) // it was looked at when it came
	}
}

// Window is what was counted in a part of time. All times are by the clocks of the frontends.
type Window struct {
	At           time.Time
	Length       time.Duration
	Series       []Series
	Accepted     int64 // jobs
	Tasks        int64 // with an outcome
	Failed       int64 // of these, without a result
	Refused      map[RefusedReason]int64
	QueueAge     time.Duration // the longest for which a job has waited for its first task to start
	TasksPending int           // the most
	TasksRunning int           // the most
	Frontends    int           // whose share is in it
}

// FrontendReport is what a frontend says of itself beside an answer to which it belongs, or why it has no part in it.
type FrontendReport struct {
	Name, Address    string
	Err              string // why it is not in the answer; empty: it is
	Version          string
	Uptime           time.Duration
	Draining         bool
	Jobs             int // under way
	TasksPending     int
	TasksRunning     int
	Workers          int // linked
	Warning          string
	CutOff           bool          // from the gossip
	Silence          time.Duration // since it heard of another frontend by gossip; negative: it does not gossip
	Clock            time.Time
	LostMeasurements int64 // of its recorder, since it started
	LostJobs         int64 // that were to be kept
	KeptJobs         int
	Estimates        []EstimateReport
	RoundTrips       Histogram // to its workers since it started
}

// EstimateReport is how good a frontend's estimates were since it started.
type EstimateReport struct {
	Of    string // wait or run
	Seen  int64
	Good  int64         // within 10 % or 1 s
	Over  int64         // more than it was
	Error time.Duration // by how much they were off, together
}

// Watched is what all frontends have counted.
type Watched struct {
	Windows   []Window     // in order; the last ones may not be complete: ask for them again
	Slowest   []JobSummary // of the jobs that are kept and came in these windows
	Frontends []FrontendReport
	LeftOut   int // of the oldest windows, as the answer would have been too large
}

// Watch tells what all frontends have counted in windows of a second, ten seconds or five minutes that start at since or later,
// and names so many of the slowest jobs. Any frontend is asked, and asks the others. A zero since means all that is remembered:
// 60, 60 and 72 windows.
func (c *Client) Watch(ctx context.Context, window time.Duration, since time.Time, top int) (*Watched, error) {
	req := &v1.WatchRequest{Caller: c.cfg.wireCaller(), WindowUs: window.Microseconds(), Top: clampInt32(top)}
	if !since.IsZero() {
		req.SinceUs = since.UnixMicro()
	}
	resp, err := askUntilAnswered(ctx, c, c.seedsInTurn(), func(ctx context.Context, f *frontend) (*v1.WatchResponse, error) { return f.rpc.Watch(ctx, req) })
	if err != nil {
		return nil, err
	}
	w := &Watched{LeftOut: int(resp.LeftOut), Slowest: fromSummaries(resp.Slowest), Windows: make([]Window, len(resp.Windows))}
	if w.Frontends, err = fromReports(resp.Frontends); err != nil {
		return nil, err
	}
	for i, x := range resp.Windows {
		to := &w.Windows[i]
		*to = Window{
			At: time.UnixMicro(x.AtUs), Length: fromMicros(x.LengthUs), Accepted: x.Accepted, Tasks: x.Tasks, Failed: x.Failed,
			Refused: map[RefusedReason]int64{}, QueueAge: fromMicros(x.QueueAgeUs), TasksPending: int(x.TasksPending),
			TasksRunning: int(x.TasksRunning), Frontends: int(x.Frontends), Series: make([]Series, len(x.Series)),
		}
		for _, r := range x.Refusals {
			to.Refused[RefusedReason(r.Reason)] += r.Times
		}
		for k, s := range x.Series {
			if err := checkHistograms(s.Histograms, Measures); err != nil {
				return nil, err
			}
			to.Series[k] = Series{s.Path, s.Policy, s.Tenant, s.Histograms}
		}
	}
	return w, nil
}

func checkHistograms(b []byte, n int) error {
	for range n {
		rest, ok := new(Histogram).MergeFrom(b)
		if !ok {
			return errors.New("an answer holds a histogram that is none")
		}
		b = rest
	}
	return nil
}

func fromReports(list []*v1.Told) ([]FrontendReport, error) {
	reports := make([]FrontendReport, len(list))
	for i, t := range list {
		r := &reports[i]
		*r = FrontendReport{
			Name: t.Name, Address: t.Address, Err: t.Error, Version: t.Version, Uptime: fromMicros(t.UptimeUs), Draining: t.Draining,
			Jobs: int(t.Jobs), TasksPending: int(t.TasksPending), TasksRunning: int(t.TasksRunning), Workers: int(t.Workers),
			Warning: t.Warning, CutOff: t.CutOff, Silence: fromMicros(t.SilenceUs), Clock: time.UnixMicro(t.ClockUs),
			LostMeasurements: t.LostMeasurements, LostJobs: t.LostJobs, KeptJobs: int(t.KeptJobs),
		}
		for _, e := range t.Estimates {
			r.Estimates = append(r.Estimates, EstimateReport{e.Of, e.Seen, e.Good, e.Over, fromMicros(e.ErrorUs)})
		}
		if len(t.RoundTrips) > 0 {
			if _, ok := r.RoundTrips.MergeFrom(t.RoundTrips); !ok {
				return nil, fmt.Errorf("frontend %s tells round trips that are none", t.Name)
			}
		}
	}
	return reports, nil
}
