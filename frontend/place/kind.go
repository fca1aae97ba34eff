package place

import (
	"math"
	"time"

	"github.com/phoebe-sched/phoebe/frontend/view"
	"github.com/phoebe-sched/phoebe/probe"
)

// Kind is what is known of the tasks of a job that demand the same of a worker, as far as placing goes by it.
type Kind struct {
	Policy   *Policy
	Set      *view.Set // workers that may run them
	Demand   probe.Demand
	Runs     *view.Runs // of their function
	Ratio    float64    // probes for each
	JobTasks int        // tasks of their job, of this kind and of others

	estimateSum    time.Duration // of the estimates
	hinted         int           // tasks that have one
	unhinted       bool          // some have none
	longest        time.Duration // the largest
	largestPayload int           // bytes of a payload that may ride along
}

// MaxRide is the largest payload that rides along: one that does not start was sent for nothing.
const MaxRide = 32 << 10

// maxRideBytes bounds all that ride with one message.
const maxRideBytes = 1 << 20

// Add takes a task into account: its estimate, as far as its function's history lets it stand, what it takes at most to
// read its inputs, and its payload in bytes.
func (k *Kind) Add(estimate, reads time.Duration, payload int) {
	k.NotePayload(payload)
	if estimate == 0 {
		k.unhinted = true
		return
	}
	estimate = k.Runs.Correct(estimate) + reads
	k.estimateSum += estimate
	k.hinted++
	k.longest = max(k.longest, estimate)
}

// NotePayload notes that so many bytes go with one of the tasks.
func (k *Kind) NotePayload(bytes int) {
	if bytes <= MaxRide {
		k.largestPayload = max(k.largestPayload, bytes)
	}
}

// Estimate is the mean of the estimates of those tasks that have one; 0 if none has.
func (k *Kind) Estimate() time.Duration { return k.estimateSum / time.Duration(max(k.hinted, 1)) }

// Probes is how many places n of the tasks are worth.
func (k *Kind) Probes(n int) int { return int(math.Ceil(k.Ratio * float64(n))) }

// Run is near the longest that one of the tasks is believed to run; 0 if nothing is known. Of tasks with an estimate it
// goes by that, of those without one by the function's history.
func (k *Kind) Run() time.Duration {
	if k.unhinted {
		return max(k.longest, k.Runs.Longest())
	}
	return k.longest
}

// Queue is those of the tasks that wait, in their order.
type Queue interface {
	Len() int
	// Riders counts tasks, from the first one on, that are small enough to ride along, but no more than most.
	Riders(most int) int
	// Fit is n, or as many tasks as have payloads that fit into so many bytes, the first one aside; at least 1.
	Fit(n, bytes int) int
}

const (
	// bundleTime is how long the tasks of a bundle should take together, at most: less than a round trip.
	bundleTime = 40 * time.Microsecond
	maxBundle  = 32
	// BundleBytes bounds the payloads of a bundle.
	BundleBytes = 64 << 10
)

// Bundle is how many of the tasks that wait one message gets, if their payloads are to fit into so many bytes.
func (k *Kind) Bundle(q Queue, bytes int) int {
	if !k.Policy.Bundle || !k.Runs.Any() {
		return 1
	}
	return fitBundle(q, int(bundleTime/k.Runs.Longest()), bytes) // none of it may be held up by one that takes longer
}

func fitBundle(q Queue, n, bytes int) int { return q.Fit(max(min(n, maxBundle), 1), bytes) }

// largeJob is how many tasks make a job large: some of its rides would find their worker taken, and the whole job
// waits for them, a round trip longer than if they had been reservations. Its tasks ride only where there is plenty
// of room, and once. Tasks worth bundling are not worth the care.
const largeJob = 20

func (k *Kind) isLarge(q Queue) bool { return k.JobTasks > largeJob && k.Bundle(q, BundleBytes) == 1 }

// mostRides is how many may ride with one message.
func (k *Kind) mostRides() int { return min(maxRideBytes/max(k.largestPayload, 1), probe.MaxPlaces/2) }
