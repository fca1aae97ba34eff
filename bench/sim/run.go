package sim

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/phoebe-sched/phoebe/bench"
	"github.com/phoebe-sched/phoebe/frontend"
	"github.com/phoebe-sched/phoebe/frontend/estimate"
	"github.com/phoebe-sched/phoebe/frontend/tenants"
	"github.com/phoebe-sched/phoebe/probe"
	"github.com/phoebe-sched/phoebe/worker"
)

// Config is one simulated run. Fields without a stated default must be given.
type Config struct {
	Policy     Policy
	ProbeRatio float64 // reservations per task; 0: the frontends' default
	// share of the slots, by their speed, kept busy by the work on average; 0: the load of the file or trace
	Load float64

	Frontends, Workers, Slots int    // Slots of each worker
	Speeds                    Speeds // default: all nominal

	Workload   Workload
	Jobs       int           // number of jobs to wait for; 0: all jobs of the workload
	WarmupJobs int           // the first jobs, not counted
	Cutoff     time.Duration // the largest mean task duration of short jobs; other jobs are long; 0: no groups
	Estimates  Estimates     // default: exact
	Seed       uint64

	Delay        time.Duration // one way, of every message
	Jitter       time.Duration // mean of an exponential addition to Delay
	Bandwidth    float64       // bytes of payloads and results sent by a process in a second; 0: no limit
	Payload      int           // bytes of each task's payload; 8 at least
	Result       int           // bytes of each task's result
	CPU          CPU           // default: processes need no CPU time
	Codec        bool          // messages pass through the real codec
	DecisionCost time.Duration // of the policy centralized, for each task
	// Think is the time that some schedulers take to decide about a job. The rivals with decisions by job pay, and so
	// do phoebe's frontends: the frontend that got the job is first busy for that long.
	Think        []Think
	LocalityWait time.Duration // policies delay-fifo and delay-fair: how long a job waits for a slot near its data
	Reserved     float64       // share of the workers closed to long jobs by the policies eagle and eagle-fifo
	// how often a frontend pings each worker; 0: every second, or less often if tasks are rarer (pingEvery)
	Ping time.Duration

	Priorities int          // jobs have priorities from 0 to below Priorities, drawn at random; 0: all have 0
	Order      worker.Order // of the workers' queues
	ShortShare float64      // of each worker: closed to long tasks, as in worker.Config

	Gossip Gossip // of the frontends, if the policy uses estimation; default: none
	// a task is placed by a matrix up to this age without asking the worker again; 0: the frontends' default,
	// negative: by a matrix of any age
	SureFor time.Duration

	// Stages, Copies and Input apply to long jobs, or to all jobs if there are no groups. The stages of a job
	// follow one another (default: 1 stage). Each task has an input of Input bytes. The input of a first stage is
	// on Copies disks: the first disk anywhere, the second in another rack, the others in the rack of the second.
	// The input of a later stage is the output of the stage before.
	Stages, Copies int
	Input          int64
	Racks          int // worker i is in rack i modulo Racks; 0: no racks are known

	SecondAttempts  float64    // share of the tasks that may have a second attempt
	Stragglers      Stragglers // default: none; not with Input, because stragglers have own inputs
	Spells          Spells     // of the workers; default: none
	ReportsProgress bool       // tasks report their progress

	// JudgeWaits, if not 0, compares the promised waits with the real waits. It is the mean of the tasks' run times,
	// which are exponential. The promises of other run times are compared with a wrong bound.
	JudgeWaits time.Duration

	tenants     *tenants.File                        // nil: no tenant has tokens or a maximum
	checkState  bool                                 // tests: checks all cores after every step
	onTaskStart func(w *workerNode, s *worker.Start) // tests: hears of every start of a task

	// Progress, if not nil, is called now and then with the share of jobs that have ended, by the run's own
	// goroutine.
	Progress func(share float64)
}

