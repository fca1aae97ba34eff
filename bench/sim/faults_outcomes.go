package sim

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/phoebe-sched/phoebe/frontend"
	"github.com/phoebe-sched/phoebe/frontend/record"
	"github.com/phoebe-sched/phoebe/probe"
	"github.com/phoebe-sched/phoebe/worker"
)

// checkOutcome checks that an outcome has a cause.
func (r *faultRun) checkOutcome(f *frontendNode, v *visit, o *frontend.Outcome) {
	j := v.job
	j.stopped = j.stopped || o.Kind == frontend.Cancelled || o.Kind == frontend.DeadlineExceeded ||
		o.Kind == frontend.Failed && o.Failure == frontend.StageFailed
	t := &j.tasks[o.Task]
	t.reported++
	bad := false
	moves := countMoves(o)
	if moves > 0 {
		r.stats.Seen["tasks moved"]++
	}
	if moves > 2 {
		r.failRun("job %d, task %d: moved %d times at f%d", j.n, o.Task, moves, f.index)
	}
	if n := len(o.Earlier); n < min(o.Attempts-1, frontend.MaxEarlier) ||
		n > min(o.Attempts+moves, frontend.MaxEarlier) {
		r.failRun("job %d, task %d: of %d attempts and %d moves, %d are listed beside the attempt that counted", j.n,
			o.Task, o.Attempts, moves, n)
	}
	switch o.Kind {
	case frontend.Result:
		bad = t.starts == 0 || string(o.Result) != string(t.spec.Payload[8:16])
	case frontend.Cancelled:
		bad = !j.isCancelled && !v.clientGone
	case frontend.DeadlineExceeded:
		bad = !j.hasDeadline
	case frontend.Failed:
		retried := t.spec.Retryable && t.failedRuns+t.unfetched <= t.spec.Retries
		switch o.Failure {
		case frontend.TaskError:
			bad = t.failedRuns == 0 || retried
		case frontend.NoInput:
			// After five failed disks, a further one counts as a failure of the task.
			bad = (t.unfetched == 0 || retried) && t.diskFailures <= 5 && !r.mayLackInput(j, t, f, v)
		case frontend.StageFailed:
			bad = !slices.ContainsFunc(v.outcomes, func(o frontend.Outcome) bool {
				return o.Kind == frontend.Failed && o.Failure != frontend.StageFailed
			})
		case frontend.Timeout:
			bad = t.spec.Timeout == 0
		case frontend.Lost:
			bad = t.spec.Retryable || r.frontendsOnly && strings.HasPrefix(o.Message, "its frontend was lost") &&
				!strings.Contains(o.Message, "has started since, or forgot")
			untold := v.isResubmitted // the frontend may be unable to tell that a task was never tried
			bad = bad || !r.mayBeLost(j, t) && (len(t.attempts) > 0 || !untold)
		case frontend.NoWorker:
			bad = !r.isStranded(j, t, f, r.now-f.cfg.StrandedFor) && (len(t.spec.Files) == 0 || r.cacheDeaths == 0)
		case frontend.Poison:
			bad = r.countDeaths(t) < f.cfg.PoisonAfter
		default:
			bad = true
		}
	}
	if bad {
		r.failRun("job %d, task %d (retryable %t, %d retries, %d runs, %d of them failed): outcome %d, failure %d, "+
			"%q without a cause",
			j.n, o.Task, t.spec.Retryable, t.spec.Retries, t.starts, t.failedRuns, o.Kind, o.Failure, o.Message)
	}
}

// checkPhases compares the phases of a task with the clocks of the frontend and of the worker. The network is uneven, so
// the frontend only guesses how the two clocks compare. But times of one clock are exact, and a message comes after its
// departure.
func (r *faultRun) checkPhases(f *frontendNode, v *visit, o *frontend.Outcome) {
	x := r.attempts[o.Receipt.Attempt]
	if o.Kind != frontend.Result || x == nil || !x.hasEnded { // calm runs note no attempts
		return
	}
	r.stats.Seen["phases compared"]++
	p, sent, atWorker := &o.Phases, x.sent-v.cameAt, x.startedAt-x.arrivedAt
	bad := p.Finished-p.Started != x.ran || p.Finished > r.now-v.cameAt || p.Sampled > p.Queued ||
		p.Queued > p.Ready || p.Ready > p.Bound || p.Sampled < max(p.Released, p.Again)
	switch {
	case x.f != f || sent < 0 || v.isResubmitted && o.Way == frontend.WayUnknown: // sent before the job came here
		bad = bad || p.Ready != max(p.Started, p.Released) || p.Sampled != p.Ready || p.Bound != p.Ready
	case o.Way == frontend.WayEarly && p.Sampled < sent && countMoves(o) > 0: // the wait began in another queue
		bad = bad || p.Started-p.Queued < atWorker || o.Waited > atWorker || p.Started-p.Ready != atWorker-o.Waited
	case o.Way == frontend.WayEarly || o.Way == frontend.WayCopy:
		bad = bad || p.Sampled != sent || p.Started-p.Queued != atWorker || p.Queued < sent || o.Waited > atWorker ||
			p.Ready-p.Queued != o.Waited
	case o.Way == frontend.WayRide:
		bad = bad || p.Sampled > sent || p.Started-p.Ready > atWorker || p.Ready < sent
	default:
		bad = bad || p.Bound != sent || p.Started-p.Bound < atWorker
	}
	if bad {
		r.failRun("job %d, task %d, sent in way %d %v after the job came, was at w%d for %v and ran for %v: phases %+v",
			v.job.n, o.Task, o.Way, sent, x.w.index, atWorker, x.ran, *p)
	}
}

