package estimate

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/phoebe-sched/phoebe/probe"
)

// Source is what a run time is known from.
type Source uint8

const (
	FromNothing Source = iota
	FromHint
	FromHintCorrected // by how far the hints of finished tasks of the stage, or of the function, were off
	FromStage
	FromFunction
	FromProgress // of its attempt, at the worker where that runs
)

var sourceNames = [...]string{"nothing", "hint", "corrected hint", "stage", "function", "progress"}

func (s Source) String() string { return sourceNames[s] }

// Work is how long a task is expected to run on a worker of speed 1, its inputs at hand: without waiting,
// fetching files and reading inputs.
type Work struct {
	Mean    time.Duration
	Dev     time.Duration // standard deviation; 0: not known
	Source  Source
	Samples int // finished tasks behind it
}

func (w Work) String() string {
	switch w.Source {
	case FromNothing:
		return fmt.Sprintf("runs %s, a guess", formatSeconds(w.Mean))
	case FromHint, FromProgress:
		return fmt.Sprintf("runs %s by its %s", formatSeconds(w.Mean), w.Source)
	}
	return fmt.Sprintf("runs %s, give or take %s, by %s (%d finished)", formatSeconds(w.Mean), formatSeconds(w.Dev), w.Source, w.Samples)
}

// Finished is a task that finished well.
type Finished struct {
	Run    time.Duration // as measured, with reading inputs
	Read   time.Duration // what reading its inputs was estimated to take there
	Bytes  int64         // of its inputs
	Worker int32         // where it ran, by the key of its Server
	Speed  float64       // of the worker, as it says
	Hint   time.Duration // 0: none
	Used   probe.Demand  // of CPU on average, of memory at its peak; 0: not known
}

const (
	// window is how many samples a Stats remembers: enough for a median, and forgotten soon when a function
	// changes.
	window = 32
	// maxPerWorker is how many of them may be of one worker: it may lie about its speed, and those that claim to be fast get
	// most tasks. A median of slopes is right as long as fewer than 29 % of the samples are wrong.
	maxPerWorker = window / 4
	// fitEvery: with many samples, not each one is worth a new fit.
	fitEvery = 8
	// minHints is how many hints must have met the truth before they are corrected, and minUsed of how many tasks it must be known what
	// they used.
	minHints = 3
	minUsed  = 3
	// wrongFactor is from which factor on the hints of a function's earlier tasks were wrong, so that those of later jobs are
	// corrected: within it, the job knows its tasks better than others do.
	wrongFactor = 2
	// sizeSpread is how much larger or smaller than usual an input must be before the run time of tasks that all had
	// inputs of one size is scaled by it.
	sizeSpread = 1.25
)

// Stats is how long finished tasks of one kind, a stage's or a function's, took by the size of their inputs: a
// line through the last window samples, no more than share of them of one worker, by the medians of slopes and of
// what they leave (Theil and Sen), which a few stragglers do not bend. The zero Stats has no samples; its memory is bounded.
type Stats struct {
	added     int // ever
	count     int
	order     [window]int // of all samples
	workers   [window]int32
	work      [window]float32
	bytes     [window]float32
	hintRatio [window]float32 // work by hint; 0: there was no hint
	used      [window]probe.Demand

	base, slope float32 // seconds, and seconds per byte
	commonSize  float32 // median bytes, if the sizes are all about the same; else 0
	dev         float32
	medianRatio float32 // median of off; 0: too few hints
	typicalUse  probe.Demand
}

// N is the number of samples ever added.
func (s *Stats) N() int { return s.added }

// Add takes a finished task into account.
func (s *Stats) Add(m Finished) {
	work := max(m.Run-m.Read, 0).Seconds() * believedSpeed(m.Speed)
	i := s.sampleIndex(m.Worker)
	s.order[i], s.workers[i] = s.added, m.Worker
	s.work[i], s.bytes[i], s.hintRatio[i], s.used[i] = float32(work), float32(max(m.Bytes, 0)), 0, m.Used
	if m.Hint > 0 {
		s.hintRatio[i] = float32(work / m.Hint.Seconds())
	}
	if s.added++; s.added <= fitEvery || s.added%fitEvery == 0 {
		s.fitLine()
	}
}

