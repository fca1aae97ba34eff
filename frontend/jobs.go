package frontend

import (
	"cmp"
	"slices"
	"time"

	"github.com/phoebe-sched/phoebe/frontend/estimate"
	"github.com/phoebe-sched/phoebe/frontend/tenants"
	"github.com/phoebe-sched/phoebe/frontend/view"
	"github.com/phoebe-sched/phoebe/probe"
	"github.com/phoebe-sched/phoebe/probe/list"
	"github.com/phoebe-sched/phoebe/probe/pq"
)

// jobs is the lowest floor of a Core: the jobs under way, with their tenants, stages, groups and tasks. It knows in which
// state each task is and in which queue, what a step has left to be done, and what was decided before.
type jobs struct {
	cfg     Config
	view    *view.View
	log     decisions
	leaving bool

	byID          map[probe.JobID]*job
	byWake        pq.Heap[*job]
	wantingJobs   []*job  // what this step has left to be planned
	allWanting    bool    // so it has for all jobs with waiting tasks: there is room that there was not
	jobsToAdvance []*job  // jobs with stages of which one has ended or failed in this step
	freedTasks    []*task // that have waited for the last of their partitions until this step

	terms          *tenants.File      // what tenants may have; nil: nothing is said of that
	quotas         *tenants.Quotas    // how much of that this frontend may have
	needs          []tenants.Need     // what others are to be told of that
	tenantsHolding []*tenant          // those with tasks that are held, and some that have none any more
	debtors        []*tenant          // those with tasks beyond their tokens, or some that wait for those, and some that have none any more
	patience       int                // how often a tenant is told of others before a held task of it goes in any case, if none else may
	tenants        map[string]*tenant // by path: those with jobs, and those above them
	hungry         hungry

	refusals       refusals
	rateClocks     map[string]time.Time // by path, of those with a rate: when its jobs so far would have come, at that rate one after the other
	rateClocksRoom int                  // how many it may have before those are dropped that are over

	setUsers     map[*view.Set]list.List[*group] // groups of jobs under way
	unserved     map[waitKey]*unserved
	sent         []sentJob // rides of unserved jobs, oldest first, until a round trip has passed
	pending      int       // tasks without an outcome
	payloadBytes int       // bytes, of those

	restingTasks    pq.Heap[rester]       // those of this state
	batchQueue      pq.Heap[*longTask]    // to be placed in the next batch
	sleepers        pq.Heap[sleeper]      // to be placed later
	nearGroups      list.List[*nearGroup] // of the jobs under way
	ripeningShelves pq.Heap[*shelf]       // of those, the ones with tasks that are to be taken only later

	Stats       Stats
	Waits, Runs estimate.Accuracy
}

// wantPlaces notes that a group may need more places than it has.
func (c *jobs) wantPlaces(g *group) {
	if j := g.job; !g.isWanting && !j.allWanting {
		g.isWanting = true
		j.wantingGroups = append(j.wantingGroups, g)
		c.noteWanting(j)
	}
}

// wantAllPlaces notes the same of all groups of a job.
func (c *jobs) wantAllPlaces(j *job) {
	j.allWanting = true
	c.noteWanting(j)
}

func (c *jobs) noteWanting(j *job) {
	if !j.isWanting {
		j.isWanting = true
		c.wantingJobs = append(c.wantingJobs, j)
	}
}

// takeWanting are the groups of a job that want something, in order: it is good until one of them wants something again.
func (j *job) takeWanting() []*group {
	gs := j.wantingGroups
	for _, g := range gs {
		g.isWanting = false
	}
	j.wantingGroups = gs[:0]
	if j.allWanting {
		j.allWanting = false
		return j.groups
	}
	if len(gs) > 1 {
		slices.SortFunc(gs, func(a, b *group) int { return cmp.Compare(a.index, b.index) })
	}
	return gs
}

// takeWantingJobs takes the jobs that were noted, in the order in which they were submitted. It is good until the next want.
func (c *jobs) takeWantingJobs() []*job {
	js := c.wantingJobs
	if len(js) > 1 {
		slices.SortFunc(js, compareJobs)
	}
	for _, j := range js {
		j.isWanting = false
	}
	c.wantingJobs = js[:0]
	return js
}

const (
	// firstLag is how long a job waits for a turn before it samples again, at first; then twice as long each time.
	firstLag = 50 * time.Millisecond
	maxLag   = 10 * time.Second
)

// subtractPending counts n tasks of a job that got their outcomes, or whose outcomes are another frontend's business.
func (c *jobs) subtractPending(j *job, n int) {
	for t := j.tenant; t != nil; t = t.parent {
		t.pending -= n
	}
	c.pending -= n
}

// releasePayloads counts bytes of payloads that a job needs no more.
func (c *jobs) releasePayloads(j *job, bytes int) {
	j.payloadBytes -= bytes
	for t := j.tenant; t != nil; t = t.parent {
		t.payloadBytes -= bytes
	}
	c.payloadBytes -= bytes
}

