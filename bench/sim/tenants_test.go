package sim

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/phoebe-sched/phoebe/frontend"
	"github.com/phoebe-sched/phoebe/probe"
	"github.com/phoebe-sched/phoebe/worker"
)

// testTenant submits jobs as a Poisson process, and submits refused jobs again when told to.
type testTenant struct {
	name  string
	load  float64 // share of all slots
	tasks int     // of a job
	run   time.Duration

	response []time.Duration // of ended jobs, since they were first submitted
	refused  int
}

func (t *testTenant) quantile(q float64) time.Duration {
	if len(t.response) == 0 {
		return 0
	}
	slices.Sort(t.response)
	return t.response[int(q*float64(len(t.response)-1))]
}

// playFleet lets tenants submit jobs to frontends with production's limits for a while.
func playFleet(t *testing.T, cfg frontend.Config, wcfg worker.Config, lasts time.Duration, tenants ...*testTenant) {
	const frontends, workers, slots = 2, 10, 4
	c := &cluster{rng: rand.New(rand.NewPCG(1, 'n')),
		net: network{delay: 250 * time.Microsecond, lease: 3 * time.Second, ping: time.Second}}
	wcfg.Capacity, wcfg.Functions = slotsOf(slots), []string{sleepFunction}
	for range workers {
		c.addWorker(wcfg, 1)
	}
	for i := range frontends {
		c.addFrontend(cfg, uint64(i+1))
	}
	type submitted struct {
		tenant     *testTenant
		at         time.Duration
		unfinished int
		spec       *frontend.Job
		to         *frontendNode
	}
	jobs := map[probe.JobID]*submitted{}
	last := uint64(0)
	submit := func(s *submitted) {
		if err := c.stepFrontend(s.to, frontend.Submit{Job: s.spec}); err != nil {
			t.Fatal(err)
		}
	}
	c.onAnswer = func(_ *frontendNode, a frontend.Action) {
		switch a := a.(type) {
		case *frontend.Done:
			s := jobs[a.Job]
			if a.Outcome.Kind != frontend.Result {
				t.Fatalf("of tenant %s: %+v", s.tenant.name, a.Outcome)
			}
			if s.unfinished--; s.unfinished == 0 {
				s.tenant.response = append(s.tenant.response, c.now-s.at)
				delete(jobs, a.Job)
			}
		case frontend.Refused:
			s := jobs[a.Job]
			s.tenant.refused++
			c.callAt(c.now+a.Err.RetryAfter, func() { submit(s) })
		}
	}
	for i, tenant := range tenants {
		rng := rand.New(rand.NewPCG(7, uint64(i)))
		apart := float64(tenant.tasks) * tenant.run.Seconds() / (tenant.load * workers * slots)
		var next func()
		next = func() {
			last++
			s := &submitted{tenant: tenant, at: c.now, unfinished: tenant.tasks, to: c.frontends[rng.IntN(frontends)]}
			s.spec = &frontend.Job{ID: jobID(int(last)), Tenant: tenant.name, Policy: frontend.Policies[0]}
			for k := range tenant.tasks {
				d := time.Duration(rng.ExpFloat64() * float64(tenant.run))
				s.spec.Tasks = append(s.spec.Tasks, frontend.Task{Index: probe.TaskIndex(k), Function: sleepFunction,
					Payload: payloadOf(d), Retryable: true})
			}
			jobs[s.spec.ID] = s
			submit(s)
			c.callAt(c.now+time.Duration(rng.ExpFloat64()*apart*1e9), next)
		}
		c.callAt(10*time.Millisecond, next)
	}
	for c.now < lasts {
		if err := c.stepEvent(); err != nil {
			t.Fatal(err)
		}
	}
}

// A greedy tenant wants three times the capacity, and polite tenants want a tenth each. If workers serve tenants
// in fair order, none of the polite tenants' jobs is refused, and their p99 is at most twice the p99 without the
// greedy tenant.
func TestGreedyTenant(t *testing.T) {
	const lasts, run = 3 * time.Second, 20 * time.Millisecond
	polite := func() []*testTenant {
		return []*testTenant{{name: "a", load: 0.1, tasks: 4, run: run}, {name: "b", load: 0.1, tasks: 4, run: run}}
	}
	both := func(tenants []*testTenant) (p50, p99 time.Duration, refused int) {
		all := &testTenant{response: slices.Concat(tenants[0].response, tenants[1].response)}
		return all.quantile(0.5), all.quantile(0.99), tenants[0].refused + tenants[1].refused
	}
	alone := polite()
	playFleet(t, frontend.Config{}, worker.Config{Order: worker.Fair}, lasts, alone...)
	p50Alone, p99Alone, _ := both(alone)
	for _, c := range []struct {
		name  string
		tasks int // of the greedy tenant's jobs
		f     frontend.Config
		w     worker.Config
	}{
		{"small jobs", 4, frontend.Config{}, worker.Config{}},
		{"large jobs, few tasks may be pending", 100, frontend.Config{MaxPending: 1000}, worker.Config{}},
		{"small jobs, few places may be queued", 4, frontend.Config{}, worker.Config{MaxQueue: 200}},
	} {
		beside, greedy := polite(), &testTenant{name: "greedy", load: 3, tasks: c.tasks, run: run}
		c.w.Order = worker.Fair
		playFleet(t, c.f, c.w, lasts, append(beside, greedy)...)
		p50, p99, refused := both(beside)
		t.Logf("%s: p50 %v, alone %v; p99 %v, alone %v; of the greedy tenant %d jobs ended, %d were refused",
			c.name, p50, p50Alone, p99, p99Alone, len(greedy.response), greedy.refused)
		if refused > 0 || p99 > 2*p99Alone {
			t.Errorf("%s: beside a greedy tenant polite ones have a p99 of %v, %v alone, and %d jobs refused", c.name,
				p99, p99Alone, refused)
		}
		if greedy.refused == 0 || len(greedy.response) == 0 {
			t.Errorf("%s: of the greedy tenant %d jobs ended, %d were refused", c.name, len(greedy.response),
				greedy.refused)
		}
	}
}
