package record

import (
	"encoding/binary"
	"slices"
	"time"
)

// Trace is the attempts of a job in few bytes: a fifth of what they take in the ring.
type Trace struct {
	Workers       []string // names, that the attempts refer to
	N             int
	packed        []byte
	packedEarlier []byte
}

// NewTrace packs attempts, whose workers have these names, and those that did not give outcomes, of these the last ones first.
func NewTrace(attempts []Attempt, earlier []Earlier, names map[uint32]string) Trace {
	t := Trace{N: len(attempts)}
	numbers := make(map[uint32]int, len(names))
	number := func(key uint32) (worker int) {
		if name, known := names[key]; known {
			if worker = numbers[key]; worker == 0 {
				t.Workers = append(t.Workers, name)
				worker = len(t.Workers)
				numbers[key] = worker
			}
		}
		return worker
	}
	for i := range attempts {
		t.packed = attempts[i].appendPacked(t.packed, number(attempts[i].Worker))
	}
	t.packed, t.packedEarlier = slices.Clip(slices.Clone(t.packed)), packEarlier(earlier, attempts, number)
	return t
}

func (t *Trace) traceBytes() int {
	size := len(t.packed) + len(t.packedEarlier)
	for _, name := range t.Workers {
		size += 16 + len(name)
	}
	return size
}

// attemptFields is how many numbers an attempt is packed into. The API tells which: fields are only ever added.
const attemptFields = 26

func (a *Attempt) appendPacked(b []byte, worker int) []byte {
	known := uint64(0)
	if a.Ends[Run] > 0 {
		known = 1
	}
	for _, n := range [...]uint64{
		uint64(a.Task), uint64(a.Stage), uint64(worker), uint64(a.Tries), uint64(a.Path), uint64(a.Binding), uint64(a.Outcome), uint64(a.Failure),
	} {
		b = binary.AppendUvarint(b, n)
	}
	b = appendDuration(b, a.Released)
	b = binary.AppendUvarint(b, known)
	for _, d := range a.Ends {
		b = appendDuration(b, d)
	}
	for _, d := range [...]time.Duration{a.Fetched, a.Expected, a.ExpectedWait, a.Waited} {
		b = appendDuration(b, d)
	}
	for _, ticks := range a.Waits {
		b = appendDuration(b, time.Duration(ticks)*tick)
	}
	return b
}

func appendDuration(b []byte, d time.Duration) []byte {
	return binary.AppendUvarint(b, uint64(max(d, 0)))
}

// Page is up to most attempts from one position on, and the earlier ones at their tasks, as the API has them.
func (t *Trace) Page(from, most int) (b, earlier []byte, next int) {
	from = min(max(from, 0), t.N)
	until := from + min(max(most, 0), t.N-from)
	start := skipNumbers(t.packed, from*attemptFields)
	end := start + skipNumbers(t.packed[start:], (until-from)*attemptFields)
	if next = until; next == t.N {
		next = 0
	}
	return append(binary.AppendUvarint(nil, attemptFields), t.packed[start:end]...), t.earlierPage(from, until), next
}

// skipNumbers is how many bytes so many numbers take.
func skipNumbers(b []byte, left int) (at int) {
	for ; left > 0; at++ {
		if b[at] < 0x80 {
			left--
		}
	}
	return at
}
