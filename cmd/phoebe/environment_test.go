package main

import (
	"io"
	"os"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
)

// A variable belongs to a single flag, unless the flag means the same in several commands.
func TestVariables(t *testing.T) {
	var c cli
	parser, err := newParser(&c, io.Discard, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	shared := map[string]bool{
		"PHOEBE_CONFIG": true, "PHOEBE_LOG_FORMAT": true, "PHOEBE_LOG_LEVEL": true, "PHOEBE_SECRET_FILE": true,
		"PHOEBE_TOKEN_FILE": true, "PHOEBE_CONNECT": true, "PHOEBE_RETRY_FOR": true, "PHOEBE_TLS_DIR": true,
	}
	owners := map[string]string{}
	var walk func(n *kong.Node)
	walk = func(n *kong.Node) {
		for _, f := range n.Flags {
			if f.Name == "help" || f.Name == "version" {
				continue
			}
			if len(f.Envs) != 1 {
				t.Fatalf("%s --%s has the variables %q", n.FullPath(), f.Name, f.Envs)
			}
			if other := owners[f.Envs[0]]; other != "" && !shared[f.Envs[0]] {
				t.Errorf("$%s is of %s and of %s", f.Envs[0], other, n.FullPath())
			}
			owners[f.Envs[0]] = n.FullPath()
		}
		for _, child := range n.Children {
			walk(child)
		}
	}
	walk(parser.Model.Node)
	if owners["PHOEBE_WORKER_LISTEN"] != "phoebe worker" || owners["PHOEBE_SIM_RUN_JOBS"] != "phoebe sim run" {
		t.Errorf("%q", owners)
	}
}

// A command without any frontend to ask says so.
func TestConnectToNobody(t *testing.T) {
	clearVariables(t)
	t.Setenv("PHOEBE_CONNECT", "")
	for _, command := range [][]string{{"status"}, {"run", "--function", "echo"}, {"doctor"}, {"tenants"}} {
		var stdout, stderr strings.Builder
		code := runCommand(command, &stdout, &stderr)
		if code != exitUsage || !strings.Contains(stderr.String(), "--connect names no frontend") {
			t.Errorf("%q: exit code %d, %s", command, code, stderr.String())
		}
	}
}

// Completion offers the negative of each flag that has one.
func TestCompletionOfNegatives(t *testing.T) {
	clearVariables(t)
	for shell, want := range map[string]string{"bash": "--no-embedded", "zsh": "--no-embedded",
		"fish": "-l no-embedded "} {
		var stdout, stderr strings.Builder
		if code := runCommand([]string{"completion", shell}, &stdout, &stderr); code != exitOK ||
			!strings.Contains(stdout.String(), want) || strings.Contains(stdout.String(), "no-processes") {
			t.Errorf("%s: exit code %d, %s", shell, code, stderr.String())
		}
	}
}

func TestUnknownVariables(t *testing.T) {
	const anything = "PHOEBE_"
	for _, test := range []struct{ variable, nearest string }{
		{"PHOEBE_SLOTS=3", "PHOEBE_WORKER_SLOTS"},
		{"PHOEBE_WORKER_SLOT=3", "PHOEBE_WORKER_SLOTS"},
		{"PHOEBE_LISTEN=x", "PHOEBE_WORKER_LISTEN"},
		{"PHOEBE_SECRETS=x", "PHOEBE_SECRET"},
		{"PHOEBE_FILE_X=y", anything},
		{"PHOEBE_WORKER_SLOTS=3", ""},
		{"PHOEBE_RUN_PAYLOAD=of another command", ""},
		{"PHOEBE_SECRET=x", ""},
		{"OTHER_SLOTS=x", ""},
		{"PHOEBE_FILE_0=/of/a/task", ""},
		{"PHOEBE_SERVICE_HOST=10.0.0.1", ""},
		{"PHOEBE_FRONTEND_SERVICE_PORT_API=7410", ""},
		{"PHOEBE_PORT=tcp://10.0.0.1:7410", ""},
		{"PHOEBE_FRONTEND_PORT_7410_TCP_ADDR=10.0.0.1", ""},
	} {
		var c cli
		parser, err := newParser(&c, io.Discard, io.Discard)
		if err != nil {
			t.Fatal(err)
		}
		line, err := parser.Parse([]string{"worker"})
		if err != nil {
			t.Fatal(err)
		}
		err = checkEnvironment(parser.Model.Node, line.Selected(), []string{"PATH=/bin", test.variable})
		if test.nearest == "" {
			if err != nil {
				t.Errorf("%s: %v", test.variable, err)
			}
			continue
		}
		name, _, _ := strings.Cut(test.variable, "=")
		if err == nil || !strings.Contains(err.Error(), name+": the nearest is "+test.nearest) {
			t.Errorf("%s: %v, want %s", test.variable, err, test.nearest)
		}
	}
}

// clearVariables removes the variables that commands read, until the test ends: the tests themselves have some.
func clearVariables(t *testing.T) {
	t.Helper()
	for _, v := range os.Environ() {
		if name, value, _ := strings.Cut(v, "="); strings.HasPrefix(name, "PHOEBE_") {
			t.Setenv(name, value) // restores the variable at the end
			os.Unsetenv(name)
		}
	}
}
