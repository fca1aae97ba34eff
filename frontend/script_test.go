package frontend

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/phoebe-sched/phoebe/probe"
)

// TestScripts plays the stories in testdata. A story is what stands below the dashes, an event and the
// actions that follow from it per line: to write one, leave the arrows out and run go test -rewrite.
// The words of the stories:
//
//	story adrift=1s ...            a new frontend; the settings are in newStory
//	w1 up slots=2 labels=zone=a    a link to worker w1 is made, or made again; "new": another process there
//	w1 lost, w1 gone               the link breaks; the worker is given up
//	w1 ready 3.1 free=2            message from w1; loads are free=0 queued=0 (in slots) unless told
//	w1 answers queued=3            w1 answers the probe for its load
//	submit x tasks=3 policy=...    3 tasks alike; 1.hosts=h1 is for task 1 only; once: may start only once
//	+5ms                           time passes, with a Wake whenever one is due
//	state                          what the core counts, but zeros
//
// Attempts of this frontend are a1, a2, ..., of others b7, and are shown with their task: a1(x.0). Workers are
// sampled at random, so a story lets a job be worth as many probes as there are workers, and what is sent to
// several of them is shown in their order.
func TestScripts(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		if filepath.Ext(path) != ".txt" {
			return
		}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			s, err := newStory(d)
			if err != nil {
				d.Fatalf(t, "%v", err)
			}
			var events, answers []string
			for line := range strings.Lines(d.Expected) {
				event, _, _ := strings.Cut(line, " -> ")
				event = strings.TrimSpace(event)
				if event == "" || strings.HasPrefix(event, "->") {
					continue // an answer in several lines
				}
				answer, err := s.play(event)
				if err != nil {
					d.Fatalf(t, "%s: %v", event, err)
				}
				if err := s.core.Check(); err != nil {
					d.Fatalf(t, "after %s: %v", event, err)
				}
				events, answers = append(events, event), append(answers, answer)
			}
			if len(events) == 0 {
				d.Fatalf(t, "a story without events")
			}
			width := min(40, len(slices.MaxFunc(events, func(a, b string) int { return len(a) - len(b) })))
			var out strings.Builder
			for i := range events {
				answer := strings.ReplaceAll(answers[i], "\n", "\n"+strings.Repeat(" ", max(width, len(events[i])))+" -> ")
				fmt.Fprintf(&out, "%-*s -> %s\n", width, events[i], answer)
			}
			return out.String()
		})
	})
}

// story is a core, and the workers that the script names.
type story struct {
	core     *Core
	now      time.Time
	start    time.Time
	workers  map[string]Worker
	names    []string
	welcomes map[string]probe.Welcome
	lives    uint64
}

const self = probe.FrontendID('a')

func newStory(d *datadriven.TestData) (*story, error) {
	cfg := Config{ID: self, SyncEvery: time.Hour}
	for _, arg := range d.CmdArgs {
		var err error
		val := strings.Join(arg.Vals, ",")
		number := func(p *int) { *p, err = strconv.Atoi(val) }
		duration := func(p *time.Duration) { *p, err = time.ParseDuration(val) }
		switch arg.Key {
		case "tasks":
			number(&cfg.MaxTasksPerJob)
		case "payload":
			number(&cfg.MaxPayload)
		case "pending":
			number(&cfg.MaxPending)
		case "poison":
			number(&cfg.PoisonAfter)
		case "wait":
			duration(&cfg.MaxWait)
		case "adrift":
			duration(&cfg.AdriftFor)
		case "claim":
			duration(&cfg.ClaimFor)
		case "stranded":
			duration(&cfg.StrandedFor)
		case "sync":
			duration(&cfg.SyncEvery)
		default:
			err = fmt.Errorf("unknown setting %q", arg.Key)
		}
		if err != nil {
			return nil, err
		}
	}
	start := time.Unix(1_000_000, 0)
	return &story{
		core: New(cfg, rand.New(rand.NewPCG(1, 2))), now: start, start: start,
		workers: map[string]Worker{}, welcomes: map[string]probe.Welcome{},
	}, nil
}

// size is the demand of n slots.
func size(n int) probe.Demand {
	return probe.Demand{CPU: probe.Slot.CPU * probe.Millicores(n), Mem: probe.Slot.Mem * probe.MiB(n)}
}

