package worker

import (
	"slices"
	"time"

	"github.com/phoebe-sched/phoebe/probe"
)

// A running task may report its progress. The worker then computes the time left, for forecasts and for the
// frontend. The worker's pace is the run time of long tasks over their expected run time: if all are slow, the
// machine is slow.

// progress is the last report of an attempt.
type progress struct {
	doneShare  float64       // fraction of the work; 0: no report yet
	reportedAt time.Duration // time of the report, since the start
	wholeTime  time.Duration // time for all of the work, at the recent rate
}

// reportEvery is the least time between two reports that count. Over a shorter time the rate says less. The time was
// chosen, and not measured.
const reportEvery = time.Second

// noteReport takes the report of an attempt after this run time.
func (p *progress) noteReport(done float64, ran time.Duration) {
	if !(done > p.doneShare) || ran <= p.reportedAt || p.doneShare > 0 && ran-p.reportedAt < reportEvery {
		return
	}
	whole := time.Duration(min(float64(ran-p.reportedAt)/(done-p.doneShare), float64(horizon)))
	if p.doneShare > 0 {
		whole = (p.wholeTime + whole) / 2
	}
	*p = progress{min(done, 1), ran, whole}
}

// timeLeft returns the time left of an attempt after ran. The result is at least the time since the last report:
// without a report, the attempt is expected to go on for as long again (compare remainingTime).
func (p *progress) timeLeft(ran time.Duration) time.Duration {
	silent := max(ran-p.reportedAt, 0)
	return max(time.Duration(float64(p.wholeTime)*(1-p.doneShare))-silent, silent)
}

// attemptTimeLeft returns the expected time left of a running attempt.
func (c *Core) attemptTimeLeft(a *attempt, now time.Time) time.Duration {
	ran := now.Sub(a.startedAt)
	if a.progress.doneShare > 0 {
		return a.progress.timeLeft(ran)
	}
	return remainingTime(expectedCost(a.expectedRun, c.averages.runTime, 1), ran)
}

// noteProgress takes the reports of running attempts.
func (c *Core) noteProgress(ev *Progressed, now time.Time) {
	for _, p := range ev.Attempts {
		if a := c.attempts[p.Attempt]; a != nil && a.state == running {
			a.progress.noteReport(p.Done, now.Sub(a.startedAt)-p.Ago)
			c.changes++
		}
	}
	for _, u := range ev.Uses {
		if a := c.attempts[u.Attempt]; a != nil && a.state == running {
			a.use = u
		}
	}
}

// linkProgress returns the progress of the reporting attempts of l.
func (c *Core) linkProgress(l *link, now time.Time) (list []probe.Progress) {
	for _, a := range c.runs {
		if p := &a.progress; p.doneShare > 0 && a.owner == l {
			list = append(list, probe.Progress{
				Attempt: a.id, Done: uint32(p.doneShare * 1e6), Left: p.timeLeft(now.Sub(a.startedAt)),
			})
		}
	}
	return list
}

// linkUses returns the consumption of the running processes of l, of at most probe.MaxPlaces.
func (c *Core) linkUses(l *link) (list []probe.Use) {
	for _, a := range c.runs {
		if a.use.Ran > 0 && a.owner == l && len(list) < probe.MaxPlaces {
			list = append(list, a.use)
		}
	}
	return list
}

const (
	// enoughPaces is the number of long tasks that determine the worker's pace. With fewer than leastPaces the
	// pace is unknown.
	enoughPaces = 5
	leastPaces  = 3
	// slowFrom is the least pace of a slow machine. A lower median counts as 1: with only a few tasks, the median may
	// be above 1 by chance.
	slowFrom = 2
)

// paces holds the run times of the last long tasks over their expected run times.
type paces struct {
	ratios [enoughPaces]float32
	count  int // of all long tasks ever
}

// noteEnd takes the run time of a long task that has ended.
func (p *paces) noteEnd(run, expected time.Duration) {
	p.ratios[p.count%enoughPaces] = float32(run) / float32(expected)
	p.count++
}

// currentPace returns the run time of long tasks here now over their expected run time. The pace is the median
// over running tasks with reports, and over the last ended tasks if few tasks run. The result is 1 unless the
// machine is slow; 0: unknown.
func (c *Core) currentPace(now time.Time) float64 {
	var all []float32
	for _, a := range c.runs {
		if p := &a.progress; a.long && p.doneShare > 0 && a.expectedRun > 0 {
			all = append(all, float32(max(p.wholeTime, now.Sub(a.startedAt)-p.reportedAt))/float32(a.expectedRun))
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
