package sim

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/phoebe-sched/phoebe/bench"
	"github.com/phoebe-sched/phoebe/frontend"
	"github.com/phoebe-sched/phoebe/frontend/tenants"
	"github.com/phoebe-sched/phoebe/probe"
	"github.com/phoebe-sched/phoebe/worker"
)

// sharing is a fleet shared by tenants for a time. Frontends have the limits of production.
type sharing struct {
	workers, frontends int
	warmup, lasts      time.Duration // only the time between these two moments counts
	worker             worker.Config // of each worker; the capacity is sharedSlots
	labels             func(w int) []string
	loss               float64  // share of lost news between frontends on tenants
	split              bool     // frontends exchange no news, and each has an equal part of the tokens
	mute               bool     // frontends exchange no news, and each has all tokens
	crash              bool     // half way through, one frontend crashes, and its clients go elsewhere
	tenants            []sharer // the run waits for all jobs of the first tenant that arrived while time counts
}

// In a shared fleet, each worker has sharedSlots slots, and a tenant's load stays the same for loadPeriod.
const (
	sharedSlots = 4
	turnOf      = 5 * time.Second
)

// tenantLoad is a tenant of a shared fleet, and the tenant's jobs.
type sharer struct {
	name   string
	tokens int
	class  frontend.Class
	tasks  int           // of a job
	run    time.Duration // mean of the tasks, exponentially distributed
	hints  bool          // each task states its run time
	label  string        // of the workers that may run the tasks; "": any

	loads []float64 // jobs arrive as a Poisson process, with these shares of all slots as loads, by turns
	jobs  int       // instead of loads: this number of jobs is always present
}

// tenantResult measures what a tenant got.
type shared struct {
	*sharer
	rng     *rand.Rand
	seen    bench.SimSample // jobs that arrived while time counts
	pending int             // unfinished tasks
	runs    int             // running tasks
	regular int             // running tasks that are not spare

	got, lost time.Duration // slot time; lost: of stopped tasks
	// slot time of regular tasks beyond the tokens; token time without a regular task while tasks wait
	over, idle time.Duration
}

// sharedRun is a shared fleet at work.
type sharedRun struct {
	cluster
	cfg     *sharing
	all     []*shared
	of      map[string]*shared
	jobs    map[probe.JobID]*sharedJob
	spare   map[probe.AttemptID]bool // attempts sent as spare, until they end or become regular
	last    int                      // arrived jobs
	refused int                      // number of refusals
	open    int                      // jobs that count and have not ended
	at      time.Duration            // slots are counted up to then
	first   []inUse                  // slots used by the first tenant, at each change
}

// inUse is the number of slots in use from a moment on.
type inUse struct {
	at    time.Duration
	slots int
}

type sharedJob struct {
	of     *shared
	came   time.Duration
	ideal  time.Duration // its longest task
	counts bool
	spec   frontend.Job // with the unfinished tasks
	owner  *frontendNode
}

// playSeed runs the fleet until s.end, and then until all jobs that count have ended.
func (s *sharing) play(seed uint64) (*sharedRun, error) {
	r := &sharedRun{cfg: s, of: map[string]*shared{}, jobs: map[probe.JobID]*sharedJob{}, spare: map[probe.AttemptID]bool{}}
	r.rng = rand.New(rand.NewPCG(seed, 'n'))
	r.net = network{delay: 250 * time.Microsecond, lease: 3 * time.Second, ping: time.Second}
	var entries []tenants.Entry
	for i := range s.tenants {
		of := &shared{sharer: &s.tenants[i], rng: rand.New(rand.NewPCG(seed, 't'<<32|uint64(i)))}
		r.all, r.of[of.name] = append(r.all, of), of
		e := tenants.Entry{Path: of.name, Tokens: of.tokens}
		if s.split {
			e.Tokens /= s.frontends
		}
		entries = append(entries, e)
		r.later(10*time.Millisecond, func() { r.begin(of) })
	}
	r.terms = tenants.New(1, nil, entries)
	cfg := s.worker
	cfg.Capacity, cfg.Functions = slotsOf(sharedSlots), []string{function}
	for i := range s.workers {
		w := r.addWorker(cfg, 1)
		if s.labels != nil {
			w.welcome.Labels = s.labels(i)
		}
	}
	for i := range s.frontends {
		r.addFrontend(frontend.Config{}, seed+uint64(i)<<32)
	}
	r.tell, r.afterFrontend = r.told, r.sends
	r.onStart = func(_ *workerNode, start *worker.Start) { r.runs(start, 1) }
	r.onEnd = func(start *worker.Start, ev *worker.Exited) {
		r.runs(start, -1)
		if ev.Status == probe.Killed && r.counts() {
			r.of[start.Tenant].lost += ev.Run
		}
	}
	if !s.mute && !s.split {
		r.share(make([][]tenants.Need, s.frontends), rand.New(rand.NewPCG(seed, 's')))
	}
	if s.crash {
		r.later((s.warmup+s.lasts)/2, r.crashOne)
	}
	for r.failed == nil && (r.now < s.lasts || r.open > 0) {
		if err := r.step(); err != nil {
			return nil, err
		}
	}
	r.count()
	return r, r.failed
}

