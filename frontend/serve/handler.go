package serve

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/phoebe-sched/phoebe/frontend"
	"github.com/phoebe-sched/phoebe/frontend/frame"
	"github.com/phoebe-sched/phoebe/idl/gen/phoebe/v1"
	"github.com/phoebe-sched/phoebe/probe"
)

// handler answers the calls of the API: the gate has admitted them.
type handler struct{ *Server }

func refuse(reason v1.RefusedReason, format string, args ...any) *v1.Refused {
	return &v1.Refused{Reason: reason, Message: fmt.Sprintf(format, args...)}
}

// Run implements the API. The gate keeps it from Kitex: see run.
func (h *handler) Run(context.Context, *v1.RunRequest) (*v1.RunResponse, error) {
	return nil, errors.ErrUnsupported
}

// Submit implements the API.
func (h *handler) Submit(ctx context.Context, req *v1.SubmitRequest) (*v1.SubmitResponse, error) {
	if owner := h.owner(ctx, req.Caller, req.Job); owner != nil {
		return owner.Submit(ctx, req)
	}
	handle, err := h.submit(ctx, req.Caller, req.Job, clientOf(ctx), nil)
	if err != nil {
		return nil, err
	}
	return &v1.SubmitResponse{Handle: handle}, nil
}

// Events implements the API.
func (h *handler) Events(ctx context.Context, req *v1.EventsRequest) (*v1.EventsResponse, error) {
	if to, err := h.ownerOf(req.Caller, req.Handle); to != nil || err != nil {
		if err != nil {
			return nil, err
		}
		return to.Events(ctx, req)
	}
	id, err := probe.ParseJobID(req.Handle.Job)
	if err != nil {
		return nil, refuse(v1.RefusedReason_INVALID, "%v", err)
	}
	most := int(req.MaxEvents)
	if most <= 0 || most > 1000 {
		most = 1000
	}
	until := time.NewTimer(min(max(time.Duration(req.MaxWaitUs)*time.Microsecond, 0), time.Minute))
	defer until.Stop()

	h.mu.Lock()
	defer h.unlock()
	client := clientOf(ctx)
	for expired := false; ; {
		r := h.jobs[id]
		if r == nil {
			return nil, refuse(v1.RefusedReason_UNKNOWN_JOB, "job %v is not known here: it ended long ago, or its frontend was restarted; resubmit what is unfinished under the same id", id)
		}
		if r.moved {
			return nil, refuse(v1.RefusedReason_OWNER_LOST, "this frontend lost the job: resubmit what is unfinished under the same id to another one")
		}
		err := h.revoked(ctx)
		if err == nil {
			err = h.mayTouch(ctx, req.Caller, id, r.timed.tenant)
		}
		if err != nil {
			h.note(ctx, req.Caller, "events", req.Handle.Job, r.timed.tenant, err)
			return nil, err
		}
		now := time.Now()
		if r.client = client; client == nil || !expired || !client.hungUp() {
			r.polled = now
		}
		var batch []*v1.Outcome
		var next int64
		var done bool
		if r.run {
			batch, next, done = r.peek(req.Cursor, most)
		} else {
			var had []frontend.Receipt
			batch, next, had, done = r.fetch(req.Cursor, most, now)
			if h.weigh(r); len(had) > 0 {
				h.stepLocked(frontend.Delivered{Receipts: had})
			}
		}
		if len(batch) > 0 || done || expired {
			if done && !r.kept {
				h.keep(r)
				h.answer(r, now)
			}
			events := make([]*v1.Event, len(batch))
			for i, o := range batch {
				events[i] = &v1.Event{Outcome: o}
			}
			return &v1.EventsResponse{Events: events, Cursor: next, Done: done}, nil
		}
		if r.changed == nil {
			r.changed = make(chan struct{})
		}
		changed := r.changed
		r.polls++
		h.unlock()
		select {
		case <-changed:
		case <-until.C:
			expired = true
		}
		h.mu.Lock()
		r.polls--
	}
}

// Cancel implements the API.
func (h *handler) Cancel(ctx context.Context, req *v1.CancelRequest) (*v1.CancelResponse, error) {
	if to, err := h.ownerOf(req.Caller, req.Handle); to != nil || err != nil {
		if err != nil {
			return nil, err
		}
		return to.Cancel(ctx, req)
	}
	h.mu.Lock()
	defer h.unlock()
	r, err := h.cancelling(ctx, req.Caller, "cancel", req.Handle)
	if err != nil {
		return nil, err
	}
	left := r.left
	h.stepLocked(frontend.Cancel{Job: r.id, Reason: cmp.Or(req.Reason, cancelled)})
	return &v1.CancelResponse{Cancelled: int32(left)}, nil
}

