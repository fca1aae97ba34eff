package frontend

import (
	"time"

	"github.com/phoebe-sched/phoebe/frontend/estimate"
	"github.com/phoebe-sched/phoebe/probe"
)

// Config is what a Core is told once. Zero fields take the defaults that Defaults documents.
type Config struct {
	ID         probe.FrontendID
	ProbeRatio float64 // reservations per task where the job names none, at least 1

	MaxTasksPerJob int
	MaxPayload     int           // bytes of one task
	MaxPending     int           // tasks without an outcome, over all jobs; of a tenant at most three times what is left
	MaxPayloads    int           // bytes of their payloads; of a tenant likewise
	MaxWait        time.Duration // while a job has waited for its first task for longer than this, and than 20 of its tasks run, further ones of its tenant are refused, unless few wait; negative: no limit

	Copies float64 // share of tasks that may have a second attempt because they are late; 0: none

	PoisonAfter  int           // workers that died with a task before it is taken for the cause
	AdriftFor    time.Duration // how long a broken link's attempts wait for it to come back
	ClaimFor     time.Duration // how long workers may take to answer a claim
	StrandedFor  time.Duration // how long a task waits for a worker that could run it to appear
	SyncEvery    time.Duration
	ProbeTimeout time.Duration // early binding: how long a queue length is waited for

	LongTask time.Duration    // from which run time on a task is long, and placed by estimation
	SureFor  time.Duration    // age up to which a wait matrix need not be asked for before something is placed by it; negative: any
	Matcher  estimate.Matcher // of tasks with workers, where they are placed by estimation
	Estimate estimate.Config
}

// Defaults fills the zero fields of c: probe ratio 2, 100,000 tasks in a job, payloads of 1 MiB, 200,000
// pending tasks, 512 MiB of payloads, 1 s of wait, poison after 3 workers, 1 s adrift, 3 s to claim, 10 s stranded, sync every 2 s,
// 100 ms for a queue length, long from 1 s on, sure for 50 ms, stable matching, and those of estimate.Config.
func (c Config) Defaults() Config {
	def := func(p *time.Duration, d time.Duration) {
		if *p == 0 {
			*p = d
		}
	}
	defInt := func(p *int, n int) {
		if *p == 0 {
			*p = n
		}
	}
	if c.ProbeRatio == 0 {
		c.ProbeRatio = 2
	}
	defInt(&c.MaxTasksPerJob, 100_000)
	defInt(&c.MaxPayload, 1<<20)
	defInt(&c.MaxPending, 200_000)
	defInt(&c.MaxPayloads, 512<<20)
	defInt(&c.PoisonAfter, 3)
	def(&c.MaxWait, time.Second)
	def(&c.AdriftFor, time.Second)
	def(&c.ClaimFor, 3*time.Second)
	def(&c.StrandedFor, 10*time.Second)
	def(&c.SyncEvery, 2*time.Second)
	def(&c.ProbeTimeout, 100*time.Millisecond)
	def(&c.LongTask, time.Second)
	def(&c.SureFor, defaultSureFor)
	c.Estimate = c.Estimate.Defaults()
	return c
}

// MaxProbeRatio is the most reservations per task that a job or a frontend may ask for.
const MaxProbeRatio = 10

// FewCopies is the share of tasks that may have a second attempt unless it is said otherwise.
const FewCopies = 0.03

// defaultSureFor is the default of Config.SureFor: to ask costs a round trip, to find others' tasks there much more.
const defaultSureFor = 50 * time.Millisecond
