package frontend

import (
	"time"

	"github.com/phoebe-sched/phoebe/frontend/estimate"
	"github.com/phoebe-sched/phoebe/probe"
)

// Config holds the settings of a Core. Zero fields take the defaults that Defaults documents.
type Config struct {
	ID         probe.FrontendID
	ProbeRatio float64 // reservations per task, at least 1, unless the job names a ratio

	MaxTasksPerJob int
	MaxPayload     int // bytes of a task's payload
	MaxPending     int // tasks without an outcome, over all jobs; a tenant may have three times the room left free
	MaxPayloads    int // bytes of the pending tasks' payloads; a tenant may have three times the room left free
	// MaxWait: while the tenant's oldest job has waited longer for a first task, further jobs of the tenant are
	// refused, unless few wait. The limit is at least 20 times the run time of a task. Negative: no limit.
	MaxWait time.Duration

	Copies float64 // share of tasks that may have a second attempt when late; 0: no copies

	PoisonAfter  int           // if this many workers died running a task, the task fails as the suspected cause
	AdriftFor    time.Duration // how long attempts wait for a broken link to come back
	ClaimFor     time.Duration // how long workers may take to answer a claim
	StrandedFor  time.Duration // how long a task waits until a worker able to run the task is up
	SyncEvery    time.Duration // time between Syncs, in which workers correct the core's beliefs about places
	ProbeTimeout time.Duration // early binding: how long a round waits for queue lengths

	LongTask time.Duration    // shortest run time of a long task, to be placed by estimation
	SureFor  time.Duration    // a batch asks for a newer wait matrix above this age; negative: never
	Matcher  estimate.Matcher // matches tasks with workers, in placing by estimation
	Estimate estimate.Config
}

// Defaults fills the zero fields of c:
//   - probe ratio 2, poison after 3 workers;
//   - 100,000 tasks in a job, payloads of 1 MiB, 200,000 pending tasks, 512 MiB of pending payloads, 1 s of wait;
//   - 1 s adrift, 3 s to claim, 10 s stranded, sync every 2 s, 100 ms for a queue length;
//   - long from 1 s on, sure for 50 ms, stable matching, and the defaults of estimate.Config.
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

// FewCopies is the usual share of tasks that may have a second attempt (figure stragglers shows a larger share, too).
const FewCopies = 0.03

// defaultSureFor is the default of Config.SureFor. To ask for a matrix costs a round trip. To go by an old matrix
// costs much more, if other tasks have come to the worker since.
const defaultSureFor = 50 * time.Millisecond
