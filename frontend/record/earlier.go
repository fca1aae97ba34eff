package record

import (
	"cmp"
	"encoding/binary"
	"slices"
	"time"

	"github.com/phoebe-sched/phoebe/frontend"
	"github.com/phoebe-sched/phoebe/probe"
)

// maxEarlier is how many attempts are remembered that did not give the outcomes of their tasks.
const maxEarlier = 1 << 14

// Earlier is one of these. Moments are since its job came; 0: not known, or it never started.
type Earlier struct {
	Task                 probe.TaskIndex
	Worker               uint32 // its key at the frontend
	Binding, End         uint8
	Sent, Started, Ended time.Duration

	Before uint64 // the number of the one of its job before this; 0: it is the first
}

// NewEarlier is an attempt at a task of a job that came so long before the core had it.
func NewEarlier(task probe.TaskIndex, e *frontend.Earlier, lead time.Duration) Earlier {
	since := func(d time.Duration) time.Duration {
		if d == 0 {
			return 0
		}
		return lead + d
	}
	return Earlier{
		Task: task, Worker: uint32(e.Worker), Binding: uint8(e.Way), End: uint8(e.End),
		Sent: since(e.Sent), Started: since(e.Started), Ended: since(e.Ended),
	}
}

// EarlierAttempts remembers the last ones.
type EarlierAttempts struct {
	list  []Earlier
	total uint64 // ever; they are numbered from 1 on
}

// Add remembers one more, and tells its number.
func (r *EarlierAttempts) Add(e Earlier) uint64 {
	if at := r.total % maxEarlier; at < uint64(len(r.list)) {
		r.list[at] = e
	} else {
		r.list = append(r.list, e)
	}
	r.total++
	return r.total
}

// Collect appends those of a job that are remembered, up to so many, the last ones first: the one of a number, and those before it. It
// returns the number of the next one, which is 0 if there is none.
func (r *EarlierAttempts) Collect(to []Earlier, last uint64, most int) (_ []Earlier, next uint64) {
	for ; last > 0 && last+maxEarlier > r.total; most-- {
		if most == 0 {
			return to, last
		}
		e := r.list[(last-1)%maxEarlier]
		to, last = append(to, e), e.Before
	}
	return to, 0
}

// earlierFields is how many numbers one is packed into: see attemptFields.
const earlierFields = 7

// packEarlier packs those of a job, the last ones first, by the position of the attempt that gave the outcome of their task.
func packEarlier(list []Earlier, attempts []Attempt, worker func(key uint32) int) (b []byte) {
	positions := make(map[probe.TaskIndex]int, len(list))
	for i := range list {
		positions[list[i].Task] = 0
	}
	for i := range attempts {
		if _, is := positions[attempts[i].Task]; is {
			positions[attempts[i].Task] = i
		}
	}
	list = slices.Clone(list)
	slices.Reverse(list)
	slices.SortStableFunc(list, func(a, b Earlier) int { return cmp.Compare(positions[a.Task], positions[b.Task]) })
	for i := range list {
		e := &list[i]
		for _, n := range [...]uint64{uint64(positions[e.Task]), uint64(worker(e.Worker)), uint64(e.Binding), uint64(e.End)} {
			b = binary.AppendUvarint(b, n)
		}
		for _, d := range [...]time.Duration{e.Sent, e.Started, e.Ended} {
			b = appendDuration(b, d)
		}
	}
	return b
}

// earlierPage is those at the tasks from one position on and before another, as the API has them; nil: there are none.
func (t *Trace) earlierPage(from, until int) []byte {
	start := t.earlierOffset(from)
	end := t.earlierOffset(until)
	if start == end {
		return nil
	}
	return append(binary.AppendUvarint(nil, earlierFields), t.packedEarlier[start:end]...)
}

// earlierOffset is where those at the tasks from a position on begin.
func (t *Trace) earlierOffset(from int) (at int) {
	for at < len(t.packedEarlier) {
		if position, _ := binary.Uvarint(t.packedEarlier[at:]); position >= uint64(from) {
			break
		}
		at += skipNumbers(t.packedEarlier[at:], earlierFields)
	}
	return at
}
