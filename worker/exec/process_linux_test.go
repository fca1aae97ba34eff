package exec

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	osexec "os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/phoebe-sched/phoebe/probe"
)

func newProcessPool(tb testing.TB) *Pool {
	tb.Helper()
	return newPool(tb, processRegistry(tb, Processes{}))
}

// processRegistry returns a registry with the function "exec".
func processRegistry(tb testing.TB, p Processes) *Registry {
	tb.Helper()
	r := NewRegistry()
	if err := r.AllowProcessesAs(p); err != nil {
		tb.Fatal(err)
	}
	return r
}

func encodeCommand(tb testing.TB, c Command) []byte {
	tb.Helper()
	b, err := c.Encode()
	if err != nil {
		tb.Fatal(err)
	}
	return b
}

func shellCommand(script string) Command { return Command{Argv: []string{"sh", "-c", script}} }

func TestProcess(t *testing.T) {
	t.Setenv("PHOEBE_SECRET", "hush")
	p := newProcessPool(t)
	dir := t.TempDir()
	long := strings.Repeat("x", 1<<20)
	for _, tc := range []struct {
		name   string
		cmd    Command
		task   Attempt // without Function and Payload
		status Status
		output string
		err    []string
	}{
		{"argv", Command{Argv: []string{"printf", "%s-%s", "a b", "$HOME"}}, Attempt{}, Succeeded, "a b-$HOME", nil},
		{"stdin", Command{Argv: []string{"cat"}, Stdin: "text"}, Attempt{}, Succeeded, "text", nil},
		{"stdin of bytes", Command{Argv: []string{"cat"}, StdinBase64: []byte{0, 255, 10}}, Attempt{}, Succeeded,
			"\x00\xff\n", nil},
		{"stdin both ways at once", Command{Argv: []string{"cat"}, Stdin: long}, Attempt{}, Succeeded, long, nil},
		{"stdin that nobody reads", Command{Argv: []string{"true"}, Stdin: long}, Attempt{}, Succeeded, "", nil},
		{"no stdin", Command{Argv: []string{"cat"}}, Attempt{}, Succeeded, "", nil},
		{"environment", Command{Argv: []string{"env"}, Env: map[string]string{"A": "1", "PATH": "/usr/bin:/bin"}},
			Attempt{}, Succeeded, "A=1\nPATH=/usr/bin:/bin\nPHOEBE_PROGRESS_FD=3\n", nil},
		{"default environment", Command{Argv: []string{"env"}}, Attempt{}, Succeeded,
			"PATH=" + os.Getenv("PATH") + "\nPHOEBE_PROGRESS_FD=3\n", nil},
		{"files", Command{Argv: []string{"env"}, Env: map[string]string{"PATH": "/bin:/usr/bin",
			"PHOEBE_FILE_1": "no"}}, Attempt{Files: []string{"/c/a", "/c/b\nb"}},
			Succeeded, "PATH=/bin:/usr/bin\nPHOEBE_FILE_0=/c/a\nPHOEBE_FILE_1=/c/b\nb\nPHOEBE_PROGRESS_FD=3\n", nil},
		{"dir", Command{Argv: []string{"pwd"}, Dir: dir}, Attempt{}, Succeeded, dir + "\n", nil},
		{"no such dir", Command{Argv: []string{"pwd"}, Dir: dir + "/x"}, Attempt{}, Failed, "", []string{dir + "/x"}},
		{"no such program", Command{Argv: []string{"phoebe-nonesuch"}}, Attempt{}, Failed, "",
			[]string{`"phoebe-nonesuch"`, "PATH=" + os.Getenv("PATH")}},
		{"no such file", Command{Argv: []string{"/phoebe/nonesuch"}}, Attempt{}, Failed, "",
			[]string{"/phoebe/nonesuch", "no such file"}},
		{"not executable", Command{Argv: []string{"/etc/passwd"}}, Attempt{}, Failed, "",
			[]string{"/etc/passwd", "permission denied"}},
		{"exit code", shellCommand("echo lost; echo why >&2; exit 3"), Attempt{}, Failed, "",
			[]string{"exit status 3", "stderr: why"}},
		{"tail of stderr", shellCommand("head -c 99999 /dev/zero | tr '\\0' x >&2; echo the end >&2; exit 1"),
			Attempt{},
			Failed, "", []string{"stderr: ...xxx", "the end"}},
		{"signal", shellCommand("kill -SEGV $$"), Attempt{}, Panicked, "", []string{"segmentation fault"}},
		{"timeout", Command{Argv: []string{"sleep", "100"}}, Attempt{Timeout: 20 * time.Millisecond}, TimedOut, "",
			[]string{"timeout of 20ms"}},
		{"result at the limit", Command{Argv: []string{"printf", "four"}}, Attempt{MaxResult: 4}, Succeeded, "four",
			nil},
		{"result over the limit", Command{Argv: []string{"printf", "fives"}}, Attempt{MaxResult: 4}, TooLarge, "",
			[]string{"limit of 4 bytes", "raise"}},
		{"endless result", Command{Argv: []string{"yes"}}, Attempt{MaxResult: 1 << 20}, TooLarge, "",
			[]string{"limit of 1048576 bytes"}},
		{"limits", shellCommand("ulimit -c; ulimit -d; ulimit -Hd"), Attempt{Memory: 64}, Succeeded,
			"0\n65536\n65536\n", nil},
		{"memory", shellCommand("head -c 90000000 /dev/zero | tail -c 80000000 >/dev/null"), Attempt{Memory: 16},
			Failed, "",
			[]string{"exit status", "memory"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			task := tc.task
			task.Function, task.Payload = "exec", encodeCommand(t, tc.cmd)
			res := runTask(t, p, task)
			if res.Status != tc.status || string(res.Output) != tc.output {
				t.Errorf("got %v %.100q (%s), want %v %.100q", res.Status, res.Output, res.Err, tc.status, tc.output)
			}
			for _, want := range tc.err {
				if !strings.Contains(res.Err, want) {
					t.Errorf("the error does not say %q: %s", want, res.Err)
				}
			}
			if res.Status == Succeeded && res.Run <= 0 {
				t.Errorf("no usage: %+v", res)
			}
		})
	}
}

