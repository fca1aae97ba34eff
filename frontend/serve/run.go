package serve

import (
	"context"
	"errors"
	"time"

	"github.com/phoebe-sched/phoebe/frontend/frame"
	"github.com/phoebe-sched/phoebe/idl/gen/phoebe/v1"
)

// A Run is answered by the goroutine that finds its job over, most often the one that has read the last result: another one,
// which waits for it, would have to be woken, perhaps on another thread, and that costs more than all the rest.

// asker is a call of Run that waits for its answer.
type asker struct {
	conn *clientConn // which owes it
	seq  int32
}

// reply is an answer to be written.
type reply struct {
	conn  *clientConn
	frame []byte
}

// run carries out a Run, but for the answer, which is written when the job is over.
func (h *handler) run(ctx context.Context, client *clientConn, seq int32, req *v1.RunRequest) {
	client.owe()
	if owner := h.owner(ctx, req.Caller, req.Job); owner != nil {
		res, err := owner.Run(ctx, req)
		if err != nil {
			client.pay(thrown(seq, err))
			return
		}
		answer := frame.NewRunAnswer(res.Handle, len(res.Outcomes))
		for _, o := range res.Outcomes {
			answer.Add(o)
		}
		answer.End()
		client.pay(answer.To(seq))
		return
	}
	if _, err := h.submit(ctx, req.Caller, req.Job, client, &asker{client, seq}); err != nil {
		client.pay(thrown(seq, err))
	}
}

// thrown is the frame by which a Run throws err.
func thrown(seq int32, err error) []byte {
	var r *v1.Refused
	if !errors.As(err, &r) {
		r = refuse(v1.RefusedReason_INVALID, "%v", err)
	}
	h := frame.Head{Method: []byte("Run"), Seq: seq}
	return h.Refusal(r)
}

// ask has a Run answered when its job is over.
func (s *Server) ask(r *record, a asker) {
	if r.over {
		s.reply(r, a)
	} else {
		r.askers = append(r.askers, a)
	}
}

// endRun answers the Runs of a job that is over.
func (s *Server) endRun(r *record) {
	if r.answer != nil {
		at := r.endedAt.Sub(r.received).Microseconds()
		for _, o := range r.outcomes {
			o.Phases.DeliveredUs = at
			r.answer.Add(o)
		}
		r.answer.End()
		r.bytes, r.outcomes = r.answer.Len(), nil
	} else {
		r.bytes = 0 // the record must stay: the tasks have run
	}
	for _, a := range r.askers {
		s.reply(r, a)
	}
	r.askers = nil
}

// reply has the answer to a Run written as soon as the mutex is free. Its job is over.
func (s *Server) reply(r *record, a asker) {
	var b []byte
	switch {
	case r.moved:
		b = thrown(a.seq, refuse(v1.RefusedReason_OWNER_LOST, "this frontend lost the job: resubmit what is unfinished under the same id to another one"))
	case r.tooLarge > 0:
		b = thrown(a.seq, refuse(v1.RefusedReason_TOO_LARGE, "the results have %d bytes, Run answers with at most %d: use Submit and Events", r.tooLarge, s.cfg.MaxRunResult))
	default:
		b = r.answer.To(a.seq)
	}
	s.answer(r, r.endedAt)
	a.conn.answered = r.id
	s.replies = append(s.replies, reply{a.conn, b})
}

// owe notes that the client waits for the answer to a Run.
func (c *clientConn) owe() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.owes = true
}

// pay writes the answer to a Run: at once as far as the connection takes it, then in the background.
func (c *clientConn) pay(b []byte) {
	c.used.Store(monotonic())
	b = b[c.Conn.TryWrite(b):]
	if len(b) == 0 {
		c.paid()
		return
	}
	go func() {
		const piece = 256 << 10
		for len(b) > 0 && !c.closed.Load() {
			c.SetWriteDeadline(time.Now().Add(writeTimeout))
			n, err := c.Conn.Write(b[:min(len(b), piece)])
			if b = b[n:]; err != nil {
				c.Close()
			}
		}
		c.SetWriteDeadline(time.Time{})
		c.paid()
	}()
}

func (c *clientConn) paid() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.owes = false
	c.answers.Add(1)
	c.settled.Broadcast()
}

// settle waits until no answer is owed, or the connection is closed. It reports whether one was.
func (c *clientConn) settle() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	owed := c.owes
	for c.owes && !c.closed.Load() {
		c.settled.Wait()
	}
	return owed
}

// waits reports whether the client waits for an answer, or for the rest of one.
func (c *clientConn) waits() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.owes || !c.reading.Load()
}
