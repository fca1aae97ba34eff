package main

import (
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
	"github.com/phoebe-sched/phoebe/frontend/client/admin"
	"github.com/phoebe-sched/phoebe/probe"
	"github.com/phoebe-sched/phoebe/probe/names"
	"github.com/phoebe-sched/phoebe/probe/whole"
	"github.com/phoebe-sched/phoebe/worker/exec"
)

// clientFlags say how to reach a cluster.
type clientFlags struct {
	Connect   []string      `env:"PHOEBE_CONNECT" default:"127.0.0.1:7410" placeholder:"HOST:PORT" help:"Addresses of frontends. Default ${default}."`
	RetryFor  time.Duration `env:"PHOEBE_RETRY_FOR" default:"5s" placeholder:"D" help:"How long to try until a frontend answers and has a worker. Answers other than results must come within D, too. Default ${default}."`
	TokenFile string        `env:"PHOEBE_TOKEN_FILE" placeholder:"FILE" help:"File with a tenant's token, sent in place of the secret (phoebe token makes one). Beyond loopback only with --tls-dir. Default: none."`

	secretFlags
}

var errNoConnect = usageError(errors.New("--connect names no frontend: give HOST:PORT, or leave PHOEBE_CONNECT unset"))

// newClient makes a client for frontends at addrs.
func (c *clientFlags) newClient(log *slog.Logger, addrs []string) (*admin.Client, error) {
	if c.RetryFor <= 0 {
		return nil, usageError(fmt.Errorf("--retry-for is %v: it must be above 0", c.RetryFor))
	}
	if len(addrs) == 0 {
		return nil, errNoConnect
	}
	// The client checks the same, but the errors here name the flag.
	for _, addr := range c.Connect {
		if err := names.Check(addr); err != nil {
			return nil, usageError(fmt.Errorf("--connect %w", err))
		}
	}
	if c.TokenFile != "" {
		if _, err := os.Stat(c.TokenFile); err != nil {
			return nil, usageError(fmt.Errorf("--token-file: %w: phoebe token makes such a file", err))
		}
	}
	cl, err := client.New(addrs, client.WithSecret(os.Getenv(secretVariable)), client.WithSecretFile(c.SecretFile),
		client.WithName("phoebe command line"), client.WithLogger(log),
		client.WithRetryFor(c.RetryFor), client.WithTokenFile(c.TokenFile), client.WithTLS(c.TLSDir))
	if err != nil {
		return nil, usageError(fmt.Errorf("--connect, --secret-file, --token-file or --tls-dir: %w", err))
	}
	return admin.New(cl), nil
}

