package worker

import (
	"slices"
	"time"

	"github.com/phoebe-sched/phoebe/probe"
)

// planDepth is how many entries of a queue are worth planning one by one: planning takes time with the square
// of their number, and what is behind them is well described by its sum (see forecast.rest).
const planDepth = 256

// horizon bounds what a forecast looks at: no wait is told beyond it.
const horizon = time.Duration(probe.NeverFits-1) * probe.WaitStep

// room is what is free of a worker, and of the part of it that is open to long tasks; or what a task takes of these.
type room struct{ all, open probe.Demand }

// fitsIn reports whether there is so much. Of what is open, long tasks may have more than all: that is nothing to short ones.
func (r room) fitsIn(free room) bool {
	return r.all.Fits(free.all) && (r.open == probe.Demand{} || r.open.Fits(free.open))
}

func (r room) add(s room) room { return room{r.all.Add(s.all), r.open.Add(s.open)} }
func (r room) sub(s room) room { return room{r.all.Sub(s.all), r.open.Sub(s.open)} }

// roomFor is the room that a task takes.
func roomFor(d probe.Demand, long bool) room {
	if long {
		return room{d, d}
	}
	return room{all: d}
}

// forecast is the simulation of a worker's queue, from now on, by conservative backfilling: each entry is planned
// in the order of the queue, at the first moment from which there is room for as long as it takes beside all that
// runs and all that is planned. So a later entry may fill a gap, but delays none that is ahead of it.
//
// To use it, call reset, then running for each thing that occupies room, then plan for each entry in the queue's
// order, then rest for what is behind them, and then matrix. It allocates nothing once it has grown, and is not
// safe for concurrent use.
type forecast struct {
	capacity room
	spans    []span // by time, the first at 0: never empty, and all of the capacity is free from the last on
}

// span is the room that is free from one moment to that of the next span.
type span struct {
	at   time.Duration // from now
	free room
}

// reset begins the forecast of a worker on which nothing runs.
func (f *forecast) reset(capacity room) {
	f.capacity = capacity
	f.spans = append(f.spans[:0], span{free: capacity})
}

// addRunning notes that so much is occupied from now on, for as long as remains.
func (f *forecast) addRunning(needs room, remains time.Duration) {
	end := boundedTime(remains)
	i := 1
	for i < len(f.spans) && f.spans[i].at < end {
		i++
	}
	f.occupySpans(0, i, end, needs)
}

// planEntry reserves room for the next entry in the queue's order, whose needs are within the capacity, and returns its
// expected start, from now: not before it may start.
func (f *forecast) planEntry(needs room, notBefore, cost time.Duration) time.Duration {
	cost = boundedTime(cost)
	i := 0
	if notBefore > 0 {
		i = f.splitAt(min(notBefore, horizon))
	}
	spans := f.spans
	for {
		for i < len(spans)-1 && !needs.fitsIn(spans[i].free) {
			i++
		}
		first, end := i, spans[i].at+cost
		if spans[i].at >= horizon {
			return horizon
		}
		for i++; i < len(spans) && spans[i].at < end && needs.fitsIn(spans[i].free); i++ {
		}
		if i == len(spans) || spans[i].at >= end {
			f.occupySpans(first, i, end, needs)
			return spans[first].at
		}
	}
}

// splitAt makes a span begin at a moment, and returns its index.
func (f *forecast) splitAt(at time.Duration) int {
	i := 0
	for i < len(f.spans) && f.spans[i].at < at {
		i++
	}
	if i == len(f.spans) || f.spans[i].at != at {
		f.spans = slices.Insert(f.spans, i, span{at, f.spans[i-1].free})
	}
	return i
}

// nextChange is the first moment after now at which room is expected to come or go.
func (f *forecast) nextChange() time.Duration {
	if len(f.spans) == 1 {
		return 1
	}
	return f.spans[1].at
}

// mayStart reports whether an entry that takes so long can start now without delaying any that was planned.
func (f *forecast) mayStart(needs room, takes time.Duration) bool {
	takes = boundedTime(takes)
	for _, s := range f.spans {
		if s.at >= takes {
			break
		}
		if !needs.fitsIn(s.free) {
			return false
		}
	}
	return true
}

// occupySpans takes room out of the spans from first to before last, which begin before end; those from last on do not.
func (f *forecast) occupySpans(first, last int, end time.Duration, needs room) {
	if last == len(f.spans) || f.spans[last].at != end {
		f.spans = slices.Insert(f.spans, last, span{end, f.spans[last-1].free})
	}
	for i := first; i < last; i++ {
		f.spans[i].free = f.spans[i].free.sub(needs)
	}
}

// boundedTime is d as something that takes time, but does not take for ever.
func boundedTime(d time.Duration) time.Duration { return min(max(d, 1), horizon) }

// work is room over time, which is what entries cost: in millicore and in MiB times nanoseconds.
type work struct{ cpu, mem float64 }