func TestBadCommand(t *testing.T) {
	p := newProcessPool(t)
	for payload, want := range map[string]string{
		"":                                 `{"argv":`,
		"ls":                               `{"argv":`,
		`{"argv":["ls"]} x`:                "more after the object",
		`{"argv":["ls"],"cwd":"/"}`:        `"cwd"`,
		`{"argv":[]}`:                      "argv[0] is missing",
		`{"argv":["ls","\u0000"]}`:         "argv[1]",
		`{"argv":["ls"],"env":{"A=B":""}}`: `"A=B"`,
		`{"argv":["ls"],"stdin":"a","stdin_base64":"YQ=="}`: "choose one",
		"{\"argv\":[\"rm\",\"\xff\"]}":                      `"base64": true`,
		`{"argv":["rm","\udcff"]}`:                          `"base64": true`,
		`{"argv":["rm","\ud800\u0041"]}`:                    `"base64": true`,
		`{"argv":["rm","?"],"base64":true}`:                 `argv[0]`,
		`{"argv":["bHM="],"env":{"A":"?"},"base64":true}`:   `env`,
		`{"argv":["bHM="],"dir":"?","base64":true}`:         `dir`,
	} {
		res := runTask(t, p, Attempt{Function: "exec", Payload: []byte(payload)})
		if res.Status != Failed || !strings.Contains(res.Err, want) {
			t.Errorf("%s: %v (%s), want %q", payload, res.Status, res.Err, want)
		}
		var c Command
		if json.Unmarshal([]byte(payload), &c) == nil && c.validate() != nil {
			if _, err := c.Encode(); err == nil {
				t.Errorf("%s: Encode accepts what Start refuses", payload)
			}
		}
	}
}

// A process gets the very bytes of its arguments, environment and folder, also bytes that are not UTF-8.
func TestCommandOfBytes(t *testing.T) {
	p := newProcessPool(t)
	const bytes = "\xff a\xe4\xff"
	dir := filepath.Join(t.TempDir(), bytes)
	if err := os.Mkdir(dir, 0o777); err != nil {
		t.Skipf("this file system wants UTF-8: %v", err)
	}
	for _, tc := range []struct {
		cmd  Command
		want string
	}{
		{Command{Argv: []string{"printf", "%s", bytes}}, bytes},
		{Command{Argv: []string{"sh", "-c", `printf %s "$A"`}, Env: map[string]string{"A": bytes}}, bytes},
		{Command{Argv: []string{"sh", "-c", `pwd`}, Dir: dir}, dir + "\n"},
		{Command{Argv: []string{"cat"}, Stdin: bytes}, bytes},
		{Command{Argv: []string{"printf", "%s", "\ufffd"}}, "\ufffd"}, // a character like any other
	} {
		res := runTask(t, p, Attempt{Function: "exec", Payload: encodeCommand(t, tc.cmd)})
		if res.Status != Succeeded || string(res.Output) != tc.want {
			t.Errorf("%+v: got %v %q (%s), want %q", tc.cmd, res.Status, res.Output, res.Err, tc.want)
		}
	}
}

