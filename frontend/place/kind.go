package place

import (
	"math"
	"time"

	"github.com/phoebe-sched/phoebe/frontend/view"
	"github.com/phoebe-sched/phoebe/probe"
)

// Kind describes the tasks of a job with the same demand on a worker, as far as placing needs it.
type Kind struct {
	Policy   *Policy
	Set      *view.Set // workers that may run them
	Demand   probe.Demand
	Runs     *view.Runs // recent runs of their function
	Ratio    float64    // probe ratio: places per task
	JobTasks int        // tasks of their job, of all kinds

	estimateSum    time.Duration // sum of the corrected estimates, times to read the inputs included
	hinted         int           // tasks with an estimate
	someUnhinted   bool          // some tasks have no estimate
	longest        time.Duration // longest summand of estimateSum
	largestPayload int           // largest payload that may ride along, bytes
}

// MaxRide is the largest payload that may ride along, in bytes: if the task does not start, the payload was sent in
// vain.
const MaxRide = 32 << 10

// maxRideBytes bounds the payloads that ride with one message, in bytes.
const maxRideBytes = 1 << 20

// Add adds a task with an estimate, the longest time to read the inputs, and the size of the payload in bytes. The
// function's history may correct the estimate. An estimate of 0 means: no estimate.
func (k *Kind) Add(estimate, reads time.Duration, payload int) {
	k.NotePayload(payload)
	if estimate == 0 {
		k.someUnhinted = true
		return
	}
	estimate = k.Runs.Correct(estimate) + reads
	k.estimateSum += estimate
	k.hinted++
	k.longest = max(k.longest, estimate)
}

// NotePayload notes the size in bytes of a task's payload, if the payload may ride along.
func (k *Kind) NotePayload(bytes int) {
	if bytes <= MaxRide {
		k.largestPayload = max(k.largestPayload, bytes)
	}
}

// Estimate returns the mean estimate of the tasks with an estimate; 0: no task has one.
func (k *Kind) Estimate() time.Duration { return k.estimateSum / time.Duration(max(k.hinted, 1)) }

// Probes returns the number of places to reserve for n tasks: n times the probe ratio d (Sparrow, section 3.3),
// rounded up.
func (k *Kind) Probes(n int) int { return int(math.Ceil(k.Ratio * float64(n))) }

// Run returns about the longest run time expected for the tasks; 0: nothing is known. For tasks with an estimate
// the estimate counts, for tasks without an estimate the function's history.
func (k *Kind) Run() time.Duration {
	if k.someUnhinted {
		return max(k.longest, k.Runs.Longest())
	}
	return k.longest
}

// Queue is the waiting tasks of a group, in order.
type Queue interface {
	Len() int
	// Riders returns how many tasks at the front of the queue are small enough to ride along, up to most.
	Riders(most int) int
	// Fit returns how many of the first n tasks fit together into bytes of payloads, without counting the first
	// payload; at least 1.
	Fit(n, bytes int) int
}

const (
	// bundleTime bounds the run time of a bundle: less than a round trip.
	bundleTime = 40 * time.Microsecond
	maxBundle  = 32
	// BundleBytes bounds the payloads of a bundle, in bytes.
	BundleBytes = 64 << 10
)

// Bundle returns how many waiting tasks go with a message, if their payloads must fit into bytes.
func (k *Kind) Bundle(q Queue, bytes int) int {
	if !k.Policy.Bundle || !k.Runs.Any() {
		return 1
	}
	// The longest run counts, because one long task would hold up the rest of the bundle.
	return fitBundle(q, int(bundleTime/k.Runs.Longest()), bytes)
}

// fitBundle returns how many of the first n tasks go together: at least 1, and at most maxBundle.
func fitBundle(q Queue, n, bytes int) int { return q.Fit(max(min(n, maxBundle), 1), bytes) }

// largeJob is the number of tasks above which a job is large. Some tasks of a large job would ride to a worker that
// has no room any more. The whole job would wait for such tasks, a round trip longer than with reservations. So the
// tasks of a large job ride only with the group's first places, and only if at least twice as many workers look idle
// (planRides). Tasks short enough for bundles are exempt.
const largeJob = 20

// isLarge reports whether the job of the tasks is large, and the tasks of q go one by one.
func (k *Kind) isLarge(q Queue) bool { return k.JobTasks > largeJob && k.Bundle(q, BundleBytes) == 1 }

// mostRides returns how many tasks may ride with one message. The other half of MaxPlaces is left for places without
// a task.
func (k *Kind) mostRides() int { return min(maxRideBytes/max(k.largestPayload, 1), probe.MaxPlaces/2) }
