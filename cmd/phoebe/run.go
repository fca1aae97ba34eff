package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/phoebe-sched/phoebe/bench"
	"github.com/phoebe-sched/phoebe/frontend/client"
	"github.com/phoebe-sched/phoebe/probe"
	"github.com/phoebe-sched/phoebe/worker/exec"
)

// clientFlags say how to reach a cluster.
type clientFlags struct {
	Connect   []string      `env:"PHOEBE_CONNECT" default:"127.0.0.1:7410" placeholder:"HOST:PORT" help:"Addresses of frontends. Default ${default}."`
	RetryFor  time.Duration `env:"PHOEBE_RETRY_FOR" default:"5s" placeholder:"D" help:"How long to look for a frontend while none answers, or none has a worker; and to wait for an answer that takes no running of tasks. Default ${default}."`
	TokenFile string        `env:"PHOEBE_TOKEN_FILE" placeholder:"FILE" help:"File with the token of a tenant (phoebe token makes one), which is told instead of the secret; beyond loopback with --tls-dir only. Default: none."`

	secretFlags
}

func (c *clientFlags) dial(log *slog.Logger, addrs []string) (*client.Client, error) {
	if c.RetryFor <= 0 {
		return nil, usage(fmt.Errorf("--retry-for is %v: it must be above 0", c.RetryFor))
	}
	cl, err := client.New(addrs, client.WithSecret(os.Getenv(secretVariable)), client.WithSecretFile(c.SecretFile), client.WithName("phoebe command line"), client.WithLogger(log),
		client.WithRetryFor(c.RetryFor), client.WithTokenFile(c.TokenFile), client.WithTLS(c.TLSDir))
	if err != nil {
		return nil, usage(fmt.Errorf("--connect, --secret-file, --token-file or --tls-dir: %w", err))
	}
	return cl, nil
}

// jobFlags are a job of equal tasks.
type jobFlags struct {
	Function     string        `placeholder:"NAME" group:"job" help:"What the workers run: echo, sleep, spin, fail, or a function of their own. Default: none."`
	Payload      string        `placeholder:"TEXT" group:"job" help:"Payload of each task. Default: empty."`
	PayloadFile  string        `placeholder:"FILE" group:"job" help:"File with that payload. Default: none."`
	Tasks        *int          `placeholder:"N" group:"job" help:"Number of tasks. Default 1."`
	TaskDuration string        `placeholder:"LAW" group:"job" help:"Tasks that sleep so long: fixed:D, job-exp:D (one exponential draw for all), task-exp:D (for each task), mix:90%5ms,10%200ms, pareto:ALPHA,D or lognormal:SIGMA,D (D is the mean). Default: none."`
	Seed         uint64        `placeholder:"N" group:"job" help:"Seed of --task-duration. Default 0."`
	ID           string        `name:"id" placeholder:"ULID" group:"job" help:"Id of the job; one that is submitted twice runs once. Default: a new one."`
	Tenant       string        `placeholder:"NAME" group:"job" help:"Who the job is for, where workers share fairly between tenants. Default: nobody."`
	Priority     int32         `placeholder:"N" group:"job" help:"Higher goes first, where workers queue by priority. Default 0."`
	Deadline     time.Duration `placeholder:"D" group:"job" help:"What has not ended by then ends as deadline exceeded. Default: none."`
	Class        string        `placeholder:"NAME" group:"job" help:"What its tasks may stand in the way of: regular; spare, which start only where nothing regular can, and are stopped, and tried again, where they stand in its way; or auto, which leaves it to the frontend. Default auto."`
	Due          time.Duration `placeholder:"D" group:"job" help:"With --class spare: from then on what has not started is regular. Default: from half of the deadline, or never."`
	Mode         string        `placeholder:"NAME" group:"job" help:"Which path places its tasks: sample, which suits short ones, estimate, which suits long ones, or auto. Default auto."`
	Files        []string      `name:"file" sep:"none" placeholder:"URL#sha256=HEX" group:"job" help:"A file that each task needs on the worker's disk: fetched before its turn, and checked. May be repeated. Default: none."`
	JobPolicy    string        `name:"policy" placeholder:"NAME" group:"job" help:"How its tasks are placed: ${policies}. Default: what the frontend was started with."`
	ProbeRatio   float64       `placeholder:"N" group:"job" help:"Reservations sent for each task, 1 to 10. Default: what the frontend was started with."`
	Labels       []string      `placeholder:"SELECTOR" group:"job" help:"Labels that workers must have: key=value, key!=value, key, !key. Default: any."`
	Hosts        []string      `placeholder:"NAME" group:"job" help:"Hosts or workers that it may run on. Default: any."`
	CPU          int32         `placeholder:"N" group:"job" help:"CPU that each task occupies, in millicores. Default 1000."`
	Memory       int32         `placeholder:"N" group:"job" help:"Memory that each task occupies, in MiB. Default 256."`
	Estimate     time.Duration `placeholder:"D" group:"job" help:"Expected run time of a task. Default: unknown."`
	Timeout      time.Duration `placeholder:"D" group:"job" help:"Longest run time of one attempt at a task. Default: none."`
	Retries      int           `placeholder:"N" group:"job" help:"How often a task is tried again that fails by itself. Default 0."`
	Backoff      time.Duration `placeholder:"D" group:"job" help:"How long a task rests before it is tried again the first time; before each further time twice as long, up to a minute. Default: not at all."`
	Once         bool          `group:"job" help:"Start each task at most once: one that is lost with its worker fails. Default: no."`
	Phases       bool          `group:"job" help:"Print when each phase of a task was reached. Default: no."`
}

