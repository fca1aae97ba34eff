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

// Handle names a job and its owner, the frontend that has the job.
type Handle struct{ Job, Owner string }

// Running is a submitted job. The client follows the job in the background, and keeps the outcomes until you read them.
// Each outcome is handed out once, by Results, Next or Wait. Safe for concurrent use.
type Running struct {
	s     *session    // owned by the goroutine in poll, once poll runs
	onEnd func(error) // called after the last outcome, with the job's error
	stop  func(error) // ends the context of poll; nil: Run waits for the job

	mu        sync.Mutex
	news      sync.Cond     // broadcast after each change of the fields below
	outcomes  []Outcome     // not handed out yet, in order of arrival
	done      chan struct{} // closed with jobEnded
	jobEnded  bool          // no more outcomes will come
	err       error         // if jobEnded: nil, or why some outcomes are missing
	frontend  *frontend     // the frontend that leads to the owner
	handle    v1.Handle
	cancelled bool
	satisfied bool
	unread    int64       // bytes of results in outcomes
	wantsAll  bool        // Wait has been called: take all outcomes, whatever the window
	additions []*addition // not part of the session yet; a frontend has taken all but perhaps the last

	unconfirmed *addition // joined, but perhaps not taken by any frontend; nil: none

	addLock   chan struct{} // capacity 1: the goroutine that puts a value in may add to the job
	taskCount int           // number of tasks, with additions; written with mu and addLock, read with either
	shape     jobShape      // of all stages, with additions; guarded by addLock
}

// newRunning makes the Running of a submitted session. The caller sets onEnd, and gives the error of poll to endJob.
func newRunning(s *session) *Running {
	r := &Running{
		s: s, taskCount: len(s.tasks), addLock: make(chan struct{}, 1), shape: s.shape, done: make(chan struct{}),
	}
	r.news.L = &r.mu
	s.retractAddition = r.retractAddition
	return r
}

// startRunning makes the Running of a submitted session, and follows the job in the background by followJob: poll, or
// follow. At the job's end, onEnd gets the job's error.
func startRunning(
	ctx context.Context, s *session, onEnd func(error), followJob func(*Running, context.Context) error,
) *Running {
	r := newRunning(s)
	r.onEnd = onEnd
	r.publishOwner()
	ctx, r.stop = context.WithCancelCause(ctx)
	s.c.background.Go(func() {
		defer r.stop(nil)
		r.endJob(followJob(r, ctx))
	})
	return r
}

// Handle names the job and its present owner.
func (r *Running) Handle() Handle {
	r.mu.Lock()
	defer r.mu.Unlock()
	return Handle{r.handle.Job, r.handle.Owner}
}

// Results yields the outcomes as the tasks end. The error beside an outcome is the outcome's Err. If the client gives
// up, the last pair is an Outcome with Task -1 and an *UnfinishedError. If you leave the loop early, the job keeps
// running: call Cancel, or read the rest later.
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