// sampleIndex is where the next sample of a worker goes: to a free place, or to that of the oldest sample, or of the worker's
// own oldest one if it has its share.
func (s *Stats) sampleIndex(worker int32) int {
	oldest, ownOldest, own := 0, 0, 0
	for i := range s.count {
		if s.order[i] < s.order[oldest] {
			oldest = i
		}
		if s.workers[i] == worker {
			if own++; own == 1 || s.order[i] < s.order[ownOldest] {
				ownOldest = i
			}
		}
	}
	switch {
	case own >= maxPerWorker:
		return ownOldest
	case s.count < window:
		s.count++
		return s.count - 1
	}
	return oldest
}

// fitLine draws the line through the samples.
func (s *Stats) fitLine() {
	n := s.count
	work, bytes := s.work[:n], s.bytes[:n]
	var room [window * window / 2]float32

	s.slope, s.commonSize = 0, 0
	if lo, hi := slices.Min(bytes), slices.Max(bytes); hi > lo*sizeSpread {
		slopes := room[:0]
		for i := range n {
			for j := range i {
				if apart := bytes[i] - bytes[j]; apart != 0 {
					slopes = append(slopes, (work[i]-work[j])/apart)
				}
			}
		}
		s.slope = max(medianOf(slopes), 0) // more data never takes less time; noise may say so
	} else {
		s.commonSize = medianOf(append(room[:0], bytes...))
	}

	rest := room[:n]
	for i := range n {
		rest[i] = work[i] - s.slope*bytes[i]
	}
	s.base = medianOf(rest)
	for i := range rest {
		rest[i] = float32(math.Abs(float64(rest[i] - s.base)))
	}
	s.dev = medianOf(rest) * 1.4826 // of a normal distribution, from the median deviation

	hints := room[:0]
	for _, off := range s.hintRatio[:n] {
		if off > 0 {
			hints = append(hints, off)
		}
	}
	s.medianRatio = 0
	if len(hints) >= minHints {
		s.medianRatio = medianOf(hints)
	}

	var cpu, mem []int32
	var most [2 * window]int32
	cpu, mem = most[:0:window], most[window:window]
	for _, u := range s.used[:n] {
		if u.CPU > 0 {
			cpu = append(cpu, int32(u.CPU))
		}
		if u.Mem > 0 {
			mem = append(mem, int32(u.Mem))
		}
	}
	s.typicalUse = probe.Demand{}
	if len(cpu) >= minUsed {
		slices.Sort(cpu)
		s.typicalUse.CPU = probe.Millicores(cpu[(len(cpu)-1)*3/4])
	}
	if len(mem) >= minUsed {
		s.typicalUse.Mem = probe.MiB(slices.Max(mem))
	}
}

// Used is what tasks used: of CPU, which can be shared, no more than three quarters of the samples did, of memory, which cannot, none did
// more. 0 is not known.
func (s *Stats) Used() probe.Demand { return s.typicalUse }

// medianOf sorts xs, of which there is at least one.
func medianOf(xs []float32) float32 {
	slices.Sort(xs)
	return (xs[(len(xs)-1)/2] + xs[len(xs)/2]) / 2
}

// expectRun is the run time of a task with inputs of so many bytes. There must be a sample.
func (s *Stats) expectRun(bytes int64, source Source) Work {
	b := float64(max(bytes, 0))
	mean, dev := float64(s.base)+float64(s.slope)*b, float64(s.dev)
	if size := float64(s.commonSize); size > 0 && b > 0 && (b > size*sizeSpread || b < size/sizeSpread) {
		mean, dev = mean*b/size, dev*b/size
	}
	return Work{Mean: toDuration(max(mean, 0)), Dev: toDuration(dev), Source: source, Samples: s.added}
}

func toDuration(seconds float64) time.Duration {
	return time.Duration(min(seconds, maxTerm.Seconds()) * 1e9)
}

