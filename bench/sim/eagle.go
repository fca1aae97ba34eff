package sim

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/phoebe-sched/phoebe/frontend"
)

// eagle is a hybrid scheduler: Eagle (Delgado et al., SoCC 2016), the successor of Hawk (USENIX ATC 2015), by the
// rules of the simulator published by its authors.
//
//   - A central scheduler places the tasks of long jobs, each at the worker with the least wait for other long
//     tasks. The central scheduler never uses the workers reserved for short jobs.
//   - Short jobs are sampled, with two probes a task but at least 20 probes, and bound late. If long tasks take
//     up all slots of a worker, the worker turns a probe away. The refusal comes with a list of workers: when the
//     last long task came to the worker, long tasks did not take up the workers of the list (succinct state
//     sharing). The frontend then probes a worker of the latest list. If turned away again, the frontend probes a
//     reserved worker.
//   - A probe stays at its worker while the job has waiting tasks (sticky batch probing).
//   - In a queue, the job with the least work left to start goes first, unless the queue is first come, first
//     served. An overtaken entry adds up the estimates of the tasks that overtook the entry. No task may overtake
//     if the sum would exceed five times the entry's own estimate. A long task at the head is not overtaken.
//
// A worker has one slot in the published simulator. Our workers have several slots and one queue, and long tasks
// take up a worker if there are as many long tasks as slots. Either difference can only help. A long task is
// placed by its own estimate, not by the job's mean. A worker makes no request for a job without waiting tasks:
// the worker knows at once. Hawk's stealing is left out, as in the published simulator: stealing finds nothing if
// probes of short jobs avoid long tasks.
type eagle struct {
	*hand
	delay        time.Duration
	longAbove    time.Duration // a job is long if the mean estimate of its tasks is longer
	shortest     bool          // the job with the least work left to start goes first; false: first come, first served
	rng          *rand.Rand
	nodes        []*eagleNode
	firstGeneral int    // nodes before it are reserved for short jobs
	seq          uint64 // of entries and news
}

const (
	eagleProbes      = 2
	eagleLeastProbes = 20
	eaglePatience    = 5
)

// eagleJob is a job with unfinished placement.
type eagleJob struct {
	*handJob
	nextTask int           // index of the first task neither started nor placed
	mean     time.Duration // mean estimate of a task
	workLeft time.Duration // sum of the estimates of tasks not begun
	long     bool
	news     eagleNews // the latest news that came with a refusal
}

// eagleNews tells which workers had slots without long tasks, just after the tasks of some long job were placed.
type eagleNews struct {
	seq      uint64
	withRoom []*eagleNode
}

// eagleNode is a worker.
type eagleNode struct {
	*handWorker
	heldSlots int           // free slots held for an answer
	queue     []*eagleEntry // in the order of arrival
	longTasks int           // running and waiting
	news      eagleNews     // came with the last long task
}

// eagleEntry is a probe of a short job, or a task of a long job.
type eagleEntry struct {
	job       *eagleJob
	task      *frontend.Task // nil: a probe
	seq       uint64         // by arrival
	overtaken time.Duration  // sum of the estimates of tasks that overtook the entry
}

// taskEstimate returns the estimate of the entry's task; of a probe, the mean of the job.
func (q *eagleEntry) taskEstimate() time.Duration {
	if q.task != nil {
		return q.task.Estimate
	}
	return q.job.mean
}

// newEagle makes a scheduler whose network takes no time. Instead, the scheduler delays each of its messages by
// the delay of the run.
func newEagle(cfg *Config, _ []float64, f frontend.Config, rng *rand.Rand) scheduler {
	return newEagleBrain(cfg, f, rng).hand
}

// newEagleFIFO makes an eagle with queues first come, first served.
func newEagleFIFO(cfg *Config, _ []float64, f frontend.Config, rng *rand.Rand) scheduler {
	e := newEagleBrain(cfg, f, rng)
	e.shortest = false
	return e.hand
}

