package sim

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"time"

	"github.com/phoebe-sched/phoebe/frontend"
	"github.com/phoebe-sched/phoebe/frontend/estimate"
	"github.com/phoebe-sched/phoebe/probe"
	"github.com/phoebe-sched/phoebe/worker"
)

// A calm run is a run of Faults without faults. Both cores have the limits and timers of production, and jobs
// take from microseconds to minutes. If anything is lost, dropped, tried again, or declined although it was
// wanted, a core has a defect.

// One seed in calmEvery is calm. One calm run in hugeEvery has a job of very many tasks. One calm run in idleEvery
// has little to do, so slots are free most of the time.
const (
	calmEvery = 4
	hugeEvery = 50
	idleEvery = 2
)

// idleShare is the work of a run with little to do, as a share of the work of other calm runs.
const idleShare = 0.2

// shortestCalm and longestCalm bound the run times in calm runs.
const (
	shortestCalm = 10 * time.Microsecond
	longestCalm  = time.Minute
)

// drawCalm draws a cluster of healthy processes, and its jobs.
func (r *faultRun) drawCalm() {
	d := r.dice
	r.stats.Seen["calm runs"]++
	r.net = network{
		delay:  drawBetween(d, 10*time.Microsecond, time.Millisecond),
		jitter: drawOne(d, 0, 100*time.Microsecond, time.Millisecond),
		codec:  true, lease: 3 * time.Second, ping: time.Second, workersWatch: true,
	}
	slots := 0
	for range 2 + d.IntN(4) {
		n := drawOne(d, 1, 1, 2, 4, 8)
		slots += n
		r.furnishWorker(r.addWorker(worker.Config{
			Capacity: slotsOf(n), Functions: []string{sleepFunction, "tiny", "rare"},
			Order:      drawOne(d, worker.Fair, worker.Fair, worker.FIFO, worker.Priority, worker.Shortest),
			MaxQueue:   drawOne(d, 0, 0, 0, 1<<20),
			ShortShare: drawOne(d, 0, -1, 0.5),
		}, 1), d)
	}
	r.readyCalm()
	r.afterFrontend, r.afterWorker = r.checkCalmFrontend, r.checkCalmWorker
	for range 1 + d.IntN(3) {
		r.addCalmFrontend(frontend.Config{
			MaxWait: drawOne[time.Duration](d, 0, -1), Matcher: drawOne(d, estimate.Stable, estimate.Greedy,
				estimate.Optimal), Copies: r.copies,
		})
	}
	work := time.Duration(slots) * drawBetween(d, 10*time.Second, 150*time.Second)
	most := work
	if r.seed/calmEvery%idleEvery == 0 {
		r.stats.Seen["calm runs with little to do"]++
		work = time.Duration(idleShare * float64(work))
		most = work / 8
	}
	for n := range 1 + d.IntN(12) {
		if work <= 0 {
			break
		}
		work -= r.drawCalmJob(n, min(work, most))
	}
	if r.seed/calmEvery%hugeEvery == 1 {
		r.drawHugeJob(len(r.jobs))
	}
	r.checkEvery = 1 + uint64(r.stats.Tasks/2) // a check takes time in proportion to the tasks
	r.maxStill = 50_000 + 20*r.stats.Tasks
	r.end = time.Hour
}

// readyCalm makes the records of the workers. In half of the runs the workers gossip.
func (r *faultRun) readyCalm() {
	r.fetchers, r.rumours = make([]fetcher, len(r.workers)), make([]uint64, len(r.workers))
	r.drainingLife, r.outages = make([]int32, len(r.workers)), make([]outage, len(r.workers))
	r.queued, r.idle = make([]uint32, len(r.workers)), make([]idleSpan, len(r.workers))
	r.deadCaches, r.deadSince = make([]int32, len(r.workers)), make([]time.Duration, len(r.workers))
	if drawChance(r.dice, 0.5) {
		for _, w := range r.workers {
			r.sendGossip(w, false)
		}
	}
}

