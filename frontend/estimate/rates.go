package estimate

import "time"

// The configured rates are a start. A fleet learns the rates at which its tasks read:
//
//   - If a task read bytes from a disk within its run, the disk is at least as fast as the bytes over the run. The same
//     holds for other tiers.
//   - Tasks of a function read as many bytes near their data as far from their data. The difference between two runs
//     tells how much slower the reading from afar is.
//   - A worker reports how long it fetched files. If other workers had the files, the report tells the rate between
//     caches, otherwise the rate of the origin.
//
// Each rate is a median of recent samples, with at most a quarter of the samples from the same worker.

const (
	// leastRead is the least number of bytes that tell a rate. With fewer bytes, most of the time is the time of
	// messages. The number was chosen, and not measured.
	leastRead = 1 << 20
	// enoughReads is the number of samples from which a learnt rate counts. The number was chosen, and not measured.
	enoughReads = 8
	// maxReadSpread bounds the standard deviation of differences that count, as a share of the time to read. If runs
	// vary much more than reading takes, differences say nothing. The half was chosen.
	maxReadSpread = 0.5
	// rateUnit is the number of bytes for which samples hold the time.
	rateUnit = 1e9
	// differenceOffset is added to differences, because samples of Stats are never negative.
	differenceOffset = 1000 * time.Second
	// keptReads is the number of runs kept for each function and tier, to be compared with later runs.
	keptReads = 4
)

// rates holds the rates in use, and the samples behind them. Samples are times for rateUnit.
type rates struct {
	Rates
	peer          float64         // of files from another worker's cache
	wholeRuns     [numTiers]Stats // whole runs of tasks that read from a tier
	differences   [numTiers]Stats // time at a tier less time at a disk of the own host, plus differenceOffset
	peerFetches   Stats
	originFetches Stats
}

// Reads holds recent runs of a function's tasks that read much, for comparison. The zero Reads has no runs.
type Reads struct {
	runs  [numTiers][keptReads]readRun
	count [numTiers]int // of all runs ever
}

// readRun is a run of a task that read all of its data from one tier.
type readRun struct {
	bytes  int64
	run    time.Duration
	worker int32
}

// Rates returns the rates at which tasks read data, as far as known.
func (f *Fleet) Rates() Rates { return f.rates.Rates }

// unitTime returns the time to read rateUnit at the rate of bytes over took.
func unitTime(bytes int64, took time.Duration) time.Duration {
	return toDuration(took.Seconds() * rateUnit / float64(bytes))
}

// NoteFetch notes how long a worker took to fetch files with a number of bytes. If fromPeers, other workers had the
// files.
func (f *Fleet) NoteFetch(key int32, fromPeers bool, bytes int64, took time.Duration) {
	if f.cfg.FixedRates || bytes < leastRead || took <= 0 {
		return
	}
	s := &f.rates.originFetches
	if fromPeers {
		s = &f.rates.peerFetches
	}
	s.Add(Finished{Run: unitTime(bytes, took), Worker: key})
	f.updateRates()
}

// NoteRead notes the run of a task at a worker, with the reading of its inputs. recent are the runs of the task's
// function. If the inputs came from different distances, the run says nothing.
func (f *Fleet) NoteRead(recent *Reads, ins []Input, key int32, run time.Duration) {
	row := f.rowOf(key)
	if f.cfg.FixedRates || row == nil || len(ins) == 0 || run <= 0 {
		return
	}
	f.locateInputs(ins)
	bytes, _ := f.readFromTiers(ins, row)
	for tier, n := range bytes {
		total := bytes[Memory] + bytes[Disk] + bytes[Rack] + bytes[Across]
		if n < leastRead || n < total {
			continue
		}
		f.rates.wholeRuns[tier].Add(Finished{Run: unitTime(n, run), Worker: key})
		this := readRun{n, run, key}
		switch Tier(tier) {
		case Disk:
			f.compareRuns(this, recent, Rack)
			f.compareRuns(this, recent, Across)
		case Rack, Across:
			for _, near := range recent.keptRuns(Disk) {
				f.addDifference(Tier(tier), near, this)
			}
		}
		recent.runs[tier][recent.count[tier]%keptReads] = this
		recent.count[tier]++
		f.updateRates()
	}
}

// keptRuns returns the kept runs of a tier.
func (r *Reads) keptRuns(tier Tier) []readRun { return r.runs[tier][:min(r.count[tier], keptReads)] }

// compareRuns compares a run near its data with recent runs of a tier.
func (f *Fleet) compareRuns(near readRun, recent *Reads, tier Tier) {
	for _, far := range recent.keptRuns(tier) {
		f.addDifference(tier, near, far)
	}
}

// addDifference adds a sample of how much longer reading from a tier takes than from a disk of the own host. Runs with
// inputs of different sizes are not compared, because the tasks may also compute for different times.
func (f *Fleet) addDifference(tier Tier, near, far readRun) {
	if float64(near.bytes) > float64(far.bytes)*sizeSpread || float64(far.bytes) > float64(near.bytes)*sizeSpread {
		return
	}
	longer := unitTime(far.bytes, far.run) - unitTime(far.bytes, near.run)
	f.rates.differences[tier].Add(Finished{Run: longer + differenceOffset, Worker: far.worker})
}

// updateRates computes the rates in use from the samples.
func (f *Fleet) updateRates() {
	r, start := &f.rates, f.cfg.Rates
	faster := func(tier Tier, start float64) float64 {
		if s := &r.wholeRuns[tier]; s.N() >= enoughReads {
			return max(start, rateUnit/max(s.Typical(), 1).Seconds())
		}
		return start
	}
	farther := func(tier Tier, start float64) float64 {
		s := &r.differences[tier]
		unit := rateUnit/r.Disk + max(s.Typical()-differenceOffset, 0).Seconds()
		if s.N() >= enoughReads && float64(s.dev) <= unit*maxReadSpread {
			return rateUnit / unit
		}
		return faster(tier, start)
	}
	measured := func(s *Stats, start float64) float64 {
		if s.N() >= enoughReads {
			return rateUnit / max(s.Typical(), 1).Seconds()
		}
		return start
	}
	r.Memory, r.Disk = faster(Memory, start.Memory), faster(Disk, start.Disk)
	r.Rack, r.Across = farther(Rack, start.Rack), farther(Across, start.Across)
	r.peer, r.Origin = measured(&r.peerFetches, start.Across), measured(&r.originFetches, start.Origin)
}