type runCmd struct {
	Job     string   `placeholder:"FILE" help:"YAML or JSON file with the job, or - for standard input, instead of the flags for it. Default: none."`
	Command []string `arg:"" optional:"" help:"Program and arguments to run as a process in each task, after --; the workers must allow it."`
	JSON    bool     `name:"json" help:"Print each outcome as a line of JSON. Default: tab-separated text."`
	Output  string   `placeholder:"DIR" help:"Folder for the results, which may be of any size: that of task 0 becomes the file 0. What is larger than travels with an outcome needs workers with --cache-dir. Default: none, they are printed."`

	jobFlags
	clientFlags
}

// Help says what is printed.
func (c *runCmd) Help() string {
	return `  phoebe run --function echo --payload hello
  phoebe run --task-duration task-exp:20ms --tasks 1000
  phoebe run --tasks 3 -- sh -c 'echo hello from $$'
  phoebe run --job job.yaml, where job.yaml is:

    deadline: 10s
    tasks:
      - function: echo
        payload: hello
        count: 20
      - command: {argv: [sort, -n], stdin: "2\n1\n"}
        timeout: 2s

A job file's keys are id, tenant, priority, deadline, class, due, mode, policy, probe-ratio, labels, hosts, phases, stages
and tasks; those of its tasks are count, stage, function, payload, payload-base64, command (argv, env, dir, stdin), cpu,
memory, estimate, timeout, retries, backoff, once, labels, hosts, inputs and files. They mean what the flags mean. The
tasks of a stage start when all of those that it comes after have results:

    stages: [{name: map}, {name: reduce, after: [map]}]
    tasks:
      - {stage: map, function: sleep, payload: 2s, estimate: 2s, count: 8}
      - {stage: reduce, function: echo, payload: done, inputs: [{stage: map, bytes: 500000000}]}

An input has bytes, and the stage whose output it is or copies, each with at (a host or worker), rack and memory (true if
it is not on disk); tasks are placed near their inputs. A file has url (http, https or file), sha256 and bytes.

Outcomes are printed as tasks end: task, outcome, run time, worker, result or error. The job's handle and a
summary go to stderr. An interrupt cancels the job. With --output the results become files, and their names are printed:

  phoebe run --output results --tasks 3 -- sh -c 'seq 1000000'

Exit codes: 0 all results, 1 a task failed, 2 wrong usage or an invalid job, 3 refused (as when no worker has
the function) or unreachable, 4 cancelled or past the deadline, 130 interrupted. A job that is refused as overload is
submitted again until its deadline; without one, until it is taken.`
}