func (s *story) play(text string) (string, error) {
	if text == "state" {
		return s.state(), nil
	}
	if wait, ok := strings.CutPrefix(text, "+"); ok {
		d, err := time.ParseDuration(wait)
		if err != nil {
			return "", err
		}
		return s.pass(d)
	}
	l := &line{story: s, named: map[string]string{}}
	for w := range strings.FieldsSeq(text) {
		if key, val, ok := strings.Cut(w, "="); ok {
			l.named[key] = val
		} else {
			l.words = append(l.words, w)
		}
	}
	ev := l.event()
	if l.err == nil && len(l.words)+len(l.named) > 0 {
		l.err = fmt.Errorf("what is %q %v?", l.words, slices.Sorted(maps.Keys(l.named)))
	}
	if l.err != nil {
		return "", l.err
	}
	return s.show(s.core.Step(s.now, ev, nil)), nil
}

// pass lets time pass as a shell does.
func (s *story) pass(d time.Duration) (string, error) {
	var acts []Action
	for end := s.now.Add(d); ; {
		at := s.core.NextWake()
		if at.IsZero() || at.After(end) {
			s.now = end
			return s.show(acts), nil
		}
		if at.Before(s.now) {
			return "", fmt.Errorf("a wake was due %v ago", s.now.Sub(at))
		}
		s.now = at
		acts = s.core.Step(s.now, Wake{}, acts)
		if next := s.core.NextWake(); !next.IsZero() && !next.After(at) {
			return "", errors.New("the wake that was due changed nothing")
		}
	}
}

// line is one event in words: those without "=" in order, and those with it by name.
type line struct {
	story *story
	words []string
	named map[string]string
	err   error
}

func (l *line) word() string {
	if len(l.words) == 0 {
		l.err = errors.Join(l.err, errors.New("words are missing"))
		return ""
	}
	w := l.words[0]
	l.words = l.words[1:]
	return w
}

// flag takes a word if it is there.
func (l *line) flag(word string) bool {
	i := slices.Index(l.words, word)
	if i < 0 {
		return false
	}
	l.words = slices.Delete(l.words, i, i+1)
	return true
}

func (l *line) text(key string) string {
	v := l.named[key]
	delete(l.named, key)
	return v
}

func (l *line) list(key string) []string {
	if v := l.text(key); v != "" {
		return strings.Split(v, ",")
	}
	return nil
}

func (l *line) number(key string, or int) int {
	if v := l.text(key); v != "" {
		return l.atoi(v)
	}
	return or
}

func (l *line) atoi(s string) int {
	n, err := strconv.Atoi(s)
	l.err = errors.Join(l.err, err)
	return n
}

func (l *line) duration(key string) time.Duration {
	v := l.text(key)
	if v == "" {
		return 0
	}
	d, err := time.ParseDuration(v)
	l.err = errors.Join(l.err, err)
	return d
}

// places is "3" or "3-5".
func (l *line) places(s string) probe.Range {
	first, last, ok := strings.Cut(s, "-")
	from := l.atoi(first)
	if !ok {
		return probe.Range{First: probe.ResID(from), Count: 1}
	}
	return probe.Range{First: probe.ResID(from), Count: uint32(l.atoi(last) - from + 1)}
}

// turn is "3" or "3.1".
func (l *line) turn(s string) (probe.ResID, probe.Turn) {
	res, turn, ok := strings.Cut(s, ".")
	if !ok {
		turn = "0"
	}
	return probe.ResID(l.atoi(res)), probe.Turn(l.atoi(turn))
}

func isAttempt(s string) bool {
	return len(s) > 1 && (s[0] == 'a' || s[0] == 'b') && '0' <= s[1] && s[1] <= '9'
}

func (l *line) attempt(s string) probe.AttemptID {
	if !isAttempt(s) {
		l.err = errors.Join(l.err, fmt.Errorf("%q is not an attempt", s))
		return probe.AttemptID{}
	}
	return probe.AttemptID{Frontend: probe.FrontendID(s[0]), Seq: uint64(l.atoi(s[1:]))}
}

// task is "x.0".
func (l *line) task(s string) (probe.JobID, probe.TaskIndex) {
	name, index, _ := strings.Cut(s, ".")
	return jobNamed(name), probe.TaskIndex(l.atoi(index))
}

func jobNamed(name string) (id probe.JobID) {
	copy(id[:], name)
	return id
}

func nameOf(id probe.JobID) string { return strings.TrimRight(string(id[:]), "\x00") }

func (l *line) event() Event {
	switch who := l.word(); who {
	case "leave":
		return Leave{}
	case "cancel":
		return Cancel{Job: jobNamed(l.word()), Reason: "not wanted"}
	case "submit":
		return Submit{Job: l.job()}
	default:
		return l.workerEvent(who)
	}
}

