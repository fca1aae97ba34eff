package serve

import (
	"sync"
	"time"

	"github.com/phoebe-sched/phoebe/frontend"
	"github.com/phoebe-sched/phoebe/frontend/estimate"
	rec "github.com/phoebe-sched/phoebe/frontend/record"
	"github.com/phoebe-sched/phoebe/probe/exposition"
	"github.com/phoebe-sched/phoebe/probe/histogram"
)

// recorder holds what jobs and tasks have been through. Whoever looks takes its mutex, and none that a step needs.
type recorder struct {
	intake     *rec.Intake         // guarded by the server's mutex
	roundTrips histogram.Histogram // likewise

	mu      sync.Mutex // guards all below; the server's may be taken while it is held, but not the other way round
	history *rec.History
	spare   *rec.Batch
	putAt   time.Time
}

func newRecorder(now time.Time) recorder {
	return recorder{intake: rec.NewIntake(now), history: rec.NewHistory(), putAt: now}
}

// windowEvery is how often what was counted is put into the history.
const windowEvery = time.Second

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
	t.Value("phoebe_frontend_recorder_lost_total", "", float64(r.history.Lost()))
}

// timed is what is counted of a job under way.
type timed struct {
	policy, tenant string
	slots          [mixed + 1]rec.Slot // by path
	submitted      time.Time           // to the core
	results        int
	path           estimate.Path // of the tasks that gave these
	chain          rec.Chain
}

// mixed is the path of a job whose tasks do not all go the same.
const mixed = estimate.Estimation + 1

var pathNames = [...]string{estimate.Sampling: estimate.Sampling.String(), estimate.Estimation: estimate.Estimation.String(), mixed: "mixed"}

// timedJob notes of whom a job is that is about to be submitted.
func (s *Server) timedJob(job *frontend.Job, now time.Time) timed {
	s.recorder.intake.Tenant(job.Tenant, len(job.Tasks))
	t := timed{policy: job.Policy.Name, tenant: job.Tenant, submitted: now}
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
	t.chain = rec.NewChain(after)
	return t
}

func (s *Server) slot(t *timed, path estimate.Path) rec.Slot {
	t.slots[path] = s.recorder.intake.Slot(rec.Key{Path: pathNames[path], Policy: t.policy, Tenant: t.tenant}, t.slots[path])
	return t.slots[path]
}

// countTask counts the phases of a task that gave a result.
func (s *Server) countTask(t *timed, o *frontend.Outcome) {
	if t.results++; t.results == 1 {
		t.path = o.Path
	} else if t.path != o.Path {
		t.path = mixed
	}
	t.chain.Ran(int(o.Stage), o.Run)
	p := &o.Phases
	ends := [rec.Phases]time.Duration{p.Sampled, p.Queued, p.Ready, p.Bound, p.Started, p.Finished, s.stepped.Sub(t.submitted)}
	for i := range ends {
		ends[i] -= p.Released
	}
	slot := s.slot(t, o.Path)
	for i, d := range rec.Split(ends) {
		s.recorder.intake.Add(slot, rec.Measure(i), d)
	}
}

// countJob counts a job, of which all outcomes are in.
func (s *Server) countJob(t *timed, response time.Duration) {
	slot := s.slot(t, t.path)
	s.recorder.intake.Add(slot, rec.Response, response)
	if ideal := t.chain.Longest(); ideal > 0 {
		s.recorder.intake.Add(slot, rec.Slowdown, time.Duration(float64(response)/float64(ideal)*float64(rec.One)))
	}
}
