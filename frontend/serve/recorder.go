package serve

import (
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/phoebe-sched/phoebe/frontend"
	"github.com/phoebe-sched/phoebe/frontend/estimate"
	rec "github.com/phoebe-sched/phoebe/frontend/record"
	"github.com/phoebe-sched/phoebe/frontend/tenants"
	"github.com/phoebe-sched/phoebe/probe"
	"github.com/phoebe-sched/phoebe/probe/exposition"
	"github.com/phoebe-sched/phoebe/probe/histogram"
)

// recorder holds the history of jobs and tasks. Readers take its mutexes, and the server's mutex for moments. No
// step of the core waits for the recorder's mutexes.
type recorder struct {
	// Guarded by the server's mutex.
	intake          *rec.Intake
	tally           rec.Tally // since the last window
	attempts        rec.Attempts
	scratchAttempt  rec.Attempt // phases of an attempt that is not remembered
	earlierAttempts rec.EarlierAttempts
	choice          *rec.Choice
	endedCounts     endedCounts
	chosenJobs      []chosenJob // jobs whose attempts are still to be collected
	missedJobs      uint64      // chosen jobs beyond maxChosen
	openJobs        openJobs
	roundTrips      histogram.Histogram
	workerNames     rec.WorkerNames

	// Counts of recordings of broken objectives. lost counts attempts forgotten before the recording was written.
	recordings struct{ written, failed, removed, lost atomic.Int64 }

	chosenSignal chan struct{} // signals that chosenJobs has jobs
	lookSlots    chan struct{} // an element for each call that looks; more calls are refused

	collectMu sync.Mutex // taken before mu

	mu            sync.Mutex // guards all below; the server's mutex may be taken under it, but not the reverse
	history       *rec.History
	keptJobs      *rec.Jobs
	spareBatch    *rec.Batch
	exposedCounts endedCounts // as of the last putWindow
	fleet         rec.Fleet
	uses          rec.Uses      // of the last sample, until the next putWindow
	functionSlots []rec.SlotUse // of the last sample
	putAt         time.Time
}

// endedCounts counts ended jobs. Of whole jobs all attempts were remembered, of parted jobs only some.
type endedCounts struct{ whole, parted uint64 }

// chosenJob is a job that is to be kept.
type chosenJob struct {
	rec.Chosen
	refs attemptRefs
}

// attemptRefs refers to the remembered attempts of a job. tasks counts the attempts with outcomes. firstOutcome,
// lastOutcome and lastEarlier are numbers of attempts.
type attemptRefs struct {
	tasks                                  int
	firstOutcome, lastOutcome, lastEarlier uint64
}

// maxChosen bounds the jobs that wait to be kept.
const maxChosen = 4096

// maxLooks bounds the calls that look at the recorder at a time.
const maxLooks = 8

func newRecorder(now time.Time, seed uint64) recorder {
	rng := rand.New(rand.NewPCG(seed, 0))
	return recorder{
		intake: rec.NewIntake(now, rng), choice: rec.NewChoice(rng), keptJobs: rec.NewJobs(), history: rec.NewHistory(),
		putAt:        now,
		chosenSignal: make(chan struct{}, 1), lookSlots: make(chan struct{}, maxLooks),
	}
}

// minWindow is the shortest time between two windows of the history. It is below a second, because a second's tick
// may come a little early.
const minWindow = 900 * time.Millisecond

// runRecorder puts the counts into the history at the end of each second, and keeps the chosen jobs. So frontends
// whose clocks agree have the same windows.
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
			if recorderOn && isSampleDue(now) {
				s.sampleFleet(now)
			}
			s.putWindow(now)
			s.checkObjectives(&f, now)
			second.Reset(timeToSecond(now))
		}
	}
}

// timeToSecond returns the time until a second of the clock begins. If a second is about to begin within 50 ms, the
// next one counts.
func timeToSecond(now time.Time) time.Duration {
	return now.Add(time.Second + 50*time.Millisecond).Truncate(time.Second).Sub(now.Round(0))
}

// putWindow moves the counts since the last window into the history.
func (s *Server) putWindow(now time.Time) {
	r := &s.recorder
	r.mu.Lock()
	defer r.mu.Unlock()
	if since := now.Sub(r.putAt); since >= 0 && since < minWindow {
		return
	}
	r.putAt = now
	r.keptJobs.DropListed(now)
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
	full.Uses, r.uses = r.uses, rec.Uses{}
	r.history.Add(full)
	r.spareBatch = full
}

