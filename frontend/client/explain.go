package client

import (
	"context"
	"strings"
	"time"

	v1 "github.com/phoebe-sched/phoebe/idl/gen/phoebe/v1"
)

// Explanation holds a frontend's decisions on the tasks of a job.
type Explanation struct {
	Frontend  string     // name
	Decisions []Decision // in the order of the decisions; at least one
}

// Decision says which path a task goes and why, and, on the path of estimation, which worker the task was placed at. A
// task has one Decision for each time that the task was placed.
type Decision struct {
	Task      int           // index of the task; with Alike above 0, of the first task
	Alike     int           // number of further tasks with an equal decision; only if all tasks were asked for
	Path      string        // sampling or estimation
	Cause     string        // of the path: mode, policy, inputs, files, ignorance, length, brevity or class
	Why       string        // Cause as a sentence
	Threshold time.Duration // a task with at least this expected run time is long
	Work      Work          // expected work, by which the path was chosen
	At        time.Duration // when the task was placed or last tried, since the frontend received the job
	Tries     int           // attempts to place the task since it was placed last; zero: not tried yet, or sampled
	Attempt   string        // id; empty: the task is at no worker
	Worker    string        // of the attempt
	Outcome   string        // of the attempt, or the reason why the task still waits
	Waited    time.Duration // at the worker, until the start; zero: not known
	Ran       time.Duration
	Usage     Usage
	Demand    Demand        // room that the task takes on its worker
	DemandWhy string        // the source of Demand, as a sentence
	Class     string        // regular, spare, or yielded: starts like spare, but is not stopped
	ClassWhy  string        // the reason for Class, as a sentence
	Due       time.Duration // when the task becomes regular, since the job was received; zero: always was, or never
	Tokens    string        // effect of the tenant's tokens or maximum on the task; empty: neither is limited
	CopyOf    string        // if the attempt is a copy: the late attempt
	Copies    string        // for a task at a worker: where its copy is, or why it has no copy

	Candidates []Candidate // of estimation, best first; at most 16
	Seen       int         // number of all candidates, also of candidates missing here
	Chosen     int         // position in Candidates; -1: the task is not placed, or not at a worker of Candidates
	Reason     string      // of the choice
	Samples    []Sample    // samples for the sampled task and tasks like it, in order, as far as remembered
	Text       string      // the whole decision, for humans

	Near  []Site        // for a sampled task with inputs, nearest first; the last site is anywhere
	Read  time.Duration // time to read the inputs at Worker
	Delay time.Duration // how long the task waited for a worker near its inputs, before it went to Worker
	Far   string        // why the task does not read at the nearest site; empty: it does
}

// Site is a place where a sampled task could read its inputs.
type Site struct {
	At      string        // "at" with a host, "in rack" with a name, or "anywhere"
	Read    time.Duration // time to read the inputs there
	Workers []string      // some workers that are up there; empty for anywhere
}

// Sample is one drawing of workers for sampled tasks.
type Sample struct {
	At     time.Duration // since the job was received
	Tasks  int           // number of tasks that waited
	Tactic string        // by which the tasks were placed
	Chosen []Sampled
	More   int // number of further chosen workers, not remembered
}

// Sampled is a worker chosen by a Sample.
type Sampled struct {
	Worker string
	Why    string // reason for the choice
	Rides  int    // number of tasks sent along with their reservations
	Places int    // number of reservations without a task
	Bound  bool   // true: instead of reservations, a single task was bound at once
	Fates  []Fate // results of the reservations so far
}

// Fate counts reservations with the same result.
type Fate struct {
	What  string // the result, in words
	Times int
}

// Work is the expected run time of a task on a worker of average speed, with all inputs at hand.
type Work struct {
	Run     time.Duration
	Dev     time.Duration // standard deviation; zero: not known
	Source  string        // nothing, hint, corrected hint, stage, function or function at peers
	Samples int           // number of finished tasks behind the estimate
}

// Candidate is a worker that a task could run on, with each term of the worker's estimate (Apollo, section 3.3):
// C = Success*E + K*(1 - Success)*E, and E = I + W + R.
type Candidate struct {
	Worker     string
	Kind       string        // why the worker is a candidate: has input, has file, same rack, light, in pool or asked
	I          time.Duration // time to fetch missing files
	W          time.Duration // wait for room
	R          time.Duration // run time, with the time to read inputs
	Read       time.Duration // part of R: time to read inputs
	Success    float64       // probability that the worker survives until the task's end
	E          time.Duration
	C          time.Duration
	Noise      time.Duration // random addition to C in the choice, to make frontends choose differently
	Age        time.Duration // of the worker's wait matrix
	Steps      int           // eighths of the worker added to the task's size on reading the matrix, because of Age
	FetchBytes int64         // bytes of missing files
	Memory     int64         // bytes of inputs in the memory of the worker's host
	Disk       int64         // bytes of inputs on a disk of the worker's host
	Rack       int64         // bytes of inputs elsewhere in the worker's rack
	Across     int64         // bytes of inputs in other racks
}