// Validate joins all errors of c.
func (c *Config) Validate() error {
	var problems []error
	bad := func(format string, args ...any) { problems = append(problems, fmt.Errorf(format, args...)) }
	positive := func(name string, n int) {
		if n < 1 {
			bad("%d %s: use at least one", n, name)
		}
	}
	if c.Policy.Name == "" {
		bad("no policy: use one of %q", PolicyNames())
	}
	positive("frontends", c.Frontends)
	positive("workers", c.Workers)
	positive("slots", c.Slots)
	if c.ProbeRatio != 0 && !(c.ProbeRatio >= 1 && c.ProbeRatio <= frontend.MaxProbeRatio) {
		bad("probe ratio %g: use 1 to %d", c.ProbeRatio, frontend.MaxProbeRatio)
	}
	if !(c.Load >= 0) || math.IsInf(c.Load, 0) {
		bad("load %g: use a number above 0, where 1 keeps all slots busy", c.Load)
	}
	if c.Jobs < 0 || c.WarmupJobs < 0 || c.Jobs > 0 && c.WarmupJobs >= c.Jobs {
		bad("%d warm-up jobs of %d jobs: leave some to count", c.WarmupJobs, c.Jobs)
	}
	if c.Workload == nil {
		bad("no workload")
	}
	if c.Gossip.Period < 0 && c.Gossip.Period != AsPing || c.Gossip.Period > time.Hour || c.Gossip.Delay < 0 ||
		!(c.Gossip.Loss >= 0 && c.Gossip.Loss < 1) {
		bad("gossip with a delay of %v and a loss of %g, or heartbeats that are not 0 to 1h apart: use durations of "+
			"0 or more, and a share below 1", c.Gossip.Delay, c.Gossip.Loss)
	}
	if c.Stages < 0 || c.Stages > frontend.MaxStages || c.Copies < 0 || c.Copies > frontend.MaxCopies ||
		c.Input < 0 || c.Racks < 0 {
		bad("%d stages, inputs of %d bytes with %d copies, %d racks: use 0 or more, up to %d stages and up to "+
			"%d copies",
			c.Stages, c.Input, c.Copies, c.Racks, frontend.MaxStages, frontend.MaxCopies)
	}
	if (c.Stragglers != (Stragglers{}) || c.Spells != (Spells{})) && (c.Stages > 1 || c.Input > 0) {
		bad("stragglers or slow spells, and tasks with stages or inputs: leave out the former or the latter")
	}
	if rival := c.Policy.rival; rival != nil && (c.Stages > 1 || c.Input > 0 && !rival.reads) {
		bad("policy %s knows nothing of stages and inputs: leave out the stages and inputs, or the policy",
			c.Policy.Name)
	}
	if c.Priorities < 0 || c.JudgeWaits < 0 {
		bad("%d priorities, waits judged with run times of %v: use 0 or more", c.Priorities, c.JudgeWaits)
	}
	if c.JudgeWaits > 0 && (c.Policy.rival != nil || c.Stages > 1 || c.Input > 0 || c.Spells != (Spells{})) {
		bad("waits judged, with a rival, stages, inputs or slow spells: leave out the former or the latter")
	}
	if c.Cutoff < 0 {
		bad("cutoff %v: use a duration above 0, or 0 for none", c.Cutoff)
	}
	if c.Delay < 0 || c.Jitter < 0 || c.DecisionCost < 0 || c.Ping < 0 || c.LocalityWait < 0 {
		bad("delay %v, jitter %v, decision cost %v, ping %v, locality wait %v: use 0 or more", c.Delay, c.Jitter,
			c.DecisionCost, c.Ping, c.LocalityWait)
	}
	if err := c.CPU.validate(); err != nil {
		problems = append(problems, err)
	}
	if !(c.Reserved >= 0 && c.Reserved < 1) {
		bad("%g of the workers reserved for short jobs: use a share from 0 to below 1", c.Reserved)
	}
	if !(c.Bandwidth >= 0) || c.Payload < 0 || c.Result < 0 || max(c.Payload, c.Result) > 1<<20 {
		bad("bandwidth %g, payloads of %d and results of %d bytes: use 0 or more, and up to 1 MiB for a task",
			c.Bandwidth, c.Payload, c.Result)
	}
	return errors.Join(problems...)
}

