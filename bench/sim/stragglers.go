package sim

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/phoebe-sched/phoebe/bench"
	"github.com/phoebe-sched/phoebe/frontend"
	"github.com/phoebe-sched/phoebe/frontend/estimate"
	"github.com/phoebe-sched/phoebe/probe"
	"github.com/phoebe-sched/phoebe/worker"
)

// Stragglers are tasks that take Times as long as others because of inputs Times as large. Data is their share of
// all tasks. Other tasks straggle because of the Spells of their machines.
type Stragglers struct{ Data, Times float64 }

// usualInput is the size in bytes of a usual input, read in next to no time.
const usualInput = 1 << 20

// stragglers holds the stragglers of a run, and the measurements.
type stragglers struct {
	rng    *rand.Rand
	tasks  map[taskKey]*trackedTask
	copies map[probe.AttemptID]time.Duration // running second attempts, by start
	work   time.Duration                     // the run time of ended second attempts
	seen   bench.SimStragglers
}

// taskKey identifies a task of a run.
type taskKey struct {
	job  int
	task probe.TaskIndex
}

// trackedTask is any task of a run with stragglers. Most such tasks are not slow.
type trackedTask struct {
	// the causes why the task is slow; machine: its first attempt takes at least twice as long as elsewhere
	data, machine bool
	bytes         int64
	starts        int
}

// drawStragglers draws the tasks of a job with large inputs, and returns the durations of all tasks at a machine
// of full speed. Every run of a seed has the same stragglers.
func (r *runner) drawStragglers(n int, usual []time.Duration) []time.Duration {
	s, cfg := &r.stragglers, r.cfg.Stragglers
	durations := slices.Clone(usual)
	for i := range durations {
		x := &trackedTask{data: s.rng.Float64() < cfg.Data, bytes: usualInput}
		if x.data {
			x.bytes = int64(usualInput * cfg.Times)
			durations[i] = time.Duration(float64(durations[i]) * cfg.Times)
		}
		s.tasks[taskKey{n, probe.TaskIndex(i)}] = x
	}
	return durations
}

// addInputs gives each task its input. All workers are equally near to the inputs.
func (s *stragglers) addInputs(n int, job *frontend.Job) {
	for i := range job.Tasks {
		job.Tasks[i].Inputs = []frontend.Input{{Bytes: s.tasks[taskKey{n, probe.TaskIndex(i)}].bytes,
			Copies: []estimate.Copy{{Rack: rackName(0)}}}}
	}
}

// noteAttemptStart notes the start of an attempt: a second attempt is a copy.
func (r *runner) noteAttemptStart(w *workerNode, start *worker.Start) {
	s := &r.stragglers
	n := jobOf(start.Job)
	x := s.tasks[taskKey{n, start.Launch.Task}]
	if x.starts++; x.starts == 1 {
		x.machine = r.spells != nil && r.spellDelay(w, start) >= durationOf(start.Launch.Payload)
	} else {
		s.copies[start.Launch.Attempt] = r.now
	}
	if r.isCounted(n) {
		s.countStart(x)
	}
}

// countStart counts the first or second start of a task.
func (s *stragglers) countStart(x *trackedTask) {
	add := func(n *int, yes bool) {
		if yes {
			*n++
		}
	}
	if x.starts == 1 {
		add(&s.seen.Machine, x.machine && !x.data)
		add(&s.seen.Data, x.data && !x.machine)
		return
	}
	s.seen.Copies++
	add(&s.seen.Caught, x.machine && !x.data)
	add(&s.seen.InVain, x.data && !x.machine)
}

// countSpared counts the spared tasks of a job that has ended: slow because of the machine, without a copy, and without
// need of a copy, because another task of the job ended last.
func (s *stragglers) countSpared(n, tasks int, last probe.TaskIndex) {
	for i := range tasks {
		id := taskKey{n, probe.TaskIndex(i)}
		if x := s.tasks[id]; x != nil && x.machine && !x.data && x.starts == 1 && id.task != last {
			s.seen.Spared++
		}
	}
}

// noteCopyEnd notes how long an attempt ran, if the attempt was a copy.
func (s *stragglers) noteCopyEnd(start *worker.Start, now time.Duration) {
	if began, ok := s.copies[start.Launch.Attempt]; ok {
		delete(s.copies, start.Launch.Attempt)
		s.work += now - began
	}
}

const (
	// soundLine is the line of clusters without slow machines: no copies can do better.
	soundLine             = "no machine is slow"
	muteLine, tellingLine = "phoebe", "phoebe, tasks tell how far they are"
)

