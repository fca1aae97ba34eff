package sim

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/phoebe-sched/phoebe/frontend"
	"github.com/phoebe-sched/phoebe/frontend/estimate"
	"github.com/phoebe-sched/phoebe/probe"
	"github.com/phoebe-sched/phoebe/worker"
)

// FaultError is a broken promise that a random schedule of faults brought to light.
type FaultError struct {
	Seed    uint64
	Without Omission      // what the run left out
	At      time.Duration // since the start of the run
	Err     error
	Log     []string // what happened last, an event or action per line
}

func (e *FaultError) Error() string {
	without := ""
	if e.Without.Len() > 0 {
		without = " without " + e.Without.String()
	}
	return fmt.Sprintf("seed %d%s, after %v: %v", e.Seed, without, e.At, e.Err)
}

func (e *FaultError) Unwrap() error { return e.Err }

// FaultStats says what a run with faults has seen.
type FaultStats struct {
	Jobs, Tasks, Starts, Failovers, Refusals int
	Faults                                   map[string]int // by kind
	Outcomes                                 [frontend.DeadlineExceeded + 1]int
	Failures                                 [frontend.StageFailed + 1]int
	Seen                                     map[string]int // what else was drawn or happened, by kind
	Events                                   uint64

	Frontends frontend.Stats // of the lives that saw the end
	Workers   worker.Stats
}

// Faults runs a small cluster under a schedule of faults drawn from seed: processes crash, hang, drain and
// come back, connections break on one side or both, messages are repeated and overtake one another, clients
// cancel and go elsewhere, files come late or never, gossip is stale or lies. It checks both cores' invariants after
// every step, and what clients are promised:
//
//   - every task of a job ends in one outcome, of which the cause is there; every job ends;
//   - a task that may start only once never starts twice;
//   - a task starts where its constraints hold and its demand fits, with its files there, and not before all tasks of
//     the stages before its own have ended well;
//   - a result is that of the task;
//   - files that are fetched for an attempt are released, once, and not while it runs;
//   - once all is over, no core holds anything of any job any more, and no queue was ever longer than its bound.
//
// Parts of it may be left out; what remains is as it was. The error, if any, is a *FaultError. The same seed gives
// the same run.
func Faults(seed uint64, without Omission) (*FaultStats, error) {
	r := newFaultRun(seed, without)
	err := r.run()
	if err == nil {
		return &r.stats, nil
	}
	failed := &FaultError{Seed: seed, Without: without, At: r.now, Err: err}
	again := newFaultRun(seed, without)
	again.log = func(format string, args ...any) {
		if len(failed.Log) == logLines {
			failed.Log = append(failed.Log[:0], failed.Log[logLines/2:]...)
		}
		failed.Log = append(failed.Log, fmt.Sprintf("%12v ", again.now)+fmt.Sprintf(format, args...))
	}
	again.stopAt = r.steps
	_ = again.run()
	return &r.stats, failed
}

// FaultSweep runs Faults for n seeds, from the given one on, as many at a time as there are processors to use, and
// sums up what they have seen. After a run that fails it starts no more of them, and returns the error of the least
// seed among those that failed: a *FaultError. progress, if not nil, is told how many are done, by one goroutine at
// a time.
func FaultSweep(ctx context.Context, from, n uint64, progress func(done uint64)) (*FaultStats, error) {
	var mu sync.Mutex
	sum := &FaultStats{Faults: map[string]int{}, Seen: map[string]int{}}
	var failed *FaultError
	next, done := uint64(0), uint64(0)
	var wg sync.WaitGroup
	for range min(uint64(runtime.GOMAXPROCS(0)), n) {
		wg.Go(func() {
			mu.Lock()
			defer mu.Unlock()
			for next < n && failed == nil && ctx.Err() == nil {
				seed := from + next
				next++
				mu.Unlock()
				stats, err := Faults(seed, Omission{})
				mu.Lock()
				var e *FaultError
				if errors.As(err, &e) && (failed == nil || e.Seed < failed.Seed) {
					failed = e
				}
				sum.add(stats)
				if done++; progress != nil {
					progress(done)
				}
			}
		})
	}
	wg.Wait()
	switch {
	case failed != nil:
		return sum, failed
	case ctx.Err() != nil:
		return sum, context.Cause(ctx)
	}
	return sum, nil
}

// logLines bounds the log of a failed run.
const logLines = 20_000

// faultJob is a job as its client sees it.
type faultJob struct {
	n        int
	id       probe.JobID
	dice     *rand.Rand   // of what becomes of it
	spec     frontend.Job // without Tasks
	tasks    []faultTask
	left     int // tasks without an outcome
	tried    bool
	owner    *frontendNode
	life     int32 // of the owner when the client turned to it
	session  int   // counts the client's turns to a frontend
	ended    bool
	cancels  bool
	deadline bool
}

