package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"sync"
	"time"

	v1 "github.com/phoebe-sched/phoebe/idl/gen/phoebe/v1"
)

// Handle names a job and the frontend that owns it.
type Handle struct{ Job, Owner string }

// Running is a job that was submitted. The client follows it whether or not its results are read, and keeps
// those that have not been: each outcome is handed out once, by Results or by Wait. Safe for concurrent use.
type Running struct {
	s     *session    // of the goroutine in poll, once it runs
	onEnd func(error) // called when no more outcomes will come

	mu        sync.Mutex
	news      sync.Cond
	outcomes  []Outcome // not handed out yet, in the order in which they came
	jobEnded  bool      // no more will come
	err       error     // if over: nil, or why some never will
	frontend  *frontend
	handle    v1.Handle
	cancelled bool
	satisfied bool
	unread    int64       // bytes of results in outcomes
	wantsAll  bool        // for all of them
	additions []*addition // that are not in yet; of all but the last one it is known that they are taken

	addLock    chan struct{}    // who puts something in may add to the job
	taskCount  int              // so many tasks, with what was added; guarded by both
	partitions map[string]int32 // how many of them each stage has; guarded by adding
}

func newRunning(s *session) *Running {
	r := &Running{s: s, taskCount: len(s.tasks), addLock: make(chan struct{}, 1), partitions: s.partitions}
	r.news.L = &r.mu
	return r
}

// Handle names the job, and who owns it at present.
func (r *Running) Handle() Handle {
	r.mu.Lock()
	defer r.mu.Unlock()
	return Handle{r.handle.Job, r.handle.Owner}
}

// Results yields the outcomes as the tasks finish. The error beside an outcome is its Err. If the client
// gives up, the last pair is an Outcome with Task -1 and an *UnfinishedError. A loop that ends early leaves
// the job running: Cancel it, or come back for the rest.
func (r *Running) Results() iter.Seq2[Outcome, error] {
	return func(yield func(Outcome, error) bool) {
		for {
			o, ok, err := r.nextOutcome(context.Background())
			if !ok {
				if err != nil {
					yield(Outcome{Task: -1, Err: err}, err)
				}
				return
			}
			if !yield(o, o.Err) {
				return
			}
		}
	}
}

// nextOutcome waits for an outcome. If ok is false there are no more.
func (r *Running) nextOutcome(ctx context.Context) (o Outcome, ok bool, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for len(r.outcomes) == 0 && !r.jobEnded {
		if ctx.Err() != nil {
			return Outcome{}, false, context.Cause(ctx)
		}
		r.news.Wait()
	}
	if len(r.outcomes) == 0 {
		return Outcome{}, false, r.err
	}
	o = r.outcomes[0]
	r.outcomes[0] = Outcome{}
	r.outcomes = r.outcomes[1:]
	r.unread -= int64(len(o.Result))
	r.news.Broadcast() // to poll, which may wait for room
	return o, true, nil
}

// Next returns the next outcome, as Results does; its error is that of the outcome. After the last one it is io.EOF, or what
// concerns the whole job. If ctx ends, that is the error, and the job goes on.
func (r *Running) Next(ctx context.Context) (Outcome, error) {
	defer context.AfterFunc(ctx, r.wakeAll)()
	o, ok, err := r.nextOutcome(ctx)
	switch {
	case ok:
		return o, o.Err
	case err == nil:
		err = io.EOF
	}
	return Outcome{Task: -1, Err: err}, err
}

// wakeAll has all that wait look again.
func (r *Running) wakeAll() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.news.Broadcast()
}

// Wait waits for the job to end, which one that is Open does after Seal. It returns the outcomes that Results has not handed out, in the order of
// Job.Tasks, and an error as Run does.
func (r *Running) Wait() ([]Outcome, error) {
	r.mu.Lock()
	r.wantsAll = true
	r.news.Broadcast()
	for !r.jobEnded {
		r.news.Wait()
	}
	outs, err := r.outcomes, r.err
	r.outcomes = nil
	r.mu.Unlock()
	var unfinished *UnfinishedError
	if errors.As(err, &unfinished) {
		for _, i := range unfinished.Tasks {
			outs = append(outs, Outcome{Task: i, Err: err})
		}
	}
	slices.SortFunc(outs, func(a, b Outcome) int { return a.Task - b.Task })
	for i := range outs {
		if err == nil {
			err = outs[i].Err
		}
	}
	return outs, err
}

