package estimate

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// Matcher chooses a worker for each task of a batch, one task per worker.
type Matcher uint8

const (
	Stable  Matcher = iota // tasks propose, a contested worker keeps the one that would lose most elsewhere, poor matches are postponed
	Greedy                 // each task in turn takes the best worker that is left
	Optimal                // as many tasks as possible, and of those ways the one with the least sum of costs
)

var matcherNames = [...]string{"stable", "greedy", "optimal"}

func (m Matcher) String() string { return matcherNames[m] }

// ParseMatcher finds a matcher by name.
func ParseMatcher(name string) (Matcher, error) {
	for m, n := range matcherNames {
		if n == name {
			return Matcher(m), nil
		}
	}
	return Stable, fmt.Errorf("matcher %q is unknown: use one of %q", name, matcherNames)
}

// Bid is a worker that a task could be matched with. Times are in seconds and finite.
type Bid struct {
	Worker int32
	Cost   float64 // until the task is done
	Run    float64 // how much longer a task takes that waits there until this one is done
}

const (
	Unmatched = -1 // no worker of its bids was left
	Postponed = -2 // it is done sooner behind another task of the batch than where it was matched
)

// maxRounds bounds the rounds of the stable matching: far more than batches need.
const maxRounds = 64

// Match returns, for each task, the position of its worker in bids[task], or Unmatched, or Postponed. The bids
// of a task must be in ascending order of cost, each worker once. Some task is matched if there is a bid. Nothing is
// lost if a task is done at due[task], in seconds, rather than earlier; Stable minds that. Nil: each is due at once.
func Match(m Matcher, bids [][]Bid, due []float64) []int {
	switch m {
	case Greedy:
		return matchGreedy(bids)
	case Optimal:
		return matchOptimal(bids)
	}
	if due == nil {
		due = make([]float64, len(bids))
	}
	chosen := matchStable(bids, due, maxRounds)
	postponePoor(bids, chosen)
	return chosen
}

// workersOf is the number of workers that bids name, which is one more than the largest key.
func workersOf(bids [][]Bid) int {
	n := int32(-1)
	for _, taskBids := range bids {
		for _, b := range taskBids {
			n = max(n, b.Worker)
		}
	}
	return int(n) + 1
}

func filledInts(n, value int) []int {
	xs := make([]int, n)
	for i := range xs {
		xs[i] = value
	}
	return xs
}

func matchGreedy(bids [][]Bid) []int {
	taken := make([]bool, workersOf(bids))
	chosen := filledInts(len(bids), Unmatched)
	for t, taskBids := range bids {
		for k, b := range taskBids {
			if !taken[b.Worker] {
				taken[b.Worker], chosen[t] = true, k
				break
			}
		}
	}
	return chosen
}

// lossWithout is what is lost if a task does not get its k-th bid: by how much later than due it is done with the next one.
// It has nowhere to go after its last one.
func lossWithout(taskBids []Bid, due float64, k int) float64 {
	if k+1 == len(taskBids) {
		return math.Inf(1)
	}
	return max(taskBids[k+1].Cost, due) - max(taskBids[k].Cost, due)
}

// postponePoor takes back matches of low quality, which the paper does by dispatching them last: those of tasks
// that are done sooner if they are placed in the next batch, behind the task that a better worker was matched
// with. Whoever is waited for at a worker is done sooner than who waits there, so in the order of cost it is
// decided before, and the first in that order always stays matched.
func postponePoor(bids [][]Bid, chosen []int) {
	var order []int
	for t, k := range chosen {
		if k >= 0 {
			order = append(order, t)
		}
	}
	slices.SortFunc(order, func(t, u int) int {
		return cmp.Or(cmp.Compare(bids[t][chosen[t]].Cost, bids[u][chosen[u]].Cost), cmp.Compare(t, u))
	})
	ahead := make([]float64, workersOf(bids)) // Run of the task that is placed there
	for _, t := range order {
		k := chosen[t]
		for _, b := range bids[t][:k] {
			if run := ahead[b.Worker]; run > 0 && b.Cost+run < bids[t][k].Cost {
				chosen[t] = Postponed
				break
			}
		}
		if chosen[t] == k {
			ahead[bids[t][k].Worker] = bids[t][k].Run
		}
	}
}

