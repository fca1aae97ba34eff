package sim

import (
	"iter"
	"math/rand/v2"
	"sort"
	"time"

	"github.com/phoebe-sched/phoebe/worker"
)

// Spells are slow times of a worker: tasks take Times as long. A worker spends a Share of its time in spells,
// each of length Last on average.
type Spells struct {
	Share, Times float64
	Length       time.Duration
}

// spells holds the spells of all workers, drawn as far as needed. Every run of a seed has the same spells.
type spells struct {
	cfg     Spells
	workers []workerSpells
}

// workerSpells holds the spells of a worker.
type workerSpells struct {
	rng        *rand.Rand
	boundaries []time.Duration // the moments at which spells begin and end, by turns
}

// newSpells prepares the spells of all workers.
func newSpells(cfg Spells, workers int, seed uint64) *spells {
	s := &spells{cfg: cfg, workers: make([]workerSpells, workers)}
	for i := range s.workers {
		s.workers[i].rng = rand.New(rand.NewPCG(seed, uint64(i)<<8|'w'))
	}
	return s
}

// speedsFrom yields the speeds of a worker from a moment on, each with the time until which the speed holds.
func (s *spells) speedsFrom(worker int, from time.Duration) iter.Seq2[time.Duration, float64] {
	return func(yield func(time.Duration, float64) bool) {
		w := &s.workers[worker]
		for i := sort.Search(len(w.boundaries), func(i int) bool { return w.boundaries[i] > from }); ; i++ {
			speed, lasts := 1.0, float64(s.cfg.Length)*(1/s.cfg.Share-1)
			if i%2 == 1 {
				speed, lasts = 1/s.cfg.Times, float64(s.cfg.Length)
			}
			if i == len(w.boundaries) {
				last := time.Duration(0)
				if i > 0 {
					last = w.boundaries[i-1]
				}
				w.boundaries = append(w.boundaries, last+time.Duration(lasts*w.rng.ExpFloat64())+1)
			}
			if w.boundaries[i] > from && !yield(w.boundaries[i], speed) {
				return
			}
		}
	}
}

// timeFor returns how long work takes at a worker, begun at from.
func (s *spells) timeFor(worker int, from, work time.Duration) time.Duration {
	workLeft, at := float64(work), from
	for until, speed := range s.speedsFrom(worker, from) {
		room := float64(until-at) * speed
		if workLeft <= room {
			at += time.Duration(workLeft / speed)
			break
		}
		workLeft, at = workLeft-room, until
	}
	return at - from
}

// workDone returns how much work is done at a worker between two moments.
func (s *spells) workDone(worker int, from, to time.Duration) time.Duration {
	sum, at := 0.0, from
	for until, speed := range s.speedsFrom(worker, from) {
		until = min(until, to)
		if sum, at = sum+float64(until-at)*speed, until; at == to {
			break
		}
	}
	return time.Duration(sum)
}

// spellDelay returns how much longer a task takes because of spells, if the task starts at w now.
func (r *runner) spellDelay(w *workerNode, s *worker.Start) time.Duration {
	work := time.Duration(float64(durationOf(s.Launch.Payload)) / w.speed)
	return r.spells.timeFor(w.index, r.now, work) - work
}

// taskProgress returns the reports of the tasks at w on their progress. The reports are exact.
func (r *runner) taskProgress(w *workerNode) (list []worker.Progress) {
	for _, x := range w.running {
		work := time.Duration(float64(durationOf(x.start.Launch.Payload)) / w.speed)
		done := r.now - x.began
		if r.spells != nil {
			done = r.spells.workDone(w.index, x.began, r.now)
		}
		if work > 0 && done > 0 {
			list = append(list, worker.Progress{Attempt: x.start.Launch.Attempt,
				Done: min(done.Seconds()/work.Seconds(), 1)})
		}
	}
	return list
}
