package probe

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

// windowModel remembers every id.
type windowModel struct {
	top    ResID
	marked map[ResID]bool
}

func (m *windowModel) seen(id ResID) bool {
	return m.marked[id] || id <= m.top && m.top-id >= windowSize
}

func (m *windowModel) mark(id ResID) bool {
	if m.seen(id) {
		return false
	}
	m.marked[id], m.top = true, max(m.top, id)
	return true
}

func TestWindowAgainstModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var w Window
		m := windowModel{marked: map[ResID]bool{}}
		if rapid.IntRange(0, 3).Draw(t, "start") == 0 {
			high := ResID(math.MaxUint64 - rapid.Uint64Range(0, 3*windowSize).Draw(t, "below"))
			w.Mark(high)
			m.mark(high)
		}
		// Ids that share a bit or a word with the newest id, edges of the window, and ids in between.
		offset := rapid.OneOf(
			rapid.Int64Range(-70, 70),
			rapid.Int64Range(-windowSize-70, -windowSize+70),
			rapid.Int64Range(windowSize-70, windowSize+70),
			rapid.Int64Range(-3*windowSize, 3*windowSize),
		)
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			d := offset.Draw(t, "offset")
			id := m.top + ResID(d)
			if d < 0 && id > m.top || d > 0 && id < m.top || id == 0 {
				continue // beyond an end of the numbers
			}
			if got, want := w.Seen(id), m.seen(id); got != want {
				t.Fatalf("Seen(top%+d) = %v, want %v (top %d)", d, got, want, m.top)
			}
			if rapid.Bool().Draw(t, "mark") {
				if got, want := w.Mark(id), m.mark(id); got != want {
					t.Fatalf("Mark(top%+d) = %v, want %v (top %d)", d, got, want, m.top)
				}
			}
		}
		// After the history, window and model agree on the whole window and a margin.
		for i := range ResID(windowSize + 200) {
			if id := m.top + 100 - i; id > 0 && (m.top >= windowSize+100 || id <= m.top+100) &&
				m.top <= math.MaxUint64-100 {
				if got, want := w.Seen(id), m.seen(id); got != want {
					t.Fatalf("at the end Seen(%d) = %v, want %v (top %d)", id, got, want, m.top)
				}
			}
		}
	})
}

func TestWindowStories(t *testing.T) {
	var w Window
	if w.Mark(0) {
		t.Error("0 is no id, yet it was new")
	}
	if !w.Mark(2) || w.Mark(2) || w.Seen(1) || !w.Mark(1) {
		t.Error("2 overtakes 1: each is new once")
	}
	if !w.Mark(1+windowSize) || !w.Seen(1) || !w.Seen(2) || w.Seen(3) {
		t.Error("1 fell out of the window and counts as seen; 2 is in it; 3 was never seen")
	}
	if w.Mark(1) {
		t.Error("1 is too old to be new")
	}
	if !w.Mark(math.MaxUint64) || w.Mark(math.MaxUint64) || w.Seen(math.MaxUint64-1) || !w.Seen(3) {
		t.Error("after a jump to the last id, ids just below are new, all old ones are not")
	}
}