type faultTask struct {
	spec      frontend.Task
	fails     int // so many runs are still to fail
	starts    int
	failed    int // runs
	succeeded int // runs
	unfetched int // attempts without their files
	outcomes  int
}

// visit is a job at one frontend, as the frontend's shell knows it.
type visit struct {
	job      *faultJob
	session  int // of the client that listens
	outcomes []frontend.Outcome
	left     bool // the client has gone
}

// faultRun is a run of Faults under way.
type faultRun struct {
	cluster
	seed    uint64
	without Omission
	dice    *rand.Rand    // of what is drawn before it all begins
	horizon time.Duration // no more faults from then on
	grace   time.Duration // a frontend cancels the job of a client that is gone for so long
	jobs    []*faultJob
	faults  int                      // drawn
	visits  []map[probe.JobID]*visit // by frontend
	chances *rand.Rand               // of fetchers and gossip

	fetchers []fetcher // by worker, of its present life
	rumours  []uint64  // by worker, how often it told of itself
	leaving  []int32   // by worker, the life in which it drains
	outages  []outage  // by worker

	open   int // jobs that have not ended
	failed error
	still  int // events since time went on
	stats  FaultStats
	stopAt uint64
}

func newFaultRun(seed uint64, without Omission) *faultRun {
	r := &faultRun{seed: seed, without: without, dice: rand.New(rand.NewPCG(seed, 'd'))}
	r.stats.Faults, r.stats.Seen = map[string]int{}, map[string]int{}
	r.chances = rand.New(rand.NewPCG(seed, 'c'))
	r.rng = rand.New(rand.NewPCG(seed, 'n'))
	r.check = true
	r.tell = r.told
	r.onStart = r.taskStarted
	r.onEnd = r.taskEnded
	r.onFetch, r.onRelease = r.fetch, r.release
	return r
}

// among draws one of a few values.
func among[T any](dice *rand.Rand, values ...T) T { return values[dice.IntN(len(values))] }

// between draws a duration.
func between(dice *rand.Rand, low, high time.Duration) time.Duration {
	return low + time.Duration(dice.Int64N(int64(high-low)+1))
}

func chance(dice *rand.Rand, p float64) bool { return dice.Float64() < p }

// run is the whole of it. A panic of a core is an error like others.
func (r *faultRun) run() (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("panic: %v\n%s", v, debug.Stack())
		}
	}()
	d := r.dice
	r.net = network{
		delay: between(d, 10*time.Microsecond, time.Millisecond), jitter: between(d, 0, time.Millisecond),
		codec: true, reorder: among(d, 0, 0, time.Millisecond, 5*time.Millisecond), repeat: among(d, 0, 0, 0.01, 0.1),
		lease: 300 * time.Millisecond, ping: 100 * time.Millisecond, watch: true,
	}
	r.horizon = between(d, time.Second, 4*time.Second)
	r.grace = between(d, 100*time.Millisecond, time.Second)
	for i := range 2 + d.IntN(5) {
		cfg := worker.Config{
			Capacity: slotsOf(1 + d.IntN(4)), Functions: []string{function, "tiny"},
			Order: among(d, worker.FIFO, worker.FIFO, worker.Priority, worker.Fair, worker.Shortest), StarvationBound: 200 * time.Millisecond,
			MaxQueue:    among(d, 5, 40, 1<<14),
			MaxRetained: among(d, 2000, 256<<20),
			ReadyExpiry: between(d, 20*time.Millisecond, 200*time.Millisecond),
			Grace:       between(d, 200*time.Millisecond, 2*time.Second), Retain: 5 * time.Second,
		}
		if i == 0 {
			cfg.Functions = append(cfg.Functions, "rare")
			cfg.MaxQueue = 1 << 14
		}
		r.furnish(r.addWorker(cfg, 1), d)
	}
	r.fetchers, r.rumours = make([]fetcher, len(r.workers)), make([]uint64, len(r.workers))
	r.leaving, r.outages = make([]int32, len(r.workers)), make([]outage, len(r.workers))
	gossips := chance(d, 0.7)
	for _, w := range r.workers {
		if liar := chance(d, 0.1); gossips {
			r.gossip(w, liar)
		}
	}
	for i := range 1 + d.IntN(3) {
		r.visits = append(r.visits, map[probe.JobID]*visit{})
		r.addFrontend(frontend.Config{
			AdriftFor: between(d, 50*time.Millisecond, 500*time.Millisecond), ClaimFor: between(d, 200*time.Millisecond, time.Second),
			StrandedFor: 2 * time.Second, SyncEvery: between(d, 300*time.Millisecond, 2*time.Second), ProbeTimeout: 20 * time.Millisecond,
			MaxPending: among(d, 60, 1<<20), MaxWait: among(d, 100*time.Millisecond, -1),
			LongTask: among(d, 20*time.Millisecond, 200*time.Millisecond, 0),
			Matcher:  among(d, estimate.Stable, estimate.Greedy, estimate.Optimal), PoisonAfter: among(d, 2, 3),
		}, r.seed+uint64(i)<<32)
	}
	r.makeJobs(10 + d.IntN(40))
	for at := time.Duration(0); ; {
		if at += time.Duration(d.ExpFloat64() * float64(120*time.Millisecond)); at > r.horizon {
			break
		}
		n := r.faults
		if r.faults++; !r.without.Faults[n] {
			r.later(at, func() { r.fault(n) })
		}
	}
	r.later(r.horizon, r.heal)

	end := r.horizon + time.Minute
	for r.open > 0 {
		if err := r.next(end); err != nil {
			return err
		}
		if r.now > end {
			return r.unfinished()
		}
	}
	// All is over, but for zombies: frontends with jobs whose clients went elsewhere.
	for quiet := r.now + 15*time.Second; r.now < quiet; {
		if err := r.next(quiet); err != nil {
			return err
		}
	}
	return r.drained()
}

