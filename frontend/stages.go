package frontend

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/phoebe-sched/phoebe/frontend/estimate"
)

// buildStages makes the state of a job's stages, or refuses the job if its stages are invalid. If j is an addition, the
// existing stages stay, and gain successors.
func (c *jobs) buildStages(j *job) *RefusedError {
	firstNew := len(j.stages)
	invalid := func(format string, args ...any) *RefusedError {
		return &RefusedError{Reason: Invalid, Message: fmt.Sprintf(format, args...)}
	}
	if len(j.Stages) > MaxStages {
		return &RefusedError{
			Reason: TooBigJob, Message: fmt.Sprintf("the job has %d stages, the limit is %d", len(j.Stages), MaxStages),
		}
	}
	if len(j.Stages) == 0 {
		for i := range j.Tasks {
			t := &j.Tasks[i]
			if t.Stage != 0 || slices.ContainsFunc(t.Inputs, func(in Input) bool { return in.Stage != "" }) {
				return invalid("task %d is of a stage or reads the output of one, and the job has no stages", t.Index)
			}
		}
		return nil
	}
	j.stages = slices.Grow(j.stages, len(j.Stages)-firstNew)
	numbers := make(map[string]int, len(j.Stages))
	for i, s := range j.Stages {
		switch _, repeated := numbers[s.Name]; {
		case s.Name == "":
			return invalid("stage %d has no name", i)
		case repeated:
			return invalid("two stages are called %q", s.Name)
		}
		numbers[s.Name] = i
		if i >= firstNew {
			j.stages = append(j.stages, stage{successes: s.Ran})
		}
	}
	for i := firstNew; i < len(j.Stages); i++ {
		s := &j.Stages[i]
		for k, name := range s.After {
			before, known := numbers[name]
			switch {
			case !known:
				return invalid("stage %q comes after %q, which is not among the job's stages", s.Name, name)
			case slices.Contains(s.After[:k], name):
				return invalid("stage %q comes after %q twice", s.Name, name)
			}
			j.stages[i].predecessors = append(j.stages[i].predecessors, before)
			j.stages[before].successors = append(j.stages[before].successors, i)
		}
		for k, name := range s.Along {
			if !slices.Contains(s.After, name) || slices.Contains(s.Along[:k], name) {
				return invalid("stage %q goes along %q: name it once, and among those that it comes after",
					s.Name, name)
			}
			j.stages[i].along = append(j.stages[i].along, numbers[name])
		}
	}
	order, cycle := j.stageOrder()
	if cycle != nil {
		return invalid("stages wait for each other: %s", strings.Join(cycle, " after "))
	}
	reads := stageReads{j: j, numbers: numbers, dependsOn: map[[2]int]bool{}}
	for i := range j.Tasks {
		t := &j.Tasks[i]
		if t.Stage < 0 || int(t.Stage) >= len(j.Stages) {
			return invalid("task %d is of stage %d of %d: count them from 0", t.Index, t.Stage, len(j.Stages))
		}
		s := &j.stages[t.Stage]
		if int(t.Stage) < firstNew && s.hasEnded() {
			return invalid("task %d is of stage %q, which has ended: others have started after it",
				t.Index, j.Stages[t.Stage].Name)
		}
		if int(t.Stage) < firstNew && j.hasStagesAlong(int(t.Stage)) {
			return invalid("task %d is of stage %q, which others go along: they may have started",
				t.Index, j.Stages[t.Stage].Name)
		}
		s.unfinished++
		s.longestRun = max(s.longestRun, c.expectRun(j.Tenant, t).Run)
		if why := reads.whyInvalid(t); why != "" {
			return invalid("%s", why)
		}
	}
	for i := firstNew; i < len(j.stages); i++ {
		for k := range j.Stages[i].Made {
			m := &j.Stages[i].Made[k]
			if m.Spec == nil {
				continue
			}
			if int(m.Spec.Stage) != i || m.Spec.Index != m.Task || m.Spec.Partition != m.Partition {
				return invalid(
					"task %d of stage %q has left something, and is told to be task %d of stage %d, in another partition perhaps",
					m.Task, j.Stages[i].Name, m.Spec.Index, m.Spec.Stage)
			}
			if why := reads.whyInvalid(m.Spec); why != "" {
				return invalid("%s", why)
			}
		}
		if j.stages[i].unfinished == 0 &&
			(j.Generation == 0 || firstNew > 0) { // a resubmitted job leaves out ended tasks
			return invalid("stage %q has no tasks", j.Stages[i].Name)
		}
	}
	if err := c.setPassingLimits(j, numbers, firstNew); err != nil {
		return err
	}
	for _, i := range slices.Backward(order) {
		s, longest := &j.stages[i], time.Duration(0)
		for _, k := range s.successors {
			longest = max(longest, j.stages[k].criticalPath)
		}
		s.criticalPath = s.longestRun + longest
	}
	for _, i := range order {
		j.updateBlocking(&j.stages[i])
	}
	return nil
}

