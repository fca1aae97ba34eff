package sim

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/phoebe-sched/phoebe/frontend"
	"github.com/phoebe-sched/phoebe/probe"
	"github.com/phoebe-sched/phoebe/worker"
)

// sender is a scheduler that sends the given actions at each Submit.
type sender struct{ next []frontend.Action }

func (s *sender) Step(_ time.Time, ev frontend.Event, acts []frontend.Action) []frontend.Action {
	if _, ok := ev.(frontend.Submit); ok {
		acts = append(acts, s.next...)
	}
	return acts
}

func (s *sender) NextWake() time.Time { return time.Time{} }
func (s *sender) Check() error        { return nil }

// A message that may wait travels with the next message on its connection, of the same step or a later step, or
// alone after half a millisecond.
func TestLinger(t *testing.T) {
	var s sender
	var got []string
	c := &cluster{net: network{delay: 100 * time.Microsecond, lease: time.Second, ping: time.Second}}
	c.newScheduler = func(frontend.Config, *rand.Rand) scheduler { return &s }
	for range 2 {
		c.addWorker(worker.Config{Functions: []string{sleepFunction}}, 1)
	}
	f := c.addFrontend(frontend.Config{}, 1)
	c.log = func(format string, args ...any) {
		line := fmt.Sprintf(format, args...)
		if i := strings.Index(line, "First:"); i >= 0 && strings.Contains(line, "Cancel") && line[0] == 'w' {
			got = append(got, fmt.Sprintf("%v %.2s %.7s", c.now, line, line[i:]))
		}
	}
	send := func(w frontend.Worker, n int, mayWait bool) frontend.Send {
		return frontend.Send{Worker: w, Msg: probe.Cancel{First: probe.ResID(n), Count: 1}, MayWait: mayWait}
	}
	at := func(ms float64, acts ...frontend.Action) {
		c.callAt(time.Duration(ms*1e6), func() {
			s.next = acts
			if err := c.stepFrontend(f, frontend.Submit{}); err != nil {
				t.Error(err)
			}
		})
	}
	at(1, send(0, 1, true))
	at(1.1, send(1, 2, true))
	at(1.2, send(1, 3, false), send(1, 4, true))
	at(2, send(0, 5, true), send(0, 6, false), send(1, 7, true))
	at(2.1, send(0, 8, true))
	for at, _ := c.nextTime(); at < 5*time.Millisecond; at, _ = c.nextTime() {
		if err := c.stepEvent(); err != nil {
			t.Fatal(err)
		}
	}
	want := []string{
		"1.3ms w1 First:2", "1.3ms w1 First:3", "1.3ms w1 First:4", "1.6ms w0 First:1",
		"2.1ms w0 First:5", "2.1ms w0 First:6", "2.6ms w0 First:8", "2.6ms w1 First:7",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

// Events happen by time, then in the order of scheduling, whether in the heap or in a lane.
func TestClock(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	var c clock
	type due struct {
		at  time.Duration
		seq int
	}
	var all []due
	kinds := []eventKind{toWorker, toFrontend, taskExits, pingDue, funcCall, wakeWorker}
	schedule := func() {
		at := c.now + time.Duration(rng.IntN(30)) - 3
		all = append(all, due{max(at, c.now), len(all)})
		c.schedule(at, event{kind: kinds[rng.IntN(len(kinds))], content: len(all) - 1})
	}
	var got []due
	for i := range 20_000 {
		if i < 10_000 || rng.IntN(3) == 0 {
			schedule()
		}
		if at, ok := c.nextTime(); rng.IntN(2) == 0 && ok {
			e := c.takeNext()
			if c.now != at {
				t.Fatalf("due at %d, happens at %d", at, c.now)
			}
			got = append(got, due{c.now, e.content.(int)})
		}
	}
	for _, ok := c.nextTime(); ok; _, ok = c.nextTime() {
		e := c.takeNext()
		got = append(got, due{c.now, e.content.(int)})
	}
	if !slices.IsSortedFunc(got, func(a, b due) int { return int(a.at - b.at) }) {
		t.Error("not in the order of time")
	}
	slices.SortStableFunc(all, func(a, b due) int { return int(a.at - b.at) })
	if !slices.Equal(got, all) {
		t.Errorf("%d events, not in their order", len(got))
	}
	if uint64(len(all)) != c.steps || len(c.slab) > 12_000 {
		t.Errorf("%d steps, %d events, a slab of %d", c.steps, len(all), len(c.slab))
	}
}
