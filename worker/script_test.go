package worker

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/phoebe-sched/phoebe/probe"
	"github.com/phoebe-sched/phoebe/probe/script"
)

// TestScripts plays the stories in testdata. Besides the words of [script], stories use:
//
//	story slots=2 order=fair ...     a new worker; the settings are in newStory
//	a up                             frontend a connects; another "a up" is a new connection
//	a reserve 1-3 job=x with=a1,a2   message from a to the worker
//	a bind 1.2 a1                    place 1 in its turn 2 gets a task
//	a arrived 20000                  so many bytes came from a, of any messages
//	a sent                           all up to the oldest message shown with ! is in the kernel
//	exit a1 failed                   the executor is done with an attempt
//	fetched a1 failed                the fetcher is done with the files of an attempt
//	progress a1 done=30 ago=1s       a second ago, a1 reported 30 % of its work as done
//	progress a1 ran=2s cpu=1s mem=9  after 2 s, process a1 had used 1 s of CPU time, and had 9 MiB
func TestScripts(t *testing.T) { script.Run(t, newStory) }

// story is a core, with the connections of the frontends in the script.
type story struct {
	core  *Core
	links map[string]LinkID
	names map[LinkID]string
}

func newStory(l *script.Line) *script.Story[Event, Action] {
	cfg := Config{
		Capacity: size(l.Number("slots", 1)), Functions: []string{"f"}, StarvationBound: l.Duration("bound"),
		PreemptAfter: l.Duration("preempt"),
		ShortShare:   float64(l.Number("share", -1)) / 100, // %
		MaxQueue:     l.Number("queue", 0), MaxPayload: l.Number("payload", 0), MaxRetained: l.Number("kept", 0),
		MaxUnsent: l.Number("unsent", 0),
	}
	if name := l.Text("order"); name != "" {
		var err error
		cfg.Order, err = ParseOrder(name)
		l.Fail(err)
	}
	for _, pair := range l.List("weights") { // (a:3,b:1)
		if cfg.Weights == nil {
			cfg.Weights = map[string]float64{}
		}
		name, text, _ := strings.Cut(pair, ":")
		weight, err := strconv.ParseFloat(text, 64)
		l.Fail(err)
		cfg.Weights[name] = weight
	}
	s := &story{core: New(cfg), links: map[string]LinkID{}, names: map[LinkID]string{}}
	return &script.Story[Event, Action]{Core: s.core, Wake: Wake{}, Event: s.event, Show: s.show, State: s.state,
		Width: 120}
}

var size, job = script.Size, script.Job

func (s *story) event(l *script.Line) Event {
	subject := l.Word()
	switch subject {
	case "leave":
		return Leave{}
	case "exit":
		ev := &Exited{Attempt: l.Attempt(l.Word()), Status: probe.Succeeded, Run: time.Millisecond}
		if l.Flag("failed") {
			ev.Status, ev.Error = probe.Failed, "no luck"
		}
		if ev.DiskFailed = l.Flag("disk"); ev.DiskFailed {
			ev.Retry = probe.Elsewhere
		}
		if l.Flag("killed") {
			ev.Status = probe.Killed
		}
		ev.Result = make([]byte, l.Number("result", 0))
		ev.CPU, ev.Memory = l.Duration("cpu"), probe.MiB(l.Number("mem", 0))
		if run := l.Duration("run"); run > 0 {
			ev.Run = run
		}
		return ev
	case "progress":
		id := l.Attempt(l.Word())
		if ran := l.Duration("ran"); ran > 0 {
			return Progressed{Uses: []probe.Use{{Attempt: id, Ran: ran, CPU: l.Duration("cpu"),
				Memory: probe.MiB(l.Number("mem", 0))}}}
		}
		return Progressed{Attempts: []Progress{{Attempt: id, Done: float64(l.Number("done", 0)) / 100,
			Ago: l.Duration("ago")}}}
	case "fetched":
		ev := Fetched{Attempt: l.Attempt(l.Word()), Took: l.Duration("took"), Bytes: uint64(l.Number("bytes", 0))}
		if l.Flag("failed") {
			ev.Err = "no such file"
		}
		ev.DiskFailed = l.Flag("disk")
		return ev
	case "cache":
		if l.Flag("broken") {
			return CacheChanged{"the disk is full"}
		}
		return CacheChanged{}
	}
	verb := l.Word()
	if verb == "up" {
		id := LinkID(len(s.names) + 1)
		s.links[subject], s.names[id] = id, subject
		up := LinkUp{Link: id, Frontend: probe.FrontendID(subject[0]), Features: probe.Classes}
		if l.Flag("old") {
			up.Features = 0
		}
		return up
	}
	link := s.links[subject]
	if link == 0 {
		l.Fail(fmt.Errorf("%s is not connected", subject))
	}
	if verb == "down" {
		return LinkDown{Link: link}
	}
	if verb == "arrived" {
		return Arrived{Link: link, Bytes: l.Int(l.Word())}
	}
	if verb == "sent" {
		return Sent{Link: link}
	}
	return Received{Link: link, Msg: readMsg(l, verb)}
}

