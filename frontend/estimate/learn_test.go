package estimate

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/phoebe-sched/phoebe/probe"
)

func statsOf(samples ...Finished) *Stats {
	s := &Stats{}
	for _, m := range samples {
		s.Add(m)
	}
	return s
}

// A worker lies about its speed, and teaches wrong run times. If it claims to be fast, it runs most tasks. While
// other workers run some tasks, the lie does not change the expected run time, for inputs of any size.
func TestStatsOutvoteLiars(t *testing.T) {
	for _, lie := range []float64{1e9, 100, 16, 4, 0.01} {
		rng := newRand(1)
		s := &Stats{}
		for i := range 400 {
			bytes := int64(1+rng.IntN(1000)) * mb
			m := Finished{Run: toDuration(2 + 0.1*float64(bytes)/mb), Bytes: bytes, Worker: 7, Speed: lie}
			if i%5 == 0 { // at one of six honest workers
				m.Worker, m.Speed = int32(i/5%6), 1
			}
			s.Add(m)
		}
		for _, size := range []int64{100, 500, 1000} {
			want := 2 + 0.1*float64(size)
			if got := s.expectRun(size*mb, FromFunction).Run.Seconds(); math.Abs(got/want-1) > 0.1 {
				t.Errorf("one of seven claims a speed of %v, and runs most: %d MB take %v s, want %v", lie, size, got,
					want)
			}
		}
	}
}

// Used CPU is exceeded by a quarter of the samples, used memory by none. Used needs three samples.
func TestUsed(t *testing.T) {
	s := &Stats{}
	use := func(worker int32, cpu probe.Millicores, mem probe.MiB) {
		s.Add(Finished{Run: time.Second, Worker: worker, Used: probe.Demand{CPU: cpu, Mem: mem}})
	}
	for i, want := range []probe.Demand{{}, {}, {CPU: 200, Mem: 30}, {CPU: 300, Mem: 40}, {CPU: 400, Mem: 50}} {
		use(int32(i), probe.Millicores(100*(i+1)), probe.MiB(10*(i+1)))
		if got := s.Used(); got != want {
			t.Errorf("%d tasks used %v, want %v", i+1, got, want)
		}
	}
	for i := range 400 { // a quarter of the samples come from worker 9, with a large usage
		use(int32(i), 100, 10)
		use(9, 64_000, 10)
	}
	if got, want := s.Used(), (probe.Demand{CPU: 100, Mem: 10}); got != want {
		t.Errorf("all tasks but those at one worker used %v, and Used is %v", want, got)
	}
	for range 2 * window { // samples without usage
		use(9, 0, 0)
		use(8, 0, 0)
		use(7, 0, 0)
		use(6, 0, 0)
	}
	if got := s.Used(); got != (probe.Demand{}) {
		t.Errorf("tasks without a known usage used %v", got)
	}
}

// LeastCPU is reached by three quarters of the tasks with a known usage. A process that used no CPU counts, if its
// memory is known.
func TestLeastCPU(t *testing.T) {
	s := &Stats{}
	for i, want := range []probe.Millicores{0, 0, 0, 0, 0, 0, 0, 100} {
		s.Add(Finished{Run: time.Second, Worker: int32(i), Used: probe.Demand{CPU: probe.Millicores(100 * i), Mem: 10}})
		s.Add(Finished{Run: time.Second, Worker: int32(i)}) // a Go function
		if got := s.LeastCPU(); got != want {
			t.Errorf("of %d tasks that used 0, 0.1 cores and so on, LeastCPU is %d", i+1, got)
		}
	}
}