// stageReads checks the stages read by tasks of a job.
type stageReads struct {
	j         *job
	numbers   map[string]int  // stages by name
	dependsOn map[[2]int]bool // answers of dependsOn, by pairs of stages
}

// whyInvalid says why a task may not read its inputs from stages, or wait for partitions; "": the task may.
func (r *stageReads) whyInvalid(t *Task) (why string) {
	j := r.j
	switch {
	case len(t.Along) > 0 && len(j.stages[t.Stage].along) == 0:
		return fmt.Sprintf("task %d lists partitions, and stage %q goes along none", t.Index, j.Stages[t.Stage].Name)
	case len(t.Along) > MaxInputs:
		return fmt.Sprintf("task %d lists %d partitions, the limit is %d", t.Index, len(t.Along), MaxInputs)
	}
	for k := range t.Inputs {
		name := t.Inputs[k].Stage
		if name == "" {
			continue
		}
		from, known := r.numbers[name]
		pair := [2]int{int(t.Stage), from}
		if _, asked := r.dependsOn[pair]; known && !asked {
			r.dependsOn[pair] = j.dependsOn(pair[0], from)
		}
		if !known || !r.dependsOn[pair] {
			return fmt.Sprintf("task %d: input %d is the output of %q, after which stage %q does not come",
				t.Index, k, name, j.Stages[t.Stage].Name)
		}
	}
	return ""
}

// updateBlocking notes in s how many predecessors have not ended, and whether s is ready.
func (j *job) updateBlocking(s *stage) { s.openPredecessors, s.ready = j.countBlocking(s) }

// countBlocking returns how many predecessors of s have not ended. The stage is ready if s goes along each unfinished
// predecessor.
func (j *job) countBlocking(s *stage) (n int, ready bool) {
	ready = true
	for _, k := range s.predecessors {
		if !j.stages[k].hasEnded() {
			n++
			ready = ready && slices.Contains(s.along, k)
		}
	}
	return n, ready
}

// hasStagesAlong reports whether another stage goes along stage k.
func (j *job) hasStagesAlong(k int) bool {
	return slices.ContainsFunc(j.stages[k].successors,
		func(i int) bool { return slices.Contains(j.stages[i].along, k) })
}

// awaitPartitions makes added tasks wait for partitions of the stages along which their own stage goes. A
// partition without tasks is not waited for.
func (j *job) awaitPartitions(fresh []*task) {
	for k := range j.stages {
		s := &j.stages[k]
		if s.unfinishedIn != nil || !j.hasStagesAlong(k) {
			continue
		}
		s.unfinishedIn, s.waitersFor = map[int32]int{}, map[int32][]*task{}
		for _, t := range j.tasks {
			if t.group.stageIndex == k && t.state != done {
				s.unfinishedIn[t.spec.Partition]++
			}
		}
	}
	for _, t := range fresh {
		if len(j.stages) == 0 {
			return
		}
		for _, k := range j.stages[t.group.stageIndex].along {
			for _, p := range t.spec.alongPartitions() {
				if s := &j.stages[k]; s.unfinishedIn[p] > 0 {
					s.waitersFor[p] = append(s.waitersFor[p], t)
					t.awaitedInputs++
				}
			}
		}
	}
}

// countDownPartition counts the end of t in its partition of s, a stage with stages along it. With the last task of the
// partition, tasks that waited for the partition only are freed.
func (c *jobs) countDownPartition(t *task, s *stage) {
	p := t.spec.Partition
	if s.unfinishedIn[p]--; s.unfinishedIn[p] > 0 {
		return
	}
	for _, next := range s.waitersFor[p] {
		if next.awaitedInputs--; next.awaitedInputs == 0 {
			c.freedTasks = append(c.freedTasks, next)
		}
	}
	delete(s.unfinishedIn, p)
	delete(s.waitersFor, p)
}

// hasEnded reports whether all tasks of s, and all predecessors, have ended.
func (s *stage) hasEnded() bool { return s.unfinished == 0 && s.openPredecessors == 0 }

