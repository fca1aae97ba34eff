package main_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	phoebe "github.com/phoebe-sched/phoebe/cmd/phoebe"
	"github.com/phoebe-sched/phoebe/frontend/client"
	"github.com/phoebe-sched/phoebe/frontend/client/admin"
)

var (
	binary      string
	plainBinary string   // without -race, for simulations, which are one thread and take eight times as long with -race
	buildFlags  []string // -race, if this test runs with -race
	secret      string   // of the clients; "": none
)

// binaryVariable names an environment variable with the path of phoebe's binary. Without it, the tests build the
// binary.
const binaryVariable = "PHOEBE_TEST_BINARY"

// patience bounds a test's wait for an event.
const patience = 60 * time.Second

func TestMain(m *testing.M) { os.Exit(testMain(m)) }

func testMain(m *testing.M) int {
	if dir := os.Getenv(embedderVariable); dir != "" {
		if err := runEmbedder(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		return 0
	}
	if signal.Ignored(syscall.SIGHUP) { // nohup; without a handler, the processes of the tests would ignore the signal, too
		signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP)
	}
	dir, err := os.MkdirTemp("", "phoebe-test-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	if binary = os.Getenv(binaryVariable); binary != "" {
		plainBinary = binary
		return m.Run()
	}
	binary, plainBinary = filepath.Join(dir, "phoebe"), filepath.Join(dir, "plain", "phoebe")
	builds := [][]string{append(slices.Clone(buildFlags), "-o", binary, ".")}
	if len(buildFlags) > 0 {
		builds = append(builds, []string{"-o", plainBinary, "."})
	} else {
		plainBinary = binary
	}
	for _, flags := range builds {
		build := exec.Command("go", append([]string{"build"}, flags...)...)
		if out, err := build.CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "%v: %v\n%s", build, err, out)
			return 1
		}
	}
	return m.Run()
}

// phoebeCommand returns a command line of phoebe. Variables of the test with the prefix PHOEBE_ are left out.
func phoebeCommand(ctx context.Context, args ...string) *exec.Cmd {
	program := binary
	if len(args) > 0 && args[0] == "sim" {
		program = plainBinary
	}
	cmd := exec.CommandContext(ctx, program, args...)
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "PHOEBE_") {
			cmd.Env = append(cmd.Env, v)
		}
	}
	cmd.WaitDelay = 5 * time.Second
	return cmd
}

// output is the printed text of an ended command, and its exit code.
type output struct {
	out, err string
	code     int
}

// runPhoebe runs a command to its end.
func runPhoebe(t testing.TB, args ...string) output { return runPhoebeIn(t, "", nil, args...) }

// runPhoebeIn runs a command to its end, with standard input and further environment variables.
func runPhoebeIn(t testing.TB, stdin string, env []string, args ...string) output {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := phoebeCommand(ctx, args...)
	cmd.Env = append(cmd.Env, env...)
	cmd.Stdin = strings.NewReader(stdin)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := startWithTests(cmd)
	if err == nil {
		err = cmd.Wait()
	}
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) || ctx.Err() != nil {
		t.Fatalf("phoebe %q: %v %v\n%s", args, err, ctx.Err(), errs.String())
	}
	checkRaces(t, args, errs.String())
	return output{out.String(), errs.String(), cmd.ProcessState.ExitCode()}
}

// runHere runs a command in this process. A test of many wrong command lines takes a tenth of the time that way. The
// command must end by itself.
func runHere(t *testing.T, args ...string) output {
	t.Helper()
	for _, v := range os.Environ() {
		if name, value, _ := strings.Cut(v, "="); strings.HasPrefix(name, "PHOEBE_") {
			t.Setenv(name, value) // restores the variable at the end
			os.Unsetenv(name)
		}
	}
	var out, errs lockedBuffer
	ended := make(chan int, 1)
	go func() { ended <- phoebe.RunCommand(args, &out, &errs) }()
	select {
	case code := <-ended:
		return output{out.String(), errs.String(), code}
	case <-time.After(patience):
		t.Fatalf("phoebe %q does not end\n%s", args, errs.String())
		return output{}
	}
}

// wantExit fails the test unless the command ended with the exit code, and printed all texts on stdout or stderr.
func (s output) wantExit(t testing.TB, code int, texts ...string) output {
	t.Helper()
	if s.code != code {
		t.Errorf("exit code %d, want %d\nstdout: %s\nstderr: %s", s.code, code, s.out, s.err)
	}
	for _, text := range texts {
		if !strings.Contains(s.out+s.err, text) {
			t.Errorf("%q is missing\nstdout: %s\nstderr: %s", text, s.out, s.err)
		}
	}
	return s
}

// checkRaces fails the test if stderr shows a data race or a panic.
func checkRaces(t testing.TB, args []string, stderr string) {
	if strings.Contains(stderr, "DATA RACE") || strings.Contains(stderr, "panic:") ||
		strings.Contains(stderr, "fatal error:") {
		t.Errorf("phoebe %q:\n%s", args, stderr)
	}
}

// process is a phoebe that runs until a signal.
type process struct {
	t    testing.TB
	args []string
	cmd  *exec.Cmd
	errs lockedBuffer
	done chan struct{} // closed when the process has ended

	mu      sync.Mutex
	lines   []string
	eof     bool
	changed *sync.Cond
}

