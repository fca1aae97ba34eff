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
	sizes  []int // number of tasks at first, and after each addition; empty: the job does not grow
	stages int   // number of stages at first; 0: all
	done   int   // index in sizes: the tasks known to be taken
	sent   bool  // the next addition may have been taken
}

// drawGrowth draws how a job of n tasks grows. The first stages have one task each.
func (r *faultRun) drawGrowth(j *faultJob, n int) {
	d := j.dice
	if !chance(d, 0.25) {
		return
	}
	g := &j.grows
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
		for left := 1 + d.IntN(3); left > 0; left-- {
			last := g.sizes[len(g.sizes)-1]
			g.sizes = append(g.sizes, last+d.IntN(n-last+1))
		}
		g.sizes = append(g.sizes, n)
	}
	r.stats.Seen["jobs that grow"]++
}

// tasksTold returns how many tasks of a job the client has sent.
func (j *faultJob) had() int {
	if len(j.grows.sizes) == 0 {
		return len(j.tasks)
	}
	return j.grows.sizes[j.grows.done]
}

func (j *faultJob) open() bool { return j.grows.done+1 < len(j.grows.sizes) }

// knownStages returns the stages sent by a client along with a number of tasks.
func (j *faultJob) known(tasks int) []frontend.Stage {
	if j.grows.stages > 0 && tasks <= j.grows.stages {
		return j.spec.Stages[:j.grows.stages]
	}
	return j.spec.Stages
}

// noteTaken counts an addition as taken, so the added tasks go to another frontend with the rest of the job.
func (j *faultJob) takeIn() {
	if g := &j.grows; g.sent {
		g.done, g.sent = g.done+1, false
	}
}

// addTasks lets a client add the next tasks to its job, again and again until an answer comes.
func (r *faultRun) grow(j *faultJob) {
	if j.ended || !j.open() {
		return
	}
	r.later(r.now+between(j.dice, time.Millisecond, 300*time.Millisecond), func() { r.grow(j) })
	if j.owner == nil || !j.tried {
		return
	}
	g := &j.grows
	f, session, from, to := j.owner, j.session, g.sizes[g.done], g.sizes[g.done+1]
	ev, step := frontend.Extend{Job: j.id, From: from, Stages: j.known(to)[len(j.known(from)):], Last: g.done+2 == len(g.sizes)}, g.done+1
	for _, t := range j.tasks[from:to] {
		ev.Tasks = append(ev.Tasks, t.spec)
	}
	r.stats.Seen["additions"]++
	g.sent = true
	life, times := f.life, among(j.dice, 1, 1, 2)
	for range times {
		once := ev
		once.Stages, once.Tasks = slices.Clone(ev.Stages), slices.Clone(ev.Tasks)
		r.later(r.now+clientDelay+between(j.dice, 0, among(j.dice, 0, 0, 500*time.Millisecond)), func() {
			r.extendAt(j, f, session, step, once, func() bool { return f.life == life })
		})
	}
}

// extendAt is the part of a frontend's shell that takes additions. Nothing is added to a job that has ended.
func (r *faultRun) extendAt(j *faultJob, f *frontendNode, session, step int, ev frontend.Extend, here func() bool) {
	if f.hung != nil {
		f.hung.events = append(f.hung.events, event{kind: call, what: func() { r.extendAt(j, f, session, step, ev, here) }})
		return
	}
	// the shell does not listen to a client that has hung up
	if v := r.visits[f.index][j.id]; v != nil && !j.gone(f, session) {
		v.step = step
		r.tellFrontend(f, ev, here)
	}
}

// handleExtended is the answer of a frontend to its client's addition.
func (r *faultRun) extended(f *frontendNode, v *visit, a frontend.Extended) {
	j, step, session := v.job, v.step, v.session
	if a.Err != nil {
		r.stats.Seen["additions refused"]++
		if a.Err.Reason == frontend.Invalid || a.Err.Reason == frontend.TooBigJob {
			r.fail("job %d is not added to: %v", j.n, a.Err)
		}
		return
	}
	_, v.after = record.Stages(&frontend.Job{Stages: j.known(a.Tasks)})
	v.open = v.open && step+1 < len(j.grows.sizes)
	r.later(r.now+clientDelay, func() {
		if j.gone(f, session) || j.grows.done+1 != step {
			return
		}
		if j.takeIn(); j.left == 0 && !j.open() {
			r.ends(j)
		}
	})
}

// endOpenJob ends a growing job at its client. The job must not end at f while f expects additions.
func (r *faultRun) endsOpen(f *frontendNode, v *visit) {
	j, session := v.job, v.session
	failed := slices.ContainsFunc(v.outcomes, func(o frontend.Outcome) bool { return o.Kind != frontend.Result })
	if v.open && !v.left && !j.cancels && !j.deadline && !(failed && len(j.spec.Stages) > 0) {
		r.fail("job %d ends at f%d, which has not been told that nothing is added any more", j.n, f.index)
	}
	if len(j.grows.sizes) > 0 {
		r.later(r.now+2*clientDelay, func() {
			if !j.gone(f, session) {
				r.ends(j)
			}
		})
	}
}

// endJob notes that the client has all outcomes.
func (r *faultRun) ends(j *faultJob) {
	j.ended = true
	r.open--
}
