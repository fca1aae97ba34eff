package frontend

import (
	"cmp"
	"slices"
	"time"

	"github.com/phoebe-sched/phoebe/frontend/estimate"
	"github.com/phoebe-sched/phoebe/probe"
)

// samplesOf returns the remembered samples of a job, oldest first. If group is not negative, only the samples of the
// group with that index are returned.
func (c *Core) samplesOf(job probe.JobID, group int) []Sample {
	var found []Sample
	ds := &c.log
	for i := range ds.samples {
		s := &ds.samples[(ds.samplesEver+uint64(i))%uint64(len(ds.samples))]
		if s.job != job || group >= 0 && group != s.group {
			continue
		}
		explained := Sample{
			At: s.at, Tasks: s.tasks, Tactic: s.tactic, Chosen: make([]Sampled, len(s.chosen)), More: s.more,
		}
		for k := range s.chosen {
			d := &s.chosen[k]
			name := "a worker that has gone"
			if m := c.view.Worker(d.worker).Welcome(); uint32(m.Incarnation) == d.incarnation {
				name = m.Worker
			}
			explained.Chosen[k] = Sampled{
				Worker: name, Why: d.why, Rides: int(d.rides), Places: int(d.places), Bound: d.bound, Fates: d.fates,
			}
		}
		found = append(found, explained)
	}
	return found
}

// Explain returns the decisions on a task, or on all tasks of a job if task is negative, in the order of deciding.
//
// For tasks placed by estimation or sampled near inputs, the result has all placings remembered, also for a time
// after the end of the job. Any other task gets a single Decision: why the task was sampled, and where the attempt
// is or what the task waits for. If the job has ended, or all tasks are asked for, tasks that are alike share a
// Decision. At now, a task that rode along and has not come back counts as running.
func (c *Core) Explain(job probe.JobID, task int, now time.Time) []Decision {
	ds := &c.log
	matches := func(index probe.TaskIndex) bool { return task < 0 || index == probe.TaskIndex(task) }
	found, near := ds.long.ofJob(job, matches), ds.near.ofJob(job, matches)
	shown := map[int]bool{}
	for i := range near {
		d := &near[i]
		d.Near = c.sitesWithWorkers(d.Near)
		if task >= 0 || c.byID[job] != nil && !shown[d.group] {
			d.Samples, shown[d.group] = c.samplesOf(job, d.group), true
		}
	}
	found = append(found, near...)
	found = append(found, ds.copies.ofJob(job, matches)...)
	if j := c.byID[job]; j != nil {
		found = append(found, c.explainUndecided(j, task)...)
		for i := range found {
			d, t := &found[i], c.findTask(job, found[i].Task)
			if t != nil && t.attempt != nil && d.Attempt == t.attempt.id {
				d.Copies = c.explainCopy(t)
				if u := t.attempt.use(); u.Ran > 0 {
					d.Usage = probe.Usage{CPU: u.CPU, Memory: u.Memory} // so far
				}
				if d.Path == estimate.Sampling && t.copyDecision == 0 {
					d.Outcome = c.explainState(t, now)
				}
			}
			if d.Path == estimate.Sampling && d.Budget == "" {
				d.Budget = c.explainWeights(j.tenant)
			}
		}
		return found
	}
	if len(found) > 0 && task >= 0 {
		return found
	}
	for i := range ds.sampledJobs {
		if s := &ds.sampledJobs[i]; s.job == job && (task < 0 || task >= int(s.first) && task <= int(s.last)) {
			for _, d := range s.explain(task) {
				if !d.Unbegun {
					d.Samples = c.samplesOf(job, -1)
				}
				found = append(found, d)
			}
			if task >= 0 {
				return found
			}
		}
	}
	return found
}

// explainState returns where a task is, for people. No message tells when a ride starts: see stateOf.
func (c *Core) explainState(t *task, now time.Time) string {
	if t.state == riding && c.stateOf(t.attempt, now) == AttemptRuns {
		return stateText[bound]
	}
	return stateText[t.state]
}

