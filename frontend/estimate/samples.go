package estimate

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/phoebe-sched/phoebe/probe"
)

// MaxSamples bounds the samples of a function that a frontend tells other frontends. Eight are enough for a median,
// and for a line through inputs of several sizes.
const MaxSamples = 8

// MaxBytes bounds the bytes of a RunSample.
const MaxBytes = 1 << 62

// RunSample is a finished task, as frontends tell each other. All values survive the wire unchanged.
type RunSample struct {
	Work      time.Duration // run time on a worker of speed 1, without the reading of inputs; whole microseconds
	Bytes     int64         // of the inputs
	HintRatio uint32        // Work divided by the task's hint, in thousandths; 0: no hint
}

// Samples returns at most MaxSamples samples that stand for all samples of s: the shortest run, the longest, and runs
// between the two at about equal ranks.
func (s *Stats) Samples() []RunSample {
	var room [window]int
	byWork := room[:s.count]
	for i := range byWork {
		byWork[i] = i
	}
	slices.SortFunc(byWork, func(i, j int) int {
		return cmp.Or(cmp.Compare(s.work[i], s.work[j]), cmp.Compare(s.order[i], s.order[j]))
	})
	samples := make([]RunSample, min(s.count, MaxSamples))
	for k := range samples {
		i := byWork[k*(s.count-1)/max(len(samples)-1, 1)]
		samples[k] = RunSample{
			Work: toDuration(float64(s.work[i])).Truncate(time.Microsecond), Bytes: int64(min(s.bytes[i], MaxBytes)),
			HintRatio: uint32(min(math.Ceil(float64(s.hintRatio[i])*1000), math.MaxUint32)),
		}
	}
	return samples
}

// StatsOf returns Stats with samples told by another frontend. runs is the number of finished tasks behind the
// samples, and used is the typical usage of the tasks. Samples beyond MaxSamples do not count.
func StatsOf(samples []RunSample, runs int, used probe.Demand) Stats {
	s := Stats{fromPeer: true}
	for i, m := range samples[:min(len(samples), MaxSamples)] {
		s.order[i], s.workers[i] = i, noWorker
		s.work[i], s.bytes[i] = float32(min(m.Work, maxTerm).Seconds()), float32(m.Bytes)
		s.hintRatio[i] = float32(m.HintRatio) / 1000
		s.count++
	}
	if s.count > 0 {
		s.fitLine()
	}
	s.added, s.typicalUse = max(runs, s.count), used
	return s
}

// noWorker is the key of no Server. Samples of other frontends have it, because a key holds at one frontend only.
const noWorker = -1

// FunctionSource returns the source of a run time by these samples, if they are samples of a function.
func (s *Stats) FunctionSource() Source {
	if s.fromPeer {
		return FromPeers
	}
	return FromFunction
}
