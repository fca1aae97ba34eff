package sim

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/phoebe-sched/phoebe/frontend"
	"github.com/phoebe-sched/phoebe/frontend/estimate"
	"github.com/phoebe-sched/phoebe/probe"
	"github.com/phoebe-sched/phoebe/worker"
)

// A plain run is a calm run of plain use: a few jobs of a few tasks on a small fleet. The tasks take from milliseconds
// to half a minute, and their estimates are right, wrong or missing. While slots are free, no job may be refused, and
// no task may wait for more than two round trips. A central queue with the same slots runs beside: if it starts all
// tasks of a job on arrival, so must the frontends.

// One calm run in plainEvery is plain. No plain run is huge.
const plainEvery = 5

// isPlain reports whether the run of a seed is plain.
func isPlain(seed uint64) bool { return seed%calmEvery == 0 && seed/calmEvery%plainEvery == 3 }

// shortestPlain and longestPlain bound the run times in plain runs.
const (
	shortestPlain = time.Millisecond
	longestPlain  = 30 * time.Second
)

// plainRun is the state of the checks in a plain run.
type plainRun struct {
	queue     centralQueue
	freeSince [][]time.Duration // by worker, oldest first: since when each free slot is free; empty beside a queue
	attempts  map[probe.AttemptID]*faultTask
	rides     map[placeKey]*faultTask // by the place of the ride
}

// notHeld is the time for tasks that no frontend holds.
const notHeld = time.Duration(-1)

// plainTask is a task's part of a plainRun.
type plainTask struct {
	heldSince time.Duration // since when a frontend holds the task; notHeld: the task is at a worker
	heldFor   time.Duration // the longest time for which a frontend held the task while the same slot was free
	startedIn time.Duration // from the arrival to the start, if the central queue starts the job at once
}

// centralQueue starts tasks in the order of their arrival, without any delay.
type centralQueue struct {
	freeAt []time.Duration // by slot, ascending
	late   bool            // a task has waited since the last reset
}

// addTask lets a task arrive now that keeps a slot for a time.
func (q *centralQueue) addTask(now, takes time.Duration) {
	start := max(now, q.freeAt[0])
	q.freeAt[0], q.late = start+takes, q.late || start > now
	slices.Sort(q.freeAt)
}

// drawPlain draws a small fleet of healthy processes, and its jobs.
func (r *faultRun) drawPlain() {
	d := r.dice
	r.stats.Seen["plain runs"]++
	r.net = network{
		delay: drawBetween(d, 10*time.Microsecond, time.Millisecond),
		codec: true, lease: 3 * time.Second, ping: time.Second, workersWatch: true,
	}
	slots := 0
	for range 1 + d.IntN(4) {
		n := drawOne(d, 1, 2, 2, 4)
		slots += n
		r.furnishWorker(r.addWorker(worker.Config{
			Capacity: slotsOf(n), Functions: []string{sleepFunction, "tiny", "rare"},
		}, 1), d)
	}
	r.readyCalm()
	r.plain = &plainRun{
		queue: centralQueue{freeAt: make([]time.Duration, slots)}, freeSince: make([][]time.Duration, len(r.workers)),
		attempts: map[probe.AttemptID]*faultTask{}, rides: map[placeKey]*faultTask{},
	}
	r.afterFrontend, r.afterWorker = r.checkPlainFrontend, r.checkPlainWorker
	for range 1 + d.IntN(2) {
		r.addCalmFrontend(frontend.Config{Copies: r.copies})
	}
	tenants := drawOne(d, []string{"a"}, []string{"a", "b", "c"})
	at := 50 * time.Millisecond // all links are up
	for n := range 1 + d.IntN(7) {
		at += drawOne(d, time.Millisecond, drawBetween(d, 0, time.Second), drawBetween(d, 0, 10*time.Second),
			drawBetween(d, 0, time.Minute))
		r.drawPlainJob(n, tenants, at)
	}
	r.maxStill, r.end = 50_000, time.Hour
}

