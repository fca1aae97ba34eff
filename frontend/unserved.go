package frontend

import (
	"fmt"
	"slices"
	"time"

	"github.com/phoebe-sched/phoebe/frontend/estimate"
)

// noteRide remembers that tasks of an unserved job ride with r. A worker sends no message when a ride starts at
// once, but sends back a ride that must wait. So presumeStarted counts the job as served if no ride comes back
// within a round trip.
func (c *jobs) noteRide(r *reservation, now time.Time) {
	j := r.group.job
	if len(j.waitLists) == 0 {
		return
	}
	c.presumeStarted(now)
	j.rides = append(j.rides, r)
	if n := len(c.sentJobs); !j.presumed && (n == 0 || c.sentJobs[n-1].job != j || !c.sentJobs[n-1].at.Equal(now)) {
		c.sentJobs = append(c.sentJobs, sentJob{j, now})
	}
}

// sentAt returns the time when r was sent. At least one task must have ridden along.
func (r *reservation) sentAt() time.Time { return r.rides[0].sentAt }

// presumeStarted counts jobs as served if a worker has kept a ride for a round trip. Call it before reading how
// long jobs wait.
func (c *jobs) presumeStarted(now time.Time) {
	trip := c.view.Trip()
	for len(c.sentJobs) > 0 && (c.sentJobs[0].job.served || now.Sub(c.sentJobs[0].at) >= trip) {
		j := c.sentJobs[0].job
		c.sentJobs[0] = sentJob{}
		c.sentJobs = c.sentJobs[1:]
		if !j.served && j.dropSettledRides() && now.Sub(j.rides[0].sentAt()) >= trip {
			j.presumed, j.served = true, true
			for _, u := range j.waitLists {
				u.servedJobs++
				u.waitingJobs--
			}
		}
	}
	if len(c.sentJobs) == 0 {
		c.sentJobs = nil
	}
}

// dropSettledRides forgets the oldest rides with a known fate. The result says whether other rides are left.
func (j *job) dropSettledRides() bool {
	for len(j.rides) > 0 && j.rides[0].openRides == 0 {
		j.rides = j.rides[1:]
	}
	return len(j.rides) > 0
}

// revokePresumed lets a job presumed to be served wait again, if its last ride has come back. The answer took longer
// than a usual round trip, or the worker is gone.
func (c *jobs) revokePresumed(j *job) {
	if !j.presumed || j.dropSettledRides() {
		return
	}
	j.presumed, j.served = false, false
	for i, u := range j.waitLists {
		if current := c.unserved[u.key]; current != nil {
			u = current
		} else { // the list was dropped while no job waited
			c.unserved[u.key] = u
		}
		j.waitLists[i] = u
		u.waitingJobs++
		u.servedJobs = max(u.servedJobs-1, 0)
		if !slices.Contains(u.jobs, j) {
			u.insertJob(j)
		}
	}
}

// insertJob lists j behind the jobs that have waited longer.
func (u *unserved) insertJob(j *job) {
	at, _ := slices.BinarySearchFunc(u.jobs, j, func(a, b *job) int {
		if a.unservedSince.After(b.unservedSince) {
			return 1
		}
		return -1 // also in front of jobs that have waited as long
	})
	u.jobs = slices.Insert(u.jobs, at, j)
}

// addUnserved puts the job of g among the unserved jobs, because tasks of g begin to wait for room. Before, the tasks
// may have waited for claims, for earlier stages or for the client, which says nothing about room. Spare jobs are left
// out, because they are meant to wait. If MaxWait is negative, all jobs are left out, because the lists are never read.
func (c *jobs) addUnserved(g *group, now time.Time) {
	j := g.job
	if j.served || c.cfg.MaxWait < 0 || j.Class == Spare {
		return
	}
	if g.path == estimate.Estimation { // a long wait for estimation says nothing about sampled tasks
		return
	}
	key := waitKey{g.Set, j.tenant}
	if slices.ContainsFunc(j.waitLists, func(u *unserved) bool { return u.key == key }) { // for another task of j
		return
	}
	u := c.unserved[key]
	if u == nil {
		u = &unserved{key: key, countedSince: now}
		c.unserved[key] = u
	}
	if len(u.jobs) > 2*u.waitingJobs+64 { // else served jobs pile up behind a first job that waits for long
		u.jobs = slices.DeleteFunc(u.jobs, func(j *job) bool { return j.served })
	}
	if len(j.waitLists) == 0 {
		j.unservedSince = now
	}
	u.insertJob(j)
	u.waitingJobs++
	j.waitLists = append(j.waitLists, u)
}

// removeUnserved takes j from the unserved jobs, because no task of j waits for room any more. A later task may put j
// back.
func (j *job) removeUnserved() {
	if j.served {
		return
	}
	for _, u := range j.waitLists {
		u.waitingJobs--
		u.jobs = slices.DeleteFunc(u.jobs, func(k *job) bool { return k == j })
	}
	j.waitLists, j.rides = nil, nil
}

