package bench

import (
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func mustParse(t rapid.TB, text string) Spec {
	t.Helper()
	spec, err := ParseDurations(text)
	if err != nil {
		t.Fatal(err)
	}
	return spec
}

func mustPoisson(t rapid.TB, seed uint64, load float64, slots, tasksPerJob int, spec Spec, span time.Duration) []Job {
	t.Helper()
	jobs, err := Poisson(seed, load, slots, tasksPerJob, spec, span)
	if err != nil {
		t.Fatal(err)
	}
	return slices.Collect(jobs)
}

func TestParseDurations(t *testing.T) {
	for text, mean := range map[string]time.Duration{
		"fixed:10ms":           10 * time.Millisecond,
		"job-exp:1s":           time.Second,
		"task-exp:1us":         time.Microsecond,
		"mix:90%5ms,10%200ms":  24500 * time.Microsecond,
		"mix:100%1h":           time.Hour,
		"mix:33.5%1ms,66.5%2s": 1330335 * time.Microsecond,
	} {
		spec := mustParse(t, text)
		if spec.Mean() != mean {
			t.Errorf("%s: mean %s, want %s", text, spec.Mean(), mean)
		}
		if again := mustParse(t, spec.String()); !reflect.DeepEqual(again, spec) {
			t.Errorf("%s prints as %s, which is another law", text, spec)
		}
	}
}

func TestParseDurationsRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"":                     "use one of fixed:10ms, job-exp:10ms",
		"fixd:10ms":            `unknown kind "fixd"; use one of`,
		"fixed":                `"" is no duration; write a number with its unit`,
		"fixed:10":             `"10" is no duration`,
		"fixed:0s":             "outside 1us to 1h0m0s",
		"fixed:-1ms":           "outside 1us to 1h0m0s",
		"task-exp:2h":          "outside 1us to 1h0m0s",
		"job-exp:1500ns":       "not a whole number of microseconds; round it",
		"mix:":                 `part "" has no %`,
		"mix:90%5ms,10":        `part "10" has no %`,
		"mix:90%5ms,20%6ms":    "sum to 110%; make it 100%",
		"mix:90%5ms":           "sum to 90%",
		"mix:x%5ms":            `share "x" is not a percentage`,
		"mix:NaN%5ms":          `share "NaN" is not a percentage`,
		"mix:-10%5ms,110%5ms":  `share "-10" is not a percentage`,
		"mix:50%5ms,50%6lions": `"6lions" is no duration`,
	} {
		_, err := ParseDurations(text)
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "such as") && !strings.Contains(err.Error(), "use one of") {
			t.Errorf("%q: got %v, want it to say %q and show a right one", text, err, want)
		}
	}
}

func TestDraw(t *testing.T) {
	const n = 200_000
	for _, text := range []string{"fixed:10ms", "job-exp:10ms", "task-exp:10ms", "mix:90%5ms,10%200ms", "mix:20%1ms,30%2ms,50%3ms"} {
		spec := mustParse(t, text)
		rng := rand.New(rand.NewPCG(1, 2))
		var sum float64
		tasks := make([]time.Duration, 2)
		equal := 0
		for range n {
			spec.Draw(rng, tasks)
			for _, d := range tasks {
				sum += float64(d)
				if d < time.Microsecond || d%time.Microsecond != 0 {
					t.Fatalf("%s drew %s", text, d)
				}
			}
			if tasks[0] == tasks[1] {
				equal++
			}
		}
		if got := sum / (2 * n); math.Abs(got/float64(spec.Mean())-1) > 0.01 {
			t.Errorf("%s: mean of %d draws %s, want %s", text, n, time.Duration(got), spec.Mean())
		}
		if shared := strings.HasPrefix(text, "job-exp") || strings.HasPrefix(text, "fixed"); shared != (equal == n) {
			t.Errorf("%s: both tasks of a job equal in %d of %d jobs", text, equal, n)
		}
	}
}

func TestPoissonRate(t *testing.T) {
	const slots, perJob, span = 40, 10, 500 * time.Second
	for _, load := range []float64{0.5, 0.8, 1.5} {
		spec := mustParse(t, "fixed:10ms")
		jobs := mustPoisson(t, 1, load, slots, perJob, spec, span)
		if got := Offered(jobs, slots, span); math.Abs(got/load-1) > 0.01 {
			t.Errorf("load %g: offered %.3f", load, got)
		}
		// Poisson arrivals: the gaps' standard deviation is their mean.
		var sum, squares float64
		for i := 1; i < len(jobs); i++ {
			gap := float64(jobs[i].At - jobs[i-1].At)
			sum, squares = sum+gap, squares+gap*gap
		}
		n := float64(len(jobs) - 1)
		if cv := math.Sqrt(squares/n-sum/n*sum/n) / (sum / n); math.Abs(cv-1) > 0.01 {
			t.Errorf("load %g: the gaps vary by %.3f of their mean, want 1", load, cv)
		}
	}
}

func TestPoissonIsAFunctionOfItsArguments(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		seed := rapid.Uint64().Draw(t, "seed")
		load := rapid.Float64Range(0.05, 3).Draw(t, "load")
		slots := rapid.IntRange(1, 50).Draw(t, "slots")
		perJob := rapid.IntRange(1, 20).Draw(t, "tasks per job")
		spec := mustParse(t, rapid.SampledFrom([]string{"fixed:10ms", "job-exp:10ms", "task-exp:10ms", "mix:90%5ms,10%200ms"}).Draw(t, "durations"))
		const span = time.Second
		seq, err := Poisson(seed, load, slots, perJob, spec, span)
		if err != nil {
			t.Fatal(err)
		}
		jobs := slices.Collect(seq)
		if again := slices.Collect(seq); !reflect.DeepEqual(jobs, again) {
			t.Fatal("ranging twice gives different jobs")
		}
		if again := mustPoisson(t, seed, load, slots, perJob, spec, span); !reflect.DeepEqual(jobs, again) {
			t.Fatal("the same arguments give different jobs")
		}
		heavier := mustPoisson(t, seed, 2*load, slots, perJob, spec, span)
		for i, j := range jobs {
			if j.Index != i || j.At < 0 || j.At >= span || len(j.Tasks) != perJob || i > 0 && j.At < jobs[i-1].At {
				t.Fatalf("job %d is %+v", i, j)
			}
			if !slices.Equal(j.Tasks, heavier[i].Tasks) {
				t.Fatalf("job %d has other tasks at another load", i)
			}
			if diff := j.At - 2*heavier[i].At; diff < -2 || diff > 2 {
				t.Fatalf("job %d arrives at %s, and at %s under twice the load", i, j.At, heavier[i].At)
			}
		}
		if other := mustPoisson(t, seed+1, load, slots, perJob, spec, span); len(jobs) > 3 && reflect.DeepEqual(jobs, other) {
			t.Fatal("another seed gives the same jobs")
		}
	})
}

func TestPoissonRefuses(t *testing.T) {
	spec := mustParse(t, "fixed:10ms")
	_, err := Poisson(1, math.NaN(), 0, -1, spec, 0)
	if err == nil {
		t.Fatal("accepted")
	}
	for _, want := range []string{"load NaN", "0 slots", "-1 tasks per job", "span 0s"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not name %q", err, want)
		}
	}
}
