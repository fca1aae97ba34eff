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
	fileEnv     = "PHOEBE_FILE_"         // prefix of the variables with the paths of the task's files; a number follows
	progressEnv = "PHOEBE_PROGRESS_FD"   // variable with the descriptor for lines of progress
	stderrTail  = 4 << 10                // bytes of standard error quoted by a failure
	pipeGrace   = 100 * time.Millisecond // for output of strays that hold the pipes after the end of the process
)

// process is a process and its process group. Kill kills the whole group. If the process ends by itself, the pool
// kills the rest of the group then. A process that leaves the group (setsid) escapes. If the worker dies, the
// kernel kills the process, but not its children.
type process struct {
	cancel   context.CancelCauseFunc
	progress progress

	mu      sync.Mutex
	pid     int  // zero until the start
	reaping bool // the process is about to be reaped: its pid may soon name another process
}

func (pr *process) Kill(reason string) { pr.cancel(killedError(reason)) }

func (pr *process) Progress() (float64, time.Duration) { return pr.progress.lastReport() }

// readProgress reads the process's progress reports, a number per line, until the process closes the pipe.
func (pr *process) readProgress(lines io.Reader) {
	for scan := bufio.NewScanner(lines); scan.Scan(); {
		if done, err := strconv.ParseFloat(strings.TrimSpace(scan.Text()), 64); err == nil {
			pr.progress.noteDone(done)
		}
	}
	io.Copy(io.Discard, lines) // drains the pipe after a line that is too long, so the process never blocks
}

// killGroup kills the process and its group. Safe at any time: it does nothing before the start and after the end.
func (pr *process) killGroup() {
	pr.mu.Lock()
	defer pr.mu.Unlock()
	if pr.pid != 0 && !pr.reaping {
		unix.Kill(-pr.pid, unix.SIGKILL) // fails only if the group is empty
	}
}

// startProcess checks the command of t and runs it on a goroutine of its own.
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

// runProcess runs the command to its end: it starts the process, serves its pipes, waits, and kills the rest of the
// group.
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
	if c.Dir != "" { // otherwise execve's error would blame the program
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

	// The kernel's peak memory of a process starts with the memory of the worker at the fork. So the kernel's peak
	// is used below only if it exceeds the worker's own.
	var workerUsage unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &workerUsage); err != nil {
		workerUsage.Maxrss = math.MaxInt64
	}

	out := newResultOutput(t)
	var errTail tailBuffer
	var streams sync.WaitGroup
	streams.Go(func() {
		pipes.ours[0].Write(stdin) // the process need not read all of stdin
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

	// Wait, but do not reap: while the process is a zombie, no new process can get its group's id.
	err = retryEINTR(func() error {
		return unix.Waitid(unix.P_PID, proc.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
	})
	res := Result{Run: time.Since(start)}
	close(exited)
	e, isEnded := endReason() // of a kill or timeout before the end; later ones do not count
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
	case !state.Success() && out.err == nil: // if out failed, copyOutput killed the process
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

// watchMemory samples the peak memory of a process, ever more rarely, until exited is closed. It returns the peak
// in bytes, or 0 if the process ended before the first sample.
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
		if _, rest, ok := strings.Cut(string(status), "\nVmHWM:"); ok { // missing for a zombie
			var kib int64
			if _, err := fmt.Sscan(rest, &kib); err == nil {
				peak = max(peak, kib<<10)
			}
		}
	}
}

// maxPipe is more than a pipe holds, in bytes.
const maxPipe = 1 << 20

// copyOutput copies a pipe to out, up to the pipe's end or deadline. It returns why out cannot keep the output, or
// nil. The copy includes everything written before the deadline, even if this process was stopped and reads late.
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
	budget := maxPipe // a stray may write without end
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

// pipes are the pipes of the three standard files and of the progress: our ends, and their ends for the process.
type pipes struct{ ours, theirs [4]*os.File }

// openPipes opens all pipes, or none.
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

// closeTheirs closes the process's ends. Closing a nil or closed file returns an error and does no harm.
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

// environList returns m as sorted NAME=value entries.
func environList(m map[string]string) []string {
	env := make([]string, 0, len(m))
	for _, k := range slices.Sorted(maps.Keys(m)) {
		env = append(env, k+"="+m[k])
	}
	return env
}

// lookPath is os/exec.LookPath for the PATH of a command, not the worker's own. It ignores relative entries.
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
	return "", fmt.Errorf(
		"exec: no program %q in PATH=%s: give argv[0] as a path, or a PATH in env: %w", name, path, fs.ErrNotExist)
}

// tailBuffer keeps the last stderrTail bytes written to it.
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

// launcher starts processes on one OS thread, which lives as long as the launcher. The kernel ties two things to
// the forking thread: ptrace, and the signal at the parent's death (Pdeathsig). From a thread that ends before the
// worker, the signal would come too early.
type launcher struct {
	requests chan launchRequest
	ended    chan struct{}
}

// launchRequest asks the launcher's thread to start a process.
type launchRequest struct {
	path   string
	argv   []string
	attr   os.ProcAttr
	memory probe.MiB
	answer chan launchResult
}

type launchResult struct {
	proc  *os.Process
	start time.Time // the time just before the fork
	err   error
}

// newLauncher starts the launcher's thread.
func newLauncher() *launcher {
	l := &launcher{requests: make(chan launchRequest), ended: make(chan struct{})}
	go func() {
		defer close(l.ended)
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		for r := range l.requests {
			start := time.Now()
			proc, err := r.startLimited()
			r.answer <- launchResult{proc, start, err}
		}
	}()
	return l
}

// close ends the launcher's thread. Call close after the last start.
func (l *launcher) close() {
	close(l.requests)
	<-l.ended
}

// start starts a process on the launcher's thread. The time is just before the fork.
func (l *launcher) start(r launchRequest) (*os.Process, time.Time, error) {
	r.answer = make(chan launchResult, 1)
	l.requests <- r
	a := <-r.answer
	return a.proc, a.start, a.err
}

// startLimited starts the process and sets its limits before its first instruction. The process is traced: it stops
// after execve, gets its limits and runs on. Where ptrace is forbidden (EPERM), the limits come right after the
// start. Then a child forked within a fraction of a millisecond escapes the limits. A re-executed copy of this
// program could set limits before the start, too. But a copy would cost a Go start for each task, and a hidden mode
// in every program with a worker.
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

// awaitExecStop waits until the traced process stops after execve.
func awaitExecStop(pid int) error {
	var ws unix.WaitStatus
	err := retryEINTR(func() error { _, err := unix.Wait4(pid, &ws, 0, nil); return err })
	if err == nil && !ws.Stopped() {
		err = errors.New("it was killed before it began")
	}
	return err
}

// setLimits lowers the limits of a process; it never raises one. The memory limit is RLIMIT_DATA, the private
// writable memory of each process of the task. RLIMIT_AS would also count reserved memory, and no Go or Java
// program starts under 256 MiB of RLIMIT_AS. Shared memory escapes both limits; only a cgroup would catch it.
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
