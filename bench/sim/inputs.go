package sim

import (
	"fmt"
	"strconv"
	"time"

	"github.com/phoebe-sched/phoebe/frontend"
	"github.com/phoebe-sched/phoebe/frontend/estimate"
	"github.com/phoebe-sched/phoebe/worker"
)

// needs describes the inputs and stages of the tasks of a job.
type needs struct {
	stage   []int             // of each task
	copies  [][]estimate.Copy // of each task's input; nil: the output of the stage before
	tasksAt [][]int32         // by stage and worker: number of tasks that ended there
	ended   []int             // by stage: number of ended tasks
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

// addNeeds gives stages to a job, and inputs to its tasks.
func (r *runner) addNeeds(j *jobRun, spec *frontend.Job) {
	stages := min(max(r.cfg.Stages, 1), len(j.tasks))
	n := &needs{stage: make([]int, len(j.tasks)), copies: make([][]estimate.Copy, len(j.tasks)),
		tasksAt: make([][]int32, stages), ended: make([]int, stages)}
	for i := range stages {
		n.tasksAt[i] = make([]int32, r.cfg.Workers)
		if stages > 1 {
			s := frontend.Stage{Name: fmt.Sprint("s", i)}
			if i > 0 {
				s.After = []string{spec.Stages[i-1].Name}
			}
			spec.Stages = append(spec.Stages, s)
		}
	}
	for i := range spec.Tasks {
		t := &spec.Tasks[i]
		n.stage[i] = i * stages / len(j.tasks)
		if t.Stage = int32(n.stage[i]); r.cfg.Input == 0 {
			continue
		}
		in := frontend.Input{Bytes: r.cfg.Input}
		if n.stage[i] == 0 {
			n.copies[i] = r.drawCopies()
			in.Copies = n.copies[i]
			if r.cfg.Policy.strictLocality {
				for _, c := range in.Copies {
					t.Constraint.Hosts = append(t.Constraint.Hosts, c.At)
				}
			}
		} else {
			in.Stage = spec.Stages[n.stage[i]-1].Name
		}
		t.Inputs = []frontend.Input{in}
	}
	j.needs = n
}

// drawCopies draws the hosts of an input: a first host, a second in another rack, and the rest in the rack of the
// second.
func (r *runner) drawCopies() []estimate.Copy {
	rack := func(w int) int { return w % max(r.cfg.Racks, 1) }
	var at []int
	for range max(r.cfg.Copies, 1) {
		w := 0
		for range 100 { // a cluster may be too small for such hosts
			w = r.inputRng.IntN(r.cfg.Workers)
			if len(at) == 0 || w != at[0] && (r.cfg.Racks < 2 || rack(w) != rack(at[0]) &&
				(len(at) == 1 || rack(w) == rack(at[1]) && w != at[1])) {
				break
			}
		}
		at = append(at, w)
	}
	all := make([]estimate.Copy, len(at))
	for i, w := range at {
		all[i] = estimate.Copy{At: r.workers[w].welcome.Host}
	}
	return all
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
	if task := int(s.Launch.Task); j.needs.copies[task] != nil {
		nearest := 2
		for _, c := range j.needs.copies[task] {
			nearest = min(nearest, distance(r.workers[numberOf(c.At)]))
		}
		bytes[nearest] = float64(r.cfg.Input)
	} else {
		before := j.needs.stage[task] - 1
		for i, tasks := range j.needs.tasksAt[before] {
			bytes[distance(r.workers[i])] += float64(r.cfg.Input) * float64(tasks) / float64(j.needs.ended[before])
		}
	}
	if r.isCounted(n) {
		r.readingTasks++
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
