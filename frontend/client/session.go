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
	runTasks    = 512
	runPayloads = 1 << 20 // bytes
	runEstimate = time.Second

	// maxRequest is the largest job, in bytes: a frontend closes the connection of a message over 64 MiB.
	maxRequest = 64<<20 - 64<<10
	// maxBreaks is how often in a row a job may lose its frontend without a new outcome. More of them are no
	// accident: the job itself may be what brings the frontends down.
	maxBreaks = 8
	// drainPause is how long a frontend that leaves is not asked again, in case it is all there is.
	drainPause = time.Second
	// partingTimeout bounds the cancelling of a job that nobody waits for any more.
	partingTimeout = time.Second
)

var (
	errShort   = errors.New("the frontend did not account for every task")
	errNothing = errors.New("the frontend answered with nothing")
	errAway    = errors.New("none answers")
)

func large(job *Job) bool {
	if len(job.Stages) > 0 || job.Mode == EstimateMode {
		return true // whose results are worth keeping while its frontend is lost
	}
	bytes := 0
	for i := range job.Tasks {
		t := &job.Tasks[i]
		bytes += len(t.Payload)
		if t.Estimate >= runEstimate || t.Once { // the frontend is to know what has arrived: the next cursor says so
			return true
		}
	}
	return len(job.Tasks) > runTasks || bytes > runPayloads
}

// session is one job on its way through the frontends. One goroutine owns it.
type session struct {
	c           *Client
	job         v1.Job           // as it goes out next
	partitions  map[string]int32 // how many tasks each stage has
	tasks       []v1.Task
	began       time.Time
	within      time.Duration // the job's deadline
	due         time.Duration // of a spare job; zero: none
	window      int64
	made        []*v1.Made              // what tasks have left
	unwanted    map[int32]bool          // tasks that were cancelled by themselves; guarded by the mutex of Running
	done        []bool                  // by task
	left        int                     // tasks without an outcome
	failed      bool                    // some task has no result
	cause       *TaskError              // of a job with stages: why the first one that was heard of has none
	ran         map[place]int           // of a job with stages: tasks with results
	at          *frontend               // who was asked last
	handle      v1.Handle               // of the last acceptance; before, the best guess
	sent        bool                    // some frontend may have the job
	owner       string                  // if sent: the latest that may have had it, by its name or address
	resubmitted int32                   // how often it went out again
	waits       map[*frontend]time.Time // not before; nil until one asks for it
	since       time.Time               // none could be connected to, or had a worker, since; zero: one could
	breaks      int                     // owners lost since the last outcome
	lastErr     error
}

// place is where tasks of a stage have run.
type place struct{ stage, worker string }

// newSession checks what the frontends cannot.
func (c *Client) newSession(ctx context.Context, job Job) (*session, error) {
	policy, err := job.Policy.wire()
	if err != nil {
		return nil, err
	}
	mode, err := job.Mode.wire()
	if err != nil {
		return nil, err
	}
	class, err := job.Class.wire()
	if err != nil {
		return nil, err
	}
	if job.ID == "" {
		job.ID = NewJobID()
	}
	n := len(job.Tasks)
	s := &session{
		c: c, began: time.Now(), within: job.Deadline, due: job.Due, window: job.Window,
		done: make([]bool, n), left: n, partitions: make(map[string]int32, len(job.Stages)),
		job: v1.Job{
			Id: job.ID, Tenant: job.Tenant, Priority: job.Priority, DeadlineUs: micros(job.Deadline),
			JobClass: class, Mode: mode, Policy: policy, ProbeRatio: job.ProbeRatio, Constraint: job.Constraint.wire(), Phases: job.Phases,
			Traceparent: traceparent(ctx), Tasks: make([]*v1.Task, n), Open: job.Open, LargeResults: job.LargeResults, Stages: wireStages(job.Stages),
		},
		handle: v1.Handle{Job: job.ID},
	}
	if job.Due != 0 {
		due := micros(job.Due)
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
		if err := tasks[i].fill(&list[i]); err != nil {
			return nil, err
		}
		if stage := tasks[i].Stage; stage != "" {
			list[i].Partition = partitions[stage]
			partitions[stage]++
		}
	}
	return list, nil
}

