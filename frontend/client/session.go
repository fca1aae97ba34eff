package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	v1 "github.com/phoebe-sched/phoebe/idl/gen/phoebe/v1"
)

const (
	// A job within these limits is one Run call.
	maxRunTasks    = 512
	maxRunPayloads = 1 << 20 // bytes
	maxRunEstimate = time.Second

	// maxRequest is the largest job, in bytes: a frontend closes the connection of a message over 64 MiB.
	maxRequest = 64<<20 - 64<<10
	// maxLostOwners is how often in a row a job may lose its frontend without a new outcome. More of them are no
	// accident: the job itself may be what brings the frontends down.
	maxLostOwners = 8
	// drainPause is how long a frontend that leaves is not asked again, in case it is all there is.
	drainPause = time.Second
	// partingTimeout bounds the cancelling of a job that nobody waits for any more.
	partingTimeout = time.Second
)

var (
	errMissingTasks = errors.New("the frontend did not account for every task")
	errEmptyAnswer  = errors.New("the frontend answered with nothing")
	errNoneAnswers  = errors.New("none answers")
)

func isLarge(job *Job) bool {
	if len(job.Stages) > 0 || job.Mode == EstimateMode {
		return true // whose results are worth keeping while its frontend is lost
	}
	bytes := 0
	for i := range job.Tasks {
		t := &job.Tasks[i]
		bytes += len(t.Payload)
		if t.Estimate >= maxRunEstimate || t.Once { // the frontend is to know what has arrived: the next cursor says so
			return true
		}
	}
	return len(job.Tasks) > maxRunTasks || bytes > maxRunPayloads
}

// session is one job on its way through the frontends. One goroutine owns it.
type session struct {
	c                *Client
	job              v1.Job           // as it goes out next
	partitions       map[string]int32 // how many tasks each stage has
	tasks            []v1.Task
	began            time.Time
	deadline         time.Duration // the job's deadline
	due              time.Duration // of a spare job; zero: none
	window           int64
	madeOutputs      []*v1.Made              // what tasks have left
	unwanted         map[int32]bool          // tasks that were cancelled by themselves; guarded by the mutex of Running
	done             []bool                  // by task
	unfinished       int                     // tasks without an outcome
	failed           bool                    // some task has no result
	firstFailure     *TaskError              // of a job with stages: why the first one that was heard of has none
	ranAt            map[stageWorker]int     // of a job with stages: tasks with results
	frontend         *frontend               // who was asked last
	handle           v1.Handle               // of the last acceptance; before, the best guess
	mayBeOwned       bool                    // some frontend may have the job
	lastOwner        string                  // if sent: the latest that may have had it, by its name or address
	resubmissions    int32                   // how often it went out again
	pausedUntil      map[*frontend]time.Time // not before; nil until one asks for it
	unreachableSince time.Time               // none could be connected to, or had a worker, since; zero: one could
	lostOwners       int                     // owners lost since the last outcome
	lastErr          error
}

// stageWorker is where tasks of a stage have run.
type stageWorker struct{ stage, worker string }

