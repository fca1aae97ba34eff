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

// jobs is the lowest floor of a Core: the jobs under way, with their tenants, stages, groups and tasks. The floor
// knows the state and the queue of each task, the wants that a step has left, and the last decisions (log).
type jobs struct {
	cfg     Config
	view    *view.View
	log     decisions
	leaving bool

	byID          map[probe.JobID]*job
	jobTimers     pq.Heap[*job]
	wantingJobs   []*job  // jobs with wants to plan in this step
	allWanting    bool    // all jobs with waiting tasks have wants, because new room has come
	jobsToAdvance []*job  // jobs with a stage that ended or failed in this step
	freedTasks    []*task // tasks whose last awaited input came in this step

	terms          *tenants.File   // what tenants may have; nil: no file
	quotas         *tenants.Quotas // this frontend's parts of terms
	needs          []tenants.Need  // to tell to other frontends
	tenantsHolding []*tenant       // tenants with held tasks; some have none any more
	debtors        []*tenant       // tenants with debts, or with tasks waiting for tokens; some have none any more
	// patience is the number of Others events after which a held task of a tenant without running tasks runs in any
	// case.
	patience int
	tenants  map[string]*tenant // by path: tenants with jobs, and the tenants above
	hungry   hungry

	refusals refusals
	// rateClocks holds a time for each path of a tenant with a rate. Each job moves the time on by one interval of the
	// rate. A time in the past is first set to the present (refuseRate).
	rateClocks      map[string]time.Time
	rateClocksLimit int // size of rateClocks at which times in the past are dropped

	setUsers     map[*view.Set]list.List[*group] // groups of jobs under way, by set
	unserved     map[waitKey]*unserved           // jobs without a started task; not kept if MaxWait is negative
	sentJobs     []sentJob                       // rides of unserved jobs, oldest first, until a round trip has passed
	pending      int                             // tasks without an outcome
	payloadBytes int                             // bytes of their payloads

	batchQueue   taskLine[*longTask]   // tasks for the next batch
	roomSleepers taskLine[roomSleeper] // sleepers that wake as soon as a worker has room
	movers       pq.Heap[mover]        // tasks in workers' queues that may move to a worker with room
	moversOf     map[*view.Set]int     // number of movers by the set of their workers; no entry: none
	latestRound  uint64                // the latest mover.moveRound given

	restingTasks    pq.Heap[rester]       // tasks in state resting
	sleepers        pq.Heap[sleeper]      // tasks for a later batch
	nearGroups      list.List[*nearGroup] // of all groups of jobs under way
	ripeningShelves pq.Heap[*shelf]       // shelves with green tasks

	Stats       Stats
	Waits, Runs estimate.Accuracy
}

// wantPlaces notes that a group may need more places than the group has.
func (c *jobs) wantPlaces(g *group) {
	if j := g.job; !g.isWanting && !j.allWanting {
		g.isWanting = true
		j.wantingGroups = append(j.wantingGroups, g)
		c.noteWanting(j)
	}
}

// wantAllPlaces notes that all groups of a job may need more places.
func (c *jobs) wantAllPlaces(j *job) {
	j.allWanting = true
	c.noteWanting(j)
}

// noteWanting lists j among the jobs with wants.
func (c *jobs) noteWanting(j *job) {
	if !j.isWanting {
		j.isWanting = true
		c.wantingJobs = append(c.wantingJobs, j)
	}
}

// takeWanting returns the groups of j that want places, in order, and clears the wants. The slice is valid until the
// next want.
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

// takeWantingJobs returns the jobs with wants, in order of submission, and clears the list. The slice is valid until
// the next want.
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
	// firstLag is a job's first wait for a turn before the job samples again. Each further wait is twice as long, up
	// to maxLag. The times were chosen: a shorter wait reserves more places where all queues are long, and a longer
	// wait finds workers with room later.
	firstLag = 50 * time.Millisecond
	maxLag   = 10 * time.Second
)

// subtractPending subtracts n tasks of a job from the pending tasks: tasks that got an outcome, or that another
// frontend took over. If n is negative, tasks are added.
func (c *jobs) subtractPending(j *job, n int) {
	for t := j.tenant; t != nil; t = t.parent {
		t.pending -= n
	}
	c.pending -= n
}

// releasePayloads subtracts bytes of payloads that a job needs no more. If bytes is negative, they are added.
func (c *jobs) releasePayloads(j *job, bytes int) {
	j.payloadBytes -= bytes
	for t := j.tenant; t != nil; t = t.parent {
		t.payloadBytes -= bytes
	}
	c.payloadBytes -= bytes
}

// findTask returns a task of a job under way by index, or nil.
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

// jobsWhere returns the jobs for which matches is true, in order of submission.
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

// refreshJob brings the job's entry among the hungry jobs and the job's timers up to date with the job's state. A wait
// that begins now, for a turn, for late tasks or for a worker, starts its timer. Every step calls refreshJob for the
// jobs that the step changed. A job with wants is skipped: the planner calls refreshJob again after planning.
func (c *jobs) refreshJob(j *job, now time.Time) {
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
		if len(j.confirmers) > 0 {
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
		c.jobTimers.Remove(j)
	case j.pos == 0:
		j.wakeAt = at
		c.jobTimers.Push(j)
	case !at.Equal(j.wakeAt):
		j.wakeAt = at
		c.jobTimers.Fix(j)
	}
}

// putOffJob stops a job from looking for places until a time.
func (c *jobs) putOffJob(j *job, until, now time.Time) {
	if !j.ended {
		j.retryAt = until
		c.refreshJob(j, now)
	}
}

// retryJob lets a job look for places again after putOffJob.
func (c *jobs) retryJob(j *job) {
	j.retryAt = time.Time{}
	c.wantAllPlaces(j)
}

// noteNoTurn notes that a job has waited for its whole lag without a turn. The next lag is twice as long. All groups of
// the job want places, so the planner also sets the timer for the next wait.
func (c *jobs) noteNoTurn(j *job) {
	j.lag, j.resampleAt = min(2*j.lag, maxLag), time.Time{}
	c.wantAllPlaces(j)
}

// isAtTail reports whether the end of a job depends on tasks at workers, and late tasks may have copies: no task
// waits to be placed, and nothing else rules out copies for the job (whyJobNoCopy).
func (c *jobs) isAtTail(j *job) bool { return j.unfinished > 0 && c.whyJobNoCopy(j) == "" }

// whyJobNoCopy returns why no task of a job may have a copy now, or "" if tasks may. Spare jobs have no copies,
// because spare work is not urgent.
func (c *jobs) whyJobNoCopy(j *job) string {
	switch {
	case c.cfg.Copies <= 0:
		return "this frontend makes no copies"
	case j.Class == Spare:
		return "its job is spare"
	case j.Policy.Binding != Late:
		return "its job's policy binds early"
	case j.paused:
		return "the client does not fetch the results of its job"
	case j.waiting+j.matching > 0:
		return "other tasks of its job are not placed yet"
	case !j.claimUntil.IsZero():
		return "the frontend still claims earlier attempts of its job"
	}
	return ""
}

// tailLag returns the shortest time after which a last task of a job can be late. For a group placed by estimation,
// this is half of the longest expected run (chosen, and not measured); recheckSoon may look earlier.
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

// setTailAt sets the next time to look for late tasks of a job.
func (c *jobs) setTailAt(j *job, at time.Time) { j.tailAt = at }
