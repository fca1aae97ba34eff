package sim

import (
	"fmt"
	"time"

	"github.com/phoebe-sched/phoebe/frontend"
	"github.com/phoebe-sched/phoebe/probe"
	"github.com/phoebe-sched/phoebe/probe/pq"
)

// brain is a rival's own rule. The rival's hand does everything else.
type brain interface {
	// addJob hears of a job whose tasks can run.
	addJob(j *handJob)
	// endRun hears of a run that has ended. The slot of w is free again.
	endRun(w *handWorker, r handRun)
	// checkState returns an error if the brain's state is broken.
	checkState() error
}

// hand is a scheduler that leaves the decisions to its brain. The hand knows every slot of every worker from the
// start, and keeps the runs, acknowledgements, outcomes and timers.
type hand struct {
	brain       brain
	id          probe.FrontendID
	answerAfter time.Duration // how long an outcome travels to its client
	workers     []*handWorker
	deciders    []*decider
	timers      pq.Heap[*handTimer]
	timerSeq    uint64
	attemptSeq  uint64
	now         time.Time
	acts        []frontend.Action
}

// handJob is a job at a hand.
type handJob struct {
	*frontend.Job
	own any // what the brain keeps of the job
}

// handTask is a task at a hand.
type handTask struct {
	job  *handJob
	task *frontend.Task
}

// handRun is a task that was sent to a worker, at began.
type handRun struct {
	handTask
	began time.Time
}

// handWorker is a worker, as far as the worker's messages have told.
type handWorker struct {
	key       frontend.Worker
	name      string
	slots     int
	freeSlots int // below 0: more tasks were sent than there are slots
	runs      map[probe.AttemptID]handRun
	nextRes   probe.ResID
	acks      []probe.AttemptID
}

// handTimer is something due to happen.
type handTimer struct {
	at  time.Time
	seq uint64
	fn  func()
	pos int
}

func (t *handTimer) Before(u *handTimer) bool {
	if !t.at.Equal(u.at) {
		return t.at.Before(u.at)
	}
	return t.seq < u.seq
}

func (t *handTimer) Pos() *int { return &t.pos }

// newHand makes a hand for a brain that the caller adds.
func newHand(cfg *Config, id probe.FrontendID) *hand {
	h := &hand{id: id, workers: make([]*handWorker, cfg.Workers)}
	for i := range h.workers {
		h.workers[i] = &handWorker{key: frontend.Worker(i), name: fmt.Sprint("w", i), slots: cfg.Slots,
			freeSlots: cfg.Slots, nextRes: 1, runs: map[probe.AttemptID]handRun{}}
	}
	return h
}

// Step implements scheduler.
func (h *hand) Step(now time.Time, ev frontend.Event, acts []frontend.Action) []frontend.Action {
	h.now, h.acts = now, acts
	switch ev := ev.(type) {
	case frontend.Submit:
		h.brain.addJob(&handJob{Job: ev.Job})
	case frontend.Frame:
		for _, msg := range ev.Msgs {
			if m, ok := msg.(*probe.Finished); ok {
				h.handleFinished(h.workers[ev.Worker], m)
			}
		}
	case frontend.Wake:
		for h.timers.Len() > 0 && !now.Before(h.timers.Min().at) {
			h.timers.Pop().fn()
		}
	}
	return h.acts
}

// startTask sends t to w, and takes a slot of w.
func (h *hand) startTask(w *handWorker, t handTask) {
	w.freeSlots--
	h.attemptSeq++
	id := probe.AttemptID{Frontend: h.id, Seq: h.attemptSeq}
	w.runs[id] = handRun{t, h.now}
	h.acts = append(h.acts, frontend.Send{Worker: w.key, Msg: probe.Enqueue{
		Res: w.nextRes, Job: t.job.ID, Tenant: t.job.Tenant, Priority: t.job.Priority, Demand: probe.Slot,
		Launch: probe.Launch{Attempt: id, Task: t.task.Index, Function: t.task.Function, Payload: t.task.Payload,
			Estimate: t.task.Estimate},
	}})
	w.nextRes++
}

// handleFinished frees a slot of w, returns the outcome to the client, and tells the brain.
func (h *hand) handleFinished(w *handWorker, m *probe.Finished) {
	r, ok := w.runs[m.Attempt]
	if !ok {
		return // a repeated message
	}
	delete(w.runs, m.Attempt)
	w.freeSlots++
	const batch = 16
	if w.acks = append(w.acks, m.Attempt); len(w.acks) == batch {
		h.acts = append(h.acts, frontend.Send{Worker: w.key, Msg: probe.Ack{Attempts: w.acks}})
		w.acks = nil
	}
	done := &frontend.Done{Job: m.Job, Outcome: frontend.Outcome{Task: m.Task, Kind: frontend.Result,
		Result: m.Result, Run: m.Run, Worker: w.name}}
	if h.answerAfter == 0 {
		h.acts = append(h.acts, done)
	} else {
		h.callAfter(h.answerAfter, func() { h.acts = append(h.acts, done) })
	}
	h.brain.endRun(w, r)
}

// callAfter lets fn happen after d.
func (h *hand) callAfter(d time.Duration, fn func()) {
	h.timerSeq++
	h.timers.Push(&handTimer{at: h.now.Add(d), seq: h.timerSeq, fn: fn})
}

// NextWake implements scheduler.
func (h *hand) NextWake() time.Time {
	if h.timers.Len() == 0 {
		return time.Time{}
	}
	return h.timers.Min().at
}

// Check implements scheduler.
func (h *hand) Check() error {
	for _, w := range h.workers {
		if w.freeSlots+len(w.runs) != w.slots {
			return fmt.Errorf("worker %d of %d slots has %d free and %d runs", w.key, w.slots, w.freeSlots, len(w.runs))
		}
	}
	return h.brain.checkState()
}