func readMsg(l *script.Line, verb string) probe.Msg {
	switch verb {
	case "reserve":
		r := l.Places(l.Word())
		m := probe.Reserve{
			First: r.First, Count: r.Count, Job: job(l.Text("job")), Generation: readGeneration(l),
			Tenant:   l.Text("tenant"),
			Priority: int32(l.Number("prio", 0)), Demand: size(l.Number("size", 1)), Early: l.Flag("early"),
		}
		m.Bundle = uint32(l.Number("bundle", 0))
		launch := readLaunch(l, probe.AttemptID{})
		m.Estimate, m.Typical = launch.Estimate, l.Duration("typical")
		m.Launches, m.Weights, m.Standing = readLaunches(l, "with", launch), readWeights(l), readStanding(l)
		m.Guarded = l.Flag("guarded")
		return m
	case "bind":
		res, turn := l.Turn(l.Word())
		m := probe.Bind{Res: res, Turn: turn, Keep: l.Flag("keep"), Launch: readLaunch(l, l.Attempt(l.Word()))}
		m.Bundle = readLaunches(l, "and", m.Launch)
		if other := l.Text("for"); other != "" {
			m.Job, m.Generation = job(other), readGeneration(l)
		}
		return m
	case "decline":
		res, turn := l.Turn(l.Word())
		return probe.Decline{Res: res, Turn: turn}
	case "enqueue":
		return probe.Enqueue{
			Res: probe.ResID(l.Int(l.Word())), Launch: readLaunch(l, l.Attempt(l.Word())), Job: job(l.Text("job")),
			Generation: readGeneration(l),
			Tenant:     l.Text("tenant"), Priority: int32(l.Number("prio", 0)), Demand: size(l.Number("size", 1)),
			Long: l.Flag("long"), Matrix: l.Flag("matrix"), Standing: readStanding(l), Guarded: l.Flag("guarded"),
		}
	case "restamp":
		m := probe.Restamp{Res: probe.ResID(l.Int(l.Word())), Standing: readStanding(l)}
		if l.WordsLeft() > 0 {
			m.Attempt = l.Attempt(l.Word())
		}
		return m
	case "cancel":
		p := l.Places(l.Word())
		return probe.Cancel{First: p.First, Count: p.Count, Answer: l.Flag("answer")}
	case "kill":
		m := probe.Kill{Attempt: l.Attempt(l.Word())}
		if at := l.Text("at"); at != "" {
			m.Res, m.Turn = l.Turn(at)
		}
		return m
	case "claim":
		m := probe.Claim{Generation: readGeneration(l), Tenant: l.Text("tenant"), HasTenant: !l.Flag("older")}
		if name := l.Text("job"); name != "" {
			m.Job = job(name)
		}
		if l.WordsLeft() > 0 {
			m.Attempt = l.Attempt(l.Word())
		}
		return m
	case "ack":
		return probe.Ack{Disowned: l.Flag("disowned"), Attempts: readAttempts(l, strings.Split(l.Word(), ","))}
	case "sync":
		m := probe.Sync{Next: probe.ResID(l.Number("next", 0)), Attempts: readAttempts(l, l.List("awaits"))}
		for _, r := range l.List("live") {
			m.Live = append(m.Live, l.Places(r))
		}
		return m
	case "ping":
		return probe.Ping{Seq: uint64(l.Int(l.Word())), Matrix: l.Flag("matrix")}
	case "probe":
		return probe.Probe{Seq: uint64(l.Int(l.Word())), Matrix: l.Flag("matrix")}
	case "common":
		return probe.Common{Job: job(l.Text("job")), Number: uint32(l.Int(l.Word())), Payload: []byte("plan")}
	case "forget":
		return probe.Forget{Job: job(l.Text("job"))}
	case "hello":
		return probe.Hello{}
	case "drain":
		return probe.Drain{} // a message for workers only
	}
	l.Fail(fmt.Errorf("unknown message %q", verb))
	return nil
}

