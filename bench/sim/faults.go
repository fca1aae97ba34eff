package sim

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/phoebe-sched/phoebe/frontend"
	"github.com/phoebe-sched/phoebe/frontend/estimate"
	"github.com/phoebe-sched/phoebe/frontend/tenants"
	"github.com/phoebe-sched/phoebe/probe"
	"github.com/phoebe-sched/phoebe/worker"
)

// FaultError is a broken promise, found by a random schedule of faults.
type FaultError struct {
	Seed    uint64
	Without Omission      // jobs and faults left out of the run
	At      time.Duration // since the start of the run
	Err     error
	Log     []string // the end of the log, an event or action per line
}

func (e *FaultError) Error() string {
	without := ""
	if e.Without.Len() > 0 {
		without = " without " + e.Without.String()
	}
	return fmt.Sprintf("seed %d%s, after %v: %v", e.Seed, without, e.At, e.Err)
}

func (e *FaultError) Unwrap() error { return e.Err }

// FaultStats counts the events of a run with faults.
type FaultStats struct {
	Jobs, Tasks, Starts, Failovers, Refusals int
	Faults                                   map[string]int // by kind
	Outcomes                                 [frontend.DeadlineExceeded + 1]int
	Failures                                 [frontend.StageFailed + 1]int
	Seen                                     map[string]int // by kind: other drawn settings and events
	Events                                   uint64

	Frontends frontend.Stats // of the lives at the end of the run
	Workers   worker.Stats
}

// Faults runs a small cluster under a schedule of faults drawn from seed. Processes crash, hang, drain and come
// back. Connections break at one end or both. Messages are repeated and overtake one another. Clients cancel and
// go elsewhere. Files come late or never, and the disks of caches fail. Gossip is stale or lies. Clients of other
// tenants claim jobs whose ids they know. Faults checks the invariants of both cores after every step, and the
// promises to clients:
//
//   - every task of a job ends in one outcome, and every job ends;
//   - a task that is lost, stopped, given up for poison or for want of a worker, or runs again, was hit by a
//     known fault;
//   - a task that may start only once never starts twice;
//   - no task has more than two attempts under way at a frontend, and the loser is stopped;
//   - a task starts only at a worker with its constraints, its demand and its files, and after all tasks of the
//     earlier stages have ended well;
//   - a result belongs to its task;
//   - the blame of a job adds up to its response;
//   - no job is refused for waiting jobs of its tenant while a worker able to run the job is idle;
//   - files fetched for an attempt are released once, and not while the attempt runs;
//   - a worker whose cache is dead gets no task with files, once the frontend has heard of the dead cache;
//   - at the end of the run, no core keeps anything of any job, and no queue was ever longer than its bound.
//
// One seed of every four is calm: nothing goes wrong, both cores have the limits and timers of production, and
// tasks take up to a minute. Then each task starts once and has its result at the first attempt, and nothing is
// withdrawn.
//
// One calm seed of every five is plain use on a small fleet. While a slot is free, no frontend refuses a job, or
// holds a task for more than two round trips. If a central queue with the same slots would start all tasks of a job
// at once, so does the frontend.
//
// In another seed of every four, only frontends fail, and clients wander. Then no task runs at two places at
// once, or again after a good end. No task is lost with its frontend, unless a worker cannot know whether the
// task started.
//
// Jobs and faults may be left out; the rest stays the same. The error, if any, is a *FaultError. The same seed
// gives the same run.
func Faults(seed uint64, without Omission) (*FaultStats, error) {
	r := newFaultRun(seed, without)
	err := r.playOut()
	if err == nil {
		return &r.stats, nil
	}
	failed := &FaultError{Seed: seed, Without: without, At: r.now, Err: err}
	again := newFaultRun(seed, without) // the same run once more, for its log
	again.log = func(format string, args ...any) {
		if len(failed.Log) == logLines {
			failed.Log = append(failed.Log[:0], failed.Log[logLines/2:]...)
		}
		failed.Log = append(failed.Log, fmt.Sprintf("%12v ", again.now)+fmt.Sprintf(format, args...))
	}
	again.stopAtStep = r.steps
	_ = again.playOut()
	return &r.stats, failed
}