// addEntry adds what an entry of this demand and cost takes, n times; n may be negative.
func (w *work) addEntry(d probe.Demand, cost time.Duration, n int) {
	took := float64(boundedTime(cost)) * float64(n)
	w.cpu += float64(d.CPU) * took
	w.mem += float64(d.Mem) * took
}

// planRest plans entries of which only the sum is known, behind all that were planned: like a fluid they fill all room
// that is free, from now until they are used up. Nothing but matrix may follow.
func (f *forecast) planRest(w work) {
	all := f.capacity.all
	workLeft := max(w.cpu/max(float64(all.CPU), 1), w.mem/max(float64(all.Mem), 1)) // ns of the whole worker
	for i := 0; workLeft >= 1 && f.spans[i].at < horizon; i++ {
		s := &f.spans[i]
		share := max(min(portionOf(s.free.all.CPU, all.CPU), portionOf(s.free.all.Mem, all.Mem)), 0)
		takes := workLeft / share // +Inf if nothing is free
		if i == len(f.spans)-1 || takes < float64(f.spans[i+1].at-s.at) {
			f.occupySpans(i, i+1, s.at+time.Duration(min(takes, float64(horizon))), s.free)
			return
		}
		workLeft -= share * float64(f.spans[i+1].at-s.at) // a matrix sees the end of the fluid only
	}
}

func portionOf[N probe.Millicores | probe.MiB](part, whole N) float64 {
	if whole == 0 {
		return 1
	}
	return float64(part) / float64(whole)
}

// writeMatrix writes the wait matrix of a long task that arrives last. How long the task runs is not known, so its wait ends
// where room for it begins to remain: a gap that is planned to be used again may be too short for it. We tried the
// first moment at which there is any room: of the waits of tasks of 1 to 40 s behind a hundred such entries, 11 %
// were within 10 % or 1 s of the truth, against 87 %.
//
// Room that remains is the least CPU and the least memory that is free from some moment on. These do not depend on
// each other, so a cell's wait is the later of the one for its CPU and the one for its memory, and one sweep from
// the end of the forecast finds both.
func (f *forecast) writeMatrix(m *probe.WaitMatrix, alwaysOpen probe.Demand) {
	const side = probe.MatrixSide
	var cpu, mem [side]time.Duration
	all, open := f.capacity.all, f.capacity.open
	row, col := side, side // how many steps of CPU, and of memory, have room in all that was swept
	for k := len(f.spans) - 1; k >= 0 && row+col > 0; k-- {
		free := f.spans[k].free
		for ; row > 0 && min(probe.MatrixStep(all.CPU, row-1), open.CPU) > min(free.all.CPU, free.open.CPU); row-- {
			cpu[row-1] = f.spans[k+1].at
		}
		for ; col > 0 && min(probe.MatrixStep(all.Mem, col-1), open.Mem) > min(free.all.Mem, free.open.Mem); col-- {
			mem[col-1] = f.spans[k+1].at
		}
	}
	m.Capacity = all
	m.Short = f.shortWaits()
	for i := range side {
		for j := range side {
			m.Cells[i][j] = probe.WaitOf(max(cpu[i], mem[j]))
			if isClosed(all.CPU, alwaysOpen.CPU, i) || isClosed(all.Mem, alwaysOpen.Mem, j) {
				m.Cells[i][j] = probe.NeverFits
			}
		}
	}
}

// shortWaits is the waits of short tasks, which may use what is closed to long ones, in the same way: until room begins to
// remain.
func (f *forecast) shortWaits() (waits [probe.MatrixSide]probe.Wait) {
	all := f.capacity.all
	i := probe.MatrixSide // how many steps have room in all that was swept
	for k := len(f.spans) - 1; k >= 0 && i > 0; k-- {
		free := f.spans[k].free.all
		for ; i > 0 && (probe.MatrixStep(all.CPU, i-1) > free.CPU || probe.MatrixStep(all.Mem, i-1) > free.Mem); i-- {
			waits[i-1] = probe.WaitOf(f.spans[k+1].at)
		}
	}
	return waits
}

// isClosed reports whether all of which step i of a matrix speaks is more than what is always open to long tasks.
func isClosed[N probe.Millicores | probe.MiB](all, open N, i int) bool {
	return open < all && i > 0 && probe.MatrixStep(all, i-1) >= open
}

// remainingTime is how long an attempt that ran for so long is expected to run on. One past its estimate is taken to
// run as long again as it is over: that way, what is said of its end while it is over is never further from the
// truth than the estimate was.
func remainingTime(estimate, ran time.Duration) time.Duration {
	if ran < estimate {
		return estimate - ran
	}
	return max(ran-estimate, probe.WaitStep)
}

// expectedCost is what an entry counts for in the queue: its run time as expected, or unknown if it is not, times the
// chance that it turns into a task, which is 1 for a task bound early.
func expectedCost(run, unknown time.Duration, chance float64) time.Duration {
	if run <= 0 {
		run = unknown
	}
	return time.Duration(float64(run) * chance)
}