// newSession checks what the frontends cannot.
func (c *Client) newSession(ctx context.Context, job Job) (*session, error) {
	policy, err := job.Policy.toWire()
	if err != nil {
		return nil, err
	}
	mode, err := job.Mode.toWire()
	if err != nil {
		return nil, err
	}
	class, err := job.Class.toWire()
	if err != nil {
		return nil, err
	}
	if job.ID == "" {
		job.ID = NewJobID()
	}
	n := len(job.Tasks)
	s := &session{
		c: c, began: time.Now(), deadline: job.Deadline, due: job.Due, window: job.Window,
		done: make([]bool, n), unfinished: n, partitions: make(map[string]int32, len(job.Stages)),
		job: v1.Job{
			Id: job.ID, Tenant: job.Tenant, Priority: job.Priority, DeadlineUs: toMicros(job.Deadline),
			JobClass: class, Mode: mode, Policy: policy, ProbeRatio: job.ProbeRatio, Constraint: job.Constraint.toWire(), Phases: job.Phases,
			Traceparent: traceparentOf(ctx), Tasks: make([]*v1.Task, n), Open: job.Open, LargeResults: job.LargeResults, Stages: wireStages(job.Stages),
		},
		handle: v1.Handle{Job: job.ID},
	}
	if job.Due != 0 {
		due := toMicros(job.Due)
		s.job.DueUs = &due
	}
	if s.tasks, err = wireTasks(job.Tasks, s.partitions); err != nil {
		return nil, err
	}
	size, needy := 0, len(job.Stages) > 0
	for i := range job.Tasks {
		s.job.Tasks[i] = &s.tasks[i]
		size += len(job.Tasks[i].Payload) + len(job.Tasks[i].Function)
		needy = needy || len(job.Tasks[i].Inputs)+len(job.Tasks[i].Files) > 0
	}
	if needy || size > maxRequest/2 {
		size = s.job.BLength() // as it is encoded
	}
	if size > maxRequest {
		return nil, &RefusedError{Reason: TooLarge, Message: fmt.Sprintf(
			"the job takes %d bytes; at most %d go into one: split it", size, maxRequest)}
	}
	return s, nil
}

func wireStages(stages []Stage) []*v1.Stage {
	var list []*v1.Stage
	for _, s := range stages {
		list = append(list, &v1.Stage{Name: s.Name, After: s.After, Along: s.Along, Common: s.Common})
	}
	return list
}

// wireTasks numbers those of each stage, behind as many as it has.
func wireTasks(tasks []Task, partitions map[string]int32) ([]v1.Task, error) {
	list := make([]v1.Task, len(tasks))
	for i := range tasks {
		if err := tasks[i].fillWire(&list[i]); err != nil {
			return nil, err
		}
		if stage := tasks[i].Stage; stage != "" {
			list[i].Partition = partitions[stage]
			partitions[stage]++
		}
	}
	return list, nil
}

// runJob gets the outcomes by a call of Run, into outs by task. A job whose call was cut off is submitted, so that it outlives
// its next connections, too: what cuts those that are silent for long would do so again.
func (s *session) runJob(ctx context.Context, outs []Outcome) error {
	for !s.mayBeOwned {
		if err := s.chooseFrontend(ctx); err != nil {
			return err
		}
		var resp *v1.RunResponse
		f, req := s.frontend, v1.RunRequest{Caller: s.c.cfg.wireCaller(), Job: &s.job}
		cl := &call{newJob: true}
		err := f.makeCall(ctx, cl, 0, func(context.Context) (err error) {
			resp, err = f.pool.sendRun(cl, &req)
			return err
		})
		s.noteReached(cl)
		if err == nil && resp == nil {
			err = &callError{addr: f.addr, err: errEmptyAnswer, sent: true, answered: true}
		}
		if err == nil {
			for _, o := range resp.Outcomes {
				if s.acceptOutcome(o) {
					outs[o.Task].fillFrom(o)
				}
			}
			if s.unfinished == 0 {
				return nil
			}
			err = &callError{addr: f.addr, err: errMissingTasks, sent: true}
		}
		if err := s.handleFailure(ctx, err); err != nil {
			return err
		}
	}
	if err := s.submitJob(ctx); err != nil {
		return err
	}
	r := newRunning(s)
	r.onEnd = func(error) {}
	r.wantsAll = true
	r.poll(ctx)
	for _, o := range r.outcomes {
		outs[o.Task] = o
	}
	return r.err
}

// submitJob gets the unfinished tasks accepted by some frontend.
func (s *session) submitJob(ctx context.Context) error {
	for {
		if err := s.chooseFrontend(ctx); err != nil {
			return err
		}
		var resp *v1.SubmitResponse
		f, req := s.frontend, v1.SubmitRequest{Caller: s.c.cfg.wireCaller(), Job: &s.job}
		cl := &call{newJob: true}
		err := f.makeCall(ctx, cl, s.c.cfg.rpcTimeout, func(ctx context.Context) (err error) {
			resp, err = f.rpc.Submit(ctx, &req)
			return err
		})
		s.noteReached(cl)
		if err == nil && (resp == nil || resp.Handle == nil) {
			err = &callError{addr: f.addr, err: errEmptyAnswer, sent: true, answered: true}
		}
		if err == nil {
			s.handle, s.mayBeOwned = *resp.Handle, true
			return nil
		}
		if err := s.handleFailure(ctx, err); err != nil {
			return err
		}
	}
}

