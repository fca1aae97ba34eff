package sim

import (
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/phoebe-sched/phoebe/frontend"
	"github.com/phoebe-sched/phoebe/frontend/estimate"
)

// newDelayHand makes a delaying rival, and a function that submits a job of tasks with inputs at the given workers.
func newDelayHand(t *testing.T, policy string, cfg Config) (h *hand, submit func(tasks ...[]int) *frontend.Job) {
	h = mustPolicy(t, policy).rival.make(&cfg, nil, frontend.Config{ID: 1}, nil).(*hand)
	jobs := 0
	return h, func(tasks ...[]int) *frontend.Job {
		jobs++
		job := &frontend.Job{ID: jobID(jobs), Tenant: fmt.Sprint(jobs)}
		for _, at := range tasks {
			var copies []estimate.Copy
			for _, w := range at {
				copies = append(copies, estimate.Copy{At: fmt.Sprint("h", w)})
			}
			job.Tasks = append(job.Tasks, frontend.Task{Inputs: []frontend.Input{{Copies: copies}}})
		}
		return job
	}
}

// If a job lets 0.23 x nodes slots pass, 95 % of 20 tasks run near one of 3 copies, by the analysis in section 3.5 of
// the paper: with k tasks left, the next task starts near its data with probability 1-(1-3/nodes)^(k*D). The analysis
// lets a job wait again before each start. By the paper's rule a job that has waited takes any slot, until it starts
// near its data again, so a little less of whole jobs runs near data.
func TestDelayedJobsRunNearTheirData(t *testing.T) {
	const nodes, copies, tasks, jobs = 100.0, 3, 20, 200
	for _, share := range []float64{0.05, 0.23, 0.5} {
		pass := share * nodes
		want := 1.0
		for k := 1.0; k <= tasks; k++ {
			want -= math.Pow(1-copies/nodes, k*pass) / tasks
		}
		// A slot falls free every second. The first slot that passes the job over begins the wait.
		h, submit := newDelayHand(t, "delay-fifo", Config{Workers: int(nodes), Slots: 1,
			LocalityWait: time.Duration((pass - 1.5) * float64(time.Second))})
		d := h.brain.(*delaying)
		rng := rand.New(rand.NewPCG(1, 1))
		for _, w := range h.workers {
			w.freeSlots = 0
		}
		// playSlots frees slots until n tasks of a job have started, and returns how many started near their data.
		playSlots := func(taskCount, n int) (near int) {
			var at [][]int
			for range taskCount {
				at = append(at, rng.Perm(int(nodes))[:copies])
			}
			h.Step(h.now, frontend.Submit{Job: submit(at...)}, nil)
			for j := d.jobs[0]; j.tasksLeft > taskCount-n; {
				h.now = h.now.Add(time.Second)
				w := h.workers[rng.IntN(int(nodes))]
				w.freeSlots = 1
				if d.startOne(w, d.orderJobs()) && !j.passed {
					near++
				}
				w.freeSlots = 0
				h.acts = h.acts[:0]
			}
			d.jobs = nil
			return near
		}
		h.now = origin
		first, whole := 0, 0
		for range jobs {
			for k := 1; k <= tasks; k++ {
				first += playSlots(k, 1)
			}
			whole += playSlots(tasks, tasks)
		}
		got, all := float64(first)/(jobs*tasks), float64(whole)/(jobs*tasks)
		t.Logf("%.2f x nodes slots pass: %.3f of the tasks run near their data, by the formula %.3f; of whole jobs %.3f",
			share, got, want, all)
		if math.Abs(got-want) > 0.015 || all > got || share == 0.23 && (got < 0.94 || all < 0.9) {
			t.Errorf("%.2f x nodes slots pass: %.3f of the tasks run near their data, want %.3f; of whole jobs %.3f", share,
				got, want, all)
		}
	}
}

// Without inputs, delay scheduling in the order of arrival is the omniscient schedule.
func TestDelayWithoutInputsIsOmniscient(t *testing.T) {
	cfg := smallConfig(t)
	cfg.Policy, cfg.Delay, cfg.Load, cfg.checkState = mustPolicy(t, "delay-fifo"), 0, 0.95, true
	cfg.Jobs, cfg.WarmupJobs = 500, 50
	if r := mustRun(t, cfg); !reflect.DeepEqual(r.ResponseMS, *r.OmniscientMS) {
		t.Errorf("responses of %+v ms, want %+v", r.ResponseMS, *r.OmniscientMS)
	}
}

// A slot goes to the first job with data there. A job passed over for the wait takes any slot, until it starts near
// its data again.
func TestDelayRules(t *testing.T) {
	type submission struct {
		at    time.Duration
		tasks [][]int
	}
	const s = time.Second
	far := func(n int) (tasks [][]int) {
		for range n {
			tasks = append(tasks, []int{9})
		}
		return tasks
	}
	for _, test := range []struct {
		name, policy string
		wait         time.Duration
		workers      int
		jobs         []submission
		want         string
	}{
		{"idle slots near data go first", "delay-fifo", 2 * s, 2, []submission{{0, [][]int{{1}, {0}}}},
			"1 at w0 at 0s, 1 at w1 at 0s"},
		{"a job waits, and then takes any slot", "delay-fifo", 2 * s, 2, []submission{{s, far(1)}}, "1 at w0 at 3s"},
		{"without a wait a job takes any slot", "delay-fifo", 0, 2, []submission{{s, far(1)}}, "1 at w0 at 1s"},
		{"a slot passes over the first job", "delay-fifo", 5 * s, 1, []submission{{0, far(1)}, {s, [][]int{{0}}}},
			"2 at w0 at 1s, 1 at w0 at 11s"},
		{"the first job comes first", "delay-fifo", 0, 2,
			[]submission{{0, [][]int{{0}, {0}, {0}, {0}}}, {s, [][]int{{0}}}},
			"1 at w0 at 0s, 1 at w1 at 0s, 1 at w0 at 10s, 1 at w1 at 10s, 2 at w0 at 20s"},
		{"or the job with the fewest running tasks", "delay-fair", 0, 2,
			[]submission{{0, [][]int{{0}, {0}, {0}, {0}}}, {s, [][]int{{0}}}},
			"1 at w0 at 0s, 1 at w1 at 0s, 2 at w0 at 10s, 1 at w1 at 10s, 1 at w0 at 20s"},
	} {
		h, submit := newDelayHand(t, test.policy, Config{Workers: test.workers, Slots: 1, LocalityWait: test.wait})
		var jobs []playedJobOf
		for _, j := range test.jobs {
			jobs = append(jobs, playedJobOf{j.at, submit(j.tasks...)})
			for i := range jobs[len(jobs)-1].job.Tasks {
				jobs[len(jobs)-1].job.Tasks[i].Payload = payloadOf(10 * s)
			}
		}
		p := &handPlay{hand: h, showWorker: true}
		p.playJobs(t, jobs)
		if got := strings.Join(p.starts, ", "); got != test.want {
			t.Errorf("%s: %s, want %s", test.name, got, test.want)
		}
	}
}
