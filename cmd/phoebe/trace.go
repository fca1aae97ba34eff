package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/phoebe-sched/phoebe/frontend/client"
	"github.com/phoebe-sched/phoebe/frontend/client/admin"
	"github.com/phoebe-sched/phoebe/probe/units"
)

type traceCmd struct {
	Handle string   `arg:"" name:"job" help:"The job: JOB@OWNER, as phoebe run prints, or JOB alone to ask every frontend in --connect, and all frontends known there."`
	Most   int      `default:"20" placeholder:"N" help:"How many tasks to show: the last to end. Default ${default}."`
	JSON   jsonFile `name:"json" placeholder:"FILE" help:"Write the job, then each task that has ended, then each attempt under way, as a line of JSON to this file. ${jsonFile}"`
	Chrome string   `placeholder:"FILE" help:"Write all tasks, also those under way, to this file as trace events, for https://ui.perfetto.dev. Default: none."`

	clientFlags
}

// Help returns the text below the usage line.
func (c *traceCmd) Help() string {
	return `Shows where the time of a job went. The job is running, or has ended and is kept (see
phoebe jobs). First comes the response, split along the job's critical path. Then come the tasks:
where each ran, and when its phases ended, counted from the arrival of the job. Other attempts at a
task (retries and copies, the last four at most) stand below the task: where, how each ended, and
when it was sent, started and ended. Of a running job, the attempts that have not ended come last:
where each is, and whether it runs, waits in the worker's queue (queued), is on the way there (sent),
or cannot be seen because the link to the worker is broken (cut off).

Each column is the time when a phase ended, and the parts of the response are these phases:
  RELEASED     the task may start: the stages before have ended
  SAMPLED      sampling: the frontend has asked for places, or has chosen a worker
  QUEUED       link: the request is at the worker
  READY        queue: the task's turn has come
  ANSWERED     binding: the frontend has answered the turn
  STARTED      launch: the task has started
  FINISHED     run: the task has ended; excess is run time beyond the expected time
  DELIVERED    delivery: the frontend has the outcome

Time in the queue is split by what the task waited for: tasks of its own tenant, of other tenants, or
long tasks; room closed to the task (closed share); a slot that waited for another frontend's answer
(idle slot). Further parts: fetch (the task's files), stage wait (from the end of one stage to the
start of the next), maximum (the tenant's maximum was used), in vain (attempts without an outcome),
outside (no known cause).

BOUND says how the task came to its worker: late (when its place had its turn), shared (at the turn of
another job's place), bundle (with another task of its job), ahead (a round trip before the worker had
room), ride (sent with the reservation), early (sent to a chosen worker at once), or copy (a second
attempt, because the first was late).

Exit codes: 0 shown, 1 the job is unknown or was not kept, 2 wrong usage, 3 refused or unreachable.`
}

// Run traces a job.
func (c *traceCmd) Run(ctx context.Context, out *streams, log *slog.Logger) error {
	if c.Most < 0 {
		return usageError(fmt.Errorf("--most is %d: it must not be negative", c.Most))
	}
	write, text, err := createReports(out.out, jsonReport(c.JSON, writeTraceJSON),
		report[*client.Trace]{"chrome", c.Chrome, writeChrome})
	if err != nil {
		return err
	}
	_, all, err := askOwner(ctx, &c.clientFlags, log, "trace", c.Handle,
		func(ctx context.Context, cl *admin.Client, h client.Handle) (*admin.Trace, error) {
			all, err := cl.Trace(ctx, h.Job, 0, 0)
			for page := all; err == nil && page.Next() > 0; all.Tasks = append(all.Tasks, page.Tasks...) {
				if page, err = cl.Trace(ctx, h.Job, page.Next(), 0); err == nil && len(page.Tasks) == 0 {
					return nil, fmt.Errorf("the job has changed meanwhile: ask again")
				}
			}
			return all, err
		})
	if err != nil {
		return err
	}
	nameSilent(out.err, all.Frontends)
	return errors.Join(printTrace(text, &all.Trace, c.Most), write(&all.Trace))
}