// FaultSweep runs Faults for n seeds, beginning with from, as many at a time as there are processors to use, and
// adds up the stats. After a failed run, no more runs start, and the error is the *FaultError of the least seed
// among the failed runs.
//
// If progress is not nil, one goroutine at a time calls progress with the number of runs done.
func FaultSweep(ctx context.Context, from, n uint64, progress func(done uint64)) (*FaultStats, error) {
	var mu sync.Mutex
	sum := &FaultStats{Faults: map[string]int{}, Seen: map[string]int{}}
	var failed *FaultError
	next, done := uint64(0), uint64(0)
	var wg sync.WaitGroup
	for range min(uint64(runtime.GOMAXPROCS(0)), n) {
		wg.Go(func() {
			mu.Lock()
			defer mu.Unlock()
			for next < n && failed == nil && ctx.Err() == nil {
				seed := from + next
				next++
				mu.Unlock()
				stats, err := Faults(seed, Omission{})
				mu.Lock()
				var e *FaultError
				if errors.As(err, &e) && (failed == nil || e.Seed < failed.Seed) {
					failed = e
				}
				sum.addRun(stats)
				if done++; progress != nil {
					progress(done)
				}
			}
		})
	}
	wg.Wait()
	switch {
	case failed != nil:
		return sum, failed
	case ctx.Err() != nil:
		return sum, context.Cause(ctx)
	}
	return sum, nil
}

// logLines bounds the log of a failed run.
const logLines = 20_000

// faultRun is a run of Faults under way.
type faultRun struct {
	cluster
	seed          uint64
	without       Omission
	dice          *rand.Rand    // for everything drawn before the run begins
	calm          bool          // nothing goes wrong
	frontendsOnly bool          // only frontends fail, and clients wander
	faultsEnd     time.Duration // no more faults from then on
	end           time.Duration // all jobs must have ended by then
	copies        float64       // share of tasks that may have a second attempt
	grace         time.Duration // a frontend cancels the job of a client after this absence
	jobs          []*faultJob
	faults        int                      // number of drawn faults
	visits        []map[probe.JobID]*visit // by frontend
	outsideDice   *rand.Rand               // for fetchers and gossip

	fetchers     []fetcher       // by worker, of its present life
	rumours      []uint64        // by worker: its number of gossip rows
	drainingLife []int32         // by worker: the life in which the worker drains
	outages      []outage        // by worker
	deadCaches   []int32         // by worker: the life in which the disk of the cache fails; 0: none
	deadSince    []time.Duration // by worker: when the disk of the cache began to fail
	cacheDeaths  int             // how often the disk of a cache began to fail

	plain       *plainRun  // nil: the run is not plain
	queued      []uint32   // calm runs: by worker, the queue's length after the last step
	idle        []idleSpan // by worker, after its last step
	jobOfPlace  map[placeKey]*faultJob
	harms       []*harm
	reorders    bool // messages overtake one another
	attempts    map[probe.AttemptID]*faultAttempt
	storedFiles map[[32]byte][]storedAt // outputs of tasks stored as files, by digest

	openJobs    int // jobs that have not ended
	violation   error
	stillEvents int // events since time went on
	maxStill    int // most events without time going on
	stats       FaultStats
	stopAtStep  uint64
}

// newFaultRun prepares the run of a seed. playOut draws the cluster.
func newFaultRun(seed uint64, without Omission) *faultRun {
	r := &faultRun{seed: seed, without: without, dice: rand.New(rand.NewPCG(seed, 'd')), calm: seed%calmEvery == 0,
		frontendsOnly: seed%calmEvery == 1}
	r.jobOfPlace, r.attempts, r.storedFiles = map[placeKey]*faultJob{}, map[probe.AttemptID]*faultAttempt{},
		map[[32]byte][]storedAt{}
	r.stats.Faults, r.stats.Seen = map[string]int{}, map[string]int{}
	r.outsideDice = rand.New(rand.NewPCG(seed, 'c'))
	r.rng = rand.New(rand.NewPCG(seed, 'n'))
	r.copies = drawOne(rand.New(rand.NewPCG(seed, 'k')), 0, 0.03, 1)
	r.checkEvery = 1
	r.progressOf = r.reportedProgress
	r.onAnswer = r.handleAnswer
	r.onStart = r.taskStarted
	r.onEnd = r.taskEnded
	r.onFetch, r.onRelease = r.fetchFiles, r.releaseFiles
	return r
}

// drawOne draws one of a few values.
func drawOne[T any](dice *rand.Rand, values ...T) T { return values[dice.IntN(len(values))] }

// drawBetween draws a duration.
func drawBetween(dice *rand.Rand, low, high time.Duration) time.Duration {
	return low + time.Duration(dice.Int64N(int64(high-low)+1))
}

// drawChance returns true with probability p.
func drawChance(dice *rand.Rand, p float64) bool { return dice.Float64() < p }

// lastExit returns when the last of the running tasks ends, or now if no task runs.
func (r *faultRun) lastExit() time.Duration {
	last := r.now
	for _, w := range r.workers {
		for _, x := range w.running {
			last = max(last, x.began+x.duration)
		}
	}
	return last
}

