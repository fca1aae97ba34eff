package sim

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/phoebe-sched/phoebe/bench"
	"github.com/phoebe-sched/phoebe/frontend"
	"github.com/phoebe-sched/phoebe/probe"
)

// withoutOffers is two-level with offers that take no time, as often as wanted.
var withoutOffers = Policy{Name: "two-level", rival: &rival{name: "two-level", central: true, instant: true,
	make: func(cfg *Config, speeds []float64, f frontend.Config, rng *rand.Rand) scheduler {
		h := newTwoLevel(cfg, speeds, f, rng).(*hand)
		m := h.brain.(*twoLevel)
		m.offerTakes, m.offerEvery = 0, 0
		return h
	}}}

// Where decisions take no time and all tasks fit, a rival gives the omniscient schedule.
func TestRivalsWithoutCostAreOmniscient(t *testing.T) {
	cfg := smallConfig(t)
	cfg.Workload, cfg.Workers, cfg.Load, cfg.Jobs, cfg.WarmupJobs, cfg.checkState = mustPoisson(t, "geometric:10",
		"task-exp:100ms"), 100, 0.3, 400, 50, true
	policies := append(mustPolicies("single-path", "multi-path", "shared-state", "shared-state-coarse",
		"shared-state-gang", "shared-state-coarse-gang", "centralized"), withoutOffers)
	for _, cfg.Policy = range policies {
		cfg.Delay = 0
		if r := mustRun(t, cfg); !reflect.DeepEqual(r.ResponseMS, *r.OmniscientMS) || r.WaitMS.Max != 0 {
			t.Errorf("%s: responses of %+v ms, want %+v", cfg.Policy.Name, r.ResponseMS, *r.OmniscientMS)
		}
	}
}

// decisionConfig has 60 h of batch and service jobs whose tasks all fit, and decisions that take longer by tasks.
func decisionConfig(t *testing.T, service time.Duration) Config {
	return Config{
		Frontends: 2, Workers: 2000, Slots: 4, Seed: 1, Jobs: 60 * 3600 * 3 / 20,
		Workload: Kinds{{"batch", 10 * time.Second, mustPoisson(t, "geometric:5", "fixed:1s")},
			{"service", 20 * time.Second, mustPoisson(t, "geometric:5", "fixed:1s")}},
		Think: []Think{{Kind: "batch", PerJob: 100 * time.Millisecond, PerTask: 100 * time.Millisecond},
			{Kind: "service", PerJob: service, PerTask: 100 * time.Millisecond}},
	}
}

// thinkMoments returns the mean of a decision of decisionConfig, in s, and the mean of its square.
func thinkMoments(perJob time.Duration) (mean, square float64) {
	const perTask, tasks = 0.1, 5.0
	mean = perJob.Seconds() + perTask*tasks
	return mean, mean*mean + perTask*perTask*tasks*(tasks-1)
}

// Where nothing clashes and all tasks fit, a decider is a queue M/G/1. Its busy share is rate x mean decision, and
// jobs wait as Pollaczek and Khinchin say.
func TestDecidersAreQueues(t *testing.T) {
	type queue struct{ rate, mean, square float64 }
	add := func(perJob time.Duration, every float64) queue {
		mean, square := thinkMoments(perJob)
		return queue{1 / every, mean, square}
	}
	const quick = 100 * time.Millisecond
	for _, test := range []struct {
		policy  string
		service time.Duration
		queues  map[string][]queue // by decider: the streams of jobs
	}{
		{"multi-path", 10 * time.Second, map[string][]queue{"": {add(quick, 10), add(10*time.Second, 20)}}},
		{"single-path", 4 * time.Second, map[string][]queue{"": {add(4*time.Second, 10), add(4*time.Second, 20)}}},
		{"shared-state", 10 * time.Second,
			map[string][]queue{"batch": {add(quick, 10)}, "service": {add(10*time.Second, 20)}}},
		{"random", 10 * time.Second,
			map[string][]queue{"batch": {add(quick, 10)}, "service": {add(10*time.Second, 20)}}},
	} {
		cfg := decisionConfig(t, test.service)
		cfg.Policy = mustPolicy(t, test.policy)
		r := mustRun(t, cfg)
		for kind, streams := range test.queues {
			busy, squares := 0.0, 0.0
			for _, q := range streams {
				busy += q.rate * q.mean
				squares += q.rate * q.square
			}
			wait := squares / 2 / (1 - busy)
			got := r.Deciders[kind]
			t.Logf("%s %s: busy %.4f, by the formula %.4f; waits %.4f s and %.4f s", test.policy, kind, got.Busy, busy,
				got.WaitS, wait)
			if math.Abs(got.Busy/busy-1) > 0.02 || math.Abs(got.WaitS/wait-1) > 0.1 || got.Redone != 0 ||
				got.Clashes != 0 {
				t.Errorf("%s %s: %+v, want busy for %.4f and waits of %.4f s", test.policy, kind, got, busy, wait)
			}
		}
		if len(r.Deciders) != len(test.queues) || r.Kinds["batch"].Jobs+r.Kinds["service"].Jobs != r.Jobs {
			t.Errorf("%s: deciders %v, %d jobs, of kinds %d and %d", test.policy, r.Deciders, r.Jobs,
				r.Kinds["batch"].Jobs, r.Kinds["service"].Jobs)
		}
	}
}

