package place

import (
	"cmp"
	"slices"
	"time"

	"github.com/phoebe-sched/phoebe/frontend/view"
)

// Answer is a worker's answer about the length of its queue.
type Answer struct {
	Worker *view.Worker
	Ahead  float64 // tasks at the worker, per slot
}

// BindShortest binds n tasks to the n shortest queues (Sparrow, sections 3.2 and 3.3). If fewer workers answered than
// probes were sent, the tasks are bound one by one, each to the shortest queue, counting the tasks bound just before.
// Sparrow does not discuss that case. BindShortest sorts answers, and adds the bound tasks to the lengths. The
// Sampler owns the returned slice, until its next call.
func (s *Sampler) BindShortest(answers []Answer, n, probes int) []Decision {
	s.decisions = s.decisions[:0]
	slices.SortStableFunc(answers, func(a, b Answer) int { return cmp.Compare(a.Ahead, b.Ahead) })
	for i := range n {
		if len(answers) == 0 {
			break
		}
		a := &answers[0]
		if len(answers) >= probes {
			a = &answers[i]
		} else {
			for k := range answers {
				if b := &answers[k]; b.Ahead < a.Ahead {
					a = b
				}
			}
		}
		a.Ahead += 1 / float64(max(a.Worker.Slots(), 1))
		s.decisions = append(s.decisions, Decision{Worker: a.Worker, Why: IsShortest, Bound: true})
	}
	return s.decisions
}

// randomPlacer binds w.Probes tasks, each to a random worker: to different workers, while there are any.
type randomPlacer Sampler

func (r *randomPlacer) Place(w *Want, _ time.Time) []Decision {
	r.decisions = r.decisions[:0]
	for i := range w.Probes {
		r.decisions = append(r.decisions, Decision{Worker: w.Set.Draw(i%w.Set.Len(), r.rand), Bound: true})
	}
	return r.decisions
}
