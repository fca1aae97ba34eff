package engine

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/ipc"

	"github.com/phoebe-sched/phoebe/bench/tpch/data"
	"github.com/phoebe-sched/phoebe/bench/tpch/plan"
	"github.com/phoebe-sched/phoebe/frontend/client"
)

// Engine runs queries on a cluster. An Engine is safe for concurrent use.
type Engine struct {
	c       *client.Client
	cat     data.Catalog
	planner *plan.Planner

	mu        sync.Mutex
	plans     map[string]*plan.Plan
	dataAddrs map[string][]string // addresses that serve data, by node
	askedAt   time.Time
}

// Options are the options of a query.
type Options struct {
	Tenant string
	Class  client.Class
	Mode   client.Mode
	Policy client.Policy
	Blind  bool  // do not tell phoebe where files are
	Memory int32 // MiB for each task; default 512
}

// plansKept is the largest number of plans in an engine's memory.
const plansKept = 1000

// New returns an engine for the tables of a catalog. The client stays the caller's.
func New(c *client.Client, cat data.Catalog) (*Engine, error) {
	p, err := cat.Planner()
	if err != nil {
		return nil, err
	}
	return &Engine{c: c, cat: cat, planner: p, plans: map[string]*plan.Plan{}}, nil
}

// Close closes the planner of the engine. The client stays open.
func (e *Engine) Close() error { return e.planner.Close() }

// Plan returns the plan of a query.
func (e *Engine) Plan(ctx context.Context, text string) (*plan.Plan, error) {
	e.mu.Lock()
	p := e.plans[text]
	e.mu.Unlock()
	if p != nil {
		return p, nil
	}
	p, err := e.planner.Plan(ctx, text)
	if err != nil {
		return nil, err
	}
	e.mu.Lock()
	if len(e.plans) >= plansKept {
		clear(e.plans)
	}
	e.plans[text] = p
	e.mu.Unlock()
	return p, nil
}

// Result is the result of a query. Batches reads the rows from the workers' files. The caller must close the
// result.
type Result struct {
	Columns []plan.Column
	Stats   Stats

	pieces []*Piece
}

// Stats say how a query went.
type Stats struct {
	Planning time.Duration
	Stages   []StageStats
	Total    time.Duration
	Local    int      // scanning tasks that found all files locally
	Remote   int      // scanning tasks that had to fetch files
	Bad      []string // missing or damaged files, with the place
}

// StageStats are the statistics of a stage.
type StageStats struct {
	Name  string
	After []int         // positions of the stages before
	Start time.Duration // from the start of the query until the first task was on its way
	Took  time.Duration
	Tasks []TaskStats
	Rows  int
	Bytes int
}

// TaskStats are the statistics of a task.
type TaskStats struct {
	Worker string
	Run    time.Duration
	Phases client.Phases
}

// Query runs a query. Query returns when the result is ready, at workers or here. If a fragment fails, the
// error is a *client.TaskError. If the query cannot be planned, the error is the error of Plan. If a worker is
// gone with data, Query submits the query again, up to four times.
func (e *Engine) Query(ctx context.Context, text string, opt Options) (*Result, error) {
	start := time.Now()
	opt.Memory = cmp.Or(opt.Memory, 512)
	p, err := e.Plan(ctx, text)
	if err != nil {
		return nil, err
	}
	planning := time.Since(start)
	for try := 0; ; try++ {
		r, err := e.executePlan(ctx, p, text, opt, start)
		if t, ok := errors.AsType[*client.TaskError](err); ok && (t.Reason == client.NoInput || t.Code == NoData) &&
			try < 4 {
			e.mu.Lock()
			e.askedAt = time.Time{}
			e.mu.Unlock()
			select { // a worker is gone with outputs, or comes back with the files at another address
			case <-time.After(time.Duration(try) * 500 * time.Millisecond):
				continue
			case <-ctx.Done():
			}
		}
		if err != nil {
			return nil, err
		}
		r.Stats.Planning, r.Stats.Total = planning, time.Since(start)
		return r, nil
	}
}

