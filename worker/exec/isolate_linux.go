package exec

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// cgroups has a cgroup of version 2 for each running process of a pool. To end a task, the kernel kills all processes
// of the cgroup, also processes outside the process group (setsid). No controllers are needed.
type cgroups struct {
	parent *os.File // the folder above all cgroups of the pool, locked while the pool lives

	mu   sync.Mutex
	free []*cgroup // without processes
	made int
}

// cgroup is a cgroup for one process after another, with the children of each.
type cgroup struct {
	dir *os.File
	// Linux 6.18 kills each process started in a cgroup after the first kill there. So a killed cgroup is removed.
	wasKilled bool
}

// cgroupPrefix begins the name of a pool's folder.
const cgroupPrefix = "phoebe-"

// openCgroups makes the folder of a new pool below the worker's own cgroup, and removes the folders of dead pools. An
// error says why the worker cannot have cgroups here.
func openCgroups() (*cgroups, error) {
	base, err := findCgroup()
	if err != nil {
		return nil, err
	}
	removeDeadCgroups(base)
	path, err := os.MkdirTemp(base, cgroupPrefix)
	if err != nil {
		return nil, err
	}
	g := &cgroups{}
	if g.parent, err = os.Open(path); err == nil {
		err = unix.Flock(int(g.parent.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	}
	if err == nil { // Linux before 5.14 has no such file
		_, err = os.Stat(filepath.Join(path, "cgroup.kill"))
	}
	if err != nil {
		os.Remove(path)
		g.parent.Close() // does nothing if the file is nil
		return nil, err
	}
	return g, nil
}

// findCgroup returns the folder of this process's own cgroup of version 2.
func findCgroup() (string, error) {
	own, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return "", err
	}
	path := ""
	for line := range strings.Lines(string(own)) {
		if p, ok := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "0::"); ok {
			path = p
		}
	}
	mounts, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return "", err
	}
	defer mounts.Close()
	for scan := bufio.NewScanner(mounts); scan.Scan() && path != ""; {
		// id parent major:minor root mountpoint options ... - type source options
		before, after, _ := strings.Cut(scan.Text(), " - ")
		fields := strings.Fields(before)
		if !strings.HasPrefix(after, "cgroup2 ") || len(fields) < 5 {
			continue
		}
		if rel, err := filepath.Rel(fields[3], path); err == nil && filepath.IsLocal(rel) {
			return filepath.Join(fields[4], rel), nil
		}
	}
	return "", errors.New("no cgroup of version 2 is mounted")
}

