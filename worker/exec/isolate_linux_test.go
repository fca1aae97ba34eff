package exec

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	osexec "os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// newPoolOf returns a pool that runs processes as p says.
func newPoolOf(tb testing.TB, p Processes) *Pool {
	tb.Helper()
	return newPool(tb, processRegistry(tb, p))
}

// needCgroups skips the test if the worker can have no cgroups here.
func needCgroups(tb testing.TB) {
	tb.Helper()
	g, err := openCgroups()
	if err != nil {
		tb.Skipf("no cgroups: %v", err)
	}
	g.closeFolders()
}

// needRoot skips the test if it does not run as root with cgroups.
func needRoot(tb testing.TB) {
	tb.Helper()
	if os.Geteuid() != 0 {
		tb.Skip("only root can give tasks users of their own")
	}
	needCgroups(tb)
}

// testUsers are users that run tasks in tests. Nobody has them.
var testUsers = Processes{FirstUID: 1234500, LastUID: 1234507}

// publicDir returns a new folder whose files every user can reach by name.
func publicDir(tb testing.TB) string {
	tb.Helper()
	dir := tb.TempDir()
	// Both folders are the test's own.
	if err := errors.Join(os.Chmod(dir, 0o711), os.Chmod(filepath.Dir(dir), 0o711)); err != nil {
		tb.Fatal(err)
	}
	return dir
}

// runScript runs a shell script as a task that succeeds, and returns its output without the last newline.
func runScript(tb testing.TB, p *Pool, script string) string {
	tb.Helper()
	res := runTask(tb, p, Attempt{Function: "exec", Payload: encodeCommand(tb, shellCommand(script))})
	if res.Status != Succeeded {
		tb.Fatalf("%s: %v (%s)", script, res.Status, res.Err)
	}
	return strings.TrimSuffix(string(res.Output), "\n")
}

// awaitDeath waits until no process has the pid, or only a zombie does.
func awaitDeath(tb testing.TB, pid int) {
	tb.Helper()
	for began := time.Now(); ; {
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		text := string(status)
		if err != nil || strings.Contains(text, "State:\tZ") || strings.Contains(text, "State:\tX") {
			return
		}
		if time.Since(began) > time.Minute {
			unix.Kill(pid, unix.SIGKILL)
			tb.Fatalf("process %d still runs", pid)
		}
	}
}

// leaveStray is a script whose child leaves the process group, and outlives the script.
func leaveStray(t *testing.T) string {
	t.Helper()
	if _, err := osexec.LookPath("setsid"); err != nil {
		t.Skip(err)
	}
	fifo, _ := newFIFO(t)
	return "setsid sh -c 'echo $$ >" + fifo + "; exec sleep 100' & read pid <" + fifo + "; echo $pid"
}

func TestStrayEndsWithItsTask(t *testing.T) {
	needCgroups(t)
	p := newProcessPool(t)
	pid, err := strconv.Atoi(runScript(t, p, leaveStray(t)))
	if err != nil {
		t.Fatal(err)
	}
	awaitDeath(t, pid)
}

// Without cgroups, a stray that leaves the group lives on. But the task does not wait for the stray's pipes.
func TestStrayWithoutCgroups(t *testing.T) {
	p := newProcessPool(t)
	if p.launcher.cgroups != nil {
		p.launcher.cgroups.closeFolders()
		p.launcher.cgroups = nil
	}
	pid, err := strconv.Atoi(runScript(t, p, leaveStray(t)))
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.Kill(pid, unix.SIGKILL); err != nil {
		t.Errorf("the stray is gone: %v", err)
	}
}

// The next worker ends the processes that a killed worker left.
func TestNextPoolRemovesDeadCgroups(t *testing.T) {
	needCgroups(t)
	dead, err := openCgroups()
	if err != nil {
		t.Fatal(err)
	}
	c, err := dead.takeCgroup()
	if err != nil {
		t.Fatal(err)
	}
	stray := osexec.Command("sleep", "100")
	stray.SysProcAttr = &unix.SysProcAttr{UseCgroupFD: true, CgroupFD: int(c.dir.Fd())}
	if err := stray.Start(); err != nil {
		t.Fatal(err)
	}
	newProcessPool(t)
	if !c.hasProcesses() {
		t.Error("the pool killed processes of a pool that lives")
	}
	path := dead.parent.Name()
	dead.parent.Close() // as the death of the worker does
	newProcessPool(t)
	if err := stray.Wait(); err == nil || !strings.Contains(err.Error(), "killed") {
		t.Errorf("the stray ended with %v", err)
	}
	newProcessPool(t) // the folder may have been in use
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the folder %s stays: %v", path, err)
	}
	c.dir.Close()
}

