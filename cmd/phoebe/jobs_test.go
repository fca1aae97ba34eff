package main_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/phoebe-sched/phoebe/frontend/client"
)

// Any frontend lists and traces all jobs. Names of tenants are escaped before they reach a terminal or a file.
func TestJobsAndTrace(t *testing.T) {
	t.Parallel()
	c := startDev(t)
	hostile := "t\x1b[31m\"\n</script>"
	cl := newClient(t, c.frontends[0])
	if _, err := cl.Run(t.Context(),
		client.Job{Tenant: hostile,
			Tasks: []client.Task{{Function: "echo"}, {Function: "sleep", Payload: []byte("5ms")}}}); err != nil {
		t.Fatal(err)
	}
	runPhoebe(t, "run", "--connect", c.frontends[1], "--function", "fail", "--payload", "why").wantExit(t, 1)
	list := runPhoebe(t, "jobs", "--connect", c.frontends[1]).wantExit(t, 0)
	if n := strings.Count(list.out, "\n"); n != 3 || strings.Contains(list.out, "\x1b") ||
		!strings.Contains(list.out, `\x1b[31m`) {
		t.Errorf("%d lines: %q", n, list.out)
	}
	one := runPhoebe(t, "jobs", "--connect", c.frontends[1], "--tenant", hostile, "--json").wantExit(t, 0)
	var job struct {
		Job, Owner, Tenant string
		Functions          []string
		Response           int64            `json:"response_us"`
		Blame              map[string]int64 `json:"blame_us"`
	}
	if err := json.Unmarshal([]byte(one.out), &job); err != nil || job.Tenant != hostile ||
		job.Owner != c.frontends[0] || fmt.Sprint(job.Functions) != "[echo sleep]" {
		t.Fatalf("%v: %q", err, one.out)
	}
	sum := int64(0)
	for _, us := range job.Blame {
		sum += us
	}
	if sum != job.Response || sum < 5000 {
		t.Errorf("blame %v of %d us", job.Blame, job.Response)
	}
	if s := runPhoebe(t, "jobs", "--connect", c.connect, "--failed").wantExit(t, 0); strings.Count(s.out, "\n") != 2 ||
		!strings.Contains(s.out, "failed") {
		t.Errorf("%q", s.out)
	}

	file := filepath.Join(t.TempDir(), "trace.json")
	s := runPhoebe(t, "trace", job.Job, "--connect", c.frontends[1], "--chrome", file).wantExit(t, 0, "took ", " run",
		"worker-")
	if strings.Contains(s.out, "\x1b") {
		t.Errorf("%q", s.out)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var trace struct {
		TraceEvents []struct {
			Name, Ph string
			Pid, Tid *int
			Ts, Dur  *float64
		}
	}
	if err := json.Unmarshal(text, &trace); err != nil {
		t.Fatal(err)
	}
	names := map[string]int{}
	for _, e := range trace.TraceEvents {
		names[e.Name]++
		if e.Pid == nil || e.Tid == nil || e.Ts == nil || e.Ph == "X" && (e.Dur == nil || *e.Dur < 0 || *e.Ts < 0) {
			t.Errorf("event %+v", e)
		}
	}
	if names["task 0"] != 1 || names["task 1"] != 1 || names["run"] != 2 || names["job"] != 1 {
		t.Errorf("events %v", names)
	}
	runPhoebe(t, "trace", "01ARZ3NDEKTSV4RRFFQ69G5FAV", "--connect", c.connect).wantExit(t, 1, "was not kept")

	waitUntil(t, func() error { // the window of the jobs ends within a second
		top := runPhoebe(t, "top", "--connect", c.connect).wantExit(t, 0, "FRONTEND", "PHASE", "worker-0")
		if strings.Contains(top.out, "\x1b") {
			t.Errorf("%q", top.out)
		}
		if fail := regexp.MustCompile(`\nfail +0 +1 +`); !strings.Contains(top.out, "\nFUNCTION ") ||
			!strings.Contains(top.out, "\necho ") || !fail.MatchString(top.out) {
			return fmt.Errorf("the functions are missing: %q", top.out)
		}
		return nil
	})
}