func (l *line) job() *Job {
	j := &Job{
		ID: jobNamed(l.word()), Tenant: l.text("tenant"), Priority: int32(l.number("prio", 0)), Deadline: l.duration("deadline"),
		Constraint: l.constraint(""), Resubmitted: l.flag("resubmitted"),
	}
	name := l.text("policy")
	name, parts, _ := strings.Cut(name, "+")
	var err error
	if j.Policy, err = ParsePolicy(cmp.Or(name, "phoebe")); err != nil {
		l.err = errors.Join(l.err, err)
	}
	for part := range strings.SplitSeq(parts, "+") {
		switch part {
		case "sticky":
			j.Policy.Sticky = true
		case "ride":
			j.Policy.RideAlong = true
		case "resample":
			j.Policy.Resample = true
		case "":
		default:
			l.err = errors.Join(l.err, fmt.Errorf("unknown part %q of a policy", part))
		}
	}
	if v := l.text("ratio"); v != "" {
		j.ProbeRatio, err = strconv.ParseFloat(v, 64)
		l.err = errors.Join(l.err, err)
	}
	all := Task{
		Function: cmp.Or(l.text("f"), "f"), Estimate: l.duration("est"), Retryable: !l.flag("once"), Retries: l.number("retries", 0),
		Timeout: l.duration("timeout"), Payload: make([]byte, l.number("payload", 0)),
	}
	if n := l.number("size", 0); n != 0 {
		all.Demand = size(n)
	}
	own := l.list("only")
	for i := range l.number("tasks", 1) {
		t := all
		t.Index = probe.TaskIndex(i)
		if len(own) > 0 { // a resubmission names what is unfinished
			if i >= len(own) {
				break
			}
			t.Index = probe.TaskIndex(l.atoi(own[i]))
		}
		prefix := fmt.Sprint(i, ".")
		t.Constraint = l.constraint(prefix)
		if n := l.number(prefix+"size", 0); n != 0 {
			t.Demand = size(n)
		}
		if f := l.text(prefix + "f"); f != "" {
			t.Function = f
		}
		if n := l.number(prefix+"payload", -1); n >= 0 {
			t.Payload = make([]byte, n)
		}
		if l.text(prefix+"once") != "" {
			t.Retryable = false
		}
		if n := l.number(prefix+"index", -1); n >= 0 {
			t.Index = probe.TaskIndex(n)
		}
		j.Tasks = append(j.Tasks, t)
	}
	return j
}

func (l *line) constraint(prefix string) Constraint {
	return Constraint{Labels: l.list(prefix + "labels"), Hosts: l.list(prefix + "hosts")}
}

func (l *line) workerEvent(who string) Event {
	s := l.story
	verb := l.word()
	if verb == "up" {
		key, known := s.workers[who]
		if !known {
			key = Worker(len(s.names))
			s.workers[who] = key
			s.names = append(s.names, who)
		}
		m, known := s.welcomes[who]
		if fresh := l.flag("new"); !known || fresh {
			s.lives++
			m = probe.Welcome{
				Worker: who, Host: "h" + strings.TrimPrefix(who, "w"), Incarnation: s.lives, Capacity: size(l.number("slots", 1)),
				Labels: l.list("labels"), Functions: l.list("f"),
			}
			if m.Functions == nil {
				m.Functions = []string{"f"}
			}
		}
		m.Draining = l.flag("draining")
		s.welcomes[who] = m
		return WorkerUp{Worker: key, Welcome: m}
	}
	key, known := s.workers[who]
	if !known {
		l.err = fmt.Errorf("who is %q?", who)
	}
	switch verb {
	case "lost":
		return LinkLost{Worker: key}
	case "gone":
		return WorkerGone{Worker: key}
	}
	if verb == "answers" { // the probe for its queue's length
		for seq, r := range s.core.rounds.bySeq {
			if r.asked[s.core.worker(key)] == seq {
				l.words = append([]string{fmt.Sprint(seq)}, l.words...)
			}
		}
		verb = "load"
	}
	return Received{Worker: key, Msg: l.message(verb)}
}

var statuses = map[string]probe.Status{
	"ok": probe.Succeeded, "failed": probe.Failed, "panicked": probe.Panicked, "killed": probe.Killed,
	"timed_out": probe.TimedOut, "too_large": probe.TooLarge,
}

func (l *line) reason() probe.Reason {
	word := l.word()
	for r := probe.QueueFull; r <= probe.Late; r++ {
		if r.String() == word {
			return r
		}
	}
	l.err = errors.Join(l.err, fmt.Errorf("unknown reason %q", word))
	return 0
}

