package sim

import (
	"math"
	"time"

	"github.com/phoebe-sched/phoebe/bench"
	"github.com/phoebe-sched/phoebe/frontend"
	"github.com/phoebe-sched/phoebe/frontend/estimate"
	"github.com/phoebe-sched/phoebe/probe"
	"github.com/phoebe-sched/phoebe/worker"
)

// maxReplays bounds the promises of a run that are judged against a replay. The judged ones are spread
// evenly.
const maxReplays = 500

// promises compares the waits that frontends promise with the real waits. A wait may differ from its promise
// because other tasks came later and went first. So the events of all workers are kept, and a worker can be
// replayed as if nothing had come after a task.
type promises struct {
	meanRun  time.Duration // of the tasks, which run exponentially long
	logs     []workerLog   // by worker
	enqueued map[probe.AttemptID]int
	started  map[taskKey]loggedPlace
	judged   []promise
}

// workerLog holds the events that can change the queue of a worker.
type workerLog struct {
	cfg    worker.Config
	speed  float64
	events []loggedEvent
}

// loggedEvent is an event of a worker.
type loggedEvent struct {
	at    time.Duration
	event worker.Event
}

// loggedPlace is the place in a queue at which a task waited.
type loggedPlace struct {
	worker  int
	entered int // index of the event in the log of the worker
	attempt probe.AttemptID
}

// promise is the promised and the real wait of a task in its worker's queue.
type promise struct {
	loggedPlace
	promised, waited time.Duration
}

// judgePromises makes r compare promises with waits.
func (r *runner) judgePromises(meanRun time.Duration) {
	p := &promises{meanRun: meanRun, enqueued: map[probe.AttemptID]int{}, started: map[taskKey]loggedPlace{}}
	for _, w := range r.workers {
		p.logs = append(p.logs, workerLog{cfg: w.cfg, speed: w.speed})
	}
	r.promises = p
	r.afterWorker = func(w *workerNode, ev worker.Event) { p.logEvent(w.index, r.now, ev) }
}

// logEvent logs an event of a worker. Questions and checks of connections do not change a queue, and are left
// out. A replay reports by itself when messages have left.
func (p *promises) logEvent(index int, at time.Duration, ev worker.Event) {
	l := &p.logs[index]
	switch ev := ev.(type) {
	case worker.Sent:
		return
	case worker.Received:
		switch m := ev.Msg.(type) {
		case probe.Ping, probe.Probe, probe.Ack, probe.Sync:
			return
		case probe.Enqueue:
			p.enqueued[m.Launch.Attempt] = len(l.events)
		}
	}
	l.events = append(l.events, loggedEvent{at, ev})
}

// noteStart notes where a task waited.
func (p *promises) noteStart(w *workerNode, s *worker.Start) {
	id := s.Launch.Attempt
	p.started[taskKey{jobOf(s.Job), s.Launch.Task}] = loggedPlace{w.index, p.enqueued[id], id}
}

// noteOutcome judges the last promise for a task that has ended. A task that moved has an earlier promise,
// too.
func (p *promises) noteOutcome(job int, o *frontend.Outcome) {
	p.judged = append(p.judged, promise{p.started[taskKey{job, o.Task}], o.ExpectedWait, o.Waited})
}

// isKept reports whether a promise is within 10 % or 1 s of a wait.
func isKept(promised, waited time.Duration) bool {
	var a estimate.Accuracy
	a.Add(promised, waited)
	return a.Good == 1
}

// rateAll returns the quality of all promises.
func (p *promises) rateAll() *bench.SimPromises {
	s := &bench.SimPromises{Tasks: len(p.judged)}
	if s.Tasks == 0 {
		return s
	}
	var queued []*promise
	keptQueued, concerned := 0, 0 // concerned: a wait was promised, or was real
	for i := range p.judged {
		x := &p.judged[i]
		kept := isKept(x.promised, x.waited)
		if kept {
			s.Kept++
		}
		if x.waited > 0 || x.promised > 0 {
			concerned++
			if kept {
				keptQueued++
			}
		}
		if x.waited == 0 { // nothing that came later did harm
			s.Foreseen++
			s.BestBlind++
			if kept {
				s.KeptAlone++
			}
		} else {
			queued = append(queued, x)
		}
		s.OffS += (x.promised - x.waited).Abs().Seconds()
	}
	replays := min(len(queued), maxReplays)
	best := map[int]float64{}
	for i := range replays {
		x := queued[i*len(queued)/replays]
		weight := float64(len(queued)) / float64(replays)
		l := &p.logs[x.worker]
		alone, ahead := l.replayAlone(x.entered, x.attempt)
		if isKept(x.promised, alone) {
			s.KeptAlone += weight
		}
		if isKept(alone, x.waited) {
			s.Foreseen += weight
		}
		ends := ahead + 1 // of tasks, until the task starts
		if _, known := best[ends]; !known {
			best[ends] = bestChance(ends, p.meanRun/time.Duration(probe.Slot.Times(l.cfg.Capacity)))
		}
		s.BestBlind += weight * best[ends]
	}
	n := float64(s.Tasks)
	s.Queued = float64(len(queued)) / n
	s.KeptQueued = float64(keptQueued) / float64(max(concerned, 1))
	if concerned == 0 {
		s.KeptQueued = 1
	}
	for _, sum := range []*float64{&s.Kept, &s.KeptAlone, &s.Foreseen, &s.BestBlind, &s.OffS} {
		*sum /= n
	}
	return s
}

