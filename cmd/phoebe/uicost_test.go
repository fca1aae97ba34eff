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
	"github.com/phoebe-sched/phoebe/frontend/client/admin"
)

const (
	costPairs   = 40 // pairs of measurements with and without recorder, in turns
	costViewers = 8
	costWarmup  = 200 * time.Millisecond
	costFor     = time.Second // of each measurement in a turn: the time between two frames of the page
	profileFor  = 2 * time.Minute
)

// TestUICost measures the cost of the recorder and of viewers of the page (make ui-cost). Two fleets of processes
// stand side by side, one from a build without the recorder. No-op jobs go to the fleets in turns. Figures are
// computed over all turns together, because the p99 of single seconds varies by more than the effect. With 40
// pairs, a ratio is still uncertain by 0.01 or 0.02. So a limit counts as missed only if the whole confidence
// interval lies beyond it.
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
				with.measureTurn(t, costViewers)
			} else {
				plain.measureTurn(t, 0)
			}
		}
	}
	all := func(f *costedFleet, times []int) (sum turnCost) {
		for i, n := range times {
			sum.addTurn(&f.turns[i], n)
		}
		return sum
	}
	once := slices.Repeat([]int{1}, costPairs)
	a, b := all(with, once), all(plain, once)
	var drawn [][2]turnCost // bootstrap: 1000 samples of as many pairs, drawn from the measured pairs
	random := rand.New(rand.NewPCG(1, 1))
	for range 1000 {
		times := make([]int, costPairs)
		for range costPairs {
			times[random.IntN(costPairs)]++
		}
		drawn = append(drawn, [2]turnCost{all(with, times), all(plain, times)})
	}
	for _, setting := range []struct {
		name        string
		figure      func(*turnCost) float64
		least, most float64
	}{
		{"tasks/s, a job in flight", func(c *turnCost) float64 { return float64(c.tasks1) / c.took1.Seconds() }, 0.99,
			0},
		{"tasks/s, 16 jobs in flight", func(c *turnCost) float64 { return float64(c.tasks16) / c.took16.Seconds() },
			0.99, 0},
		{"round trip in us, p50", func(c *turnCost) float64 { return c.trips.quantileMicros(0.5) }, 0, 1.03},
		{"round trip in us, p99", func(c *turnCost) float64 { return c.trips.quantileMicros(0.99) }, 0, 1.03},
		{"CPU of the frontend in us for a task", func(c *turnCost) float64 { return 1e6 * c.cpu / float64(c.tasks16) },
			0, 0},
	} {
		ratio := setting.figure(&a) / setting.figure(&b)
		var ratios []float64
		for i := range drawn {
			ratios = append(ratios, setting.figure(&drawn[i][0])/setting.figure(&drawn[i][1]))
		}
		slices.Sort(ratios)
		t.Logf("%s: %.1f and %.1f, ratio %.4f, with 95 %% confidence between %.4f and %.4f", setting.name, setting.figure(&a),
			setting.figure(&b), ratio, ratios[25], ratios[974])
		if least, most := ratios[25], ratios[974]; most < setting.least || setting.most > 0 && least > setting.most {
			t.Errorf("%s, with the recorder and %d viewers over without: %.4f to %.4f, want at least %v, at most %v",
				setting.name, costViewers, least, most, setting.least, setting.most)
		}
	}
	if s := with.recorderShare(t); s >= 0.01 {
		t.Errorf("recorder and page are %.2f %% of the frontend's CPU profile, want less than 1 %%", 100*s)
	}
}

// costedFleet is a frontend and its workers.
type costedFleet struct {
	frontend   *process
	api, admin string
	client     *admin.Client
	turns      []turnCost
}

// startCosted starts a fleet of a build.
func startCosted(t *testing.T, program string) *costedFleet {
	var workers []string
	for range 4 {
		workers = append(workers, startRelease(t, program, "worker", "--listen", "127.0.0.1:0", "--slots",
			"4").awaitLines("worker", 1)[0])
	}
	p := startRelease(t, program, "--log-level", "info", "frontend", "--listen", "127.0.0.1:0", "--admin",
		"127.0.0.1:0",
		"--workers", strings.Join(workers, ","))
	f := &costedFleet{frontend: p, api: p.awaitLines("frontend", 1)[0], admin: adminAddr(t, p)}
	awaitLinked(t, f.api, len(workers))
	c, err := client.New([]string{f.api})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	f.client = admin.New(c)
	return f
}

// turnCost holds the measurements of a turn, or the sum of several turns.
type turnCost struct {
	trips           trips
	tasks1, tasks16 int // tasks run with 1 and 16 jobs in flight, in took1 and took16
	took1, took16   time.Duration
	cpu             float64 // seconds that the frontend used for tasks16
}

