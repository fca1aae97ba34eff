package estimate

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// Matcher is a method to match the tasks of a batch with workers, at most one task per worker.
type Matcher uint8

const (
	Stable  Matcher = iota // a worker keeps the proposal with the most to lose; poor matches are postponed
	Greedy                 // each task in turn takes the best free worker
	Optimal                // as many tasks as possible, at the least sum of costs
)

var matcherNames = [...]string{"stable", "greedy", "optimal"}

func (m Matcher) String() string { return matcherNames[m] }

// ParseMatcher returns the matcher of this name.
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
	Cost   float64 // time until the task is done
	Run    float64 // time by which the task delays a later task at the worker
}

const (
	Unmatched = -1 // no worker of its bids was free
	Postponed = -2 // the task ends sooner behind another task of the batch
)

// maxRounds bounds the rounds of stable matching, far above the need of a batch (Apollo, section 3.3, has such a
// bound).
const maxRounds = 64

// Match returns, for each task, the index of its worker in bids[task], or Unmatched, or Postponed. The bids of a
// task must be in ascending order of cost, each worker once. If there is a bid, at least one task is matched.
// due[task], in seconds, is the time until which a later end of the task costs nothing. Only Stable uses due. If
// due is nil, every task is due at once.
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

// workerLimit returns the largest key of a worker in bids, plus one: the length of a slice indexed by worker.
func workerLimit(bids [][]Bid) int {
	n := int32(-1)
	for _, taskBids := range bids {
		for _, b := range taskBids {
			n = max(n, b.Worker)
		}
	}
	return int(n) + 1
}

// filledInts returns n ints of the same value.
func filledInts(n, value int) []int {
	xs := make([]int, n)
	for i := range xs {
		xs[i] = value
	}
	return xs
}

