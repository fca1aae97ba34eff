package worker

import (
	"errors"
	"fmt"
	"maps"
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
//	story slots=2 order=fair ...     a new worker; the settings are in newStory
//	a up                             frontend a connects; another "a up" is a new connection
//	a reserve 1-3 job=x with=a1,a2   message from a to the worker; places are numbers, attempts a1, b7, ...
//	a bind 1.2 a1                    place 1 in its turn 2 (turns count from 0, which is left out)
//	exit a1 failed                   the executor is done with an attempt
//	+5ms                             time passes, with a Wake whenever one is due
//	state                            what the core counts, but zeros
//
// Demands (size=2) and free room are in slots.
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
				event, _, _ := strings.Cut(line, "->")
				event = strings.TrimSpace(event)
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
			width := len(slices.MaxFunc(events, func(a, b string) int { return len(a) - len(b) }))
			var out strings.Builder
			for i := range events {
				fmt.Fprintf(&out, "%-*s -> %s\n", width, events[i], answers[i])
			}
			return out.String()
		})
	})
}

// story is a core, and the connections of the frontends that the script names.
type story struct {
	core  *Core
	now   time.Time
	links map[string]LinkID
	names map[LinkID]string
}

func newStory(d *datadriven.TestData) (*story, error) {
	cfg := Config{Functions: []string{"f"}}
	for _, arg := range d.CmdArgs {
		var err error
		switch val := strings.Join(arg.Vals, ","); arg.Key {
		case "slots":
			var n int
			n, err = strconv.Atoi(val)
			cfg.Capacity = size(n)
		case "order":
			cfg.Order, err = ParseOrder(val)
		case "bound":
			cfg.StarvationBound, err = time.ParseDuration(val)
		case "weights": // a:3,b:1
			cfg.Weights = map[string]float64{}
			for pair := range strings.SplitSeq(val, ",") {
				name, weight, _ := strings.Cut(pair, ":")
				if cfg.Weights[name], err = strconv.ParseFloat(weight, 64); err != nil {
					break
				}
			}
		case "queue":
			cfg.MaxQueue, err = strconv.Atoi(val)
		case "payload":
			cfg.MaxPayload, err = strconv.Atoi(val)
		case "kept":
			cfg.MaxRetained, err = strconv.Atoi(val)
		default:
			err = fmt.Errorf("unknown setting %q", arg.Key)
		}
		if err != nil {
			return nil, err
		}
	}
	return &story{core: New(cfg), now: time.Unix(1_000_000, 0), links: map[string]LinkID{}, names: map[LinkID]string{}}, nil
}

// size is the demand of n slots.
func size(n int) probe.Demand {
	return probe.Demand{CPU: probe.Slot.CPU * probe.Millicores(n), Mem: probe.Slot.Mem * probe.MiB(n)}
}

func (s *story) play(line string) (string, error) {
	if line == "state" {
		return s.state(), nil
	}
	if wait, ok := strings.CutPrefix(line, "+"); ok {
		d, err := time.ParseDuration(wait)
		if err != nil {
			return "", err
		}
		acts, err := s.pass(d)
		return s.show(acts), err
	}
	ev, err := s.parse(line)
	if err != nil {
		return "", err
	}
	return s.show(s.core.Step(s.now, ev, nil)), nil
}

// pass lets time pass as a shell does.
func (s *story) pass(d time.Duration) ([]Action, error) {
	var acts []Action
	for end := s.now.Add(d); ; {
		at := s.core.NextWake()
		if at.IsZero() || at.After(end) {
			s.now = end
			return acts, nil
		}
		if at.Before(s.now) {
			return nil, fmt.Errorf("a wake was due %v ago", s.now.Sub(at))
		}
		s.now = at
		acts = s.core.Step(s.now, Wake{}, acts)
		if next := s.core.NextWake(); !next.IsZero() && !next.After(at) {
			return nil, errors.New("the wake that was due changed nothing")
		}
	}
}

