package main_test

import (
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// systemd stands in for systemd: a socket, and the messages sent there.
type systemd struct {
	name    string
	mu      sync.Mutex
	notices []string
}

// startSystemd listens for the messages of a process.
func startSystemd(t *testing.T) *systemd {
	t.Helper()
	s := &systemd{name: filepath.Join(t.TempDir(), "notify")}
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: s.name, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	go func() {
		buf := make([]byte, 1024)
		for {
			n, err := conn.Read(buf)
			if err != nil {
				return
			}
			s.mu.Lock()
			s.notices = append(s.notices, string(buf[:n]))
			s.mu.Unlock()
		}
	}()
	return s
}

// awaitNotice waits until a process has sent text n times, and returns all its messages.
func (s *systemd) awaitNotice(t *testing.T, text string, n int) (all []string) {
	t.Helper()
	waitUntil(t, func() error {
		s.mu.Lock()
		defer s.mu.Unlock()
		all = append(all[:0], s.notices...)
		if got := strings.Count(strings.Join(all, "\n"), text); got < n {
			return fmt.Errorf("systemd has heard %q %d times, want %d: %q", text, got, n, all)
		}
		return nil
	})
	return all
}

// Under systemd, a frontend and a worker report three states: ready, alive, and draining.

func TestSystemd(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"frontend", "--listen", "127.0.0.1:0", "--workers", "127.0.0.1:1"},
		{"worker", "--listen", "127.0.0.1:0"}} {
		t.Run(args[0], func(t *testing.T) {
			s := startSystemd(t)
			p := startPhoebeIn(t, []string{"NOTIFY_SOCKET=" + s.name, "WATCHDOG_USEC=60000"}, args...)
			if all := s.awaitNotice(t, "READY=1", 1); all[0] != "READY=1" {
				t.Errorf("%q", all)
			}
			s.awaitNotice(t, "WATCHDOG=1", 3)
			p.sendSignal(syscall.SIGTERM)
			s.awaitNotice(t, "STOPPING=1", 1)
			if code := p.awaitEnd(); code != 0 {
				t.Errorf("exit code %d", code)
			}
		})
	}
	// A watchdog for another process is ignored.
	s := startSystemd(t)
	p := startPhoebeIn(t, []string{"NOTIFY_SOCKET=" + s.name, "WATCHDOG_USEC=60000", "WATCHDOG_PID=1"}, "worker",
		"--listen", "127.0.0.1:0")
	s.awaitNotice(t, "READY=1", 1)
	p.sendSignal(syscall.SIGTERM)
	if all := s.awaitNotice(t, "STOPPING=1", 1); len(all) != 2 {
		t.Errorf("%q", all)
	}
	p.awaitEnd()
}