// newFIFO returns the path of a FIFO, and a function that opens the FIFO for reading. The reader gets the script's
// lines, then EOF once no process has the FIFO open.
func newFIFO(t *testing.T) (path string, open func() *bufio.Reader) { return newFIFOIn(t, t.TempDir()) }

func newFIFOIn(t *testing.T, dir string) (path string, open func() *bufio.Reader) {
	t.Helper()
	path = filepath.Join(dir, "fifo")
	if err := unix.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	return path, func() *bufio.Reader {
		f, err := os.Open(path) // blocks until a writer opens the FIFO
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		return bufio.NewReader(f)
	}
}

func expectLine(t *testing.T, r *bufio.Reader, want string) {
	t.Helper()
	if got, err := r.ReadString('\n'); got != want+"\n" {
		t.Fatalf("read %q (%v), want %q", got, err, want)
	}
}

func expectEOF(t *testing.T, r *bufio.Reader) {
	t.Helper()
	if b, err := io.ReadAll(r); len(b) != 0 || err != nil {
		t.Fatalf("read %q (%v), want the end", b, err)
	}
}

func TestKillEndsTheProcessGroup(t *testing.T) {
	t.Parallel() // mostly waits
	p := newProcessPool(t)
	for _, timeout := range []time.Duration{0, 5 * time.Second} { // enough for the start of the shell
		fifo, open := newFIFO(t)
		r, end := startTask(t, p, Attempt{
			Function: "exec",
			Timeout:  timeout,
			Payload:  encodeCommand(t, shellCommand("exec 3>"+fifo+"; sleep 100 & echo up >&3; sleep 100")),
		})
		family := open()
		expectLine(t, family, "up")
		want := TimedOut
		if timeout == 0 {
			want = Killed
			r.Kill("the job was cancelled")
		}
		if res := <-end; res.Status != want {
			t.Errorf("got %v (%s), want %v", res.Status, res.Err, want)
		}
		expectEOF(t, family)
	}
}

// A process reports its progress in lines on a descriptor of its own; the pool ignores lines without a number.
func TestProcessReportsProgress(t *testing.T) {
	p := newProcessPool(t)
	fifo, open := newFIFO(t)
	r, end := startTask(t, p, Attempt{
		Function: "exec",
		Payload: encodeCommand(t, shellCommand(
			"exec 4>"+fifo+"; for x in 0.1 much 0.6; do echo $x >&$PHOEBE_PROGRESS_FD; done; echo up >&4; sleep 100")),
	})
	expectLine(t, open(), "up")
	for began := time.Now(); ; { // another goroutine reads the progress
		if done, _ := r.Progress(); done == 0.6 {
			break
		} else if time.Since(began) > time.Minute {
			t.Fatalf("%v is done", done)
		}
		runtime.Gosched()
	}
	r.Kill("enough")
	<-end
}

func TestStrayGrandchildDiesWithItsParent(t *testing.T) {
	p := newProcessPool(t)
	fifo, open := newFIFO(t)
	_, end := startTask(t, p, Attempt{
		Function: "exec",
		Payload:  encodeCommand(t, shellCommand("exec 3>"+fifo+"; sleep 100 & echo up >&3; echo result")),
	})
	family := open()
	expectLine(t, family, "up")
	if res := <-end; res.Status != Succeeded || string(res.Output) != "result\n" {
		t.Errorf("got %v %q (%s)", res.Status, res.Output, res.Err)
	}
	expectEOF(t, family)
}

func TestKillBeforeTheStart(t *testing.T) {
	p := newProcessPool(t)
	for range 20 { // the kill comes before, within or after the launch
		r, end := startTask(t, p,
			Attempt{Function: "exec", Payload: encodeCommand(t, Command{Argv: []string{"sleep", "100"}})})
		r.Kill("at once")
		if res := <-end; res.Status != Killed || res.Err != "at once" {
			t.Fatalf("got %v (%s)", res.Status, res.Err)
		}
	}
}

