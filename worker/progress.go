package worker

import (
	"slices"
	"time"

	"github.com/phoebe-sched/phoebe/probe"
)

// A task that runs may say how far it has come. By that it is known how much longer it takes, which its frontend is told, and forecasts
// go by. What long tasks take, compared with what was expected of them, is the worker's pace: if all are slow, it is the machine.

// progress is how far an attempt says that it has come.
type progress struct {
	done  float64       // the share of its work; 0: it says nothing
	at    time.Duration // when it had, since it started
	whole time.Duration // that all of its work takes, as fast as it went lately
}

// tellEach is how often what an attempt says is looked at: the shorter the time, the less its pace in it says.
const tellEach = time.Second

// told takes what an attempt has said a time after its start.
func (p *progress) told(done float64, at time.Duration) {
	if !(done > p.done) || at <= p.at || p.done > 0 && at-p.at < tellEach {
		return
	}
	whole := time.Duration(min(float64(at-p.at)/(done-p.done), float64(horizon)))
	if p.done > 0 {
		whole = (p.whole + whole) / 2
	}
	*p = progress{min(done, 1), at, whole}
}

// left is how much longer an attempt takes that has run for so long. While it says nothing, that is at least as long as it has said nothing.
func (p *progress) left(ran time.Duration) time.Duration {
	silent := max(ran-p.at, 0)
	return max(time.Duration(float64(p.whole)*(1-p.done))-silent, silent)
}

// left is how much longer a running attempt is expected to take.
func (c *Core) left(a *attempt, now time.Time) time.Duration {
	ran := now.Sub(a.startedAt)
	if a.progress.done > 0 {
		return a.progress.left(ran)
	}
	return remaining(expectedCost(a.expected, c.learned.run, 1), ran)
}

// progressed takes what running attempts have said.
func (c *Core) progressed(ev *Progressed, now time.Time) {
	for _, p := range ev.Attempts {
		if a := c.attempts[p.Attempt]; a != nil && a.state == running {
			a.progress.told(p.Done, now.Sub(a.startedAt)-p.Ago)
			c.changes++
		}
	}
}

// progress is how far those of a link's attempts have come that say so.
func (c *Core) progress(l *link, now time.Time) (list []probe.Progress) {
	for _, a := range c.runs {
		if p := &a.progress; p.done > 0 && a.owner == l {
			list = append(list, probe.Progress{Attempt: a.id, Done: uint32(p.done * 1e6), Left: p.left(now.Sub(a.startedAt))})
		}
	}
	return list
}

const (
	// enoughPaces is how many long tasks tell the pace of the worker, and leastPaces of how few it is not known.
	enoughPaces = 5
	leastPaces  = 3
	// slowFrom is from which pace on the machine is slow: of a few tasks that differ, the median is within it by chance.
	slowFrom = 2
)

// paces are how many times as long as expected the last long tasks took.
type paces struct {
	last [enoughPaces]float32
	n    int // ever
}

func (p *paces) ended(run, expected time.Duration) {
	p.last[p.n%enoughPaces] = float32(run) / float32(expected)
	p.n++
}

// pace is how many times as long as expected long tasks take here now: the median of those that run and say how far they are, and, if these
// are few, of the last that have ended. It is 1 unless the machine is slow; 0: it is not known.
func (c *Core) pace(now time.Time) float64 {
	var all []float32
	for _, a := range c.runs {
		if p := &a.progress; a.long && p.done > 0 && a.expected > 0 {
			all = append(all, float32(max(p.whole, now.Sub(a.startedAt)-p.at))/float32(a.expected))
		}
	}
	for i := c.paces.n - 1; i >= max(c.paces.n-enoughPaces, 0) && len(all) < enoughPaces; i-- {
		all = append(all, c.paces.last[i%enoughPaces])
	}
	if len(all) < leastPaces {
		return 0
	}
	slices.Sort(all)
	pace := float64(all[(len(all)-1)/2]+all[len(all)/2]) / 2
	if pace < slowFrom {
		return 1
	}
	return pace
}