// buildJob turns a plan into a job of phoebe. The slice stageOf holds the position of each task's stage. The
// addresses addrs serve data, by node.
func (e *Engine) buildJob(p *plan.Plan, text string, opt Options,
	addrs map[string][]string) (job client.Job, stageOf []int, err error) {
	job = client.Job{Tenant: opt.Tenant, Class: opt.Class, Mode: opt.Mode, Policy: opt.Policy, Phases: true}
	digest := sha256.Sum256([]byte(text))
	for i := range p.Stages {
		s := &p.Stages[i]
		common := Stage{SQL: s.SQL, Buckets: s.Buckets, Last: i == len(p.Stages)-1,
			NoDeliminator: s.NoDeliminator}
		stage := client.Stage{Name: s.Name}
		for _, in := range s.Inputs {
			from := &p.Stages[in.Stage]
			stage.After = append(stage.After, from.Name)
			input := Input{Stage: from.Name, Cut: from.Buckets > 0, Columns: from.Columns}
			if input.Cut {
				input.Columns = input.Columns[:len(input.Columns)-1]
			}
			common.Inputs = append(common.Inputs, input)
		}
		var pieces []*data.Table
		for _, name := range s.Tables {
			if t := e.cat.Lookup(name); t.Class == "" {
				common.Tables = append(common.Tables, tableFiles(t, t.Parts, addrs))
			} else {
				pieces = append(pieces, t)
			}
		}
		if stage.Common, err = json.Marshal(common); err != nil {
			return job, nil, err
		}
		job.Stages = append(job.Stages, stage)
		for n := range s.Tasks {
			task := client.Task{
				Stage: s.Name, Function: Function.Name, Class: fmt.Sprintf("%x %s", digest[:8], s.Name),
				Demand: client.Demand{Memory: opt.Memory},
			}
			var f Fragment
			for _, t := range pieces {
				parts := e.cat.Parts(t, n)
				f.Tables = append(f.Tables, tableFiles(t, parts, addrs))
				if !opt.Blind {
					task.Inputs = append(task.Inputs, partInputs(parts)...)
				}
			}
			for _, in := range common.Inputs {
				input := client.Input{Stage: in.Stage, Pass: client.Inline}
				if in.Cut {
					input.Partition = n
				}
				task.Inputs = append(task.Inputs, input)
			}
			if task.Payload, err = Function.EncodeIn(f); err != nil {
				return job, nil, err
			}
			job.Tasks, stageOf = append(job.Tasks, task), append(stageOf, i)
		}
	}
	return job, stageOf, nil
}

// partInputs tells phoebe where parts are. Successive parts at the same nodes form a single input, because
// phoebe ignores small inputs of a task with much other data.
func partInputs(parts []data.Part) []client.Input {
	var out []client.Input
	for i, part := range parts {
		if i > 0 && slices.Equal(part.Nodes, parts[i-1].Nodes) {
			out[len(out)-1].Bytes += part.Bytes
			continue
		}
		in := client.Input{Bytes: part.Bytes}
		for _, node := range part.Nodes {
			in.Copies = append(in.Copies, client.Copy{At: node})
		}
		out = append(out, in)
	}
	return out
}

// tableFiles returns the files of a table's parts, with the addresses of each file.
func tableFiles(t *data.Table, parts []data.Part, addrs map[string][]string) Table {
	out := Table{Name: t.Name}
	for _, part := range parts {
		f := File{Name: part.File, SHA256: part.SHA256, Bytes: part.Bytes}
		for _, node := range part.Nodes {
			f.At = append(f.At, addrs[node]...)
		}
		out.Files = append(out.Files, f)
	}
	return out
}

// executePlan runs a plan once.
func (e *Engine) executePlan(ctx context.Context, p *plan.Plan, text string, opt Options,
	start time.Time) (*Result, error) {
	addrs, err := e.findDataAddrs(ctx)
	if err != nil {
		return nil, err
	}
	job, stageOf, err := e.buildJob(p, text, opt, addrs)
	if err != nil {
		return nil, err
	}
	begin := time.Since(start)
	running, err := e.c.Submit(ctx, job)
	if err != nil {
		return nil, err
	}
	r := &Result{Columns: p.Columns}
	first := make([]int, len(p.Stages)) // first task of each stage
	for i := len(stageOf) - 1; i >= 0; i-- {
		first[stageOf[i]] = i
	}
	for i := range p.Stages {
		s := &p.Stages[i]
		st := StageStats{Name: s.Name, Tasks: make([]TaskStats, s.Tasks)}
		for _, in := range s.Inputs {
			st.After = append(st.After, in.Stage)
		}
		r.Stats.Stages = append(r.Stats.Stages, st)
	}
	r.pieces = make([]*Piece, p.Stages[len(p.Stages)-1].Tasks)
	enough := make([]bool, len(p.Stages))
	var failed error
	for o, err := range running.Results() {
		var out Output
		if err == nil {
			out, err = Function.DecodeOut(o.Result)
		}
		if err != nil {
			t, ok := errors.AsType[*client.TaskError](err)
			unwanted := ok && t.Reason == client.Cancelled && enough[stageOf[t.Task]]
			if !unwanted && (failed == nil || ok && t.Reason != client.StageFailed) {
				failed = err // the cause, rather than the failures that follow from the cause
			}
			continue
		}
		i := stageOf[o.Task]
		st := &r.Stats.Stages[i]
		st.addTask(o, o.Task-first[i], begin, &out)
		r.Stats.Bad = append(r.Stats.Bad, out.Bad...)
		switch {
		case p.Stages[i].Class == "":
		case out.Fetched == 0:
			r.Stats.Local++
		default:
			r.Stats.Remote++
		}
		if out.Piece != nil {
			r.pieces[o.Task-first[i]] = out.Piece
		}
		if s := &p.Stages[i]; s.Enough >= 0 && st.Rows >= s.Enough && !enough[i] {
			enough[i] = true // further tasks would make rows beyond the LIMIT
			rest := make([]int, s.Tasks)
			for n := range rest {
				rest[n] = first[i] + n
			}
			if err := running.CancelTasks(ctx, rest...); err != nil && failed == nil {
				failed = err
			}
		}
	}
	if failed != nil {
		r.Close()
		if ctx.Err() != nil {
			failed = context.Cause(ctx)
		}
		return nil, failed
	}
	return r, nil
}

