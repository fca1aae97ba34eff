// Package histogram counts durations in cells that are 6 % wide at most, in a fixed amount of memory.
package histogram

import (
	"encoding/binary"
	"math"
	"math/bits"
	"time"
)

// A histogram has 16 cells for each doubling, which makes them 6 % wide at most. The first cell has what is under 1.024 us, the
// last one what is over 73 minutes.
const (
	perOctave    = 16
	octaves      = 32
	lowestOctave = 10 // the first octave starts at 2^lowest ns
	numCells     = 1 + octaves*perOctave + 1
)

// Histogram counts durations. The zero value is empty.
type Histogram struct {
	Count uint64
	Sum   time.Duration // it stays at the largest there is
	cells [numCells]uint64
}

// cellIndex is where d is counted.
func cellIndex(d time.Duration) int {
	if d < 1<<lowestOctave {
		return 0
	}
	n := bits.Len64(uint64(d))
	return min((n-1-lowestOctave)*perOctave+int(d>>(n-5)&(perOctave-1))+1, numCells-1)
}

// cellFloor is the shortest duration of a cell; that of the cell after the last one is the longest of all.
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

// Add counts d. What is negative counts as 0.
func (h *Histogram) Add(d time.Duration) { h.AddTimes(d, 1) }

// AddTimes counts d so many times.
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

// Merge adds what o has counted.
func (h *Histogram) Merge(o *Histogram) {
	h.Count += o.Count
	h.Sum = addCapped(h.Sum, o.Sum)
	for i, n := range o.cells {
		h.cells[i] += n
	}
}

func addCapped(a, b time.Duration) time.Duration {
	if sum := a + b; sum >= 0 {
		return sum
	}
	return math.MaxInt64
}

// Quantile is a duration that the share q of all is at most: the middle of its cell. 0 if there are none.
func (h *Histogram) Quantile(q float64) time.Duration {
	if h.Count == 0 {
		return 0
	}
	rank := uint64(math.Ceil(q * float64(h.Count)))
	rank = max(1, min(rank, h.Count))
	for i, n := range h.cells {
		if n >= rank {
			if i == numCells-1 {
				return cellFloor(i)
			}
			return (cellFloor(i) + cellFloor(i+1)) / 2
		}
		rank -= n
	}
	panic("histogram: one counts more than its cells")
}

// bounds are every eighth edge of cells from 8 us to 275 s: enough for a monitor, which is sent all of them at each look.
const firstBound, lastBound, boundEvery = 3*perOctave + 1, 28*perOctave + 1, perOctave / 2

// Cumulative tells, for some rising durations, how many are shorter.
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

// Append encodes what h has counted: the number of cells that have counted something, and if there are any, the sum, and for each
// of them the distance from the one before and the count.
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

// MergeFrom adds what Append has encoded at the start of b, and returns the rest of it. If it is not what Append encodes, that is
// nothing, and some of it may have been added.
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

// Range is durations from From on and shorter than To.
type Range struct{ From, To time.Duration }

// Last reports whether it is that of all that is longer.
func (r Range) Last() bool { return r.To == math.MaxInt64 }

// All are the cells that have counted something.
func (h *Histogram) All(yield func(r Range, n uint64) bool) {
	for i, n := range h.cells {
		if n > 0 && !yield(Range{cellFloor(i), cellFloor(i + 1)}, n) {
			return
		}
	}
}