// CancelTasks implements the API.
func (h *handler) CancelTasks(ctx context.Context, req *v1.CancelTasksRequest) (*v1.CancelResponse, error) {
	if to, err := h.ownerOf(req.Caller, req.Handle); to != nil || err != nil {
		if err != nil {
			return nil, err
		}
		return to.CancelTasks(ctx, req)
	}
	tasks := make([]probe.TaskIndex, len(req.Tasks))
	for i, index := range req.Tasks {
		tasks[i] = probe.TaskIndex(index)
	}
	h.mu.Lock()
	defer h.unlock()
	r, err := h.cancelling(ctx, req.Caller, "cancel tasks", req.Handle)
	if err != nil {
		return nil, err
	}
	left := r.left
	h.stepLocked(frontend.CancelTasks{Job: r.id, Tasks: tasks, Reason: cmp.Or(req.Reason, cancelled)})
	return &v1.CancelResponse{Cancelled: int32(left - r.left)}, nil
}

// cancelled is the reason of a client that tells none.
const cancelled = "cancelled by its client"

// cancelling is the record of a job of which something is to be cancelled, if the caller may do that. The mutex is held.
func (h *handler) cancelling(ctx context.Context, caller *v1.Caller, what string, handle *v1.Handle) (*record, error) {
	id, err := probe.ParseJobID(handle.Job)
	if err != nil {
		return nil, refuse(v1.RefusedReason_INVALID, "%v", err)
	}
	r := h.jobs[id]
	if r == nil {
		return nil, refuse(v1.RefusedReason_UNKNOWN_JOB, "job %v is not known here: it has ended, or belongs to another frontend (the owner in its handle)", id)
	}
	err = orNil(h.mayTouch(ctx, caller, id, r.timed.tenant))
	h.note(ctx, caller, what, handle.Job, r.timed.tenant, err)
	return r, err
}

// Extend implements the API.
func (h *handler) Extend(ctx context.Context, req *v1.ExtendRequest) (res *v1.ExtendResponse, err error) {
	defer taken(ctx)
	if to, err := h.ownerOf(req.Caller, req.Handle); to != nil || err != nil {
		if err != nil {
			return nil, err
		}
		return to.Extend(ctx, req)
	}
	id, err := probe.ParseJobID(req.Handle.Job)
	if err != nil {
		return nil, refuse(v1.RefusedReason_INVALID, "%v", err)
	}
	h.mu.Lock()
	has := h.core.Stages(id)
	h.mu.Unlock() // for as long as it takes to parse what may be large
	ev, wrong := parseExtend(req, id, has)
	h.mu.Lock()
	defer h.unlock()
	r, err := h.growing(ctx, req, id, wrong)
	if err != nil {
		return nil, err
	}
	h.stepLocked(ev)
	done := r.extended
	if e := done.Err; e != nil {
		return nil, &v1.Refused{Reason: refusals[e.Reason], Message: e.Message, RetryAfterUs: e.RetryAfter.Microseconds()}
	}
	if done.Added > 0 {
		r.had = done.Tasks
		r.once = r.once || slices.ContainsFunc(ev.Tasks, func(t frontend.Task) bool { return !t.Retryable })
		h.timedMore(&r.timed, h.core.Stages(id), done.Added)
	}
	return &v1.ExtendResponse{Tasks: int32(done.Tasks)}, nil
}

// growing is the record of a job that is to be added to, unless something is wrong with that. The mutex is held.
func (h *handler) growing(ctx context.Context, req *v1.ExtendRequest, id probe.JobID, wrong error) (r *record, err error) {
	tenant := ""
	defer func() { h.note(ctx, req.Caller, "extend", req.Handle.Job, tenant, err) }()
	if r = h.jobs[id]; r == nil || r.over && !r.moved {
		return nil, refuse(v1.RefusedReason_UNKNOWN_JOB, "job %v is not under way here: it has ended, and is added to no more; submit another one, or have the next one open", id)
	}
	tenant = r.timed.tenant
	if r.moved {
		return nil, refuse(v1.RefusedReason_OWNER_LOST, "this frontend lost the job: resubmit what is unfinished under the same id to another one")
	}
	if r.run {
		return nil, refuse(v1.RefusedReason_INVALID, "job %v was given to Run, which has one answer: submit what is to be added to", id)
	}
	if refused := h.mayTouch(ctx, req.Caller, id, tenant); refused != nil {
		return nil, refused
	}
	if client := clientOf(ctx); client != nil && client.hungUp() {
		return nil, refuse(v1.RefusedReason_OWNER_LOST, "the connection is closed: the job is taken to have gone elsewhere")
	}
	if wrong != nil {
		return nil, refuse(v1.RefusedReason_INVALID, "%v", wrong)
	}
	return r, orNil(h.mayRun(tenant, req.Tasks))
}

