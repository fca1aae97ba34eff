package sim

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/phoebe-sched/phoebe/frontend"
	"github.com/phoebe-sched/phoebe/frontend/estimate"
	"github.com/phoebe-sched/phoebe/probe"
	"github.com/phoebe-sched/phoebe/worker"
)

// This file draws and checks what jobs need besides free slots: stages, labels and hosts, inputs and files. The file
// also has the gossip on workers.

const (
	faultRacks = 2
	faultFiles = 6 // number of files that tasks may need
)

// furnishWorker draws the rack and labels of a worker, and whether the worker fetches files. In every life,
// worker 0 satisfies all selectors for the presence of a label, and worker 1 all selectors for absence. So no
// task with a selector waits in vain for a worker.
func (r *faultRun) furnishWorker(w *workerNode, d *rand.Rand) {
	w.welcome.Rack = fmt.Sprint("r", w.index%faultRacks)
	if w.welcome.Cache = fmt.Sprintf("h%d:7430", w.index); w.index > 1 && drawChance(d, 0.2) {
		w.welcome.Cache = ""
	}
	if w.index > 1 && drawChance(d, 0.15) {
		w.welcome.Speaks = probe.Dialect{Min: probe.MinVersion, Max: probe.MinVersion} // of the first release
	}
	switch w.index {
	case 0:
		w.welcome.Labels = []string{"gpu", "zone=a"}
	case 1:
		w.welcome.Labels = nil
	default:
		w.welcome.Labels = drawOne(d, nil, []string{"gpu"}, []string{"zone=a"}, []string{"zone=b", "gpu=new"})
	}
}

// drawStages draws the stages of a job. Each stage comes after some of the stages drawn before.
func (r *faultRun) drawStages(d *rand.Rand) []frontend.Stage {
	stages := make([]frontend.Stage, 2+d.IntN(4))
	order := d.Perm(len(stages))
	for i, n := range order {
		stages[n].Name = fmt.Sprint("s", n)
		for _, before := range order[:i] {
			if drawChance(d, 0.5) {
				stages[n].After = append(stages[n].After, stages[before].Name)
			}
		}
	}
	return stages
}

// drawAlong draws the stages that go along earlier stages, partition by partition.
func (r *faultRun) drawAlong(j *faultJob) {
	for i := range j.spec.Stages {
		s := &j.spec.Stages[i]
		for _, name := range s.After {
			if drawChance(j.dice, 0.3) {
				s.Along = append(s.Along, name)
				r.stats.Seen["stages along others"]++
			}
		}
	}
}

// awaitsTask reports whether t waits for a task of an earlier stage.
func (j *faultJob) awaitsTask(t, before *frontend.Task) bool {
	if !slices.Contains(j.spec.Stages[t.Stage].Along, j.spec.Stages[before.Stage].Name) {
		return true
	}
	if len(t.Along) > 0 {
		return slices.Contains(t.Along, before.Partition)
	}
	return t.Partition == before.Partition
}

// drawConstraint draws where a task may run.
func (r *faultRun) drawConstraint(c *frontend.Constraint, d *rand.Rand) {
	if drawChance(d, 0.3) {
		c.Hosts = []string{fmt.Sprint(drawOne(d, "h", "w"), d.IntN(len(r.workers)))}
		return
	}
	c.Labels = drawOne(d, []string{"gpu"}, []string{"zone=a", "gpu"}, []string{"!gpu"}, []string{"zone!=a", "!gpu"},
		[]string{"zone!=b"})
}

// drawPassing draws the common part of stages, and lets outputs of some stages be passed to tasks of later
// stages.
func (r *faultRun) drawPassing(j *faultJob, d *rand.Rand) {
	for i := range j.spec.Stages {
		// Added tasks may read outputs of stages that pass nothing so far.
		if drawChance(d, 0.4) || j.growth.stages > 0 {
			j.spec.Stages[i].Common = fmt.Appendf(nil, "of stage %d of job %d", i, j.n)
		}
	}
	for i := range j.tasks {
		t := &j.tasks[i].spec
		for _, name := range j.spec.Stages[t.Stage].After {
			if drawChance(d, 0.6) {
				t.Inputs = append(t.Inputs, frontend.Input{
					Stage: name, Pass: drawOne(d, frontend.Inline, frontend.File),
					Partition: int32(d.IntN(partitions)), Bytes: drawOne[int64](d, 0, 1e6),
				})
			}
		}
	}
}