// addTurn adds the measurements of a turn n times.
func (c *turnCost) addTurn(d *turnCost, n int) {
	for i, trips := range d.trips {
		c.trips[i] += n * trips
	}
	c.tasks1, c.tasks16 = c.tasks1+n*d.tasks1, c.tasks16+n*d.tasks16
	c.took1, c.took16 = c.took1+time.Duration(n)*d.took1, c.took16+time.Duration(n)*d.took16
	c.cpu += float64(n) * d.cpu
}

// trips counts round trips by time: cell i counts trips of about 1.005^i us.
type trips [3000]int

func (t *trips) countTrip(took time.Duration) {
	us := max(float64(took)/float64(time.Microsecond), 1)
	t[min(int(math.Log(us)/math.Log(1.005)), len(t)-1)]++
}

// quantileMicros returns a quantile, in microseconds.
func (t *trips) quantileMicros(q float64) float64 {
	n := 0
	for _, count := range t {
		n += count
	}
	rest := q * float64(n)
	for i, count := range t {
		if rest -= float64(count); rest <= 0 {
			return math.Pow(1.005, float64(i))
		}
	}
	return math.NaN()
}

// measureTurn runs no-op jobs while viewers look at the page.
func (f *costedFleet) measureTurn(t *testing.T, viewers int) {
	defer f.openPages(t, viewers)()
	var c turnCost
	f.keepInFlight(t, 1, 1, costWarmup, nil)
	f.keepInFlight(t, 1, 1, costFor, &c.trips)
	f.keepInFlight(t, 1, 100, costWarmup, nil)
	c.tasks1, c.took1 = f.keepInFlight(t, 1, 100, costFor, nil)
	f.keepInFlight(t, 16, 100, costWarmup, nil)
	before := metricSum(t, f.frontend, "process_cpu_seconds_total")
	c.tasks16, c.took16 = f.keepInFlight(t, 16, 100, costFor, nil)
	c.cpu = metricSum(t, f.frontend, "process_cpu_seconds_total") - before
	f.turns = append(f.turns, c)
}

// keepInFlight keeps no-op jobs in flight, and counts their tasks. If counted is not nil, keepInFlight also counts
// round trips; use a single job in flight.
func (f *costedFleet) keepInFlight(t *testing.T, flights, tasks int, lasts time.Duration,
	counted *trips) (ran int, took time.Duration) {
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
				if counted != nil {
					counted.countTrip(now.Sub(last))
				}
				last = now
				jobs.Add(1)
			}
		})
	}
	all.Wait()
	return tasks * int(jobs.Load()), time.Since(begin)
}

// openPages opens the page for viewers that read all frames until the end.
func (f *costedFleet) openPages(t *testing.T, viewers int) (end func()) {
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

// recorderFunctions matches functions of the recorder and of the page, and functions called only by the recorder or
// the page.
var recorderFunctions = regexp.MustCompile(
	`/frontend/(record|ui)\.|/frontend/client\.|^net/http\.|/probe/(histogram|exposition)\.|` +
		`/frontend/serve\.\(\*\w+\)\.(countTask|countJob|timedJob|record|collectJobs|put|checkObjectives|sampleFleet|Watch|Jobs|Trace|Explain|Cluster)$|` +
		`/v1\.\(\*(Watch|Cluster|Window|Series|Told|JobSummary|Figures)\w*\)\.`)

// recorderShare returns the share of recorder and page in a CPU profile of the frontend, while no-op jobs run and
// viewers look.
func (f *costedFleet) recorderShare(t *testing.T) float64 {
	defer f.openPages(t, costViewers)()
	load := startPhoebe(t, "bench", "noop", "--connect", f.api, "--repeat", "100", "--warmup", "100ms", "--for", "1s")
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
	all, shares := int64(0), map[string]int64{}
	for _, s := range p.Sample {
		all += s.Value[1]
		shares[recorderFunction(s)] += s.Value[1]
	}
	ours := all - shares[""]
	delete(shares, "")
	for _, name := range slices.SortedFunc(maps.Keys(shares), func(a, b string) int { return cmp.Compare(shares[b], shares[a]) }) {
		t.Logf("%6.3f %% %s", 100*float64(shares[name])/float64(all), name)
	}
	t.Logf("recorder and page are %.2f %% of %v", 100*float64(ours)/float64(all), time.Duration(all))
	return float64(ours) / float64(all)
}

// recorderFunction returns the recorder's or the page's function nearest to the root of a sample's stack, or "".
func recorderFunction(s *profile.Sample) string {
	for _, at := range slices.Backward(s.Location) {
		for _, line := range slices.Backward(at.Line) {
			if name := line.Function.Name; recorderFunctions.MatchString(name) {
				return name
			}
		}
	}
	return ""
}
