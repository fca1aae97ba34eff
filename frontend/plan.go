package frontend

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/phoebe-sched/phoebe/frontend/estimate"
	"github.com/phoebe-sched/phoebe/frontend/place"
	"github.com/phoebe-sched/phoebe/probe/fair"
)

// planner is the floor of decisions. While the facts of an event are noted, missing places are noted as wants,
// and nothing is placed. The wants are planned afterwards.
type planner struct {
	ledger
	rand    *rand.Rand
	sampler *place.Sampler
	scratch place.Want
	rounds  rounds
	batch   batch

	looksUntil time.Time // until when looks in vain at the movers have used their time, see moveLookPause
}

// batch is the next batch of tasks to be placed by estimation.
type batch struct {
	notBefore    time.Time // the earliest time of the batch; zero: at once
	answersUntil time.Time // end of the wait for matrices; zero: no worker was asked
	asked        []int32   // keys of the workers asked for matrices
	keys         []int32   // scratch of doubtfulWorkers

	// Scratch of askMatrices and matchBatch, reused by the next batch.
	tasks []*longTask
	specs []estimate.Task
	turns []fair.Bill[*longTask]
}

// rounds are the open rounds. All rounds wait equally long, so they end in order.
type rounds struct {
	seq   uint64
	bySeq map[uint64]*round
	queue []*round
}

// round asks sampled workers for the lengths of their queues. Its tasks are bound early by the answers.
type round struct {
	group   *group
	tasks   []*task
	asked   map[*worker]uint64 // the sequence numbers of unanswered probes
	answers []place.Answer
	until   time.Time
	closed  bool
}

// makeWant returns the want of g for a number of probes. Tasks that come back to a group with places may ride to idle
// workers, because an idle worker may send no message for long. The result is valid until the next call.
func (c *planner) makeWant(g *group, probes int) *place.Want {
	w := &c.scratch
	*w = place.Want{Kind: &g.Kind, Queue: g, Probes: probes, PlacesAt: w.PlacesAt[:0],
		MayRide: g.livePlaces == 0 || g.Policy.Informed && len(c.view.Idle()) > 0}
	for r := range g.places.All() {
		if r.livePlaces > 0 {
			w.PlacesAt = append(w.PlacesAt, r.w.Worker)
		}
	}
	return w
}

// resampleJob adds places for a job without turns: the present places may be at slow workers, or stuck behind long
// tasks. Each further time the job waits twice as long. A group asks for one more probe for each waiting task. A group
// with fewer probes than its tasks are worth is left out, because the group has wants anyway. A group with four times
// as many (chosen, and not measured) is left out, too, so the probes of a job stay bounded.
func (c *planner) resampleJob(j *job, now time.Time, acts []Action) []Action {
	c.noteNoTurn(j)
	for _, g := range j.groups {
		n, probed := g.queue.Len(), g.liveProbes()
		if g.near != nil { // the green tasks have timers
			n, probed = g.near.anywhereShelf().ripe.Len(), g.near.anywhereShelf().liveProbes()
		}
		if n == 0 || !j.Policy.Resample || probed < g.Probes(n) || probed >= 4*g.Probes(n) {
			continue
		}
		c.Stats.Resamples++
		if g.near != nil {
			acts = c.placeShelf(g.near.anywhereShelf(), n, now, acts)
		} else {
			acts = c.commitPlaces(g, nil, c.sampler.Place(c.makeWant(g, n), now), now, acts)
		}
	}
	return acts
}

// offerTasks brings waiting tasks to a worker believed to have room.
func (c *planner) offerTasks(w *worker, now time.Time, acts []Action) []Action {
	if !w.Idle() {
		return acts
	}
	var buf [maxLooked]*job
	for _, j := range c.hungry.jobsToOffer(&buf) {
		if j.Policy.Informed && j.Policy.Binding == Late {
			for more := true; more && w.Idle(); {
				acts, more = c.offerJob(j, w, now, acts)
			}
			c.refreshJob(j, now)
		}
	}
	return acts
}