// printTrace prints a trace as text, with the last most tasks.
func printTrace(w io.Writer, x *client.Trace, most int) error {
	j := &x.Job
	fmt.Fprintf(w, "job %s of %s", handleText(j.Handle), quoteUnprintable([]byte(j.Frontend)))
	if j.Tenant != "" {
		fmt.Fprintf(w, ", tenant %s", quoteUnprintable([]byte(j.Tenant)))
	}
	fmt.Fprintf(w, ", class %s, policy %s, arrived %s\n", j.Class, quoteUnprintable([]byte(j.Policy)),
		j.Came.Local().Format("2006-01-02 15:04:05.000"))
	if j.Running {
		fmt.Fprintf(w, "under way for %s: %d of %d tasks have ended, %d of them without a result\n",
			units.Time(j.Response), j.Ended, j.Tasks, j.Failed)
	} else {
		fmt.Fprintf(w, "took %s: %d tasks, %d of them without a result\n", units.Time(j.Response), j.Tasks, j.Failed)
	}
	for _, p := range slices.SortedFunc(slices.Values(j.Blame),
		func(a, b client.PartOf) int { return cmp.Compare(b.Took, a.Took) }) {
		fmt.Fprintf(w, "%14s  %4.1f %%  %s\n", units.Time(p.Took),
			100*p.Took.Seconds()/max(j.Response.Seconds(), 1e-9), p.Part)
	}
	if len(x.Tasks) == 0 {
		none := "no attempt of the job is remembered"
		if j.Running {
			none = "no task of the job has ended yet"
		}
		if _, err := fmt.Fprintln(w, none); err != nil {
			return err
		}
	} else if err := printEnded(w, x, most); err != nil {
		return err
	}
	if j.Running {
		return printUnderWay(w, x, most)
	}
	return nil
}

// printEnded prints the latest tasks that have ended, up to most tasks.
func printEnded(w io.Writer, x *client.Trace, most int) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "\nTASK\tSTAGE\tWORKER\tOUTCOME\tTRIES\tBOUND\tRELEASED\tSAMPLED\tQUEUED\tREADY\tANSWERED\tSTARTED\tFINISHED\tDELIVERED")
	for i := range x.Tasks[max(len(x.Tasks)-most, 0):] {
		k := &x.Tasks[max(len(x.Tasks)-most, 0)+i]
		fmt.Fprintf(t, "%d\t%s\t%s\t%s\t%d\t%s\t%v", k.Task, dashIfEmpty(stageName(x, k.Stage)),
			dashIfEmpty(k.Worker), k.Outcome, k.Tries, k.Binding, releaseOf(k))
		for m, end := range k.Ends {
			if !k.Known && client.Measure(m) != client.MeasureDelivery {
				fmt.Fprint(t, "\t-")
				continue
			}
			fmt.Fprintf(t, "\t%s", units.Time(end))
		}
		fmt.Fprintln(t)
		for _, e := range k.Earlier {
			fmt.Fprintf(t, "  other\t\t%s\t%s\t\t%s\t\t\t\t\t%s\t%s\t%s\t\n", dashIfEmpty(e.Worker), e.End, e.Binding,
				momentText(e.Sent), momentText(e.Started), momentText(e.Ended))
		}
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if more := len(x.Tasks) - most; more > 0 {
		_, err := fmt.Fprintf(w, "%d more tasks ended earlier\n", more)
		return err
	}
	return nil
}