// Cancel ends the tasks that have no outcome yet; they get one, a *TaskError with Reason Cancelled. The
// error says that no frontend could be told, in which case the job goes on.
func (r *Running) Cancel(ctx context.Context) error {
	c := r.s.c
	if err := c.holdOpen(); err != nil {
		return err
	}
	defer c.background.Done()
	r.mu.Lock()
	f, handle, over := r.frontend, r.handle, r.jobEnded
	r.cancelled = true // from now on it does not move to another frontend
	r.mu.Unlock()
	if over {
		return nil
	}
	_, err := c.cancelSomewhere(ctx, f, handle, nil, "cancelled by its client")
	var refused *RefusedError
	if errors.As(err, &refused) && (refused.Reason == UnknownJob || refused.Reason == OwnerLost) {
		return nil // it has ended, or it is between two frontends
	}
	if err != nil {
		r.mu.Lock()
		r.cancelled = false
		r.mu.Unlock()
	}
	return err
}

// CancelTasks ends those of the tasks that have no outcome yet; they get one, a *TaskError with Reason Cancelled. The job
// goes on without them: stages that come after theirs start with what the others leave.
func (r *Running) CancelTasks(ctx context.Context, tasks ...int) error {
	c := r.s.c
	if err := c.holdOpen(); err != nil {
		return err
	}
	defer c.background.Done()
	r.mu.Lock()
	var unfinished []int32
	for _, i := range tasks {
		if i >= 0 && i < r.taskCount && (i >= len(r.s.done) || !r.s.done[i]) {
			unfinished = append(unfinished, int32(i))
			if r.s.unwanted == nil {
				r.s.unwanted = map[int32]bool{}
			}
			r.s.unwanted[int32(i)] = true // another frontend does not get it
		}
	}
	f, handle, over := r.frontend, r.handle, r.jobEnded
	r.mu.Unlock()
	if over || len(unfinished) == 0 {
		return nil
	}
	_, err := c.cancelSomewhere(ctx, f, handle, unfinished, "not wanted any more")
	var refused *RefusedError
	if errors.As(err, &refused) && (refused.Reason == UnknownJob || refused.Reason == OwnerLost) {
		return nil // it has ended, or it is between two frontends
	}
	return err
}

// Satisfied ends a job of which enough is known, such as the first rows of a query with a limit: what has no outcome yet is
// stopped, gets none, and is no error of Results, Next and Wait.
func (r *Running) Satisfied(ctx context.Context) error {
	r.mu.Lock()
	r.satisfied = true
	r.mu.Unlock()
	return r.Cancel(ctx)
}

// Cancel cancels a job of any client, and returns the number of its tasks that had no outcome yet. Where
// the owner is not known, h.Owner may be empty: every frontend is asked.
func (c *Client) Cancel(ctx context.Context, h Handle, why string) (int, error) {
	if err := c.holdOpen(); err != nil {
		return 0, err
	}
	defer c.background.Done()
	return c.cancelSomewhere(ctx, nil, v1.Handle{Job: h.Job, Owner: h.Owner}, nil, why)
}

// cancelSomewhere asks first, if there is one, then the others until one knows the job: a frontend forwards
// to the owner where the handle names it.
func (c *Client) cancelSomewhere(ctx context.Context, first *frontend, h v1.Handle, tasks []int32, why string) (int, error) {
	order := c.roster.Load().allFrontends()
	if first != nil {
		order = append([]*frontend{first}, slices.DeleteFunc(order, func(f *frontend) bool { return f == first })...)
	}
	var refused *RefusedError
	var errs []error
	for _, f := range order {
		n, err := c.cancelAt(ctx, f, &h, tasks, why, false)
		if err == nil {
			return n, nil
		}
		if errors.As(err, &refused) && refused.Reason != UnknownJob && refused.Reason != OwnerLost {
			break
		}
		errs = append(errs, err)
		if ctx.Err() != nil {
			break
		}
	}
	if refused != nil {
		return 0, refused
	}
	return 0, errors.Join(errs...)
}

// publishOwner tells Cancel and Handle who owns the job now.
func (r *Running) publishOwner() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.frontend, r.handle = r.s.frontend, r.s.handle
}