// findTask is the task of a job under way that has this index, or nil.
func (c *jobs) findTask(id probe.JobID, index probe.TaskIndex) *task {
	j := c.byID[id]
	switch {
	case j == nil:
		return nil
	case j.byIndex != nil:
		return j.byIndex[index]
	case int(index) < len(j.tasks):
		return j.tasks[index]
	}
	return nil
}

// jobsWhere is those that are meant, in order.
func (c *jobs) jobsWhere(matches func(*job) bool) []*job {
	var js []*job
	for _, j := range c.byID {
		if matches(j) {
			js = append(js, j)
		}
	}
	slices.SortFunc(js, compareJobs)
	return js
}

// setJobTimer makes the job's timer fit its state: called at the end of every step that changed it. A job that wants something
// is settled when that is planned.
func (c *jobs) setJobTimer(j *job, now time.Time) {
	if j.isWanting {
		return
	}
	var at time.Time
	soonest := func(t time.Time) {
		if at.IsZero() || t.Before(at) {
			at = t
		}
	}
	c.hungry.updateJob(j)
	if !j.ended {
		if !j.deadline.IsZero() {
			soonest(j.deadline)
		}
		if !j.claimUntil.IsZero() {
			soonest(j.claimUntil)
		}
		if j.answersDue > 0 {
			soonest(j.confirmUntil)
		}
		switch {
		case j.waiting == 0:
			j.resampleAt, j.retryAt = time.Time{}, time.Time{}
		case !j.retryAt.IsZero():
			j.resampleAt = time.Time{}
			soonest(j.retryAt)
		case j.Policy.Resample:
			if j.resampleAt.IsZero() {
				j.resampleAt = now.Add(j.lag)
			}
			soonest(j.resampleAt)
		}
		if !c.isAtTail(j) {
			j.tailAt = time.Time{}
		} else {
			if j.tailAt.IsZero() {
				j.tailAt = now.Add(c.tailLag(j))
			}
			soonest(j.tailAt)
		}
		if j.strandedTasks == 0 {
			j.strandedSince = time.Time{}
		} else if j.strandedSince.IsZero() {
			j.strandedSince = now
		}
		if !j.strandedSince.IsZero() {
			soonest(j.strandedSince.Add(c.cfg.StrandedFor))
		}
	}
	switch {
	case at.IsZero():
		c.byWake.Remove(j)
	case j.pos == 0:
		j.wakeAt = at
		c.byWake.Push(j)
	case !at.Equal(j.wakeAt):
		j.wakeAt = at
		c.byWake.Fix(j)
	}
}

// putOffJob lets a job look for places again only at a time.
func (c *jobs) putOffJob(j *job, until, now time.Time) {
	if !j.ended {
		j.retryAt = until
		c.setJobTimer(j, now)
	}
}

// retryJob lets a job look for places that was put off.
func (c *jobs) retryJob(j *job) {
	j.retryAt = time.Time{}
	c.wantAllPlaces(j)
}

// doubleLag notes that a job has waited for a turn for too long. Next time it waits for twice as long.
func (c *jobs) doubleLag(j *job) {
	j.lag, j.resampleAt = min(2*j.lag, maxLag), time.Time{}
	c.wantAllPlaces(j)
}

// isAtTail reports whether all tasks of a job that may run have been given out, so that its end depends on them, and they
// may have copies.
func (c *jobs) isAtTail(j *job) bool { return j.unfinished > 0 && c.whyJobNoCopy(j) == "" }

// whyJobNoCopy says why none of a job's tasks may have copies now, "" if some may. Spare work has none: nobody is in a hurry for it.
func (c *jobs) whyJobNoCopy(j *job) string {
	switch {
	case c.cfg.Copies <= 0:
		return "this frontend makes none"
	case j.Class == Spare:
		return "its job is spare"
	case j.Policy.Binding != Late:
		return "its job's policy binds early"
	case j.paused:
		return "its client does not fetch its results"
	case j.waiting+j.matching > 0:
		return "others of its job are still to be placed"
	case !j.claimUntil.IsZero():
		return "its job's attempts are being claimed"
	}
	return ""
}

// tailLag is how long it takes at least until one of a job's last tasks is late.
func (c *jobs) tailLag(j *job) time.Duration {
	lag := time.Duration(0)
	for _, g := range j.groups {
		groupLag := firstLag
		switch {
		case g.path == estimate.Estimation:
			groupLag = max(g.longestRun/2, firstLag)
		case g.Runs.Any():
			groupLag = 2*g.Runs.Shortest() + c.view.Trip()
		}
		if lag == 0 || groupLag < lag {
			lag = groupLag
		}
	}
	return lag
}

// setTailAt notes when it is to be looked again at a job's last tasks.
func (c *jobs) setTailAt(j *job, at time.Time) { j.tailAt = at }