// next is a step of the cluster, of those up to the given time.
func (r *faultRun) next(end time.Duration) error {
	if r.stopAt > 0 && r.steps >= r.stopAt {
		return errors.New("stopped")
	}
	if at, ok := r.due(); !ok || at > end {
		r.now = end + 1
		return nil
	}
	before := r.now
	if err := r.step(); err != nil {
		return err
	}
	if r.still++; r.now != before {
		r.still = 0
	}
	if r.still > 50_000 {
		return errors.New("time stands still: something is due again and again")
	}
	r.stats.Events = r.steps
	return r.failed
}

func (r *faultRun) fail(format string, args ...any) {
	if r.failed == nil {
		r.failed = fmt.Errorf(format, args...)
	}
}

// makeJobs draws the workload and when it arrives.
func (r *faultRun) makeJobs(n int) {
	d := r.dice
	for i := range n {
		j := &faultJob{n: i, id: jobID(i + 1), dice: rand.New(rand.NewPCG(r.seed, 'j'<<32|uint64(i)))}
		j.spec = frontend.Job{ID: j.id, Tenant: among(d, "a", "b"), Priority: int32(d.IntN(3)), Policy: r.policy()}
		if chance(d, 0.3) {
			j.spec.ProbeRatio = 1 + 3*d.Float64()
		}
		if chance(d, 0.1) {
			j.spec.Deadline, j.deadline = between(d, time.Millisecond, 2*time.Second), true
		}
		mean, calls := among(d, time.Microsecond, 100*time.Microsecond, 5*time.Millisecond, 50*time.Millisecond, 300*time.Millisecond), function
		if mean == time.Microsecond {
			calls = "tiny" // so short that several are given out at a time
		}
		hint := among(d, 0.0, 1, 1, 3, 0.3)
		mixed, fails, once := chance(d, 0.2), 0.1, 0.2
		if p := &j.spec.Policy; p.Binding == frontend.Late {
			j.spec.Mode = among(d, estimate.Auto, estimate.Auto, estimate.Sample, estimate.Estimate)
		}
		early := j.spec.Policy.Binding != frontend.Late || j.spec.Mode == estimate.Estimate || j.spec.Mode == estimate.Auto && j.spec.Policy.Route
		needy, constrained := chance(d, 0.25), chance(d, 0.15)
		if chance(d, 0.25) {
			j.spec.Stages, fails, once = r.stages(d), 0.02, 0.02 // most are to come to their end
			r.stats.Seen["jobs with stages"]++
		}
		if constrained && chance(d, 0.3) {
			r.constrain(&j.spec.Constraint, d)
			mixed = false // who satisfies it may have no room for more
		}
		for k := range len(j.spec.Stages) + 1 + d.IntN(among(d, 2, 10, 40)) {
			t := faultTask{}
			takes := time.Duration(d.ExpFloat64() * float64(mean))
			t.spec = frontend.Task{
				Index: probe.TaskIndex(k), Function: calls, Retryable: !chance(d, once),
				Estimate: time.Duration(float64(takes) * hint), Retries: d.IntN(3),
			}
			if mixed {
				t.spec.Demand = slotsOf(1 + d.IntN(2))
				if !r.fits(t.spec.Demand) {
					t.spec.Demand = probe.Demand{}
				}
				if chance(d, 0.3) {
					t.spec.Function, t.spec.Demand = "rare", probe.Demand{}
				}
			}
			if n := len(j.spec.Stages); n > 0 {
				if t.spec.Stage = int32(k); k >= n {
					t.spec.Stage = int32(d.IntN(n))
				}
			}
			if constrained && len(j.spec.Constraint.Labels)+len(j.spec.Constraint.Hosts) == 0 && t.spec.Function != "rare" && chance(d, 0.5) {
				r.constrain(&t.spec.Constraint, d)
				t.spec.Demand = probe.Demand{}
			}
			if needy {
				r.need(&t.spec, i, j.spec.Stages, early && len(j.spec.Constraint.Hosts) == 0, d)
				if len(t.spec.Files) > 0 {
					t.spec.Demand = probe.Demand{} // who has the room may have no cache
				}
			}
			for what, has := range map[string]bool{
				"constraints": len(t.spec.Constraint.Labels)+len(t.spec.Constraint.Hosts) > 0, "inputs": len(t.spec.Inputs) > 0, "files": len(t.spec.Files) > 0,
			} {
				if has {
					r.stats.Seen["tasks with "+what]++
				}
			}
			if chance(d, 0.05) {
				t.spec.Timeout = takes/2 + time.Millisecond
			}
			if chance(d, fails) {
				t.fails = 1 + d.IntN(3)
			}
			t.spec.Payload = binary.LittleEndian.AppendUint64(payloadOf(takes), uint64(i)<<32|uint64(k))
			if chance(d, 0.02) {
				t.spec.Payload = append(t.spec.Payload, make([]byte, 40<<10)...) // too large to ride
			}
			j.tasks = append(j.tasks, t)
		}
		j.left = len(j.tasks)
		r.jobs = append(r.jobs, j)
		comes, cancelled, wanders := between(d, 0, r.horizon), between(d, 0, r.horizon+time.Second), between(d, 0, r.horizon)
		cancels, wandersOff := chance(d, 0.1), chance(d, 0.15)
		if r.without.Jobs[i] {
			j.ended = true
			continue
		}
		r.stats.Jobs++
		r.stats.Tasks += j.left
		r.open++
		r.later(comes, func() { r.turnTo(j, among(j.dice, r.frontends...)) })
		if cancels {
			r.later(cancelled, func() { r.cancelJob(j) })
		}
		if wandersOff {
			r.later(wanders, func() { r.wander(j) })
		}
	}
}