// Explain returns the decisions on a task of a job, or on all tasks for task -1. Decisions are known while the job
// runs, and for some time after. If you do not know the owner, leave h.Owner empty: Explain asks every frontend, and
// each frontend asks others. A *RefusedError with Reason UnknownJob says that no frontend knows the decisions.
func (c *Client) Explain(ctx context.Context, h Handle, task int) (*Explanation, error) {
	resp, err := askUntilAnswered(ctx, c, h.Owner, func(ctx context.Context, f *frontend) (*v1.ExplainResponse, error) {
		return f.rpc.Explain(ctx, &v1.ExplainRequest{
			Caller: c.cfg.wireCaller(), Handle: &v1.Handle{Job: h.Job, Owner: h.Owner}, Task: int32(task),
		})
	})
	if err != nil {
		return nil, err
	}
	return fromExplanation(resp), nil
}

// fromExplanation converts an answer.
func fromExplanation(r *v1.ExplainResponse) *Explanation {
	x := &Explanation{Frontend: r.Frontend, Decisions: make([]Decision, len(r.Decisions))}
	for i, d := range r.Decisions {
		x.Decisions[i] = Decision{
			Task: int(d.Task), Alike: int(d.Alike), Path: enumWords(d.Path.String()),
			Cause: strings.TrimPrefix(enumWords(d.Cause.String()), "by "), Why: d.Why,
			Threshold: fromMicros(d.ThresholdUs), Work: fromWork(d.Work), At: fromMicros(d.AtUs), Tries: int(d.Tries),
			Attempt: d.Attempt, Worker: d.Worker, Outcome: d.Outcome, Waited: fromMicros(d.WaitedUs),
			Ran: fromMicros(d.RanUs), Usage: fromUsage(d.Usage), Candidates: make([]Candidate, len(d.Candidates)),
			Seen: int(d.Seen), Chosen: int(d.Chosen), Reason: d.Reason, Text: d.Text,
			Read: fromMicros(d.ReadUs), Delay: fromMicros(d.DelayUs), Far: d.Far,
			Demand: fromDemand(d.Demand), DemandWhy: d.DemandWhy, Class: d.TaskClass, ClassWhy: d.ClassWhy,
			Due: fromMicros(d.DueUs), Tokens: d.Tokens, CopyOf: d.CopyOf, Copies: d.Copies,
		}
		for _, s := range d.Near {
			x.Decisions[i].Near = append(x.Decisions[i].Near, Site{
				At: s.At, Read: fromMicros(s.ReadUs), Workers: s.Workers,
			})
		}
		for k, c := range d.Candidates {
			x.Decisions[i].Candidates[k] = Candidate{
				Worker: c.Worker, Kind: c.Kind, I: fromMicros(c.IUs), W: fromMicros(c.WUs), R: fromMicros(c.RUs),
				Read: fromMicros(c.ReadUs), Success: c.Success, E: fromMicros(c.EUs), C: fromMicros(c.CUs),
				Noise: fromMicros(c.NoiseUs), Age: fromMicros(c.AgeUs), Steps: int(c.Steps),
				FetchBytes: c.FetchBytes, Memory: c.MemoryBytes, Disk: c.DiskBytes, Rack: c.RackBytes,
				Across: c.AcrossBytes,
			}
		}
		for _, s := range d.Samples {
			x.Decisions[i].Samples = append(x.Decisions[i].Samples, fromSample(s))
		}
	}
	return x
}

// fromSample converts a part of an answer.
func fromSample(s *v1.Sample) Sample {
	to := Sample{
		At: fromMicros(s.AtUs), Tasks: int(s.Tasks), Tactic: s.Tactic, More: int(s.More),
		Chosen: make([]Sampled, len(s.Chosen)),
	}
	for i, d := range s.Chosen {
		to.Chosen[i] = Sampled{Worker: d.Worker, Why: d.Why, Rides: int(d.Rides), Places: int(d.Places), Bound: d.Bound}
		for _, f := range d.Fates {
			to.Chosen[i].Fates = append(to.Chosen[i].Fates, Fate{f.What, int(f.Times)})
		}
	}
	return to
}

// fromWork converts a part of an answer; nil gives zero.
func fromWork(w *v1.Work) Work {
	if w == nil {
		return Work{}
	}
	return Work{
		Run: fromMicros(w.MeanUs), Dev: fromMicros(w.DeviationUs), Source: enumWords(w.Source.String()),
		Samples: int(w.Samples),
	}
}
