// Package exec runs the tasks of a worker: Go functions of the program itself, and processes.
//
// # For the author of functions
//
// A [Registry] names the functions that a worker offers, which package worker/serve is started with. [Register] adds one of Go values,
// [Registry.Register] a [Func] of bytes; [Registry.Use] puts around those that follow what they have in common, such as [Traced]. By the context
// that it got, a function
//
//   - is told to stop, which it has to heed: nothing else can stop it;
//   - learns of its task by [Task], and of what its stage has in common by [Common];
//   - reads the files that its task needs, by [Files], and what earlier stages have left for it, by [Inputs];
//   - leaves what it makes for later stages by [Output], and returns its result, or writes a large one by [ResultWriter];
//   - says how far it is, by [Progress].
//
// An error of any kind is tried again as often as the task's Retries say. An [*Error] tells the client more, and says where to try again,
// [Permanent] that it is of no use, and an error of an [Input] is returned as it is: that input is made again.
//
// # How it is made
//
// A Pool runs the functions of a Registry. The pool decides nothing: it starts what it is
// told to start, however many that is, and reports how each ended. Slots and queues live in the
// worker's core.
//
// Sleeps run on real time: in a testing/synctest bubble they do not end.
package exec

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/phoebe-sched/phoebe/probe"
)

// Func is a task's function. ctx ends when the task is killed, runs into its timeout or the worker
// shuts down; context.Cause tells which. payload belongs to the function, the result to the caller. Files has the
// paths of the files that the task needs.
//
// A Go function cannot be killed: one that ignores ctx keeps its slot until it returns. What it returns then without an error
// counts, if it took long, and somebody still wants it: so return an error, such as ctx's, where the work is not done. A panic is
// caught and reported; a fatal error of the runtime (concurrent map writes, out of memory) and
// os.Exit end the worker.
type Func func(ctx context.Context, payload []byte) ([]byte, error)

// Option changes how a registered function is run.
type Option func(*function)

// Inline has the function run by the caller of Start itself, with no goroutine and no timeout: for
// functions that never block and take a few microseconds at most.
func Inline() Option { return func(f *function) { f.inline = true } }

// function is one entry of a registry. Exactly one of run, sleep and process is set.
type function struct {
	run            Func
	inline         bool // with run only
	ignoresContext bool // it looks at no context; with inline only
	sleep          bool
	process        bool
}

// Registry holds the functions that a worker offers, by name. Safe for concurrent use, but a Pool
// knows only what was registered before NewPool.
type Registry struct {
	mu         sync.Mutex
	funcs      map[string]function
	middleware []Middleware
}

// NewRegistry returns a registry with the built-in functions:
//
//	echo   returns its payload
//	sleep  ends after the Go duration in its payload ("10ms"), to within a few microseconds, and
//	       needs neither a goroutine nor CPU for it
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

// Register adds f under name: letters, digits and . _ / : - up to 128 characters. It fails if the
// name is taken.
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

// AllowProcesses registers "exec", which runs any command that a Command describes, as the user that
// the worker runs as. It fails where processes are not supported (anywhere but on Linux).
func (r *Registry) AllowProcesses() error {
	if !processesSupported {
		return errors.New("processes are supported on Linux only: do not allow them here")
	}
	return r.addFunction("exec", function{process: true})
}

