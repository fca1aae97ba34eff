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
	in         bool             // it is a part of the session, and goes wherever that goes
}

// Extend adds stages and tasks to a job that is Open, and returns when they are the job's: the first of the tasks has the next
// index, and they end in outcomes as others do. New stages may come after old and new ones; a task may be of an old stage that
// has not ended. This outlives the loss of a frontend, as the job does; a call that had no answer is made again, which adds
// nothing twice.
//
// A *RefusedError says that nothing was added: the job has ended or was sealed, it would have too many tasks, or something is
// wrong with the new ones. If ctx ends first, they may be added yet, and their outcomes tell.
func (r *Running) Extend(ctx context.Context, stages []Stage, tasks []Task) error {
	return r.add(ctx, func() (*addition, error) {
		a := &addition{partitions: maps.Clone(r.partitions), req: v1.ExtendRequest{FromTask: int32(r.had), Stages: wireStages(stages)}}
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
	err := r.add(ctx, func() (*addition, error) {
		return &addition{partitions: r.partitions, req: v1.ExtendRequest{FromTask: int32(r.had), Last: true}}, nil
	})
	if refused, is := errors.AsType[*RefusedError](err); is && refused.Reason == UnknownJob {
		return nil // it has ended
	}
	return err
}

// add has the owner of the job add to it, whoever that is by then, one addition after the other. It goes on if ctx ends.
func (r *Running) add(ctx context.Context, made func() (*addition, error)) error {
	c := r.s.c
	if err := c.enter(); err != nil {
		return err
	}
	defer c.background.Done()
	select {
	case r.adding <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	a, err := made()
	if err != nil {
		<-r.adding
		return err
	}
	done := make(chan error, 1)
	c.background.Go(func() {
		done <- r.carry(context.WithoutCancel(ctx), a)
		<-r.adding
	})
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// carry asks again until it is known what became of an addition.
func (r *Running) carry(ctx context.Context, a *addition) error {
	c := r.s.c
	r.mu.Lock()
	defer r.mu.Unlock()
	for r.added = append(r.added, a); !a.in; {
		if r.over {
			return r.ends()
		}
		if r.cancelled { // it ends, unless nobody could be told
			r.rest(c.cfg.backoffMin)
			continue
		}
		at, handle := r.at, r.handle
		r.mu.Unlock()
		err := c.extendAt(ctx, at, &handle, &a.req)
		r.mu.Lock()
		if err == nil && !r.over {
			a.taken = true
			break
		}
		refused, is := errors.AsType[*RefusedError](err)
		fail, _ := errors.AsType[*callError](err)
		switch {
		case a.in, err == nil:
		case fail != nil && fail.answered:
			return r.drop(err)
		case !is, refused.Reason == Draining, refused.Reason == OwnerLost, refused.Reason == UnknownJob: // poll finds out what has happened
			r.rest(c.cfg.backoffMin)
		case refused.RetryAfter > 0 && !c.cfg.refusalsFinal:
			r.rest(refused.RetryAfter)
		default:
			return r.drop(err)
		}
	}
	r.had += len(a.tasks)
	r.partitions = a.partitions
	return nil
}

// drop forgets the last addition, which was refused.
func (r *Running) drop(err error) error {
	r.added = r.added[:len(r.added)-1]
	return err
}

// rest waits for a while, or until the job ends. The mutex is held, but not meanwhile.
func (r *Running) rest(d time.Duration) {
	until := time.Now().Add(d)
	defer time.AfterFunc(d, r.wake).Stop()
	for !r.over && time.Now().Before(until) {
		r.news.Wait()
	}
}

// ends is why nothing is added to a job that is over.
func (r *Running) ends() error {
	if r.err != nil {
		return r.err
	}
	return &RefusedError{Reason: UnknownJob, Message: "the job has ended: nothing is added to it any more"}
}

func (c *Client) extendAt(ctx context.Context, f *frontend, h *v1.Handle, req *v1.ExtendRequest) error {
	req.Caller, req.Handle = c.cfg.caller(), h
	return f.do(ctx, c.asking(h, false), c.cfg.rpcTimeout, func(ctx context.Context) error {
		_, err := f.rpc.Extend(ctx, req)
		return err
	})
}

// takeIn makes what a frontend has taken a part of the session; if all, also what one may have taken.
func (r *Running) takeIn(all bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.takeInLocked(all)
}

func (r *Running) takeInLocked(all bool) {
	for s := r.s; len(r.added) > 0 && (all || r.added[0].taken); r.added = r.added[1:] {
		a := r.added[0]
		a.in = true
		s.job.Stages = append(s.job.Stages, a.req.Stages...)
		s.tasks = append(s.tasks, a.tasks...)
		s.done = append(s.done, make([]bool, len(a.tasks))...)
		s.left += len(a.tasks)
		s.job.Open = s.job.Open && !a.req.Last
	}
	r.news.Broadcast()
}
