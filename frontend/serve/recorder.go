package serve

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/phoebe-sched/phoebe/frontend"
	"github.com/phoebe-sched/phoebe/frontend/estimate"
	rec "github.com/phoebe-sched/phoebe/frontend/record"
	"github.com/phoebe-sched/phoebe/probe/exposition"
	"github.com/phoebe-sched/phoebe/probe/histogram"
)

// recorder holds what jobs and tasks have been through. Whoever looks takes its mutexes, and for moments the server's; no step
// waits for them.
type recorder struct {
	// Guarded by the server's mutex.
	intake     *rec.Intake
	tally      rec.Tally // since it was taken last
	attempts   rec.Attempts
	scratch    rec.Attempt // one that is not remembered: its phases
	earlier    rec.EarlierAttempts
	choice     *rec.Choice
	ended      ended
	chosen     []chosen // whose attempts are still to be collected
	missed     uint64   // that were too many for that
	open       openJobs
	roundTrips histogram.Histogram

	recordings struct{ written, failed, removed, lost atomic.Int64 } // of broken objectives; lost are attempts that were forgotten before they were written

	fresh chan struct{} // tells that there are chosen ones
	looks chan struct{} // one for each call that looks: others are refused

	collecting sync.Mutex // taken before mu

	mu      sync.Mutex // guards all below; the server's may be taken while it is held, but not the other way round
	history *rec.History
	jobs    *rec.Jobs
	spare   *rec.Batch
	shown   ended // as of the last put
	putAt   time.Time
}

// ended is how many jobs have: those of which all attempts were remembered, and those of which only some were.
type ended struct{ whole, parted uint64 }

// chosen is a job that is to be kept.
type chosen struct {
	rec.Chosen
	last remembered
}

// remembered is what is remembered of a job: of how many tasks the attempt that gave the outcome, and the numbers of the last attempts.
type remembered struct {
	tasks            int
	outcome, earlier uint64
}

// maxChosen is how many jobs may wait to be kept.
const maxChosen = 4096

// maxLooks is how many calls may look at the recorder at a time.
const maxLooks = 8

func newRecorder(now time.Time, seed uint64) recorder {
	rng := rand.New(rand.NewPCG(seed, 0))
	return recorder{
		intake: rec.NewIntake(now, rng), choice: rec.NewChoice(rng), jobs: rec.NewJobs(), history: rec.NewHistory(), putAt: now,
		fresh: make(chan struct{}, 1), looks: make(chan struct{}, maxLooks),
	}
}

// windowEvery is how often what was counted is put into the history at most: a second's tick may come a little early.
const windowEvery = 900 * time.Millisecond

// record puts what was counted into the history at the end of each second, so that the windows of frontends whose clocks agree are
// the same, and keeps the jobs that were chosen.
func (s *Server) record() {
	second := time.NewTimer(untilSecond(time.Now()))
	defer second.Stop()
	var f flight
	for {
		select {
		case <-s.ctx.Done():
			return
		case <-s.recorder.fresh:
			s.collectJobs()
		case <-second.C:
			now := time.Now()
			s.put(now)
			s.checkObjectives(&f, now)
			second.Reset(untilSecond(now))
		}
	}
}

// untilSecond is how long it is until a second begins by the clock. One that has all but begun is not meant.
func untilSecond(now time.Time) time.Duration {
	return now.Add(time.Second + 50*time.Millisecond).Truncate(time.Second).Sub(now.Round(0))
}

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
	r.shown = r.ended
	full.Tally, r.tally = r.tally, rec.Tally{}
	oldest := s.core.Oldest(now)
	full.Pending, full.Running = s.core.Pending()
	s.mu.Unlock()
	if !oldest.IsZero() {
		full.Age = now.Sub(oldest)
	}
	r.history.Add(full)
	r.spare = full
}

// collectEvery is how many attempts are copied before others get the mutex.
const collectEvery = 64

// collectJobs keeps the jobs that were chosen.
func (s *Server) collectJobs() {
	r := &s.recorder
	r.collecting.Lock()
	defer r.collecting.Unlock()
	s.mu.Lock()
	list, missed := r.chosen, r.missed
	r.chosen, r.missed = nil, 0
	s.mu.Unlock()
	r.mu.Lock()
	r.jobs.Lose(missed)
	r.mu.Unlock()
	for i := range list {
		c := &list[i]
		attempts, trace, ok := s.collectAttempts(c.last)
		if c.Trace = trace; ok && len(attempts) == c.Tasks {
			c.Blame = rec.NewBlame(c.After, c.Response, attempts)
		}
		r.mu.Lock()
		if ok {
			r.jobs.Keep(c.Chosen)
		} else {
			r.jobs.Lose(1)
		}
		r.mu.Unlock()
	}
}

