package record

import (
	"cmp"
	"encoding/binary"
	"slices"
	"time"

	"github.com/phoebe-sched/phoebe/frontend"
	"github.com/phoebe-sched/phoebe/probe"
)

// maxEarlier bounds the remembered attempts that gave their tasks no outcome.
const maxEarlier = 1 << 14

// Earlier is an attempt that did not give its task an outcome. Moments are since the job's arrival; 0: not known,
// or the attempt never started.
type Earlier struct {
	Task                 probe.TaskIndex
	Worker               uint32 // number in WorkerNames
	Binding, End         uint8
	Sent, Started, Ended time.Duration

	Previous uint64 // number of the last Earlier of the job before this one; 0: this is the first
}

// NewEarlier makes an earlier attempt at a task. worker is the worker's number in WorkerNames. lead is the time from
// the job's arrival until the core had the job.
func NewEarlier(task probe.TaskIndex, e *frontend.Earlier, worker uint32, lead time.Duration) Earlier {
	since := func(d time.Duration) time.Duration {
		if d == 0 {
			return 0
		}
		return lead + d
	}
	return Earlier{
		Task: task, Worker: worker, Binding: uint8(e.Way), End: uint8(e.End),
		Sent: since(e.Sent), Started: since(e.Started), Ended: since(e.Ended),
	}
}

// EarlierAttempts remembers the latest earlier attempts, up to maxEarlier.
type EarlierAttempts struct {
	list  []Earlier
	total uint64 // attempts ever; numbers start at 1
}

// Add remembers another attempt, and returns its number.
func (r *EarlierAttempts) Add(e Earlier) uint64 {
	if at := r.total % maxEarlier; at < uint64(len(r.list)) {
		r.list[at] = e
	} else {
		r.list = append(r.list, e)
	}
	r.total++
	return r.total
}

// Collect appends up to most remembered attempts of a job, the latest first: attempt last, and the attempts before.
// The result next is the number to go on with, or 0.
func (r *EarlierAttempts) Collect(to []Earlier, last uint64, most int) (_ []Earlier, next uint64) {
	for ; last > 0 && last+maxEarlier > r.total; most-- {
		if most == 0 {
			return to, last
		}
		e := r.list[(last-1)%maxEarlier]
		to, last = append(to, e), e.Previous
	}
	return to, 0
}

// earlierFields is the count of packed numbers for an earlier attempt: see attemptFields.
const earlierFields = 7

// packEarlier packs a job's earlier attempts, given the latest first. The order is by position of the task's
// attempt with the outcome.
func packEarlier(list []Earlier, attempts []Attempt, worker func(number uint32) int) (b []byte) {
	positions := make(map[probe.TaskIndex]int, len(list))
	for i := range list {
		positions[list[i].Task] = 0
	}
	for i := range attempts {
		if _, hasEarlier := positions[attempts[i].Task]; hasEarlier {
			positions[attempts[i].Task] = i
		}
	}
	list = slices.Clone(list)
	slices.Reverse(list)
	slices.SortStableFunc(list, func(a, b Earlier) int { return cmp.Compare(positions[a.Task], positions[b.Task]) })
	for i := range list {
		e := &list[i]
		for _, n := range [...]uint64{uint64(positions[e.Task]), uint64(worker(e.Worker)), uint64(e.Binding),
			uint64(e.End)} {
			b = binary.AppendUvarint(b, n)
		}
		for _, d := range [...]time.Duration{e.Sent, e.Started, e.Ended} {
			b = appendDuration(b, d)
		}
	}
	return b
}

// earlierPage returns the earlier attempts at the tasks of positions from to until-1, as the API has them, or nil.
func (t *Trace) earlierPage(from, until int) []byte {
	start := t.earlierOffset(from)
	end := t.earlierOffset(until)
	if start == end {
		return nil
	}
	return append(binary.AppendUvarint(nil, earlierFields), t.packedEarlier[start:end]...)
}

// earlierOffset returns the offset of the earlier attempts at tasks of position from and later.
func (t *Trace) earlierOffset(from int) (at int) {
	for at < len(t.packedEarlier) {
		if position, _ := binary.Uvarint(t.packedEarlier[at:]); position >= uint64(from) {
			break
		}
		at += skipNumbers(t.packedEarlier[at:], earlierFields)
	}
	return at
}