// bestFill returns the largest share of all slots for tasks of length run beside the first tenant's tasks. No
// task delays the first tenant, and none is stopped. An oracle knows the first tenant's future: a task starts as
// soon as a slot stays free until the end of the task.
func (r *sharedRun) fits(run time.Duration) float64 {
	const tick = time.Millisecond
	from, to := int(r.cfg.warmup/tick), int(r.cfg.lasts/tick)
	free := make([]int, to-from) // slots free during the whole tick
	n, next := 0, 0
	for i := range free {
		least := n
		for ; next < len(r.first) && r.first[next].at < time.Duration(from+i+1)*tick; next++ {
			n = r.first[next].slots
			least = min(least, n)
		}
		free[i] = r.cfg.workers*sharedSlots - least
	}
	takes, started := int(run/tick), 0
	for i := range max(len(free)-takes+1, 0) {
		if more := slices.Min(free[i : i+takes]); more > 0 {
			for k := i; k < i+takes; k++ {
				free[k] -= more
			}
			started += more
		}
	}
	return float64(started*takes) / float64(len(free)*r.cfg.workers*sharedSlots)
}

func (r *sharedRun) counts() bool { return r.now >= r.cfg.warmup && r.now < r.cfg.lasts }

// countSlots counts the slots in use up to now.
func (r *sharedRun) count() {
	from, to := max(r.at, r.cfg.warmup), min(r.now, r.cfg.lasts)
	r.at = r.now
	for _, of := range r.all {
		if to > from {
			slots := func(n int) time.Duration { return time.Duration(max(n, 0)) * (to - from) }
			of.got += slots(of.runs)
			of.over += slots(of.regular - of.tokens)
			of.idle += slots(min(of.tokens, of.pending) - of.regular)
		}
	}
}

// noteTask notes the start (n = 1) or end (n = -1) of a task.
func (r *sharedRun) runs(start *worker.Start, n int) {
	r.count()
	of, id := r.of[start.Tenant], start.Launch.Attempt
	if of.runs += n; of == r.all[0] {
		r.first = append(r.first, inUse{r.now, of.runs})
	}
	if !r.spare[id] {
		of.regular += n
	}
	if n < 0 {
		delete(r.spare, id)
	}
}

// noteClasses notes which attempts are spare.
func (r *sharedRun) sends(f *frontendNode, _ frontend.Event) {
	for _, a := range f.acts {
		s, ok := a.(frontend.Send)
		if !ok {
			continue
		}
		switch m := s.Msg.(type) {
		case probe.Enqueue:
			if m.Standing.Class != probe.Regular {
				r.spare[m.Launch.Attempt] = true
			}
		case probe.Restamp:
			if start := r.workers[s.Worker].started(m.Attempt); start != nil {
				r.count()
				r.of[start.Tenant].regular++
			}
			delete(r.spare, m.Attempt)
		}
	}
}

// beginTenant lets a tenant's jobs arrive.
func (r *sharedRun) begin(of *shared) {
	for range of.jobs {
		r.submit(of)
	}
	if of.jobs == 0 {
		r.comes(of)
	}
}

// scheduleJob schedules the arrival of a tenant's next job.
func (r *sharedRun) comes(of *shared) {
	turn := r.now / turnOf
	apart := float64(of.tasks) * of.run.Seconds() / (of.loads[int(turn)%len(of.loads)] * float64(r.cfg.workers*sharedSlots))
	at := r.now + time.Duration(of.rng.ExpFloat64()*apart*1e9)
	if end := (turn + 1) * turnOf; at >= end { // the next period is another Poisson process
		r.later(end, func() { r.comes(of) })
		return
	}
	r.later(at, func() {
		if r.now < r.cfg.lasts {
			r.submit(of)
			r.comes(of)
		}
	})
}

// submitJob submits another job of a tenant, to any frontend.
func (r *sharedRun) submit(of *shared) {
	r.count()
	r.last++
	j := &sharedJob{of: of, came: r.now, counts: of == r.all[0] && r.counts()}
	j.spec = frontend.Job{ID: jobID(r.last), Tenant: of.name, Class: of.class, Policy: frontend.Policies[0]}
	if of.label != "" {
		j.spec.Constraint.Labels = []string{of.label}
	}
	for k := range of.tasks {
		t := frontend.Task{Index: probe.TaskIndex(k), Function: function, Retryable: true}
		d := time.Duration(of.rng.ExpFloat64() * float64(of.run))
		j.ideal = max(j.ideal, d)
		if t.Payload = payloadOf(d); of.hints {
			t.Estimate = d
		}
		j.spec.Tasks = append(j.spec.Tasks, t)
	}
	of.pending += of.tasks
	if j.counts {
		r.open++
	}
	r.jobs[j.spec.ID] = j
	r.turnTo(j, of.rng.IntN(len(r.frontends)))
}