// playOut plays the whole run. A panic of a core is an error like others.
func (r *faultRun) playOut() (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("panic: %v\n%s", v, debug.Stack())
		}
	}()
	switch {
	case isPlain(r.seed):
		r.drawPlain()
	case r.calm:
		r.drawCalm()
	default:
		r.drawCluster()
	}
	for r.openJobs > 0 {
		if err := r.stepUpTo(r.end); err != nil {
			return err
		}
		if r.now > r.end {
			return r.describeUnfinished()
		}
	}
	// All jobs have ended, except at frontends left by their clients. Tasks that do not stop still run.
	for quiet := r.lastExit() + 15*time.Second; r.now < quiet; {
		if err := r.stepUpTo(quiet); err != nil {
			return err
		}
	}
	return r.checkDrained()
}

// reportSlowly returns a function that reports to a worker after up to 100 ms that results have left. So results wait at
// a worker with a low MaxUnsent, and the worker starts no task of their frontend.
func (r *faultRun) reportSlowly(d *rand.Rand) func(*workerNode, worker.LinkID) {
	return func(w *workerNode, link worker.LinkID) {
		life := w.life
		r.callAt(r.now+drawBetween(d, 0, 100*time.Millisecond), func() {
			r.tellWorker(w, life, func() worker.Event {
				if _, full := w.core.Unsent(); full > 0 {
					r.stats.Seen["results waited for a slow link"]++
				}
				return worker.Sent{Link: link}
			})
		})
	}
}

// drawCluster draws the cluster, the jobs and the faults.
func (r *faultRun) drawCluster() {
	r.afterFrontend, r.afterWorker, r.obeysStop = r.noteAttempts, r.checkStops, r.decideStop
	d := r.dice
	r.onReport = r.reportSlowly(rand.New(rand.NewPCG(r.seed, 'l')))
	r.net = network{
		delay: drawBetween(d, 10*time.Microsecond, time.Millisecond), jitter: drawBetween(d, 0, time.Millisecond),
		codec: true, reorder: drawOne(d, 0, 0, time.Millisecond, 5*time.Millisecond),
		repeatShare: drawOne(d, 0, 0, 0.01, 0.1), frames: true,
		lease: 300 * time.Millisecond, ping: 100 * time.Millisecond, workersWatch: true,
	}
	r.reorders = r.net.reorder > 0
	r.faultsEnd = drawBetween(d, time.Second, 4*time.Second)
	r.grace = drawBetween(d, 100*time.Millisecond, time.Second)
	if r.frontendsOnly {
		r.stats.Seen["steady runs"]++
		r.net.reorder = 0              // the results of claimed tasks come before the answer to the claim
		r.faultsEnd += 5 * time.Second // at the end, workers are old enough to know all of the last jobs
	}
	for i := range 2 + d.IntN(5) {
		cfg := worker.Config{
			Capacity: slotsOf(1 + d.IntN(4)), Functions: []string{sleepFunction, "tiny"},
			Order:           drawOne(d, worker.Fair, worker.Fair, worker.FIFO, worker.Priority, worker.Shortest),
			StarvationBound: 200 * time.Millisecond,
			MaxQueue:        drawOne(d, 5, 40, 1<<14),
			MaxRetained:     drawOne(d, 2000, 256<<20),
			ReadyExpiry:     drawBetween(d, 20*time.Millisecond, 200*time.Millisecond),
			Grace:           drawBetween(d, 20*time.Millisecond, time.Second), Retain: 5 * time.Second,
		}
		if i == 0 {
			cfg.Functions = append(cfg.Functions, "rare")
			cfg.MaxQueue = 1 << 14
		}
		if r.frontendsOnly { // patience for frontends that hang
			cfg.MaxRetained, cfg.Grace = 256<<20, 5*time.Second
		}
		if i%3 == 1 && !r.frontendsOnly { // results leave slowly, and wait (reportSlowly)
			cfg.MaxUnsent = 2000
		}
		w := r.addWorker(cfg, 1)
		w.ignoresRestamp = drawChance(rand.New(rand.NewPCG(r.seed, 'r'<<32|uint64(i))), 0.2)
		r.furnishWorker(w, d)
	}
	r.fetchers, r.rumours = make([]fetcher, len(r.workers)), make([]uint64, len(r.workers))
	r.drainingLife, r.outages = make([]int32, len(r.workers)), make([]outage, len(r.workers))
	r.idle, r.deadCaches = make([]idleSpan, len(r.workers)), make([]int32, len(r.workers))
	r.deadSince = make([]time.Duration, len(r.workers))
	gossips := drawChance(d, 0.7)
	for _, w := range r.workers {
		if liar := drawChance(d, 0.1); gossips {
			r.sendGossip(w, liar)
		}
	}
	r.limitTenants()
	for i := range 1 + d.IntN(3) {
		r.visits = append(r.visits, map[probe.JobID]*visit{})
		cfg := frontend.Config{
			AdriftFor:   drawBetween(d, 50*time.Millisecond, 500*time.Millisecond),
			ClaimFor:    drawBetween(d, 200*time.Millisecond, time.Second),
			StrandedFor: [...]time.Duration{2 * time.Second, 300 * time.Millisecond}[r.seed%2],
			SyncEvery:   drawBetween(d, 300*time.Millisecond, 2*time.Second), ProbeTimeout: 20 * time.Millisecond,
			MaxPending: drawOne(d, 60, 1<<20), MaxWait: drawOne(d, 100*time.Millisecond, -1),
			LongTask: drawOne(d, 20*time.Millisecond, 200*time.Millisecond, 0),
			Matcher:  drawOne(d, estimate.Stable, estimate.Greedy, estimate.Optimal), PoisonAfter: drawOne(d, 2, 3),
			Copies: r.copies,
		}
		if r.frontendsOnly {
			cfg.AdriftFor, cfg.ClaimFor, cfg.MaxPending, cfg.MaxWait = 5*time.Second, 1200*time.Millisecond, 1<<20, -1
		}
		r.addFrontend(cfg, r.seed+uint64(i)<<32)
	}
	r.makeJobs(10 + d.IntN(40))
	for at := time.Duration(0); ; {
		if at += time.Duration(d.ExpFloat64() * float64(120*time.Millisecond)); at > r.faultsEnd {
			break
		}
		n := r.faults
		if r.faults++; !r.without.Faults[n] {
			r.callAt(at, func() { r.injectFault(n) })
		}
	}
	r.callAt(r.faultsEnd, r.endFaults)
	r.end, r.maxStill = r.faultsEnd+time.Minute, 50_000
	if len(r.frontends) > 1 {
		r.exchangeLessons(rand.New(rand.NewPCG(r.seed, 'l')))
	}
	if r.tenantsFile != nil {
		heard := &heardNeeds{needs: make([][][]tenants.Need, len(r.frontends))}
		for i := range heard.needs {
			heard.needs[i] = make([][]tenants.Need, len(r.frontends))
		}
		r.exchangeNeeds(heard, rand.New(rand.NewPCG(r.seed, 's')))
	}
}

