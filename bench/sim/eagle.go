package sim

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/phoebe-sched/phoebe/frontend"
	"github.com/phoebe-sched/phoebe/probe"
	"github.com/phoebe-sched/phoebe/probe/pq"
)

// eagle is a hybrid scheduler: Eagle (Delgado et al., SoCC 2016), which came after Hawk (USENIX ATC 2015), by the rules of
// the simulator that its authors published.
//
//   - One central scheduler places the tasks of long jobs, each at the worker where it has to wait least for other long
//     ones. Some workers are reserved for short jobs; it never uses these.
//   - Short jobs are sampled, two probes a task but no fewer than 20, and bound late. A worker whose slots long tasks take
//     up turns a probe away and says which workers were like it when its last long task was placed (succinct state
//     sharing); the frontend probes one that was not, by the latest such news, and if it is turned away again, a reserved
//     one.
//   - A probe keeps its place at its worker while its job has waiting tasks (sticky batch probing).
//   - Of a queue the job with the least work left to start goes first, if the queue is not to be first come, first
//     served. What was overtaken adds up the estimates of the tasks that overtook it, and lets none pass with which that
//     would be more than five times its own. A long task at the head is not overtaken.
//
// Where theirs have one slot, our workers have several and one queue for them, and long tasks take up a worker if there
// are as many of them as slots: that can only help. A long task is placed by its own estimate, not by the mean of its
// job. Nobody asks for a job that has no more tasks: that is known at once. Hawk's stealing is left out, as theirs runs without: it finds nothing where probes of short jobs avoid long tasks.
type eagle struct {
	id       probe.FrontendID
	delay    time.Duration
	long     time.Duration // above which mean estimate of its tasks a job is long
	shortest bool          // queues are in the order of what is left to start
	rng      *rand.Rand
	nodes    []*eagleNode
	general  int // nodes from here on are not reserved
	timers   pq.Heap[*eagleTimer]
	seq      uint64
	now      time.Time
	acts     []frontend.Action
}

const (
	eagleProbes   = 2
	eagleLeast    = 20 // probes of a job
	eaglePatience = 5
)

type eagleJob struct {
	*frontend.Job
	next int           // of its tasks; those before were started or placed
	mean time.Duration // estimate of a task
	left time.Duration // estimates of the tasks that nobody has begun
	long bool
	news eagleNews // the latest that a worker gave with a refusal
}

// eagleNews is which workers were not taken up by long tasks when those of some job had been placed.
type eagleNews struct {
	seq  uint64
	room []*eagleNode
}

// eagleNode is a worker.
type eagleNode struct {
	key     frontend.Worker
	slots   int
	free    int           // slots: neither running nor held for an answer
	queue   []*eagleEntry // as they came
	runs    map[probe.AttemptID]eagleRun
	long    int       // long tasks that run, or wait
	news    eagleNews // that came with the last of them
	nextRes probe.ResID
	acks    []probe.AttemptID
}

// eagleEntry is a probe of a short job, or a task of a long one.
type eagleEntry struct {
	job       *eagleJob
	task      *frontend.Task // nil: a probe
	seq       uint64         // by arrival
	overtaken time.Duration  // estimates of what has overtaken it
}

// estimate is that of the task that the entry brings, as far as it is known.
func (q *eagleEntry) estimate() time.Duration {
	if q.task != nil {
		return q.task.Estimate
	}
	return q.job.mean
}

type eagleRun struct {
	job  *eagleJob
	task *frontend.Task
	ends time.Time // as estimated
}

// eagleTimer is something that will happen.
type eagleTimer struct {
	at  time.Time
	seq uint64
	fn  func()
	pos int
}

func (t *eagleTimer) Before(u *eagleTimer) bool {
	if !t.at.Equal(u.at) {
		return t.at.Before(u.at)
	}
	return t.seq < u.seq
}

func (t *eagleTimer) Pos() *int { return &t.pos }

// newEagle gets its messages at once, and lets each of its own take the time that the network's do.
func newEagle(cfg *Config, _ []float64, f frontend.Config, rng *rand.Rand) scheduler {
	e := &eagle{id: f.ID, delay: cfg.Delay, long: cfg.Cutoff, shortest: true, rng: rng}
	if e.long == 0 {
		e.long = f.Defaults().LongTask
	}
	e.general = min(int(math.Round(cfg.Reserved*float64(cfg.Workers))), cfg.Workers-1)
	return e
}