// noteReached notes who may have been given the job.
func (s *session) noteReached(cl *call) {
	if cl.reached != nil {
		s.handle.Owner = cl.reached.name
	}
}

// acceptOutcome notes a task's outcome and reports whether it is the first.
func (s *session) acceptOutcome(o *v1.Outcome) bool {
	if o.Task < 0 || int(o.Task) >= len(s.done) || s.done[o.Task] {
		return false
	}
	s.done[o.Task] = true
	s.unfinished--
	s.lostOwners = 0
	if o.Kind != v1.OutcomeKind_RESULT {
		s.failed = true
	}
	if len(s.job.Stages) > 0 {
		s.noteStageOutcome(o)
	}
	return true
}

// noteStageOutcome notes what another frontend would have to know of an outcome in a job with stages.
func (s *session) noteStageOutcome(o *v1.Outcome) {
	switch {
	case o.Kind == v1.OutcomeKind_RESULT:
		if s.ranAt == nil {
			s.ranAt = map[stageWorker]int{}
		}
		s.ranAt[stageWorker{s.tasks[o.Task].Stage, o.Worker}]++
		if len(o.Outputs) > 0 {
			t := &s.tasks[o.Task]
			made := &v1.Made{Stage: t.Stage, Task: o.Task, Partition: t.Partition, Worker: o.Worker, Outputs: o.Outputs}
			if slices.ContainsFunc(o.Outputs, func(o *v1.Output) bool { return o.Sha256 != nil }) {
				made.Spec = t // it may have to run again
			}
			s.madeOutputs = append(s.madeOutputs, made)
		}
	case s.firstFailure == nil && !s.unwanted[o.Task]:
		s.firstFailure = taskError(o)
	}
}

// chooseFrontend picks the frontend to ask next, of the seeds, or of the members where all seeds are down. If there is none, it
// waits for the first.
func (s *session) chooseFrontend(ctx context.Context) error {
	start := int(s.c.nextStart.Add(1) & math.MaxInt32)
	for {
		if err := s.whyUnwanted(ctx); err != nil {
			return s.giveUp(err)
		}
		now := time.Now()
		if s.deadline > 0 && s.lastErr != nil && now.Sub(s.began) >= s.deadline {
			return s.giveUp(s.deadlineError())
		}
		r := s.c.roster.Load()
		best, soonest := s.pickLeastBusy(r.seeds, start, now)
		if best == nil && !slices.ContainsFunc(r.seeds, func(f *frontend) bool { return !f.isDown() }) {
			var sooner time.Time
			if best, sooner = s.pickLeastBusy(r.members, start, now); soonest.IsZero() || !sooner.IsZero() && sooner.Before(soonest) {
				soonest = sooner
			}
		}
		if soonest.IsZero() { // names that have not been looked up yet, or stand for nothing
			soonest = now.Add(s.c.cfg.backoffMin)
			if best == nil && s.unreachableSince.IsZero() {
				s.unreachableSince = now
			}
		}
		if best != nil {
			s.prepareJob(best, now)
			return nil
		}
		wait := soonest.Sub(now)
		if !s.unreachableSince.IsZero() {
			if now.Sub(s.unreachableSince) >= s.c.cfg.retryFor {
				return s.giveUp(fmt.Errorf("none of %d frontends answered for %v: %w", len(r.allFrontends()), s.c.cfg.retryFor, cmp.Or(s.lastErr, errNoneAnswers)))
			}
			wait = min(wait, s.unreachableSince.Add(s.c.cfg.retryFor).Sub(now))
		}
		if !s.mayBeOwned && s.deadline > 0 {
			timeLeft := s.began.Add(s.deadline).Sub(now)
			if timeLeft <= 0 {
				return s.giveUp(s.deadlineError())
			}
			wait = min(wait, timeLeft)
		}
		timer := time.NewTimer(wait + rand.N(wait/8+1))
		select {
		case <-timer.C:
		case <-ctx.Done():
		case <-s.c.closing:
		}
		timer.Stop()
	}
}

