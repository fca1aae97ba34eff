// Command phoebe-tpch is a query engine on phoebe: TPC-H over DuckDB, split into tasks.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/alecthomas/kong"

	"github.com/phoebe-sched/phoebe/bench/tpch/data"
	"github.com/phoebe-sched/phoebe/bench/tpch/engine"
	"github.com/phoebe-sched/phoebe/bench/tpch/plan"
	"github.com/phoebe-sched/phoebe/frontend/client"
	"github.com/phoebe-sched/phoebe/worker/serve"
)

type cli struct {
	Data string `default:"out/tpch" placeholder:"DIR" help:"Folder of the data. Default ${default}."`

	Gen    genCmd    `cmd:"" help:"Make the data: tables as Parquet files, partitioned by key, each file at two nodes."`
	Worker workerCmd `cmd:"" help:"Run a worker: fragments of queries, for frontends."`
	SQL    sqlCmd    `cmd:"" name:"sql" help:"Run a query and print the rows."`
	Query  queryCmd  `cmd:"" help:"Run a query of TPC-H, by number, and print the rows."`
	Check  checkCmd  `cmd:"" help:"Run the 22 queries, and compare the rows with DuckDB alone, with SQLite and with the published answers."`
	Fuzz   fuzzCmd   `cmd:"" set:"rows=10000" help:"Run random queries, and compare the rows with DuckDB alone and with SQLite."`
	Bench  benchCmd  `cmd:"" help:"Measure response times under load, beside other policies, the ideal and DuckDB alone."`
}

func main() {
	var c cli
	k := kong.Parse(&c, kong.Name("phoebe-tpch"),
		kong.Description("A query engine on phoebe: TPC-H over DuckDB, split into tasks."), kong.UsageOnError(),
		kong.Vars{"rows": "1000000"}) // fuzz has fewer, so that stages have several tasks at a small scale factor
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	k.BindTo(ctx, (*context.Context)(nil))
	k.FatalIfErrorf(k.Run(&c))
}

type genCmd struct {
	SF    []float64 `name:"sf" default:"0.01" placeholder:"X,..." help:"Scale factors. Default ${default}."`
	Nodes int       `default:"4" placeholder:"N" help:"Number of nodes with data. Default ${default}."`
}

func (g *genCmd) Run(c *cli) error {
	for _, sf := range g.SF {
		if err := data.Gen(c.Data, sf, g.Nodes, os.Stderr); err != nil {
			return err
		}
	}
	return nil
}

type workerCmd struct {
	Node       string   `required:"" placeholder:"NAME" help:"Node of the data: this worker has the files of the node."`
	Listen     string   `default:"127.0.0.1:0" placeholder:"HOST:PORT" help:"Where frontends connect; port 0 takes a free port. Files are served at another port of the same host. Default ${default}."`
	Join       []string `placeholder:"HOST:PORT" help:"Heartbeat addresses of some frontends: the worker announces itself there. Default: frontends must list the worker."`
	Slots      int      `default:"1" placeholder:"N" help:"Number of fragments at once, each on a thread of its own. Default ${default}."`
	Memory     int64    `default:"2048" placeholder:"MiB" help:"Memory for all fragments together. Default ${default}."`
	SecretFile string   `placeholder:"FILE" help:"File with the secret of the frontends. Default: none."`
}

func (w *workerCmd) Run(ctx context.Context, c *cli) error {
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	temp, err := os.MkdirTemp("", "phoebe-tpch")
	if err != nil {
		return err
	}
	host, _, err := net.SplitHostPort(w.Listen)
	if err != nil {
		return err
	}
	run, err := engine.NewWorker(engine.WorkerConfig{Listen: net.JoinHostPort(host, "0"),
		Data: filepath.Join(c.Data, w.Node), Temp: temp, Slots: w.Slots, Memory: w.Memory, Log: log})
	if err != nil {
		return err
	}
	defer run.Close()
	cfg := serve.Config{Listen: w.Listen, Join: w.Join, Goroutines: true, Logger: log}
	if w.SecretFile != "" {
		b, err := os.ReadFile(w.SecretFile)
		if err != nil {
			return err
		}
		cfg.Secret = strings.TrimSpace(string(b))
	}
	if err := run.Configure(&cfg, w.Node); err != nil {
		return err
	}
	s, err := serve.New(cfg)
	if err != nil {
		return err
	}
	if err := s.Start(); err != nil {
		return errors.Join(err, s.Close())
	}
	fmt.Println("worker", s.Addr())
	select {
	case <-ctx.Done():
		drain, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		return errors.Join(s.Drain(drain), s.Close())
	case <-s.Done():
		return errors.Join(s.Err(), s.Close())
	}
}

