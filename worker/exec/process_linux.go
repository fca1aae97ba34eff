package exec

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/phoebe-sched/phoebe/probe"
	"golang.org/x/sys/unix"
)

const processesSupported = true

const (
	maxFiles    = 4096                   // open files of a process
	fileEnv     = "PHOEBE_FILE_"         // variables with the paths of the files that a task needs; a number follows
	progressEnv = "PHOEBE_PROGRESS_FD"   // variable with the descriptor that takes lines of progress
	stderrTail  = 4 << 10                // bytes of standard error that a failure quotes
	pipeGrace   = 100 * time.Millisecond // for output of strays that hold the pipes after the process ended
)

// process is a process and its group. It is killed with its group, and what is left of the group when
// it ends by itself is killed then. What leaves the group (setsid) is not followed. If the worker dies
// the kernel kills the process, but not its children.
type process struct {
	cancel   context.CancelCauseFunc
	progress progress

	mu      sync.Mutex
	pid     int  // zero until it is started
	reaping bool // it is about to be reaped: the pid may come to name another
}

func (pr *process) Kill(reason string) { pr.cancel(killedError(reason)) }

func (pr *process) Progress() (float64, time.Duration) { return pr.progress.lastReport() }

// readProgress takes what the process says of its progress.
func (pr *process) readProgress(lines io.Reader) {
	for scan := bufio.NewScanner(lines); scan.Scan(); {
		if done, err := strconv.ParseFloat(strings.TrimSpace(scan.Text()), 64); err == nil {
			pr.progress.noteDone(done)
		}
	}
	io.Copy(io.Discard, lines) // of a line that is too long, so that the process is not held up
}

// killGroup is safe at any time.
func (pr *process) killGroup() {
	pr.mu.Lock()
	defer pr.mu.Unlock()
	if pr.pid != 0 && !pr.reaping {
		unix.Kill(-pr.pid, unix.SIGKILL) // fails only if nothing is left
	}
}

func (p *Pool) startProcess(t *Attempt, done func(Result)) (Running, Result, bool) {
	c, err := decodeCommand(t.Payload)
	if err != nil {
		return nil, Result{Status: Failed, Err: clipText(err.Error())}, true
	}
	ctx, cancel := withTimeLimit(context.Background(), t)
	pr := &process{cancel: cancel}
	task := *t
	run := func() {
		res := pr.runProcess(ctx, p.launcher, c, &task)
		cancel(nil)
		done(res)
		p.removeLive(pr)
	}
	if !p.addLive(pr, func() { go run() }) {
		cancel(nil)
		return nil, closedResult(), true
	}
	return pr, Result{}, false
}

func failedResult(format string, args ...any) Result {
	return Result{Status: Failed, Err: clipText(fmt.Sprintf(format, args...))}
}

func (pr *process) runProcess(ctx context.Context, l *launcher, c Command, t *Attempt) Result {
	env := map[string]string{"PATH": os.Getenv("PATH"), progressEnv: "3"}
	maps.Copy(env, c.Env)
	for i, path := range t.Files {
		env[fileEnv+strconv.Itoa(i)] = path
	}
	path, err := lookPath(c.Argv[0], env["PATH"])
	if err != nil {
		return failedResult("%v", err)
	}
	if c.Dir != "" { // or execve's error would blame the program
		if st, err := os.Stat(c.Dir); err != nil || !st.IsDir() {
			return failedResult("exec: dir %s is not a directory on this worker", c.Dir)
		}
	}
	stdin := c.StdinBase64
	if c.Stdin != "" {
		stdin = []byte(c.Stdin)
	}
	pipes, err := openPipes()
	if err != nil {
		return failedResult("exec %s: %v", path, err)
	}
	defer pipes.closeOurs()
	endReason := func() (*endedError, bool) {
		e, ok := context.Cause(ctx).(*endedError)
		return e, ok
	}
	if e, ok := endReason(); ok {
		pipes.closeTheirs()
		return Result{Status: e.status, Err: e.reason}
	}

	proc, start, err := l.start(launchRequest{
		path:   path,
		argv:   c.Argv,
		memory: t.Memory,
		attr: os.ProcAttr{
			Dir:   c.Dir,
			Env:   environList(env),
			Files: pipes.theirs[:],
			Sys:   &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL},
		},
	})
	pipes.closeTheirs()
	if err != nil {
		return failedResult("exec: %v", err)
	}
	pr.mu.Lock()
	pr.pid = proc.Pid
	pr.mu.Unlock()
	stopWatching := context.AfterFunc(ctx, pr.killGroup)
	defer stopWatching()

	// What the kernel tells of a process that is over begins with what this one had when it forked.
	var workerUsage unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &workerUsage); err != nil {
		workerUsage.Maxrss = math.MaxInt64
	}

	out := newResult(t)
	var errTail tailBuffer
	var streams sync.WaitGroup
	streams.Go(func() {
		pipes.ours[0].Write(stdin) // what the process does not read is its own business
		pipes.ours[0].Close()
	})
	streams.Go(func() {
		if copyOutput(out, pipes.ours[1]) != nil {
			pr.killGroup()
		}
	})
	streams.Go(func() { io.Copy(&errTail, pipes.ours[2]) })
	streams.Go(func() { pr.readProgress(pipes.ours[3]) })
	exited := make(chan struct{})
	var peakSeen int64
	streams.Go(func() { peakSeen = watchMemory(proc.Pid, exited) })

	// Wait, but do not reap: as long as the process is a zombie, nobody else can get its group's id.
	err = retryEINTR(func() error {
		return unix.Waitid(unix.P_PID, proc.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
	})
	res := Result{Run: time.Since(start)}
	close(exited)
	e, isEnded := endReason()
	pr.killGroup()
	pr.mu.Lock()
	pr.reaping = true
	pr.mu.Unlock()
	state, waitErr := proc.Wait()
	pipes.setDeadline(time.Now().Add(pipeGrace))
	streams.Wait()
	if err := errors.Join(err, waitErr); err != nil {
		return failedResult("exec %s: the process is lost: %v", path, err)
	}

	res.CPU = state.UserTime() + state.SystemTime()
	res.MaxRSS = peakSeen
	if maxKiB := state.SysUsage().(*syscall.Rusage).Maxrss; maxKiB > workerUsage.Maxrss {
		res.MaxRSS = maxKiB << 10
	}
	_, large := out.err.(*sizeError)
	switch {
	case isEnded:
		res.Status, res.Err = e.status, e.reason
	case large:
		res.setFailure(out.err)
	case !state.Success() && out.err == nil: // else it was killed
		res.Status = Failed
		if state.Sys().(syscall.WaitStatus).Signaled() {
			res.Status = Panicked
		}
		res.Err = clipText(fmt.Sprintf("exec %s: %v; stderr: %s", path, state, errTail.String()))
	default:
		out.Close()
		res.setResult(out)
		return res
	}
	out.endOutput(false)
	return res
}

