package record

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/phoebe-sched/phoebe/frontend"
	"github.com/phoebe-sched/phoebe/probe"
)

// Job is one that has ended.
type Job struct {
	ID                   probe.JobID
	Path, Policy, Tenant string
	Came                 time.Time
	Response             time.Duration
	Stages               []string // their names
	After                [][]int  // of each stage, those that it waits for; nil: it has none
	Tasks, Failed        int      // of these, without a result
	Class                frontend.Class
	Due                  time.Duration // from when on it was regular; 0: from the start, or never
	Copies, Preempted    int           // attempts that were copies, and that were stopped for what is regular
	Blame                Blame
	Trace                Trace
}

// size is how many bytes it takes, about.
func (j *Job) size() int {
	size := 512 + len(j.Policy) + len(j.Tenant) + j.Trace.size()
	for _, after := range j.After {
		size += 24 + 8*len(after)
	}
	for _, name := range j.Stages {
		size += 16 + len(name)
	}
	return size
}

// Why is why a job is kept.
type Why uint8

// A job may be kept for several reasons.
const (
	Failed  Why = 1 << iota
	Slow        // it was among the slowest of its minute and policy
	Sampled     // it is of a sample, in which each job of a minute had the same chance to be
)

// perMinute is how many of the slowest jobs of a policy are kept, and how many are of the sample.
const perMinute = 64

// policies is how many policies' slowest jobs are told apart.
const policies = 8

// Choice decides which of the jobs that have ended are to be kept, as somebody may ask for them: each one that failed, the slowest of
// each minute and policy, and a sample.
type Choice struct {
	rand    *rand.Rand
	minute  time.Time // began
	seen    uint64    // in this minute
	slowest map[string]*slowest
	sampled []*Job // of this minute
}

// slowest are the slowest jobs of a policy in a minute.
type slowest struct {
	jobs  []*Job
	least int // the fastest of them
}

// NewChoice has chosen none yet. It owns rng.
func NewChoice(rng *rand.Rand) *Choice { return &Choice{rand: rng, slowest: map[string]*slowest{}} }

// Chosen is a job to be kept, and for what; it takes the place of others there.
type Chosen struct {
	*Job
	Why       Why
	slow, old *Job // that it takes the place of among the slowest, and in the sample; nil: none
}

// Ended decides on j, which has ended. Why is 0 if it is not to be kept; else the job is a copy, to be completed and given to Jobs.
func (c *Choice) Ended(now time.Time, j *Job) (chosen Chosen) {
	if now.Sub(c.minute).Abs() >= time.Minute {
		c.minute, c.seen, c.sampled = now, 0, nil
		clear(c.slowest)
	}
	c.seen++
	at := len(c.sampled)
	if at == perMinute {
		at = int(min(c.rand.Uint64N(c.seen), perMinute))
	}
	of := c.of(j.Policy)
	if j.Failed > 0 {
		chosen.Why |= Failed
	}
	if of.beats(j.Response) {
		chosen.Why |= Slow
	}
	if at < perMinute {
		chosen.Why |= Sampled
	}
	if chosen.Why == 0 {
		return chosen
	}
	kept := *j
	chosen.Job = &kept
	if chosen.Why&Slow != 0 {
		chosen.slow = of.add(&kept)
	}
	if chosen.Why&Sampled != 0 {
		if at < len(c.sampled) {
			chosen.old, c.sampled[at] = c.sampled[at], &kept
		} else {
			c.sampled = append(c.sampled, &kept)
		}
	}
	return chosen
}

// of is the slowest jobs of a policy. A policy too many shares those of others.
func (c *Choice) of(policy string) *slowest {
	s := c.slowest[policy]
	if s == nil {
		if len(c.slowest) >= policies {
			policy = Other
		}
		if s = c.slowest[policy]; s == nil {
			s = &slowest{}
			c.slowest[policy] = s
		}
	}
	return s
}

// beats reports whether a job of this response is among the slowest.
func (s *slowest) beats(response time.Duration) bool {
	return len(s.jobs) < perMinute || response > s.jobs[s.least].Response
}

// add puts a job among the slowest that is one of them, and returns the one that is none any more.
func (s *slowest) add(j *Job) (old *Job) {
	if len(s.jobs) < perMinute {
		s.jobs = append(s.jobs, j)
	} else {
		old, s.jobs[s.least] = s.jobs[s.least], j
	}
	for i := range s.jobs {
		if s.jobs[i].Response < s.jobs[s.least].Response {
			s.least = i
		}
	}
	return old
}

// MaxKept is how many bytes the jobs take that are kept, about. Those that failed may take half of it, those that were slow and
// those of the sample a quarter each; the oldest go, and none is kept that takes more than half of what its like may.
const MaxKept = 64 << 20

// Jobs are those that are kept.
type Jobs struct {
	failed, slow, sample shelf
	lost                 uint64
}

// shelf is jobs, the oldest first.
type shelf struct {
	jobs        []*Job
	bytes, most int
}

// NewJobs keeps none yet.
func NewJobs() *Jobs {
	return &Jobs{failed: shelf{most: MaxKept / 2}, slow: shelf{most: MaxKept / 4}, sample: shelf{most: MaxKept / 4}}
}

// Keep keeps a job that was chosen. From then on nobody writes to it.
func (k *Jobs) Keep(c Chosen) {
	fits := false
	if c.Why&Failed != 0 {
		fits = k.failed.put(nil, c.Job)
	}
	if c.Why&Slow != 0 {
		fits = k.slow.put(c.slow, c.Job) || fits
	}
	if c.Why&Sampled != 0 {
		fits = k.sample.put(c.old, c.Job) || fits
	}
	if !fits {
		k.Lose(1)
	}
}

// Lose counts jobs that were chosen and cannot be kept: their attempts are forgotten, or are too many.
func (k *Jobs) Lose(n uint64) { k.lost += n }

// Lost is how many jobs should have been kept, and were not.
func (k *Jobs) Lost() uint64 { return k.lost }

// put keeps a job, in place of an old one if that is not nil, unless it is too large.
func (s *shelf) put(old, j *Job) (fits bool) {
	if old != nil {
		if i := slices.Index(s.jobs, old); i >= 0 {
			s.drop(i)
		}
	}
	if j.size() > s.most/2 {
		return false
	}
	s.jobs = append(s.jobs, j)
	s.bytes += j.size()
	for s.bytes > s.most {
		s.drop(0)
	}
	return true
}

func (s *shelf) drop(i int) {
	s.bytes -= s.jobs[i].size()
	s.jobs = slices.Delete(s.jobs, i, i+1)
}

// Kept is a job that is kept, and why.
type Kept struct {
	*Job
	Why Why
}

// All are the jobs that are kept, each once, the one that came last first.
func (k *Jobs) All() []Kept {
	var all []Kept
	for why, s := range map[Why]*shelf{Failed: &k.failed, Slow: &k.slow, Sampled: &k.sample} {
		for _, j := range s.jobs {
			all = append(all, Kept{j, why})
		}
	}
	slices.SortFunc(all, func(a, b Kept) int {
		return cmp.Or(b.Came.Compare(a.Came), slices.Compare(a.ID[:], b.ID[:]), cmp.Compare(a.Response, b.Response))
	})
	n := 0
	for _, j := range all {
		if n > 0 && all[n-1].Job == j.Job {
			all[n-1].Why |= j.Why
			continue
		}
		all[n] = j
		n++
	}
	return all[:n]
}

// Len is how many jobs are kept. One that is kept for two reasons may count twice.
func (k *Jobs) Len() int { return len(k.failed.jobs) + len(k.slow.jobs) + len(k.sample.jobs) }
