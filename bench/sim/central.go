package sim

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/phoebe-sched/phoebe/frontend"
	"github.com/phoebe-sched/phoebe/probe/pq"
)

// central is a scheduler with one queue for all workers. The oldest task goes to the fastest worker with a free
// slot, as far as the workers' messages have told. A decision takes cost, one decision after another, so no more
// than 1/cost tasks a second can start.
type central struct {
	*hand
	cost     time.Duration // of a decision
	decider  *decider
	deciding bool                    // on the first waiting task
	idle     pq.Heap[*centralWorker] // workers with free slots
	workers  []*centralWorker
	waiting  []handTask // first come, first served, from head on
	head     int
}

// centralWorker is the scheduler's belief of a worker.
type centralWorker struct {
	*handWorker
	speed float64
	pos   int
}

func (w *centralWorker) Before(v *centralWorker) bool {
	if w.speed != v.speed {
		return w.speed > v.speed
	}
	return w.key < v.key
}

func (w *centralWorker) Pos() *int { return &w.pos }

// newOmniscient makes the ideal: a central queue that needs no time, and knows the speeds of workers.
func newOmniscient(cfg *Config, speeds []float64, f frontend.Config, _ *rand.Rand) scheduler {
	return newCentral(newHand(cfg, f.ID), 0, speeds)
}

// newCentralized makes a central queue with a cost for each decision. Its messages take time on the network.
func newCentralized(cfg *Config, _ []float64, f frontend.Config, _ *rand.Rand) scheduler {
	return newCentral(newHand(cfg, f.ID), cfg.DecisionCost, nil)
}

// newCentral adds a central brain to h. Without speeds, the brain takes all workers as equal.
func newCentral(h *hand, cost time.Duration, speeds []float64) *hand {
	c := &central{hand: h, cost: cost, decider: &decider{}}
	for i, w := range h.workers {
		cw := &centralWorker{handWorker: w, speed: 1}
		if speeds != nil {
			cw.speed = speeds[i]
		}
		c.workers = append(c.workers, cw)
		c.idle.Push(cw)
	}
	h.brain, h.deciders = c, []*decider{c.decider}
	return h
}

func (c *central) addJob(j *handJob) {
	for i := range j.Tasks {
		c.waiting = append(c.waiting, handTask{j, &j.Tasks[i]})
	}
	c.placeWaiting()
}

func (c *central) endRun(w *handWorker, _ handRun) {
	if w.freeSlots == 1 {
		c.idle.Push(c.workers[w.key])
	}
	c.placeWaiting()
}

// placeWaiting places tasks while a task waits and a slot is free. If decisions have a cost, placeWaiting begins
// the next decision instead.
func (c *central) placeWaiting() {
	for !c.deciding && c.head < len(c.waiting) && c.idle.Len() > 0 {
		if c.cost == 0 {
			c.placeNext()
			continue
		}
		c.deciding = true
		c.queueDecision(c.decider, func() (time.Duration, func()) {
			return c.cost, func() {
				c.deciding = false
				c.placeNext()
				c.placeWaiting()
			}
		})
	}
}

// placeNext sends the first waiting task to the fastest worker with a free slot.
func (c *central) placeNext() {
	t := c.waiting[c.head]
	c.waiting[c.head] = handTask{}
	if c.head++; c.head > 1000 && c.head > len(c.waiting)/2 {
		c.waiting, c.head = c.waiting[:copy(c.waiting, c.waiting[c.head:])], 0
	}
	w := c.idle.Min()
	c.startTask(w.handWorker, t)
	if w.freeSlots == 0 {
		c.idle.Remove(w)
	}
}

func (c *central) checkState() error {
	for _, w := range c.workers {
		if w.freeSlots < 0 || (w.freeSlots > 0) != (w.pos > 0) {
			return fmt.Errorf("worker %d has %d free slots, idle: %t", w.key, w.freeSlots, w.pos > 0)
		}
	}
	return nil
}