// removeDeadCgroups kills the processes of dead pools, and removes the folders without processes. The start of the
// next pool removes the other folders.
func removeDeadCgroups(base string) {
	pools, _ := filepath.Glob(filepath.Join(base, cgroupPrefix+"*"))
	for _, path := range pools {
		pool, err := os.Open(path)
		if err != nil {
			continue
		}
		if unix.Flock(int(pool.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil {
			(&cgroup{dir: pool}).killAll()
			tasks, _ := filepath.Glob(filepath.Join(path, "*", "cgroup.procs"))
			for _, t := range tasks {
				os.Remove(filepath.Dir(t))
			}
			os.Remove(path)
		}
		pool.Close()
	}
}

// takeCgroup returns a cgroup without processes.
func (g *cgroups) takeCgroup() (*cgroup, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if n := len(g.free); n > 0 {
		c := g.free[n-1]
		g.free = g.free[:n-1]
		return c, nil
	}
	path := filepath.Join(g.parent.Name(), fmt.Sprint(g.made))
	if err := os.Mkdir(path, 0o700); err != nil {
		return nil, fmt.Errorf("make its cgroup: %w", err)
	}
	dir, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("open its cgroup: %w", err)
	}
	g.made++
	return &cgroup{dir: dir}, nil
}

// giveBack makes a cgroup without processes free again, or removes it.
func (g *cgroups) giveBack(c *cgroup) {
	if c.wasKilled {
		c.removeFolder()
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.free = append(g.free, c)
}

// closeFolders removes all free cgroups, and the folder unless a process is left.
func (g *cgroups) closeFolders() {
	for _, c := range g.free {
		c.removeFolder()
	}
	os.Remove(g.parent.Name())
	g.parent.Close()
}

// removeFolder removes the cgroup, which must have no process.
func (c *cgroup) removeFolder() {
	os.Remove(c.dir.Name())
	c.dir.Close()
}

// killAll kills all processes of the cgroup, also a process in the middle of its fork.
func (c *cgroup) killAll() {
	c.wasKilled = true
	// An error means that the cgroup is gone.
	_ = os.WriteFile(filepath.Join(c.dir.Name(), "cgroup.kill"), []byte("1"), 0)
}

// hasProcesses reports whether a process is left in the cgroup. A zombie does not count.
func (c *cgroup) hasProcesses() bool {
	events, err := os.ReadFile(filepath.Join(c.dir.Name(), "cgroup.events"))
	return err != nil || strings.Contains(string(events), "populated 1")
}

// awaitEmpty kills all processes of the cgroup, and waits until no process is left or stop is closed.
func (c *cgroup) awaitEmpty(stop <-chan struct{}) bool {
	for pause := 100 * time.Microsecond; c.hasProcesses(); pause = min(2*pause, time.Second) {
		c.killAll()
		select {
		case <-time.After(pause):
		case <-stop:
			return !c.hasProcesses()
		}
	}
	return true
}

// cell isolates a running process: its cgroup (nil: there are none), and its user (0: the worker's).
type cell struct {
	cgroup *cgroup
	uid    uint32
}

// takeCell returns a cell for a process. If all users run tasks, takeCell waits for the end of a task. If cancelled is
// closed first, takeCell returns nil and no error.
func (l *launcher) takeCell(cancelled <-chan struct{}) (*cell, error) {
	c := &cell{}
	if l.uids != nil {
		select {
		case c.uid = <-l.uids:
		case <-cancelled:
			return nil, nil
		}
	}
	if l.cgroups != nil {
		var err error
		if c.cgroup, err = l.cgroups.takeCgroup(); err != nil {
			l.releaseCell(c)
			return nil, err
		}
	}
	return c, nil
}

// releaseCell gives a cell to later processes, once the cell has no process left. releaseCell does not block.
func (l *launcher) releaseCell(c *cell) {
	if c.cgroup == nil || !c.cgroup.hasProcesses() {
		l.reuseCell(c)
		return
	}
	l.cleaners.Go(func() {
		if c.cgroup.awaitEmpty(l.closing) {
			l.reuseCell(c)
		}
	})
}

func (l *launcher) reuseCell(c *cell) {
	if c.cgroup != nil {
		l.cgroups.giveBack(c.cgroup)
	}
	if l.uids != nil {
		l.uids <- c.uid // has room for all
	}
}

// userID returns the user of the cell's processes.
func (c *cell) userID() int {
	if c.uid == 0 {
		return os.Geteuid()
	}
	return int(c.uid)
}

// setAttributes puts a process into the cell before its start.
func (c *cell) setAttributes(attr *syscall.SysProcAttr) {
	if c.cgroup != nil {
		attr.UseCgroupFD, attr.CgroupFD = true, int(c.cgroup.dir.Fd())
	}
	if c.uid != 0 {
		attr.Credential = &syscall.Credential{Uid: c.uid, Gid: c.uid}
	}
}

// missingProgram names no file. A process gets its cgroup, its user and its tracer before execve looks for the file.
// So the error fs.ErrNotExist means: all other steps work.
const missingProgram = "/phoebe: no such program"

// tryStart returns nil if processes can start with attr, or the error. tryStart starts no program.
func tryStart(attr syscall.SysProcAttr) error {
	p, err := os.StartProcess(missingProgram, []string{missingProgram}, &os.ProcAttr{Sys: &attr})
	if err == nil { // a filter of system calls killed the child
		state, _ := p.Wait()
		return fmt.Errorf("a new process ends with %v", state)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return errors.Unwrap(err) // without the path
}

// prepareIsolation finds out how to isolate processes on this machine, on the launcher's thread.
func (l *launcher) prepareIsolation() error {
	p := l.processes
	if p.Setuid {
		if on, err := unix.PrctlRetInt(unix.PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0); err == nil && on == 1 {
			return errors.New("--exec-setuid has no effect, because this process may gain no rights: remove " +
				"NoNewPrivileges=yes from its unit (or no-new-privileges from its container), or remove the flag")
		}
	} else if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil { // of this thread and its children
		return fmt.Errorf("forbid setuid programs: %w", err)
	}
	// A traced process gets no rights of a setuid program.
	l.traces = !p.Setuid && tryStart(syscall.SysProcAttr{Ptrace: true}) == nil
	l.cgroups, l.whyNoCgroups = openCgroups()
	if l.cgroups != nil {
		c, err := l.cgroups.takeCgroup()
		if err == nil {
			err = tryStart(syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(c.dir.Fd())})
			l.cgroups.giveBack(c)
		}
		if err != nil {
			l.cgroups.closeFolders()
			l.cgroups, l.whyNoCgroups = nil, err
		}
	}
	if p.FirstUID == 0 {
		return nil
	}
	if l.cgroups == nil {
		return fmt.Errorf("--exec-uids needs a cgroup of version 2 that this worker may write, so that no process of "+
			"a task outlives the task: set Delegate=yes in its unit, or remove the flag: %w", l.whyNoCgroups)
	}
	first := &syscall.Credential{Uid: p.FirstUID, Gid: p.FirstUID}
	if err := tryStart(syscall.SysProcAttr{Credential: first}); err != nil {
		return fmt.Errorf("--exec-uids: this worker cannot start a process as user %d: run the worker as root, or "+
			"remove the flag: %w", p.FirstUID, err)
	}
	if !l.traces && !mayLimitOthers() {
		return errors.New("--exec-uids without ptrace, or with --exec-setuid, needs CAP_SYS_RESOURCE to limit tasks: " +
			"give the worker the capability, or remove a flag")
	}
	l.uids = make(chan uint32, p.LastUID-p.FirstUID+1)
	for uid := p.FirstUID; uid <= p.LastUID; uid++ {
		l.uids <- uid
	}
	for _, file := range p.KeyFiles {
		if l.openAs(p.FirstUID, file, unix.O_RDONLY) == nil {
			return fmt.Errorf("--exec-uids: tasks could read the key in %s: chmod 600 the file", file)
		}
	}
	return nil
}

// mayLimitOthers reports whether this process may limit the processes of other users.
func mayLimitOthers() bool {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	return unix.Capget(&header, &data[0]) == nil && data[0].Effective&(1<<unix.CAP_SYS_RESOURCE) != 0
}

// openAs opens and closes a file as a user without the rights of this process, and returns the error. Call openAs on
// the launcher's thread, because the kernel keeps the user for files by thread. User 0 stands for the worker's user.
func (l *launcher) openAs(uid uint32, path string, flags int) error {
	if uid != 0 {
		groups, err := unix.Getgroups()
		if err != nil {
			return err
		}
		unix.RawSyscall(unix.SYS_SETGROUPS, 0, 0, 0) // unix.Setgroups would change all threads
		unix.Setfsgid(int(uid))
		unix.Setfsuid(int(uid))
		defer func() {
			unix.Setfsuid(unix.Geteuid())
			unix.Setfsgid(unix.Getegid())
			setThreadGroups(groups)
		}()
	}
	fd, err := unix.Open(path, flags|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err == nil {
		unix.Close(fd)
	}
	return err
}

// describeRights describes the rights of tasks' processes in a sentence. If open is set, a task can harm the worker.
func (l *launcher) describeRights() (text string, open bool) {
	p := l.processes
	var s strings.Builder
	if p.FirstUID != 0 {
		fmt.Fprintf(&s, "each task runs as a user of its own (%d to %d) in a cgroup of its own: a task cannot read "+
			"the worker's keys, cannot touch other tasks, and leaves no process", p.FirstUID, p.LastUID)
	} else {
		open = true
		fmt.Fprintf(&s, "tasks run as the worker's user (%d): a task can read each file that the worker can read, "+
			"keys included, and can end the worker and other tasks", os.Geteuid())
		if l.cgroups != nil {
			s.WriteString("; what a task leaves behind ends with its cgroup, unless the task moves it elsewhere")
		} else {
			fmt.Fprintf(&s, "; a process that leaves its process group outlives its task, because the worker has "+
				"no cgroup for each task (%v)", l.whyNoCgroups)
		}
	}
	if p.Setuid {
		open = true
		s.WriteString("; setuid programs give a task the rights of their owners")
	}
	if !l.traces {
		s.WriteString("; what a task starts within its first millisecond may escape the limits on memory and files")
	}
	return s.String(), open
}
