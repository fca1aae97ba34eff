package main

import (
	"os/exec"
	"strings"
	"testing"
)

// The query engine in bench/tpch is a separate module, so the command contains neither DuckDB nor cgo for it.
func TestNoDuckDB(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", ".").Output()
	if err != nil {
		t.Fatal(err)
	}
	for p := range strings.Lines(string(out)) {
		if strings.Contains(p, "duckdb") || strings.Contains(p, "arrow-go") {
			t.Errorf("the command depends on %s", p)
		}
	}
	if !strings.Contains(string(out), "github.com/phoebe-sched/phoebe/frontend\n") {
		t.Errorf("the list of packages is not one: %.200s", out)
	}
}