// collectAttempts copies the attempts that gave tasks of a job their outcomes, and makes a trace of these and of the earlier ones. It is
// not ok if some of the former are forgotten.
func (s *Server) collectAttempts(last remembered) (attempts []rec.Attempt, trace rec.Trace, ok bool) {
	attempts = make([]rec.Attempt, last.tasks)
	names := map[uint32]string{}
	name := func(key uint32) {
		if _, known := names[key]; !known && int(key) < len(s.links) && s.links[key] != nil {
			names[key] = s.links[key].run.worker
		}
	}
	for end := len(attempts); end > 0; end = max(end-collectEvery, 0) {
		part := attempts[max(end-collectEvery, 0):end]
		s.mu.Lock()
		if last.outcome, ok = s.recorder.attempts.Collect(part, last.outcome); !ok {
			s.mu.Unlock()
			return nil, rec.Trace{}, false
		}
		for i := range part {
			name(part[i].Worker)
		}
		s.mu.Unlock()
	}
	var earlier []rec.Earlier
	for last.earlier > 0 {
		from := len(earlier)
		s.mu.Lock()
		earlier, last.earlier = s.recorder.earlier.Collect(earlier, last.earlier, collectEvery)
		for i := range earlier[from:] {
			name(earlier[from+i].Worker)
		}
		s.mu.Unlock()
	}
	return attempts, rec.NewTrace(attempts, earlier, names), true
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
	t.Value("phoebe_frontend_recorder_lost_total", exposition.Labels("what", "job"), float64(r.jobs.Lost()))
	t.Value("phoebe_frontend_recorder_lost_total", exposition.Labels("what", "attempt"), float64(r.recordings.lost.Load()))
	t.Value("phoebe_frontend_recorder_jobs_total", exposition.Labels("attempts", "all"), float64(r.shown.whole))
	t.Value("phoebe_frontend_recorder_jobs_total", exposition.Labels("attempts", "failed"), float64(r.shown.parted))
	t.Value("phoebe_frontend_recordings_total", exposition.Labels("outcome", "written"), float64(r.recordings.written.Load()))
	t.Value("phoebe_frontend_recordings_total", exposition.Labels("outcome", "failed"), float64(r.recordings.failed.Load()))
	t.Value("phoebe_frontend_recordings_total", exposition.Labels("outcome", "removed"), float64(r.recordings.removed.Load()))
}

// timed is what is counted of a job under way. What is touched for each task lies together.
type timed struct {
	ended, failed  int                 // tasks
	path           estimate.Path       // of the tasks that have ended
	whole          bool                // all its attempts are remembered
	slots          [mixed + 1]rec.Slot // by path
	chain          rec.Chain           // of runs that gave results
	last           remembered
	lead           time.Duration // until the core had it
	came           time.Time
	policy, tenant string
	class          frontend.Class
	due            time.Duration // from when on it is regular; 0: from the start, or never
	copies         int           // attempts that were copies of late ones,
	preempted      int           // and those that were stopped for what is regular, as far as outcomes tell of them
	stages         []string      // names
	after          [][]int       // of each stage, those that it waits for
}

// mixed is the path of a job whose tasks do not all go the same.
const mixed = estimate.Estimation + 1

var pathNames = [...]string{estimate.Sampling: estimate.Sampling.String(), estimate.Estimation: estimate.Estimation.String(), mixed: "mixed"}

// timedJob notes in t, which is empty, of whom a job is that is about to be submitted.
func (s *Server) timedJob(t *timed, job *frontend.Job, now time.Time) {
	if !recording {
		return
	}
	t.policy, t.tenant, t.class, t.came = job.Policy.Name, job.Tenant, job.Class, now
	t.whole = s.recorder.intake.Submitted(job.Tenant, len(job.Tasks))
	if len(job.Stages) > 0 {
		t.stages, t.after = rec.Stages(job)
		t.chain = rec.NewChain(t.after)
	}
	if job.Class == frontend.Spare {
		t.due = job.Ages()
	}
}

// timedMore notes that a job has got more tasks, and perhaps stages.
func (s *Server) timedMore(t *timed, stages []frontend.Stage, tasks int) {
	if !recording {
		return
	}
	s.recorder.intake.Submitted(t.tenant, tasks) // whether all attempts of the job are remembered is decided
	if len(stages) > len(t.stages) {
		t.stages, t.after = rec.Stages(&frontend.Job{Stages: stages})
		t.chain.Grow(t.after)
	}
}