func TestExpect(t *testing.T) {
	const s = time.Second
	took := func(runs ...time.Duration) (ms []Finished) {
		for _, run := range runs {
			ms = append(ms, Finished{Run: run})
		}
		return ms
	}
	for _, test := range []struct {
		name            string
		hint            time.Duration
		bytes           int64
		stage, function *Stats
		want            time.Duration
		source          Source
	}{
		{"nothing", 0, 0, nil, nil, 7 * s, FromNothing},
		{"nothing finished", 0, 0, &Stats{}, &Stats{}, 7 * s, FromNothing},
		{"hint", 2 * s, 0, nil, statsOf(took(9 * s)...), 2 * s, FromHint},
		{"hint before the stage", 2 * s, 0, statsOf(took(9 * s)...), nil, 2 * s, FromHint},
		{"stage before function", 0, 0, statsOf(took(3 * s)...), statsOf(took(9 * s)...), 3 * s, FromStage},
		{"function", 0, 0, &Stats{}, statsOf(took(9 * s)...), 9 * s, FromFunction},
		{"median", 0, 0, statsOf(took(3*s, 4*s, 1000*s)...), nil, 4 * s, FromStage},
		{"two hints off", 10 * s, 0, statsOf(Finished{Run: 4 * s, Hint: 2 * s}, Finished{Run: 6 * s, Hint: 3 * s}), nil,
			10 * s, FromHint},
		{"three hints off", 10 * s, 0, statsOf(Finished{Run: 4 * s, Hint: 2 * s}, Finished{Run: 6 * s, Hint: 3 * s},
			Finished{Run: s, Hint: s}), nil, 20 * s, FromHintCorrected},
		{"hints that were right", 10 * s, 0, statsOf(Finished{Run: 2 * s, Hint: 2 * s},
			Finished{Run: 3 * s, Hint: 3 * s}, Finished{Run: s, Hint: s}), nil, 10 * s, FromHintCorrected},
		{"a fast worker", 0, 0, statsOf(Finished{Run: 2 * s, Speed: 2}), nil, 4 * s, FromStage},
		{"reading apart", 0, 0, statsOf(Finished{Run: 5 * s, Read: 2 * s}), nil, 3 * s, FromStage},
		{"read faster than expected", 0, 0, statsOf(Finished{Run: s, Read: 2 * s}), nil, 0, FromStage},
		{"the same size", 0, 110, statsOf(Finished{Run: 2 * s, Bytes: 100}, Finished{Run: 2 * s, Bytes: 100}), nil,
			2 * s, FromStage},
		{"five times the size", 0, 500, statsOf(Finished{Run: 2 * s, Bytes: 100}, Finished{Run: 2 * s, Bytes: 100}),
			nil, 10 * s, FromStage},
		{"a tenth of the size", 0, 10, statsOf(Finished{Run: 2 * s, Bytes: 100}), nil, s / 5, FromStage},
		{"a size where there were none", 0, 500, statsOf(took(2*s, 2*s)...), nil, 2 * s, FromStage},
		{"no size where there were some", 0, 0, statsOf(Finished{Run: 2 * s, Bytes: 100}), nil, 2 * s, FromStage},
		{"a line", 0, 400, statsOf(Finished{Run: 3 * s, Bytes: 100}, Finished{Run: 4 * s, Bytes: 200},
			Finished{Run: 5 * s, Bytes: 300}), nil, 6 * s, FromStage},
		{"less for more is noise", 0, 900, statsOf(Finished{Run: 3 * s, Bytes: 100}, Finished{Run: 2 * s, Bytes: 200},
			Finished{Run: s, Bytes: 300}), nil, 2 * s, FromStage},
		{"absurd", 0, 0, statsOf(took(math.MaxInt64)...), nil, maxTerm, FromStage},
		{"an absurd hint", math.MaxInt64, 0, nil, nil, maxTerm, FromHint},
	} {
		w := Expect(test.hint, test.bytes, test.stage, test.function, 7*s)
		if (w.Run-test.want).Abs() > test.want/100_000+time.Microsecond || w.Source != test.source {
			t.Errorf("%s: %v, want %v by %v", test.name, w, test.want, test.source)
		}
	}
}

// The fit recovers a line with noise and stragglers, and forgets it after the function has changed.
func TestStatsAreRobust(t *testing.T) {
	for seed := range uint64(50) {
		worker := int32(0)
		rng := rand.New(rand.NewPCG(seed, 1))
		s := &Stats{}
		task := func(base, perMB float64) Finished {
			bytes := int64(1+rng.IntN(1000)) * mb
			run := (base + perMB*float64(bytes)/mb) * (0.95 + 0.1*rng.Float64())
			if rng.IntN(8) == 0 {
				run *= 10
			}
			worker++
			return Finished{Run: toDuration(run), Bytes: bytes, Worker: worker % 8, Speed: 1}
		}
		for range 200 {
			s.Add(task(2, 0.1))
		}
		for range 40 {
			s.Add(task(10, 0.02))
		}
		for _, size := range []int64{100, 500, 2000} {
			want := 10 + 0.02*float64(size)
			w := s.expectRun(size*mb, FromFunction)
			if off := w.Run.Seconds()/want - 1; math.Abs(off) > 0.15 {
				t.Errorf("seed %d: %d MB take %v s, want %v", seed, size, w.Run.Seconds(), want)
			}
			if w.Dev > toDuration(want/2) {
				t.Errorf("seed %d: deviation %v of %v s", seed, w.Dev, want)
			}
		}
		if s.N() != 240 {
			t.Errorf("%d samples", s.N())
		}
	}
}