// fits: some worker is large enough.
func (r *faultRun) fits(d probe.Demand) bool {
	for _, w := range r.workers {
		if d.Fits(w.cfg.Capacity) {
			return true
		}
	}
	return false
}

// policy is a known one, or late binding with any of the additions.
func (r *faultRun) policy() frontend.Policy {
	d := r.dice
	p := frontend.Policies[0]
	switch d.IntN(3) {
	case 0:
		return p
	case 1:
		return among(d, frontend.Policies...)
	}
	p.Name = "variant"
	for _, part := range partNames() {
		*partOf(&p, part) = chance(d, 0.5)
	}
	return p
}

// clientDelay is how long a client and a frontend take to reach each other.
const clientDelay = 200 * time.Microsecond

// turnTo submits what has no outcome yet to f.
func (r *faultRun) turnTo(j *faultJob, f *frontendNode) {
	if j.ended || j.owner != nil {
		return
	}
	j.owner, j.life = f, f.life
	j.session++
	session := j.session
	r.later(r.now+clientDelay, func() { r.submitTo(j, f, session) })
}

func (r *faultRun) submitTo(j *faultJob, f *frontendNode, session int) {
	gone := func() bool { return j.ended || j.session != session || j.owner != f }
	switch {
	case gone():
		return
	case f.down || f.life != j.life:
		r.leave(j)
		return
	case f.hung != nil:
		// It sits in the frontend's socket. The client gives up after a while; what it sent does not come back.
		f.hung.events = append(f.hung.events, event{kind: call, what: func() { r.receiveSubmit(j, f, session) }})
		j.tried = true
		r.later(r.now+r.net.lease, func() {
			if !gone() && f.hung != nil {
				r.leave(j)
			}
		})
		return
	}
	r.receiveSubmit(j, f, session)
}

// receiveSubmit is a frontend's shell: it recognises a job that is under way.
func (r *faultRun) receiveSubmit(j *faultJob, f *frontendNode, session int) {
	if f.down {
		return
	}
	if v := r.visits[f.index][j.id]; v != nil {
		v.session, v.left = session, false
		for _, o := range v.outcomes {
			r.deliver(j, f, session, o)
		}
		return
	}
	spec := j.spec
	spec.Resubmitted = j.tried
	for i := range j.tasks {
		if j.tasks[i].outcomes == 0 {
			spec.Tasks = append(spec.Tasks, j.tasks[i].spec)
		}
	}
	if len(spec.Tasks) == 0 {
		return // overtaken by the last outcome
	}
	j.tried = true
	r.visits[f.index][j.id] = &visit{job: j, session: session}
	if r.log != nil {
		r.log("client: job %d to f%d, %d tasks, resubmitted: %t, mode %v, policy %+v, %s, stages %+v", j.n, f.index, len(spec.Tasks), spec.Resubmitted, spec.Mode, spec.Policy, spec.Constraint, spec.Stages)
	}
	if err := r.stepFrontend(f, frontend.Submit{Job: &spec}); err != nil {
		r.fail("%w", err)
	}
}