const partitions = 2 // written by each task

// outputOf returns the output of a task in a partition. The output in the second partition is too large to go
// with the result.
func (j *faultJob) outputOf(task probe.TaskIndex, partition int32, inline int) probe.Output {
	o := probe.Output{Partition: uint32(partition), Data: fmt.Appendf(nil, "of task %d of job %d in %d", task, j.n,
		partition)}
	if o.Bytes = uint64(len(o.Data)); partition > 0 {
		o.Bytes = 1 << 20
	}
	if int(o.Bytes) > inline {
		o.File, o.Digest, o.Data = true, [32]byte{2, byte(j.n), byte(j.n >> 8), byte(task), byte(task >> 8),
			byte(partition)}, nil
	}
	return o
}

// storedAt is a place of a file: in the cache of a worker, during one life of the worker.
type storedAt struct {
	w    *workerNode
	life int32
}

// storeOutputs notes where the output files of a task are.
func (r *faultRun) storeOutputs(s *worker.Start, outputs []probe.Output) {
	x := r.attempts[s.Launch.Attempt]
	for i := range outputs {
		if o := &outputs[i]; o.File && x != nil {
			r.storedFiles[o.Digest] = append(r.storedFiles[o.Digest], storedAt{x.w, x.w.life})
		}
	}
}

// missingFile returns the first file passed to a task and lost with all workers that had the file.
func (r *faultRun) missingFile(s *worker.Start) (o probe.Output, missing bool) {
	if s.Launch.Context != nil {
		for _, p := range s.Launch.Context.Inputs {
			if p.File && !slices.ContainsFunc(r.storedFiles[p.Digest],
				func(at storedAt) bool { return at.life == at.w.life && !at.w.down }) {
				return p.Output, true
			}
		}
	}
	return o, false
}

// mayLackInput reports whether a task may have failed because an input is lost. A lost input is made again only a few
// times. Or the task that made the input cannot run again: it may start only once, fails, finds no worker, or ran for
// another frontend that did not pass the spec on.
func (r *faultRun) mayLackInput(j *faultJob, t *faultTask, f *frontendNode, v *visit) bool {
	return t.missedOutputs+t.unfetched > 0 && (!t.spec.Retryable || t.missedOutputs > 3 || v.isResubmitted ||
		slices.ContainsFunc(j.tasks, func(other faultTask) bool {
			return other.spec.Stage != t.spec.Stage && (!other.spec.Retryable || other.missedOutputs > 3 ||
				other.failedRuns+other.unfetched > other.spec.Retries ||
				r.isStranded(j, &other, f, r.now-f.cfg.StrandedFor))
		}))
}

// checkInputs checks the common part of the stage, and the outputs passed to t by tasks of earlier stages.
func (j *faultJob) checkInputs(t *faultTask, s *worker.Start) error {
	if len(j.spec.Stages) == 0 {
		return nil
	}
	if common := j.spec.Stages[t.spec.Stage].Common; string(common) != string(s.Common) {
		return fmt.Errorf("has the common part %q, not %q", s.Common, common)
	}
	var want, got []string
	for _, in := range t.spec.Inputs {
		if in.Pass == frontend.NotPassed {
			continue
		}
		for k := range j.tasks {
			if from := &j.tasks[k].spec; j.spec.Stages[from.Stage].Name == in.Stage && j.awaitsTask(&t.spec, from) {
				want = append(want, fmt.Sprintf("%s of task %d in %d", in.Stage, from.Index, in.Partition))
			}
		}
	}
	if c := s.Launch.Context; c != nil {
		for _, p := range c.Inputs {
			got = append(got, fmt.Sprintf("%s of task %d in %d", p.Stage, p.Task, p.Partition))
			if o := j.outputOf(p.Task, int32(p.Partition), 0); p.File && p.Digest != o.Digest {
				return fmt.Errorf("gets another file of task %d", p.Task)
			}
			if o := j.outputOf(p.Task, int32(p.Partition), 1<<30); !p.File && string(p.Data) != string(o.Data) {
				return fmt.Errorf("gets %q of task %d, which left %q", p.Data, p.Task, o.Data)
			}
		}
	}
	if !slices.Equal(got, want) {
		return fmt.Errorf("gets %q, not %q", got, want)
	}
	return nil
}

