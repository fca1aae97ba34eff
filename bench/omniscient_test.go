package bench

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestOmniscientExample(t *testing.T) {
	// Two slots. a: tasks 4, 4, 2 at 0: 0-4, 0-4, 4-6. b: task 1 at 1 waits behind a: 4-5. c: 3 at 10, alone.
	got := Omniscient([]time.Duration{0, 1, 10}, [][]time.Duration{{4, 4, 2}, {1}, {3}}, 2)
	if want := []time.Duration{6, 4, 3}; !slices.Equal(got, want) {
		t.Errorf("responses %v, want %v", got, want)
	}
}

// slowOmniscient computes Omniscient tick by tick: at every moment, the first task in the queue takes a free slot.
func slowOmniscient(arrivals []time.Duration, durations [][]time.Duration, slots int) []time.Duration {
	type task struct {
		job int
		d   time.Duration
	}
	var queue []task
	waiting, unfinished := 0, 0
	responses := make([]time.Duration, len(arrivals))
	for i := range arrivals {
		unfinished += len(durations[i])
	}
	running := make([]task, slots) // d is the remaining time; 0 is a free slot
	for now := time.Duration(0); unfinished > 0; now++ {
		for i, at := range arrivals { // equal arrivals keep the order of the arguments
			if at == now {
				for _, d := range durations[i] {
					queue = append(queue, task{i, d})
				}
			}
		}
		for s := range running {
			if running[s].d == 0 && waiting < len(queue) {
				running[s] = queue[waiting]
				waiting++
			}
			if running[s].d > 0 {
				if running[s].d--; running[s].d == 0 {
					unfinished--
					job := running[s].job
					responses[job] = max(responses[job], now+1-arrivals[job])
				}
			}
		}
	}
	return responses
}

func TestOmniscientAgainstTheClock(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		slots := rapid.IntRange(1, 5).Draw(t, "slots")
		n := rapid.IntRange(0, 12).Draw(t, "jobs")
		arrivals := make([]time.Duration, n)
		durations := make([][]time.Duration, n)
		for i := range n {
			arrivals[i] = time.Duration(rapid.IntRange(0, 30).Draw(t, "at"))
			for range rapid.IntRange(0, 6).Draw(t, "tasks") {
				durations[i] = append(durations[i], time.Duration(rapid.IntRange(1, 9).Draw(t, "duration")))
			}
		}
		got := Omniscient(arrivals, durations, slots)
		if want := slowOmniscient(arrivals, durations, slots); !slices.Equal(got, want) {
			t.Fatalf("slots %d, arrivals %v, durations %v: %v, want %v", slots, arrivals, durations, got, want)
		}
		for i := range got {
			if got[i] < Ideal(durations[i]) {
				t.Fatalf("job %d is answered before its longest task ends", i)
			}
		}
		for i, r := range Omniscient(arrivals, durations, 1000) {
			if r != Ideal(durations[i]) {
				t.Fatalf("job %d takes %d on an empty cluster, its longest task %d", i, r, Ideal(durations[i]))
			}
		}
	})
}

// erlangC returns the chance that an arrival waits in M/M/k, with offered traffic a = k*load.
func erlangC(k int, load float64) float64 {
	a := float64(k) * load
	term, sum := 1.0, 1.0 // a^n/n!
	for n := 1; n < k; n++ {
		term *= a / float64(n)
		sum += term
	}
	last := term * a / float64(k) / (1 - load)
	return last / (sum + last)
}

func TestOmniscientMeanWaitOfMMk(t *testing.T) {
	const mean = 10 * time.Millisecond
	for _, c := range []struct {
		k    int
		load float64
	}{{1, 0.5}, {4, 0.8}, {40, 0.9}} {
		t.Run(fmt.Sprintf("k=%d,load=%g", c.k, c.load), func(t *testing.T) {
			const jobs = 2_000_000
			span := time.Duration(jobs * float64(mean) / (c.load * float64(c.k)))
			var arrivals []time.Duration
			var durations [][]time.Duration
			seq, err := Poisson(1, c.load, c.k, 1, taskExp(mean), span)
			if err != nil {
				t.Fatal(err)
			}
			for j := range seq {
				arrivals, durations = append(arrivals, j.At), append(durations, j.Tasks)
			}
			var wait float64
			for i, r := range Omniscient(arrivals, durations, c.k) {
				wait += float64(r - durations[i][0])
			}
			wait /= float64(len(arrivals))
			want := erlangC(c.k, c.load) * float64(mean) / (float64(c.k) * (1 - c.load))
			if math.Abs(wait/want-1) > 0.03 {
				t.Errorf("mean wait %s, theory says %s", time.Duration(wait), time.Duration(want))
			}
		})
	}
}

func BenchmarkOmniscient(b *testing.B) {
	jobs := mustPoisson(b, 1, 0.8, 160, 10, mustParse(b, "task-exp:10ms"), 10*time.Second)
	arrivals, durations := make([]time.Duration, len(jobs)), make([][]time.Duration, len(jobs))
	for i, j := range jobs {
		arrivals[i], durations[i] = j.At, j.Tasks
	}
	b.ReportMetric(float64(len(jobs)*10), "tasks")
	for b.Loop() {
		Omniscient(arrivals, durations, 160)
	}
}
