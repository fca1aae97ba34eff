package sim

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/phoebe-sched/phoebe/frontend"
	"github.com/phoebe-sched/phoebe/probe"
	"github.com/phoebe-sched/phoebe/probe/pq"
)

// eagle is a hybrid scheduler of the kind of Hawk (Delgado et al., USENIX ATC 2015) and Eagle (Delgado et al., SoCC
// 2016), with all that they add to each other:
//
//   - One central scheduler places the tasks of long jobs, each at the worker where it has to wait least for other long
//     ones. Some workers are reserved for short jobs; it never uses these.
//   - Short jobs are sampled, two probes a task, and bound late. A worker whose slots long tasks take up turns
//     a probe away and says which workers are like it, as it knows (succinct state sharing); the frontend probes
//     one that is not, and if it is turned away again, a reserved one.
//   - A probe stays at its worker while its job has waiting tasks (sticky batch probing).
//   - Queues are in the order of the jobs' remaining work, but nobody is overtaken more often than five times.
//   - A worker with nothing to do looks at ten others for short tasks behind long ones, and takes the first group of
//     them (stealing).
//
// Where the papers' workers have one slot, ours have several and one queue for them, and long tasks take up a worker
// if there are as many of them as slots: that can only help. Estimates are those of the tasks, not the mean of the
// job. What the rival knows of others' state it knows at once, and a worker that looks for something to steal asks
// all at the same time.
type eagle struct {
	id      probe.FrontendID
	delay   time.Duration
	long    time.Duration // from which mean estimate of its tasks on a job is long
	rng     *rand.Rand
	nodes   []*eagleNode
	general int // nodes from here on are not reserved
	jobs    map[probe.JobID]*eagleJob
	timers  pq.Heap[*eagleTimer]
	seq     uint64
	now     time.Time
	acts    []frontend.Action
}

const (
	eagleReserved = 0.1 // share of the workers for short jobs only: as in Hawk about that of their work, in the figures
	eagleProbes   = 2
	eagleBypass   = 5
	eagleVictims  = 10
)

type eagleJob struct {
	*frontend.Job
	next int           // of its tasks; those before were started or placed
	left time.Duration // estimates of the tasks that have not ended
	long bool
}

// eagleNode is a worker.
type eagleNode struct {
	key     frontend.Worker
	slots   int
	free    int // slots: neither running nor held for an answer
	queue   []*eagleEntry
	runs    map[probe.AttemptID]eagleRun
	long    int // long tasks that run, or wait
	nextRes probe.ResID
	acks    []probe.AttemptID
}

