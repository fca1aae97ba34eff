package sim

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/phoebe-sched/phoebe/bench"
	"github.com/phoebe-sched/phoebe/frontend"
)

func TestValidate(t *testing.T) {
	cfg := smallConfig(t)
	if err := cfg.Validate(); err != nil {
		t.Error(err)
	}
	cfg = Config{WarmupJobs: 3, Jobs: 2, Delay: -1, Load: math.NaN(), ProbeRatio: 0.5, Cutoff: -1}
	err := cfg.Validate()
	if _, runErr := Run(t.Context(), cfg); err == nil || runErr == nil {
		t.Fatal("no error")
	}
	for _, word := range []string{"policy", "frontends", "workers", "slots", "warm-up", "load", "workload", "delay",
		"probe ratio 0.5: use 1 to", "cutoff"} {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("nothing of %s: %v", word, err)
		}
	}
	cfg = smallConfig(t)
	cfg.Load = 0
	if _, err := Run(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), "load 0: use a number above 0") {
		t.Errorf("Poisson at load 0: %v", err)
	}
	cfg = smallConfig(t)
	cfg.Workload, cfg.Jobs, cfg.WarmupJobs = jobsFile(t, "0 1 1 1\n1 1 1 1\n", false), 0, 2
	if _, err := Run(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), "2 warm-up jobs of 2") {
		t.Errorf("nothing but warm-up: %v", err)
	}
}

func TestPingEvery(t *testing.T) {
	cfg := smallConfig(t) // 2 frontends, 40 slots
	for _, test := range []struct {
		tasks float64
		ping  time.Duration
		want  time.Duration
	}{
		{3200, 0, time.Second}, {20, 0, time.Second}, {2, 0, 10 * time.Second}, {0, 0, time.Hour},
		{2, time.Second, time.Second},
	} {
		if cfg.Ping = test.ping; cfg.pingEvery(test.tasks) != test.want {
			t.Errorf("%v tasks a second, ping %v: %v, want %v", test.tasks, test.ping, cfg.pingEvery(test.tasks),
				test.want)
		}
	}
	// Tasks of an hour do not cause an hour of pings each second. A stated ping period holds.
	cfg.Ping, cfg.Load, cfg.Jobs, cfg.WarmupJobs, cfg.Workload = 0, 0.5, 20, 0, mustPoisson(t, "10", "fixed:1h")
	rare := mustRun(t, cfg)
	cfg.Ping = time.Minute
	often := mustRun(t, cfg)
	if rare.MessagesPerTask > 12 || often.MessagesPerTask < 20 ||
		math.Abs(rare.ResponseMS.Mean/often.ResponseMS.Mean-1) > 0.1 {
		t.Errorf("%.1f messages per task and responses of %.0f ms; pinged every minute %.1f and %.0f",
			rare.MessagesPerTask, rare.ResponseMS.Mean, often.MessagesPerTask, often.ResponseMS.Mean)
	}
}

func TestParsePolicy(t *testing.T) {
	for _, name := range PolicyNames() {
		if p := mustPolicy(t, name); p.Name != name || (p.rival == nil) != (p.frontend.Name == name) {
			t.Errorf("%s: %+v", name, p)
		}
	}
	full, plain := mustPolicy(t, "phoebe"), mustPolicy(t, "late-binding")
	if p := mustPolicy(t, "phoebe-overlap-ridealong").frontend; p.Overlap || p.RideAlong || !p.Sticky || !p.Cancel {
		t.Errorf("%+v", p)
	}
	if p := mustPolicy(t, "late-binding-cancel").frontend; p.Cancel || p.Binding != plain.frontend.Binding {
		t.Errorf("%+v", p)
	}
	p := mustPolicy(t, "late-binding-no-cancel+"+strings.Join(frontend.PolicyParts, "+")).frontend
	if p.Name = "phoebe"; p != full.frontend {
		t.Errorf("%+v, want %+v", p, full.frontend)
	}
	if p := mustPolicy(t, "late-binding-no-cancel").frontend; p.Cancel {
		t.Errorf("%+v", p)
	}
	for text, want := range map[string]string{
		"":               "use one of",
		"best":           `"centralized"`,
		"phoebes":        "use one of",
		"random+overlap": "use one of",
		"omniscient-all": "use one of",
		"phoebe-magic":   `phoebe has no part "magic": its parts are cancel, ridealong`,
		"phoebe-":        `has no part ""`,
	} {
		if _, err := ParsePolicy(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want it to say %q", text, err, want)
		}
	}
}