func (r *Running) endJob(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if unfinished, is := errors.AsType[*UnfinishedError](err); is {
		for i := len(r.s.done); i < r.taskCount; i++ { // what was added just now
			unfinished.Tasks = append(unfinished.Tasks, i)
		}
	}
	r.jobEnded, r.err = true, err
	r.onEnd(err)
	r.news.Broadcast()
}

// poll follows the job from frontend to frontend until it has ended.
func (r *Running) poll(ctx context.Context) {
	s := r.s
	var cursor int64
	retried := false // the connection broke, and the same frontend is asked once more
	for s.unfinished > 0 || s.job.Open {
		idle := r.waitForWindow(ctx)
		resp, err := s.pollEvents(ctx, cursor, idle)
		r.joinAdditions(false)
		if err == nil && idle {
			continue
		}
		if err == nil {
			retried = false
			cursor = resp.Cursor
			r.deliverOutcomes(resp.Events)
			if s.job.Open = s.job.Open && !resp.Done; !resp.Done || s.unfinished == 0 {
				continue
			}
			err = &callError{addr: s.frontend.addr, err: errMissingTasks, sent: true}
		}
		var fail *callError
		if errors.As(err, &fail) && fail.brokeAlone && !retried && s.whyUnwanted(ctx) == nil {
			retried = true
			continue
		}
		retried = false
		var refused *RefusedError
		if errors.As(err, &refused) && refused.Reason == Overloaded {
			// Only this call is refused; the owner is still the owner.
			s.lastErr = err
			if !s.sleepWhileWanted(ctx, max(refused.RetryAfter, s.c.cfg.backoffMin)) {
				r.endJob(s.giveUp(s.whyUnwanted(ctx)))
				return
			}
			continue
		}
		if errors.As(err, &fail) {
			fail.sent = true // the Submit was, whatever became of this call
		}
		s.noteMayOwn()
		if err := s.handleFailure(ctx, err); err != nil {
			r.endJob(err)
			return
		}
		if r.cancelRest() || r.failRest() || r.dropUnwanted() {
			break
		}
		if r.joinAdditions(true); s.unfinished == 0 && !s.job.Open {
			break
		}
		if err := s.submitJob(ctx); err != nil {
			r.endJob(err)
			return
		}
		cursor = 0
		if r.publishOwner(); r.tellNewOwner() {
			break
		}
	}
	if cursor > 0 && slices.ContainsFunc(s.tasks, func(t v1.Task) bool { return !t.Retryable }) {
		s.c.background.Go(func() { s.c.confirmOutcomes(s.frontend, &s.handle, cursor) })
	}
	r.endJob(nil)
}

// confirmOutcomes tells the owner of a job that has ended that all outcomes have arrived: where tasks may start only once, their
// workers keep the results until then.
func (c *Client) confirmOutcomes(f *frontend, h *v1.Handle, cursor int64) {
	confirmOnce := func() error {
		return f.makeCall(context.Background(), c.callAbout(h, true), partingTimeout, func(ctx context.Context) error {
			_, err := f.rpc.Events(ctx, &v1.EventsRequest{Caller: c.cfg.wireCaller(), Handle: h, Cursor: cursor})
			return err
		})
	}
	err := confirmOnce()
	if errors.Is(err, ErrClosed) { // it broke the connection
		err = confirmOnce()
	}
	if err != nil {
		c.cfg.log.Debug("outcomes not confirmed", "job", h.Job, "frontend", f.addr, "err", err)
	}
}

// waitForWindow waits until less is unread than the job's window has. It reports whether that took so long that the owner is to be
// told only that there is still a client.
func (r *Running) waitForWindow(ctx context.Context) (timedOut bool) {
	if r.s.window <= 0 {
		return false
	}
	until := time.Now().Add(r.s.c.cfg.pollFor / 2)
	defer time.AfterFunc(r.s.c.cfg.pollFor/2, r.wakeAll).Stop()
	defer context.AfterFunc(ctx, r.wakeAll)()
	done := make(chan struct{})
	defer close(done)
	go func() {
		select {
		case <-r.s.c.closing:
			r.wakeAll()
		case <-done:
		}
	}()
	r.mu.Lock()
	defer r.mu.Unlock()
	for r.unread >= r.s.window && !r.wantsAll && !r.cancelled && r.s.whyUnwanted(ctx) == nil {
		if !time.Now().Before(until) {
			return true
		}
		r.news.Wait()
	}
	return false
}

