package client

import (
	"context"
	"slices"
	"strings"
	"time"

	v1 "github.com/phoebe-sched/phoebe/idl/gen/phoebe/v1"
)

// Explanation is what a frontend has decided on the tasks of a job.
type Explanation struct {
	Frontend  string     // its name
	Decisions []Decision // in the order in which they were made; at least one
}

// Decision is one on a task: which path it goes and why, and, on that of estimation, where it was placed. A task has
// one for each time that it was placed.
type Decision struct {
	Task      int           // of several that are alike, the first
	Alike     int           // other tasks of which it tells as well, where all were asked for
	Path      string        // sampling or estimation
	Cause     string        // of that, as a word: mode, policy, inputs, files, ignorance, length, brevity or class
	Why       string        // the same as a sentence
	Threshold time.Duration // from which run time on a task is long
	Work      Work          // by which it was chosen
	At        time.Duration // when it was placed or last tried, since the job was received
	Tries     int           // how often it was tried since it was placed last; zero: not tried yet, or sampled
	Attempt   string        // empty: it is at no worker
	Worker    string        // of the attempt
	Outcome   string        // of the attempt, or what the task waits for
	Waited    time.Duration // there, until it started; zero: not known
	Ran       time.Duration
	Usage     Usage
	Demand    Demand        // what it takes of its worker
	DemandWhy string        // by what that is known, as a sentence
	Class     string        // of its places: regular, yielded (it starts only where nothing regular can, and stays) or spare
	ClassWhy  string        // why, as a sentence
	Due       time.Duration // from when on they are regular, since the job was received; zero: from the start, or never
	Tokens    string        // how it stands to its tenant's tokens, or what of its maximum it waits for; empty: neither is limited
	CopyOf    string        // the attempt that was late, where this one is a copy of it
	Copies    string        // of a task at a worker: where its copy is, or why it has none

	Candidates []Candidate // of estimation, best first: at most 16
	Seen       int         // candidates, with those that are left out here
	Chosen     int         // position in Candidates; -1: it stays unplaced, or goes to none of them
	Reason     string      // of the choice
	Samples    []Sample    // of a sampled task and of others like it, in order: those that are remembered
	Text       string      // all of it, to be read

	Near  []Site        // of a sampled task with inputs, nearest first; the last is anywhere
	Read  time.Duration // what reading its inputs takes at Worker
	Delay time.Duration // for which it had waited near its inputs when it was given to Worker
	Far   string        // why it does not read where that takes least; empty: it does
}

// Site is where a sampled task could read its inputs.
type Site struct {
	At      string        // "at" a host, "in rack" and its name, or "anywhere"
	Read    time.Duration // what that takes
	Workers []string      // some of those that are up there; of anywhere none is named
}

// Sample is what was decided for sampled tasks, at one time.
type Sample struct {
	At     time.Duration // since the job was received
	Tasks  int           // that waited
	Tactic string        // by which they were placed
	Chosen []Sampled
	More   int // workers that were chosen, too, and are not remembered
}

// Sampled is a worker that was chosen.
type Sampled struct {
	Worker string
	Why    string // why it was
	Rides  int    // tasks that were sent with their reservations
	Places int    // reservations without a task
	Bound  bool   // instead of these: one task, at once
	Fates  []Fate // what became of the reservations so far
}

// Fate is how often something became of a reservation.
type Fate struct {
	What  string // in words
	Times int
}

// Work is how long a task is expected to run, its inputs at hand, on a worker of average speed.
type Work struct {
	Mean    time.Duration
	Dev     time.Duration // standard deviation; zero: not known
	Source  string        // nothing, hint, corrected hint, stage or function
	Samples int           // finished tasks behind it
}

// Candidate is a worker that a task could run on, with each term of its estimate: C = Success*E + K*(1 - Success)*E
// and E = I + W + R (Apollo, section 3.3).
type Candidate struct {
	Worker     string
	Kind       string        // why it is one
	I          time.Duration // fetching files that it has not
	W          time.Duration // waiting for room
	R          time.Duration // running, with reading inputs
	Read       time.Duration // of R, reading inputs
	Success    float64       // the chance that the worker is there until the end
	E          time.Duration
	C          time.Duration
	Noise      time.Duration // what chance added to C in the choice, to keep frontends apart
	Age        time.Duration // of its wait matrix
	Steps      int           // eighths of the worker by which the matrix was read for a larger task, as it was old
	FetchBytes int64         // of files that it has not
	Memory     int64         // bytes of inputs read from the memory of its host,
	Disk       int64         // from a disk of its host,
	Rack       int64         // from its rack,
	Across     int64         // and from elsewhere
}

