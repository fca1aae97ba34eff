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
		"pareto:1.5,10ms":      10 * time.Millisecond,
		"lognormal:2,1s":       time.Second,
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
		"fixed":                `"" is not a duration; write a number with its unit`,
		"fixed:10":             `"10" is not a duration`,
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
		"mix:50%5ms,50%6lions": `"6lions" is not a duration`,
		"pareto:10ms":          "has no comma; write alpha, a comma, the mean",
		"pareto:1,10ms":        "alpha 1 is outside 1.01 to 100; the smaller, the heavier the tail",
		"pareto:NaN,10ms":      "alpha NaN is outside",
		"pareto:2,0s":          "outside 1us to 1h0m0s",
		"lognormal:x,10ms":     `sigma "x" is not a number`,
		"lognormal:0,10ms":     "sigma 0 is not above 0 and up to 5",
		"lognormal:1,10":       `"10" is not a duration`,
	} {
		_, err := ParseDurations(text)
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "such as") &&
			!strings.Contains(err.Error(), "use one of") {
			t.Errorf("%q: got %v, want it to say %q and show a right one", text, err, want)
		}
	}
}

func TestDraw(t *testing.T) {
	const n = 200_000
	for _, text := range []string{"fixed:10ms", "job-exp:10ms", "task-exp:10ms", "mix:90%5ms,10%200ms",
		"mix:20%1ms,30%2ms,50%3ms", "pareto:3,10ms", "lognormal:0.5,10ms"} {
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

// The tails match the laws: the test compares the shares of tasks beyond some multiples of the mean.
func TestTails(t *testing.T) {
	for text, beyond := range map[string]func(x float64) float64{
		"pareto:1.5,10ms":  func(x float64) float64 { return math.Pow(0.5/1.5/x, 1.5) },
		"lognormal:1,10ms": func(x float64) float64 { return math.Erfc((math.Log(x)+0.5)/math.Sqrt2) / 2 },
	} {
		rng := rand.New(rand.NewPCG(1, 2))
		tasks := make([]time.Duration, 1_000_000)
		mustParse(t, text).Draw(rng, tasks)
		for _, x := range []float64{0.5, 1, 3, 10} {
			n := 0
			for _, d := range tasks {
				if float64(d) > x*10e6 {
					n++
				}
			}
			if got, want := float64(n)/float64(len(tasks)), beyond(x); math.Abs(got/want-1) > 0.05 {
				t.Errorf("%s: a share of %.5f is beyond %g means, want %.5f", text, got, x, want)
			}
		}
	}
	for range 1000 { // the heaviest tail of all laws stays within a time.Duration
		rng := rand.New(rand.NewPCG(3, 4))
		tasks := make([]time.Duration, 100)
		mustParse(t, "pareto:1.01,1h").Draw(rng, tasks)
		if longest := slices.Max(tasks); longest > longestDraw || slices.Min(tasks) <= 0 {
			t.Fatal(longest)
		}
	}
}

func TestCounts(t *testing.T) {
	for text, want := range map[string]struct {
		mean       float64
		least, top int
	}{
		"1":               {1, 1, 1},
		"100":             {100, 100, 100},
		"uniform:1-20":    {10.5, 1, 20},
		"uniform:7-7":     {7, 7, 7},
		"geometric:1":     {1, 1, 1},
		"geometric:10":    {10, 1, 1 << 30},
		"geometric:2.5":   {2.5, 1, 1 << 30},
		"geometric:10000": {10_000, 1, 1 << 30},
	} {
		counts, err := ParseCounts(text)
		if err != nil {
			t.Error(err)
			continue
		}
		if again, err := ParseCounts(counts.String()); err != nil || again != counts || counts.String() != text {
			t.Errorf("%s prints as %s", text, counts)
		}
		rng := rand.New(rand.NewPCG(1, 2))
		sum, least, top, ones := 0, math.MaxInt, 0, 0
		const n = 200_000
		for range n {
			k := counts.Draw(rng)
			sum, least, top = sum+k, min(least, k), max(top, k)
			if k == 1 {
				ones++
			}
		}
		if got := float64(sum) / n; math.Abs(got/want.mean-1) > 0.01 || counts.Mean() != want.mean ||
			least < want.least || top > want.top {
			t.Errorf("%s: mean %g, stated %g, from %d to %d", text, got, counts.Mean(), least, top)
		}
		if got := float64(ones) / n; text == "geometric:10" && math.Abs(got/0.1-1) > 0.03 {
			t.Errorf("%s: a share of %g has one task", text, got)
		}
	}
	for text, want := range map[string]string{
		"":                "is not a number of tasks; use a number from 1 to 100000, uniform:1-20 or geometric:10",
		"0":               `"0" is not a number`,
		"-3":              `"-3" is not a number`,
		"200000":          `"200000" is not a number`,
		"2.5":             `"2.5" is not a number`,
		"uniform:5":       `"" is not a number`,
		"uniform:9-3":     "9 is above 3",
		"geometric:0.5":   `"0.5" is not a mean`,
		"geometric:NaN":   `"NaN" is not a mean`,
		"geometric:20000": `"20000" is not a mean`,
		"poisson:3":       `unknown kind "poisson"`,
	} {
		if _, err := ParseCounts(text); err == nil || !strings.Contains(err.Error(), want) ||
			!strings.Contains(err.Error(), "; use ") {
			t.Errorf("%q: got %v, want it to say %q", text, err, want)
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

// Jobs of several sizes also offer the load asked for.
func TestPoissonJobs(t *testing.T) {
	counts, err := ParseCounts("geometric:10")
	if err != nil {
		t.Fatal(err)
	}
	const span = 2000 * time.Second
	seq, err := PoissonJobs(1, 0.8, 40.5, counts, mustParse(t, "task-exp:10ms"), span)
	if err != nil {
		t.Fatal(err)
	}
	if got := Offered(slices.Collect(seq), 1, span) / 40.5; math.Abs(got/0.8-1) > 0.01 {
		t.Errorf("offered %.3f, want 0.8", got)
	}
}

func TestPoissonIsAFunctionOfItsArguments(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		seed := rapid.Uint64().Draw(t, "seed")
		load := rapid.Float64Range(0.05, 3).Draw(t, "load")
		slots := rapid.IntRange(1, 50).Draw(t, "slots")
		perJob := rapid.IntRange(1, 20).Draw(t, "tasks per job")
		spec := mustParse(t, rapid.SampledFrom([]string{"fixed:10ms", "job-exp:10ms", "task-exp:10ms",
			"mix:90%5ms,10%200ms"}).Draw(t, "durations"))
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
		if other := mustPoisson(t, seed+1, load, slots, perJob, spec, span); len(jobs) > 3 &&
			reflect.DeepEqual(jobs, other) {
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