// addCalmFrontend adds a frontend of a calm run.
func (r *faultRun) addCalmFrontend(cfg frontend.Config) {
	r.visits = append(r.visits, map[probe.JobID]*visit{})
	r.addFrontend(cfg, r.seed+uint64(len(r.frontends))<<32)
}

// drawCalmJob draws a job of about the given work at most, enters the job, and returns its work.
func (r *faultRun) drawCalmJob(n int, most time.Duration) time.Duration {
	d := r.dice
	j := &faultJob{n: n, id: jobID(n + 1), dice: rand.New(rand.NewPCG(r.seed, 'j'<<32|uint64(n)))}
	j.spec = frontend.Job{ID: j.id, Tenant: drawOne(d, "a", "b", "b/c"), Priority: int32(d.IntN(3)),
		Policy: r.drawPolicy()}
	if drawChance(d, 0.3) {
		j.spec.ProbeRatio = drawOne[float64](d, 1, 3, frontend.MaxProbeRatio)
	}
	if j.spec.Policy.Binding == frontend.Late {
		j.spec.Mode = drawOne(d, estimate.Auto, estimate.Auto, estimate.Sample, estimate.Estimate)
	}
	r.drawClass(&j.spec, d)
	early := j.spec.Policy.Binding != frontend.Late || j.spec.Mode == estimate.Estimate ||
		j.spec.Mode == estimate.Auto && j.spec.Policy.Route
	needy, constrained, mixed := drawChance(d, 0.2), drawChance(d, 0.1), drawChance(d, 0.2)
	if drawChance(d, 0.15) {
		j.spec.Stages = r.drawStages(d)
		r.stats.Seen["jobs with stages"]++
	}
	drawRun, hint, onceChance := drawCalmLaw(d), drawOne(d, 0.0, 1, 1, 3, 0.3), drawOne(d, 0, 0.5, 1.0)
	calledFunction := sleepFunction
	if drawChance(d, 0.3) {
		calledFunction = "tiny"
	}
	sum := time.Duration(0)
	for k := range len(j.spec.Stages) + 1 + d.IntN(drawOne(d, 3, 30, 300)) {
		run := drawRun()
		if sum += run; sum > most && k > len(j.spec.Stages) {
			break
		}
		t := faultTask{}
		t.spec = frontend.Task{
			Index: probe.TaskIndex(k), Function: calledFunction, Retryable: !drawChance(d, onceChance),
			Estimate: time.Duration(float64(run) * hint), Retries: d.IntN(3),
		}
		if n := len(j.spec.Stages); n > 0 {
			if t.spec.Stage = int32(k); k >= n {
				t.spec.Stage = int32(d.IntN(n))
			}
		}
		switch {
		case constrained && drawChance(d, 0.5):
			r.drawConstraint(&t.spec.Constraint, d)
		case mixed:
			if t.spec.Demand = slotsOf(1 + d.IntN(3)); !r.fitsSomewhere(t.spec.Demand) {
				t.spec.Demand = probe.Demand{}
			}
		case needy:
			r.drawNeeds(&t.spec, n, j.spec.Stages, early, d)
		}
		r.countNeeds(&t.spec)
		t.spec.Payload = binary.LittleEndian.AppendUint64(payloadOf(run), uint64(n)<<32|uint64(k))
		if drawChance(d, 0.005) {
			// the largest payload allowed
			t.spec.Payload = append(t.spec.Payload, make([]byte, 1<<20-len(t.spec.Payload))...)
		}
		j.tasks = append(j.tasks, t)
	}
	r.enterJob(j, drawOne(d, 10*time.Millisecond, drawBetween(d, 0, 10*time.Second)))
	return sum
}

// drawCalmLaw draws the law of a job's run times. Each call of the returned function draws a run time.
func drawCalmLaw(d *rand.Rand) func() time.Duration {
	mean := math.Exp(math.Log(float64(shortestCalm)) + d.Float64()*math.Log(float64(longestCalm)/float64(shortestCalm)))
	law := drawOne(d,
		func() float64 { return mean },
		func() float64 { return mean * d.ExpFloat64() },
		func() float64 { return mean * drawOne(d, 0.1, 0.1, 0.1, 3) },
	)
	return func() time.Duration { return min(max(time.Duration(law()), shortestCalm), longestCalm) }
}

