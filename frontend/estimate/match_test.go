package estimate

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// The example of Apollo, figure 5: T1 and T2 read from A, T3 from B. Greedy, in task order, gives B to T2, and T3
// has to read its input from elsewhere. Stable matching picks T1-A, T2-C and T3-B. The figure has no times. The
// times here, 10 s at the input and 13 s elsewhere, on idle servers, are not from the paper.
func TestFigure5(t *testing.T) {
	const a, b, c = 0, 1, 2
	bids := [][]Bid{
		{{a, 10, 10}, {b, 13, 13}, {c, 13, 13}},
		{{a, 10, 10}, {b, 13, 13}, {c, 13, 13}},
		{{b, 10, 10}, {a, 13, 13}, {c, 13, 13}},
	}
	for _, test := range []struct {
		matcher Matcher
		want    []int32
	}{
		{Greedy, []int32{a, b, c}},
		{Stable, []int32{a, c, b}},
	} {
		if got := matchedWorkers(bids, Match(test.matcher, bids, nil)); !slices.Equal(got, test.want) {
			t.Errorf("%s: T1, T2, T3 on %v, want %v", test.matcher, got, test.want)
		}
	}
	if got := totalCost(bids, Match(Optimal, bids, nil)); got != 33 {
		t.Errorf("optimal: sum %v, want 33", got)
	}
}

// matchedWorkers returns the workers matched with the tasks; negative: none.
func matchedWorkers(bids [][]Bid, chosen []int) []int32 {
	ws := make([]int32, len(bids))
	for i, k := range chosen {
		if ws[i] = int32(k); k >= 0 {
			ws[i] = bids[i][k].Worker
		}
	}
	return ws
}

func totalCost(bids [][]Bid, chosen []int) float64 {
	sum := 0.0
	for t, k := range chosen {
		if k >= 0 {
			sum += bids[t][k].Cost
		}
	}
	return sum
}

func countMatched(chosen []int) int {
	n := 0
	for _, k := range chosen {
		if k >= 0 {
			n++
		}
	}
	return n
}

func TestMatchStories(t *testing.T) {
	for _, test := range []struct {
		name string
		bids [][]Bid
		want map[Matcher][]int32
	}{
		{"nothing", nil, map[Matcher][]int32{Stable: {}, Greedy: {}, Optimal: {}}},
		{"no bids", [][]Bid{{}, {{0, 1, 1}}}, map[Matcher][]int32{Stable: {-1, 0}, Greedy: {-1, 0}, Optimal: {-1, 0}}},
		{"one worker for two: nobody has another bid, the shorter one gets it", [][]Bid{{{0, 2, 2}}, {{0, 1, 1}}},
			map[Matcher][]int32{Stable: {-1, 0}, Greedy: {0, -1}, Optimal: {-1, 0}}},
		{"the worker keeps the one that loses most, though it is slower",
			[][]Bid{{{0, 1, 9}, {1, 2, 2}}, {{0, 2, 9}, {1, 9, 9}}},
			map[Matcher][]int32{Stable: {1, 0}, Greedy: {0, 1}, Optimal: {1, 0}}},
		{"a later proposal displaces an earlier one",
			[][]Bid{{{0, 1, 9}, {1, 2, 2}, {2, 9, 9}}, {{0, 1, 9}, {2, 5, 5}}, {{1, 1, 9}, {2, 2, 2}}},
			map[Matcher][]int32{Stable: {1, 0, 2}, Greedy: {0, 2, 1}, Optimal: {1, 0, 2}}},
		{"better to queue behind the other than to go elsewhere",
			[][]Bid{{{0, 1, 1}, {1, 8, 8}}, {{0, 1, 1}, {1, 7, 7}}},
			map[Matcher][]int32{Stable: {0, Postponed}, Greedy: {0, 1}, Optimal: {0, 1}}},
	} {
		for m, want := range test.want {
			if got := matchedWorkers(test.bids, Match(m, test.bids, nil)); !slices.Equal(got, want) {
				t.Errorf("%s: %s: %v, want %v", test.name, m, got, want)
			}
		}
	}
}

// The loss of a task elsewhere counts from its due time: before the end of its set, a task loses nothing. Of two
// tasks without a loss, the task due sooner goes first.
func TestMatchDue(t *testing.T) {
	bids := [][]Bid{{{0, 1, 1}, {1, 4, 1}}, {{0, 9, 9}, {1, 12, 9}}, {{0, 3, 3}, {1, 6, 3}}}
	both := [][]Bid{{{0, 1, 1}, {1, 10, 1}}, {{0, 5, 5}, {1, 8, 5}}}
	for i, want := range [][]int32{{0, 1}, {1, 0}} { // the first task loses 9, or 1 if due at 9; the second loses 3
		if got := matchedWorkers(both, matchStable(both, []float64{float64(9 * i), 0}, maxRounds)); !slices.Equal(got,
			want) {
			t.Errorf("due at %d: %v, want %v", 9*i, got, want)
		}
	}
	for _, test := range []struct {
		due  []float64
		want []int32
	}{
		{[]float64{0, 0, 0}, []int32{0, -1, 1}},
		{[]float64{9, 9, 9}, []int32{-1, 0, 1}},
		{[]float64{9, 0, 2}, []int32{-1, 1, 0}},
	} {
		if got := matchedWorkers(bids, matchStable(bids, test.due, maxRounds)); !slices.Equal(got, test.want) {
			t.Errorf("due at %v: %v, want %v", test.due, got, test.want)
		}
	}
}

