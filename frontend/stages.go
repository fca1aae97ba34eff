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

// checkStages makes the stages of a job, or says what is wrong with them. Those that it has already are only added to.
func (c *jobs) checkStages(j *job) *RefusedError {
	first := len(j.stages)
	invalid := func(format string, args ...any) *RefusedError {
		return &RefusedError{Reason: Invalid, Message: fmt.Sprintf(format, args...)}
	}
	if len(j.Stages) > MaxStages {
		return &RefusedError{Reason: TooBigJob, Message: fmt.Sprintf("the job has %d stages, the limit is %d", len(j.Stages), MaxStages)}
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
	j.stages = slices.Grow(j.stages, len(j.Stages)-first)
	numbers := make(map[string]int, len(j.Stages))
	for i, s := range j.Stages {
		switch _, repeated := numbers[s.Name]; {
		case s.Name == "":
			return invalid("stage %d has no name", i)
		case repeated:
			return invalid("two stages are called %q", s.Name)
		}
		numbers[s.Name] = i
		if i >= first {
			j.stages = append(j.stages, stage{ran: s.Ran})
		}
	}
	for i := first; i < len(j.Stages); i++ {
		s := &j.Stages[i]
		for k, name := range s.After {
			before, known := numbers[name]
			switch {
			case !known:
				return invalid("stage %q comes after %q, which is not among the job's stages", s.Name, name)
			case slices.Contains(s.After[:k], name):
				return invalid("stage %q comes after %q twice", s.Name, name)
			}
			j.stages[i].after = append(j.stages[i].after, before)
			j.stages[before].before = append(j.stages[before].before, i)
		}
		for k, name := range s.Along {
			if !slices.Contains(s.After, name) || slices.Contains(s.Along[:k], name) {
				return invalid("stage %q goes along %q: name it once, and among those that it comes after", s.Name, name)
			}
			j.stages[i].along = append(j.stages[i].along, numbers[name])
		}
	}
	order, cycle := j.order()
	if cycle != nil {
		return invalid("stages wait for each other: %s", strings.Join(cycle, " after "))
	}
	reads := reading{j: j, numbers: numbers, after: map[[2]int]bool{}}
	for i := range j.Tasks {
		t := &j.Tasks[i]
		if t.Stage < 0 || int(t.Stage) >= len(j.Stages) {
			return invalid("task %d is of stage %d of %d: count them from 0", t.Index, t.Stage, len(j.Stages))
		}
		s := &j.stages[t.Stage]
		if int(t.Stage) < first && s.ended() {
			return invalid("task %d is of stage %q, which has ended: others have started after it", t.Index, j.Stages[t.Stage].Name)
		}
		if int(t.Stage) < first && j.led(int(t.Stage)) {
			return invalid("task %d is of stage %q, which others go along: they may have started", t.Index, j.Stages[t.Stage].Name)
		}
		s.left++
		s.longest = max(s.longest, c.expect(t).Mean)
		if wrong := reads.check(t); wrong != "" {
			return invalid("%s", wrong)
		}
	}
	for i := first; i < len(j.stages); i++ {
		for k := range j.Stages[i].Made {
			m := &j.Stages[i].Made[k]
			if m.Spec == nil {
				continue
			}
			if int(m.Spec.Stage) != i || m.Spec.Index != m.Task || m.Spec.Partition != m.Partition {
				return invalid("task %d of stage %q has left something, and is told to be task %d of stage %d, in another partition perhaps", m.Task, j.Stages[i].Name, m.Spec.Index, m.Spec.Stage)
			}
			if wrong := reads.check(m.Spec); wrong != "" {
				return invalid("%s", wrong)
			}
		}
		if j.stages[i].left == 0 && (j.Generation == 0 || first > 0) { // of a job that was submitted before, what has ended is left out
			return invalid("stage %q has no tasks", j.Stages[i].Name)
		}
	}
	if err := c.checkPassing(j, numbers, first); err != nil {
		return err
	}
	for _, i := range slices.Backward(order) {
		s, longest := &j.stages[i], time.Duration(0)
		for _, k := range s.before {
			longest = max(longest, j.stages[k].path)
		}
		s.path = s.longest + longest
	}
	for _, i := range order {
		j.count(&j.stages[i])
	}
	return nil
}

// reading checks which stages tasks of a job read.
type reading struct {
	j       *job
	numbers map[string]int  // of its stages
	after   map[[2]int]bool // what depends said
}

// check says what is wrong with the stages that a task reads, or with the partitions that it waits for; "" if nothing is.
func (r *reading) check(t *Task) (wrong string) {
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
		if _, asked := r.after[pair]; known && !asked {
			r.after[pair] = j.depends(pair[0], from)
		}
		if !known || !r.after[pair] {
			return fmt.Sprintf("task %d: input %d is the output of %q, after which stage %q does not come", t.Index, k, name, j.Stages[t.Stage].Name)
		}
	}
	return ""
}

// count counts the stages that a stage has to wait for.
func (j *job) count(s *stage) { s.blocking, s.ready = j.blockers(s) }

// blockers is how many stages before a stage have not ended, and whether it goes along all of them.
func (j *job) blockers(s *stage) (n int, ready bool) {
	ready = true
	for _, k := range s.after {
		if !j.stages[k].ended() {
			n++
			ready = ready && slices.Contains(s.along, k)
		}
	}
	return n, ready
}