// Run runs a job.
func (c *runCmd) Run(ctx context.Context, out *streams, log *slog.Logger) error {
	job, err := c.job(os.Stdin)
	if err != nil {
		return usage(err)
	}
	cl, err := c.dial(log, c.Connect)
	if err != nil {
		return err
	}
	defer cl.Close()
	if c.Output != "" {
		job.LargeResults = true
		if err := os.MkdirAll(c.Output, 0o777); err != nil {
			return usage(fmt.Errorf("--output: %w", err))
		}
	}
	began := time.Now()
	running, err := cl.Submit(ctx, job)
	if err != nil {
		err = allowExec(err)
		return jobError(ctx, err)
	}
	fmt.Fprintf(out.err, "job %s\n", handleText(running.Handle()))
	progress := bench.NewProgress(os.Stderr)
	defer progress.Clear()
	t, tooLarge := tally{of: len(job.Tasks)}, false
	print := printText
	if c.JSON {
		print = printJSON
	}
	for o, err := range running.Results() {
		if o.Task < 0 {
			progress.Clear()
			fmt.Fprintf(out.err, "%s in %v\n", t.summary(), time.Since(began).Round(10*time.Microsecond))
			return jobError(ctx, err)
		}
		file := ""
		if c.Output != "" && o.Err == nil {
			if file, err = save(ctx, cl, c.Output, &o); err != nil {
				return fmt.Errorf("--output: %w", err)
			}
		}
		t.add(&o)
		progress.Clear()
		if err := print(out.out, &o, file); err != nil {
			return err
		}
		if failed, ok := errors.AsType[*client.TaskError](o.Err); ok && failed.Reason == client.ResultTooLarge && c.Output == "" {
			tooLarge = true
		}
		progress.Set("%s", t.bar(time.Since(began)))
	}
	progress.Clear()
	fmt.Fprintf(out.err, "%s in %v\n", t.summary(), time.Since(began).Round(10*time.Microsecond))
	if tooLarge {
		fmt.Fprintln(out.err, "results of any size become files with --output DIR")
	}
	switch {
	case ctx.Err() != nil:
		return jobError(ctx, ctx.Err())
	case t.cut > 0:
		return &exitError{exitCancelled, nil}
	case t.failed > 0:
		return &exitError{exitFailed, nil}
	}
	return nil
}

// save writes the result of a task into a folder, and returns the name of the file. What cannot be read of it is the task's error.
func save(ctx context.Context, c *client.Client, dir string, o *client.Outcome) (name string, err error) {
	result, err := c.Open(ctx, *o)
	if err != nil {
		o.Err = err
		return "", nil
	}
	defer result.Close()
	name = filepath.Join(dir, strconv.Itoa(o.Task))
	file, err := os.Create(name + ".part")
	if err != nil {
		return "", err
	}
	defer os.Remove(file.Name()) // unless it is complete
	from := &reading{Reader: result}
	_, err = io.Copy(file, from)
	if err = errors.Join(err, file.Close()); from.err != nil {
		o.Err = from.err
		return "", nil
	}
	if err == nil {
		err = os.Rename(file.Name(), name)
	}
	return name, err
}

// reading keeps what went wrong with a Reader.
type reading struct {
	io.Reader
	err error
}

func (r *reading) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	if err != nil && err != io.EOF {
		r.err = err
	}
	return n, err
}

// allowExec says, with a refusal for want of the function that runs processes, how workers come to have it.
func allowExec(err error) error {
	var refused *client.RefusedError
	if errors.As(err, &refused) && refused.Reason == client.NoWorker && strings.Contains(refused.Message, fmt.Sprintf("function %q", execFunction)) {
		return fmt.Errorf("%w: commands run on workers that were started with --allow-exec", err)
	}
	return err
}

// jobError gives the failure of a whole job its exit code.
func jobError(ctx context.Context, err error) error {
	if exit := interruption(ctx); exit != nil {
		return &exitError{exit.code, fmt.Errorf("the job is cancelled: %w", exit.err)}
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return &exitError{exitCancelled, err}
	}
	var refused *client.RefusedError
	if errors.As(err, &refused) && (refused.Reason == client.Invalid || refused.Reason == client.TooLarge) {
		return usage(err)
	}
	return &exitError{exitUnavailable, err}
}

