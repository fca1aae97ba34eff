package sim

import (
	"encoding/binary"
	"math/rand/v2"
	"time"

	"github.com/phoebe-sched/phoebe/frontend"
	"github.com/phoebe-sched/phoebe/frontend/estimate"
	"github.com/phoebe-sched/phoebe/probe"
)

// faultJob is a job as its client sees the job.
type faultJob struct {
	n           int
	id          probe.JobID
	dice        *rand.Rand   // for the fate of the job
	spec        frontend.Job // without Tasks
	tasks       []faultTask
	unfinished  int               // tasks without an outcome
	made        [][]frontend.Made // by stage, from outcomes
	mayBeKnown  bool              // a frontend may have admitted the job
	stopped     bool              // a frontend gave up tasks of the job, which may run on somewhere
	firstSent   time.Duration     // time of the first submission
	arrivedAt   time.Duration     // plain runs: the last arrival at a frontend; 0: none yet
	fitsAtOnce  bool              // plain runs: a central queue starts all tasks on arrival
	owner       *frontendNode
	ownerLife   int32         // of the owner when the client went to it
	ownedSince  time.Duration // when the client went to the owner
	session     int           // counts the client's moves to a frontend
	ended       bool
	isCancelled bool
	hasDeadline bool
	growth      growth
}

// faultTask is a task of a faultJob, with counts of its runs and attempts.
type faultTask struct {
	spec          frontend.Task
	failuresLeft  int // runs that will still fail
	starts        int
	running       int
	failedRuns    int
	goodRuns      int
	diskFailures  int // attempts that failed for a dead cache
	unfetched     int // attempts that failed for lack of files
	missedOutputs int // runs that failed for lack of outputs of other tasks
	outcomes      int
	reported      int // outcomes given by frontends
	attempts      []*faultAttempt
	backoff       backoff
	plain         plainTask
}

// backoff is the pause that a frontend must keep after a failure of a task.
type backoff struct {
	frontend probe.FrontendID
	session  int // of the job's client
	until    time.Duration
}

// makeJobs draws the jobs and their arrivals.
func (r *faultRun) makeJobs(n int) {
	d := r.dice
	for i := range n {
		j := &faultJob{n: i, id: jobID(i + 1), dice: rand.New(rand.NewPCG(r.seed, 'j'<<32|uint64(i)))}
		j.spec = frontend.Job{ID: j.id, Tenant: drawOne(d, "a", "b", "b/c"), Priority: int32(d.IntN(3)),
			Policy: r.drawPolicy()}
		j.spec.Guarded = drawChance(j.dice, 0.5)
		if drawChance(d, 0.3) {
			j.spec.ProbeRatio = 1 + 3*d.Float64()
		}
		if drawChance(d, 0.1) {
			j.spec.Deadline, j.hasDeadline = drawBetween(d, time.Millisecond, 2*time.Second), true
		}
		r.drawClass(&j.spec, d)
		mean, calls := drawOne(d, time.Microsecond, 100*time.Microsecond, 5*time.Millisecond, 50*time.Millisecond,
			300*time.Millisecond), sleepFunction
		if mean == time.Microsecond {
			calls = "tiny" // so short that a turn gives out several tasks
		}
		hint := drawOne(d, 0.0, 1, 1, 3, 0.3)
		mixed, failChance, onceChance := drawChance(d, 0.2), 0.1, 0.2
		if p := &j.spec.Policy; p.Binding == frontend.Late {
			j.spec.Mode = drawOne(d, estimate.Auto, estimate.Auto, estimate.Sample, estimate.Estimate)
		}
		early := j.spec.Policy.Binding != frontend.Late || j.spec.Mode == estimate.Estimate ||
			j.spec.Mode == estimate.Auto && j.spec.Policy.Route
		needy, constrained := drawChance(d, 0.25), drawChance(d, 0.15)
		if drawChance(d, 0.25) {
			// most jobs with stages should reach their last stage
			j.spec.Stages, failChance, onceChance = r.drawStages(d), 0.02, 0.02
			r.stats.Seen["jobs with stages"]++
		}
		passes := len(j.spec.Stages) > 0 && drawChance(d, 0.5)
		if passes { // a worker that satisfies the constraint or is large enough may be of an earlier release
			constrained, mixed = false, false
			r.stats.Seen["jobs that pass outputs"]++
		}
		if constrained && drawChance(d, 0.3) {
			r.drawConstraint(&j.spec.Constraint, d)
			mixed = false // a worker that satisfies the constraint may have no room for more
		}
		count := len(j.spec.Stages) + 1 + d.IntN(drawOne(d, 2, 10, 40))
		r.drawGrowth(j, count)
		r.drawAlong(j)
		partitions := make([]int32, len(j.spec.Stages))
		for k := range count {
			t := faultTask{}
			takes := time.Duration(d.ExpFloat64() * float64(mean))
			t.spec = frontend.Task{
				Index: probe.TaskIndex(k), Function: calls, Retryable: !drawChance(d, onceChance),
				Estimate: time.Duration(float64(takes) * hint), Retries: d.IntN(3),
			}
			if drawChance(d, 0.3) {
				t.spec.Backoff = time.Millisecond << d.IntN(8)
			}
			if mixed {
				t.spec.Demand = slotsOf(1 + d.IntN(2))
				if !r.fitsSomewhere(t.spec.Demand) {
					t.spec.Demand = probe.Demand{}
				}
				if drawChance(d, 0.3) {
					t.spec.Function, t.spec.Demand = "rare", probe.Demand{}
				}
			}
			if t.spec.Function == sleepFunction && (j.n+int(r.seed))%3 == 0 {
				t.spec.Class = hungryClass
			}
			if n := len(j.spec.Stages); n > 0 {
				if t.spec.Stage = int32(k); k >= n {
					t.spec.Stage = max(int32(d.IntN(n)), int32(j.growth.stages))
				}
				t.spec.Partition = partitions[t.spec.Stage]
				partitions[t.spec.Stage]++
				if len(j.spec.Stages[t.spec.Stage].Along) > 0 && drawChance(j.dice, 0.3) {
					t.spec.Along = []int32{int32(j.dice.IntN(4)), t.spec.Partition}
				}
			}
			if constrained && len(j.spec.Constraint.Labels)+len(j.spec.Constraint.Hosts) == 0 &&
				t.spec.Function != "rare" && drawChance(d, 0.5) {
				r.drawConstraint(&t.spec.Constraint, d)
				t.spec.Demand = probe.Demand{}
			}
			if needy {
				r.drawNeeds(&t.spec, i, j.spec.Stages, early && len(j.spec.Constraint.Hosts) == 0, d)
				if len(t.spec.Files) > 0 {
					t.spec.Demand = probe.Demand{} // a worker with the room may have no cache
				}
			}
			r.countNeeds(&t.spec)
			if drawChance(d, 0.05) {
				t.spec.Timeout = takes/2 + time.Millisecond
			}
			if drawChance(d, failChance) {
				t.failuresLeft = 1 + d.IntN(3)
			}
			t.spec.Payload = binary.LittleEndian.AppendUint64(payloadOf(takes), uint64(i)<<32|uint64(k))
			if drawChance(d, 0.02) {
				t.spec.Payload = append(t.spec.Payload, make([]byte, 40<<10)...) // too large to ride
			}
			j.tasks = append(j.tasks, t)
		}
		if passes {
			r.drawPassing(j, d)
		}
		arrivesAt, cancelAt, wanderAt := drawBetween(d, 0, r.faultsEnd), drawBetween(d, 0, r.faultsEnd+time.Second),
			drawBetween(d, 0, r.faultsEnd)
		cancels, wandersOff := drawChance(d, 0.1), drawChance(d, 0.15)
		if !r.enterJob(j, arrivesAt) {
			continue
		}
		if cancels {
			r.callAt(cancelAt, func() { r.cancelJob(j) })
		}
		if wandersOff {
			r.callAt(wanderAt, func() { r.wanderOff(j) })
		}
	}
}

