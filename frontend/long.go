package frontend

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/phoebe-sched/phoebe/frontend/estimate"
	"github.com/phoebe-sched/phoebe/frontend/view"
	"github.com/phoebe-sched/phoebe/probe"
	"github.com/phoebe-sched/phoebe/probe/pq"
)

// Tasks that are long, or care where they run, are bound early, each where it is expected to be done first
// (package estimate). The ones that are to be placed are collected, the workers whose wait matrices are missing or
// old are asked for them, and as soon as they have answered a batch is matched with workers and enqueued there.

const (
	// The next batch follows after breath, with the tasks that were left over; those that are again and again wait for
	// twice as long each time, up to maxLeft times, and let others pass.
	breath  = time.Millisecond
	maxLeft = 5
	// blindAgain is when a task is tried again of which no worker is known that has told its matrix, at first; then
	// twice as long each time. After maxBlind times, it goes to a random worker.
	blindAgain = 20 * time.Millisecond
	maxBlind   = 5
	// sureFor is the default of Config.SureFor: to ask costs a round trip, to find others' tasks there much more.
	sureFor = 50 * time.Millisecond
	// askedEach is how many are asked for each task of those believed idle, and of all, besides its candidates.
	askedEach = 2
	// maxAsked bounds the workers that are asked for their matrices before a batch, askFor how long their answers
	// are waited for. Who does not answer is not asked again for askAgain.
	maxAsked = 256
	askFor   = 20 * time.Millisecond
	askAgain = time.Second
	// worthSleep is how long a task whose job can wait for it must have to wait, to be placed later.
	worthSleep = 100 * time.Millisecond
	// maxSleep is when it looks again at the latest: where tasks run shorter than estimated, there is room much sooner
	// than workers say.
	maxSleep = 5 * time.Second
)

// Limits of what one task may name.
const (
	MaxInputs = 256
	MaxCopies = 16 // of one input
	MaxFiles  = 64
	maxInput  = 1 << 50 // bytes
)

// long is what concerns tasks placed by estimation.
type long struct {
	due   pq.Heap[*longTask] // to be placed in the next batch
	later pq.Heap[sleeper]   // to be placed later
	at    time.Time          // before which there is no next batch; zero: at once

	asked map[*worker]bool // whose matrices are waited for before the next batch
	until time.Time        // for how long; zero: nobody was asked for it
	also  []int32          // those that were asked for it

	log decisions
}

// longTask is a task that is placed by estimation.
type longTask struct {
	task   *task
	why    estimate.Reason
	spec   estimate.Task // Work, LongFrom and Also are filled in for each batch
	bytes  int64         // of its inputs
	at     time.Time     // when it is due; zero: it does not sleep
	pos    int           // in due or later
	latest time.Time     // until which it may be postponed; zero: it was not, since it was placed last
	blind  int           // how often in a row there was no candidate
	left   int           // how often in a row all candidates went to others
	whole  bool          // it is larger than what workers have open to long tasks, and may use all

	decision        uint64        // number of the last one
	wait, run, read time.Duration // expected by it: of the wait at the worker, and of the run, of which read is for inputs
}

// Before orders tasks that are due: by priority, then by job; in a job by the critical path of their stages, then the
// larger inputs first.
func (x *longTask) Before(y *longTask) bool {
	i, j := x.task.group.job, y.task.group.job
	if i == j {
		return cmp.Or(cmp.Compare(y.path(), x.path()), cmp.Compare(y.bytes, x.bytes), cmp.Compare(x.task.spec.Index, y.task.spec.Index)) < 0
	}
	return cmp.Or(cmp.Compare(j.Priority, i.Priority), compareJobs(i, j)) < 0
}

// path is the critical path of the task's stage; 0: its job has no stages.
func (x *longTask) path() time.Duration {
	j := x.task.group.job
	if len(j.stages) == 0 {
		return 0
	}
	return j.stages[x.task.group.number].path
}

// like reports whether two tasks may be matched together: neither is to be placed before the other.
func (x *longTask) like(y *longTask) bool {
	i, j := x.task.group.job, y.task.group.job
	return i.Priority == j.Priority && (i != j || x.path() == y.path())
}

