package estimate

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// Apollo, section 5.5: stable matching comes closer to the optimum than greedy. The paper has 5 % and 57 % above
// the optimum. It does not name the number of tasks, the speedup, or the way the optimum was found. For the end of
// the last task we find similar numbers against a lower bound of the optimum.
func TestMatchQuality(t *testing.T) {
	const seeds = 3
	for _, tasks := range []int{10, 30, 100, 300, 1000} {
		if tasks == 1000 && testing.Short() {
			continue
		}
		for _, speedup := range []float64{2, 4, 10} {
			if tasks == 1000 && speedup != 4 {
				continue // the optimum would take seconds
			}
			var sum Quality
			for seed := range uint64(seeds) {
				q := MatchQuality(rand.New(rand.NewPCG(seed, 1)), 100, tasks, speedup)
				for _, c := range []Completion{q.Greedy, q.Stable, q.Limited} {
					if c.Mean < q.Optimal.Mean-1e-9 || c.Last < q.Optimal.Last-1e-5 {
						t.Errorf("%d tasks, speedup %v, seed %d: %+v is better than optimal %+v", tasks, speedup,
							seed, c, q.Optimal)
					}
				}
				for _, p := range []struct{ to, q *Completion }{{&sum.Greedy, &q.Greedy}, {&sum.Stable, &q.Stable},
					{&sum.Limited, &q.Limited}, {&sum.Optimal, &q.Optimal}} {
					p.to.Mean += p.q.Mean / seeds
					p.to.Last += p.q.Last / seeds
				}
			}
			g, s, l, o := sum.Greedy, sum.Stable, sum.Limited, sum.Optimal
			t.Logf(
				"%4d tasks, speedup %2v: mean %.3f, greedy x%.2f, stable x%.2f, limited x%.2f; end %.3f %.2f %.2f %.2f",
				tasks, speedup, o.Mean, g.Mean/o.Mean, s.Mean/o.Mean, l.Mean/o.Mean,
				o.Last, g.Last/o.Last, s.Last/o.Last, l.Last/o.Last)
			if l.Mean > 1.02*s.Mean {
				t.Errorf("%d tasks, speedup %v: mean of stable %v, within the limits of a batch %v", tasks, speedup,
					s.Mean, l.Mean)
			}
			if tasks >= 30 && s.Mean >= g.Mean {
				t.Errorf("%d tasks, speedup %v: mean of stable %v, of greedy %v", tasks, speedup, s.Mean, g.Mean)
			}
			if tasks >= 100 && s.Last >= g.Last {
				t.Errorf("%d tasks, speedup %v: last of stable %v, of greedy %v", tasks, speedup, s.Last, g.Last)
			}
		}
	}
}

// The two bounds, compared with trying all orders, and with a case by hand.
func TestLeast(t *testing.T) {
	for seed := range uint64(100) {
		rng := rand.New(rand.NewPCG(seed, 2))
		c := contest{speedup: 1 + 5*rng.Float64()}
		for range 1 + rng.IntN(3) {
			c.waits = append(c.waits, rng.ExpFloat64())
		}
		for range 1 + rng.IntN(4) {
			c.runs = append(c.runs, rng.ExpFloat64())
			c.likes = append(c.likes, rng.IntN(len(c.waits)))
		}
		mean, last := c.tryAll(slices.Clone(c.waits), 0)
		if got := c.leastMean() * float64(len(c.runs)); math.Abs(got-mean) > 1e-9 {
			t.Errorf("seed %d: least sum %v, want %v", seed, got, mean)
		}
		if got := c.leastLast(); got > last+1e-5 {
			t.Errorf("seed %d: nothing ends before %v, but the last can end at %v", seed, got, last)
		}
	}
	// Both tasks like the first server, where each runs for a half. Two thirds of a task's work move, and take
	// twice as long.
	c := contest{waits: []float64{0, 0}, runs: []float64{1, 1}, likes: []int{0, 0}, speedup: 2}
	if got := c.leastLast(); math.Abs(got-2.0/3) > 1e-5 {
		t.Errorf("last at %v, want two thirds", got)
	}
}

// tryAll tries all orders and servers for the tasks not in placed. It returns the least sum and the least last end.
func (c *contest) tryAll(waits []float64, placed uint) (sum, last float64) {
	if placed == 1<<len(c.runs)-1 {
		return 0, 0
	}
	sum, last = math.Inf(1), math.Inf(1)
	for t := range c.runs {
		if placed&(1<<t) != 0 {
			continue
		}
		for s := range waits {
			before := waits[s]
			waits[s] += c.runTime(t, s)
			restSum, restLast := c.tryAll(waits, placed|1<<t)
			sum, last = min(sum, waits[s]+restSum), min(last, max(waits[s], restLast))
			waits[s] = before
		}
	}
	return sum, last
}