// checkBlame checks the blame of a job: the sum must equal the response, and the run time of each task must equal
// its phases.
func (r *faultRun) checkBlame(v *visit) {
	r.stats.Seen["jobs blamed"]++
	response, sum := r.now-v.cameAt, time.Duration(0)
	blame := record.NewBlame(v.stagesBefore, response, v.attempts)
	for kind, d := range blame {
		if sum += d; d < 0 {
			r.failRun("job %d: %v is blamed for %v", v.job.n, record.Kind(kind), d)
		}
	}
	if (sum - response).Abs() > time.Microsecond {
		r.failRun("job %d took %v, blame adds up to %v: %v", v.job.n, response, sum, blame)
	}
	if !r.calm { // a task may have run before its job came here
		return
	}
	for i := range v.attempts {
		if o := &v.outcomes[i]; (v.attempts[i].Phases()[record.Run] - o.Run).Abs() > time.Microsecond {
			r.failRun("job %d, task %d ran for %v: its phases are %+v", v.job.n, o.Task, o.Run, o.Phases)
		}
	}
}

// taskOf returns the job and task of a start.
func (r *faultRun) taskOf(s *worker.Start) (*faultJob, *faultTask) {
	j := r.jobs[jobOf(s.Job)-1]
	return j, &j.tasks[s.Launch.Task]
}

// taskStarted checks that a task may start now at w.
func (r *faultRun) taskStarted(w *workerNode, s *worker.Start) {
	j, t := r.taskOf(s)
	if x := r.attempts[s.Launch.Attempt]; x != nil {
		x.startedAt = r.now
	}
	t.starts++
	r.stats.Starts++
	if t.starts > 1 && !t.spec.Retryable {
		r.failRun("task %d of job %d may start only once, and starts again, at w%d", s.Launch.Task, j.n, w.index)
	}
	most := 1
	if r.copies > 0 && t.spec.Retryable {
		most = 2
	}
	if t.running++; r.frontendsOnly && !j.stopped && (t.running > most || t.goodRuns >= most) {
		r.failRun("task %d of job %d starts at w%d, and runs at %d other places, and has ended well %d times, "+
			"though only frontends fail", s.Launch.Task, j.n, w.index, t.running-1, t.goodRuns)
	}
	if !r.calm {
		r.checkRestart(j, t, s)
	}
	x := r.attempts[s.Launch.Attempt] // a copy may have been under way by then, or its original
	if pause := &t.backoff; r.frontendsOnly && pause.frontend == s.Launch.Attempt.Frontend && pause.session == j.session &&
		r.now < pause.until && !x.isCopy && x.sent >= pause.until-t.spec.Backoff {
		r.failRun("task %d of job %d has failed and starts again %v too soon", s.Launch.Task, j.n, pause.until-r.now)
	}
	if string(s.Launch.Payload) != string(t.spec.Payload) || s.Launch.Function != t.spec.Function {
		r.failRun("task %d of job %d starts with another payload or function", s.Launch.Task, j.n)
	}
	if err := r.checkPlacement(j, t, w, s); err != nil {
		r.failRun("task %d of job %d starts and %w", s.Launch.Task, j.n, err)
	}
}

// reportedProgress returns the progress reported by the tasks at a worker. Every third task reports nothing, and
// every third lies.
func (r *faultRun) reportedProgress(w *workerNode) (list []worker.Progress) {
	for _, x := range w.running {
		p := worker.Progress{Attempt: x.start.Launch.Attempt, Done: (r.now - x.began).Seconds() / max(x.duration,
			1).Seconds()}
		switch p.Attempt.Seq % 3 {
		case 0:
			continue
		case 1:
			p.Done = math.Mod(float64(p.Attempt.Seq)*math.Phi, 1)
		}
		list = append(list, p)
	}
	return list
}

