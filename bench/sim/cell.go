package sim

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/phoebe-sched/phoebe/frontend"
)

// The rivals after Omega (Schwarzkopf et al., EuroSys 2013), by the rules of the paper and of the simulator published
// by its authors. A scheduler takes a time for each job and for each task (Config.Think), and only then places the
// job's tasks by randomised first fit. If tasks of a job cannot start, the job comes again retryAfter later, and is
// decided anew. The rivals are instant otherwise, which flatters them.

// retryAfter is the time until a job with tasks left over comes again.
const retryAfter = time.Second

// cellJob is a job at such a rival. The tasks before next have started.
type cellJob struct {
	*handJob
	next      int
	decisions int
}

// tasksLeft returns the number of tasks that have not started.
func (j *cellJob) tasksLeft() int { return len(j.Tasks) - j.next }

// cell is the part that the rivals after Omega have in common.
type cell struct {
	*hand
	cfg *Config
	rng *rand.Rand
}

// endRun implements brain.
func (c *cell) endRun(*handWorker, handRun) {}

// checkState implements brain.
func (c *cell) checkState() error {
	for _, w := range c.workers {
		if w.freeSlots < 0 {
			return fmt.Errorf("worker %d has %d free slots", w.key, w.freeSlots)
		}
	}
	return nil
}

// countFree returns the free slots by worker.
func (c *cell) countFree() []int {
	free := make([]int, len(c.workers))
	for i, w := range c.workers {
		free[i] = w.freeSlots
	}
	return free
}

// pickSlots takes up to n slots out of free, by randomised first fit: each is the first free slot from a random
// worker on.
func (c *cell) pickSlots(free []int, n int) []*handWorker {
	total := 0
	for _, f := range free {
		total += f
	}
	picked := make([]*handWorker, 0, min(n, total))
	for range min(n, total) {
		i := c.rng.IntN(len(free))
		for free[i] <= 0 {
			i = (i + 1) % len(free)
		}
		free[i]--
		picked = append(picked, c.workers[i])
	}
	return picked
}

// startOn starts the next tasks of j on slots.
func (c *cell) startOn(j *cellJob, slots []*handWorker) {
	for _, w := range slots {
		c.startTask(w, handTask{j.handJob, &j.Tasks[j.next]})
		j.next++
	}
}

// beginDecision counts a decision of by about j that takes a time.
func (j *cellJob) beginDecision(by *decider, takes time.Duration) time.Duration {
	if j.decisions > 0 {
		by.redone += takes
	}
	j.decisions++
	return takes
}

// onePath is a monolithic scheduler: a single decider for all kinds of jobs.
type onePath struct {
	cell
	decider *decider
	single  bool // all jobs take the time of the kind that takes longest; false: each kind has its own path
}

func newSinglePath(cfg *Config, _ []float64, f frontend.Config, rng *rand.Rand) scheduler {
	return newOnePath(cfg, f, rng, &onePath{single: true})
}

func newMultiPath(cfg *Config, _ []float64, f frontend.Config, rng *rand.Rand) scheduler {
	return newOnePath(cfg, f, rng, &onePath{})
}

func newOnePath(cfg *Config, f frontend.Config, rng *rand.Rand, o *onePath) scheduler {
	o.cell, o.decider = cell{newHand(cfg, f.ID), cfg, rng}, &decider{}
	o.brain, o.deciders = o, []*decider{o.decider}
	return o.hand
}

func (o *onePath) addJob(j *handJob) { o.decideJob(&cellJob{handJob: j}) }

// decideJob places the tasks of j after a decision.
func (o *onePath) decideJob(j *cellJob) {
	think := o.cfg.thinkOf(j.Tenant)
	for _, t := range o.cfg.Think {
		if o.single && t.PerJob > think.PerJob {
			think.PerJob = t.PerJob
		}
	}
	o.queueDecision(o.decider, func() (time.Duration, func()) {
		return j.beginDecision(o.decider, think.timeFor(j.tasksLeft())), func() {
			if o.startOn(j, o.pickSlots(o.countFree(), j.tasksLeft())); j.tasksLeft() == 0 {
				o.decider.successes++
				return
			}
			o.callAfter(retryAfter, func() { o.decideJob(j) })
		}
	})
}