func TestCloseKillsProcesses(t *testing.T) {
	p := openPool(t, processRegistry(t, Processes{}))
	var ends []<-chan Result
	for range 5 {
		_, end := startTask(t, p,
			Attempt{Function: "exec", Payload: encodeCommand(t, Command{Argv: []string{"sleep", "100"}})})
		ends = append(ends, end)
	}
	if err := p.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	for _, end := range ends {
		if res := <-end; res.Status != Killed || res.Err != closingReason {
			t.Errorf("got %v (%s)", res.Status, res.Err)
		}
	}
}

// Without ptrace the limits come a moment after the start.
func TestLimitsWithoutPtrace(t *testing.T) {
	cmd := osexec.Command("cat")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if err := setLimits(cmd.Process.Pid, 64, true); err != nil {
		t.Error(err)
	}
	for which, want := range map[int]uint64{
		unix.RLIMIT_DATA: 64 << 20, unix.RLIMIT_CORE: 0, unix.RLIMIT_NPROC: maxProcesses,
	} {
		var got unix.Rlimit
		if err := unix.Prlimit(cmd.Process.Pid, which, nil, &got); err != nil || got.Cur != want || got.Max != want {
			t.Errorf("limit %d is %+v (%v), want %d", which, got, err, want)
		}
	}
	in.Close()
	cmd.Wait()
}

const helperEnv = "PHOEBE_EXEC_TEST_FIFO"

func init() {
	if fifo := os.Getenv(helperEnv); fifo != "" {
		runHelperWorker(fifo)
	}
}

// runHelperWorker is a worker in a process of its own, running an endless process.
func runHelperWorker(fifo string) {
	r := NewRegistry()
	if err := r.AllowProcesses(); err != nil {
		panic(err)
	}
	p, err := NewPool(r)
	if err != nil {
		panic(err)
	}
	payload, err := shellCommand("exec 3>" + fifo + "; echo up >&3; exec sleep 100").Encode()
	if err != nil {
		panic(err)
	}
	p.Start(Attempt{Function: "exec", Payload: payload, Memory: probe.MiB(256)}, func(res Result) { fmt.Println(res) })
	select {}
}

func TestProcessesDieWithTheWorker(t *testing.T) {
	fifo, open := newFIFO(t)
	worker := osexec.Command(os.Args[0])
	worker.Env = append(os.Environ(), helperEnv+"="+fifo)
	if err := worker.Start(); err != nil {
		t.Fatal(err)
	}
	child := open()
	expectLine(t, child, "up")
	if err := worker.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	worker.Wait()
	expectEOF(t, child)
}

func BenchmarkProcess(b *testing.B) {
	p := newProcessPool(b)
	payload := encodeCommand(b, Command{Argv: []string{"true"}})
	for b.Loop() {
		if res := runTask(b, p, Attempt{Function: "exec", Payload: payload}); res.Status != Succeeded {
			b.Fatal(res)
		}
	}
}

// A worker stopped or starved at the end of a process reads the process's output late but completely.
func TestOutputIsReadLate(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close() // meanwhile a stray holds the pipe
	if _, err := w.WriteString("done"); err != nil {
		t.Fatal(err)
	}
	if err := r.SetDeadline(time.Now().Add(-time.Second)); err != nil {
		t.Fatal(err)
	}
	read := func(most int) []byte {
		out := newResultOutput(&Attempt{MaxResult: most})
		copyOutput(out, r)
		return out.buf.Bytes()
	}
	if got := string(read(100)); got != "done" {
		t.Errorf("%q, want what was written before the deadline", got)
	}
	for _, most := range []int{4} {
		if _, err := w.WriteString("more"); err != nil {
			t.Fatal(err)
		}
		if err := r.SetDeadline(time.Now().Add(-time.Second)); err != nil {
			t.Fatal(err)
		}
		if got := read(most); len(got) != most {
			t.Errorf("%q, want %d bytes at most", got, most)
		}
	}
}

