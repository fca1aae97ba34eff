package exec

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"github.com/phoebe-sched/phoebe/probe"
	"golang.org/x/sys/unix"
)

// launcher starts processes on one OS thread, which lives as long as the launcher. The kernel ties several things
// to the forking thread: ptrace, no_new_privs, and the signal at the parent's death (Pdeathsig). From a thread that
// ends before the worker, the signal would come too early.
type launcher struct {
	processes *Processes
	calls     chan func()
	ended     chan struct{}

	// Set by prepareIsolation, then read-only.
	traces       bool        // a process stops after execve, and gets its limits before its first instruction
	cgroups      *cgroups    // nil: none
	whyNoCgroups error       // if cgroups is nil
	uids         chan uint32 // users without a task; nil: tasks run as the worker's user

	lookups  chan struct{} // holds an item for each hanging lookup of an ended task
	closing  chan struct{}
	cleaners sync.WaitGroup // wait until cells are empty
}

// maxHungLookups bounds the threads that hang in a file system for ended tasks. Beyond the bound, a hanging task keeps
// its slot until the file system answers.
const maxHungLookups = 64

// newLauncher starts the launcher's thread, and finds out how processes can be isolated.
func newLauncher(p *Processes) (*launcher, error) {
	l := &launcher{
		processes: p, calls: make(chan func()), ended: make(chan struct{}),
		lookups: make(chan struct{}, maxHungLookups), closing: make(chan struct{}),
	}
	go func() {
		defer close(l.ended)
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		for call := range l.calls {
			call()
		}
	}()
	var err error
	l.onThread(func() { err = l.prepareIsolation() })
	if err != nil {
		l.close()
		return nil, err
	}
	return l, nil
}

// close ends the launcher's thread, and removes the cgroups. Call close after the last start.
func (l *launcher) close() {
	close(l.closing)
	l.cleaners.Wait()
	if l.cgroups != nil {
		l.cgroups.closeFolders()
	}
	close(l.calls)
	<-l.ended
}

// onThread calls f on the launcher's thread.
func (l *launcher) onThread(f func()) {
	done := make(chan struct{})
	l.calls <- func() { f(); close(done) }
	<-done
}

// launchRequest asks the launcher's thread to start a process.
type launchRequest struct {
	path   string
	argv   []string
	attr   os.ProcAttr
	memory probe.MiB
	cell   *cell
}

// startProcess starts a process on the launcher's thread. The time is just before the fork.
func (l *launcher) startProcess(r *launchRequest) (proc *os.Process, start time.Time, err error) {
	l.onThread(func() {
		start = time.Now()
		proc, err = l.startLimited(r)
	})
	return proc, start, err
}

// startLimited starts the process and sets its limits before its first instruction. The process is traced: it stops
// after execve, gets its limits and runs on. If the launcher does not trace, the limits come right after the start.
// Then a child forked within a fraction of a millisecond escapes the limits. A re-executed copy of this program
// could set limits before the start, too. But a copy would cost a Go start for each task, and a hidden mode in every
// program with a worker.
func (l *launcher) startLimited(r *launchRequest) (*os.Process, error) {
	r.attr.Sys.Ptrace = l.traces
	r.cell.setAttributes(r.attr.Sys)
	proc, err := os.StartProcess(r.path, r.argv, &r.attr)
	if errors.Is(err, unix.EACCES) && r.attr.Dir != "" {
		// execve's error would blame the program. A user who may not enter a folder cannot open the "." in the folder.
		if e := l.openAs(r.cell.uid, r.attr.Dir+"/.", unix.O_PATH); e != nil {
			return nil, fmt.Errorf("enter the folder %s as user %d: %w: open it to this user, or name another dir",
				r.attr.Dir, r.cell.userID(), e)
		}
	}
	if err != nil {
		return nil, err
	}
	if l.traces {
		err = awaitExecStop(proc.Pid)
	}
	if err == nil {
		err = l.limitProcess(proc.Pid, r)
	}
	if err != nil {
		proc.Kill()
	}
	if l.traces {
		err = errors.Join(err, unix.PtraceDetach(proc.Pid))
	}
	if err != nil {
		proc.Kill()
		proc.Wait()
		return nil, fmt.Errorf("start %s: %w", r.path, err)
	}
	return proc, nil
}

// limitProcess sets the limits of a started process.
func (l *launcher) limitProcess(pid int, r *launchRequest) error {
	uid := r.cell.uid
	if uid == 0 {
		err := setLimits(pid, r.memory, false)
		if l.processes.Setuid && errors.Is(err, unix.EPERM) {
			return nil // a setuid program belongs to another user by now
		}
		return err
	}
	if l.traces {
		// Without CAP_SYS_RESOURCE only the same user may set limits. The process may now signal this thread. But the
		// process is stopped, and no other process belongs to the user.
		unix.RawSyscall(unix.SYS_SETRESGID, uintptr(uid), unchangedID, unchangedID)
		unix.RawSyscall(unix.SYS_SETRESUID, uintptr(uid), unchangedID, unchangedID)
		defer func() {
			unix.RawSyscall(unix.SYS_SETRESUID, uintptr(unix.Geteuid()), unchangedID, unchangedID)
			unix.RawSyscall(unix.SYS_SETRESGID, uintptr(unix.Getegid()), unchangedID, unchangedID)
		}()
	}
	return setLimits(pid, r.memory, true)
}

// unchangedID makes SYS_SETRESUID keep an id.
const unchangedID = ^uintptr(0)

// awaitExecStop waits until the traced process stops after execve.
func awaitExecStop(pid int) error {
	var ws unix.WaitStatus
	err := retryEINTR(func() error { _, err := unix.Wait4(pid, &ws, 0, nil); return err })
	if err == nil && !ws.Stopped() {
		err = errors.New("it was killed before it began")
	}
	return err
}

const (
	maxFiles     = 4096  // open files of a process
	maxProcesses = 4096  // processes and threads of a task that has a user of its own
	maxShared    = 16384 // processes and threads of the worker's user, with all tasks; root has no limit
)

// setLimits lowers the limits of a process; it never raises one. The memory limit is RLIMIT_DATA, the private
// writable memory of each process of the task. RLIMIT_AS would also count reserved memory, and no Go or Java
// program starts under 256 MiB of RLIMIT_AS. Shared memory escapes both limits; only a memory controller would catch
// shared memory. RLIMIT_NPROC counts the processes and threads of the process's user.
func setLimits(pid int, memory probe.MiB, ownUser bool) error {
	type limit struct {
		what  string
		which int
		max   uint64
	}
	limits := []limit{
		{"core size", unix.RLIMIT_CORE, 0}, {"open files", unix.RLIMIT_NOFILE, maxFiles},
		{"processes", unix.RLIMIT_NPROC, maxShared},
	}
	if ownUser {
		limits[2].max = maxProcesses
	}
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

// setThreadGroups sets the supplementary groups of this thread alone.
func setThreadGroups(groups []int) {
	ids := make([]uint32, len(groups)+1) // one more, for a pointer
	for i, g := range groups {
		ids[i] = uint32(g)
	}
	syscall.RawSyscall(unix.SYS_SETGROUPS, uintptr(len(groups)), uintptr(unsafe.Pointer(&ids[0])), 0)
}
