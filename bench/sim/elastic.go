package sim

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/phoebe-sched/phoebe/bench"
	"github.com/phoebe-sched/phoebe/frontend"
	"github.com/phoebe-sched/phoebe/frontend/estimate"
	"github.com/phoebe-sched/phoebe/probe"
	"github.com/phoebe-sched/phoebe/worker"
)

// Lines of the figure elastic: what happens to the fleet under a backlog of long tasks.
const (
	doublesLine = "the fleet doubles"
	losesLine   = "the fleet loses a third"
	sameLine    = "the fleet stays"
	// atRandom ends the names of lines in which each estimate is ten times too long or too short, at random.
	atRandom = ", each estimate wrong at random"
)

const (
	elasticSlots     = 4                // of a worker
	elasticPerSlot   = 50               // tasks of the backlog for each slot
	elasticChangesAt = 50 * time.Second // a fifth of the backlog has run by then
	elasticFrontends = 2                // each has half of the backlog
)

// elasticFigure is about a fleet that grows and shrinks under a backlog.
var elasticFigure = Figure{
	Name: "elastic", Title: "A fleet that grows and shrinks under a backlog",
	Claim: "A fleet doubles, or loses a third, under a backlog of long tasks. From the change on, the backlog takes " +
		"at most 1.1 times as long as with a central queue that knows all run times and begins the longest tasks " +
		"first, also if all estimates are ten times too long, or too short. If each estimate is one or the other, at " +
		"random, nobody can tell the longest tasks, and the bar is a central queue in order. A task moves between " +
		"queues twice at most. If the fleet stays, a task moves 0.1 times on average at most.",
	axis: bench.Axis{Label: "estimate over run time", Scale: bench.Log}, seeds: [...]int{5, 5},
	views: []view{
		{title: "time from the change over that of a queue that knows all, longest tasks first", metric: overLongest},
		{title: "time from the change over that of a queue in order", metric: overInOrder},
		{title: "moves of a task", metric: movesOfTask},
		{title: "messages per task", metric: messagesPerTask},
	},
	playSeed: func(o FigureOptions, seed uint64, add func(line string, x float64, r *bench.SimRun)) {
		workers := o.Scale.pickSize(12, 60)
		if o.Jobs > 0 {
			workers = max(o.Jobs*elasticJobTasks/(elasticSlots*elasticPerSlot), 1)
		}
		for _, line := range []string{doublesLine, losesLine, sameLine} {
			factors := []float64{0.1, 1, 10}
			for _, factor := range factors {
				add(line, factor, playElastic(workers, line, []float64{factor}, seed))
			}
			r := playElastic(workers, line, []float64{0.1, 10}, seed)
			for _, factor := range factors { // the run stands at every place of the axis
				add(line+atRandom, factor, r)
			}
		}
	},
	setup: fmt.Sprintf("2 frontends, and 12 workers (60 at full scale) of %d slots, with a backlog of %d tasks for "+
		"each slot in jobs of %d, placed by estimation, lognormal:0.5,5s, after %v the fleet changes, round trips of "+
		"1 ms; the central queues have no delay", elasticSlots, elasticPerSlot,
		elasticJobTasks, elasticChangesAt),
	check: func(d *figureData) []Check {
		var checks []Check
		for _, line := range d.lines {
			bar, other, order, otherOrder := metric(overLongest), metric(overInOrder), "longest first", "in order"
			if strings.HasSuffix(line, atRandom) {
				bar, other, order, otherOrder = other, bar, otherOrder, order
			}
			worst, at, most, moves := 0.0, 0.0, 0.0, 0.0
			for _, x := range d.xs {
				if ratio := d.meanOf(line, x, bar); ratio > worst {
					worst, at = ratio, x
				}
				most, moves = max(most, d.meanOf(line, x, mostMoves)), max(moves, d.meanOf(line, x, movesOfTask))
			}
			ok := worst <= 1.1 && most <= 2 && (!strings.HasPrefix(line, sameLine) || moves <= 0.1)
			checks = append(checks, newCheck(ok, "%s: the backlog takes at most %.3f times as long as with a central "+
				"queue %s (estimate over run time: %g), and there %.3f times as long as with a central queue %s; a "+
				"task moves at most %.3f times on average, and one task at most %.1f times",
				line, worst, order, at, d.meanOf(line, at, other), otherOrder, moves, most))
		}
		return checks
	},
}

func overLongest(r *bench.SimRun) float64 { return r.Elastic.OverLongest }
func overInOrder(r *bench.SimRun) float64 { return r.Elastic.OverInOrder }
func movesOfTask(r *bench.SimRun) float64 { return r.Elastic.Moves }
func mostMoves(r *bench.SimRun) float64   { return float64(r.Elastic.MostMoves) }

// elasticJobTasks is the number of tasks of a job in the backlog.
const elasticJobTasks = 20

// elasticRun is a backlog on a fleet that changes.
type elasticRun struct {
	cluster
	waiting []*elasticTask // all tasks, in order of submission
	open    int            // tasks without an outcome
	endedAt time.Duration
	moves   int
	most    int // moves of a task
}

// elasticTask is a task of the backlog.
type elasticTask struct {
	run       time.Duration
	startedAt time.Duration // of the last start; 0: not started
	worker    *workerNode   // where the task started
	ended     bool
}

