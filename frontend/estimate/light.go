package estimate

import (
	"math/bits"
	"math/rand/v2"

	"github.com/phoebe-sched/phoebe/probe"
)

// lightSizes are the demands, in slots, for which the lightly loaded workers are kept apart: a worker with
// room for one slot may be far from having room for sixteen.
var lightSizes = [...]probe.Demand{scaleDemand(probe.Slot, 1), scaleDemand(probe.Slot, 4), scaleDemand(probe.Slot, 16), scaleDemand(probe.Slot, 64)}

func scaleDemand(d probe.Demand, n int32) probe.Demand {
	return probe.Demand{CPU: d.CPU * probe.Millicores(n), Mem: d.Mem * probe.MiB(n)}
}

// lightSize is the position in lightSizes of the smallest size that holds d, the last if none does.
func lightSize(d probe.Demand) int {
	for i, size := range lightSizes {
		if d.Fits(size) {
			return i
		}
	}
	return len(lightSizes) - 1
}

// lightLists are those of each size: for long tasks, and for short ones, which find room where these do not.
const lightLists = 2 * len(lightSizes)

// lightListOf is the position of the list for tasks of a demand, short or long.
func lightListOf(d probe.Demand, short bool) int {
	if short {
		return len(lightSizes) + lightSize(d)
	}
	return lightSize(d)
}

// lightPosition is where a worker is in one light list; pos is its position in the bucket plus one.
type lightPosition struct {
	bucket uint8
	pos    int32
}

// lightWorkers is the workers by their wait for one size of task, in buckets within which no wait is more than a
// quarter longer than another. Moving a worker and drawing one of the lightest take constant time.
type lightWorkers struct {
	buckets [33 * 4][]int32 // keys
	size    int
}

// bucketOf is four times the length of w in bits, and the two bits that follow the first.
func bucketOf(w probe.Wait) uint8 {
	n := bits.Len32(uint32(w))
	return uint8(n*4) + uint8(uint64(w)<<2>>max(n-1, 0)&3)
}

// putWorker moves a worker, whose place is at, to where its wait belongs. place finds other workers' places.
func (l *lightWorkers) putWorker(key int32, at *lightPosition, wait probe.Wait, positionOf func(int32) *lightPosition) {
	b := bucketOf(wait)
	if at.pos > 0 && at.bucket == b {
		return
	}
	l.removeWorker(at, positionOf)
	l.buckets[b] = append(l.buckets[b], key)
	*at = lightPosition{b, int32(len(l.buckets[b]))}
	l.size++
}

func (l *lightWorkers) removeWorker(at *lightPosition, positionOf func(int32) *lightPosition) {
	if at.pos == 0 {
		return
	}
	bucket := l.buckets[at.bucket]
	last := bucket[len(bucket)-1]
	bucket[at.pos-1] = last
	positionOf(last).pos = at.pos
	l.buckets[at.bucket] = bucket[:len(bucket)-1]
	at.pos = 0
	l.size--
}

// drawWorker is a random one of the width lightest workers and those whose wait is in the same bucket as theirs.
// The list must not be empty.
func (l *lightWorkers) drawWorker(width int, rng *rand.Rand) int32 {
	among := 0
	for b := 0; among < min(width, l.size); b++ {
		among += len(l.buckets[b])
	}
	i := rng.IntN(among)
	b := 0
	for i >= len(l.buckets[b]) {
		i -= len(l.buckets[b])
		b++
	}
	return l.buckets[b][i]
}