// led reports whether other stages go along one.
func (j *job) led(k int) bool {
	return slices.ContainsFunc(j.stages[k].before, func(i int) bool { return slices.Contains(j.stages[i].along, k) })
}

// align lets tasks that have just come wait for their partitions of stages along which theirs go. A partition without any task is
// not waited for.
func (j *job) align(fresh []*task) {
	for k := range j.stages {
		s := &j.stages[k]
		if s.pending != nil || !j.led(k) {
			continue
		}
		s.pending, s.waiting = map[int32]int{}, map[int32][]*task{}
		for _, t := range j.tasks {
			if t.group.number == k && t.state != done {
				s.pending[t.spec.Partition]++
			}
		}
	}
	for _, t := range fresh {
		if len(j.stages) == 0 {
			return
		}
		for _, k := range j.stages[t.group.number].along {
			for _, p := range t.spec.partitions() {
				if s := &j.stages[k]; s.pending[p] > 0 {
					s.waiting[p] = append(s.waiting[p], t)
					t.awaits++
				}
			}
		}
	}
}

// partitionOf notes that a task of a stage that others go along has ended, and which of theirs wait no more with it.
func (c *jobs) partitionOf(t *task, s *stage) {
	p := t.spec.Partition
	if s.pending[p]--; s.pending[p] > 0 {
		return
	}
	for _, next := range s.waiting[p] {
		if next.awaits--; next.awaits == 0 {
			c.freed = append(c.freed, next)
		}
	}
	delete(s.pending, p)
	delete(s.waiting, p)
}

// ended reports whether all tasks have ended, and so have the stages before.
func (s *stage) ended() bool { return s.left == 0 && s.blocking == 0 }

// order is the stages such that each comes after those it depends on; or the names along a cycle.
func (j *job) order() (order []int, cycle []string) {
	const (
		entered = iota + 1
		left
	)
	marks := make([]uint8, len(j.stages))
	var trail []int
	var visit func(i int) bool
	visit = func(i int) bool {
		trail = append(trail, i)
		marks[i] = entered
		for _, k := range j.stages[i].after {
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
		marks[i] = left
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

// depends reports whether stage i comes after stage k, directly or not.
func (j *job) depends(i, k int) bool {
	seen := make([]bool, len(j.stages))
	next := []int{i}
	for len(next) > 0 {
		i, next = next[len(next)-1], next[:len(next)-1]
		for _, before := range j.stages[i].after {
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

// sortGroups puts the groups of a job with stages into the order in which their tasks had better run.
func (j *job) sortGroups() {
	slices.SortStableFunc(j.groups, func(a, b *group) int {
		return cmp.Compare(j.stages[b.number].path, j.stages[a.number].path)
	})
	for i, g := range j.groups {
		g.index = i
	}
}

// blocks reports whether a task has to wait for the stages before its own, for its partitions of these, or until its job is not
// full any more.
func (j *job) blocks(t *task) bool {
	return j.full || len(j.stages) > 0 && (t.awaits > 0 || !j.stages[t.group.number].ready)
}

// stageEnded notes the outcome of a task of a job with stages. What follows from it is left to the end of the step.
func (c *jobs) stageEnded(t *task, o *Outcome) {
	j := t.group.job
	s := &j.stages[t.group.number]
	s.left--
	switch {
	case j.ending:
		return
	case o.Kind == Result || o.Unwanted:
		if s.ran == nil {
			s.ran = map[string]int{}
		}
		if o.Kind == Result {
			s.ran[o.Worker]++
		}
		if s.pending != nil {
			c.partitionOf(t, s)
		}
		if !s.ended() {
			return
		}
	case j.cause == "":
		j.cause = fmt.Sprintf("task %d of stage %q failed: %s", t.spec.Index, j.Stages[t.group.number].Name, o.Message)
	}
	if !slices.Contains(c.staging, j) {
		c.staging = append(c.staging, j)
	}
}

// ranAt is the workers at which tasks of a stage that has ended did so well, the one with most first.
func (s *stage) ranAt() []string {
	if s.most == nil {
		s.most = slices.SortedFunc(maps.Keys(s.ran), func(a, b string) int { return cmp.Or(cmp.Compare(s.ran[b], s.ran[a]), cmp.Compare(a, b)) })
		for _, n := range s.ran {
			s.all += n
		}
	}
	return s.most
}

// located is the inputs of a task, with the outputs of stages where their tasks have run: as much at each worker as
// tasks ended well there.
func (t *task) located() []estimate.Input {
	var ins []estimate.Input
	j := t.group.job
	for _, in := range t.spec.Inputs {
		if in.Stage == "" {
			ins = append(ins, estimate.Input{Bytes: in.Bytes, Copies: in.Copies})
			continue
		}
		if in.Pass != NotPassed {
			ins = append(ins, t.passedFrom(&in)...)
			continue
		}
		s := &j.stages[j.number(in.Stage)]
		if !s.ended() { // its own goes along it: where the partitions are is not known
			ins = append(ins, estimate.Input{Bytes: in.Bytes})
			continue
		}
		names, rest := s.ranAt(), in.Bytes
		for _, name := range names[:min(len(names), MaxInputs)] {
			part := int64(float64(in.Bytes) * float64(s.ran[name]) / float64(s.all))
			rest -= part
			ins = append(ins, estimate.Input{Bytes: part, Copies: []estimate.Copy{{At: name}}})
		}
		if rest > 0 {
			ins = append(ins, estimate.Input{Bytes: rest})
		}
	}
	return ins
}