// run gets the outcomes by a call of Run, into outs by task. A job whose call was cut off is submitted, so that it outlives
// its next connections, too: what cuts those that are silent for long would do so again.
func (s *session) run(ctx context.Context, outs []Outcome) error {
	for !s.sent {
		if err := s.choose(ctx); err != nil {
			return err
		}
		var resp *v1.RunResponse
		f, req := s.at, v1.RunRequest{Caller: s.c.cfg.caller(), Job: &s.job}
		cl := &call{job: true}
		err := f.do(ctx, cl, 0, func(context.Context) (err error) {
			resp, err = f.pool.run(cl, &req)
			return err
		})
		s.reached(cl)
		if err == nil && resp == nil {
			err = &callError{addr: f.addr, err: errNothing, sent: true, answered: true}
		}
		if err == nil {
			for _, o := range resp.Outcomes {
				if s.accept(o) {
					outs[o.Task].fill(o)
				}
			}
			if s.left == 0 {
				return nil
			}
			err = &callError{addr: f.addr, err: errShort, sent: true}
		}
		if err := s.consider(ctx, err); err != nil {
			return err
		}
	}
	if err := s.submit(ctx); err != nil {
		return err
	}
	r := newRunning(s)
	r.ended = func(error) {}
	r.waits = true
	r.poll(ctx)
	for _, o := range r.outcomes {
		outs[o.Task] = o
	}
	return r.err
}

// submit gets the unfinished tasks accepted by some frontend.
func (s *session) submit(ctx context.Context) error {
	for {
		if err := s.choose(ctx); err != nil {
			return err
		}
		var resp *v1.SubmitResponse
		f, req := s.at, v1.SubmitRequest{Caller: s.c.cfg.caller(), Job: &s.job}
		cl := &call{job: true}
		err := f.do(ctx, cl, s.c.cfg.rpcTimeout, func(ctx context.Context) (err error) {
			resp, err = f.rpc.Submit(ctx, &req)
			return err
		})
		s.reached(cl)
		if err == nil && (resp == nil || resp.Handle == nil) {
			err = &callError{addr: f.addr, err: errNothing, sent: true, answered: true}
		}
		if err == nil {
			s.handle, s.sent = *resp.Handle, true
			return nil
		}
		if err := s.consider(ctx, err); err != nil {
			return err
		}
	}
}

// reached notes who may have been given the job.
func (s *session) reached(cl *call) {
	if cl.got != nil {
		s.handle.Owner = cl.got.name
	}
}

// accept notes a task's outcome and reports whether it is the first.
func (s *session) accept(o *v1.Outcome) bool {
	if o.Task < 0 || int(o.Task) >= len(s.done) || s.done[o.Task] {
		return false
	}
	s.done[o.Task] = true
	s.left--
	s.breaks = 0
	if o.Kind != v1.OutcomeKind_RESULT {
		s.failed = true
	}
	if len(s.job.Stages) > 0 {
		s.staged(o)
	}
	return true
}

// staged notes what another frontend would have to know of an outcome in a job with stages.
func (s *session) staged(o *v1.Outcome) {
	switch {
	case o.Kind == v1.OutcomeKind_RESULT:
		if s.ran == nil {
			s.ran = map[place]int{}
		}
		s.ran[place{s.tasks[o.Task].Stage, o.Worker}]++
		if len(o.Outputs) > 0 {
			t := &s.tasks[o.Task]
			made := &v1.Made{Stage: t.Stage, Task: o.Task, Partition: t.Partition, Worker: o.Worker, Outputs: o.Outputs}
			if slices.ContainsFunc(o.Outputs, func(o *v1.Output) bool { return o.Sha256 != nil }) {
				made.Spec = t // it may have to run again
			}
			s.made = append(s.made, made)
		}
	case s.cause == nil && !s.unwanted[o.Task]:
		s.cause = taskError(o)
	}
}

