package sim

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/phoebe-sched/phoebe/frontend"
	"github.com/phoebe-sched/phoebe/frontend/estimate"
	"github.com/phoebe-sched/phoebe/frontend/tenants"
	"github.com/phoebe-sched/phoebe/probe"
	"github.com/phoebe-sched/phoebe/probe/script"
	"github.com/phoebe-sched/phoebe/worker"
)

// TestStories plays the stories in testdata. In a story, frontends and workers meet: every message goes through
// the codec and arrives after a while, and all limits and timers have the values of production. Each event is
// printed with its time since the story began; a message is printed when it leaves. A story has these words
// besides the words that [script] gives to all:
//
//	story workers=2 slots=8 ...      a cluster whose links are up; the settings are in newPage
//
// submit x tasks=24 takes=3s ...   tasks of 3 s; est, once, policy, file=7s (time of the fetch) and so on; at=f2;
//
//	                                 in=h2:1, 0.in=h2:1: all tasks read a megabyte at h2, or task 0 does, at the rates
//	                                 assumed by frontends;
//	                                 run: the client gets all outcomes at the end, else each as it comes
//	x moves to=f2                    the client submits the unfinished tasks to another frontend
//	x cancelled                      by its client
//	f1-w1 breaks, f1-w1 dead         the connection is reset, and made again; or it is half-open until noticed
//	f1 crashes, w1 crashes           the process dies, its machine resets the links; "f1 starts"
//	w1 hangs, w1 goes-on             f1 likewise
//	w1 deaf                          from here on, every Restamp to w1 is lost
//	w1 drains, f1 leaves
//	f1 teaches f2                    gossip brings f2 what f1 knows of run times
//	messages, no-messages            from here on messages are printed, or not; show=messages: from the beginning
//	state                            the contents of the cores
//
// With show=sums, tasks are counted and times are rounded, because the order of tasks is left to chance. Attempts
// are named by their tasks: x.0, and from the second attempt on x.0#2.
func TestStories(t *testing.T) { script.Run(t, newPage) }

// page is a cluster with a log of its events.
type page struct {
	cluster
	base         time.Time     // the script's time at the start of the run
	begin        time.Duration // start of the story
	lines        []pageLine
	showMessages bool // print messages
	showSums     bool // print numbers of tasks, at rounded times
	jobs         []*pageJob
	attempts     map[probe.AttemptID]string
	jobOfPlace   map[placeKey]probe.JobID // of reserved places
	firstErr     error
}

// pageLine is an event at a time. Equal events of several tasks share a line.
type pageLine struct {
	at    time.Duration
	text  string
	job   *pageJob
	tasks []int
}

// pageJob is a job as its client sees the job.
type pageJob struct {
	name        string
	spec        frontend.Job
	owner       *frontendNode
	allAtEnd    bool
	firstSent   time.Duration // when the client submitted the job
	turns       int           // number of submissions
	undelivered []outcome     // outcomes at the frontend, not yet delivered to the client
	starts      []int
	attempts    []int // number of attempts
	done        []bool
}

// outcome is a task's outcome, on its way to the client.
type outcome struct {
	task    probe.TaskIndex
	receipt frontend.Receipt
}

