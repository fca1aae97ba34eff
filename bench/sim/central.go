package sim

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/phoebe-sched/phoebe/frontend"
	"github.com/phoebe-sched/phoebe/probe"
	"github.com/phoebe-sched/phoebe/probe/pq"
)

// central is a scheduler with one queue for all workers. The oldest task goes to the fastest worker with a free
// slot, as far as the workers' messages have told. A decision takes cost, one decision after another, so no more
// than 1/cost tasks a second can start.
type central struct {
	id          probe.FrontendID
	cost        time.Duration // of a decision
	speeds      []float64     // by worker; nil: not known, and taken as equal
	workers     []*centralWorker
	idle        pq.Heap[*centralWorker] // workers with free slots
	waiting     []centralTask           // first come, first served, from head on
	head        int
	decisionDue time.Time // when the decision on the first waiting task is made; zero: no decision is under way
	seq         uint64
}

// centralTask is a waiting task.
type centralTask struct {
	job  *frontend.Job
	task *frontend.Task
}

// centralWorker is the scheduler's belief of a worker.
type centralWorker struct {
	key       frontend.Worker
	speed     float64
	freeSlots int
	nextRes   probe.ResID
	acks      []probe.AttemptID
	runs      map[probe.AttemptID]probe.JobID
	pos       int
}

func (w *centralWorker) Before(v *centralWorker) bool {
	if w.speed != v.speed {
		return w.speed > v.speed
	}
	return w.key < v.key
}

func (w *centralWorker) Pos() *int { return &w.pos }

// newOmniscient makes the ideal: a central queue that needs no time, and knows the speeds of workers.
func newOmniscient(_ *Config, speeds []float64, f frontend.Config, _ *rand.Rand) scheduler {
	return &central{id: f.ID, speeds: speeds}
}

// newCentralized makes a central queue with a cost for each decision. Its messages take time on the network.
func newCentralized(cfg *Config, _ []float64, f frontend.Config, _ *rand.Rand) scheduler {
	return &central{id: f.ID, cost: cfg.DecisionCost}
}

// Step implements scheduler.
func (c *central) Step(now time.Time, ev frontend.Event, acts []frontend.Action) []frontend.Action {
	switch ev := ev.(type) {
	case frontend.Submit:
		for i := range ev.Job.Tasks {
			c.waiting = append(c.waiting, centralTask{ev.Job, &ev.Job.Tasks[i]})
		}
	case frontend.WorkerUp:
		w := &centralWorker{key: ev.Worker, speed: 1, freeSlots: probe.Slot.Times(ev.Welcome.Capacity), nextRes: 1,
			runs: map[probe.AttemptID]probe.JobID{}}
		if c.speeds != nil {
			w.speed = c.speeds[ev.Worker]
		}
		for int(ev.Worker) >= len(c.workers) {
			c.workers = append(c.workers, nil)
		}
		c.workers[ev.Worker] = w
		c.idle.Push(w)
	case frontend.Frame:
		for _, msg := range ev.Msgs {
			if m, ok := msg.(*probe.Finished); ok {
				acts = c.handleFinished(c.workers[ev.Worker], m, acts)
			}
		}
	}
	return c.placeWaiting(now, acts)
}

// placeWaiting places tasks while a task waits, a slot is free and a decision is made.
func (c *central) placeWaiting(now time.Time, acts []frontend.Action) []frontend.Action {
	for c.head < len(c.waiting) && c.idle.Len() > 0 {
		if c.cost > 0 {
			if c.decisionDue.IsZero() {
				c.decisionDue = now.Add(c.cost)
			}
			if now.Before(c.decisionDue) {
				return acts
			}
			c.decisionDue = time.Time{}
		}
		t := c.waiting[c.head]
		c.waiting[c.head] = centralTask{}
		if c.head++; c.head > 1000 && c.head > len(c.waiting)/2 {
			c.waiting, c.head = c.waiting[:copy(c.waiting, c.waiting[c.head:])], 0
		}
		acts = c.placeTask(t, c.idle.Min(), acts)
	}
	return acts
}

// placeTask sends t to w, and takes a slot of w.
func (c *central) placeTask(t centralTask, w *centralWorker, acts []frontend.Action) []frontend.Action {
	if w.freeSlots--; w.freeSlots == 0 {
		c.idle.Remove(w)
	}
	c.seq++
	id := probe.AttemptID{Frontend: c.id, Seq: c.seq}
	w.runs[id] = t.job.ID
	acts = append(acts, frontend.Send{Worker: w.key, Msg: probe.Enqueue{
		Res: w.nextRes, Job: t.job.ID, Tenant: t.job.Tenant, Priority: t.job.Priority, Demand: probe.Slot,
		Launch: probe.Launch{Attempt: id, Task: t.task.Index, Function: t.task.Function, Payload: t.task.Payload,
			Estimate: t.task.Estimate},
	}})
	w.nextRes++
	return acts
}

// handleFinished frees a slot of w, and returns the outcome to the client.
func (c *central) handleFinished(w *centralWorker, m *probe.Finished, acts []frontend.Action) []frontend.Action {
	if job, ok := w.runs[m.Attempt]; !ok || job != m.Job {
		return acts // a repeated message
	}
	delete(w.runs, m.Attempt)
	if w.freeSlots++; w.freeSlots == 1 {
		c.idle.Push(w)
	}
	const batch = 16
	if w.acks = append(w.acks, m.Attempt); len(w.acks) == batch {
		acts = append(acts, frontend.Send{Worker: w.key, Msg: probe.Ack{Attempts: w.acks}})
		w.acks = nil
	}
	return append(acts, &frontend.Done{Job: m.Job, Outcome: frontend.Outcome{Task: m.Task, Kind: frontend.Result,
		Result: m.Result, Run: m.Run}})
}

// NextWake implements scheduler.
func (c *central) NextWake() time.Time { return c.decisionDue }

// Check implements scheduler.
func (c *central) Check() error {
	for _, w := range c.workers {
		if w != nil && (w.freeSlots < 0 || (w.freeSlots > 0) != (w.pos > 0)) {
			return fmt.Errorf("worker %d has %d free slots, idle: %t", w.key, w.freeSlots, w.pos > 0)
		}
	}
	return nil
}
