package probe

import (
	"math"
	"math/bits"
	"time"
)

// An encoded matrix is its capacity, a mask of cells, and a rise for each cell in the mask: the wait above the
// larger of the left and the upper neighbour. Cells come in the order of matrixCells. The first row and the first
// column come first, because a worker's forecast determines all other cells by these two. So the cells of an idle
// worker take one byte, of a busy worker some forty bytes, and no matrix takes more than 340 bytes. The waits of
// short tasks follow as a mask and rises above the wait before: one byte for an idle worker, at most 42.
const allCells = MatrixSide * MatrixSide

// matrixCells is the order of the cells: the first row, the rest of the first column, all other cells row by row.
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

// leastWait returns the least wait of a cell by the invariant.
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

// AppendMatrix appends m to b. If m breaks the invariant, AppendMatrix raises a falling wait to its neighbour's. A
// negative capacity is written as 0.
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

// ReadMatrix reads a matrix off the front of b and returns the rest of b. The error is a *DecodeError. A matrix
// read without an error satisfies the invariant of WaitMatrix.
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

// A worker sends a new wait ahead of its heartbeat if the wait strays by more than waitStray, or by more than a
// waitStrayPer-th of the sent wait, if that is more.
const (
	waitStray    = Wait(100 * time.Millisecond / WaitStep)
	waitStrayPer = 10 // a tenth of the sent wait
)

// Differs reports whether m differs so much from earlier, a matrix sent elapsed ago, that the worker should not
// wait for the next heartbeat. A new capacity differs. A wait differs if it is longer than the earlier wait, or
// shorter than the earlier wait minus elapsed, by more than a tenth or 100 ms. A wait that shrinks with time is no
// news.
func (m *WaitMatrix) Differs(earlier *WaitMatrix, elapsed time.Duration) bool {
	if m.Capacity != earlier.Capacity {
		return true
	}
	passed := WaitOf(elapsed)
	strays := func(now, before Wait) bool {
		stray := max(waitStray, before/waitStrayPer)
		return now != before && (now == NeverFits || before == NeverFits || now > before &&
			now-before > stray || before > now && before-now > stray && before-now-stray > passed)
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