// leave: the client gives its frontend up and turns to another one soon.
func (r *faultRun) leave(j *faultJob) {
	if j.ended || j.owner == nil {
		return
	}
	f, session := j.owner, j.session
	j.owner = nil
	r.stats.Failovers++
	if v := r.visits[f.index][j.id]; v != nil && v.session == session && !f.down {
		v.left = true
		life := f.life
		r.later(r.now+r.grace, func() {
			still := func() bool { return f.life == life && v.left && r.visits[f.index][j.id] == v }
			r.tellFrontend(f, frontend.Cancel{Job: j.id, Reason: "its client is gone"}, still)
		})
	}
	r.later(r.now+between(j.dice, 0, 50*time.Millisecond), func() { r.turnTo(j, among(j.dice, r.frontends...)) })
}

// tellFrontend steps a frontend, or has it stepped when it goes on, if it is to be told then.
func (r *faultRun) tellFrontend(f *frontendNode, ev frontend.Event, still func() bool) {
	switch {
	case f.down || !still():
	case f.hung != nil:
		f.hung.events = append(f.hung.events, event{kind: call, what: func() { r.tellFrontend(f, ev, still) }})
	default:
		if err := r.stepFrontend(f, ev); err != nil {
			r.fail("%w", err)
		}
	}
}

// wander: a client loses its connection although its frontend is well.
func (r *faultRun) wander(j *faultJob) {
	r.stats.Faults["client wanders"]++
	r.leave(j)
}

func (r *faultRun) cancelJob(j *faultJob) {
	if j.ended {
		return
	}
	r.stats.Faults["client cancels"]++
	j.cancels = true
	if f := j.owner; f != nil {
		r.tellFrontend(f, frontend.Cancel{Job: j.id, Reason: "the client cancelled it"}, func() bool { return true })
	}
}

// told is a frontend's shell: what its core says of jobs.
func (r *faultRun) told(f *frontendNode, a frontend.Action) {
	visits := r.visits[f.index]
	switch a := a.(type) {
	case frontend.Refused:
		v := visits[a.Job]
		delete(visits, a.Job)
		r.stats.Refusals++
		j := v.job
		switch a.Err.Reason {
		case frontend.Invalid, frontend.TooBigJob:
			r.fail("job %d refused: %v", j.n, a.Err)
		}
		if session := v.session; j.session == session && j.owner == f {
			j.owner = nil
			wait := max(a.Err.RetryAfter, 10*time.Millisecond) // the client is stubborn even where there is no hope
			r.later(r.now+wait, func() { r.turnTo(j, among(j.dice, r.frontends...)) })
		}
	case frontend.Done:
		v := visits[a.Job]
		if v == nil {
			r.fail("f%d reports task %d of job %v, which is not under way", f.index, a.Outcome.Task, a.Job)
			return
		}
		for _, o := range v.outcomes {
			if o.Task == a.Outcome.Task {
				r.fail("f%d reports task %d of job %d twice", f.index, o.Task, v.job.n)
			}
		}
		v.outcomes = append(v.outcomes, a.Outcome)
		r.plausible(v, &a.Outcome)
		r.deliver(v.job, f, v.session, a.Outcome)
	case frontend.Ended:
		delete(visits, a.Job)
	case frontend.Moved:
		v := visits[a.Job]
		delete(visits, a.Job)
		if j := v.job; j.owner == f && j.session == v.session {
			if j.session == 1 {
				r.fail("job %d moved away from its first owner, f%d", j.n, f.index)
			}
			session, life := j.session, f.life
			r.later(r.now+clientDelay, func() {
				if j.owner == f && j.session == session && f.life == life {
					r.leave(j)
				}
			})
		}
	}
}

// deliver brings an outcome to the client, unless the frontend or the client is gone by then.
func (r *faultRun) deliver(j *faultJob, f *frontendNode, session int, o frontend.Outcome) {
	life := f.life
	r.later(r.now+clientDelay, func() {
		if f.life != life || f.down || j.session != session || j.owner != f || j.ended {
			return
		}
		t := &j.tasks[o.Task]
		if t.outcomes++; t.outcomes > 1 {
			return // the client came back to a frontend that it had left, and had the outcome from another
		}
		r.stats.Outcomes[o.Kind]++
		if o.Kind == frontend.Failed {
			r.stats.Failures[o.Failure]++
		}
		if j.left--; j.left == 0 {
			j.ended = true
			r.open--
		}
	})
}

