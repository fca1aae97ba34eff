package record

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/phoebe-sched/phoebe/probe/histogram"
)

// rings are how many windows of what length there are, in those of the ring before; those of the first one are of what is taken
// at once, which is a second as a rule.
var rings = [...]struct{ windows, of int }{{60, 1}, {60, 10}, {72, 30}}

// maxWindow is how many bytes the histograms of a window may take. A few thousand are usual.
const maxWindow = 40 << 10

// History is what was counted, by when. It takes at most MaxBytes, with the Intake.
type History struct {
	rings  [len(rings)]ring
	totals map[Key]*series // of the keys that are counted now
	lost   uint64
	sum    series // room to merge in
}

// MaxBytes bounds an Intake, its batches and their History: three times all series, and all windows.
const MaxBytes = 16 << 20

// ring is the last windows of a length.
type ring struct {
	windows []window
	n       uint64 // ever; number i is at i % len
}

// window is what was counted between two moments.
type window struct {
	Tally
	from, to time.Time
	keys     []packed
	data     []byte
}

// packed is a key of a window, and where its histograms end in the data, which are one behind the other.
type packed struct {
	Key
	end int
}

// NewHistory makes an empty one.
func NewHistory() *History { return &History{totals: map[Key]*series{}} }

// Add takes in a batch, and empties it.
func (h *History) Add(b *Batch) {
	maps.DeleteFunc(h.totals, func(k Key, _ *series) bool { return !slices.Contains(b.keys, k) })
	w := h.rings[0].next(rings[0].windows, b.from, b.to)
	w.Tally = b.Tally
	order := make([]int, len(b.keys))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(x, y int) int { return cmp.Compare(b.series[y].count(), b.series[x].count()) })
	for _, i := range order {
		s := &b.series[i]
		if s.count() == 0 {
			continue
		}
		h.pack(w, b.keys[i], s)
		total := h.totals[b.keys[i]]
		if total == nil {
			total = new(series)
			h.totals[b.keys[i]] = total
		}
		total.merge(s)
		s.clear()
	}
	for i := 1; i < len(rings) && h.rings[i-1].n%uint64(rings[i].of) == 0; i++ {
		h.condense(&h.rings[i-1], &h.rings[i], rings[i].windows, rings[i].of)
	}
}

// next is the window that is to be filled now, in place of the oldest.
func (r *ring) next(most int, from, to time.Time) *window {
	if len(r.windows) < most {
		r.windows = append(r.windows, window{})
	}
	w := &r.windows[r.n%uint64(most)]
	r.n++
	w.Tally, w.from, w.to, w.keys, w.data = Tally{}, from, to, w.keys[:0], w.data[:0]
	return w
}

// condense merges the last windows of a ring into one of the next.
func (h *History) condense(fine, coarse *ring, most, of int) {
	var last []*window
	for i := fine.n - uint64(of); i < fine.n; i++ {
		last = append(last, &fine.windows[i%uint64(len(fine.windows))])
	}
	from, to := last[0].from, last[of-1].to
	if to.Before(from) {
		from = to
	}
	w := coarse.next(most, from, to)
	for _, o := range last {
		w.Add(&o.Tally)
	}
	h.merge(last, func(key Key, s *series) { h.pack(w, key, s) })
}

// merge hands out the series of some windows, one for each key, in the order in which the keys come first.
func (h *History) merge(windows []*window, do func(Key, *series)) {
	seen := map[Key]bool{}
	for i, w := range windows {
		for _, p := range w.keys {
			if seen[p.Key] {
				continue
			}
			seen[p.Key] = true
			h.sum.clear()
			for _, w := range windows[i:] {
				w.unpack(p.Key, &h.sum)
			}
			do(p.Key, &h.sum)
		}
	}
}

// pack adds the histograms of a key to a window, or counts what they have counted as lost if there is no room.
func (h *History) pack(w *window, key Key, s *series) {
	data := s.pack(w.data)
	if len(data) > maxWindow {
		h.lost += s.count()
		return
	}
	w.data, w.keys = data, append(w.keys, packed{key, len(data)})
}

// unpack adds the histograms of a key.
func (w *window) unpack(key Key, to *series) {
	start := 0
	for _, p := range w.keys {
		if p.Key != key {
			start = p.end
			continue
		}
		to.unpack(w.data[start:p.end])
		return
	}
}

// Lost is how many were counted and are missing in windows, as there was no room for them. Totals have them.
func (h *History) Lost() uint64 { return h.lost }

// Total hands out all that was counted by the keys that are counted now, in their order. What it hands out is not to be kept.
func (h *History) Total(do func(Key, Measure, *histogram.Histogram)) {
	keys := slices.SortedFunc(maps.Keys(h.totals), Key.compare)
	for _, key := range keys {
		h.totals[key].each(key, do)
	}
}

// span is how many windows of the first ring one of ring i has.
func span(i int) uint64 {
	n := uint64(1)
	for _, r := range rings[:i+1] {
		n *= uint64(r.of)
	}
	return n
}
