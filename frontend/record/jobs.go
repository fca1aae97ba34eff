package record

import (
	"cmp"
	"iter"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/phoebe-sched/phoebe/frontend"
	"github.com/phoebe-sched/phoebe/probe"
)

// Job is a job that has ended.
type Job struct {
	ID                   probe.JobID
	Path, Policy, Tenant string
	Came                 time.Time
	Response             time.Duration
	Functions            []string // of the tasks, in order of appearance; at most MaxJobFunctions
	Stages               []string // names
	After                [][]int  // for each stage, the numbers of the stages before it; nil: no stages
	Tasks, Failed        int      // all, and those without a result
	Class                frontend.Class
	Due                  time.Duration // when the job became regular, since its arrival; 0: at once, or never
	Copies, Preempted    int           // attempts that were copies, and attempts stopped for regular work
	Blame                Blame
	Trace                Trace
}

// MaxJobFunctions bounds the functions that are named of a job.
const MaxJobFunctions = 8

// jobBytes estimates the memory of the job.
func (j *Job) jobBytes() int {
	size := 512 + len(j.Policy) + len(j.Tenant) + j.Trace.traceBytes()
	for _, after := range j.After {
		size += 24 + 8*len(after)
	}
	for _, name := range j.Functions {
		size += 16 + len(name)
	}
	for _, name := range j.Stages {
		size += 16 + len(name)
	}
	return size
}

// Why is a set of reasons to keep a job.
type Why uint8

// A job may be kept for several reasons.
const (
	Failed  Why = 1 << iota
	Slow        // among the slowest of its minute and policy
	Sampled     // drawn by lot, with equal chances for each job of a minute
	Listed      // listed while under way
)

// perMinute bounds the slowest jobs of a policy, and the drawn jobs, in a minute.
const perMinute = 64

// maxPolicies bounds the policies with slowest jobs of their own.
const maxPolicies = 8

// Choice decides which ended jobs to keep for later questions: each failed job, the slowest jobs of each minute and
// policy, and a sample.
type Choice struct {
	rand        *rand.Rand
	minuteStart time.Time // start of the minute
	seen        uint64    // jobs in this minute
	slowest     map[string]*slowestJobs
	sampled     []*ticket // in this minute
}

// ticket stands for a chosen job. Choice keeps tickets, not jobs: a job that Jobs drops must not stay in memory.
type ticket struct{ response time.Duration }

// slowestJobs are the slowest jobs of a policy in a minute.
type slowestJobs struct {
	jobs    []*ticket
	fastest int // index of the fastest
}

// NewChoice makes a Choice without jobs. It owns rng.
func NewChoice(rng *rand.Rand) *Choice { return &Choice{rand: rng, slowest: map[string]*slowestJobs{}} }

// Chosen is a job to be kept, with the reasons. The job takes the place of up to two kept jobs.
type Chosen struct {
	*Job
	Why                           Why
	ticket                        *ticket // nil: no later job replaces this job
	replacesSlow, replacesSampled *ticket // of the job replaced among the slowest, and in the sample; nil: none
}