func (r *Registry) addFunction(name string, fn function) error {
	if !nameRE.MatchString(name) {
		return fmt.Errorf("register function %q: a name has 1 to 128 letters, digits or . _ / : - and starts with a letter or digit", name)
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

// Status is how a task ended.
type Status uint8

const (
	Succeeded Status = iota
	Failed           // the function returned an error, the process a non-zero exit code, or it never began
	Panicked         // a Go function panicked, or a signal ended the process
	Killed           // Kill or Close came before it ended
	TimedOut         // Attempt.Timeout or Attempt.Deadline passed before it ended
	TooLarge         // its result was over Attempt.MaxResult
	NoInput          // an output that was passed to it could not be had
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
	Payload   []byte        // the pool's from Start on
	Timeout   time.Duration // zero: none
	Deadline  time.Duration // from Start on, after which nobody waits for the result; zero: none
	MaxResult int           // bytes of output; zero: no limit
	Memory    probe.MiB     // limit on the private memory of a process; zero: none. Go functions share the worker's
	Files     []string      // paths of the files that the task needs; the pool's from Start on

	// What the task may ask for.
	Job     probe.JobID
	Index   probe.TaskIndex
	Tenant  string
	Worker  string
	Demand  probe.Demand
	Common  []byte         // what its payload has in common with others; nobody writes to it
	Context *probe.Context // nil: there is nothing else to tell; nobody writes to it
	Store   Store          // nil: this worker keeps no files
}

// Result is how a task ended. What it refers to belongs to the receiver.
type Result struct {
	Status Status
	Output []byte        // only of a task that succeeded
	Err    string        // empty if it succeeded; at most 8 KiB
	Run    time.Duration // wall time of the function itself, without waiting for a goroutine or a thread
	CPU    time.Duration // user and system time of a process and the children it waited for; zero for Go functions
	// MaxRSS is the most memory that a process had, in bytes: to the byte if that is more than the worker itself has had,
	// else as it was last looked at; 0 if it ended before it was, and of Go functions.
	MaxRSS int64

	Code   string // of the function's [*Error]
	Detail []byte
	Retry  Retry
	Passed []probe.Output // what the task wrote by [Output], by partition, if it succeeded; of NoInput: the file that is nowhere
}

// Running is a task between its start and its end.
type Running interface {
	// Kill ends the task with Status Killed and the reason in Err: a process and a sleep at once, a Go
	// function as soon as it heeds its context; one that goes on and returns no error has Succeeded. It does not block and does
	// nothing to a task that has ended.
	Kill(reason string)
	// Progress is the share of its work that the task has said to have done, and how long ago; 0: it has not said.
	Progress() (done float64, ago time.Duration)
}

// Pool runs tasks. Safe for concurrent use.
type Pool struct {
	funcs    map[string]function
	alarm    *Alarm
	launcher *launcher // nil unless processes are allowed

	mu     sync.Mutex
	live   map[Running]struct{} // started, done not yet returned
	idle   chan struct{}        // closed when closing and live is empty
	closed bool

	release func() error // of the alarm and the launcher, once
}

// NewPool returns a pool that runs the functions that r has now. Close it.
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
	if p.funcs["exec"].process {
		p.launcher = newLauncher()
	}
	p.release = sync.OnceValue(func() error {
		if p.launcher != nil {
			p.launcher.close()
		}
		return p.alarm.Close()
	})
	return p, nil
}

// Start begins t and returns at once, never blocking. Usually that gives a Running, and done is called
// exactly once when the task ends, from another goroutine, never from within Start or Kill: so it may
// take a lock that callers of those hold. done must not block, since precise timers wait for it.
//
// A task that is over already (an Inline function, an unknown function, a bad payload, a closed pool)
// comes back as its Result with over set; done is not called then and the Running is nil.
func (p *Pool) Start(t Attempt, done func(Result)) (r Running, res Result, ended bool) {
	fn, ok := p.funcs[t.Function]
	switch {
	case !ok:
		return nil, Result{Status: Failed, Err: clipText(fmt.Sprintf("this worker has no function %q: register it, or ask for a worker that has it", t.Function))}, true
	case fn.inline:
		return nil, runInline(fn, &t), true
	case fn.sleep:
		return p.startSleep(&t, done)
	case fn.process:
		return p.startProcess(&t, done)
	default:
		return p.startFunc(fn.run, &t, done)
	}
}

// Inline runs t if that is an Inline function, and reports whether it did: Start would have, but wants a done, which takes memory.
func (p *Pool) Inline(t *Attempt) (res Result, ran bool) {
	fn := p.funcs[t.Function]
	if !fn.inline {
		return Result{}, false
	}
	return runInline(fn, t), true
}

func runInline(fn function, t *Attempt) Result {
	if fn.ignoresContext {
		return runGuarded(context.Background(), fn.run, t)
	}
	w := newTaskContext(t)
	return w.concludeTask(runGuarded(w, fn.run, t))
}

// addLive adds r to the live tasks and calls begin, which must not block, before anyone else can see r;
// false, without either, if the pool is closed.
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

// removeLive comes after done has returned.
func (p *Pool) removeLive(r Running) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.live, r)
	if p.closed && len(p.live) == 0 {
		close(p.idle)
	}
}

// Running returns how many tasks have started and not ended, those included that were killed but do
// not heed it.
func (p *Pool) Running() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.live)
}

const closingReason = "the worker is shutting down"

func closedResult() Result { return Result{Status: Killed, Err: closingReason} }

// Close kills every task and waits until the last done has returned, or until ctx ends: then the error
// says how many Go functions would not stop, and a further Close waits for them again.
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

// maxErr bounds Result.Err: an error travels in frames and logs, a result does not belong in it.
const maxErr = 8 << 10

// clipText also makes s valid UTF-8, as clients in other languages insist on.
func clipText(s string) string {
	const cut = "..."
	s = strings.ToValidUTF8(s, "?")
	if len(s) > maxErr {
		s = strings.ToValidUTF8(s[:maxErr-len(cut)], "") + cut
	}
	return s
}

func tooLarge(size string, limit int) string {
	return fmt.Sprintf("the result is %s, over the limit of %d bytes: return less, or where to find it, or raise the limit", size, limit)
}

// endedError is why a task's context ended: context.Cause gives it to the function.
type endedError struct {
	status   Status
	reason   string
	killedAt time.Time // of one that was killed
}

func (e *endedError) Error() string { return e.reason }

func killedError(reason string) error { return &endedError{Killed, clipText(reason), time.Now()} }

func timeoutError(after time.Duration) error {
	return &endedError{status: TimedOut, reason: fmt.Sprintf("the task ran into its timeout of %v", after)}
}

func newTaskContext(t *Attempt) *taskContext {
	w := &taskContext{Context: context.Background(), attempt: *t}
	if t.Deadline > 0 {
		w.startedAt = time.Now()
	}
	return w
}

// withTimeLimit is a context that ends with the attempt's time, if that is limited. Its cancel must be called in the end.
func withTimeLimit(ctx context.Context, t *Attempt) (context.Context, context.CancelCauseFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	duration, cause := t.Timeout, timeoutError(t.Timeout)
	if t.Deadline > 0 && (duration <= 0 || t.Deadline < duration) {
		duration, cause = t.Deadline, &endedError{status: TimedOut, reason: "the job's deadline has passed"}
	}
	if duration <= 0 {
		return ctx, cancel
	}
	ctx, stop := context.WithTimeoutCause(ctx, duration, cause)
	return ctx, func(cause error) { cancel(cause); stop() }
}