// Result holds the measurements of a run, of the jobs that count.
type Result struct {
	bench.SimRun

	Settings    []string       // of the workload, for people to read
	FrontendSum frontend.Stats // of all frontends; zero for a rival
	WorkerSum   worker.Stats   // of all workers
}

// jobRun is a job of a Run.
type jobRun struct {
	arrivedAt  time.Duration
	tasks      []time.Duration
	unfinished int
	end        time.Duration
	long       bool // by Config.Cutoff, or by the workload
	kind       string
	lastStart  time.Duration // of its tasks
	needs      *needs
	own        *ownTerms
}

// runner is a Run under way.
type runner struct {
	cluster
	cfg         Config
	load        float64
	jobs        []*jobRun
	nextArrival func() (arrival, bool)
	awaitedJobs int // the run ends when jobs 0 to awaitedJobs-1 have ended
	countedOpen int // jobs that count and have not ended
	endedJobs   int // ended jobs, of the awaited jobs
	waits       [2][]time.Duration
	waitsByKind map[string][]time.Duration
	routeRng    *rand.Rand
	estimateRng *rand.Rand
	inputRng    *rand.Rand
	priorityRng *rand.Rand
	grouped     bool
	listed      bool // the arrivals say their stages

	promises   *promises  // nil: promised waits are not judged
	stragglers stragglers // used if cfg has stragglers
	spells     *spells    // nil if cfg has none

	readSum       [3]float64 // bytes read, by distance: on the host, in the rack, across racks
	readingTasks  int        // tasks that read
	nearTasks     int        // tasks that read all on their host
	waitsByWorker []waitSum  // by worker

	arrivalsBegan time.Duration               // when jobs began to arrive
	thinkers      []*thinker                  // by frontend; nil: the frontends need no time to decide
	deciders      map[string]bench.SimDecider // when arrivals ended early; nil: they did not

	// The use of the slots up to usedAt, in slots times time. usedFrom and usedTo are the use at countedFrom and
	// countedTo: the arrivals of the first and the last job that counts.
	inUse                  int
	used, usedAt           time.Duration
	usedFrom, usedTo       time.Duration
	countedFrom, countedTo time.Duration
}

// checkContextEvery is the number of events between checks of the context.
const checkContextEvery = 1 << 14