// newPage makes the cluster of a story, with links up.
func newPage(l *script.Line) *script.Story[func(), pageLine] {
	p := &page{base: time.Unix(1_000_000, 0), attempts: map[probe.AttemptID]string{},
		jobOfPlace: map[placeKey]probe.JobID{}}
	p.rng = rand.New(rand.NewPCG(1, 'n'))
	p.net = network{delay: cmp.Or(l.Duration("delay"), time.Millisecond), codec: true, lease: 3 * time.Second,
		ping: time.Second, workersWatch: true}
	p.checkEvery = 1
	p.onAnswer, p.onStart, p.afterFrontend, p.afterWorker = p.handleAnswer, p.noteStart, p.frontendStep, p.workerStep
	p.readTime = func(w *workerNode, s *worker.Start) time.Duration {
		took, _ := readTimeAt(w, p.findJob(script.ShowJob(s.Job)).spec.Tasks[s.Launch.Task].Inputs)
		return took
	}
	p.onFetch, p.onRelease = p.fetchFiles, func(*workerNode, worker.Release) {}
	order, err := worker.ParseOrder(cmp.Or(l.Text("order"), "fifo"))
	l.Fail(err)
	cfg := worker.Config{Functions: []string{sleepFunction}, Order: order, MaxQueue: l.Number("queue", 0),
		ShortShare: l.Float("share")}
	slots := l.List("slots")
	for i := range l.Number("workers", 1) {
		cfg.Capacity = probe.Slot
		if len(slots) > 0 {
			cfg.Capacity = slotsOf(l.Int(slots[i%len(slots)]))
		}
		w := p.addWorker(cfg, 1)
		w.welcome.Worker, w.welcome.Host, w.welcome.Cache = fmt.Sprint("w", i+1), fmt.Sprint("h", i+1),
			fmt.Sprintf("h%d:81", i+1)
	}
	if tokens := l.List("tokens"); len(tokens) > 0 {
		var entries []tenants.Entry
		for _, text := range tokens {
			path, n, _ := strings.Cut(text, ":")
			entries = append(entries, tenants.Entry{Path: path, Tokens: l.Int(n)})
		}
		p.tenantsFile = tenants.New(1, nil, entries)
	}
	copies := l.Float("copies")
	for i := range l.Number("frontends", 1) {
		p.addFrontend(frontend.Config{Copies: copies}, uint64(i))
	}
	for at, _ := p.nextTime(); at <= 10*p.net.delay; at, _ = p.nextTime() {
		l.Fail(p.stepEvent())
	}
	p.begin = 10 * p.net.delay
	p.now = p.begin
	p.base = p.base.Add(-p.begin)
	show := l.Text("show")
	p.showMessages, p.showSums = show == "messages", show == "sums"
	p.lines = nil
	return &script.Story[func(), pageLine]{Core: p, Wake: func() {}, Event: p.readEvent, Show: p.showLines,
		State: p.showState, Width: 50}
}

// Step implements the core of a story. Step runs ev, and then all events due by now.
func (p *page) Step(now time.Time, ev func(), lines []pageLine) []pageLine {
	p.now = now.Sub(p.base)
	ev()
	for at, ok := p.nextTime(); ok && at <= p.now && p.firstErr == nil; at, ok = p.nextTime() {
		p.firstErr = cmp.Or(p.firstErr, p.stepEvent())
	}
	for _, l := range p.lines {
		lines = p.mergeLine(lines, l)
	}
	p.lines = p.lines[:0]
	return lines
}

// mergeLine appends an event. If a line already tells the same of other tasks, the tasks join the line.
func (p *page) mergeLine(lines []pageLine, line pageLine) []pageLine {
	for i := len(lines) - 1; i >= 0 && line.job != nil && lines[i].job != nil && lines[i].at == line.at; i-- {
		if l := &lines[i]; l.text == line.text && l.job == line.job {
			l.tasks = append(l.tasks, line.tasks...)
			return lines
		}
	}
	return append(lines, line)
}

// NextWake implements the core of a story.
func (p *page) NextWake() time.Time {
	at, ok := p.nextTime()
	if !ok {
		return time.Time{}
	}
	return p.base.Add(at)
}

// Check implements the core of a story.
func (p *page) Check() error { return p.firstErr }

// noteLine notes an event of a task; j nil: an event without a task.
func (p *page) noteLine(j *pageJob, task int, format string, args ...any) {
	at := p.now - p.begin
	if p.showSums {
		at = at.Round(50 * time.Millisecond)
	}
	line := pageLine{at: at, text: fmt.Sprintf(format, args...), job: j}
	if j != nil {
		line.tasks = []int{task}
	}
	p.lines = append(p.lines, line)
}

// showLines formats events, a line each.
func (p *page) showLines(pageLines []pageLine) string {
	lines := make([]string, len(pageLines))
	for i, l := range pageLines {
		text := l.text
		switch {
		case l.job != nil && p.showSums:
			text = fmt.Sprintf(text, fmt.Sprintf("%d of %s", len(l.tasks), l.job.name))
		case l.job != nil:
			text = fmt.Sprintf(text, l.job.name+"."+showRanges(l.tasks))
		}
		lines[i] = fmt.Sprintf("%v %s", l.at.Round(10*time.Microsecond), text)
	}
	return strings.Join(lines, "\n")
}