// randomBids returns bids of tasks for random subsets of the workers, some at equal costs.
func randomBids(rng *rand.Rand, tasks, workers int) [][]Bid {
	bids := make([][]Bid, tasks)
	wait := make([]float64, workers)
	for w := range wait {
		wait[w] = float64(rng.IntN(6))
	}
	for t := range bids {
		for _, w := range rng.Perm(workers)[:rng.IntN(workers+1)] {
			run := float64(rng.IntN(8)) + 1
			bids[t] = append(bids[t], Bid{int32(w), wait[w] + run, run})
		}
		sortBids(bids[t])
	}
	return bids
}

func TestMatchersAreMatchings(t *testing.T) {
	postponed := 0
	for seed := range uint64(2000) {
		rng := rand.New(rand.NewPCG(seed, 3))
		bids := randomBids(rng, rng.IntN(12), 1+rng.IntN(12))
		most := countMatched(matchOptimal(bids))
		for _, m := range []Matcher{Stable, Greedy, Optimal} {
			chosen := Match(m, bids, nil)
			if len(chosen) != len(bids) {
				t.Fatalf("seed %d, %s: %d tasks, want %d", seed, m, len(chosen), len(bids))
			}
			taken := map[int32]bool{}
			for task, w := range matchedWorkers(bids, chosen) {
				if w >= 0 && taken[w] {
					t.Fatalf("seed %d, %s: two tasks on worker %d: %v", seed, m, w, chosen)
				}
				if w >= 0 {
					taken[w] = true
				}
				if w == Postponed {
					postponed++
				}
				if w == Unmatched {
					for _, b := range bids[task] {
						if m != Stable && !slices.Contains(matchedWorkers(bids, chosen), b.Worker) {
							t.Fatalf("seed %d, %s: task %d has no worker and worker %d no task", seed, m, task,
								b.Worker)
						}
					}
				}
			}
			if most > 0 && len(taken) == 0 {
				t.Fatalf("seed %d, %s: nothing is matched, of %v", seed, m, bids)
			}
			if len(taken) > most {
				t.Fatalf("seed %d, %s: %d matched, optimal %d", seed, m, len(taken), most)
			}
		}
	}
	if postponed == 0 {
		t.Error("no match was ever postponed")
	}
}

// No task and worker kept apart by the stable matching would both rather be together.
func TestStableIsStable(t *testing.T) {
	contested := 0
	for seed := range uint64(3000) {
		rng := rand.New(rand.NewPCG(seed, 4))
		bids := randomBids(rng, rng.IntN(15), 1+rng.IntN(15))
		chosen := matchStable(bids, make([]float64, len(bids)), math.MaxInt)
		holder := map[int32]int{}
		for task, w := range matchedWorkers(bids, chosen) {
			if w >= 0 {
				holder[w] = task
			}
		}
		for task := range bids {
			better := len(bids[task])
			if chosen[task] >= 0 {
				better = chosen[task]
			}
			for k, b := range bids[task][:better] {
				other, ok := holder[b.Worker]
				if !ok || isPreferred(bids, make([]float64, len(bids)), task, k, other, chosen[other]) {
					t.Fatalf("seed %d: task %d and worker %d would rather have each other than %d and %d; bids %v",
						seed, task, b.Worker, chosen[task], other, bids)
				}
				contested++
			}
		}
	}
	if contested == 0 {
		t.Error("no worker was ever contested")
	}
}

// Each postponed task is done sooner behind a placed task, and the best placed task is never postponed.
func TestPostponedIsSooner(t *testing.T) {
	for seed := range uint64(2000) {
		rng := rand.New(rand.NewPCG(seed, 5))
		bids := randomBids(rng, 1+rng.IntN(12), 1+rng.IntN(8))
		full := matchStable(bids, make([]float64, len(bids)), maxRounds)
		chosen := slices.Clone(full)
		postponePoor(bids, chosen)
		for task, k := range chosen {
			if k != full[task] && k != Postponed {
				t.Fatalf("seed %d: task %d went from %d to %d", seed, task, full[task], k)
			}
			sooner := false
			for l := range max(full[task], 0) {
				b := bids[task][l]
				i := -1
				for other, m := range chosen {
					if m >= 0 && bids[other][m].Worker == b.Worker {
						i = other
					}
				}
				if i >= 0 && b.Cost+bids[i][chosen[i]].Run < bids[task][full[task]].Cost {
					sooner = true
				}
			}
			if sooner != (k == Postponed) {
				t.Fatalf("seed %d: task %d sooner behind another is %t, matched %d; bids %v, all %v, kept %v", seed,
					task, sooner, k, bids, full, chosen)
			}
		}
	}
}

