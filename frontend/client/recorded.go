package client

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/phoebe-sched/phoebe/frontend/client/internal/inner"
	v1 "github.com/phoebe-sched/phoebe/idl/gen/phoebe/v1"
)

// Measure is a quantity that frontends measure.
type Measure int

// Measures of tasks and jobs. The first seven are the phases of a task. The first phase begins when the task could
// start, and each further phase begins at the end of the phase before.
const (
	MeasureSampling Measure = iota // until the first places were reserved, or the worker was chosen
	MeasureLink                    // until the worker had the message
	MeasureQueue                   // until the task's turn in the worker's queue
	MeasureBinding                 // until the frontend sent its answer to the turn
	MeasureLaunch                  // until the start
	MeasureRun
	MeasureDelivery // until the frontend had the outcome
	MeasureResponse // of a job
	MeasureSlowdown // of a job: response over the longest chain of its tasks' run times; 1 ms stands for 1
	Measures        = int(iota)
)

// String returns the name of the measure in words.
func (m Measure) String() string { return enumWords(v1.Measure(m).String()) }

// PartOf is a part of a job's response time, with the cause of the part.
type PartOf struct {
	// Part is the cause: sampling, link, queue, own tenant, other tenants, long tasks, closed share, idle slot,
	// binding, fetch, launch, excess, run, delivery, stage wait, in vain (earlier attempts), maximum
	// (of the tenant) or outside.
	Part string
	Took time.Duration
}

// JobSummary describes a job under way, or a kept job. Frontends keep failed jobs, the slowest jobs of each minute and
// policy, and a sample of the rest.
type JobSummary struct {
	Handle         Handle
	Frontend       string // name of the owner
	Policy, Tenant string
	Class          Class
	Due            time.Duration // when the job becomes regular, since its arrival; zero: always was, or never
	Copies         int           // number of second attempts of late tasks, of ended tasks
	Preempted      int           // number of attempts stopped to make room for regular work, of ended tasks
	Path           string        // of the tasks: sampling, estimation or mixed
	Came           time.Time     // arrival at the frontend
	Response       time.Duration // time from arrival to end; so far, if the job is under way
	Tasks          int
	Ended          int // tasks that have ended
	Failed         int // tasks that have ended without a result
	Stages         int
	Functions      []string // of the tasks, at most 8; empty from frontends of version 0.1.0
	Running        bool     // the job is under way
	Blame          []PartOf // of a kept job; the parts add up to Response
	Kept           []string // reasons to keep the job: failed, slow, sample, listed
	// Fleeting says that the frontend may forget the job within a minute, because too many jobs were listed lately.
	// Trace knows all other listed jobs for at least a minute.
	Fleeting bool `json:",omitempty"`
}

// fromSummary converts a job.
func fromSummary(j *v1.JobSummary) JobSummary {
	to := JobSummary{
		Handle: Handle{j.Job, j.Owner}, Frontend: j.Frontend, Policy: j.Policy, Tenant: j.Tenant,
		Class: Class(enumWords(j.GetJobClass().String())), Path: j.Path, Came: time.UnixMicro(j.CameUs),
		Response: fromMicros(j.ResponseUs), Tasks: int(j.Tasks), Ended: int(j.Ended), Failed: int(j.Failed),
		Stages: int(j.Stages), Running: j.Running, Kept: j.Kept, Due: fromMicros(j.DueUs), Copies: int(j.Copies),
		Preempted: int(j.Preempted), Functions: j.Functions, Fleeting: j.Fleeting,
	}
	for _, b := range j.Blame {
		to.Blame = append(to.Blame, PartOf{enumWords(b.Part.String()), fromMicros(b.Us)})
	}
	return to
}

// Phase is a phase of a task with its end.
type Phase struct {
	Measure Measure
	End     time.Duration // since the job's arrival
}

// Waits splits a wait at a worker by its causes. All parts are zero if the worker does not report the causes.
type Waits struct {
	OwnTenant    time.Duration // behind tasks of the task's own tenant
	OtherTenants time.Duration // behind tasks of other tenants
	LongTasks    time.Duration // behind tasks that were bound early
	ClosedShare  time.Duration // while free room was kept for other tasks
	IdleSlot     time.Duration // while a free slot waited for a frontend's answer
}