// showRanges formats numbers such as 0-3,5.
func showRanges(ns []int) string {
	slices.Sort(ns)
	var parts []string
	for i := 0; i < len(ns); {
		k := i
		for k+1 < len(ns) && ns[k+1] == ns[k]+1 {
			k++
		}
		part := strconv.Itoa(ns[i])
		if k > i {
			part += "-" + strconv.Itoa(ns[k])
		}
		parts = append(parts, part)
		i = k + 1
	}
	return strings.Join(parts, ",")
}

// findNode returns the node with a name such as f1 or w2.
func findNode[N any](l *script.Line, name, letter string, nodes []N) (n N) {
	if i, err := strconv.Atoi(strings.TrimPrefix(name, letter)); err == nil && i >= 1 && i <= len(nodes) {
		return nodes[i-1]
	}
	l.Fail(fmt.Errorf("no process is called %q: use f1, w1 and so on", name))
	return n
}

// findJob returns the job with a name; nil if there is none.
func (p *page) findJob(name string) *pageJob {
	for _, j := range p.jobs {
		if j.name == name {
			return j
		}
	}
	return nil
}

// readEvent reads an event other than submit, and returns a function that carries it out.
func (p *page) readEvent(l *script.Line) func() {
	subject := l.Word()
	switch subject {
	case "messages", "no-messages":
		return func() { p.showMessages = subject == "messages" }
	case "submit":
		return p.readSubmit(l)
	}
	verb := l.Word()
	if j := p.findJob(subject); j != nil {
		switch verb {
		case "moves":
			f := findNode(l, l.Text("to"), "f", p.frontends)
			return func() { p.visitFrontend(j, f) }
		case "cancelled":
			return func() { p.stepTo(j.owner, frontend.Cancel{Job: j.spec.ID, Reason: "not wanted"}) }
		}
	}
	if a, b, ok := strings.Cut(subject, "-"); ok {
		f, w := findNode(l, a, "f", p.frontends), findNode(l, b, "w", p.workers)
		switch verb {
		case "breaks":
			return func() { p.breakConn(f.conns[w.index]) }
		case "dead":
			return func() { f.conns[w.index].cut = true }
		}
	}
	if strings.HasPrefix(subject, "f") {
		f := findNode(l, subject, "f", p.frontends)
		switch verb {
		case "crashes":
			return func() { p.crashFrontend(f, true) }
		case "starts":
			return func() { p.startFrontend(f, 7) }
		case "leaves":
			return func() { p.stepTo(f, frontend.Leave{}) }
		case "teaches":
			other := findNode(l, l.Word(), "f", p.frontends)
			return func() { p.firstErr = cmp.Or(p.firstErr, p.teachFrontend(f, other)) }
		case "hangs":
			return func() { f.hung = &hang{since: p.now} }
		case "goes-on":
			return func() { p.resumeFrontend(f) }
		}
	}
	if strings.HasPrefix(subject, "w") {
		w := findNode(l, subject, "w", p.workers)
		switch verb {
		case "crashes":
			return func() { p.crashWorker(w, true) }
		case "starts":
			return func() { p.startWorker(w) }
		case "hangs":
			return func() { w.hung = &hang{since: p.now} }
		case "goes-on":
			return func() { p.resumeProcess(&w.hung) }
		case "deaf":
			return func() { w.ignoresRestamp = true }
		case "drains":
			return func() { p.firstErr = cmp.Or(p.firstErr, p.stepWorker(w, worker.Leave{})) }
		}
	}
	l.Fail(fmt.Errorf("unknown event %q", verb))
	return nil
}