// printUnderWay prints up to most attempts that have not ended, and the number of tasks at no worker.
func printUnderWay(w io.Writer, x *client.Trace, most int) error {
	if x.UnderWay == nil {
		_, err := fmt.Fprintln(w,
			"\nthe frontend is older than this command: phoebe explain tells where the other tasks are")
		return err
	}
	if len(x.UnderWay) > 0 {
		t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
		fmt.Fprintln(t, "\nunder way:\nTASK\tSTAGE\tWORKER\tSTATE\tTRIES\tBOUND\tSENT\tSTARTED\tCPU\tMEMORY")
		for _, a := range x.UnderWay[:min(len(x.UnderWay), most)] {
			cpu, memory := useText(&a)
			fmt.Fprintf(t, "%d\t%s\t%s\t%s\t%d\t%s\t%s\t%s\t%s\t%s\n", a.Task, dashIfEmpty(stageName(x, a.Stage)),
				dashIfEmpty(a.Worker), a.State, a.Tries, a.Binding, momentText(a.Sent), momentText(a.Started), cpu, memory)
		}
		if err := t.Flush(); err != nil {
			return err
		}
	}
	if more := x.AttemptsUnderWay - min(len(x.UnderWay), most); more > 0 {
		if _, err := fmt.Fprintf(w, "%d more attempts are under way\n", more); err != nil {
			return err
		}
	}
	if waiting := tasksAtNoWorker(x); waiting > 0 {
		_, err := fmt.Fprintf(w, "%d tasks are at no worker: phoebe explain tells what they wait for\n", waiting)
		return err
	}
	return nil
}

// useText describes the CPU time and the memory of a running process, or returns dashes.
func useText(a *client.UnderWay) (cpu, memory string) {
	if a.SampledAt == 0 {
		return "-", "-"
	}
	return fmt.Sprintf("%v of %v", a.CPU.Round(10*time.Millisecond), a.SampledAt.Round(100*time.Millisecond)),
		fmt.Sprintf("%d MiB", a.MemoryMiB)
}

// tasksAtNoWorker counts the unfinished tasks without an attempt under way; 0: none, or not known.
func tasksAtNoWorker(x *client.Trace) int {
	if len(x.UnderWay) < x.AttemptsUnderWay {
		return 0
	}
	tasks := map[int]bool{}
	for _, a := range x.UnderWay {
		tasks[a.Task] = true
	}
	return max(x.Job.Tasks-x.Job.Ended-len(tasks), 0)
}

// momentText formats d, or a dash if d is 0 (not known).
func momentText(d time.Duration) string {
	if d == 0 {
		return "-"
	}
	return units.Time(d)
}

// taskJSON is a task in `phoebe trace --json`. Times count from the arrival of the job.
type taskJSON struct {
	Task           int              `json:"task"`
	Stage          string           `json:"stage,omitempty"`
	Worker         string           `json:"worker,omitempty"`
	Outcome        string           `json:"outcome"`
	Reason         string           `json:"reason,omitempty"`
	Tries          int              `json:"tries"`
	Path           string           `json:"path"`
	Binding        string           `json:"binding"`
	ReleasedMicros int64            `json:"released_us"`
	EndsMicros     map[string]int64 `json:"ends_us"` // end of each phase, if known
	FetchedMicros  int64            `json:"fetched_us,omitempty"`
	ExpectedMicros int64            `json:"expected_run_us,omitempty"`
	PromisedMicros int64            `json:"promised_wait_us,omitempty"`
	WaitedMicros   int64            `json:"waited_us,omitempty"`
	WaitsMicros    map[string]int64 `json:"waits_us,omitempty"` // the wait at the worker, by cause
	Earlier        []earlierJSON    `json:"earlier,omitempty"`  // attempts that did not give the outcome
}

// earlierJSON is an attempt at a task that did not give the outcome.
type earlierJSON struct {
	Worker        string `json:"worker,omitempty"`
	Binding       string `json:"binding"`
	End           string `json:"end"`
	SentMicros    int64  `json:"sent_us,omitempty"`
	StartedMicros int64  `json:"started_us,omitempty"`
	EndedMicros   int64  `json:"ended_us"`
}

