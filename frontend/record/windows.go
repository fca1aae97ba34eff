package record

import (
	"maps"
	"slices"
	"time"

	"github.com/phoebe-sched/phoebe/probe/histogram"
)

// Window holds the counts of a period. Windows of a length follow each other without gaps. A batch belongs to the
// window that contains the batch's middle.
type Window struct {
	Tally
	At        time.Time
	Length    time.Duration
	Series    []Packed // of paths, policies and tenants
	Functions []Packed // the same tasks, by function
	Uses      Uses     // sums over the samples
}

// addPacked adds the histograms of a key.
func (w *Window) addPacked(p Packed) {
	if _, ofFunction := p.Function(); ofFunction {
		w.Functions = append(w.Functions, p)
	} else {
		w.Series = append(w.Series, p)
	}
}

// Packed holds the packed histograms of a key, by Measure.
type Packed struct {
	Key
	Data []byte
}

// Add adds the counts of a measure to a histogram.
func (p *Packed) Add(m Measure, to *histogram.Histogram) {
	b := p.Data
	for range m {
		b = histogram.Skip(b)
	}
	_, _ = to.MergeFrom(b)
}

// Windows returns the remembered windows that start at since or later, in order. They come from the finest ring
// with windows of length or more, else from the coarsest ring. The last windows may be incomplete.
func (h *History) Windows(length time.Duration, since time.Time) []Window {
	i := 0
	for i < len(ringSizes)-1 && time.Duration(ringSpan(i))*time.Second < length {
		i++
	}
	length = time.Duration(ringSpan(i)) * time.Second
	byStart := map[time.Time][]*storedWindow{}
	nextUnchosen := uint64(0) // the end of the windows chosen from coarser rings, in windows of the first ring
	// The finer rings have the latest windows, which are not merged yet.
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
		w.Uses.Add(&o.uses)
	}
	if len(parts) == 1 { // packed histograms need no unpacking
		for i, p := range parts[0].keys {
			w.addPacked(Packed{p.Key, slices.Clone(parts[0].packedAt(i))})
		}
		return w
	}
	h.mergeSeries(parts, func(key Key, s *series) { w.addPacked(Packed{key, s.appendPacked(nil)}) })
	return w
}

// Merge sums windows of several frontends with the same start and length. Keys beyond maxSeries, and functions beyond
// maxFunctions, are counted as Other. If some bytes are no histogram, ok is false and the rest of that series is left
// out.
func Merge(windows []Window) (w Window, ok bool) {
	w, ok = Window{At: windows[0].At, Length: windows[0].Length}, true
	sums := map[Key]*series{}
	var order []Key
	functions := 0 // series of functions in sums
	uses := make([]Uses, len(windows))
	for i := range windows {
		uses[i] = windows[i].Uses
		w.Add(&windows[i].Tally)
		for _, p := range slices.Concat(windows[i].Series, windows[i].Functions) {
			s := sums[p.Key]
			_, ofFunction := p.Function()
			if s == nil && ofFunction && functions >= maxFunctions {
				p.Key = FunctionKey(Other)
				s = sums[p.Key]
			} else if s == nil && !ofFunction && len(sums)-functions >= maxSeries {
				p.Key = Key{Other, Other, Other}
				s = sums[p.Key]
			}
			if s == nil {
				s = new(series)
				sums[p.Key], order = s, append(order, p.Key)
				if ofFunction {
					functions++
				}
			}
			ok = s.mergePacked(p.Data) && ok
		}
	}
	for _, key := range order {
		w.addPacked(Packed{key, sums[key].appendPacked(nil)})
	}
	w.Uses = MergeUses(uses)
	return w, ok
}