// jobFlags describe a job of equal tasks.
type jobFlags struct {
	Function     string        `placeholder:"NAME" group:"job" help:"Function to run: echo, sleep, spin, fail, or a function that the workers add. Default: none."`
	Payload      string        `placeholder:"TEXT" group:"job" help:"Payload of each task. Default: empty."`
	PayloadFile  string        `placeholder:"FILE" group:"job" help:"File with the payload of each task. Default: none."`
	Tasks        *int          `placeholder:"N" group:"job" help:"Number of tasks. Default 1."`
	TaskDuration string        `placeholder:"LAW" group:"job" help:"Run tasks that sleep: fixed:D, job-exp:D (one exponential draw for all), task-exp:D (one for each task), mix:90%5ms,10%200ms, pareto:ALPHA,D or lognormal:SIGMA,D (D is the mean). Default: none."`
	Seed         uint64        `placeholder:"N" group:"job" help:"Seed of --task-duration. Default 0."`
	ID           string        `name:"id" placeholder:"ULID" group:"job" help:"Id of the job. Two submissions with the same id run once. Default: a new id."`
	Tenant       string        `placeholder:"NAME" group:"job" help:"Tenant of the job. Workers with --order fair share slots fairly between tenants. Default: none."`
	Priority     int32         `placeholder:"N" group:"job" help:"Tasks of higher priority start before other tasks of the tenant, and with workers of --order priority before all. Default 0."`
	Deadline     time.Duration `placeholder:"D" group:"job" help:"Tasks that have not ended after D end as deadline exceeded. Default: none."`
	Class        string        `placeholder:"NAME" group:"job" help:"regular, spare or auto. Spare tasks start only where no regular task can; if regular tasks need the room, spare tasks are stopped and retried. With auto, the frontend chooses. Default auto."`
	Due          time.Duration `placeholder:"D" group:"job" help:"With --class spare: after D, tasks that have not started are regular. Default: half of the deadline, or never without a deadline."`
	Mode         string        `placeholder:"NAME" group:"job" help:"How to place tasks: sample (good for short tasks), estimate (good for long tasks), or auto. Default auto."`
	Files        []string      `name:"file" sep:"none" placeholder:"URL#sha256=HEX" group:"job" help:"File that each task needs on the worker's disk. Fetched and checked before the task starts. May be repeated. Default: none."`
	JobPolicy    string        `name:"policy" placeholder:"NAME" group:"job" help:"Policy that places the tasks: ${policies}. Default: the frontend's."`
	ProbeRatio   float64       `placeholder:"N" group:"job" help:"Reservations (places in workers' queues) for each short task, 1 to 10. Default: the frontend's."`
	Labels       []string      `placeholder:"SELECTOR" group:"job" help:"Labels that workers must have: key=value, key!=value, key, !key. Default: any."`
	Hosts        []string      `placeholder:"NAME" group:"job" help:"Hosts or workers that the job may run on. Default: any."`
	CPU          int32         `placeholder:"N" group:"job" help:"CPU that each task occupies, in millicores. Default 1000."`
	Memory       int32         `placeholder:"N" group:"job" help:"Memory that each task occupies, in MiB. Default 256."`
	Estimate     time.Duration `placeholder:"D" group:"job" help:"Expected run time of a task. Default: unknown."`
	Timeout      time.Duration `placeholder:"D" group:"job" help:"Longest run time of an attempt. Default: none."`
	Retries      int           `placeholder:"N" group:"job" help:"How often to retry a task that fails by an error of its function. Default 0."`
	Backoff      time.Duration `placeholder:"D" group:"job" help:"Pause before the first retry of a task; twice as long before each further retry, up to a minute. Default: no pause."`
	Once         bool          `group:"job" help:"Start each task at most once: a task lost with its worker fails. Default: no."`
	Phases       bool          `group:"job" help:"Print when each phase of a task was reached. Default: no."`
}

type runCmd struct {
	Job     string   `placeholder:"FILE" help:"YAML or JSON file with the job, in place of the flags for the job; - is standard input. Default: none."`
	Command []string `arg:"" optional:"" help:"Program and arguments to run as a process in each task, after --. Needs workers with --allow-exec."`
	JSON    jsonFile `name:"json" placeholder:"FILE" help:"Write each outcome as a line of JSON to this file. ${jsonFile}"`
	Output  string   `placeholder:"DIR" help:"Folder for the results, of any size: the result of task 0 becomes the file 0. Results too large for an outcome need workers with --cache-dir. Default: none, results are printed."`

	jobFlags
	clientFlags
}

// Help returns the text below the usage line.
func (c *runCmd) Help() string {
	return `Examples:

  phoebe run --function echo --payload hello
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

Keys of a job file are id, tenant, priority, deadline, class, due, mode, policy, probe-ratio,
labels, hosts, phases, stages and tasks. Keys of a task are count, stage, function, payload,
payload-base64, command (argv, env, dir, stdin), cpu, memory, estimate, timeout, retries, backoff,
once, labels, hosts, inputs and files. They mean the same as the flags. A text needs no quotes, and
stays as written. The tasks of a stage start when all tasks of the stages in "after" have results:

    stages: [{name: map}, {name: reduce, after: [map]}]
    tasks:
      - {stage: map, function: sleep, payload: 2s, estimate: 2s, count: 8}
      - {stage: reduce, function: echo, payload: done, inputs: [{stage: map, bytes: 500000000}]}

An input has bytes, and either the stage whose output it is, or copies. A copy has at (a host or
worker), rack, and memory (true: not on disk). Tasks are placed near their inputs. A file has url
(http, https or file), sha256 and bytes.

Each task's outcome is printed when the task ends: task, outcome, run time, worker, result or error.
The job's handle and a summary go to stderr. An interrupt cancels the job. With --output the results
become files, and their names are printed:

  phoebe run --output results --tasks 3 -- sh -c 'seq 1000000'

Exit codes: 0 all tasks have results, 1 a task failed, 2 wrong usage or an invalid job, 3
unreachable or refused (for instance, no worker has the function), 4 cancelled or past the deadline,
130 interrupted. A job refused as overload is submitted again until a frontend takes the job, or
until its deadline.`
}

// unreadResults bounds the bytes of results that wait until the output takes them.
const unreadResults = 16 << 20