// addTask adds the outcome of task n to the statistics. begin is the time of submission since the query began.
func (s *StageStats) addTask(o client.Outcome, n int, begin time.Duration, out *Output) {
	s.Tasks[n] = TaskStats{o.Worker, o.Run, *o.Phases}
	s.Rows, s.Bytes = s.Rows+out.Rows, s.Bytes+out.Bytes
	from, to := begin+o.Phases.Sampled, begin+o.Phases.Delivered
	if end := s.Start + s.Took; s.Took > 0 {
		from, to = min(from, s.Start), max(to, end)
	}
	s.Start, s.Took = from, to-from
}

// Slots returns the number of slots in the cluster: each runs a task at a time.
func (e *Engine) Slots(ctx context.Context) (int, error) {
	workers, err := e.c.Workers(ctx)
	if err != nil {
		return 0, err
	}
	n := 0
	for _, w := range workers {
		n += int(w.Capacity.CPU) / 1000
	}
	return n, nil
}

// findDataAddrs returns the addresses of each node's data. Addresses older than a second are read from the cluster.
// Meanwhile other queries do not wait for the mutex: a cluster that hangs holds up each query for its own time.
func (e *Engine) findDataAddrs(ctx context.Context) (map[string][]string, error) {
	e.mu.Lock()
	addrs, askedAt := e.dataAddrs, e.askedAt
	e.mu.Unlock()
	if time.Since(askedAt) < time.Second {
		return addrs, nil
	}
	workers, err := e.c.Workers(ctx)
	if err != nil {
		return nil, err
	}
	addrs = map[string][]string{}
	for _, w := range workers {
		for _, l := range w.Labels {
			if addr, ok := strings.CutPrefix(l, "data="); ok && w.State == "up" {
				addrs[w.Host] = append(addrs[w.Host], addr)
			}
		}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.askedAt, e.dataAddrs = time.Now(), addrs
	return addrs, nil
}

// Batches returns the rows during reading. A batch is valid until the next batch is read. Once a piece is read
// to the end, Batches deletes the piece at the worker.
func (r *Result) Batches(ctx context.Context) iter.Seq2[arrow.RecordBatch, error] {
	return func(yield func(arrow.RecordBatch, error) bool) {
		for _, p := range r.pieces {
			if p == nil || p.Rows == 0 {
				continue
			}
			if more, err := p.yieldBatches(ctx, yield); err != nil {
				yield(nil, err)
				return
			} else if !more {
				return
			}
			p.deleteData()
		}
	}
}

// deleteTimeout bounds the deletion of a piece. A piece that stays is swept after keepResultFor.
const deleteTimeout = 2 * time.Second

// yieldBatches yields the batches of the piece, and reports whether yield wants more.
func (p *Piece) yieldBatches(ctx context.Context, yield func(arrow.RecordBatch, error) bool) (more bool, err error) {
	b, err := p.openReader(ctx)
	if err != nil {
		return false, err
	}
	defer b.Close()
	in, err := ipc.NewReader(b)
	if err != nil {
		return false, err
	}
	defer in.Release()
	for in.Next() {
		if !yield(in.RecordBatch(), nil) {
			return false, nil
		}
	}
	return true, in.Err()
}

// Rows returns the number of rows.
func (r *Result) Rows() int {
	n := 0
	for _, p := range r.pieces {
		if p != nil {
			n += p.Rows
		}
	}
	return n
}

// Close makes workers delete all remaining pieces of the result. A worker that hangs keeps its pieces for now.
func (r *Result) Close() {
	var deletions sync.WaitGroup
	for _, p := range r.pieces {
		if p != nil && p.URL != "" {
			deletions.Go(p.deleteData)
		}
	}
	deletions.Wait()
}

// deleteData deletes the file of the piece at the worker.
func (p *Piece) deleteData() {
	if p.URL == "" {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), deleteTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodDelete, p.URL, nil)
	if err != nil {
		return
	}
	if res, err := http.DefaultClient.Do(req); err == nil {
		res.Body.Close()
	}
	p.URL = ""
}