func (l *line) message(verb string) probe.Msg {
	load := probe.Load{Free: size(l.number("free", 0)), Queued: uint32(l.number("queued", 0)), Running: uint32(l.number("running", 0))}
	switch verb {
	case "ready":
		res, turn := l.turn(l.word())
		return probe.Ready{Res: res, Turn: turn, Load: load}
	case "queued":
		p := l.places(l.word())
		return probe.Queued{First: p.First, Count: p.Count, Load: load}
	case "started":
		m := probe.Started{Attempt: l.attempt(l.word()), Load: load}
		if len(l.words) > 0 {
			m.Job, m.Task = l.task(l.word())
		}
		return m
	case "finished":
		m := probe.Finished{Attempt: l.attempt(l.word()), Load: load, Run: time.Millisecond}
		m.Status = statuses[l.word()]
		if m.Status == probe.Succeeded {
			m.Result = []byte("result")
		} else if m.Status == probe.Failed {
			m.Error = "no luck"
		}
		if len(l.words) > 0 {
			m.Job, m.Task = l.task(l.word())
		}
		return m
	case "refused":
		m := probe.Refused{RetryAfter: l.duration("retry"), Load: load}
		if len(l.words) > 1 && !isAttempt(l.words[0]) {
			p := l.places(l.word())
			m.First, m.Count = p.First, p.Count
		}
		if len(l.words) > 1 {
			m.Attempt = l.attempt(l.word())
		}
		m.Reason = l.reason()
		return m
	case "evicted":
		p := l.places(l.word())
		return probe.Evicted{First: p.First, Count: p.Count, Reason: l.reason()}
	case "knows-not":
		var m probe.Gone
		for len(l.words) > 0 {
			if w := l.word(); isAttempt(w) {
				m.Attempts = append(m.Attempts, l.attempt(w))
			} else {
				m.Places = append(m.Places, l.places(w))
			}
		}
		return m
	case "claimed":
		return probe.Claimed{Job: jobNamed(l.word())}
	case "load":
		load.Seq = uint64(l.atoi(l.word()))
		return load
	case "pong":
		return probe.Pong{Load: load}
	case "drain":
		return probe.Drain{}
	}
	l.err = errors.Join(l.err, fmt.Errorf("unknown message %q", verb))
	return nil
}

// show puts actions into words; sends of one kind in a row go in the order of the workers.
func (s *story) show(acts []Action) string {
	if len(acts) == 0 {
		return "-"
	}
	for i := 0; i < len(acts); {
		end := i + 1
		for end < len(acts) && sameKind(acts[i], acts[end]) {
			end++
		}
		slices.SortStableFunc(acts[i:end], func(a, b Action) int { return cmp.Compare(a.(Send).Worker, b.(Send).Worker) })
		i = end
	}
	words := make([]string, len(acts))
	length := 0
	for i, a := range acts {
		words[i] = s.showAction(a)
		length += len(words[i])
	}
	if length > 90 {
		return strings.Join(words, "\n")
	}
	return strings.Join(words, "; ")
}

func sameKind(a, b Action) bool {
	x, ok := a.(Send)
	y, ok2 := b.(Send)
	return ok && ok2 && fmt.Sprintf("%T", x.Msg) == fmt.Sprintf("%T", y.Msg)
}

var refusals = map[RefusedReason]string{
	Invalid: "invalid", TooBigJob: "too_big", NoSuchWorker: "no_such_worker", Overloaded: "overloaded", Leaving: "leaving",
}

var failures = map[Failure]string{
	TaskError: "task_error", Timeout: "timeout", Lost: "lost", Poison: "poison", NoWorker: "no_worker", TooLarge: "too_large",
	Panic: "panic", Infrastructure: "infrastructure",
}

func (s *story) showAction(a Action) string {
	switch a := a.(type) {
	case Send:
		return s.names[a.Worker] + " " + s.showMsg(a.Msg)
	case Accepted:
		return "accepted " + nameOf(a.Job)
	case Refused:
		return fmt.Sprintf("refused %s %s%s: %s", nameOf(a.Job), refusals[a.Err.Reason], optional(" retry", a.Err.RetryAfter), a.Err.Message)
	case Done:
		o := &a.Outcome
		text := fmt.Sprintf("done %s.%d ", nameOf(a.Job), o.Task)
		switch o.Kind {
		case Result:
			text += "ok"
		case Failed:
			text += failures[o.Failure]
		case Cancelled:
			text += "cancelled"
		case DeadlineExceeded:
			text += "deadline"
		}
		if o.Attempts != 1 {
			text += fmt.Sprintf(" attempts=%d", o.Attempts)
		}
		if o.Message != "" {
			text += ": " + o.Message
		}
		return text
	case Ended:
		return "ended " + nameOf(a.Job)
	case Moved:
		return "moved " + nameOf(a.Job)
	}
	return fmt.Sprintf("%T", a)
}