func (s *Server) slot(t *timed, path estimate.Path) rec.Slot {
	if in := s.recorder.intake; !in.Holds(t.slots[path]) {
		t.slots[path] = in.Slot(rec.Key{Path: pathNames[path], Policy: t.policy, Tenant: t.tenant})
	}
	return t.slots[path]
}

// failure is why a task has failed, as the API has it; 0: it has not.
func failure(o *frontend.Outcome) uint8 {
	if o.Kind == frontend.Failed {
		return uint8(failures[o.Failure])
	}
	return 0
}

// countTask counts what became of a task, and remembers the attempt that was. Where they are too many, the phases of some stand for those
// of others, and of a part of the jobs only what went wrong is remembered.
func (s *Server) countTask(t *timed, o *frontend.Outcome) {
	if !recording {
		return
	}
	r := &s.recorder
	r.tally.Tasks++
	if o.Way == frontend.WayCopy {
		t.copies++
	}
	for i := range o.Earlier {
		switch e := &o.Earlier[i]; {
		case e.Way == frontend.WayCopy:
			t.copies++
		case e.End == frontend.EndPreempted:
			t.preempted++
		}
	}
	if t.ended++; t.ended == 1 {
		t.path = o.Path
	} else if t.path != o.Path {
		t.path = mixed
	}
	slot, standsFor := rec.Slot{}, uint32(0)
	if o.Kind == frontend.Result {
		t.chain.Ran(int(o.Stage), o.Run)
		if slot = t.slots[o.Path]; !r.intake.Holds(slot) {
			slot = s.slot(t, o.Path)
		}
		standsFor = r.intake.StandsFor(slot)
	} else {
		r.tally.Failed++
		t.failed++
	}
	a := &r.scratch
	switch {
	case t.whole || o.Kind != frontend.Result || len(o.Earlier) > 0:
		a = s.remember(t, o)
	case standsFor > 0:
		a.SetPhases(o, t.lead, s.stepped.Sub(t.came))
	}
	if standsFor > 0 {
		r.intake.AddPhases(slot, a, standsFor)
	}
}

// remember remembers the attempts at a task that has ended.
func (s *Server) remember(t *timed, o *frontend.Outcome) *rec.Attempt {
	a, number := s.recorder.attempts.Next()
	a.Set(o, t.lead, s.stepped.Sub(t.came))
	a.Outcome, a.Failure = uint8(kinds[o.Kind]), failure(o)
	a.Before, t.last.outcome = t.last.outcome, number
	t.last.tasks++
	for i := range o.Earlier {
		e := rec.NewEarlier(o.Task, &o.Earlier[i], t.lead)
		e.Before = t.last.earlier
		t.last.earlier = s.recorder.earlier.Add(e)
	}
	return a
}

// countJob counts a job, of which all outcomes are in, and keeps it if somebody may ask for it.
func (s *Server) countJob(r *record) {
	if !recording {
		return
	}
	t, response, rc := &r.timed, r.endedAt.Sub(r.received), &s.recorder
	slowdown := time.Duration(0)
	if ideal := t.chain.Longest(); ideal > 0 {
		slowdown = time.Duration(float64(response) / float64(ideal) * float64(rec.One))
	}
	rc.intake.AddJob(s.slot(t, t.path), response, slowdown)
	if t.whole {
		rc.ended.whole++
	} else if rc.ended.parted++; t.failed == 0 {
		return
	}
	job := rec.Job{
		ID: r.id, Path: pathNames[t.path], Policy: t.policy, Tenant: t.tenant, Came: r.received, Response: response, Stages: t.stages, After: t.after,
		Tasks: t.ended, Failed: t.failed, Class: t.class, Due: t.due, Copies: t.copies, Preempted: t.preempted,
	}
	var c rec.Chosen
	if t.whole {
		c = rc.choice.Ended(r.endedAt, &job)
	} else {
		kept := job // as most are not, it is not made there
		c = rec.Chosen{Job: &kept, Why: rec.Failed}
	}
	switch {
	case c.Why == 0:
		return
	case len(rc.chosen) == maxChosen:
		rc.missed++
		return
	}
	rc.chosen = append(rc.chosen, chosen{c, t.last})
	select {
	case rc.fresh <- struct{}{}:
	default:
	}
}