// playElastic plays a backlog on a fleet of workers until the end. The estimate of a task is one of factors times the
// run time.
func playElastic(workers int, line string, factors []float64, seed uint64) *bench.SimRun {
	r := &elasticRun{}
	r.rng = rand.New(rand.NewPCG(seed, 'e'))
	r.net = network{delay: 500 * time.Microsecond, lease: 3 * time.Second, ping: time.Second}
	byTask := map[taskKey]*elasticTask{}
	r.onAnswer = func(_ *frontendNode, a frontend.Action) {
		switch a := a.(type) {
		case *frontend.Done:
			r.noteOutcome(byTask[taskKey{jobOf(a.Job), a.Outcome.Task}], &a.Outcome)
		case frontend.Refused:
			panic(fmt.Sprintf("sim: figure elastic: a job is refused: %v", a.Err))
		}
	}
	r.onStart = func(w *workerNode, s *worker.Start) {
		x := byTask[taskKey{jobOf(s.Job), s.Launch.Task}]
		x.startedAt, x.worker = r.now, w
	}
	for range workers {
		r.addWorker(elasticWorker, 1)
	}
	for i := range elasticFrontends {
		r.addFrontend(frontend.Config{MaxPending: math.MaxInt / 2, MaxWait: math.MaxInt64 / 2}, seed+uint64(i)<<32)
	}
	began := 10 * time.Millisecond // links are up by then
	r.playUntil(began)
	r.messages = 0
	r.tellOthers()
	draw := rand.New(rand.NewPCG(seed, 'f')) // the run times are the same for all factors
	durations := must(bench.ParseDurations("lognormal:0.5,5s"))
	jobs := workers * elasticSlots * elasticPerSlot / elasticJobTasks
	for n := range jobs {
		job := &frontend.Job{ID: jobID(n + 1), Policy: frontend.Policies[0], Mode: estimate.Estimate}
		runs := make([]time.Duration, elasticJobTasks)
		durations.Draw(r.rng, runs)
		for i, run := range runs {
			x := &elasticTask{run: run}
			r.waiting = append(r.waiting, x)
			byTask[taskKey{n + 1, probe.TaskIndex(i)}] = x
			factor := factors[draw.IntN(len(factors))]
			job.Tasks = append(job.Tasks, frontend.Task{Index: probe.TaskIndex(i), Function: sleepFunction,
				Payload: payloadOf(run), Retryable: true, Estimate: time.Duration(factor * float64(run))})
		}
		must(0, r.stepFrontend(r.frontends[n%elasticFrontends], frontend.Submit{Job: job}))
	}
	r.open = len(r.waiting)
	r.playUntil(began + elasticChangesAt)
	slots := r.changeFleet(line)
	inOrder, longest := r.timeCentral(slots, false), r.timeCentral(slots, true)
	for r.open > 0 {
		r.playUntil(r.now + time.Second)
	}
	took := (r.endedAt - began - elasticChangesAt).Seconds()
	return &bench.SimRun{
		Policy: "phoebe", Workers: workers, Slots: elasticSlots, Frontends: elasticFrontends,
		MessagesPerTask: float64(r.messages) / float64(len(r.waiting)),
		Elastic: &bench.SimElastic{
			OverInOrder: took / inOrder.Seconds(), OverLongest: took / longest.Seconds(),
			Moves: float64(r.moves) / float64(len(r.waiting)), MostMoves: r.most,
		},
	}
}

// elasticWorker is the configuration of each worker.
var elasticWorker = worker.Config{Capacity: slotsOf(elasticSlots), Functions: []string{sleepFunction}, ShortShare: -1}

// playUntil plays the events until a time.
func (r *elasticRun) playUntil(end time.Duration) {
	for at, ok := r.nextTime(); ok && at <= end; at, ok = r.nextTime() {
		must(0, r.stepEvent())
	}
	r.now = end
}

// tellOthers tells each frontend of the other, once a second.
func (r *elasticRun) tellOthers() {
	for i, f := range r.frontends {
		must(0, r.stepFrontend(f, frontend.Others{Self: fmt.Sprint("f", i), Members: []string{"f0", "f1"}}))
	}
	r.callAt(r.now+time.Second, r.tellOthers)
}

// noteOutcome notes the end of a task, and counts the moves of the task.
func (r *elasticRun) noteOutcome(x *elasticTask, o *frontend.Outcome) {
	if o.Kind != frontend.Result || x.ended {
		panic(fmt.Sprintf("sim: figure elastic: an outcome %+v", o))
	}
	x.ended = true
	r.open--
	r.endedAt = r.now
	moves := countMoves(o)
	r.moves, r.most = r.moves+moves, max(r.most, moves)
}

// changeFleet doubles the fleet, or kills a third of the workers. It returns the slots from then on.
func (r *elasticRun) changeFleet(line string) int {
	n := len(r.workers)
	switch line {
	case doublesLine:
		for range n {
			r.joinWorker(elasticWorker)
		}
		n *= 2
	case losesLine:
		for _, w := range r.workers[:n/3] {
			r.crashWorker(w, true)
		}
		n -= n / 3
	}
	return n * elasticSlots
}

// timeCentral returns how long a central queue would take from now on. The running tasks go on, and the other tasks
// begin on the given number of slots, without delay: in order of submission, or the longest first.
func (r *elasticRun) timeCentral(slots int, longestFirst bool) time.Duration {
	queue := centralQueue{freeAt: make([]time.Duration, slots)}
	var runs []time.Duration
	for _, x := range r.waiting {
		switch {
		case x.ended:
		case x.startedAt > 0 && !x.worker.down:
			queue.addTask(0, max(x.startedAt+x.run-r.now, 0))
		default:
			runs = append(runs, x.run)
		}
	}
	if longestFirst {
		slices.SortFunc(runs, func(a, b time.Duration) int { return int(b - a) })
	}
	for _, run := range runs {
		queue.addTask(0, run)
	}
	return queue.freeAt[slots-1]
}