// isPreferred reports whether a worker would rather have task t, for which it is bid k, than task u: the one that
// would lose more, then the one that has less time until it is due, then the one that is done sooner, then the earlier
// one (Apollo, section 3.4, but for what is due).
func isPreferred(bids [][]Bid, due []float64, t, k, u, l int) bool {
	if a, b := lossWithout(bids[t], due[t], k), lossWithout(bids[u], due[u], l); a != b {
		return a > b
	}
	if a, b := max(due[t]-bids[t][k].Cost, 0), max(due[u]-bids[u][l].Cost, 0); a != b {
		return a < b
	}
	if a, b := bids[t][k].Cost, bids[u][l].Cost; a != b {
		return a < b
	}
	return t < u
}

// matchStable is deferred acceptance: in each round every task without a worker proposes to its best one that has
// not turned it down, and a worker keeps the best proposal it ever had. What a task would lose elsewhere does
// not depend on the round, so with enough rounds no task and worker would both rather have each other. The
// paper's variant makes each round's pairs final; to let a later, needier task in costs nothing.
func matchStable(bids [][]Bid, due []float64, rounds int) []int {
	holder := filledInts(workersOf(bids), -1)
	chosen := filledInts(len(bids), Unmatched) // the bid that stands; of a task that is free, the last that it was turned down for
	free := make([]int, 0, len(bids))
	for t := range bids {
		free = append(free, t)
	}
	for range rounds {
		if len(free) == 0 {
			break
		}
		again := free[:0] // never ahead of what is read: each task turned down comes from a task read
		for _, t := range free {
			chosen[t]++
			if chosen[t] == len(bids[t]) {
				chosen[t] = Unmatched // and free no more: nobody is left
				continue
			}
			w := bids[t][chosen[t]].Worker
			switch u := holder[w]; {
			case u < 0:
				holder[w] = t
			case isPreferred(bids, due, t, chosen[t], u, chosen[u]):
				holder[w] = t
				again = append(again, u)
			default:
				again = append(again, t)
			}
		}
		free = again
	}
	for _, t := range free { // the rounds did not suffice
		chosen[t] = Unmatched
	}
	return chosen
}

// matchOptimal is the assignment of most tasks and, among those, of least cost: successive shortest augmenting
// paths with potentials over the bids alone (Jonker and Volgenant's method on a sparse matrix). To stay
// unmatched is a column of each task's own, dearer than anything else could be.
func matchOptimal(bids [][]Bid) []int {
	s := solveAssignment(bids)
	for t, k := range s.chosen {
		if k == len(bids[t]) {
			s.chosen[t] = Unmatched
		}
	}
	return s.chosen
}

func solveAssignment(bids [][]Bid) *solver {
	workers := workersOf(bids)
	unmatchedCost := 1.0
	for _, taskBids := range bids {
		if len(taskBids) > 0 {
			unmatchedCost += math.Abs(taskBids[0].Cost) + math.Abs(taskBids[len(taskBids)-1].Cost)
		}
	}
	s := &solver{
		bids: bids, workers: workers, unmatchedCost: unmatchedCost,
		owner:  filledInts(workers+len(bids), -1),
		chosen: filledInts(len(bids), Unmatched),
		price:  make([]float64, workers+len(bids)),
		dist:   make([]float64, workers+len(bids)),
		from:   make([]int, workers+len(bids)),
		seen:   make([]int, workers+len(bids)),
		done:   make([]int, workers+len(bids)),
	}
	for t := range bids {
		s.augmentPath(t)
	}
	return s
}