func TestCgroupsGoWithThePool(t *testing.T) {
	needCgroups(t)
	p := openPool(t, processRegistry(t, Processes{}))
	path := p.launcher.cgroups.parent.Name()
	runScript(t, p, "true")
	if err := p.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the folder %s stays: %v", path, err)
	}
}

func TestEachTaskHasItsOwnUser(t *testing.T) {
	needRoot(t)
	p := newPoolOf(t, testUsers)
	fifo, open := newFIFOIn(t, publicDir(t))
	if err := os.Chmod(fifo, 0o666); err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for range int(testUsers.LastUID-testUsers.FirstUID) + 1 {
		r, end := startTask(t, p, Attempt{Function: "exec", Payload: encodeCommand(t,
			shellCommand("(id -u; id -g; id -G) | tr '\\n' ' ' >"+fifo+"; exec sleep 100"))})
		line, err := open().ReadString(0) // up to the end of the pipeline
		ids := strings.Fields(line)
		if len(ids) != 3 || ids[0] != ids[1] || ids[1] != ids[2] || seen[ids[0]] {
			t.Fatalf("a task runs as %q (%v), and %v ran before", ids, err, seen)
		}
		seen[ids[0]] = true
		t.Cleanup(func() { r.Kill("enough"); <-end })
	}
	// All users are taken: the next task waits, and can be killed meanwhile.
	r, end := startTask(t, p, Attempt{Function: "exec", Payload: encodeCommand(t, shellCommand("echo too early"))})
	r.Kill("it waits")
	if res := <-end; res.Status != Killed {
		t.Errorf("got %v %q (%s), want it to wait for a user", res.Status, res.Output, res.Err)
	}
}

// A task with a user of its own cannot touch the worker's key, memory or process, nor other tasks. But it can open
// its own standard files.
func TestTaskCannotReachTheWorker(t *testing.T) {
	needRoot(t)
	p := newPoolOf(t, testUsers)
	key := filepath.Join(publicDir(t), "key")
	if err := os.WriteFile(key, []byte("hush"), 0o600); err != nil {
		t.Fatal(err)
	}
	worker := strconv.Itoa(os.Getpid())
	for _, script := range []string{
		"cat " + key, "cat /proc/" + worker + "/environ", "cat /proc/" + worker + "/mem", "kill -0 " + worker,
		"echo 0 >" + filepath.Join(p.launcher.cgroups.parent.Name(), "../cgroup.procs"),
	} {
		res := runTask(t, p, Attempt{Function: "exec", Payload: encodeCommand(t, shellCommand(script))})
		if res.Status != Failed || !strings.Contains(strings.ToLower(res.Err), "perm") {
			t.Errorf("%s: %v %q (%s)", script, res.Status, res.Output, res.Err)
		}
	}
	if got := runScript(t, p, "echo out >/dev/stdout"); got != "out" {
		t.Errorf("/dev/stdout: %q", got)
	}
	got := runScript(t, p, "grep processes /proc/self/limits")
	if !strings.Contains(got, fmt.Sprintf(" %d ", maxProcesses)) {
		t.Errorf("the limit of processes is %q", got)
	}
}

func TestKeyThatTasksCanRead(t *testing.T) {
	needRoot(t)
	key := filepath.Join(publicDir(t), "key")
	for _, tc := range []struct {
		mode os.FileMode
		bad  bool
	}{{0o600, false}, {0o640, false}, {0o644, true}} {
		if err := errors.Join(os.WriteFile(key, nil, tc.mode), os.Chmod(key, tc.mode)); err != nil {
			t.Fatal(err)
		}
		r := NewRegistry()
		users := testUsers
		users.KeyFiles = []string{key}
		if err := r.AllowProcessesAs(users); err != nil {
			t.Fatal(err)
		}
		p, err := NewPool(r)
		if (err != nil) != tc.bad || err != nil && !strings.Contains(err.Error(), "chmod 600") {
			t.Errorf("mode %o: %v", tc.mode, err)
		}
		if err == nil {
			p.Close(t.Context())
		}
	}
	if fd, err := os.Open(key); err != nil {
		t.Errorf("this process has lost its rights: %v", err)
	} else {
		fd.Close()
	}
}