// pollEvents asks the owner what happened after cursor; if idle, only so that it knows that there is a client.
func (s *session) pollEvents(ctx context.Context, cursor int64, idle bool) (*v1.EventsResponse, error) {
	f := s.frontend
	req := v1.EventsRequest{Caller: s.c.cfg.wireCaller(), Handle: &s.handle, Cursor: cursor, MaxWaitUs: toMicros(s.c.cfg.pollFor)}
	if idle {
		req.MaxWaitUs, req.MaxEvents = 0, 1
	}
	var resp *v1.EventsResponse
	err := f.makeCall(ctx, s.c.callAbout(&s.handle, false), s.c.cfg.pollFor+s.c.cfg.rpcTimeout, func(ctx context.Context) (err error) {
		resp, err = f.rpc.Events(ctx, &req)
		return err
	})
	if err == nil && resp == nil {
		err = &callError{addr: f.addr, err: errEmptyAnswer, sent: true, answered: true}
	}
	return resp, err
}

// sleepWhileWanted reports whether the job is still wanted after d.
func (s *session) sleepWhileWanted(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
	case <-s.c.closing:
	}
	return false
}

func (r *Running) deliverOutcomes(events []*v1.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range events {
		if o := e.Outcome; o != nil && int(o.Task) >= len(r.s.done) {
			r.joinAdditionsLocked(true) // the answer that it was taken has not come yet
		}
		if o := e.Outcome; o != nil && r.s.acceptOutcome(o) && !(r.satisfied && o.Kind == v1.OutcomeKind_CANCELLED) {
			r.unread += int64(len(o.Result_))
			r.outcomes = append(r.outcomes, Outcome{})
			r.outcomes[len(r.outcomes)-1].fillFrom(o)
		}
	}
	r.news.Broadcast()
}

// cancelRest ends a cancelled job whose owner was lost: there is no reason to bring it to another one.
func (r *Running) cancelRest() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.cancelled {
		return false
	}
	for i, done := range r.s.done {
		if !done && !r.satisfied {
			r.outcomes = append(r.outcomes, Outcome{Task: i, Err: &TaskError{Task: i, Reason: Cancelled}})
		}
	}
	return true
}

// tellNewOwner tells the new owner of a job what was cancelled while the job was on its way there, when nobody had it who could have been
// told. It reports whether the job is over with that.
func (r *Running) tellNewOwner() (over bool) {
	s := r.s
	r.mu.Lock()
	all, tasks := r.cancelled, []int32(nil)
	for i := range s.done {
		if !all && !s.done[i] && s.unwanted[int32(i)] {
			tasks = append(tasks, int32(i))
		}
	}
	r.mu.Unlock()
	if !all && len(tasks) == 0 {
		return false
	}
	f, h := s.frontend, s.handle
	s.c.background.Go(func() { s.c.cancelQuickly(f, &h, tasks, "cancelled by its client") })
	return r.cancelRest() || r.dropUnwanted()
}

// dropUnwanted ends tasks that were cancelled by themselves and whose owner was lost: another one does not get them. It
// reports whether none is left.
func (r *Running) dropUnwanted() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range r.s.done {
		if r.s.unwanted[int32(i)] && !r.s.done[i] {
			r.s.done[i] = true
			r.s.unfinished--
			r.outcomes = append(r.outcomes, Outcome{Task: i, Err: &TaskError{Task: i, Reason: Cancelled}})
		}
	}
	r.news.Broadcast()
	return r.s.unfinished == 0 && !r.s.job.Open
}

// failRest ends a job with stages of which a task ended without a result, and whose owner was lost before it had told
// what became of the others: to another frontend it would look as if all that is left out had ended well. What still
// runs is stopped by its workers, as nobody claims it.
func (r *Running) failRest() bool {
	cause := r.s.firstFailure
	if cause == nil {
		return false
	}
	e := TaskError{Reason: cause.Reason, Message: cause.Message}
	if e.Reason != Cancelled && e.Reason != DeadlineExceeded {
		e = TaskError{Reason: StageFailed, Message: fmt.Sprintf("task %d of stage %q failed: %s", cause.Task, r.s.tasks[cause.Task].Stage, cause.Message)}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, done := range r.s.done {
		if !done {
			taskErr := e
			taskErr.Task = i
			r.outcomes = append(r.outcomes, Outcome{Task: i, Err: &taskErr})
		}
	}
	return true
}
