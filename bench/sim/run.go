package sim

import (
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"math"
	"math/rand/v2"
	"time"

	"github.com/phoebe-sched/phoebe/bench"
	"github.com/phoebe-sched/phoebe/frontend"
	"github.com/phoebe-sched/phoebe/probe"
	"github.com/phoebe-sched/phoebe/worker"
)

// Config is one simulated run. Policy, Load, Durations and the numbers down to Jobs must be given.
type Config struct {
	Policy     frontend.Policy
	ProbeRatio float64 // reservations per task; 0: the frontends' default
	Load       float64 // share of the slots that the work keeps busy, on average

	Frontends, Workers, Slots int
	TasksPerJob               int
	Durations                 bench.Spec
	Jobs                      int // that arrive and are waited for
	WarmupJobs                int // of them, the first, which are not counted
	Seed                      uint64

	NoEstimates bool          // tasks carry no estimate; else it is exact
	Delay       time.Duration // one way, of every message
	Jitter      time.Duration // mean of an exponential addition to it
	Codec       bool          // messages pass through the real codec

	Order worker.Order // of the workers' queues
}

// Validate joins all that is wrong with c.
func (c *Config) Validate() error {
	var problems []error
	positive := func(name string, n int) {
		if n < 1 {
			problems = append(problems, fmt.Errorf("%d %s: use at least one", n, name))
		}
	}
	positive("frontends", c.Frontends)
	positive("workers", c.Workers)
	positive("slots", c.Slots)
	positive("tasks per job", c.TasksPerJob)
	positive("jobs", c.Jobs)
	if c.WarmupJobs < 0 || c.WarmupJobs >= max(c.Jobs, 1) {
		problems = append(problems, fmt.Errorf("%d warm-up jobs of %d: leave some to count", c.WarmupJobs, c.Jobs))
	}
	if !(c.Load > 0) || math.IsInf(c.Load, 0) {
		problems = append(problems, fmt.Errorf("load %g: use a number above 0, where 1 keeps all slots busy", c.Load))
	}
	if c.Durations == nil {
		problems = append(problems, errors.New("no law of task durations"))
	}
	if c.Delay < 0 || c.Jitter < 0 {
		problems = append(problems, fmt.Errorf("delay %v and jitter %v: neither may be negative", c.Delay, c.Jitter))
	}
	return errors.Join(problems...)
}

// Result is what a run measured, of the jobs that count.
type Result struct {
	Policy     string  `json:"policy"`
	Load       float64 `json:"load"`
	ProbeRatio float64 `json:"probe_ratio"`
	Workers    int     `json:"workers"`
	Slots      int     `json:"slots"` // of each worker
	Jobs       int     `json:"jobs"`

	ResponseMS   bench.Stats `json:"response_ms"`
	IdealMS      bench.Stats `json:"ideal_ms"`      // the longest task of the job
	OmniscientMS bench.Stats `json:"omniscient_ms"` // see bench.Omniscient
	WaitMS       bench.Stats `json:"wait_ms"`       // of tasks: from the arrival of the job to their start

	MessagesPerTask float64 `json:"messages_per_task"` // pings, syncs and acknowledgements included
	Utilisation     float64 `json:"utilisation"`       // share of the slots' time that tasks took, from first arrival to last end
	Events          uint64  `json:"events"`

	Frontends frontend.Stats `json:"-"` // summed over the frontends
	WorkerSum worker.Stats   `json:"-"` // summed over the workers
}

// Ratio is response over ideal, and RatioOmniscient response over omniscient: median, 99th percentile.
func (r *Result) Ratio() (p50, p99 float64) {
	return r.ResponseMS.P50 / r.IdealMS.P50, r.ResponseMS.P99 / r.IdealMS.P99
}

// RatioOmniscient is response over omniscient response.
func (r *Result) RatioOmniscient() (p50, p99 float64) {
	return r.ResponseMS.P50 / r.OmniscientMS.P50, r.ResponseMS.P99 / r.OmniscientMS.P99
}

// jobRun is a job of a Run.
type jobRun struct {
	at    time.Duration
	tasks []time.Duration
	left  int
	end   time.Duration
}

// runner is a Run under way.
type runner struct {
	cluster
	cfg      Config
	jobs     []*jobRun
	counted  int // jobs that count and have not ended
	waits    *bench.Histogram
	arrivals func() (bench.Job, bool)
	route    *rand.Rand
	began    time.Duration // when the first job could arrive
	busy     time.Duration
	ended    time.Duration
	failed   error
}

