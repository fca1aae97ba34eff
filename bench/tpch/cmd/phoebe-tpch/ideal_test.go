package main

import (
	"slices"
	"testing"
	"time"

	"github.com/phoebe-sched/phoebe/bench/tpch/engine"
	"github.com/phoebe-sched/phoebe/frontend/client"
)

const ms = time.Millisecond

// newSample returns a query with stages of tasks. runs are the run times of each stage's tasks, in ms. Stage i
// waits for the stages after[i].
func newSample(at time.Duration, after [][]int, runs ...[]int) sample {
	s := sample{arrival: arrival{dueAt: at}}
	for i, tasks := range runs {
		st := engine.StageStats{After: after[i]}
		for _, r := range tasks {
			st.Tasks = append(st.Tasks, engine.TaskStats{Run: time.Duration(r) * ms})
		}
		s.stats.Stages = append(s.stats.Stages, st)
	}
	return s
}

func TestIdeal(t *testing.T) {
	chain := [][]int{nil, {0}}
	for name, c := range map[string]struct {
		queries []sample
		want    []time.Duration
	}{
		"a stage waits for the last task before": {[]sample{newSample(0, chain, []int{10, 10, 10}, []int{5})},
			[]time.Duration{25 * ms}},
		"independent stages run together": {[]sample{newSample(0, [][]int{nil, nil, {0, 1}}, []int{10},
			[]int{20}, []int{5})}, []time.Duration{25 * ms}},
		"the oldest query goes first, in each stage": {
			[]sample{newSample(5*ms, chain, []int{10, 10}, []int{5}),
				newSample(0, chain, []int{10, 10, 10}, []int{5})}, []time.Duration{30 * ms, 25 * ms},
		},
		"slots stand idle between": {[]sample{newSample(100*ms, [][]int{nil}, []int{10}),
			newSample(0, [][]int{nil}, []int{10})}, []time.Duration{10 * ms, 10 * ms}},
	} {
		if got := idealResponses(c.queries, 2); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

// The parts of a response add up to the response, along the critical path.
func TestSplitResponse(t *testing.T) {
	s := newSample(0, [][]int{nil, {0}}, []int{10, 20}, []int{5})
	at := func(i, k int, moments ...int) {
		d := func(n int) time.Duration { return time.Duration(moments[n]) * ms }
		s.stats.Stages[i].Tasks[k].Phases = client.Phases{Sampled: d(0), Queued: d(1), Ready: d(2), Bound: d(3),
			Started: d(4), Finished: d(5), Delivered: d(6)}
	}
	at(0, 0, 1, 2, 3, 4, 5, 15, 16)
	at(0, 1, 1, 2, 9, 10, 11, 31, 33)
	at(1, 0, 34, 36, 43, 44, 45, 50, 51)
	s.response = 60 * ms
	want := [numParts]time.Duration{outside: 9 * ms, sampling: 2 * ms, link: 3 * ms, queue: 14 * ms, binding: 2 * ms,
		launch: 2 * ms, running: 25 * ms, delivery: 3 * ms}
	if got := splitResponse(&s); got != want {
		t.Errorf("%v, want %v", got, want)
	}
}