func (x *longTask) Pos() *int { return &x.pos }

// sleeper is a longTask that waits for its time.
type sleeper struct{ *longTask }

func (x sleeper) Before(y sleeper) bool {
	if !x.at.Equal(y.at) {
		return x.at.Before(y.at)
	}
	return x.longTask.Before(y.longTask)
}

// route chooses the path of a task.
func (c *Core) route(j *Job, t *Task) (estimate.Path, estimate.Reason) {
	if j.Mode == estimate.Auto && !j.Policy.Route {
		return estimate.Sampling, estimate.Reason{Cause: estimate.ByPolicy}
	}
	return estimate.Route(j.Mode, estimate.Needs{Reads: c.farReads(t), Files: len(t.Files) > 0}, c.expect(t), j.usual, c.cfg.LongTask)
}

// expect is how long a task will run, by what is known when its job is submitted.
func (c *Core) expect(t *Task) estimate.Work {
	var learnt *estimate.Stats
	if runs := c.view.KnownRuns(t.Function); runs != nil {
		learnt = runs.Stats()
	}
	return estimate.Expect(t.Estimate, t.inputBytes(), nil, learnt, c.cfg.Estimate.Unknown)
}

// needy reports whether a task has needs that others of its job may not have.
func (t *Task) needy() bool {
	return len(t.Constraint.Labels)+len(t.Constraint.Hosts)+len(t.Inputs)+len(t.Files) > 0
}

// class is the kind of a hint: tasks of one job and function without needs go one path if theirs are of one kind.
func (c *Core) class(hint time.Duration) int {
	switch {
	case hint == 0:
		return 0
	case hint < c.cfg.LongTask:
		return 1
	case hint < estimate.Stray*c.cfg.LongTask:
		return 2
	}
	return 3
}

func (t *Task) inputBytes() int64 {
	var sum int64
	for i := range t.Inputs {
		sum += t.Inputs[i].Bytes
	}
	return sum
}

// checkNeeds says what is wrong with the inputs and files of a task.
func (t *Task) checkNeeds() error {
	if len(t.Inputs) > MaxInputs {
		return fmt.Errorf("%d inputs, the limit is %d: name the large ones", len(t.Inputs), MaxInputs)
	}
	for i := range t.Inputs {
		in := &t.Inputs[i]
		switch {
		case in.Bytes < 0:
			return fmt.Errorf("input %d has %d bytes: give 0 or more", i, in.Bytes)
		case in.Bytes > maxInput:
			return fmt.Errorf("input %d has %d bytes, the limit is %d", i, in.Bytes, int64(maxInput))
		case in.Stage != "" && len(in.Copies) > 0:
			return fmt.Errorf("input %d is the output of stage %q and has copies: give one of them", i, in.Stage)
		case len(in.Copies) == 0 && in.Stage == "":
			return fmt.Errorf("input %d is nowhere to be found: name a host, worker or rack that has it, or the stage that makes it", i)
		case len(in.Copies) > MaxCopies:
			return fmt.Errorf("input %d has %d copies, the limit is %d: name some", i, len(in.Copies), MaxCopies)
		}
		for _, at := range in.Copies {
			if at.At == "" && at.Rack == "" {
				return fmt.Errorf("input %d has a copy nowhere: name its host, worker or rack", i)
			}
		}
	}
	if len(t.Files) > MaxFiles {
		return fmt.Errorf("%d files, the limit is %d: pack them together", len(t.Files), MaxFiles)
	}
	for i := range t.Files {
		f := &t.Files[i]
		switch scheme, _, _ := strings.Cut(f.URL, "://"); {
		case scheme != "http" && scheme != "https" && scheme != "file":
			return fmt.Errorf("file %d: URL %q: use http, https or file", i, f.URL)
		case f.Digest == [32]byte{}:
			return fmt.Errorf("file %s has no digest: give its SHA-256", f.URL)
		case f.Bytes > 1<<62:
			return fmt.Errorf("file %s has %d bytes: give its size, or 0 if it is not known", f.URL, f.Bytes)
		}
		for k := range i {
			if t.Files[k].Digest == f.Digest {
				return fmt.Errorf("files %s and %s have one digest: name it once", t.Files[k].URL, f.URL)
			}
		}
	}
	return nil
}