// underWayJSON is an attempt that has not ended, in `phoebe trace --json`. Times count from the job's arrival.
type underWayJSON struct {
	Task          int    `json:"task"`
	Stage         string `json:"stage,omitempty"`
	Worker        string `json:"worker,omitempty"`
	State         string `json:"state"`
	Tries         int    `json:"tries"`
	Binding       string `json:"binding"`
	SentMicros    int64  `json:"sent_us,omitempty"`
	StartedMicros int64  `json:"started_us,omitempty"`
	SampledMicros int64  `json:"sampled_us,omitempty"` // run time of a process when its CPU time and memory were sampled
	CPUMicros     int64  `json:"cpu_us,omitempty"`
	MemoryMiB     int    `json:"memory_mib,omitempty"`
}

// writeTraceJSON writes the job, each ended task, and each attempt under way, as lines of JSON.
func writeTraceJSON(w io.Writer, x *client.Trace) error {
	e := json.NewEncoder(w)
	if err := e.Encode(jobOf(&x.Job)); err != nil {
		return err
	}
	for i := range x.Tasks {
		k := &x.Tasks[i]
		to := taskJSON{
			Task: k.Task, Stage: stageName(x, k.Stage), Worker: k.Worker, Outcome: k.Outcome, Tries: k.Tries,
			Path: k.Path, Binding: k.Binding,
			ReleasedMicros: k.Released.Microseconds(), EndsMicros: map[string]int64{},
			FetchedMicros:  k.Fetched.Microseconds(),
			ExpectedMicros: k.Expected.Microseconds(), PromisedMicros: k.ExpectedWait.Microseconds(),
			WaitedMicros: k.Waited.Microseconds(),
		}
		if k.Failure != 0 {
			to.Reason = k.Failure.String()
		}
		for m, end := range k.Ends {
			if k.Known || client.Measure(m) == client.MeasureDelivery {
				to.EndsMicros[client.Measure(m).String()] = end.Microseconds()
			}
		}
		for _, part := range waitsOf(k) {
			if to.WaitsMicros == nil {
				to.WaitsMicros = map[string]int64{}
			}
			to.WaitsMicros[part.Part] = part.Took.Microseconds()
		}
		for _, x := range k.Earlier {
			to.Earlier = append(to.Earlier, earlierJSON{x.Worker, x.Binding, x.End, x.Sent.Microseconds(),
				x.Started.Microseconds(), x.Ended.Microseconds()})
		}
		if err := e.Encode(to); err != nil {
			return err
		}
	}
	for _, a := range x.UnderWay {
		if err := e.Encode(underWayJSON{
			a.Task, stageName(x, a.Stage), a.Worker, a.State, a.Tries, a.Binding, a.Sent.Microseconds(),
			a.Started.Microseconds(), a.SampledAt.Microseconds(), a.CPU.Microseconds(), a.MemoryMiB,
		}); err != nil {
			return err
		}
	}
	return nil
}

// releaseOf returns when a task could start. The release of a task that ended before it could start is its end.
func releaseOf(k *client.TaskTrace) string {
	if !k.Known && k.Released > 0 && k.Released >= k.Ends[client.MeasureDelivery] {
		return "never"
	}
	return units.Time(k.Released)
}

// waitsOf returns the causes of a task's wait at its worker, without causes of zero time.
func waitsOf(k *client.TaskTrace) (list []client.PartOf) {
	for _, p := range []client.PartOf{
		{Part: "own tenant", Took: k.Waits.OwnTenant}, {Part: "other tenants", Took: k.Waits.OtherTenants},
		{Part: "long tasks", Took: k.Waits.LongTasks},
		{Part: "closed share", Took: k.Waits.ClosedShare}, {Part: "idle slot", Took: k.Waits.IdleSlot},
	} {
		if p.Took > 0 {
			list = append(list, p)
		}
	}
	return list
}

// stageName returns the name of the stage at a position, or "".
func stageName(x *client.Trace, stage int) string {
	if stage < len(x.Stages) {
		return x.Stages[stage].Name
	}
	return ""
}