// readSubmit reads a job.
func (p *page) readSubmit(l *script.Line) func() {
	j := &pageJob{name: l.Word(), allAtEnd: l.Flag("run")}
	j.spec = frontend.Job{
		ID: script.Job(j.name), Tenant: l.Text("tenant"), Priority: int32(l.Number("prio", 0)),
		ProbeRatio: l.Float("ratio"), Deadline: l.Duration("deadline"),
	}
	policy, err := ParsePolicy(cmp.Or(l.Text("policy"), "phoebe"))
	l.Fail(err)
	j.spec.Policy = policy.frontend
	j.spec.Mode, err = estimate.ParseMode(cmp.Or(l.Text("mode"), "auto"))
	l.Fail(err)
	for _, text := range l.List("stages") {
		name, after, _ := strings.Cut(text, "<")
		s := frontend.Stage{Name: name}
		if after != "" {
			s.After = strings.Split(after, "+")
		}
		j.spec.Stages = append(j.spec.Stages, s)
	}
	all := frontend.Task{Function: sleepFunction, Estimate: l.Duration("est"), Retryable: !l.Flag("once"),
		Retries: l.Number("retries", 0)}
	if n := l.Number("size", 0); n > 0 {
		all.Demand = slotsOf(n)
	}
	all.Constraint.Hosts = l.List("hosts")
	takes, file := l.Duration("takes"), l.Text("file")
	for i := range l.Number("tasks", 1) {
		t := all
		t.Index = probe.TaskIndex(i)
		t.Payload = payloadOf(cmp.Or(l.Duration(fmt.Sprint(i, ".takes")), takes))
		t.Stage = int32(l.Number(fmt.Sprint(i, ".stage"), 0))
		for _, text := range append(l.List("in"), l.List(fmt.Sprint(i, ".in"))...) {
			at, size, _ := strings.Cut(text, ":")
			t.Inputs = append(t.Inputs, frontend.Input{Bytes: int64(l.Int(size)) * 1e6,
				Copies: []estimate.Copy{{At: at}}})
		}
		if file != "" {
			t.Files = []probe.File{{Digest: [32]byte{byte(i + 1)}, URL: "http://origin/" + file, Bytes: 1 << 20}}
		}
		j.spec.Tasks = append(j.spec.Tasks, t)
	}
	n := len(j.spec.Tasks)
	j.starts, j.attempts, j.done = make([]int, n), make([]int, n), make([]bool, n)
	p.jobs = append(p.jobs, j)
	f := findNode(l, cmp.Or(l.Text("at"), "f1"), "f", p.frontends)
	return func() { p.visitFrontend(j, f) }
}

// visitFrontend submits the unfinished tasks of a job to a frontend.
func (p *page) visitFrontend(j *pageJob, f *frontendNode) {
	spec := j.spec
	spec.Tasks, j.undelivered = nil, nil
	if j.turns > 0 {
		spec.Generation, spec.Age = probe.Generation(j.turns), p.now-j.firstSent
	} else {
		j.firstSent = p.now
	}
	j.turns++
	for i, t := range j.spec.Tasks {
		if !j.done[i] {
			spec.Tasks = append(spec.Tasks, t)
		}
	}
	j.owner = f
	p.stepTo(f, frontend.Submit{Job: &spec})
}

func (p *page) stepTo(f *frontendNode, ev frontend.Event) {
	p.firstErr = cmp.Or(p.firstErr, p.stepFrontend(f, ev))
}

// handleAnswer is the client of a frontend.
func (p *page) handleAnswer(f *frontendNode, a frontend.Action) {
	name := p.frontendName(f)
	switch a := a.(type) {
	case frontend.Refused:
		p.noteLine(nil, 0, "%s refuses %s: %s", name, script.ShowJob(a.Job), a.Err.Message)
	case *frontend.Done:
		j, o := p.findJob(script.ShowJob(a.Job)), &a.Outcome
		if j.owner == f {
			j.undelivered = append(j.undelivered, outcome{o.Task, o.Receipt})
		}
		if !j.allAtEnd {
			p.deliverOutcomes(j, f)
		}
		kind := [...]string{frontend.Result: "ok", frontend.Failed: "failed", frontend.Cancelled: "cancelled",
			frontend.DeadlineExceeded: "late"}[o.Kind]
		if o.Kind == frontend.Failed {
			kind = [...]string{
				frontend.TaskError: "error", frontend.Timeout: "timeout", frontend.Lost: "lost",
				frontend.Poison: "poison", frontend.NoWorker: "no-worker",
				frontend.TooLarge: "too-large", frontend.Panic: "panic", frontend.Infrastructure: "infrastructure",
				frontend.NoInput: "no-input", frontend.StageFailed: "stage-failed",
			}[o.Failure]
		}
		if o.Attempts > 1 {
			kind += fmt.Sprintf(" after %d attempts", o.Attempts)
		}
		if o.Message != "" {
			kind += ": " + strings.ReplaceAll(o.Message, "%", "%%")
		}
		p.noteLine(j, int(o.Task), "%s: %%s %s", name, kind)
	case frontend.Ended:
		p.deliverOutcomes(p.findJob(script.ShowJob(a.Job)), f)
	case frontend.Moved:
		p.noteLine(nil, 0, "%s: %s has moved", name, script.ShowJob(a.Job))
	}
}