// noteServed notes the start of the first task of j.
func (j *job) noteServed() {
	if !j.presumed {
		for _, u := range j.waitLists {
			u.servedJobs++
		}
	}
	j.leaveUnserved()
}

// leaveUnserved takes j from the unserved jobs, served or not.
func (j *job) leaveUnserved() {
	if !j.presumed {
		for _, u := range j.waitLists {
			u.waitingJobs--
		}
	}
	j.served, j.presumed, j.waitLists, j.rides = true, false, nil, nil
}

// oldestWaiting returns the oldest waiting job with at least the given priority, or nil. Only 64 jobs are
// examined, so a long row of less important jobs may hide an older job.
func (u *unserved) oldestWaiting(priority int32) *job {
	for _, j := range u.jobs[:min(len(u.jobs), 64)] {
		if !j.served && j.Priority >= priority {
			return j
		}
	}
	return nil
}

// forgetServed drops the oldest jobs of a key, as far as served, and returns the rest, or nil.
func (c *jobs) forgetServed(key waitKey) *unserved {
	u := c.unserved[key]
	if u == nil {
		return nil
	}
	for len(u.jobs) > 0 && u.jobs[0].served {
		u.jobs[0] = nil
		u.jobs = u.jobs[1:]
	}
	if len(u.jobs) == 0 {
		delete(c.unserved, key)
		return nil
	}
	return u
}

// maxWaitRuns is the wait allowed to a job, in multiples of the longest recent run of its tasks. If MaxWait is longer,
// MaxWait counts. A second is long for tasks of milliseconds, and short for tasks of a second. The number was chosen.
const maxWaitRuns = 20

// refuseOverload refuses j if its tenant's oldest job waits too long for the same workers, and more jobs wait
// than start in half the limit. Without the second condition a single unlucky job would shut out the tenant until
// the fleet has nothing to do.
func (c *jobs) refuseOverload(j *job, now time.Time) *RefusedError {
	maxWait := c.cfg.MaxWait
	if maxWait < 0 || j.Class == Spare { // spare jobs are meant to wait
		return nil
	}
	c.presumeStarted(now)
	for _, g := range j.groups {
		if g.path == estimate.Estimation {
			continue
		}
		u := c.forgetServed(waitKey{g.Set, c.tenants[j.Tenant]})
		if u == nil {
			continue
		}
		span := max(maxWait, maxWaitRuns*g.Runs.Longest())
		limit := span
		if j.Deadline > 0 {
			limit = min(limit, j.Deadline)
		}
		oldest := u.oldestWaiting(j.Priority)
		if oldest == nil {
			continue
		}
		if waited := now.Sub(oldest.unservedSince); waited > limit && u.measureOverload(limit, span, now) {
			return &RefusedError{
				Reason: Overloaded,
				Message: fmt.Sprintf(
					"a job of the tenant has waited %v for its first task to start, the limit is %v; come back later",
					waited.Round(time.Millisecond), limit),
				RetryAfter: u.assignRetryTime(
					max(waited-limit/2, 10*time.Millisecond), waited, c.quotas.Frontends(), now),
			}
		}
	}
	return nil
}

// measureOverload reports whether more jobs wait than are served in half of limit, at the last measured rate. If the
// present count of served jobs has lasted for span, it first becomes the rate, and a new count begins.
func (u *unserved) measureOverload(limit, span time.Duration, now time.Time) bool {
	if took := now.Sub(u.countedSince); took >= span {
		u.rate = float64(u.servedJobs) / took.Seconds()
		u.countedSince, u.servedJobs = now, 0
	}
	return float64(u.waitingJobs) > u.rate*limit.Seconds()/2
}

// maxRetryAfter bounds the extra wait of a refused client behind clients refused earlier. The time was chosen: the
// measured rate of service says little about later times.
const maxRetryAfter = 10 * time.Second

// assignRetryTime returns when a refused client may come again: not before soonest, and after clients refused earlier,
// as fast as jobs are served. If all clients came at once, they would be refused again, and a refusal costs the client
// and the frontend as much as an accepted job. If the rate is not known, all waiting jobs are assumed to be served
// within the time that the oldest has waited. Clients also ask the other frontends, and come back to the frontend with
// the earliest time. So the spacing is divided by the number of frontends.
func (u *unserved) assignRetryTime(soonest, waited time.Duration, frontends int, now time.Time) time.Duration {
	wait := max(u.comeAgainAt.Sub(now), soonest)
	if wait > soonest+maxRetryAfter { // the row of clients is full, and a new row begins
		wait = soonest
	}
	spacing := waited / time.Duration(u.waitingJobs)
	if u.rate > 0 {
		spacing = time.Duration(float64(time.Second) / u.rate)
	}
	u.comeAgainAt = now.Add(wait + min(spacing, maxRetryAfter)/time.Duration(frontends))
	return wait
}