// MaxRSS of a process does not include the memory of its worker.
func TestMaxRSS(t *testing.T) {
	const mib = 1 << 20
	ballast, err := unix.Mmap(-1, 0, 64*mib, unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_ANON|unix.MAP_PRIVATE|unix.MAP_POPULATE)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Munmap(ballast)
	p := newProcessPool(t)
	run := func(script string) int64 {
		t.Helper()
		res := runTask(t, p, Attempt{Function: "exec", Payload: encodeCommand(t, shellCommand(script))})
		if res.Status != Succeeded {
			t.Fatalf("%+v", res)
		}
		return res.MaxRSS
	}
	if most := run("true"); most > 32*mib {
		t.Errorf("a short process had %d MiB", most/mib)
	}
	var most int64
	for i := 0; i < 100 && most == 0; i++ { // until the process lasts long enough for a sample
		most = run(fmt.Sprintf("sleep 0.%02d", i))
	}
	if most == 0 || most > 32*mib {
		t.Errorf("a small process had %d KiB", most>>10)
	}
	if most := run("head -c 300000000 /dev/zero | tail -c 280000000 | wc -c"); most < 260*mib {
		t.Errorf("a large process had %d MiB", most/mib)
	}
}

// The pool samples the CPU time and the memory of a process with its children, with a cgroup and without. A process
// that stands still uses no CPU. Earlier processes in the same cgroup do not count.
func TestProcessUse(t *testing.T) {
	t.Parallel()
	for _, isolated := range []bool{true, false} {
		t.Run(fmt.Sprint("cgroups ", isolated), func(t *testing.T) {
			t.Parallel()
			p := newProcessPool(t)
			if !isolated && p.launcher.cgroups != nil {
				p.launcher.cgroups.closeFolders()
				p.launcher.cgroups = nil
			}
			start := func(script string) (Running, <-chan Result) {
				return startTask(t, p, Attempt{Function: "exec", Payload: encodeCommand(t, shellCommand(script))})
			}
			_, end := start("i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done") // leaves CPU time in its cgroup
			<-end
			still, stillEnd := start("sleep 100 & wait")
			busy, busyEnd := start("while :; do :; done & wait")
			for began := time.Now(); ; time.Sleep(10 * time.Millisecond) {
				s, b := still.Use(), busy.Use()
				if s.Ran >= useFrom && b.Ran >= useFrom && b.CPU >= 100*time.Millisecond {
					if s.CPU > 50*time.Millisecond || s.CPU > b.CPU || s.Memory < 100<<10 || b.Memory < 100<<10 {
						t.Errorf("the process that stands still used %+v, the other %+v", s, b)
					}
					break
				} else if time.Since(began) > time.Minute {
					t.Fatalf("the process that stands still used %+v, the other %+v", s, b)
				}
			}
			still.Kill("enough")
			busy.Kill("enough")
			<-stillEnd
			<-busyEnd
		})
	}
}

// A child that has ended, and that its parent does not await, keeps its CPU time in the sum. The shell becomes sleep,
// which awaits no child.
func TestUseOfUnawaitedChild(t *testing.T) {
	cmd := osexec.Command("sh", "-c", "(i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done) & exec sleep 100")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	defer cmd.Process.Kill()
	for began := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		children := appendChildren(nil, cmd.Process.Pid)
		if len(children) == 1 {
			if _, isAlive := readProcess(children[0]); !isAlive {
				break
			}
		}
		if time.Since(began) > time.Minute {
			t.Fatalf("children %v still run", children)
		}
	}
	if cpu, _, ok := (&useMeter{pid: cmd.Process.Pid}).measure(); !ok || cpu < 30*time.Millisecond {
		t.Errorf("the process used %v, known: %t", cpu, ok)
	}
}

// BenchmarkSampleUse takes a sample of each of 40 processes with a child, as a busy worker does each second.
func BenchmarkSampleUse(b *testing.B) {
	for _, isolated := range []bool{true, false} {
		b.Run(fmt.Sprint("cgroups=", isolated), func(b *testing.B) {
			p := newProcessPool(b)
			if !isolated && p.launcher.cgroups != nil {
				p.launcher.cgroups.closeFolders()
				p.launcher.cgroups = nil
			}
			var all []*process
			for range 40 {
				r, _ := startTask(b, p, Attempt{Function: "exec", Payload: encodeCommand(b, shellCommand("sleep 100 & wait"))})
				all = append(all, r.(*process))
			}
			var meters []*useMeter
			for _, pr := range all {
				for pr.Use().Ran == 0 { // started, and sampled once
					time.Sleep(10 * time.Millisecond)
				}
				meters = append(meters, &useMeter{pid: pr.pid, cgroup: pr.cgroup})
			}
			for b.Loop() {
				for _, m := range meters {
					if _, _, ok := m.measure(); !ok {
						b.Fatal("a process has ended")
					}
				}
			}
		})
	}
}