// plausible checks that an outcome has its cause.
func (r *faultRun) plausible(v *visit, o *frontend.Outcome) {
	j := v.job
	t := &j.tasks[o.Task]
	bad := false
	switch o.Kind {
	case frontend.Result:
		bad = t.starts == 0 || string(o.Result) != string(t.spec.Payload[8:16])
	case frontend.Cancelled:
		bad = !j.cancels && !v.left
	case frontend.DeadlineExceeded:
		bad = !j.deadline
	case frontend.Failed:
		retried := t.spec.Retryable && t.failed+t.unfetched <= t.spec.Retries
		switch o.Failure {
		case frontend.TaskError:
			bad = t.failed == 0 || retried
		case frontend.NoInput:
			bad = t.unfetched == 0 || retried
		case frontend.StageFailed:
			bad = !slices.ContainsFunc(v.outcomes, func(o frontend.Outcome) bool {
				return o.Kind == frontend.Failed && o.Failure != frontend.StageFailed
			})
		case frontend.Timeout:
			bad = t.spec.Timeout == 0
		case frontend.Lost:
			bad = t.spec.Retryable
		case frontend.NoWorker:
			bad = !r.saw("worker drains", "worker is maintained") && !r.saw(losses...)
		case frontend.Poison:
			bad = !r.saw(losses...)
		default:
			bad = true
		}
	}
	if bad {
		r.fail("job %d, task %d (retryable %t, %d retries, %d runs, %d of them failed): outcome %d, failure %d, %q without a cause",
			j.n, o.Task, t.spec.Retryable, t.spec.Retries, t.starts, t.failed, o.Kind, o.Failure, o.Message)
	}
}

// losses are the faults that take workers from frontends.
var losses = []string{"worker crashes", "rack crashes", "worker hangs", "connection breaks", "connection goes dead"}

// saw reports whether there was one of these faults.
func (r *faultRun) saw(faults ...string) bool {
	return slices.ContainsFunc(faults, func(what string) bool { return r.stats.Faults[what] > 0 })
}

func (r *faultRun) taskOf(s *worker.Start) (*faultJob, *faultTask) {
	j := r.jobs[jobOf(s.Job)-1]
	return j, &j.tasks[s.Launch.Task]
}

func (r *faultRun) taskStarted(w *workerNode, s *worker.Start) {
	j, t := r.taskOf(s)
	t.starts++
	r.stats.Starts++
	if t.starts > 1 && !t.spec.Retryable {
		r.fail("task %d of job %d may start only once, and starts again, at w%d", s.Launch.Task, j.n, w.index)
	}
	if string(s.Launch.Payload) != string(t.spec.Payload) || s.Launch.Function != t.spec.Function {
		r.fail("task %d of job %d starts with another payload or function", s.Launch.Task, j.n)
	}
	if err := r.placed(j, t, w, s); err != nil {
		r.fail("task %d of job %d starts and %w", s.Launch.Task, j.n, err)
	}
}

func (r *faultRun) taskEnded(s *worker.Start, ev *worker.Exited) {
	_, t := r.taskOf(s)
	switch {
	case ev.Status == probe.TimedOut:
		t.failed++
	case ev.Status == probe.Succeeded && t.fails > 0:
		t.fails--
		t.failed++
		ev.Status, ev.Error = probe.Failed, "as planned"
	case ev.Status == probe.Succeeded:
		t.succeeded++
		ev.Result = s.Launch.Payload[8:16]
	}
}

// fault lets one thing go wrong, the n-th.
func (r *faultRun) fault(n int) {
	d := rand.New(rand.NewPCG(r.seed, 'f'<<32|uint64(n)))
	w, f := among(d, r.workers...), among(d, r.frontends...)
	did := func(format string, args ...any) {
		what := fmt.Sprintf(format, args...)
		if r.log != nil {
			r.log("fault %d: w%d, f%d: %s", n, w.index, f.index, what)
		}
		r.stats.Faults[what]++
	}
	back := between(d, 10*time.Millisecond, time.Second)
	switch d.IntN(14) {
	case 0, 1:
		if !w.down {
			did("worker crashes")
			r.crash(w, d, back)
		}
	case 2:
		if !f.down {
			did("frontend crashes")
			r.killFrontend(f, chance(d, 0.7))
			r.later(r.now+back, func() { r.revive(f) })
		}
	case 3:
		if !w.down && w.hung == nil {
			did("worker hangs")
			h := &hang{since: r.now}
			w.hung = h
			r.later(r.now+back, func() {
				if w.hung == h {
					r.resume(&w.hung)
				}
			})
		}
	case 4:
		if !f.down && f.hung == nil {
			did("frontend hangs")
			h := &hang{since: r.now}
			f.hung = h
			for _, j := range r.jobs { // its client notices, some time
				if j.owner == f && !j.ended && chance(d, 0.5) {
					r.later(r.now+r.net.lease, func() {
						if f.hung == h && j.owner == f {
							r.leave(j)
						}
					})
				}
			}
			r.later(r.now+back, func() {
				if f.hung == h {
					r.resumeFrontend(f)
				}
			})
		}
	case 5, 6, 7:
		if cn := connOf(f, w); cn != nil {
			did("connection breaks")
			r.breakConn(cn)
		}
	case 8:
		if cn := connOf(f, w); cn != nil {
			did("connection goes dead")
			cn.cut = true
		}
	case 9:
		if !w.down && w.hung == nil {
			did("worker drains")
			r.drain(w, back)
		}
	case 10:
		if !w.down {
			did("worker is slow")
			w.speed = 0.1
			r.later(r.now+back, func() { w.speed = 1 })
		}
	case 11:
		if n := slices.IndexFunc(r.workers, func(v *workerNode) bool { return v != w && v.welcome.Rack == w.welcome.Rack && !v.down }); n >= 0 && !w.down {
			did("rack crashes")
			for _, v := range r.workers {
				if v.welcome.Rack == w.welcome.Rack && !v.down {
					r.crash(v, d, back)
				}
			}
		}
	case 12:
		if !w.down && w.hung == nil {
			did("worker is maintained")
			r.maintain(w, between(d, 0, time.Second), back)
		}
	case 13:
		if !f.down && len(r.frontends) > 1 {
			did("frontend leaves")
			r.tellFrontend(f, frontend.Leave{}, func() bool { return true })
			r.later(r.now+back, func() {
				if !f.down {
					r.killFrontend(f, chance(d, 0.7))
					r.later(r.now+10*time.Millisecond, func() { r.revive(f) })
				}
			})
		}
	}
}