func newEagleBrain(cfg *Config, f frontend.Config, rng *rand.Rand) *eagle {
	e := &eagle{hand: newHand(cfg, f.ID), delay: cfg.Delay, longAbove: cfg.Cutoff, shortest: true, rng: rng}
	e.brain, e.answerAfter = e, cfg.Delay
	if e.longAbove == 0 {
		e.longAbove = f.Defaults().LongTask
	}
	e.firstGeneral = min(int(math.Round(cfg.Reserved*float64(cfg.Workers))), cfg.Workers-1)
	for _, w := range e.workers {
		e.nodes = append(e.nodes, &eagleNode{handWorker: w})
	}
	return e
}

// sendMessages lets fn happen after a number of messages, one after another.
func (e *eagle) sendMessages(messages int, fn func()) {
	e.callAfter(time.Duration(messages)*e.delay, fn)
}

// addJob sends a long job to the central scheduler, and probes workers for a short job.
func (e *eagle) addJob(h *handJob) {
	j := &eagleJob{handJob: h}
	h.own = j
	for i := range j.Tasks {
		j.workLeft += j.Tasks[i].Estimate
	}
	j.mean = j.workLeft / time.Duration(len(j.Tasks))
	if j.long = j.mean > e.longAbove; j.long {
		e.sendMessages(1, func() { e.placeLongJob(j) })
		return
	}
	n := max(eagleProbes*len(j.Tasks), eagleLeastProbes)
	nodes := e.sampleNodes(min(n, len(e.nodes)), e.nodes)
	for i := range n {
		to := nodes[i%len(nodes)]
		e.sendMessages(1, func() { e.receiveProbe(to, j, 0) })
	}
}

// sampleNodes draws n different nodes.
func (e *eagle) sampleNodes(n int, nodes []*eagleNode) []*eagleNode {
	nodes = slices.Clone(nodes)
	for i := range n {
		k := i + e.rng.IntN(len(nodes)-i)
		nodes[i], nodes[k] = nodes[k], nodes[i]
	}
	return nodes[:n]
}

// placeLongJob binds the tasks of a long job, at the central scheduler.
func (e *eagle) placeLongJob(j *eagleJob) {
	waits := make([]time.Duration, len(e.nodes))
	for i := e.firstGeneral; i < len(e.nodes); i++ {
		waits[i] = e.nodes[i].waitBehindLong(e.now)
	}
	var chosen []*eagleNode
	for i := range j.Tasks {
		best := e.firstGeneral
		for k := e.firstGeneral; k < len(e.nodes); k++ {
			if waits[k] < waits[best] {
				best = k
			}
		}
		n := e.nodes[best]
		n.longTasks++ // counted while under way
		e.addEntry(n, &eagleEntry{job: j, task: &j.Tasks[i]})
		waits[best] = n.waitBehindLong(e.now)
		chosen = append(chosen, n)
		e.sendMessages(1, func() { e.fillSlots(n) })
	}
	j.nextTask = len(j.Tasks)
	e.seq++
	news := eagleNews{e.seq, slices.DeleteFunc(slices.Clone(e.nodes), (*eagleNode).isFull)}
	e.sendMessages(1, func() {
		for _, n := range chosen {
			n.news = news
		}
	})
}

// addEntry appends q to the queue of n.
func (e *eagle) addEntry(n *eagleNode, q *eagleEntry) {
	e.seq++
	q.seq = e.seq
	n.queue = append(n.queue, q)
}

// waitBehindLong returns how long another long task would wait for the long tasks at n.
func (n *eagleNode) waitBehindLong(now time.Time) time.Duration {
	ends := make([]time.Duration, 0, n.slots)
	for _, r := range n.runs {
		if r.job.own.(*eagleJob).long {
			ends = append(ends, max(r.began.Add(r.task.Estimate).Sub(now), 1)) // a late task still runs
		}
	}
	for len(ends) < n.slots {
		ends = append(ends, 0)
	}
	for _, q := range n.queue {
		if q.task != nil {
			i := slices.Index(ends, slices.Min(ends))
			ends[i] += q.task.Estimate
		}
	}
	return slices.Min(ends)
}

// isFull reports whether long tasks take up all slots of a worker.
func (n *eagleNode) isFull() bool { return n.longTasks >= n.slots }

