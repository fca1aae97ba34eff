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
	warmup, end        time.Duration // only the time between these two moments counts
	worker             worker.Config // of each worker; the capacity is sharedSlots
	labels             func(w int) []string
	loss               float64      // share of lost news between frontends on tenants
	split              bool         // frontends exchange no news, and each has an equal part of the tokens
	noNews             bool         // frontends exchange no news, and each has all tokens
	crash              bool         // half way through, one frontend crashes, and its clients go elsewhere
	tenants            []tenantLoad // the run waits for all jobs of the first tenant that arrived while time counts
}

// In a shared fleet, each worker has sharedSlots slots, and a tenant's load stays the same for loadPeriod.
const (
	sharedSlots = 4
	loadPeriod  = 5 * time.Second
)

// tenantLoad is a tenant of a shared fleet, and the tenant's jobs.
type tenantLoad struct {
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
type tenantResult struct {
	*tenantLoad
	rng     *rand.Rand
	seen    bench.SimSample // jobs that arrived while time counts
	pending int             // unfinished tasks
	running int             // running tasks
	regular int             // running tasks that are not spare

	got, lost time.Duration // slot time; lost: of stopped tasks
	// slot time of regular tasks beyond the tokens; token time without a regular task while tasks wait
	beyond, idle time.Duration
}

// sharedRun is a shared fleet at work.
type sharedRun struct {
	cluster
	cfg           *sharing
	tenants       []*tenantResult
	byName        map[string]*tenantResult
	jobs          map[probe.JobID]*sharedJob
	spareAttempts map[probe.AttemptID]bool // attempts sent as spare, until they end or become regular
	jobCount      int                      // arrived jobs
	refusals      int                      // number of refusals
	openJobs      int                      // jobs that count and have not ended
	countedUpTo   time.Duration            // slots are counted up to then
	firstInUse    []inUse                  // slots used by the first tenant, at each change
}

// inUse is the number of slots in use from a moment on.
type inUse struct {
	at    time.Duration
	slots int
}

// sharedJob is a job of a tenant in a shared fleet.
type sharedJob struct {
	tenant    *tenantResult
	cameAt    time.Duration
	ideal     time.Duration // its longest task
	isCounted bool
	spec      frontend.Job // with the unfinished tasks
	owner     *frontendNode
}

// playSeed runs the fleet until s.end, and then until all jobs that count have ended.
func (s *sharing) playSeed(seed uint64) (*sharedRun, error) {
	r := &sharedRun{cfg: s, byName: map[string]*tenantResult{}, jobs: map[probe.JobID]*sharedJob{},
		spareAttempts: map[probe.AttemptID]bool{}}
	r.rng = rand.New(rand.NewPCG(seed, 'n'))
	r.net = network{delay: 250 * time.Microsecond, lease: 3 * time.Second, ping: time.Second}
	var entries []tenants.Entry
	for i := range s.tenants {
		tenant := &tenantResult{tenantLoad: &s.tenants[i], rng: rand.New(rand.NewPCG(seed, 't'<<32|uint64(i)))}
		r.tenants, r.byName[tenant.name] = append(r.tenants, tenant), tenant
		e := tenants.Entry{Path: tenant.name, Tokens: tenant.tokens}
		if s.split {
			e.Tokens /= s.frontends
		}
		entries = append(entries, e)
		r.callAt(10*time.Millisecond, func() { r.beginTenant(tenant) })
	}
	r.tenantsFile = tenants.New(1, nil, entries)
	cfg := s.worker
	cfg.Capacity, cfg.Functions = slotsOf(sharedSlots), []string{sleepFunction}
	for i := range s.workers {
		w := r.addWorker(cfg, 1)
		if s.labels != nil {
			w.welcome.Labels = s.labels(i)
		}
	}
	for i := range s.frontends {
		r.addFrontend(frontend.Config{}, seed+uint64(i)<<32)
	}
	r.onAnswer, r.afterFrontend = r.handleAnswer, r.noteClasses
	r.onStart = func(_ *workerNode, start *worker.Start) { r.noteTask(start, 1) }
	r.onEnd = func(start *worker.Start, ev *worker.Exited) {
		r.noteTask(start, -1)
		if ev.Status == probe.Killed && r.isCounting() {
			r.byName[start.Tenant].lost += ev.Run
		}
	}
	if !s.noNews && !s.split {
		r.exchangeNeeds(make([][]tenants.Need, s.frontends), rand.New(rand.NewPCG(seed, 's')))
	}
	if s.crash {
		r.callAt((s.warmup+s.end)/2, r.crashOne)
	}
	for r.callErr == nil && (r.now < s.end || r.openJobs > 0) {
		if err := r.stepEvent(); err != nil {
			return nil, err
		}
	}
	r.countSlots()
	return r, r.callErr
}

// bestFill returns the largest share of all slots for tasks of length run beside the first tenant's tasks. No
// task delays the first tenant, and none is stopped. An oracle knows the first tenant's future: a task starts as
// soon as a slot stays free until the end of the task.
func (r *sharedRun) bestFill(run time.Duration) float64 {
	const tick = time.Millisecond
	from, to := int(r.cfg.warmup/tick), int(r.cfg.end/tick)
	free := make([]int, to-from) // slots free during the whole tick
	n, next := 0, 0
	for i := range free {
		least := n
		for ; next < len(r.firstInUse) && r.firstInUse[next].at < time.Duration(from+i+1)*tick; next++ {
			n = r.firstInUse[next].slots
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

// isCounting reports whether time counts now.
func (r *sharedRun) isCounting() bool { return r.now >= r.cfg.warmup && r.now < r.cfg.end }

// countSlots counts the slots in use up to now.
func (r *sharedRun) countSlots() {
	from, to := max(r.countedUpTo, r.cfg.warmup), min(r.now, r.cfg.end)
	r.countedUpTo = r.now
	for _, tenant := range r.tenants {
		if to > from {
			slots := func(n int) time.Duration { return time.Duration(max(n, 0)) * (to - from) }
			tenant.got += slots(tenant.running)
			tenant.beyond += slots(tenant.regular - tenant.tokens)
			tenant.idle += slots(min(tenant.tokens, tenant.pending) - tenant.regular)
		}
	}
}

// noteTask notes the start (n = 1) or end (n = -1) of a task.
func (r *sharedRun) noteTask(start *worker.Start, n int) {
	r.countSlots()
	tenant, id := r.byName[start.Tenant], start.Launch.Attempt
	if tenant.running += n; tenant == r.tenants[0] {
		r.firstInUse = append(r.firstInUse, inUse{r.now, tenant.running})
	}
	if !r.spareAttempts[id] {
		tenant.regular += n
	}
	if n < 0 {
		delete(r.spareAttempts, id)
	}
}

// noteClasses notes which attempts are spare.
func (r *sharedRun) noteClasses(f *frontendNode, _ frontend.Event) {
	for _, a := range f.acts {
		s, ok := a.(frontend.Send)
		if !ok {
			continue
		}
		switch m := s.Msg.(type) {
		case probe.Enqueue:
			if m.Standing.Class != probe.Regular {
				r.spareAttempts[m.Launch.Attempt] = true
			}
		case probe.Restamp:
			if start := r.workers[s.Worker].startOf(m.Attempt); start != nil {
				r.countSlots()
				r.byName[start.Tenant].regular++
			}
			delete(r.spareAttempts, m.Attempt)
		}
	}
}

// beginTenant lets a tenant's jobs arrive.
func (r *sharedRun) beginTenant(tenant *tenantResult) {
	for range tenant.jobs {
		r.submitJob(tenant)
	}
	if tenant.jobs == 0 {
		r.scheduleJob(tenant)
	}
}

// scheduleJob schedules the arrival of a tenant's next job.
func (r *sharedRun) scheduleJob(tenant *tenantResult) {
	turn := r.now / loadPeriod
	apart := float64(tenant.tasks) * tenant.run.Seconds() /
		(tenant.loads[int(turn)%len(tenant.loads)] * float64(r.cfg.workers*sharedSlots))
	at := r.now + time.Duration(tenant.rng.ExpFloat64()*apart*1e9)
	if end := (turn + 1) * loadPeriod; at >= end { // the next period is another Poisson process
		r.callAt(end, func() { r.scheduleJob(tenant) })
		return
	}
	r.callAt(at, func() {
		if r.now < r.cfg.end {
			r.submitJob(tenant)
			r.scheduleJob(tenant)
		}
	})
}

// submitJob submits another job of a tenant, to any frontend.
func (r *sharedRun) submitJob(tenant *tenantResult) {
	r.countSlots()
	r.jobCount++
	j := &sharedJob{tenant: tenant, cameAt: r.now, isCounted: tenant == r.tenants[0] && r.isCounting()}
	j.spec = frontend.Job{ID: jobID(r.jobCount), Tenant: tenant.name, Class: tenant.class, Policy: frontend.Policies[0]}
	if tenant.label != "" {
		j.spec.Constraint.Labels = []string{tenant.label}
	}
	for k := range tenant.tasks {
		t := frontend.Task{Index: probe.TaskIndex(k), Function: sleepFunction, Retryable: true}
		d := time.Duration(tenant.rng.ExpFloat64() * float64(tenant.run))
		j.ideal = max(j.ideal, d)
		if t.Payload = payloadOf(d); tenant.hints {
			t.Estimate = d
		}
		j.spec.Tasks = append(j.spec.Tasks, t)
	}
	tenant.pending += tenant.tasks
	if j.isCounted {
		r.openJobs++
	}
	r.jobs[j.spec.ID] = j
	r.visitFrontend(j, tenant.rng.IntN(len(r.frontends)))
}

// visitFrontend lets a job's client go to frontend i, or to the next frontend that is up, and submit its unfinished
// tasks there.
func (r *sharedRun) visitFrontend(j *sharedJob, i int) {
	for r.frontends[i].down {
		i = (i + 1) % len(r.frontends)
	}
	j.owner = r.frontends[i]
	spec := j.spec
	if spec.Tasks = slices.Clone(spec.Tasks); spec.Generation > 0 {
		spec.Age = r.now - j.cameAt
	}
	r.callAt(r.now, func() {
		if err := r.stepFrontend(j.owner, frontend.Submit{Job: &spec}); err != nil && r.callErr == nil {
			r.callErr = err
		}
	})
}

// handleAnswer is the client of all frontends. Refused jobs come again.
func (r *sharedRun) handleAnswer(_ *frontendNode, a frontend.Action) {
	switch a := a.(type) {
	case *frontend.Done:
		j := r.jobs[a.Job]
		if a.Outcome.Kind != frontend.Result {
			r.callErr = fmt.Errorf("task %d of a job of tenant %s: outcome %d, %s", a.Outcome.Task, j.tenant.name,
				a.Outcome.Kind, a.Outcome.Message)
			return
		}
		r.countSlots()
		j.tenant.pending--
		j.spec.Tasks = slices.DeleteFunc(j.spec.Tasks, func(t frontend.Task) bool { return t.Index == a.Outcome.Task })
		if len(j.spec.Tasks) == 0 {
			r.endJob(j)
		}
	case frontend.Refused:
		j := r.jobs[a.Job]
		if a.Err.RetryAfter == 0 {
			r.callErr = a.Err
			return
		}
		r.refusals++
		r.callAt(r.now+a.Err.RetryAfter, func() { r.visitFrontend(j, r.rng.IntN(len(r.frontends))) })
	}
}

// endJob measures an ended job, and replaces the job if its tenant always has jobs.
func (r *sharedRun) endJob(j *sharedJob) {
	delete(r.jobs, j.spec.ID)
	if j.isCounted {
		r.openJobs--
		j.tenant.seen.Tasks += j.tenant.tasks
		j.tenant.seen.Response = append(j.tenant.seen.Response, r.now-j.cameAt)
		j.tenant.seen.Ideal = append(j.tenant.seen.Ideal, j.ideal)
	}
	if j.tenant.tenantLoad.jobs > 0 {
		r.callAt(r.now, func() { r.submitJob(j.tenant) })
	}
}

// exchangeNeeds lets frontends exchange their needs of tenants once a second.
func (r *sharedRun) exchangeNeeds(heard [][]tenants.Need, d *rand.Rand) {
	name := func(i int) string { return fmt.Sprint("f", i) }
	for i, f := range r.frontends {
		if f.down {
			continue
		}
		ev := frontend.Others{Self: name(i), Needs: map[string][]tenants.Need{}}
		for k, g := range r.frontends {
			if k != i && !g.down {
				ev.Members = append(ev.Members, name(k))
				ev.Needs[name(k)] = heard[k]
			}
		}
		if err := r.stepFrontend(f, ev); err != nil {
			r.callErr = err
			return
		}
		if d.Float64() >= r.cfg.loss {
			heard[i] = f.frontendCore().Needs()
		}
	}
	r.callAt(r.now+time.Second, func() { r.exchangeNeeds(heard, d) })
}

// crashOne crashes the first frontend. Its clients notice 100 ms later.
func (r *sharedRun) crashOne() {
	f := r.frontends[0]
	r.crashFrontend(f, true)
	var orphans []*sharedJob
	for _, j := range r.jobs {
		if j.owner == f {
			orphans = append(orphans, j)
		}
	}
	slices.SortFunc(orphans, func(a, b *sharedJob) int { return cmp.Compare(jobOf(a.spec.ID), jobOf(b.spec.ID)) })
	for _, j := range orphans {
		j.spec.Generation++
		r.callAt(r.now+100*time.Millisecond, func() { r.visitFrontend(j, r.rng.IntN(len(r.frontends))) })
	}
}

// makeRun returns the measurements for a figure: the responses of the first tenant's jobs, and what each tenant
// got.
func (r *sharedRun) makeRun(load float64) *bench.SimRun {
	time := (r.cfg.end - r.cfg.warmup).Seconds()
	slots := float64(r.cfg.workers * sharedSlots)
	s := &bench.SimSharing{Got: map[string]float64{}}
	run := &bench.SimRun{
		Load: load, Workers: r.cfg.workers, Slots: sharedSlots, Frontends: r.cfg.frontends, Events: r.steps,
		SimGroup: *r.tenants[0].seen.Group(), Sharing: s,
	}
	spare, tokens := 0.0, 0.0
	for _, tenant := range r.tenants {
		s.Got[tenant.name] = tenant.got.Seconds() / time / slots
		run.Utilisation += s.Got[tenant.name]
		s.Over += tenant.beyond.Seconds() / time
		s.Idle += tenant.idle.Seconds() / time
		tokens += float64(tenant.tokens)
		if tenant.class == frontend.Spare {
			s.Lost += tenant.lost.Seconds()
			spare += tenant.got.Seconds()
		}
	}
	s.Over, s.Idle = s.Over/tokens, s.Idle/tokens
	if spare > 0 {
		s.Lost /= spare
	}
	return run
}