// readStanding reads class=spare due=1s left=2s age=3s.
func readStanding(l *script.Line) (s probe.Standing) {
	if name := l.Text("class"); name != "" {
		for s.Class.String() != name {
			if s.Class++; s.Class > probe.Spare {
				l.Fail(fmt.Errorf("unknown class %q", name))
			}
		}
	}
	s.Due, s.Left, s.Age = l.Duration("due"), l.Duration("left"), l.Duration("age")
	return s
}

// readGeneration reads gen=1.
func readGeneration(l *script.Line) probe.Generation { return probe.Generation(l.Number("gen", 0)) }

func readAttempts(l *script.Line, words []string) []probe.AttemptID {
	var ids []probe.AttemptID
	for _, w := range words {
		ids = append(ids, l.Attempt(w))
	}
	return ids
}

func readLaunch(l *script.Line, id probe.AttemptID) probe.Launch {
	m := probe.Launch{
		Attempt: id, Function: "f", Estimate: l.Duration("est"), Deadline: l.Duration("deadline"),
		Payload: make([]byte, l.Number("payload", 0)),
	}
	if f := l.Text("f"); f != "" {
		m.Function = f
	}
	if n := l.Number("common", 0); n > 0 {
		m.Context = &probe.Context{Common: uint32(n)}
	}
	if mb := l.Number("file", 0); mb > 0 {
		m.Files = []probe.File{{URL: "http://store/file", Bytes: uint64(mb) << 20}}
	}
	return m
}

// readWeights reads weights=10,3.
func readWeights(l *script.Line) (ws []uint32) {
	for _, text := range l.List("weights") { // 10,3
		w, err := strconv.ParseUint(text, 10, 32)
		l.Fail(err)
		ws = append(ws, uint32(w))
	}
	return ws
}

// readLaunches returns copies of m for the attempts named by key.
func readLaunches(l *script.Line, key string, m probe.Launch) []probe.Launch {
	var ms []probe.Launch
	for _, id := range readAttempts(l, l.List(key)) {
		m.Attempt = id
		ms = append(ms, m)
	}
	return ms
}

func (s *story) show(acts []Action) string {
	words := make([]string, len(acts))
	for i, a := range acts {
		words[i] = s.showAction(a)
	}
	return strings.Join(words, "; ")
}

func (s *story) showAction(a Action) string {
	switch a := a.(type) {
	case *Send:
		text := s.names[a.Link] + " " + showMsg(a.Msg)
		if a.Report {
			text += " !"
		}
		return text
	case *Start:
		text := "start " + script.ShowAttempt(a.Launch.Attempt) + script.Optional(" deadline", a.Launch.Deadline)
		if len(a.Common) > 0 {
			text += " common=" + string(a.Common)
		}
		return text
	case Stop:
		return "stop " + script.ShowAttempt(a.Attempt)
	case Drop:
		return "drop " + s.names[a.Link]
	case Fetch:
		return "fetch " + script.ShowAttempt(a.Attempt)
	case Release:
		return "release " + script.ShowAttempt(a.Attempt)
	}
	return fmt.Sprintf("%T", a)
}

