package estimate

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/phoebe-sched/phoebe/probe"
)

// Source is the origin of a run time.
type Source uint8

const (
	FromNothing Source = iota
	FromHint
	FromHintCorrected // a hint, corrected by the errors of earlier hints of the stage or function
	FromStage
	FromFunction
	FromProgress // reported progress of the running attempt
	FromPeers    // the function's tasks at other frontends
)

var sourceNames = [...]string{"nothing", "hint", "corrected hint", "stage", "function", "progress", "peers"}

func (s Source) String() string { return sourceNames[s] }

// Work is the expected run time of a task on a worker of speed 1, without waiting, fetching files and reading
// inputs.
type Work struct {
	Run     time.Duration
	Dev     time.Duration // standard deviation; 0: unknown
	Source  Source
	Samples int // number of finished tasks behind Run
}

func (w Work) String() string {
	text := "expected to run for " + formatTime(w.Run)
	switch w.Source {
	case FromNothing:
		return text + " (a guess)"
	case FromHint:
		return text + " (its estimate)"
	case FromProgress:
		return text + " (by its progress)"
	}
	text += " ± " + formatTime(w.Dev)
	if w.Source == FromHintCorrected {
		return fmt.Sprintf("%s (its estimate, corrected by %d finished tasks)", text, w.Samples)
	}
	if w.Source == FromPeers {
		return fmt.Sprintf("%s (by %d finished tasks of its function at other frontends)", text, w.Samples)
	}
	return fmt.Sprintf("%s (by %d finished tasks of its %s)", text, w.Samples, w.Source)
}

// Finished is a task that finished well.
type Finished struct {
	Run    time.Duration // measured run time, with reading inputs
	Read   time.Duration // estimated time to read its inputs at the worker
	Bytes  int64         // bytes of its inputs
	Worker int32         // Server.Key of its worker
	Speed  float64       // speed claimed by the worker
	Hint   time.Duration // 0: none
	Used   probe.Demand  // average CPU and peak memory; 0: unknown
}

const (
	// window is the number of samples in a Stats: enough for a median, and few enough to adapt soon when a function
	// changes.
	window = 32
	// maxPerWorker bounds the samples of a worker in the window. A worker may lie about its speed, and workers that
	// claim to be fast get most tasks. A median of slopes is right if fewer than 29 % of the samples are wrong.
	maxPerWorker = window / 4
	// fitEvery is the number of samples per new fit, once there are more than fitEvery.
	fitEvery = 8
	// minHints is the number of finished tasks with hints from which hints are corrected. minUsed is the number of
	// tasks with known usage from which Used is known.
	minHints = 3
	minUsed  = 3
	// wrongFactor is the factor from which the hints of a function's earlier tasks were wrong, so hints of later
	// jobs are corrected. Within the factor, the job is trusted to know its tasks better than the history does.
	wrongFactor = 2
	// sizeSpread is the factor by which an input must differ from the usual size before the run time is scaled by
	// the size. It applies if all samples had inputs of about the same size.
	sizeSpread = 1.25
)

// Stats predicts run times for the tasks of a stage or a function, from the size of their inputs. It fits a line to
// the last window samples, with at most maxPerWorker samples from the same worker. The slope is the median of the
// slopes between pairs, the base the median of the remainders (Theil-Sen). A few stragglers do not bend such a
// line. The zero Stats has no samples. Its memory is bounded.
type Stats struct {
	added     int // samples ever added
	count     int
	order     [window]int // sequence numbers of the samples
	workers   [window]int32
	work      [window]float32
	bytes     [window]float32
	hintRatio [window]float32 // work divided by hint; 0: no hint
	used      [window]probe.Demand

	base, slope float32 // seconds, and seconds per byte
	commonSize  float32 // median bytes, if all sizes are about the same; otherwise 0
	dev         float32
	medianRatio float32 // median of hintRatio; 0: too few hints
	typicalUse  probe.Demand
	leastCPU    probe.Millicores // lower quartile of the used CPU; 0: unknown
	fromPeer    bool             // another frontend told the samples
}