// Run simulates cfg until all its jobs have ended. Further jobs arrive until then, if the workload has more, so
// that the last jobs do not run in an emptying cluster. If ctx ends before, Run returns the error. The result
// then covers the jobs before the first unfinished job; nil if no such job counts.
func Run(ctx context.Context, cfg Config) (*Result, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	began := time.Now()
	if l, ok := cfg.Workload.(*Listed); ok {
		if err := cfg.checkList(l); err != nil {
			return nil, err
		}
	}
	speeds, slots := cfg.drawSpeeds()
	jobs, err := cfg.Workload.newArrivals(cfg.Seed, cfg.Load, slots)
	if err != nil {
		return nil, err
	}
	r := &runner{cfg: cfg, load: jobs.load, awaitedJobs: cfg.Jobs, grouped: jobs.grouped || cfg.Cutoff > 0,
		listed:        jobs.listed,
		waitsByWorker: make([]waitSum, cfg.Workers), waitsByKind: map[string][]time.Duration{}}
	if jobs.jobCount > 0 && (r.awaitedJobs == 0 || r.awaitedJobs > jobs.jobCount) {
		r.awaitedJobs = jobs.jobCount
	}
	if r.countedOpen = r.awaitedJobs - cfg.WarmupJobs; r.countedOpen < 1 {
		return nil, fmt.Errorf("%d warm-up jobs of %d jobs: leave some to count", cfg.WarmupJobs, r.awaitedJobs)
	}
	next, stop := iter.Pull(jobs.jobs)
	defer stop()
	r.nextArrival = next
	r.routeRng = rand.New(rand.NewPCG(cfg.Seed, 'r'))
	r.estimateRng = rand.New(rand.NewPCG(cfg.Seed, 'e'))
	r.inputRng = newInputRng(cfg.Seed)
	r.priorityRng = rand.New(rand.NewPCG(cfg.Seed, 'p'))
	r.rng = rand.New(rand.NewPCG(cfg.Seed, 'n'))
	ping := cfg.pingEvery(jobs.tasksPerSecond)
	r.net = network{delay: cfg.Delay, jitter: cfg.Jitter, rate: cfg.Bandwidth, codec: cfg.Codec,
		lease: 3*ping + 4*(cfg.Delay+20*cfg.Jitter), ping: ping}
	r.cpu = cfg.CPU
	r.tenantsFile = cfg.tenants
	r.onAnswer = r.handleAnswer
	if cfg.checkState {
		r.cluster.checkEvery = 1
	}
	r.onStart = r.taskStarted
	output := make([]byte, cfg.Result)
	r.onEnd = func(s *worker.Start, ev *worker.Exited) {
		r.noteSlots(-1)
		r.stragglers.noteCopyEnd(s, r.now)
		ev.Result = output
	}
	if cfg.Stragglers != (Stragglers{}) {
		r.stragglers = stragglers{
			rng: rand.New(rand.NewPCG(cfg.Seed, 's')), tasks: map[taskKey]*trackedTask{},
			copies: map[probe.AttemptID]time.Duration{},
		}
	}
	if cfg.Spells != (Spells{}) {
		r.spells = newSpells(cfg.Spells, cfg.Workers, cfg.Seed)
		r.readTime = r.spellDelay
	}
	if cfg.ReportsProgress {
		r.progressOf = r.taskProgress
	}
	frontends := cfg.Frontends
	if len(cfg.Think) > 0 && cfg.Policy.rival == nil {
		for range frontends {
			r.thinkers = append(r.thinkers, &thinker{})
		}
	}
	if rival := cfg.Policy.rival; rival != nil {
		r.newScheduler = func(f frontend.Config, rng *rand.Rand) scheduler { return rival.make(&r.cfg, speeds, f, rng) }
		if rival.instant {
			r.net.delay, r.net.jitter, r.net.rate, r.net.codec, r.cpu = 0, 0, 0, false, CPU{}
		}
		if rival.central {
			frontends = 1
		}
	}
	for i, speed := range speeds {
		w := r.addWorker(worker.Config{Capacity: slotsOf(cfg.Slots), Functions: []string{sleepFunction},
			Order: cfg.Order, ShortShare: cfg.ShortShare, MaxQueue: 1 << 20}, speed)
		if cfg.Racks > 0 {
			w.welcome.Rack = rackName(i % cfg.Racks)
		}
	}
	if cfg.JudgeWaits > 0 {
		r.judgePromises(cfg.JudgeWaits)
	}
	if jobs.staged || !jobs.listed && (cfg.Stages > 1 || cfg.Input > 0) {
		r.readTime = r.inputReadTime
	}
	for i := range frontends {
		// No limits: the run shows the effect of overload on a policy, instead of refusals.
		r.addFrontend(frontend.Config{MaxTasksPerJob: math.MaxInt32, MaxPending: math.MaxInt / 2,
			MaxWait: math.MaxInt64 / 2, SyncEvery: 2 * ping, SureFor: cfg.SureFor, Copies: cfg.SecondAttempts},
			cfg.Seed+uint64(i)<<32)
	}
	if cfg.Gossip.Period != 0 && cfg.Policy.mayEstimate() {
		if cfg.Gossip.Period == AsPing {
			cfg.Gossip.Period = ping
		}
		if err := r.startGossip(cfg.Gossip, rand.New(rand.NewPCG(cfg.Seed, 'g'))); err != nil {
			return nil, err
		}
	}
	r.callAt(time.Millisecond+3*(cfg.Delay+20*cfg.Jitter), func() { // links are up by then: dial, Hello, Welcome
		r.messages, r.steps, r.arrivalsBegan = 0, 0, r.now
		r.scheduleNextJob(r.now)
	})
	for r.countedOpen > 0 && r.callErr == nil {
		if r.steps%checkContextEvery == 0 {
			if ctx.Err() != nil {
				return r.cutShort(jobs.settings, began), context.Cause(ctx)
			}
			if cfg.Progress != nil {
				cfg.Progress(float64(r.endedJobs) / float64(r.awaitedJobs))
			}
		}
		if err := r.stepEvent(); err != nil {
			return nil, err
		}
	}
	if r.callErr != nil {
		return nil, r.callErr
	}
	return r.finishResult(jobs.settings, began), nil
}