// sharedState is Omega: each kind has deciders of its own. A decider plans on a copy of the cell from the time when
// the decision began, and commits the plan to the cell. Where another decider was faster, the plan clashes.
type sharedState struct {
	cell
	kinds    map[string][]*decider
	versions []int // by worker: counts the starts there
	coarse   bool  // a plan clashes at a worker where any task has started since; false: only if the slot is gone
	gang     bool  // a job starts all its tasks at once, or none
}

func newSharedState(coarse, gang bool) func(*Config, []float64, frontend.Config, *rand.Rand) scheduler {
	return func(cfg *Config, _ []float64, f frontend.Config, rng *rand.Rand) scheduler {
		s := &sharedState{cell: cell{newHand(cfg, f.ID), cfg, rng}, kinds: map[string][]*decider{},
			versions: make([]int, cfg.Workers), coarse: coarse, gang: gang}
		s.brain = s
		return s.hand
	}
}

func (s *sharedState) addJob(j *handJob) {
	all := s.kinds[j.Tenant]
	if all == nil {
		for range max(s.cfg.thinkOf(j.Tenant).Deciders, 1) {
			all = append(all, &decider{kind: j.Tenant})
		}
		s.kinds[j.Tenant] = all
		s.deciders = append(s.deciders, all...)
	}
	s.decideJob(&cellJob{handJob: j}, all[s.rng.IntN(len(all))])
}

// decideJob plans the tasks of j, and commits the plan.
func (s *sharedState) decideJob(j *cellJob, by *decider) {
	s.queueDecision(by, func() (time.Duration, func()) {
		free, versions := s.countFree(), slices.Clone(s.versions)
		return j.beginDecision(by, s.cfg.thinkOf(j.Tenant).timeFor(j.tasksLeft())), func() {
			planned := s.pickSlots(free, j.tasksLeft())
			committed := s.withoutClashes(planned, versions)
			if len(committed) < len(planned) {
				by.clashes++
			}
			if s.gang && len(committed) < j.tasksLeft() {
				committed = nil
			}
			s.startOn(j, committed)
			for _, w := range committed {
				s.versions[w.key]++
			}
			if j.tasksLeft() == 0 {
				by.successes++
				return
			}
			s.callAfter(retryAfter, func() { s.decideJob(j, by) })
		}
	})
}

// withoutClashes returns the slots of a plan that do not clash. The plan's copy of the cell had the versions.
func (s *sharedState) withoutClashes(planned []*handWorker, versions []int) []*handWorker {
	free := s.countFree()
	var kept []*handWorker
	for _, w := range planned {
		if free[w.key] <= 0 || s.coarse && s.versions[w.key] != versions[w.key] {
			continue
		}
		free[w.key]--
		kept = append(kept, w)
	}
	return kept
}

// twoLevel is Mesos (Hindman et al., NSDI 2011): an allocator offers all free slots to the framework with the fewest
// slots. Each kind of jobs is a framework. The slots stay locked until the framework has decided on all jobs that
// waited at the offer, and answers.
type twoLevel struct {
	cell
	allocator  *decider
	frameworks []*framework
	locked     []int // by worker: slots in offers
	offerTakes time.Duration
	offerEvery time.Duration
	nextOffer  time.Time // no offer before
	timerIsSet bool      // an offer is due at nextOffer
	allocating bool      // an offer is being made
}

// framework is the scheduler of a kind of jobs.
type framework struct {
	decider   *decider
	waiting   []*cellJob
	slots     int   // taken by running tasks
	offer     []int // slots by worker that f has not chosen; nil: there is no offer
	slotsLeft int   // sum of offer
	answer    []offerAnswer
}

// offerAnswer says which slots of an offer a job takes.
type offerAnswer struct {
	job   *cellJob
	slots []*handWorker
}