// stepUpTo runs the next event, if the event is due at end or before; else the clock moves just past end.
func (r *faultRun) stepUpTo(end time.Duration) error {
	if r.stopAtStep > 0 && r.steps >= r.stopAtStep {
		return errors.New("stopped")
	}
	if at, ok := r.nextTime(); !ok || at > end {
		r.now = end + 1
		return nil
	}
	before := r.now
	if err := r.stepEvent(); err != nil {
		return err
	}
	if r.stillEvents++; r.now != before {
		r.stillEvents = 0
	}
	if r.stillEvents > r.maxStill {
		return errors.New("time stands still: something is due again and again")
	}
	r.stats.Events = r.steps
	return r.violation
}

// failRun ends the run with an error, unless the run has failed before.
func (r *faultRun) failRun(format string, args ...any) {
	if r.violation == nil {
		r.violation = fmt.Errorf(format, args...)
	}
}

// String returns the most important counts in a line.
func (s *FaultStats) String() string {
	var faults []string
	for _, kind := range slices.Sorted(maps.Keys(s.Faults)) {
		faults = append(faults, fmt.Sprintf("%s %d", kind, s.Faults[kind]))
	}
	return fmt.Sprintf("%d jobs of %d tasks, started %d times, %d failovers, %d events; %s", s.Jobs, s.Tasks,
		s.Starts, s.Failovers, s.Events, strings.Join(faults, ", "))
}

// addRun adds the counts of another run.
func (s *FaultStats) addRun(o *FaultStats) {
	s.Jobs += o.Jobs
	s.Tasks += o.Tasks
	s.Starts += o.Starts
	s.Failovers += o.Failovers
	s.Refusals += o.Refusals
	s.Events += o.Events
	for kind, n := range o.Faults {
		s.Faults[kind] += n
	}
	for kind, n := range o.Seen {
		s.Seen[kind] += n
	}
	for i, n := range o.Outcomes {
		s.Outcomes[i] += n
	}
	for i, n := range o.Failures {
		s.Failures[i] += n
	}
	addStats(&s.Frontends, &o.Frontends)
	addStats(&s.Workers, &o.Workers)
}
