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

// floor is the least that the cell may be, by the invariant.
func (m *WaitMatrix) floor(row, col uint8) Wait {
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
	var above [allCells]Wait
	for n, at := range matrixCells {
		cell, floor := &rising.Cells[at.row][at.col], rising.floor(at.row, at.col)
		*cell = max(*cell, floor)
		if above[n] = *cell - floor; above[n] > 0 {
			mask |= 1 << n
		}
	}
	b = appendUint(b, mask)
	for ; mask > 0; mask &= mask - 1 {
		b = appendUint(b, uint64(above[bits.TrailingZeros64(mask)]))
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
	r.matrix("matrix", &m)
	if r.err != nil {
		return WaitMatrix{}, nil, r.err
	}
	return m, b[r.pos:], nil
}

func (r *reader) matrix(field string, m *WaitMatrix) {
	m.Capacity = r.demand(field)
	mask := r.uint(field)
	for n, at := range matrixCells {
		floor := m.floor(at.row, at.col)
		if mask>>n&1 > 0 {
			floor += Wait(r.upTo(field, uint64(math.MaxUint32-floor), outOfRange))
		}
		m.Cells[at.row][at.col] = floor
	}
	mask = r.upTo(field, math.MaxUint8, outOfRange)
	floor := Wait(0)
	for i := range m.Short {
		if mask>>i&1 > 0 {
			floor += Wait(r.upTo(field, uint64(math.MaxUint32-floor), outOfRange))
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
func (m *WaitMatrix) Differs(told *WaitMatrix, ago time.Duration) bool {
	if m.Capacity != told.Capacity {
		return true
	}
	passed := WaitOf(ago)
	strays := func(now, then Wait) bool {
		stray := max(waitStray, then/waitStrayPer)
		return now != then && (now == NeverFits || then == NeverFits || now > then && now-then > stray || then > now && then-now > stray && then-now-stray > passed)
	}
	for i := range MatrixSide {
		for j := range MatrixSide {
			if strays(m.Cells[i][j], told.Cells[i][j]) {
				return true
			}
		}
		if strays(m.Short[i], told.Short[i]) {
			return true
		}
	}
	return false
}
