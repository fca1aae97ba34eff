package client

import (
	"context"
	"errors"
	"fmt"
	"time"

	v1 "github.com/phoebe-sched/phoebe/idl/gen/phoebe/v1"
)

// addition is one change to an open job: new stages and tasks, or the seal.
type addition struct {
	req   v1.ExtendRequest
	tasks []v1.Task
	shape jobShape // of all stages of the job, with the new tasks

	// Guarded by the mutex of Running:
	mayBeTaken bool  // a call had no answer, and a frontend may have the addition
	joined     bool  // part of the session, so a resubmission includes the addition
	taken      bool  // confirmed by a frontend
	refusal    error // why the addition left the session; nil: not refused
}

// Extend adds stages and tasks to an Open job, and returns when a frontend has added them. The first new task gets the
// job's next task index. Each new task ends with an outcome, like the job's other tasks. New stages may come after old
// and new stages. A new task may belong to an old stage if the stage has not ended. If a frontend is lost, Extend goes
// on at the next frontend. A call without an answer is made again, and adds nothing twice.
//
// After a *RefusedError nothing was added: the job has ended or was sealed, the job would have too many tasks, or the
// new stages or tasks are wrong. After a *LateRefusalError, a lost frontend may have added and started the new tasks,
// and the next frontend refused them. After both errors, the job goes on without the new tasks. If ctx ends first, the
// tasks may still be added later. Their outcomes then tell you.
func (r *Running) Extend(ctx context.Context, stages []Stage, tasks []Task) error {
	return r.addTasks(ctx, func() (*addition, error) {
		a := &addition{
			shape: r.shape.withStages(stages),
			req:   v1.ExtendRequest{FromTask: int32(r.taskCount), Stages: wireStages(stages)},
		}
		var err error
		if a.tasks, err = wireTasks(tasks, r.taskCount, a.shape); err != nil {
			return nil, err
		}
		for i := range a.tasks {
			a.req.Tasks = append(a.req.Tasks, &a.tasks[i])
		}
		if size := a.req.BLength(); size > r.s.c.cfg.maxRequest {
			return nil, &RefusedError{Reason: TooLarge, Message: fmt.Sprintf(
				"the new stages and tasks take %d bytes, and one call may take at most %d: make several calls",
				size, r.s.c.cfg.maxRequest)}
		}
		return a, nil
	})
}

// Seal says that you add no more to an Open job: the job then ends with its tasks. If the job has ended already, Seal
// does nothing.
func (r *Running) Seal(ctx context.Context) error {
	err := r.addTasks(ctx, func() (*addition, error) {
		return &addition{shape: r.shape, req: v1.ExtendRequest{FromTask: int32(r.taskCount), Last: true}}, nil
	})
	if refused, is := errors.AsType[*RefusedError](err); is && refused.Reason == UnknownJob {
		return nil // the job has ended
	}
	return err
}

// addTasks sends the addition that prepare returns to the job's owner, and waits for the result. Additions are sent one
// after the other. If ctx ends, addTasks returns, and the sending goes on in the background.
func (r *Running) addTasks(ctx context.Context, prepare func() (*addition, error)) error {
	c := r.s.c
	if err := c.holdOpen(ctx); err != nil {
		return err
	}
	defer c.background.Done()
	if r.s.follows {
		return &RefusedError{Reason: Invalid, Message: "another process submitted the job: only its submitter adds tasks"}
	}
	select {
	case r.addLock <- struct{}{}:
	case <-ctx.Done():
		return contextError(ctx)
	}
	a, err := prepare()
	if err != nil {
		<-r.addLock
		return err
	}
	done := make(chan error, 1)
	c.background.Go(func() {
		done <- r.sendAddition(context.WithoutCancel(ctx), a)
		<-r.addLock
	})
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return contextError(ctx)
	}
}