// choose picks the frontend to ask next, of the seeds, or of the members where all seeds are down. If there is none, it
// waits for the first.
func (s *session) choose(ctx context.Context) error {
	start := int(s.c.next.Add(1) & math.MaxInt32)
	for {
		if err := s.over(ctx); err != nil {
			return s.giveUp(err)
		}
		now := time.Now()
		if s.within > 0 && s.lastErr != nil && now.Sub(s.began) >= s.within {
			return s.giveUp(s.pastDeadline())
		}
		r := s.c.roster.Load()
		best, soonest := s.pick(r.seeds, start, now)
		if best == nil && !slices.ContainsFunc(r.seeds, func(f *frontend) bool { return !f.down() }) {
			var sooner time.Time
			if best, sooner = s.pick(r.members, start, now); soonest.IsZero() || !sooner.IsZero() && sooner.Before(soonest) {
				soonest = sooner
			}
		}
		if soonest.IsZero() { // names that have not been looked up yet, or stand for nothing
			soonest = now.Add(s.c.cfg.backoffMin)
			if best == nil && s.since.IsZero() {
				s.since = now
			}
		}
		if best != nil {
			s.prepare(best, now)
			return nil
		}
		wait := soonest.Sub(now)
		if !s.since.IsZero() {
			if now.Sub(s.since) >= s.c.cfg.retryFor {
				return s.giveUp(fmt.Errorf("none of %d frontends answered for %v: %w", len(r.all()), s.c.cfg.retryFor, cmp.Or(s.lastErr, errAway)))
			}
			wait = min(wait, s.since.Add(s.c.cfg.retryFor).Sub(now))
		}
		if !s.sent && s.within > 0 {
			left := s.began.Add(s.within).Sub(now)
			if left <= 0 {
				return s.giveUp(s.pastDeadline())
			}
			wait = min(wait, left)
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

// pick picks the frontend with the fewest calls under way, in turns, of those that neither failed just now nor asked to be left
// alone. If there is none, soonest is when the first may be asked; zero: never.
func (s *session) pick(fs []*frontend, start int, now time.Time) (best *frontend, soonest time.Time) {
	least := 0
	for i := range fs {
		f := fs[(start+i)%len(fs)]
		calls, from := f.state()
		if until := s.waits[f]; until.After(from) {
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

// pastDeadline says why no other frontend is asked any more.
func (s *session) pastDeadline() error {
	if s.sent {
		return fmt.Errorf("%w: not finished within %v, and the frontend that had the job was lost: %v", context.DeadlineExceeded, s.within, s.lastErr)
	}
	return fmt.Errorf("%w: no frontend took the job in %v: %v", context.DeadlineExceeded, s.within, cmp.Or(s.lastErr, errAway))
}

// prepare makes s.job what f should be sent.
func (s *session) prepare(f *frontend, now time.Time) {
	if s.sent {
		s.resubmitted++
		s.job.Resubmission = &v1.Resubmission{PreviousOwner: s.owner, Count: s.resubmitted, AgeUs: micros(now.Sub(s.began)), Made: s.made, Tasks: int32(len(s.tasks))}
		for at, n := range s.ran {
			s.job.Resubmission.Ran = append(s.job.Resubmission.Ran, &v1.StageRun{Stage: at.stage, Worker: at.worker, Tasks: int32(n)})
		}
		s.job.Tasks = s.job.Tasks[:0]
		for i := range s.tasks {
			if !s.done[i] {
				s.tasks[i].Index = int32(i)
				s.job.Tasks = append(s.job.Tasks, &s.tasks[i])
			}
		}
		s.c.cfg.log.Debug("job moves", "job", s.job.Id, "frontend", f.addr, "tasks", s.left, "err", s.lastErr)
	}
	if s.within > 0 && s.lastErr != nil {
		s.job.DeadlineUs = max(micros(s.within-now.Sub(s.began)), 1)
	}
	if s.due > 0 && s.lastErr != nil {
		due := max(micros(s.due-now.Sub(s.began)), 1)
		s.job.DueUs = &due
	}
	s.at = f
	s.handle.Owner = f.addr
}

// consider decides what follows from a call that failed: nil means to ask another frontend.
func (s *session) consider(ctx context.Context, err error) error {
	s.lastErr = err
	var refused *RefusedError
	var fail *callError
	switch {
	case errors.As(err, &refused):
		if refused.Reason != NoWorker {
			s.since = time.Time{}
		} else if s.since.IsZero() {
			s.since = time.Now()
		}
		switch {
		case refused.Reason == Overloaded && s.c.cfg.refusalsFinal && !s.sent:
			return s.giveUp(refused)
		case refused.Reason == Draining: // others are asked, if by the same address
		case refused.Reason == UnknownJob || refused.Reason == OwnerLost:
			return s.lost() // it was forwarded to a previous owner
		case refused.RetryAfter > 0:
			s.pause(refused.RetryAfter)
		case refused.Reason == Overloaded:
			s.pause(s.c.cfg.backoffMax)
		default:
			return s.giveUp(refused)
		}
	case errors.As(err, &fail):
		if stop := s.over(ctx); stop != nil {
			s.sent = s.sent || fail.sent
			return s.giveUp(stop)
		}
		if fail.answered {
			s.sent = true
			return s.giveUp(fail)
		}
		if fail.sent {
			return s.lost()
		}
		if errors.Is(fail.err, errLeaves) {
			s.since = time.Time{} // it was found
		} else if s.since.IsZero() {
			s.since = time.Now()
		}
	}
	return nil
}

// lost notes that a frontend which may have the job does not have it for us.
func (s *session) lost() error {
	s.disown()
	s.since = time.Time{}
	s.breaks++
	if s.breaks > maxBreaks {
		return s.giveUp(fmt.Errorf("%d frontends in a row were lost with it: %w", s.breaks, s.lastErr))
	}
	return nil
}

// disown notes that s.at may have the job, but not for us.
func (s *session) disown() {
	s.sent, s.owner = true, s.handle.Owner
}

// pause keeps the job from asking s.at again before d has passed.
func (s *session) pause(d time.Duration) {
	if s.waits == nil {
		s.waits = map[*frontend]time.Time{}
	}
	s.waits[s.at] = time.Now().Add(d)
}

// over is why nobody waits for the job any more, or nil.
func (s *session) over(ctx context.Context) error {
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
	if !s.sent {
		var refused *RefusedError
		if errors.As(err, &refused) {
			return refused
		}
	} else {
		f, h := s.at, s.handle
		s.c.background.Go(func() { s.c.part(f, &h, nil, "the client gave up") })
	}
	tasks := make([]int, 0, s.left)
	for i, done := range s.done {
		if !done {
			tasks = append(tasks, i)
		}
	}
	return &UnfinishedError{Job: s.job.Id, Tasks: tasks, Err: err}
}

// part cancels a job that nobody waits for, or tasks of it, if that is quickly done. If not, its frontend cancels the job when
// it has not been asked about it for a while.
func (c *Client) part(f *frontend, h *v1.Handle, tasks []int32, why string) {
	ctx, cancel := context.WithTimeout(context.Background(), partingTimeout)
	defer cancel()
	_, err := c.cancelAt(ctx, f, h, tasks, why, true)
	if err != nil {
		c.cfg.log.Debug("job left behind", "job", h.Job, "frontend", f.addr, "err", err)
	}
}

// asking is a call about a job.
func (c *Client) asking(h *v1.Handle, parting bool) *call {
	cl := &call{parting: parting}
	if h.Owner != "" {
		cl.of = c.processes.named(h.Owner)
	}
	return cl
}

// cancelAt cancels tasks of a job, or all if none are named.
func (c *Client) cancelAt(ctx context.Context, f *frontend, h *v1.Handle, tasks []int32, why string, parting bool) (int, error) {
	var resp *v1.CancelResponse
	err := f.do(ctx, c.asking(h, parting), c.cfg.rpcTimeout, func(ctx context.Context) (err error) {
		if len(tasks) > 0 {
			resp, err = f.rpc.CancelTasks(ctx, &v1.CancelTasksRequest{Caller: c.cfg.caller(), Handle: h, Tasks: tasks, Reason: why})
		} else {
			resp, err = f.rpc.Cancel(ctx, &v1.CancelRequest{Caller: c.cfg.caller(), Handle: h, Reason: why})
		}
		return err
	})
	if err != nil {
		return 0, err
	}
	if resp == nil {
		return 0, &callError{addr: f.addr, err: errNothing}
	}
	return int(resp.Cancelled), nil
}
