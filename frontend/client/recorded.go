package client

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	v1 "github.com/phoebe-sched/phoebe/idl/gen/phoebe/v1"
)

// JobFilter says which jobs are meant: those for which all holds that is set.
type JobFilter struct {
	Policy     string
	Tenant     *string       // nil: any; there is a tenant without a name
	Failed     bool          // some task of it has no result
	Running    bool          // only those that are under way
	SlowerThan time.Duration // whose response, so far, is at least this
	From       time.Time     // that came then or later
	Until      time.Time     // and before
	ID         string        // whose id begins so
	Frontend   string        // that belong to the frontend of this name
}

// PartOf is how much of a response went on something, by a word: sampling, link, queue, own tenant, other tenants, long tasks,
// closed share, idle slot, binding, fetch, launch, excess, run, delivery, stage wait or outside.
type PartOf struct {
	Part string
	Took time.Duration
}

// JobSummary is a job that is under way, or one that is kept: those that failed, the slowest of each minute and policy, and a
// sample.
type JobSummary struct {
	Handle         Handle
	Frontend       string // name of its owner
	Policy, Tenant string
	Class          Class
	Due            time.Duration // from when on it is regular, since it came; zero: from the start, or never
	Copies         int           // attempts at tasks that have ended that were copies of late ones,
	Preempted      int           // and those that were stopped as they stood in the way of regular work
	Path           string        // of its tasks: sampling, estimation or mixed
	Came           time.Time
	Response       time.Duration // so far, of one that is under way
	Tasks          int
	Ended          int // of these
	Failed         int // of these, without a result
	Stages         int
	Running        bool     // it is under way
	Blame          []PartOf // of one that is kept: they add up to Response
	Kept           []string // why: failed, slow, sample
}

// JobPage is a part of the jobs of all frontends, the one that came last first.
type JobPage struct {
	Jobs      []JobSummary
	Next      string // cursor of the next page; empty: this is the last
	Frontends []FrontendReport
}

// Jobs lists the jobs of all frontends that are under way, or have ended and are kept: up to so many (default 100, limit 1000)
// behind a cursor, which is empty at first. Any frontend is asked, and asks the others.
func (c *Client) Jobs(ctx context.Context, f JobFilter, cursor string, limit int) (*JobPage, error) {
	filter := &v1.JobFilter{
		Policy: f.Policy, Tenant: f.Tenant, Failed: f.Failed, Running: f.Running, SlowerUs: f.SlowerThan.Microseconds(), Id: f.ID, Frontend: f.Frontend,
	}
	if !f.From.IsZero() {
		filter.FromUs = f.From.UnixMicro()
	}
	if !f.Until.IsZero() {
		filter.UntilUs = f.Until.UnixMicro()
	}
	req := &v1.JobsRequest{Caller: c.cfg.wireCaller(), Filter: filter, Cursor: cursor, MaxJobs: clampInt32(limit)}
	resp, err := askUntilAnswered(ctx, c, c.seedsInTurn(), func(ctx context.Context, f *frontend) (*v1.JobsResponse, error) { return f.rpc.Jobs(ctx, req) })
	if err != nil {
		return nil, err
	}
	page := &JobPage{Jobs: fromSummaries(resp.Jobs), Next: resp.NextPage}
	page.Frontends, err = fromReports(resp.Frontends)
	return page, err
}

func fromSummaries(list []*v1.JobSummary) []JobSummary {
	jobs := make([]JobSummary, len(list))
	for i, j := range list {
		jobs[i] = fromSummary(j)
	}
	return jobs
}

func fromSummary(j *v1.JobSummary) JobSummary {
	to := JobSummary{
		Handle: Handle{j.Job, j.Owner}, Frontend: j.Frontend, Policy: j.Policy, Tenant: j.Tenant, Class: Class(enumWords(j.GetJobClass().String())), Path: j.Path, Came: time.UnixMicro(j.CameUs),
		Response: fromMicros(j.ResponseUs), Tasks: int(j.Tasks), Ended: int(j.Ended), Failed: int(j.Failed), Stages: int(j.Stages),
		Running: j.Running, Kept: j.Kept, Due: fromMicros(j.DueUs), Copies: int(j.Copies), Preempted: int(j.Preempted),
	}
	for _, b := range j.Blame {
		to.Blame = append(to.Blame, PartOf{enumWords(b.Part.String()), fromMicros(b.Us)})
	}
	return to
}

// Phase is one of a task's.
type Phase struct {
	Measure Measure
	End     time.Duration // since the job came
}

// Waits is what a wait at a worker was for. All are zero if the worker does not tell.
type Waits struct {
	OwnTenant    time.Duration // behind tasks of its own tenant
	OtherTenants time.Duration
	LongTasks    time.Duration // that were bound early
	ClosedShare  time.Duration // with room that is kept free
	IdleSlot     time.Duration // with a slot that waited for a frontend to say what to run
}

// TaskTrace is what a task has been through, at the attempt that gave it its outcome. Moments are since the job came.
type TaskTrace struct {
	Task     int
	Stage    int    // position in Trace.Stages
	Worker   string // empty: none
	Tries    int    // this was the last of so many
	Path     string // sampling or estimation
	Binding  string // how it came to the worker: not known, late, ride, shared, bundle, ahead, early or copy
	Outcome  string // result, failed, cancelled or deadline exceeded
	Failure  TaskReason
	Released time.Duration                      // when it could start
	Known    bool                               // when its phases ended; else there is only the delivery
	Ends     [MeasureDelivery + 1]time.Duration // of its phases
	Fetched  time.Duration                      // that it took until its files were there
	Expected time.Duration                      // run; zero: not known
	Promised time.Duration                      // wait at the worker, of a task placed by estimation
	Waited   time.Duration                      // what that was
	Waits    Waits
	Earlier  []EarlierAttempt // the last ones before it, and beside it
}

