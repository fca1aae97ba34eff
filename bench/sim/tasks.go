package sim

import (
	"encoding/binary"
	"slices"
	"time"

	"github.com/phoebe-sched/phoebe/frontend"
	"github.com/phoebe-sched/phoebe/probe"
	"github.com/phoebe-sched/phoebe/worker"
)

// sleepFunction is the function of simulated tasks. The payload is the run time, as payloadOf writes it.
const sleepFunction = "sleep"

// payloadOf returns the payload of a task that runs for d at nominal speed.
func payloadOf(d time.Duration) []byte {
	return binary.LittleEndian.AppendUint64(nil, uint64(d))
}

// durationOf returns the run time in a payload; 0 if the payload has none.
func durationOf(payload []byte) time.Duration {
	if len(payload) < 8 {
		return 0
	}
	return time.Duration(binary.LittleEndian.Uint64(payload))
}

// countMoves returns how often a task moved: the attempts withdrawn from queues, which do not count as attempts.
func countMoves(o *frontend.Outcome) int {
	moves := 0
	for i := range o.Earlier {
		if o.Earlier[i].End == frontend.EndMoved {
			moves++
		}
	}
	return moves
}

// execution is an attempt that runs.
type execution struct {
	start    worker.Start
	began    time.Duration
	duration time.Duration
	endedAt  time.Duration // when the run ended, if its worker had no time for the end at once; else 0
	stopping bool
	life     int32 // of its exit event: an exit scheduled in an earlier life is void
}

// stopDelay is the time that an executor needs to stop a task.
const stopDelay = 100 * time.Microsecond

// startExecution runs the task of s at w, and schedules the end of the run.
func (c *cluster) startExecution(w *workerNode, s worker.Start) {
	r := new(execution)
	if n := len(c.freeExecutions); n > 0 {
		r, c.freeExecutions = c.freeExecutions[n-1], c.freeExecutions[:n-1]
	}
	*r = execution{start: s, began: c.now, life: r.life}
	if c.currentTurn != nil {
		c.currentTurn.starts++
		r.began += c.cpu.Message * time.Duration(c.currentTurn.starts)
	}
	if c.onStart != nil {
		c.onStart(w, &r.start)
	}
	r.duration = time.Duration(float64(durationOf(s.Launch.Payload)) / w.speed)
	if c.readTime != nil {
		r.duration += c.readTime(w, &r.start)
	}
	if s.Launch.Timeout > 0 {
		r.duration = min(r.duration, s.Launch.Timeout)
	}
	w.running = append(w.running, r)
	c.exitAt(r.began+r.duration, w, r)
}

// exitAt schedules the end of a run, instead of an end scheduled before.
func (c *cluster) exitAt(at time.Duration, w *workerNode, r *execution) {
	r.life++
	c.schedule(at, event{kind: taskExits, w: w, content: r, life: r.life})
}

// endExecution tells the worker's core that r has ended.
func (c *cluster) endExecution(w *workerNode, r *execution) error {
	i := slices.Index(w.running, r)
	last := len(w.running) - 1
	w.running[i] = w.running[last]
	w.running[last] = nil
	w.running = w.running[:last]
	ended := c.now
	if r.endedAt > 0 {
		ended = r.endedAt
	}
	took := ended - r.began
	ev := &worker.Exited{Attempt: r.start.Launch.Attempt, Status: probe.Succeeded, Run: took}
	switch {
	case r.stopping:
		ev.Status = probe.Killed
	case r.start.Launch.Timeout > 0 && r.duration >= r.start.Launch.Timeout:
		ev.Status = probe.TimedOut
	}
	if c.onEnd != nil {
		c.onEnd(&r.start, ev)
	}
	r.life++
	c.freeExecutions = append(c.freeExecutions, r)
	return c.stepWorker(w, ev)
}