func connOf(f *frontendNode, w *workerNode) *conn {
	if f.down || w.down {
		return nil
	}
	if cn := f.conns[w.index]; cn != nil && !cn.cut && !cn.closed {
		return cn
	}
	return nil
}

// killFrontend crashes a frontend; its clients notice and go elsewhere.
func (r *faultRun) killFrontend(f *frontendNode, trace bool) {
	r.crashFrontend(f, trace)
	r.visits[f.index] = map[probe.JobID]*visit{}
	for _, j := range r.jobs {
		if j.owner == f && !j.ended {
			r.leave(j)
		}
	}
}

func (r *faultRun) revive(f *frontendNode) {
	if f.down {
		r.startFrontend(f, r.seed+uint64(f.index)<<32)
	}
}

// crash kills a worker, which is back some time later.
func (r *faultRun) crash(w *workerNode, d *rand.Rand, back time.Duration) {
	r.crashWorker(w, chance(d, 0.7))
	r.later(r.now+back, func() { r.restart(w) })
}

// restart begins another life of a worker, which may have other labels.
func (r *faultRun) restart(w *workerNode) {
	if w.down {
		r.furnish(w, rand.New(rand.NewPCG(r.seed, 'w'<<32|uint64(w.index)<<16|uint64(w.life))))
		r.startWorker(w)
		w.speed = 1
		r.outages[w.index] = outage{}
	}
}

// maintain lets a worker announce that it will be away, and drain then.
func (r *faultRun) maintain(w *workerNode, in, lasts time.Duration) {
	r.outages[w.index] = outage{at: r.now + in, lasts: lasts}
	life := w.life
	r.later(r.now+in, func() {
		if w.life == life && w.hung == nil && r.now < r.horizon {
			r.drain(w, lasts)
		}
	})
}

// drain lets a worker leave, and come back some time after it has left.
func (r *faultRun) drain(w *workerNode, back time.Duration) {
	if err := r.stepWorker(w, worker.Leave{}); err != nil {
		r.fail("%w", err)
		return
	}
	r.leaving[w.index] = w.life
	life := w.life
	var look func()
	look = func() {
		switch {
		case w.life != life:
			return
		case w.hung == nil && (w.core.Idle() || r.now > r.horizon+2*time.Second):
			r.crashWorker(w, true)
			r.later(r.now+back, func() { r.restart(w) })
			return
		}
		r.later(r.now+20*time.Millisecond, look)
	}
	look()
}

// heal ends all faults: what is down comes up, what hangs goes on.
func (r *faultRun) heal() {
	r.net.repeat, r.net.reorder = 0, 0
	for _, w := range r.workers {
		r.resume(&w.hung)
		r.restart(w)
		w.speed = 1
	}
	for _, f := range r.frontends {
		r.resumeFrontend(f)
		r.revive(f)
	}
}

// unfinished says which jobs did not end.
func (r *faultRun) unfinished() error {
	for _, j := range r.jobs {
		if j.ended {
			continue
		}
		where := "nowhere"
		if f := j.owner; f != nil {
			where = fmt.Sprintf("at f%d (down %t, under way there: %t)", f.index, f.down, r.visits[f.index][j.id] != nil)
		}
		return fmt.Errorf("job %d does not end: %d of %d tasks left, %s, session %d", j.n, j.left, len(j.tasks), where, j.session)
	}
	return nil
}