// FileID is what stands for a file's digest in the view.
func FileID(digest [32]byte) estimate.FileID {
	return estimate.FileID(binary.BigEndian.Uint64(digest[:]))
}

// estimated lets a task that is to be placed by estimation wait for the next batch, or for a later one.
func (c *Core) estimated(t *task) {
	t.move(matching)
	x := t.long
	if x == nil {
		s := t.spec
		x = &longTask{task: t, bytes: s.inputBytes()}
		_, x.why = c.route(&t.group.job.Job, s)
		x.spec = estimate.Task{Demand: s.Demand, Inputs: t.located(), Pool: t.group.Set}
		for i := range s.Files {
			x.spec.Files = append(x.spec.Files, estimate.File{ID: FileID(s.Files[i].Digest), Bytes: int64(s.Files[i].Bytes)})
		}
		t.long = x
	}
	c.long.due.Push(x)
}

// estimateAll lets all tasks of a group that has just been submitted wait for the next batch.
func (c *Core) estimateAll(g *group) {
	for g.queue.Len() > 0 {
		c.estimated(g.queue.First())
	}
}

// unmatch takes a task out of those to be placed.
func (c *Core) unmatch(t *task) {
	if x := t.long; x.at.IsZero() {
		if c.long.due.Remove(x); c.long.due.Len() == 0 {
			c.long.answered()
		}
	} else {
		c.long.later.Remove(sleeper{x})
		x.at = time.Time{}
	}
}

// delay lets a task that is or was due sleep.
func (c *Core) delay(x *longTask, until time.Time) {
	c.long.due.Remove(x)
	x.at = until
	c.long.later.Push(sleeper{x})
}

// wakeLong makes tasks due that have slept enough.
func (c *Core) wakeLong(now time.Time) {
	l := &c.long
	for l.later.Len() > 0 && !now.Before(l.later.Min().at) {
		x := l.later.Pop().longTask
		x.at = time.Time{}
		l.due.Push(x)
	}
}

// next is when a batch is due, and a task that sleeps; zero: none.
func (l *long) next() (batch, task time.Time) {
	if l.due.Len() > 0 {
		if batch = l.until; batch.IsZero() {
			batch = l.at
		}
	}
	if l.later.Len() > 0 {
		task = l.later.Min().at
	}
	return batch, task
}

// placeLong places a batch of the tasks that are due, if it is time.
func (c *Core) placeLong(now time.Time, acts []Action) []Action {
	l := &c.long
	switch {
	case now.Before(l.at):
		return acts
	case !l.until.IsZero():
		if len(l.asked) > 0 && now.Before(l.until) {
			return acts
		}
	default:
		if acts = c.ask(now, acts); len(l.asked) > 0 {
			l.until = now.Add(askFor)
			return acts
		}
	}
	acts = c.match(now, acts)
	l.answered()
	l.at = time.Time{}
	if l.due.Len() > 0 {
		l.at = now.Add(breath)
	}
	return acts
}

// answered notes that no batch waits for matrices.
func (l *long) answered() {
	clear(l.asked)
	l.until, l.also = time.Time{}, l.also[:0]
}