// drawHugeJob draws and enters a job of very short tasks, sometimes as many as a job may have.
func (r *faultRun) drawHugeJob(n int) {
	d := r.dice
	j := &faultJob{n: n, id: jobID(n + 1), dice: rand.New(rand.NewPCG(r.seed, 'j'<<32|uint64(n)))}
	j.spec = frontend.Job{ID: j.id, Tenant: "a", Policy: drawOne(d, frontend.Policies...)}
	mean, once, hint := drawBetween(d, shortestCalm, time.Millisecond), drawChance(d, 0.5), drawOne(d, 0.0, 1)
	for k := range drawOne(d, 10_000, 30_000, frontend.Config{}.Defaults().MaxTasksPerJob) {
		run := mean/2 + time.Duration(d.Int64N(int64(mean)))
		j.tasks = append(j.tasks, faultTask{spec: frontend.Task{
			Index: probe.TaskIndex(k), Function: "tiny", Retryable: !once, Estimate: time.Duration(float64(run) * hint),
			Payload: binary.LittleEndian.AppendUint64(payloadOf(run), uint64(n)<<32|uint64(k)),
		}})
	}
	r.stats.Seen["huge jobs"]++
	r.enterJob(j, drawBetween(d, 10*time.Millisecond, 10*time.Second))
}

// isPlain reports whether any task of the job may use any place of the job.
func (j *faultJob) isPlain() bool {
	for i := range j.tasks {
		t := &j.tasks[i].spec
		if len(t.Constraint.Labels)+len(t.Constraint.Hosts)+len(t.Inputs)+len(t.Files) > 0 ||
			t.Demand != j.tasks[0].spec.Demand || t.Stage > 0 ||
			j.spec.Class == frontend.Spare && t.Retryable != j.tasks[0].spec.Retryable {
			return false
		}
	}
	return true
}

// checkCalmFrontend checks a step of a frontend in a calm run.
func (r *faultRun) checkCalmFrontend(f *frontendNode, ev frontend.Event) {
	for _, a := range f.acts {
		switch a := a.(type) {
		case *frontend.Done:
			if o := &a.Outcome; o.Kind != frontend.Result || o.Attempts != 1 && !r.mayPreempt(a.Job, o.Task) &&
				(o.Attempts != 2 || r.copies == 0) {
				r.failRun("nothing is wrong, and task %d of job %d ends at f%d with outcome %d, failure %d, after "+
					"%d attempts: %s",
					o.Task, r.jobs[jobOf(a.Job)-1].n, f.index, o.Kind, o.Failure, o.Attempts, o.Message)
			}
		case frontend.Refused:
			if a.Err.Reason != frontend.Overloaded && r.now > time.Second {
				r.failRun("nothing is wrong, and f%d refuses job %v: %v", f.index, a.Job, a.Err)
			}
		case frontend.Moved:
			r.failRun("nothing is wrong, and job %v moves from f%d", a.Job, f.index)
		case frontend.Send:
			switch m := a.Msg.(type) {
			case probe.Reserve:
				for i := range m.Count {
					r.jobOfPlace[placeKey{f.index, int(a.Worker), m.First + probe.ResID(i)}] = r.jobs[jobOf(m.Job)-1]
				}
			case probe.Cancel: // the worker may give the place a turn before the Cancel arrives
				for i := range m.Count {
					delete(r.jobOfPlace, placeKey{f.index, int(a.Worker), m.First + probe.ResID(i)})
				}
			case probe.Decline:
				if j := r.jobOfPlace[placeKey{f.index, int(a.Worker), m.Res}]; j != nil && !j.ended {
					if n := f.frontendCore().Waiting(j.id); n > 0 && j.isPlain() {
						r.failRun("nothing is wrong, and f%d declines place %d of job %d at w%d, and %d tasks of "+
							"the job wait", f.index, m.Res, j.n, a.Worker, n)
					}
				}
			case probe.Kill:
				if r.copies == 0 {
					r.failRun("nothing is wrong, and f%d sends w%d %+v", f.index, a.Worker, m)
				}
			case probe.Claim:
				r.failRun("nothing is wrong, and f%d sends w%d %T %+v", f.index, a.Worker, m, m)
			}
		}
	}
	s := f.frontendCore().Stats
	if most := max(1, uint64(r.copies*float64(s.Tasks))); s.Copies > most || r.copies == 0 && s.Copies > 0 {
		r.failRun("f%d has made %d copies of %d tasks; the allowed share is %g", f.index, s.Copies, s.Tasks, r.copies)
	}
	if s.Retries+s.Losses+s.Lost+s.Poisons > 0 {
		r.failRun("nothing is wrong, and f%d counts %d retries, %d losses, %d lost, %d poisons after %s", f.index,
			s.Retries, s.Losses, s.Lost, s.Poisons, describeStep(ev))
	}
}

