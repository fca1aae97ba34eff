package main_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/phoebe-sched/phoebe/bench"
	"github.com/phoebe-sched/phoebe/frontend/client"
)

// writeFile writes text into a new file in a folder of the test.
func writeFile(t testing.TB, text string) (name string) {
	t.Helper()
	name = filepath.Join(t.TempDir(), "file.yaml")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// outcome is a line of `phoebe run --json`.
type outcome struct {
	Task         int
	Outcome      string
	Result       *string
	ResultBase64 []byte `json:"result_base64"`
	ResultFile   string `json:"result_file"`
	Reason       string
	Error        string
	Worker       string
	Attempts     int
	RunMS        float64          `json:"run_ms"`
	Phases       map[string]int64 `json:"phases_us"`
	Usage        map[string]int64 `json:"usage"`
}

// outcomesByTask parses the printed outcomes. Each task must have at most one.
func (s output) outcomesByTask(t testing.TB) map[int]outcome {
	t.Helper()
	all := map[int]outcome{}
	for d := json.NewDecoder(strings.NewReader(s.out)); d.More(); {
		var o outcome
		d.DisallowUnknownFields()
		if err := d.Decode(&o); err != nil {
			t.Fatalf("%v in %q", err, s.out)
		}
		if _, twice := all[o.Task]; twice {
			t.Errorf("task %d has two outcomes", o.Task)
		}
		all[o.Task] = o
	}
	return all
}

func TestRun(t *testing.T) {
	t.Parallel()
	c := startDev(t, "--allow-exec")
	run := func(stdin string, args ...string) output {
		t.Helper()
		return runPhoebeIn(t, stdin, nil, append([]string{"run", "--connect", c.connect}, args...)...)
	}
	t.Run("text", func(t *testing.T) {
		s := run("", "--function", "echo", "--payload", "hello", "--tasks", "3").wantExit(t, 0,
			"3 of 3 tasks have results")
		if want := regexp.MustCompile(`^(\d\tresult\t[0-9.µms]+\tworker-\d\thello\n){3}$`); !want.MatchString(s.out) {
			t.Errorf("printed %q", s.out)
		}
		if want := regexp.MustCompile(`^job [0-9A-Z]{26}@127\.0\.0\.1:\d+\n`); !want.MatchString(s.err) {
			t.Errorf("stderr %q does not begin with the job's handle", s.err)
		}
		if strings.ContainsAny(s.err, "\r\x1b#") {
			t.Errorf("a progress bar without a terminal: %q", s.err)
		}
	})
	t.Run("json", func(t *testing.T) {
		all := run("", "--json", "--phases", "--function", "echo", "--payload", "héllo", "--tasks", "2").
			wantExit(t, 0).outcomesByTask(t)
		for i := range 2 {
			o := all[i]
			if o.Outcome != "result" || o.Result == nil || *o.Result != "héllo" || o.Attempts != 1 ||
				o.Worker == "" || o.Phases["delivered"] <= 0 {
				t.Errorf("task %d: %+v", i, o)
			}
		}
	})
	t.Run("binary", func(t *testing.T) {
		name := writeFile(t, "\xff\x00")
		o := run("", "--json", "--function", "echo", "--payload-file", name).wantExit(t, 0).outcomesByTask(t)[0]
		if string(o.ResultBase64) != "\xff\x00" {
			t.Errorf("result %q", o.ResultBase64)
		}
		run("", "--function", "echo", "--payload-file", name).wantExit(t, 0, `"\xff\x00"`)
		run("", "--function", "echo", "--payload", "a\xffb").wantExit(t, 0, `"a\xffb"`)
		run("", "--", "printf", "%s", "\xff").wantExit(t, 0, "\t\"\\xff\"\n")
		runPhoebeIn(t, "", []string{"PHOEBE_RUN_PAYLOAD=\xff"}, "run", "--function", "echo", "--connect", c.connect).
			wantExit(t, 0, "\t\"\\xff\"\n")
		runPhoebeIn(t, "", []string{"PHOEBE_RUN_TENANT=\xff"}, "run", "--function", "echo", "--connect", c.connect).
			wantExit(t, 2, `--tenant is "\xff"`, "not UTF-8")
	})
	t.Run("durations", func(t *testing.T) {
		for i, o := range run("", "--json", "--task-duration", "fixed:10ms", "--tasks", "4").wantExit(t,
			0).outcomesByTask(t) {
			if o.RunMS < 10 {
				t.Errorf("task %d ran %v ms", i, o.RunMS)
			}
		}
	})
	t.Run("command", func(t *testing.T) {
		run("", "--", "sh", "-c", "echo $((40+2))").wantExit(t, 0, "\t42\n")
		run("", "--", "sh", "-c", "echo oh >&2; exit 7").wantExit(t, 1, "exit status 7", "oh", "1 failed")
	})
	t.Run("file", func(t *testing.T) {
		yaml := `
tenant: tests
deadline: 30s
phases: true
tasks:
  - {function: echo, payload: a, count: 2}
  - function: echo
    payload-base64: Yg==
  - command: {argv: [sort, -n], stdin: "2\n1\n"}
    timeout: 20s
`
		json := "{\n\t\"tasks\": [\n\t\t{\"function\": \"echo\", \"payload\": \"a\", \"count\": 2},\n\t\t{\"function\": \"echo\", \"payload-base64\": \"Yg==\"},\n" +
			"\t\t{\"command\": {\"argv\": [\"sort\", \"-n\"], \"stdin\": \"2\\n1\\n\"}}\n\t]\n}\n"
		for name, text := range map[string]string{"yaml": yaml, "json": json} {
			for _, s := range []output{run("", "--json", "--job", writeFile(t, text)),
				run(text, "--json", "--job", "-")} {
				all := s.wantExit(t, 0).outcomesByTask(t)
				for i, want := range []string{"a", "a", "b", "1\n2\n"} {
					if o := all[i]; o.Result == nil || *o.Result != want {
						t.Errorf("%s, task %d: %+v, want %q", name, i, o, want)
					}
				}
			}
		}
	})
	t.Run("failed", func(t *testing.T) {
		run("", "--function", "fail", "--payload", "on purpose", "--retries", "2").wantExit(t, 1, "0\tfailed",
			"on purpose", "attempt 3")
		begin := time.Now()
		run("", "--function", "fail", "--payload", "x", "--retries", "2", "--backoff", "50ms").wantExit(t, 1,
			"attempt 3")
		run("tasks: [{function: fail, payload: x, retries: 1, backoff: 150ms}]", "--job", "-").wantExit(t, 1,
			"attempt 2")
		if took := time.Since(begin); took < 300*time.Millisecond {
			t.Errorf("tasks that rest for 50 ms, 100 ms and 150 ms fail for good after %v", took)
		}
		o := run("", "--json", "--function", "fail", "--payload", "on purpose").wantExit(t, 1).outcomesByTask(t)[0]
		if o.Outcome != "failed" || o.Error != "on purpose" || o.Reason != "task error" {
			t.Errorf("%+v", o)
		}
	})
	t.Run("deadline", func(t *testing.T) {
		s, deadline := runInTime(t, "deadline-exceeded", "run", "--connect", c.connect, "--function", "sleep",
			"--payload", "1m", "--deadline")
		s.wantExit(t, 4, "deadline-exceeded", deadline)
	})
	t.Run("timeout", func(t *testing.T) {
		run("", "--function", "sleep", "--payload", "1m", "--timeout", "50ms").wantExit(t, 1, "failed", "timeout",
			"50ms")
	})
	t.Run("environment", func(t *testing.T) {
		config := writeFile(t, "function: echo\npayload: from the file\ntasks: 2\nconnect: [\""+c.frontends[0]+"\"]\n")
		runPhoebeIn(t, "", []string{"PHOEBE_CONFIG=" + config}, "run").wantExit(t, 0, "2 of 2", "from the file")
		runPhoebeIn(t, "", []string{"PHOEBE_RUN_PAYLOAD=from the environment"}, "run", "--config", config).wantExit(t,
			0,
			"from the environment")
		runPhoebeIn(t, "", []string{"PHOEBE_RUN_PAYLOAD=from the environment"}, "run", "--config", config, "--payload",
			"from the flag").wantExit(t, 0, "from the flag")
	})
}

func TestRunRefused(t *testing.T) {
	t.Parallel()
	c := startDev(t, "--max-payload", "64KiB")
	big := writeFile(t, strings.Repeat("x", 64<<10+1))
	for _, test := range []struct {
		name string
		args []string
		code int
		says []string
	}{
		{"unknown function", []string{"--function", "ecko"}, 3, []string{`"ecko"`, "echo"}},
		{"impossible demand", []string{"--function", "echo", "--cpu", "2001"}, 3,
			[]string{"2001m", "2000m", "demand less"}},
		{"impossible memory", []string{"--function", "echo", "--memory", "100000"}, 3,
			[]string{"100000 MiB", "demand less"}},
		{"label", []string{"--function", "echo", "--labels", "gpu=yes"}, 3,
			[]string{"gpu=yes", "change the constraint"}},
		{"host", []string{"--function", "echo", "--hosts", "nowhere"}, 3, []string{"nowhere"}},
		{"payload", []string{"--function", "echo", "--payload-file", big}, 2, []string{"65537", "65536"}},
		{"processes", []string{"--", "true"}, 3, []string{`"exec"`}},
		{"policy", []string{"--function", "echo", "--policy", "best"}, 2, []string{`"best"`, "late-binding"}},
		{"probe ratio", []string{"--function", "echo", "--probe-ratio", "11"}, 2, []string{"11", "10"}},
		{"id", []string{"--function", "echo", "--id", "x"}, 2, []string{"ULID"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			runPhoebe(t, append([]string{"run", "--connect", c.connect}, test.args...)...).wantExit(t, test.code,
				test.says...)
		})
	}
}

// runInTime runs a command whose last flag is a short time, and returns the output and the time. A busy machine may
// need all of the time for the first answer of a frontend. If the output lacks the text, runInTime gives more time.
func runInTime(t *testing.T, text string, args ...string) (s output, given string) {
	t.Helper()
	for d := 50 * time.Millisecond; d < patience/2; d *= 2 {
		given = d.String()
		if s = runPhoebe(t, append(args, given)...); strings.Contains(s.out+s.err, text) {
			break
		}
	}
	return s, given
}

// If no worker can take a job, phoebe run says so.
func TestRunWithoutWorkers(t *testing.T) {
	t.Parallel()
	f := startPhoebe(t, "frontend", "--listen", "127.0.0.1:0", "--workers", "127.0.0.1:1")
	run := []string{"run", "--function", "echo", "--connect", f.awaitLines("frontend", 1)[0]}
	s, _ := runInTime(t, "no worker is linked", append(run, "--retry-for")...)
	s.wantExit(t, 3, "no worker is linked")
	s, deadline := runInTime(t, "no worker is linked", append(run, "--deadline")...)
	s.wantExit(t, 4, "no frontend took the job within "+deadline, "no worker is linked")

	c := startDev(t)
	runPhoebe(t, "run", "--connect", c.connect, "--", "true").wantExit(t, 3, "--allow-exec")
}

// Errors of a command line or a file are reported before the command connects.
func TestUsage(t *testing.T) {
	job := func(text string) []string { return []string{"run", "--job", writeFile(t, text)} }
	hugeFile := writeFile(t, "")
	if err := os.Truncate(hugeFile, 65<<20); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name string
		args []string
		code int
		says []string
	}{
		{"unknown command", []string{"rum"}, 2, []string{"rum", "run"}},
		{"unknown flag", []string{"run", "--functoin", "echo"}, 2,
			[]string{"--functoin", "--function", "phoebe run --help"}},
		{"value", []string{"dev", "--workers", "many"}, 2, []string{"--workers", "many"}},
		{"bytes of a flag", []string{"run", "--function", "echo", "--tenant", "a\xffb"}, 2,
			[]string{`--tenant is "a\xffb"`, "not UTF-8"}},
		{"bytes of a list", []string{"run", "--function", "echo", "--labels", "a,\xff"}, 2,
			[]string{"--labels is", "not UTF-8"}},
		{"choice", []string{"worker", "--order", "lifo"}, 2, []string{"--order", "lifo", "fifo", "shortest"}},
		{"size", []string{"worker", "--max-result", "1XB"}, 2, []string{"--max-result", "1XB", "64KiB"}},
		{"slots", []string{"worker", "--slots=-1"}, 2, []string{"--slots is -1"}},
		{"no workers", []string{"frontend"}, 2, []string{"--workers", "--workers-file"}},
		{"workers file", []string{"frontend", "--workers-file", "/nonexistent"}, 2, []string{"/nonexistent"}},
		{"workers twice", []string{"frontend", "--workers-file", "f", "--workers", "127.0.0.1:1"}, 2,
			[]string{"--workers"}},
		{"worker address", []string{"frontend", "--listen", "127.0.0.1:0", "--workers", "host"}, 2,
			[]string{`"host"`, "host:port"}},
		{"advertised address", []string{"frontend", "--listen", "127.0.0.1:0", "--workers", "127.0.0.1:1",
			"--advertise", "x"}, 2, []string{"--advertise", "host:port"}},
		{"dev", []string{"dev", "--lease=-1s"}, 2, []string{"lease", "-1s"}},
		{"dev of many", []string{"dev", "--workers", "20000"}, 2, []string{"20000"}},
		{"negative", []string{"run", "--function", "echo", "--deadline=-1s", "--retries=-2", "--backoff=-3s"}, 2,
			[]string{"--deadline is -1s", "--retries is -2", "--backoff is -3s"}},
		{"id", []string{"run", "--function", "echo", "--id", "x"}, 2, []string{"--id", "ULID"}},
		{"no simulated trace", []string{"sim", "--trace", "/nonexistent"}, 2, []string{"--trace", "/nonexistent"}},
		{"long jobs", []string{"sim", "--long-jobs", "2"}, 2, []string{"--long-jobs is 2"}},
		{"help", []string{"help", "rum"}, 2, []string{"rum"}},
		{"probe ratio", []string{"frontend", "--workers", "127.0.0.1:1", "--probe-ratio", "0.5"}, 2,
			[]string{"0.5", "from 1 to 10"}},
		{"frontend without secret", []string{"frontend", "--listen", "0.0.0.0:0", "--workers", "127.0.0.1:1"}, 2,
			[]string{"0.0.0.0:0", "secret"}},
		{"worker without secret", []string{"worker", "--listen", "0.0.0.0:0"}, 2, []string{"0.0.0.0:0", "secret"}},
		{"admin", []string{"worker", "--listen", "127.0.0.1:0", "--admin", "x"}, 2, []string{"--admin"}},
		{"secret file", []string{"status", "--secret-file", "/nonexistent"}, 2, []string{"/nonexistent"}},
		{"empty secret", []string{"status", "--secret-file", writeFile(t, " \n")}, 2, []string{"empty"}},
		{"nothing to run", []string{"run"}, 2, []string{"--function"}},
		{"two things to run", []string{"run", "--function", "echo", "--task-duration", "fixed:1ms"}, 2,
			[]string{"choose one"}},
		{"law", []string{"run", "--task-duration", "sometimes:1ms"}, 2, []string{"sometimes", "fixed"}},
		{"tasks", []string{"run", "--function", "echo", "--tasks=-3"}, 2, []string{"--tasks is -3"}},
		{"no tasks", []string{"run", "--function", "echo", "--tasks", "0"}, 2, []string{"--tasks is 0"}},
		{"address", []string{"run", "--function", "echo", "--connect", "nohost"}, 2, []string{"--connect", "nohost"}},
		{"no frontend", []string{"run", "--function", "echo", "--connect", "127.0.0.1:1", "--retry-for", "200ms"}, 3,
			[]string{"127.0.0.1:1", "refused"}},
		{"no status", []string{"status", "--connect", "127.0.0.1:1", "--retry-for", "200ms"}, 3,
			[]string{"127.0.0.1:1", "refused"}},
		{"handle", []string{"cancel", "xyz"}, 2, []string{`"xyz"`, "JOB@OWNER"}},
		{"explain handle", []string{"explain", "xyz"}, 2, []string{`"xyz"`, "JOB@OWNER"}},
		{"trace handle", []string{"trace", "xyz"}, 2, []string{`"xyz"`, "JOB@OWNER"}},
		{"jobs", []string{"jobs", "--most=-1"}, 2, []string{"--most"}},
		{"no jobs", []string{"jobs", "--connect", "127.0.0.1:1", "--retry-for", "200ms"}, 3,
			[]string{"127.0.0.1:1", "refused"}},
		{"top", []string{"top", "--every", "1ms"}, 2, []string{"--every is 1ms"}},
		{"no top", []string{"top", "--connect", "127.0.0.1:1", "--retry-for", "200ms"}, 3,
			[]string{"127.0.0.1:1", "refused"}},
		{"explain nothing", []string{"explain"}, 2, []string{"<job>", "phoebe explain --help"}},
		{"explain --json JOB", []string{"explain", "--json", "01ARZ3NDEKTSV4RRFFQ69G5FAV"}, 2,
			[]string{"<job>", `--json took "01ARZ3NDEKTSV4RRFFQ69G5FAV" as its file: write --json -`}},
		{"explain task", []string{"explain", "01ARZ3NDEKTSV4RRFFQ69G5FAV", "first"}, 2, []string{"first"}},
		{"file", []string{"run", "--function", "echo", "--file", "http://h/f"}, 2,
			[]string{"--file", "http://h/f", "sha256sum"}},
		{"matching", []string{"frontend", "--workers", "127.0.0.1:1", "--matching", "best"}, 2,
			[]string{"--matching", "best", "greedy"}},
		{"long task", []string{"frontend", "--workers", "127.0.0.1:1", "--long-task=-1s"}, 2,
			[]string{"-1s", "more than 0"}},
		{"rate", []string{"frontend", "--workers", "127.0.0.1:1", "--disk-rate", "fast"}, 2,
			[]string{"--disk-rate", "fast", "64KiB"}},
		{"job file's file", job("tasks:\n  - function: echo\n    files: [{url: x, sha: y}]\n"), 2,
			[]string{"[3:", `"sha"`}},
		{"shell", []string{"completion", "csh"}, 2, []string{"csh", "bash"}},

		{"job and files", append(job("tasks: [{function: echo}]"), "--file", "http://h/f#sha256=1"), 2,
			[]string{"--job"}},
		{"job and flags", append(job("tasks: [{function: echo}]"), "--tenant", "x"), 2, []string{"--job"}},
		{"no job file", []string{"run", "--job", "/nonexistent"}, 2, []string{"/nonexistent"}},
		{"job field", job("tasks:\n  - function: echo\n    paylod: x\n"), 2, []string{"[3:5]", `"paylod"`}},
		{"job type", job("tenant: t\npriority: high\ntasks: [{function: echo}]\n"), 2, []string{"[2:11]", "high"}},
		{"job duration", job("deadline: 5\ntasks: [{function: echo}]\n"), 2, []string{"[1:11]", "300ms"}},
		{"job number", job("tasks: [{function: echo, memory: x}]\n"), 2, []string{"[1:34]", "want a whole number"}},
		{"job syntax", job("tasks: [\n"), 2, []string{"[1:8]"}},
		{"job key twice", job("tenant: a\ntenant: b\n"), 2, []string{"[2:1]", `"tenant"`}},
		{"job without tasks", job("tenant: t\n"), 2, []string{"no tasks"}},
		{"job of many", job("tasks: [{function: echo, count: 100000000}]"), 2, []string{"tasks[0]", "100000000"}},
		{"task without function", job("tasks: [{function: echo}, {payload: x}]"), 2,
			[]string{"tasks[1]", "function is missing"}},
		{"task with both", job("tasks: [{function: echo, command: {argv: [a]}}]"), 2,
			[]string{"tasks[0]", "both function and command"}},
		{"task without argv", job("tasks: [{command: {argv: []}}]"), 2, []string{"tasks[0]", "argv"}},
		{"task base64", job("tasks: [{function: echo, payload-base64: '*'}]"), 2,
			[]string{"tasks[0]", "payload-base64"}},

		{"no config", []string{"dev", "--config", "/nonexistent"}, 2, []string{"/nonexistent"}},
		{"config too large", []string{"dev", "--config", hugeFile}, 2, []string{"more than 64 MiB"}},
		{"config key", []string{"dev", "--config", writeFile(t, "slots: 1\nworkerz: 3\n")}, 2,
			[]string{"file.yaml:2", `"workerz"`, `"workers"`}},
		{"config keys", []string{"dev", "--config", writeFile(t, "slotz: 1\nworkerz: 3\n")}, 2,
			[]string{`"slotz"`, `"workerz"`}},
		{"config syntax", []string{"dev", "--config", writeFile(t, "slots: [\n")}, 2,
			[]string{"file.yaml:1", "want one mapping"}},
		{"config list", []string{"dev", "--config", writeFile(t, "- slots\n")}, 2, []string{"want one mapping"}},
		{"config value", []string{"dev", "--config", writeFile(t, "workers: many\n")}, 2,
			[]string{"file.yaml:1", `"workers"`, "many", "whole number"}},
		{"config nested", []string{"dev", "--config", writeFile(t, "slots: [[1]]\n")}, 2,
			[]string{"file.yaml:1", "slots"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := runHere(t, test.args...).wantExit(t, test.code, test.says...)
			if s.out != "" && !strings.HasPrefix(s.out, "worker ") {
				t.Errorf("on stdout: %q", s.out)
			}
		})
	}
}

