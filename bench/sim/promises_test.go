package sim

import (
	"math"
	"testing"
	"time"

	"github.com/phoebe-sched/phoebe/bench"
	"github.com/phoebe-sched/phoebe/probe"
	"github.com/phoebe-sched/phoebe/worker"
)

// The best promise of a wait for one end of a task is 1 s: it is kept for waits of up to 2 s. With many ends
// the wait is nearly normal, with a deviation of a tenth here.
func TestBestChance(t *testing.T) {
	if got, want := bestChance(1, 7500*time.Millisecond), 1-math.Exp(-2/7.5); math.Abs(got-want) > 1e-3 {
		t.Errorf("one end: %.4f, want %.4f", got, want)
	}
	if got := bestChance(100, 10*time.Second); math.Abs(got-0.68) > 0.02 {
		t.Errorf("a hundred ends: %.3f, want about 0.68", got)
	}
	if got := bestChance(1, time.Millisecond); got < 0.999 {
		t.Errorf("a short wait: %.4f", got)
	}
}

// judgedJobs runs three jobs of one task on one slot. The jobs come 1 s apart, and take 10 s for tenant a, 4 s for a,
// and 3 s for b.
func judgedJobs(t *testing.T, order worker.Order) *Result {
	t.Helper()
	cfg := smallConfig(t)
	cfg.Policy, cfg.Load, cfg.Jobs, cfg.WarmupJobs, cfg.Delay = mustPolicy(t, "estimation"), 0, 0, 0, 0
	cfg.Frontends, cfg.Workers, cfg.Slots, cfg.Order, cfg.JudgeWaits = 1, 1, 1, order, 30*time.Second
	l := &Listed{name: "three jobs"}
	for i, x := range []struct {
		tenant string
		run    time.Duration
	}{{"a", 10 * time.Second}, {"a", 4 * time.Second}, {"b", 3 * time.Second}} {
		l.jobs = append(l.jobs, arrival{
			Job:    bench.Job{Index: i, At: time.Duration(i) * time.Second, Tasks: []time.Duration{x.run}},
			tenant: x.tenant, mean: x.run,
		})
	}
	cfg.Workload = l
	return mustRun(t, cfg)
}

// Under fair, the task of b goes before the second task of a, which waits 12 s instead of the promised 9 s.
// If nothing had come later, the promise would have been kept. Under fifo both promises are kept.
func TestPromisesOfThreeJobs(t *testing.T) {
	third := bestChance(1, 30*time.Second)
	for _, test := range []struct {
		order worker.Order
		want  bench.SimPromises
	}{
		{worker.Fair, bench.SimPromises{Tasks: 3, Queued: 2. / 3, Kept: 2. / 3, KeptQueued: 0.5, KeptAlone: 1,
			Foreseen: 2. / 3, BestBlind: (1 + 2*third) / 3, OffS: 1}},
		{worker.FIFO, bench.SimPromises{Tasks: 3, Queued: 2. / 3, Kept: 1, KeptQueued: 1, KeptAlone: 1, Foreseen: 1,
			BestBlind: (1 + third + bestChance(2, 30*time.Second)) / 3}},
	} {
		got := *judgedJobs(t, test.order).Promises
		for _, v := range []struct {
			name      string
			got, want float64
		}{
			{"tasks", float64(got.Tasks), float64(test.want.Tasks)}, {"queued", got.Queued, test.want.Queued},
			{"kept", got.Kept, test.want.Kept}, {"kept of queued", got.KeptQueued, test.want.KeptQueued},
			{"kept alone", got.KeptAlone, test.want.KeptAlone}, {"foreseen", got.Foreseen, test.want.Foreseen},
			{"best blind", got.BestBlind, test.want.BestBlind}, {"off", got.OffS, test.want.OffS},
		} {
			if math.Abs(v.got-v.want) > 2e-3 {
				t.Errorf("%v, %s: %.4f, want %.4f", test.order, v.name, v.got, v.want)
			}
		}
	}
}