// TaskTrace is the history of a task, by the attempt that gave the outcome. Moments are since the job's arrival.
type TaskTrace struct {
	Task         int
	Stage        int    // position in Trace.Stages
	Worker       string // empty: none
	Tries        int    // number of attempts, with the attempt that counted as the last
	Path         string // sampling or estimation
	Binding      string // how the task came to the worker: not known, late, ride, shared, bundle, ahead, early or copy
	Outcome      string // result, failed, cancelled or deadline exceeded
	Failure      TaskReason
	Released     time.Duration                      // when the task could start
	Again        time.Duration                      // when the task could go to a worker again, after attempts in vain
	Held         time.Duration                      // time before sampling in which the tenant's maximum was used
	Known        bool                               // the ends of all phases are known; false: only the delivery is known
	Ends         [MeasureDelivery + 1]time.Duration // of the phases, by Measure
	Fetched      time.Duration                      // time until the task's files were at the worker
	Expected     time.Duration                      // expected run time; zero: not known
	ExpectedWait time.Duration                      // expected wait at the worker, if the task was placed by estimation
	Waited       time.Duration                      // real wait at the worker
	Waits        Waits                              // causes of Waited
	Earlier      []EarlierAttempt                   // the last attempts before and beside the attempt that counted
}

// EarlierAttempt is an attempt that did not give its task the outcome. Moments are since the job's arrival. Zero: not
// known, or the attempt never started.
type EarlierAttempt struct {
	Worker  string
	Binding string // as in TaskTrace
	// End is the reason of the attempt's end: failed, timed out, panicked, no input, killed, preempted, lost, beaten
	// (by another attempt), stopped, or moved (from the queue of the worker, to start sooner elsewhere).
	End                  string
	Sent, Started, Ended time.Duration
}

// UnderWay is an attempt that has not ended. Moments are since the job's arrival.
type UnderWay struct {
	Task    int
	Stage   int // position in Trace.Stages
	Worker  string
	Tries   int    // number of attempts at the task so far
	Binding string // as in TaskTrace
	// State is, as far as the frontend knows: sent (on the way to the worker), queued (in the queue of the worker),
	// runs, or cut off (the link to the worker is broken).
	State   string
	Sent    time.Duration // zero: not known
	Started time.Duration // about the start of the run; zero: has not started, or not known
	// SampledAt is the run time of a process at the last sample of its CPU time and of its memory in use, with
	// children. Zero: no sample. Go functions share the worker's process, and have no samples.
	SampledAt time.Duration
	CPU       time.Duration
	MemoryMiB int
}

// Trace is a page of the history of a job's tasks.
type Trace struct {
	Job      JobSummary
	Stages   []Stage
	Tasks    []TaskTrace // ended tasks, in the order of their ends
	From     int         // position of the first task among all known ones
	Total    int         // number of known tasks
	Frontend string      // name of the frontend that knows the history
	// UnderWay holds the attempts that have not ended, up to the limit of the call. Only the first page has such
	// attempts. nil: a frontend of an older version does not tell.
	UnderWay         []UnderWay
	AttemptsUnderWay int // number of attempts that have not ended
}

// Next returns the position after the page's tasks, or 0 if there are no more tasks.
func (t *Trace) Next() int {
	if n := t.From + len(t.Tasks); n < t.Total {
		return n
	}
	return 0
}

// Trace returns the history of a job's tasks, if the job is under way or kept. The page begins at position from, and
// holds up to limit tasks (0: 20,000; at most 20,000). The asked frontend asks the others.
func (c *Client) Trace(ctx context.Context, job string, from, limit int) (*Trace, error) {
	req := &v1.TraceRequest{
		Caller: c.cfg.wireCaller(), Job: job, First: inner.ClampInt32(from), MaxAttempts: inner.ClampInt32(limit),
	}
	resp, err := askUntilAnswered(ctx, c, "",
		func(ctx context.Context, f *frontend) (*v1.TraceResponse, error) {
			return f.rpc.Trace(ctx, req)
		})
	if err != nil {
		return nil, err
	}
	return fromTrace(resp, from)
}