// clusterFlags say where and how queries run.
type clusterFlags struct {
	Connect []string `placeholder:"HOST:PORT,..." help:"Frontends: each takes any query. Default: a cluster in this process."`
	Memory  int32    `default:"512" placeholder:"MiB" help:"Memory of each task. Default ${default}."`
	Tenant  string   `placeholder:"NAME" help:"Tenant of the queries."`
	Blind   bool     `help:"Do not tell phoebe where the files of tasks are."`
	Rows    int      `default:"${rows}" placeholder:"N" help:"Least number of rows of the largest table for each task, if a node has enough rows; 1 makes a task for each file. Default ${default}."`
	Policy  string   `placeholder:"NAME" help:"Policy for placing tasks. Default: the frontend's own policy."`
	Class   string   `placeholder:"NAME" help:"regular; or spare: run only where no regular task can. Default: regular."`

	SecretFile string `placeholder:"FILE" help:"File with the secret of the frontends. Default: none."`
}

// queryOptions returns the options of a query, by the flags.
func (f *clusterFlags) queryOptions() engine.Options {
	return engine.Options{Tenant: f.Tenant, Class: client.Class(f.Class), Memory: f.Memory, Blind: f.Blind,
		Policy: client.Policy(f.Policy)}
}

// openEngine returns an engine for the data of a scale factor. Without --connect, openEngine starts a cluster
// in this process. The caller must call close.
func (f *clusterFlags) openEngine(c *cli, sf float64) (e *engine.Engine, m *data.Manifest, close func(), err error) {
	if m, err = data.Read(c.Data, sf); err != nil {
		return nil, nil, nil, err
	}
	var undo []func()
	close = func() {
		for _, u := range slices.Backward(undo) {
			u()
		}
	}
	frontends := f.Connect
	if len(frontends) == 0 {
		cluster, err := engine.StartCluster(c.Data, m.Nodes, 1, 2048)
		if err != nil {
			return nil, nil, nil, err
		}
		undo = append(undo, func() { cluster.Close() })
		frontends = cluster.Frontends()
	}
	opts := []client.Option{client.WithName("phoebe-tpch")}
	if f.SecretFile != "" {
		opts = append(opts, client.WithSecretFile(f.SecretFile))
	}
	cl, err := client.New(frontends, opts...)
	if err != nil {
		close()
		return nil, nil, nil, err
	}
	undo = append(undo, func() { cl.Close() })
	if e, err = engine.New(cl, data.NewCatalog(m, f.Rows)); err != nil {
		close()
		return nil, nil, nil, err
	}
	undo = append(undo, func() { e.Close() })
	return e, m, close, nil
}

// queryFlags are the flags of the commands for one query.
type queryFlags struct {
	clusterFlags
	SF      float64 `name:"sf" default:"0.01" placeholder:"X" help:"Scale factor of the data. Default ${default}."`
	Explain bool    `help:"Print the plan without running the query."`
	Timings bool    `help:"Print on stderr the time of each stage, and the workers of the tasks."`
}

type sqlCmd struct {
	queryFlags
	Text string `arg:"" help:"The query."`
}

func (s *sqlCmd) Run(ctx context.Context, c *cli) error {
	return s.runQuery(ctx, c, func(*data.Manifest) (string, error) { return s.Text, nil })
}

type queryCmd struct {
	queryFlags
	N int `arg:"" help:"Number of the query, from 1 to 22."`
}

func (q *queryCmd) Run(ctx context.Context, c *cli) error {
	return q.runQuery(ctx, c, func(m *data.Manifest) (string, error) {
		if q.N < 1 || q.N > len(m.Queries) {
			return "", fmt.Errorf("there is no query %d: give a number from 1 to %d", q.N, len(m.Queries))
		}
		return m.Queries[q.N-1], nil
	})
}