// job makes a job of the flags, or of the file that they name.
func (c *runCmd) job(stdin io.Reader) (client.Job, error) {
	f := &c.jobFlags
	if c.Job != "" {
		given := *f
		given.Labels, given.Hosts, given.Files = nil, nil, nil
		if fmt.Sprint(given) != fmt.Sprint(jobFlags{}) || len(f.Labels)+len(f.Hosts)+len(f.Files) > 0 || len(c.Command) > 0 {
			return client.Job{}, errors.New("--job and flags that describe a job: write all of it into the file")
		}
		return readJob(c.Job, stdin)
	}
	n := 1
	if f.Tasks != nil {
		n = *f.Tasks
	}
	if n < 1 || n > maxTasks {
		return client.Job{}, fmt.Errorf("--tasks is %d: it must be from 1 to %d", n, maxTasks)
	}
	task := client.Task{
		Function: f.Function, Payload: []byte(f.Payload), Demand: client.Demand{CPU: f.CPU, Memory: f.Memory},
		Estimate: f.Estimate, Timeout: f.Timeout, Retries: f.Retries, Backoff: f.Backoff, Once: f.Once,
	}
	job := client.Job{
		ID: f.ID, Tenant: f.Tenant, Priority: f.Priority, Deadline: f.Deadline, Class: client.Class(f.Class), Due: f.Due, Mode: client.Mode(f.Mode), Policy: client.Policy(f.JobPolicy), ProbeRatio: f.ProbeRatio,
		Constraint: client.Constraint{Labels: f.Labels, Hosts: f.Hosts}, Phases: f.Phases,
	}
	what := 0
	for _, given := range []bool{f.Function != "", f.TaskDuration != "", len(c.Command) > 0} {
		if given {
			what++
		}
	}
	payload := f.Payload != "" || f.PayloadFile != ""
	switch {
	case what == 0:
		return job, errors.New("what shall it run? give --function, --task-duration, --job or a command after --")
	case what > 1 || payload && f.Function == "":
		return job, errors.New("--function with its payload, --task-duration and a command after -- exclude each other: choose one")
	case f.Payload != "" && f.PayloadFile != "":
		return job, errors.New("both --payload and --payload-file: choose one")
	}
	if err := f.check(); err != nil {
		return job, err
	}
	var err error
	if task.Files, err = parseFiles(f.Files); err != nil {
		return job, err
	}
	switch {
	case f.PayloadFile != "":
		if task.Payload, err = os.ReadFile(f.PayloadFile); err != nil {
			return job, fmt.Errorf("--payload-file: %w", err)
		}
	case len(c.Command) > 0:
		argv := c.Command
		if argv[0] == "--" {
			argv = argv[1:]
		}
		task.Function, task.Class = execFunction, filepath.Base(argv[0])
		if task.Payload, err = (exec.Command{Argv: argv}).Encode(); err != nil {
			return job, err
		}
	}
	job.Tasks = slices.Repeat([]client.Task{task}, n)
	if f.TaskDuration != "" {
		law, err := bench.ParseDurations(f.TaskDuration)
		if err != nil {
			return job, fmt.Errorf("--task-duration: %w", err)
		}
		durations := make([]time.Duration, n)
		law.Draw(rand.New(rand.NewPCG(f.Seed, 0)), durations)
		for i, d := range durations {
			job.Tasks[i].Function, job.Tasks[i].Payload = "sleep", []byte(d.String())
		}
	}
	return job, nil
}

// check says what no frontend would take, before one is looked for.
func (f *jobFlags) check() error {
	var errs []error
	for _, n := range []struct {
		flag string
		is   int64
		text string
	}{
		{"deadline", int64(f.Deadline), f.Deadline.String()}, {"estimate", int64(f.Estimate), f.Estimate.String()}, {"timeout", int64(f.Timeout), f.Timeout.String()},
		{"backoff", int64(f.Backoff), f.Backoff.String()}, {"retries", int64(f.Retries), strconv.Itoa(f.Retries)}, {"cpu", int64(f.CPU), strconv.Itoa(int(f.CPU))}, {"memory", int64(f.Memory), strconv.Itoa(int(f.Memory))},
	} {
		if n.is < 0 {
			errs = append(errs, fmt.Errorf("--%s is %s: it must not be negative", n.flag, n.text))
		}
	}
	if f.ID != "" {
		if _, err := probe.ParseJobID(f.ID); err != nil {
			errs = append(errs, fmt.Errorf("--id: %w", err))
		}
	}
	return errors.Join(errs...)
}

// parseFiles reads the values of --file.
func parseFiles(texts []string) ([]client.File, error) {
	var files []client.File
	for _, text := range texts {
		url, digest, ok := strings.Cut(text, "#sha256=")
		if !ok || url == "" {
			return nil, fmt.Errorf("--file %q: want URL#sha256=HEX, with what sha256sum prints for the file", text)
		}
		files = append(files, client.File{URL: url, SHA256: digest})
	}
	return files, nil
}

// tally counts outcomes.
type tally struct {
	of, results, failed int
	cut                 int // cancelled, or the deadline exceeded
}

func (t *tally) add(o *client.Outcome) {
	switch outcomeWord(o) {
	case "result":
		t.results++
	case "failed":
		t.failed++
	default:
		t.cut++
	}
}

func (t *tally) bar(elapsed time.Duration) string {
	const width = 30
	done := t.results + t.failed + t.cut
	full := width * done / t.of
	return fmt.Sprintf("[%s%s] %d of %d tasks, %d failed, %v", strings.Repeat("#", full), strings.Repeat(".", width-full), done, t.of,
		t.failed, elapsed.Round(100*time.Millisecond))
}

func (t *tally) summary() string {
	s := fmt.Sprintf("%d of %d tasks have results", t.results, t.of)
	if t.failed > 0 {
		s += fmt.Sprintf(", %d failed", t.failed)
	}
	if t.cut > 0 {
		s += fmt.Sprintf(", %d were cancelled or past the deadline", t.cut)
	}
	return s
}