// maxNamedWorkers bounds the workers named for a site.
const maxNamedWorkers = 8

// sitesWithWorkers returns a copy of sites, with names of workers that are up at each site now.
func (c *Core) sitesWithWorkers(sites []Site) []Site {
	sites = slices.Clone(sites)
	for i := range sites {
		s := &sites[i]
		for _, key := range c.view.Fleet().WorkersAt(s.Tier, s.Name) {
			if w := c.workers[key]; w.Up() && len(s.Workers) < maxNamedWorkers {
				s.Workers = append(s.Workers, w.Welcome().Worker)
			}
		}
		slices.Sort(s.Workers)
	}
	return sites
}

// FileHolder is a worker with a file in its cache.
type FileHolder struct {
	Worker, Rack string
	Cache        string // host:port where the file can be read
}

// FileHolders returns the workers that are up and have reported a file in their caches: sorted by name, at most
// MaxCopies.
func (c *Core) FileHolders(id estimate.FileID) (holders []FileHolder) {
	for _, key := range c.view.Fleet().Holders(id) {
		if w := c.workers[Worker(key)]; w.Up() {
			m := w.Welcome()
			holders = append(holders, FileHolder{m.Worker, m.Rack, m.Cache})
		}
	}
	slices.SortFunc(holders, func(a, b FileHolder) int { return cmp.Compare(a.Worker, b.Worker) })
	return holders[:min(len(holders), MaxCopies)]
}

// Caches returns the addresses of caches that should have a file, at most MaxCopies. The cache of the worker called
// name comes first.
func (c *Core) Caches(name string, id estimate.FileID) (addresses []string) {
	fleet := c.view.Fleet()
	for _, key := range slices.Concat(fleet.WorkersNamed(name), fleet.Holders(id)) {
		w := c.workers[key]
		if cache := w.Welcome().Cache; w.Linked() && cache != "" && !slices.Contains(addresses, cache) {
			addresses = append(addresses, cache)
		}
	}
	return addresses[:min(len(addresses), MaxCopies)]
}

// explainUndecided returns a Decision on a task without a remembered decision. If task is negative, the result has,
// for each group in order, a Decision on the first task without one, and Alike counts the rest.
func (c *Core) explainUndecided(j *job, task int) []Decision {
	byGroup := make([]*Decision, len(j.groups))
	for _, t := range j.tasks {
		g := t.group
		if task >= 0 && t.spec.Index != probe.TaskIndex(task) || c.lastDecision(t) != nil {
			continue
		}
		if d := byGroup[g.index]; d != nil {
			d.Alike++
			continue
		}
		d := Decision{
			Job: j.ID, Task: t.spec.Index, Path: g.path, Why: g.pathReason,
			Class: g.explainClass(), Demand: g.explainDemand(),
			Choice: estimate.Decision{Chosen: -1},
		}
		if task >= 0 || t.state == blocked || t.state == held {
			d.Outcome = stateText[t.state]
		}
		if (t.state == waiting || t.state == matching) && g.isStranded {
			d.Outcome = "waits for a worker: none that may run it is up"
		}
		switch {
		case t.state == held:
			d.Budget = c.whyHeld(t)
		case t.heldFor > 0:
			d.Budget = explainHeld(j.tenant.name, t.heldFor)
		}
		if t.state == blocked && j.paused {
			d.Outcome = "waits until its client has fetched results"
		}
		if a := t.attempt; a != nil && task >= 0 {
			d.Attempt, d.Worker = a.id, a.w.Welcome().Worker
		}
		if t.near != nil {
			d.Near = c.sitesWithWorkers(t.near.explainSites())
		}
		if g.path == estimate.Sampling {
			d.Samples = c.samplesOf(j.ID, g.index)
		}
		byGroup[g.index] = &d
	}
	var found []Decision
	for _, d := range byGroup {
		if d != nil {
			found = append(found, *d)
		}
	}
	return found
}