// watchMemory looks, ever more rarely, at the most memory that a process has had, in bytes, until it is over.
func watchMemory(pid int, exited <-chan struct{}) (peak int64) {
	name := fmt.Sprintf("/proc/%d/status", pid)
	for pause := time.Millisecond; ; pause = min(2*pause, time.Second) {
		select {
		case <-exited:
			return peak
		case <-time.After(pause):
		}
		status, err := os.ReadFile(name)
		if err != nil {
			continue
		}
		if _, rest, ok := strings.Cut(string(status), "\nVmHWM:"); ok { // not of a zombie
			var kib int64
			if _, err := fmt.Sscan(rest, &kib); err == nil {
				peak = max(peak, kib<<10)
			}
		}
	}
}

// maxPipe is more than a pipe holds.
const maxPipe = 1 << 20

// copyOutput copies what comes by a pipe, up to its end or deadline, and returns why it cannot be kept, if it cannot. What was
// written before the deadline is never left out, however late this process comes to read it: it may have been stopped.
func copyOutput(out *output, pipe *os.File) error {
	buf := make([]byte, 32<<10)
	_, err := io.CopyBuffer(out, struct{ io.Reader }{pipe}, buf)
	if !errors.Is(err, os.ErrDeadlineExceeded) || pipe.SetReadDeadline(time.Time{}) != nil {
		return out.err
	}
	raw, err := pipe.SyscallConn()
	if err != nil {
		return nil
	}
	budget := maxPipe // a stray may go on writing
	_ = raw.Read(func(fd uintptr) bool {
		for budget > 0 {
			n, err := unix.Read(int(fd), buf[:min(len(buf), budget)])
			if err == unix.EINTR {
				continue
			}
			if n <= 0 {
				break
			}
			budget -= n
			if _, err := out.Write(buf[:n]); err != nil {
				break
			}
		}
		return true
	})
	return out.err
}

// pipes are the three standard files, and the one for progress: our ends, and theirs for the process.
type pipes struct{ ours, theirs [4]*os.File }

func openPipes() (p *pipes, err error) {
	p = new(pipes)
	for i := range p.ours {
		r, w, err := os.Pipe()
		if err != nil {
			p.closeTheirs()
			p.closeOurs()
			return nil, fmt.Errorf("open its pipes: %w", err)
		}
		if p.ours[i], p.theirs[i] = r, w; i == 0 {
			p.ours[i], p.theirs[i] = w, r
		}
	}
	return p, nil
}

// Closing a nil file or a closed one is an error that does no harm.
func (p *pipes) closeTheirs() {
	for _, f := range p.theirs {
		f.Close()
	}
}

func (p *pipes) closeOurs() {
	for _, f := range p.ours {
		f.Close()
	}
}

func (p *pipes) setDeadline(t time.Time) {
	for _, f := range p.ours {
		f.SetDeadline(t)
	}
}

func environList(m map[string]string) []string {
	env := make([]string, 0, len(m))
	for _, k := range slices.Sorted(maps.Keys(m)) {
		env = append(env, k+"="+m[k])
	}
	return env
}