// drawSpeeds draws the speeds of the workers, and returns the slots of nominal speed that they amount to.
func (c *Config) drawSpeeds() (speeds []float64, slots float64) {
	speeds = c.Speeds.drawSpeeds(c.Workers, rand.New(rand.NewPCG(c.Seed, 'v')))
	for _, s := range speeds {
		slots += s * float64(c.Slots)
	}
	return speeds, slots
}

// finishResult returns the result with its settings and the wall time since began.
func (r *runner) finishResult(settings []string, began time.Time) *Result {
	result := r.makeResult()
	result.Settings = settings
	result.WallS = time.Since(began).Seconds()
	return result
}

// cutShort returns the result of an interrupted run; nil if no job that counts has ended.
func (r *runner) cutShort(settings []string, began time.Time) *Result {
	asked := r.awaitedJobs
	if r.awaitedJobs = slices.IndexFunc(r.jobs, func(j *jobRun) bool { return j.unfinished > 0 }); r.awaitedJobs < 0 {
		r.awaitedJobs = len(r.jobs)
	}
	if r.awaitedJobs <= r.cfg.WarmupJobs {
		return nil
	}
	r.noteSlots(0)
	r.countedTo, r.usedTo = r.now, r.used
	result := r.finishResult(settings, began)
	result.CutShortOf = asked - r.cfg.WarmupJobs
	return result
}

// pingEvery returns the time between checks of a connection; tasksPerSecond counts the tasks of the
// whole cluster. In production pings come every second. With tasks of minutes, such pings would be nearly all events
// of a run, and would change nothing. So pings are no more frequent than tasks on a connection, and the reported load
// is as fresh as a task.
func (c *Config) pingEvery(tasksPerSecond float64) time.Duration {
	if c.Ping > 0 {
		return c.Ping
	}
	seconds := float64(c.Frontends) * float64(c.Workers) / tasksPerSecond // +Inf if no tasks come
	return time.Duration(min(max(seconds, 1), time.Hour.Seconds()) * float64(time.Second))
}

// slotsOf returns the capacity of n slots.
func slotsOf(n int) probe.Demand {
	return probe.Demand{CPU: probe.Slot.CPU * probe.Millicores(n), Mem: probe.Slot.Mem * probe.MiB(n)}
}

// scheduleNextJob schedules the arrival of the next job; began is the start of arrivals.
func (r *runner) scheduleNextJob(began time.Duration) {
	job, ok := r.nextArrival()
	if !ok {
		return
	}
	if r.mayOverload() && job.Index >= 2*r.awaitedJobs { // an overloaded run would never end
		r.deciders = r.sumDeciders()
		return
	}
	r.callAt(began+job.At, func() {
		r.submitJob(&job)
		r.scheduleNextJob(began)
	})
}

// mayOverload reports whether jobs may wait for other things than slots.
func (r *runner) mayOverload() bool {
	rival := r.cfg.Policy.rival
	return r.cpu.Message > 0 || r.thinkers != nil || rival != nil && rival.pays
}

// jobID returns the id of job n.
func jobID(n int) probe.JobID { return probe.NewJobID(0, 0, uint64(n)) }

// jobOf returns the number of a job: the inverse of jobID.
func jobOf(id probe.JobID) int {
	return int(binary.BigEndian.Uint64(id[8:]))
}