// chromeEvent is an event in the Trace Event Format.
type chromeEvent struct {
	Name     string         `json:"name"`
	Category string         `json:"cat,omitempty"`
	Phase    string         `json:"ph"`
	Process  int            `json:"pid"`
	Thread   int            `json:"tid"`
	At       float64        `json:"ts"`            // microseconds
	Duration *float64       `json:"dur,omitempty"` // microseconds; nil: not a slice, or a slice without an end
	Args     map[string]any `json:"args,omitempty"`
}

// chromeSpan is the time of a slice.
type chromeSpan struct {
	from, to time.Duration
	isOpen   bool // the slice has no end, and to is not used
}

// widen extends the span to contain another span. The zero span is empty.
func (s *chromeSpan) widen(by chromeSpan) {
	if *s == (chromeSpan{}) {
		*s = by
		return
	}
	*s = chromeSpan{min(s.from, by.from), max(s.to, by.to), s.isOpen || by.isOpen}
}

// chromeWriter writes events, up to the first error.
type chromeWriter struct {
	w     io.Writer
	began bool
	err   error
}

// writeText writes a text between the events.
func (c *chromeWriter) writeText(text string) {
	if c.err == nil {
		_, c.err = io.WriteString(c.w, text)
	}
}

// writeEvent writes an event.
func (c *chromeWriter) writeEvent(e chromeEvent) {
	b, err := json.Marshal(e)
	if err != nil {
		c.err = cmp.Or(c.err, err)
		return
	}
	if c.began {
		c.writeText(",\n")
	}
	c.began = true
	c.writeText(string(b))
}

// nameProcess writes the name of a process.
func (c *chromeWriter) nameProcess(process int, name string) {
	c.writeEvent(chromeEvent{Name: "process_name", Phase: "M", Process: process, Args: map[string]any{"name": name}})
}

// writeSlice writes a slice. An open slice is a beginning without an end.
func (c *chromeWriter) writeSlice(process, thread int, name string, s chromeSpan, args map[string]any) {
	micros := func(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }
	e := chromeEvent{Name: name, Category: "task", Phase: "B", Process: process, Thread: thread, At: micros(s.from),
		Args: args}
	if !s.isOpen {
		length := micros(max(s.to-s.from, 0))
		e.Phase, e.Duration = "X", &length
	}
	c.writeEvent(e)
}

// writeChrome writes a trace for Perfetto and Chrome. Each worker is a process. Its threads are lanes: as many as
// tasks of the job ran at the worker at the same time. The job itself is a process, too, with a thread for each
// stage. Slices of attempts under way, and of their stages, have no end.
func writeChrome(w io.Writer, x *client.Trace) error {
	c := &chromeWriter{w: w}
	c.writeText(`{"displayTimeUnit":"ms","traceEvents":[` + "\n")
	const job = 1
	c.nameProcess(job, "job "+x.Job.Handle.Job)
	blame := map[string]any{}
	for _, p := range x.Job.Blame {
		blame[p.Part+" us"] = p.Took.Microseconds()
	}
	c.writeSlice(job, 0, "job", chromeSpan{0, x.Job.Response, x.Job.Running}, blame)
	stages := make([]chromeSpan, len(x.Stages))
	var tried []chromeAttempt
	for i := range x.Tasks {
		k := &x.Tasks[i]
		tried = append(tried, attemptsOf(k)...)
		if k.Stage < len(stages) {
			stages[k.Stage].widen(chromeSpan{from: k.Released, to: k.Ends[client.MeasureDelivery]})
		}
	}
	for i := range x.UnderWay {
		a := &x.UnderWay[i]
		from := cmp.Or(a.Sent, a.Started, x.Job.Response)
		tried = append(tried, chromeAttempt{underWay: a, worker: a.Worker, span: chromeSpan{from: from, isOpen: true},
			started: a.Started})
		if a.Stage < len(stages) {
			stages[a.Stage].widen(chromeSpan{from: from, isOpen: true})
		}
	}
	for i, s := range stages {
		if s != (chromeSpan{}) {
			c.writeSlice(job, i+1, "stage "+x.Stages[i].Name, s, nil)
		}
	}
	slices.SortStableFunc(tried, func(a, b chromeAttempt) int { return cmp.Compare(a.span.from, b.span.from) })
	processes, lanes := map[string]int{}, map[string][]time.Duration{} // by worker: when each lane is free
	for _, k := range tried {
		process := processes[k.worker]
		if process == 0 {
			process = job + 1 + len(processes)
			processes[k.worker] = process
			c.nameProcess(process, "worker "+k.worker)
		}
		lane := slices.IndexFunc(lanes[k.worker], func(free time.Duration) bool { return free <= k.span.from })
		if lane < 0 {
			lane = len(lanes[k.worker])
			lanes[k.worker] = append(lanes[k.worker], 0)
		}
		lanes[k.worker][lane] = max(k.span.to, k.span.from)
		if k.span.isOpen {
			lanes[k.worker][lane] = math.MaxInt64
		}
		c.writeSlice(process, lane, k.sliceName(), k.span, k.sliceArgs())
		if k.started == 0 {
			continue
		}
		c.writeSlice(process, lane, "launch", chromeSpan{from: k.span.from, to: k.started}, nil)
		c.writeSlice(process, lane, "run", chromeSpan{k.started, k.span.to, k.span.isOpen}, nil)
	}
	c.writeText("\n]}\n")
	return c.err
}

