package client

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	v1 "github.com/phoebe-sched/phoebe/idl/gen/phoebe/v1"
)

// addition is what is to be added to a job.
type addition struct {
	req        v1.ExtendRequest
	tasks      []v1.Task
	partitions map[string]int32 // of the job, with these
	taken      bool             // by a frontend, as its answer said; guarded by the mutex of Running, as is in
	joined     bool             // it is a part of the session, and goes wherever that goes
}

// Extend adds stages and tasks to a job that is Open, and returns when they are the job's: the first of the tasks has the next
// index, and they end in outcomes as others do. New stages may come after old and new ones; a task may be of an old stage that
// has not ended. This outlives the loss of a frontend, as the job does; a call that had no answer is made again, which adds
// nothing twice.
//
// A *RefusedError says that nothing was added: the job has ended or was sealed, it would have too many tasks, or something is
// wrong with the new ones. If ctx ends first, they may be added yet, and their outcomes tell.
func (r *Running) Extend(ctx context.Context, stages []Stage, tasks []Task) error {
	return r.addTasks(ctx, func() (*addition, error) {
		a := &addition{partitions: maps.Clone(r.partitions), req: v1.ExtendRequest{FromTask: int32(r.taskCount), Stages: wireStages(stages)}}
		var err error
		if a.tasks, err = wireTasks(tasks, a.partitions); err != nil {
			return nil, err
		}
		for i := range a.tasks {
			a.req.Tasks = append(a.req.Tasks, &a.tasks[i])
		}
		if size := a.req.BLength(); size > maxRequest {
			return nil, &RefusedError{Reason: TooLarge, Message: fmt.Sprintf("what is to be added takes %d bytes; at most %d go into one call: make several", size, maxRequest)}
		}
		return a, nil
	})
}

// Seal says that nothing is added any more to a job that is Open: it ends with its tasks.
func (r *Running) Seal(ctx context.Context) error {
	err := r.addTasks(ctx, func() (*addition, error) {
		return &addition{partitions: r.partitions, req: v1.ExtendRequest{FromTask: int32(r.taskCount), Last: true}}, nil
	})
	if refused, is := errors.AsType[*RefusedError](err); is && refused.Reason == UnknownJob {
		return nil // it has ended
	}
	return err
}

// addTasks has the owner of the job add to it, whoever that is by then, one addition after the other. It goes on if ctx ends.
func (r *Running) addTasks(ctx context.Context, prepare func() (*addition, error)) error {
	c := r.s.c
	if err := c.holdOpen(); err != nil {
		return err
	}
	defer c.background.Done()
	select {
	case r.addLock <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
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
		return context.Cause(ctx)
	}
}

// sendAddition asks again until it is known what became of an addition.
func (r *Running) sendAddition(ctx context.Context, a *addition) error {
	c := r.s.c
	r.mu.Lock()
	defer r.mu.Unlock()
	for r.additions = append(r.additions, a); !a.joined; {
		if r.jobEnded {
			return r.whyNotAdded()
		}
		if r.cancelled { // it ends, unless nobody could be told
			r.waitOrEnd(c.cfg.backoffMin)
			continue
		}
		f, handle := r.frontend, r.handle
		r.mu.Unlock()
		err := c.extendAt(ctx, f, &handle, &a.req)
		r.mu.Lock()
		if err == nil && !r.jobEnded {
			a.taken = true
			break
		}
		refused, is := errors.AsType[*RefusedError](err)
		fail, _ := errors.AsType[*callError](err)
		switch {
		case a.joined, err == nil:
		case fail != nil && fail.answered:
			return r.dropAddition(err)
		case !is, refused.Reason == Draining, refused.Reason == OwnerLost, refused.Reason == UnknownJob: // poll finds out what has happened
			r.waitOrEnd(c.cfg.backoffMin)
		case refused.RetryAfter > 0 && !c.cfg.refusalsFinal:
			r.waitOrEnd(refused.RetryAfter)
		default:
			return r.dropAddition(err)
		}
	}
	r.taskCount += len(a.tasks)
	r.partitions = a.partitions
	return nil
}

// dropAddition forgets the last addition, which was refused.
func (r *Running) dropAddition(err error) error {
	r.additions = r.additions[:len(r.additions)-1]
	return err
}

// waitOrEnd waits for a while, or until the job ends. The mutex is held, but not meanwhile.
func (r *Running) waitOrEnd(d time.Duration) {
	until := time.Now().Add(d)
	defer time.AfterFunc(d, r.wakeAll).Stop()
	for !r.jobEnded && time.Now().Before(until) {
		r.news.Wait()
	}
}

// whyNotAdded is why nothing is added to a job that is over.
func (r *Running) whyNotAdded() error {
	if r.err != nil {
		return r.err
	}
	return &RefusedError{Reason: UnknownJob, Message: "the job has ended: nothing is added to it any more"}
}

func (c *Client) extendAt(ctx context.Context, f *frontend, h *v1.Handle, req *v1.ExtendRequest) error {
	req.Caller, req.Handle = c.cfg.wireCaller(), h
	return f.makeCall(ctx, c.callAbout(h, false), c.cfg.rpcTimeout, func(ctx context.Context) error {
		_, err := f.rpc.Extend(ctx, req)
		return err
	})
}

// joinAdditions makes what a frontend has taken a part of the session; if all, also what one may have taken.
func (r *Running) joinAdditions(all bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.joinAdditionsLocked(all)
}

func (r *Running) joinAdditionsLocked(all bool) {
	for s := r.s; len(r.additions) > 0 && (all || r.additions[0].taken); r.additions = r.additions[1:] {
		a := r.additions[0]
		a.joined = true
		s.job.Stages = append(s.job.Stages, a.req.Stages...)
		s.tasks = append(s.tasks, a.tasks...)
		s.done = append(s.done, make([]bool, len(a.tasks))...)
		s.unfinished += len(a.tasks)
		s.job.Open = s.job.Open && !a.req.Last
	}
	r.news.Broadcast()
}