// submitJob submits job to a frontend drawn at random.
func (r *runner) submitJob(job *arrival) {
	r.noteSlots(0)
	if len(r.jobs) == r.cfg.WarmupJobs {
		r.countedFrom, r.usedFrom = r.now, r.used
	}
	if len(r.jobs) == r.awaitedJobs-1 {
		r.countedTo, r.usedTo = r.now, r.used
	}
	j := &jobRun{
		arrivedAt: r.now, tasks: job.Tasks, unfinished: len(job.Tasks), long: r.cfg.isLong(job), kind: job.tenant,
		own: job.own,
	}
	policy, estimates := r.cfg.Policy, r.cfg.Estimates
	if j.own != nil {
		policy, estimates = j.own.policy, j.own.estimates
	}
	r.jobs = append(r.jobs, j)
	spec := &frontend.Job{
		ID: jobID(job.Index), Tenant: job.tenant, Policy: policy.frontend, Mode: policy.mode,
		ProbeRatio: r.cfg.ProbeRatio,
		Tasks:      make([]frontend.Task, len(job.Tasks)),
	}
	if r.cfg.Priorities > 0 {
		spec.Priority = int32(r.priorityRng.IntN(r.cfg.Priorities))
	}
	if r.stragglers.tasks != nil {
		job.Tasks = r.drawStragglers(job.Index, job.Tasks)
		j.tasks = job.Tasks
	}
	factor := estimates.drawFactor(r.estimateRng)
	size := max(r.cfg.Payload, 8)
	payloads := make([]byte, size*len(job.Tasks))
	for i, d := range job.Tasks {
		estimate := float64(d) * factor
		switch {
		case estimates.Fixed > 0:
			estimate = float64(estimates.Fixed)
		case estimates.Mean:
			estimate = float64(job.mean)
		}
		payload := payloads[size*i : size*(i+1) : size*(i+1)]
		binary.LittleEndian.PutUint64(payload, uint64(d))
		spec.Tasks[i] = frontend.Task{
			Index: probe.TaskIndex(i), Function: sleepFunction, Payload: payload,
			Estimate: time.Duration(estimate), Retryable: true,
		}
	}
	if r.stragglers.tasks != nil {
		r.stragglers.addInputs(job.Index, spec)
	} else {
		if !r.listed && (r.cfg.Stages > 1 || r.cfg.Input > 0) && (j.long || !r.grouped) {
			job.stages = r.cfg.drawStages(len(job.Tasks), r.inputRng)
		}
		if job.stages != nil {
			r.addNeeds(j, spec, job.stages)
		}
	}
	f := r.frontends[r.routeRng.IntN(len(r.frontends))]
	if j.own != nil {
		f = r.frontends[0]
	}
	if r.thinkers != nil {
		r.thinkFirst(f, spec)
	} else if err := r.callFrontend(f, frontend.Submit{Job: spec}); err != nil {
		r.callErr = err
	}
}

// isLong reports whether a job is long, by the workload or the cutoff.
func (c *Config) isLong(job *arrival) bool { return job.long || c.Cutoff > 0 && job.mean > c.Cutoff }

// noteSlots counts the use of the slots up to now, and notes the number of slots just taken; negative: freed.
func (r *runner) noteSlots(slots int) {
	r.used += time.Duration(r.inUse) * (r.now - r.usedAt)
	r.usedAt = r.now
	r.inUse += slots
}

// taskStarted notes the start of a task, and its wait if the job counts.
func (r *runner) taskStarted(w *workerNode, s *worker.Start) {
	r.noteSlots(1)
	if r.cfg.onTaskStart != nil {
		r.cfg.onTaskStart(w, s)
	}
	if r.stragglers.tasks != nil {
		r.noteAttemptStart(w, s)
	}
	if r.promises != nil {
		r.promises.noteStart(w, s)
	}
	if n := jobOf(s.Job); r.isCounted(n) {
		j := r.jobs[n]
		wait := r.now - j.arrivedAt
		r.waits[groupOf(j)] = append(r.waits[groupOf(j)], wait)
		r.waitsByWorker[w.index].addWait(wait)
		j.lastStart = r.now
		if j.kind != "" {
			r.waitsByKind[j.kind] = append(r.waitsByKind[j.kind], wait)
		}
	}
}