// sendAddition sends an addition to the job's owner, again and again, until a frontend has taken or refused the
// addition, or the job has ended.
func (r *Running) sendAddition(ctx context.Context, a *addition) error {
	c := r.s.c
	r.mu.Lock()
	defer r.mu.Unlock()
	for r.additions = append(r.additions, a); !a.taken; {
		switch {
		case a.refusal != nil:
			return a.refusal
		case r.jobEnded && a.joined && r.err == nil:
			a.taken = true // the outcomes include the new tasks
			continue
		case r.jobEnded:
			return r.whyNotAdded()
		case a.joined: // the next frontend takes or refuses the job with the addition
			r.news.Wait()
			continue
		case r.cancelled: // wait for the end of the job, or for the failure of Cancel
			r.waitOrEnd(c.cfg.backoffMin)
			continue
		}
		f, handle, wasDoubtful := r.frontend, r.handle, a.mayBeTaken
		a.mayBeTaken = true
		r.mu.Unlock()
		err := c.extendAt(ctx, f, &handle, &a.req)
		r.mu.Lock()
		if err == nil && !r.jobEnded {
			a.taken = true
			break
		}
		refused, is := errors.AsType[*RefusedError](err)
		fail, _ := errors.AsType[*callError](err)
		if is || fail != nil && !fail.sent {
			a.mayBeTaken = wasDoubtful
		}
		switch {
		case a.joined, a.refusal != nil, err == nil:
		case fail != nil && fail.answered:
			return r.dropAddition(err)
		case !is, refused.Reason == Draining, refused.Reason == OwnerLost, refused.Reason == UnknownJob:
			r.waitOrEnd(c.cfg.backoffMin) // poll finds out what has happened to the owner
		case refused.RetryAfter > 0 && !c.cfg.refusalsFinal:
			r.waitOrEnd(refused.RetryAfter)
		default:
			return r.dropAddition(err)
		}
	}
	r.taskCount += len(a.tasks)
	r.shape = a.shape
	return nil
}

// retractAddition takes the last addition out of the session, if no frontend has confirmed it. The addition's Extend
// fails with the refusal.
func (r *Running) retractAddition(refused *RefusedError) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	a := r.unconfirmed
	if a == nil {
		return false
	}
	s := r.s
	n := len(s.tasks) - len(a.tasks)
	for _, done := range s.done[n:] {
		if !done { // CancelTasks may have ended some
			s.unfinished--
		}
	}
	s.tasks, s.done = s.tasks[:n], s.done[:n]
	s.job.Stages = s.job.Stages[:len(s.job.Stages)-len(a.req.Stages)]
	s.job.Open = true // else there would have been no addition
	a.refusal, r.unconfirmed = (*LateRefusalError)(refused), nil
	r.news.Broadcast()
	return true
}

// confirmAddition notes that a frontend has accepted the job, with all joined additions.
func (r *Running) confirmAddition() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if a := r.unconfirmed; a != nil {
		a.taken, r.unconfirmed = true, nil
		r.news.Broadcast()
	}
}

// dropAddition forgets the last addition after its refusal, and returns err. The mutex is held.
func (r *Running) dropAddition(err error) error {
	r.additions = r.additions[:len(r.additions)-1]
	return err
}

// waitOrEnd waits for d, or until the job ends. The mutex is held, and released during the wait.
func (r *Running) waitOrEnd(d time.Duration) {
	until := time.Now().Add(d)
	defer time.AfterFunc(d, r.wakeAll).Stop()
	for !r.jobEnded && time.Now().Before(until) {
		r.news.Wait()
	}
}

// whyNotAdded returns the error of an addition to an ended job. The mutex is held.
func (r *Running) whyNotAdded() error {
	if r.err != nil {
		return r.err
	}
	return &RefusedError{Reason: UnknownJob, Message: "the job has ended and takes no more tasks"}
}

// extendAt sends an addition to a frontend.
func (c *Client) extendAt(ctx context.Context, f *frontend, h *v1.Handle, req *v1.ExtendRequest) error {
	req.Caller, req.Handle = c.cfg.wireCaller(), h
	return f.makeCall(ctx, c.callAbout(h, false), c.cfg.rpcTimeout, func(ctx context.Context) error {
		_, err := f.rpc.Extend(ctx, req)
		return err
	})
}

// joinAdditions makes the additions that a frontend has taken part of the session. If doubtful is true, it also joins
// an addition that a frontend may have taken.
func (r *Running) joinAdditions(doubtful bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.joinAdditionsLocked(doubtful)
}

// joinAdditionsLocked is joinAdditions with the mutex held.
func (r *Running) joinAdditionsLocked(doubtful bool) {
	for s := r.s; len(r.additions) > 0; r.additions = r.additions[1:] {
		a := r.additions[0]
		if !a.taken && !(doubtful && a.mayBeTaken) {
			break
		}
		if a.joined = true; !a.taken {
			r.unconfirmed = a
		}
		s.job.Stages = append(s.job.Stages, a.req.Stages...)
		s.tasks = append(s.tasks, a.tasks...)
		s.done = append(s.done, make([]bool, len(a.tasks))...)
		s.unfinished += len(a.tasks)
		s.job.Open = s.job.Open && !a.req.Last
	}
	r.news.Broadcast()
}