// solver is an assignment under way. Column w < workers is a worker, workers+t is task t staying unmatched.
// Invariant: no price is above 0, that of a column nobody owns is 0, and cost - price of an assigned column is
// the least of its task's. That proves that there is no cheaper way to assign those tasks.
type solver struct {
	bids          [][]Bid
	workers       int
	unmatchedCost float64
	owner         []int // task of each column, -1: none
	chosen        []int // bid of each task
	price         []float64

	dist       []float64 // of columns, in the search for task seen-1
	from       []int     // task before a column on its shortest path
	seen, done []int     // last search that reached, settled a column, plus one
	settled    []int
	heap       []reachedColumn
}

// reachedColumn is a column at a distance.
type reachedColumn struct {
	dist   float64
	column int
}

// edgeOf is bid k of t: its column and cost.
func (s *solver) edgeOf(t, k int) (int, float64) {
	if k == len(s.bids[t]) {
		return s.workers + t, s.unmatchedCost
	}
	return int(s.bids[t][k].Worker), s.bids[t][k].Cost
}

// augmentPath assigns one more task, moving others along the shortest path to a column that nobody owns.
func (s *solver) augmentPath(start int) {
	s.heap, s.settled = s.heap[:0], s.settled[:0]
	t, base := start, 0.0          // base is the length of the shortest path to t, less the slack of its own column
	last, bound := -1, math.Inf(1) // no path longer than bound is of use
	for {
		for k := range len(s.bids[t]) + 1 {
			c, cost := s.edgeOf(t, k)
			if base+cost >= bound {
				break // prices are never above 0, and costs ascend
			}
			d := base + cost - s.price[c]
			if s.done[c] == start+1 || s.seen[c] == start+1 && d >= s.dist[c] || d >= bound {
				continue
			}
			if s.owner[c] < 0 {
				bound = d
			}
			s.seen[c], s.dist[c], s.from[c] = start+1, d, t
			s.pushReached(reachedColumn{d, c})
		}
		top := s.popReached()
		for s.done[top.column] == start+1 {
			top = s.popReached() // it was reached again on a shorter path
		}
		c := top.column
		s.done[c] = start + 1
		if s.owner[c] < 0 {
			last = c
			break
		}
		s.settled = append(s.settled, c)
		t = s.owner[c]
		_, cost := s.edgeOf(t, s.chosen[t])
		base = top.dist - (cost - s.price[c])
	}
	for _, c := range s.settled {
		s.price[c] += s.dist[c] - s.dist[last]
	}
	for c := last; ; {
		t := s.from[c]
		before := s.chosen[t]
		s.owner[c], s.chosen[t] = t, s.bidOf(t, c)
		if t == start {
			return
		}
		c, _ = s.edgeOf(t, before)
	}
}

// bidOf is the position of column c in the bids of t.
func (s *solver) bidOf(t, c int) int {
	if c == s.workers+t {
		return len(s.bids[t])
	}
	return slices.IndexFunc(s.bids[t], func(b Bid) bool { return int(b.Worker) == c })
}

func (a reachedColumn) isCloser(b reachedColumn) bool {
	return a.dist < b.dist || a.dist == b.dist && a.column < b.column
}

func (s *solver) pushReached(r reachedColumn) {
	s.heap = append(s.heap, r)
	i := len(s.heap) - 1
	for i > 0 && r.isCloser(s.heap[(i-1)/2]) {
		s.heap[i] = s.heap[(i-1)/2]
		i = (i - 1) / 2
	}
	s.heap[i] = r
}

func (s *solver) popReached() reachedColumn {
	top := s.heap[0]
	last := len(s.heap) - 1
	r := s.heap[last]
	s.heap = s.heap[:last]
	for i := 0; last > 0; {
		child := 2*i + 1
		if child < last && child+1 < last && s.heap[child+1].isCloser(s.heap[child]) {
			child++
		}
		if child >= last || !s.heap[child].isCloser(r) {
			s.heap[i] = r
			break
		}
		s.heap[i] = s.heap[child]
		i = child
	}
	return top
}