// drawPlainJob draws a job, and lets it arrive at a time.
func (r *faultRun) drawPlainJob(n int, tenants []string, at time.Duration) {
	d := r.dice
	j := &faultJob{n: n, id: jobID(n + 1), dice: rand.New(rand.NewPCG(r.seed, 'j'<<32|uint64(n)))}
	j.spec = frontend.Job{ID: j.id, Tenant: drawOne(d, tenants...), Policy: frontend.Policies[0]}
	mean := float64(shortestPlain) * math.Pow(float64(longestPlain)/float64(shortestPlain), d.Float64())
	spread, calls := drawOne(d, 0, 0.5, 1), drawOne(d, sleepFunction, sleepFunction, "tiny", "rare")
	hint, ofMean, onceChance := drawOne(d, 0, 0, 1, 1, 0.1, 0.3, 3, 10), drawChance(d, 0.3), drawOne(d, 0, 1.0)
	for k := range 1 + d.IntN(drawOne(d, 1, 4, 40)) {
		run := mean * (1 - spread + spread*d.ExpFloat64())
		run = min(max(run, float64(shortestPlain)), float64(longestPlain))
		t := faultTask{spec: frontend.Task{
			Index: probe.TaskIndex(k), Function: calls, Retryable: !drawChance(d, onceChance),
			Estimate: time.Duration(hint * run),
			Payload: binary.LittleEndian.AppendUint64(payloadOf(time.Duration(run)),
				uint64(n)<<32|uint64(k)),
		}}
		if ofMean {
			t.spec.Estimate = time.Duration(hint * mean)
		}
		j.tasks = append(j.tasks, t)
	}
	r.enterJob(j, at)
}

// plainWait returns the longest time for which a task may wait while slots are free: two round trips. A batch gives a
// worker one task placed by estimation, and the next batch gives the next task when the worker has answered.
// If another frontend or a stopped copy used a slot, a frontend knows of the free slot only by the next ping: a worker
// reports the end of an attempt to the owner alone.
func (r *faultRun) plainWait(path estimate.Path) time.Duration {
	trip := 2 * r.net.delay
	wait := 2 * trip
	if path == estimate.Estimation {
		for _, w := range r.workers {
			wait = max(wait, 2*trip+time.Duration(probe.Slot.Times(w.cfg.Capacity))*(trip+time.Millisecond))
		}
	}
	if len(r.frontends) > 1 || r.copies > 0 {
		wait += r.net.ping + trip
	}
	return wait
}

// notePlainArrival notes the arrival of a job at a frontend, and asks the central queue whether all tasks would start
// at once. The central queue keeps each slot for the longest wait, too: so it is never ahead of the frontends.
func (r *faultRun) notePlainArrival(j *faultJob) {
	q, wait := &r.plain.queue, r.plainWait(estimate.Estimation)
	if !slices.ContainsFunc(r.jobs, func(k *faultJob) bool { return k != j && k.arrivedAt > 0 && !k.ended }) {
		clear(q.freeAt)
		q.late = false
	}
	for i := range j.tasks {
		j.tasks[i].plain = plainTask{heldSince: r.now}
		q.addTask(r.now, durationOf(j.tasks[i].spec.Payload)+wait)
	}
	// Copies take slots, too. Two frontends may give the same slot to two tasks, and not every queued task moves.
	j.arrivedAt, j.fitsAtOnce = r.now, !q.late && r.copies == 0 && len(r.frontends) == 1
	if j.fitsAtOnce {
		r.stats.Seen["jobs that fit at once"]++
		return
	}
	for _, k := range r.jobs { // tasks of j may overtake tasks that are on their way to a worker
		k.fitsAtOnce = k.fitsAtOnce && r.now-k.arrivedAt > wait
	}
}

// checkPlainFrontend checks a step of a frontend in a plain run.
func (r *faultRun) checkPlainFrontend(f *frontendNode, ev frontend.Event) {
	r.checkCalmFrontend(f, ev)
	if ev, ok := ev.(frontend.Frame); ok {
		r.notePlainReturns(f, &ev)
	}
	for _, a := range f.acts {
		switch a := a.(type) {
		case frontend.Refused:
			r.checkPlainRefusal(f, r.jobs[jobOf(a.Job)-1], a.Err)
		case *frontend.Done:
			r.checkPlainTask(r.jobs[jobOf(a.Job)-1], &a.Outcome)
		case frontend.Send:
			switch m := a.Msg.(type) {
			case probe.Reserve:
				for i := range m.Launches {
					t := r.sendPlain(&m.Launches[i])
					r.plain.rides[placeKey{f.index, int(a.Worker), m.First + probe.ResID(i)}] = t
				}
			case probe.Bind:
				r.sendPlain(&m.Launch)
				for i := range m.Bundle {
					r.sendPlain(&m.Bundle[i])
				}
			case probe.Enqueue:
				r.sendPlain(&m.Launch)
			}
		}
	}
}

