package probe

import (
	"math"
	"math/bits"
	"time"
)

// A matrix is written as its capacity, a mask of cells, and for each cell of the mask by how much it is above the
// larger of its left and its upper neighbour. Cells come in the order of matrixCells: the first row and the first
// column are first, as in a matrix that a worker forecasts all others follow from these. So the cells of an idle
// worker take one byte, those of a busy one some forty, and no matrix takes more than 340. The waits of short tasks
// follow, as a mask and by how much each is above the one before: one byte for an idle worker, at most 42.
const allCells = MatrixSide * MatrixSide

// matrixCells is the order of the cells: the first row, the rest of the first column, the others row by row.
var matrixCells = func() (order [allCells]struct{ row, col uint8 }) {
	n := 0
	add := func(row, col uint8) {
		order[n].row, order[n].col = row, col
		n++
	}
	for i := range uint8(MatrixSide) {
		add(0, i)
	}
	for i := range uint8(MatrixSide - 1) {
		add(i+1, 0)
	}
	for i := range uint8(MatrixSide - 1) {
		for j := range uint8(MatrixSide - 1) {
			add(i+1, j+1)
		}
	}
	return order
}()

// leastWait is the least that the cell may be, by the invariant.
func (m *WaitMatrix) leastWait(row, col uint8) Wait {
	var w Wait
	if row > 0 {
		w = m.Cells[row-1][col]
	}
	if col > 0 {
		w = max(w, m.Cells[row][col-1])
	}
	return w
}

// AppendMatrix appends m to b. A wait that falls, which none does, is written as one that does not; a negative
// capacity as 0.
func AppendMatrix(b []byte, m *WaitMatrix) []byte {
	b = appendDemand(b, m.Capacity)
	rising := *m
	var mask uint64
	var increments [allCells]Wait
	for n, at := range matrixCells {
		cell, floor := &rising.Cells[at.row][at.col], rising.leastWait(at.row, at.col)
		*cell = max(*cell, floor)
		if increments[n] = *cell - floor; increments[n] > 0 {
			mask |= 1 << n
		}
	}
	b = appendUint(b, mask)
	for ; mask > 0; mask &= mask - 1 {
		b = appendUint(b, uint64(increments[bits.TrailingZeros64(mask)]))
	}
	short, floor := [MatrixSide]Wait{}, Wait(0)
	for i, w := range m.Short {
		if w > floor {
			mask |= 1 << i
			short[i], floor = w-floor, w
		}
	}
	b = appendUint(b, mask)
	for ; mask > 0; mask &= mask - 1 {
		b = appendUint(b, uint64(short[bits.TrailingZeros64(mask)]))
	}
	return b
}

// ReadMatrix reads a matrix off the front of b and returns what follows it. The error is a *DecodeError. Whatever
// is read satisfies the invariant of a WaitMatrix.
func ReadMatrix(b []byte) (m WaitMatrix, rest []byte, err error) {
	r := reader{buf: b}
	r.readMatrix("matrix", &m)
	if r.err != nil {
		return WaitMatrix{}, nil, r.err
	}
	return m, b[r.pos:], nil
}

func (r *reader) readMatrix(field string, m *WaitMatrix) {
	m.Capacity = r.readDemand(field)
	mask := r.readUint(field)
	for n, at := range matrixCells {
		floor := m.leastWait(at.row, at.col)
		if mask>>n&1 > 0 {
			floor += Wait(r.readUpTo(field, uint64(math.MaxUint32-floor), outOfRange))
		}
		m.Cells[at.row][at.col] = floor
	}
	mask = r.readUpTo(field, math.MaxUint8, outOfRange)
	floor := Wait(0)
	for i := range m.Short {
		if mask>>i&1 > 0 {
			floor += Wait(r.readUpTo(field, uint64(math.MaxUint32-floor), outOfRange))
		}
		m.Short[i] = floor
	}
}

// A wait is told anew ahead of time if it is off by more than this.
const (
	waitStray    = Wait(100 * time.Millisecond / WaitStep)
	waitStrayPer = 10 // or than this part of what was told, if that is more
)

// Differs reports whether m is so far from what a worker told some time ago that it should not wait for its next
// heartbeat to tell m: another capacity, or a wait that is longer than was told, or shorter than was told less the
// time since then, by more than a tenth or 100 ms. That a wait passes as time does is no news.
func (m *WaitMatrix) Differs(earlier *WaitMatrix, elapsed time.Duration) bool {
	if m.Capacity != earlier.Capacity {
		return true
	}
	passed := WaitOf(elapsed)
	strays := func(now, before Wait) bool {
		stray := max(waitStray, before/waitStrayPer)
		return now != before && (now == NeverFits || before == NeverFits || now > before && now-before > stray || before > now && before-now > stray && before-now-stray > passed)
	}
	for i := range MatrixSide {
		for j := range MatrixSide {
			if strays(m.Cells[i][j], earlier.Cells[i][j]) {
				return true
			}
		}
		if strays(m.Short[i], earlier.Short[i]) {
			return true
		}
	}
	return false
}