// turnTo lets a job's client go to frontend i, or to the next frontend that is up.
func (r *sharedRun) turnTo(j *sharedJob, i int) {
	for r.frontends[i].down {
		i = (i + 1) % len(r.frontends)
	}
	j.owner = r.frontends[i]
	spec := j.spec
	if spec.Tasks = slices.Clone(spec.Tasks); spec.Generation > 0 {
		spec.Age = r.now - j.came
	}
	r.later(r.now, func() {
		if err := r.stepFrontend(j.owner, frontend.Submit{Job: &spec}); err != nil && r.failed == nil {
			r.failed = err
		}
	})
}

func (r *sharedRun) told(_ *frontendNode, a frontend.Action) {
	switch a := a.(type) {
	case *frontend.Done:
		j := r.jobs[a.Job]
		if a.Outcome.Kind != frontend.Result {
			r.failed = fmt.Errorf("task %d of a job of tenant %s: outcome %d, %s", a.Outcome.Task, j.of.name, a.Outcome.Kind, a.Outcome.Message)
			return
		}
		r.count()
		j.of.pending--
		j.spec.Tasks = slices.DeleteFunc(j.spec.Tasks, func(t frontend.Task) bool { return t.Index == a.Outcome.Task })
		if len(j.spec.Tasks) == 0 {
			r.ended(j)
		}
	case frontend.Refused:
		j := r.jobs[a.Job]
		if a.Err.RetryAfter == 0 {
			r.failed = a.Err
			return
		}
		r.refused++
		r.later(r.now+a.Err.RetryAfter, func() { r.turnTo(j, r.rng.IntN(len(r.frontends))) })
	}
}

func (r *sharedRun) ended(j *sharedJob) {
	delete(r.jobs, j.spec.ID)
	if j.counts {
		r.open--
		j.of.seen.Tasks += j.of.tasks
		j.of.seen.Response = append(j.of.seen.Response, r.now-j.came)
		j.of.seen.Ideal = append(j.of.seen.Ideal, j.ideal)
	}
	if j.of.sharer.jobs > 0 {
		r.later(r.now, func() { r.submit(j.of) })
	}
}

// exchangeNeeds lets frontends exchange their needs of tenants once a second.
func (r *sharedRun) share(told [][]tenants.Need, d *rand.Rand) {
	name := func(i int) string { return fmt.Sprint("f", i) }
	for i, f := range r.frontends {
		if f.down {
			continue
		}
		ev := frontend.Others{Self: name(i), Needs: map[string][]tenants.Need{}}
		for k, g := range r.frontends {
			if k != i && !g.down {
				ev.Members = append(ev.Members, name(k))
				ev.Needs[name(k)] = told[k]
			}
		}
		if err := r.stepFrontend(f, ev); err != nil {
			r.failed = err
			return
		}
		if d.Float64() >= r.cfg.loss {
			told[i] = f.frontend().Needs()
		}
	}
	r.later(r.now+time.Second, func() { r.share(told, d) })
}

// crashOne crashes the first frontend. Its clients notice 100 ms later.
func (r *sharedRun) crashOne() {
	f := r.frontends[0]
	r.crashFrontend(f, true)
	var left []*sharedJob
	for _, j := range r.jobs {
		if j.owner == f {
			left = append(left, j)
		}
	}
	slices.SortFunc(left, func(a, b *sharedJob) int { return cmp.Compare(jobOf(a.spec.ID), jobOf(b.spec.ID)) })
	for _, j := range left {
		j.spec.Generation++
		r.later(r.now+100*time.Millisecond, func() { r.turnTo(j, r.rng.IntN(len(r.frontends))) })
	}
}

// makeRun returns the measurements for a figure: the responses of the first tenant's jobs, and what each tenant
// got.
func (r *sharedRun) run(load float64) *bench.SimRun {
	time := (r.cfg.lasts - r.cfg.warmup).Seconds()
	slots := float64(r.cfg.workers * sharedSlots)
	s := &bench.SimSharing{Got: map[string]float64{}}
	run := &bench.SimRun{
		Load: load, Workers: r.cfg.workers, Slots: sharedSlots, Frontends: r.cfg.frontends, Events: r.steps,
		SimGroup: *r.all[0].seen.Group(), Sharing: s,
	}
	spare, tokens := 0.0, 0.0
	for _, of := range r.all {
		s.Got[of.name] = of.got.Seconds() / time / slots
		run.Utilisation += s.Got[of.name]
		s.Over += of.over.Seconds() / time
		s.Idle += of.idle.Seconds() / time
		tokens += float64(of.tokens)
		if of.class == frontend.Spare {
			s.Lost += of.lost.Seconds()
			spare += of.got.Seconds()
		}
	}
	s.Over, s.Idle = s.Over/tokens, s.Idle/tokens
	if spare > 0 {
		s.Lost /= spare
	}
	return run
}