// stageOrder returns the stages with all predecessors first, or the names of stages along a cycle.
func (j *job) stageOrder() (order []int, cycle []string) {
	const (
		entered = iota + 1
		visited
	)
	marks := make([]uint8, len(j.stages))
	var trail []int
	var visit func(i int) bool
	visit = func(i int) bool {
		trail = append(trail, i)
		marks[i] = entered
		for _, k := range j.stages[i].predecessors {
			switch marks[k] {
			case entered:
				for _, n := range append(trail[slices.Index(trail, k):], k) {
					cycle = append(cycle, j.Stages[n].Name)
				}
				return false
			case 0:
				if !visit(k) {
					return false
				}
			}
		}
		marks[i] = visited
		trail = trail[:len(trail)-1]
		order = append(order, i)
		return true
	}
	for i := range j.stages {
		if marks[i] == 0 && !visit(i) {
			return nil, cycle
		}
	}
	return order, nil
}

// dependsOn reports whether stage i comes after stage k, directly or not.
func (j *job) dependsOn(i, k int) bool {
	seen := make([]bool, len(j.stages))
	next := []int{i}
	for len(next) > 0 {
		i, next = next[len(next)-1], next[:len(next)-1]
		for _, before := range j.stages[i].predecessors {
			if before == k {
				return true
			}
			if !seen[before] {
				seen[before] = true
				next = append(next, before)
			}
		}
	}
	return false
}

// sortGroups puts the groups of a job in order: the longest critical path runs first.
func (j *job) sortGroups() {
	slices.SortStableFunc(j.groups, func(a, b *group) int {
		return cmp.Compare(j.stages[b.stageIndex].criticalPath, j.stages[a.stageIndex].criticalPath)
	})
	for i, g := range j.groups {
		g.index = i
	}
}

// mustBlock reports whether t has to wait: for earlier stages, for partitions of earlier stages, or, if the job
// is paused, until the client has fetched results.
func (j *job) mustBlock(t *task) bool {
	return j.paused || len(j.stages) > 0 && (t.awaitedInputs > 0 || !j.stages[t.group.stageIndex].ready)
}

// noteStageOutcome notes the outcome of a task in a job with stages. The consequences follow at the end of the
// step (advanceStages).
func (c *jobs) noteStageOutcome(t *task, o *Outcome) {
	j := t.group.job
	s := &j.stages[t.group.stageIndex]
	s.unfinished--
	switch {
	case j.ending:
		return
	case o.Kind == Result || o.Unwanted:
		if s.successes == nil {
			s.successes = map[string]int{}
		}
		if o.Kind == Result {
			s.successes[o.Worker]++
		}
		if s.unfinishedIn != nil {
			c.countDownPartition(t, s)
		}
		if !s.hasEnded() {
			return
		}
	case j.cause == "":
		j.cause = fmt.Sprintf("task %d of stage %q failed: %s", t.spec.Index, j.Stages[t.group.stageIndex].Name,
			o.Message)
	}
	if !slices.Contains(c.jobsToAdvance, j) {
		c.jobsToAdvance = append(c.jobsToAdvance, j)
	}
}

// rankWorkers returns the workers with successful tasks of an ended stage, the worker with most first. The ranks are
// made at the first call, and sum up successTotal.
func (s *stage) rankWorkers() []string {
	if s.workersRanked == nil {
		s.workersRanked = slices.SortedFunc(maps.Keys(s.successes), func(a, b string) int {
			return cmp.Or(cmp.Compare(s.successes[b], s.successes[a]), cmp.Compare(a, b))
		})
		for _, n := range s.successes {
			s.successTotal += n
		}
	}
	return s.workersRanked
}

// locateInputs returns where the inputs of t are. The output of a stage lies at the workers where its tasks ended
// well, in proportion to the number of tasks.
func (t *task) locateInputs() []estimate.Input {
	var ins []estimate.Input
	j := t.group.job
	for _, in := range t.spec.Inputs {
		if in.Stage == "" {
			ins = append(ins, estimate.Input{Bytes: in.Bytes, Copies: in.Copies})
			continue
		}
		if in.Pass != NotPassed {
			ins = append(ins, t.locatePassed(&in)...)
			continue
		}
		s := &j.stages[j.stageNumber(in.Stage)]
		if !s.hasEnded() { // t's stage goes along s, and the workers of single partitions are not counted
			ins = append(ins, estimate.Input{Bytes: in.Bytes})
			continue
		}
		names, rest := s.rankWorkers(), in.Bytes
		for _, name := range names[:min(len(names), MaxInputs)] {
			part := int64(float64(in.Bytes) * float64(s.successes[name]) / float64(s.successTotal))
			rest -= part
			ins = append(ins, estimate.Input{Bytes: part, Copies: []estimate.Copy{{At: name}}})
		}
		if rest > 0 {
			ins = append(ins, estimate.Input{Bytes: rest})
		}
	}
	return ins
}