func TestStatus(t *testing.T) {
	t.Parallel()
	c := startDev(t)
	runPhoebe(t, "status", "--connect", c.connect).wantExit(t, 0, "frontend-0", c.frontends[1], "serving", "worker-2",
		c.workers[0], "2/2", "2000m")
	s := runPhoebe(t, "status", "--json", "--connect", c.connect).wantExit(t, 0)
	var all []struct {
		Frontend string
		Workers  []struct{ Name, State string }
	}
	if err := json.Unmarshal([]byte(s.out), &all); err != nil {
		t.Fatal(err)
	}
	if len(all) != 2 || len(all[1].Workers) != 3 || all[1].Workers[2].State != "up" {
		t.Errorf("%s", s.out)
	}
	runPhoebe(t, "status", "--connect", c.frontends[0]+",127.0.0.1:1").wantExit(t, 0, "unreachable", "2/2",
		"frontend 127.0.0.1:1: ")

	// No process listens at the worker's address.
	f := startPhoebe(t, "frontend", "--listen", "127.0.0.1:0", "--workers", "127.0.0.1:1", "--name", "lonely")
	addr := f.awaitLines("frontend", 1)[0]
	waitUntil(t, func() error {
		if s := runPhoebe(t, "status", "--connect", addr).wantExit(t, 0,
			"lonely", "0/1"); !strings.Contains(s.out, "refused") {
			return fmt.Errorf("no reason for the broken link: %s", s.out)
		}
		return nil
	})
}