// drained checks that nothing is left behind.
func (r *faultRun) drained() error {
	var problems []string
	bad := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }
	for _, f := range r.frontends {
		if pending, running := f.frontend().Pending(); pending+running+f.frontend().Jobs() > 0 {
			bad("f%d has %d jobs, %d tasks pending, %d running", f.index, f.frontend().Jobs(), pending, running)
		}
		for key := range r.workers {
			if s, _ := f.frontend().Status(frontend.Worker(key)); s.Reservations+s.Attempts > 0 || s.State != "up" {
				bad("f%d: worker %d is %s with %d reservations and %d attempts", f.index, key, s.State, s.Reservations, s.Attempts)
			}
		}
		for _, what := range leftovers(f.core, keptByFrontend...) {
			bad("f%d keeps %s", f.index, what)
		}
		addStats(&r.stats.Frontends, &f.frontend().Stats)
	}
	for _, w := range r.workers {
		load := w.core.Load()
		if load.Free != w.cfg.Capacity || load.Queued+load.Running > 0 || !w.core.Idle() || len(w.running) > 0 {
			bad("w%d: %+v of %v, idle: %t", w.index, load, w.cfg.Capacity, w.core.Idle())
		}
		if len(w.links) != len(r.frontends) {
			bad("w%d has %d links", w.index, len(w.links))
		}
		if n := len(r.fetcherOf(w).under); n > 0 {
			bad("w%d holds the files of %d attempts", w.index, n)
		}
		for _, what := range leftovers(w.core, keptByWorker...) {
			bad("w%d keeps %s", w.index, what)
		}
		addStats(&r.stats.Workers, &w.core.Stats)
	}
	if len(problems) > 0 {
		return errors.New("left behind: " + strings.Join(problems, "; "))
	}
	return nil
}

// describe is an event or action in one line, or "" if it is of no interest.
func describe(x any) string {
	var m any = x
	switch x := x.(type) {
	case frontend.Received:
		m = x.Msg
	case frontend.Send:
		m = x.Msg
	case worker.Received:
		m = x.Msg
	case worker.Send:
		m = x.Msg
	}
	switch m := m.(type) {
	case probe.Ping, probe.Pong, frontend.Wake, worker.Wake, frontend.Submit: // of the last, the client tells
		return ""
	case probe.Sync:
		if len(m.Live)+len(m.Attempts) == 0 {
			return ""
		}
	}
	to := ""
	switch x := x.(type) {
	case frontend.Received:
		to = fmt.Sprintf("from w%d: ", x.Worker)
	case frontend.Send:
		to = fmt.Sprintf("to w%d: ", x.Worker)
	case worker.Received:
		to = fmt.Sprintf("from link %d: ", x.Link)
	case worker.Send:
		to = fmt.Sprintf("to link %d: ", x.Link)
	}
	m, waits := withoutMatrix(m)
	s := fmt.Sprintf("%s%T %+v%s", to, m, m, waits)
	if len(s) > 600 {
		s = s[:600] + "…"
	}
	return s
}

// withoutMatrix is a message or event without its wait matrix, and what that says of one slot and of the whole worker.
func withoutMatrix(m any) (any, string) {
	v := reflect.New(reflect.TypeOf(m)).Elem()
	v.Set(reflect.ValueOf(m))
	at := v
	if load := v.FieldByName("Load"); load.IsValid() && load.Kind() == reflect.Struct {
		at = load
	}
	f := at.FieldByName("Matrix")
	if !f.IsValid() || f.Kind() != reflect.Pointer || f.IsNil() {
		return m, ""
	}
	matrix := f.Interface().(*probe.WaitMatrix)
	f.SetZero()
	return v.Interface(), fmt.Sprintf(" waits %v to %v", matrix.Cells[0][0].Duration(), matrix.Cells[probe.MatrixSide-1][probe.MatrixSide-1].Duration())
}

// String says the most important of it in a line.
func (s *FaultStats) String() string {
	var faults []string
	for _, what := range slices.Sorted(maps.Keys(s.Faults)) {
		faults = append(faults, fmt.Sprintf("%s %d", what, s.Faults[what]))
	}
	return fmt.Sprintf("%d jobs of %d tasks, started %d times, %d failovers, %d events; %s", s.Jobs, s.Tasks, s.Starts, s.Failovers, s.Events, strings.Join(faults, ", "))
}

func (s *FaultStats) add(o *FaultStats) {
	s.Jobs += o.Jobs
	s.Tasks += o.Tasks
	s.Starts += o.Starts
	s.Failovers += o.Failovers
	s.Refusals += o.Refusals
	s.Events += o.Events
	for what, n := range o.Faults {
		s.Faults[what] += n
	}
	for what, n := range o.Seen {
		s.Seen[what] += n
	}
	for i, n := range o.Outcomes {
		s.Outcomes[i] += n
	}
	for i, n := range o.Failures {
		s.Failures[i] += n
	}
	addStats(&s.Frontends, &o.Frontends)
	addStats(&s.Workers, &o.Workers)
}