// newEagleFIFO leaves queues as they came.
func newEagleFIFO(cfg *Config, speeds []float64, f frontend.Config, rng *rand.Rand) scheduler {
	e := newEagle(cfg, speeds, f, rng).(*eagle)
	e.shortest = false
	return e
}

// Step implements scheduler.
func (e *eagle) Step(now time.Time, ev frontend.Event, acts []frontend.Action) []frontend.Action {
	e.now, e.acts = now, acts
	switch ev := ev.(type) {
	case frontend.Submit:
		e.submit(ev.Job)
	case frontend.WorkerUp:
		for int(ev.Worker) >= len(e.nodes) {
			e.nodes = append(e.nodes, nil)
		}
		slots := probe.Slot.Times(ev.Welcome.Capacity)
		e.nodes[ev.Worker] = &eagleNode{key: ev.Worker, slots: slots, free: slots, nextRes: 1, runs: map[probe.AttemptID]eagleRun{}}
	case frontend.Received:
		if m, ok := ev.Msg.(*probe.Finished); ok {
			e.finished(e.nodes[ev.Worker], m)
		}
	case frontend.Wake:
		for e.timers.Len() > 0 && !now.Before(e.timers.Min().at) {
			e.timers.Pop().fn()
		}
	}
	return e.acts
}

func (e *eagle) after(messages int, fn func()) {
	e.seq++
	e.timers.Push(&eagleTimer{at: e.now.Add(time.Duration(messages) * e.delay), seq: e.seq, fn: fn})
}

func (e *eagle) submit(spec *frontend.Job) {
	j := &eagleJob{Job: spec}
	for i := range spec.Tasks {
		j.left += spec.Tasks[i].Estimate
	}
	j.mean = j.left / time.Duration(len(spec.Tasks))
	if j.long = j.mean > e.long; j.long {
		e.after(1, func() { e.place(j) })
		return
	}
	n := max(eagleProbes*len(spec.Tasks), eagleLeast)
	nodes := e.sample(min(n, len(e.nodes)), e.nodes)
	for i := range n {
		to := nodes[i%len(nodes)]
		e.after(1, func() { e.probe(to, j, 0) })
	}
}

// sample draws n of nodes, each once.
func (e *eagle) sample(n int, nodes []*eagleNode) []*eagleNode {
	nodes = slices.Clone(nodes)
	for i := range n {
		k := i + e.rng.IntN(len(nodes)-i)
		nodes[i], nodes[k] = nodes[k], nodes[i]
	}
	return nodes[:n]
}

// place binds the tasks of a long job, at the central scheduler.
func (e *eagle) place(j *eagleJob) {
	waits := make([]time.Duration, len(e.nodes))
	for i := e.general; i < len(e.nodes); i++ {
		waits[i] = e.nodes[i].wait(e.now)
	}
	var to []*eagleNode
	for i := range j.Tasks {
		best := e.general
		for k := e.general; k < len(e.nodes); k++ {
			if waits[k] < waits[best] {
				best = k
			}
		}
		n := e.nodes[best]
		n.long++ // on its way, and counted
		e.enqueue(n, &eagleEntry{job: j, task: &j.Tasks[i]})
		waits[best] = n.wait(e.now)
		to = append(to, n)
		e.after(1, func() { e.run(n) })
	}
	j.next = len(j.Tasks)
	e.seq++
	news := eagleNews{e.seq, slices.DeleteFunc(slices.Clone(e.nodes), (*eagleNode).full)}
	e.after(1, func() {
		for _, n := range to {
			n.news = news
		}
	})
}

func (e *eagle) enqueue(n *eagleNode, q *eagleEntry) {
	e.seq++
	q.seq = e.seq
	n.queue = append(n.queue, q)
}

