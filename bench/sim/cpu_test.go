package sim

import (
	"math"
	"reflect"
	"testing"
	"time"
)

// rareJobsConfig has jobs so rare that each has the cluster to itself.
func rareJobsConfig(t testing.TB, tasks string, workers, slots int) Config {
	return Config{
		Policy: mustPolicy(t, "late-binding"), Load: 0.00001, Frontends: 1, Workers: workers, Slots: slots,
		Workload: mustPoisson(t, tasks, "fixed:1ms"),
		Jobs:     20, Seed: 1, Delay: time.Millisecond, Codec: true, ProbeRatio: 1,
	}
}

// Every hop of a job costs the stated time.
func TestMessageCPU(t *testing.T) {
	const ms, c = 1, 0.1
	for _, test := range []struct {
		name, tasks    string
		workers, slots int
		delay          float64
		cpu            CPU
		want           float64
	}{
		{"nothing costs anything", "1", 1, 1, 1, CPU{}, 5 * ms},
		// Read: Submit, Reserve, Ready, Bind, the exit, Finished. Sent: Reserve, Ready, Bind, Finished. And the
		// start.
		{"a task", "1", 1, 1, 1, CPU{Message: c * 1e6}, 5*ms + 11*c},
		{"a task, on one machine", "1", 1, 1, 1, CPU{Message: c * 1e6, Shared: true}, 5*ms + 11*c},
		// The second task travels along with the job. At the frontend the task waits for the Reserve and the Bind
		// of the first task.
		{"two tasks, each at a worker", "2", 2, 1, 1, CPU{Message: c * 1e6}, 5*ms + 11*c + c/10 + 2*c},
		{"two tasks, each at a worker, where a frontend has two cores", "2", 2, 1, 1, CPU{Message: c * 1e6, Cores: 2},
			5*ms + 11*c + c/10 + c},
		// The two turns travel in one message, and so do the two tasks. Each task has a start and an end of its
		// own.
		{"two tasks at one worker", "2", 1, 2, 1, CPU{Message: c * 1e6}, 5*ms + 11*c + c/10 + 4*c/10 + 2*c},
		// Except the runs and the first outcome, everything happens in sequence.
		{"two tasks on one machine", "2", 2, 1, 0, CPU{Message: c * 1e6, Shared: true}, ms + 19*c + c/10 + c/10},
		{"two tasks, messages take no time", "2", 2, 1, 0, CPU{Message: c * 1e6}, ms + 11*c + c/10 + 2*c},
	} {
		t.Run(test.name, func(t *testing.T) {
			cfg := rareJobsConfig(t, test.tasks, test.workers, test.slots)
			cfg.Delay, cfg.CPU = time.Duration(test.delay*1e6), test.cpu
			r := mustRun(t, cfg)
			if got := r.ResponseMS.P50; math.Abs(got-test.want) > 0.002 {
				t.Errorf("a job takes %v ms, want %v", got, test.want)
			}
			cfg.Codec = false
			if bare := mustRun(t, cfg); !reflect.DeepEqual(r, bare) {
				t.Errorf("%+v, without codec %+v", r, bare)
			}
		})
	}
}

// A process uses no more time than its cores have. If messages take all of the time, jobs wait, and all messages
// on a connection since its last turn are read at once.
func TestMessageCPUIsBounded(t *testing.T) {
	cfg := smallConfig(t)
	cfg.Workload, cfg.Jobs, cfg.WarmupJobs = mustPoisson(t, "10", "task-exp:1ms"), 500, 100
	var before *Result
	for _, message := range []time.Duration{0, time.Nanosecond, 2 * time.Microsecond, 20 * time.Microsecond} {
		for _, cores := range []int{2, 4} {
			cfg.CPU = CPU{Message: message, Cores: cores, Shared: true}
			r := mustRun(t, cfg)
			again := mustRun(t, cfg)
			if !reflect.DeepEqual(r, again) {
				t.Errorf("%v: %+v, then %+v", message, r, again)
			}
			if message == 0 {
				if r.CPU != nil {
					t.Errorf("it costs %+v", r.CPU)
				}
				before = r
				continue
			}
			all := r.CPU.FrontendsShare*float64(cfg.Frontends) + r.CPU.WorkersShare*float64(cfg.Workers)
			t.Logf("%v on %d cores: %.2f of them busy, %.1f us a task, mean response %.2f ms", message, cores, all,
				r.CPU.PerTaskUS, r.ResponseMS.Mean)
			if all > float64(cores)+0.001 || r.CPU.BusiestShare > all {
				t.Errorf("%v: of %d cores, %.3f are busy, for one process %.3f", message, cores, all,
					r.CPU.BusiestShare)
			}
			switch {
			case message == time.Nanosecond && math.Abs(r.ResponseMS.Mean/before.ResponseMS.Mean-1) > 0.05:
				t.Errorf("next to nothing makes a mean response of %v ms out of %v", r.ResponseMS.Mean,
					before.ResponseMS.Mean)
			case message == 20*time.Microsecond &&
				(all < 0.9*float64(cores) || r.ResponseMS.Mean < 3*before.ResponseMS.Mean):
				t.Errorf("what takes all cores leaves %.2f of %d busy, a mean response of %v ms and %v us a task",
					all, cores, r.ResponseMS.Mean, r.CPU.PerTaskUS)
			// 96; 146 if each message were read alone
			case message == 20*time.Microsecond && cores == 2 && r.CPU.PerTaskUS > 120:
				t.Errorf("%.1f us a task: what has come on a connection is not read at once", r.CPU.PerTaskUS)
			}
		}
	}
}