// drawNeeds draws the inputs and files of a task.
func (r *faultRun) drawNeeds(t *frontend.Task, job int, stages []frontend.Stage, files bool, d *rand.Rand) {
	bytes := func() int64 { return drawOne[int64](d, 0, 1e3, 1e7, 1e9) }
	for range d.IntN(3) {
		in := frontend.Input{Bytes: bytes()}
		for range 1 + d.IntN(2) {
			in.Copies = append(in.Copies, drawOne(d,
				estimate.Copy{At: fmt.Sprint("h", d.IntN(len(r.workers))), Memory: drawChance(d, 0.3)},
				estimate.Copy{At: fmt.Sprint("w", d.IntN(len(r.workers)))},
				estimate.Copy{Rack: fmt.Sprint("r", d.IntN(faultRacks))},
				estimate.Copy{At: "elsewhere", Rack: "unknown"},
			))
		}
		t.Inputs = append(t.Inputs, in)
	}
	if len(stages) > 0 {
		for _, name := range stages[t.Stage].After {
			if drawChance(d, 0.5) {
				t.Inputs = append(t.Inputs, frontend.Input{Bytes: bytes(), Stage: name})
			}
		}
	}
	if files && len(t.Constraint.Hosts) == 0 { // not every host has a cache
		for _, n := range d.Perm(faultFiles)[:d.IntN(3)] {
			t.Files = append(t.Files, probe.File{
				Digest: [32]byte{1, byte(n)}, URL: fmt.Sprintf("http://origin/%d?%d.%d", n, job, t.Index),
				Bytes: drawOne[uint64](d, 0, 1<<10, 100<<20),
			})
		}
	}
}

// whyCannotRun returns the reason why a worker must not run a task, or nil.
func (r *faultRun) whyCannotRun(j *faultJob, t *faultTask, w *workerNode) error {
	m := &w.welcome
	for _, c := range []frontend.Constraint{j.spec.Constraint, t.spec.Constraint} {
		if !c.Matches(m.Labels, m.Host, m.Worker) {
			return fmt.Errorf("needs %s, and w%d has labels %q", c, w.index, m.Labels)
		}
	}
	switch {
	case !slices.Contains(w.cfg.Functions, t.spec.Function):
		return fmt.Errorf("calls %q, which w%d does not have", t.spec.Function, w.index)
	case !t.leastDemand().Fits(w.cfg.Capacity):
		return fmt.Errorf("demands %v, and w%d has %v", t.leastDemand(), w.index, w.cfg.Capacity)
	case len(t.spec.Files) > 0 && m.Cache == "":
		return fmt.Errorf("needs files, and w%d has no cache", w.index)
	}
	return nil
}

// passesOutputs reports whether tasks of a stage have a common part, or pass outputs, or get outputs. If the job has
// moved to another frontend, the tasks that moved along perhaps do none of the three.
func (j *faultJob) passesOutputs(stage int32) bool {
	if len(j.spec.Stages) == 0 {
		return false
	}
	at := &j.spec.Stages[stage]
	return len(at.Common) > 0 || slices.ContainsFunc(j.tasks, func(t faultTask) bool {
		return slices.ContainsFunc(t.spec.Inputs, func(in frontend.Input) bool {
			return in.Pass != frontend.NotPassed && (t.spec.Stage == stage || in.Stage == at.Name)
		})
	})
}

// Tasks of hungryClass use two slots and a half. Tasks of the class without a stated demand get as much, if their
// use is known and all workers able to run the tasks have the room.
const hungryClass = "hungry"

// leastDemand returns the least room of a task, by the stated demand.
func (t *faultTask) leastDemand() probe.Demand {
	d := t.spec.Demand
	d.CPU, d.Mem = cmp.Or(d.CPU, probe.Slot.CPU), cmp.Or(d.Mem, probe.Slot.Mem)
	return d
}

