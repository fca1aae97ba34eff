package record

import (
	"cmp"
	"iter"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/phoebe-sched/phoebe/probe"
)

// Job is one that has ended, with the attempts that gave its tasks their outcomes.
type Job struct {
	ID             probe.JobID
	Policy, Tenant string
	Came           time.Time
	Response       time.Duration
	After          [][]int // of each stage, those that it waits for; nil: it has none
	Failed         int     // tasks without a result
	Attempts       []Attempt
}

// attemptSize is how many bytes an Attempt takes.
const attemptSize = 144

// size is how many bytes it takes, about.
func (j *Job) size() int {
	size := 256 + len(j.Policy) + len(j.Tenant) + attemptSize*len(j.Attempts)
	for _, after := range j.After {
		size += 24 + 8*len(after)
	}
	return size
}

// MaxKept is how many bytes the jobs take that are kept, about. Those that failed may take half of it, those that were slow and
// those of the sample a quarter each; the oldest go, and none is kept that takes more than half of what its like may.
const MaxKept = 64 << 20

const (
	perMinute = 64 // of the slowest jobs of a policy, and of the sample
	policies  = 8  // whose slowest jobs are kept apart
)

// Jobs keeps those of the jobs that have ended of which somebody may ask: each one that failed, the slowest of each minute and
// policy, and a sample, in which each job of a minute had the same chance to be.
type Jobs struct {
	rand   *rand.Rand
	minute time.Time // began
	seen   uint64    // in this minute

	failed, slow, sample shelf
	slowest              map[string]*slowest // by policy, of this minute
	sampled              []*Job              // of this minute

	lost uint64
}

// shelf is jobs, the oldest first.
type shelf struct {
	jobs        []*Job
	bytes, most int
}

// slowest are the slowest jobs of a policy.
type slowest struct {
	jobs  []*Job
	least int // the fastest of them
}

// NewJobs keeps none yet. It owns rng.
func NewJobs(rng *rand.Rand) *Jobs {
	return &Jobs{rand: rng, failed: shelf{most: MaxKept / 2}, slow: shelf{most: MaxKept / 4}, sample: shelf{most: MaxKept / 4}, slowest: map[string]*slowest{}}
}

// Ended keeps j if it is one to be kept. Only then its attempts are asked for, which are nil if they are not all remembered.
func (k *Jobs) Ended(now time.Time, j *Job, attempts func() []Attempt) {
	if now.Sub(k.minute).Abs() >= time.Minute {
		k.minute, k.seen, k.sampled = now, 0, nil
		clear(k.slowest)
	}
	k.seen++
	at := len(k.sampled)
	if at == perMinute {
		at = int(min(k.rand.Uint64N(k.seen), perMinute))
	}
	of, failed, sampled := k.of(j.Policy), j.Failed > 0, at < perMinute
	slow := of.beats(j.Response)
	if !failed && !slow && !sampled {
		return
	}
	kept := *j
	if kept.Attempts = attempts(); kept.Attempts == nil {
		k.lost++
		return
	}
	fits := false
	if failed {
		fits = k.failed.put(nil, &kept)
	}
	if slow {
		fits = k.slow.put(of.add(&kept), &kept) || fits
	}
	if sampled {
		var old *Job
		if at < len(k.sampled) {
			old, k.sampled[at] = k.sampled[at], &kept
		} else {
			k.sampled = append(k.sampled, &kept)
		}
		fits = k.sample.put(old, &kept) || fits
	}
	if !fits {
		k.lost++
	}
}

// put keeps a job, in place of an old one if that is not nil, unless it is too large.
func (s *shelf) put(old, j *Job) (fits bool) {
	if i := slices.Index(s.jobs, old); i >= 0 {
		s.drop(i)
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

// of is the slowest jobs of a policy. A policy too many shares those of others.
func (k *Jobs) of(policy string) *slowest {
	s := k.slowest[policy]
	if s == nil {
		if len(k.slowest) >= policies {
			policy = Other
		}
		if s = k.slowest[policy]; s == nil {
			s = &slowest{}
			k.slowest[policy] = s
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

// Lost is how many jobs should have been kept, and were not: their attempts were forgotten, or are too many.
func (k *Jobs) Lost() uint64 { return k.lost }

// All are the jobs that are kept, each once, the one that came last first. They are not to be written to.
func (k *Jobs) All() iter.Seq[*Job] {
	all := slices.Concat(k.failed.jobs, k.slow.jobs, k.sample.jobs)
	slices.SortStableFunc(all, func(a, b *Job) int {
		return cmp.Or(b.Came.Compare(a.Came), slices.Compare(a.ID[:], b.ID[:]))
	})
	return slices.Values(slices.Compact(all))
}
