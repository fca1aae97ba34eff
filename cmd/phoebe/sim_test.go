package main_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// simRuns reads the JSON that phoebe sim wrote.
func simRuns(t testing.TB, name string) []map[string]any {
	t.Helper()
	var doc struct{ Runs []map[string]any }
	text, err := os.ReadFile(name)
	if err == nil {
		err = json.Unmarshal(text, &doc)
	}
	if err != nil {
		t.Fatal(err)
	}
	return doc.Runs
}

// All combinations of flags are simulated, in the order of the flags. The same flags give the same bytes, whatever
// the number of processors.
func TestSim(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	args := []string{"sim", "--workers", "20", "--slots", "2", "--frontends", "3", "--tasks-per-job", "uniform:1-9",
		"--task-duration", "task-exp:20ms",
		"--delay", "500us", "--jitter", "100us", "--load", "0.5,0.8", "--policy", "phoebe,late-binding,omniscient",
		"--probe-ratio", "1,2",
		"--jobs", "300", "--warmup-jobs", "60", "--seed", "3", "--cutoff", "20ms", "--speeds", "mix:90%1,10%0.5",
		"--estimates", "noisy:2"}
	wall := regexp.MustCompile(`"wall_s": .*`)
	var first, firstOut string
	for i, procs := range []string{"1", "2", "7"} {
		jsonFile, htmlFile := filepath.Join(dir, fmt.Sprintf("%d.json", i)),
			filepath.Join(dir, fmt.Sprintf("%d.html", i))
		s := runPhoebeIn(t, "", []string{"GOMAXPROCS=" + procs},
			append(args, "--json", jsonFile, "--html", htmlFile)...).
			wantExit(t, 0, "phoebe ", "late-binding ", "omniscient ", "ideal", "  short",
				"load 0.8, probe ratio 2, 20 workers of 2 slots, 240 jobs", "uniform:1-9 tasks per job", "noisy:2")
		text, err := os.ReadFile(jsonFile)
		if err != nil {
			t.Fatal(err)
		}
		html, err := os.ReadFile(htmlFile)
		if err != nil || !strings.Contains(string(html), "<svg") {
			t.Errorf("%v in %.100s", err, html)
		}
		same := wall.ReplaceAllString(string(text), "") + string(html)
		if i == 0 {
			first, firstOut = same, s.out
		} else if same != first || s.out != firstOut {
			t.Errorf("GOMAXPROCS=%s gives another output", procs)
		}
	}
	runs := simRuns(t, filepath.Join(dir, "0.json"))
	i := 0
	for _, load := range []float64{0.5, 0.8} {
		for _, ratio := range []float64{1, 2} {
			for _, policy := range []string{"phoebe", "late-binding", "omniscient"} {
				r := runs[i]
				i++
				if r["policy"] != policy || r["load"] != load || r["probe_ratio"] != ratio || r["workers"] != 20.0 ||
					r["slots"] != 2.0 || r["jobs"] != 240.0 {
					t.Errorf("run %d is %v", i, r)
				}
				stats := func(name string) map[string]any { return r[name].(map[string]any) }
				if got, want := stats("ratio")["p99"],
					stats("response_ms")["p99"].(float64)/stats("ideal_ms")["p99"].(float64); got != want {
					t.Errorf("ratio.p99 is %v, want %v", got, want)
				}
			}
		}
	}
	if i != len(runs) {
		t.Errorf("%d runs", len(runs))
	}
}

func TestSimOfFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	jobs, jsonFile := filepath.Join(dir, "jobs.txt"), filepath.Join(dir, "s.json")
	if err := os.WriteFile(jobs, []byte("0 2 1.5 1.25 1.75\n2.5 1 100 100.9\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	small := []string{"sim", "run", "--workers", "4", "--slots", "1", "--frontends", "1", "--delay", "0s", "--policy",
		"omniscient", "--json", jsonFile, "--codec=false"}
	runPhoebe(t, append(small, "--jobs-file", jobs, "--cutoff", "90s")...).wantExit(t, 0, "2 of jobs.txt", "100900",
		"  long")
	if r := simRuns(t, jsonFile)[0]; r["jobs"] != 2.0 || r["load"].(float64) < 1 ||
		r["long"].(map[string]any)["response_ms"].(map[string]any)["p50"] != 100900.0 {
		t.Errorf("%v", r)
	}
	runPhoebe(t, append(small, "--jobs-file", jobs, "--cutoff", "90s", "--whole-seconds")...).wantExit(t, 0)
	if r := simRuns(t, jsonFile)[0]; r["long"].(map[string]any)["response_ms"].(map[string]any)["p50"] != 100000.0 {
		t.Errorf("%v", r)
	}
	trace := filepath.Join(dir, "trace.csv")
	if err := os.WriteFile(trace,
		[]byte("trace,job,submit_ms,input_bytes,shuffle_bytes,output_bytes,input_path\nx,1,0,1000,0,10,\nx,2,3000,500000000,1000,10,\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	runPhoebe(t, append(small, "--trace", trace, "--trace-name", "x", "--load", "0,0.2")...).wantExit(t, 0,
		"trace x of trace.csv: 2 jobs", "load 0.2")

	if err := os.WriteFile(jobs, []byte("0 2 1.5 1.25 1.75\n2.5 1 100 1OO.9\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	runPhoebe(t, append(small, "--jobs-file", jobs)...).wantExit(t, 2, "jobs.txt: line 2, field 4 (d1)", `"1OO.9"`)
}

// Jobs written by a run give the same run again: all measurements are equal, for phoebe and for its rivals.
func TestSimJobsOut(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	jobs, first, second := filepath.Join(dir, "jobs"), filepath.Join(dir, "1.json"), filepath.Join(dir, "2.json")
	for _, test := range []struct{ cluster, drawn []string }{
		{[]string{"--policy", "phoebe,random", "--input", "1MiB", "--racks", "2"},
			[]string{"--tasks-per-job", "6", "--task-duration", "task-exp:10ms", "--stages", "2"}},
		{[]string{"--policy", "phoebe,delay-fifo,delay-fair", "--input", "1MiB", "--locality-wait", "5ms"},
			[]string{"--tasks-per-job", "6", "--task-duration", "task-exp:10ms"}},
		{[]string{"--policy", "phoebe,late-binding,omniscient,centralized,single-path,multi-path,two-level,shared-state",
			"--think", "batch=5ms+1ms*2", "--think", "service=20ms+1ms"},
			[]string{"--kind", "batch 100ms 6 task-exp:200ms", "--kind", "service 200ms 4 task-exp:500ms"}},
	} {
		cluster := slices.Concat([]string{"sim", "--workers", "10", "--frontends", "3", "--jobs", "200"}, test.cluster)
		runPhoebe(t,
			slices.Concat(cluster, test.drawn, []string{"--jobs-out", jobs, "--json", first})...).wantExit(t, 0,
			"200 of jobs", "160 jobs of")
		runPhoebe(t, append(cluster, "--jobs-file", jobs, "--json", second)...).wantExit(t, 0)
		a, b := simRuns(t, first), simRuns(t, second)
		if len(a) != strings.Count(test.cluster[1], ",")+1 {
			t.Errorf("%d runs of %s", len(a), test.cluster[1])
		}
		for i := range a {
			delete(a[i], "wall_s")
			delete(b[i], "wall_s")
		}
		if !reflect.DeepEqual(a, b) {
			t.Errorf("%v\nfrom the file %v", a, b)
		}
	}
	for _, bad := range []struct {
		flags []string
		want  string
	}{
		{[]string{"--jobs-out", jobs, "--jobs-file", jobs}, "leave one out; the jobs are in a file already"},
		{[]string{"--jobs-out", jobs, "--load", "0.5,0.8"}, "2 loads have different jobs: give a single --load"},
		{[]string{"--jobs-out", filepath.Join(dir, "no", "jobs")}, "--jobs-out: open"},
		{[]string{"--jobs-file", jobs, "--whole-seconds"}, "only files of numbers"},
	} {
		runPhoebe(t, append([]string{"sim"}, bad.flags...)...).wantExit(t, 2, bad.want)
	}
}

// Kinds of jobs are reported, with the work of the schedulers that decide about the jobs.
func TestSimKinds(t *testing.T) {
	t.Parallel()
	jsonFile := filepath.Join(t.TempDir(), "s.json")
	runPhoebe(t, "sim", "--workers", "20", "--frontends", "2", "--jobs", "300", "--kind", "batch 100ms 10 task-exp:200ms",
		"--kind", "service 200ms 2 task-exp:1s", "--think", "batch=1ms+1ms*2", "--think", "service=20ms+1ms", "--policy",
		"phoebe,shared-state,two-level", "--json", jsonFile).
		wantExit(t, 0, "service jobs: every 200ms, 2 tasks per job", "decisions take service=20ms+1ms",
			"phoebe: batch jobs: response mean", "shared-state: deciders of service jobs busy for",
			"two-level: deciders of allocator jobs")
	for _, r := range simRuns(t, jsonFile) {
		busy := r["deciders"].(map[string]any)["service"].(map[string]any)["busy"].(float64)
		if busy < 0.06 || busy > 0.2 || r["kinds"].(map[string]any)["batch"].(map[string]any)["jobs"].(float64) < 100 {
			t.Errorf("%v", r)
		}
	}
	for flag, want := range map[string]string{"--kind": "has 1 words", "--think": "such as 100ms+5ms"} {
		runPhoebe(t, "sim", flag, "x").wantExit(t, 2, flag, want)
	}
	runPhoebe(t, "sim", "--kind", "a 1s 1 fixed:1s", "--tasks-per-job", "2").wantExit(t, 2,
		"--tasks-per-job has no meaning for --kind")
}

// Short and long jobs are reported in two groups, with the quality of estimates.
func TestSimMixed(t *testing.T) {
	t.Parallel()
	jsonFile := filepath.Join(t.TempDir(), "s.json")
	runPhoebe(t, "sim", "--workers", "10", "--slots", "8", "--frontends", "2", "--jobs", "200", "--tasks-per-job", "5",
		"--task-duration", "task-exp:100ms",
		"--long-jobs", "0.2", "--long-tasks-per-job", "4", "--long-task-duration", "task-exp:5s", "--racks", "2",
		"--stages", "2", "--input", "16MiB",
		"--gossip-period", "500ms", "--gossip-loss", "0.1", "--policy", "phoebe,estimation", "--json", jsonFile).
		wantExit(t, 0, "80 % short", "4 tasks per job, task durations task-exp:5s", "  short", "  long", "p90",
			"placed by estimation; of their waits", "a task reads")
	for _, r := range simRuns(t, jsonFile) {
		for _, kind := range []string{"short", "long"} {
			response := r[kind].(map[string]any)["response_ms"].(map[string]any)
			for _, q := range []string{"p50", "p90", "p99"} {
				if response[q].(float64) <= 0 {
					t.Errorf("%s: %v", kind, response)
				}
			}
		}
		if e := r["estimates"].(map[string]any); e["tasks"].(float64) < 100 || e["wait_within"].(float64) <= 0.5 ||
			e["run_within"].(float64) < 0.9 {
			t.Errorf("%v", e)
		}
	}
}

func TestSimRefuses(t *testing.T) {
	for _, test := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"--policy", "best"}, 2, `"late-binding-no-cancel"`},
		{[]string{"--policy", "phoebe-magic"}, 2, `no part "magic"`},
		{[]string{"--task-duration", "pareto:1,10ms"}, 2, "--task-duration: "},
		{[]string{"--tasks-per-job", "0"}, 2, "--tasks-per-job: "},
		{[]string{"--speeds", "fast"}, 2, "--speeds: "},
		{[]string{"--estimates", "wild"}, 2, "--estimates: "},
		{[]string{"--probe-ratio", "0.5"}, 2, "probe ratio 0.5: use 1 to 10"},
		{[]string{"--load=-1"}, 2, "load -1"},
		{[]string{"--load", "0"}, 1, "load 0: use a number above 0"},
		{[]string{"--workers", "0"}, 2, "0 workers"},
		{[]string{"--jobs", "10", "--warmup-jobs", "10"}, 2, "10 warm-up jobs of 10"},
		{[]string{"--delay=-1ms"}, 2, "delay -1ms"},
		{[]string{"--gossip-loss", "1"}, 2, "gossip with"},
		{[]string{"--long-jobs", "1"}, 2, "--long-jobs is 1"},
		{[]string{"--long-jobs", "0.1", "--long-task-duration", "ever"}, 2, "--long-task-duration: "},
		{[]string{"--long-tasks-per-job", "3"}, 2, "--long-tasks-per-job has no meaning for jobs without --long-jobs"},
		{[]string{"--stages", "2", "--policy", "eagle"}, 2, "eagle knows nothing of stages"},
		{[]string{"--whole-seconds"}, 2, "--whole-seconds has no meaning"},
		{[]string{"--span", "1h"}, 2, "--span has no meaning"},
		{[]string{"--jobs-file", "/nonexistent"}, 2, "/nonexistent"},
		{[]string{"--jobs-file", "/nonexistent", "--task-duration", "fixed:1s"}, 2,
			"--task-duration has no meaning for --jobs-file"},
		{[]string{"--jobs-file", "a", "--trace", "b"}, 2, "leave one out"},
		{[]string{"--trace", "/nonexistent"}, 2, "/nonexistent"},
		{[]string{"--json", "/nonexistent/b.json"}, 2, "/nonexistent/b.json"},
		{[]string{"faults", "--seeds", "0"}, 2, "--seeds"},
		{[]string{"faults", "--without", "x3", "--seeds", "1"}, 2, "--without"},
		{[]string{"faults", "--without", "j3"}, 2, "add --seeds 1"},
		{[]string{"faults", "--log", "/nonexistent/log"}, 2, "--log"},
		{[]string{"faults", "--workers", "3"}, 2, "--workers"},
	} {
		runHere(t, append([]string{"sim"}, test.args...)...).wantExit(t, test.code, test.says)
	}
}

func TestSimFaults(t *testing.T) {
	t.Parallel()
	runPhoebe(t, "sim", "faults", "--seeds", "12", "--from", "100").wantExit(t, 0, "12 seeds from 100: ", "jobs of",
		"worker crashes", "no promise was broken")
	runPhoebe(t, "sim", "faults", "--seeds", "1", "--from", "100", "--without", "j0-j200,f0-f200").wantExit(t, 0,
		"1 seeds from 100: 0 jobs")
}

func TestSimHelp(t *testing.T) {
	runPhoebe(t, "sim", "--help").wantExit(t, 0, "Usage: phoebe sim", "phoebe sim run --help")
	for _, c := range []string{"run", "faults"} {
		s := runPhoebe(t, "sim", c, "--help").wantExit(t, 0, "Usage: phoebe sim")
		_, flags, _ := strings.Cut(s.out, "Flags:")
		text := strings.Join(strings.Fields(flags), " ")
		for _, flag := range regexp.MustCompile(` --[a-z].*?\(\$PHOEBE_[A-Z_]+\)`).FindAllString(text, -1) {
			if !strings.Contains(flag, "efault") {
				t.Errorf("phoebe sim %s: no default: %s", c, flag)
			}
		}
	}
}