// checkPlacement checks that a task may start at w now.
func (r *faultRun) checkPlacement(j *faultJob, t *faultTask, w *workerNode, s *worker.Start) error {
	if err := r.whyCannotRun(j, t, w); err != nil {
		return err
	}
	used := s.Demand
	for _, x := range w.running {
		used = used.Add(x.start.Demand)
	}
	switch want := t.leastDemand(); {
	case !want.Fits(s.Demand):
		return fmt.Errorf("demands %v, and has %v at w%d", want, s.Demand, w.index)
	case !used.Fits(w.cfg.Capacity):
		return fmt.Errorf("runs at w%d, where %v are in use then, of %v", w.index, used, w.cfg.Capacity)
	}
	if t.spec.Class == hungryClass && t.spec.Demand == (probe.Demand{}) && s.Demand != probe.Slot {
		r.stats.Seen["demands by what was used"]++
	}
	if f := r.fetcherOf(w).unreleased[s.Launch.Attempt]; len(t.spec.Files) > 0 && (f == nil || !f.isThere) {
		return fmt.Errorf("needs files, and w%d does not have the files yet", w.index)
	}
	if err := j.checkInputs(t, s); err != nil {
		return err
	}
	if len(j.spec.Stages) > 0 {
		for _, name := range j.spec.Stages[t.spec.Stage].After {
			for k := range j.tasks {
				if b := &j.tasks[k]; j.spec.Stages[b.spec.Stage].Name == name && j.awaitsTask(&t.spec, &b.spec) &&
					b.goodRuns == 0 {
					return fmt.Errorf("comes after stage %s, and task %d of that stage has not ended well", name, k)
				}
			}
		}
	}
	return nil
}

// fetcher brings files to a worker, during one life of the worker.
type fetcher struct {
	life       int32
	unreleased map[probe.AttemptID]*fetchState // not yet released
	cache      map[[32]byte]bool
}

type fetchState struct{ isThere bool }

// fetcherOf returns the fetcher of the worker's present life.
func (r *faultRun) fetcherOf(w *workerNode) *fetcher {
	f := &r.fetchers[w.index]
	if f.life != w.life {
		*f = fetcher{life: w.life, unreleased: map[probe.AttemptID]*fetchState{}, cache: map[[32]byte]bool{}}
	}
	return f
}

// fetchFiles lets files come after a while. Some come late, some never; the failure of the latter is known at the
// end of all faults.
func (r *faultRun) fetchFiles(w *workerNode, a worker.Fetch) {
	fetcher, d := r.fetcherOf(w), r.outsideDice
	switch {
	case fetcher.unreleased[a.Attempt] != nil:
		r.failRun("w%d fetches files for attempt %s twice", w.index, a.Attempt)
	case w.welcome.Cache == "":
		r.failRun("w%d, which has no cache, is to fetch %v", w.index, a.Files)
	}
	f := &fetchState{}
	fetcher.unreleased[a.Attempt] = f
	var n, job, task int
	_, _ = fmt.Sscanf(a.Files[0].URL, "http://origin/%d?%d.%d", &n, &job, &task)
	t := &r.jobs[job].tasks[task]
	if !slices.EqualFunc(a.Files, t.spec.Files, func(a, b probe.File) bool {
		return a.Digest == b.Digest && a.URL == b.URL
	}) {
		r.failRun("w%d fetches %v for task %d of job %d", w.index, a.Files, task, job)
	}
	r.stats.Seen["fetches"]++
	ev := worker.Fetched{Attempt: a.Attempt}
	for i := range a.Files {
		if !fetcher.cache[a.Files[i].Digest] {
			ev.Bytes += max(a.Files[i].Bytes, 1)
		}
	}
	at := r.now
	if ev.Bytes > 0 && r.calm {
		at += drawBetween(d, 0, drawOne(d, time.Millisecond, time.Second, 10*time.Second, 30*time.Second))
	} else if ev.Bytes > 0 {
		at += drawBetween(d, 0, drawOne(d, time.Millisecond, 50*time.Millisecond, time.Second))
		switch {
		case drawChance(d, 0.1):
			ev.Err = "no such file"
		case drawChance(d, 0.05):
			at, ev.Err = max(at, r.faultsEnd), "the server does not answer"
		}
	}
	r.checkDeadCache(w, a.Attempt)
	if ev.Bytes > 0 && r.deadCaches[w.index] == w.life {
		at, ev.Err, ev.DiskFailed = r.now, "the disk fails", true
	}
	began, life, reportsAnyway := r.now, w.life, drawChance(d, 0.5)
	r.callAt(at, func() {
		r.tellWorker(w, life, func() worker.Event {
			if fetcher.life != life {
				return nil
			}
			released := fetcher.unreleased[a.Attempt] != f
			switch {
			case released && !reportsAnyway:
				return nil
			case released:
				r.stats.Seen["fetches that end after their release"]++
			case ev.DiskFailed:
				r.stats.Seen["fetches to a dead cache"]++
				t.diskFailures++
			case ev.Err != "":
				r.stats.Seen["fetches that fail"]++
				t.unfetched++
			default:
				f.isThere = true
				for i := range a.Files {
					fetcher.cache[a.Files[i].Digest] = true
				}
			}
			ev.Took = r.now - began
			return ev
		})
	})
}

