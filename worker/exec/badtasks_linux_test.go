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
	"sync"
	"testing"
	"time"

	"github.com/phoebe-sched/phoebe/probe"
)

// folderStore is a Store that keeps its files in a folder. If full is set, no file gets a byte.
type folderStore struct {
	dir  string
	full bool
}

type folderDraft struct {
	*os.File
	full bool
}

func (s *folderStore) Create() (Draft, error) {
	f, err := os.CreateTemp(s.dir, "draft-")
	if err != nil {
		return nil, err
	}
	return &folderDraft{f, s.full}, nil
}

func (s *folderStore) Fetch(context.Context, probe.File) (string, func(), error) {
	return "", nil, fs.ErrNotExist
}

func (s *folderStore) IsDiskFailure(error) bool { return s.full }

func (d *folderDraft) Write(b []byte) (int, error) {
	if d.full {
		return 0, errors.New("no space left on device")
	}
	return d.File.Write(b)
}

func (d *folderDraft) Commit() (digest [32]byte, path string, release func(), err error) {
	return digest, d.File.Name(), d.Abort, nil
}

func (d *folderDraft) Abort() {
	d.File.Close()
	os.Remove(d.File.Name())
}

// badTask is a kind of tasks that harm their worker if the worker is careless.
type badTask struct {
	name  string
	task  Attempt
	kill  bool     // kill the task as soon as it has started
	wants []Status // the possible ends
}

// strayMark is an argument of the strays.
const strayMark = "98765.4321"

// badTasks returns all kinds. Large results go into the folder of the stores.
func badTasks(t *testing.T, store, full *folderStore) []badTask {
	command := func(c Command) Attempt { return Attempt{Function: "exec", Payload: encodeCommand(t, c)} }
	script := func(text string) Attempt { return command(shellCommand(text)) }
	within := func(timeout time.Duration, a Attempt) Attempt { a.Timeout = timeout; return a }
	large := func(s *folderStore, a Attempt) Attempt {
		a.MaxResult, a.Store, a.Context = 1000, s, &probe.Context{Large: true}
		return a
	}
	failed, timedOut := []Status{Failed}, []Status{TimedOut}
	return []badTask{
		{"garbage as payload", Attempt{Function: "exec", Payload: []byte("{]")}, false, failed},
		{"no such function", Attempt{Function: "nonesuch"}, false, failed},
		{"no such program", command(Command{Argv: []string{"phoebe-nonesuch"}}), false, failed},
		{"no such file", command(Command{Argv: []string{"/phoebe/nonesuch"}}), false, failed},
		{"no such dir", command(Command{Argv: []string{"true"}, Dir: "/phoebe/nonesuch"}), false, failed},
		{"no program", command(Command{Argv: []string{"/etc/passwd"}}), false, failed},
		{"exit code", script("echo why >&2; exit 3"), false, failed},
		{"signal", script("kill -SEGV $$"), false, []Status{Panicked}},
		{"timeout", within(5*time.Millisecond, script("sleep 100")), false, timedOut},
		{"stopped", within(20*time.Millisecond, script("kill -STOP $$")), false, timedOut},
		{"deaf", within(20*time.Millisecond, script("trap '' TERM INT HUP; sleep 100; sleep 100")), false, timedOut},
		{"killed", script("sleep 100"), true, []Status{Killed}},
		{"too large", func() Attempt { a := script("yes"); a.MaxResult = 100_000; return a }(), false,
			[]Status{TooLarge}},
		{"large, then failed", large(store, script("head -c 500000 /dev/zero; exit 1")), false, failed},
		{"large, disk full", large(full, script("head -c 500000 /dev/zero; sleep 100")), false, failed},
		{"stray", script("sleep " + strayMark + " & true"), false, []Status{Succeeded}},
		{"strays of strays", script("(sleep " + strayMark + " & sleep " + strayMark + " &) & exit 1"), false, failed},
		{"stray in a session of its own", script("setsid sleep " + strayMark + " & true"), false, []Status{Succeeded}},
		{"closed files", script("exec <&- >&- 2>&-; exit 1"), false, failed},
		{"unread stdin", command(Command{Argv: []string{"false"}, Stdin: strings.Repeat("x", 1<<20)}), false, failed},
		{"garbage as progress", script("head -c 200000 /dev/zero >&3; exit 1"), false, failed},
		{"too much memory", func() Attempt {
			a := script("head -c 40000000 /dev/zero | tail -c 30000000 >/dev/null; exit 1")
			a.Memory = 8
			return a
		}(), false, failed},
		{"sleep past the deadline", Attempt{Function: "sleep", Payload: []byte("1h"), Deadline: time.Millisecond},
			false, timedOut},
		{"killed sleep", Attempt{Function: "sleep", Payload: []byte("1h")}, true, []Status{Killed}},
		{"panic", Attempt{Function: "explode"}, false, []Status{Panicked}},
		{"goexit", Attempt{Function: "goexit"}, false, []Status{Panicked}},
		{"open output", Attempt{Function: "openOutput", Store: store, Context: &probe.Context{}}, false, failed},
		{"missing input", Attempt{Function: "wait", Timeout: time.Millisecond}, false, timedOut},
	}
}