func TestBadUsers(t *testing.T) {
	for _, p := range []Processes{
		{FirstUID: 1, LastUID: 2000}, {FirstUID: 2000}, {FirstUID: 2001, LastUID: 2000}, {LastUID: 2000},
		{FirstUID: 2000, LastUID: 2000 + maxUIDs}, {FirstUID: 1<<32 - 2, LastUID: 1<<32 - 1},
	} {
		if err := NewRegistry().AllowProcessesAs(p); err == nil || !strings.Contains(err.Error(), "200000-200255") {
			t.Errorf("users %d to %d: %v", p.FirstUID, p.LastUID, err)
		}
	}
}

// setuidProgram returns a copy of id that has its owner's rights, and a folder that everybody can enter.
func setuidProgram(t *testing.T) string {
	t.Helper()
	id, err := osexec.LookPath("id")
	if err != nil {
		t.Skip(err)
	}
	text, err := os.ReadFile(id)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(publicDir(t), "id")
	if err := os.WriteFile(path, text, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Chown(path, 4321, -1), os.Chmod(path, 0o755|os.ModeSetuid)); err != nil {
		t.Fatal(err)
	}
	return path
}

// Whether a program gains rights does not depend on who starts it: the worker, or a shell of the task.
func TestSetuidPrograms(t *testing.T) {
	needRoot(t)
	program := setuidProgram(t)
	for _, processes := range []Processes{{}, testUsers, {Setuid: true}} {
		p := newPoolOf(t, processes)
		for _, argv := range [][]string{{program, "-u"}, {"sh", "-c", program + " -u"}} {
			res := runTask(t, p, Attempt{Function: "exec", Payload: encodeCommand(t, Command{Argv: argv})})
			if gained := string(res.Output) == "4321\n"; res.Status != Succeeded || gained != processes.Setuid {
				t.Errorf("%+v: %q prints %q: %v (%s)", processes, argv, res.Output, res.Status, res.Err)
			}
		}
		res := runTask(t, p,
			Attempt{Function: "exec", Payload: encodeCommand(t, Command{Argv: []string{program, "-x"}})})
		if res.Status != Failed || strings.Contains(res.Err, "--exec-setuid") == processes.Setuid {
			t.Errorf("%+v: the error of a setuid program is: %v (%s)", processes, res.Status, res.Err)
		}
	}
}

