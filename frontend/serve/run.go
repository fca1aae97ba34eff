package serve

import (
	"context"
	"errors"
	"slices"

	"github.com/phoebe-sched/phoebe/frontend/frame"
	"github.com/phoebe-sched/phoebe/idl/gen/phoebe/v1"
)

// The goroutine that notes the end of a job answers the job's Runs. Most often that goroutine has just read the last
// result. If a goroutine waited for the job instead, it would have to be woken, perhaps on another thread, and the
// wake-up would cost more than all the rest.

// waitingRun is a call of Run without an answer yet.
type waitingRun struct {
	conn *clientConn // owes the answer
	seq  int32
}

// isGone reports whether the client has hung up.
func (a waitingRun) isGone() bool { return a.conn.isGone() }

// reply is an answer to be written.
type reply struct {
	conn  *clientConn
	frame []byte
}

// runJob carries out a Run. The answer is written later, when the job has ended.
func (h *handler) runJob(ctx context.Context, client *clientConn, seq int32, req *v1.RunRequest) {
	client.noteOwed()
	owner, err := h.previousOwner(ctx, req.Caller, req.Job)
	if err != nil {
		client.writeAnswer(thrownFrame(seq, err))
		return
	}
	if owner != nil {
		// Beyond this call, Kitex and the visitor serve the connection's next call.
		ctx := context.WithValue(h.ctx, visitorKey{}, &visitor{client: client, caller: callerOf(ctx)})
		go forwardRun(ctx, client, seq, req, owner) // and the reader goes on, and finds out if the client hangs up
		return
	}
	if _, err := h.submitJob(ctx, req.Caller, req.Job, client, &waitingRun{client, seq}); err != nil {
		client.writeAnswer(thrownFrame(seq, err))
	}
}

// forwardRun has owner carry out a Run, and answers. If the client hangs up, the owner's connection is closed, and the
// owner gives up the job as if the client had called there.
func forwardRun(ctx context.Context, client *clientConn, seq int32, req *v1.RunRequest, owner *peer) {
	ctx, end := client.untilHangUp(ctx)
	defer end()
	res, err := owner.Run(ctx, req)
	if err != nil {
		client.writeAnswer(thrownFrame(seq, err))
		return
	}
	answer := frame.NewRunAnswer(res.Handle, len(res.Outcomes))
	for _, o := range res.Outcomes {
		answer.Add(o)
	}
	answer.End()
	client.writeAnswer(answer.FrameFor(seq))
}

// thrownFrame returns the frame by which a Run throws err.
func thrownFrame(seq int32, err error) []byte {
	var r *v1.Refused
	if !errors.As(err, &r) {
		r = newRefused(v1.RefusedReason_INVALID, "%v", err)
	}
	h := frame.Head{Method: []byte("Run"), Seq: seq}
	return h.Refusal(r)
}

// answerWhenEnded answers a Run as soon as its job has ended, or now.
func (s *Server) answerWhenEnded(r *clientJob, a waitingRun) {
	if r.ended {
		s.queueReply(r, a)
	} else {
		r.waitingRuns = append(slices.DeleteFunc(r.waitingRuns, waitingRun.isGone), a)
	}
}

// answerRuns answers the Runs of a job that has ended.
func (s *Server) answerRuns(r *clientJob) {
	if r.runAnswer != nil {
		at := r.endedAt.Sub(r.receivedAt).Microseconds()
		for _, o := range r.outcomes {
			o.Phases.DeliveredUs = at
			r.runAnswer.Add(o)
		}
		r.runAnswer.End()
		r.bytes, r.outcomes = r.runAnswer.Len(), nil
	} else {
		r.bytes = 0 // the job must stay known, because its tasks have run
	}
	for _, a := range r.waitingRuns {
		s.queueReply(r, a)
	}
	r.waitingRuns = nil
}

// newRefusedTooLarge refuses to answer with the results of a Run, which were dropped. Tasks that may start only once
// do not run again.
func (s *Server) newRefusedTooLarge(r *clientJob) *v1.Refused {
	advice := "use Submit and Events"
	if r.hasOnceTasks {
		advice = "use Submit and Events under another id, and see that its tasks may run again, because they have run"
	}
	refusal := newRefused(v1.RefusedReason_TOO_LARGE, "the results have %d bytes, Run answers with at most %d: %s",
		r.tooLargeBytes, s.cfg.MaxRunResult, advice)
	started := true
	refusal.Started = &started
	return refusal
}

// queueReply makes the answer to a Run of an ended job. The answer is written as soon as the mutex is free.
func (s *Server) queueReply(r *clientJob, a waitingRun) {
	var b []byte
	switch {
	case r.moved:
		b = thrownFrame(a.seq, newRefusedMoved())
	case r.tooLargeBytes > 0:
		b = thrownFrame(a.seq, s.newRefusedTooLarge(r))
	default:
		b = r.runAnswer.FrameFor(a.seq)
	}
	s.noteAnswered(r, r.endedAt)
	a.conn.lastAnswered = r.id
	s.replies = append(s.replies, reply{a.conn, b})
}

// noteOwed notes that the client waits for the answer to a Run.
func (c *clientConn) noteOwed() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.owesAnswer = true
}

// writeAnswer writes the answer to a Run: at once as far as the connection takes it, then in the background.
func (c *clientConn) writeAnswer(b []byte) {
	c.usedAt.Store(monotonicNow())
	b = b[c.Conn.TryWrite(b):]
	if len(b) == 0 {
		c.noteWritten()
		return
	}
	go func() {
		if _, err := c.writePieces(b); err != nil {
			c.Close()
		}
		c.noteWritten()
	}()
}

// noteWritten notes that the answer to a Run has been written.
func (c *clientConn) noteWritten() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.owesAnswer = false
	c.answerCount.Add(1)
	c.settled.Broadcast()
}

// awaitSettled waits until no answer is owed, or the connection is closed. It reports whether an answer was owed.
func (c *clientConn) awaitSettled() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	owed := c.owesAnswer
	for c.owesAnswer && !c.closed.Load() {
		c.settled.Wait()
	}
	return owed
}

// isWaiting reports whether the client waits for an answer, or for the rest of an answer.
func (c *clientConn) isWaiting() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.owesAnswer || !c.reading.Load()
}