// ask asks workers for their matrices which the tasks that are due may be placed on, and some at random, where what
// is known of them is missing or old.
func (c *Core) ask(now time.Time, acts []Action) []Action {
	l := &c.long
	c.view.Sweep(now)
	due := l.due.All()
	due = due[:min(len(due), estimate.MaxBatch)]
	sure := c.cfg.SureFor
	if sure < 0 {
		sure = math.MaxInt64
	}
	var keys []int32
	for _, x := range due {
		workers := x.task.group.Set.Workers()
		if len(workers) == 0 {
			continue
		}
		c.gauge(x)
		keys = c.view.Fleet().Doubtful(&x.spec, len(due), sure, now, c.rand, keys[:0])
		for i := range 2 * askedEach {
			from := workers
			if i%2 == 0 && len(c.view.Idle()) > 0 {
				from = c.view.Idle()
			}
			w := from[c.rand.IntN(len(from))]
			row := c.view.Fleet().Get(int32(w.Key))
			if x.task.group.Set.Contains(w) && (row.Matrix == nil || now.Sub(row.Heard) > sure) {
				keys = append(keys, row.Key)
			}
		}
		for _, key := range keys {
			w := c.workers[key]
			if len(l.asked) == maxAsked || !w.Up() || !w.askedAt.IsZero() && now.Sub(w.askedAt) < askAgain {
				continue
			}
			w.askedAt = now
			l.asked[w] = true
			l.also = append(l.also, key)
			c.Stats.Asked++
			acts = append(acts, Send{Worker: w.Key, Msg: probe.Probe{Matrix: true}})
		}
	}
	return acts
}

// gauge tells how long a task will run, by what is known now, and whether that is long.
func (c *Core) gauge(x *longTask) {
	g := x.task.group
	x.spec.Work = estimate.Expect(x.task.spec.Estimate, x.bytes, g.stage, g.Runs.Stats(), c.cfg.Estimate.Unknown)
	if !x.whole {
		x.spec.LongFrom = c.cfg.LongTask
	}
}

// match places a batch of the tasks that are due, of the same priority. What it cannot place sleeps for a while.
func (c *Core) match(now time.Time, acts []Action) []Action {
	l := &c.long
	var batch []*longTask
	var specs []estimate.Task
	sets := map[*group]int{} // numbers, from 1
	for l.due.Len() > 0 && len(batch) < estimate.MaxBatch {
		x := l.due.Min()
		if len(batch) > 0 && !x.like(batch[len(batch)-1]) {
			break
		}
		l.due.Remove(x)
		g := x.task.group
		lone := g.Set.Len() == 0
		if lone == g.job.stranded.IsZero() {
			c.settle(g.job, now)
		}
		if lone {
			c.delay(x, now.Add(blindAgain<<maxBlind))
			continue
		}
		c.gauge(x)
		g.longest = max(g.longest, x.spec.Work.Mean)
		x.spec.Also = l.also
		if sets[g] == 0 {
			sets[g] = len(sets) + 1
		}
		x.spec.Set, x.spec.Until = sets[g], max(g.ends.Sub(now), 0)
		batch = append(batch, x)
		specs = append(specs, x.spec)
	}
	if len(batch) == 0 {
		return acts
	}
	c.Stats.Batches++
	choices, order := c.view.Fleet().Batch(specs, c.cfg.Matcher, now, c.rand)
	for _, i := range order {
		if !c.postpone(batch[i], &choices[i], now) {
			acts = c.enqueueLong(batch[i], &choices[i], now, acts)
		}
	}
	for i, x := range batch {
		choice := &choices[i]
		switch {
		case choice.Chosen >= 0:
		case len(choice.Candidates) > 0:
			c.Stats.Leftovers++
			c.decided(x, choice, nil, now)
			c.delay(x, now.Add(breath<<x.left))
			x.left = min(x.left+1, maxLeft)
		case x.blind == maxBlind:
			choice.Reason = fmt.Sprintf("%s: a random worker, after %d times", choice.Reason, maxBlind)
			acts = c.enqueueBlind(x, choice, now, acts)
		case x.whole || c.fitsNoOpen(x):
			x.whole = true
			choice.Reason = "needs more than is open to long tasks anywhere: at a random worker, it may use all"
			acts = c.enqueueBlind(x, choice, now, acts)
		default:
			c.decided(x, choice, nil, now)
			c.delay(x, now.Add(blindAgain<<x.blind))
			x.blind++
		}
	}
	return acts
}