func TestBoundedRounds(t *testing.T) {
	// All n tasks like the same workers in the same order, so round r places the r-th task.
	const n = 10
	bids := make([][]Bid, n)
	for i := range bids {
		for w := range int32(n) {
			bids[i] = append(bids[i], Bid{w, float64(w) + 1, 1})
		}
	}
	for rounds := range n + 1 {
		if got := countMatched(matchStable(bids, make([]float64, len(bids)), rounds)); got != rounds {
			t.Errorf("%d rounds match %d tasks", rounds, got)
		}
	}
}

// bestByTrying is the slow, obvious model: most tasks, then the least sum.
func bestByTrying(bids [][]Bid, task int, taken map[int32]bool) (int, float64) {
	if task == len(bids) {
		return 0, 0
	}
	most, least := bestByTrying(bids, task+1, taken)
	for _, b := range bids[task] {
		if taken[b.Worker] {
			continue
		}
		taken[b.Worker] = true
		n, sum := bestByTrying(bids, task+1, taken)
		delete(taken, b.Worker)
		if n, sum = n+1, sum+b.Cost; n > most || n == most && sum < least {
			most, least = n, sum
		}
	}
	return most, least
}

func TestOptimalIsOptimal(t *testing.T) {
	for seed := range uint64(1500) {
		rng := rand.New(rand.NewPCG(seed, 6))
		bids := randomBids(rng, rng.IntN(7), 1+rng.IntN(6))
		chosen := matchOptimal(bids)
		most, least := bestByTrying(bids, 0, map[int32]bool{})
		if n, sum := countMatched(chosen), totalCost(bids, chosen); n != most || math.Abs(sum-least) > 1e-9 {
			t.Fatalf("seed %d: %d matched for %v, want %d for %v; bids %v", seed, n, sum, most, least, bids)
		}
	}
}

// With many tasks, the solver's final prices prove its assignment the cheapest.
func TestOptimalIsProven(t *testing.T) {
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 8))
		bids := batchBids(100 + rng.IntN(300))
		s := solveAssignment(bids)
		for c, price := range s.price {
			if price > 0 || price != 0 && s.owner[c] < 0 {
				t.Fatalf("seed %d: column %d of task %d has price %v", seed, c, s.owner[c], price)
			}
		}
		for task, k := range s.chosen {
			c, cost := s.edgeOf(task, k)
			if s.owner[c] != task {
				t.Fatalf("seed %d: task %d has column %d, which has task %d", seed, task, c, s.owner[c])
			}
			for other := range len(bids[task]) + 1 {
				if d, otherCost := s.edgeOf(task, other); otherCost-s.price[d] < cost-s.price[c]-1e-6 {
					t.Fatalf("seed %d: task %d would rather have bid %d than %d", seed, task, other, k)
				}
			}
		}
	}
}

func TestParseMatcher(t *testing.T) {
	for _, m := range []Matcher{Stable, Greedy, Optimal} {
		if got, err := ParseMatcher(m.String()); got != m || err != nil {
			t.Errorf("%s: %v, %v", m, got, err)
		}
	}
	if _, err := ParseMatcher("best"); err == nil {
		t.Error("no error for an unknown matcher")
	}
}

// batchBids returns bids of tasks for 16 workers each. Half of the bids are for few hosts, as for hosts of inputs.
func batchBids(tasks int) [][]Bid {
	rng := rand.New(rand.NewPCG(1, 7))
	bids := make([][]Bid, tasks)
	for t := range bids {
		seen := map[int32]bool{}
		for len(bids[t]) < MaxKept {
			w := int32(rng.IntN(2 * tasks))
			if len(bids[t])%2 == 0 {
				w = int32(rng.IntN(tasks / 5))
			}
			if run := rng.ExpFloat64(); !seen[w] {
				seen[w] = true
				bids[t] = append(bids[t], Bid{w, rng.ExpFloat64() + run, run})
			}
		}
		sortBids(bids[t])
	}
	return bids
}

// Stable matching of 1,000 tasks should stay within 10 ms.
func BenchmarkMatch(b *testing.B) {
	for _, m := range []Matcher{Stable, Greedy, Optimal} {
		b.Run(fmt.Sprintf("%s/1000", m), func(b *testing.B) {
			bids := batchBids(1000)
			b.ReportAllocs()
			for b.Loop() {
				Match(m, bids, nil)
			}
		})
	}
}