// fromTrace converts the answer to a question about the tasks from a position on.
func fromTrace(resp *v1.TraceResponse, from int) (t *Trace, err error) {
	if resp.Job == nil {
		return nil, errors.New("the frontend's answer names no job")
	}
	t = &Trace{Job: fromSummary(resp.Job), From: from, Total: int(resp.Total), Frontend: resp.Frontend}
	for _, s := range resp.Stages {
		t.Stages = append(t.Stages, Stage{Name: s.Name, After: s.After})
	}
	if t.Tasks, err = fromAttempts(resp.Attempts, resp.Workers, len(t.Stages)); err != nil {
		return nil, err
	}
	if t.UnderWay, err = fromUnderWay(resp.UnderWay, resp.Workers, len(t.Stages)); err != nil {
		return nil, err
	}
	t.AttemptsUnderWay = int(resp.AttemptsUnderWay)
	return t, addEarlier(resp.Earlier, resp.Workers, t)
}

// knownFields is the number of fields of an attempt that the client knows. A newer frontend may send more.
const knownFields = 28

var errAttempts = errors.New("the frontend's answer holds malformed attempts")

// unpackAttempts calls each with the first knownFields fields of each attempt in b. Missing fields are 0.
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

// workerName returns the name of a worker field: the field is the position in workers plus 1, or 0 for no worker.
func workerName(x uint64, workers []string) (string, error) {
	if x > uint64(len(workers)) {
		return "", fmt.Errorf("%w: worker %d of %d", errAttempts, x, len(workers))
	}
	if x == 0 {
		return "", nil
	}
	return workers[x-1], nil
}

// stageOf returns the position of a stage field, below stages. If a job has no stages, the position is 0.
func stageOf(x uint64, stages int) (int, error) {
	if x >= uint64(max(stages, 1)) {
		return 0, fmt.Errorf("%w: stage %d of %d", errAttempts, x, stages)
	}
	return int(x), nil
}

// fromAttempts converts the attempts of an answer about a job with this number of stages.
func fromAttempts(b []byte, workers []string, stages int) (list []TaskTrace, err error) {
	list = make([]TaskTrace, 0, len(b)/(2*knownFields))
	err = unpackAttempts(b, func(x *[knownFields]uint64) (err error) {
		d := func(i int) time.Duration { return time.Duration(x[i]) }
		t := TaskTrace{
			Task: int(x[0]), Tries: int(x[3]), Path: enumWords(v1.Path(x[4] + 1).String()),
			Binding: enumWords(v1.Binding(x[5]).String()),
			Outcome: enumWords(v1.OutcomeKind(x[6]).String()), Failure: TaskReason(x[7]), Released: d(8),
			Known:   x[9] == 1,
			Fetched: d(17), Expected: d(18), ExpectedWait: d(19), Waited: d(20),
			Waits: Waits{d(21), d(22), d(23), d(24), d(25)}, Again: d(26), Held: d(27),
		}
		for i := range t.Ends {
			t.Ends[i] = d(10 + i)
		}
		var errStage error
		t.Stage, errStage = stageOf(x[1], stages)
		t.Worker, err = workerName(x[2], workers)
		list = append(list, t)
		return cmp.Or(errStage, err)
	})
	return list, err
}

// addEarlier adds the earlier attempts of an answer to the tasks of t.
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

// fromUnderWay converts the attempts under way of an answer, or returns nil if the answer does not tell.
func fromUnderWay(b []byte, workers []string, stages int) (list []UnderWay, err error) {
	if len(b) > 0 {
		list = []UnderWay{}
	}
	err = unpackAttempts(b, func(x *[knownFields]uint64) error {
		stage, errStage := stageOf(x[1], stages)
		worker, err := workerName(x[2], workers)
		list = append(list, UnderWay{
			Task: int(x[0]), Stage: stage, Worker: worker, Tries: int(x[3]),
			Binding: enumWords(v1.Binding(x[4]).String()), State: enumWords(v1.AttemptState(x[5]).String()),
			Sent: time.Duration(x[6]), Started: time.Duration(x[7]),
			SampledAt: time.Duration(x[8]), CPU: time.Duration(x[9]), MemoryMiB: int(x[10]),
		})
		return cmp.Or(errStage, err)
	})
	return list, err
}