func outcomeWord(o *client.Outcome) string {
	var failure *client.TaskError
	switch {
	case o.Err == nil:
		return "result"
	case errors.As(o.Err, &failure) && (failure.Reason == client.Cancelled || failure.Reason == client.DeadlineExceeded):
		return strings.ReplaceAll(failure.Reason.String(), " ", "-")
	}
	return "failed"
}

// printText prints an outcome. The file is what has its result, if there is one.
func printText(w io.Writer, o *client.Outcome, file string) error {
	what := plain(o.Result)
	switch {
	case o.Err != nil:
		what = plain([]byte(o.Err.Error()))
	case file != "":
		what = plain([]byte(file))
	}
	line := fmt.Sprintf("%d\t%s\t%v\t%s\t%s\n", o.Task, outcomeWord(o), o.Run, cmp.Or(o.Worker, "-"), what)
	if p := o.Phases; p != nil {
		line += fmt.Sprintf("\tsampled %v, queued %v, ready %v, bound %v, started %v, finished %v, delivered %v\n",
			p.Sampled, p.Queued, p.Ready, p.Bound, p.Started, p.Finished, p.Delivered)
	}
	_, err := io.WriteString(w, line)
	return err
}

// plain is text as it is if it can stand in a line, else quoted as Go does.
func plain(b []byte) string {
	s := strings.TrimSuffix(string(b), "\n")
	for _, r := range s {
		if r == utf8.RuneError || !strconv.IsPrint(r) {
			return strconv.Quote(s)
		}
	}
	return s
}

// outcomeJSON is a line of `phoebe run --json`.
type outcomeJSON struct {
	Task         int         `json:"task"`
	Outcome      string      `json:"outcome"` // result, failed, cancelled or deadline-exceeded
	Result       *string     `json:"result,omitempty"`
	ResultBase64 []byte      `json:"result_base64,omitempty"` // instead, if it is not UTF-8
	ResultFile   string      `json:"result_file,omitempty"`   // instead, with --output
	Reason       string      `json:"reason,omitempty"`
	Error        string      `json:"error,omitempty"`
	Worker       string      `json:"worker,omitempty"`
	Attempts     int         `json:"attempts"`
	RunMS        float64     `json:"run_ms"`
	Usage        *usageJSON  `json:"usage,omitempty"`
	Phases       *phasesJSON `json:"phases_us,omitempty"`
}

// usageJSON is what an attempt used, as far as its worker can tell.
type usageJSON struct {
	CPUMicros   int64 `json:"cpu_us"`
	MemoryMiB   int32 `json:"memory_mib"`
	Fetched     int64 `json:"fetched_bytes"`
	FetchMicros int64 `json:"fetch_us"`
}

func usageOf(u client.Usage) *usageJSON {
	if u == (client.Usage{}) {
		return nil
	}
	return &usageJSON{CPUMicros: u.CPU.Microseconds(), MemoryMiB: u.Memory, Fetched: u.Fetched, FetchMicros: u.Fetch.Microseconds()}
}

type phasesJSON struct {
	Sampled   int64 `json:"sampled"`
	Queued    int64 `json:"queued"`
	Ready     int64 `json:"ready"`
	Bound     int64 `json:"bound"`
	Started   int64 `json:"started"`
	Finished  int64 `json:"finished"`
	Delivered int64 `json:"delivered"`
}

func printJSON(w io.Writer, o *client.Outcome, file string) error {
	line := outcomeJSON{Task: o.Task, Outcome: outcomeWord(o), Worker: o.Worker, Attempts: o.Attempts, RunMS: float64(o.Run) / 1e6, Usage: usageOf(o.Usage)}
	var failure *client.TaskError
	switch {
	case errors.As(o.Err, &failure):
		line.Reason, line.Error = failure.Reason.String(), failure.Message
		line.Worker, line.Attempts = failure.Worker, failure.Attempts
	case o.Err != nil:
		line.Error = o.Err.Error()
	case file != "":
		line.ResultFile = file
	case utf8.Valid(o.Result):
		text := string(o.Result)
		line.Result = &text
	default:
		line.ResultBase64 = o.Result
	}
	if p := o.Phases; p != nil {
		line.Phases = &phasesJSON{
			Sampled: p.Sampled.Microseconds(), Queued: p.Queued.Microseconds(), Ready: p.Ready.Microseconds(),
			Bound: p.Bound.Microseconds(), Started: p.Started.Microseconds(), Finished: p.Finished.Microseconds(),
			Delivered: p.Delivered.Microseconds(),
		}
	}
	return json.NewEncoder(w).Encode(line)
}