// lookPath is os/exec.LookPath for a PATH that is not this process's own. Relative entries are ignored.
func lookPath(name, path string) (string, error) {
	if strings.Contains(name, "/") {
		return name, nil
	}
	for _, dir := range filepath.SplitList(path) {
		if !filepath.IsAbs(dir) {
			continue
		}
		f := filepath.Join(dir, name)
		if st, err := os.Stat(f); err == nil && !st.IsDir() && st.Mode()&0o111 != 0 {
			return f, nil
		}
	}
	return "", fmt.Errorf("exec: no program %q in PATH=%s: give argv[0] as a path, or a PATH in env: %w", name, path, fs.ErrNotExist)
}

// tailBuffer keeps the last stderrTail bytes that were written to it.
type tailBuffer struct {
	buf []byte
	cut bool
}

func (t *tailBuffer) Write(b []byte) (int, error) {
	t.buf = append(t.buf, b...)
	if excess := len(t.buf) - stderrTail; excess > 0 {
		t.buf = append(t.buf[:0], t.buf[excess:]...)
		t.cut = true
	}
	return len(b), nil
}

func (t *tailBuffer) String() string {
	s := strings.TrimRight(string(t.buf), "\n")
	if t.cut {
		s = "..." + s
	}
	return s
}

// launcher starts processes on one OS thread that lives as long as it does. The kernel ties two things
// to the thread that forks: the signal at the parent's death, which would come too early from a thread
// that ends before the worker, and ptrace.
type launcher struct {
	requests chan launchRequest
	ended    chan struct{}
}

type launchRequest struct {
	path   string
	argv   []string
	attr   os.ProcAttr
	memory probe.MiB
	answer chan launchResult
}

type launchResult struct {
	proc  *os.Process
	start time.Time // just before the fork
	err   error
}

func newLauncher() *launcher {
	l := &launcher{requests: make(chan launchRequest), ended: make(chan struct{})}
	go func() {
		defer close(l.ended)
		runtime.LockOSThread() // for good: the thread ends with the goroutine
		for r := range l.requests {
			start := time.Now()
			proc, err := r.startLimited()
			r.answer <- launchResult{proc, start, err}
		}
	}()
	return l
}

// close comes after the last start.
func (l *launcher) close() {
	close(l.requests)
	<-l.ended
}

func (l *launcher) start(r launchRequest) (*os.Process, time.Time, error) {
	r.answer = make(chan launchResult, 1)
	l.requests <- r
	a := <-r.answer
	return a.proc, a.start, a.err
}

// startLimited starts the process and sets its limits before its first instruction: traced, it stops after execve,
// gets its limits and is let go. Where ptrace is forbidden (EPERM) the limits come right after the start
// instead, and a child that the process forks within that fraction of a millisecond escapes them.
// Setting limits in a re-executed copy of this program was the alternative: a Go start for each task,
// and a hidden mode in every program that embeds a worker.
func (r *launchRequest) startLimited() (*os.Process, error) {
	r.attr.Sys.Ptrace = true
	proc, err := os.StartProcess(r.path, r.argv, &r.attr)
	if errors.Is(err, unix.EPERM) {
		r.attr.Sys.Ptrace = false
		proc, err = os.StartProcess(r.path, r.argv, &r.attr)
	}
	if err != nil {
		return nil, err
	}
	if r.attr.Sys.Ptrace {
		err = awaitExecStop(proc.Pid)
	}
	if err == nil {
		err = setLimits(proc.Pid, r.memory)
	}
	if err != nil {
		proc.Kill()
	}
	if r.attr.Sys.Ptrace {
		err = errors.Join(err, unix.PtraceDetach(proc.Pid))
	}
	if err != nil {
		proc.Kill()
		proc.Wait()
		return nil, fmt.Errorf("start %s: %w", r.path, err)
	}
	return proc, nil
}

func awaitExecStop(pid int) error {
	var ws unix.WaitStatus
	err := retryEINTR(func() error { _, err := unix.Wait4(pid, &ws, 0, nil); return err })
	if err == nil && !ws.Stopped() {
		err = errors.New("it was killed before it began")
	}
	return err
}

// setLimits never raises a limit. Memory is RLIMIT_DATA, the private writable memory of each process of
// the task. RLIMIT_AS also counts what is merely reserved: under 256 MiB of that no Go or Java program
// starts. Shared memory escapes both; only a cgroup would catch it.
func setLimits(pid int, memory probe.MiB) error {
	type limit struct {
		what  string
		which int
		max   uint64
	}
	limits := []limit{{"core size", unix.RLIMIT_CORE, 0}, {"open files", unix.RLIMIT_NOFILE, maxFiles}}
	if memory > 0 {
		limits = append(limits, limit{"memory", unix.RLIMIT_DATA, uint64(memory) << 20})
	}
	for _, l := range limits {
		var old unix.Rlimit
		err := unix.Prlimit(pid, l.which, nil, &old)
		if err == nil {
			m := min(l.max, old.Max)
			err = unix.Prlimit(pid, l.which, &unix.Rlimit{Cur: m, Max: m}, nil)
		}
		if err != nil {
			return fmt.Errorf("limit its %s: %w", l.what, err)
		}
	}
	return nil
}

func retryEINTR(f func() error) error {
	for {
		if err := f(); err != unix.EINTR {
			return err
		}
	}
}