// sendPlain notes that a task goes to a worker.
func (r *faultRun) sendPlain(l *probe.Launch) *faultTask {
	n := int(binary.LittleEndian.Uint64(l.Payload[8:]) >> 32)
	t := &r.jobs[n].tasks[l.Task]
	for w := range r.workers {
		r.noteHeld(t, w)
	}
	t.plain.heldSince = notHeld
	r.plain.attempts[l.Attempt] = t
	return t
}

// notePlainReturns notes the tasks that a worker hands back to a frontend.
func (r *faultRun) notePlainReturns(f *frontendNode, frame *frontend.Frame) {
	for _, m := range frame.Msgs {
		switch m := m.(type) {
		case probe.Refused:
			if t := r.plain.attempts[m.Attempt]; t != nil && t.starts == 0 {
				t.plain.heldSince = r.now
			}
		case probe.Queued:
			for i := range m.Count {
				t := r.plain.rides[placeKey{f.index, int(frame.Worker), m.First + probe.ResID(i)}]
				if t != nil && t.starts == 0 {
					t.plain.heldSince = r.now
				}
			}
		}
	}
}

// noteHeld notes for how long a frontend has held t while worker w had a free slot.
func (r *faultRun) noteHeld(t *faultTask, w int) {
	if free := r.plain.freeSince[w]; len(free) > 0 && t.plain.heldSince != notHeld {
		t.plain.heldFor = max(t.plain.heldFor, r.now-max(free[0], t.plain.heldSince))
	}
}

// checkPlainRefusal fails the run if f refuses a job although slots are free.
func (r *faultRun) checkPlainRefusal(f *frontendNode, j *faultJob, err *frontend.RefusedError) {
	if j.fitsAtOnce {
		r.failRun("f%d refuses job %d, though a central queue would start the job at once: %v", f.index, j.n, err)
	}
	for w, free := range r.plain.freeSince {
		if len(free) > 0 && r.now-free[0] > r.plainWait(estimate.Estimation) {
			r.failRun("f%d refuses job %d, though w%d has had a free slot for %v: %v", f.index, j.n, w, r.now-free[0], err)
		}
	}
}

// checkPlainTask fails the run if a task that has ended waited for too long while slots were free.
func (r *faultRun) checkPlainTask(j *faultJob, o *frontend.Outcome) {
	t := &j.tasks[o.Task].plain
	if wait := r.plainWait(o.Path); t.heldFor > wait {
		r.failRun("a frontend held task %d of job %d, placed by %v, for %v while a slot was free; %v are allowed", o.Task,
			j.n, o.Path, t.heldFor, wait)
	} else if t.startedIn > wait {
		r.failRun("task %d of job %d, placed by %v, started %v after its arrival, though a central queue would start "+
			"the job at once; %v are allowed", o.Task, j.n, o.Path, t.startedIn, wait)
	}
}

// checkPlainWorker checks a step of a worker in a plain run.
func (r *faultRun) checkPlainWorker(w *workerNode, ev worker.Event) {
	r.checkCalmWorker(w, ev)
	starts := 0
	for _, a := range w.acts {
		if s, ok := a.(*worker.Start); ok {
			starts++
			if j, t := r.taskOf(s); j.fitsAtOnce && t.starts == 0 {
				t.plain.startedIn = r.now - j.arrivedAt
			}
		}
	}
	r.noteFreeSlots(w, starts)
}

// noteFreeSlots updates the free slots of w after a step that starts tasks. A start takes the slot that has been free
// for the longest time. So a worker that always has some free slot, but never the same, keeps no task waiting.
func (r *faultRun) noteFreeSlots(w *workerNode, starts int) {
	free, count := r.plain.freeSince[w.index], 0
	if load := w.core.Load(); load.Queued == 0 {
		count = probe.Slot.Times(load.Free)
	}
	taken := min(max(starts, len(free)-count), len(free))
	if taken > 0 {
		r.noteAllHeld(w.index)
	}
	free = slices.Delete(free, 0, taken)
	for len(free) < count {
		free = append(free, r.now)
	}
	r.plain.freeSince[w.index] = free
}

// noteAllHeld is noteHeld for all tasks that have not started.
func (r *faultRun) noteAllHeld(w int) {
	for _, j := range r.jobs {
		if j.arrivedAt == 0 || j.ended {
			continue
		}
		for i := range j.tasks {
			if t := &j.tasks[i]; t.starts == 0 {
				r.noteHeld(t, w)
			}
		}
	}
}