func (s *story) showMsg(msg probe.Msg) string {
	switch m := msg.(type) {
	case probe.Reserve:
		text := fmt.Sprintf("reserve %s %s", showPlaces(m.First, m.Count), nameOf(m.Job))
		if n := m.Demand.CPU / probe.Slot.CPU; n != 1 {
			text += fmt.Sprintf(" size=%d", n)
		}
		text += optional(" est", m.Estimate)
		if len(m.Launches) > 0 {
			text += " with=" + s.showLaunches(m.Launches)
		}
		return text
	case probe.Bind:
		text := "bind " + showTurn(m.Res, m.Turn) + " " + s.showLaunches([]probe.Launch{m.Launch})
		if m.Keep {
			text += " keep"
		}
		if len(m.Bundle) > 0 {
			text += " and=" + s.showLaunches(m.Bundle)
		}
		return text
	case probe.Decline:
		return "decline " + showTurn(m.Res, m.Turn)
	case probe.Enqueue:
		return fmt.Sprintf("enqueue %d %s", m.Res, s.showLaunches([]probe.Launch{m.Launch}))
	case probe.Cancel:
		return "cancel " + showPlaces(m.First, m.Count)
	case probe.Kill:
		text := "kill " + s.showAttempt(m.Attempt)
		if m.Res != 0 {
			text += " at=" + showTurn(m.Res, m.Turn)
		}
		return text
	case probe.Claim:
		if m.Attempt == (probe.AttemptID{}) {
			return "claim " + nameOf(m.Job)
		}
		return "claim " + s.showAttempt(m.Attempt)
	case probe.Ack:
		return "ack " + s.showAttempts(m.Attempts)
	case probe.Sync:
		text := fmt.Sprintf("sync next=%d", m.Next)
		for _, r := range m.Live {
			text += " live=" + showPlaces(r.First, r.Count)
		}
		if len(m.Attempts) > 0 {
			text += " awaits=" + s.showAttempts(m.Attempts)
		}
		return text
	case probe.Probe:
		return "probe"
	}
	return fmt.Sprintf("%T", msg)
}

// showLaunches shows attempts with their tasks.
func (s *story) showLaunches(list []probe.Launch) string {
	words := make([]string, len(list))
	for i, m := range list {
		name := fmt.Sprint(m.Task)
		for _, w := range s.core.workers {
			if a := w.attempts[m.Attempt]; a != nil {
				name = fmt.Sprintf("%s.%d", nameOf(a.job.ID), m.Task)
			}
		}
		words[i] = fmt.Sprintf("%s(%s)", s.showAttempt(m.Attempt), name)
	}
	return strings.Join(words, ",")
}

func (s *story) showAttempt(id probe.AttemptID) string {
	return fmt.Sprintf("%c%d", rune(id.Frontend), id.Seq)
}

func (s *story) showAttempts(ids []probe.AttemptID) string {
	words := make([]string, len(ids))
	for i, id := range ids {
		words[i] = s.showAttempt(id)
	}
	return strings.Join(words, ",")
}

func optional(name string, d time.Duration) string {
	if d == 0 {
		return ""
	}
	return name + "=" + d.String()
}

func showTurn(res probe.ResID, turn probe.Turn) string {
	if turn == 0 {
		return fmt.Sprint(res)
	}
	return fmt.Sprintf("%d.%d", res, turn)
}

func showPlaces(first probe.ResID, count uint32) string {
	if count == 1 {
		return fmt.Sprint(first)
	}
	return fmt.Sprintf("%d-%d", first, first+probe.ResID(count)-1)
}

// state is what the core counts, but zeros.
func (s *story) state() string {
	c := s.core
	var words []string
	add := func(name string, n int) {
		if n != 0 {
			words = append(words, fmt.Sprintf("%s=%d", name, n))
		}
	}
	waits := 0
	for _, j := range c.jobs {
		waits += j.waiting
	}
	add("jobs", len(c.jobs))
	add("pending", c.pending)
	add("waiting", waits)
	add("attempts", c.running)
	places, acks := 0, 0
	for _, w := range c.workers {
		places += len(w.places)
		acks += len(w.acks)
	}
	add("places", places)
	add("rounds", len(c.rounds.bySeq))
	add("acks", acks)
	add("idle", len(c.idle))
	if len(words) == 0 {
		return "nothing"
	}
	return strings.Join(words, " ")
}