// checkDeadCache fails the run if the cache of w is dead and the frontend had heard so before it sent the attempt.
func (r *faultRun) checkDeadCache(w *workerNode, id probe.AttemptID) {
	x, since := r.attempts[id], r.deadSince[w.index]
	if x != nil && r.deadCaches[w.index] == w.life && x.sent > since+r.settleTime() &&
		r.harmBetween(x.f, w, since) == nil {
		r.failRun("f%d sends attempt %s, which needs files, to w%d, whose cache has been dead for %v", x.f.index, id,
			w.index, x.sent-since)
	}
}

// releaseFiles notes the release of files.
func (r *faultRun) releaseFiles(w *workerNode, a worker.Release) {
	f := r.fetcherOf(w)
	if f.unreleased[a.Attempt] == nil {
		r.failRun("w%d releases files of attempt %s, which has none", w.index, a.Attempt)
	}
	if slices.ContainsFunc(w.running, func(x *execution) bool { return x.start.Launch.Attempt == a.Attempt }) {
		r.failRun("w%d releases the files of attempt %s, which runs", w.index, a.Attempt)
	}
	delete(f.unreleased, a.Attempt)
}

// tellWorker steps a worker in the given life. A hung worker steps when it goes on. If ev returns nil then, the
// worker does not step.
func (r *faultRun) tellWorker(w *workerNode, life int32, ev func() worker.Event) {
	switch {
	case w.life != life || w.down:
	case w.hung != nil:
		again := func() { r.tellWorker(w, life, ev) }
		w.hung.events = append(w.hung.events, event{kind: funcCall, content: again})
	default:
		if ev := ev(); ev != nil {
			if err := r.stepWorker(w, ev); err != nil {
				r.failRun("%w", err)
			}
		}
	}
}

// outage is an announced maintenance of a worker.
type outage struct {
	at    time.Duration
	lasts time.Duration
}

// sendGossip spreads a worker's gossip now and then while jobs are under way. Each row comes late, out of order,
// more than once or not at all. The matrices of a liar make no sense.
func (r *faultRun) sendGossip(w *workerNode, lies bool) {
	d := r.outsideDice
	if w.hung == nil && !w.down {
		r.rumours[w.index]++
		m := w.core.Matrix(r.timeNow())
		row := frontend.Heard{
			Worker: frontend.Worker(w.index), Incarnation: w.welcome.Incarnation, Seq: r.rumours[w.index], Matrix: &m,
			Speed: w.speed, Draining: r.drainingLife[w.index] == w.life,
		}
		for n := range faultFiles {
			if digest := [32]byte{1, byte(n)}; r.fetcherOf(w).cache[digest] {
				row.Files = append(row.Files, frontend.FileID(digest))
			}
		}
		slices.Sort(row.Files)
		if o := r.outages[w.index]; o.lasts > 0 {
			row.Maintenance, row.Lasts = max(o.at-r.now, 0), o.lasts
		}
		if lies && drawChance(d, 0.5) {
			r.makeAbsurd(&row)
		}
		for _, f := range r.frontends {
			for drawChance(d, 0.7) {
				after := drawBetween(d, 0, drawOne(d, time.Millisecond, 50*time.Millisecond, 3*time.Second))
				sent := row
				sent.Age += after
				r.stats.Seen["rumours"]++
				r.callAt(r.now+after, func() { r.tellFrontend(f, sent, func() bool { return true }) })
				if drawChance(d, 0.8) {
					break
				}
			}
		}
	}
	again := drawBetween(d, 20*time.Millisecond, 500*time.Millisecond)
	if r.calm {
		again = time.Second
	}
	r.callAt(r.now+again, func() {
		if r.openJobs > 0 {
			r.sendGossip(w, lies)
		}
	})
}

