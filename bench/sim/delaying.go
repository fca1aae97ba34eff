package sim

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/phoebe-sched/phoebe/frontend"
)

// delaying is delay scheduling (Zaharia et al., EuroSys 2010). A free slot goes to the first job with an input of a
// waiting task there. Jobs are in the order of their arrival, or the job with the fewest running tasks comes first.
// A job that was passed over for the time wait, without a start near its data since, takes any slot. The rival
// knows at once of all free slots, and looks for slots near data first, which flatters the rival.
type delaying struct {
	*hand
	wait time.Duration
	fair bool          // the job with the fewest running tasks comes first
	jobs []*delayedJob // with waiting tasks, in the order of arrival
}

// delayedJob is a job of a delaying scheduler.
type delayedJob struct {
	*handJob
	started     []bool        // by task
	tasksLeft   int           // tasks that have not started
	nextTask    int           // all earlier tasks have started
	tasksAt     map[int][]int // by worker: the tasks with an input there
	running     int
	passed      bool // a slot went by since the last start near data
	passedSince time.Time
}

// newDelaying makes a rival with the order of arrival, or a fair order.
func newDelaying(fair bool) func(*Config, []float64, frontend.Config, *rand.Rand) scheduler {
	return func(cfg *Config, _ []float64, f frontend.Config, _ *rand.Rand) scheduler {
		d := &delaying{hand: newHand(cfg, f.ID), wait: cfg.LocalityWait, fair: fair}
		d.brain = d
		return d.hand
	}
}

func (d *delaying) addJob(h *handJob) {
	j := &delayedJob{handJob: h, started: make([]bool, len(h.Tasks)), tasksLeft: len(h.Tasks), tasksAt: map[int][]int{}}
	h.own = j
	for i := range h.Tasks {
		for _, in := range h.Tasks[i].Inputs {
			for _, c := range in.Copies {
				w := numberOf(c.At)
				j.tasksAt[w] = append(j.tasksAt[w], i)
			}
		}
	}
	d.jobs = append(d.jobs, j)
	d.fillSlots()
}

func (d *delaying) endRun(w *handWorker, r handRun) {
	r.job.own.(*delayedJob).running--
	d.fillWorker(w, d.orderJobs())
}

// orderJobs returns the jobs with waiting tasks, the job to serve first at the front.
func (d *delaying) orderJobs() []*delayedJob {
	d.jobs = slices.DeleteFunc(d.jobs, func(j *delayedJob) bool { return j.tasksLeft == 0 })
	if !d.fair {
		return d.jobs
	}
	order := slices.Clone(d.jobs)
	slices.SortStableFunc(order, func(a, b *delayedJob) int { return cmp.Compare(a.running, b.running) })
	return order
}

// fillSlots fills the free slots of all workers, first by tasks with inputs there.
func (d *delaying) fillSlots() {
	for _, w := range d.workers {
		for w.freeSlots > 0 && d.startNear(w, d.orderJobs()) {
		}
	}
	for _, w := range d.workers {
		if w.freeSlots > 0 && len(d.jobs) > 0 {
			d.fillWorker(w, d.orderJobs())
		}
	}
}

// startNear starts a task with an input at w, of the first job that has such a task, and reports whether there is one.
func (d *delaying) startNear(w *handWorker, order []*delayedJob) bool {
	for _, j := range order {
		if task := j.nextNear(int(w.key)); task >= 0 {
			d.startDelayed(w, j, task)
			j.passed = false
			return true
		}
	}
	return false
}

// fillWorker fills the free slots of w. Each job in the order takes the slot, or the slot passes the job over.
func (d *delaying) fillWorker(w *handWorker, order []*delayedJob) {
	for w.freeSlots > 0 && d.startOne(w, order) {
		order = d.orderJobs()
	}
}

// startOne starts a task at w, and reports whether a job takes the slot.
func (d *delaying) startOne(w *handWorker, order []*delayedJob) bool {
	for _, j := range order {
		if j.tasksLeft == 0 {
			continue
		}
		if task := j.nextNear(int(w.key)); task >= 0 {
			d.startDelayed(w, j, task)
			j.passed = false
			return true
		}
		if !j.passed {
			j.passed, j.passedSince = true, d.now
			if d.wait > 0 {
				d.callAfter(d.wait, d.fillSlots)
			}
		}
		if d.now.Sub(j.passedSince) >= d.wait {
			for j.started[j.nextTask] {
				j.nextTask++
			}
			d.startDelayed(w, j, j.nextTask)
			return true
		}
	}
	return false
}

// nextNear returns a waiting task with an input at a worker; -1 if there is none.
func (j *delayedJob) nextNear(worker int) int {
	tasks := j.tasksAt[worker]
	for len(tasks) > 0 && j.started[tasks[0]] {
		tasks = tasks[1:]
	}
	if len(tasks) == 0 {
		delete(j.tasksAt, worker)
		return -1
	}
	j.tasksAt[worker] = tasks
	return tasks[0]
}

// startDelayed starts a task of j at w.
func (d *delaying) startDelayed(w *handWorker, j *delayedJob, task int) {
	j.started[task] = true
	j.tasksLeft--
	j.running++
	d.startTask(w, handTask{j.handJob, &j.Tasks[task]})
}

func (d *delaying) checkState() error {
	running := map[*delayedJob]int{}
	for _, w := range d.workers {
		if w.freeSlots < 0 {
			return fmt.Errorf("worker %d has %d free slots", w.key, w.freeSlots)
		}
		for _, r := range w.runs {
			running[r.job.own.(*delayedJob)]++
		}
	}
	for _, j := range d.jobs {
		if j.running != running[j] {
			return fmt.Errorf("a job with %d running tasks is taken for %d", running[j], j.running)
		}
	}
	return nil
}
