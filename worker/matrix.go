package worker

import (
	"slices"
	"time"

	"github.com/phoebe-sched/phoebe/probe"
)

// planDepth is the number of entries to plan singly. The time for planning grows with the square of the number,
// and the sum of the later entries is a good description (see forecast.planRest).
const planDepth = 256

// horizon is the end of a forecast, and the longest wait in a matrix.
const horizon = time.Duration(probe.NeverFits-1) * probe.WaitStep

// room is free room of a worker, in all and in the part that is open to long tasks. Or it is the room of a task.
type room struct{ all, open probe.Demand }

// fitsIn reports whether r fits into the free room. Long tasks may use more than the open part, so open room may
// be below zero. A short task needs no open room.
func (r room) fitsIn(free room) bool {
	return r.all.Fits(free.all) && (r.open == probe.Demand{} || r.open.Fits(free.open))
}

func (r room) add(s room) room { return room{r.all.Add(s.all), r.open.Add(s.open)} }
func (r room) sub(s room) room { return room{r.all.Sub(s.all), r.open.Sub(s.open)} }

// roomFor returns the room that a task takes.
func roomFor(d probe.Demand, long bool) room {
	if long {
		return room{d, d}
	}
	return room{all: d}
}

// forecast simulates a worker's queue from now on, by conservative backfilling. Entries are planned in the order
// of the queue, each at the first moment with room for the whole run beside all running and planned entries. So a
// later entry may fill a gap, but never delays an entry ahead.
//
// To use a forecast, call reset, then addRunning for each use of room. Then call planEntry for each entry in the
// order of the queue, planRest for the entries behind, and writeMatrix. A forecast that has grown allocates
// nothing. A forecast is not safe for concurrent use.
type forecast struct {
	capacity room
	spans    []span // by time, the first at 0, never empty; from the last on all capacity is free
}

// span is the free room from a moment until the next span.
type span struct {
	at   time.Duration // from now
	free room
}

// reset begins the forecast of an idle worker.
func (f *forecast) reset(capacity room) {
	f.capacity = capacity
	f.spans = append(f.spans[:0], span{free: capacity})
}

// addRunning notes a use of room from now on, for the remaining time.
func (f *forecast) addRunning(needs room, timeLeft time.Duration) {
	end := boundedTime(timeLeft)
	i := 1
	for i < len(f.spans) && f.spans[i].at < end {
		i++
	}
	f.occupySpans(0, i, end, needs)
}

// planEntry takes room for the next entry in the order of the queue, whose needs are within the capacity. It
// returns the expected start, from now and not before notBefore.
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

// nextChange returns the first moment after now when the free room is expected to change; 1 ns if it never does.
func (f *forecast) nextChange() time.Duration {
	if len(f.spans) == 1 {
		return 1
	}
	return f.spans[1].at
}

// mayStart reports whether an entry of this length can start now without delaying a planned entry.
func (f *forecast) mayStart(needs room, runTime time.Duration) bool {
	runTime = boundedTime(runTime)
	for _, s := range f.spans {
		if s.at >= runTime {
			break
		}
		if !needs.fitsIn(s.free) {
			return false
		}
	}
	return true
}

// occupySpans takes room out of the spans from first to before last. These spans begin before end, and the spans from
// last on do not.
func (f *forecast) occupySpans(first, last int, end time.Duration, needs room) {
	if last == len(f.spans) || f.spans[last].at != end {
		f.spans = slices.Insert(f.spans, last, span{end, f.spans[last-1].free})
	}
	for i := first; i < last; i++ {
		f.spans[i].free = f.spans[i].free.sub(needs)
	}
}

// boundedTime returns d, at least 1 ns and at most horizon.
func boundedTime(d time.Duration) time.Duration { return min(max(d, 1), horizon) }

// work is room over time, the cost of entries: millicores and MiB, each times nanoseconds.
type work struct{ cpu, mem float64 }

// addEntry adds n entries of this demand and cost; n may be negative.
func (w *work) addEntry(d probe.Demand, cost time.Duration, n int) {
	totalTime := float64(boundedTime(cost)) * float64(n)
	w.cpu += float64(d.CPU) * totalTime
	w.mem += float64(d.Mem) * totalTime
}

