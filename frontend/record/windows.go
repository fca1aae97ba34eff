package record

import (
	"maps"
	"slices"
	"time"

	"github.com/phoebe-sched/phoebe/probe/histogram"
)

// Window is what was counted in a part of time: one of those that have its length and follow each other without end. A batch belongs to
// the one that has its middle.
type Window struct {
	Tally
	At     time.Time
	Length time.Duration
	Series []Packed
}

// Packed is the histograms of a key, one behind the other, by Measure.
type Packed struct {
	Key
	Data []byte
}

// Add adds what was counted of one thing to a histogram.
func (p *Packed) Add(m Measure, to *histogram.Histogram) {
	b := p.Data
	for range m {
		var skipped histogram.Histogram
		b, _ = skipped.MergeFrom(b)
	}
	_, _ = to.MergeFrom(b)
}

// Windows are those that start at since or later and are remembered, in order. They are as long as those of the finest ring that are
// at least of the length that is asked for, or else of the coarsest one; the last ones may not be complete.
func (h *History) Windows(length time.Duration, since time.Time) []Window {
	i := 0
	for i < len(ringSizes)-1 && time.Duration(ringSpan(i))*time.Second < length {
		i++
	}
	length = time.Duration(ringSpan(i)) * time.Second
	byStart := map[time.Time][]*storedWindow{}
	nextUnchosen := uint64(0) // that is not chosen yet, in windows of the first ring
	for ; i >= 0; i-- {
		r := &h.rings[i]
		for k := max(r.total-uint64(len(r.windows)), nextUnchosen/ringSpan(i)); k < r.total; k++ {
			w := &r.windows[k%uint64(len(r.windows))]
			if at := w.from.Add(w.to.Sub(w.from) / 2).Truncate(length); !at.Before(since) {
				byStart[at] = append(byStart[at], w)
			}
		}
		nextUnchosen = max(nextUnchosen, r.total*ringSpan(i))
	}
	var list []Window
	for _, at := range slices.SortedFunc(maps.Keys(byStart), time.Time.Compare) {
		list = append(list, h.buildWindow(at, length, byStart[at]))
	}
	return list
}

func (h *History) buildWindow(at time.Time, length time.Duration, parts []*storedWindow) Window {
	w := Window{At: at, Length: length}
	for _, o := range parts {
		w.Add(&o.Tally)
	}
	if len(parts) == 1 { // what is packed need not be unpacked
		start := 0
		for _, p := range parts[0].keys {
			w.Series = append(w.Series, Packed{p.Key, slices.Clone(parts[0].data[start:p.end])})
			start = p.end
		}
		return w
	}
	h.mergeSeries(parts, func(key Key, s *series) { w.Series = append(w.Series, Packed{key, s.appendPacked(nil)}) })
	return w
}

// Merge makes one window of those of several frontends that start at the same moment and are of the same length. Those of a key
// too many are counted with others. It reports whether all histograms were histograms: of one that is not, the rest of its series is left out.
func Merge(windows []Window) (w Window, ok bool) {
	w, ok = Window{At: windows[0].At, Length: windows[0].Length}, true
	sums := map[Key]*series{}
	var order []Key
	for i := range windows {
		w.Add(&windows[i].Tally)
		for _, p := range windows[i].Series {
			s := sums[p.Key]
			if s == nil && len(sums) >= maxSeries {
				p.Key = Key{Other, Other, Other}
				s = sums[p.Key]
			}
			if s == nil {
				s = new(series)
				sums[p.Key], order = s, append(order, p.Key)
			}
			ok = s.mergePacked(p.Data) && ok
		}
	}
	for _, key := range order {
		w.Series = append(w.Series, Packed{key, sums[key].appendPacked(nil)})
	}
	return w, ok
}
