package serve

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/cloudwego/kitex/client/callopt"

	"github.com/phoebe-sched/phoebe/frontend"
	"github.com/phoebe-sched/phoebe/frontend/frame"
	"github.com/phoebe-sched/phoebe/idl/gen/phoebe/v1"
	"github.com/phoebe-sched/phoebe/probe"
)

// handler answers the calls of the API, after the gate has admitted them.
type handler struct{ *Server }

// newRefused makes the refusal of a call.
func newRefused(reason v1.RefusedReason, format string, args ...any) *v1.Refused {
	return &v1.Refused{Reason: reason, Message: fmt.Sprintf(format, args...)}
}

// Run implements the API. Kitex never calls Run, because the gate hands Run calls to runJob.
func (h *handler) Run(context.Context, *v1.RunRequest) (*v1.RunResponse, error) {
	return nil, errors.ErrUnsupported
}

// Submit implements the API.
func (h *handler) Submit(ctx context.Context, req *v1.SubmitRequest) (*v1.SubmitResponse, error) {
	if owner, err := h.previousOwner(ctx, req.Caller, req.Job); owner != nil || err != nil {
		if err != nil {
			return nil, err
		}
		return owner.Submit(ctx, req)
	}
	if home := h.findHome(req.Caller, req.Job); home != nil {
		caller := req.Caller
		if res, err := home.Submit(ctx, req); err == nil || !mayTryElsewhere(err) {
			return res, err
		}
		req.Caller = caller
	}
	if isInParts(req.Job) {
		if whole, err := h.addPart(ctx, req); err != nil || !whole {
			return &v1.SubmitResponse{Handle: &v1.Handle{Job: req.Job.Id, Owner: h.cfg.Advertise}}, err
		}
	}
	handle, err := h.submitJob(ctx, req.Caller, req.Job, clientOf(ctx), nil)
	if err != nil {
		return nil, err
	}
	res := &v1.SubmitResponse{Handle: handle}
	if req.Job.Shared {
		res.AgeUs = h.ageOf(handle.Job).Microseconds()
	}
	return res, nil
}

