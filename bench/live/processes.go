package live

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/phoebe-sched/phoebe/frontend/client"
)

// processes are the parts of a cluster, each a process of phoebe. When the parts are no longer needed, close kills
// them: they have nothing to finish. On Linux the parts also die with this process.
type processes struct {
	program   string
	env       []string
	frontends []string // addresses

	startThread chan func() // functions for the thread that makes all starts: see startProcess
	started     []*process
}

type process struct {
	cmd    *exec.Cmd
	stderr lastWords
	ended  chan struct{} // closed after err is set
	err    error
}

// startTime bounds the time from the first start until all parts are linked.
const startTime = time.Minute

// startProcesses starts workers and frontends, and waits until each frontend is linked to each worker.
func startProcesses(ctx context.Context, o *Options, policy, tlsDir string) (*processes, error) {
	p := newProcesses(o, tlsDir)
	ctx, cancel := context.WithTimeoutCause(ctx, startTime, fmt.Errorf("not linked within %v", startTime))
	defer cancel()
	var workers []string
	for range o.Workers {
		addr, err := p.startProcess(ctx, "worker", "worker", "--listen", "127.0.0.1:0", "--slots",
			strconv.Itoa(o.Slots))
		if err != nil {
			return nil, errors.Join(err, p.close())
		}
		workers = append(workers, addr)
	}
	for range o.Frontends {
		addr, err := p.startProcess(ctx, "frontend", "frontend", "--listen", "127.0.0.1:0", "--workers",
			strings.Join(workers, ","), "--policy", policy)
		if err != nil {
			return nil, errors.Join(err, p.close())
		}
		p.frontends = append(p.frontends, addr)
	}
	for _, addr := range p.frontends {
		if err := p.awaitLinks(ctx, addr, o, tlsDir); err != nil {
			return nil, errors.Join(fmt.Errorf("frontend process at %s: %w", addr, err), p.close())
		}
	}
	return p, nil
}

func newProcesses(o *Options, tlsDir string) *processes {
	p := &processes{program: o.Processes, startThread: make(chan func())}
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "PHOEBE_") { // such variables are for this process
			p.env = append(p.env, v)
		}
	}
	if o.Secret != "" {
		p.env = append(p.env, "PHOEBE_SECRET="+o.Secret)
	}
	if tlsDir != "" {
		p.env = append(p.env, "PHOEBE_TLS_DIR="+tlsDir)
	}
	go func() {
		runtime.LockOSThread()
		for start := range p.startThread {
			start()
		}
	}()
	return p
}

// startProcess starts the program and returns the address in its first line, behind word. All starts come from a
// thread that stays: when the starting thread ends, the kernel takes the parent for dead.
func (p *processes) startProcess(ctx context.Context, word string, args ...string) (addr string, err error) {
	proc := &process{cmd: exec.Command(p.program, args...), ended: make(chan struct{})}
	proc.cmd.Env, proc.cmd.Stderr, proc.cmd.SysProcAttr = p.env, &proc.stderr, processAttributes()
	out, err := proc.cmd.StdoutPipe()
	if err != nil {
		return "", err
	}
	done := make(chan struct{})
	p.startThread <- func() { err = proc.cmd.Start(); close(done) }
	<-done
	if err != nil {
		return "", fmt.Errorf("start a process for the cluster: %w", err)
	}
	stop := context.AfterFunc(ctx, func() { _ = proc.cmd.Process.Kill() })
	defer stop()
	lines := bufio.NewReader(out)
	line, _ := lines.ReadString('\n')
	addr, ok := strings.CutPrefix(strings.TrimSpace(line), word+" ")
	if !ok {
		_ = proc.cmd.Process.Kill()
		err := proc.cmd.Wait()
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return "", fmt.Errorf("%s did not tell its address: %w: %s", proc.cmd, err, proc.stderr.String())
	}
	p.started = append(p.started, proc)
	go func() {
		_, _ = io.Copy(io.Discard, lines)
		proc.err = proc.cmd.Wait()
		close(proc.ended)
	}()
	return addr, nil
}

// awaitLinks returns when a frontend is linked to all workers.
func (p *processes) awaitLinks(ctx context.Context, addr string, o *Options, tlsDir string) error {
	c, err := client.New([]string{addr}, client.WithSecret(o.Secret), client.WithTLS(tlsDir), client.WithName("bench"))
	if err != nil {
		return err
	}
	defer c.Close()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		up := 0
		workers, err := c.Workers(ctx)
		if err == nil {
			for _, w := range workers {
				if w.State == "up" {
					up++
				}
			}
			if up == o.Workers {
				return nil
			}
			err = fmt.Errorf("linked to %d of %d workers", up, o.Workers)
		}
		if p.findLost() != nil {
			return err // close names the lost process
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", context.Cause(ctx), err)
		}
	}
}

// processIDs returns the ids of the processes. p may be nil.
func (p *processes) processIDs() []int {
	if p == nil {
		return nil
	}
	pids := make([]int, len(p.started))
	for i, proc := range p.started {
		pids[i] = proc.cmd.Process.Pid
	}
	return pids
}

// findLost returns an error for each process that ended by itself.
func (p *processes) findLost() error {
	var errs []error
	for _, proc := range p.started {
		select {
		case <-proc.ended:
			errs = append(errs, fmt.Errorf("%s ended by itself: %v: %s", proc.cmd, proc.err, proc.stderr.String()))
		default:
		}
	}
	return errors.Join(errs...)
}

// close kills the processes. The error names processes lost before.
func (p *processes) close() error {
	err := p.findLost()
	for _, proc := range p.started {
		_ = proc.cmd.Process.Kill()
		<-proc.ended
	}
	close(p.startThread)
	return err
}

// lastWords keeps the end of a process's standard error.
type lastWords struct {
	mu   sync.Mutex
	text []byte
}

func (l *lastWords) Write(text []byte) (int, error) {
	const most = 2000
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text = append(l.text, text...)
	l.text = l.text[max(0, len(l.text)-most):]
	return len(text), nil
}

func (l *lastWords) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.TrimSpace(string(l.text))
}
