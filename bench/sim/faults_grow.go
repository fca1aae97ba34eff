package sim

import (
	"slices"
	"time"

	"github.com/phoebe-sched/phoebe/frontend"
	"github.com/phoebe-sched/phoebe/frontend/record"
)

// Some jobs grow: their clients submit them open, with their first tasks, and add the others later. What is added may be told
// twice, and too late.

// growth is what the client of such a job knows of it.
type growth struct {
	sizes  []int // with the first tasks, and with what is added each time; none: it does not grow
	stages int   // so many it has at first
	done   int   // of sizes
	sent   bool  // the next one may have been taken
}

// drawGrowth draws how a job of n tasks grows, whose first stages have a task each.
func (r *faultRun) drawGrowth(j *faultJob, n int) {
	d := j.dice
	if !chance(d, 0.25) {
		return
	}
	g := &j.grows
	if stages := j.spec.Stages; len(stages) > 0 {
		g.stages = 1 + d.IntN(len(stages)-1)
		for i := range stages { // each comes after earlier ones
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

// had is how many tasks of a job its client has told of, and open whether it will tell of more, or that there are none.
func (j *faultJob) had() int {
	if len(j.grows.sizes) == 0 {
		return len(j.tasks)
	}
	return j.grows.sizes[j.grows.done]
}

func (j *faultJob) open() bool { return j.grows.done+1 < len(j.grows.sizes) }

// known is the stages that a client has told of with so many tasks.
func (j *faultJob) known(tasks int) []frontend.Stage {
	if j.grows.stages > 0 && tasks <= j.grows.stages {
		return j.spec.Stages[:j.grows.stages]
	}
	return j.spec.Stages
}

// takeIn has what may have been added go with the rest of the job to another frontend.
func (j *faultJob) takeIn() {
	if g := &j.grows; g.sent {
		g.done, g.sent = g.done+1, false
	}
}

// grow lets a client add the next tasks to its job, again and again until it has an answer.
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

// extendAt is a frontend's shell: nothing is added to what has ended.
func (r *faultRun) extendAt(j *faultJob, f *frontendNode, session, step int, ev frontend.Extend, here func() bool) {
	if f.hung != nil {
		f.hung.events = append(f.hung.events, event{kind: call, what: func() { r.extendAt(j, f, session, step, ev, here) }})
		return
	}
	if v := r.visits[f.index][j.id]; v != nil && !j.gone(f, session) { // who has hung up is not listened to
		v.step = step
		r.tellFrontend(f, ev, here)
	}
}

// extended is the answer of a frontend to its client.
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

// endsOpen ends a job at its client that ended before all was added to it.
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

// ends: the client has all that it will get.
func (r *faultRun) ends(j *faultJob) {
	j.ended = true
	r.open--
}