// stragglersFigure is about late tasks and their copies.
var stragglersFigure = Figure{
	Name: "stragglers", Title: "Late tasks and their copies",
	Claim: "Machines run at a fifth of their speed for a twentieth of the time, 5 % of the tasks take five times as " +
		"long because of their data, and tasks report progress. Then " +
		"at least 70 % of the tasks that take twice as long because of the machine have a copy, not counting tasks " +
		"without a copy that end before another task of their job. At most 10 % of the tasks that take long " +
		"because of their data have a copy. " +
		"Copies take at most 3 % of the work, and the p99 of jobs falls by a quarter.",
	axis: bench.Axis{Label: "share of tasks that may have a copy, %"}, seeds: [...]int{3, 5},
	views: []view{
		{title: "p99 response, ms", metric: p99Response}, {title: "mean response, ms", metric: meanResponse},
		{title: "slow because of the machine, with a copy, %", metric: caughtShare},
		{title: "slow because of their data, with a copy, %", metric: inVainShare},
		{title: "copies, % of the tasks", metric: copiedTasks}, {title: "copies, % of the work", metric: copyWork},
	},
	parts: func(s FigureScale) []part {
		var parts []part
		add := func(share float64, spells Spells, tells bool) {
			w := longSweep(s.pickSize(40, 200), s.pickSize(400, 3000), "phoebe")
			w.Estimates, w.Stragglers, w.SecondAttempts, w.Racks =
				Estimates{Absent: true}, Stragglers{0.05, 5}, share/100, 1
			w.Spells, w.ReportsProgress, w.Ping = spells, tells, time.Second
			w.Loads = []float64{0.5} // without the additional work of stragglers, a third more
			parts = append(parts, part{x: share, sweep: w})
		}
		for _, share := range []float64{0, 3, 10} {
			add(share, Spells{}, true)
			add(share, longSpells, false)
			add(share, longSpells, true)
		}
		return parts
	},
	locate: func(p *part, r *Result) (string, float64) {
		switch {
		case p.sweep.Spells == Spells{}:
			return soundLine, p.x
		case p.sweep.ReportsProgress:
			return tellingLine, p.x
		}
		return muteLine, p.x
	},
	check: func(d *figureData) []Check {
		var checks []Check
		best, bestMean := d.ratioOf(soundLine, 0, muteLine, 0, p99Response),
			d.ratioOf(soundLine, 0, muteLine, 0, meanResponse)
		for _, line := range []string{muteLine, tellingLine} {
			for _, x := range d.xs[1:] {
				p99, mean := d.ratioOf(line, x, muteLine, 0, p99Response), d.ratioOf(line, x, muteLine, 0, meanResponse)
				first, second, work := d.meanOf(line, x, caughtShare), d.meanOf(line, x, inVainShare),
					d.meanOf(line, x, copyWork)
				ok := line == muteLine || d.meanOf(line, x, caughtOfRest) >= 70 && second <= 10 && work <= 3 &&
					p99 <= 0.75
				checks = append(checks, newCheck(ok, "%s, up to %g %% copies: of the tasks slow because of the "+
					"machine %.0f %% have a copy, %.0f %% needed none, and of the rest %.0f %% have a copy; of the "+
					"tasks slow because of their data %.0f %% have a copy; "+
					"copies are %.1f %% of the tasks and %.1f %% of the work; p99 is %.2f times that without copies "+
					"(%.2f if no machine were slow), the mean %.2f times (%.2f)",
					line, x, first, d.meanOf(line, x, sparedShare), d.meanOf(line, x, caughtOfRest), second,
					d.meanOf(line, x, copiedTasks), work, p99, best, mean, bestMean))
			}
		}
		return checks
	},
}

// longSpells slow most tasks in a spell to their end.
var longSpells = Spells{Share: 0.05, Times: 5, Length: 5 * time.Minute}

func caughtShare(r *bench.SimRun) float64 {
	return 100 * float64(r.Stragglers.Caught) / float64(max(r.Stragglers.Machine, 1))
}
func sparedShare(r *bench.SimRun) float64 {
	return 100 * float64(r.Stragglers.Spared) / float64(max(r.Stragglers.Machine, 1))
}
func caughtOfRest(r *bench.SimRun) float64 {
	return 100 * float64(r.Stragglers.Caught) / float64(max(r.Stragglers.Machine-r.Stragglers.Spared, 1))
}
func inVainShare(r *bench.SimRun) float64 {
	return 100 * float64(r.Stragglers.InVain) / float64(r.Stragglers.Data)
}
func copiedTasks(r *bench.SimRun) float64 {
	return 100 * float64(r.Stragglers.Copies) / float64(r.Tasks)
}
func copyWork(r *bench.SimRun) float64 { return 100 * r.Stragglers.Work }
