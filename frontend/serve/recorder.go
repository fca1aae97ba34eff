package serve

import (
	"math"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/phoebe-sched/phoebe/frontend"
	"github.com/phoebe-sched/phoebe/frontend/estimate"
	rec "github.com/phoebe-sched/phoebe/frontend/record"
	"github.com/phoebe-sched/phoebe/probe"
	"github.com/phoebe-sched/phoebe/probe/exposition"
	"github.com/phoebe-sched/phoebe/probe/histogram"
)

// recorder holds what jobs and tasks have been through. Whoever looks takes its mutex, and none that a step needs.
type recorder struct {
	// Guarded by the server's mutex.
	intake     *rec.Intake
	attempts   rec.Attempts
	jobs       *rec.Jobs
	roundTrips histogram.Histogram

	mu      sync.Mutex // guards all below; the server's may be taken while it is held, but not the other way round
	history *rec.History
	spare   *rec.Batch
	putAt   time.Time
	// jobsLost is of jobs, as of then.
	jobsLost uint64
}

func newRecorder(now time.Time, seed uint64) recorder {
	return recorder{intake: rec.NewIntake(now), jobs: rec.NewJobs(rand.New(rand.NewPCG(seed, 0))), history: rec.NewHistory(), putAt: now}
}

// windowEvery is how often what was counted is put into the history at most: a second's tick may come a little early.
const windowEvery = 900 * time.Millisecond

// put moves what was counted since the last time into the history.
func (s *Server) put(now time.Time) {
	r := &s.recorder
	r.mu.Lock()
	defer r.mu.Unlock()
	if since := now.Sub(r.putAt); since >= 0 && since < windowEvery {
		return
	}
	r.putAt = now
	s.mu.Lock()
	full := r.intake.Take(now, r.spare)
	r.jobsLost = r.jobs.Lost()
	s.mu.Unlock()
	r.history.Add(full)
	r.spare = full
}

// expose adds what was timed. It is as of the last put.
func (r *recorder) expose(t *exposition.Text) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.history.Total(func(k rec.Key, m rec.Measure, h *histogram.Histogram) {
		labels := exposition.Labels("path", k.Path, "policy", k.Policy, "tenant", k.Tenant)
		switch m {
		case rec.Response:
			t.Histogram("phoebe_frontend_job_response_seconds", labels, h, time.Second)
		case rec.Slowdown:
			t.Histogram("phoebe_frontend_job_slowdown_ratio", labels, h, rec.One)
		default:
			t.Histogram("phoebe_frontend_task_phase_seconds", labels+","+exposition.Labels("phase", m.String()), h, time.Second)
		}
	})
	t.Value("phoebe_frontend_recorder_lost_total", exposition.Labels("what", "measurement"), float64(r.history.Lost()))
	t.Value("phoebe_frontend_recorder_lost_total", exposition.Labels("what", "job"), float64(r.jobsLost))
}

// timed is what is counted of a job under way.
type timed struct {
	policy, tenant string
	slots          [mixed + 1]rec.Slot // by path
	came           time.Time
	lead           time.Duration // until the core had it
	path           estimate.Path // of the tasks that have ended
	ended, failed  int           // tasks
	last           uint64        // attempt that was remembered
	after          [][]int       // of each stage, those that it waits for
	chain          rec.Chain     // of runs that gave results
}

// mixed is the path of a job whose tasks do not all go the same.
const mixed = estimate.Estimation + 1

var pathNames = [...]string{estimate.Sampling: estimate.Sampling.String(), estimate.Estimation: estimate.Estimation.String(), mixed: "mixed"}

// timedJob notes of whom a job is that is about to be submitted.
func (s *Server) timedJob(job *frontend.Job, now time.Time) timed {
	s.recorder.intake.Tenant(job.Tenant, len(job.Tasks))
	t := timed{policy: job.Policy.Name, tenant: job.Tenant, came: now}
	if len(job.Stages) == 0 {
		return t
	}
	numbers, after := make(map[string]int, len(job.Stages)), make([][]int, len(job.Stages))
	for i := range job.Stages {
		numbers[job.Stages[i].Name] = i
	}
	for i := range job.Stages {
		for _, name := range job.Stages[i].After {
			if k, known := numbers[name]; known { // else the core refuses the job
				after[i] = append(after[i], k)
			}
		}
	}
	t.after, t.chain = after, rec.NewChain(after)
	return t
}

func (s *Server) slot(t *timed, path estimate.Path) rec.Slot {
	t.slots[path] = s.recorder.intake.Slot(rec.Key{Path: pathNames[path], Policy: t.policy, Tenant: t.tenant}, t.slots[path])
	return t.slots[path]
}

// countTask remembers what became of a task, and counts its phases if it gave a result.
func (s *Server) countTask(job probe.JobID, t *timed, o *frontend.Outcome) {
	if t.ended++; t.ended == 1 {
		t.path = o.Path
	} else if t.path != o.Path {
		t.path = mixed
	}
	p := &o.Phases
	a, number := s.recorder.attempts.Next()
	*a = rec.Attempt{
		Before: t.last, Job: job, Task: o.Task, Stage: o.Stage, Worker: uint32(o.Receipt.Worker), Tries: uint16(min(o.Attempts, math.MaxUint16)),
		Path: uint8(o.Path), Outcome: uint8(o.Kind), Failure: uint8(o.Failure), Fetched: o.Usage.Fetch,
		Expected: o.Expected, Promised: o.Promised, Waited: o.Waited,
	}
	t.last = number
	if p.Released > 0 {
		a.Released = t.lead + p.Released
	}
	if p.Finished > 0 {
		for i, end := range [...]time.Duration{p.Sampled, p.Queued, p.Ready, p.Bound, p.Started, p.Finished} {
			a.Ends[i] = t.lead + end
		}
	}
	a.Ends[rec.Delivery] = s.stepped.Sub(t.came)
	if o.Kind != frontend.Result {
		t.failed++
		return
	}
	t.chain.Ran(int(o.Stage), o.Run)
	slot := s.slot(t, o.Path)
	phases := a.Phases()
	s.recorder.intake.AddPhases(slot, &phases)
}

// countJob counts a job, of which all outcomes are in, and keeps it if somebody may ask for it.
func (s *Server) countJob(r *record) {
	t, response := &r.timed, r.endedAt.Sub(r.received)
	slot := s.slot(t, t.path)
	s.recorder.intake.Add(slot, rec.Response, response)
	if ideal := t.chain.Longest(); ideal > 0 {
		s.recorder.intake.Add(slot, rec.Slowdown, time.Duration(float64(response)/float64(ideal)*float64(rec.One)))
	}
	job := rec.Job{ID: r.id, Policy: t.policy, Tenant: t.tenant, Came: r.received, Response: response, After: t.after, Failed: t.failed}
	s.recorder.jobs.Ended(r.endedAt, &job, func() []rec.Attempt { return s.recorder.attempts.Of(t.last, t.ended) })
}