// Run runs a job.
func (c *runCmd) Run(ctx context.Context, out *streams, log *slog.Logger) error {
	job, err := c.makeJob(os.Stdin)
	if err != nil {
		return usageError(err)
	}
	cl, err := c.newClient(log, c.Connect)
	if err != nil {
		return err
	}
	defer cl.Close()
	job.Window = unreadResults
	if c.Output != "" {
		job.LargeResults = true
		if err := os.MkdirAll(c.Output, 0o777); err != nil {
			return usageError(fmt.Errorf("--output: %w", err))
		}
	}
	if err := checkReport(string(c.JSON)); err != nil {
		return usageError(fmt.Errorf("--json: %w", err))
	}
	t := tally{total: len(job.Tasks), began: time.Now()}
	running, err := cl.Submit(ctx, job)
	if err != nil {
		return jobError(ctx, withExecHint(err))
	}
	if c.JSON == "" {
		return c.followJob(ctx, cl, running, &t, out, func(o *client.Outcome, file string) error {
			return printText(out.out, o, file)
		})
	}
	var ended error // how the job ended: the file gets the outcomes in each case
	err = writeReport(out.out, string(c.JSON), func(w io.Writer) (broken error) {
		ended = c.followJob(ctx, cl, running, &t, out, func(o *client.Outcome, file string) error {
			if broken = printJSON(w, o, file); broken == nil && c.JSON != stdoutName {
				broken = printText(out.out, o, file)
			}
			return broken
		})
		return broken
	})
	if err != nil {
		return fmt.Errorf("--json: %w", err)
	}
	return ended
}

// followJob prints each outcome of a job when the task has ended. The error says how the job ended.
func (c *runCmd) followJob(ctx context.Context, cl *admin.Client, running *client.Running, t *tally, out *streams,
	print func(o *client.Outcome, file string) error) error {
	fmt.Fprintf(out.err, "job %s\n", handleText(running.Handle()))
	progress := bench.NewProgress(os.Stderr)
	defer progress.Clear()
	tooLarge := false
	for o, err := range running.Results() {
		if o.Task < 0 {
			progress.Clear()
			fmt.Fprintln(out.err, t.summaryLine())
			return jobError(ctx, err)
		}
		file := ""
		if c.Output != "" && o.Err == nil {
			if file, err = saveResult(ctx, cl, c.Output, &o); err != nil {
				return fmt.Errorf("--output: %w", err)
			}
		}
		t.countOutcome(&o)
		progress.Clear()
		if err := print(&o, file); err != nil {
			return err
		}
		if failed, ok := errors.AsType[*client.TaskError](o.Err); ok && failed.Reason == client.ResultTooLarge &&
			c.Output == "" {
			tooLarge = true
		}
		progress.Set("%s", t.progressBar())
	}
	progress.Clear()
	fmt.Fprintln(out.err, t.summaryLine())
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

// saveResult writes the result of a task into dir, and returns the file's name. If the result cannot be read from
// its worker, o.Err says why, and the name is empty. The file gets the name only when the content is complete.
func saveResult(ctx context.Context, c *admin.Client, dir string, o *client.Outcome) (name string, err error) {
	result, err := c.Open(ctx, *o)
	if err != nil {
		o.Err = err
		return "", nil
	}
	defer result.Close()
	name = filepath.Join(dir, strconv.Itoa(o.Task))
	from := &errReader{Reader: result}
	err = whole.Write(name, 0o666, func(w io.Writer) error {
		_, err := io.Copy(w, from)
		return err
	})
	if from.err != nil {
		o.Err = from.err
		return "", nil
	}
	return name, err
}

// errReader keeps the error of a Reader: saveResult must distinguish errors of the reader and of the file.
type errReader struct {
	io.Reader
	err error
}

func (r *errReader) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	if err != nil && err != io.EOF {
		r.err = err
	}
	return n, err
}

// withExecHint adds how to start a worker, if err says that no worker runs processes.
func withExecHint(err error) error {
	var refused *client.RefusedError
	if errors.As(err, &refused) && refused.Reason == client.NoWorker &&
		strings.Contains(refused.Message, fmt.Sprintf("function %q", execFunction)) {
		return fmt.Errorf("%w: start workers (or phoebe dev) with --allow-exec to run commands", err)
	}
	return err
}

