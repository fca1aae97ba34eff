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

// jobBytes is how many bytes it takes, about.
func (j *Job) jobBytes() int {
	size := 512 + len(j.Policy) + len(j.Tenant) + j.Trace.traceBytes()
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

// maxPolicies is how many policies' slowest jobs are told apart.
const maxPolicies = 8

// Choice decides which of the jobs that have ended are to be kept, as somebody may ask for them: each one that failed, the slowest of
// each minute and policy, and a sample.
type Choice struct {
	rand        *rand.Rand
	minuteStart time.Time // began
	seen        uint64    // in this minute
	slowest     map[string]*slowestJobs
	sampled     []*Job // of this minute
}

// slowestJobs are the slowest jobs of a policy in a minute.
type slowestJobs struct {
	jobs    []*Job
	fastest int // the fastest of them
}

// NewChoice has chosen none yet. It owns rng.
func NewChoice(rng *rand.Rand) *Choice { return &Choice{rand: rng, slowest: map[string]*slowestJobs{}} }

// Chosen is a job to be kept, and for what; it takes the place of others there.
type Chosen struct {
	*Job
	Why                           Why
	replacesSlow, replacesSampled *Job // that it takes the place of among the slowest, and in the sample; nil: none
}

// Ended decides on j, which has ended. Why is 0 if it is not to be kept; else the job is a copy, to be completed and given to Jobs.
func (c *Choice) Ended(now time.Time, j *Job) (chosen Chosen) {
	if now.Sub(c.minuteStart).Abs() >= time.Minute {
		c.minuteStart, c.seen, c.sampled = now, 0, nil
		clear(c.slowest)
	}
	c.seen++
	at := len(c.sampled)
	if at == perMinute {
		at = int(min(c.rand.Uint64N(c.seen), perMinute))
	}
	slowest := c.slowestOf(j.Policy)
	if j.Failed > 0 {
		chosen.Why |= Failed
	}
	if slowest.isAmongSlowest(j.Response) {
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
		chosen.replacesSlow = slowest.addJob(&kept)
	}
	if chosen.Why&Sampled != 0 {
		if at < len(c.sampled) {
			chosen.replacesSampled, c.sampled[at] = c.sampled[at], &kept
		} else {
			c.sampled = append(c.sampled, &kept)
		}
	}
	return chosen
}

// slowestOf is the slowest jobs of a policy. A policy too many shares those of others.
func (c *Choice) slowestOf(policy string) *slowestJobs {
	s := c.slowest[policy]
	if s == nil {
		if len(c.slowest) >= maxPolicies {
			policy = Other
		}
		if s = c.slowest[policy]; s == nil {
			s = &slowestJobs{}
			c.slowest[policy] = s
		}
	}
	return s
}

// isAmongSlowest reports whether a job of this response is among the slowest.
func (s *slowestJobs) isAmongSlowest(response time.Duration) bool {
	return len(s.jobs) < perMinute || response > s.jobs[s.fastest].Response
}

// addJob puts a job among the slowest that is one of them, and returns the one that is none any more.
func (s *slowestJobs) addJob(j *Job) (old *Job) {
	if len(s.jobs) < perMinute {
		s.jobs = append(s.jobs, j)
	} else {
		old, s.jobs[s.fastest] = s.jobs[s.fastest], j
	}
	for i := range s.jobs {
		if s.jobs[i].Response < s.jobs[s.fastest].Response {
			s.fastest = i
		}
	}
	return old
}

// MaxKeptBytes is how many bytes the jobs take that are kept, about. Those that failed may take half of it, those that were slow and
// those of the sample a quarter each; the oldest go, and none is kept that takes more than half of what its like may.
const MaxKeptBytes = 64 << 20

// Jobs are those that are kept.
type Jobs struct {
	failed, slow, sample jobList
	lost                 uint64
}

// jobList is jobs, the oldest first.
type jobList struct {
	jobs            []*Job
	bytes, maxBytes int
}

// NewJobs keeps none yet.
func NewJobs() *Jobs {
	return &Jobs{failed: jobList{maxBytes: MaxKeptBytes / 2}, slow: jobList{maxBytes: MaxKeptBytes / 4}, sample: jobList{maxBytes: MaxKeptBytes / 4}}
}

// Keep keeps a job that was chosen. From then on nobody writes to it.
func (k *Jobs) Keep(c Chosen) {
	fits := false
	if c.Why&Failed != 0 {
		fits = k.failed.keepJob(nil, c.Job)
	}
	if c.Why&Slow != 0 {
		fits = k.slow.keepJob(c.replacesSlow, c.Job) || fits
	}
	if c.Why&Sampled != 0 {
		fits = k.sample.keepJob(c.replacesSampled, c.Job) || fits
	}
	if !fits {
		k.Lose(1)
	}
}

// Lose counts jobs that were chosen and cannot be kept: their attempts are forgotten, or are too many.
func (k *Jobs) Lose(n uint64) { k.lost += n }

// Lost is how many jobs should have been kept, and were not.
func (k *Jobs) Lost() uint64 { return k.lost }

// keepJob keeps a job, in place of an old one if that is not nil, unless it is too large.
func (s *jobList) keepJob(old, j *Job) (fits bool) {
	if old != nil {
		if i := slices.Index(s.jobs, old); i >= 0 {
			s.dropAt(i)
		}
	}
	if j.jobBytes() > s.maxBytes/2 {
		return false
	}
	s.jobs = append(s.jobs, j)
	s.bytes += j.jobBytes()
	for s.bytes > s.maxBytes {
		s.dropAt(0)
	}
	return true
}

func (s *jobList) dropAt(i int) {
	s.bytes -= s.jobs[i].jobBytes()
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
	for why, s := range map[Why]*jobList{Failed: &k.failed, Slow: &k.slow, Sampled: &k.sample} {
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
