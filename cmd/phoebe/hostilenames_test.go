package main_test

import (
	"strings"
	"testing"
	"unicode"
)

// Names of workers reach the terminal as text, with every command: no name moves the cursor or adds a line.
func TestHostileNames(t *testing.T) {
	t.Parallel()
	const name, label = "w\x1b]0;title\x07\u009b2J\nworker-9\u202e", "gpu=\x1b[31m"
	w := startPhoebe(t, "worker", "--listen", "127.0.0.1:0", "--name", name, "--labels", label).workerAddr()
	f := startPhoebe(t, "frontend", "--listen", "127.0.0.1:0", "--workers", w).awaitLines("frontend", 1)[0]
	awaitLinked(t, f, 1)
	run := func(code int, args ...string) output {
		t.Helper()
		s := runPhoebe(t, append(args, "--connect", f)...).wantExit(t, code)
		for _, r := range s.out + s.err {
			if r != '\n' && r != '\t' && !unicode.IsPrint(r) {
				t.Errorf("phoebe %q writes %q to the terminal: %q", args, r, s.out+s.err)
				break
			}
		}
		for line := range strings.Lines(s.out + s.err) {
			if strings.HasPrefix(line, "worker-9") {
				t.Errorf("phoebe %q lets a name add the line %q", args, line)
			}
		}
		return s
	}
	ran := run(0, "run", "--function", "echo", "--payload", "x", "--estimate", "2s")
	job := strings.TrimPrefix(strings.Split(ran.err, "\n")[0], "job ")
	for _, args := range [][]string{{"status"}, {"status", "--matrices"}, {"doctor"}, {"jobs"}, {"trace", job},
		{"explain", job}, {"top"}} {
		run(0, args...)
	}
	run(3, "run", "--function", "nowhere", "--hosts", name)
	for _, args := range [][]string{{"status", "--json"}, {"explain", job, "--json"}} {
		if s := run(0, args...); !strings.Contains(s.out, `w\u001b]0;title\u0007\u009b2J\nworker-9\u202e`) {
			t.Errorf("phoebe %q changed the name: %s", args, s.out)
		}
	}
	if s := run(1, "run", "--json", "--function", "fail", "--payload", "x"); !strings.Contains(s.out, `w\u001b]0;`) {
		t.Errorf("phoebe run --json changed the name: %s", s.out)
	}
}