// matchGreedy gives each task, in order, the best free worker of its bids.
func matchGreedy(bids [][]Bid) []int {
	taken := make([]bool, workerLimit(bids))
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

// lossWithout returns the loss if a task does not get its k-th bid: the delay, beyond due, until its next bid would
// be done. The loss of the last bid is infinite.
func lossWithout(taskBids []Bid, due float64, k int) float64 {
	if k+1 == len(taskBids) {
		return math.Inf(1)
	}
	return max(taskBids[k+1].Cost, due) - max(taskBids[k].Cost, due)
}

// postponePoor takes back matches of low quality. Apollo dispatches these matches last (section 3.3). A match is
// taken back if the task would end sooner at a better worker, behind the task matched there. Then the task waits for
// the next batch. The tasks are looked at in the order of cost. The task ahead ends sooner, so it has been looked at
// before, and the first task in the order always stays matched.
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
	ahead := make([]float64, workerLimit(bids)) // Run of the task placed at the worker
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

// isPreferred reports whether a worker prefers task t, for which it is bid k, to task u. The worker prefers the task
// that would lose more elsewhere (as in Apollo, section 3.3, apart from due). If equal, it prefers the task with less
// time until due, then the task done sooner, then the task with the lower index.
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

// matchStable is deferred acceptance. In each round, every task without a worker proposes to the best worker that has
// not rejected the task. A worker keeps the best proposal it ever had. The loss of a task elsewhere does not depend
// on the round. So with enough rounds the matching is stable: no task and worker both prefer each other. In Apollo
// (section 3.3) the pairs of each round are final; here a later, needier task can displace a task at no cost.
func matchStable(bids [][]Bid, due []float64, rounds int) []int {
	holder := filledInts(workerLimit(bids), -1)
	// The current bid of each task; of a free task, the last rejected bid.
	chosen := filledInts(len(bids), Unmatched)
	free := make([]int, 0, len(bids))
	for t := range bids {
		free = append(free, t)
	}
	for range rounds {
		if len(free) == 0 {
			break
		}
		stillFree := free[:0] // shares free's array: never ahead of the read position
		for _, t := range free {
			chosen[t]++
			if chosen[t] == len(bids[t]) {
				chosen[t] = Unmatched // no bid is left: the task is not free any more
				continue
			}
			w := bids[t][chosen[t]].Worker
			switch u := holder[w]; {
			case u < 0:
				holder[w] = t
			case isPreferred(bids, due, t, chosen[t], u, chosen[u]):
				holder[w] = t
				stillFree = append(stillFree, u)
			default:
				stillFree = append(stillFree, t)
			}
		}
		free = stillFree
	}
	for _, t := range free { // the rounds were not enough
		chosen[t] = Unmatched
	}
	return chosen
}

// matchOptimal assigns as many tasks as possible and, among such assignments, at the least cost. The algorithm is
// successive shortest augmenting paths with potentials over the bids alone (Jonker and Volgenant's method on a
// sparse matrix). Each task has a column of its own for staying unmatched, with a cost above all others.
func matchOptimal(bids [][]Bid) []int {
	s := solveAssignment(bids)
	for t, k := range s.chosen {
		if k == len(bids[t]) {
			s.chosen[t] = Unmatched
		}
	}
	return s.chosen
}

// solveAssignment assigns the tasks one after the other, by shortest augmenting paths.
func solveAssignment(bids [][]Bid) *solver {
	workers := workerLimit(bids)
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

// solver is an assignment under way. Column w < workers is a worker; column workers+t means: task t stays
// unmatched.
//
// Invariant: every price is at most 0, and 0 for a column without an owner. The difference cost - price of an
// assigned column is the least among the columns of its task. The invariant proves that no other assignment of the
// tasks is cheaper.
type solver struct {
	bids          [][]Bid
	workers       int
	unmatchedCost float64
	owner         []int // task of each column; -1: none
	chosen        []int // bid of each task
	price         []float64

	dist       []float64 // distance of each column, in the search for task seen-1
	from       []int     // task before the column on its shortest path
	seen, done []int     // last search that reached and settled the column, plus one
	settled    []int
	heap       []reachedColumn
}

// reachedColumn is a column and its distance in the search.
type reachedColumn struct {
	dist   float64
	column int
}

// edgeOf returns the column and cost of bid k of task t.
func (s *solver) edgeOf(t, k int) (int, float64) {
	if k == len(s.bids[t]) {
		return s.workers + t, s.unmatchedCost
	}
	return int(s.bids[t][k].Worker), s.bids[t][k].Cost
}

// augmentPath assigns a further task: it moves other tasks along the shortest path to a column without an owner.
func (s *solver) augmentPath(start int) {
	s.heap, s.settled = s.heap[:0], s.settled[:0]
	t, base := start, 0.0          // base: length of the shortest path to t, less the slack of t's column
	last, bound := -1, math.Inf(1) // paths longer than bound are useless
	for {
		for k := range len(s.bids[t]) + 1 {
			c, cost := s.edgeOf(t, k)
			if base+cost >= bound {
				break // prices are at most 0, and costs ascend
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
			top = s.popReached() // top was reached again on a shorter path
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

// bidOf returns the index of column c in the bids of t.
func (s *solver) bidOf(t, c int) int {
	if c == s.workers+t {
		return len(s.bids[t])
	}
	return slices.IndexFunc(s.bids[t], func(b Bid) bool { return int(b.Worker) == c })
}

func (a reachedColumn) isCloser(b reachedColumn) bool {
	return a.dist < b.dist || a.dist == b.dist && a.column < b.column
}

// pushReached adds a column to the heap.
func (s *solver) pushReached(r reachedColumn) {
	s.heap = append(s.heap, r)
	i := len(s.heap) - 1
	for i > 0 && r.isCloser(s.heap[(i-1)/2]) {
		s.heap[i] = s.heap[(i-1)/2]
		i = (i - 1) / 2
	}
	s.heap[i] = r
}

// popReached removes the nearest column from the heap.
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