// planRest plans the last entries by the sum of their work. Like a fluid, the work fills all free room from now
// on until the end of the work. Only writeMatrix may follow.
func (f *forecast) planRest(w work) {
	all := f.capacity.all
	workLeft := max(w.cpu/max(float64(all.CPU), 1), w.mem/max(float64(all.Mem), 1)) // nanoseconds of the whole worker
	for i := 0; workLeft >= 1 && f.spans[i].at < horizon; i++ {
		s := &f.spans[i]
		portion := max(min(portionOf(s.free.all.CPU, all.CPU), portionOf(s.free.all.Mem, all.Mem)), 0)
		duration := workLeft / portion // +Inf if no room is free
		if i == len(f.spans)-1 || duration < float64(f.spans[i+1].at-s.at) {
			f.occupySpans(i, i+1, s.at+time.Duration(min(duration, float64(horizon))), s.free)
			return
		}
		// The room of the span need not be taken, because a matrix sees only the end of the fluid.
		workLeft -= portion * float64(f.spans[i+1].at-s.at)
	}
}

func portionOf[N probe.Millicores | probe.MiB](part, whole N) float64 {
	if whole == 0 {
		return 1
	}
	return float64(part) / float64(whole)
}

// writeMatrix writes the wait matrix of a long task that arrives last. The run time of the task is unknown. So
// the wait ends when enough room stays free for good: an earlier gap may be too short. An estimate by the first
// moment with enough room was worse, for tasks of 1 to 40 s behind a hundred such entries: 11 % of the estimated
// waits were within 10 % or 1 s of the truth. With the estimate made here, 87 % were.
//
// The room that stays free is the least free CPU and the least free memory from some moment on. CPU and memory
// are independent. So the wait of a cell is the later wait for CPU and for memory. A single sweep from the end of
// the forecast finds all waits.
func (f *forecast) writeMatrix(m *probe.WaitMatrix, alwaysOpen probe.Demand) {
	const side = probe.MatrixSide
	var cpu, mem [side]time.Duration
	all, open := f.capacity.all, f.capacity.open
	row, col := side, side // steps of CPU, and of memory, with room in the whole swept part
	for k := len(f.spans) - 1; k >= 0 && row+col > 0; k-- {
		free := f.spans[k].free
		// A step may exceed the open part. The tasks of that step that fit need at most the open part.
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

// waitFor returns the wait until there is room for good, like writeMatrix, for a task with these needs.
func (f *forecast) waitFor(needs room) time.Duration {
	for k := len(f.spans) - 2; k >= 0; k-- {
		if !needs.fitsIn(f.spans[k].free) {
			return f.spans[k+1].at
		}
	}
	return 0
}

// shortWaits returns the waits of short tasks, until enough room stays free for good. Short tasks may use the
// short part.
func (f *forecast) shortWaits() (waits [probe.MatrixSide]probe.Wait) {
	all := f.capacity.all
	i := probe.MatrixSide // steps with room in the whole swept part
	for k := len(f.spans) - 1; k >= 0 && i > 0; k-- {
		free := f.spans[k].free.all
		for ; i > 0 && (probe.MatrixStep(all.CPU, i-1) > free.CPU || probe.MatrixStep(all.Mem, i-1) > free.Mem); i-- {
			waits[i-1] = probe.WaitOf(f.spans[k+1].at)
		}
	}
	return waits
}

// isClosed reports whether step i of a matrix is entirely above the part that is always open to long tasks.
func isClosed[N probe.Millicores | probe.MiB](all, open N, i int) bool {
	return open < all && i > 0 && probe.MatrixStep(all, i-1) >= open
}

// remainingTime returns the expected further run time of an attempt after ran. An attempt beyond its estimate is
// expected to run on for its overrun. Then the forecast of its end is never further from the truth than the
// estimate was.
func remainingTime(estimate, ran time.Duration) time.Duration {
	if ran < estimate {
		return estimate - ran
	}
	return max(ran-estimate, probe.WaitStep)
}

// expectedCost returns the cost of an entry in the queue: its expected run time times the chance of a task. If the
// expected run time is not known (0), the assumed run time counts instead. The chance is 1 for a task bound early.
func expectedCost(run, assumed time.Duration, chance float64) time.Duration {
	if run <= 0 {
		run = assumed
	}
	return time.Duration(float64(run) * chance)
}