// handPlay plays a rival on workers that run tasks for the time in their payload. Messages take no time.
type handPlay struct {
	*hand
	showWorker bool
	ends       []playedRun
	starts     []string // kind of the job, worker if shown, time
}

// playedJobOf is a job that arrives at a time.
type playedJobOf struct {
	at  time.Duration
	job *frontend.Job
}

type playedRun struct {
	at     time.Duration
	worker frontend.Worker
	msg    *probe.Finished
}

// playHand plays jobs, each a kind, an arrival and run times, and returns the starts of tasks by kind.
func playHand(t *testing.T, policy string, cfg Config, jobs []arrival) *handPlay {
	t.Helper()
	s := mustPolicy(t, policy).rival.make(&cfg, nil, frontend.Config{ID: 1}, rand.New(rand.NewPCG(1, 1)))
	p := &handPlay{hand: s.(*hand)}
	var played []playedJobOf
	for _, j := range jobs {
		job := &frontend.Job{ID: jobID(len(played)), Tenant: j.tenant}
		for i, d := range j.Tasks {
			job.Tasks = append(job.Tasks, frontend.Task{Index: probe.TaskIndex(i), Payload: payloadOf(d)})
		}
		played = append(played, playedJobOf{j.At, job})
	}
	p.playJobs(t, played)
	return p
}

// playJobs plays jobs until all their tasks have ended.
func (p *handPlay) playJobs(t *testing.T, jobs []playedJobOf) {
	t.Helper()
	for len(jobs) > 0 || len(p.ends) > 0 || p.timers.Len() > 0 {
		next := time.Duration(math.MaxInt64)
		slices.SortStableFunc(p.ends, func(a, b playedRun) int { return cmp.Compare(a.at, b.at) })
		if len(p.ends) > 0 {
			next = p.ends[0].at
		}
		if wake := p.NextWake(); !wake.IsZero() {
			next = min(next, wake.Sub(origin))
		}
		if len(jobs) > 0 {
			next = min(next, jobs[0].at)
		}
		switch {
		case len(p.ends) > 0 && p.ends[0].at == next:
			r := p.ends[0]
			p.ends = p.ends[1:]
			p.step(t, next, frontend.Frame{Worker: r.worker, Msgs: []probe.Msg{r.msg}})
		case len(jobs) > 0 && jobs[0].at == next:
			job := jobs[0].job
			jobs = jobs[1:]
			p.step(t, next, frontend.Submit{Job: job})
		default:
			p.step(t, next, frontend.Wake{})
		}
	}
}