func TestAccuracy(t *testing.T) {
	var a Accuracy
	if a.Share() != 1 {
		t.Errorf("of no estimates: %v", a.Share())
	}
	for _, test := range []struct {
		estimate, truth time.Duration
		good            bool
	}{
		{0, time.Second, true},
		{0, time.Second + 1, false},
		{2 * time.Second, time.Second, true},
		{109 * time.Second, 100 * time.Second, true},
		{91 * time.Second, 100 * time.Second, true},
		{111 * time.Second, 100 * time.Second, false},
		{2 * time.Hour, time.Hour, false},
	} {
		before := a.Good
		a.Add(test.estimate, test.truth)
		if good := a.Good > before; good != test.good {
			t.Errorf("%v for %v: good is %t", test.estimate, test.truth, good)
		}
	}
	if got := a.Share(); got != 4.0/7 || a.TooHigh != 4 {
		t.Errorf("%v good, %d over: %s", got, a.TooHigh, a)
	}
	if got, want := a.String(),
		"57.1 % of 7 estimates within 10 % or 1 s, 4 too high, off by 518.857s on average"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func BenchmarkStatsAdd(b *testing.B) {
	var s Stats
	rng := newRand(1)
	b.ReportAllocs()
	for b.Loop() {
		s.Add(Finished{Run: time.Duration(rng.IntN(1e9)), Bytes: int64(rng.IntN(1e9)), Worker: int32(rng.IntN(100))})
	}
}

// TimeLeft is the mean remainder of samples that ran longer, each scaled to the task's hint and inputs. Samples of
// the task's own worker do not count: they cannot show that the task is late.
func TestTimeLeft(t *testing.T) {
	s := statsOf(
		Finished{Run: 10 * time.Second, Worker: 1}, Finished{Run: 20 * time.Second, Worker: 2},
		Finished{Run: 40 * time.Second, Worker: 3}, Finished{Run: 100 * time.Second, Worker: 4},
	)
	for _, c := range []struct {
		ran   time.Duration
		at    int32
		rest  time.Duration
		known bool
	}{
		{0, 9, 42500 * time.Millisecond, true}, {15 * time.Second, 4, 15 * time.Second, true},
		{30 * time.Second, 9, 40 * time.Second, true}, {30 * time.Second, 4, 10 * time.Second, true},
		{50 * time.Second, 4, 0, false},
	} {
		if timeLeft, _, known := s.TimeLeft(c.ran, 0, 0, c.at); (timeLeft-c.rest).Abs() > time.Millisecond ||
			known != c.known {
			t.Errorf("a task that has run for %v at worker %d has %v left (%t), want %v (%t)",
				c.ran, c.at, timeLeft, known, c.rest, c.known)
		}
	}
	if longest, n := s.Longest(4); longest != 40*time.Second || n != 3 {
		t.Errorf("beside worker 4, the longest of %d is %v", n, longest)
	}
	sized := statsOf(Finished{Run: 10 * time.Second, Bytes: 100, Worker: 1},
		Finished{Run: 12 * time.Second, Bytes: 100, Worker: 2})
	if timeLeft, _, known := sized.TimeLeft(20*time.Second, 0, 500, 3); !known ||
		(timeLeft-35*time.Second).Abs() > time.Second {
		t.Errorf("a task with five times the data has %v left (%t)", timeLeft, known)
	}
	hinted := statsOf(Finished{Run: 10 * time.Second, Hint: 5 * time.Second, Worker: 1})
	timeLeft, _, known := hinted.TimeLeft(15*time.Second, 10*time.Second, 0, 3)
	if !known || timeLeft != 5*time.Second {
		t.Errorf("a task with a hint of half its run time has %v left (%t)", timeLeft, known)
	}
}