// nextOutcome waits for an outcome. If ok is false, err is nil after the last outcome, or says why no outcome came. The
// caller must call wakeAll when ctx ends.
func (r *Running) nextOutcome(ctx context.Context) (o Outcome, ok bool, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for len(r.outcomes) == 0 && !r.jobEnded {
		if ctx.Err() != nil {
			return Outcome{}, false, contextError(ctx)
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
	r.news.Broadcast() // wakes poll if poll waits for room in the window
	return o, true, nil
}

// Next returns the next outcome, as Results does, and the outcome's Err as the error. After the last outcome the error
// is io.EOF, or the error of the whole job. If ctx ends, Next returns ctx's error, and the job goes on.
func (r *Running) Next(ctx context.Context) (Outcome, error) {
	if ctx == nil {
		return Outcome{Task: -1, Err: errNilContext}, errNilContext
	}
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

// wakeAll makes all goroutines that wait for news look again.
func (r *Running) wakeAll() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.news.Broadcast()
}

// Wait waits for the end of the job. An Open job ends only after Seal. Wait returns the outcomes that Results and Next
// have not handed out, in the order of Job.Tasks, and an error as Run does.
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

// Done returns a channel that is closed at the end of the job. From then on the client has all outcomes, and Wait does
// not block.
func (r *Running) Done() <-chan struct{} { return r.done }

// Err returns the error of the whole job after its end: *UnfinishedError or ErrClosed. Err takes no outcome, and knows
// no errors of tasks. Before the end Err returns nil.
func (r *Running) Err() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err
}

// Cancel ends the tasks that have no outcome yet. Their outcome is a *TaskError with Reason Cancelled. After an error
// no frontend knows of the cancellation, and the job goes on.
func (r *Running) Cancel(ctx context.Context) error {
	c := r.s.c
	if err := c.holdOpen(ctx); err != nil {
		return err
	}
	defer c.background.Done()
	r.mu.Lock()
	f, handle, ended := r.frontend, r.handle, r.jobEnded
	r.cancelled = true // from now on the job does not move to another frontend
	r.mu.Unlock()
	if ended {
		return nil
	}
	_, err := c.cancelSomewhere(ctx, f, handle, nil, "cancelled by its client")
	var refused *RefusedError
	if errors.As(err, &refused) && (refused.Reason == UnknownJob || refused.Reason == OwnerLost) {
		return nil // the job has ended, or is between two frontends
	}
	if err != nil {
		r.mu.Lock()
		r.cancelled = false
		r.mu.Unlock()
	}
	return err
}

// CancelTasks ends the given tasks, except tasks with an outcome. The outcome of a cancelled task is a *TaskError with
// Reason Cancelled. The job goes on without the cancelled tasks: later stages start with the outputs of the remaining
// tasks.
func (r *Running) CancelTasks(ctx context.Context, tasks ...int) error {
	c := r.s.c
	if err := c.holdOpen(ctx); err != nil {
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
			r.s.unwanted[int32(i)] = true // a resubmission leaves the task out
		}
	}
	f, handle, ended := r.frontend, r.handle, r.jobEnded
	r.mu.Unlock()
	if ended || len(unfinished) == 0 {
		return nil
	}
	_, err := c.cancelSomewhere(ctx, f, handle, unfinished, "not wanted any more")
	var refused *RefusedError
	if errors.As(err, &refused) && (refused.Reason == UnknownJob || refused.Reason == OwnerLost) {
		return nil // the job has ended, or is between two frontends
	}
	return err
}

// Satisfied ends a job without an error, for instance a query that has enough rows for its LIMIT. Tasks without an
// outcome are stopped. They get no outcome, and cause no error of Results, Next and Wait. After an error of Satisfied
// the job goes on.
func (r *Running) Satisfied(ctx context.Context) error {
	r.mu.Lock()
	before := r.satisfied
	r.satisfied = true
	r.mu.Unlock()
	err := r.Cancel(ctx)
	if err != nil {
		r.mu.Lock()
		r.satisfied = before
		r.mu.Unlock()
	}
	return err
}

// Cancel cancels a job of any client, and returns the number of the job's tasks that had no outcome yet. If you do not
// know the owner, leave h.Owner empty: Cancel then asks every frontend.
func (c *Client) Cancel(ctx context.Context, h Handle, why string) (int, error) {
	if err := c.holdOpen(ctx); err != nil {
		return 0, err
	}
	defer c.background.Done()
	return c.cancelSomewhere(ctx, nil, v1.Handle{Job: h.Job, Owner: h.Owner}, nil, why)
}

// cancelSomewhere cancels a job, or some of its tasks. It asks first, unless first is nil, and then the other frontends
// until a frontend knows the job. If the handle names the owner, the asked frontend forwards the call to the owner.
func (c *Client) cancelSomewhere(
	ctx context.Context, first *frontend, h v1.Handle, tasks []int32, why string,
) (int, error) {
	order, err := c.findAskable(ctx)
	if first != nil {
		order = append([]*frontend{first}, slices.DeleteFunc(order, func(f *frontend) bool { return f == first })...)
	} else if err != nil {
		return 0, err
	}
	var errs []error
	for _, f := range order {
		n, err := c.cancelAt(ctx, f, &h, tasks, why, false)
		if err == nil {
			return n, nil
		}
		if refused, is := errors.AsType[*RefusedError](err); is && refused.Reason != UnknownJob &&
			refused.Reason != OwnerLost {
			return 0, refused
		}
		errs = append(errs, err)
		if ctx.Err() != nil {
			break
		}
	}
	return 0, joinFailures(errs)
}

// publishOwner makes the job's present owner known to Cancel and Handle.
func (r *Running) publishOwner() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.frontend, r.handle = r.s.frontend, r.s.handle
}

// endJob ends the job with err: no more outcomes will come.
func (r *Running) endJob(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if unfinished, is := errors.AsType[*UnfinishedError](err); is {
		for i := len(r.s.done); i < r.taskCount; i++ { // tasks added a moment ago, not yet in the session
			unfinished.Tasks = append(unfinished.Tasks, i)
		}
	}
	r.jobEnded, r.err = true, err
	close(r.done)
	r.onEnd(err)
	r.news.Broadcast()
}

