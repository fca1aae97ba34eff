package main_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// network is a network namespace, which ends with the test.
type network struct {
	t   testing.TB
	pid int // of the process that holds the network
}

// newNetwork makes a network, or skips the test without the right to make one.
func newNetwork(t testing.TB) *network {
	t.Helper()
	for _, tool := range []string{"ip", "nsenter"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skip(err)
		}
	}
	holder := exec.Command("cat")
	holder.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL}
	stdin, err := holder.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	runtime.LockOSThread() // the holder dies with its parent thread
	t.Cleanup(runtime.UnlockOSThread)
	if err := holder.Start(); err != nil {
		t.Skipf("a network namespace is not allowed: %v", err)
	}
	t.Cleanup(func() {
		stdin.Close()
		_ = holder.Wait()
	})
	n := &network{t, holder.Process.Pid}
	n.runIP("link set lo up")
	return n
}

// runIP runs the tool ip in the network.
func (n *network) runIP(args string) {
	n.t.Helper()
	cmd := exec.Command("nsenter", append([]string{n.netFlag(), "ip"}, strings.Fields(args)...)...)
	if out, err := cmd.CombinedOutput(); err != nil {
		n.t.Skipf("ip %s: %v: %s", args, err, out)
	}
}

// netFlag returns nsenter's flag for the network.
func (n *network) netFlag() string { return fmt.Sprintf("--net=/proc/%d/ns/net", n.pid) }

// wrapCommand makes a command of phoebe run in the network.
func (n *network) wrapCommand(cmd *exec.Cmd) *exec.Cmd {
	path, err := exec.LookPath("nsenter")
	if err != nil {
		n.t.Fatal(err)
	}
	cmd.Path, cmd.Args = path, append([]string{"nsenter", n.netFlag()}, cmd.Args...)
	cmd.Env = append(cmd.Env, "PHOEBE_SECRET=sesame")
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} // newNetwork has locked the thread
	return cmd
}

// startPhoebe starts a process in the network.
func (n *network) startPhoebe(args ...string) *process {
	n.t.Helper()
	args = append([]string{"--log-level", "info"}, args...)
	return startCommand(n.t, n.wrapCommand(phoebeCommand(context.Background(), args...)), args)
}

// runPhoebe runs a command to its end.
func (n *network) runPhoebe(args ...string) (string, error) {
	n.t.Helper()
	ctx, cancel := context.WithTimeout(n.t.Context(), patience)
	defer cancel()
	cmd := n.wrapCommand(phoebeCommand(ctx, args...))
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	checkRaces(n.t, args, errs.String())
	if err != nil {
		err = fmt.Errorf("phoebe %q: %w: %s", args, err, errs.String())
	}
	return out.String(), err
}

// getReadyz returns the answer of /readyz of a frontend in the network.
func (n *network) getReadyz(p *process) (text string, err error) {
	addr := adminAddr(n.t, p)
	conns, failed := make(chan net.Conn, 1), make(chan error, 1)
	go func() {
		runtime.LockOSThread() // and never unlock: the thread ends with the goroutine
		ns, err := os.Open(fmt.Sprintf("/proc/%d/ns/net", n.pid))
		if err == nil {
			err = unix.Setns(int(ns.Fd()), unix.CLONE_NEWNET)
			ns.Close()
		}
		var c net.Conn
		if err == nil {
			c, err = net.Dial("tcp", addr)
		}
		if err != nil {
			failed <- err
			return
		}
		conns <- c
	}()
	select {
	case err := <-failed:
		return "", err
	case c := <-conns:
		defer c.Close()
		_ = c.SetDeadline(time.Now().Add(patience))
		if _, err := io.WriteString(c, "GET /readyz HTTP/1.0\r\n\r\n"); err != nil {
			return "", err
		}
		answer, err := io.ReadAll(c)
		_, body, _ := strings.Cut(string(answer), "\r\n\r\n")
		return body, err
	}
}

// side is one of two joined networks, with a frontend and a worker.
type side struct {
	*network
	ip       string
	frontend *process
	worker   *process
}

// startBoth starts the frontend and the worker. Both know only the frontend at seed.
func (s *side) startBoth(name, seed string) {
	s.t.Helper()
	s.frontend = s.network.startPhoebe("frontend", "--listen", s.ip+":7410", "--gossip", s.ip+":7411", "--heartbeat",
		s.ip+":7412", "--join", seed+":7411",
		"--admin", "127.0.0.1:0", "--lease", "500ms")
	s.worker = s.network.startPhoebe("worker", "--listen", s.ip+":7420", "--name", name, "--join", seed+":7412")
}

// awaitView waits until the frontend is linked to the number of workers, and /readyz contains the text readyz.
func (s *side) awaitView(workers int, readyz string) {
	s.t.Helper()
	waitUntil(s.t, func() error {
		out, err := s.runPhoebe("status", "--connect", s.ip+":7410", "--only", s.ip+":7410")
		if err != nil {
			return err
		}
		if n := strings.Count(out, " 1/1 "); n != workers {
			return fmt.Errorf("%d workers are linked, want %d:\n%s", n, workers, out)
		}
		text, err := s.getReadyz(s.frontend)
		if err == nil && !strings.Contains(text, readyz) || readyz == "" && text != "ok\n" {
			err = errors.New("readyz says " + text)
		}
		return err
	})
}

// runEchoes runs a job at the worker of a host, by the side's frontend.
func (s *side) runEchoes(host string) {
	s.t.Helper()
	if _, err := s.runPhoebe("run", "--connect", s.ip+":7410", "--function", "echo", "--tasks", "4", "--hosts",
		host); err != nil {
		s.t.Error(err)
	}
}

// The network between two frontends breaks. Each frontend goes on with the workers in reach, and warns. When the
// network is whole again, each frontend sees both workers.
func TestPartition(t *testing.T) {
	t.Parallel()
	a, b := &side{network: newNetwork(t), ip: "10.11.12.1"}, &side{network: newNetwork(t), ip: "10.11.12.2"}
	a.network.runIP(fmt.Sprintf("link add wire type veth peer name wire netns %d", b.pid))
	for _, s := range []*side{a, b} {
		s.network.runIP("addr add " + s.ip + "/24 dev wire")
		s.network.runIP("link set wire up")
	}
	a.startBoth("wa", a.ip)
	b.startBoth("wb", a.ip)
	for _, s := range []*side{a, b} {
		s.awaitView(2, "")
		s.runEchoes("wa")
		s.runEchoes("wb")
	}

	a.network.runIP("link set wire down")
	a.awaitView(1, "warning: no other frontend is reached")
	b.awaitView(1, "warning: no other frontend is reached")
	a.runEchoes("wa")
	b.runEchoes("wb")

	a.network.runIP("link set wire up")
	for _, s := range []*side{a, b} {
		s.awaitView(2, "")
		s.runEchoes("wa")
		s.runEchoes("wb")
	}
}