// submit hands a client's job to the core, unless it has it already. If a is not nil, it is a Run, which is answered when
// the job is over, but not if there is an error.
func (h *handler) submit(ctx context.Context, caller *v1.Caller, in *v1.Job, client *clientConn, a *asker) (handle *v1.Handle, err error) {
	defer taken(ctx)
	if in != nil {
		defer func() { h.note(ctx, caller, "submit", in.Id, in.Tenant, err) }()
	}
	if in != nil {
		if refused := h.adopt(ctx, caller, in); refused != nil {
			return nil, refused
		}
	}
	job, err := h.parse(in)
	if err != nil {
		return nil, err
	}
	handle = &v1.Handle{Job: job.ID.String(), Owner: h.cfg.Advertise}
	now := time.Now()
	h.mu.Lock()
	defer h.unlock()
	if client != nil {
		h.goesOn(client)
	}
	if r := h.jobs[job.ID]; r != nil && !r.moved && job.Generation > 0 && !r.run && !h.core.Knows(job) {
		if err := h.mayTouch(ctx, caller, job.ID, r.timed.tenant); err != nil {
			return nil, err
		}
		h.stepLocked(frontend.Outdated{Job: job.ID})
	}
	if r := h.jobs[job.ID]; r != nil && !r.moved {
		if err := h.mayTouch(ctx, caller, job.ID, r.timed.tenant); err != nil {
			return nil, err
		}
		switch {
		case a == nil && r.over && !r.run:
			h.endLate(r, job.Tasks)
		case a == nil:
		case !r.run:
			return nil, refuse(v1.RefusedReason_INVALID, "job %v was submitted before: ask for its events", r.id)
		default:
			r.client = client // it asks again, and may have closed the connection on which it did before
			h.ask(r, *a)
		}
		return handle, nil
	}
	if h.ctx.Err() != nil {
		return nil, refuse(v1.RefusedReason_DRAINING, "this frontend has closed: use another one")
	}
	if job.Generation > 0 && client != nil && client.hungUp() {
		return nil, refuse(v1.RefusedReason_OWNER_LOST, "the connection is closed: the job is taken to have gone elsewhere")
	}
	r := newRecord(job, in.Phases, now)
	r.client = client
	h.timedJob(&r.timed, job, now)
	if a != nil {
		r.run, r.answer = true, frame.NewRunAnswer(handle, len(job.Tasks))
		h.ask(r, *a)
	}
	h.jobs[job.ID] = r
	h.stepLocked(frontend.Submit{Job: job})
	r.timed.lead = h.stepped.Sub(now)
	if e := r.refused; e != nil {
		return nil, &v1.Refused{Reason: refusals[e.Reason], Message: e.Message, RetryAfterUs: e.RetryAfter.Microseconds()}
	}
	if !r.over {
		h.recorder.open.add(r)
	}
	return handle, nil
}

var refusals = [...]v1.RefusedReason{
	frontend.Invalid: v1.RefusedReason_INVALID, frontend.TooBigJob: v1.RefusedReason_TOO_LARGE,
	frontend.NoSuchWorker: v1.RefusedReason_NO_WORKER, frontend.Overloaded: v1.RefusedReason_OVERLOADED,
	frontend.Leaving: v1.RefusedReason_DRAINING,
}

// owner is the frontend that a resubmitted job belongs to, if that is another one and it still has it.
func (h *handler) owner(ctx context.Context, caller *v1.Caller, job *v1.Job) *peer {
	if job.Resubmission == nil || forwarded(caller) || job.Resubmission.PreviousOwner == h.cfg.Advertise {
		return nil
	}
	p := h.peers.get(job.Resubmission.PreviousOwner)
	if p == nil || !p.owns(ctx, job.Id) {
		return nil
	}
	h.metrics.forwarded.Inc()
	taken(ctx)
	return p
}

// ownerOf is the frontend that a handle names, or nil if it is this one.
func (h *handler) ownerOf(caller *v1.Caller, handle *v1.Handle) (*peer, error) {
	if handle.Owner == h.cfg.Advertise || handle.Owner == "" || forwarded(caller) {
		return nil, nil
	}
	p := h.peers.get(handle.Owner)
	if p == nil {
		return nil, refuse(v1.RefusedReason_OWNER_LOST, "the job's owner %q is not among the frontends that this one knows: call the owner itself, or resubmit what is unfinished under the same id", handle.Owner)
	}
	h.metrics.forwarded.Inc()
	return p, nil
}

// lostOwner turns a failure to reach a job's owner into what clients understand.
func lostOwner(owner string, err error) error {
	if err == nil {
		return nil
	}
	var refused *v1.Refused
	if errors.As(err, &refused) {
		return refused
	}
	return refuse(v1.RefusedReason_OWNER_LOST, "the job's owner %s does not answer (%v): resubmit what is unfinished under the same id", owner, err)
}

func forwarded(c *v1.Caller) bool { return c != nil && c.Forwarded }
