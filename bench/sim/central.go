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
	cost      time.Duration // of a decision
	heartbeat time.Duration // each worker tells of ended tasks this often; 0: at once
	ahead     bool          // if no slot is free, a slot that has no waiting task takes one
	decider   *decider
	deciding  bool                    // on the first waiting task
	idle      pq.Heap[*centralWorker] // workers that may take a task
	workers   []*centralWorker
	waiting   []handTask // first come, first served, from head on
	head      int
}

// centralWorker is the scheduler's belief of a worker.
type centralWorker struct {
	*handWorker
	speed float64
	open  int // tasks that the worker may take
	ahead int // of open: for a slot that is in use
	pos   int
}

func (w *centralWorker) Before(v *centralWorker) bool {
	if a, b := w.open-w.ahead, v.open-v.ahead; a <= 0 || b <= 0 { // not all have a free slot
		if (a > 0) != (b > 0) || a != b {
			return a > b
		}
	}
	if w.speed != v.speed {
		return w.speed > v.speed
	}
	return w.key < v.key
}

func (w *centralWorker) Pos() *int { return &w.pos }

// newOmniscient makes the ideal: a central queue that needs no time, and knows the speeds of workers.
func newOmniscient(cfg *Config, speeds []float64, f frontend.Config, _ *rand.Rand) scheduler {
	return newCentral(cfg, f, &central{}, speeds)
}

// newCentralized makes a central queue with a cost for each decision. Its messages take time on the network.
func newCentralized(cfg *Config, _ []float64, f frontend.Config, _ *rand.Rand) scheduler {
	return newCentral(cfg, f, &central{cost: cfg.DecisionCost}, nil)
}

// newCentralizedAhead makes a centralized scheduler that keeps a task waiting at each slot in use.
func newCentralizedAhead(cfg *Config, _ []float64, f frontend.Config, _ *rand.Rand) scheduler {
	return newCentral(cfg, f, &central{cost: cfg.DecisionCost, ahead: true}, nil)
}

// newCentralizedHeartbeat makes a centralized scheduler that hears of ended tasks with the heartbeats of workers, as
// YARN does: once a second.
func newCentralizedHeartbeat(cfg *Config, _ []float64, f frontend.Config, _ *rand.Rand) scheduler {
	return newCentral(cfg, f, &central{cost: cfg.DecisionCost, heartbeat: time.Second}, nil)
}

// newCentral gives c a hand. Without speeds, c takes all workers as equal.
func newCentral(cfg *Config, f frontend.Config, c *central, speeds []float64) *hand {
	c.hand, c.decider = newHand(cfg, f.ID), &decider{}
	c.brain, c.deciders = c, []*decider{c.decider}
	for i, w := range c.hand.workers {
		cw := &centralWorker{handWorker: w, speed: 1, open: w.slots}
		if speeds != nil {
			cw.speed = speeds[i]
		}
		if c.ahead {
			cw.ahead = w.slots
			cw.open += w.slots
		}
		c.workers = append(c.workers, cw)
		c.idle.Push(cw)
	}
	return c.hand
}

func (c *central) addJob(j *handJob) {
	for i := range j.Tasks {
		c.waiting = append(c.waiting, handTask{j, &j.Tasks[i]})
	}
	c.placeWaiting()
}

func (c *central) endRun(w *handWorker, _ handRun) {
	cw := c.workers[w.key]
	if c.heartbeat == 0 {
		c.openSlot(cw)
		return
	}
	// The heartbeats of the workers are spread evenly over the period.
	phase := c.heartbeat * time.Duration(w.key) / time.Duration(len(c.workers))
	since := (c.now.Sub(origin) - phase) % c.heartbeat
	if since < 0 {
		since += c.heartbeat
	}
	c.callAfter(c.heartbeat-since, func() { c.openSlot(cw) })
}

// openSlot notes that a worker may take one more task.
func (c *central) openSlot(w *centralWorker) {
	if w.open++; w.open == 1 {
		c.idle.Push(w)
	} else if c.ahead {
		c.idle.Fix(w)
	}
	c.placeWaiting()
}

// placeWaiting places tasks while a task waits and a worker may take a task. If decisions have a cost, placeWaiting
// begins the next decision instead.
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

// placeNext sends the first waiting task to the fastest worker with a free slot, or to a worker that takes a task
// ahead.
func (c *central) placeNext() {
	t := c.waiting[c.head]
	c.waiting[c.head] = handTask{}
	if c.head++; c.head > 1000 && c.head > len(c.waiting)/2 {
		c.waiting, c.head = c.waiting[:copy(c.waiting, c.waiting[c.head:])], 0
	}
	w := c.idle.Min()
	c.startTask(w.handWorker, t)
	if w.open--; w.open == 0 {
		c.idle.Remove(w)
	} else if c.ahead {
		c.idle.Fix(w)
	}
}

func (c *central) checkState() error {
	for _, w := range c.workers {
		if w.open < 0 || w.open > w.freeSlots+w.ahead || (w.open > 0) != (w.pos > 0) {
			return fmt.Errorf("worker %d may take %d tasks and has %d free slots, idle: %t", w.key, w.open, w.freeSlots,
				w.pos > 0)
		}
	}
	return nil
}