// traces counts the remains of tasks.
type traces struct{ files, goroutines, zombies, strays, stored, cgroups int }

// countTraces counts the open files, goroutines and zombies of this process, the strays, the files in a folder, and
// the pool's cgroups with processes.
func countTraces(t *testing.T, p *Pool, folder string) (c traces) {
	t.Helper()
	count := func(pattern string) int {
		names, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		return len(names)
	}
	c.files, c.stored, c.goroutines = count("/proc/self/fd/*"), count(folder+"/*"), runtime.NumGoroutine()
	processes, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		t.Fatal(err)
	}
	own := strconv.Itoa(os.Getpid())
	for _, dir := range processes { // a process may end meanwhile
		stat, _ := os.ReadFile(dir + "/stat")
		if _, rest, _ := strings.Cut(string(stat), ") "); strings.HasPrefix(rest, "Z "+own+" ") {
			c.zombies++
		}
		if line, _ := os.ReadFile(dir + "/cmdline"); strings.HasPrefix(string(line), "sleep\x00"+strayMark) {
			c.strays++
		}
	}
	if g := p.launcher.cgroups; g != nil {
		names, err := filepath.Glob(g.parent.Name() + "/*/cgroup.events")
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			if events, _ := os.ReadFile(name); strings.Contains(string(events), "populated 1") {
				c.cgroups++
			}
		}
	}
	return c
}

// badTasksEnv sets how many tasks of each kind TestBadTasks runs.
const badTasksEnv = "PHOEBE_BAD_TASKS"

// Whatever tasks do, they leave no open file, goroutine, zombie, stray, half-written file or cgroup in use.
func TestBadTasks(t *testing.T) {
	if _, err := osexec.LookPath("setsid"); err != nil {
		t.Skip(err)
	}
	each := 3
	if text := os.Getenv(badTasksEnv); text != "" {
		var err error
		if each, err = strconv.Atoi(text); err != nil {
			t.Fatal(err)
		}
	}
	r := testRegistry(t, map[string]Func{
		"explode": explode, "wait": untilEnded,
		"goexit": func(context.Context, []byte) ([]byte, error) { runtime.Goexit(); return nil, nil },
		"openOutput": func(ctx context.Context, _ []byte) ([]byte, error) {
			w, err := Output(ctx, 0)
			if err == nil {
				_, err = w.Write(make([]byte, 2*maxInlineBytes))
			}
			return nil, err
		},
	})
	if err := r.AllowProcesses(); err != nil {
		t.Fatal(err)
	}
	p := newPool(t, r)
	folder := t.TempDir()
	kinds := badTasks(t, &folderStore{dir: folder}, &folderStore{dir: folder, full: true})
	runAll := func(n int) {
		for _, kind := range kinds {
			tasks := make(chan struct{}, n)
			for range n {
				tasks <- struct{}{}
			}
			close(tasks)
			var runners sync.WaitGroup
			for range 8 {
				runners.Go(func() {
					for range tasks {
						running, end := startTask(t, p, kind.task)
						if kind.kill {
							running.Kill("as the test wants")
						}
						res := <-end
						ok := false
						for _, want := range kind.wants {
							ok = ok || res.Status == want
						}
						if !ok {
							t.Errorf("%s: got %v (%.200s), want %v", kind.name, res.Status, res.Err, kind.wants)
						}
					}
				})
			}
			runners.Wait()
		}
	}
	runAll(8) // opens the files that a pool keeps
	settle := func(limit traces) (c traces, why string) {
		for began := time.Now(); ; runtime.Gosched() {
			c = countTraces(t, p, folder)
			switch {
			case c.zombies > 0 || c.stored > 0 || c.cgroups > 0 || c.strays > 0 && p.launcher.cgroups != nil,
				c.goroutines > limit.goroutines, c.files > limit.files:
				why = fmt.Sprintf("left behind: %+v, want at most %+v", c, limit)
			default:
				return c, ""
			}
			if time.Since(began) > time.Minute {
				return c, why
			}
		}
	}
	before, why := settle(traces{files: 1 << 20, goroutines: 1 << 20})
	if why != "" {
		t.Fatal(why)
	}
	runAll(each)
	// The pool keeps a cgroup, with an open folder, for as many tasks as ever ran at a time.
	if after, why := settle(traces{files: before.files + 8, goroutines: before.goroutines}); why != "" {
		t.Error(why)
	} else if each > 100 {
		t.Logf("before %+v, after %d tasks of %d kinds %+v", before, each, len(kinds), after)
	}
}
