package main_test

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"math"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/pprof/profile"

	"github.com/phoebe-sched/phoebe/frontend/client"
)

const (
	costPairs   = 40 // of measurements, with and without, in turns
	costViewers = 8
	costWarmup  = 200 * time.Millisecond
	costFor     = time.Second // each of a turn's measurements: as long as a viewer waits for the next frame
	profileFor  = 2 * time.Minute
)

// TestUICost is make ui-cost: what it costs that everything is recorded, and that some look at it. Two fleets of processes stand side
// by side, one of them of a build without the recorder; no-op jobs go to one, then to the other. The figures are of all turns together:
// the p99 of one second is another one each time, by more than what is looked for. So many pairs still leave one or two hundredths open: a
// bar is missed where all of the interval lies beyond it.
func TestUICost(t *testing.T) {
	if os.Getenv("PHOEBE_UI_COST") == "" {
		t.Skip("PHOEBE_UI_COST is not set")
	}
	without := filepath.Join(t.TempDir(), "phoebe")
	if out, err := exec.Command("go", "build", "-tags", "norecorder", "-o", without, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	with, plain := startCosted(t, binary), startCosted(t, without)
	for i := range costPairs {
		for k := range 2 {
			if (i+k)%2 == 0 {
				with.measure(t, costViewers)
			} else {
				plain.measure(t, 0)
			}
		}
	}
	all := func(f *costedFleet, times []int) (sum costed) {
		for i, n := range times {
			sum.add(&f.turns[i], n)
		}
		return sum
	}
	once := slices.Repeat([]int{1}, costPairs)
	a, b := all(with, once), all(plain, once)
	var drawn [][2]costed // what might have been measured as well: as many pairs, drawn from those there are
	random := rand.New(rand.NewPCG(1, 1))
	for range 1000 {
		times := make([]int, costPairs)
		for range costPairs {
			times[random.IntN(costPairs)]++
		}
		drawn = append(drawn, [2]costed{all(with, times), all(plain, times)})
	}
	for _, of := range []struct {
		name        string
		figure      func(*costed) float64
		least, most float64
	}{
		{"tasks/s, a job in flight", func(c *costed) float64 { return float64(c.tasks1) / c.took1.Seconds() }, 0.99, 0},
		{"tasks/s, 16 jobs in flight", func(c *costed) float64 { return float64(c.tasks16) / c.took16.Seconds() }, 0.99, 0},
		{"round trip in us, p50", func(c *costed) float64 { return c.trips.quantile(0.5) }, 0, 1.03},
		{"round trip in us, p99", func(c *costed) float64 { return c.trips.quantile(0.99) }, 0, 1.03},
		{"CPU of the frontend in us for a task", func(c *costed) float64 { return 1e6 * c.cpu / float64(c.tasks16) }, 0, 0},
	} {
		ratio := of.figure(&a) / of.figure(&b)
		var ratios []float64
		for i := range drawn {
			ratios = append(ratios, of.figure(&drawn[i][0])/of.figure(&drawn[i][1]))
		}
		slices.Sort(ratios)
		t.Logf("%s: %.1f and %.1f, ratio %.4f, with 95 %% confidence between %.4f and %.4f", of.name, of.figure(&a), of.figure(&b), ratio, ratios[25], ratios[974])
		if least, most := ratios[25], ratios[974]; most < of.least || of.most > 0 && least > of.most {
			t.Errorf("%s, with the recorder and %d viewers over without: %.4f to %.4f, want at least %v, at most %v", of.name, costViewers, least, most, of.least, of.most)
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
	client     *client.Client
	turns      []costed
}

func startCosted(t *testing.T, program string) *costedFleet {
	var workers []string
	for range 4 {
		workers = append(workers, startAs(t, program, "worker", "--listen", "127.0.0.1:0", "--slots", "4").said("worker", 1)[0])
	}
	p := startAs(t, program, "--log-level", "info", "frontend", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--workers", strings.Join(workers, ","))
	f := &costedFleet{frontend: p, api: p.said("frontend", 1)[0], admin: adminAddr(t, p)}
	linked(t, f.api, len(workers))
	c, err := client.New([]string{f.api})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	f.client = c
	return f
}

// costed is what was measured in a turn, or in several.
type costed struct {
	trips           trips
	tasks1, tasks16 int // in so long, with so many jobs in flight
	took1, took16   time.Duration
	cpu             float64 // seconds that the frontend used for tasks16
}

// add adds what was measured in a turn, n times.
func (c *costed) add(d *costed, n int) {
	for i, of := range d.trips {
		c.trips[i] += n * of
	}
	c.tasks1, c.tasks16 = c.tasks1+n*d.tasks1, c.tasks16+n*d.tasks16
	c.took1, c.took16 = c.took1+time.Duration(n)*d.took1, c.took16+time.Duration(n)*d.took16
	c.cpu += float64(n) * d.cpu
}

// trips counts round trips by how long they took: the cell i has those of about 1.005^i us.
type trips [3000]int

func (t *trips) count(took time.Duration) {
	us := max(float64(took)/float64(time.Microsecond), 1)
	t[min(int(math.Log(us)/math.Log(1.005)), len(t)-1)]++
}

func (t *trips) quantile(q float64) float64 {
	n := 0
	for _, of := range t {
		n += of
	}
	left := q * float64(n)
	for i, of := range t {
		if left -= float64(of); left <= 0 {
			return math.Pow(1.005, float64(i))
		}
	}
	return math.NaN()
}

// measure has no-op jobs run while some look at the page.
func (f *costedFleet) measure(t *testing.T, viewers int) {
	defer f.view(t, viewers)()
	var c costed
	f.run(t, 1, 1, costWarmup, nil)
	f.run(t, 1, 1, costFor, &c.trips)
	f.run(t, 1, 100, costWarmup, nil)
	c.tasks1, c.took1 = f.run(t, 1, 100, costFor, nil)
	f.run(t, 16, 100, costWarmup, nil)
	before := metric(t, f.frontend, "process_cpu_seconds_total")
	c.tasks16, c.took16 = f.run(t, 16, 100, costFor, nil)
	c.cpu = metric(t, f.frontend, "process_cpu_seconds_total") - before
	f.turns = append(f.turns, c)
}

// run keeps so many no-op jobs in flight, and counts their tasks. What a job took is counted where it is asked for, with one in flight.
func (f *costedFleet) run(t *testing.T, flights, tasks int, lasts time.Duration, to *trips) (ran int, took time.Duration) {
	job := client.Job{Tasks: slices.Repeat([]client.Task{{Function: "echo"}}, tasks)}
	var jobs atomic.Int64
	var all sync.WaitGroup
	begin := time.Now()
	for range flights {
		all.Go(func() {
			for last := begin; last.Sub(begin) < lasts; {
				if _, err := f.client.Run(t.Context(), job); err != nil {
					t.Error(err)
					return
				}
				now := time.Now()
				if to != nil {
					to.count(now.Sub(last))
				}
				last = now
				jobs.Add(1)
			}
		})
	}
	all.Wait()
	return tasks * int(jobs.Load()), time.Since(begin)
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