// Users and setuid programs together need a capability, because limits come after the start.
func TestSetuidAndUsers(t *testing.T) {
	needRoot(t)
	program := setuidProgram(t)
	r := NewRegistry()
	both := testUsers
	both.Setuid = true
	if err := r.AllowProcessesAs(both); err != nil {
		t.Fatal(err)
	}
	p, err := NewPool(r)
	if !mayLimitOthers() {
		if err == nil || !strings.Contains(err.Error(), "CAP_SYS_RESOURCE") {
			t.Errorf("got %v, want the missing capability named", err)
		}
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	if got := runScript(t, p, program+" -u"); got != "4321" {
		t.Errorf("the program runs as %q", got)
	}
	if err := p.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestUnreadableDir(t *testing.T) {
	dir := publicDir(t)
	p := newProcessPool(t)
	if os.Geteuid() == 0 {
		needRoot(t)
		p = newPoolOf(t, testUsers)
	}
	if err := os.Chmod(dir, 0o600); err != nil {
		t.Fatal(err)
	}
	res := runTask(t, p,
		Attempt{Function: "exec", Payload: encodeCommand(t, Command{Argv: []string{"pwd"}, Dir: dir})})
	if res.Status != Failed || !strings.Contains(res.Err, dir) || strings.Contains(res.Err, "/pwd") {
		t.Errorf("got %v (%s), want the folder named, and not the program", res.Status, res.Err)
	}
	if err := os.Chmod(dir, 0o711); err != nil { // entering needs no more
		t.Fatal(err)
	}
	res = runTask(t, p,
		Attempt{Function: "exec", Payload: encodeCommand(t, Command{Argv: []string{"echo", "in"}, Dir: dir})})
	if res.Status != Succeeded {
		t.Errorf("got %v (%s)", res.Status, res.Err)
	}
}

// mountHung mounts a file system that never answers, until the test calls unmount or ends.
func mountHung(t *testing.T) (dir string, unmount func()) {
	t.Helper()
	fd, err := unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Skipf("a file system that hangs needs FUSE: %v", err)
	}
	dir = t.TempDir()
	options := fmt.Sprintf("fd=%d,rootmode=40000,user_id=0,group_id=0", fd)
	if err := unix.Mount("hung", dir, "fuse", 0, options); err != nil {
		unix.Close(fd)
		t.Skipf("a file system that hangs needs root: %v", err)
	}
	mounted := true
	unmount = func() {
		if mounted {
			mounted = false
			unix.Unmount(dir, unix.MNT_DETACH)
			unix.Close(fd) // ends all calls that hang
		}
	}
	t.Cleanup(unmount)
	return dir, unmount
}

// A task whose program or folder hangs holds up no other task, and ends at its timeout.
func TestHungFileSystem(t *testing.T) {
	hung, unmount := mountHung(t)
	p := newProcessPool(t)
	for _, c := range []Command{
		{Argv: []string{filepath.Join(hung, "program")}}, {Argv: []string{"true"}, Dir: filepath.Join(hung, "dir")},
		{Argv: []string{"program"}, Env: map[string]string{"PATH": hung}},
	} {
		res := runTask(t, p,
			Attempt{Function: "exec", Payload: encodeCommand(t, c), Timeout: time.Millisecond})
		if res.Status != TimedOut || !strings.Contains(res.Err, "file system") {
			t.Errorf("%+v: %v (%s)", c, res.Status, res.Err)
		}
		runScript(t, p, "true")
	}
	unmount()
	for began := time.Now(); len(p.launcher.lookups) > 0; {
		if time.Since(began) > time.Minute {
			t.Fatal("a lookup goes on")
		}
	}
}

// forbidPtraceEnv has the test program forbid itself ptrace by the error in the variable, and run a task.
const forbidPtraceEnv = "PHOEBE_EXEC_TEST_PTRACE"

func init() {
	if errno, err := strconv.Atoi(os.Getenv(forbidPtraceEnv)); err == nil {
		runWithoutPtrace(unix.Errno(errno))
		os.Exit(0)
	}
}

// runWithoutPtrace prints the limits of a task whose worker may not use ptrace.
func runWithoutPtrace(errno unix.Errno) {
	const load, ret = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, unix.BPF_RET | unix.BPF_K
	const jumpUnlessEqual = unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K
	filter := []unix.SockFilter{
		{Code: load, K: 0}, // the number of the call
		{Code: jumpUnlessEqual, K: unix.SYS_PTRACE, Jf: 1},
		{Code: ret, K: unix.SECCOMP_RET_ERRNO | uint32(errno)},
		{Code: ret, K: unix.SECCOMP_RET_ALLOW},
	}
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	runtime.LockOSThread()
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil { // so that no rights are needed
		panic(err)
	}
	if _, _, e := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC,
		uintptr(unsafe.Pointer(&program))); e != 0 {
		panic(e)
	}
	r := NewRegistry()
	if err := r.AllowProcesses(); err != nil {
		panic(err)
	}
	p, err := NewPool(r)
	if err != nil {
		panic(err)
	}
	payload, err := shellCommand("ulimit -c").Encode()
	if err != nil {
		panic(err)
	}
	runtime.UnlockOSThread()
	end := make(chan Result)
	p.Start(Attempt{Function: "exec", Payload: payload}, func(r Result) { end <- r })
	res := <-end
	fmt.Printf("%v %s %s\n", res.Status, res.Output, res.Err)
	text, _ := p.DescribeProcesses()
	fmt.Println(text)
	if err := p.Close(context.Background()); err != nil {
		panic(err)
	}
}

// Some machines forbid ptrace, others do not have it. Tasks run there, too.
func TestWithoutPtrace(t *testing.T) {
	for _, errno := range []unix.Errno{unix.EPERM, unix.ENOSYS} {
		worker := osexec.Command(os.Args[0])
		worker.Env = append(os.Environ(), fmt.Sprintf("%s=%d", forbidPtraceEnv, int(errno)))
		out, err := worker.CombinedOutput()
		if err != nil || !strings.HasPrefix(string(out), "succeeded 0") ||
			!strings.Contains(string(out), "may escape the limits") {
			t.Errorf("ptrace ends with %v: %s (%v)", errno, out, err)
		}
	}
}

func TestDescribeProcesses(t *testing.T) {
	p := newProcessPool(t)
	text, isWarning := p.DescribeProcesses()
	for _, want := range []string{"the worker's user (" + strconv.Itoa(os.Geteuid()) + ")", "keys included"} {
		if !strings.Contains(text, want) || !isWarning {
			t.Errorf("%q (warning: %v), want %q", text, isWarning, want)
		}
	}
	needRoot(t)
	text, isWarning = newPoolOf(t, testUsers).DescribeProcesses()
	if !strings.Contains(text, "cannot read the worker's keys") || isWarning {
		t.Errorf("%q (warning: %v)", text, isWarning)
	}
}
