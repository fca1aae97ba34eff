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
	intake          *rec.Intake
	tally           rec.Tally // since it was taken last
	attempts        rec.Attempts
	scratchAttempt  rec.Attempt // one that is not remembered: its phases
	earlierAttempts rec.EarlierAttempts
	choice          *rec.Choice
	endedCounts     endedCounts
	chosenJobs      []chosenJob // whose attempts are still to be collected
	missedJobs      uint64      // that were too many for that
	openJobs        openJobs
	roundTrips      histogram.Histogram

	recordings struct{ written, failed, removed, lost atomic.Int64 } // of broken objectives; lost are attempts that were forgotten before they were written

	chosenSignal chan struct{} // tells that there are chosen ones
	lookSlots    chan struct{} // one for each call that looks: others are refused

	collectMu sync.Mutex // taken before mu

	mu            sync.Mutex // guards all below; the server's may be taken while it is held, but not the other way round
	history       *rec.History
	keptJobs      *rec.Jobs
	spareBatch    *rec.Batch
	exposedCounts endedCounts // as of the last put
	putAt         time.Time
}

// endedCounts is how many jobs have: those of which all attempts were remembered, and those of which only some were.
type endedCounts struct{ whole, parted uint64 }

// chosenJob is a job that is to be kept.
type chosenJob struct {
	rec.Chosen
	refs attemptRefs
}

// attemptRefs is what is remembered of a job: of how many tasks the attempt that gave the outcome, and the numbers of the last attempts.
type attemptRefs struct {
	tasks                    int
	lastOutcome, lastEarlier uint64
}

// maxChosen is how many jobs may wait to be kept.
const maxChosen = 4096

// maxLooks is how many calls may look at the recorder at a time.
const maxLooks = 8

func newRecorder(now time.Time, seed uint64) recorder {
	rng := rand.New(rand.NewPCG(seed, 0))
	return recorder{
		intake: rec.NewIntake(now, rng), choice: rec.NewChoice(rng), keptJobs: rec.NewJobs(), history: rec.NewHistory(), putAt: now,
		chosenSignal: make(chan struct{}, 1), lookSlots: make(chan struct{}, maxLooks),
	}
}

// minWindow is how often what was counted is put into the history at most: a second's tick may come a little early.
const minWindow = 900 * time.Millisecond

// runRecorder puts what was counted into the history at the end of each second, so that the windows of frontends whose clocks agree are
// the same, and keeps the jobs that were chosen.
func (s *Server) runRecorder() {
	second := time.NewTimer(timeToSecond(time.Now()))
	defer second.Stop()
	var f flightRecorder
	for {
		select {
		case <-s.ctx.Done():
			return
		case <-s.recorder.chosenSignal:
			s.collectJobs()
		case <-second.C:
			now := time.Now()
			s.putWindow(now)
			s.checkObjectives(&f, now)
			second.Reset(timeToSecond(now))
		}
	}
}

// timeToSecond is how long it is until a second begins by the clock. One that has all but begun is not meant.
func timeToSecond(now time.Time) time.Duration {
	return now.Add(time.Second + 50*time.Millisecond).Truncate(time.Second).Sub(now.Round(0))
}

// putWindow moves what was counted since the last time into the history.
func (s *Server) putWindow(now time.Time) {
	r := &s.recorder
	r.mu.Lock()
	defer r.mu.Unlock()
	if since := now.Sub(r.putAt); since >= 0 && since < minWindow {
		return
	}
	r.putAt = now
	s.mu.Lock()
	full := r.intake.Take(now, r.spareBatch)
	r.exposedCounts = r.endedCounts
	full.Tally, r.tally = r.tally, rec.Tally{}
	oldest := s.core.Oldest(now)
	full.Pending, full.Running = s.core.Pending()
	s.mu.Unlock()
	if !oldest.IsZero() {
		full.Age = now.Sub(oldest)
	}
	r.history.Add(full)
	r.spareBatch = full
}

// attemptsPerLock is how many attempts are copied before others get the mutex.
const attemptsPerLock = 64

// collectJobs keeps the jobs that were chosen.
func (s *Server) collectJobs() {
	r := &s.recorder
	r.collectMu.Lock()
	defer r.collectMu.Unlock()
	s.mu.Lock()
	list, missed := r.chosenJobs, r.missedJobs
	r.chosenJobs, r.missedJobs = nil, 0
	s.mu.Unlock()
	r.mu.Lock()
	r.keptJobs.Lose(missed)
	r.mu.Unlock()
	for i := range list {
		c := &list[i]
		attempts, trace, ok := s.collectAttempts(c.refs)
		if c.Trace = trace; ok && len(attempts) == c.Tasks {
			c.Blame = rec.NewBlame(c.After, c.Response, attempts)
		}
		r.mu.Lock()
		if ok {
			r.keptJobs.Keep(c.Chosen)
		} else {
			r.keptJobs.Lose(1)
		}
		r.mu.Unlock()
	}
}

