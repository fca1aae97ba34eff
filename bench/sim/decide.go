package sim

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/phoebe-sched/phoebe/bench"
	"github.com/phoebe-sched/phoebe/frontend"
)

// Think is the time that a scheduler takes to decide about a job of a kind.
type Think struct {
	Kind            string // "": any kind without times of its own
	PerJob, PerTask time.Duration
	Deciders        int // schedulers for the kind in the policies shared-state; 0: one
}

// ParseThink reads [KIND=]D+D[*N]: the time for each job and for each task, and the number of schedulers.
func ParseThink(text string) (t Think, err error) {
	kind, times, ok := strings.Cut(text, "=")
	if ok {
		t.Kind = kind
	} else {
		times = text
	}
	times, count, many := strings.Cut(times, "*")
	job, task, _ := strings.Cut(times, "+")
	t.PerJob, err = time.ParseDuration(job)
	if err == nil {
		t.PerTask, err = time.ParseDuration(task)
	}
	if err == nil && many {
		t.Deciders, err = strconv.Atoi(count)
	}
	if err != nil || t.PerJob < 0 || t.PerTask < 0 || many && t.Deciders < 1 {
		return t, fmt.Errorf("%q: use the time for each job and for each task, such as 100ms+5ms, batch=100ms+5ms or "+
			"batch=100ms+5ms*8 with 8 schedulers", text)
	}
	return t, nil
}

// String returns t as ParseThink reads it.
func (t Think) String() string {
	text := fmt.Sprintf("%v+%v", t.PerJob, t.PerTask)
	if t.Kind != "" {
		text = t.Kind + "=" + text
	}
	if t.Deciders > 1 {
		text += fmt.Sprint("*", t.Deciders)
	}
	return text
}

// thinkOf returns the decision times of a kind.
func (c *Config) thinkOf(kind string) (any Think) {
	for _, t := range c.Think {
		switch t.Kind {
		case kind:
			return t
		case "":
			any = t
		}
	}
	return any
}

// timeFor returns how long a decision about a number of tasks takes.
func (t Think) timeFor(tasks int) time.Duration { return t.PerJob + time.Duration(tasks)*t.PerTask }

// decision begins to decide. It returns how long the decision takes, and the function to call at its end.
type decision func() (takes time.Duration, end func())

// decider makes one decision after another. Its hand counts the decisions; its brain counts the rest.
type decider struct {
	kind      string // of the jobs decided; "": all
	queue     []queuedDecision
	busy      bool
	began     time.Time     // the decision under way
	total     time.Duration // sum of the decisions that ended
	waited    time.Duration // sum of the waits of decisions that began
	decisions int           // that began
	redone    time.Duration // part of total: for jobs decided before
	clashes   int           // jobs whose decision met the decision of another decider, each time
	successes int           // jobs decided to their end
}

// queuedDecision is a decision that waits since a time.
type queuedDecision struct {
	begin decision
	since time.Time
}

// queueDecision lets by begin a decision as soon as its earlier decisions have ended.
func (h *hand) queueDecision(by *decider, begin decision) {
	by.queue = append(by.queue, queuedDecision{begin, h.now})
	h.decideNext(by)
}

// decideNext begins the next decision of an idle decider. Decisions that take no time end at once.
func (h *hand) decideNext(by *decider) {
	for !by.busy && len(by.queue) > 0 {
		next := by.queue[0]
		by.queue = by.queue[1:]
		by.busy, by.began = true, h.now
		by.waited += h.now.Sub(next.since)
		by.decisions++
		takes, end := next.begin()
		finish := func() {
			by.total += takes
			end()
			by.busy = false
		}
		if takes == 0 {
			finish()
			continue
		}
		h.callAfter(takes, func() {
			finish()
			h.decideNext(by)
		})
	}
}

// thinker makes the decisions of a frontend of phoebe, as far as they are to take time.
type thinker struct {
	decider
	freeAt time.Duration // when the last decision ends
}

// thinkFirst submits a job to a frontend as soon as the frontend has decided about earlier jobs and this job. A kind
// with decision times of its own has frontends of its own, as far as there are frontends.
func (r *runner) thinkFirst(f *frontendNode, spec *frontend.Job) {
	first := 0
	for _, t := range r.cfg.Think {
		n := max(t.Deciders, 1)
		if t.Kind != "" && t.Kind == spec.Tenant {
			f = r.frontends[(first+r.routeRng.IntN(n))%len(r.frontends)]
		}
		first += n
	}
	t, takes := r.thinkers[f.index], r.cfg.thinkOf(spec.Tenant).timeFor(len(spec.Tasks))
	begin := max(r.now, t.freeAt)
	t.kind = spec.Tenant
	t.freeAt = begin + takes
	t.total += takes
	t.waited += begin - r.now
	t.decisions++
	r.callAt(t.freeAt, func() {
		if err := r.callFrontend(f, frontend.Submit{Job: spec}); err != nil {
			r.callErr = err
		}
	})
}

// sumDeciders sums up the work of the deciders by kind; nil without deciders.
func (r *runner) sumDeciders() map[string]bench.SimDecider {
	type sum struct {
		decider
		n int
	}
	sums := map[string]*sum{}
	add := func(d *decider, total time.Duration) {
		if d.decisions == 0 {
			return
		}
		s := sums[d.kind]
		if s == nil {
			s = &sum{}
			sums[d.kind] = s
		}
		s.n++
		s.total += total
		s.waited += d.waited
		s.decisions += d.decisions
		s.redone += d.redone
		s.clashes += d.clashes
		s.successes += d.successes
	}
	for i, t := range r.thinkers {
		// A frontend decides a task anew for a retry, or for a copy.
		if stats := &r.frontends[i].frontendCore().Stats; stats.Tasks > 0 {
			t.redone = time.Duration(float64(t.total) * float64(stats.Retries+stats.Copies) / float64(stats.Tasks))
		}
		add(&t.decider, t.total-max(0, t.freeAt-r.now))
	}
	for _, f := range r.frontends {
		if h, ok := f.core.(*hand); ok {
			for _, d := range h.deciders {
				total := d.total
				if d.busy {
					total += r.timeNow().Sub(d.began)
				}
				add(d, total)
			}
		}
	}
	var all map[string]bench.SimDecider
	for kind, s := range sums {
		if all == nil {
			all = map[string]bench.SimDecider{}
		}
		d := bench.SimDecider{
			Busy:  s.total.Seconds() / float64(s.n) / (r.now - r.arrivalsBegan).Seconds(),
			WaitS: s.waited.Seconds() / float64(s.decisions),
		}
		if s.total > 0 {
			d.Redone = s.redone.Seconds() / s.total.Seconds()
		}
		if s.successes > 0 {
			d.Clashes = float64(s.clashes) / float64(s.successes)
		}
		all[kind] = d
	}
	return all
}