// poll follows the job from frontend to frontend until the job has ended, and returns the job's error.
func (r *Running) poll(ctx context.Context) error {
	s := r.s
	var cursor int64
	for s.unfinished > 0 || s.job.Open {
		idle := r.waitForWindow(ctx)
		began := time.Now()
		resp, err := s.pollEvents(ctx, cursor, idle)
		r.joinAdditions(false)
		if err == nil {
			s.notePollAnswered()
		}
		if err == nil && idle {
			continue
		}
		if err == nil {
			if err := s.whyOtherJob(resp); err != nil {
				return err
			}
			if err := r.storeOutcomes(ctx, resp.Events); err != nil {
				return err
			}
			cursor = resp.Cursor
			r.deliverOutcomes(resp.Events)
			if s.job.Open = s.job.Open && !resp.Done; !resp.Done || s.unfinished == 0 {
				continue
			}
			err = &callError{addr: s.frontend.addr, err: errMissingTasks, sent: true}
		}
		if s.mayAskAgain(ctx, err, time.Since(began)) {
			continue
		}
		var fail *callError
		var refused *RefusedError
		if errors.As(err, &refused) && refused.Reason == Overloaded {
			// The refusal is only for the call: the frontend still owns the job.
			s.lastErr = err
			if !s.sleepWhileWanted(ctx, max(refused.RetryAfter, s.c.cfg.backoffMin)) {
				return s.giveUp(s.whyUnwanted(ctx))
			}
			continue
		}
		if errors.As(err, &fail) {
			fail.sent = true // whether or not the poll arrived, the Submit did
		}
		s.noteMayOwn()
		if err := s.handleFailure(ctx, err); err != nil {
			return err
		}
		if r.cancelRest() || r.failRest() || r.dropUnwanted() {
			break
		}
		if r.joinAdditions(true); s.unfinished == 0 && !s.job.Open {
			break
		}
		if err := s.submitJob(ctx); err != nil {
			return err
		}
		cursor = 0
		r.confirmAddition()
		if r.publishOwner(); r.tellNewOwner() {
			break
		}
	}
	if cursor > 0 && slices.ContainsFunc(s.tasks, func(t v1.Task) bool { return !t.Retryable }) {
		s.c.background.Go(func() { s.c.confirmOutcomes(s.frontend, &s.handle, cursor) })
	}
	return nil
}

// notePollAnswered notes the answer to a poll. After a break, the next polls become longer step by step.
func (s *session) notePollAnswered() {
	s.breaks, s.shortSince = 0, time.Time{}
	s.pollFor = min(2*s.pollFor, s.c.cfg.pollFor)
}

// mayAskAgain reports whether the same frontend should get the poll again, after a poll failed with err. The frontend
// should, in two cases. The connection broke, because something between cuts silent connections, say. Then the next
// polls are shorter than pollTime, the time of the broken poll. Or the poll found no connection, although the frontend
// may be well; after half of retryFor without any connection, the job is tried by way of another frontend.
func (s *session) mayAskAgain(ctx context.Context, err error, pollTime time.Duration) bool {
	fail, _ := errors.AsType[*callError](err)
	if fail == nil || s.whyUnwanted(ctx) != nil {
		return false
	}
	switch {
	case fail.brokeAlone && s.breaks < maxBreaks:
		s.breaks++
		s.pollFor = max(min(s.pollFor, pollTime)/2, minPoll)
		return true
	case !fail.sent && s.frontend.pool.isShortOfConns(fail.err):
		if s.shortSince.IsZero() {
			s.shortSince = time.Now().Add(-pollTime)
		}
		if time.Since(s.shortSince) < s.c.cfg.retryFor/2 {
			return s.sleepWhileWanted(ctx, s.c.cfg.backoffMin)
		}
		s.shortSince = time.Time{}
	}
	return false
}

// confirmOutcomes tells the owner of an ended job that all outcomes have arrived. Workers keep the results of Once
// tasks until then.
func (c *Client) confirmOutcomes(f *frontend, h *v1.Handle, cursor int64) {
	confirmOnce := func() error {
		return f.makeCall(context.Background(), c.callAbout(h, true), partingTimeout, func(ctx context.Context) error {
			_, err := f.rpc.Events(ctx, &v1.EventsRequest{Caller: c.cfg.wireCaller(), Handle: h, Cursor: cursor})
			return err
		})
	}
	err := confirmOnce()
	if errors.Is(err, ErrClosed) { // Close has closed the connection
		err = confirmOnce()
	}
	if err != nil {
		c.cfg.log.Debug("outcomes not confirmed", "job", h.Job, "frontend", f.addr, "err", err)
	}
}

