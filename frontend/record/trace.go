package record

import (
	"encoding/binary"
	"slices"
	"time"

	"github.com/phoebe-sched/phoebe/frontend"
)

// Trace holds the attempts of a job, packed into a fifth of their size in Attempts.
type Trace struct {
	Workers       []string // names; attempts refer to them
	N             int      // attempts
	packed        []byte
	packedEarlier []byte
}

// NewTrace packs attempts with outcomes, and earlier attempts given the latest first. names maps numbers of workers
// to names.
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

// attemptFields is the count of packed numbers for an attempt. The API sends the count, because later releases may
// add fields at the end.
const attemptFields = 28

// appendPacked appends the numbers of a. worker is the index in Trace.Workers plus 1; 0: no worker.
func (a *Attempt) appendPacked(b []byte, worker int) []byte {
	known := uint64(0)
	if a.Ends[Run] > 0 {
		known = 1
	}
	for _, n := range [...]uint64{
		uint64(a.Task), uint64(a.Stage), uint64(worker), uint64(a.Tries), uint64(a.Path), uint64(a.Binding),
		uint64(a.Outcome), uint64(a.Failure),
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
	return appendDuration(appendDuration(b, a.Again), time.Duration(a.Held)*tick)
}

// underWayFields is the count of packed numbers for an attempt under way: see attemptFields.
const underWayFields = 11

// PackUnderWay packs attempts that have not ended, for the API. lead is the time from the job's arrival until the core
// had the job. number returns the position of a worker's name plus 1.
func PackUnderWay(list []frontend.UnderWay, lead time.Duration, number func(name string) int) []byte {
	b := binary.AppendUvarint(nil, underWayFields)
	for i := range list {
		a := &list[i]
		for _, n := range [...]uint64{uint64(a.Task), uint64(a.Stage), uint64(number(a.Name)), uint64(a.Tries),
			uint64(a.Way), uint64(a.State)} {
			b = binary.AppendUvarint(b, n)
		}
		for _, d := range [...]time.Duration{a.Sent, a.Started} {
			if d > 0 {
				d += lead
			}
			b = appendDuration(b, d)
		}
		b = appendDuration(appendDuration(b, a.Use.Ran), a.Use.CPU)
		b = binary.AppendUvarint(b, uint64(max(a.Use.Memory, 0)))
	}
	return b
}

func appendDuration(b []byte, d time.Duration) []byte {
	return binary.AppendUvarint(b, uint64(max(d, 0)))
}

// Page returns up to most attempts from position from on, packed for the API, with the earlier attempts at their
// tasks. The result next is the position to go on with, or 0.
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

// skipNumbers returns the length of the first count packed numbers, in bytes.
func skipNumbers(b []byte, count int) (at int) {
	for ; count > 0; at++ {
		if b[at] < 0x80 {
			count--
		}
	}
	return at
}
