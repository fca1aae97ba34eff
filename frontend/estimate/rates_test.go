package estimate

import (
	"math"
	"testing"
	"time"
)

// ratesFleet returns a fleet of 8 workers. The workers with even keys share a rack.
func ratesFleet(cfg Config) *Fleet {
	f := NewFleet(cfg)
	for key := range int32(8) {
		f.Put(Server{Key: key, Name: string(rune('a' + key)), Rack: string(rune('r' + key%2)), Matrix: flatMatrix(0),
			Heard: t0})
	}
	return f
}

// readRuns lets tasks of a function, with inputs at a, run at all workers: true rates in bytes a second, and the rest
// of the run up to noise.
func readRuns(f *Fleet, rounds int, disk, rack, across float64, compute, noise time.Duration) {
	rng := newRand(1)
	var recent Reads
	ins := []Input{{Bytes: 64 * mb, Copies: []Copy{{At: "a"}}}}
	for i := range rounds {
		key := int32(0)
		if i%2 == 1 {
			key = int32(1 + rng.IntN(7))
		}
		rate := disk
		switch {
		case key%2 == 1:
			rate = across
		case key > 0:
			rate = rack
		}
		run := compute + transferTime(64*mb, rate) + time.Duration(rng.Float64()*float64(noise))
		f.NoteRead(&recent, ins, key, run)
	}
}

func TestRatesAreLearnt(t *testing.T) {
	const ms = time.Millisecond
	start := ratesFleet(Config{}).Rates()
	near := func(what string, got, want float64) {
		t.Helper()
		if math.Abs(got/want-1) > 0.15 {
			t.Errorf("%s: %.0f MB/s, want %.0f", what, got/1e6, want/1e6)
		}
	}
	f := ratesFleet(Config{}) // fast disks and a fast network: tasks that only read
	readRuns(f, 400, 2e9, 1.5e9, 1.2e9, 0, ms)
	near("fast disk", f.Rates().Disk, 2e9)
	near("fast rack", f.Rates().Rack, 1.5e9)
	near("fast network", f.Rates().Across, 1.2e9)

	f = ratesFleet(Config{}) // tasks that compute for a second: nothing tells how fast the disk is
	readRuns(f, 400, 2e9, 2e9, 40e6, time.Second, 10*ms)
	near("unknown disk", f.Rates().Disk, start.Disk)
	near("slow network, beside the disk", 1/(1/f.Rates().Across-1/f.Rates().Disk), 1/(1/40e6-1/2e9))
	near("a rack as fast as the disk", f.Rates().Rack, f.Rates().Disk)

	f = ratesFleet(Config{}) // runs vary by more than reading takes
	readRuns(f, 400, start.Disk, start.Rack, start.Across, time.Second, time.Minute)
	if f.Rates() != start {
		t.Errorf("by runs that vary: %+v, want %+v", f.Rates(), start)
	}

	f = ratesFleet(Config{FixedRates: true})
	readRuns(f, 400, 2e9, 1.5e9, 1.2e9, 0, ms)
	for range 40 {
		f.NoteFetch(1, true, gb, time.Second)
		f.NoteFetch(1, false, gb, time.Second)
	}
	if f.Rates() != start || f.rates.peer != start.Across {
		t.Errorf("fixed rates: %+v, want %+v", f.Rates(), start)
	}
}

// Fetches of files teach the rates of caches and of the origin. A lying worker does not change the rates. A few
// fetches, or small fetches, say nothing.
func TestFetchRatesAreLearnt(t *testing.T) {
	f := ratesFleet(Config{})
	start := f.Rates()
	for i := range 7 {
		f.NoteFetch(int32(i), true, gb, time.Second)
	}
	for i := range 100 {
		f.NoteFetch(int32(i%8), false, 1000, time.Nanosecond)
	}
	if f.Rates() != start || f.rates.peer != start.Across {
		t.Errorf("after 7 fetches: %+v", f.rates.Rates)
	}
	for i := range 200 {
		f.NoteFetch(7, true, gb, time.Hour)
		f.NoteFetch(int32(i%7), true, gb, time.Second)
		f.NoteFetch(int32(i%7), false, gb, 20*time.Second)
	}
	if got := f.rates.peer; math.Abs(got/gb-1) > 0.01 {
		t.Errorf("caches give %.0f MB/s, want %.0f", got/1e6, gb/1e6)
	}
	if got := f.Rates().Origin; math.Abs(got/gb*20-1) > 0.01 {
		t.Errorf("the origin gives %.0f MB/s, want %.0f", got/1e6, gb/20e6)
	}
	f.Put(Server{Key: 1, Name: "b", Matrix: flatMatrix(0), Heard: t0, Files: []FileID{5}})
	for id, want := range map[FileID]time.Duration{5: time.Second, 6: 20 * time.Second} {
		c := f.estimateAt(&Task{Files: []File{{ID: id, Bytes: gb}}}, f.rowOf(0), t0)
		if (c.I - want).Abs() > want/50 {
			t.Errorf("file %d is fetched in %v, want %v", id, c.I, want)
		}
	}
}
