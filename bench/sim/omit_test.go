package sim

import (
	"context"
	"strings"
	"testing"
)

func TestOmission(t *testing.T) {
	for text, want := range map[string]string{
		"":                        "",
		"j3":                      "j3",
		"f7,j0,j1,j2,j3":          "j0-j3,f7",
		"j0-j3,f7":                "j0-j3,f7",
		"f2-f3,f4,f9-f9,j12,f0":   "j12,f0,f2-f4,f9",
		"j9999,f1-f2,f1-f3,f2,f3": "j9999,f1-f3",
	} {
		if o, err := ParseOmission(text); err != nil || o.String() != want {
			t.Errorf("%q is read as %q, %v; want %q", text, o, err, want)
		}
	}
	for _, text := range []string{"x1", "j", "3", "j-1", "j1-", "j3-j1", "j1-f3", "j1,,j2", "j1 ", "j99999",
		"f1-f2-f3"} {
		if _, err := ParseOmission(text); err == nil || !strings.Contains(err.Error(), "write such as j0-j3,f7") {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestMinimize(t *testing.T) {
	tries := 0
	var least Omission
	searchOmission(t.Context(), 40, 30, Omission{Jobs: map[int]bool{5: true}}, func(o Omission) bool {
		tries++
		if !o.Jobs[5] {
			t.Errorf("%s: j5 is back", o)
		}
		fails := !o.Jobs[17] && !o.Faults[3] && !o.Faults[29]
		if fails {
			least = o
		}
		return fails
	})
	if least.String() != "j0-j16,j18-j39,f0-f2,f4-f28" || tries > 60 {
		t.Errorf("%s after %d tries", least, tries)
	}

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	searchOmission(ctx, 40, 30, Omission{}, func(Omission) bool {
		t.Error("tried although it was cancelled")
		return false
	})
}

// Omitted jobs and faults do not happen, and the rest is drawn as before.
func TestFaultsWithout(t *testing.T) {
	const seed = 7
	all, err := Faults(seed, Omission{})
	if err != nil {
		t.Fatal(err)
	}
	r := newFaultRun(seed, Omission{})
	_ = r.playOut()
	without := Omission{map[int]bool{}, map[int]bool{}}
	for n := range r.faults {
		without.Faults[n] = true
	}
	calm, err := Faults(seed, without)
	if err != nil {
		t.Fatal(err)
	}
	for what, n := range calm.Faults {
		if n > 0 && !strings.HasPrefix(what, "client") {
			t.Errorf("%d times: %s", n, what)
		}
	}
	if len(all.Faults) == 0 || calm.Jobs != all.Jobs || calm.Tasks != all.Tasks {
		t.Errorf("%+v; without faults %+v", all, calm)
	}
	for n := range len(r.jobs) - 1 {
		without.Jobs[n] = true
	}
	one, err := Faults(seed, without)
	if last := r.jobs[len(r.jobs)-1]; err != nil || one.Jobs != 1 || one.Tasks != len(last.tasks) {
		t.Errorf("%+v, %v", one, err)
	}
	failed := &FaultError{Seed: seed, Without: without, Err: errStop}
	if want := "phoebe sim faults --seeds 1 --from 7 --without " + without.String(); failed.Replay() != want ||
		!strings.Contains(failed.Error(), "seed 7 without j0-j") {
		t.Errorf("%s; %v", failed.Replay(), failed)
	}
}