// ageOf returns the time since the first submission of a job that is here.
func (h *handler) ageOf(job string) time.Duration {
	id, err := probe.ParseJobID(job)
	if err != nil {
		return 0
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if r := h.jobs[id]; r != nil {
		return time.Since(r.firstSubmittedAt)
	}
	return 0
}

// maxEventsWait bounds the wait of a call of Events for news.
const maxEventsWait = time.Minute

// Events implements the API. Each round of the loop looks at the job with the mutex held. If there is no outcome to
// return, the call waits for a change, unlocked, until the client's MaxWait has passed. Then the answer is empty.
func (h *handler) Events(ctx context.Context, req *v1.EventsRequest) (*v1.EventsResponse, error) {
	if owner, err := h.findOwner(req.Caller, req.Handle); owner != nil || err != nil {
		if err != nil {
			return nil, err
		}
		ctx, end := clientOf(ctx).untilHangUp(ctx)
		defer end()
		return owner.Events(ctx, req)
	}
	id, err := probe.ParseJobID(req.Handle.Job)
	if err != nil {
		return nil, newRefused(v1.RefusedReason_INVALID, "%v", err)
	}
	most := int(req.MaxEvents)
	if most <= 0 || most > 1000 {
		most = 1000
	}
	until := time.NewTimer(min(max(fromMicros(req.MaxWaitUs), 0), maxEventsWait))
	defer until.Stop()
	client := clientOf(ctx)
	hungUp, end := client.untilHangUp(ctx)
	defer end()
	isGone := client.isGone()

	h.mu.Lock()
	defer h.unlockAndFlush()
	var r *clientJob
	for expired := false; ; {
		latest := h.jobs[id]
		switch {
		case latest == nil:
			return nil, newRefused(v1.RefusedReason_UNKNOWN_JOB,
				"job %v is not known here: it ended long ago, or the frontend was restarted; resubmit its unfinished "+
					"tasks under the same id", id)
		case latest.moved || r != nil && r != latest: // the job left; perhaps it came back while the call waited
			return nil, newRefusedMoved()
		case isGone: // the job may have left and come back since the client hung up
			return nil, newRefusedHungUp()
		}
		r = latest
		err := h.whyRevoked(ctx)
		if err == nil {
			err = h.whyMayNotTouch(ctx, req.Caller, id, r.timing.tenant)
		}
		if err != nil {
			h.auditCall(ctx, req.Caller, "events", req.Handle.Job, r.timing.tenant, err)
			return nil, err
		}
		if req.OnlyAsk {
			return &v1.EventsResponse{Events: []*v1.Event{}, Cursor: req.Cursor}, nil
		}
		h.auditEvents(ctx, req.Caller, r)
		now := time.Now()
		if !r.isRun || req.MaxWaitUs > 0 { // frontends of version 0.1.0 look for a Run without OnlyAsk
			r.polledAt = now
		}
		if !req.Follow {
			r.submitterPolledAt = now
		}
		// If the submitter has gone, a follower acknowledges in its place.
		isAck := !req.Follow || now.Sub(r.submitterPolledAt) > h.cfg.ClientGrace
		if r.ended && r.tooLargeBytes > 0 {
			return nil, h.newRefusedTooLarge(r)
		}
		if req.Cursor > r.lastCursor() {
			return nil, newRefused(v1.RefusedReason_OWNER_LOST,
				"cursor %d is not of this frontend, which has outcomes up to %d: the job was elsewhere meanwhile; resubmit "+
					"its unfinished tasks under the same id", req.Cursor, r.lastCursor())
		}
		var batch []*v1.Outcome
		var next int64
		var done bool
		if r.isRun { // the answer to Run delivers the outcomes, and this call delivers nothing
			batch, next, done = r.peekOutcomes(req.Cursor, most)
		} else {
			var delivered []frontend.Receipt
			batch, next, delivered, done = r.fetchOutcomes(req.Cursor, most, isAck, now)
			h.countFetched(r)
			if h.countUnread(r); len(delivered) > 0 {
				h.stepLocked(frontend.Delivered{Receipts: delivered})
			}
		}
		if len(batch) > 0 || done || expired {
			if done && isAck && !r.inEndedList { // this answer has the last outcomes, so the job may be forgotten
				h.addToEnded(r)
				h.noteAnswered(r, now)
			}
			events := make([]*v1.Event, len(batch))
			for i, o := range batch {
				events[i] = &v1.Event{Outcome: o}
			}
			return &v1.EventsResponse{Events: events, Cursor: next, Done: done, Tasks: int32(r.totalTasks)}, nil
		}
		if r.changed == nil {
			r.changed = make(chan struct{})
		}
		changed := r.changed
		r.waitingPolls = append(r.waitingPolls, client)
		h.unlockAndFlush()
		select {
		case <-changed:
		case <-until.C:
			expired = true
		case <-hungUp.Done():
		}
		isGone = client.isGone()
		h.mu.Lock()
		i := slices.Index(r.waitingPolls, client)
		r.waitingPolls = slices.Delete(r.waitingPolls, i, i+1)
	}
}

// newRefusedMoved refuses a call about a job that is another frontend's by now, or was meanwhile.
func newRefusedMoved() *v1.Refused {
	return newRefused(v1.RefusedReason_OWNER_LOST,
		"this frontend lost the job: resubmit its unfinished tasks under the same id to another frontend")
}

// newRefusedHungUp refuses a call whose connection is closed.
func newRefusedHungUp() *v1.Refused {
	return newRefused(v1.RefusedReason_OWNER_LOST,
		"the connection is closed: the client may have taken the job elsewhere")
}

// Cancel implements the API.
func (h *handler) Cancel(ctx context.Context, req *v1.CancelRequest) (*v1.CancelResponse, error) {
	cancelAt := func(ctx context.Context, p *peer, within callopt.Option) (*v1.CancelResponse, error) {
		ask := *req
		ask.Caller, ask.Frontend = p.newCaller(ctx), ""
		return p.client.Cancel(ctx, &ask, within)
	}
	if req.Frontend != "" && !h.isThisFrontend(req.Frontend) {
		return forwardTo(ctx, h, req.Caller, req.Frontend, cancelAt)
	}
	cancelHere := func() (*v1.CancelResponse, error) {
		h.mu.Lock()
		defer h.unlockAndFlush()
		r, err := h.findToCancel(ctx, req.Caller, "cancel", req.Handle)
		if err != nil {
			return nil, err
		}
		unfinished := r.unfinished
		h.stepLocked(frontend.Cancel{Job: r.id, Reason: cmp.Or(req.Reason, defaultCancelReason)})
		return &v1.CancelResponse{Cancelled: int32(unfinished)}, nil
	}
	if req.Frontend != "" {
		return cancelHere()
	}
	return h.cancelAtOwner(ctx, req.Caller, req.Handle, cancelHere, cancelAt)
}

// CancelTasks implements the API.
func (h *handler) CancelTasks(ctx context.Context, req *v1.CancelTasksRequest) (*v1.CancelResponse, error) {
	return h.cancelAtOwner(ctx, req.Caller, req.Handle, func() (*v1.CancelResponse, error) {
		tasks := make([]probe.TaskIndex, len(req.Tasks))
		for i, index := range req.Tasks {
			tasks[i] = probe.TaskIndex(index)
		}
		h.mu.Lock()
		defer h.unlockAndFlush()
		r, err := h.findToCancel(ctx, req.Caller, "cancel tasks", req.Handle)
		if err != nil {
			return nil, err
		}
		unfinished := r.unfinished
		h.stepLocked(frontend.CancelTasks{Job: r.id, Tasks: tasks, Reason: cmp.Or(req.Reason, defaultCancelReason)})
		return &v1.CancelResponse{Cancelled: int32(unfinished - r.unfinished)}, nil
	}, func(ctx context.Context, p *peer, within callopt.Option) (*v1.CancelResponse, error) {
		ask := *req
		ask.Caller = p.newCaller(ctx)
		return p.client.CancelTasks(ctx, &ask, within)
	})
}

// cancelAtOwner cancels a job, or some of its tasks, at the frontend that has the job: by cancelHere at this frontend,
// or by cancelAt at a peer. The owner in the handle is asked first. If the handle has no owner, or the owner does not
// answer or no longer has the job, all frontends are asked.
func (h *handler) cancelAtOwner(ctx context.Context, caller *v1.Caller, handle *v1.Handle,
	cancelHere func() (*v1.CancelResponse, error),
	cancelAt func(context.Context, *peer, callopt.Option) (*v1.CancelResponse, error)) (*v1.CancelResponse, error) {
	if isForwarded(caller) {
		return cancelHere()
	}
	owner, lost := h.findOwner(caller, handle)
	if owner != nil {
		res, err := callPeer(ctx, owner, 3*ownerTimeout, cancelAt)
		if lost = ownerLostError(owner.addr, err); !isElsewhere(lost) {
			return res, lost
		}
	}
	if res, err := cancelHere(); !isElsewhere(err) {
		return res, err
	}
	silent := "" // names the peers without an answer
	var refused *v1.Refused
	for _, a := range askAllPeers(ctx, h, caller, cancelAt) {
		switch {
		case a.res != nil:
			return a.res, nil
		case a.refused != nil:
			refused = a.refused
		case a.err != "":
			silent += "; frontend " + a.peer.displayName() + " does not answer: " + a.err
		}
	}
	if refused != nil { // the caller has no right to cancel the job
		return nil, refused
	}
	if errors.As(lost, &refused) && refused.Reason == v1.RefusedReason_OWNER_LOST {
		return nil, newRefused(refused.Reason, "%s%s", refused.Message, silent)
	}
	return nil, newRefused(v1.RefusedReason_UNKNOWN_JOB,
		"job %s is not known here, nor at another frontend that answers: it has ended, or never came%s", handle.Job,
		silent)
}

// isElsewhere reports whether a frontend refused a call about a job that another frontend may have.
func isElsewhere(err error) bool {
	var refused *v1.Refused
	return errors.As(err, &refused) &&
		(refused.Reason == v1.RefusedReason_UNKNOWN_JOB || refused.Reason == v1.RefusedReason_OWNER_LOST)
}

// defaultCancelReason is the reason if the client gives none.
const defaultCancelReason = "cancelled by its client"

// findToCancel returns the job of handle, for a call to cancel the job or some tasks. It refuses callers without
// the right to do so. action names the call in the audit log. The mutex is held.
func (h *handler) findToCancel(ctx context.Context, caller *v1.Caller, action string,
	handle *v1.Handle) (*clientJob, error) {
	id, err := probe.ParseJobID(handle.Job)
	if err != nil {
		return nil, newRefused(v1.RefusedReason_INVALID, "%v", err)
	}
	r := h.jobs[id]
	if r == nil || r.moved {
		return nil, newRefused(v1.RefusedReason_UNKNOWN_JOB,
			"job %v is not known here: it has ended, or belongs to another frontend, the owner in its handle", id)
	}
	err = orNil(h.whyMayNotTouch(ctx, caller, id, r.timing.tenant))
	h.auditCall(ctx, caller, action, handle.Job, r.timing.tenant, err)
	return r, err
}

// Extend implements the API.
func (h *handler) Extend(ctx context.Context, req *v1.ExtendRequest) (res *v1.ExtendResponse, err error) {
	defer releaseRequestRoom(ctx)
	if owner, err := h.findOwner(req.Caller, req.Handle); owner != nil || err != nil {
		if err != nil {
			return nil, err
		}
		return owner.Extend(ctx, req)
	}
	id, err := probe.ParseJobID(req.Handle.Job)
	if err != nil {
		return nil, newRefused(v1.RefusedReason_INVALID, "%v", err)
	}
	h.mu.Lock()
	stages := h.core.Stages(id)
	h.mu.Unlock() // while a request of any size is parsed
	ev, parseErr := parseExtend(req, id, stages)
	h.mu.Lock()
	defer h.unlockAndFlush()
	h.sweepAfterPause(time.Now()) // or the step below would, and forget the job that was found
	r, err := h.findToExtend(ctx, req, id, parseErr)
	if err != nil {
		return nil, err
	}
	h.stepLocked(ev)
	extended := r.extended
	if e := extended.Err; e != nil {
		return nil, &v1.Refused{Reason: refusedReasons[e.Reason], Message: e.Message,
			RetryAfterUs: e.RetryAfter.Microseconds()}
	}
	if extended.Added > 0 {
		r.totalTasks = extended.Tasks
		r.hasOnceTasks = r.hasOnceTasks ||
			slices.ContainsFunc(ev.Tasks, func(t frontend.Task) bool { return !t.Retryable })
		h.recordExtension(&r.timing, h.core.Stages(id), extended.Added)
	}
	return &v1.ExtendResponse{Tasks: int32(extended.Tasks)}, nil
}

// findToExtend returns the job to which req adds tasks, or refuses the call. parseErr is the error of parsing req,
// or nil. The mutex is held.
func (h *handler) findToExtend(ctx context.Context, req *v1.ExtendRequest, id probe.JobID,
	parseErr error) (r *clientJob, err error) {
	tenant := ""
	defer func() { h.auditCall(ctx, req.Caller, "extend", req.Handle.Job, tenant, err) }()
	if r = h.jobs[id]; r == nil || r.ended && !r.moved {
		return nil, newRefused(v1.RefusedReason_UNKNOWN_JOB,
			"job %v is not under way here: it has ended, and no task can be added; submit another job, open if tasks "+
				"will follow", id)
	}
	tenant = r.timing.tenant
	if r.moved {
		return nil, newRefusedMoved()
	}
	if r.isRun {
		return nil, newRefused(v1.RefusedReason_INVALID,
			"job %v was given to Run, and such a job cannot grow: submit the job instead of running it", id)
	}
	if refused := h.whyMayNotTouch(ctx, req.Caller, id, tenant); refused != nil {
		return nil, refused
	}
	if clientOf(ctx).isGone() {
		return nil, newRefusedHungUp()
	}
	if parseErr != nil {
		return nil, newRefused(v1.RefusedReason_INVALID, "%v", parseErr)
	}
	return r, orNil(h.whyMayNotRun(tenant, req.Tasks))
}

// submitJob hands a client's job to the core, unless the core has the job already. If a is not nil, the call is a
// Run, and the answer is written when the job has ended. If submitJob returns an error, the caller writes the answer.
func (h *handler) submitJob(ctx context.Context, caller *v1.Caller, in *v1.Job, client *clientConn,
	a *waitingRun) (handle *v1.Handle, err error) {
	defer releaseRequestRoom(ctx)
	if in != nil {
		defer func() { h.auditCall(ctx, caller, "submit", in.Id, in.Tenant, err) }()
	}
	if in != nil {
		if refused := h.bindToTenant(ctx, caller, in); refused != nil {
			return nil, refused
		}
	}
	job, err := h.parseOrRefuse(in)
	if err != nil {
		return nil, err
	}
	job.Guarded = h.guardsJobs()
	handle = &v1.Handle{Job: job.ID.String(), Owner: h.cfg.Advertise}
	now := time.Now()
	h.mu.Lock()
	defer h.unlockAndFlush()
	h.sweepAfterPause(now)
	if client != nil {
		h.noteNextCall(client)
	}
	// The client took the job to another frontend and added tasks there: the job here is outdated.
	// With the first submission of a shared job, a client may join a job that another client submitted.
	joins := in.Shared && in.Resubmission != nil && in.Resubmission.PreviousOwner == ""
	if r := h.jobs[job.ID]; r != nil && !r.moved && job.Generation > 0 && !joins && !r.isRun &&
		!h.core.IsUpToDate(job) {
		if err := h.whyMayNotTouch(ctx, caller, job.ID, r.timing.tenant); err != nil {
			return nil, err
		}
		h.stepLocked(frontend.Outdated{Job: job.ID})
	}
	if r := h.jobs[job.ID]; r != nil && !r.moved {
		if err := h.whyMayNotTouch(ctx, caller, job.ID, r.timing.tenant); err != nil {
			return nil, err
		}
		// A Run whose results were too large was told to use Submit.
		if wasTooLarge := a == nil && r.isRun && r.ended && r.tooLargeBytes > 0; wasTooLarge && r.hasOnceTasks {
			return nil, h.newRefusedTooLarge(r)
		} else if wasTooLarge {
			h.ackReceipts(r)
			h.forgetJob(r)
		}
	}
	if r := h.jobs[job.ID]; r != nil && !r.moved {
		switch {
		case a == nil && r.ended && !r.isRun && !joins:
			h.endLateTasks(r, job.Tasks) // of tasks that the client has added at a peer
		case a == nil: // a repeated Submit, perhaps of another client
			r.polledAt, r.submitterPolledAt = now, now
		case !r.isRun:
			return nil, newRefused(v1.RefusedReason_INVALID, "job %v was submitted before: ask for its events", r.id)
		default:
			h.answerWhenEnded(r, *a) // a repeated Run; the client may have closed the first connection
		}
		return handle, nil
	}
	if h.ctx.Err() != nil {
		return nil, newRefused(v1.RefusedReason_DRAINING, "this frontend has closed: use another one")
	}
	if job.Generation > 0 && client.isGone() {
		return nil, newRefusedHungUp()
	}
	r := newClientJob(job, in.Phases, now)
	r.grace = max(h.cfg.ClientGrace, min(fromMicros(in.GraceUs), h.cfg.MaxGrace))
	if r.firstSubmittedAt = now.Add(-job.Age); in.Shared && a == nil {
		h.shareJob(r, in)
	}
	h.beginTiming(&r.timing, job, now)
	if a != nil {
		r.isRun, r.runAnswer, r.polledAt = true, frame.NewRunAnswer(handle, len(job.Tasks)), time.Time{}
		h.answerWhenEnded(r, *a)
	}
	h.jobs[job.ID] = r
	h.stepLocked(frontend.Submit{Job: job})
	r.timing.leadTime = h.steppedAt.Sub(now)
	if e := r.refused; e != nil {
		return nil, &v1.Refused{Reason: refusedReasons[e.Reason], Message: e.Message,
			RetryAfterUs: e.RetryAfter.Microseconds()}
	}
	if !r.ended {
		h.recorder.openJobs.addJob(r)
	}
	return handle, nil
}

var refusedReasons = [...]v1.RefusedReason{
	frontend.Invalid: v1.RefusedReason_INVALID, frontend.TooBigJob: v1.RefusedReason_TOO_LARGE,
	frontend.NoSuchWorker: v1.RefusedReason_NO_WORKER, frontend.Overloaded: v1.RefusedReason_OVERLOADED,
	frontend.Leaving: v1.RefusedReason_DRAINING,
}

// previousOwner returns the frontend that a resubmitted job belongs to, or nil. The result is nil if the owner is
// this frontend, does not answer or has lost the job. If the client names a frontend that is not known here, all
// others are asked. All others are asked for a shared job, too, because another client may have submitted the job
// there. A client of another tenant than the job's is refused.
func (h *handler) previousOwner(ctx context.Context, caller *v1.Caller, job *v1.Job) (*peer, error) {
	if job.Resubmission == nil || isForwarded(caller) {
		return nil, nil
	}
	var asked []*peer
	switch {
	case job.Shared && h.hasJob(job.Id):
		return nil, nil
	case job.Shared:
		asked = h.peers.listPresent()
	case job.Resubmission.PreviousOwner == h.cfg.Advertise:
		return nil, nil
	default:
		if asked = []*peer{h.peers.findPeer(job.Resubmission.PreviousOwner)}; asked[0] == nil {
			asked = h.peers.listPresent()
		}
	}
	// The first positive answer ends the search. Questions without an answer may outlast this call, and the visitor
	// then makes another call. So the questions get a visitor of their own.
	asking := context.WithValue(h.ctx, visitorKey{}, &visitor{client: clientOf(ctx), caller: callerOf(ctx)})
	owner, err := findAmongPeers(asking, asked, job.Id)
	if err != nil {
		h.auditCall(ctx, caller, "submit", job.Id, job.Tenant, err)
	}
	if owner != nil {
		h.metrics.forwarded.Inc()
		releaseRequestRoom(ctx)
	}
	return owner, err
}

// hasJob reports whether this frontend has the job.
func (h *handler) hasJob(job string) bool {
	id, err := probe.ParseJobID(job)
	if err != nil {
		return false
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	r := h.jobs[id]
	return r != nil && !r.moved
}

// findHome returns the home of a shared job that no frontend has yet: the peer that has to take the job, or nil for
// this frontend. If two clients submit the job at two frontends at the same moment, both frontends compute the same
// home from the id, as long as both know the same frontends.
func (h *handler) findHome(caller *v1.Caller, job *v1.Job) (home *peer) {
	if !job.Shared || job.Resubmission == nil || isForwarded(caller) || h.hasJob(job.Id) {
		return nil
	}
	highest := homeRank(h.cfg.Advertise, job.Id)
	for _, p := range h.peers.listPresent() {
		if rank := homeRank(p.addr, job.Id); rank > highest {
			home, highest = p, rank
		}
	}
	return home
}

// homeRank ranks a frontend as the home of a job (rendezvous hashing).
func homeRank(frontend, job string) uint64 {
	sum := sha256.Sum256([]byte(frontend + " " + job))
	return binary.BigEndian.Uint64(sum[:])
}

// mayTryElsewhere reports whether another frontend may take a job that the job's home refused.
func mayTryElsewhere(err error) bool {
	var refused *v1.Refused
	return errors.As(err, &refused) &&
		(refused.Reason == v1.RefusedReason_OWNER_LOST || refused.Reason == v1.RefusedReason_DRAINING)
}

// findOwner returns the peer that a handle names as owner, or nil if this frontend must answer the call. A call that
// another frontend has forwarded is answered here, so no call goes round in circles.
func (h *handler) findOwner(caller *v1.Caller, handle *v1.Handle) (*peer, error) {
	if handle.Owner == h.cfg.Advertise || handle.Owner == "" || isForwarded(caller) {
		return nil, nil
	}
	p := h.peers.findPeer(handle.Owner)
	if p == nil {
		return nil, newRefused(v1.RefusedReason_OWNER_LOST,
			"the job's owner %q is not among the frontends known here: call the owner itself, or resubmit the job's "+
				"unfinished tasks under the same id", handle.Owner)
	}
	h.metrics.forwarded.Inc()
	return p, nil
}

// ownerLostError turns a failure to reach a job's owner into a refusal for clients.
func ownerLostError(owner string, err error) error {
	if err == nil {
		return nil
	}
	var refused *v1.Refused
	if errors.As(err, &refused) {
		return refused
	}
	return newRefused(v1.RefusedReason_OWNER_LOST,
		"the job's owner %s does not answer (%v): resubmit the job's unfinished tasks under the same id", owner, err)
}

// isForwarded reports whether another frontend forwarded the call.
func isForwarded(c *v1.Caller) bool { return c != nil && c.Forwarded }