// lockedBuffer is a buffer for several goroutines.
type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// startPhoebe starts a process, and kills it when the test ends.
func startPhoebe(t testing.TB, args ...string) *process { return startPhoebeIn(t, nil, args...) }

// startPhoebeIn starts a process with further environment variables.
func startPhoebeIn(t testing.TB, env []string, args ...string) *process {
	t.Helper()
	cmd := phoebeCommand(context.Background(), args...)
	cmd.Env = append(cmd.Env, env...)
	return startCommand(t, cmd, args)
}

// startCommand starts a process by cmd, which runs phoebe with args.
func startCommand(t testing.TB, cmd *exec.Cmd, args []string) *process {
	t.Helper()
	p := &process{t: t, args: args, cmd: cmd, done: make(chan struct{})}
	p.changed = sync.NewCond(&p.mu)
	p.cmd.Stderr = &p.errs
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := startWithTests(p.cmd); err != nil {
		t.Fatal(err)
	}
	go func() {
		for lines := bufio.NewScanner(out); lines.Scan(); {
			p.mu.Lock()
			p.lines = append(p.lines, lines.Text())
			p.changed.Broadcast()
			p.mu.Unlock()
		}
		p.mu.Lock()
		p.eof = true
		p.changed.Broadcast()
		p.mu.Unlock()
		_ = p.cmd.Wait()
		close(p.done)
	}()
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		<-p.done
		checkRaces(t, args, p.errs.String())
		if t.Failed() {
			t.Logf("phoebe %q said on stderr:\n%s", args, p.errs.String())
		}
	})
	return p
}

// awaitLines waits until the process has printed n lines that begin with word. It returns the lines without the
// word.
func (p *process) awaitLines(word string, n int) []string {
	p.t.Helper()
	timer := time.AfterFunc(patience, p.changed.Broadcast)
	defer timer.Stop()
	began := time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		var found []string
		for _, l := range p.lines {
			if f := strings.Fields(l); len(f) > 0 && f[0] == word {
				found = append(found, strings.TrimSpace(l[len(word):]))
			}
		}
		if len(found) >= n {
			return found
		}
		if p.eof || time.Since(began) >= patience {
			p.t.Fatalf("phoebe %q has not printed %d lines of %q, but %q\n%s", p.args, n, word, p.lines,
				p.errs.String())
		}
		p.changed.Wait()
	}
}

// sendSignal sends a signal to the process.
func (p *process) sendSignal(s syscall.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.t.Fatalf("signal %v to phoebe %q: %v\n%s", s, p.args, err, p.errs.String())
	}
}

// awaitEnd waits for the end of the process, and returns its exit code.
func (p *process) awaitEnd() int {
	p.t.Helper()
	select {
	case <-p.done:
	case <-time.After(patience):
		p.t.Fatalf("phoebe %q does not end\n%s", p.args, p.errs.String())
	}
	return p.cmd.ProcessState.ExitCode()
}

// cluster is one process with frontends and workers.
type cluster struct {
	*process
	frontends, workers []string
	connect            string // for --connect
}

// startDev starts a cluster of 2 frontends and 3 workers with 2 slots each.
func startDev(t testing.TB, args ...string) *cluster {
	t.Helper()
	c := &cluster{process: startPhoebe(t,
		append([]string{"dev", "--frontends", "2", "--workers", "3", "--slots", "2", "--frontend-port", "0"},
			args...)...)}
	c.awaitLines("ready", 1)
	c.frontends, c.workers = c.awaitLines("frontend", 2), c.awaitLines("worker", 3)
	c.connect = strings.Join(c.frontends, ",")
	return c
}

// waitUntil polls until ok returns nil.
func waitUntil(t testing.TB, ok func() error) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(patience); ; <-tick.C {
		err := ok()
		if err == nil {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("after %v still: %v", patience, err)
		}
	}
}

// newClient makes a client of frontends.
func newClient(t testing.TB, frontends ...string) *admin.Client {
	t.Helper()
	c, err := client.New(frontends, client.WithRetryFor(10*time.Second), client.WithSecret(secret))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Errorf("close the client: %v", err)
		}
	})
	return admin.New(c)
}

// awaitLinked waits until a frontend is linked to n workers.
func awaitLinked(t testing.TB, frontend string, n int) {
	t.Helper()
	awaitLinkedBy(t, newClient(t, frontend).Client, n)
}

// awaitLinkedBy waits until the frontend of a client is linked to n workers.
func awaitLinkedBy(t testing.TB, c *client.Client, n int) {
	t.Helper()
	waitUntil(t, func() error {
		workers, err := c.Workers(t.Context())
		if err != nil {
			return err
		}
		up := 0
		for _, w := range workers {
			if w.State == "up" {
				up++
			}
		}
		if up != n {
			return fmt.Errorf("%d workers are up, want %d: %+v", up, n, workers)
		}
		return nil
	})
}

// countLines returns the number of lines of a file, or 0 if there is no file.
func countLines(t testing.TB, name string) int {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	return bytes.Count(text, []byte("\n"))
}

// touchFile makes an empty file.
func touchFile(t testing.TB, name string) {
	t.Helper()
	if err := os.WriteFile(name, nil, 0o600); err != nil {
		t.Fatal(err)
	}
}