// postpone lets a task sleep that would have to wait for room, and whose job would not be done earlier if it did not:
// who cannot wait goes ahead of it meanwhile, and later more is known of where there is room. It reports whether it did.
// However long workers say that one waits, that goes on no longer than the longest task of the job runs longer than it.
func (c *Core) postpone(x *longTask, choice *estimate.Decision, now time.Time) bool {
	at := choice.Choice()
	if x.latest.IsZero() {
		x.latest = now.Add(x.task.group.longest - x.spec.Work.Mean)
	}
	sleep := min(at.W, choice.Due-at.C, x.latest.Sub(now), maxSleep)
	if sleep < worthSleep {
		return false
	}
	choice.Reason = fmt.Sprintf("later: its job needs it only after %.3fs, and there is room nowhere yet", choice.Due.Seconds())
	c.decided(x, choice, nil, now)
	c.delay(x, now.Add(sleep-max(sleep/8, worthSleep/2)))
	return true
}

// enqueueLong sends a task where it was decided to go, and notes the room that it takes there.
func (c *Core) enqueueLong(x *longTask, choice *estimate.Decision, now time.Time, acts []Action) []Action {
	at := choice.Choice()
	w := c.workers[at.Worker]
	x.wait, x.run, x.read = max(at.I, at.W), at.R, at.Read // files are fetched while it waits
	if end := now.Add(x.wait + x.run); end.After(x.task.group.ends) {
		x.task.group.ends = end
	}
	acts = c.enqueueAt(x, w, choice, now, acts)
	c.view.Fill(w.Worker, x.spec.Demand, x.run < x.spec.LongFrom, x.run)
	return acts
}

// fitsNoOpen reports whether a task is larger than the part of each worker that long tasks may use.
func (c *Core) fitsNoOpen(x *longTask) bool {
	return !slices.ContainsFunc(x.task.group.Set.Workers(), func(w *view.Worker) bool { return x.spec.Demand.Fits(w.Open()) })
}

// enqueueBlind sends a task to a random worker: none of those that may run it says how long it would wait.
func (c *Core) enqueueBlind(x *longTask, choice *estimate.Decision, now time.Time, acts []Action) []Action {
	workers := x.task.group.Set.Workers()
	w := workers[c.rand.IntN(len(workers))]
	x.wait, x.run, x.read = 0, x.spec.Work.Mean, 0
	return c.enqueueAt(x, c.at(w), choice, now, acts)
}

func (c *Core) enqueueAt(x *longTask, w *worker, choice *estimate.Decision, now time.Time, acts []Action) []Action {
	x.blind, x.left, x.latest = 0, 0, time.Time{}
	c.Stats.Enqueued++
	acts = c.enqueue(x.task, w, now, acts)
	a := x.task.attempt
	c.view.Expect(w.Worker, view.Promise{Attempt: a.id, Res: a.res, Demand: x.task.spec.Demand, Short: x.run < x.spec.LongFrom, Run: x.run})
	c.decided(x, choice, w, now)
	return acts
}

// full places nothing at a worker by estimation whose queue is full, until it tells its matrix again, and does not
// ask for that before its time.
func (c *Core) full(w *worker, retry time.Duration, now time.Time) {
	c.view.Disbelieve(w.Worker)
	w.askedAt = now.Add(retry - askAgain)
}

// learn takes a run of a task into account.
func (c *Core) learn(t *task, w *worker, m *probe.Finished) {
	if more := t.group.Runs.Ran(m.Run); more || t.long != nil || m.Run >= c.cfg.LongTask/4 {
		c.remember(t, w, m)
	}
}

// remember takes a run into account for the estimates of later ones.
func (c *Core) remember(t *task, w *worker, m *probe.Finished) {
	run := estimate.Finished{Run: m.Run, Worker: int32(w.Key), Hint: t.spec.Estimate}
	if row := c.view.Fleet().Get(int32(w.Key)); row != nil {
		run.Speed = row.Speed
	}
	if x := t.near; x != nil {
		run.Read, run.Bytes = x.read, t.spec.inputBytes()
	}
	if x := t.long; x != nil {
		run.Read, run.Bytes = x.read, x.bytes
		c.Waits.Add(x.wait, m.Waited)
		c.Runs.Add(x.run, m.Run)
		t.group.stage.Add(run)
	}
	t.group.Runs.Stats().Add(run)
}
