package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// The guide's program of 40 lines runs in a module of its own, from an empty folder. The test takes go.sum
// and the versions from this module, so that no module is looked up.
func TestFreshModule(t *testing.T) {
	t.Parallel()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	read := func(name string) string {
		text, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	_, program, _ := strings.Cut(read("cmd/phoebe/GUIDE.md"), "`main.go`:\n\n```go\n")
	program, _, ended := strings.Cut(program, "```\n")
	if lines := strings.Count(program, "\n"); !ended || lines > 40 {
		t.Fatalf("the guide's program has %d lines:\n%s", lines, program)
	}
	began, dir := time.Now(), t.TempDir()
	for name, text := range map[string]string{"main.go": program, "go.sum": read("go.sum")} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	run := func(args ...string) string {
		t.Helper()
		cmd := exec.Command("go", args...)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "GOFLAGS=-mod=mod", "GOWORK=off")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, out)
		}
		return string(out)
	}
	run("mod", "init", "area")
	run("mod", "edit", "-replace", "github.com/phoebe-sched/phoebe="+root,
		"-require", "github.com/phoebe-sched/phoebe@v0.0.0")
	if out := run("run", "-ldflags=-w", "."); !strings.HasSuffix(out, "areas: [12 30]\n") {
		t.Errorf("the program prints %q", out)
	}
	t.Logf("from an empty folder to the areas: %v", time.Since(began).Round(time.Millisecond))
}