// taskEnded decides how a run ends: as planned, or without its inputs.
func (r *faultRun) taskEnded(s *worker.Start, ev *worker.Exited) {
	j, t := r.taskOf(s)
	x := r.attempts[s.Launch.Attempt]
	if x == nil || !x.ignoresStop {
		t.running--
	}
	if x != nil {
		x.hasEnded, x.ran = true, ev.Run
	}
	if t.spec.Class == hungryClass {
		ev.CPU, ev.Memory = 5*ev.Run/2, 640
	}
	defer func() {
		if x := r.attempts[s.Launch.Attempt]; x != nil {
			x.ended = x.ended || ev.Status == probe.Failed || ev.Status == probe.TimedOut ||
				ev.Status == probe.Killed || ev.Status == probe.Preempted || ev.Status == probe.NoInput
		}
	}()
	noteFailure := func() {
		t.failedRuns++
		if x := r.attempts[s.Launch.Attempt]; x != nil {
			t.backoff = backoff{x.id.Frontend, x.session, r.now + t.spec.Backoff}
		}
	}
	gone, lacks := r.missingFile(s)
	switch {
	case ev.Status == probe.TimedOut:
		noteFailure()
	case ev.Status == probe.Succeeded && lacks:
		r.stats.Seen["outputs lost"]++
		t.missedOutputs++
		if ev.Status, ev.Error = probe.NoInput, "it cannot be had"; s.Launch.Attempt.Seq%2 == 0 {
			ev.Outputs = []probe.Output{gone}
		}
	case ev.Status == probe.Succeeded && t.failuresLeft > 0:
		t.failuresLeft--
		noteFailure()
		ev.Status, ev.Error = probe.Failed, "as planned"
	case ev.Status == probe.Succeeded:
		t.goodRuns++
		ev.Result = s.Launch.Payload[8:16]
		if c := s.Launch.Context; c != nil && len(j.spec.Stages) > 0 {
			for p := range int32(partitions) {
				ev.Outputs = append(ev.Outputs, j.outputOf(s.Launch.Task, p, int(c.Inline)))
			}
			r.storeOutputs(s, ev.Outputs)
		}
	}
}

// describeUnfinished returns an error on the first job without an end.
func (r *faultRun) describeUnfinished() error {
	for _, j := range r.jobs {
		if j.ended {
			continue
		}
		where := "nowhere"
		if f := j.owner; f != nil {
			where = fmt.Sprintf("at f%d (down %t, under way there: %t)", f.index, f.down,
				r.visits[f.index][j.id] != nil)
		}
		return fmt.Errorf("job %d does not end: %d of %d tasks left, %s, session %d", j.n, j.unfinished, len(j.tasks),
			where, j.session)
	}
	return nil
}

// checkDrained checks that the cores keep nothing of the jobs.
func (r *faultRun) checkDrained() error {
	var problems []string
	bad := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }
	for _, f := range r.frontends {
		if pending, running := f.frontendCore().Pending(); pending+running+f.frontendCore().Jobs() > 0 {
			bad("f%d has %d jobs, %d tasks pending, %d running", f.index, f.frontendCore().Jobs(), pending, running)
		}
		for key := range r.workers {
			if s, _ := f.frontendCore().Status(frontend.Worker(key)); s.Reservations+s.Attempts > 0 || s.State != "up" {
				bad("f%d: worker %d is %s with %d reservations and %d attempts", f.index, key, s.State,
					s.Reservations, s.Attempts)
			}
		}
		for _, field := range findLeftovers(f.core, keptByFrontend...) {
			bad("f%d keeps %s", f.index, field)
		}
		addStats(&r.stats.Frontends, &f.frontendCore().Stats)
	}
	for _, w := range r.workers {
		load := w.core.Load()
		if load.Free != w.cfg.Capacity || load.Queued+load.Running > 0 || !w.core.Idle() || len(w.running) > 0 {
			bad("w%d: %+v of %v, idle: %t", w.index, load, w.cfg.Capacity, w.core.Idle())
		}
		if len(w.links) != len(r.frontends) {
			bad("w%d has %d links", w.index, len(w.links))
		}
		if n := len(r.fetcherOf(w).unreleased); n > 0 {
			bad("w%d holds the files of %d attempts", w.index, n)
		}
		for _, field := range findLeftovers(w.core, keptByWorker...) {
			bad("w%d keeps %s", w.index, field)
		}
		addStats(&r.stats.Workers, &w.core.Stats)
	}
	if len(problems) > 0 {
		return errors.New("left behind: " + strings.Join(problems, "; "))
	}
	return nil
}