// pickLeastBusy picks the frontend with the fewest calls under way, in turns, of those that neither failed just now nor asked to be left
// alone. If there is none, soonest is when the first may be asked; zero: never.
func (s *session) pickLeastBusy(fs []*frontend, start int, now time.Time) (best *frontend, soonest time.Time) {
	least := 0
	for i := range fs {
		f := fs[(start+i)%len(fs)]
		calls, from := f.loadAndPause()
		if until := s.pausedUntil[f]; until.After(from) {
			from = until
		}
		switch {
		case from.After(now):
			if soonest.IsZero() || from.Before(soonest) {
				soonest = from
			}
		case best == nil || calls < least:
			best, least = f, calls
		}
	}
	return best, soonest
}

// deadlineError says why no other frontend is asked any more.
func (s *session) deadlineError() error {
	if s.mayBeOwned {
		return fmt.Errorf("%w: not finished within %v, and the frontend that had the job was lost: %v", context.DeadlineExceeded, s.deadline, s.lastErr)
	}
	return fmt.Errorf("%w: no frontend took the job in %v: %v", context.DeadlineExceeded, s.deadline, cmp.Or(s.lastErr, errNoneAnswers))
}

// prepareJob makes s.job what f should be sent.
func (s *session) prepareJob(f *frontend, now time.Time) {
	if s.mayBeOwned {
		s.resubmissions++
		s.job.Resubmission = &v1.Resubmission{PreviousOwner: s.lastOwner, Count: s.resubmissions, AgeUs: toMicros(now.Sub(s.began)), Made: s.madeOutputs, Tasks: int32(len(s.tasks))}
		for where, n := range s.ranAt {
			s.job.Resubmission.Ran = append(s.job.Resubmission.Ran, &v1.StageRun{Stage: where.stage, Worker: where.worker, Tasks: int32(n)})
		}
		s.job.Tasks = s.job.Tasks[:0]
		for i := range s.tasks {
			if !s.done[i] {
				s.tasks[i].Index = int32(i)
				s.job.Tasks = append(s.job.Tasks, &s.tasks[i])
			}
		}
		s.c.cfg.log.Debug("job moves", "job", s.job.Id, "frontend", f.addr, "tasks", s.unfinished, "err", s.lastErr)
	}
	if s.deadline > 0 && s.lastErr != nil {
		s.job.DeadlineUs = max(toMicros(s.deadline-now.Sub(s.began)), 1)
	}
	if s.due > 0 && s.lastErr != nil {
		due := max(toMicros(s.due-now.Sub(s.began)), 1)
		s.job.DueUs = &due
	}
	s.frontend = f
	s.handle.Owner = f.addr
}

// handleFailure decides what follows from a call that failed: nil means to ask another frontend.
func (s *session) handleFailure(ctx context.Context, err error) error {
	s.lastErr = err
	var refused *RefusedError
	var fail *callError
	switch {
	case errors.As(err, &refused):
		if refused.Reason != NoWorker {
			s.unreachableSince = time.Time{}
		} else if s.unreachableSince.IsZero() {
			s.unreachableSince = time.Now()
		}
		switch {
		case refused.Reason == Overloaded && s.c.cfg.refusalsFinal && !s.mayBeOwned:
			return s.giveUp(refused)
		case refused.Reason == Draining: // others are asked, if by the same address
		case refused.Reason == UnknownJob || refused.Reason == OwnerLost:
			return s.noteOwnerLost() // it was forwarded to a previous owner
		case refused.RetryAfter > 0:
			s.pauseFrontend(refused.RetryAfter)
		case refused.Reason == Overloaded:
			s.pauseFrontend(s.c.cfg.backoffMax)
		default:
			return s.giveUp(refused)
		}
	case errors.As(err, &fail):
		if stop := s.whyUnwanted(ctx); stop != nil {
			s.mayBeOwned = s.mayBeOwned || fail.sent
			return s.giveUp(stop)
		}
		if fail.answered {
			s.mayBeOwned = true
			return s.giveUp(fail)
		}
		if fail.sent {
			return s.noteOwnerLost()
		}
		if errors.Is(fail.err, errLeaves) {
			s.unreachableSince = time.Time{} // it was found
		} else if s.unreachableSince.IsZero() {
			s.unreachableSince = time.Now()
		}
	}
	return nil
}