// runQuery runs a query and prints the rows; with --explain it only prints the plan.
func (s *queryFlags) runQuery(ctx context.Context, c *cli, text func(*data.Manifest) (string, error)) error {
	if s.Explain {
		m, err := data.Read(c.Data, s.SF)
		if err != nil {
			return err
		}
		q, err := text(m)
		if err != nil {
			return err
		}
		p, err := data.NewCatalog(m, s.Rows).Planner()
		if err != nil {
			return err
		}
		defer p.Close()
		planned, err := p.Plan(ctx, q)
		if err != nil {
			return err
		}
		printPlan(os.Stdout, planned)
		return nil
	}
	e, m, close, err := s.openEngine(c, s.SF)
	if err != nil {
		return err
	}
	defer close()
	q, err := text(m)
	if err != nil {
		return err
	}
	r, err := e.Query(ctx, q, s.queryOptions())
	if err != nil {
		return err
	}
	defer r.Close()
	if err := printRows(ctx, os.Stdout, r); err != nil {
		return err
	}
	if s.Timings {
		printTimings(os.Stderr, &r.Stats)
	}
	return nil
}

// printRows writes rows as the rows arrive. The columns are as wide as the rows of the first batch need.
func printRows(ctx context.Context, out io.Writer, r *engine.Result) error {
	var widths []int
	line := func(cells []string) {
		var b strings.Builder
		for i, c := range cells {
			fmt.Fprintf(&b, "%-*s  ", widths[i], c)
		}
		fmt.Fprintln(out, strings.TrimRight(b.String(), " "))
	}
	var head []string
	for _, c := range r.Columns {
		head = append(head, c.Name)
		widths = append(widths, len(c.Name))
	}
	first := true
	for b, err := range r.Batches(ctx) {
		if err != nil {
			return err
		}
		rows := engine.Text(b)
		if first {
			for _, row := range rows {
				for i, c := range row {
					widths[i] = max(widths[i], len(c))
				}
			}
			line(head)
			first = false
		}
		for _, row := range rows {
			line(row)
		}
	}
	if first {
		line(head)
	}
	return nil
}

// printPlan writes the stages of a plan, with the SQL.
func printPlan(out io.Writer, p *plan.Plan) {
	for _, s := range p.Stages {
		fmt.Fprintf(out, "%s: %d tasks", s.Name, s.Tasks)
		if s.Class != "" {
			fmt.Fprintf(out, ", by %s", s.Class)
		}
		if len(s.Tables) > 0 {
			fmt.Fprintf(out, ", read %s", strings.Join(s.Tables, ", "))
		}
		for _, in := range s.Inputs {
			how := "all"
			if in.Spread == plan.Partitioned {
				how = "a bucket"
			}
			fmt.Fprintf(out, ", %s of %s", how, p.Stages[in.Stage].Name)
		}
		if s.Buckets > 0 {
			fmt.Fprintf(out, ", into %d buckets", s.Buckets)
		}
		if s.Enough >= 0 {
			fmt.Fprintf(out, ", until there are %d rows", s.Enough)
		}
		fmt.Fprintf(out, "\n  %s\n", s.SQL)
	}
}

// printTimings writes the time of each stage, and the workers that ran the tasks.
func printTimings(out io.Writer, s *engine.Stats) {
	fmt.Fprintf(out, "planned in %v, done after %v; %d tasks read their tables where they ran, %d fetched some\n",
		s.Planning, s.Total, s.Local, s.Remote)
	for _, b := range s.Bad {
		fmt.Fprintln(out, "  read elsewhere:", b)
	}
	for _, st := range s.Stages {
		at := map[string]int{}
		var run time.Duration
		for _, t := range st.Tasks {
			at[t.Worker]++
			run += t.Run
		}
		fmt.Fprintf(out, "  %s: from %v, took %v; %d tasks ran %v together, made %d rows, %d bytes; %v\n",
			st.Name, st.Start.Round(time.Microsecond), st.Took.Round(time.Microsecond), len(st.Tasks),
			run.Round(time.Microsecond), st.Rows, st.Bytes, at)
	}
}
