package place

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/phoebe-sched/phoebe/frontend/estimate"
	"github.com/phoebe-sched/phoebe/frontend/view"
	"github.com/phoebe-sched/phoebe/probe"
	"github.com/phoebe-sched/phoebe/probe/purity"
)

func TestPure(t *testing.T) { purity.Check(t, ".") }

// waiting is a Queue of tasks without a payload.
type waiting int

func (n waiting) Len() int            { return int(n) }
func (n waiting) Riders(most int) int { return min(int(n), most) }
func (n waiting) Fit(most, _ int) int { return most }

// fleet returns a view of workers with slots slots each. The first idle workers are idle, the rest busy.
func fleet(workers, slots, idle int) (*view.View, *view.Set, *rand.Rand) {
	rng := rand.New(rand.NewPCG(1, 2))
	v := view.New(estimate.Config{}.Defaults(), rng)
	now := time.Unix(1000, 0)
	size := probe.Demand{CPU: probe.Slot.CPU * probe.Millicores(slots), Mem: probe.Slot.Mem * probe.MiB(slots)}
	for i := range workers {
		w := v.EnsureWorker(view.Key(i))
		v.NoteLinked(w, probe.Welcome{Worker: fmt.Sprint("w", i), Functions: []string{"f"}, Capacity: size}, now)
		if i >= idle {
			v.NoteLoad(w, &probe.Load{Queued: 1}, now)
		}
	}
	need := view.Need{Function: "f", Demand: probe.Slot}
	return v, v.MakeSet(need.Key(), need, nil), rng
}

// The sampler decides how many tasks ride to how many idle workers, and how many places are reserved at how many
// other workers. No worker is chosen twice.
func TestSampler(t *testing.T) {
	phoebe, late := &Policies[0], &Policies[1]
	for name, test := range map[string]struct {
		policy               *Policy
		workers, slots, idle int
		tasks, jobTasks      int
		run                  time.Duration
		has                  int // workers with places already
		rides, places        int // expected riding tasks, and places
		riding, reserved     int // workers with riding tasks, workers with places
	}{
		"all ride, one each": {policy: phoebe, workers: 20, slots: 4, idle: 20, tasks: 10,
			run: 100 * time.Millisecond, rides: 10, riding: 10},
		"what is left rides where there is room": {policy: phoebe, workers: 3, slots: 4, idle: 3, tasks: 10,
			run: 100 * time.Millisecond, rides: 10, riding: 3},
		"what does not ride is sampled": {policy: phoebe, workers: 20, slots: 1, idle: 5, tasks: 10,
			run: 100 * time.Millisecond, rides: 5, riding: 5, places: 15, reserved: 15},
		"one place each where workers do": {policy: phoebe, workers: 30, slots: 4, tasks: 10,
			run: 100 * time.Millisecond, places: 20, reserved: 20},
		"several where they are too few": {policy: phoebe, workers: 7, slots: 4, tasks: 10,
			run: 100 * time.Millisecond, places: 21, reserved: 7},
		"but no more than there are slots": {policy: phoebe, workers: 5, slots: 4, tasks: 40,
			run: 100 * time.Millisecond, places: 20, reserved: 5},
		"and of short tasks one": {policy: phoebe, workers: 5, slots: 4, tasks: 40,
			run: time.Millisecond, places: 5, reserved: 5},
		"a large job rides only at leisure": {policy: phoebe, workers: 100, slots: 1, idle: 30, tasks: 30, jobTasks: 30,
			run: 100 * time.Millisecond, places: 60, reserved: 60},
		"few workers get several places": {policy: late, workers: 5, slots: 4, tasks: 10, places: 20,
			reserved: 5},
		"a policy without rides samples only": {policy: late, workers: 30, slots: 4, idle: 30, tasks: 10,
			places: 20, reserved: 20},
		"where there are places, none are kept": {policy: phoebe, workers: 10, slots: 1, tasks: 10,
			run: 100 * time.Millisecond, has: 4, places: 6, reserved: 6},
	} {
		t.Run(name, func(t *testing.T) {
			v, set, rng := fleet(test.workers, test.slots, test.idle)
			k := &Kind{Policy: test.policy, Set: set, Demand: probe.Slot, Runs: v.EnsureRuns("", "f"), Ratio: 2,
				JobTasks: max(test.jobTasks, test.tasks)}
			k.Add(test.run, 0, 0)
			v.NoteTrip(time.Millisecond)
			w := &Want{Kind: k, Queue: waiting(test.tasks), Probes: k.Probes(test.tasks), MayRide: test.has == 0,
				PlacesAt: append([]*view.Worker(nil), set.Workers()[:test.has]...)}
			s := NewSampler(v, rng)
			for range 2 { // the second time uses the scratch of the first
				rides, places, riding, reserved := 0, 0, 0, 0
				seen := map[view.Key]bool{}
				for _, d := range s.Place(w, time.Unix(1000, 0)) {
					rides, places = rides+d.Rides, places+d.Places
					if d.Rides > 0 {
						riding++
					}
					if d.Places > 0 {
						reserved++
					}
					if seen[d.Worker.Key] {
						t.Errorf("%s is chosen twice", d.Worker.Name())
					}
					seen[d.Worker.Key] = true
					if d.Rides > 0 && (d.Why != IsIdle || !d.Worker.Idle()) {
						t.Errorf("a task rides to %s: %s", d.Worker.Name(), d.Why)
					}
					for _, h := range w.PlacesAt {
						if h == d.Worker {
							t.Errorf("%s has places already", d.Worker.Name())
						}
					}
				}
				if rides != test.rides || places != test.places || riding != test.riding || reserved != test.reserved {
					t.Errorf("%d rides to %d workers and %d places at %d, want %d, %d, %d, %d", rides, riding, places,
						reserved, test.rides, test.riding, test.places, test.reserved)
				}
			}
		})
	}
}

// A newly idle worker gets as many tasks as fit.
func TestOffer(t *testing.T) {
	v, set, rng := fleet(1, 4, 1)
	s := NewSampler(v, rng)
	for _, test := range []struct {
		policy   *Policy
		tasks    int
		jobTasks int
		want     Decision
	}{
		{&Policies[0], 3, 3, Decision{Rides: 3}},
		{&Policies[0], 9, 9, Decision{Rides: 4}},
		{&Policies[0], 3, 100, Decision{Places: 3}},
		{&Policies[1], 3, 3, Decision{Places: 3}},
	} {
		k := &Kind{Policy: test.policy, Set: set, Demand: probe.Slot, Runs: v.EnsureRuns("", "f"), Ratio: 2,
			JobTasks: test.jobTasks}
		test.want.Worker, test.want.Why = v.Worker(0), BecameIdle
		if got, any := s.Offer(k, waiting(test.tasks), v.Worker(0)); got != test.want || !any {
			t.Errorf("policy %s, %d tasks: %+v, want %+v", test.policy.Name, test.tasks, got, test.want)
		}
	}
	k := &Kind{Policy: &Policies[0], Set: set, Demand: probe.Slot, Runs: v.EnsureRuns("", "f"), Ratio: 2}
	if d, any := s.Offer(k, waiting(0), v.Worker(0)); any {
		t.Errorf("without waiting tasks, the worker gets %+v", d)
	}
}
