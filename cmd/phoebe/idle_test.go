package main_test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/phoebe-sched/phoebe/frontend/client"
	"github.com/phoebe-sched/phoebe/probe/ports/porttest"
)

// findHAProxy returns the path of HAProxy, or "" if the program is not installed.
func findHAProxy() string {
	for _, name := range []string{"haproxy", "/usr/sbin/haproxy"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	return ""
}

// startHAProxy runs HAProxy with a configuration until the test ends.
func startHAProxy(t *testing.T, program, conf string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "haproxy.cfg")
	if err := os.WriteFile(file, []byte(conf), 0o600); err != nil {
		t.Fatal(err)
	}
	lb := exec.Command(program, "-db", "-f", file)
	if err := startWithTests(lb); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		lb.Process.Kill()
		lb.Wait()
	})
}

// A balancer cuts connections that are silent for less than a job takes. A submitted job is not affected: it does
// not run again.
func TestIdleConnectionsAreCut(t *testing.T) {
	t.Parallel()
	program := findHAProxy()
	if program == "" {
		t.Skip("HAProxy is not installed")
	}
	dir, entry := t.TempDir(), porttest.FreeAddress(t)
	startHAProxy(t, program, fmt.Sprintf(
		"defaults\n mode tcp\n timeout connect 10s\n timeout client 400ms\n timeout server 400ms\nlisten phoebe\n bind %s\n server one %s\n", entry, startDev(t, "--allow-exec").frontends[0]))
	c := newClient(t, entry)
	waitUntil(t, func() error {
		_, err := c.Cluster(t.Context())
		return err
	})
	silent, err := net.Dial("tcp", entry)
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	silent.SetDeadline(time.Now().Add(patience))
	if _, err := silent.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Fatalf("a silent connection is not cut: %v", err)
	}
	starts := filepath.Join(dir, "starts")
	r, err := c.Submit(t.Context(), client.Job{Tasks: []client.Task{scriptTask(t, starts, "sleep 2; echo done")}})
	if err != nil {
		t.Fatal(err)
	}
	outs, err := r.Wait()
	if err != nil || string(outs[0].Result) != "done\n" || outs[0].Attempts != 1 {
		t.Errorf("%+v %v", outs, err)
	}
	wantStartedOnce(t, starts)

	// If the connection of Run is cut, the client submits the job. Otherwise the client would give up after nine
	// cuts.
	starts = filepath.Join(dir, "starts-run")
	outs, err = c.Run(t.Context(), client.Job{Tasks: []client.Task{scriptTask(t, starts, "sleep 5; echo done")}})
	if err != nil || string(outs[0].Result) != "done\n" {
		t.Errorf("%+v %v", outs, err)
	}
	if n := countLines(t, starts); n > 2 {
		t.Errorf("started %d times", n)
	}
}
