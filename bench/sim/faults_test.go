package sim

import (
	"errors"
	"os"
	"reflect"
	"strconv"
	"testing"

	"github.com/phoebe-sched/phoebe/frontend"
)

// TestFaults runs random schedules of faults against both cores. PHOEBE_SEED is the first seed, and PHOEBE_SEEDS
// the number of seeds. PHOEBE_SOAK=1 means very many. PHOEBE_SEEDS=1 prints the log of a failing seed.
func TestFaults(t *testing.T) {
	number := func(name string, or uint64) uint64 {
		n, err := strconv.ParseUint(os.Getenv(name), 10, 64)
		if err != nil {
			return or
		}
		return n
	}
	n := uint64(400)
	if os.Getenv("PHOEBE_SOAK") != "" {
		n = 20_000
	}
	first, n := number("PHOEBE_SEED", 1), number("PHOEBE_SEEDS", n)

	sum, err := FaultSweep(t.Context(), first, n, nil)
	var failed *FaultError
	if errors.As(err, &failed) {
		if n == 1 {
			for _, line := range failed.Log {
				t.Log(line)
			}
		}
		t.Errorf("%v\nreplay: %s", err, failed.Replay())
	}
	t.Logf("%d seeds: %+v", n, *sum)
	if t.Failed() || n < 160 {
		return
	}
	if len(sum.Faults) != 17 {
		t.Errorf("%d kinds of faults, want 17", len(sum.Faults))
	}
	for _, kind := range []string{
		"jobs with stages", "tasks with constraints", "tasks with inputs", "tasks with files", "fetches",
		"fetches that fail",
		"fetches that end after their release", "steady runs", "rumours", "lies", "calm runs", "huge jobs",
		"jobs that pass outputs", "jobs blamed", "phases compared", "spare jobs",
		"stages along others", "jobs that grow", "full jobs", "outputs lost", "additions", "additions refused",
		"jobs outdated", "restamps in vain", "tasks that do not stop", "demands by what was used",
		"plain runs", "fetches to a dead cache",
	} {
		if sum.Seen[kind] == 0 {
			t.Errorf("no %s", kind)
		}
	}
	for why := frontend.TaskError; why <= frontend.StageFailed; why++ {
		switch why {
		case frontend.TooLarge, frontend.Panic, frontend.Infrastructure: // none is drawn
		default:
			if sum.Failures[why] == 0 {
				t.Errorf("no failure %d", why)
			}
		}
	}
	for kind := frontend.Result; kind <= frontend.DeadlineExceeded; kind++ {
		if sum.Outcomes[kind] == 0 {
			t.Errorf("no outcome %d", kind)
		}
	}
	for _, core := range []any{sum.Frontends, sum.Workers} {
		for v, i := reflect.ValueOf(core), 0; i < v.NumField(); i++ {
			if f := v.Field(i); f.Kind() == reflect.Uint64 && f.Uint() == 0 {
				t.Errorf("%T: no %s", core, v.Type().Field(i).Name)
			}
		}
	}
}

// The same seed gives the same run, to the last event.
func TestFaultsRepeat(t *testing.T) {
	for seed := range uint64(3) {
		a, err := Faults(seed, Omission{})
		b, err2 := Faults(seed, Omission{})
		if err != nil || err2 != nil || !reflect.DeepEqual(a, b) {
			t.Errorf("seed %d: %+v (%v), then %+v (%v)", seed, a, err, b, err2)
		}
	}
}