// collectAttempts copies the attempts that gave tasks of a job their outcomes, and makes a trace of these and of the earlier ones. It is
// not ok if some of the former are forgotten.
func (s *Server) collectAttempts(refs attemptRefs) (attempts []rec.Attempt, trace rec.Trace, ok bool) {
	attempts = make([]rec.Attempt, refs.tasks)
	names := map[uint32]string{}
	noteName := func(key uint32) {
		if _, known := names[key]; !known && int(key) < len(s.links) && s.links[key] != nil {
			names[key] = s.links[key].workerRun.worker
		}
	}
	for end := len(attempts); end > 0; end = max(end-attemptsPerLock, 0) {
		part := attempts[max(end-attemptsPerLock, 0):end]
		s.mu.Lock()
		if refs.lastOutcome, ok = s.recorder.attempts.Collect(part, refs.lastOutcome); !ok {
			s.mu.Unlock()
			return nil, rec.Trace{}, false
		}
		for i := range part {
			noteName(part[i].Worker)
		}
		s.mu.Unlock()
	}
	var earlier []rec.Earlier
	for refs.lastEarlier > 0 {
		from := len(earlier)
		s.mu.Lock()
		earlier, refs.lastEarlier = s.recorder.earlierAttempts.Collect(earlier, refs.lastEarlier, attemptsPerLock)
		for i := range earlier[from:] {
			noteName(earlier[from+i].Worker)
		}
		s.mu.Unlock()
	}
	return attempts, rec.NewTrace(attempts, earlier, names), true
}

// exposeTimes adds what was timed. It is as of the last put.
func (r *recorder) exposeTimes(t *exposition.Text) {
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
	t.Value("phoebe_frontend_recorder_lost_total", exposition.Labels("what", "job"), float64(r.keptJobs.Lost()))
	t.Value("phoebe_frontend_recorder_lost_total", exposition.Labels("what", "attempt"), float64(r.recordings.lost.Load()))
	t.Value("phoebe_frontend_recorder_jobs_total", exposition.Labels("attempts", "all"), float64(r.exposedCounts.whole))
	t.Value("phoebe_frontend_recorder_jobs_total", exposition.Labels("attempts", "failed"), float64(r.exposedCounts.parted))
	t.Value("phoebe_frontend_recordings_total", exposition.Labels("outcome", "written"), float64(r.recordings.written.Load()))
	t.Value("phoebe_frontend_recordings_total", exposition.Labels("outcome", "failed"), float64(r.recordings.failed.Load()))
	t.Value("phoebe_frontend_recordings_total", exposition.Labels("outcome", "removed"), float64(r.recordings.removed.Load()))
}

// jobTiming is what is counted of a job under way. What is touched for each task lies together.
type jobTiming struct {
	endedTasks, failedTasks int                     // tasks
	path                    estimate.Path           // of the tasks that have ended
	remembersAll            bool                    // all its attempts are remembered
	slots                   [mixedPath + 1]rec.Slot // by path
	chain                   rec.Chain               // of runs that gave results
	refs                    attemptRefs
	leadTime                time.Duration // until the core had it
	cameAt                  time.Time
	policy, tenant          string
	class                   frontend.Class
	due                     time.Duration // from when on it is regular; 0: from the start, or never
	copies                  int           // attempts that were copies of late ones,
	preempted               int           // and those that were stopped for what is regular, as far as outcomes tell of them
	stageNames              []string      // names
	after                   [][]int       // of each stage, those that it waits for
}

// mixedPath is the path of a job whose tasks do not all go the same.
const mixedPath = estimate.Estimation + 1

var pathNames = [...]string{estimate.Sampling: estimate.Sampling.String(), estimate.Estimation: estimate.Estimation.String(), mixedPath: "mixed"}

// beginTiming notes in t, which is empty, of whom a job is that is about to be submitted.
func (s *Server) beginTiming(t *jobTiming, job *frontend.Job, now time.Time) {
	if !recorderOn {
		return
	}
	t.policy, t.tenant, t.class, t.cameAt = job.Policy.Name, job.Tenant, job.Class, now
	t.remembersAll = s.recorder.intake.Submitted(job.Tenant, len(job.Tasks))
	if len(job.Stages) > 0 {
		t.stageNames, t.after = rec.Stages(job)
		t.chain = rec.NewChain(t.after)
	}
	if job.Class == frontend.Spare {
		t.due = job.DueAfter()
	}
}