// A promise counts as kept by the real wait, and by the wait if nothing had come later, each by itself.
func TestPromisesAreJudgedByHand(t *testing.T) {
	p := &promises{meanRun: 30 * time.Second, logs: []workerLog{{cfg: worker.Config{Capacity: slotsOf(1),
		Functions: []string{sleepFunction}}, speed: 1}}, enqueued: map[probe.AttemptID]int{}}
	enqueue := func(seq uint64, run time.Duration) worker.Received {
		return worker.Received{Link: 1, Msg: probe.Enqueue{Res: probe.ResID(seq), Job: jobID(int(seq)), Tenant: "a",
			Demand: probe.Slot, Launch: probe.Launch{Attempt: probe.AttemptID{Frontend: 1, Seq: seq},
				Function: sleepFunction, Payload: payloadOf(run), Estimate: run}}}
	}
	p.logEvent(0, 0, worker.LinkUp{Link: 1, Frontend: 1})
	p.logEvent(0, 0, enqueue(1, 20*time.Second))
	p.logEvent(0, 0, worker.Received{Link: 1, Msg: probe.Ping{Seq: 1}}) // changes no queue
	p.logEvent(0, 5*time.Second, enqueue(2, time.Second))
	if log := p.logs[0].events; len(log) != 3 {
		t.Fatalf("%d events are kept, want 3", len(log))
	}
	id := probe.AttemptID{Frontend: 1, Seq: 2}
	if wait, ahead := p.logs[0].replayAlone(2, id); wait != 15*time.Second || ahead != 0 {
		t.Errorf("alone the task waits %v behind %d, want 15s behind the running one", wait, ahead)
	}
	for _, test := range []struct {
		promised, waited time.Duration
		kept, alone      float64
	}{
		{15 * time.Second, 15 * time.Second, 1, 1}, {16 * time.Second, 17 * time.Second, 1, 1},
		{15 * time.Second, 30 * time.Second, 0, 1}, {30 * time.Second, 30 * time.Second, 1, 0},
		{0, 15 * time.Second, 0, 0}, {17 * time.Second, 15 * time.Second, 0, 0},
	} {
		p.judged = []promise{{loggedPlace{0, 2, id}, test.promised, test.waited}}
		if s := p.rateAll(); s.Kept != test.kept || s.KeptAlone != test.alone {
			t.Errorf("promised %v, waited %v: kept %g, alone %g, want %g and %g", test.promised, test.waited, s.Kept,
				s.KeptAlone, test.kept, test.alone)
		}
	}
	p.judged = []promise{{loggedPlace{0, 2, id}, 3 * time.Second, 0}}
	if s := p.rateAll(); s.Kept != 0 || s.KeptAlone != 0 || s.Foreseen != 1 || s.BestBlind != 1 || s.Queued != 0 {
		t.Errorf("a task that did not wait: %+v", s)
	}
}

// Under fifo nothing that comes later matters, so a replay has the waits of the run. Under priority it
// matters.
func TestReplaysAreTheRun(t *testing.T) {
	for _, order := range []worker.Order{worker.FIFO, worker.Priority} {
		w := waitsLine{order, 4, false}.sweepRuns(4, 20, []float64{0.7})
		w.Seed = 5
		r, err := w.Run(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		p := r[0].Promises
		if p.Queued < 0.1 || (p.Foreseen > 1-1e-9) != (order == worker.FIFO) || p.BestBlind > 0.95 || p.Kept < 0.3 {
			t.Errorf("%v: %+v", order, p)
		}
	}
}

// The verdicts of the figure follow from its numbers.
func TestWaitsAreChecked(t *testing.T) {
	verdicts := func(kept, keptHigh, alone, beside float64) string {
		d := &figureData{runs: map[figurePoint][]*bench.SimRun{}}
		for _, x := range []float64{0.8, 0.95} {
			for _, l := range waitsLines() {
				p := &bench.SimPromises{Kept: kept, KeptAlone: alone}
				if x > 0.8 || l.order == worker.Priority {
					p.Kept = keptHigh
				}
				d.addRun(l.String(), x, &bench.SimRun{Promises: p})
			}
			for line, p99 := range map[string]float64{besideLine: beside, aloneLine: 100_000} {
				g := &bench.SimGroup{ResponseMS: bench.Stats{P99: p99}}
				d.addRun(line, x, &bench.SimRun{Kinds: map[string]*bench.SimGroup{"polite": g}})
			}
		}
		return listVerdicts(checkWaits(d))
	}
	for _, test := range []struct {
		kept, keptHigh, alone, beside float64
		want                          string
	}{
		{0.95, 0.2, 0.95, 130_000, "yyyyyyyyyyyy"}, {0.94, 1, 1, 130_000, "nnynnnnynnyy"},
		{1, 1, 0.94, 130_000, "nnnnnnnnnnyy"}, {1, 1, 1, 130_001, "yyyyyyyyyynn"},
	} {
		if got := verdicts(test.kept, test.keptHigh, test.alone, test.beside); got != test.want {
			t.Errorf("%+v: %s", test, got)
		}
	}
}
