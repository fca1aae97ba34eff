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
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const processesSupported = true

const (
	fileEnv     = "PHOEBE_FILE_"         // prefix of the variables with the paths of the task's files; a number follows
	progressEnv = "PHOEBE_PROGRESS_FD"   // variable with the descriptor for lines of progress
	stderrTail  = 4 << 10                // bytes of standard error quoted by a failure
	pipeGrace   = 100 * time.Millisecond // for output of strays that hold the pipes after the end of the process
)

// process is a process with its children. Kill kills the cgroup. If the process ends by itself, the pool kills the rest
// of the cgroup. Without cgroups the pool kills the process group, and a child outside the group (setsid) escapes. If
// the worker dies, the kernel kills the process, and the next worker kills the rest of the cgroup.
type process struct {
	cancel   context.CancelCauseFunc
	progress progress

	mu      sync.Mutex
	cgroup  *cgroup // nil: none, or the pool has taken it back
	pid     int     // zero until the start
	reaping bool    // the process is about to be reaped: its pid may soon name another process
	use     Use     // at the last sample
}

func (pr *process) Kill(reason string) { pr.cancel(killedError(reason)) }

func (pr *process) Progress() (float64, time.Duration) { return pr.progress.lastReport() }

func (pr *process) Use() Use {
	pr.mu.Lock()
	defer pr.mu.Unlock()
	return pr.use
}

// readProgress reads the process's progress reports, a number per line, until the process closes the pipe.
func (pr *process) readProgress(lines io.Reader) {
	for scan := bufio.NewScanner(lines); scan.Scan(); {
		if done, err := strconv.ParseFloat(strings.TrimSpace(scan.Text()), 64); err == nil {
			pr.progress.noteDone(done)
		}
	}
	io.Copy(io.Discard, lines) // drains the pipe after a line that is too long, so the process never blocks
}