func newTwoLevel(cfg *Config, _ []float64, f frontend.Config, rng *rand.Rand) scheduler {
	m := &twoLevel{cell: cell{newHand(cfg, f.ID), cfg, rng}, allocator: &decider{kind: "allocator"},
		locked: make([]int, cfg.Workers), offerTakes: time.Millisecond, offerEvery: time.Second}
	m.brain, m.deciders = m, []*decider{m.allocator}
	return m.hand
}

func (m *twoLevel) addJob(j *handJob) {
	f := m.frameworkOf(j.Tenant)
	f.waiting = append(f.waiting, &cellJob{handJob: j})
	m.offerSlots()
}

func (m *twoLevel) endRun(_ *handWorker, r handRun) {
	m.frameworkOf(r.job.Tenant).slots--
	m.offerSlots()
}

// frameworkOf returns the framework of a kind of jobs.
func (m *twoLevel) frameworkOf(kind string) *framework {
	for _, f := range m.frameworks {
		if f.decider.kind == kind {
			return f
		}
	}
	f := &framework{decider: &decider{kind: kind}}
	m.frameworks = append(m.frameworks, f)
	m.deciders = append(m.deciders, f.decider)
	return f
}

// countUnlocked returns the slots by worker that an offer may have, and their sum.
func (m *twoLevel) countUnlocked() (free []int, sum int) {
	free = m.countFree()
	for i := range free {
		free[i] -= m.locked[i]
		sum += free[i]
	}
	return free, sum
}

// nextFramework returns the framework with the fewest slots among the frameworks that wait for an offer; or nil.
func (m *twoLevel) nextFramework() *framework {
	var next *framework
	for _, f := range m.frameworks {
		if f.offer == nil && len(f.waiting) > 0 && (next == nil || f.slots < next.slots) {
			next = f
		}
	}
	return next
}

// offerSlots begins an offer as soon as there may be an offer.
func (m *twoLevel) offerSlots() {
	if _, sum := m.countUnlocked(); sum == 0 || m.allocating || m.nextFramework() == nil {
		return
	}
	if wait := m.nextOffer.Sub(m.now); wait > 0 {
		if !m.timerIsSet {
			m.timerIsSet = true
			m.callAfter(wait, func() {
				m.timerIsSet = false
				m.offerSlots()
			})
		}
		return
	}
	m.allocating = true
	m.nextOffer = m.now.Add(m.offerEvery)
	m.queueDecision(m.allocator, func() (time.Duration, func()) {
		return m.offerTakes, func() {
			m.allocating = false
			m.makeOffer(m.nextFramework())
			m.offerSlots()
		}
	})
}

// makeOffer offers all free slots to f. As long as slots are left, f decides on the jobs that wait now. Then f
// answers the offer, and all tasks start.
func (m *twoLevel) makeOffer(f *framework) {
	f.offer, f.slotsLeft = m.countUnlocked()
	for i, n := range f.offer {
		m.locked[i] += n
	}
	jobs := f.waiting
	f.waiting = nil
	for i, j := range jobs {
		m.queueDecision(f.decider, func() (takes time.Duration, end func()) {
			if f.slotsLeft > 0 {
				takes = j.beginDecision(f.decider, m.cfg.thinkOf(f.decider.kind).timeFor(j.tasksLeft()))
			}
			return takes, func() {
				slots := m.pickSlots(f.offer, j.tasksLeft())
				f.slotsLeft -= len(slots)
				f.answer = append(f.answer, offerAnswer{j, slots})
				if i == len(jobs)-1 {
					m.answerOffer(f)
				}
			}
		})
	}
}

// answerOffer starts the tasks that f has chosen slots for, and gives back the rest of the offer.
func (m *twoLevel) answerOffer(f *framework) {
	for i, n := range f.offer {
		m.locked[i] -= n
	}
	for _, a := range f.answer {
		for _, w := range a.slots {
			m.locked[w.key]--
		}
		f.slots += len(a.slots)
		if m.startOn(a.job, a.slots); a.job.tasksLeft() > 0 {
			f.waiting = append(f.waiting, a.job)
		} else {
			f.decider.successes++
		}
	}
	f.offer, f.answer = nil, nil
	m.offerSlots()
}