// step steps the hand, and carries out its starts.
func (p *handPlay) step(t *testing.T, now time.Duration, ev frontend.Event) {
	t.Helper()
	for _, a := range p.Step(origin.Add(now), ev, nil) {
		send, ok := a.(frontend.Send)
		if !ok {
			continue
		}
		if m, ok := send.Msg.(probe.Enqueue); ok {
			where := ""
			if p.showWorker {
				where = fmt.Sprintf(" at w%d", send.Worker)
			}
			p.starts = append(p.starts, fmt.Sprintf("%s%s at %v", m.Tenant, where, now))
			p.ends = append(p.ends, playedRun{now + durationOf(m.Launch.Payload), send.Worker,
				&probe.Finished{Attempt: m.Launch.Attempt, Job: m.Job, Task: m.Launch.Task}})
		}
	}
	if err := p.Check(); err != nil {
		t.Fatal(err)
	}
}

// playedJob is a job of tasks of the same length.
func playedJob(kind string, at time.Duration, tasks int, run time.Duration) arrival {
	return arrival{Job: bench.Job{At: at, Tasks: slices.Repeat([]time.Duration{run}, tasks)}, tenant: kind}
}

// Each rival after Omega follows its rule, step by step.
func TestCellRules(t *testing.T) {
	const s = time.Second
	think := func(a, b time.Duration) []Think { return []Think{{Kind: "a", PerJob: a}, {Kind: "b", PerJob: b}} }
	for _, test := range []struct {
		name, policy   string
		workers, slots int
		think          []Think
		jobs           []arrival
		want           string
		clashes        int
		redone         time.Duration
	}{
		{"a task without room comes again, and pays anew", "multi-path", 2, 1, []Think{{PerJob: s, PerTask: s / 2}},
			[]arrival{playedJob("a", 0, 3, 10*s)}, "a at 2.5s, a at 2.5s, a at 12.5s", 0, 6 * s},
		{"one path for all takes the longest time", "single-path", 9, 1, think(s, 3*s),
			[]arrival{playedJob("a", 0, 1, s), playedJob("b", 0, 1, s), playedJob("a", 0, 1, s)},
			"a at 3s, b at 6s, a at 9s", 0, 0},
		{"several paths take their own", "multi-path", 9, 1, think(s, 3*s),
			[]arrival{playedJob("a", 0, 1, s), playedJob("b", 0, 1, s), playedJob("a", 0, 1, s)},
			"a at 1s, b at 4s, a at 5s", 0, 0},
		{"kinds do not wait for each other", "shared-state", 9, 1, think(s, 3*s),
			[]arrival{playedJob("a", 0, 1, s), playedJob("b", 0, 1, s), playedJob("a", 0, 1, s)},
			"a at 1s, a at 2s, b at 3s", 0, 0},
		{"a plan on taken slots clashes", "shared-state", 2, 1, think(s, s),
			[]arrival{playedJob("a", 0, 2, s), playedJob("b", s/2, 2, s)},
			"a at 1s, a at 1s, b at 3.5s, b at 3.5s", 1, s},
		{"the rest of a plan is committed", "shared-state", 3, 1, think(s, s),
			[]arrival{playedJob("a", 0, 1, 2*s), playedJob("b", s/2, 3, s)},
			"a at 1s, b at 1.5s, b at 1.5s, b at 3.5s", 1, s},
		{"a gang starts at once or not at all", "shared-state-gang", 3, 1, think(s, s),
			[]arrival{playedJob("a", 0, 1, 2*s), playedJob("b", s/2, 3, s)},
			"a at 1s, b at 5.5s, b at 5.5s, b at 5.5s", 1, 2 * s},
		{"another slot of the worker is no clash", "shared-state", 1, 2, think(s, s),
			[]arrival{playedJob("a", 0, 1, 9*s), playedJob("b", s/2, 1, s)}, "a at 1s, b at 1.5s", 0, 0},
		{"except for coarse conflicts", "shared-state-coarse", 1, 2, think(s, s),
			[]arrival{playedJob("a", 0, 1, 9*s), playedJob("b", s/2, 1, s)}, "a at 1s, b at 3.5s", 1, s},
		{"offered slots are locked", "two-level", 2, 1, think(10*s, 0),
			[]arrival{playedJob("a", 0, 1, s), playedJob("b", 0, 1, s)}, "a at 10.001s, b at 10.002s", 0, 0},
		{"a framework answers an offer once, for the jobs that waited", "two-level", 9, 1, think(s, 0),
			[]arrival{playedJob("b", 0, 1, s), playedJob("a", s/2, 1, s), playedJob("a", s/2, 1, s),
				playedJob("a", 2*s, 1, s)}, "b at 1ms, a at 3.001s, a at 3.001s, a at 4.002s", 0, 0},
		{"nobody decides about slots that are used up", "two-level", 1, 1, think(s, 0),
			[]arrival{playedJob("b", 0, 1, s), playedJob("a", s/2, 1, s), playedJob("a", s/2, 1, s)},
			"b at 1ms, a at 2.002s, a at 4.003s", 0, 0},
		{"an offer a second, to the framework with the fewest slots", "two-level", 4, 1, think(0, 0),
			[]arrival{playedJob("a", 0, 1, 9*s), playedJob("a", s/2, 1, 9*s), playedJob("b", s/2, 1, 9*s)},
			"a at 1ms, b at 1.001s, a at 2.001s", 0, 0},
	} {
		p := playHand(t, test.policy, Config{Workers: test.workers, Slots: test.slots, Think: test.think}, test.jobs)
		clashes, redone := 0, time.Duration(0)
		for _, d := range p.deciders {
			clashes += d.clashes
			redone += d.redone
		}
		if got := strings.Join(p.starts, ", "); got != test.want || clashes != test.clashes || redone != test.redone {
			t.Errorf("%s: %s, %d clashes, %v redone; want %s, %d, %v", test.name, got, clashes, redone, test.want,
				test.clashes, test.redone)
		}
	}
}

