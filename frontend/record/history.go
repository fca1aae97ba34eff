package record

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/phoebe-sched/phoebe/probe/histogram"
)

// ringSizes holds for each ring the number of its windows, and how many windows of the ring before are merged into
// one. A window of the first ring is a batch, usually a second. So the rings reach back a minute, ten minutes and six
// hours.
var ringSizes = [...]struct{ windows, merged int }{{60, 1}, {60, 10}, {72, 30}}

// maxWindow bounds the bytes of a window's histograms. A few thousand are usual.
const maxWindow = 40 << 10

// History holds the counts by time. Together with the Intake it takes at most MaxBytes.
type History struct {
	rings      [len(ringSizes)]ring
	totals     map[Key]*series // of the keys counted now
	lostCounts uint64
	scratch    series // room to merge in
}

// MaxBytes bounds the memory of an Intake, its batches and their History. All series exist three times: in the batch
// being counted, in the batch handed out, and in the totals. The windows come on top.
const MaxBytes = 16 << 20

// ring holds the latest windows of a length.
type ring struct {
	windows []storedWindow
	total   uint64 // windows ever; number i is at i % len
}

// storedWindow holds the counts between two moments.
type storedWindow struct {
	Tally
	uses     Uses
	from, to time.Time
	keys     []packedKey
	data     []byte
}

// packedKey is a key of a window, and the end of its histograms in data. Histograms follow each other in the order
// of keys.
type packedKey struct {
	Key
	Counts // in windows of the first ring only
	end    int
}

// NewHistory makes an empty History.
func NewHistory() *History { return &History{totals: map[Key]*series{}} }

// Add takes in a batch, and empties it.
func (h *History) Add(b *Batch) {
	maps.DeleteFunc(h.totals, func(k Key, _ *series) bool { return !slices.Contains(b.keys, k) })
	w := h.rings[0].nextWindow(ringSizes[0].windows, b.from, b.to)
	w.Tally, w.uses = b.Tally, b.Uses
	b.Uses = Uses{}
	order := make([]int, len(b.keys))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, // largest first: if the window has no room, the smallest series are lost
		func(x, y int) int { return cmp.Compare(b.series[y].countAll(), b.series[x].countAll()) })
	for _, i := range order {
		s := &b.series[i]
		if s.countAll() == 0 && b.counts[i].Tasks == 0 {
			continue
		}
		h.packSeries(w, b.keys[i], b.counts[i], s)
		total := h.totals[b.keys[i]]
		if total == nil {
			total = new(series)
			h.totals[b.keys[i]] = total
		}
		total.mergeFrom(s)
		s.clearAll()
	}
	for i := 1; i < len(ringSizes) && h.rings[i-1].total%uint64(ringSizes[i].merged) == 0; i++ {
		h.condenseRing(&h.rings[i-1], &h.rings[i], ringSizes[i].windows, ringSizes[i].merged)
	}
}

// nextWindow returns the window to be filled now, in place of the oldest.
func (r *ring) nextWindow(most int, from, to time.Time) *storedWindow {
	if len(r.windows) < most {
		r.windows = append(r.windows, storedWindow{})
	}
	w := &r.windows[r.total%uint64(most)]
	r.total++
	w.Tally, w.uses, w.from, w.to, w.keys, w.data = Tally{}, Uses{}, from, to, w.keys[:0], w.data[:0]
	return w
}

// condenseRing merges the last count windows of a ring into a window of the next ring.
func (h *History) condenseRing(fine, coarse *ring, maxWindows, count int) {
	var last []*storedWindow
	for i := fine.total - uint64(count); i < fine.total; i++ {
		last = append(last, &fine.windows[i%uint64(len(fine.windows))])
	}
	from, to := last[0].from, last[count-1].to
	if to.Before(from) { // the clock was set back
		from = to
	}
	w := coarse.nextWindow(maxWindows, from, to)
	for _, o := range last {
		w.Add(&o.Tally)
		w.uses.Add(&o.uses)
	}
	h.mergeSeries(last, func(key Key, s *series) { h.packSeries(w, key, Counts{}, s) })
}

// mergeSeries hands out the merged series of each key in some windows, in the order of the keys' first windows.
func (h *History) mergeSeries(windows []*storedWindow, do func(Key, *series)) {
	seen := map[Key]bool{}
	for i, w := range windows {
		for _, p := range w.keys {
			if seen[p.Key] {
				continue
			}
			seen[p.Key] = true
			h.scratch.clearAll()
			for _, w := range windows[i:] {
				w.unpackSeries(p.Key, &h.scratch)
			}
			do(p.Key, &h.scratch)
		}
	}
}

// packSeries adds a series to a window. If there is no room, the counts of the series are added to the lost counts.
func (h *History) packSeries(w *storedWindow, key Key, counts Counts, s *series) {
	data := s.appendPacked(w.data)
	if len(data) > maxWindow {
		h.lostCounts += s.countAll()
		return
	}
	w.data, w.keys = data, append(w.keys, packedKey{key, counts, len(data)})
}

// packedAt returns the packed histograms of the key at a position in keys.
func (w *storedWindow) packedAt(i int) []byte {
	start := 0
	if i > 0 {
		start = w.keys[i-1].end
	}
	return w.data[start:w.keys[i].end]
}

// unpackSeries adds the histograms of a key to a series.
func (w *storedWindow) unpackSeries(key Key, to *series) {
	if i := slices.IndexFunc(w.keys, func(p packedKey) bool { return p.Key == key }); i >= 0 {
		to.mergePacked(w.packedAt(i))
	}
}

// Lost returns the number of counts missing in windows for lack of room. Totals have these counts.
func (h *History) Lost() uint64 { return h.lostCounts }

// EachTotal calls do with the totals of the keys counted now, in the order of keys. do must not keep the histograms.
func (h *History) EachTotal(do func(Key, Measure, *histogram.Histogram)) {
	keys := slices.SortedFunc(maps.Keys(h.totals), Key.compareTo)
	for _, key := range keys {
		h.totals[key].eachMeasure(key, do)
	}
}

// ringSpan returns the number of windows of the first ring in a window of ring i.
func ringSpan(i int) uint64 {
	n := uint64(1)
	for _, r := range ringSizes[:i+1] {
		n *= uint64(r.merged)
	}
	return n
}