// EarlierAttempt is one that did not give its task the outcome. Moments are since the job came; zero: not known, or it never started.
type EarlierAttempt struct {
	Worker               string
	Binding              string // as in TaskTrace
	End                  string // why it ended: failed, timed out, panicked, no input, killed, preempted, lost, beaten (by another attempt) or stopped
	Sent, Started, Ended time.Duration
}

// Trace is what tasks of a job have been through.
type Trace struct {
	Job       JobSummary
	Stages    []Stage
	Tasks     []TaskTrace // that have ended, in the order in which they did
	From      int         // position of the first one
	Total     int         // tasks that are known
	Frontend  string      // that knows it
	Frontends []FrontendReport
}

// Next is the position behind these tasks, or 0 if there are no more.
func (t *Trace) Next() int {
	if n := t.From + len(t.Tasks); n < t.Total {
		return n
	}
	return 0
}

// Trace tells what the tasks of a job that is under way or kept have been through, from one position on and up to so many
// (default and limit 20,000). Any frontend is asked, and asks the others.
func (c *Client) Trace(ctx context.Context, job string, from, limit int) (*Trace, error) {
	req := &v1.TraceRequest{Caller: c.cfg.wireCaller(), Job: job, First: clampInt32(from), MaxAttempts: clampInt32(limit)}
	resp, err := askUntilAnswered(ctx, c, c.seedsInTurn(), func(ctx context.Context, f *frontend) (*v1.TraceResponse, error) { return f.rpc.Trace(ctx, req) })
	if err != nil {
		return nil, err
	}
	if resp.Job == nil {
		return nil, errors.New("the answer names no job")
	}
	t := &Trace{Job: fromSummary(resp.Job), From: from, Total: int(resp.Total), Frontend: resp.Frontend}
	for _, s := range resp.Stages {
		t.Stages = append(t.Stages, Stage{Name: s.Name, After: s.After})
	}
	if t.Frontends, err = fromReports(resp.Frontends); err != nil {
		return nil, err
	}
	if t.Tasks, err = fromAttempts(resp.Attempts, resp.Workers); err != nil {
		return nil, err
	}
	return t, addEarlier(resp.Earlier, resp.Workers, t)
}

// knownFields is how many fields of an attempt this client knows.
const knownFields = 26

var errAttempts = errors.New("an answer holds attempts that are none")

// unpackAttempts hands out the first fields of each attempt; those that are not there are 0.
func unpackAttempts(b []byte, each func(x *[knownFields]uint64) error) error {
	ok := true
	next := func() uint64 {
		n, size := binary.Uvarint(b)
		ok = ok && size > 0
		b = b[max(size, 0):]
		return n
	}
	if len(b) == 0 {
		return nil
	}
	fields := next()
	if fields == 0 || fields > 1000 {
		return errAttempts
	}
	for len(b) > 0 {
		var x [knownFields]uint64
		for i := range fields {
			if n := next(); i < knownFields {
				x[i] = n
			}
		}
		if !ok {
			return errAttempts
		}
		if err := each(&x); err != nil {
			return err
		}
	}
	return nil
}

// workerName is the name of one by its field; 0 is none.
func workerName(x uint64, workers []string) (string, error) {
	if x > uint64(len(workers)) {
		return "", fmt.Errorf("%w: worker %d of %d", errAttempts, x, len(workers))
	}
	if x == 0 {
		return "", nil
	}
	return workers[x-1], nil
}

func fromAttempts(b []byte, workers []string) (list []TaskTrace, err error) {
	list = make([]TaskTrace, 0, len(b)/(2*knownFields))
	err = unpackAttempts(b, func(x *[knownFields]uint64) (err error) {
		d := func(i int) time.Duration { return time.Duration(x[i]) }
		t := TaskTrace{
			Task: int(x[0]), Stage: int(x[1]), Tries: int(x[3]), Path: enumWords(v1.Path(x[4] + 1).String()), Binding: enumWords(v1.Binding(x[5]).String()),
			Outcome: enumWords(v1.OutcomeKind(x[6]).String()), Failure: TaskReason(x[7]), Released: d(8), Known: x[9] == 1,
			Fetched: d(17), Expected: d(18), Promised: d(19), Waited: d(20), Waits: Waits{d(21), d(22), d(23), d(24), d(25)},
		}
		for i := range t.Ends {
			t.Ends[i] = d(10 + i)
		}
		t.Worker, err = workerName(x[2], workers)
		list = append(list, t)
		return err
	})
	return list, err
}

// addEarlier adds attempts to the tasks of a page.
func addEarlier(b []byte, workers []string, t *Trace) error {
	return unpackAttempts(b, func(x *[knownFields]uint64) error {
		worker, err := workerName(x[1], workers)
		taskAt := x[0] - uint64(t.From)
		if err != nil || taskAt >= uint64(len(t.Tasks)) {
			return cmp.Or(err, errAttempts)
		}
		k := &t.Tasks[taskAt]
		k.Earlier = append(k.Earlier, EarlierAttempt{
			Worker: worker, Binding: enumWords(v1.Binding(x[2]).String()), End: enumWords(v1.AttemptEnd(x[3]).String()),
			Sent: time.Duration(x[4]), Started: time.Duration(x[5]), Ended: time.Duration(x[6]),
		})
		return nil
	})
}
