package sim

import (
	"slices"
	"time"

	"github.com/phoebe-sched/phoebe/frontend"
	"github.com/phoebe-sched/phoebe/frontend/record"
)

// Some jobs grow. The client submits such a job open, with the first tasks, and adds more tasks later. An
// addition may be sent twice, or too late.

// growth is the plan of a growing job, as its client knows the plan.
type growth struct {
	sizes      []int // number of tasks at first, and after each addition; empty: the job does not grow
	stages     int   // number of stages at first; 0: all
	step       int   // index in sizes: the tasks known to be taken
	mayBeTaken bool  // the next addition may have been taken
}

// drawGrowth draws how a job of n tasks grows. The first stages have one task each.
func (r *faultRun) drawGrowth(j *faultJob, n int) {
	d := j.dice
	if !drawChance(d, 0.25) {
		return
	}
	g := &j.growth
	if stages := j.spec.Stages; len(stages) > 0 {
		g.stages = 1 + d.IntN(len(stages)-1)
		for i := range stages { // each stage comes after earlier stages only
			stages[i].After = slices.DeleteFunc(stages[i].After, func(name string) bool {
				return slices.IndexFunc(stages, func(s frontend.Stage) bool { return s.Name == name }) >= i
			})
		}
		g.sizes = []int{g.stages, n}
	} else {
		g.sizes = []int{d.IntN(n + 1)}
		for additions := 1 + d.IntN(3); additions > 0; additions-- {
			last := g.sizes[len(g.sizes)-1]
			g.sizes = append(g.sizes, last+d.IntN(n-last+1))
		}
		g.sizes = append(g.sizes, n)
	}
	r.stats.Seen["jobs that grow"]++
}

// submittedTasks returns how many tasks of a job the client has sent.
func (j *faultJob) submittedTasks() int {
	if len(j.growth.sizes) == 0 {
		return len(j.tasks)
	}
	return j.growth.sizes[j.growth.step]
}

// mayGrow reports whether the client will add more tasks, or has yet to send the last addition.
func (j *faultJob) mayGrow() bool { return j.growth.step+1 < len(j.growth.sizes) }

// knownStages returns the stages sent by a client along with a number of tasks.
func (j *faultJob) knownStages(tasks int) []frontend.Stage {
	if j.growth.stages > 0 && tasks <= j.growth.stages {
		return j.spec.Stages[:j.growth.stages]
	}
	return j.spec.Stages
}

// noteTaken counts an addition as taken, so the added tasks go to another frontend with the rest of the job.
func (j *faultJob) noteTaken() {
	if g := &j.growth; g.mayBeTaken {
		g.step, g.mayBeTaken = g.step+1, false
	}
}

// addTasks lets a client add the next tasks to its job, again and again until an answer comes.
func (r *faultRun) addTasks(j *faultJob) {
	if j.ended || !j.mayGrow() {
		return
	}
	r.callAt(r.now+drawBetween(j.dice, time.Millisecond, 300*time.Millisecond), func() { r.addTasks(j) })
	if j.owner == nil || !j.mayBeKnown {
		return
	}
	g := &j.growth
	f, session, from, to := j.owner, j.session, g.sizes[g.step], g.sizes[g.step+1]
	ev, step := frontend.Extend{Job: j.id, From: from, Stages: j.knownStages(to)[len(j.knownStages(from)):],
		Last: g.step+2 == len(g.sizes)}, g.step+1
	for _, t := range j.tasks[from:to] {
		ev.Tasks = append(ev.Tasks, t.spec)
	}
	r.stats.Seen["additions"]++
	g.mayBeTaken = true
	life, times := f.life, drawOne(j.dice, 1, 1, 2)
	for range times {
		once := ev
		once.Stages, once.Tasks = slices.Clone(ev.Stages), slices.Clone(ev.Tasks)
		r.callAt(r.now+clientDelay+drawBetween(j.dice, 0, drawOne(j.dice, 0, 0, 500*time.Millisecond)), func() {
			r.extendAt(j, f, session, step, once, func() bool { return f.life == life })
		})
	}
}

// extendAt is the part of a frontend's shell that takes additions. Nothing is added to a job that has ended.
func (r *faultRun) extendAt(j *faultJob, f *frontendNode, session, step int, ev frontend.Extend,
	isCurrent func() bool) {
	if f.hung != nil {
		f.hung.events = append(f.hung.events,
			event{kind: funcCall, content: func() { r.extendAt(j, f, session, step, ev, isCurrent) }})
		return
	}
	// the shell does not listen to a client that has hung up
	if v := r.visits[f.index][j.id]; v != nil && !j.hasLeft(f, session) {
		v.growthStep = step
		r.tellFrontend(f, ev, isCurrent)
	}
}

// handleExtended is the answer of a frontend to its client's addition.
func (r *faultRun) handleExtended(f *frontendNode, v *visit, a frontend.Extended) {
	j, step, session := v.job, v.growthStep, v.session
	if a.Err != nil {
		r.stats.Seen["additions refused"]++
		if a.Err.Reason == frontend.Invalid || a.Err.Reason == frontend.TooBigJob {
			r.failRun("job %d is not added to: %v", j.n, a.Err)
		}
		return
	}
	_, v.stagesBefore = record.Stages(&frontend.Job{Stages: j.knownStages(a.Tasks)})
	v.isOpen = v.isOpen && step+1 < len(j.growth.sizes)
	r.callAt(r.now+clientDelay, func() {
		if j.hasLeft(f, session) || j.growth.step+1 != step {
			return
		}
		if j.noteTaken(); j.unfinished == 0 && !j.mayGrow() {
			r.endJob(j)
		}
	})
}

// endOpenJob ends a growing job at its client. The job must not end at f while f expects additions.
func (r *faultRun) endOpenJob(f *frontendNode, v *visit) {
	j, session := v.job, v.session
	failed := slices.ContainsFunc(v.outcomes, func(o frontend.Outcome) bool { return o.Kind != frontend.Result })
	if v.isOpen && !v.clientGone && !j.isCancelled && !j.hasDeadline && !(failed && len(j.spec.Stages) > 0) {
		r.failRun("job %d ends at f%d, which has not been told that nothing is added any more", j.n, f.index)
	}
	if len(j.growth.sizes) > 0 {
		r.callAt(r.now+2*clientDelay, func() {
			if !j.hasLeft(f, session) {
				r.endJob(j)
			}
		})
	}
}

// endJob notes that the client has all outcomes.
func (r *faultRun) endJob(j *faultJob) {
	j.ended = true
	r.openJobs--
}
