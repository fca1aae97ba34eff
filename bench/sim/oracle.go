package sim

import (
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/phoebe-sched/phoebe/bench"
	"github.com/phoebe-sched/phoebe/frontend/estimate"
)

// recurring is an endless workload: a job of several stages that comes again and again, beside the jobs of
// other tenants. The load is that of the other tenants.
type recurring struct {
	every  time.Duration // from one recurring job to the next
	stages []recurringStage
	own    ownTerms
	others Kinds
	disks  Config // says where inputs lie: workers, racks and copies
}

// recurringName is the tenant of the recurring jobs.
const recurringName = "report"

// recurringStage is a stage of a recurring job.
type recurringStage struct {
	tasks      int
	run        time.Duration // mean; the logarithm of the tasks' run times has a deviation of 0.2
	after      []int         // earlier stages that must end first
	stragglers float64       // share of the tasks that run for any time from run to longest
	longest    time.Duration
}

func (w *recurring) newArrivals(seed uint64, load, slots float64) (*arrivals, error) {
	a, err := w.others.newArrivals(seed, load, slots)
	if err != nil {
		return nil, err
	}
	again := func(yield func(arrival) bool) {
		rng := rand.New(rand.NewPCG(seed, 'o'))
		for due := w.every / 10; ; due += w.every {
			job := w.drawJob(rng)
			if job.At = due; !yield(job) {
				return
			}
		}
	}
	a.jobs = mergeJobs(again, a.jobs, func(*arrival, int) {})
	a.listed, a.staged = true, true
	return a, nil
}

// drawJob draws the run times of a recurring job, and the places of its inputs.
func (w *recurring) drawJob(rng *rand.Rand) arrival {
	job := arrival{tenant: recurringName, own: &w.own}
	for _, s := range w.stages {
		stage := arrivalStage{tasks: s.tasks, after: s.after}
		for range s.tasks {
			run := time.Duration(float64(s.run) * math.Exp(0.2*rng.NormFloat64()-0.02))
			if rng.Float64() < s.stragglers {
				run = s.run + time.Duration(rng.Float64()*float64(s.longest-s.run))
			}
			job.Tasks = append(job.Tasks, run)
			if s.after == nil {
				stage.at = append(stage.at, w.disks.drawCopies(rng))
			}
		}
		job.stages = append(job.stages, stage)
	}
	job.mean = job.Work() / time.Duration(len(job.Tasks))
	return job
}

// askOracles returns the responses of oracles to the jobs with own terms that count; nil if there are none.
func (r *runner) askOracles() *bench.SimOracle {
	var same, blind, free []time.Duration
	for i, j := range r.jobs {
		if j.own == nil || !r.isCounted(i) {
			continue
		}
		p := oraclePlan{stages: j.needs.stages, runs: r.addReads(j)}
		free = append(free, p.timeToEnd(0, true))
		same = append(same, p.timeToEnd(j.own.slots, true))
		blind = append(blind, p.timeToEnd(j.own.slots, false))
	}
	if free == nil {
		return nil
	}
	return &bench.SimOracle{Same: bench.SampleStats(same), Blind: bench.SampleStats(blind),
		Free: bench.SampleStats(free)}
}

// addReads returns the run times of a job's tasks with the time to read: an input with copies from the
// nearest disk, the outputs of a stage evenly from all workers.
func (r *runner) addReads(j *jobRun) []time.Duration {
	rates := estimate.Config{}.Defaults().Rates
	own, inRack := 1/float64(r.cfg.Workers), 1/float64(max(r.cfg.Racks, 1))
	if r.cfg.Racks == 0 {
		inRack = own
	}
	fromAll := own/rates.Disk + (inRack-own)/rates.Rack + (1-inRack)/rates.Across
	runs := slices.Clone(j.tasks)
	for i := range runs {
		stage := j.needs.stages[j.needs.stage[i]]
		seconds := float64(len(stage.after)) * fromAll
		if j.needs.at[i] != nil {
			seconds = 1 / rates.Disk
		}
		runs[i] += time.Duration(float64(r.cfg.Input) * seconds * 1e9)
	}
	return runs
}

// oraclePlan is a job to be planned by an oracle.
type oraclePlan struct {
	stages []arrivalStage
	runs   []time.Duration // by task, in the order of the stages
}

// timeToEnd returns how long the job takes on a number of slots (0: one for each task). Whenever a slot is
// free, the oracle starts the task with the longest way to the end of the job. If the run times are not
// known, the oracle takes the mean of a stage for each task, so it starts the tasks of a stage in their
// order.
func (p *oraclePlan) timeToEnd(slots int, known bool) time.Duration {
	if slots == 0 {
		slots = len(p.runs)
	}
	first := make([]int, len(p.stages)+1) // of each stage, its first task
	for i, s := range p.stages {
		first[i+1] = first[i] + s.tasks
	}
	expected := slices.Clone(p.runs)
	if !known {
		for i := range p.stages {
			sum := time.Duration(0)
			for _, run := range p.runs[first[i]:first[i+1]] {
				sum += run
			}
			for k := first[i]; k < first[i+1]; k++ {
				expected[k] = sum / time.Duration(first[i+1]-first[i])
			}
		}
	}
	behind := make([]time.Duration, len(p.stages)) // the longest way from the end of a stage to the end of the job
	for i := len(p.stages) - 1; i >= 0; i-- {
		way := behind[i] + slices.Max(expected[first[i]:first[i+1]])
		for _, before := range p.stages[i].after {
			behind[before] = max(behind[before], way)
		}
	}
	type running struct {
		end   time.Duration
		stage int
	}
	var (
		now        time.Duration
		ready      []int // tasks that may start, the longest way first
		busy       []running
		open       = make([]bool, len(p.stages))
		unfinished = make([]int, len(p.stages)) // tasks
		stage      = make([]int, len(p.runs))
	)
	for i, s := range p.stages {
		unfinished[i] = s.tasks
		for k := first[i]; k < first[i+1]; k++ {
			stage[k] = i
		}
	}
	for {
		for i, s := range p.stages {
			if open[i] || slices.ContainsFunc(s.after, func(before int) bool { return unfinished[before] > 0 }) {
				continue
			}
			open[i] = true
			for k := first[i]; k < first[i+1]; k++ {
				ready = append(ready, k)
			}
		}
		slices.SortStableFunc(ready, func(a, b int) int {
			return int((expected[b] + behind[stage[b]]) - (expected[a] + behind[stage[a]]))
		})
		for len(ready) > 0 && len(busy) < slots {
			busy = append(busy, running{now + p.runs[ready[0]], stage[ready[0]]})
			ready = ready[1:]
		}
		if len(busy) == 0 {
			return now
		}
		next := 0
		for i := range busy {
			if busy[i].end < busy[next].end {
				next = i
			}
		}
		x := busy[next]
		busy = slices.Delete(busy, next, next+1)
		now = x.end
		unfinished[x.stage]--
	}
}