// Longest is the longest that any of the samples took at other workers than one, and how many these are.
func (s *Stats) Longest(exceptWorker int32) (longest time.Duration, n int) {
	for i := range s.count {
		if s.workers[i] != exceptWorker {
			longest = max(longest, toDuration(float64(s.work[i])))
			n++
		}
	}
	return longest, n
}

// TimeLeft is how much longer than a time those of the samples went on, on average, that took longer at other workers than
// one, each as if it had had a hint and inputs of so many bytes. It is not known if none took longer.
func (s *Stats) TimeLeft(ran, hint time.Duration, bytes int64, exceptWorker int32) (left time.Duration, known bool) {
	sum, n := 0.0, 0
	for i := range s.count {
		if s.workers[i] == exceptWorker {
			continue
		}
		took := float64(s.work[i])
		if hint > 0 && s.hintRatio[i] > 0 {
			took = hint.Seconds() * float64(s.hintRatio[i])
		} else if usual := s.expectRun(int64(s.bytes[i]), FromStage).Mean; usual > 0 {
			took *= s.expectRun(bytes, FromStage).Mean.Seconds() / usual.Seconds()
		}
		if more := took - ran.Seconds(); more > 0 {
			sum += more
			n++
		}
	}
	return toDuration(sum / float64(max(n, 1))), n > 0
}

// Typical is what half of the tasks took longer than, and half shorter, besides reading inputs; 0: not known.
func (s *Stats) Typical() time.Duration { return toDuration(float64(s.base)) }

// Correct is a hint of a new job, by what became of the hints of earlier ones: as it is if they were right within a
// factor of two, or if too few have been seen.
func (s *Stats) Correct(hint time.Duration) time.Duration {
	if off := float64(s.medianRatio); off > 0 && (off > wrongFactor || off < 1.0/wrongFactor) {
		return toDuration(hint.Seconds() * off)
	}
	return hint
}

// Expect is the run time of a task with inputs of so many bytes: from its hint, then from the finished tasks
// of its stage, then from the history of its function. A hint is corrected once it is known how far those of
// the stage's finished tasks were off, and before that if those of the function's earlier ones were wrong. stage and
// function may be nil.
func Expect(hint time.Duration, bytes int64, stage, function *Stats, unknown time.Duration) Work {
	switch {
	case hint > 0 && stage != nil && stage.medianRatio > 0:
		mean := toDuration(hint.Seconds() * float64(stage.medianRatio))
		return Work{Mean: mean, Dev: toDuration(float64(stage.dev)), Source: FromHintCorrected, Samples: stage.added}
	case hint > 0 && function != nil && function.Correct(hint) != hint:
		return Work{Mean: function.Correct(hint), Dev: toDuration(float64(function.dev)), Source: FromHintCorrected, Samples: function.added}
	case hint > 0:
		return Work{Mean: min(hint, maxTerm), Source: FromHint}
	case stage != nil && stage.added > 0:
		return stage.expectRun(bytes, FromStage)
	case function != nil && function.added > 0:
		return function.expectRun(bytes, FromFunction)
	}
	return Work{Mean: unknown, Source: FromNothing}
}

// Accuracy is how good estimates were. The zero Accuracy has seen none.
type Accuracy struct {
	Seen int
	Good int // within 10 % or 1 s of the truth
	Over int // above the truth, good or not
	// Error is the sum of how far they were off, in seconds.
	Error float64
}

// Add compares an estimate with the truth.
func (a *Accuracy) Add(estimate, truth time.Duration) {
	off := (estimate - truth).Abs()
	a.Seen++
	if off <= time.Second || off <= truth/10 {
		a.Good++
	}
	if estimate > truth {
		a.Over++
	}
	a.Error += off.Seconds()
}

// Share is the part of the estimates within 10 % or 1 s of the truth; 1 if there were none.
func (a Accuracy) Share() float64 {
	if a.Seen == 0 {
		return 1
	}
	return float64(a.Good) / float64(a.Seen)
}

func (a Accuracy) String() string {
	return fmt.Sprintf("%.1f %% of %d estimates within 10 %% or 1 s, %d too high, off by %.3fs on average", 100*a.Share(), a.Seen, a.Over, a.Error/float64(max(a.Seen, 1)))
}