// offerJob offers tasks of j to w. The result more says whether w may take more tasks. After rides, the room left at w
// is known. After a place without a task, the room is not known until the turn.
func (c *planner) offerJob(j *job, w *worker, now time.Time, acts []Action) (_ []Action, more bool) {
	for g := range j.hungryGroupsAt(w) {
		var q place.Queue = g
		if g.near == nil && c.nextTask(g, w, now) == nil { // all tasks shun w
			continue
		}
		if g.near != nil {
			q = c.nextTaskQueue(g, w, now)
		}
		if d, found := c.sampler.Offer(&g.Kind, q, w.Worker); found {
			c.Stats.Offers++
			acts = c.commitPlaces(g, nil, []place.Decision{d}, now, acts)
			c.hungry.moveToBack(j.tenant)
			return acts, d.Rides > 0
		}
	}
	return acts, false
}

// planNear finds workers for the ripe tasks of a group, first near the inputs.
func (c *planner) planNear(n *nearGroup, now time.Time, acts []Action) []Action {
	c.shelveNew(n, now)
	// If there are idle workers for all tasks, rides go first. Otherwise a shelf could get places that would be
	// cancelled in the same step, once the last task rides.
	if len(c.view.Idle()) >= n.group.queue.Len() {
		acts = c.planShelves(n, (*planner).rideShelf, now, acts)
	}
	acts = c.planShelves(n, (*planner).planShelf, now, acts)
	n.wantingShelves = slices.DeleteFunc(n.wantingShelves, func(s *shelf) bool { return !s.isWanting })
	return acts
}

// planShelves plans the wanting shelves in the order of tiers: host, rack, anywhere.
func (c *planner) planShelves(
	n *nearGroup, planOne func(*planner, *shelf, time.Time, []Action) []Action, now time.Time, acts []Action,
) []Action {
	for _, tier := range [...]estimate.Tier{estimate.Disk, estimate.Rack, estimate.Across} {
		for i := 0; i < len(n.wantingShelves); i++ {
			if s := n.wantingShelves[i]; s.tier == tier && s.isWanting {
				s.ripenDue(now)
				acts = planOne(c, s, now, acts)
			}
		}
	}
	return acts
}

// rideShelf lets ripe tasks of a shelf ride to the workers of its site, as far as there is room. A shelf with
// places is skipped.
func (c *planner) rideShelf(s *shelf, now time.Time, acts []Action) []Action {
	if s.livePlaces > 0 || s.ripe.Len() == 0 {
		return acts
	}
	return c.placeShelf(s, 0, now, acts)
}

// planShelf gives a shelf the places missing for its ripe tasks.
func (c *planner) planShelf(s *shelf, now time.Time, acts []Action) []Action {
	s.isWanting = false
	missing := s.missingProbes()
	if missing <= 0 {
		return acts
	}
	return c.placeShelf(s, missing, now, acts)
}

// placeShelf samples the workers at the shelf's site for a number of probes. Ripe tasks of the shelf ride, or places
// are reserved for them.
func (c *planner) placeShelf(s *shelf, probes int, now time.Time, acts []Action) []Action {
	n := s.near
	kind := n.group.Kind
	if s.tier != estimate.Across {
		kind.Set = c.view.Among(kind.Set, c.view.Fleet().WorkersAt(s.tier, s.name))
	}
	w := &c.scratch
	*w = place.Want{Kind: &kind, Queue: s, Probes: probes, MayRide: s.livePlaces == 0, PlacesAt: w.PlacesAt[:0]}
	if s.tier == estimate.Across {
		for holder := range n.placesAt { // in no order: the order does not matter
			w.PlacesAt = append(w.PlacesAt, holder.Worker)
		}
	} else {
		for _, row := range kind.Set.Workers() {
			if n.placesAt[c.workerOf(row)] > 0 {
				w.PlacesAt = append(w.PlacesAt, row)
			}
		}
	}
	return c.commitPlaces(n.group, s, c.sampler.Place(w, now), now, acts)
}

// oneTask is the place.Queue of a single task, or an empty queue.
type oneTask struct{ task *task }

func (l oneTask) Len() int { return l.Riders(1) }

func (l oneTask) Riders(most int) int {
	if l.task == nil || l.task.bytesToSend() > place.MaxRide {
		return 0
	}
	return min(most, 1)
}

func (l oneTask) Fit(int, int) int { return 1 }

// nextTaskQueue returns a queue of only the next task for w, a worker with room. The queue may be empty.
func (c *planner) nextTaskQueue(g *group, w *worker, now time.Time) place.Queue {
	return oneTask{c.nextTask(g, w, now)}
}