// killAll kills the process and its children. Safe at any time: it does nothing before the start and after the end.
func (pr *process) killAll() {
	pr.mu.Lock()
	defer pr.mu.Unlock()
	if pr.pid == 0 || pr.reaping {
		return
	}
	unix.Kill(-pr.pid, unix.SIGKILL) // fails only if the group is empty
	if pr.cgroup != nil && pr.cgroup.hasProcesses() {
		pr.cgroup.killAll()
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

// runProcess runs the command to its end: it starts the process, serves its pipes, waits, and kills its children.
func (pr *process) runProcess(ctx context.Context, l *launcher, c Command, t *Attempt) Result {
	env := map[string]string{"PATH": os.Getenv("PATH"), progressEnv: "3"}
	maps.Copy(env, c.Env)
	for i, path := range t.Files {
		env[fileEnv+strconv.Itoa(i)] = path
	}
	endReason := func() (*endedError, bool) {
		e, ok := context.Cause(ctx).(*endedError)
		return e, ok
	}
	path, err := l.lookUp(ctx, &c, env["PATH"])
	if e, ok := endReason(); ok {
		return Result{Status: e.status, Err: e.reason + whyUnstarted(err)}
	}
	if err != nil {
		return failedResult("%v", err)
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
	cell, err := l.takeCell(ctx.Done())
	if err != nil {
		pipes.closeTheirs()
		return failedResult("exec %s: %v", path, err)
	}
	if e, ok := endReason(); ok {
		pipes.closeTheirs()
		if cell != nil {
			l.releaseCell(cell)
		}
		return Result{Status: e.status, Err: e.reason}
	}
	defer l.releaseCell(cell)

	meter := newUseMeter(cell.cgroup)
	pipes.giveTo(cell.uid)
	proc, start, err := l.startProcess(&launchRequest{
		path:   path,
		argv:   c.Argv,
		memory: t.Memory,
		cell:   cell,
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
	pr.pid, pr.cgroup = proc.Pid, cell.cgroup
	pr.mu.Unlock()
	stopWatching := context.AfterFunc(ctx, pr.killAll)
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
			pr.killAll()
		}
	})
	streams.Go(func() { io.Copy(&errTail, pipes.ours[2]) })
	streams.Go(func() { pr.readProgress(pipes.ours[3]) })
	exited := make(chan struct{})
	var peakSeen int64
	meter.pid = proc.Pid
	streams.Go(func() { peakSeen = pr.watchUse(meter, start, exited) })

	// Wait, but do not reap: while the process is a zombie, no new process can get its group's id.
	err = retryEINTR(func() error {
		return unix.Waitid(unix.P_PID, proc.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
	})
	res := Result{Run: time.Since(start)}
	close(exited)
	e, isEnded := endReason() // of a kill or timeout before the end; later ones do not count
	pr.killAll()
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
		res.Err = clipText(fmt.Sprintf("exec %s: %v%s; stderr: %s", path, state, l.noteLostRights(path),
			errTail.String()))
	default:
		out.Close()
		res.setResult(out)
		return res
	}
	out.endOutput(false)
	return res
}

// watchUse samples the consumption of a process, ever more rarely, until exited is closed. It returns the peak memory
// of the process in bytes, or 0 if the process ended before the first sample.
func (pr *process) watchUse(meter *useMeter, start time.Time, exited <-chan struct{}) (peak int64) {
	name := fmt.Sprintf("/proc/%d/status", meter.pid)
	for pause := time.Millisecond; ; pause = min(2*pause, time.Second) {
		select {
		case <-exited:
			return peak
		case <-time.After(pause):
		}
		if ran := time.Since(start); ran >= useFrom {
			if cpu, memory, ok := meter.measure(); ok {
				pr.mu.Lock()
				pr.use = Use{cpu, memory, ran}
				pr.mu.Unlock()
			}
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

// giveTo makes a user the owner of the process's ends, so that the process can open /dev/stdout. For user 0, giveTo
// does nothing: the worker's user owns the pipes.
func (p *pipes) giveTo(uid uint32) {
	if uid == 0 {
		return
	}
	for _, f := range p.theirs {
		f.Chown(int(uid), int(uid)) // after an error, only /dev/stdout and the like do not open
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

// errNotLookedUp says that a file system did not answer before the end of the task.
var errNotLookedUp = errors.New(
	"its program and its dir were not found until then: does a file system hang?")

// whyUnstarted returns a clause about an unfinished lookup, or "".
func whyUnstarted(err error) string {
	if err == errNotLookedUp {
		return "; " + err.Error()
	}
	return ""
}

// lookupGrace is how long a lookup may go on after the end of its task. A longer lookup hangs.
const lookupGrace = 100 * time.Millisecond

// lookUp returns the path of the program, or an error if the program or the folder is missing. If ctx ends before the
// file system answers, lookUp returns errNotLookedUp.
//
// On a dead file server, execve hangs. While execve hangs, Go can neither fork nor collect garbage, so the worker
// would hang as well. So a goroutine first looks for the folder, and reads the head of the program.
func (l *launcher) lookUp(ctx context.Context, c *Command, pathList string) (string, error) {
	type answer struct {
		path string
		err  error
	}
	answers := make(chan answer, 1)
	go func() {
		path, err := c.lookUp(pathList)
		answers <- answer{path, err}
	}()
	select {
	case a := <-answers:
		return a.path, a.err
	case <-ctx.Done():
	}
	select {
	case a := <-answers:
		return a.path, a.err
	case <-time.After(lookupGrace):
	}
	select {
	case a := <-answers:
		return a.path, a.err
	case l.lookups <- struct{}{}:
		go func() {
			<-answers
			<-l.lookups
		}()
		return "", errNotLookedUp
	}
}

// lookUp returns the path of the program, after a look at the folder and at the head of the program.
func (c *Command) lookUp(pathList string) (string, error) {
	path, err := lookPath(c.Argv[0], pathList)
	if err != nil {
		return "", err
	}
	if c.Dir != "" { // otherwise execve's error would blame the program
		if st, err := os.Stat(c.Dir); err != nil || !st.IsDir() {
			return "", fmt.Errorf("exec: dir %s is not a directory on this worker", c.Dir)
		}
	}
	file := path
	if c.Dir != "" && !filepath.IsAbs(path) {
		file = filepath.Join(c.Dir, path)
	}
	if f, err := os.OpenFile(file, os.O_RDONLY|unix.O_NONBLOCK, 0); err == nil { // execve reports errors
		f.Read(make([]byte, 1<<10))
		f.Close()
	}
	return path, nil
}

// noteLostRights returns a clause if the failed program would have more rights with --exec-setuid, or "".
func (l *launcher) noteLostRights(path string) string {
	if l.processes.Setuid {
		return ""
	}
	st, err := os.Stat(path)
	if err != nil {
		return ""
	}
	_, err = unix.Getxattr(path, "security.capability", nil)
	if err != nil && st.Mode()&(os.ModeSetuid|os.ModeSetgid) == 0 {
		return ""
	}
	return " (a setuid program, but tasks gain no rights here: to allow that, start the worker with --exec-setuid)"
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