// Run simulates cfg until all its jobs have ended. More arrive behind them as long as they last, so that the
// last ones are not better off.
func Run(cfg Config) (*Result, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	slots := cfg.Workers * cfg.Slots
	seq, err := bench.Poisson(cfg.Seed, cfg.Load, slots, cfg.TasksPerJob, cfg.Durations, math.MaxInt64/4)
	if err != nil {
		return nil, err
	}
	r := &runner{cfg: cfg, waits: bench.NewHistogram(), counted: cfg.Jobs - cfg.WarmupJobs}
	next, stop := iter.Pull(seq)
	defer stop()
	r.arrivals = next
	r.route = rand.New(rand.NewPCG(cfg.Seed, 'r'))
	r.rng = rand.New(rand.NewPCG(cfg.Seed, 'n'))
	r.net = network{delay: cfg.Delay, jitter: cfg.Jitter, codec: cfg.Codec, lease: 3 * time.Second, ping: time.Second}
	r.tell = r.told
	r.onStart = r.taskStarted
	r.onEnd = func(_ *worker.Start, ev *worker.Exited) { r.busy += ev.Run }
	for range cfg.Workers {
		r.addWorker(worker.Config{Capacity: slotsOf(cfg.Slots), Functions: []string{function}, Order: cfg.Order, MaxQueue: 1 << 20}, 1)
	}
	for i := range cfg.Frontends {
		// What overload does to a policy is to be seen, not refused.
		r.addFrontend(frontend.Config{MaxPending: math.MaxInt / 2, MaxWait: -1}, cfg.Seed+uint64(i)<<32)
	}
	for range cfg.Frontends * cfg.Workers * 4 { // dial, Hello, Welcome, and time to spare
		if r.heap.Len() == 0 || r.heap.Min().at > 3*(cfg.Delay+cfg.Jitter*20) {
			break
		}
		if err := r.step(); err != nil {
			return nil, err
		}
	}
	r.began = r.now + cfg.Delay
	r.messages, r.steps = 0, 0
	r.arrive()
	for r.counted > 0 && r.failed == nil {
		if err := r.step(); err != nil {
			return nil, err
		}
	}
	if r.failed != nil {
		return nil, r.failed
	}
	return r.result(), nil
}

// slotsOf is the capacity of n slots.
func slotsOf(n int) probe.Demand {
	return probe.Demand{CPU: probe.Slot.CPU * probe.Millicores(n), Mem: probe.Slot.Mem * probe.MiB(n)}
}

// arrive schedules the next job.
func (r *runner) arrive() {
	job, ok := r.arrivals()
	if !ok {
		return
	}
	r.at(r.began+job.At, event{kind: call, fn: func() {
		r.submit(job)
		r.arrive()
	}})
}

func jobID(n int) probe.JobID { return probe.NewJobID(0, 0, uint64(n)) }

func (r *runner) submit(job bench.Job) {
	r.jobs = append(r.jobs, &jobRun{at: r.now, tasks: job.Tasks, left: len(job.Tasks)})
	spec := &frontend.Job{ID: jobID(job.Index), Policy: r.cfg.Policy, ProbeRatio: r.cfg.ProbeRatio, Tasks: make([]frontend.Task, len(job.Tasks))}
	for i, d := range job.Tasks {
		t := &spec.Tasks[i]
		*t = frontend.Task{Index: probe.TaskIndex(i), Function: function, Payload: payloadOf(d), Estimate: d, Retryable: true}
		if r.cfg.NoEstimates {
			t.Estimate = 0
		}
	}
	f := r.frontends[r.route.IntN(len(r.frontends))]
	if err := r.stepFrontend(f, frontend.Submit{Job: spec}); err != nil {
		r.failed = err
	}
}

// jobOf is the number of a job that jobID named.
func jobOf(id probe.JobID) int {
	return int(binary.BigEndian.Uint64(id[8:]))
}

func (r *runner) taskStarted(_ *workerNode, s *worker.Start) {
	if n := jobOf(s.Job); r.counts(n) {
		r.waits.Record(r.now - r.jobs[n].at)
	}
}

func (r *runner) counts(job int) bool { return job >= r.cfg.WarmupJobs && job < r.cfg.Jobs }

func (r *runner) told(_ *frontendNode, a frontend.Action) {
	switch a := a.(type) {
	case frontend.Done:
		n := jobOf(a.Job)
		if a.Outcome.Kind != frontend.Result {
			r.failed = fmt.Errorf("job %d, task %d: outcome %d, %s", n, a.Outcome.Task, a.Outcome.Kind, a.Outcome.Message)
			return
		}
		j := r.jobs[n]
		if j.left--; j.left == 0 {
			j.end = r.now
			if r.counts(n) {
				r.counted--
				r.ended = r.now
			}
		}
	case frontend.Refused:
		r.failed = fmt.Errorf("job %d: %w", jobOf(a.Job), a.Err)
	}
}

func (r *runner) result() *Result {
	response, ideal, best := bench.NewHistogram(), bench.NewHistogram(), bench.NewHistogram()
	arrivals, durations := make([]time.Duration, len(r.jobs)), make([][]time.Duration, len(r.jobs))
	for i, j := range r.jobs {
		arrivals[i], durations[i] = j.at, j.tasks
	}
	omniscient := bench.Omniscient(arrivals, durations, r.cfg.Workers*r.cfg.Slots)
	tasks := 0
	for i, j := range r.jobs {
		tasks += len(j.tasks)
		if r.counts(i) {
			response.Record(j.end - j.at)
			ideal.Record(bench.Ideal(j.tasks))
			best.Record(omniscient[i])
		}
	}
	res := &Result{
		Policy: r.cfg.Policy.Name, Load: r.cfg.Load, ProbeRatio: r.cfg.ProbeRatio,
		Workers: r.cfg.Workers, Slots: r.cfg.Slots, Jobs: r.cfg.Jobs - r.cfg.WarmupJobs,
		ResponseMS: response.Stats(time.Millisecond), IdealMS: ideal.Stats(time.Millisecond),
		OmniscientMS: best.Stats(time.Millisecond), WaitMS: r.waits.Stats(time.Millisecond),
		MessagesPerTask: float64(r.messages) / float64(tasks),
		Utilisation:     float64(r.busy) / float64(r.ended-r.began) / float64(r.cfg.Workers*r.cfg.Slots),
		Events:          r.steps,
	}
	for _, f := range r.frontends {
		addStats(&res.Frontends, &f.core.Stats)
	}
	for _, w := range r.workers {
		addStats(&res.WorkerSum, &w.core.Stats)
	}
	return res
}