func showMsg(msg probe.Msg) string {
	switch m := msg.(type) {
	case probe.Ready:
		return "ready " + script.ShowTurn(m.Res, m.Turn) + script.Optional(" early", m.Early)
	case probe.Queued:
		return "queued " + script.ShowPlaces(m.First, m.Count) + fmt.Sprintf(" ahead=%d", m.Ahead) +
			script.Optional(" behind", m.Wait) + showWaits(m.Load)
	case probe.Started:
		text := "started " + script.ShowAttempt(m.Attempt)
		if m.Res != 0 {
			text += fmt.Sprintf(" at=%d", m.Res)
		}
		return text + script.Optional(" ran", m.Ran) + showWaits(m.Load)
	case *probe.Finished:
		status := [...]string{"nothing", "ok", "failed", "panicked", "killed", "timed_out", "too_large", "no_input",
			"preempted"}[m.Status]
		return "finished " + script.ShowAttempt(m.Attempt) + " " + status +
			showDisk(m) + script.Optional(" waited", m.Waited) + script.Optional(" held", m.Held) + script.Optional(" launch",
			m.Launch) + script.Optional(" kept", m.Kept) + showUsage(m.Usage)
	case probe.Refused:
		text := "refused"
		if m.Count > 0 {
			text += " " + script.ShowPlaces(m.First, m.Count)
		}
		if m.Attempt != (probe.AttemptID{}) {
			text += " " + script.ShowAttempt(m.Attempt)
		}
		return text + " " + m.Reason.String() +
			script.Optional(" retry", m.RetryAfter) + script.Optional(" knows", m.Knows)
	case probe.Evicted:
		return "evicted " + script.ShowPlaces(m.First, m.Count) + " " + m.Reason.String()
	case probe.Gone:
		text := "gone"
		for _, r := range m.Places {
			text += " " + script.ShowPlaces(r.First, r.Count)
		}
		for _, id := range m.Attempts {
			text += " " + script.ShowAttempt(id)
		}
		return text
	case probe.Drain:
		return "drain"
	case probe.Cache:
		if m.Problem != "" {
			return "cache broken"
		}
		return "cache"
	case probe.Pong:
		text := fmt.Sprintf("pong %d", m.Seq) + showLoad(m.Load)
		for _, e := range m.Expect {
			text += " " + script.ShowAttempt(e.Attempt) + "+" + e.Wait.String()
		}
		for _, p := range m.Progress {
			text += fmt.Sprintf(" %s=%g%%/%v", script.ShowAttempt(p.Attempt), float64(p.Done)/1e4, p.Left)
		}
		for _, u := range m.Uses {
			text += fmt.Sprintf(" %s used %v,%dMiB of %v", script.ShowAttempt(u.Attempt), u.CPU, u.Memory, u.Ran)
		}
		if m.Pace > 0 {
			text += fmt.Sprintf(" pace=%g", float64(m.Pace)/1000)
		}
		return text
	case probe.Load:
		return fmt.Sprintf("load %d", m.Seq) + showLoad(m)
	case probe.Claimed:
		if m.Moved {
			return "claimed " + script.ShowJob(m.Job) + " moved"
		}
		return fmt.Sprintf("claimed %s n=%d", script.ShowJob(m.Job), m.Count) + script.Optional(" knows", m.Knows)
	}
	return fmt.Sprintf("%T", msg)
}

func showDisk(m *probe.Finished) string {
	switch {
	case m.DiskFailed && m.Retry == probe.Elsewhere:
		return " disk"
	case m.DiskFailed:
		return " disk anywhere"
	}
	return ""
}

func showLoad(l probe.Load) string {
	return fmt.Sprintf(" free=%d queued=%d running=%d", l.Free.CPU/probe.Slot.CPU, l.Queued, l.Running) + showWaits(l)
}

// showWaits shows the wait of a long task for each whole number of slots, if the load has a matrix.
func showWaits(l probe.Load) string {
	if l.Matrix == nil {
		return ""
	}
	var waits []string
	for n := 1; size(n).Fits(l.Matrix.Capacity); n++ {
		wait := "never"
		if w := l.Matrix.Wait(size(n)); w != probe.NeverFits {
			wait = w.Duration().String()
		}
		waits = append(waits, wait)
	}
	return " waits=" + strings.Join(waits, ",")
}

func showUsage(u probe.Usage) string {
	text := script.Optional(" cpu", u.CPU)
	if u.Memory > 0 {
		text += fmt.Sprintf(" mem=%d", u.Memory)
	}
	if u.Fetched > 0 {
		text += fmt.Sprintf(" fetched=%d", u.Fetched)
	}
	return text + script.Optional(" fetch", u.Fetch)
}

func (s *story) state() string {
	c := s.core
	text := fmt.Sprintf("free=%d", c.free.all.CPU/probe.Slot.CPU)
	for _, count := range []struct {
		name string
		n    int
	}{
		{"queued", c.queue.len()},
		{"later", c.spareQueue.len()},
		{"parked", c.parkedCount},
		{"asked", c.asked.Len()},
		{"staged", c.staged.Len()},
		{"running", len(c.runs)},
		{"orphans", c.orphans.Len()},
		{"retained", c.retained.Len()},
		{"held_bytes", c.heldBytes},
		{"full", c.fullLinks},
		{"unclaimed", c.unclaimed.Len()},
	} {
		if count.n > 0 {
			text += fmt.Sprintf(" %s=%d", count.name, count.n)
		}
	}
	switch {
	case c.leaving && c.Idle():
		text += " may_go"
	case c.leaving:
		text += " leaving"
	}
	return text
}
