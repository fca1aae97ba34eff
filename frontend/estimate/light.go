package estimate

import (
	"math/bits"
	"math/rand/v2"

	"github.com/phoebe-sched/phoebe/probe"
)

// lightSizes are the demands, in slots, for which the lightly loaded workers are kept apart: a worker with
// room for one slot may be far from having room for sixteen.
var lightSizes = [...]probe.Demand{scaled(probe.Slot, 1), scaled(probe.Slot, 4), scaled(probe.Slot, 16), scaled(probe.Slot, 64)}

func scaled(d probe.Demand, n int32) probe.Demand {
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

// lightList is the position of the list for tasks of a demand, short or long.
func lightList(d probe.Demand, short bool) int {
	if short {
		return len(lightSizes) + lightSize(d)
	}
	return lightSize(d)
}

// lightPlace is where a worker is in one light list; pos is its position in the bucket plus one.
type lightPlace struct {
	bucket uint8
	pos    int32
}

// light is the workers by their wait for one size of task, in buckets within which no wait is more than a
// quarter longer than another. Moving a worker and drawing one of the lightest take constant time.
type light struct {
	buckets [33 * 4][]int32 // keys
	size    int
}

// bucketOf is four times the length of w in bits, and the two bits that follow the first.
func bucketOf(w probe.Wait) uint8 {
	n := bits.Len32(uint32(w))
	return uint8(n*4) + uint8(uint64(w)<<2>>max(n-1, 0)&3)
}

// put moves a worker, whose place is at, to where its wait belongs. place finds other workers' places.
func (l *light) put(key int32, at *lightPlace, wait probe.Wait, place func(int32) *lightPlace) {
	b := bucketOf(wait)
	if at.pos > 0 && at.bucket == b {
		return
	}
	l.remove(at, place)
	l.buckets[b] = append(l.buckets[b], key)
	*at = lightPlace{b, int32(len(l.buckets[b]))}
	l.size++
}

func (l *light) remove(at *lightPlace, place func(int32) *lightPlace) {
	if at.pos == 0 {
		return
	}
	bucket := l.buckets[at.bucket]
	last := bucket[len(bucket)-1]
	bucket[at.pos-1] = last
	place(last).pos = at.pos
	l.buckets[at.bucket] = bucket[:len(bucket)-1]
	at.pos = 0
	l.size--
}

// draw is a random one of the width lightest workers and those whose wait is in the same bucket as theirs.
// The list must not be empty.
func (l *light) draw(width int, rng *rand.Rand) int32 {
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
