package sim

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/phoebe-sched/phoebe/frontend"
	"github.com/phoebe-sched/phoebe/frontend/estimate"
	"github.com/phoebe-sched/phoebe/worker"
)

// arrivalStage is a stage of a job.
type arrivalStage struct {
	tasks int     // number of tasks; the tasks of a job are in the order of its stages
	after []int   // earlier stages that must end first
	at    [][]int // by task: the workers with a copy of the task's input; nil: the tasks have no such inputs
}

// needs describes the inputs and stages of the tasks of a job.
type needs struct {
	stages  []arrivalStage
	stage   []int     // of each task
	at      [][]int   // of each task: the workers with a copy of its input; nil: the outputs of earlier stages
	tasksAt [][]int32 // by stage and worker: number of tasks that ended there
	ended   []int     // by stage: number of ended tasks
}

// numberOf returns the number in the name of a worker, host, rack or frontend.
func numberOf(name string) int {
	n, err := strconv.Atoi(name[1:])
	if err != nil {
		panic(fmt.Sprintf("sim: %q: %v", name, err))
	}
	return n
}

// rackName returns the name of rack i.
func rackName(i int) string { return fmt.Sprint("r", i) }

// drawStages divides the tasks of a job into stages that follow one another, and draws the places of inputs.
func (c *Config) drawStages(tasks int, rng *rand.Rand) []arrivalStage {
	all := make([]arrivalStage, min(max(c.Stages, 1), tasks))
	for i := range tasks {
		n := i * len(all) / tasks
		s := &all[n]
		s.tasks++
		if n > 0 {
			s.after = []int{n - 1}
		} else if c.Input > 0 {
			s.at = append(s.at, c.drawCopies(rng))
		}
	}
	return all
}

// drawCopies draws the workers with a copy of an input: a first worker, a second in another rack, and the rest in
// the rack of the second.
func (c *Config) drawCopies(rng *rand.Rand) []int {
	rack := func(w int) int { return w % max(c.Racks, 1) }
	var at []int
	for range max(c.Copies, 1) {
		w := 0
		for range 100 { // a cluster may be too small for such hosts
			w = rng.IntN(c.Workers)
			if len(at) == 0 || w != at[0] && (c.Racks < 2 || rack(w) != rack(at[0]) &&
				(len(at) == 1 || rack(w) == rack(at[1]) && w != at[1])) {
				break
			}
		}
		at = append(at, w)
	}
	return at
}

// addNeeds gives stages to a job, and inputs to its tasks.
func (r *runner) addNeeds(j *jobRun, spec *frontend.Job, stages []arrivalStage) {
	n := &needs{stages: stages, stage: make([]int, len(j.tasks)), at: make([][]int, len(j.tasks)),
		tasksAt: make([][]int32, len(stages)), ended: make([]int, len(stages))}
	name := func(stage int) string { return fmt.Sprint("s", stage) }
	task := 0
	for i, stage := range stages {
		n.tasksAt[i] = make([]int32, r.cfg.Workers)
		if len(stages) > 1 {
			s := frontend.Stage{Name: name(i)}
			for _, before := range stage.after {
				s.After = append(s.After, name(before))
			}
			spec.Stages = append(spec.Stages, s)
		}
		for k := range stage.tasks {
			t := &spec.Tasks[task]
			t.Stage, n.stage[task] = int32(i), i
			if j.own != nil {
				t.Class = name(i)
			}
			if stage.at != nil {
				n.at[task] = stage.at[k]
				r.addInput(j, t, stage.at[k])
			} else if r.cfg.Input > 0 {
				for _, before := range stage.after {
					t.Inputs = append(t.Inputs, frontend.Input{Bytes: r.cfg.Input, Stage: name(before)})
				}
			}
			task++
		}
	}
	j.needs = n
}

// addInput gives t, a task of j, an input with copies at the given workers.
func (r *runner) addInput(j *jobRun, t *frontend.Task, at []int) {
	strict := r.cfg.Policy.strictLocality
	if j.own != nil {
		strict = j.own.policy.strictLocality
	}
	in := frontend.Input{Bytes: r.cfg.Input}
	for _, w := range at {
		host := r.workers[w].welcome.Host
		in.Copies = append(in.Copies, estimate.Copy{At: host})
		if strict {
			t.Constraint.Hosts = append(t.Constraint.Hosts, host)
		}
	}
	t.Inputs = []frontend.Input{in}
}

// inputReadTime returns the read time of a task that starts at w. Data on the worker's disk, in its rack and
// across racks is read at the rates assumed by frontends.
func (r *runner) inputReadTime(w *workerNode, s *worker.Start) time.Duration {
	n := jobOf(s.Job)
	j := r.jobs[n]
	if j.needs == nil || r.cfg.Input == 0 {
		return 0
	}
	rates := estimate.Config{}.Defaults().Rates
	var bytes [3]float64
	distance := func(at *workerNode) int {
		switch {
		case at == w:
			return 0
		case r.cfg.Racks > 0 && at.welcome.Rack == w.welcome.Rack:
			return 1
		}
		return 2
	}
	if task := int(s.Launch.Task); j.needs.at[task] != nil {
		nearest := 2
		for _, at := range j.needs.at[task] {
			nearest = min(nearest, distance(r.workers[at]))
		}
		bytes[nearest] = float64(r.cfg.Input)
	} else {
		for _, before := range j.needs.stages[j.needs.stage[task]].after {
			for i, tasks := range j.needs.tasksAt[before] {
				bytes[distance(r.workers[i])] += float64(r.cfg.Input) * float64(tasks) / float64(j.needs.ended[before])
			}
		}
	}
	if r.isCounted(n) {
		r.readingTasks++
		if bytes[1]+bytes[2] == 0 {
			r.nearTasks++
		}
		for i, b := range bytes {
			r.readSum[i] += b
		}
	}
	return time.Duration((bytes[0]/rates.Disk + bytes[1]/rates.Rack + bytes[2]/rates.Across) * 1e9)
}

// noteOutput notes that a task has left its output at a worker.
func (n *needs) noteOutput(task int, worker int) {
	stage := n.stage[task]
	n.tasksAt[stage][worker]++
	n.ended[stage]++
}
