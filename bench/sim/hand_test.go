package sim

import (
	"slices"
	"testing"
	"time"
)

// The rivals answer as they did before they shared a hand.
func TestRivalsOnTheHandAreUnchanged(t *testing.T) {
	cfg := smallConfig(t)
	cfg.Cutoff, cfg.Reserved, cfg.DecisionCost = 20*time.Millisecond, 0.1, 200*time.Microsecond
	for _, test := range []struct {
		policy    string
		mean, p99 float64 // of the responses, in ms
	}{
		{"omniscient", 140.502332766, 292.818413}, {"centralized", 142.837116192, 300.65615},
		{"eagle", 144.47142435319998, 332.898719}, {"eagle-fifo", 144.4714011772, 332.898719},
	} {
		cfg.Policy = mustPolicy(t, test.policy)
		if r := mustRun(t, cfg); r.ResponseMS.Mean != test.mean || r.ResponseMS.P99 != test.p99 {
			t.Errorf("%s: a mean of %v ms and a p99 of %v ms, before %v and %v", test.policy, r.ResponseMS.Mean,
				r.ResponseMS.P99, test.mean, test.p99)
		}
	}
}

// A decider makes one decision after another, in their order.
func TestDecider(t *testing.T) {
	h, by := &hand{now: origin}, &decider{}
	var log []string
	for _, name := range []string{"a", "b", "c"} {
		h.queueDecision(by, func() (time.Duration, func()) {
			log = append(log, "begin "+name)
			takes := 2 * time.Second
			if name == "b" {
				takes = 0
			}
			return takes, func() { log = append(log, "end "+name+" "+h.now.Sub(origin).String()) }
		})
	}
	for h.timers.Len() > 0 {
		h.now = h.timers.Min().at
		h.timers.Pop().fn()
	}
	want := []string{"begin a", "end a 2s", "begin b", "end b 2s", "begin c", "end c 4s"}
	if !slices.Equal(log, want) || by.total != 4*time.Second {
		t.Errorf("%q, %v of decisions; want %q and 4s", log, by.total, want)
	}
}
