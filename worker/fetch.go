package worker

import (
	"time"

	"github.com/phoebe-sched/phoebe/probe"
)

// files is how it stands with the files that a task needs.
type files struct {
	there bool
	by    time.Time // expected
	took  time.Duration
	bytes uint64
}

const (
	firstFetch  = 100 << 20 // bytes per second
	unknownFile = 16 << 20  // bytes of a file of unknown size
)

// fetch asks for the files of a task that was just queued.
func (c *Core) fetch(p *place, now time.Time, acts []Action) []Action {
	bytes := 0.0
	for i := range p.launch.Files {
		size := p.launch.Files[i].Bytes
		if size == 0 {
			size = unknownFile
		}
		bytes += float64(size)
	}
	p.files = &files{by: now.Add(time.Duration(min(bytes/c.learned.fetch*float64(time.Second), float64(horizon))))}
	c.fetches[p.launch.Attempt] = p
	return append(acts, Fetch{Attempt: p.launch.Attempt, Files: p.launch.Files})
}

// fetching reports whether the place's task cannot start because its files are not there.
func (p *place) fetching() bool { return p.files != nil && !p.files.there }

// fetchedIn is in how long the files of the place's task are expected, at least 1 ns; 0 where it waits for none, or for
// longer than expected.
func (p *place) fetchedIn(now time.Time) time.Duration {
	if !p.fetching() || now.After(p.files.by) {
		return 0
	}
	return max(p.files.by.Sub(now), 1)
}

// fetched lets a task that waited for its files only for its turn from now on, or ends it if they will not come.
func (c *Core) fetched(ev *Fetched, now time.Time, acts []Action) []Action {
	p := c.fetches[ev.Attempt]
	if p == nil || !p.fetching() {
		return acts
	}
	if seconds := ev.Took.Seconds(); ev.Bytes > 0 && seconds > 0 {
		c.learned.fetch += (float64(ev.Bytes)/seconds - c.learned.fetch) / 8
	}
	p.files.there, p.files.took, p.files.bytes = true, ev.Took, ev.Bytes
	c.changes++
	if ev.Err == "" {
		return acts
	}
	c.dropPlace(p)
	if c.attempts[ev.Attempt] != nil {
		return acts // its frontend uses an id twice; the first one goes
	}
	a := c.attempt(p, now)
	c.enter(a)
	return c.conclude(a, &Exited{Attempt: ev.Attempt, Status: probe.NoInput, Error: ev.Err}, now, acts)
}

// release lets go of the files of an attempt.
func (c *Core) release(id probe.AttemptID) { c.released = append(c.released, id) }