// makeAbsurd makes a row absurd. The row still passes the checks of gossip, except the matrix, because matrices
// come over links, too.
func (r *faultRun) makeAbsurd(row *frontend.Heard) {
	d := r.outsideDice
	r.stats.Seen["lies"]++
	m := *row.Matrix
	row.Matrix = &m
	kind := d.IntN(4)
	for i := range m.Cells {
		for k := range m.Cells[i] {
			switch kind {
			case 0:
				m.Cells[i][k] = probe.NeverFits
			case 1:
				m.Cells[i][k] = 0
			case 2:
				m.Cells[i][k] = probe.NeverFits - 1
			default:
				m.Cells[i][k] = probe.Wait(d.Uint32())
			}
		}
	}
	for i := range m.Short {
		m.Short[i] = m.Cells[i][i]
	}
	m.Capacity = drawOne(d, m.Capacity, probe.Demand{}, slotsOf(1), slotsOf(1000))
	row.Speed = drawOne(d, 0, 0.01, 1, 100)
	row.Age = drawOne(d, 0, -time.Hour, time.Second, 1000*time.Hour)
	row.Maintenance, row.Lasts = drawOne(d, 0, time.Second, 1000*time.Hour), drawOne(d, 0, time.Second, 1000*time.Hour)
}

// findLeftovers returns the names of lists and maps of a core that are not empty: of the structure itself, and of
// structures inside. Fields in kept may keep their elements. If kept has a field's name with a star,
// findLeftovers looks into the pointed-to elements, too.
func findLeftovers(core any, kept ...string) []string {
	var found []string
	var look func(path string, v reflect.Value)
	list := func(path string, v reflect.Value) {
		switch {
		case slices.Contains(kept, path+"*"):
			for _, x := range v.Seq2() {
				if !x.IsNil() {
					look(path, x.Elem())
				}
			}
		case v.Len() > 0:
			found = append(found, fmt.Sprintf("%s (%d)", path, v.Len()))
		}
	}
	look = func(path string, v reflect.Value) {
		for i := range v.NumField() {
			field := v.Type().Field(i)
			in := strings.TrimPrefix(path+"."+field.Name, ".")
			switch f := v.Field(i); {
			case slices.Contains(kept, in):
			case f.Kind() == reflect.Struct && field.Anonymous: // its fields count as fields of v
				look(path, f)
			case f.Kind() == reflect.Struct:
				look(in, f)
			case f.Kind() == reflect.Pointer && slices.Contains(kept, in+"*"):
				look(in, f.Elem())
			case f.Kind() == reflect.Map || f.Kind() == reflect.Slice:
				list(in, f)
			}
		}
	}
	look("", reflect.ValueOf(core).Elem())
	slices.Sort(found) // map order decides nothing
	return slices.Compact(found)
}

// keptByFrontend and keptByWorker name the fields that cores may keep without jobs under way: the knowledge of
// workers, links and functions, and scratch memory.
var (
	keptByFrontend = []string{
		"workers*", "workerTimers.items", "log", "sampler*", "sampler.marks", "sampler.decisions", "scratch.PlacesAt",
		"lent", "refusals", "batch.keys",
		"view*", "view.workers*", "view.workers.welcome", "view.workers.functions", "view.idle", "view.runs",
		"view.sets*", "view.sets.need", "view.sets.workers", "view.sets.member",
	}
	keptByWorker = []string{
		"cfg", "functions", "links*", "links.seenPlaces", "links.boundAttempts", "linksByFrontend", "queue.tenants",
		"queue.kinds", "spareQueue.tenants", "spareQueue.kinds", "victims", "memories",
		"forecast", "gaps", "lent", "freeAttempts", "freeActiveParts",
	}
)