// extendTiming notes that a job has got more tasks, and perhaps stages.
func (s *Server) extendTiming(t *jobTiming, stages []frontend.Stage, tasks int) {
	if !recorderOn {
		return
	}
	s.recorder.intake.Submitted(t.tenant, tasks) // whether all attempts of the job are remembered is decided
	if len(stages) > len(t.stageNames) {
		t.stageNames, t.after = rec.Stages(&frontend.Job{Stages: stages})
		t.chain.Grow(t.after)
	}
}

func (s *Server) findSlot(t *jobTiming, path estimate.Path) rec.Slot {
	if in := s.recorder.intake; !in.Holds(t.slots[path]) {
		t.slots[path] = in.Slot(rec.Key{Path: pathNames[path], Policy: t.policy, Tenant: t.tenant})
	}
	return t.slots[path]
}

// failureNumber is why a task has failed, as the API has it; 0: it has not.
func failureNumber(o *frontend.Outcome) uint8 {
	if o.Kind == frontend.Failed {
		return uint8(failureReasons[o.Failure])
	}
	return 0
}

// countTask counts what became of a task, and remembers the attempt that was. Where they are too many, the phases of some stand for those
// of others, and of a part of the jobs only what went wrong is remembered.
func (s *Server) countTask(t *jobTiming, o *frontend.Outcome) {
	if !recorderOn {
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
	if t.endedTasks++; t.endedTasks == 1 {
		t.path = o.Path
	} else if t.path != o.Path {
		t.path = mixedPath
	}
	slot, standsFor := rec.Slot{}, uint32(0)
	if o.Kind == frontend.Result {
		t.chain.Ran(int(o.Stage), o.Run)
		if slot = t.slots[o.Path]; !r.intake.Holds(slot) {
			slot = s.findSlot(t, o.Path)
		}
		standsFor = r.intake.StandsFor(slot)
	} else {
		r.tally.Failed++
		t.failedTasks++
	}
	a := &r.scratchAttempt
	switch {
	case t.remembersAll || o.Kind != frontend.Result || len(o.Earlier) > 0:
		a = s.rememberAttempts(t, o)
	case standsFor > 0:
		a.SetPhases(o, t.leadTime, s.steppedAt.Sub(t.cameAt))
	}
	if standsFor > 0 {
		r.intake.AddPhases(slot, a, standsFor)
	}
}

// rememberAttempts remembers the attempts at a task that has ended.
func (s *Server) rememberAttempts(t *jobTiming, o *frontend.Outcome) *rec.Attempt {
	a, number := s.recorder.attempts.Next()
	a.Set(o, t.leadTime, s.steppedAt.Sub(t.cameAt))
	a.Outcome, a.Failure = uint8(outcomeKinds[o.Kind]), failureNumber(o)
	a.Before, t.refs.lastOutcome = t.refs.lastOutcome, number
	t.refs.tasks++
	for i := range o.Earlier {
		e := rec.NewEarlier(o.Task, &o.Earlier[i], t.leadTime)
		e.Before = t.refs.lastEarlier
		t.refs.lastEarlier = s.recorder.earlierAttempts.Add(e)
	}
	return a
}

// countJob counts a job, of which all outcomes are in, and keeps it if somebody may ask for it.
func (s *Server) countJob(r *clientJob) {
	if !recorderOn {
		return
	}
	t, response, rc := &r.timing, r.endedAt.Sub(r.receivedAt), &s.recorder
	slowdown := time.Duration(0)
	if ideal := t.chain.Longest(); ideal > 0 {
		slowdown = time.Duration(float64(response) / float64(ideal) * float64(rec.One))
	}
	rc.intake.AddJob(s.findSlot(t, t.path), response, slowdown)
	if t.remembersAll {
		rc.endedCounts.whole++
	} else if rc.endedCounts.parted++; t.failedTasks == 0 {
		return
	}
	job := rec.Job{
		ID: r.id, Path: pathNames[t.path], Policy: t.policy, Tenant: t.tenant, Came: r.receivedAt, Response: response, Stages: t.stageNames, After: t.after,
		Tasks: t.endedTasks, Failed: t.failedTasks, Class: t.class, Due: t.due, Copies: t.copies, Preempted: t.preempted,
	}
	var c rec.Chosen
	if t.remembersAll {
		c = rc.choice.Ended(r.endedAt, &job)
	} else {
		kept := job // as most are not, it is not made there
		c = rec.Chosen{Job: &kept, Why: rec.Failed}
	}
	switch {
	case c.Why == 0:
		return
	case len(rc.chosenJobs) == maxChosen:
		rc.missedJobs++
		return
	}
	rc.chosenJobs = append(rc.chosenJobs, chosenJob{c, t.refs})
	select {
	case rc.chosenSignal <- struct{}{}:
	default:
	}
}
