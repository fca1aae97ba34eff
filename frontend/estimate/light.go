package estimate

import (
	"math/bits"
	"math/rand/v2"

	"github.com/phoebe-sched/phoebe/probe"
)

// lightSizes are the demands, in slots, with separate lists of lightly loaded workers: a worker with room for one
// slot may be far from room for sixteen.
var lightSizes = [...]probe.Demand{scaleDemand(probe.Slot, 1), scaleDemand(probe.Slot, 4), scaleDemand(probe.Slot, 16),
	scaleDemand(probe.Slot, 64)}

func scaleDemand(d probe.Demand, n int32) probe.Demand {
	return probe.Demand{CPU: d.CPU * probe.Millicores(n), Mem: d.Mem * probe.MiB(n)}
}

// lightSize returns the index in lightSizes of the smallest size that holds d, or the last index.
func lightSize(d probe.Demand) int {
	for i, size := range lightSizes {
		if d.Fits(size) {
			return i
		}
	}
	return len(lightSizes) - 1
}

// lightLists is the number of lists: for each size a list for long tasks, and a list for short tasks, which may use
// more room.
const lightLists = 2 * len(lightSizes)

// lightListOf returns the index of the list for tasks of a demand, short or long.
func lightListOf(d probe.Demand, short bool) int {
	if short {
		return len(lightSizes) + lightSize(d)
	}
	return lightSize(d)
}

// lightPosition is the position of a worker in a light list. pos is the position in the bucket plus one; 0: not in
// the list.
type lightPosition struct {
	bucket uint8
	pos    int32
}

// lightWorkers holds the workers by their wait for a task size, in buckets. Within a bucket no wait is more than a
// quarter longer than another. Moving a worker and drawing a light worker take constant time.
type lightWorkers struct {
	buckets  [33 * 4][]int32 // keys of workers
	occupied [3]uint64       // a bit for each bucket with workers
	size     int
}

// bucketOf returns the bucket of a wait: four times the length of w in bits, plus the two bits after the first.
func bucketOf(w probe.Wait) uint8 {
	n := bits.Len32(uint32(w))
	return uint8(n*4) + uint8(uint64(w)<<2>>max(n-1, 0)&3)
}

// putWorker moves a worker to the bucket of its wait. at is the worker's position; positionOf finds the position of
// others.
func (l *lightWorkers) putWorker(key int32, at *lightPosition, wait probe.Wait, positionOf func(int32) *lightPosition) {
	b := bucketOf(wait)
	if at.pos > 0 && at.bucket == b {
		return
	}
	l.removeWorker(at, positionOf)
	l.buckets[b] = append(l.buckets[b], key)
	l.occupied[b/64] |= 1 << (b % 64)
	*at = lightPosition{b, int32(len(l.buckets[b]))}
	l.size++
}

// removeWorker removes the worker at this position, if it is in the list.
func (l *lightWorkers) removeWorker(at *lightPosition, positionOf func(int32) *lightPosition) {
	if at.pos == 0 {
		return
	}
	bucket := l.buckets[at.bucket]
	last := bucket[len(bucket)-1]
	bucket[at.pos-1] = last
	positionOf(last).pos = at.pos
	if l.buckets[at.bucket] = bucket[:len(bucket)-1]; len(bucket) == 1 {
		l.occupied[at.bucket/64] &^= 1 << (at.bucket % 64)
	}
	at.pos = 0
	l.size--
}

// occupiedFrom returns the first bucket with workers from bucket b on. There must be such a bucket.
func (l *lightWorkers) occupiedFrom(b int) int {
	for word := b / 64; ; word++ {
		if later := l.occupied[word] >> (b % 64); later != 0 {
			return b + bits.TrailingZeros64(later)
		}
		b = (word + 1) * 64
	}
}

// drawWorker returns a random worker among the width lightest workers and the rest of their last bucket. The list
// must not be empty.
func (l *lightWorkers) drawWorker(width int, rng *rand.Rand) int32 {
	among := 0
	for b := 0; among < min(width, l.size); b++ {
		b = l.occupiedFrom(b)
		among += len(l.buckets[b])
	}
	i := rng.IntN(among)
	b := l.occupiedFrom(0)
	for i >= len(l.buckets[b]) {
		i -= len(l.buckets[b])
		b = l.occupiedFrom(b + 1)
	}
	return l.buckets[b][i]
}
