package sim

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/phoebe-sched/phoebe/bench"
	"github.com/phoebe-sched/phoebe/frontend/estimate"
	"github.com/phoebe-sched/phoebe/probe"
	"github.com/phoebe-sched/phoebe/worker"
)

// volleys is a workload of volleys: jobsAtOnce equal jobs arrive at one moment, when no other job is under way.
type volleys struct {
	jobsAtOnce, tasks int
	run               time.Duration
}

func (v volleys) newArrivals(_ uint64, load, _ float64) (*arrivals, error) {
	return &arrivals{load: load, tasksPerSecond: float64(v.jobsAtOnce*v.tasks) / v.interval().Seconds(),
		jobs: func(yield func(arrival) bool) {
			for n := 0; ; n++ {
				job := arrival{Job: bench.Job{Index: n, At: time.Duration(n/v.jobsAtOnce) * v.interval()}, mean: v.run}
				for range v.tasks {
					job.Tasks = append(job.Tasks, v.run)
				}
				if !yield(job) {
					return
				}
			}
		}}, nil
}

func (v volleys) interval() time.Duration {
	return time.Duration(v.jobsAtOnce+1)*v.run + 100*time.Millisecond
}

// Two frontends decide at the same moment, with the same knowledge. They meet at a worker no more often than with
// random workers: nothing makes them prefer the same worker.
func TestFrontendsMeetByChance(t *testing.T) {
	const workers = 20
	for _, test := range []struct {
		name  string
		mode  estimate.Mode
		tasks int
		run   time.Duration
		jobs  int
	}{
		{"rides", estimate.Sample, 1, time.Millisecond, 2000},
		{"rides of three tasks", estimate.Sample, 3, time.Millisecond, 2000},
		{"estimation", estimate.Estimate, 1, 100 * time.Millisecond, 2000},
		{"estimation of three tasks", estimate.Estimate, 3, 100 * time.Millisecond, 2000},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			at := make([][]int, test.jobs)            // the workers of each job
			by := make([]probe.FrontendID, test.jobs) // the frontend of each job
			cfg := Config{
				Policy: mustPolicy(t, "phoebe"), Load: 0.01, Frontends: 2, Workers: workers, Slots: 8,
				Workload: volleys{2, test.tasks, test.run},
				Jobs:     test.jobs, Seed: 1, Delay: 50 * time.Microsecond,
				Gossip: Gossip{Period: AsPing, Delay: 50 * time.Microsecond},
			}
			cfg.Policy.mode = test.mode
			cfg.onTaskStart = func(w *workerNode, s *worker.Start) {
				if n := jobOf(s.Job); n < test.jobs {
					at[n], by[n] = append(at[n], w.index), s.Launch.Attempt.Frontend
				}
			}
			if r := mustRun(t, cfg); (r.FrontendSum.Estimated > 0) != (test.mode == estimate.Estimate) {
				t.Fatalf("%d tasks were placed by estimation", r.FrontendSum.Estimated)
			}

			rng := rand.New(rand.NewPCG(1, 2))
			// as many places as the job had, at different workers if the job's were different
			draw := func(n int) (all []int) {
				for _, w := range at[n] {
					if k := slices.Index(at[n], w); k < len(all) {
						all = append(all, all[k])
						continue
					}
					w = rng.IntN(workers)
					for slices.Contains(all, w) {
						w = rng.IntN(workers)
					}
					all = append(all, w)
				}
				return all
			}
			meetings := func(a, b []int) (n float64) {
				for _, w := range a {
					if slices.Contains(b, w) {
						n++
					}
				}
				return n
			}
			seen, chance, squares, trials := 0.0, 0.0, 0.0, 0.0
			for n := 0; n+1 < test.jobs; n += 2 {
				if by[n] == by[n+1] {
					continue
				}
				seen += meetings(at[n], at[n+1])
				for range 20 {
					m := meetings(draw(n), draw(n+1))
					chance += m
					squares += m * m
					trials++
				}
			}
			pairs := trials / 20
			mean := chance / trials
			within := 4 * math.Sqrt((squares/trials-mean*mean)/pairs)
			t.Logf("%.0f pairs, met %.4f times each, by chance %.4f ± %.4f", pairs, seen/pairs, mean, within)
			if pairs < float64(test.jobs)/5 || seen/pairs > mean+within {
				t.Errorf("%.0f pairs met %.4f times each, by chance %.4f ± %.4f", pairs, seen/pairs, mean, within)
			}
		})
	}
}

// Several frontends decide at the same moment. Each has a task for workers with one slot. Two of the frontends
// meet at a worker no more often than by chance. The frontend with the second task at a worker hears of the meeting
// with the worker's next answer, and the task moves elsewhere.
func TestLoserStartsElsewhere(t *testing.T) {
	const workers, atOnce, takes = 20, 4, 2 * time.Second
	const jobs = 1200
	at := make([]int, jobs) // the worker of each job
	by := make([]probe.FrontendID, jobs)
	cfg := Config{
		Policy: mustPolicy(t, "phoebe"), Load: 0.01, Frontends: atOnce, Workers: workers, Slots: 1,
		Workload: volleys{atOnce, 1, takes},
		Jobs:     jobs, Seed: 1, Delay: 50 * time.Microsecond, Ping: time.Second,
		Gossip: Gossip{Period: AsPing, Delay: 50 * time.Microsecond},
	}
	cfg.onTaskStart = func(w *workerNode, s *worker.Start) {
		if n := jobOf(s.Job); n < jobs {
			at[n], by[n] = w.index, s.Launch.Attempt.Frontend
		}
	}
	r := mustRun(t, cfg)
	pairs, together := 0, 0
	for n := range jobs {
		for m := n - n%atOnce; m < n; m++ {
			if by[m] != by[n] {
				if pairs++; at[m] == at[n] {
					together++
				}
			}
		}
	}
	chance := float64(pairs) / workers
	within := 4 * math.Sqrt(chance)
	moves := float64(r.FrontendSum.Moves)
	t.Logf("%d pairs, by chance %.0f ± %.0f meet; %.0f moves; responses p50 %.1f, p99 %.1f, max %.1f ms", pairs,
		chance, within, moves, r.ResponseMS.P50, r.ResponseMS.P99, r.ResponseMS.Max)
	if moves == 0 || moves > chance+within || together > 0 || r.ResponseMS.Max > 1.2*takes.Seconds()*1000 {
		t.Errorf("of %d pairs, by chance %.0f ± %.0f meet: %.0f tasks moved, %d pairs ran at one worker, and the "+
			"slowest job took %.1f ms", pairs, chance, within, moves, together, r.ResponseMS.Max)
	}
}
