// Package histogram counts durations in cells that are 6 % wide at most, in a fixed amount of memory.
package histogram

import (
	"encoding/binary"
	"math"
	"math/bits"
	"time"
)

// A histogram has 16 cells for each doubling, so a cell is at most 6 % wide. The first cell has durations under
// 1.024 us, the last cell durations over 73 minutes.
const (
	perOctave    = 16
	octaves      = 32
	lowestOctave = 10 // the first octave starts at 2^lowest ns
	numCells     = 1 + octaves*perOctave + 1
)

// Histogram counts durations. The zero value is empty.
type Histogram struct {
	Count uint64
	Sum   time.Duration // saturates at the largest duration
	cells [numCells]uint64
}

// cellIndex returns the cell that counts d.
func cellIndex(d time.Duration) int {
	if d < 1<<lowestOctave {
		return 0
	}
	n := bits.Len64(uint64(d))
	return min((n-1-lowestOctave)*perOctave+int(d>>(n-5)&(perOctave-1))+1, numCells-1)
}

// cellFloor returns the shortest duration of cell i. Behind the last cell, cellFloor returns the longest duration.
func cellFloor(i int) time.Duration {
	switch {
	case i <= 0:
		return 0
	case i >= numCells:
		return math.MaxInt64
	}
	octave, part := (i-1)/perOctave, (i-1)%perOctave
	return time.Duration(perOctave+part) << (octave + lowestOctave - 4)
}

// Add counts d. A negative d counts as 0.
func (h *Histogram) Add(d time.Duration) { h.AddTimes(d, 1) }

// AddTimes counts d n times.
func (h *Histogram) AddTimes(d time.Duration, n uint64) {
	d = max(d, 0)
	h.Count += n
	h.cells[cellIndex(d)] += n
	if high, sum := bits.Mul64(uint64(d), n); high > 0 || sum > math.MaxInt64 {
		h.Sum = math.MaxInt64
	} else {
		h.Sum = addCapped(h.Sum, time.Duration(sum))
	}
}

// Merge adds the counts of o.
func (h *Histogram) Merge(o *Histogram) {
	h.Count += o.Count
	h.Sum = addCapped(h.Sum, o.Sum)
	for i, n := range o.cells {
		h.cells[i] += n
	}
}

// addCapped returns a+b, at most the largest duration.
func addCapped(a, b time.Duration) time.Duration {
	if sum := a + b; sum >= 0 {
		return sum
	}
	return math.MaxInt64
}

// QuantileRank returns the rank, from 1, of the quantile q among n sorted values: the first value that is not exceeded
// by a share q of all. n is 1 or more.
func QuantileRank(q float64, n int) int {
	// The rounding error of q*n must not reach the next rank.
	return max(1, min(n, int(math.Ceil(q*float64(n)-1e-9))))
}

// Quantile returns a duration that a share q of all durations does not exceed: the middle of its cell. An empty
// histogram returns 0.
func (h *Histogram) Quantile(q float64) time.Duration {
	if h.Count == 0 {
		return 0
	}
	rank := uint64(QuantileRank(q, int(h.Count)))
	for i, n := range h.cells {
		if n >= rank {
			if i == numCells-1 {
				return cellFloor(i)
			}
			return (cellFloor(i) + cellFloor(i+1)) / 2
		}
		rank -= n
	}
	panic("histogram: the count is above the sum of all cells")
}

// Cumulative's bounds are every eighth edge of cells, from 8 us to 275 s. A monitor reads all bounds at each look,
// so there are not more.
const firstBound, lastBound, boundEvery = 3*perOctave + 1, 28*perOctave + 1, perOctave / 2

// Cumulative yields some rising durations, each with the number of shorter durations.
func (h *Histogram) Cumulative(yield func(bound time.Duration, n uint64) bool) {
	n, at := uint64(0), 0
	for edge := firstBound; edge <= lastBound; edge += boundEvery {
		for ; at < edge; at++ {
			n += h.cells[at]
		}
		if !yield(cellFloor(edge), n) {
			return
		}
	}
}

// Append encodes h: the number of cells with a count, then the sum if any cell has a count. For each such cell
// follow the distance from the cell before, and the count. h may be nil.
func (h *Histogram) Append(b []byte) []byte {
	if h == nil || h.Count == 0 {
		return append(b, 0)
	}
	used := uint64(0)
	for _, n := range h.cells {
		if n > 0 {
			used++
		}
	}
	b = binary.AppendUvarint(binary.AppendUvarint(b, used), uint64(h.Sum))
	last := 0
	for i, n := range h.cells {
		if n > 0 {
			b = binary.AppendUvarint(binary.AppendUvarint(b, uint64(i-last)), n)
			last = i
		}
	}
	return b
}

// MergeFrom adds a histogram encoded by Append at the start of b, and returns the rest of b. If the encoding is
// bad, ok is false and a part of the counts may have been added.
func (h *Histogram) MergeFrom(b []byte) (rest []byte, ok bool) {
	ok = true
	next := func() uint64 {
		n, size := binary.Uvarint(b)
		ok = ok && size > 0
		b = b[max(size, 0):]
		return n
	}
	used := next()
	if used == 0 || !ok {
		return b, ok
	}
	h.Sum = addCapped(h.Sum, time.Duration(next()&math.MaxInt64))
	for at := uint64(0); used > 0; used-- {
		at += min(next(), numCells)
		n := next()
		if !ok || at >= numCells {
			return nil, false
		}
		h.cells[at] += n
		h.Count += n
	}
	return b, true
}

// Skip returns b without the histogram at its start, or nil if the encoding is bad.
func Skip(b []byte) []byte {
	used, size := binary.Uvarint(b)
	if size <= 0 || used > numCells {
		return nil
	}
	b = b[size:]
	if used == 0 {
		return b
	}
	for range 1 + 2*used { // the sum, and two numbers for each cell
		_, size := binary.Uvarint(b)
		if size <= 0 {
			return nil
		}
		b = b[size:]
	}
	return b
}

// Range holds the durations from From on and shorter than To.
type Range struct{ From, To time.Duration }

// Last reports whether r is the last cell: all longer durations.
func (r Range) Last() bool { return r.To == math.MaxInt64 }

// All yields the cells with a count.
func (h *Histogram) All(yield func(r Range, n uint64) bool) {
	for i, n := range h.cells {
		if n > 0 && !yield(Range{cellFloor(i), cellFloor(i + 1)}, n) {
			return
		}
	}
}
