// Package exec runs the tasks of a worker: Go functions of the program, and processes.
//
// # For the author of functions
//
// A [Registry] names the functions of a worker; package worker/serve gets the registry at the start. [Register]
// adds a function of Go values, described by a typed.Func of package idl/typed. [Registry.Register] adds a [Func] of
// bytes. [Registry.Use] wraps all functions registered later, for instance with [Traced]. A function talks to its
// worker through its context. A function
//
//   - must stop when its context ends: nothing else can stop a Go function;
//   - asks [Task] about its task, and [Common] for the payload common to its stage;
//   - reads the files of its task by [Files], and the outputs of earlier stages by [Inputs];
//   - writes for later stages by [Output], and returns its result, or writes a large result by [ResultWriter];
//   - reports its progress by [Progress].
//
// The scheduler retries any error as often as the task's Retries allow. An [*Error] gives the client a code and
// details, and says where to retry. [Permanent] forbids a retry. Return an error of an [Input] unchanged: then the
// lost input is made again.
//
// # How the package works
//
// A Pool runs the functions of a Registry. The pool decides nothing: it starts every task at once and reports the
// end of each. Slots and queues are in the worker's core.
//
// Sleeps run on real time: in a testing/synctest bubble a sleep never ends.
package exec

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/phoebe-sched/phoebe/probe"
)

// Func is a task's function. ctx ends when the task is killed, runs into its timeout, or the worker shuts down;
// context.Cause(ctx) gives the reason. The function owns payload, and the caller owns the result. [Files] returns
// the paths of the task's files.
//
// A Go function cannot be killed: if it ignores ctx, it keeps its slot until it returns. If a function runs on for
// a while after a kill and then returns no error, its result counts, if a client still wants the result. So a
// function with unfinished work must return an error, for instance context.Cause(ctx). The pool catches and reports
// a panic. A fatal error of the runtime (concurrent map writes, out of memory) and os.Exit end the worker.
type Func func(ctx context.Context, payload []byte) ([]byte, error)

// Option changes how the pool runs a registered function.
type Option func(*function)

// Inline makes the caller of Start run the function, without a goroutine or a timeout. Use Inline only for
// functions that never block and take a few microseconds.
func Inline() Option { return func(f *function) { f.inline = true } }

// function is an entry of a registry. Exactly one of run, sleep and processes is set.
type function struct {
	run            Func
	inline         bool // only with run
	ignoresContext bool // the function does not look at its context; only with inline
	sleep          bool
	processes      *Processes
}

// Registry holds the functions of a worker, by name. Safe for concurrent use. A Pool knows only the functions
// registered before NewPool.
type Registry struct {
	mu         sync.Mutex
	funcs      map[string]function
	middleware []Middleware
}

// NewRegistry returns a registry with the built-in functions:
//
//	echo   returns its payload
//	sleep  ends after the Go duration in its payload ("10ms"), to within a few microseconds, and
//	       needs neither a goroutine nor CPU
//	spin   burns one core for the Go duration in its payload
//	fail   fails with its payload as the error
func NewRegistry() *Registry {
	return &Registry{funcs: map[string]function{
		"echo":  {run: echoPayload, inline: true, ignoresContext: true},
		"fail":  {run: failAsAsked, inline: true, ignoresContext: true},
		"sleep": {sleep: true},
		"spin":  {run: spinFor},
	}}
}

