package main_test

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/pprof/profile"

	"github.com/phoebe-sched/phoebe/bench"
)

const (
	costPairs   = 15 // of measurements, with and without, in turns
	costViewers = 8
	profileFor  = 60 * time.Second
)

// TestUICost is make ui-cost: what it costs that everything is recorded, and that some look at it. Two fleets of processes stand side
// by side, one of them of a build without the recorder; no-op jobs go to one, then to the other.
func TestUICost(t *testing.T) {
	if os.Getenv("PHOEBE_UI_COST") == "" {
		t.Skip("PHOEBE_UI_COST is not set")
	}
	without := filepath.Join(t.TempDir(), "phoebe")
	if out, err := exec.Command("go", "build", "-tags", "norecorder", "-o", without, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	with, plain := startCosted(t, binary), startCosted(t, without)
	var rates1, rates16, p50s, p99s, cpus []float64
	for i := range costPairs {
		var figures [2]costed
		for k := range 2 {
			if (i+k)%2 == 0 {
				figures[0] = with.measure(t, costViewers)
			} else {
				figures[1] = plain.measure(t, 0)
			}
		}
		a, b := &figures[0], &figures[1]
		rates1, rates16 = append(rates1, a.TasksPerS1/b.TasksPerS1), append(rates16, a.TasksPerS16/b.TasksPerS16)
		p50s, p99s, cpus = append(p50s, a.RTTUS.P50/b.RTTUS.P50), append(p99s, a.RTTUS.P99/b.RTTUS.P99), append(cpus, a.cpu/b.cpu)
		t.Logf("pair %d: %.0f and %.0f tasks/s, p99 %.0f and %.0f us, CPU of the frontend %.2f and %.2f us/task", i, a.TasksPerS16, b.TasksPerS16, a.RTTUS.P99, b.RTTUS.P99, a.cpu, b.cpu)
	}
	for _, of := range []struct {
		name        string
		ratios      []float64
		least, most float64
	}{
		{"tasks/s, a job in flight", rates1, 0.99, 0}, {"tasks/s, 16 jobs in flight", rates16, 0.99, 0}, {"round trip, p50", p50s, 0, 1.03}, {"round trip, p99", p99s, 0, 1.03},
		{"CPU of the frontend for a task", cpus, 0, 0},
	} {
		slices.Sort(of.ratios)
		n := len(of.ratios)
		median := of.ratios[n/2]
		// Of the order statistics these bound the median of what is drawn with 96 % confidence, of 15.
		t.Logf("%s: %.4f, between %.4f and %.4f", of.name, median, of.ratios[3], of.ratios[n-4])
		if median < of.least || of.most > 0 && median > of.most {
			t.Errorf("%s, with the recorder and %d viewers over without: %.4f, want at least %v, at most %v", of.name, costViewers, median, of.least, of.most)
		}
	}
	if s := with.share(t); s >= 0.01 {
		t.Errorf("recorder and page are %.2f %% of the frontend's CPU profile, want less than 1 %%", 100*s)
	}
}

// costedFleet is a frontend and its workers.
type costedFleet struct {
	frontend   *process
	api, admin string
}

func startCosted(t *testing.T, program string) *costedFleet {
	var workers []string
	for range 4 {
		workers = append(workers, startAs(t, program, "worker", "--listen", "127.0.0.1:0", "--slots", "4").said("worker", 1)[0])
	}
	p := startAs(t, program, "--log-level", "info", "frontend", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--workers", strings.Join(workers, ","))
	f := &costedFleet{frontend: p, api: p.said("frontend", 1)[0], admin: adminAddr(t, p)}
	linked(t, f.api, len(workers))
	return f
}

// costed is what was measured once.
type costed struct {
	bench.Noop
	cpu float64 // of the frontend, in us for a task
}

// measure has no-op jobs run while some look at the page.
func (f *costedFleet) measure(t *testing.T, viewers int) costed {
	defer f.view(t, viewers)()
	file := filepath.Join(t.TempDir(), "noop.json")
	cpu, tasks := f.counts(t)
	phoebe(t, "bench", "noop", "--connect", f.api, "--repeat", "1", "--warmup", "200ms", "--for", "1s", "--json", file).want(t, 0)
	cpuAfter, tasksAfter := f.counts(t)
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var doc bench.Document
	if err := json.Unmarshal(text, &doc); err != nil || len(doc.NoopRuns) != 1 {
		t.Fatal(err, len(doc.NoopRuns))
	}
	return costed{doc.NoopRuns[0].Noop, 1e6 * (cpuAfter - cpu) / (tasksAfter - tasks)}
}

// counts are the seconds of CPU that the frontend has used, and its tasks.
func (f *costedFleet) counts(t *testing.T) (cpu, tasks float64) {
	return metric(t, f.frontend, "process_cpu_seconds_total"), metric(t, f.frontend, "phoebe_frontend_tasks_total")
}

// view opens the page for some, who read what they are sent until the end.
func (f *costedFleet) view(t *testing.T, viewers int) (end func()) {
	ctx, stop := context.WithCancel(t.Context())
	var all sync.WaitGroup
	for range viewers {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+f.admin+"/ui/api/live", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Accept-Encoding", "gzip")
		res, err := http.DefaultClient.Do(req)
		if err != nil || res.StatusCode != http.StatusOK {
			t.Fatal(res, err)
		}
		all.Go(func() {
			defer res.Body.Close()
			_, _ = io.Copy(io.Discard, res.Body) // until ctx ends
		})
	}
	return func() {
		stop()
		all.Wait()
	}
}

// ofRecorder are functions of the recorder and of the page, and those that only these two call.
var ofRecorder = regexp.MustCompile(`/frontend/(record|ui)\.|/frontend/client\.|^net/http\.|/probe/(histogram|exposition)\.|` +
	`/frontend/serve\.\(\*\w+\)\.(countTask|countJob|timedJob|record|collectJobs|put|checkObjectives|Watch|Jobs|Trace|Explain|Cluster)$|` +
	`/v1\.\(\*(Watch|Cluster|Window|Series|Told|JobSummary|Figures)\w*\)\.`)

// share is that of the recorder and the page in a CPU profile of the frontend, while no-op jobs run and some look.
func (f *costedFleet) share(t *testing.T) float64 {
	defer f.view(t, costViewers)()
	load := start(t, "bench", "noop", "--connect", f.api, "--repeat", "100", "--warmup", "100ms", "--for", "1s")
	defer load.cmd.Process.Kill()
	res, err := http.Get(fmt.Sprintf("http://%s/debug/pprof/profile?seconds=%d", f.admin, int(profileFor.Seconds())))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	p, err := profile.Parse(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	all, of := int64(0), map[string]int64{}
	for _, s := range p.Sample {
		all += s.Value[1]
		of[blamed(s)] += s.Value[1]
	}
	ours := all - of[""]
	delete(of, "")
	for _, name := range slices.SortedFunc(maps.Keys(of), func(a, b string) int { return cmp.Compare(of[b], of[a]) }) {
		t.Logf("%6.3f %% %s", 100*float64(of[name])/float64(all), name)
	}
	t.Logf("recorder and page are %.2f %% of %v", 100*float64(ours)/float64(all), time.Duration(all))
	return float64(ours) / float64(all)
}

// blamed is the function nearest to the root of a sample's stack that is the recorder's or the page's; "": there is none.
func blamed(s *profile.Sample) string {
	for _, at := range slices.Backward(s.Location) {
		for _, line := range slices.Backward(at.Line) {
			if name := line.Function.Name; ofRecorder.MatchString(name) {
				return name
			}
		}
	}
	return ""
}