func TestParseEstimates(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for text, want := range map[string]Estimates{"exact": {}, "none": {Absent: true}, "mean": {Mean: true},
		"noisy:3": {Noise: 3}} {
		e, err := ParseEstimates(text)
		if err != nil || e != want || e.String() != text {
			t.Errorf("%s: %v, %v", text, e, err)
		}
		low, high, sum := math.Inf(1), 0.0, 0.0
		for range 10_000 {
			f := e.drawFactor(rng)
			low, high, sum = min(low, f), max(high, f), sum+math.Log(max(f, 1e-9))
		}
		switch {
		case text == "exact" && (low != 1 || high != 1), text == "none" && high != 0,
			text == "noisy:3" && !(low > 1.0/3 && low < 0.34 && high < 3 && high > 2.99 && math.Abs(sum/10_000) < 0.02):
			t.Errorf("%s: factors from %g to %g, log mean %g", text, low, high, sum/10_000)
		}
	}
	for _, text := range []string{"", "perfect", "noisy", "noisy:", "noisy:1", "noisy:NaN", "noisy:-2", "none:1"} {
		if _, err := ParseEstimates(text); err == nil || !strings.Contains(err.Error(), "noisy:2") {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func mustSpeeds(t testing.TB, text string) Speeds {
	t.Helper()
	s, err := ParseSpeeds(text)
	if err != nil {
		t.Fatal(err)
	}
	if s.String() != text {
		t.Errorf("%q prints as %s", text, s)
	}
	return s
}

func TestParseSpeeds(t *testing.T) {
	rng := func() *rand.Rand { return rand.New(rand.NewPCG(1, 2)) }
	if got := mustSpeeds(t, "fixed:2").drawSpeeds(3, rng()); !slices.Equal(got, []float64{2, 2, 2}) {
		t.Error(got)
	}
	got := mustSpeeds(t, "mix:75%1,15%0.5,10%4").drawSpeeds(20, rng())
	if slices.IsSorted(got) {
		t.Error("not shuffled")
	}
	slices.Sort(got)
	if want := slices.Concat(slices.Repeat([]float64{0.5}, 3), slices.Repeat([]float64{1}, 15),
		[]float64{4, 4}); !slices.Equal(got, want) {
		t.Error(got)
	}
	sum := 0.0
	for _, s := range mustSpeeds(t, "lognormal:0.5").drawSpeeds(100_000, rng()) {
		sum += s
	}
	if math.Abs(sum/100_000-1) > 0.01 {
		t.Errorf("mean speed %g", sum/100_000)
	}
	if got := (Speeds{}).drawSpeeds(2, rng()); !slices.Equal(got, []float64{1, 1}) || (Speeds{}).String() != "fixed:1" {
		t.Error(got)
	}
	for text, want := range map[string]string{
		"":              "unknown kind",
		"slow":          "unknown kind",
		"fixed:0":       `"0" is no speed from 0.001`,
		"fixed:fast":    `"fast" is no speed`,
		"lognormal:0":   `sigma "0" is not above 0`,
		"lognormal:NaN": "is not above 0",
		"mix:90%1":      "the shares sum to 90%",
		"mix:1,2":       `part "1" has no share`,
		"mix:100%-1":    `"-1" is no speed`,
	} {
		if _, err := ParseSpeeds(text); err == nil || !strings.Contains(err.Error(), want) ||
			!strings.Contains(err.Error(), "; use fixed:1, lognormal:0.3 or mix:90%1,10%0.5") {
			t.Errorf("%q: got %v, want it to say %q", text, err, want)
		}
	}
}

// jobsFile returns a workload of jobs listed in text.
func jobsFile(t testing.TB, text string, wholeSeconds bool) File {
	t.Helper()
	name := filepath.Join(t.TempDir(), "jobs")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	jobs, err := bench.LoadJobs(name, wholeSeconds)
	if err != nil {
		t.Fatal(err)
	}
	return File{jobs, "jobs"}
}

// The jobs of a file arrive at the stated times and take the stated time, in two groups if there is a cutoff.
func TestFile(t *testing.T) {
	cfg := smallConfig(t)
	cfg.Policy, cfg.Load, cfg.Jobs, cfg.WarmupJobs, cfg.Workers, cfg.Slots, cfg.Delay = mustPolicy(t, "omniscient"),
		0, 0, 0, 1, 2, 0
	cfg.Cutoff = 3 * time.Second
	// Two slots. a: 0-10, 0-2. b (stated as short, but long): 2-6, 6-10 behind a's second task. c: 10-11.5.
	text := "105 2 4 10 2\n105.5 2 3 4 4\n114 1 1.25 1.5\n"
	cfg.Workload = jobsFile(t, text, false)
	r := mustRun(t, cfg)
	response := []float64{r.Long.ResponseMS.Max, r.Short.ResponseMS.Max, r.Short.ResponseMS.P50}
	if want := []float64{10_000, 9_500, 2_500}; !slices.Equal(response, want) {
		t.Errorf("responses of %v ms, want %v", response, want)
	}
	wait := []float64{r.Long.WaitMS.Max, r.Short.WaitMS.Mean}
	if want := []float64{0, (1.5 + 5.5 + 1) / 3 * 1000}; !slices.Equal(wait, want) {
		t.Errorf("waits of %v ms, want %v", wait, want)
	}
	if r.Jobs != 3 || r.Long.Jobs != 1 || r.Short.Jobs != 2 || r.Tasks != 5 || r.Short.Tasks != 3 ||
		r.IdealMS.Max != 10_000 || r.Short.IdealMS.Max != 4000 {
		t.Errorf("%+v", r)
	}
	if want := 21.5 / 2 / 9; math.Abs(r.Load-want) > 1e-9 {
		t.Errorf("load %g, want %g", r.Load, want)
	}
	// The work from the first arrival, at 0, to the last, at 9: a's 9+2, b's 4+3.
	if want := 18.0 / 18; math.Abs(r.Utilisation-want) > 1e-9 {
		t.Errorf("utilisation %g, want %g", r.Utilisation, want)
	}

	cfg.Workload = jobsFile(t, text, true)
	if r := mustRun(t, cfg); r.Short.ResponseMS.P50 != 2000 {
		t.Errorf("whole seconds: a response of %g ms, want 2000", r.Short.ResponseMS.P50)
	}
	// At a thirtieth of the load, submit times are thirty times as far apart, and no job waits for others.
	cfg.Workload, cfg.Load = jobsFile(t, text, false), r.Load/30
	if r := mustRun(t, cfg); r.Short.WaitMS.Max != 0 || r.Long.WaitMS.Max != 0 || math.Abs(r.Load-cfg.Load) > 1e-12 {
		t.Errorf("at a thirtieth of the load: %+v", r)
	}
	// Only the first job is awaited; the others still arrive.
	cfg.Load, cfg.Jobs = 0, 1
	if r := mustRun(t, cfg); r.Jobs != 1 || r.ResponseMS.Mean != 10_000 {
		t.Errorf("%+v", r)
	}
	cfg.Workload, cfg.Load, cfg.Jobs = jobsFile(t, "1 1 1 1\n1 1 1 1\n", false), 0.5, 0
	if _, err := Run(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), "use load 0") {
		t.Errorf("a load of what comes at once: %v", err)
	}
}

// A trace's jobs run at their own pace or at a given load.
func TestTrace(t *testing.T) {
	var b strings.Builder
	b.WriteString("trace,job,submit_ms,input_bytes,shuffle_bytes,output_bytes,input_path\n")
	for i := range 50 {
		b.WriteString("x," + string(rune('0'+i/10)) + string(rune('0'+i%10)) + "," + string(rune('0'+i/10)) +
			string(rune('0'+i%10)) + "000,400000000,100000000,1000000,\n")
	}
	name := filepath.Join(t.TempDir(), "trace.csv")
	if err := os.WriteFile(name, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg := smallConfig(t)
	cfg.Load, cfg.Jobs, cfg.WarmupJobs = 0, 0, 0
	cfg.Workload = Trace{Path: name, Name: "x", Setting: bench.TraceSettings[1], Span: time.Minute, Speedup: 1,
		MaxTasks: 100}
	own := mustRun(t, cfg)
	if own.Jobs != 100 || own.Tasks != 50*(3+1) || own.Load <= 0 || len(own.Settings) == 0 {
		t.Errorf("%+v", own)
	}
	cfg.Load = 0.5
	if r := mustRun(t, cfg); math.Abs(r.Load-0.5) > 1e-6 || r.ResponseMS.Mean < own.ResponseMS.Mean {
		t.Errorf("at load 0.5: %+v", r)
	}
	cfg.Workload = Trace{Path: "nowhere", Name: "x", Setting: bench.TraceSettings[1], Span: time.Minute, Speedup: 1,
		MaxTasks: 100}
	if _, err := Run(t.Context(), cfg); err == nil {
		t.Error("no error")
	}
}

// A load is a share of the workers' capacity, whatever the sizes of jobs. If all workers have the same speed, the
// load is the share of time with busy slots.
func TestLoad(t *testing.T) {
	for _, test := range []struct {
		speeds, tasks, law string
		low, high          float64 // utilisation at load 0.5
	}{
		{"fixed:1", "geometric:10", "task-exp:20ms", 0.47, 0.53},
		{"fixed:0.25", "10", "lognormal:1,20ms", 0.47, 0.53},
		{"fixed:4", "uniform:1-19", "pareto:2.5,20ms", 0.47, 0.53},
		{"mix:50%1,50%0.5", "10", "task-exp:20ms", 0.40, 0.60}, // the fast workers do more of the work
	} {
		cfg := smallConfig(t)
		cfg.Policy, cfg.Load, cfg.Jobs = mustPolicy(t, "omniscient"), 0.5, 10_000
		cfg.Speeds, cfg.Workload = mustSpeeds(t, test.speeds), mustPoisson(t, test.tasks, test.law)
		r := mustRun(t, cfg)
		if r.Utilisation < test.low || r.Utilisation > test.high {
			t.Errorf("%+v: utilisation %.3f", test, r.Utilisation)
		}
		if (r.OmniscientMS != nil) != (test.speeds == "fixed:1") {
			t.Errorf("%+v: omniscient %v", test, r.OmniscientMS)
		}
	}
}

func TestSweep(t *testing.T) {
	s := Sweep{Config: smallConfig(t), Loads: []float64{0.5, 0.8}, ProbeRatios: []float64{2, 3}}
	s.Jobs, s.WarmupJobs = 300, 50
	for _, name := range []string{"phoebe", "random", "omniscient"} {
		s.Policies = append(s.Policies, mustPolicy(t, name))
	}
	reported := 0.0
	all, err := s.Run(t.Context(), func(share float64) { reported = share })
	if err != nil {
		t.Fatal(err)
	}
	i := 0
	for _, load := range s.Loads {
		for _, ratio := range s.ProbeRatios {
			for _, p := range s.Policies {
				r := all[i]
				i++
				if r.Policy != p.Name || r.Load != load || r.ProbeRatio != ratio || r.Jobs != 250 {
					t.Errorf("result %d is %+v, want %s at %g and %g", i, r.SimRun, p.Name, load, ratio)
				}
				cfg := s.Config
				cfg.Policy, cfg.Load, cfg.ProbeRatio = p, load, ratio
				r.WallS = 0
				if alone := mustRun(t, cfg); !reflect.DeepEqual(alone, r) {
					t.Errorf("%s at %g and %g: %+v, alone %+v", p.Name, load, ratio, r, alone)
				}
			}
		}
	}
	if i != len(all) || reported != 1 {
		t.Errorf("%d results, %g done", len(all), reported)
	}
	// The tasks are the same at every load.
	if a, b := all[0].IdealMS, all[len(all)-1].IdealMS; a != b {
		t.Errorf("ideal %+v and %+v", a, b)
	}

	s.Loads, s.WarmupJobs = []float64{-1}, 300
	if _, err := s.Run(t.Context(), nil); err == nil || strings.Count(err.Error(), "load -1") != 1 ||
		!strings.Contains(err.Error(), "warm-up") {
		t.Errorf("got %v", err)
	}
	if _, err := (&Sweep{Config: smallConfig(t)}).Run(t.Context(), nil); err == nil {
		t.Error("no policy, no error")
	}
}

// An interrupted sweep returns the results of ended runs, and partial results of the current run.
func TestSweepCutShort(t *testing.T) {
	cfg := smallConfig(t)
	cfg.Workload, cfg.Jobs, cfg.WarmupJobs = mustPoisson(t, "10", "fixed:5ms"), 1_000, 100
	s := Sweep{Config: cfg, Policies: []Policy{mustPolicy(t, "random"), mustPolicy(t, "omniscient")},
		Loads: []float64{0.5, 0.8, 0.9}, ProbeRatios: []float64{2}}
	for _, share := range []float64{0.05, 0.6} {
		ctx, cancel := context.WithCancelCause(t.Context())
		why := errors.New("tired")
		all, err := s.Run(ctx, func(done float64) {
			if done >= share {
				cancel(why)
			}
		})
		if !errors.Is(err, why) || len(all) == 0 || len(all) == 6 {
			t.Fatalf("%d results, %v", len(all), err)
		}
		whole := 0
		for _, r := range all {
			switch {
			case r.Jobs == 900 && r.CutShortOf == 0:
				whole++
			case r.Jobs <= 0 || r.Jobs >= 900 || r.CutShortOf != 900 || r.Tasks != 10*r.Jobs ||
				r.ResponseMS.P50 < 5 || r.Utilisation <= 0 || r.Utilisation > 1:
				t.Errorf("%+v", r.SimRun)
			}
		}
		// A run under way may end before its next check of the context, but not if it has hardly begun.
		if late := share > 0.5; late != (whole > 0) {
			t.Errorf("%d of %d are whole", whole, len(all))
		}
		if _, err := s.Run(ctx, nil); !errors.Is(err, why) {
			t.Errorf("%v", err)
		}
	}
}