// waitSum sums up the waits at a worker.
type waitSum struct {
	n   int
	sum time.Duration
}

func (s *waitSum) addWait(wait time.Duration) {
	s.n++
	s.sum += wait
}

// groupOf returns the group in which a job is measured: 0 for short jobs, 1 for long jobs.
func groupOf(j *jobRun) int {
	if j.long {
		return 1
	}
	return 0
}

// isCounted reports whether a job is measured: it comes after the warm-up, and the run waits for it.
func (r *runner) isCounted(job int) bool { return job >= r.cfg.WarmupJobs && job < r.awaitedJobs }

// handleAnswer is the client of all frontends.
func (r *runner) handleAnswer(f *frontendNode, a frontend.Action) {
	switch a := a.(type) {
	case *frontend.Done:
		r.collectReceipt(f, a.Outcome.Receipt)
		n := jobOf(a.Job)
		if a.Outcome.Kind != frontend.Result {
			r.callErr = fmt.Errorf("job %d, task %d: outcome %d, %s", n, a.Outcome.Task, a.Outcome.Kind,
				a.Outcome.Message)
			return
		}
		j := r.jobs[n]
		if r.promises != nil && r.isCounted(n) {
			r.promises.noteOutcome(n, &a.Outcome)
		}
		if j.needs != nil {
			j.needs.noteOutput(int(a.Outcome.Task), numberOf(a.Outcome.Worker))
		}
		if j.unfinished--; j.unfinished == 0 {
			j.end = r.now
			if n < r.awaitedJobs {
				r.endedJobs++
			}
			if r.isCounted(n) {
				r.countedOpen--
				r.stragglers.countSpared(n, len(j.tasks), a.Outcome.Task)
			}
		}
	case frontend.Refused:
		r.callErr = fmt.Errorf("job %d: %w", jobOf(a.Job), a.Err)
	}
}

// collectReceipt notes that the client has an outcome. The client tells the frontend of 64 outcomes at a time.
func (r *runner) collectReceipt(f *frontendNode, receipt frontend.Receipt) {
	if receipt == (frontend.Receipt{}) {
		return
	}
	if f.receipts = append(f.receipts, receipt); len(f.receipts) < 64 {
		return
	}
	list := f.receipts
	f.receipts = nil
	r.callAt(r.now, func() {
		if err := r.callFrontend(f, frontend.Delivered{Receipts: list}); err != nil {
			r.callErr = err
		}
	})
}

// addToSample adds job i to a sample. best holds the omniscient responses by job; nil: not known.
func (r *runner) addToSample(sample *bench.SimSample, i int, best []time.Duration) {
	j := r.jobs[i]
	sample.Tasks += len(j.tasks)
	sample.Response = append(sample.Response, j.end-j.arrivedAt)
	sample.Ideal = append(sample.Ideal, bench.Ideal(j.tasks))
	sample.LastStart = append(sample.LastStart, j.lastStart-j.arrivedAt)
	if best != nil {
		sample.Omniscient = append(sample.Omniscient, best[i])
	}
}

