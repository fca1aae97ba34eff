package probe

import (
	"math"
	"time"
)

// MatrixSide is the number of steps of CPU, and of memory, in a wait matrix.
const MatrixSide = 8

// Wait is an expected wait in steps of 100 us, up to some 119 hours.
type Wait uint32

// WaitStep is the unit of a Wait. NeverFits is the wait of what no worker of this size ever has room for.
const (
	WaitStep       = 100 * time.Microsecond
	NeverFits Wait = math.MaxUint32
)

// WaitOf is d in whole steps, rounded up: a wait is promised, and not to be shorter than it will be.
func WaitOf(d time.Duration) Wait {
	if d <= 0 {
		return 0
	}
	return Wait(min((d-1)/WaitStep+1, time.Duration(NeverFits-1)))
}

// Duration is w as a duration. It means nothing for NeverFits.
func (w Wait) Duration() time.Duration { return time.Duration(w) * WaitStep }

// steps are those of a wait matrix, in parts of 32 of the worker: finer where most tasks are, and exact for tasks of one
// slot on workers of up to 32, if their number is a power of two. With equal steps, a task of a 64th of a worker was
// told the wait for an eighth of it: of such waits, 42 % were within 10 % or 1 s of the truth, against 72 %.
var steps = [MatrixSide]int64{1, 2, 4, 8, 12, 16, 24, 32}

// WaitMatrix is a worker's expected wait for room, by CPU and memory of a hypothetical long task (Apollo, section
// 3.2). Cell [i][j] is for a task of up to the i-th step of the worker's CPU and the j-th of its memory, or as much of
// these as is open to long tasks. Invariant: no wait falls along a row or down a column. The zero value says that any
// task would fit at once into a worker of no size, so nothing fits it.
type WaitMatrix struct {
	Capacity Demand // of the worker: what the grid divides
	Cells    [MatrixSide][MatrixSide]Wait
	// Short is the same for a short task, which may use all of the worker, of up to the i-th step of both. No wait falls.
	Short [MatrixSide]Wait
}

// Wait is the expected wait of a task of demand d: that of the smallest cell which holds it, NeverFits if none
// does.
func (m *WaitMatrix) Wait(d Demand) Wait {
	if !d.Fits(m.Capacity) {
		return NeverFits
	}
	return m.Cells[stepIndex(int64(d.CPU), int64(m.Capacity.CPU))][stepIndex(int64(d.Mem), int64(m.Capacity.Mem))]
}

// ShortWait is the expected wait of a short task of demand d, NeverFits if it is more than all of the worker.
func (m *WaitMatrix) ShortWait(d Demand) Wait {
	if !d.Fits(m.Capacity) {
		return NeverFits
	}
	return m.Short[max(stepIndex(int64(d.CPU), int64(m.Capacity.CPU)), stepIndex(int64(d.Mem), int64(m.Capacity.Mem)))]
}

// Idle is the matrix of the same worker when it has nothing to do.
func (m *WaitMatrix) Idle() *WaitMatrix {
	idle := *m
	for i := range idle.Cells {
		for j := range idle.Cells[i] {
			if idle.Cells[i][j] != NeverFits {
				idle.Cells[i][j] = 0
			}
		}
	}
	idle.Short = [MatrixSide]Wait{}
	return &idle
}

// stepIndex is the index of the smallest step of capacity that holds amount, which is at most capacity.
func stepIndex(amount, capacity int64) int {
	i := 0
	for amount*steps[MatrixSide-1] > capacity*steps[i] {
		i++
	}
	return i
}

// MatrixStep is the largest amount of which step i of a matrix of this capacity speaks.
func MatrixStep[N Millicores | MiB](capacity N, i int) N {
	return N(int64(capacity) * steps[i] / steps[MatrixSide-1])
}
