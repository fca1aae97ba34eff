package main_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// zombieChildren counts the zombies among the children of a process.
func zombieChildren(t *testing.T, parent int) (n int) {
	t.Helper()
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range stats {
		stat, _ := os.ReadFile(name) // the process may have ended
		_, rest, _ := strings.Cut(string(stat), ") ")
		if strings.HasPrefix(rest, fmt.Sprintf("Z %d ", parent)) {
			n++
		}
	}
	return n
}

// As process 1 of a container, the worker reaps what tasks leave behind, passes signals on, and exits as usual.
func TestWorkerAsProcessOne(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can make the first process of a new namespace")
	}
	t.Parallel()
	args := []string{"worker", "--listen", "127.0.0.1:0", "--allow-exec", "--slots", "4"}
	cmd := phoebeCommand(context.Background(), args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID}
	w := startCommand(t, cmd, args)
	f := startPhoebe(t, "frontend", "--listen", "127.0.0.1:0", "--workers", w.workerAddr())
	runPhoebe(t, "run", "--connect", f.awaitLines("frontend", 1)[0], "--tasks", "20", "--", "sh", "-c",
		"sleep 100 & echo $PPID").wantExit(t, 0, "20 of 20 tasks have results")
	waitUntil(t, func() error {
		if n := zombieChildren(t, w.cmd.Process.Pid); n > 0 {
			return fmt.Errorf("process 1 has %d zombies", n)
		}
		return nil
	})
	w.sendSignal(syscall.SIGTERM)
	if code := w.awaitEnd(); code != 0 {
		t.Errorf("the drained worker exits with %d", code)
	}
}
