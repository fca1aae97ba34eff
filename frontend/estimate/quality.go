package estimate

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
)

// Quality is what each matcher comes to, in units of the mean run time.
type Quality struct{ Greedy, Stable, Limited, Optimal Completion }

// Completion is when a set of tasks is done: on average, and the last of them.
type Completion struct{ Mean, Last float64 }

// MatchQuality is the simulation of Apollo's section 5.5: servers of one slot with exponential waits of mean 1,
// tasks with exponential run times of mean 1, each of which prefers one server, where it runs speedup times
// faster. Greedy places the tasks one by one where each completes first; Stable matches all that are left, one
// to a server, and again behind those until none is left; Limited does that with MaxBatch tasks at a time, and with as
// many servers for each as are kept of a decision. Optimal has the least possible mean, and a bound that
// no last task can beat, which may be less than what can be had.
func MatchQuality(rng *rand.Rand, servers, tasks int, speedup float64) Quality {
	c := contest{waits: make([]float64, servers), runs: make([]float64, tasks), likes: make([]int, tasks), speedup: speedup}
	for s := range c.waits {
		c.waits[s] = rng.ExpFloat64()
	}
	for t := range c.runs {
		c.runs[t], c.likes[t] = rng.ExpFloat64(), rng.IntN(servers)
	}
	return Quality{
		Greedy:  c.playMatcher(Greedy, 1, servers),
		Stable:  c.playMatcher(Stable, tasks, servers),
		Limited: c.playMatcher(Stable, MaxBatch, MaxKept),
		Optimal: Completion{Mean: c.leastMean(), Last: c.leastLast()},
	}
}

// contest is tasks, all there at once, and the servers they compete for.
type contest struct {
	waits   []float64 // of servers
	runs    []float64 // of tasks, away from the server each likes
	likes   []int
	speedup float64
}

func (c *contest) runTime(t, s int) float64 {
	if c.likes[t] == s {
		return c.runs[t] / c.speedup
	}
	return c.runs[t]
}

// sortBids puts bids into the order that Match wants.
func sortBids(bids []Bid) {
	slices.SortFunc(bids, func(a, b Bid) int { return cmp.Compare(a.Cost, b.Cost) })
}

// playMatcher matches the tasks in batches of up to size, each with one of its best servers, of which kept are looked at.
func (c *contest) playMatcher(m Matcher, size, kept int) Completion {
	waits := slices.Clone(c.waits)
	unmatched := make([]int, len(c.runs))
	for t := range unmatched {
		unmatched[t] = t
	}
	var end Completion
	for len(unmatched) > 0 {
		batch := unmatched[:min(size, len(unmatched))]
		bids := make([][]Bid, len(batch))
		for i, t := range batch {
			for s, wait := range waits {
				bids[i] = append(bids[i], Bid{int32(s), wait + c.runTime(t, s), c.runTime(t, s)})
			}
			sortBids(bids[i])
			bids[i] = bids[i][:min(kept, len(bids[i]))]
		}
		var again []int
		for i, k := range Match(m, bids, nil) {
			if k < 0 {
				again = append(again, batch[i])
				continue
			}
			b := bids[i][k]
			waits[b.Worker] = b.Cost
			end.Mean += b.Cost / float64(len(c.runs))
			end.Last = max(end.Last, b.Cost)
		}
		unmatched = append(again, unmatched[len(batch):]...)
	}
	return end
}

// leastMean assigns the tasks to places counted from the end of each server's queue: the k-th from the end
// delays itself and the k-1 behind it, so its part of the sum of completion times is the server's wait and k
// times its run, whatever the others are.
func (c *contest) leastMean() float64 {
	for depth := 4 + 3*len(c.runs)/len(c.waits); ; depth *= 2 {
		bids := make([][]Bid, len(c.runs))
		for t := range bids {
			for s, wait := range c.waits {
				for k := range depth {
					bids[t] = append(bids[t], Bid{Worker: int32(s*depth + k), Cost: wait + float64(k+1)*c.runTime(t, s)})
				}
			}
			sortBids(bids[t])
		}
		sum, deep := 0.0, false
		for t, k := range Match(Optimal, bids, nil) {
			b := bids[t][k]
			sum += b.Cost
			deep = deep || int(b.Worker)%depth == depth-1
		}
		if !deep { // else a deeper queue might be better still
			return sum / float64(len(c.runs))
		}
	}
}

// leastLast is the greater of two bounds: when the task that takes longest would be done if it were alone, and
// when all would be if they could be cut in pieces. Pieces go to the server that their task likes until that
// is full, and the rest costs speedup times as much elsewhere.
func (c *contest) leastLast() float64 {
	bound := 0.0
	for t := range c.runs {
		alone := math.Inf(1)
		for s, wait := range c.waits {
			alone = min(alone, wait+c.runTime(t, s))
		}
		bound = max(bound, alone)
	}
	liked := make([]float64, len(c.waits))
	high := bound
	for t, s := range c.likes {
		liked[s] += c.runTime(t, s)
		high += c.runs[t]
	}
	fits := func(end float64) bool {
		room := 0.0
		for s, wait := range c.waits {
			if spare := max(end-wait, 0) - liked[s]; spare >= 0 {
				room += spare
			} else {
				room += spare * c.speedup
			}
		}
		return room >= 0
	}
	for low := bound; !fits(bound) && high-low > 1e-6; {
		if mid := (low + high) / 2; fits(mid) {
			high = mid
		} else {
			low = mid
		}
	}
	if fits(bound) {
		return bound
	}
	return high
}