// Decide decides whether to keep j, a job that has ended. If Why is 0, the job is not kept. Else the Job in chosen is
// a copy of j, for the caller to complete and hand to Jobs.
func (c *Choice) Decide(now time.Time, j *Job) (chosen Chosen) {
	if now.Sub(c.minuteStart).Abs() >= time.Minute {
		c.minuteStart, c.seen, c.sampled = now, 0, nil
		clear(c.slowest)
	}
	c.seen++
	at := len(c.sampled)
	if at == perMinute { // reservoir sampling: each of the seen jobs is in the sample with the same chance
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
	chosen.Job, chosen.ticket = &kept, &ticket{j.Response}
	if chosen.Why&Slow != 0 {
		chosen.replacesSlow = slowest.addJob(chosen.ticket)
	}
	if chosen.Why&Sampled != 0 {
		if at < len(c.sampled) {
			chosen.replacesSampled, c.sampled[at] = c.sampled[at], chosen.ticket
		} else {
			c.sampled = append(c.sampled, chosen.ticket)
		}
	}
	return chosen
}

// slowestOf returns the slowest jobs of a policy. Beyond maxPolicies, policies share a list.
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

// isAmongSlowest reports whether a job with this response belongs to the slowest.
func (s *slowestJobs) isAmongSlowest(response time.Duration) bool {
	return len(s.jobs) < perMinute || response > s.jobs[s.fastest].response
}

// addJob puts a job among the slowest, and returns the job that it displaces, or nil.
func (s *slowestJobs) addJob(j *ticket) (old *ticket) {
	if len(s.jobs) < perMinute {
		s.jobs = append(s.jobs, j)
	} else {
		old, s.jobs[s.fastest] = s.jobs[s.fastest], j
	}
	for i := range s.jobs {
		if s.jobs[i].response < s.jobs[s.fastest].response {
			s.fastest = i
		}
	}
	return old
}

// MaxKeptBytes bounds the memory of kept jobs, about. Failed jobs may take half, slow jobs and sampled jobs a
// quarter each. The oldest jobs are dropped. If a job needs more than half of such a part, it is not kept.
const MaxKeptBytes = 64 << 20

// Jobs holds the kept jobs.
type Jobs struct {
	failed, slow, sample jobList
	listed               listedJobs
	lost                 uint64
}

// jobList is a list of jobs, oldest first.
type jobList struct {
	jobs            []*Job
	tickets         []*ticket // of the jobs; nil: none
	bytes, maxBytes int
}

// NewJobs makes an empty Jobs.
func NewJobs() *Jobs {
	return &Jobs{failed: jobList{maxBytes: MaxKeptBytes / 2}, slow: jobList{maxBytes: MaxKeptBytes / 4},
		sample: jobList{maxBytes: MaxKeptBytes / 4}, listed: listedJobs{byID: map[probe.JobID]*listedJob{}}}
}

// Keep keeps a chosen job. Afterwards the caller must not write to it.
func (k *Jobs) Keep(c Chosen) {
	fits := false
	if c.Why&Failed != 0 {
		fits = k.failed.keepJob(nil, c)
	}
	if c.Why&Slow != 0 {
		fits = k.slow.keepJob(c.replacesSlow, c) || fits
	}
	if c.Why&Sampled != 0 {
		fits = k.sample.keepJob(c.replacesSampled, c) || fits
	}
	fits = k.listed.keepJob(c) || fits
	if !fits {
		k.CountLost(1)
	}
}

// CountLost counts chosen jobs that cannot be kept, because attempts are forgotten or too many jobs wait.
func (k *Jobs) CountLost(n uint64) { k.lost += n }

// Lost returns the number of jobs that should have been kept and were not.
func (k *Jobs) Lost() uint64 { return k.lost }

// keepJob adds a job, in place of the job of old if old is not nil. fits is false if the job is too large.
func (s *jobList) keepJob(old *ticket, c Chosen) (fits bool) {
	if old != nil {
		if i := slices.Index(s.tickets, old); i >= 0 {
			s.dropAt(i)
		}
	}
	if c.jobBytes() > s.maxBytes/2 {
		return false
	}
	s.jobs, s.tickets = append(s.jobs, c.Job), append(s.tickets, c.ticket)
	s.bytes += c.jobBytes()
	for s.bytes > s.maxBytes {
		s.dropAt(0)
	}
	return true
}

func (s *jobList) dropAt(i int) {
	s.bytes -= s.jobs[i].jobBytes()
	s.jobs, s.tickets = slices.Delete(s.jobs, i, i+1), slices.Delete(s.tickets, i, i+1)
}

// Kept is a kept job with the reasons.
type Kept struct {
	*Job
	Why Why
}

// Copy returns the kept jobs in no order. A job kept for two reasons comes twice: see LatestFirst.
func (k *Jobs) Copy() []Kept {
	all := make([]Kept, 0, k.Len())
	for why, list := range k.byReason() {
		for _, j := range list.jobs {
			all = append(all, Kept{j, why})
		}
	}
	return all
}

// byReason yields the lists of jobs.
func (k *Jobs) byReason() iter.Seq2[Why, *jobList] {
	return maps.All(map[Why]*jobList{Failed: &k.failed, Slow: &k.slow, Sampled: &k.sample})
}

// Find returns the latest kept job with an id. found is false if no such job is kept.
func (k *Jobs) Find(id probe.JobID) (latest Kept, found bool) {
	for why, list := range k.byReason() {
		for _, j := range list.jobs {
			switch {
			case j.ID != id:
			case j == latest.Job:
				latest.Why |= why
			case !found || j.Came.After(latest.Came):
				latest, found = Kept{j, why}, true
			}
		}
	}
	if l := k.listed.byID[id]; l != nil && l.job.Job != nil && (!found || l.job.Came.After(latest.Came)) {
		return l.job, true
	}
	return latest, found
}

// LatestFirst sorts jobs of Copy, the latest first, and keeps each job once, with all reasons.
func LatestFirst(all []Kept) []Kept {
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

// Len returns the number of kept jobs. A job kept for two reasons may count twice.
func (k *Jobs) Len() int { return len(k.failed.jobs) + len(k.slow.jobs) + len(k.sample.jobs) }
