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
	doneShare float64       // the share of its work; 0: it says nothing
	saidAt    time.Duration // when it had, since it started
	wholeTime time.Duration // that all of its work takes, as fast as it went lately
}

// reportEvery is how often what an attempt says is looked at: the shorter the time, the less its pace in it says.
const reportEvery = time.Second

// noteReport takes what an attempt has said a time after its start.
func (p *progress) noteReport(done float64, ran time.Duration) {
	if !(done > p.doneShare) || ran <= p.saidAt || p.doneShare > 0 && ran-p.saidAt < reportEvery {
		return
	}
	whole := time.Duration(min(float64(ran-p.saidAt)/(done-p.doneShare), float64(horizon)))
	if p.doneShare > 0 {
		whole = (p.wholeTime + whole) / 2
	}
	*p = progress{min(done, 1), ran, whole}
}

// timeLeft is how much longer an attempt takes that has run for so long. While it says nothing, that is at least as long as it has said nothing.
func (p *progress) timeLeft(ran time.Duration) time.Duration {
	silent := max(ran-p.saidAt, 0)
	return max(time.Duration(float64(p.wholeTime)*(1-p.doneShare))-silent, silent)
}

// attemptTimeLeft is how much longer a running attempt is expected to take.
func (c *Core) attemptTimeLeft(a *attempt, now time.Time) time.Duration {
	ran := now.Sub(a.startedAt)
	if a.progress.doneShare > 0 {
		return a.progress.timeLeft(ran)
	}
	return remainingTime(expectedCost(a.expectedRun, c.averages.runTime, 1), ran)
}

// noteProgress takes what running attempts have said.
func (c *Core) noteProgress(ev *Progressed, now time.Time) {
	for _, p := range ev.Attempts {
		if a := c.attempts[p.Attempt]; a != nil && a.state == running {
			a.progress.noteReport(p.Done, now.Sub(a.startedAt)-p.Ago)
			c.changes++
		}
	}
}

// linkProgress is how far those of a link's attempts have come that say so.
func (c *Core) linkProgress(l *link, now time.Time) (list []probe.Progress) {
	for _, a := range c.runs {
		if p := &a.progress; p.doneShare > 0 && a.owner == l {
			list = append(list, probe.Progress{Attempt: a.id, Done: uint32(p.doneShare * 1e6), Left: p.timeLeft(now.Sub(a.startedAt))})
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
	ratios [enoughPaces]float32
	count  int // ever
}

func (p *paces) noteEnd(run, expected time.Duration) {
	p.ratios[p.count%enoughPaces] = float32(run) / float32(expected)
	p.count++
}

// currentPace is how many times as long as expected long tasks take here now: the median of those that run and say how far they are, and, if these
// are few, of the last that have ended. It is 1 unless the machine is slow; 0: it is not known.
func (c *Core) currentPace(now time.Time) float64 {
	var all []float32
	for _, a := range c.runs {
		if p := &a.progress; a.long && p.doneShare > 0 && a.expectedRun > 0 {
			all = append(all, float32(max(p.wholeTime, now.Sub(a.startedAt)-p.saidAt))/float32(a.expectedRun))
		}
	}
	for i := c.paces.count - 1; i >= max(c.paces.count-enoughPaces, 0) && len(all) < enoughPaces; i-- {
		all = append(all, c.paces.ratios[i%enoughPaces])
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
