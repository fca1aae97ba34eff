package main

import (
	"cmp"
	"slices"
	"time"

	"github.com/phoebe-sched/phoebe/bench/tpch/engine"
)

// idealResponses returns how long each query would have taken with one central queue. The queue knows every
// slot and needs no time to act. Tasks have the measured run times. A stage starts as soon as the stages before
// have ended. Among runnable tasks, the oldest query goes first.
func idealResponses(queries []sample, slots int) []time.Duration {
	type job struct {
		query      int
		begun      []int // number of tasks begun, by stage
		running    []int
		openStages int // number of unfinished stages
	}
	ended := func(j *job, stages []engine.StageStats, i int) bool {
		return j.begun[i] == len(stages[i].Tasks) && j.running[i] == 0
	}
	type run struct {
		end   time.Duration
		j     *job
		stage int
	}
	order := make([]int, len(queries))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(i, k int) int { return cmp.Compare(queries[i].dueAt, queries[k].dueAt) })
	responses := make([]time.Duration, len(queries))
	var jobs []*job
	var running []run
	for now := time.Duration(0); len(order)+len(jobs) > 0; {
		for len(order) > 0 && queries[order[0]].dueAt <= now {
			n := len(queries[order[0]].stats.Stages)
			jobs = append(jobs, &job{order[0], make([]int, n), make([]int, n), n})
			order = order[1:]
		}
		for _, j := range jobs {
			stages := queries[j.query].stats.Stages
			for i, s := range stages {
				if slices.ContainsFunc(s.After, func(k int) bool { return !ended(j, stages, k) }) {
					continue
				}
				for ; j.begun[i] < len(s.Tasks) && len(running) < slots; j.begun[i]++ {
					running = append(running, run{now + s.Tasks[j.begun[i]].Run, j, i})
					j.running[i]++
				}
			}
		}
		next := time.Duration(-1)
		if len(order) > 0 {
			next = queries[order[0]].dueAt
		}
		for _, r := range running {
			if next < 0 || r.end < next {
				next = r.end
			}
		}
		now = max(now, next)
		running = slices.DeleteFunc(running, func(r run) bool {
			if r.end > now {
				return false
			}
			if r.j.running[r.stage]--; ended(r.j, queries[r.j.query].stats.Stages, r.stage) {
				r.j.openStages--
			}
			return true
		})
		jobs = slices.DeleteFunc(jobs, func(j *job) bool {
			if j.openStages == 0 {
				responses[j.query] = now - queries[j.query].dueAt
			}
			return j.openStages == 0
		})
	}
	return responses
}

// responsePart is a part of the time of a response.
type responsePart int

const (
	outside responsePart = iota // planning, and the way to the frontend and back
	sampling
	link
	queue
	binding
	launch
	running
	delivery
	numParts
)

func (p responsePart) String() string {
	return [...]string{"outside", "sampling", "link", "queue", "binding", "launch", "run", "delivery"}[p]
}

// splitResponse splits the response of a query into parts. The parts are taken along the critical path: the
// tasks that delayed the next stage, or the end.
func splitResponse(s *sample) (b [numParts]time.Duration) {
	stages := s.stats.Stages
	last := func(i int) *engine.TaskStats {
		t := slices.MaxFunc(stages[i].Tasks, func(t, u engine.TaskStats) int {
			return cmp.Compare(t.Phases.Delivered, u.Phases.Delivered)
		})
		return &t
	}
	b[outside] = s.response
	for i := len(stages) - 1; i >= 0; {
		t, before := last(i), -1
		ready := time.Duration(0)
		for _, k := range stages[i].After {
			if d := last(k).Phases.Delivered; d > ready {
				ready, before = d, k
			}
		}
		p := &t.Phases
		for k, at := range [...]time.Duration{
			p.Sampled, p.Queued, p.Ready, p.Bound, p.Started, p.Finished, p.Delivered,
		} {
			b[sampling+responsePart(k)] += at - ready
			ready = at
		}
		if i == len(stages)-1 {
			b[outside] -= p.Delivered
		}
		i = before
	}
	return b
}
