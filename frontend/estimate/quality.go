package estimate

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
)

// Quality holds the completion times of each matcher, in units of the mean run time.
type Quality struct{ Greedy, Stable, Limited, Optimal Completion }

// Completion is the completion time of a set of tasks: the mean over the tasks, and the last task.
type Completion struct{ Mean, Last float64 }

// MatchQuality repeats the simulation of Apollo, section 5.5. The servers have a slot each and exponential waits of
// mean
// 1. The tasks have exponential run times of mean 1; each prefers a server, where it runs speedup times faster.
//
// Greedy places the tasks one by one where each completes first. Stable matches all remaining tasks, at most one
// per server, then matches the rest behind those tasks, until no task remains. Limited does the same with at most
// MaxBatch tasks at a time and MaxKept servers per task. Optimal has the least possible mean, and a lower bound for
// the end of the last task; the bound may be out of reach.
func MatchQuality(rng *rand.Rand, servers, tasks int, speedup float64) Quality {
	c := contest{waits: make([]float64, servers), runs: make([]float64, tasks), likes: make([]int, tasks),
		speedup: speedup}
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

// contest is a set of tasks, all present from the start, and the servers for them.
type contest struct {
	waits   []float64 // of servers
	runs    []float64 // of tasks, at a server the task does not prefer
	likes   []int
	speedup float64
}

// runTime returns the run time of task t at server s.
func (c *contest) runTime(t, s int) float64 {
	if c.likes[t] == s {
		return c.runs[t] / c.speedup
	}
	return c.runs[t]
}

// sortBids sorts bids by cost, as Match requires.
func sortBids(bids []Bid) {
	slices.SortFunc(bids, func(a, b Bid) int { return cmp.Compare(a.Cost, b.Cost) })
}

// playMatcher matches the tasks in batches of at most size tasks. Each task looks at its kept best servers.
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

// leastMean returns the least possible mean completion time. It assigns the tasks to places counted from the end of
// each server's queue. The k-th place from the end delays itself and the k-1 places behind. So the task's part of
// the sum is the server's wait plus k times its run; the other tasks do not matter.
func (c *contest) leastMean() float64 {
	for depth := 4 + 3*len(c.runs)/len(c.waits); ; depth *= 2 {
		bids := make([][]Bid, len(c.runs))
		for t := range bids {
			for s, wait := range c.waits {
				for k := range depth {
					bids[t] = append(bids[t],
						Bid{Worker: int32(s*depth + k), Cost: wait + float64(k+1)*c.runTime(t, s)})
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
		if !deep { // otherwise a deeper queue might be better
			return sum / float64(len(c.runs))
		}
	}
}

// leastLast returns a lower bound for the end of the last task: the greater of two bounds. The first is the end of
// the longest task if it were alone. The second is the end of all tasks if tasks could be cut in pieces. Each piece
// goes to the preferred server until the server is full. Elsewhere a piece costs speedup times as much.
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
