package probe

import (
	"math"
	"time"
)

// MatrixSide is the number of steps of CPU, and of memory, in a wait matrix.
const MatrixSide = 8

// Wait is an expected wait in steps of 100 us, up to some 119 hours.
type Wait uint32

const (
	WaitStep       = 100 * time.Microsecond // the unit of a Wait
	NeverFits Wait = math.MaxUint32         // the wait if no worker of this size ever has room
)

// WaitOf returns d in whole steps, rounded up: a promised wait must not be shorter than the real wait.
func WaitOf(d time.Duration) Wait {
	if d <= 0 {
		return 0
	}
	return Wait(min((d-1)/WaitStep+1, time.Duration(NeverFits-1)))
}

// Duration returns w as a duration. The duration of NeverFits is meaningless.
func (w Wait) Duration() time.Duration { return time.Duration(w) * WaitStep }

// steps are the steps of a wait matrix, in 32nds of the worker. The steps are finer where most tasks are, and exact
// for tasks of one slot on workers of up to 32 slots, if the number of slots is a power of two. With equal steps, a
// task of a 64th of a worker read the wait for an eighth: only 42 % of its waits were within 10 % or 1 s of the
// truth, against 72 % with these steps.
var steps = [MatrixSide]int64{1, 2, 4, 8, 12, 16, 24, 32}

// WaitMatrix is a worker's expected wait for room, by CPU and memory of a hypothetical long task (Apollo, section
// 3.2). Cell [i][j] is for a task of up to step i of the worker's CPU and step j of its memory, within the part
// open to long tasks. Invariant: no wait falls along a row or down a column. In the zero value any task would fit
// at once, into a worker of no size: so no task fits.
type WaitMatrix struct {
	Capacity Demand // of the worker; divided by the grid
	Cells    [MatrixSide][MatrixSide]Wait
	// Short[i] is the wait of a short task of up to the i-th step of CPU and memory. Short tasks may use the whole
	// worker. Invariant: no wait falls.
	Short [MatrixSide]Wait
	// Cells and Short are the waits of a task that comes after all other tasks. Under fair queueing, the tasks of a
	// tenant wait only for the tenant's share of a wait.
	Shares Shares
}

// Wait returns the expected wait of a long task of demand d: the wait in the smallest cell that holds d, NeverFits
// if no cell does.
func (m *WaitMatrix) Wait(d Demand) Wait {
	if !d.Fits(m.Capacity) {
		return NeverFits
	}
	return m.Cells[stepIndex(int64(d.CPU), int64(m.Capacity.CPU))][stepIndex(int64(d.Mem), int64(m.Capacity.Mem))]
}

// ShortWait returns the expected wait of a short task of demand d, NeverFits if d is more than the whole worker.
func (m *WaitMatrix) ShortWait(d Demand) Wait {
	if !d.Fits(m.Capacity) {
		return NeverFits
	}
	return m.Short[max(stepIndex(int64(d.CPU), int64(m.Capacity.CPU)), stepIndex(int64(d.Mem), int64(m.Capacity.Mem)))]
}

// Idle returns the matrix of the same worker without any work.
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

// WithRoom returns the matrix of the same worker with room: no task that fits into room waits, short or long. A long
// task must fit into the part open, too.
func (m *WaitMatrix) WithRoom(room, open Demand) *WaitMatrix {
	freed := *m
	for i := range MatrixSide {
		step := Demand{CPU: MatrixStep(m.Capacity.CPU, i), Mem: MatrixStep(m.Capacity.Mem, i)}
		if step.Fits(room) {
			freed.Short[i] = 0
		}
		for j := range MatrixSide {
			if (Demand{CPU: step.CPU, Mem: MatrixStep(m.Capacity.Mem, j)}).Fits(open) {
				freed.Cells[i][j] = 0
			}
		}
	}
	return &freed
}

// Beside returns the waits of tasks that need room beside a further task of demand d. Each cell holds the wait of the
// cell's largest task and the further task together.
func (m *WaitMatrix) Beside(d Demand) (cells [MatrixSide][MatrixSide]Wait, short [MatrixSide]Wait) {
	var rows, columns [MatrixSide]int // of the cells for both tasks; MatrixSide: the worker is too small
	for i := range MatrixSide {
		rows[i] = stepIndex(int64(MatrixStep(m.Capacity.CPU, i)+d.CPU), int64(m.Capacity.CPU))
		columns[i] = stepIndex(int64(MatrixStep(m.Capacity.Mem, i)+d.Mem), int64(m.Capacity.Mem))
	}
	for i, row := range rows {
		short[i] = NeverFits
		if step := max(row, columns[i]); step < MatrixSide {
			short[i] = m.Short[step]
		}
		for j, column := range columns {
			cells[i][j] = NeverFits
			if row < MatrixSide && column < MatrixSide {
				cells[i][j] = m.Cells[row][column]
			}
		}
	}
	return cells, short
}

// stepIndex returns the index of the smallest step of capacity that holds amount, or MatrixSide if amount is more than
// capacity.
func stepIndex(amount, capacity int64) int {
	i := 0
	for i < MatrixSide && amount*steps[MatrixSide-1] > capacity*steps[i] {
		i++
	}
	return i
}

// MatrixStep returns the largest amount within step i of a matrix of this capacity.
func MatrixStep[N Millicores | MiB](capacity N, i int) N {
	return N(int64(capacity) * steps[i] / steps[MatrixSide-1])
}