// makeResult computes the result of the jobs that count.
func (r *runner) makeResult() *Result {
	res := &Result{SimRun: bench.SimRun{
		Policy: r.cfg.Policy.Name, Load: r.load, ProbeRatio: r.cfg.ProbeRatio,
		Workers: r.cfg.Workers, Slots: r.cfg.Slots, Frontends: len(r.frontends),
		Events: r.steps,
	}}
	if res.ProbeRatio == 0 {
		res.ProbeRatio = frontend.Config{}.Defaults().ProbeRatio
	}
	arrivals, durations := make([]time.Duration, len(r.jobs)), make([][]time.Duration, len(r.jobs))
	tasks := 0
	for i, j := range r.jobs {
		arrivals[i], durations[i] = j.arrivedAt, j.tasks
		tasks += len(j.tasks)
	}
	var best []time.Duration
	if r.cfg.Speeds.allNominal() && r.readTime == nil {
		best = bench.Omniscient(arrivals, durations, r.cfg.Workers*r.cfg.Slots)
	}
	var groups [2]bench.SimSample
	kinds := map[string][]int{} // by kind: the jobs
	for i, j := range r.jobs {
		if !r.isCounted(i) {
			continue
		}
		r.addToSample(&groups[groupOf(j)], i, best)
		if j.kind != "" {
			kinds[j.kind] = append(kinds[j.kind], i)
		}
	}
	for kind, jobs := range kinds {
		if res.Kinds == nil {
			res.Kinds = map[string]*bench.SimGroup{}
		}
		sample := &bench.SimSample{Wait: r.waitsByKind[kind]}
		for _, i := range jobs {
			r.addToSample(sample, i, best)
		}
		res.Kinds[kind] = sample.Group()
	}
	if res.Deciders = r.deciders; res.Deciders == nil {
		res.Deciders = r.sumDeciders()
	}
	groups[0].Wait, groups[1].Wait = r.waits[0], r.waits[1]
	if r.grouped {
		res.Short, res.Long = groups[0].Group(), groups[1].Group()
	}
	groups[0].Add(&groups[1])
	res.SimGroup = *groups[0].Group()
	if r.countedTo > r.countedFrom {
		res.Utilisation = float64(r.usedTo-r.usedFrom) / float64(r.countedTo-r.countedFrom) /
			float64(r.cfg.Workers*r.cfg.Slots)
	}
	if rival := r.cfg.Policy.rival; rival == nil || !rival.instant {
		res.MessagesPerTask = float64(r.messages) / float64(tasks)
	}
	res.CPU = r.cpuUsed(tasks)
	res.Copies.Won = 1
	var waits, runs estimate.Accuracy
	add := func(sum *estimate.Accuracy, a estimate.Accuracy) {
		sum.Seen, sum.Good, sum.TooHigh, sum.Error =
			sum.Seen+a.Seen, sum.Good+a.Good, sum.TooHigh+a.TooHigh, sum.Error+a.Error
	}
	for _, f := range r.frontends {
		if core, ok := f.core.(*frontend.Core); ok {
			addStats(&res.FrontendSum, &core.Stats)
			add(&waits, core.Waits)
			add(&runs, core.Runs)
		}
	}
	if sum := &res.FrontendSum; sum.Copies > 0 {
		res.Copies = bench.SimCopies{Share: float64(sum.Copies) / float64(sum.Tasks),
			Won: float64(sum.CopiesWon) / float64(sum.Copies)}
	}
	if waits.Seen > 0 {
		res.Estimates = &bench.SimEstimates{
			Tasks: waits.Seen, WaitWithin: waits.Share(), WaitOffS: waits.Error / float64(waits.Seen),
			RunWithin: runs.Share(), RunOffS: runs.Error / float64(runs.Seen),
			Asked: float64(res.FrontendSum.Asked) / float64(waits.Seen),
		}
	}
	if r.promises != nil {
		res.Promises = r.promises.rateAll()
	}
	res.Oracle = r.askOracles()
	if r.readingTasks > 0 {
		n := float64(r.readingTasks)
		res.Read = &bench.SimRead{Host: r.readSum[0] / n, Rack: r.readSum[1] / n, Across: r.readSum[2] / n,
			Near: float64(r.nearTasks) / n}
	}
	if r.stragglers.tasks != nil {
		seen := r.stragglers.seen
		seen.Work = r.stragglers.work.Seconds() / r.used.Seconds()
		res.Stragglers = &seen
	}
	var means []time.Duration
	for _, w := range r.waitsByWorker {
		if w.n > 0 {
			means = append(means, w.sum/time.Duration(w.n))
		}
	}
	res.WorkerWaitMS, res.WorkerSpread = bench.SimSpread(means)
	for _, w := range r.workers {
		addStats(&res.WorkerSum, &w.core.Stats)
	}
	return res
}