// line is one event in words: those without "=" in order, and those with it by name.
type line struct {
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

func (l *line) named1(key string) string {
	v := l.named[key]
	delete(l.named, key)
	return v
}

func (l *line) number(key string, or int) int {
	v := l.named1(key)
	if v == "" {
		return or
	}
	return l.atoi(v)
}

func (l *line) atoi(s string) int {
	n, err := strconv.Atoi(s)
	l.err = errors.Join(l.err, err)
	return n
}

func (l *line) duration(key string) time.Duration {
	v := l.named1(key)
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

func (l *line) attempt(s string) probe.AttemptID {
	if len(s) < 2 {
		l.err = errors.Join(l.err, fmt.Errorf("%q is not an attempt", s))
		return probe.AttemptID{}
	}
	return probe.AttemptID{Frontend: frontend(s[:1]), Seq: uint64(l.atoi(s[1:]))}
}

func (l *line) attempts(s string) []probe.AttemptID {
	var ids []probe.AttemptID
	for id := range strings.SplitSeq(s, ",") {
		if id != "" {
			ids = append(ids, l.attempt(id))
		}
	}
	return ids
}

func (l *line) launch(id probe.AttemptID) probe.Launch {
	m := probe.Launch{
		Attempt: id, Function: "f", Estimate: l.duration("est"), Payload: make([]byte, l.number("payload", 0)),
	}
	if f := l.named1("f"); f != "" {
		m.Function = f
	}
	return m
}

// launches are like m, but for the attempts that are named.
func (l *line) launches(key string, m probe.Launch) []probe.Launch {
	var ms []probe.Launch
	for _, id := range l.attempts(l.named1(key)) {
		m.Attempt = id
		ms = append(ms, m)
	}
	return ms
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

func frontend(name string) probe.FrontendID { return probe.FrontendID(name[0]) }

func job(name string) (id probe.JobID) {
	copy(id[:], name)
	return id
}

func (s *story) parse(text string) (Event, error) {
	l := &line{named: map[string]string{}}
	for w := range strings.FieldsSeq(text) {
		if key, val, ok := strings.Cut(w, "="); ok {
			l.named[key] = val
		} else {
			l.words = append(l.words, w)
		}
	}
	ev := s.event(l)
	if l.err == nil && len(l.words)+len(l.named) > 0 {
		l.err = fmt.Errorf("what is %q %v?", l.words, slices.Sorted(maps.Keys(l.named)))
	}
	return ev, l.err
}

func (s *story) event(l *line) Event {
	who := l.word()
	switch who {
	case "leave":
		return Leave{}
	case "exit":
		ev := Exited{Attempt: l.attempt(l.word()), Status: probe.Succeeded, Run: time.Millisecond}
		if l.flag("failed") {
			ev.Status, ev.Error = probe.Failed, "no luck"
		}
		if l.flag("killed") {
			ev.Status = probe.Killed
		}
		ev.Result = make([]byte, l.number("result", 0))
		return ev
	}
	verb := l.word()
	if verb == "up" {
		id := LinkID(len(s.names) + 1)
		s.links[who], s.names[id] = id, who
		return LinkUp{Link: id, Frontend: frontend(who)}
	}
	link := s.links[who]
	if link == 0 {
		l.err = fmt.Errorf("%s is not connected", who)
	}
	if verb == "down" {
		return LinkDown{Link: link}
	}
	return Received{Link: link, Msg: l.message(verb)}
}

func (l *line) message(verb string) probe.Msg {
	switch verb {
	case "reserve":
		r := l.places(l.word())
		m := probe.Reserve{
			First: r.First, Count: r.Count, Job: job(l.named1("job")), Tenant: l.named1("tenant"),
			Priority: int32(l.number("prio", 0)), Demand: size(l.number("size", 1)), Early: l.flag("early"),
		}
		m.Bundle = uint32(l.number("bundle", 0))
		launch := l.launch(probe.AttemptID{})
		m.Estimate = launch.Estimate
		m.Launches = l.launches("with", launch)
		return m
	case "bind":
		res, turn := l.turn(l.word())
		m := probe.Bind{Res: res, Turn: turn, Keep: l.flag("keep"), Launch: l.launch(l.attempt(l.word()))}
		m.Bundle = l.launches("and", m.Launch)
		return m
	case "decline":
		res, turn := l.turn(l.word())
		return probe.Decline{Res: res, Turn: turn}
	case "enqueue":
		return probe.Enqueue{
			Res: probe.ResID(l.atoi(l.word())), Launch: l.launch(l.attempt(l.word())), Job: job(l.named1("job")),
			Tenant: l.named1("tenant"), Priority: int32(l.number("prio", 0)), Demand: size(l.number("size", 1)),
		}
	case "cancel":
		return probe.Cancel(l.places(l.word()))
	case "kill":
		m := probe.Kill{Attempt: l.attempt(l.word())}
		if at := l.named1("at"); at != "" {
			m.Res, m.Turn = l.turn(at)
		}
		return m
	case "claim":
		if name := l.named1("job"); name != "" {
			return probe.Claim{Job: job(name)}
		}
		return probe.Claim{Attempt: l.attempt(l.word())}
	case "ack":
		return probe.Ack{Attempts: l.attempts(l.word())}
	case "sync":
		m := probe.Sync{Next: probe.ResID(l.number("next", 0)), Attempts: l.attempts(l.named1("awaits"))}
		for r := range strings.SplitSeq(l.named1("live"), ",") {
			if r != "" {
				m.Live = append(m.Live, l.places(r))
			}
		}
		return m
	case "ping":
		return probe.Ping{Seq: uint64(l.atoi(l.word()))}
	case "probe":
		return probe.Probe{Seq: uint64(l.atoi(l.word()))}
	case "hello":
		return probe.Hello{}
	case "drain":
		return probe.Drain{} // which only a worker may say
	}
	l.err = errors.Join(l.err, fmt.Errorf("unknown message %q", verb))
	return nil
}

func (s *story) show(acts []Action) string {
	if len(acts) == 0 {
		return "-"
	}
	words := make([]string, len(acts))
	for i, a := range acts {
		words[i] = s.showAction(a)
	}
	return strings.Join(words, "; ")
}

func (s *story) showAction(a Action) string {
	switch a := a.(type) {
	case Send:
		return s.names[a.Link] + " " + showMsg(a.Msg)
	case Start:
		return "start " + showAttempt(a.Launch.Attempt)
	case Stop:
		return "stop " + showAttempt(a.Attempt)
	case Drop:
		return "drop " + s.names[a.Link]
	}
	return fmt.Sprintf("%T", a)
}

func showMsg(msg probe.Msg) string {
	switch m := msg.(type) {
	case probe.Ready:
		return "ready " + showTurn(m.Res, m.Turn) + optional(" early", m.Early)
	case probe.Queued:
		return "queued " + showPlaces(m.First, m.Count) + fmt.Sprintf(" ahead=%d", m.Ahead)
	case probe.Started:
		text := "started " + showAttempt(m.Attempt)
		if m.Res != 0 {
			text += fmt.Sprintf(" at=%d", m.Res)
		}
		return text + optional(" ran", m.Ran)
	case probe.Finished:
		status := [...]string{"nothing", "ok", "failed", "panicked", "killed", "timed_out", "too_large"}[m.Status]
		return "finished " + showAttempt(m.Attempt) + " " + status +
			optional(" waited", m.Waited) + optional(" held", m.Held) + optional(" launch", m.Launch) + optional(" kept", m.Kept)
	case probe.Refused:
		text := "refused"
		if m.Count > 0 {
			text += " " + showPlaces(m.First, m.Count)
		}
		if m.Attempt != (probe.AttemptID{}) {
			text += " " + showAttempt(m.Attempt)
		}
		return text + " " + m.Reason.String() + optional(" retry", m.RetryAfter)
	case probe.Evicted:
		return "evicted " + showPlaces(m.First, m.Count) + " " + m.Reason.String()
	case probe.Gone:
		text := "gone"
		for _, r := range m.Places {
			text += " " + showPlaces(r.First, r.Count)
		}
		for _, id := range m.Attempts {
			text += " " + showAttempt(id)
		}
		return text
	case probe.Drain:
		return "drain"
	case probe.Pong:
		return fmt.Sprintf("pong %d", m.Seq) + showLoad(m.Load)
	case probe.Load:
		return fmt.Sprintf("load %d", m.Seq) + showLoad(m)
	case probe.Claimed:
		return fmt.Sprintf("claimed %s n=%d", strings.TrimRight(string(m.Job[:]), "\x00"), m.Count)
	}
	return fmt.Sprintf("%T", msg)
}

func optional(name string, d time.Duration) string {
	if d == 0 {
		return ""
	}
	return name + "=" + d.String()
}

func showAttempt(id probe.AttemptID) string { return fmt.Sprintf("%c%d", rune(id.Frontend), id.Seq) }

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

func showLoad(l probe.Load) string {
	return fmt.Sprintf(" free=%d queued=%d running=%d", l.Free.CPU/probe.Slot.CPU, l.Queued, l.Running)
}

func (s *story) state() string {
	c := s.core
	text := fmt.Sprintf("free=%d", c.free.CPU/probe.Slot.CPU)
	for _, count := range []struct {
		name string
		n    int
	}{
		{"queued", c.queue.len()},
		{"parked", c.parked},
		{"asked", c.asked.n},
		{"staged", c.staged.n},
		{"running", c.running},
		{"orphans", c.orphans.n},
		{"retained", c.retained.n},
	} {
		if count.n > 0 {
			text += fmt.Sprintf(" %s=%d", count.name, count.n)
		}
	}
	return text
}
