package main_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// With --output, results of any size become files. Without --output, the error of a large result names --output.
func TestRunOutput(t *testing.T) {
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