// noteOwnerLost notes that a frontend which may have the job does not have it for us.
func (s *session) noteOwnerLost() error {
	s.noteMayOwn()
	s.unreachableSince = time.Time{}
	s.lostOwners++
	if s.lostOwners > maxLostOwners {
		return s.giveUp(fmt.Errorf("%d frontends in a row were lost with it: %w", s.lostOwners, s.lastErr))
	}
	return nil
}

// noteMayOwn notes that s.at may have the job, but not for us.
func (s *session) noteMayOwn() {
	s.mayBeOwned, s.lastOwner = true, s.handle.Owner
}

// pauseFrontend keeps the job from asking s.at again before d has passed.
func (s *session) pauseFrontend(d time.Duration) {
	if s.pausedUntil == nil {
		s.pausedUntil = map[*frontend]time.Time{}
	}
	s.pausedUntil[s.frontend] = time.Now().Add(d)
}

// whyUnwanted is why nobody waits for the job any more, or nil.
func (s *session) whyUnwanted(ctx context.Context) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	select {
	case <-s.c.closing:
		return ErrClosed
	default:
		return nil
	}
}

// giveUp returns the job's last error, and has the job cancelled if some frontend may have it.
func (s *session) giveUp(err error) error {
	if !s.mayBeOwned {
		var refused *RefusedError
		if errors.As(err, &refused) {
			return refused
		}
	} else {
		f, h := s.frontend, s.handle
		s.c.background.Go(func() { s.c.cancelQuickly(f, &h, nil, "the client gave up") })
	}
	tasks := make([]int, 0, s.unfinished)
	for i, done := range s.done {
		if !done {
			tasks = append(tasks, i)
		}
	}
	return &UnfinishedError{Job: s.job.Id, Tasks: tasks, Err: err}
}

// cancelQuickly cancels a job that nobody waits for, or tasks of it, if that is quickly done. If not, its frontend cancels the job when
// it has not been asked about it for a while.
func (c *Client) cancelQuickly(f *frontend, h *v1.Handle, tasks []int32, why string) {
	ctx, cancel := context.WithTimeout(context.Background(), partingTimeout)
	defer cancel()
	_, err := c.cancelAt(ctx, f, h, tasks, why, true)
	if err != nil {
		c.cfg.log.Debug("job left behind", "job", h.Job, "frontend", f.addr, "err", err)
	}
}

// callAbout is a call about a job.
func (c *Client) callAbout(h *v1.Handle, parting bool) *call {
	cl := &call{parting: parting}
	if h.Owner != "" {
		cl.owner = c.processes.findOrAdd(h.Owner)
	}
	return cl
}

// cancelAt cancels tasks of a job, or all if none are named.
func (c *Client) cancelAt(ctx context.Context, f *frontend, h *v1.Handle, tasks []int32, why string, parting bool) (int, error) {
	var resp *v1.CancelResponse
	err := f.makeCall(ctx, c.callAbout(h, parting), c.cfg.rpcTimeout, func(ctx context.Context) (err error) {
		if len(tasks) > 0 {
			resp, err = f.rpc.CancelTasks(ctx, &v1.CancelTasksRequest{Caller: c.cfg.wireCaller(), Handle: h, Tasks: tasks, Reason: why})
		} else {
			resp, err = f.rpc.Cancel(ctx, &v1.CancelRequest{Caller: c.cfg.wireCaller(), Handle: h, Reason: why})
		}
		return err
	})
	if err != nil {
		return 0, err
	}
	if resp == nil {
		return 0, &callError{addr: f.addr, err: errEmptyAnswer}
	}
	return int(resp.Cancelled), nil
}