// chromeAttempt is an attempt at a task, at a worker.
type chromeAttempt struct {
	task     *client.TaskTrace      // nil: the attempt is under way
	earlier  *client.EarlierAttempt // nil: this attempt gave the outcome, or is under way
	underWay *client.UnderWay
	worker   string
	span     chromeSpan
	started  time.Duration // 0: the attempt never started, or not yet
}

// attemptsOf returns the attempts at an ended task with a known worker and known times.
func attemptsOf(k *client.TaskTrace) (list []chromeAttempt) {
	for i := range k.Earlier {
		e := &k.Earlier[i]
		list = append(list, chromeAttempt{task: k, earlier: e, worker: e.Worker, started: e.Started,
			span: chromeSpan{from: cmp.Or(e.Sent, e.Started, e.Ended), to: e.Ended}})
	}
	if k.Known {
		list = append(list, chromeAttempt{task: k, worker: k.Worker, started: k.Ends[client.MeasureLaunch],
			span: chromeSpan{from: k.Ends[client.MeasureBinding], to: k.Ends[client.MeasureRun]}})
	}
	return list
}

// sliceName returns the text on the attempt's slice.
func (a *chromeAttempt) sliceName() string {
	switch {
	case a.underWay != nil:
		return fmt.Sprintf("task %d, %s", a.underWay.Task, a.underWay.State)
	case a.earlier != nil:
		return fmt.Sprintf("task %d, %s", a.task.Task, a.earlier.End)
	}
	return fmt.Sprintf("task %d", a.task.Task)
}

// sliceArgs returns the details of the attempt's slice.
func (a *chromeAttempt) sliceArgs() map[string]any {
	if u := a.underWay; u != nil {
		return map[string]any{"state": u.State, "tries": u.Tries, "binding": u.Binding}
	}
	if e := a.earlier; e != nil {
		return map[string]any{"end": e.End, "binding": e.Binding}
	}
	k := a.task
	args := map[string]any{"outcome": k.Outcome, "tries": k.Tries, "path": k.Path, "binding": k.Binding,
		"released us": k.Released.Microseconds()}
	for m, end := range k.Ends {
		args[client.Measure(m).String()+" until us"] = end.Microseconds()
	}
	for _, p := range waitsOf(k) {
		args["waited for "+p.Part+" us"] = p.Took.Microseconds()
	}
	if k.Expected > 0 {
		args["expected run us"] = k.Expected.Microseconds()
	}
	return args
}
