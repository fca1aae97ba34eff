package worker

import (
	"time"

	"github.com/phoebe-sched/phoebe/probe"
)

// fileFetch is the state of the files that a task needs.
type fileFetch struct {
	arrived    bool
	expectedAt time.Time // an estimate
	took       time.Duration
	bytes      uint64
}

// Both values were chosen. The first fetches correct the rate: about that of a network of a gigabit per second.
const (
	initialFetchRate = 100 << 20 // initial averages.fetchRate, bytes per second
	assumedFileSize  = 16 << 20  // assumed size of a file without a given size, bytes
)

// fetchFiles orders the files of a task just queued, and estimates the arrival.
func (c *Core) fetchFiles(p *place, now time.Time, acts []Action) []Action {
	bytes := 0.0
	for i := range p.launch.Files {
		size := p.launch.Files[i].Bytes
		if size == 0 {
			size = assumedFileSize
		}
		bytes += float64(size)
	}
	p.files = &fileFetch{expectedAt: now.Add(
		time.Duration(min(bytes/c.averages.fetchRate*float64(time.Second), float64(horizon))),
	)}
	c.fetches[p.launch.Attempt] = p
	return append(acts, Fetch{Attempt: p.launch.Attempt, Tenant: p.tenant, Files: p.launch.Files})
}

// waitsForFiles reports whether the place's task cannot start because its files have not arrived.
func (p *place) waitsForFiles() bool { return p.files != nil && !p.files.arrived }

// filesExpectedIn returns the time until the files of the place's task should arrive, at least 1 ns. It returns 0
// if the task waits for no files, or if the files are later than expected.
func (p *place) filesExpectedIn(now time.Time) time.Duration {
	if !p.waitsForFiles() || now.After(p.files.expectedAt) {
		return 0
	}
	return max(p.files.expectedAt.Sub(now), 1)
}

// finishFetch ends the wait for a task's files. The task now waits for its turn only. If the files will never
// come, the task ends with NoInput.
func (c *Core) finishFetch(ev *Fetched, now time.Time, acts []Action) []Action {
	p := c.fetches[ev.Attempt]
	if p == nil || !p.waitsForFiles() {
		return acts
	}
	if seconds := ev.Took.Seconds(); ev.Bytes > 0 && seconds > 0 {
		c.averages.fetchRate += (float64(ev.Bytes)/seconds - c.averages.fetchRate) / 8
	}
	p.files.arrived, p.files.took, p.files.bytes = true, ev.Took, ev.Bytes
	c.changes++
	if ev.Err == "" {
		return acts
	}
	c.dropPlace(p)
	if c.attempts[ev.Attempt] != nil {
		return acts // the frontend used an id twice; the first attempt counts
	}
	a := c.newEarlyAttempt(p, now)
	c.addAttempt(a)
	end := &Exited{Attempt: ev.Attempt, Status: probe.NoInput, Error: ev.Err}
	if ev.DiskFailed {
		end.DiskFailed, end.Retry = true, probe.Elsewhere
	}
	return c.concludeAttempt(a, end, now, acts)
}

// releaseFiles orders the release of an attempt's files, at the end of the step.
func (c *Core) releaseFiles(id probe.AttemptID) { c.filesToRelease = append(c.filesToRelease, id) }