func TestCancel(t *testing.T) {
	t.Parallel()
	c := startDev(t)
	for _, form := range []string{"handle", "job", "other frontend"} {
		t.Run(form, func(t *testing.T) {
			run := startPhoebe(t, "run", "--connect", c.connect, "--function", "sleep", "--payload", "10m", "--tasks",
				"3")
			var handle string
			waitUntil(t, func() error {
				if _, err := fmt.Sscanf(run.errs.String(), "job %s", &handle); err != nil {
					return err
				}
				return nil
			})
			connect := c.connect
			switch job, owner, _ := strings.Cut(handle, "@"); form {
			case "job":
				handle = job
			case "other frontend":
				connect = c.frontends[0]
				if owner == connect {
					connect = c.frontends[1]
				}
			}
			runPhoebe(t, "cancel", handle, "--connect", connect, "--reason", "tired of it").wantExit(t, 0,
				"3 tasks are cancelled")
			if code := run.awaitEnd(); code != 4 {
				t.Errorf("exit code %d, want 4", code)
			}
			for _, o := range []string{"0", "1", "2"} {
				if got := run.awaitLines(o, 1)[0]; !strings.HasPrefix(got, "cancelled") ||
					!strings.HasSuffix(got, "tired of it") {
					t.Errorf("task %s: %q", o, got)
				}
			}
		})
	}
	runPhoebe(t, "cancel", "01ARZ3NDEKTSV4RRFFQ69G5FAV", "--connect", c.connect).wantExit(t, 1,
		"01ARZ3NDEKTSV4RRFFQ69G5FAV",
		"unknown job")
}