// receiveProbe is the arrival of a probe at a worker. refusals is the number of workers that have turned the probe
// away: at two refusals, the worker takes the probe in any case.
func (e *eagle) receiveProbe(n *eagleNode, j *eagleJob, refusals int) {
	if !n.isFull() || refusals == 2 {
		e.addEntry(n, &eagleEntry{job: j})
		e.fillSlots(n)
		return
	}
	if n.news.seq > j.news.seq {
		j.news = n.news
	}
	e.sendMessages(1, func() { // at the frontend
		others := e.nodes[:e.firstGeneral]
		if refusals == 0 {
			others = j.news.withRoom
		}
		if len(others) == 0 {
			others = e.nodes
		}
		to := others[e.rng.IntN(len(others))]
		e.sendMessages(1, func() { e.receiveProbe(to, j, refusals+1) })
	})
}

// fillSlots fills the free slots of a worker from its queue.
func (e *eagle) fillSlots(n *eagleNode) {
	for n.freeSlots > n.heldSlots {
		q := e.takeEntry(n)
		if q == nil {
			return
		}
		if q.task != nil {
			q.job.workLeft -= q.task.Estimate
			e.startTask(n.handWorker, handTask{q.job.handJob, q.task})
			continue
		}
		n.heldSlots++
		j := q.job
		e.sendMessages(1, func() { // at the frontend
			if j.nextTask == len(j.Tasks) {
				e.sendMessages(1, func() {
					n.heldSlots--
					e.fillSlots(n)
				})
				return
			}
			t := &j.Tasks[j.nextTask]
			j.nextTask++
			j.workLeft -= t.Estimate
			e.sendMessages(1, func() {
				i, _ := slices.BinarySearchFunc(n.queue, q.seq,
					func(o *eagleEntry, seq uint64) int { return cmp.Compare(o.seq, seq) })
				n.queue = slices.Insert(n.queue, i, q)
				n.heldSlots--
				e.startTask(n.handWorker, handTask{j.handJob, t})
				e.fillSlots(n)
			})
		})
	}
}

// takeEntry removes the next entry of the queue, and returns the entry; nil if no entry waits.
func (e *eagle) takeEntry(n *eagleNode) *eagleEntry {
	n.queue = slices.DeleteFunc(n.queue, func(q *eagleEntry) bool {
		return q.task == nil && q.job.nextTask == len(q.job.Tasks)
	})
	if len(n.queue) == 0 {
		return nil
	}
	best := 0
	if e.shortest && n.queue[0].task == nil {
		patience := time.Duration(math.MaxInt64) // of the least patient entry so far
		for i, q := range n.queue {
			if i > 0 && q.job.workLeft < n.queue[best].job.workLeft && q.taskEstimate() <= patience {
				best = i
			}
			if q.task == nil {
				patience = min(patience, eaglePatience*q.job.mean-q.overtaken)
			}
		}
	}
	q := n.queue[best]
	if q.task == nil {
		for _, earlier := range n.queue[:best] {
			earlier.overtaken += q.job.mean
		}
	}
	n.queue = slices.Delete(n.queue, best, best+1)
	return q
}

// endRun fills a slot of w from its queue.
func (e *eagle) endRun(w *handWorker, r handRun) {
	n := e.nodes[w.key]
	if r.job.own.(*eagleJob).long {
		n.longTasks--
	}
	e.fillSlots(n)
}

func (e *eagle) checkState() error {
	for i, n := range e.nodes {
		long := 0
		for _, r := range n.runs {
			if r.job.own.(*eagleJob).long {
				long++
			}
		}
		for _, q := range n.queue {
			if q.task != nil {
				long++
			}
		}
		if n.heldSlots < 0 || n.heldSlots > n.freeSlots || long != n.longTasks || long > 0 && i < e.firstGeneral {
			return fmt.Errorf("worker %d of %d slots has %d free slots, %d held; %d long tasks run or wait, "+
				"counted as %d", i, n.slots, n.freeSlots, n.heldSlots, long, n.longTasks)
		}
	}
	return nil
}