var nameRE = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._/:-]{0,127}$`)

// Register adds f under name: 1 to 128 letters, digits or . _ / : -, the first a letter or digit. Register fails if
// the name is taken.
func (r *Registry) Register(name string, f Func, opts ...Option) error {
	if f == nil {
		return fmt.Errorf("register function %q: it is nil", name)
	}
	fn := function{run: f}
	for _, o := range opts {
		o(&fn)
	}
	return r.addFunction(name, fn)
}

// AllowProcesses registers "exec", which runs any command described by a Command, as the worker's user.
// AllowProcesses fails except on Linux: processes are supported on Linux only.
func (r *Registry) AllowProcesses() error { return r.AllowProcessesAs(Processes{}) }

// AllowProcessesAs is AllowProcesses with other rights of the processes.
func (r *Registry) AllowProcessesAs(p Processes) error {
	if !processesSupported {
		return errors.New("processes are supported on Linux only: do not allow them here")
	}
	if err := p.Validate(); err != nil {
		return err
	}
	return r.addFunction("exec", function{processes: &p})
}

// Processes names the users and the rights of tasks' processes. With the zero value the processes run as the worker's
// user, and gain no rights.
//
// Where the worker may write its cgroup (version 2), each process of "exec" gets a cgroup of its own. At the end of
// the task the kernel kills all processes of the cgroup.
type Processes struct {
	// FirstUID and LastUID are the first and the last user for tasks. Each running task has a user of its own, and the
	// group of the same number. Further tasks wait. The users need no names, but must belong to this worker alone. The
	// worker must be root, and needs cgroups. 0 and 0: tasks run as the worker's user.
	FirstUID, LastUID uint32
	// Setuid lets setuid programs, and programs with capabilities, gain rights.
	Setuid bool
	// KeyFiles must be unreadable for tasks. If the first user can read a key file, NewPool fails.
	KeyFiles []string
}

const (
	firstFreeUID = 1000  // lower users belong to the system
	maxUIDs      = 65536 // users of a worker
)

// Validate returns an error if the users are unusable.
func (p *Processes) Validate() error {
	first, last := p.FirstUID, p.LastUID
	if first == 0 && last == 0 {
		return nil
	}
	if first < firstFreeUID || last < first || last-first >= maxUIDs || last > math.MaxInt32 {
		return fmt.Errorf("the users %d to %d for tasks: want a range such as 200000-200255, from %d on, of at "+
			"most %d users", first, last, firstFreeUID, maxUIDs)
	}
	return nil
}

// addFunction registers fn under name, wrapped in the Middleware of Use.
func (r *Registry) addFunction(name string, fn function) error {
	if !nameRE.MatchString(name) {
		return fmt.Errorf("register function %q: use 1 to 128 letters, digits, . _ / : - (first a letter or digit)",
			name)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, taken := r.funcs[name]; taken {
		return fmt.Errorf("register function %q: the name is taken", name)
	}
	if fn.run != nil {
		for _, m := range slices.Backward(r.middleware) {
			fn.run = m(name, fn.run)
		}
	}
	r.funcs[name] = fn
	return nil
}

// Names returns the names of all functions, sorted.
func (r *Registry) Names() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	names := make([]string, 0, len(r.funcs))
	for n := range r.funcs {
		names = append(names, n)
	}
	slices.Sort(names)
	return names
}

// Status says how a task ended.
type Status uint8

const (
	Succeeded Status = iota
	Failed           // the function returned an error, the process exited non-zero, or never began
	Panicked         // a Go function panicked, or a signal ended the process
	Killed           // Kill or Close came before the end
	TimedOut         // Attempt.Timeout or Attempt.Deadline passed before the end
	TooLarge         // the result was over Attempt.MaxResult
	NoInput          // an output passed to the task could not be read
)

func (s Status) String() string {
	if int(s) < len(statusNames) {
		return statusNames[s]
	}
	return fmt.Sprintf("status %d", uint8(s))
}

var statusNames = [...]string{"succeeded", "failed", "panicked", "killed", "timed out", "too large", "no input"}

// Attempt is one try at a task.
type Attempt struct {
	Function  string
	Payload   []byte        // the pool owns Payload after Start
	Timeout   time.Duration // zero: none
	Deadline  time.Duration // from Start until nobody waits for the result any more; zero: none
	MaxResult int           // bytes of output; zero: no limit
	Memory    probe.MiB     // limit on the private memory of a process; zero: none. Go functions share the worker's
	Files     []string      // paths of the task's files; the pool owns Files after Start

	// The function reads the other fields through its context: by Task, Common, Inputs and Output.
	Job     probe.JobID
	Index   probe.TaskIndex
	Tenant  string
	Worker  string
	Demand  probe.Demand
	Common  []byte         // the part of the payload common to the stage; read-only
	Context *probe.Context // nil: nothing more is known; read-only
	Store   Store          // nil: this worker keeps no files
}

// Result describes the end of a task. The receiver owns all slices in a Result.
type Result struct {
	Status Status
	Output []byte        // only if the task succeeded
	Err    string        // empty if the task succeeded; at most 8 KiB
	Run    time.Duration // wall time of the function itself, without waiting for a goroutine or a thread
	CPU    time.Duration // user and system time of a process and its awaited children; zero for Go functions
	// MaxRSS is the peak memory of a process, in bytes. The value is exact if the process used more than the worker
	// ever did. Otherwise MaxRSS is the highest sample of the pool, or 0 if the process ended before the first
	// sample. 0 for Go functions.
	MaxRSS int64

	Code   string // of the function's [*Error]
	Detail []byte
	Retry  Retry
	Passed []probe.Output // if Succeeded: the task's outputs, by partition; if NoInput: the lost file
	// DiskFailed means: the task failed because the Store's disk fails. Then Retry is Elsewhere.
	DiskFailed bool
}

// Running is a task between its start and its end.
type Running interface {
	// Kill ends the task with Status Killed and the reason in Err. A process and a sleep end at once, a Go function
	// when it obeys its context. A Go function that runs on after Kill and then returns no error has Succeeded.
	// Kill does not block. Kill has no effect on a task that has ended.
	Kill(reason string)
	// Progress returns the share of the work done, as last reported by the task, and the age of the report. A share
	// of 0 means no report.
	Progress() (done float64, ago time.Duration)
	// Use returns the consumption of a process that has run for a second. Go functions share the worker's process, so
	// nobody can tell their consumption: then the result is zero.
	Use() Use
}

// Use is the consumption of a process with its children, up to the last sample. The pool takes a sample each second.
type Use struct {
	CPU    time.Duration
	Memory int64         // bytes in use
	Ran    time.Duration // run time up to the sample; 0: no sample yet
}

// Pool runs tasks. Safe for concurrent use.
type Pool struct {
	funcs    map[string]function
	alarm    *Alarm
	launcher *launcher // nil unless processes are allowed

	mu     sync.Mutex
	live   map[Running]struct{} // started, and done has not returned yet
	idle   chan struct{}        // closed once the pool is closed and live is empty
	closed bool

	release func() error // closes the launcher and the alarm, once
}

// NewPool returns a pool of the functions in r. Functions registered later are unknown to the pool. Close the pool
// after use.
func NewPool(r *Registry) (*Pool, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := &Pool{
		funcs: make(map[string]function, len(r.funcs)),
		live:  make(map[Running]struct{}),
		idle:  make(chan struct{}),
	}
	for name, fn := range r.funcs {
		p.funcs[name] = fn
	}
	a, err := OpenAlarm()
	if err != nil {
		return nil, err
	}
	p.alarm = a
	if allowed := p.funcs["exec"].processes; allowed != nil {
		if p.launcher, err = newLauncher(allowed); err != nil {
			return nil, errors.Join(err, a.Close())
		}
	}
	p.release = sync.OnceValue(func() error {
		if p.launcher != nil {
			p.launcher.close()
		}
		return p.alarm.Close()
	})
	return p, nil
}

// Start begins t and returns at once, never blocking. Normally Start returns a Running. Then the pool calls done
// exactly once, at the end of the task, from another goroutine, never from within Start or Kill. So done may take a
// lock held by callers of Start and Kill. done must not block, because precise timers wait for done.
//
// If ended is set, the task is already over: an Inline function, an unknown function, a bad payload or a closed
// pool. Then Start returns the Result, a nil Running, and never calls done.
func (p *Pool) Start(t Attempt, done func(Result)) (r Running, res Result, ended bool) {
	fn, ok := p.funcs[t.Function]
	switch {
	case !ok:
		return nil, Result{Status: Failed, Err: clipText(fmt.Sprintf(
			"this worker has no function %q: register it, or ask for a worker that has it", t.Function))}, true
	case fn.inline:
		return nil, runInline(fn, &t), true
	case fn.sleep:
		return p.startSleep(&t, done)
	case fn.processes != nil:
		return p.startProcess(&t, done)
	default:
		return p.startFunc(fn.run, &t, done)
	}
}

// Inline runs t if t names an Inline function, and reports whether it did. Start would run t as well, but Start
// needs a done function, which is an allocation for each task.
func (p *Pool) Inline(t *Attempt) (res Result, ran bool) {
	fn := p.funcs[t.Function]
	if !fn.inline {
		return Result{}, false
	}
	return runInline(fn, t), true
}

// runInline runs an Inline function in the calling goroutine.
func runInline(fn function, t *Attempt) Result {
	if fn.ignoresContext {
		return runGuarded(context.Background(), fn.run, t)
	}
	w := newTaskContext(t)
	return w.concludeTask(runGuarded(w, fn.run, t))
}

// addLive adds r to the live tasks and calls begin, before other goroutines can see r. begin must not block. If the
// pool is closed, addLive does neither and returns false.
func (p *Pool) addLive(r Running, begin func()) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return false
	}
	p.live[r] = struct{}{}
	begin()
	return true
}

// removeLive removes r from the live tasks. Call removeLive after done has returned.
func (p *Pool) removeLive(r Running) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.live, r)
	if p.closed && len(p.live) == 0 {
		close(p.idle)
	}
}

// DescribeProcesses describes the rights of tasks' processes on this machine in a sentence, and reports whether the
// sentence is a warning. The sentence is empty if the pool runs no processes.
func (p *Pool) DescribeProcesses() (text string, isWarning bool) {
	if p.launcher == nil {
		return "", false
	}
	return p.launcher.describeRights()
}

// Running returns the number of tasks that have started and not ended. Killed tasks count while their functions
// ignore the kill.
func (p *Pool) Running() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.live)
}

const closingReason = "the worker is shutting down"

func closedResult() Result { return Result{Status: Killed, Err: closingReason} }

// Close kills every task and waits until the last done has returned, or until ctx ends. If ctx ends first, the
// error gives the number of Go functions that would not stop, and another Close waits for them again.
func (p *Pool) Close(ctx context.Context) error {
	p.mu.Lock()
	if !p.closed {
		p.closed = true
		if len(p.live) == 0 {
			close(p.idle)
		}
	}
	all := slices.Collect(maps.Keys(p.live))
	p.mu.Unlock()
	for _, r := range all {
		r.Kill(closingReason)
	}
	select {
	case <-p.idle:
	case <-ctx.Done():
		if n := p.Running(); n > 0 {
			return fmt.Errorf("exec: %d tasks still run after being killed: %w", n, context.Cause(ctx))
		}
	}
	return p.release()
}

// maxErr bounds Result.Err, in bytes: errors travel in frames and logs, so results do not belong in errors.
const maxErr = 8 << 10

// clipText cuts s to maxErr bytes and makes s valid UTF-8, because clients in other languages insist on UTF-8.
func clipText(s string) string {
	const cut = "..."
	s = strings.ToValidUTF8(s, "?")
	if len(s) > maxErr {
		s = strings.ToValidUTF8(s[:maxErr-len(cut)], "") + cut
	}
	return s
}

// tooLargeText returns the error text for a result over the limit (bytes). The text says: the result is size.
func tooLargeText(size string, limit int) string {
	return fmt.Sprintf(
		"the result is %s, over the limit of %d bytes: return less, set the job's LargeResults (phoebe run --output), "+
			"or raise the limit (phoebe worker --max-result)", size, limit)
}

// endedError is why a task's context ended: the function gets it from context.Cause.
type endedError struct {
	status   Status
	reason   string
	killedAt time.Time // of the kill; zero for a timeout
}

func (e *endedError) Error() string { return e.reason }

func killedError(reason string) error { return &endedError{Killed, clipText(reason), time.Now()} }

func timeoutError(after time.Duration) error {
	return &endedError{status: TimedOut, reason: fmt.Sprintf("the task ran into its timeout of %v", after)}
}

// newTaskContext returns the context of t. The start time is needed only to tell a deadline to the function.
func newTaskContext(t *Attempt) *taskContext {
	w := &taskContext{Context: context.Background(), attempt: *t}
	if t.Deadline > 0 {
		w.startedAt = time.Now()
	}
	return w
}

// timeLimit returns the attempt's timeout or deadline, whichever comes first, and the error for the attempt then. 0:
// no time limit.
func timeLimit(t *Attempt) (time.Duration, error) {
	if t.Deadline > 0 && (t.Timeout <= 0 || t.Deadline < t.Timeout) {
		return t.Deadline, &endedError{status: TimedOut, reason: "the job's deadline has passed"}
	}
	if t.Timeout <= 0 {
		return 0, nil
	}
	return t.Timeout, timeoutError(t.Timeout)
}

// withTimeLimit returns a context that ends at the attempt's timeout or deadline, whichever comes first. With
// neither, the context has no time limit. Callers must call the cancel function in the end.
func withTimeLimit(ctx context.Context, t *Attempt) (context.Context, context.CancelCauseFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	duration, cause := timeLimit(t)
	if duration <= 0 {
		return ctx, cancel
	}
	ctx, stop := context.WithTimeoutCause(ctx, duration, cause)
	return ctx, func(cause error) { cancel(cause); stop() }
}