// placeKey identifies a place: by frontend, worker and the place's id.
type placeKey struct {
	frontend, worker int
	id               probe.ResID
}

// checkCalmWorker checks a step of a worker in a calm run.
func (r *faultRun) checkCalmWorker(w *workerNode, ev worker.Event) {
	r.noteIdle(w)
	queued := w.core.Load().Queued
	departed := 0 // places that left the queue with a cause
	for _, a := range w.acts {
		switch a := a.(type) {
		case *worker.Start:
			departed++
		case worker.Stop:
			if id := w.startOf(a.Attempt); r.copies == 0 && (id == nil || !r.mayPreempt(id.Job, id.Launch.Task)) {
				r.failRun("nothing is wrong, and w%d does %T %+v after %s", w.index, a, a, describeStep(ev))
			}
		case worker.Drop:
			r.failRun("nothing is wrong, and w%d does %T %+v after %s", w.index, a, a, describeStep(ev))
		case *worker.Send:
			switch m := a.Msg.(type) {
			case probe.Ready:
				departed++
			case probe.Gone:
				// a Gone on attempts may cross a Queued; losses are counted at the frontend
				if len(m.Places) > 0 && w.core.Stats.Refused == 0 {
					r.failRun("nothing is wrong, and w%d says %T %+v after %s", w.index, m, m, describeStep(ev))
				}
			case probe.Evicted:
				if m.Reason == probe.Withdrawn { // a task moves
					departed++
					continue
				}
				r.failRun("nothing is wrong, and w%d says %T %+v after %s", w.index, m, m, describeStep(ev))
			case probe.Refused:
				if m.Reason != probe.QueueFull && m.Reason != probe.Late {
					r.failRun("nothing is wrong, and w%d refuses: %s, after %s", w.index, m.Reason, describeStep(ev))
				}
			case *probe.Finished:
				if m.Status != probe.Succeeded && !(m.Status == probe.Preempted && r.mayPreempt(m.Job, m.Task)) {
					r.failRun("nothing is wrong, and attempt %s at w%d ends as %s: %s", m.Attempt, w.index, m.Status,
						m.Error)
				}
			}
		}
	}
	if ev, ok := ev.(worker.Received); ok {
		if m, ok := ev.Msg.(probe.Sync); ok && int(r.queued[w.index]) > int(queued)+departed {
			r.failRun("nothing is wrong, and of %d places at w%d a Sync of f%d leaves %d: %s", r.queued[w.index],
				w.index, r.conns[ev.Link-1].f.index, queued, describeStep(m))
		}
	}
	r.queued[w.index] = queued
	if s := w.core.Stats; s.Expired+s.Orphaned+s.Abandoned+s.Forgotten > 0 {
		r.failRun("nothing is wrong, and w%d counts %d turns that expired, %d orphans, %d given up, %d results "+
			"forgotten, after %s", w.index, s.Expired, s.Orphaned, s.Abandoned, s.Forgotten, describeStep(ev))
	}
}