// deliverOutcomes brings all outcomes so far to the client. The frontend hears of the delivery a while later.
func (p *page) deliverOutcomes(j *pageJob, f *frontendNode) {
	var receipts []frontend.Receipt
	for _, o := range j.undelivered {
		j.done[o.task] = true
		receipts = append(receipts, o.receipt)
	}
	j.undelivered = nil
	life := f.life
	p.callAt(p.now+2*p.net.delay, func() {
		if f.life == life && !f.down && f.hung == nil {
			p.stepTo(f, frontend.Delivered{Receipts: receipts})
		}
	})
}

func (p *page) frontendName(f *frontendNode) string { return fmt.Sprint("f", f.index+1) }
func (p *page) workerName(w *workerNode) string     { return fmt.Sprint("w", w.index+1) }
func (p *page) attemptName(id probe.AttemptID) string {
	return cmp.Or(p.attempts[id], "an unknown task")
}

// noteStart notes the start of a task, and checks tasks that may start only once.
func (p *page) noteStart(w *workerNode, s *worker.Start) {
	j := p.findJob(script.ShowJob(s.Job))
	n := s.Launch.Task
	j.starts[n]++
	again := ""
	if j.starts[n] > 1 {
		again = " again"
		if !j.spec.Tasks[n].Retryable {
			p.firstErr = cmp.Or(p.firstErr, fmt.Errorf("%s.%d may start only once, and starts again at %s", j.name, n,
				p.workerName(w)))
		}
	}
	p.noteLine(j, int(n), "%s starts %%s%s", p.workerName(w), again)
}

// fetchFiles takes as long as the file's URL says.
func (p *page) fetchFiles(w *workerNode, a worker.Fetch) {
	takes, err := time.ParseDuration(strings.TrimPrefix(a.Files[0].URL, "http://origin/"))
	p.firstErr = cmp.Or(p.firstErr, err)
	life := w.life
	p.callAt(p.now+takes, func() {
		if w.life == life && !w.down {
			p.firstErr = cmp.Or(p.firstErr,
				p.stepWorker(w, worker.Fetched{Attempt: a.Attempt, Took: takes, Bytes: 1 << 20}))
		}
	})
}

// frontendStep and workerStep note the messages of a step.
func (p *page) frontendStep(f *frontendNode, _ frontend.Event) {
	for _, a := range f.acts {
		if s, ok := a.(frontend.Send); ok {
			text := p.showFrontendMsg(s.Msg, f, int(s.Worker))
			if p.showMessages && text != "" {
				p.noteLine(nil, 0, "%s to w%d: %s", p.frontendName(f), s.Worker+1, text)
			}
		}
	}
}

func (p *page) workerStep(w *workerNode, _ worker.Event) {
	for _, a := range w.acts {
		switch a := a.(type) {
		case *worker.Send:
			if text := p.showWorkerMsg(a.Msg); p.showMessages && text != "" {
				p.noteLine(nil, 0, "%s to %s: %s", p.workerName(w), p.frontendName(p.conns[a.Link-1].f), text)
			}
		case worker.Stop:
			p.noteLine(nil, 0, "%s stops %s", p.workerName(w), p.attemptName(a.Attempt))
		}
	}
}

// showLaunches names the attempts of a job by their tasks.
func (p *page) showLaunches(id probe.JobID, list ...probe.Launch) string {
	j := p.findJob(script.ShowJob(id))
	var names []string
	for i := range list {
		n := list[i].Task
		if p.attempts[list[i].Attempt] == "" {
			name := fmt.Sprintf("%s.%d", j.name, n)
			if j.attempts[n]++; j.attempts[n] > 1 {
				name += fmt.Sprint("#", j.attempts[n])
			}
			p.attempts[list[i].Attempt] = name
		}
		names = append(names, p.attemptName(list[i].Attempt))
	}
	return strings.Join(names, ",")
}