func TestInterruptCancels(t *testing.T) {
	t.Parallel()
	c := startDev(t)
	for s, code := range map[syscall.Signal]int{syscall.SIGINT: 130, syscall.SIGTERM: 143, syscall.SIGHUP: 129} {
		run := startPhoebe(t, "run", "--connect", c.frontends[0], "--function", "sleep", "--payload", "10m")
		cl := newClient(t, c.frontends[0])
		running := func(want int) {
			waitUntil(t, func() error {
				said, err := cl.Cluster(t.Context())
				if err == nil && said.Jobs != want {
					err = fmt.Errorf("%d jobs, want %d", said.Jobs, want)
				}
				return err
			})
		}
		running(1)
		run.sendSignal(s)
		if got := run.awaitEnd(); got != code {
			t.Errorf("%v: exit code %d, want %d", s, got, code)
		}
		running(0)
	}
}

func TestSecret(t *testing.T) {
	t.Parallel()
	secret, wrong := "PHOEBE_SECRET=correct horse", "PHOEBE_SECRET=battery staple"
	file := writeFile(t, "correct horse\n")
	w := startPhoebeIn(t, []string{secret}, "worker", "--listen", "0.0.0.0:0", "--name", "guarded")
	_, port, _ := strings.Cut(w.awaitLines("worker", 1)[0], "]:")
	if port == "" {
		_, port, _ = strings.Cut(w.awaitLines("worker", 1)[0], ":")
	}
	f := startPhoebe(t, "frontend", "--listen", "0.0.0.0:0", "--workers", "127.0.0.1:"+port, "--secret-file", file)
	_, fport, _ := strings.Cut(f.awaitLines("frontend", 1)[0], "]:")
	if fport == "" {
		_, fport, _ = strings.Cut(f.awaitLines("frontend", 1)[0], ":")
	}
	addr := "127.0.0.1:" + fport
	waitUntil(t, func() error {
		if s := runPhoebeIn(t, "", []string{secret}, "status", "--connect", addr); !strings.Contains(s.out, "1/1") {
			return fmt.Errorf("%+v", s)
		}
		return nil
	})
	runPhoebe(t, "run", "--connect", addr, "--secret-file", file, "--function", "echo", "--payload", "x").wantExit(t, 0,
		"1 of 1")
	pipe := filepath.Join(t.TempDir(), "pipe") // as of a shell's <(pass show phoebe): there is one read
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	go func() { _ = os.WriteFile(pipe, []byte("correct horse\n"), 0o600) }()
	runPhoebe(t, "run", "--connect", addr, "--secret-file", pipe, "--function", "echo").wantExit(t, 0, "1 of 1")
	runPhoebe(t, "run", "--connect", addr, "--function", "echo").wantExit(t, 3, "unauthorized", "secret")
	runPhoebeIn(t, "", []string{wrong}, "run", "--connect", addr, "--function", "echo").wantExit(t, 3, "unauthorized",
		"secret")
	runPhoebeIn(t, "", []string{wrong}, "status", "--connect", addr).wantExit(t, 3, "unauthorized")

	spy := startPhoebeIn(t, []string{wrong}, "frontend", "--listen", "127.0.0.1:0", "--workers", "127.0.0.1:"+port)
	waitUntil(t, func() error {
		if s := runPhoebeIn(t, "", []string{wrong}, "status", "--connect",
			spy.awaitLines("frontend", 1)[0]); !strings.Contains(s.out, "rejected") {
			return fmt.Errorf("%+v", s)
		}
		return nil
	})
}