// wait is how long another long task would wait for those that are there.
func (n *eagleNode) wait(now time.Time) time.Duration {
	ends := make([]time.Duration, 0, n.slots)
	for _, r := range n.runs {
		if r.job.long {
			ends = append(ends, max(r.ends.Sub(now), 1)) // one that is late is still there
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

// full reports whether long tasks take up all of a worker.
func (n *eagleNode) full() bool { return n.long >= n.slots }

// probe is the arrival of a probe at a worker. Refusals is how often it was turned away before.
func (e *eagle) probe(n *eagleNode, j *eagleJob, refusals int) {
	if !n.full() || refusals == 2 {
		e.enqueue(n, &eagleEntry{job: j})
		e.run(n)
		return
	}
	if n.news.seq > j.news.seq {
		j.news = n.news
	}
	e.after(1, func() { // at the frontend, which has heard from all of them
		others := e.nodes[:e.general]
		if refusals == 0 {
			others = j.news.room
		}
		if len(others) == 0 {
			others = e.nodes
		}
		to := others[e.rng.IntN(len(others))]
		e.after(1, func() { e.probe(to, j, refusals+1) })
	})
}

// run fills the free slots of a worker from its queue.
func (e *eagle) run(n *eagleNode) {
	for n.free > 0 {
		q := e.take(n)
		if q == nil {
			return
		}
		n.free--
		if q.task != nil {
			q.job.left -= q.task.Estimate
			e.start(n, q.job, q.task)
			continue
		}
		j := q.job
		e.after(1, func() { // at the frontend
			if j.next == len(j.Tasks) {
				e.after(1, func() {
					n.free++
					e.run(n)
				})
				return
			}
			t := &j.Tasks[j.next]
			j.next++
			j.left -= t.Estimate
			e.after(1, func() {
				i, _ := slices.BinarySearchFunc(n.queue, q.seq, func(o *eagleEntry, seq uint64) int { return cmp.Compare(o.seq, seq) })
				n.queue = slices.Insert(n.queue, i, q)
				e.start(n, j, t)
				e.run(n)
			})
		})
	}
}

// take is the entry whose turn it is; nil if there is none.
func (e *eagle) take(n *eagleNode) *eagleEntry {
	n.queue = slices.DeleteFunc(n.queue, func(q *eagleEntry) bool { return q.task == nil && q.job.next == len(q.job.Tasks) })
	if len(n.queue) == 0 {
		return nil
	}
	best := 0
	if e.shortest && n.queue[0].task == nil {
		patience := time.Duration(math.MaxInt64) // of the least patient so far
		for i, q := range n.queue {
			if i > 0 && q.job.left < n.queue[best].job.left && q.estimate() <= patience {
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

func (e *eagle) start(n *eagleNode, j *eagleJob, t *frontend.Task) {
	e.seq++
	id := probe.AttemptID{Frontend: e.id, Seq: e.seq}
	n.runs[id] = eagleRun{j, t, e.now.Add(t.Estimate)}
	e.acts = append(e.acts, frontend.Send{Worker: n.key, Msg: probe.Enqueue{
		Res: n.nextRes, Job: j.ID, Tenant: j.Tenant, Priority: j.Priority, Demand: probe.Slot,
		Launch: probe.Launch{Attempt: id, Task: t.Index, Function: t.Function, Payload: t.Payload, Estimate: t.Estimate},
	}})
	n.nextRes++
}

func (e *eagle) finished(n *eagleNode, m *probe.Finished) {
	r, ok := n.runs[m.Attempt]
	if !ok {
		return // told twice
	}
	delete(n.runs, m.Attempt)
	n.free++
	if r.job.long {
		n.long--
	}
	const batch = 16
	if n.acks = append(n.acks, m.Attempt); len(n.acks) == batch {
		e.acts = append(e.acts, frontend.Send{Worker: n.key, Msg: probe.Ack{Attempts: n.acks}})
		n.acks = nil
	}
	outcome := frontend.Outcome{Task: m.Task, Kind: frontend.Result, Result: m.Result, Run: m.Run}
	e.after(1, func() { e.acts = append(e.acts, &frontend.Done{Job: m.Job, Outcome: outcome}) })
	e.run(n)
}

// NextWake implements scheduler.
func (e *eagle) NextWake() time.Time {
	if e.timers.Len() == 0 {
		return time.Time{}
	}
	return e.timers.Min().at
}

// Check implements scheduler.
func (e *eagle) Check() error {
	for i, n := range e.nodes {
		if n == nil {
			continue
		}
		long := 0
		for _, r := range n.runs {
			if r.job.long {
				long++
			}
		}
		for _, q := range n.queue {
			if q.task != nil {
				long++
			}
		}
		if n.free < 0 || n.free+len(n.runs) > n.slots || long != n.long || long > 0 && i < e.general {
			return fmt.Errorf("worker %d of %d slots has %d free, %d tasks run, %d of those that run or wait are long, it says %d", i, n.slots, n.free, len(n.runs), long, n.long)
		}
	}
	return nil
}
