package main

import (
	"os"
	"os/exec"
	"regexp"
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

// The tools of make have a modfile of their own, so users of the module get no tools. The generator of idl/gen has
// the version of the library.
func TestToolsAreNotInTheModule(t *testing.T) {
	read := func(name string) string {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	module, tools := read("../../go.mod"), read("../tools.mod")
	if regexp.MustCompile(`(?m)^tool\b|honnef\.co`).MatchString(module) {
		t.Error("go.mod names tools: they belong into cmd/tools.mod")
	}
	if !strings.Contains(tools, "github.com/cloudwego/kitex/tool/cmd/kitex\n") {
		t.Errorf("cmd/tools.mod has no Kitex tool:\n%s", tools)
	}
	for _, name := range []string{"cloudwego/kitex", "cloudwego/thriftgo"} {
		version := regexp.MustCompile(regexp.QuoteMeta(name) + ` (v\S+)`)
		if got, want := version.FindString(tools), version.FindString(module); got != want || got == "" {
			t.Errorf("cmd/tools.mod has %q, and go.mod has %q", got, want)
		}
	}
}