// jobError gives the failure of a whole job its exit code.
func jobError(ctx context.Context, err error) error {
	if exit := interruptionExit(ctx); exit != nil {
		return &exitError{exit.code, fmt.Errorf("the job is cancelled: %w", exit.err)}
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return &exitError{exitCancelled, err}
	}
	var refused *client.RefusedError
	if errors.As(err, &refused) && (refused.Reason == client.Invalid || refused.Reason == client.TooLarge) {
		return usageError(err)
	}
	return &exitError{exitUnavailable, err}
}

// makeJob makes a job from the flags, or from the file of --job.
func (c *runCmd) makeJob(stdin io.Reader) (client.Job, error) {
	f := &c.jobFlags
	if c.Job != "" {
		given := *f
		given.Labels, given.Hosts, given.Files = nil, nil, nil
		if fmt.Sprint(given) != fmt.Sprint(jobFlags{}) || len(f.Labels)+len(f.Hosts)+len(f.Files) > 0 ||
			len(c.Command) > 0 {
			return client.Job{}, errors.New("--job and flags that describe a job: write the whole job into the file")
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
		ID: f.ID, Tenant: f.Tenant, Priority: f.Priority, Deadline: f.Deadline, Class: client.Class(f.Class),
		Due: f.Due, Mode: client.Mode(f.Mode), Policy: client.Policy(f.JobPolicy), ProbeRatio: f.ProbeRatio,
		Constraint: client.Constraint{Labels: f.Labels, Hosts: f.Hosts}, Phases: f.Phases,
	}
	ways := 0
	for _, given := range []bool{f.Function != "", f.TaskDuration != "", len(c.Command) > 0} {
		if given {
			ways++
		}
	}
	payload := f.Payload != "" || f.PayloadFile != ""
	switch {
	case ways == 0:
		return job, errors.New("nothing to run: give --function, --task-duration, --job or a command after --")
	case ways > 1 || payload && f.Function == "":
		return job, errors.New("--function with a payload, --task-duration and a command after --: choose one")
	case f.Payload != "" && f.PayloadFile != "":
		return job, errors.New("both --payload and --payload-file: choose one")
	}
	if err := f.checkFlags(); err != nil {
		return job, err
	}
	var err error
	if task.Files, err = parseFiles(f.Files); err != nil {
		return job, err
	}
	switch {
	case f.PayloadFile != "":
		if task.Payload, err = readBounded(f.PayloadFile); err != nil {
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

// maxInputFile bounds a file with a job or a payload, in bytes. No frontend takes larger requests by default.
const maxInputFile = 64 << 20

// readBounded reads a whole file of at most maxInputFile.
func readBounded(name string) ([]byte, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return readAllBounded(file, name)
}

// readAllBounded reads at most maxInputFile. name names the source in errors.
func readAllBounded(from io.Reader, name string) ([]byte, error) {
	text, err := io.ReadAll(io.LimitReader(from, maxInputFile+1))
	if err == nil && len(text) > maxInputFile {
		err = fmt.Errorf("%s has more than %d MiB: give less", name, maxInputFile>>20)
	}
	return text, err
}

// checkFlags reports values that every frontend would refuse, before the command connects.
func (f *jobFlags) checkFlags() error {
	var errs []error
	for _, n := range []struct {
		flag string
		is   int64
		text string
	}{
		{"deadline", int64(f.Deadline), f.Deadline.String()}, {"estimate", int64(f.Estimate), f.Estimate.String()},
		{"timeout", int64(f.Timeout), f.Timeout.String()},
		{"backoff", int64(f.Backoff), f.Backoff.String()}, {"retries", int64(f.Retries), strconv.Itoa(f.Retries)},
		{"cpu", int64(f.CPU), strconv.Itoa(int(f.CPU))}, {"memory", int64(f.Memory), strconv.Itoa(int(f.Memory))},
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
			return nil, fmt.Errorf("--file %q: want URL#sha256=HEX, where HEX is the digest that sha256sum prints for the file", text)
		}
		files = append(files, client.File{URL: url, SHA256: digest})
	}
	return files, nil
}

// tally counts outcomes.
type tally struct {
	total, results, failed int
	cut                    int // tasks cancelled or past the deadline
	began                  time.Time
}

// countOutcome counts an outcome.
func (t *tally) countOutcome(o *client.Outcome) {
	switch outcomeWord(o) {
	case "result":
		t.results++
	case "failed":
		t.failed++
	default:
		t.cut++
	}
}

// progressBar returns a line for the terminal.
func (t *tally) progressBar() string {
	const width = 30
	done := t.results + t.failed + t.cut
	full := width * done / t.total
	return fmt.Sprintf("[%s%s] %d of %d tasks, %d failed, %v", strings.Repeat("#", full),
		strings.Repeat(".", width-full), done, t.total,
		t.failed, time.Since(t.began).Round(100*time.Millisecond))
}

// summaryLine returns the last line, for stderr.
func (t *tally) summaryLine() string {
	s := fmt.Sprintf("%d of %d tasks have results", t.results, t.total)
	if t.failed > 0 {
		s += fmt.Sprintf(", %d failed", t.failed)
	}
	if t.cut > 0 {
		s += fmt.Sprintf(", %d were cancelled or past the deadline", t.cut)
	}
	return fmt.Sprintf("%s in %v", s, time.Since(t.began).Round(10*time.Microsecond))
}

// outcomeWord returns result, failed, cancelled or deadline-exceeded.
func outcomeWord(o *client.Outcome) string {
	var failure *client.TaskError
	switch {
	case o.Err == nil:
		return "result"
	case errors.As(o.Err, &failure) &&
		(failure.Reason == client.Cancelled || failure.Reason == client.DeadlineExceeded):
		return strings.ReplaceAll(failure.Reason.String(), " ", "-")
	}
	return "failed"
}

// printText prints an outcome as a line of text. If file is not empty, it is printed in place of the result.
func printText(w io.Writer, o *client.Outcome, file string) error {
	what := quoteUnprintable(o.Result)
	switch {
	case o.Err != nil:
		what = quoteUnprintable([]byte(o.Err.Error()))
	case file != "":
		what = quoteUnprintable([]byte(file))
	}
	line := fmt.Sprintf("%d\t%s\t%v\t%s\t%s\n", o.Task, outcomeWord(o), o.Run, dashIfEmpty(o.Worker), what)
	if p := o.Phases; p != nil {
		line += fmt.Sprintf("\tsampled %v, queued %v, ready %v, bound %v, started %v, finished %v, delivered %v\n",
			p.Sampled, p.Queued, p.Ready, p.Bound, p.Started, p.Finished, p.Delivered)
	}
	_, err := io.WriteString(w, line)
	return err
}

// quoteUnprintable returns b as text without its last newline. If a rune is not printable, the text is quoted as in
// Go: names and results must not reach a terminal raw.
func quoteUnprintable(b []byte) string {
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
	ResultBase64 []byte      `json:"result_base64,omitempty"` // in place of result, if the result is not UTF-8
	ResultFile   string      `json:"result_file,omitempty"`   // in place of result, with --output
	Reason       string      `json:"reason,omitempty"`
	Error        string      `json:"error,omitempty"`
	Worker       string      `json:"worker,omitempty"`
	Attempts     int         `json:"attempts"`
	RunMS        float64     `json:"run_ms"`
	Usage        *usageJSON  `json:"usage,omitempty"`
	Phases       *phasesJSON `json:"phases_us,omitempty"`
}

// usageJSON is the resource usage of an attempt, as measured by its worker.
type usageJSON struct {
	CPUMicros   int64 `json:"cpu_us"`
	MemoryMiB   int32 `json:"memory_mib"`
	Fetched     int64 `json:"fetched_bytes"`
	FetchMicros int64 `json:"fetch_us"`
}

// usageOf converts an attempt's usage to JSON, or returns nil if the worker measured nothing.
func usageOf(u client.Usage) *usageJSON {
	if u == (client.Usage{}) {
		return nil
	}
	return &usageJSON{CPUMicros: u.CPU.Microseconds(), MemoryMiB: u.Memory, Fetched: u.Fetched,
		FetchMicros: u.Fetch.Microseconds()}
}

// phasesJSON is the time of each phase's end, in microseconds since the arrival of the job.
type phasesJSON struct {
	Sampled   int64 `json:"sampled"`
	Queued    int64 `json:"queued"`
	Ready     int64 `json:"ready"`
	Bound     int64 `json:"bound"`
	Started   int64 `json:"started"`
	Finished  int64 `json:"finished"`
	Delivered int64 `json:"delivered"`
}

// printJSON prints an outcome as a line of JSON. If file is not empty, the line names the file in place of the
// result.
func printJSON(w io.Writer, o *client.Outcome, file string) error {
	line := outcomeJSON{Task: o.Task, Outcome: outcomeWord(o), Worker: o.Worker, Attempts: o.Attempts,
		RunMS: float64(o.Run) / 1e6, Usage: usageOf(o.Usage)}
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