// N returns the number of samples ever added.
func (s *Stats) N() int { return s.added }

// Add adds a finished task to the samples.
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

// sampleIndex returns the index for the next sample of a worker: a free index, or the index of the oldest sample.
// If the worker has maxPerWorker samples, its own oldest sample is replaced.
func (s *Stats) sampleIndex(worker int32) int {
	oldest, ownOldest, own := 0, 0, 0
	order, workers := s.order[:s.count], s.workers[:s.count]
	for i, number := range order {
		if number < order[oldest] {
			oldest = i
		}
		if workers[i] == worker {
			if own++; own == 1 || number < order[ownOldest] {
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

// fitLine fits the line to the samples, and updates the corrections of hints and the usage.
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
		s.slope = max(medianOf(slopes), 0) // more data never takes less time, except by noise
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
	s.dev = medianOf(rest) * 1.4826 // median deviation to standard deviation, for a normal distribution

	hints := room[:0]
	for _, ratio := range s.hintRatio[:n] {
		if ratio > 0 {
			hints = append(hints, ratio)
		}
	}
	s.medianRatio = 0
	if len(hints) >= minHints {
		s.medianRatio = medianOf(hints)
	}

	var cpu, mem, allCPU []int32
	var usage [3 * window]int32
	cpu, mem, allCPU = usage[:0:window], usage[window:window:2*window], usage[2*window:2*window]
	for _, u := range s.used[:n] {
		if u.CPU > 0 {
			cpu = append(cpu, int32(u.CPU))
		}
		if u.Mem > 0 {
			mem = append(mem, int32(u.Mem))
		}
		if u != (probe.Demand{}) {
			allCPU = append(allCPU, int32(u.CPU))
		}
	}
	s.typicalUse, s.leastCPU = probe.Demand{}, 0
	if len(allCPU) >= minUsed {
		slices.Sort(allCPU)
		s.leastCPU = probe.Millicores(allCPU[(len(allCPU)-1)/4])
	}
	if len(cpu) >= minUsed {
		slices.Sort(cpu)
		s.typicalUse.CPU = probe.Millicores(cpu[(len(cpu)-1)*3/4])
	}
	if len(mem) >= minUsed {
		s.typicalUse.Mem = probe.MiB(slices.Max(mem))
	}
}

// Used returns the typical usage of tasks. CPU can be shared, so Used.CPU is exceeded by at most a quarter of the
// samples. Memory cannot be shared, so Used.Mem is exceeded by no sample. 0: unknown.
func (s *Stats) Used() probe.Demand { return s.typicalUse }

// LeastCPU returns the use of CPU that three quarters of the samples reach or exceed; 0: unknown.
func (s *Stats) LeastCPU() probe.Millicores { return s.leastCPU }

// medianOf sorts xs and returns its median. xs must not be empty.
func medianOf(xs []float32) float32 {
	slices.Sort(xs)
	return (xs[(len(xs)-1)/2] + xs[len(xs)/2]) / 2
}

// expectRun returns the expected run time of a task with bytes of inputs. There must be a sample.
func (s *Stats) expectRun(bytes int64, source Source) Work {
	b := float64(max(bytes, 0))
	run, dev := float64(s.base)+float64(s.slope)*b, float64(s.dev)
	if size := float64(s.commonSize); size > 0 && b > 0 && (b > size*sizeSpread || b < size/sizeSpread) {
		run, dev = run*b/size, dev*b/size
	}
	return Work{Run: toDuration(max(run, 0)), Dev: toDuration(dev), Source: source, Samples: s.added}
}

func toDuration(seconds float64) time.Duration {
	return time.Duration(min(seconds, maxTerm.Seconds()) * 1e9)
}

// Longest returns the longest run among the samples without exceptWorker's, and the number of samples.
func (s *Stats) Longest(exceptWorker int32) (longest time.Duration, n int) {
	for i := range s.count {
		if s.workers[i] != exceptWorker {
			longest = max(longest, toDuration(float64(s.work[i])))
			n++
		}
	}
	return longest, n
}

// TimeLeft returns how much longer a task runs that has run for ran: the mean remainder of the samples that ran
// longer, and its standard deviation. It skips samples of exceptWorker, and scales each sample to the task's hint and
// bytes. If ran is 0, the result is the whole run, so a running task and a copy of the task are measured alike. All
// times are for a worker of speed 1. known is false if no sample ran longer.
func (s *Stats) TimeLeft(ran, hint time.Duration, bytes int64,
	exceptWorker int32) (mean, dev time.Duration, known bool) {
	sum, squares, n := 0.0, 0.0, 0.0
	for i := range s.count {
		if s.workers[i] == exceptWorker {
			continue
		}
		took := float64(s.work[i])
		if hint > 0 && s.hintRatio[i] > 0 {
			took = hint.Seconds() * float64(s.hintRatio[i])
		} else if usual := s.expectRun(int64(s.bytes[i]), FromStage).Run; usual > 0 {
			took *= s.expectRun(bytes, FromStage).Run.Seconds() / usual.Seconds()
		}
		if more := took - ran.Seconds(); more > 0 {
			sum += more
			squares += more * more
			n++
		}
	}
	if n == 0 {
		return 0, 0, false
	}
	return toDuration(sum / n), toDuration(math.Sqrt(max(squares/n-sum/n*sum/n, 0))), true
}

// Typical returns the median run time of the samples, without reading inputs; 0: unknown.
func (s *Stats) Typical() time.Duration { return toDuration(float64(s.base)) }

// Correct corrects a hint of a new job by the errors of earlier hints. It returns the hint unchanged if earlier
// hints were right within a factor of two, or if there were fewer than minHints.
func (s *Stats) Correct(hint time.Duration) time.Duration {
	if ratio := float64(s.medianRatio); ratio > 0 && (ratio > wrongFactor || ratio < 1.0/wrongFactor) {
		return toDuration(hint.Seconds() * ratio)
	}
	return hint
}

// Expect returns the expected run time of a task with bytes of inputs. The sources are, in order: the task's hint,
// the finished tasks of the stage, the history of the function. A hint is corrected by the hints of the stage's
// finished tasks, once there are minHints. Before, the hint is corrected if the function's earlier hints were
// wrong. stage and function may be nil. unknown is the run time without any source.
func Expect(hint time.Duration, bytes int64, stage, function *Stats, unknown time.Duration) Work {
	switch {
	case hint > 0 && stage != nil && stage.medianRatio > 0:
		run := toDuration(hint.Seconds() * float64(stage.medianRatio))
		return Work{Run: run, Dev: toDuration(float64(stage.dev)), Source: FromHintCorrected, Samples: stage.added}
	case hint > 0 && function != nil && function.Correct(hint) != hint:
		return Work{Run: function.Correct(hint), Dev: toDuration(float64(function.dev)), Source: FromHintCorrected,
			Samples: function.added}
	case hint > 0:
		return Work{Run: min(hint, maxTerm), Source: FromHint}
	case stage != nil && stage.added > 0:
		return stage.expectRun(bytes, FromStage)
	case function != nil && function.added > 0:
		return function.expectRun(bytes, function.FunctionSource())
	}
	return Work{Run: unknown, Source: FromNothing}
}

// Accuracy measures the quality of estimates. The zero Accuracy has seen no estimate.
type Accuracy struct {
	Seen    int
	Good    int // within 10 % or 1 s of the truth
	TooHigh int // above the truth, good or not
	// Error is the sum of all errors, in seconds.
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
		a.TooHigh++
	}
	a.Error += off.Seconds()
}

// Share returns the share of estimates within 10 % or 1 s of the truth; 1 if there were no estimates.
func (a Accuracy) Share() float64 {
	if a.Seen == 0 {
		return 1
	}
	return float64(a.Good) / float64(a.Seen)
}

func (a Accuracy) String() string {
	return fmt.Sprintf("%.1f %% of %d estimates within 10 %% or 1 s, %d too high, off by %.3fs on average",
		100*a.Share(), a.Seen, a.TooHigh, a.Error/float64(max(a.Seen, 1)))
}
