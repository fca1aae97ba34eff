package main_test

import (
	"encoding/json"
	"errors"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	phoebe "github.com/phoebe-sched/phoebe/cmd/phoebe"
	"github.com/phoebe-sched/phoebe/frontend/client"
)

// decodeValues returns the names in the first of several JSON values, and the number of values. It fails the test if
// text is not JSON.
func decodeValues(t *testing.T, text string) (names []string, values int) {
	t.Helper()
	for d := json.NewDecoder(strings.NewReader(text)); ; values++ {
		var v any
		if err := d.Decode(&v); errors.Is(err, io.EOF) {
			return names, values
		} else if err != nil {
			t.Fatalf("%v in %q", err, text)
		}
		if list, ok := v.([]any); ok && len(list) > 0 {
			v = list[0]
		}
		if object, ok := v.(map[string]any); ok && values == 0 {
			names = slices.Sorted(maps.Keys(object))
		}
	}
}

// Each command with --json writes text to stdout and JSON to the file. With - the JSON goes to stdout in place of the
// text. A command without a row in this table fails the test.
func TestJSON(t *testing.T) {
	c := startDev(t)
	_, err := newClient(t, c.frontends...).Submit(t.Context(), client.Job{Tenant: "web",
		Tasks: []client.Task{{Function: "sleep", Payload: []byte("1h")}}})
	if err != nil {
		t.Fatal(err)
	}
	ran := runHere(t, "run", "--connect", c.connect, "--function", "echo", "--payload", "hello").wantExit(t, 0)
	job := strings.TrimPrefix(strings.SplitN(ran.err, "\n", 2)[0], "job ")
	connect := []string{"--connect", c.connect}
	rows := map[string][]string{
		"phoebe run":        append(connect, "--function", "echo", "--payload", "hello", "--tasks", "2"),
		"phoebe status":     connect,
		"phoebe doctor":     append(connect, "--connect", "127.0.0.1:1"), // for a finding
		"phoebe explain":    append(connect, job),
		"phoebe trace":      append(connect, job),
		"phoebe jobs":       connect,
		"phoebe tenants":    connect,
		"phoebe bench":      append(connect, "noop", "--repeat", "1", "--warmup", "1ms", "--for", "10ms"),
		"phoebe sim run":    {"--workers", "4", "--frontends", "1", "--jobs", "20"},
		"phoebe sim figure": {"additions-1ms", "--jobs", "5", "--seeds", "1"},
		"phoebe sim grid":   {"--tasks", "1ms", "--policy", "phoebe", "--price", "200ns", "--jobs", "0.001"},
	}
	for _, command := range phoebe.CommandsWithFlag("json") {
		args, known := rows[command]
		if delete(rows, command); !known {
			t.Errorf("%s has --json: add a row to this test", command)
			continue
		}
		t.Run(command, func(t *testing.T) {
			run := func(more ...string) output {
				t.Helper()
				return runHere(t, slices.Concat(strings.Fields(command)[1:], args, more)...)
			}
			name := filepath.Join(t.TempDir(), "r.json")
			inFile := run("--json", name)
			text, err := os.ReadFile(name)
			if err != nil {
				t.Fatalf("%v: %+v", err, inFile)
			}
			names, values := decodeValues(t, string(text))
			if len(names) == 0 || inFile.out == "" || json.Valid([]byte(inFile.out)) {
				t.Errorf("stdout: %s\nfile: %s", inFile.out, text)
			}
			for _, flags := range [][]string{{"--json", "-"}, {"--json"}} {
				s := run(flags...)
				gotNames, got := decodeValues(t, s.out)
				if s.code != inFile.code || !slices.Equal(gotNames, names) || got < min(values, 2) {
					t.Errorf("%q: exit code %d, %d values with %q; in a file: %d, %d values with %q", flags, s.code, got,
						gotNames, inFile.code, values, names)
				}
			}
			for _, wrong := range []string{filepath.Dir(name), "/nonexistent/r.json"} {
				if s := run("--json", wrong).wantExit(t, 2, "--json: ", wrong, "name a file in a folder"); s.out != "" {
					t.Errorf("stdout: %s", s.out)
				}
			}
			// a value of the flag in earlier versions
			run("--json=true").wantExit(t, 2, "write - for standard output")
		})
	}
	t.Run("values of earlier versions", func(t *testing.T) {
		for _, value := range []string{"true", "false", "1", "0", "yes", "no", "TRUE", "No"} {
			runHere(t, "status", "--json="+value).wantExit(t, 2, "write - for standard output")
		}
	})
	t.Run("outcomes of a failed job", func(t *testing.T) {
		name := writeFile(t, "old")
		run := func(code int, function string) string {
			t.Helper()
			runHere(t, "run", "--connect", c.connect, "--json", name, "--function", function, "--payload", "x").
				wantExit(t, code)
			text, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			return string(text)
		}
		if text := run(3, "nowhere"); text != "old" {
			t.Errorf("a refused job wrote %q", text)
		}
		if text := run(1, "fail"); !strings.Contains(text, `"outcome":"failed"`) {
			t.Errorf("%q", text)
		}
	})
	for command := range rows {
		t.Errorf("%s has no --json", command)
	}
}
