package main_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// childProcesses returns the ids of the running children of a process.
func childProcesses(pid int) []int {
	var pids []int
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, name := range stats {
		text, err := os.ReadFile(name)
		if err != nil {
			continue // the process has ended
		}
		// The program's name stands in parentheses, and may contain parentheses itself.
		id, _, _ := strings.Cut(string(text), " ")
		fields := strings.Fields(string(text)[strings.LastIndexByte(string(text), ')')+1:])
		if child, _ := strconv.Atoi(id); fields[0] != "Z" && fields[1] == strconv.Itoa(pid) {
			pids = append(pids, child)
		}
	}
	return pids
}

// isRunning reports whether a process runs. A zombie does not run.
func isRunning(pid int) bool {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && !strings.Contains(string(text), ") Z ")
}

// A benchmark measures a cluster of processes beside the embedded cluster. All processes end with the benchmark.
func TestBenchProcesses(t *testing.T) {
	part := []string{"--processes", "--frontends", "1", "--workers", "2", "--slots", "2", "--warmup", "20ms", "--for",
		"200ms"}
	runPhoebe(t, append([]string{"bench", "noop", "--repeat", "1"}, part...)...).wantExit(t, 0, "embedded", "processes",
		"times the floor")
	env := []string{"PHOEBE_SECRET=sesame", "PHOEBE_FRONTEND_POLICY=not that of these frontends"}
	runPhoebeIn(t, "", env, append([]string{"bench", "--no-embedded", "--load", "0.3", "--task-duration", "fixed:5ms",
		"--tasks-per-job", "2"}, part...)...).
		wantExit(t, 0, "processes: 1 frontends, 2 workers of 2 slots", "load 0.3, 4 slots")
}

// The processes of a benchmark end with it, also if the benchmark is interrupted or killed.
func TestBenchTakesItsProcessesAlong(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]os.Signal{"interrupted": os.Interrupt, "killed": os.Kill} {
		t.Run(name, func(t *testing.T) {
			bench := startPhoebe(t, "bench", "--processes", "--no-embedded", "--frontends", "1", "--workers", "2",
				"--slots", "2", "--warmup", "0s", "--for", "10m")
			var parts []int
			waitUntil(t, func() error {
				if parts = childProcesses(bench.cmd.Process.Pid); len(parts) != 3 {
					return fmt.Errorf("%d processes, want 3", len(parts))
				}
				return nil
			})
			t.Cleanup(func() {
				for _, pid := range slices.DeleteFunc(parts, func(pid int) bool { return !isRunning(pid) }) {
					_ = syscall.Kill(pid, syscall.SIGKILL)
				}
			})
			if err := bench.cmd.Process.Signal(end); err != nil {
				t.Fatal(err)
			}
			<-bench.done
			waitUntil(t, func() error {
				if i := slices.IndexFunc(parts, isRunning); i >= 0 {
					return fmt.Errorf("process %d has outlived the benchmark", parts[i])
				}
				return nil
			})
		})
	}
}

// If a cluster loses a process during the measurement, the benchmark fails.
func TestBenchTellsWhatItLost(t *testing.T) {
	t.Parallel()
	bench := startPhoebe(t, "bench", "--processes", "--no-embedded", "--frontends", "1", "--workers", "2", "--slots",
		"2",
		"--warmup", "0s", "--for", "1s", "--load", "0.1")
	waitUntil(t, func() error {
		parts := childProcesses(bench.cmd.Process.Pid)
		if len(parts) != 3 {
			return fmt.Errorf("%d processes, want 3", len(parts))
		}
		return syscall.Kill(parts[0], syscall.SIGKILL)
	})
	<-bench.done
	if code, said := bench.cmd.ProcessState.ExitCode(), bench.errs.String(); code != 1 ||
		!strings.Contains(said, "ended by itself: signal: killed") {
		t.Errorf("exit code %d: %s", code, said)
	}
}
