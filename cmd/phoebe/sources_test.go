package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// An error about a value names the variable or the line that gives the value, whoever finds the error.
func TestSources(t *testing.T) {
	clearSettings(t)
	file := filepath.Join(t.TempDir(), "worker.yaml")
	if err := os.WriteFile(file, []byte("listen: 127.0.0.1:0\nslots: 200000\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, variable, value string
		args                  []string
		want                  string // "": no line about a source
	}{
		{"a variable that the parser refuses", "PHOEBE_WORKER_SLOTS", "many", nil, "PHOEBE_WORKER_SLOTS"},
		{"a variable out of range", "PHOEBE_WORKER_SLOTS", "200000", nil, "--slots comes from $PHOEBE_WORKER_SLOTS."},
		{"a variable out of a list", "PHOEBE_WORKER_ORDER", "random", nil, "--order comes from $PHOEBE_WORKER_ORDER."},
		{"a variable that is not UTF-8", "PHOEBE_WORKER_NAME", "\xff", nil, "--name comes from $PHOEBE_WORKER_NAME."},
		{"a line of the file", "", "", []string{"--config", file}, "--slots comes from " + file + ":2."},
		{"a flag", "", "", []string{"--slots", "200000"}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.variable != "" {
				t.Setenv(c.variable, c.value)
			}
			var out, errs strings.Builder
			code := runCommand(append([]string{"worker"}, c.args...), &out, &errs)
			if code != exitUsage || !strings.Contains(errs.String(), c.want) ||
				strings.Contains(c.want, "comes from") != strings.Contains(errs.String(), "comes from") {
				t.Errorf("exit code %d, %s", code, errs.String())
			}
		})
	}
}

// A variable that overrides another value of the file is told. A variable with the same value is not.
func TestOverrideIsReported(t *testing.T) {
	clearSettings(t)
	file := filepath.Join(t.TempDir(), "jobs.yaml")
	if err := os.WriteFile(file, []byte("most: 7\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for value, want := range map[string]string{
		"7": "", "8": "phoebe: warning: $PHOEBE_JOBS_MOST overrides the setting \"most\" at " + file + ":1.\n",
	} {
		t.Setenv("PHOEBE_JOBS_MOST", value)
		t.Setenv("PHOEBE_CONNECT", "")
		var out, errs strings.Builder
		runCommand([]string{"jobs", "--config", file}, &out, &errs)
		text := errs.String()
		if got := strings.Contains(text, "overrides"); got != (want != "") || !strings.Contains(text, want) {
			t.Errorf("most %s: %s", value, text)
		}
	}
}