// attemptsPerLock bounds the attempts copied under a single hold of the mutex.
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
	r.keptJobs.CountLost(missed)
	r.mu.Unlock()
	for i := range list {
		c := &list[i]
		attempts, trace, ok := s.collectAttempts(c.refs)
		if c.Trace = trace; ok && len(attempts) == c.Tasks {
			c.Blame = rec.NewBlame(c.After, c.Response, attempts)
		}
		if !ok {
			c.Why &= rec.Listed // the job can be opened, without its tasks
		}
		r.mu.Lock()
		if c.Why != 0 {
			r.keptJobs.Keep(c.Chosen)
		} else {
			r.keptJobs.CountLost(1)
		}
		r.mu.Unlock()
	}
}

// collectAttempts copies a job's attempts with outcomes, and makes a trace of all remembered attempts of the job.
// ok is false if an attempt with an outcome is forgotten.
func (s *Server) collectAttempts(refs attemptRefs) (attempts []rec.Attempt, trace rec.Trace, ok bool) {
	s.mu.Lock()
	ok = refs.tasks == 0 || s.recorder.attempts.Remembers(refs.firstOutcome)
	s.mu.Unlock()
	if !ok { // and no room is made for the attempts
		return nil, rec.Trace{}, false
	}
	attempts = make([]rec.Attempt, refs.tasks)
	names := map[uint32]string{}
	noteName := func(number uint32) {
		if _, noted := names[number]; !noted {
			if name, known := s.recorder.workerNames.Name(number); known {
				names[number] = name
			}
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

// listKept returns the kept jobs, the latest first. There may be tens of thousands, so it sorts without the mutex.
func (r *recorder) listKept() []rec.Kept {
	r.mu.Lock()
	list := r.keptJobs.Copy()
	r.mu.Unlock()
	return rec.LatestFirst(list)
}

// findKept returns the latest kept job with an id.
func (r *recorder) findKept(id probe.JobID) (k rec.Kept, found bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.keptJobs.Find(id)
}

// exposeTimes adds the measured times, as of the last putWindow.
func (r *recorder) exposeTimes(t *exposition.Text) {
	r.mu.Lock()
	defer r.mu.Unlock()
	failed, slots := map[string]uint64{}, map[string]int64{} // by function
	r.history.EachTotal(func(k rec.Key, m rec.Measure, h *histogram.Histogram) {
		if name, ok := k.Function(); ok {
			labels := exposition.Labels("function", name)
			slots[name] = 0
			switch m {
			case rec.Whole:
				t.Histogram("phoebe_frontend_function_task_seconds", labels, h, time.Second)
			case rec.Run:
				t.Histogram("phoebe_frontend_function_run_seconds", labels, h, time.Second)
			case rec.Failure:
				failed[name] = h.Count
			}
			return
		}
		labels := exposition.Labels("path", k.Path, "policy", k.Policy, "tenant", k.Tenant)
		switch m {
		case rec.Response:
			t.Histogram("phoebe_frontend_job_response_seconds", labels, h, time.Second)
		case rec.Slowdown:
			t.Histogram("phoebe_frontend_job_slowdown_ratio", labels, h, rec.One)
		default:
			t.Histogram("phoebe_frontend_task_phase_seconds", labels+","+exposition.Labels("phase", m.String()), h,
				time.Second)
		}
	})
	for _, u := range r.functionSlots {
		slots[u.Name] = u.Slots
	}
	for _, name := range slices.Sorted(maps.Keys(slots)) {
		labels := exposition.Labels("function", name)
		t.Value("phoebe_frontend_function_slots", labels, float64(slots[name])/float64(tenants.Slot))
		t.Value("phoebe_frontend_function_tasks_failed_total", labels, float64(failed[name]))
	}
	t.Value("phoebe_frontend_recorder_lost_total", exposition.Labels("what", "measurement"), float64(r.history.Lost()))
	t.Value("phoebe_frontend_recorder_lost_total", exposition.Labels("what", "job"), float64(r.keptJobs.Lost()))
	t.Value("phoebe_frontend_recorder_lost_total", exposition.Labels("what", "attempt"),
		float64(r.recordings.lost.Load()))
	t.Value("phoebe_frontend_recorder_jobs_total", exposition.Labels("attempts", "all"), float64(r.exposedCounts.whole))
	t.Value("phoebe_frontend_recorder_jobs_total", exposition.Labels("attempts", "failed"),
		float64(r.exposedCounts.parted))
	t.Value("phoebe_frontend_recordings_total", exposition.Labels("outcome", "written"),
		float64(r.recordings.written.Load()))
	t.Value("phoebe_frontend_recordings_total", exposition.Labels("outcome", "failed"),
		float64(r.recordings.failed.Load()))
	t.Value("phoebe_frontend_recordings_total", exposition.Labels("outcome", "removed"),
		float64(r.recordings.removed.Load()))
}

// jobTiming holds the counts of a job under way. Fields touched for each task lie together.
type jobTiming struct {
	endedTasks, failedTasks int                     // tasks with an outcome; tasks with an outcome, but no result
	path                    estimate.Path           // of the ended tasks
	function                string                  // of the task that ended last; at first, of the first task
	remembersAll            bool                    // all attempts of the job are remembered
	slots                   [mixedPath + 1]rec.Slot // by path
	chain                   rec.Chain               // of runs that gave results
	refs                    attemptRefs
	leadTime                time.Duration // from receipt until the core had the job
	cameAt                  time.Time
	policy, tenant          string
	class                   frontend.Class
	due                     time.Duration // when the job becomes regular; 0: from the start, or never
	listedUntil             time.Time     // until then, a reader of a list may want to open the job
	copies                  int           // attempts that were copies of late attempts, as far as outcomes tell
	preempted               int           // attempts that were stopped for regular work, as far as outcomes tell
	functions               []string      // at most rec.MaxJobFunctions; nil: only function is known
	stageNames              []string      // by number
	after                   [][]int       // for each stage, the numbers of the stages before it
}

// mixedPath is the path of a job whose tasks take different paths.
const mixedPath = estimate.Estimation + 1

var pathNames = [...]string{estimate.Sampling: estimate.Sampling.String(),
	estimate.Estimation: estimate.Estimation.String(), mixedPath: "mixed"}

// beginTiming fills the empty t for a job about to be submitted.
func (s *Server) beginTiming(t *jobTiming, job *frontend.Job, now time.Time) {
	if !recorderOn {
		return
	}
	t.policy, t.tenant, t.class, t.cameAt = job.Policy.Name, job.Tenant, job.Class, now
	t.remembersAll = s.recorder.intake.NoteSubmitted(job.Tenant, len(job.Tasks))
	if len(job.Tasks) > 0 {
		t.function = job.Tasks[0].Function
	}
	if len(job.Stages) > 0 {
		t.stageNames, t.after = rec.Stages(job)
		t.chain = rec.NewChain(t.after)
	}
	if job.Class == frontend.Spare {
		t.due = job.DueAfter()
	}
}

// noteFunction notes the function of a task that has ended. It is not t.function.
func (t *jobTiming) noteFunction(name string) {
	if t.functions == nil && t.function != "" {
		t.functions = append(t.functions, t.function)
	}
	if t.function = name; len(t.functions) < rec.MaxJobFunctions && !slices.Contains(t.functions, name) {
		t.functions = append(t.functions, name)
	}
}

// listFunctions returns the known functions of the job's tasks: of the first task, and of all ended tasks.
func (t *jobTiming) listFunctions() []string {
	if t.functions == nil && t.function != "" {
		return []string{t.function}
	}
	return slices.Clone(t.functions)
}

// recordExtension notes that a job has got more tasks, and perhaps stages.
func (s *Server) recordExtension(t *jobTiming, stages []frontend.Stage, tasks int) {
	if !recorderOn {
		return
	}
	s.recorder.intake.NoteSubmitted(t.tenant, tasks) // the answer is not used: t.remembersAll stays as decided
	if len(stages) > len(t.stageNames) {
		t.stageNames, t.after = rec.Stages(&frontend.Job{Stages: stages})
		t.chain.Grow(t.after)
	}
}

// findSlot returns the slot where the times of t's job are counted for a path.
func (s *Server) findSlot(t *jobTiming, path estimate.Path) rec.Slot {
	if in := s.recorder.intake; !in.IsCurrent(t.slots[path]) {
		t.slots[path] = in.Slot(rec.Key{Path: pathNames[path], Policy: t.policy, Tenant: t.tenant})
	}
	return t.slots[path]
}

// failureNumber returns the API's number of a task's failure; 0: no failure.
func failureNumber(o *frontend.Outcome) uint8 {
	if o.Kind == frontend.Failed {
		return uint8(failureReasons[o.Failure])
	}
	return 0
}

// countTask counts the outcome of a task, and remembers its attempts. If there are too many tasks, the phases of
// some tasks stand for the phases of other tasks. Then, for a part of the jobs, only attempts that went wrong are
// remembered.
func (s *Server) countTask(t *jobTiming, o *frontend.Outcome) {
	if !recorderOn {
		return
	}
	r := &s.recorder
	r.tally.Tasks++
	t.copies += o.CountCopies()
	for i := range o.Earlier {
		if e := &o.Earlier[i]; e.Way != frontend.WayCopy && e.End == frontend.EndPreempted {
			t.preempted++
		}
	}
	if t.endedTasks++; t.endedTasks == 1 {
		t.path = o.Path
	} else if t.path != o.Path {
		t.path = mixedPath
	}
	if o.Function != t.function {
		t.noteFunction(o.Function)
	}
	slot, standsFor := rec.Slot{}, uint32(0)
	if o.Kind == frontend.Result {
		t.chain.NoteRun(int(o.Stage), o.Run)
		if slot = t.slots[o.Path]; !r.intake.IsCurrent(slot) {
			slot = s.findSlot(t, o.Path)
		}
		standsFor = r.intake.SampleTask(slot)
	} else {
		r.tally.Failed++
		t.failedTasks++
		r.intake.NoteFailed(s.findSlot(t, o.Path))
	}
	a := &r.scratchAttempt
	switch {
	case t.remembersAll || o.Kind != frontend.Result || len(o.Earlier) > 0:
		a = s.rememberAttempts(t, o)
	case standsFor > 0:
		a.SetPhases(o, t.leadTime, s.steppedAt.Sub(t.cameAt))
	}
	switch {
	case standsFor > 0:
		r.intake.AddTask(slot, o.Function, a, standsFor)
	case o.Kind != frontend.Result:
		r.intake.AddFailure(o.Function, a)
	}
}

// rememberAttempts remembers the attempts at a task that has ended.
func (s *Server) rememberAttempts(t *jobTiming, o *frontend.Outcome) *rec.Attempt {
	a, number := s.recorder.attempts.NewAttempt()
	a.Set(o, t.leadTime, s.steppedAt.Sub(t.cameAt))
	if o.Worker != "" {
		a.Worker = s.workerNumber(o.At, o.Worker)
	}
	a.Outcome, a.Failure = uint8(outcomeKinds[o.Kind]), failureNumber(o)
	a.Previous, t.refs.lastOutcome = t.refs.lastOutcome, number
	if t.refs.tasks++; t.refs.tasks == 1 {
		t.refs.firstOutcome = number
	}
	for i := range o.Earlier {
		number := s.workerNumber(o.Earlier[i].Worker, o.Earlier[i].Name)
		e := rec.NewEarlier(o.Task, &o.Earlier[i], number, t.leadTime)
		e.Previous = t.refs.lastEarlier
		t.refs.lastEarlier = s.recorder.earlierAttempts.Add(e)
	}
	return a
}

// workerNumber returns the recorder's number of a worker's name. key is the worker's key, at the time of an attempt.
func (s *Server) workerNumber(key frontend.Worker, name string) uint32 {
	names := &s.recorder.workerNames
	if int(key) >= len(s.links) || s.links[key] == nil || s.links[key].workerRun.worker != name {
		return names.NumberOf(name) // the worker has gone
	}
	l := s.links[key]
	if !names.IsKnown(l.recordNumber) { // otherwise each task would pay for a look-up
		l.recordNumber = names.NumberOf(name)
	}
	return l.recordNumber
}

// countJob counts a job after the last outcome, and keeps the job if a reader may ask for it.
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
	isListed := r.endedAt.Before(t.listedUntil)
	if t.remembersAll {
		rc.endedCounts.whole++
	} else if rc.endedCounts.parted++; t.failedTasks == 0 && !isListed {
		return
	}
	job := rec.Job{
		ID: r.id, Path: pathNames[t.path], Policy: t.policy, Tenant: t.tenant, Came: r.receivedAt, Response: response,
		Stages: t.stageNames, After: t.after,
		Tasks: t.endedTasks, Failed: t.failedTasks, Class: t.class, Due: t.due, Copies: t.copies,
		Preempted: t.preempted,
	}
	var c rec.Chosen
	if t.remembersAll {
		c = rc.choice.Decide(r.endedAt, &job)
	} else if t.failedTasks > 0 {
		c.Why = rec.Failed
	}
	if isListed {
		c.Why |= rec.Listed
	}
	if c.Job == nil && c.Why != 0 {
		kept := job // the copy is made only here, because most jobs are not kept
		c.Job = &kept
	}
	switch {
	case c.Why == 0:
		return
	case len(rc.chosenJobs) == maxChosen:
		rc.missedJobs++
		return
	}
	c.Functions = t.listFunctions() // only here, because the list is made anew
	rc.chosenJobs = append(rc.chosenJobs, chosenJob{c, t.refs})
	select {
	case rc.chosenSignal <- struct{}{}:
	default:
	}
}