// showFrontendMsg formats a message of a frontend; "" for a message without news.
func (p *page) showFrontendMsg(m probe.Msg, f *frontendNode, w int) string {
	switch m := m.(type) {
	case probe.Reserve:
		for i := range m.Count {
			p.jobOfPlace[placeKey{f.index, w, m.First + probe.ResID(i)}] = m.Job
		}
		text := fmt.Sprintf("reserve %s for %s", script.ShowPlaces(m.First, m.Count), script.ShowJob(m.Job))
		if len(m.Launches) > 0 {
			text += " with " + p.showLaunches(m.Job, m.Launches...)
		}
		return text
	case probe.Bind:
		job := m.Job
		if job == (probe.JobID{}) {
			job = p.jobOfPlace[placeKey{f.index, w, m.Res}]
		}
		text := fmt.Sprintf("bind %s to %s", p.showLaunches(job, append([]probe.Launch{m.Launch}, m.Bundle...)...),
			script.ShowTurn(m.Res, m.Turn))
		if m.Keep {
			text += ", keep"
		}
		return text
	case probe.Decline:
		return "decline " + script.ShowTurn(m.Res, m.Turn)
	case probe.Enqueue:
		return fmt.Sprintf("enqueue %s at %d", p.showLaunches(m.Job, m.Launch), m.Res)
	case probe.Cancel:
		return "cancel " + script.ShowPlaces(m.First, m.Count)
	case probe.Kill:
		return "kill " + p.attemptName(m.Attempt)
	case probe.Restamp:
		return "restamp " + p.attemptName(m.Attempt)
	case probe.Claim:
		if m.Attempt != (probe.AttemptID{}) {
			return "claim " + p.attemptName(m.Attempt)
		}
		return "claim " + script.ShowJob(m.Job)
	case probe.Sync:
		return p.showSync("sync", m.Live, m.Attempts)
	}
	return ""
}

// showSync formats places and attempts; "" if there are none.
func (p *page) showSync(text string, places []probe.Range, attempts []probe.AttemptID) string {
	if len(places)+len(attempts) == 0 {
		return ""
	}
	for _, r := range places {
		text += " " + script.ShowPlaces(r.First, r.Count)
	}
	for _, id := range attempts {
		text += " " + p.attemptName(id)
	}
	return text
}

// showWorkerMsg formats a message of a worker; "" for a message without news.
func (p *page) showWorkerMsg(m probe.Msg) string {
	switch m := m.(type) {
	case probe.Ready:
		text := "ready " + script.ShowTurn(m.Res, m.Turn)
		if m.Early > 0 {
			text += " early"
		}
		return text
	case probe.Queued:
		return "queued " + script.ShowPlaces(m.First, m.Count)
	case probe.Started:
		return "started " + p.attemptName(m.Attempt)
	case *probe.Finished:
		return "finished " + p.attemptName(m.Attempt) + ": " + m.Status.String()
	case probe.Refused:
		text := "refused"
		if m.Count > 0 {
			text += " " + script.ShowPlaces(m.First, m.Count)
		}
		if m.Attempt != (probe.AttemptID{}) {
			text += " " + p.attemptName(m.Attempt)
		}
		return text + ": " + m.Reason.String()
	case probe.Evicted:
		return "evicted " + script.ShowPlaces(m.First, m.Count) + ": " + m.Reason.String()
	case probe.Gone:
		return p.showSync("gone", m.Places, m.Attempts)
	case probe.Drain:
		return "drain"
	case probe.Claimed:
		return fmt.Sprintf("claimed %s: %d", script.ShowJob(m.Job), m.Count)
	}
	return ""
}

// showState formats the contents of the cores.
func (p *page) showState() string {
	var words []string
	for _, f := range p.frontends {
		if f.down {
			continue
		}
		if pending, running := f.frontendCore().Pending(); pending > 0 {
			words = append(words, fmt.Sprintf("%s: pending=%d running=%d", p.frontendName(f), pending, running))
		}
	}
	for _, w := range p.workers {
		if w.down {
			continue
		}
		if load := w.core.Load(); load.Queued+load.Running > 0 {
			words = append(words, fmt.Sprintf("%s: queued=%d running=%d", p.workerName(w), load.Queued, load.Running))
		}
	}
	return cmp.Or(strings.Join(words, ", "), "nothing")
}