// Kinds arrive at their own rates, or together at a load.
func TestKinds(t *testing.T) {
	kinds := Kinds{must(ParseKind("batch 1s 10 fixed:1s")), must(ParseKind("service 4s 2 fixed:5s"))}
	for _, load := range []float64{0, 0.25} {
		a, err := kinds.newArrivals(1, load, 25)
		if err != nil {
			t.Fatal(err)
		}
		count, last := map[string]int{}, time.Duration(0)
		n := 0
		for job := range a.jobs {
			if job.Index != n || job.At < last || (len(job.Tasks) == 10) != (job.tenant == "batch") {
				t.Fatalf("job %d: %+v after %v", n, job, last)
			}
			count[job.tenant]++
			last = job.At
			if n++; n == 50_000 {
				break
			}
		}
		want := map[float64]float64{0: 0.5, 0.25: 0.25}[load] // 12.5 of 25 slots
		every := last.Seconds() / 50_000 * want / 0.5
		if a.load != want || math.Abs(every/0.8-1) > 0.02 || math.Abs(float64(count["service"])/10_000-1) > 0.05 {
			t.Errorf("load %g: %g, a job every %g s, %v", load, a.load, every, count)
		}
	}
	for text, want := range map[string]string{
		"batch 1s 10":           "has 3 words: use the name",
		"batch 0s 10 fixed:1s":  "0s between two jobs",
		"batch 1s 0 fixed:1s":   "tasks per job",
		"batch 1s 10 fixed:1":   "task duration",
		"batch now 10 fixed:1s": `invalid duration "now"`,
	} {
		if _, err := ParseKind(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want it to say %q", text, err, want)
		}
	}
}

func TestParseThink(t *testing.T) {
	const ms = time.Millisecond
	for text, want := range map[string]Think{
		"100ms+5ms": {PerJob: 100 * ms, PerTask: 5 * ms}, "batch=1s+0s*8": {"batch", 1000 * ms, 0, 8},
	} {
		if got, err := ParseThink(text); err != nil || got != want {
			t.Errorf("%q: %+v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "1s", "1s+", "a=-1s+1s", "1s+1s*0", "1s+1s*x", "x+1s"} {
		if _, err := ParseThink(text); err == nil || !strings.Contains(err.Error(), "such as 100ms+5ms") {
			t.Errorf("%q: %v", text, err)
		}
	}
	cfg := Config{Think: []Think{{PerJob: 1}, {Kind: "a", PerJob: 2}}}
	if cfg.thinkOf("a").PerJob != 2 || cfg.thinkOf("b").PerJob != 1 || cfg.thinkOf("a").timeFor(3) != 2 {
		t.Error(cfg)
	}
}
