package frontend

import (
	"fmt"
	"slices"
	"time"

	"github.com/phoebe-sched/phoebe/frontend/estimate"
)

// noteRide remembers that tasks of an unserved job ride with r. A worker sends no message when a ride starts at once: only
// a ride that must wait comes back. So presumeStarted counts the job as served if no ride came back within a round trip.
func (c *jobs) noteRide(r *reservation, now time.Time) {
	j := r.group.job
	if len(j.waitLists) == 0 {
		return
	}
	c.presumeStarted(now)
	j.rides = append(j.rides, sentRide{r, now})
	if !j.presumed {
		c.sent = append(c.sent, sentJob{j, now})
	}
}

// presumeStarted counts jobs as served if a worker has had a ride of theirs for a round trip and has not sent it back. All
// that asks how long jobs wait calls presumeStarted first.
func (c *jobs) presumeStarted(now time.Time) {
	trip := c.view.Trip()
	for len(c.sent) > 0 && (c.sent[0].job.served || now.Sub(c.sent[0].at) >= trip) {
		j := c.sent[0].job
		c.sent[0] = sentJob{}
		c.sent = c.sent[1:]
		if !j.served && j.dropSettledRides() && now.Sub(j.rides[0].at) >= trip {
			j.presumed, j.served = true, true
			for _, u := range j.waitLists {
				u.servedJobs++
				u.waitingJobs--
			}
		}
	}
	if len(c.sent) == 0 {
		c.sent = nil
	}
}

// dropSettledRides forgets the oldest rides of which the fate is known. It reports whether the job has others.
func (j *job) dropSettledRides() bool {
	for len(j.rides) > 0 && j.rides[0].res.openRides == 0 {
		j.rides = j.rides[1:]
	}
	return len(j.rides) > 0
}

// checkPresumed lets a job wait for its first task again if it was presumed to be served and its last ride came back: the
// answer took longer than a round trip usually does, or the worker is gone.
func (c *jobs) checkPresumed(j *job) {
	if !j.presumed || j.dropSettledRides() {
		return
	}
	j.presumed, j.served = false, false
	for i, u := range j.waitLists {
		if current := c.unserved[u.of]; current != nil {
			u = current
		} else { // forgotten while no job waited
			c.unserved[u.of] = u
		}
		j.waitLists[i] = u
		u.waitingJobs++
		u.servedJobs = max(u.servedJobs-1, 0)
		if !slices.Contains(u.jobs, j) {
			at, _ := slices.BinarySearchFunc(u.jobs, j, func(a, b *job) int { return a.submitted.Compare(b.submitted) })
			u.jobs = slices.Insert(u.jobs, at, j)
		}
	}
}

// addUnserved puts a job that was admitted among those that wait. If nobody looks, nobody takes out those that were served.
func (c *jobs) addUnserved(j *job, now time.Time) {
	if c.cfg.MaxWait < 0 || j.Class == Spare {
		return
	}
	for _, g := range j.groups {
		if g.path == estimate.Estimation { // a long wait for it says nothing of how long others wait
			continue
		}
		key := waitKey{g.Set, j.tenant}
		u := c.unserved[key]
		if u == nil {
			u = &unserved{of: key, countedSince: now}
			c.unserved[key] = u
		}
		if slices.Contains(j.waitLists, u) { // by another group
			continue
		}
		if len(u.jobs) > 2*u.waitingJobs+64 { // the first of them may wait for long
			u.jobs = slices.DeleteFunc(u.jobs, func(j *job) bool { return j.served })
		}
		u.jobs = append(u.jobs, j)
		u.waitingJobs++
		j.waitLists = append(j.waitLists, u)
	}
}

// noteServed notes that a job waits no more for its first task.
func (j *job) noteServed() {
	if !j.presumed {
		for _, u := range j.waitLists {
			u.servedJobs++
		}
	}
	j.leaveUnserved()
}

// leaveUnserved notes that a job does not wait, served or not.
func (j *job) leaveUnserved() {
	if !j.presumed {
		for _, u := range j.waitLists {
			u.waitingJobs--
		}
	}
	j.served, j.presumed, j.waitLists, j.rides = true, false, nil, nil
}

// oldestWaiting is the oldest of the jobs that waits and is not of lower priority than given. It looks at some only: a long row of less important
// ones may hide it.
func (u *unserved) oldestWaiting(priority int32) *job {
	for _, j := range u.jobs[:min(len(u.jobs), 64)] {
		if !j.served && j.Priority >= priority {
			return j
		}
	}
	return nil
}

// forgetServed lets go of the oldest jobs that no longer wait. It returns the others, or nil.
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

// maxWaitRuns is how many times as long as its tasks lately ran a job may have to wait, if that is more than
// MaxWait: a second is much for tasks of milliseconds, and little for those of a second.
const maxWaitRuns = 20

// refuseOverload says whether another job of the tenant has waited for too long for what a job would wait for, too, and is not the last of
// a few: so many as are served in half of that time. Else nothing would be taken in, as long as one of them has bad luck, until the
// fleet has nothing to do.
func (c *jobs) refuseOverload(j *job, now time.Time) *RefusedError {
	limit := c.cfg.MaxWait
	if limit < 0 || j.Class == Spare { // which is to wait
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
		span := max(limit, maxWaitRuns*g.Runs.Longest())
		limit := span
		if j.Deadline > 0 {
			limit = min(limit, j.Deadline)
		}
		oldest := u.oldestWaiting(j.Priority)
		if oldest == nil {
			continue
		}
		if waited := now.Sub(oldest.submitted); waited > limit && u.moreThanServed(limit, span, now) {
			return &RefusedError{
				Reason:     Overloaded,
				Message:    fmt.Sprintf("a job of the tenant, submitted %v ago, still waits for its first task to start, the limit is %v; come back later", waited.Round(time.Millisecond), limit),
				RetryAfter: u.retryAfter(max(waited-limit/2, 10*time.Millisecond), waited, c.quotas.Frontends(), now),
			}
		}
	}
	return nil
}

// moreThanServed reports whether more wait than are served in half of the time that they may wait, by what was served in a span.
func (u *unserved) moreThanServed(limit, span time.Duration, now time.Time) bool {
	if took := now.Sub(u.countedSince); took >= span {
		u.rate = float64(u.servedJobs) / took.Seconds()
		u.countedSince, u.servedJobs = now, 0
	}
	return float64(u.waitingJobs) > u.rate*limit.Seconds()/2
}

// maxRetryAfter is for how much longer a job is sent away at most because of others: by then what is known now does not hold any more.
const maxRetryAfter = 10 * time.Second

// retryAfter says when a job that is refused may come again: not before soonest, and after those that were refused before it, as fast as
// jobs are served. All that come back at once would be as many refusals once more, each of which costs its client and this frontend
// as much as to take a job in. Where nothing is known, those that wait are taken to be served in the time that the oldest of them has waited. Clients
// ask the other frontends, too, and come back to the one that says the earliest time.
func (u *unserved) retryAfter(soonest, waited time.Duration, frontends int, now time.Time) time.Duration {
	wait := max(u.comeAgainAt.Sub(now), soonest)
	if wait > soonest+maxRetryAfter { // a row of them is complete, and another one begins
		wait = soonest
	}
	spacing := waited / time.Duration(u.waitingJobs)
	if u.rate > 0 {
		spacing = time.Duration(float64(time.Second) / u.rate)
	}
	u.comeAgainAt = now.Add(wait + min(spacing, maxRetryAfter)/time.Duration(frontends))
	return wait
}