// eagleEntry is a probe of a short job, or a task of a long one.
type eagleEntry struct {
	job      *eagleJob
	task     *frontend.Task // nil: a probe
	overtake int            // how often it was overtaken
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
	e := &eagle{id: f.ID, delay: cfg.Delay, long: cfg.Cutoff, rng: rng, jobs: map[probe.JobID]*eagleJob{}}
	if e.long == 0 {
		e.long = f.Defaults().LongTask
	}
	e.general = min(int(math.Round(eagleReserved*float64(cfg.Workers))), cfg.Workers-1)
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
		if m, ok := ev.Msg.(probe.Finished); ok {
			e.finished(e.nodes[ev.Worker], &m)
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
	j.long = j.left/time.Duration(len(spec.Tasks)) >= e.long
	e.jobs[spec.ID] = j
	if j.long {
		e.after(1, func() { e.place(j) })
		return
	}
	nodes := e.sample(min(eagleProbes*len(spec.Tasks), len(e.nodes)), e.nodes)
	for i := range eagleProbes * len(spec.Tasks) {
		n := nodes[i%len(nodes)]
		e.after(1, func() { e.probe(n, j, 0) })
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
	for i := range j.Tasks {
		best := e.general
		for k := e.general; k < len(e.nodes); k++ {
			if waits[k] < waits[best] {
				best = k
			}
		}
		n := e.nodes[best]
		n.long++ // on its way, and counted
		n.queue = append(n.queue, &eagleEntry{job: j, task: &j.Tasks[i]})
		waits[best] = n.wait(e.now)
		e.after(1, func() { e.run(n) })
	}
	j.next = len(j.Tasks)
}

// wait is how long another long task would wait for those that are there.
func (n *eagleNode) wait(now time.Time) time.Duration {
	ends := make([]time.Duration, 0, n.slots)
	for _, r := range n.runs {
		if r.job.long {
			ends = append(ends, max(r.ends.Sub(now), 0))
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

// probe is the arrival of a probe at a worker. Refusals is how often the job was turned away with it before.
func (e *eagle) probe(n *eagleNode, j *eagleJob, refusals int) {
	switch {
	case j.next == len(j.Tasks):
		return // it would be told so
	case !n.full() || refusals == 2:
		n.queue = append(n.queue, &eagleEntry{job: j})
		e.run(n)
		return
	}
	others := e.nodes[:max(e.general, 1)] // the reserved ones
	if refusals == 0 {
		others = slices.DeleteFunc(slices.Clone(e.nodes), (*eagleNode).full)
	}
	if len(others) == 0 {
		others = e.nodes
	}
	to := others[e.rng.IntN(len(others))]
	e.after(2, func() { e.probe(to, j, refusals+1) })
}

// run fills the free slots of a worker from its queue.
func (e *eagle) run(n *eagleNode) {
	for n.free > 0 && len(n.queue) > 0 {
		q := n.take()
		n.free--
		if q.task != nil {
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
			if j.next < len(j.Tasks) {
				n.queue = append(n.queue, &eagleEntry{job: j, overtake: q.overtake})
			}
			e.after(1, func() {
				e.start(n, j, t)
				e.run(n)
			})
		})
	}
	if n.free > 0 && len(n.queue) == 0 {
		e.steal(n)
	}
}

// take is the entry whose turn it is: of the least remaining work, unless another was overtaken too often.
func (n *eagleNode) take() *eagleEntry {
	best := 0
	for i, q := range n.queue {
		switch b := n.queue[best]; {
		case b.overtake >= eagleBypass: // the first such one
		case q.overtake >= eagleBypass || q.job.left < b.job.left:
			best = i
		}
	}
	q := n.queue[best]
	for _, earlier := range n.queue[:best] {
		earlier.overtake++
	}
	n.queue = slices.Delete(n.queue, best, best+1)
	return q
}

// steal brings short tasks that wait behind long ones to a worker with nothing to do.
func (e *eagle) steal(n *eagleNode) {
	for _, victim := range e.sample(min(eagleVictims, len(e.nodes)-e.general), e.nodes[e.general:]) {
		if victim == n || victim.free > 0 || victim.long == 0 {
			continue
		}
		first := slices.IndexFunc(victim.queue, func(q *eagleEntry) bool { return q.task == nil })
		if first < 0 {
			continue
		}
		last := first
		for last < len(victim.queue) && victim.queue[last].task == nil {
			last++
		}
		group := slices.Clone(victim.queue[first:last])
		victim.queue = slices.Delete(victim.queue, first, last)
		e.after(2, func() {
			n.queue = append(n.queue, group...)
			e.run(n)
		})
		return
	}
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
	r.job.left -= r.task.Estimate
	if r.job.long {
		n.long--
	}
	const batch = 16
	if n.acks = append(n.acks, m.Attempt); len(n.acks) == batch {
		e.acts = append(e.acts, frontend.Send{Worker: n.key, Msg: probe.Ack{Attempts: n.acks}})
		n.acks = nil
	}
	outcome := frontend.Outcome{Task: m.Task, Kind: frontend.Result, Result: m.Result, Run: m.Run}
	e.after(1, func() { e.acts = append(e.acts, frontend.Done{Job: m.Job, Outcome: outcome}) })
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