// The admin port refuses requests that a page of another site makes a browser send. For curl and monitors nothing
// changes.
func TestAdminIsNotForPages(t *testing.T) {
	t.Parallel()
	for name, p := range map[string]*process{
		"worker": startPhoebe(t, "--log-level", "info", "worker", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"),
		"frontend": startPhoebe(t, "--log-level", "info", "frontend", "--listen", "127.0.0.1:0", "--workers",
			"127.0.0.1:1",
			"--admin", "localhost:0"),
	} {
		at := adminAddr(t, p)
		_, port, _ := net.SplitHostPort(at)
		// the request is accepted, and in itself invalid
		maintenance := map[string]int{"worker": http.StatusBadRequest, "frontend": http.StatusNotFound}[name]
		for _, c := range []struct {
			method, path, host string
			header             []string
			want               int
		}{
			{"POST", "/maintenance?in=1h", at, nil, maintenance},
			{"POST", "/maintenance?in=1h", "localhost:" + port, nil, maintenance},
			{"POST", "/maintenance?in=1h", at, []string{"Origin", "http://" + at}, maintenance},
			{"POST", "/maintenance?in=1h", at, []string{"Origin", "http://evil.example"}, 403},
			{"POST", "/maintenance?in=1h", at, []string{"Sec-Fetch-Site", "cross-site"}, 403},
			{"POST", "/maintenance?in=1h", at, []string{"Origin", "null"}, 403},
			{"POST", "/maintenance?in=1h", "evil.example:" + port, nil, 421},
			{"POST", "/maintenance?in=1h", "127.0.0.1.evil.example", []string{"Sec-Fetch-Site", "same-origin"}, 421},
			{"GET", "/debug/pprof/cmdline", at, nil, 200},
			{"GET", "/debug/pprof/cmdline", at, []string{"Sec-Fetch-Site", "none"}, 200},
			{"GET", "/debug/pprof/cmdline", at, []string{"Sec-Fetch-Site", "cross-site"}, 403},
			{"GET", "/debug/pprof/cmdline", "evil.example", nil, 421},
			{"GET", "/metrics", "[::1]:" + port, nil, 200},
			{"GET", "/metrics", at, []string{"Sec-Fetch-Site", "cross-site"}, 200},
			{"GET", "/metrics", "evil.example", nil, 421},
		} {
			req, err := http.NewRequest(c.method, "http://"+at+c.path, nil)
			if err != nil {
				t.Fatal(err)
			}
			req.Host = c.host
			if len(c.header) > 0 {
				req.Header.Set(c.header[0], c.header[1])
			}
			res, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			text, _ := io.ReadAll(res.Body)
			res.Body.Close()
			if res.StatusCode != c.want {
				t.Errorf("%s: %s %s at %s with %v: %d, want %d: %s", name, c.method, c.path, c.host, c.header,
					res.StatusCode, c.want, text)
			}
		}
	}
}

func TestAdmin(t *testing.T) {
	t.Parallel()
	get := func(url string) (int, string, error) {
		res, err := http.Get(url)
		if err != nil {
			return 0, "", err
		}
		defer res.Body.Close()
		body, err := io.ReadAll(res.Body)
		return res.StatusCode, string(body), err
	}
	admin := func(p *process) string {
		t.Helper()
		url := adminURL(t, p)
		if !strings.HasPrefix(url, "http://127.0.0.1:") {
			t.Errorf("the admin port is not on loopback: %s", url)
		}
		return url
	}
	c := startDev(t, "--admin", ":0", "--log-level", "info")
	url := admin(c.process)
	runPhoebe(t, "run", "--connect", c.connect, "--function", "echo").wantExit(t, 0)
	for path, want := range map[string]string{
		"/livez": "ok", "/readyz": "ok", "/debug/pprof/": "goroutine", "/debug/pprof/cmdline": "dev",
		"/metrics": `phoebe_frontend_tasks_total{outcome="result"} 1`,
	} {
		if code, body, err := get(url + path); err != nil || code != 200 || !strings.Contains(body, want) {
			t.Errorf("%s: %d %v, want %q in %s", path, code, err, want, body)
		}
	}
	if _, body, _ := get(url + "/metrics"); !strings.Contains(body, "phoebe_worker_tasks_total") ||
		!strings.Contains(body, "process_resident_memory_bytes") {
		t.Errorf("metrics of the worker or the process are missing:\n%s", body)
	}

	f := startPhoebe(t, "frontend", "--listen", "127.0.0.1:0", "--workers", "127.0.0.1:1", "--admin", "127.0.0.1:0",
		"--log-level", "info")
	url = admin(f)
	if code, body, err := get(url + "/readyz"); err != nil || code != 503 || !strings.Contains(body, "no worker") {
		t.Errorf("a frontend without workers: %d %q %v", code, body, err)
	}
	if code, _, err := get(url + "/livez"); err != nil || code != 200 {
		t.Errorf("livez: %d %v", code, err)
	}

	// While a process drains, /readyz answers 404. An unhealthy process answers 503.
	drains := startFleet(t, 1, 1, nil, []string{"--admin", "127.0.0.1:0", "--log-level", "info"})
	starts := filepath.Join(t.TempDir(), "starts")
	if _, err := newClient(t, drains.frontendAddrs...).Submit(t.Context(),
		client.Job{Tasks: []client.Task{scriptTask(t, starts, "sleep 1h")}}); err != nil {
		t.Fatal(err)
	}
	awaitStarted(t, starts)
	url = admin(drains.workers[0])
	drains.workers[0].sendSignal(syscall.SIGTERM)
	waitUntil(t, func() error {
		if code, body, err := get(url + "/readyz"); err != nil || code != 404 {
			return fmt.Errorf("%d %q %v", code, body, err)
		}
		return nil
	})

	// Before a frontend drains, /readyz says draining, but jobs are still accepted. A second signal ends the delay.
	delays := startFleet(t, 1, 1, []string{"--admin", "127.0.0.1:0", "--log-level", "info", "--drain-delay", "1h"}, nil)
	url = admin(delays.frontends[0])
	delays.frontends[0].sendSignal(syscall.SIGTERM)
	waitUntil(t, func() error {
		if code, body, err := get(url + "/readyz"); err != nil || code != 404 {
			return fmt.Errorf("%d %q %v", code, body, err)
		}
		return nil
	})
	runPhoebe(t, "run", "--connect", delays.frontendAddrs[0], "--function", "echo", "--payload", "hello").wantExit(t, 0,
		"hello")
	delays.frontends[0].sendSignal(syscall.SIGTERM)
	if code := delays.frontends[0].awaitEnd(); code != 143 {
		t.Errorf("exit code %d at the second signal", code)
	}
}

func TestVersionHelpAndCompletion(t *testing.T) {
	t.Parallel()
	runPhoebe(t, "version").wantExit(t, 0, "phoebe ", "go1.")
	if a, b := runPhoebe(t, "version"), runPhoebe(t, "--version").wantExit(t, 0); a.out != b.out {
		t.Errorf("%q and %q", a.out, b.out)
	}
	runPhoebe(t).wantExit(t, 0, "Usage: phoebe", "Exit codes")
	runPhoebe(t, "help").wantExit(t, 0, "Usage: phoebe", "Exit codes")
	runPhoebe(t, "help", "sim", "faults").wantExit(t, 0, "Usage: phoebe sim faults")
	runPhoebe(t, "run", "--help").wantExit(t, 0, "pareto:ALPHA,D", "lognormal:SIGMA,D")
	for _, c := range []string{"dev", "frontend", "worker", "run", "status", "cancel", "bench", "version",
		"completion"} {
		s := runPhoebe(t, c, "--help").wantExit(t, 0, "Usage: phoebe "+c)
		if strings.Contains(s.out, ",...,...") {
			t.Errorf("phoebe %s --help repeats the dots of a list", c)
		}
		// The help of each flag has a default and a variable. The help is wrapped, so join its lines first.
		_, flags, _ := strings.Cut(s.out, "Flags:")
		text := strings.Join(strings.Fields(flags), " ")
		for _, flag := range regexp.MustCompile(` --[a-z].*?\(\$PHOEBE_[A-Z_]+\)`).FindAllString(text, -1) {
			if !strings.Contains(flag, "efault") {
				t.Errorf("phoebe %s: no default: %s", c, flag)
			}
		}
	}
	for _, shell := range []string{"bash", "zsh", "fish"} {
		s := runPhoebe(t, "completion", shell).wantExit(t, 0, "phoebe", "frontend", "probe-ratio")
		if shell != "bash" {
			continue
		}
		complete := func(words ...string) string {
			script := s.out + "\nCOMP_WORDS=(" + strings.Join(words, " ") +
				"); COMP_CWORD=$((${#COMP_WORDS[@]}-1)); _phoebe; echo ${COMPREPLY[@]}"
			out, err := exec.Command("bash", "-c", script).CombinedOutput()
			if err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			return strings.TrimSpace(string(out))
		}
		for _, test := range []struct{ line, want string }{
			{"phoebe st", "status"}, {"phoebe dev --slot", "--slots"}, {"phoebe worker --order sh", "shortest"},
			{"phoebe completion z", "zsh"},
		} {
			if got := complete(strings.Fields(test.line)...); got != test.want {
				t.Errorf("%q completes to %q, want %q", test.line, got, test.want)
			}
		}
	}
}

func TestDev(t *testing.T) {
	t.Parallel()
	c := startDev(t)
	// If a port is taken, the second process says so.
	runPhoebe(t, "frontend", "--listen", c.frontends[0], "--workers", c.workers[0]).wantExit(t, 1, c.frontends[0],
		"address already in use")
	runPhoebe(t, "worker", "--listen", c.workers[0]).wantExit(t, 1, c.workers[0], "address already in use")
	_, port, _ := strings.Cut(c.frontends[1], ":")
	runPhoebe(t, "dev", "--frontends", "1", "--frontend-port", port).wantExit(t, 1, c.frontends[1],
		"address already in use")
	c.sendSignal(syscall.SIGTERM)
	if code := c.awaitEnd(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	if text := c.errs.String(); text != "" {
		t.Errorf("said on stderr: %s", text)
	}
}

// phoebe dev serves at the default port of --connect, unless the port is taken. The printed job can be run as
// printed.
func TestDevDefaultPort(t *testing.T) {
	const first = "127.0.0.1:7410"
	free := func() bool {
		for _, addr := range []string{first, "127.0.0.1:7411"} {
			l, err := net.Listen("tcp", addr)
			if err != nil {
				return false
			}
			l.Close()
		}
		return true
	}
	try := func() *process {
		p := startPhoebe(t, "dev", "--workers", "1")
		p.awaitLines("ready", 1)
		line := strings.Fields(p.awaitLines(binary, 1)[0])
		if at := p.awaitLines("frontend", 2)[0]; line[2] != at {
			t.Errorf("%q is to be tried, but the frontend is at %s", line, at)
		}
		runPhoebe(t, line...).wantExit(t, 0, "hello")
		return p
	}
	wasFree := free()
	p := try()
	at := p.awaitLines("frontend", 2)[0]
	if wasFree && at != first {
		t.Logf("somebody took %s meanwhile", first)
	}
	if at == first {
		if runPhoebe(t, "run", "--function", "echo", "--payload", "without --connect").
			wantExit(t, 0, "without"); try().awaitLines("frontend", 2)[0] == first {
			t.Errorf("two on %s", first)
		}
	} else if free() && try().awaitLines("frontend", 2)[0] != first {
		t.Errorf("%s is free, and not taken", first)
	}
}

func TestWorkersFile(t *testing.T) {
	t.Parallel()
	c := startDev(t)
	name := writeFile(t, "# the first\n"+c.workers[0]+"\n")
	f := startPhoebe(t, "frontend", "--listen", "127.0.0.1:0", "--workers-file", name)
	addr := f.awaitLines("frontend", 1)[0]
	awaitLinked(t, addr, 1)
	if err := os.WriteFile(name, []byte(strings.Join(c.workers, "\n")), 0o600); err != nil {
		t.Fatal(err)
	}
	awaitLinked(t, addr, 3)
}

func TestBench(t *testing.T) {
	dir := t.TempDir()
	jsonFile, htmlFile := filepath.Join(dir, "b.json"), filepath.Join(dir, "b.html")
	runPhoebe(t, "bench", "--frontends", "1", "--workers", "2", "--slots", "2", "--load", "0.3", "--policy",
		"phoebe-sticky,random", "--task-duration", "fixed:5ms",
		"--tasks-per-job", "2", "--warmup", "100ms", "--for", "500ms", "--simulate", "--json", jsonFile, "--html",
		htmlFile).
		wantExit(t, 0, "phoebe-sticky ", "random ", "omniscient", "simulated", "ideal", "load 0.3", "4 slots")
	read := func() (doc struct {
		Meta struct{ Command string }
		Runs []struct {
			Policy       string
			Jobs, Errors int
			Simulated    struct {
				Jobs       int
				DelayUS    float64               `json:"delay_us"`
				ResponseMS struct{ P50 float64 } `json:"response_ms"`
			}
		}
		Noop *struct {
			TasksPerS1 float64 `json:"tasks_per_s_1"`
		}
	}) {
		t.Helper()
		text, err := os.ReadFile(jsonFile)
		if err == nil {
			err = json.Unmarshal(text, &doc)
		}
		if err != nil {
			t.Fatal(err)
		}
		return doc
	}
	if doc := read(); len(doc.Runs) != 2 || doc.Runs[1].Policy != "random" || doc.Runs[0].Jobs == 0 ||
		!strings.HasPrefix(doc.Meta.Command, "phoebe bench --frontends 1") {
		t.Errorf("%+v", doc)
	}
	for _, r := range read().Runs {
		if s := r.Simulated; s.Jobs != r.Jobs+r.Errors || s.DelayUS <= 0 || s.ResponseMS.P50 < 5 {
			t.Errorf("%s: simulated %+v of %d jobs", r.Policy, s, r.Jobs+r.Errors)
		}
	}
	if html, err := os.ReadFile(htmlFile); err != nil || !strings.Contains(string(html), "<svg") {
		t.Errorf("%v in %.100s", err, html)
	}
	c := startDev(t)
	runPhoebe(t, "bench", "noop", "--connect", c.connect, "--repeat", "2", "--warmup", "10ms", "--for", "100ms",
		"--json", jsonFile).
		wantExit(t, 0, "round trip", "floor", "tasks/s", "running", "medians of 2 repeats", "policy phoebe")
	runPhoebe(t, "bench", "compare", jsonFile, jsonFile).
		wantExit(t, 0, "no-op, running: medians of 2 and 2 repeats", "round trip p50, us", "1.000",
			"--repeat 4 or more")
	runPhoebe(t, "bench", "compare", jsonFile).wantExit(t, 2, "1 files: name the earlier and the later file")
	runPhoebe(t, "bench", "compare", jsonFile, htmlFile).wantExit(t, 2, htmlFile, "give a file of phoebe bench --json")
	runPhoebe(t, "bench", "compare", "--repeat", "3", jsonFile, jsonFile).wantExit(t, 2, "--repeat has no meaning")
	runPhoebe(t, "bench", "noop", jsonFile).wantExit(t, 2, "only phoebe bench compare takes files")
	if doc := read(); doc.Noop == nil || doc.Noop.TasksPerS1 <= 0 {
		t.Errorf("%+v", doc)
	}
	trace := writeFile(t, "trace,job,submit_ms,input_bytes,shuffle_bytes,output_bytes,input_path\nx,1,0,1,0,1,a\n")
	replay := func(args ...string) []string {
		return append([]string{"--trace", trace, "--trace-name", "x", "--from", "0s"}, args...)
	}
	for _, test := range []struct {
		args []string
		code int
		says string
	}{
		{replay("--for", "3s"), 2, "--for has no meaning for --trace: --span"},
		{replay("--task-duration", "fixed:10ms"), 2, "--task-duration has no meaning for --trace"},
		{replay("--tasks-per-job", "3"), 2, "--tasks-per-job has no meaning for --trace"},
		{replay("--seed", "3"), 2, "--seed has no meaning for --trace"},
		{replay("--warmup", "60s", "--load", "0"), 2, "a warm-up of 1m0s leaves nothing"},
		{[]string{"--speedup", "3"}, 2, "--speedup has no meaning without --trace"},
		{[]string{"noop", "--policy", "phoebe,random"}, 2, "noop measures one policy"},
		{[]string{"--help"}, 0, "input_path."},
		{[]string{"--load", "1e9"}, 2, "a load of 1e+09"},
		{[]string{"--connect", "127.0.0.1:1"}, 3, "Does a frontend run there?"},
		{[]string{"--against", "127.0.0.1:1,127.0.0.1:2"}, 3, "refused"},
		{[]string{"noop", "--connect", "127.0.0.1:1"}, 3, "refused"},
		{[]string{"--json", jsonFile, "--html", filepath.Dir(jsonFile) + "/./b.json"}, 2, "--json and --html"},
		{[]string{"noop", "--load", "0.5"}, 2, "--load"},
		{[]string{"nope"}, 2, "nope"},
		{[]string{"--policy", "best"}, 2, `"best"`},
		{[]string{"--task-duration", "fixed:0s"}, 2, "--task-duration"},
		{[]string{"--probe-ratio", "0"}, 2, "probe ratio"},
		{[]string{"--trace", "/nonexistent"}, 2, "/nonexistent"},
		{[]string{"--load", "0"}, 2, "load 0"},
		{[]string{"--tasks-per-job", "0"}, 2, "tasks per job"},
		{[]string{"--slots", "20000", "--load", "0.001"}, 2, "20000"},
		{[]string{"--connect", "x"}, 2, "--connect"},
		{[]string{"--json", "/nonexistent/b.json"}, 2, "/nonexistent/b.json"},
		{[]string{"--workers", "0"}, 2, "--workers"},
		{[]string{"--repeat", "0"}, 2, "0 repeats"},
		{[]string{"--no-embedded"}, 2, "nothing to measure"},
		{[]string{"--processes", "--connect", "localhost:1"}, 2, "--processes"},
		{[]string{"--simulate", "--connect", "localhost:1"}, 2, "--simulate"},
		{[]string{"--against", "localhost:1"}, 2, "two fleets"},
		{[]string{"--against", "localhost:1,localhost"}, 2, "host:port"},
		{[]string{"--against", "localhost:1,localhost:2", "--connect", "localhost:3"}, 2, "--connect"},
		{[]string{"noop", "--against", "localhost:1,localhost:2"}, 2, "--against"},
	} {
		runHere(t, append([]string{"bench"}, test.args...)...).wantExit(t, test.code, test.says)
	}
}

// Two fleets of frontends on the same workers get the same jobs in turns. With different workers, the comparison is
// refused.
func TestBenchAgainst(t *testing.T) {
	var workers []string
	for range 2 {
		workers = append(workers, startPhoebe(t, "worker", "--listen", "127.0.0.1:0", "--slots", "4").workerAddr())
	}
	var apis []string
	for _, workerList := range []string{strings.Join(workers, ","), strings.Join(workers, ","), strings.Join(workers, ","),
		workers[0]} {
		apis = append(apis, startPhoebe(t, "frontend", "--listen", "127.0.0.1:0", "--workers",
			workerList).awaitLines("frontend", 1)[0])
		awaitLinked(t, apis[len(apis)-1], 1+strings.Count(workerList, ","))
	}
	jsonFile, htmlFile := filepath.Join(t.TempDir(), "b.json"), filepath.Join(t.TempDir(), "b.html")
	args := []string{"bench", "--load", "0.4", "--task-duration", "task-exp:5ms", "--tasks-per-job", "2", "--warmup",
		"100ms", "--for", "2s"}
	runPhoebe(t, append(args, "--against", apis[0]+"+"+apis[1]+","+apis[2], "--json", jsonFile, "--html", htmlFile)...).
		wantExit(t, 0, "A: frontends at "+apis[0]+", "+apis[1], "B: frontends at "+apis[2], "pair by pair",
			"phoebe, A ",
			"phoebe, B ", "load 0.4", "8 slots")
	text, err := os.ReadFile(jsonFile)
	var doc bench.Document
	if err == nil {
		err = json.Unmarshal(text, &doc)
	}
	if err != nil {
		t.Fatal(err)
	}
	if len(doc.Runs) != 2 || len(doc.Comparisons) != 1 {
		t.Fatalf("%s", text)
	}
	a, b, c := doc.Runs[0], doc.Runs[1], doc.Comparisons[0]
	if a.Errors+b.Errors > 0 || a.Jobs-b.Jobs > 1 || b.Jobs-a.Jobs > 1 || c.Pairs < min(a.Jobs, b.Jobs)-1 ||
		c.Pairs == 0 {
		t.Errorf("%d and %d jobs, %d and %d errors, %d pairs", a.Jobs, b.Jobs, a.Errors, b.Errors, c.Pairs)
	}
	for _, r := range []bench.Ratio{c.Pair, c.P50, c.P99} {
		if !(0 < r.Low && r.Low <= r.Ratio && r.Ratio <= r.High) {
			t.Errorf("%+v", r)
		}
	}
	if html, err := os.ReadFile(htmlFile); err != nil || !strings.Contains(string(html), "Two fleets") {
		t.Errorf("%v in %.100s", err, html)
	}
	runPhoebe(t, append(args, "--against", apis[0]+","+apis[3])...).wantExit(t, 1, "they must be the same")
}

// A Thrift client in Python, which knows only the schema, runs a job.
func TestPython(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(file, []byte("sesame\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, addr := range startDev(t, "--secret-file", file).frontends {
		runPython(t, addr, "sesame")
	}
}

// The client in Python runs a job with a tenant's token in place of the secret.
func TestPythonToken(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	name, hash := makeToken(t, dir, "token")
	file := &tenantsFile{t: t, name: filepath.Join(dir, "tenants.yaml")}
	file.writeTenants("  python: {token-hashes: [" + hash + "]}\n")
	secret := filepath.Join(dir, "secret")
	if err := os.WriteFile(secret, []byte("sesame"), 0o600); err != nil {
		t.Fatal(err)
	}
	f := awaitGossiper(startPhoebe(t, append(gossipFlags, "--secret-file", secret, "--tenants", file.name)...))
	startPhoebe(t, "worker", "--listen", "127.0.0.1:0", "--secret-file", secret, "--join", f.heartbeat)
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	runPhoebe(t, "run", "--connect", f.api, "--token-file", name, "--function", "echo", "--retry-for",
		patience.String()).wantExit(t, 0) // the worker announces itself meanwhile
	runPython(t, f.api, strings.TrimSpace(string(text)))
}

// runPython runs the client in Python with a secret or a token.
func runPython(t *testing.T, addr, sharedSecret string) {
	t.Helper()
	path := os.Getenv("PHOEBE_PYTHON_PATH")
	if path == "" {
		t.Skip("PHOEBE_PYTHON_PATH, the folder of the Python client's packages, is not set: make python installs them")
	}
	cmd := exec.CommandContext(t.Context(), "python3", filepath.Join("..", "..", "frontend", "client", "testdata",
		"python", "run_job.py"), addr)
	cmd.Env = append(os.Environ(), "PYTHONPATH="+path, "PYTHONDONTWRITEBYTECODE=1", "PHOEBE_SECRET="+sharedSecret)
	if out, err := cmd.CombinedOutput(); err != nil || !strings.HasPrefix(string(out), "ok") {
		t.Errorf("%v: %s", err, out)
	}
}

// Services set the limit before they are ready.
func TestServicesLimitMemory(t *testing.T) {
	for _, command := range []string{
		"worker --listen 127.0.0.1:0",
		"frontend --listen 127.0.0.1:0 --workers 127.0.0.1:1",
		"dev --frontends 1 --workers 1 --frontend-port 0 --slots 1",
	} {
		p := startPhoebeIn(t, []string{"GOMEMLIMIT=123MiB"}, strings.Fields("--log-level info "+command)...)
		p.awaitLog("bytes=128974848 from=GOMEMLIMIT")
	}
}
