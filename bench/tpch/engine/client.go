package engine

import (
	"cmp"
	"context"
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

// Engine runs queries on a cluster. Safe for concurrent use.
type Engine struct {
	c       *client.Client
	cat     data.Catalog
	planner *plan.Planner

	mu    sync.Mutex
	plans map[string]*plan.Plan
	runs  map[string]time.Duration // mean run time of a task, by stage and query
	nodes map[string][]string      // where data is served, by node
	asked time.Time
}

// Options are of one query.
type Options struct {
	Tenant string
	Policy client.Policy
	Blind  bool  // tell nothing of where files are
	Memory int32 // MiB for each task; default 512
}

// plansKept is how many plans are remembered.
const plansKept = 1000

// New returns an engine for the data that the manifest tells of.
func New(c *client.Client, cat data.Catalog) (*Engine, error) {
	p, err := cat.Planner()
	if err != nil {
		return nil, err
	}
	return &Engine{c: c, cat: cat, planner: p, plans: map[string]*plan.Plan{}, runs: map[string]time.Duration{}}, nil
}

// Close closes what the engine has opened; the client stays open.
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

// Result is that of a query. Its rows come from workers' files as they are read; Close it.
type Result struct {
	Columns []plan.Column
	Stats   Stats

	pieces []Piece
	urls   []string
}

// Stats tell how a query went.
type Stats struct {
	Planning time.Duration
	Stages   []StageStats
	Total    time.Duration
	Local    int // files that tasks read where they ran
	Remote   int
	Bad      []string // files that were no good, and where
}

// StageStats are of one stage.
type StageStats struct {
	Name  string
	Start time.Duration // since the query began
	Took  time.Duration
	Tasks []TaskStats
	Rows  int
	Bytes int
}

// TaskStats are of one task.
type TaskStats struct {
	Worker string
	Run    time.Duration
}

// Query runs a query, and returns when its result is there, at workers or here. A failure of a fragment is an *Error;
// before anything runs, errors are those of Plan.
func (e *Engine) Query(ctx context.Context, text string, opt Options) (*Result, error) {
	start := time.Now()
	opt.Memory = cmp.Or(opt.Memory, 512)
	p, err := e.Plan(ctx, text)
	if err != nil {
		return nil, err
	}
	planning := time.Since(start)
	for try := 0; ; try++ {
		r, err := e.execute(ctx, p, text, opt, start)
		if own, ok := errors.AsType[*Error](err); ok && (own.Code == LostInput || own.Code == NoData) && try < 4 {
			e.mu.Lock()
			e.asked = time.Time{}
			e.mu.Unlock()
			select { // a worker is gone with what it had made, or comes back with its files at another address
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

// execution is one run of a plan.
type execution struct {
	e     *Engine
	p     *plan.Plan
	text  string
	opt   Options
	id    string
	start time.Time
	at    map[string][]string

	mu    sync.Mutex
	stats Stats
	urls  []string
}

type made struct {
	pieces [][]Piece // by task, by bucket
	err    error
}

func (e *Engine) execute(ctx context.Context, p *plan.Plan, text string, opt Options, start time.Time) (*Result, error) {
	at, err := e.where(ctx)
	if err != nil {
		return nil, err
	}
	x := &execution{e: e, p: p, text: text, opt: opt, id: client.NewJobID(), start: start, at: at}
	x.stats.Stages = make([]StageStats, len(p.Stages))
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	done := make([]chan struct{}, len(p.Stages))
	out := make([]made, len(p.Stages))
	for i := range p.Stages {
		done[i] = make(chan struct{})
	}
	for i := range p.Stages {
		go func() {
			defer close(done[i])
			for _, in := range p.Stages[i].Inputs {
				<-done[in.Stage]
				if err := out[in.Stage].err; err != nil {
					out[i].err = err
					return
				}
			}
			if out[i].pieces, out[i].err = x.stage(ctx, i, out); out[i].err != nil {
				cancel(out[i].err)
			}
		}()
	}
	for i := range done {
		<-done[i]
	}
	r := &Result{Columns: p.Columns, urls: x.urls}
	for i := range out {
		if err := out[i].err; err != nil {
			r.Close()
			if cause := context.Cause(ctx); cause != nil {
				err = cause // the first
			}
			return nil, err
		}
	}
	for _, t := range out[len(out)-1].pieces {
		r.pieces = append(r.pieces, t...)
	}
	r.Stats = x.stats
	return r, nil
}

// Slots is how many tasks the fleet can run at once.
func (e *Engine) Slots(ctx context.Context) (int, error) {
	cluster, err := e.c.Cluster(ctx)
	if err != nil {
		return 0, err
	}
	n := 0
	for _, w := range cluster.Workers {
		n += int(w.Capacity.CPU) / 1000
	}
	return n, nil
}

// where tells where the data of each node is served.
func (e *Engine) where(ctx context.Context) (map[string][]string, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if time.Since(e.asked) < time.Second {
		return e.nodes, nil
	}
	cluster, err := e.c.Cluster(ctx)
	if err != nil {
		return nil, err
	}
	e.asked, e.nodes = time.Now(), map[string][]string{}
	for _, w := range cluster.Workers {
		for _, l := range w.Labels {
			if at, ok := strings.CutPrefix(l, "data="); ok && w.State == "up" {
				e.nodes[w.Host] = append(e.nodes[w.Host], at)
			}
		}
	}
	return e.nodes, nil
}

// inlineTotal is how much a stage's tasks are sent inline, all of them together.
const inlineTotal = 8 << 20

func (x *execution) stage(ctx context.Context, i int, out []made) ([][]Piece, error) {
	s := &x.p.Stages[i]
	begin := time.Since(x.start)
	var tables []*data.Table
	for _, name := range s.Tables {
		tables = append(tables, x.e.cat.Lookup(name))
	}
	inline := 64 << 10
	for _, r := range x.p.Stages {
		for _, in := range r.Inputs {
			if in.Stage == i {
				inline = min(inline, inlineTotal/(s.Tasks*max(r.Tasks, s.Buckets)))
			}
		}
	}
	job := client.Job{Tenant: x.opt.Tenant, Policy: x.opt.Policy}
	x.e.mu.Lock()
	estimate := x.e.runs[s.Name+" "+x.text]
	x.e.mu.Unlock()
	for n := range s.Tasks {
		f := Fragment{SQL: s.SQL, Number: n, Buckets: s.Buckets, Inline: inline, Memory: int64(x.opt.Memory)}
		task := client.Task{Function: Function, Estimate: estimate, Demand: client.Demand{Memory: x.opt.Memory}}
		for _, t := range tables {
			ref := Table{Name: t.Name}
			for _, part := range x.e.cat.Parts(t, n) {
				file := File{Name: part.File, SHA256: part.SHA256, Bytes: part.Bytes}
				in := client.Input{Bytes: part.Bytes}
				for _, node := range part.Nodes {
					file.At = append(file.At, x.at[node]...)
					in.Copies = append(in.Copies, client.Copy{At: node})
				}
				ref.Files = append(ref.Files, file)
				if t.Class != "" && !x.opt.Blind {
					task.Inputs = append(task.Inputs, in)
				}
			}
			f.Tables = append(f.Tables, ref)
		}
		for _, in := range s.Inputs {
			from := &x.p.Stages[in.Stage]
			cols := from.Columns
			input := Input{Name: from.Name, ID: x.id + " " + from.Name}
			bucket := 0
			if from.Buckets > 0 {
				cols = cols[:len(cols)-1]
				bucket = n
				input.ID = fmt.Sprintf("%s %s %d", x.id, from.Name, n)
			}
			input.Columns = cols
			for _, t := range out[in.Stage].pieces {
				if t != nil && t[bucket].Rows > 0 {
					input.Pieces = append(input.Pieces, t[bucket])
				}
			}
			f.Inputs = append(f.Inputs, input)
		}
		var err error
		if task.Payload, err = f.encode(); err != nil {
			return nil, err
		}
		job.Tasks = append(job.Tasks, task)
	}
	running, err := x.e.c.Submit(ctx, job)
	if err != nil {
		return nil, err
	}
	pieces := make([][]Piece, s.Tasks)
	stats := StageStats{Name: s.Name, Start: begin, Tasks: make([]TaskStats, s.Tasks)}
	var runs time.Duration
	for o, err := range running.Results() {
		if err != nil {
			if ctx.Err() != nil {
				return nil, context.Cause(ctx)
			}
			failed, ok := errors.AsType[*client.TaskError](err)
			if ok && failed.Reason == client.Failed {
				err = parse(failed.Message)
			}
			running.Cancel(context.WithoutCancel(ctx))
			return nil, err
		}
		var out Output
		if err := out.decode(o.Result); err != nil {
			return nil, err
		}
		pieces[o.Task] = out.Pieces
		stats.Tasks[o.Task] = TaskStats{o.Worker, o.Run}
		runs += o.Run
		x.mu.Lock()
		x.stats.Local, x.stats.Remote, x.stats.Bad = x.stats.Local+out.Local, x.stats.Remote+out.Remote, append(x.stats.Bad, out.Bad...)
		for _, p := range out.Pieces {
			stats.Rows, stats.Bytes = stats.Rows+p.Rows, stats.Bytes+p.Size
			if p.URL != "" {
				x.urls = append(x.urls, p.URL)
			}
		}
		x.mu.Unlock()
		if s.Enough >= 0 && stats.Rows >= s.Enough {
			running.Cancel(ctx) // the rest would give rows that nobody asks for
			break
		}
	}
	stats.Took = time.Since(x.start) - begin
	x.mu.Lock()
	x.stats.Stages[i] = stats
	x.mu.Unlock()
	x.e.mu.Lock()
	x.e.runs[s.Name+" "+x.text] = runs / time.Duration(s.Tasks)
	x.e.mu.Unlock()
	return pieces, nil
}

// Batches are the rows, as they are read. They are valid until the next is asked for.
func (r *Result) Batches(ctx context.Context) iter.Seq2[arrow.RecordBatch, error] {
	return func(yield func(arrow.RecordBatch, error) bool) {
		for i := range r.pieces {
			p := &r.pieces[i]
			if p.Rows == 0 {
				continue
			}
			if more, err := p.batches(ctx, yield); err != nil {
				yield(nil, err)
				return
			} else if !more {
				return
			}
			r.drop(p.URL)
		}
	}
}

func (p *Piece) batches(ctx context.Context, yield func(arrow.RecordBatch, error) bool) (more bool, err error) {
	b, err := p.open(ctx)
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

// Rows is how many there are.
func (r *Result) Rows() int {
	n := 0
	for _, p := range r.pieces {
		n += p.Rows
	}
	return n
}

func (r *Result) drop(url string) {
	if i := slices.Index(r.urls, url); i >= 0 {
		r.urls = slices.Delete(r.urls, i, i+1)
		drop(url)
	}
}

// Close has workers delete what they keep for the result and for the query's stages.
func (r *Result) Close() {
	for _, u := range r.urls {
		drop(u)
	}
	r.urls = nil
}

func drop(url string) {
	req, err := http.NewRequest(http.MethodDelete, url, nil)
	if err != nil {
		return
	}
	if res, err := http.DefaultClient.Do(req); err == nil {
		res.Body.Close()
	}
}
