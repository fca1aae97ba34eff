package record

import (
	"encoding/binary"
	"slices"
	"testing"
	"time"

	"github.com/phoebe-sched/phoebe/frontend"
	"github.com/phoebe-sched/phoebe/probe"
)

// readNumbers unpacks numbers of the API.
func readNumbers(t *testing.T, b []byte) (fields int, list []uint64) {
	t.Helper()
	for len(b) > 0 {
		n, size := binary.Uvarint(b)
		if size <= 0 {
			t.Fatal("it is cut off")
		}
		list, b = append(list, n), b[size:]
	}
	if len(list) == 0 {
		return 0, nil
	}
	return int(list[0]), list[1:]
}

// Each page has the earlier attempts at its tasks, in order.
func TestEarlierOfPages(t *testing.T) {
	attempts := make([]Attempt, 10)
	for i := range attempts {
		attempts[i].Task = probe.TaskIndex(100 - i)
		attempts[i].Worker = uint32(i)
	}
	var r EarlierAttempts
	last := uint64(0)
	add := func(position int, worker uint32, ended time.Duration) {
		e := NewEarlier(attempts[position].Task,
			&frontend.Earlier{Way: frontend.WayRide, End: frontend.EndLost, Ended: ended}, worker, 5)
		e.Previous = last
		last = r.Add(e)
	}
	add(3, 1, 10)
	add(0, 2, 20)
	add(3, 77, 30)
	add(9, 1, 40)
	list, next := r.Collect(nil, last, 3)
	if list, next = r.Collect(list, next, 3); len(list) != 4 || next != 0 {
		t.Fatalf("%d are remembered, and number %d", len(list), next)
	}
	trace := NewTrace(attempts, list, map[uint32]string{1: "one", 2: "two"})
	const ride, lost = uint64(frontend.WayRide), uint64(frontend.EndLost)
	for _, c := range []struct {
		from, most int
		want       []uint64
	}{
		{0, 3, []uint64{0, 2, ride, lost, 0, 0, 25}},
		{3, 1, []uint64{3, 1, ride, lost, 0, 0, 15, 3, 0, ride, lost, 0, 0, 35}},
		{4, 5, nil}, {-1, 1, []uint64{0, 2, ride, lost, 0, 0, 25}},
		{9, 100, []uint64{9, 1, ride, lost, 0, 0, 45}},
	} {
		_, earlier, _ := trace.Page(c.from, c.most)
		fields, got := readNumbers(t, earlier)
		if fields != earlierFields && c.want != nil || !slices.Equal(got, c.want) {
			t.Errorf("%d from %d on: %v, want %v", c.most, c.from, got, c.want)
		}
	}
}

// Forgotten attempts are left out, and the rest is reported.
func TestEarlierForgotten(t *testing.T) {
	var r EarlierAttempts
	last := uint64(0)
	for i := range 3 * maxEarlier {
		last = r.Add(Earlier{Task: probe.TaskIndex(i), Previous: last})
	}
	list, next := r.Collect(nil, last, 2*maxEarlier)
	if len(list) != maxEarlier || next != 0 || list[0].Task != 3*maxEarlier-1 ||
		list[len(list)-1].Task != 2*maxEarlier {
		t.Errorf("%d are remembered, and number %d", len(list), next)
	}
}

// A task without a worker is reported without a worker. A task with a worker is reported at that worker, even if
// the result is not kept.
func TestNoWorker(t *testing.T) {
	var list [2]Attempt
	list[0].Set(&frontend.Outcome{Kind: frontend.Cancelled}, 0, 1)
	list[1].Set(&frontend.Outcome{Kind: frontend.Result, Worker: "seven", At: 3}, 0, 1)
	list[1].Worker = 7
	trace := NewTrace(list[:], nil, map[uint32]string{0: "zero", 7: "seven"})
	b, _, _ := trace.Page(0, 2)
	if fields, got := readNumbers(t, b); got[2] != 0 || got[fields+2] != 1 ||
		!slices.Equal(trace.Workers, []string{"seven"}) {
		t.Errorf("workers %d and %d of %v", got[2], got[fields+2], trace.Workers)
	}
}