// drawClass draws the class of a job.
func (r *faultRun) drawClass(spec *frontend.Job, d *rand.Rand) {
	if !drawChance(d, 0.3) {
		return
	}
	if spec.Class = drawOne(d, frontend.Regular, frontend.Spare, frontend.Spare); spec.Class == frontend.Spare {
		spec.Due = drawOne(d, 0, 0, 10*time.Millisecond, time.Second)
		r.stats.Seen["spare jobs"]++
	}
}

// enterJob lets a job arrive at a time. enterJob returns false if the job is left out.
func (r *faultRun) enterJob(j *faultJob, arrivesAt time.Duration) bool {
	j.unfinished = len(j.tasks)
	r.jobs = append(r.jobs, j)
	if r.without.Jobs[j.n] {
		j.ended = true
		return false
	}
	r.stats.Jobs++
	r.stats.Tasks += j.unfinished
	r.openJobs++
	r.callAt(arrivesAt, func() { r.visitFrontend(j, drawOne(j.dice, r.frontends...)) })
	if j.mayGrow() {
		r.callAt(arrivesAt, func() { r.addTasks(j) })
	}
	if d := rand.New(rand.NewPCG(r.seed, 'u'<<32|uint64(j.n))); drawChance(d, 0.2) {
		r.callAt(arrivesAt, func() { r.readSlowly(j, d) })
	}
	return true
}

// countNeeds counts the needs of a task besides a slot.
func (r *faultRun) countNeeds(t *frontend.Task) {
	for need, has := range map[string]bool{
		"constraints": len(t.Constraint.Labels)+len(t.Constraint.Hosts) > 0, "inputs": len(t.Inputs) > 0,
		"files": len(t.Files) > 0,
	} {
		if has {
			r.stats.Seen["tasks with "+need]++
		}
	}
}

// fitsSomewhere reports whether some worker is large enough for d.
func (r *faultRun) fitsSomewhere(d probe.Demand) bool {
	for _, w := range r.workers {
		if d.Fits(w.cfg.Capacity) {
			return true
		}
	}
	return false
}

// drawPolicy draws a known policy, or late binding with any of the additions.
func (r *faultRun) drawPolicy() frontend.Policy {
	d := r.dice
	p := frontend.Policies[0]
	switch d.IntN(3) {
	case 0:
		return p
	case 1:
		return drawOne(d, frontend.Policies...)
	}
	p.Name = "variant"
	for _, part := range frontend.PolicyParts {
		*p.Part(part) = drawChance(d, 0.5)
	}
	return p
}