// replay is a worker in virtual time that gets logged events, and runs its tasks.
type replay struct {
	clock
	core    *worker.Core
	log     *workerLog
	running []replayedRun
	watched probe.AttemptID
	started bool // the watched attempt
	starts  int  // of other attempts, since the watched attempt entered the queue
}

// replayedRun is a running attempt of a replay.
type replayedRun struct {
	attempt probe.AttemptID
	end     time.Duration
	run     time.Duration
}

// replayAlone returns how long an attempt waits at the worker if nothing comes after the event at which the
// attempt entered the queue, and how many other tasks start before the attempt.
func (l *workerLog) replayAlone(entered int, id probe.AttemptID) (wait time.Duration, ahead int) {
	r := &replay{core: worker.New(l.cfg), log: l, watched: id}
	for _, e := range l.events[:entered+1] {
		r.stepCore(e.at, e.event)
	}
	from := r.now
	for r.starts = 0; !r.started; {
		if !r.stepNext() {
			return math.MaxInt64, r.starts // the attempt never starts
		}
	}
	return r.now - from, r.starts
}

// stepNext steps the worker at the next end of a run or wake-up, or returns false if there is neither.
func (r *replay) stepNext() bool {
	first := -1
	for i := range r.running {
		if first < 0 || r.running[i].end < r.running[first].end {
			first = i
		}
	}
	wake := r.core.NextWake()
	switch at := wake.Sub(origin); {
	case first >= 0 && (wake.IsZero() || r.running[first].end <= at):
		x := r.running[first]
		r.stepCore(x.end, &worker.Exited{Attempt: x.attempt, Status: probe.Succeeded, Run: x.run})
	case !wake.IsZero():
		r.stepCore(max(at, r.now), worker.Wake{})
	default:
		return false
	}
	return true
}

// stepCore steps the worker's core, and starts tasks.
func (r *replay) stepCore(at time.Duration, ev worker.Event) {
	r.now = at
	if e, ok := ev.(*worker.Exited); ok {
		for i := range r.running {
			if r.running[i].attempt == e.Attempt {
				r.running = append(r.running[:i], r.running[i+1:]...)
				break
			}
		}
		copied := *e // the core may change the event
		ev = &copied
	}
	var reported []worker.LinkID
	for _, a := range r.core.Step(r.timeNow(), ev, nil) {
		switch a := a.(type) {
		case *worker.Start:
			run := time.Duration(float64(durationOf(a.Launch.Payload)) / r.log.speed)
			r.running = append(r.running, replayedRun{a.Launch.Attempt, at + run, run})
			if a.Launch.Attempt == r.watched {
				r.started = true
			} else if !r.started {
				r.starts++
			}
		case *worker.Send:
			if a.Report {
				reported = append(reported, a.Link)
			}
		}
	}
	for _, link := range reported {
		r.stepCore(at, worker.Sent{Link: link})
	}
}

// bestChance returns the largest chance of any promise to be within 10 % or 1 s of a wait, if the wait is
// until the last of a number of ends, and the times between ends are exponential with a mean. Of tasks that
// run exponentially long, nothing else is known before they end, however long they have run.
func bestChance(ends int, mean time.Duration) float64 {
	// chance is that of a wait up to x means, by the law of Erlang.
	chance := func(x float64) float64 {
		if x <= 0 {
			return 0
		}
		term, sum := math.Exp(-x), 0.0
		for i := range ends {
			sum += term
			term *= x / float64(i+1)
		}
		return 1 - sum
	}
	best := 0.0
	second := time.Second.Seconds() / mean.Seconds()
	step := min(second/4, math.Sqrt(float64(ends))/200)
	for p := 0.0; p <= float64(ends)+3*math.Sqrt(float64(ends)); p += step {
		best = max(best, chance(max(p+second, p/0.9))-chance(min(p-second, p/1.1)))
	}
	return best
}
