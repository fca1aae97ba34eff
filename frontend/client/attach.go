package client

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	v1 "github.com/phoebe-sched/phoebe/idl/gen/phoebe/v1"
)

// Attach follows a job that another process submitted, and returns as soon as a frontend knows the job. If the job has
// a Key or Grace, you get all outcomes from the first on. Of a job without Key and Grace, the frontend forgets the
// outcomes that the submitter has fetched.
//
// The job goes on as long as its frontend or its submitter lives. If the frontend is lost, the submitter takes the job
// to another frontend, and Attach finds the job there. If the submitter is lost, too, the job ends with an
// *UnfinishedError whose Err is an *AbandonedError. If the submitter ends or leaves the job, your calls keep the job
// alive. If h.Owner is empty or out of date, Attach asks all frontends.
//
// When ctx ends, you only stop following: call Cancel to cancel the job. Extend and Seal are for the submitter.
func (c *Client) Attach(ctx context.Context, h Handle) (*Running, error) {
	if err := c.holdOpen(ctx); err != nil {
		return nil, err
	}
	defer c.background.Done()
	now := time.Now()
	s := &session{
		c: c, began: now, submittedAt: now, follows: true, pollFor: c.cfg.pollFor,
		job: v1.Job{Id: h.Job}, handle: v1.Handle{Job: h.Job, Owner: h.Owner},
	}
	resp, err := s.findJob(ctx)
	if err != nil {
		return nil, err
	}
	return startRunning(ctx, s, func(error) {},
		func(r *Running, ctx context.Context) error { return r.follow(ctx, resp) }), nil
}

// Leave stops following the job, and returns the handle for Client.Attach. The job goes on at its frontend for the time
// of Job.Grace, or longer if another process follows the job. You may still read the outcomes that have arrived. Then
// Results and Wait end with an UnfinishedError whose Err is ErrLeft. If the job is on its way between two frontends,
// Leave fails, and you keep the job.
func (r *Running) Leave(ctx context.Context) (Handle, error) {
	c := r.s.c
	if err := c.holdOpen(ctx); err != nil {
		return Handle{}, err
	}
	defer c.background.Done()
	r.mu.Lock()
	f, h, ended := r.frontend, r.handle, r.jobEnded
	r.mu.Unlock()
	if ended {
		return Handle{h.Job, h.Owner}, nil
	}
	err := f.makeCall(ctx, c.callAbout(&h, false), c.cfg.rpcTimeout, func(ctx context.Context) error {
		_, err := f.rpc.Events(ctx, &v1.EventsRequest{Caller: c.cfg.wireCaller(), Handle: &h, OnlyAsk: true})
		return err
	})
	if err != nil {
		return Handle{}, err
	}
	r.stop(ErrLeft)
	<-r.done
	return Handle{h.Job, h.Owner}, nil
}

// findJob asks the frontends for the job that s follows, and returns the first outcomes. The owner in the handle is
// asked first, through any frontend, and then every frontend for itself.
func (s *session) findJob(ctx context.Context) (*v1.EventsResponse, error) {
	order, err := s.c.findAskable(ctx)
	if err != nil {
		return nil, err
	}
	var errs []error
	for _, owner := range slices.Compact([]string{s.handle.Owner, ""}) {
		for _, f := range order {
			asked := *s
			asked.frontend, asked.handle.Owner = f, owner
			resp, err := asked.pollEvents(ctx, 0, true)
			if err == nil && resp.Tasks == 0 {
				return nil, fmt.Errorf(
					"frontend %s does not let clients follow jobs of other clients: upgrade the frontend", f.addr)
			}
			if err == nil {
				s.frontend, s.handle = f, asked.handle
				return resp, nil
			}
			if refused, is := errors.AsType[*RefusedError](err); is && !isElsewhere(refused) {
				return nil, refused
			}
			if why := s.whyUnwanted(ctx); why != nil {
				return nil, why
			}
			errs = append(errs, err)
		}
	}
	return nil, joinFailures(errs)
}

// isElsewhere reports whether another frontend may have the job that a frontend refused.
func isElsewhere(refused *RefusedError) bool {
	return refused.Reason == UnknownJob || refused.Reason == OwnerLost || refused.Reason == Draining
}

// noteFollowed stores and takes over the outcomes of an answer. A follower learns the number of tasks from the answers.
func (r *Running) noteFollowed(ctx context.Context, resp *v1.EventsResponse) error {
	r.mu.Lock()
	s := r.s
	if n := int(resp.Tasks) - len(s.tasks); n > 0 {
		s.tasks, s.done = append(s.tasks, make([]v1.Task, n)...), append(s.done, make([]bool, n)...)
		s.unfinished += n
		r.taskCount = len(s.tasks)
	}
	r.mu.Unlock()
	if err := r.storeOutcomes(ctx, resp.Events); err != nil {
		return err
	}
	r.deliverOutcomes(resp.Events)
	return nil
}

// follow asks for the outcomes of a job of another process until the job has ended, and returns the job's error.
func (r *Running) follow(ctx context.Context, resp *v1.EventsResponse) error {
	s, lostAt := r.s, time.Time{}
	if err := r.noteFollowed(ctx, resp); err != nil {
		return err
	}
	for !resp.Done {
		next, err := s.pollEvents(ctx, resp.Cursor, false)
		if err == nil {
			resp, lostAt = next, time.Time{}
			if err := r.noteFollowed(ctx, resp); err != nil {
				return err
			}
			continue
		}
		if why := s.whyUnwanted(ctx); why != nil {
			return s.unfinishedError(why)
		}
		refused, is := errors.AsType[*RefusedError](err)
		switch {
		case is && refused.RetryAfter > 0:
			s.sleepWhileWanted(ctx, refused.RetryAfter)
			continue
		case is && !isElsewhere(refused):
			return s.unfinishedError(hideRefusal(refused))
		}
		if lostAt.IsZero() {
			lostAt = time.Now()
		}
		owner := s.handle.Owner
		if found, findErr := s.findJob(ctx); findErr == nil { // perhaps at another frontend, which counts from 0
			resp = found
			r.publishOwner()
			if err := r.noteFollowed(ctx, resp); err != nil {
				return err
			}
			continue
		}
		if waited := time.Since(lostAt); waited >= s.c.cfg.retryFor {
			return s.unfinishedError(&AbandonedError{Owner: owner, Waited: s.c.cfg.retryFor, Err: err})
		}
		s.sleepWhileWanted(ctx, s.c.cfg.backoffAfter(1))
	}
	if s.unfinished > 0 {
		return s.unfinishedError(errors.New("another process fetched their outcomes before, and the frontend keeps " +
			"fetched outcomes only for a job with Key or Grace, in bounds"))
	}
	return nil
}

// unfinishedError returns the error of a job whose remaining outcomes the client gives up.
func (s *session) unfinishedError(err error) error {
	var tasks []int
	for i, done := range s.done {
		if !done {
			tasks = append(tasks, i)
		}
	}
	return &UnfinishedError{Job: s.job.Id, Tasks: tasks, Err: err}
}

// whyOtherJob returns an error if the answer is about a job with fewer tasks than the job of s: another process
// submitted other work with the same key.
func (s *session) whyOtherJob(resp *v1.EventsResponse) error {
	if !s.job.Shared || s.job.Open || resp.Tasks == 0 || int(resp.Tasks) >= len(s.tasks) {
		return nil
	}
	return s.unfinishedError(hideRefusal(&RefusedError{Reason: Invalid, Message: fmt.Sprintf(
		"a job with the same key has %d tasks, and this one has %d: use another key for other work",
		resp.Tasks, len(s.tasks))}))
}