// Explain tells what was decided on a task of a job, or on all for task -1, while the job is under way and for a time
// after. h.Owner may be empty: every frontend is asked, and asks others. A *RefusedError with Reason UnknownJob says
// that none of them knows.
func (c *Client) Explain(ctx context.Context, h Handle, task int) (*Explanation, error) {
	order := c.roster.Load().allFrontends()
	if i := slices.IndexFunc(order, func(f *frontend) bool { return h.Owner != "" && f.addr == h.Owner }); i > 0 {
		order[0], order[i] = order[i], order[0]
	}
	resp, err := askUntilAnswered(ctx, c, order, func(ctx context.Context, f *frontend) (*v1.ExplainResponse, error) {
		return f.rpc.Explain(ctx, &v1.ExplainRequest{Caller: c.cfg.wireCaller(), Handle: &v1.Handle{Job: h.Job, Owner: h.Owner}, Task: int32(task)})
	})
	if err != nil {
		return nil, err
	}
	return fromExplanation(resp), nil
}

func fromExplanation(r *v1.ExplainResponse) *Explanation {
	x := &Explanation{Frontend: r.Frontend, Decisions: make([]Decision, len(r.Decisions))}
	for i, d := range r.Decisions {
		x.Decisions[i] = Decision{
			Task: int(d.Task), Alike: int(d.Alike), Path: enumWords(d.Path.String()), Cause: strings.TrimPrefix(enumWords(d.Cause.String()), "by "), Why: d.Why,
			Threshold: fromMicros(d.ThresholdUs), Work: fromWork(d.Work), At: fromMicros(d.AtUs), Tries: int(d.Tries), Attempt: d.Attempt,
			Worker: d.Worker, Outcome: d.Outcome, Waited: fromMicros(d.WaitedUs), Ran: fromMicros(d.RanUs), Usage: fromUsage(d.Usage),
			Candidates: make([]Candidate, len(d.Candidates)), Seen: int(d.Seen), Chosen: int(d.Chosen), Reason: d.Reason, Text: d.Text,
			Read: fromMicros(d.ReadUs), Delay: fromMicros(d.DelayUs), Far: d.Far,
			Demand: fromDemand(d.Demand), DemandWhy: d.DemandWhy, Class: d.TaskClass, ClassWhy: d.ClassWhy, Due: fromMicros(d.DueUs), Tokens: d.Tokens, CopyOf: d.CopyOf, Copies: d.Copies,
		}
		for _, s := range d.Near {
			x.Decisions[i].Near = append(x.Decisions[i].Near, Site{At: s.At, Read: fromMicros(s.ReadUs), Workers: s.Workers})
		}
		for k, c := range d.Candidates {
			x.Decisions[i].Candidates[k] = Candidate{
				Worker: c.Worker, Kind: c.Kind, I: fromMicros(c.IUs), W: fromMicros(c.WUs), R: fromMicros(c.RUs), Read: fromMicros(c.ReadUs),
				Success: c.Success, E: fromMicros(c.EUs), C: fromMicros(c.CUs), Noise: fromMicros(c.NoiseUs), Age: fromMicros(c.AgeUs),
				Steps: int(c.Steps), FetchBytes: c.FetchBytes, Memory: c.MemoryBytes, Disk: c.DiskBytes, Rack: c.RackBytes, Across: c.AcrossBytes,
			}
		}
		for _, s := range d.Samples {
			x.Decisions[i].Samples = append(x.Decisions[i].Samples, fromSample(s))
		}
	}
	return x
}

func fromSample(s *v1.Sample) Sample {
	to := Sample{At: fromMicros(s.AtUs), Tasks: int(s.Tasks), Tactic: s.Tactic, More: int(s.More), Chosen: make([]Sampled, len(s.Chosen))}
	for i, d := range s.Chosen {
		to.Chosen[i] = Sampled{Worker: d.Worker, Why: d.Why, Rides: int(d.Rides), Places: int(d.Places), Bound: d.Bound}
		for _, f := range d.Fates {
			to.Chosen[i].Fates = append(to.Chosen[i].Fates, Fate{f.What, int(f.Times)})
		}
	}
	return to
}

func fromWork(w *v1.Work) Work {
	if w == nil {
		return Work{}
	}
	return Work{Mean: fromMicros(w.MeanUs), Dev: fromMicros(w.DeviationUs), Source: enumWords(w.Source.String()), Samples: int(w.Samples)}
}
