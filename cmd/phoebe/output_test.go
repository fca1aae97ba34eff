package main_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// With --output, results of any size become files. Without --output, the error of a large result names --output.
func TestRunOutput(t *testing.T) {
	t.Parallel()
	c := startDev(t, "--allow-exec", "--cache-dir", filepath.Join(t.TempDir(), "caches"), "--cache-size", "64MiB")
	dir := filepath.Join(t.TempDir(), "some", "results")
	const size = 5 << 20
	job := writeFile(t, fmt.Sprintf(`tasks:
- {function: echo, payload: small}
- {command: {argv: [head, -c, "%d", /dev/zero]}}
- {function: fail, payload: on purpose}
`, size))
	run := func(args ...string) output {
		t.Helper()
		return runPhoebe(t, append([]string{"run", "--connect", c.connect, "--job", job}, args...)...)
	}
	run("--output", dir).wantExit(t, 1, filepath.Join(dir, "0")+"\n", filepath.Join(dir, "1")+"\n", "2\tfailed",
		"on purpose", "2 of 3 tasks have results")
	if small, err := os.ReadFile(filepath.Join(dir, "0")); err != nil || string(small) != "small" {
		t.Errorf("%q, %v", small, err)
	}
	large, err := os.ReadFile(filepath.Join(dir, "1"))
	if err != nil || len(large) != size || strings.Trim(string(large), "\x00") != "" {
		t.Errorf("%d bytes, %v", len(large), err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 2 {
		t.Errorf("%v, %v", entries, err)
	}
	if all := run("--output", dir, "--json").wantExit(t, 1).outcomesByTask(t); all[1].ResultFile != filepath.Join(dir,
		"1") ||
		all[1].Result != nil || all[2].ResultFile != "" {
		t.Errorf("%+v", all)
	}
	run().wantExit(t, 1, "0\tresult", "small", "1\tfailed", "result too large",
		"results of any size become files with --output DIR")
	run("--output", job).wantExit(t, 2, "--output", "not a directory")
}

// If nobody reads the output, phoebe run fetches no more results, and the job pauses.
func TestRunSlowReader(t *testing.T) {
	c := startDev(t, "--allow-exec", "--max-kept", "16MiB", "--admin", ":0", "--log-level", "info")
	const tasks = 128 // of a million bytes each
	cmd := phoebeCommand(t.Context(), "run", "--connect", c.connect, "--tasks", strconv.Itoa(tasks), "--",
		"sh", "-c", `head -c 1000000 /dev/zero | tr '\0' x`)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := startWithTests(cmd); err != nil {
		t.Fatal(err)
	}
	defer cmd.Process.Kill()
	waitUntil(t, func() error {
		if full := metricSum(t, c.process, "phoebe_frontend_jobs_full"); full == 1 {
			return nil
		}
		if ended := metricSum(t, c.process, "phoebe_frontend_tasks_total"); ended == tasks {
			t.Fatal("phoebe run fetched all results, though nobody reads its output")
		}
		return errors.New("the job is not full")
	})
	runPhoebe(t, "run", "--connect", c.connect, "--function", "sleep", "--payload", "1s").wantExit(t, 0)
	if ended := metricSum(t, c.process, "phoebe_frontend_tasks_total"); ended >= tasks {
		t.Errorf("%v tasks ended meanwhile", ended)
	}
	text, err := io.ReadAll(out)
	if lines := bytes.Count(text, []byte("\n")); err != nil || lines != tasks {
		t.Errorf("%d lines, %v", lines, err)
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}

// A file without end is no payload and no job.
func TestRunEndlessFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "sparse")
	if err := errors.Join(os.WriteFile(file, nil, 0o600), os.Truncate(file, 65<<20)); err != nil {
		t.Fatal(err)
	}
	runPhoebe(t, "run", "--function", "echo", "--payload-file", file).wantExit(t, 2, "--payload-file",
		"more than 64 MiB")
	runPhoebe(t, "run", "--job", file).wantExit(t, 2, "job file", "more than 64 MiB")
}