// waitForWindow waits until fewer bytes are unread than the job's window allows. It returns true after half of pollFor.
// The next poll then only tells the owner that the client lives.
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

// pollEvents asks the owner for the events after cursor. If idle, the call only tells the owner that the client lives.
func (s *session) pollEvents(ctx context.Context, cursor int64, idle bool) (*v1.EventsResponse, error) {
	f := s.frontend
	req := v1.EventsRequest{Caller: s.c.cfg.wireCaller(), Handle: &s.handle, Cursor: cursor, Follow: s.follows}
	cl := s.c.callAbout(&s.handle, false)
	if idle {
		req.MaxEvents = 1
	} else {
		cl.onConn = func() { req.MaxWaitUs = f.pool.limitPoll(s.pollFor).Microseconds() }
	}
	cl.until = s.callUntil()
	var resp *v1.EventsResponse
	err := f.makeCall(ctx, cl, s.c.cfg.pollFor+s.c.cfg.rpcTimeout,
		func(ctx context.Context) (err error) {
			resp, err = f.rpc.Events(ctx, &req)
			return err
		})
	if err == nil && resp == nil {
		err = &callError{addr: f.addr, err: errEmptyAnswer, sent: true, answered: true}
	}
	if err == nil && s.handle.Owner == "" { // a frontend forwards no call without an owner
		s.noteReached(cl)
	}
	return resp, err
}

// storeOutcomes gives the new outcomes among events to the function of WithStore. Only after storeOutcomes may the
// client take an outcome as arrived.
func (r *Running) storeOutcomes(ctx context.Context, events []*v1.Event) error {
	s := r.s
	if s.c.cfg.store == nil {
		return nil
	}
	var outs []Outcome
	r.mu.Lock()
	for _, e := range events {
		o := e.Outcome
		if o == nil || o.Task < 0 || int(o.Task) < len(s.done) && s.done[o.Task] ||
			r.satisfied && o.Kind == v1.OutcomeKind_CANCELLED {
			continue
		}
		outs = append(outs, Outcome{})
		outs[len(outs)-1].fillFrom(o)
	}
	r.mu.Unlock()
	if len(outs) == 0 {
		return nil
	}
	if err := s.c.cfg.store(ctx, s.job.Id, outs); err != nil {
		return s.unfinishedError(&StoreError{err})
	}
	return nil
}

// sleepWhileWanted sleeps for d, and returns false at once if the job is no longer wanted.
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

// deliverOutcomes notes the outcomes of events, and wakes their readers.
func (r *Running) deliverOutcomes(events []*v1.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range events {
		if o := e.Outcome; o != nil && int(o.Task) >= len(r.s.done) && len(r.additions) > 0 {
			r.additions[len(r.additions)-1].taken = true // the outcome overtook the answer to its Extend
			r.joinAdditionsLocked(false)
		}
		if o := e.Outcome; o != nil && r.s.acceptOutcome(o) && !(r.satisfied && o.Kind == v1.OutcomeKind_CANCELLED) {
			r.unread += int64(len(o.Result_))
			r.outcomes = append(r.outcomes, Outcome{})
			r.outcomes[len(r.outcomes)-1].fillFrom(o)
		}
	}
	r.news.Broadcast()
}

// cancelRest ends a cancelled job whose owner was lost, because there is no reason to move the job to another frontend.
// It reports false if the job is not cancelled.
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

// tellNewOwner tells the new owner of a job which tasks were cancelled while the job had no owner. It reports true if
// the job has ended as a result.
func (r *Running) tellNewOwner() (ended bool) {
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

// dropUnwanted ends the tasks of CancelTasks after the loss of the owner. The next owner does not get them. It reports
// true if no task without an outcome remains, unless the job is open.
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

// failRest ends a job with stages that has failed and then lost its owner, before the outcomes of all tasks had come.
// The job must not move: the next owner would take tasks left out of the resubmission for tasks with results. Workers
// stop the attempts that still run, because no frontend claims them. If no task has failed, failRest reports false.
func (r *Running) failRest() bool {
	cause := r.s.firstFailure
	if cause == nil {
		return false
	}
	e := TaskError{Reason: cause.Reason, Message: cause.Message}
	if e.Reason != Cancelled && e.Reason != DeadlineExceeded {
		e = TaskError{Reason: StageFailed, Message: fmt.Sprintf("task %d of stage %q failed: %s",
			cause.Task, r.s.tasks[cause.Task].Stage, cause.Message)}
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
