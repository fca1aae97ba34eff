package worker

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/phoebe-sched/phoebe/probe"
)

// scene is the input of a forecast: running entries with their remaining times, and waiting entries in order.
type scene struct {
	capacity probe.Demand
	open     probe.Demand // to long tasks
	runs     []entry
	waits    []entry
	rest     work
}

type entry struct {
	demand probe.Demand
	cost   time.Duration
	long   bool
}

func (e *entry) neededRoom() room { return roomFor(e.demand, e.long) }

func (s *scene) room() room { return room{s.capacity, s.open} }

// buildForecast makes the forecast of s, and returns the expected start of the last entry.
func (s *scene) buildForecast(f *forecast) (last time.Duration) {
	f.reset(s.room())
	for _, r := range s.runs {
		f.addRunning(r.neededRoom(), r.cost)
	}
	for _, w := range s.waits {
		last = f.planEntry(w.neededRoom(), 0, w.cost)
	}
	f.planRest(s.rest)
	return last
}

// newCrowd is a machine of 64 cores and 256 GiB, with running entries as far as there is room, and waiting
// entries.
func newCrowd(runs, waits int, draw func(*rand.Rand) entry) *scene {
	rng := rand.New(rand.NewPCG(1, 2))
	s := &scene{capacity: probe.Demand{CPU: 64_000, Mem: 256 << 10}, open: probe.Demand{CPU: 56_000, Mem: 224 << 10}}
	free := s.capacity
	for range 10 * runs {
		if e := draw(rng); len(s.runs) < runs && e.demand.Fits(free) {
			free = free.Sub(e.demand)
			s.runs = append(s.runs, e)
		}
	}
	for range waits {
		s.waits = append(s.waits, draw(rng))
	}
	return s
}

// drawUpTo draws an entry with random demand and cost up to these bounds. drawSized draws only a random cost.
func drawUpTo(r *rand.Rand, cpu probe.Millicores, mem probe.MiB, maxCost time.Duration) entry {
	return drawSized(r, probe.Millicores(r.Int32N(int32(cpu))+1), probe.MiB(r.Int32N(int32(mem))+1), maxCost)
}

func drawSized(r *rand.Rand, cpu probe.Millicores, mem probe.MiB, maxCost time.Duration) entry {
	return entry{demand: probe.Demand{CPU: cpu, Mem: mem}, cost: time.Duration(r.Int64N(int64(maxCost)))}
}

// draws are kinds of load.
var draws = map[string]func(*rand.Rand) entry{
	// Entries of the same size.
	"slots": func(r *rand.Rand) entry { return drawSized(r, 1600, 4<<10, 100*time.Millisecond) },
	// Nine short tasks of up to two cores to a long task of up to a quarter of the machine.
	"mixed": func(r *rand.Rand) entry {
		if r.IntN(10) > 0 {
			return drawUpTo(r, 2000, 8<<10, 100*time.Millisecond)
		}
		e := drawUpTo(r, 16_000, 64<<10, 100*time.Second)
		e.long = true
		return e
	},
	// Anything from nothing to half the machine.
	"wild": func(r *rand.Rand) entry { return drawUpTo(r, 32_000, 128<<10, 10*time.Second) },
	// Many entries beside each other, so each entry takes long to add to the forecast. A search found no worse
	// load.
	"thin": func(r *rand.Rand) entry { return drawUpTo(r, 600, 300, 100*time.Millisecond) },
	// Only a single entry has room at a time, so the entries run one after the other.
	"serial": func(r *rand.Rand) entry { return drawSized(r, 40_000, 4<<10, time.Second) },
}

func BenchmarkMatrix(b *testing.B) {
	for _, load := range []string{"slots", "mixed", "wild", "thin", "serial"} {
		b.Run(load, func(b *testing.B) {
			s := newCrowd(40, 100, draws[load])
			if load == "serial" || load == "thin" {
				s.runs = newCrowd(40, 0, draws["slots"]).runs
			}
			var f forecast
			var m probe.WaitMatrix
			b.ReportAllocs()
			for b.Loop() {
				s.buildForecast(&f)
				f.writeMatrix(&m, f.capacity.open)
			}
			b.ReportMetric(float64(len(s.runs)), "running")
			b.ReportMetric(float64(len(f.spans)), "spans")
		})
	}
}
