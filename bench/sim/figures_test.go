package sim

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/phoebe-sched/phoebe/bench"
)

func mustFigure(t testing.TB, name string) *Figure {
	t.Helper()
	f, err := FindFigure(name)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// Every figure can be run, has a run at every place read by its check and its views, and has a text for each.
func TestFigures(t *testing.T) {
	var names []string
	for i := range Figures {
		f := &Figures[i]
		if slices.Contains(names, f.Name) || !strings.HasSuffix(f.Claim, ".") || f.Title == "" || len(f.views) == 0 {
			t.Errorf("%q: %q, %q, %d views", f.Name, f.Title, f.Claim, len(f.views))
		}
		names = append(names, f.Name)
		last := 0.0
		r, err := f.Run(t.Context(), FigureOptions{Jobs: 10, Seed: 3, Seeds: 1, Progress: func(share float64) {
			if share < last || share > 1+1e-9 {
				t.Errorf("%s: progress went from %g to %g", f.Name, last, share)
			}
			last = share
		}})
		if err != nil {
			t.Error(err)
			continue
		}
		if math.Abs(last-1) > 1e-9 {
			t.Errorf("%s: progress ended at %g", f.Name, last)
		}
		if len(r.Checks) == 0 || len(r.Points) != len(r.data.lines)*len(r.data.xs) {
			t.Errorf("%s: %d checks, %d points on %d lines of %d", f.Name, len(r.Checks), len(r.Points),
				len(r.data.lines), len(r.data.xs))
		}
		for _, c := range r.Checks {
			if c.Text == "" || strings.Contains(c.Text, "NaN") || strings.Contains(c.Text, "%!") {
				t.Errorf("%s: %q", f.Name, c.Text)
			}
		}
		for i := range f.views {
			for _, row := range r.viewTable(&f.views[i])[1:] {
				if len(row) != len(r.data.xs)+1 || slices.Contains(row, "") {
					t.Errorf("%s: %q", f.Name, row)
				}
			}
		}
	}
	if _, err := FindFigure("best"); err == nil || !strings.Contains(err.Error(), "late-binding") {
		t.Error(err)
	}
}

// FIGURES.md has one command for each figure; make figures runs these commands.
func TestFiguresAreDocumented(t *testing.T) {
	text, err := os.ReadFile("../FIGURES.md")
	if err != nil {
		t.Fatal(err)
	}
	var documented, all []string
	for _, m := range regexp.MustCompile("(?m)^`phoebe sim figure ([^ `]+)").FindAllStringSubmatch(string(text), -1) {
		documented = append(documented, m[1])
	}
	for i := range Figures {
		all = append(all, Figures[i].Name)
	}
	slices.Sort(documented)
	slices.Sort(all)
	if !slices.Equal(documented, all) {
		t.Errorf("FIGURES.md has commands for %q, figures are %q", documented, all)
	}
}

// fakeRun is a run with a mean and a 99th percentile of v times the omniscient scheduler's.
func fakeRun(v float64) *bench.SimRun {
	r := &bench.SimRun{MessagesPerTask: v}
	r.ResponseMS.Mean, r.ResponseMS.P99 = 100*v, 100*v
	r.RatioOmniscient = &bench.Stats{Mean: v, P99: v}
	return r
}

func TestFigureData(t *testing.T) {
	d := &figureData{runs: map[figurePoint][]*bench.SimRun{}}
	for _, v := range []float64{100, 200, 400} {
		d.addRun("b", 2, fakeRun(v))
	}
	for i, v := range []float64{101, 204, 412} { // 1, 2 and 3 % more
		d.addRun("a", 2, fakeRun(v))
		if _, within := d.changeOf("a", "b", 2, messagesPerTask); (i == 0) != math.IsInf(within, 1) {
			t.Errorf("%d seeds: ± %g", i+1, within)
		}
	}
	d.addRun("a", 1, fakeRun(5))
	c, within := d.changeOf("a", "b", 2, messagesPerTask)
	if want := 4.303 * 0.01 / math.Sqrt(3); math.Abs(c-0.02) > 1e-9 || math.Abs(within-want) > 1e-9 {
		t.Errorf("%g ± %g, want 0.02 ± %g", c, within, want)
	}
	if got := d.ratioOf("a", 2, "b", 2, messagesPerTask); math.Abs(got-717.0/700) > 1e-9 {
		t.Errorf("%g times", got)
	}
	if !slices.Equal(d.xs, []float64{1, 2}) || !slices.Equal(d.lines, []string{"b", "a"}) {
		t.Errorf("%v, %v", d.xs, d.lines)
	}
	for range 20 {
		d.addRun("c", 3, fakeRun(1))
		d.addRun("e", 3, fakeRun(2))
	}
	if c, within := d.changeOf("e", "c", 3, messagesPerTask); math.Abs(c-1) > 1e-9 || within > 1e-9 {
		t.Errorf("%g ± %g", c, within)
	}
	if worst, at := d.worstRatio("e", "c", messagesPerTask); worst != 2 || at != 3 {
		t.Errorf("%g at %g", worst, at)
	}
	v := view{metric: messagesPerTask, base: "b"}
	if y, ok := d.viewValue(&v, "a", 2); !ok || math.Abs(y-2) > 1e-9 {
		t.Errorf("%g %t", y, ok)
	}
	if _, ok := d.viewValue(&v, "b", 2); ok {
		t.Error("a line is compared with itself")
	}
}

// listVerdicts returns a letter for each check: y if the check holds, or n.
func listVerdicts(checks []Check) (text string) {
	for _, c := range checks {
		text += map[bool]string{true: "y", false: "n"}[c.Holds]
	}
	return text
}

// The checks of a figure follow from its numbers.
func TestFiguresAreChecked(t *testing.T) {
	fake := func(f *Figure, at float64, values map[string]float64) []Check {
		d := &figureData{runs: map[figurePoint][]*bench.SimRun{}}
		for _, p := range f.parts(SmallScale)[0].sweep.Policies {
			for _, x := range []float64{0.5, at} {
				for seed := range 4 {
					v := 1 + values[p.Name]
					if x != at {
						v = 1
					}
					d.addRun(p.Name, x, fakeRun(v*(1+1e-4*float64(seed))))
				}
			}
		}
		return f.check(d)
	}
	late := mustFigure(t, "late-binding")
	for _, test := range []struct {
		late, batch float64
		want        string
	}{{0.04, 0.9, "yyy"}, {0.06, 0.9, "yny"}, {0.04, 0.5, "nyy"}} {
		got := listVerdicts(fake(late, 0.8, map[string]float64{"late-binding": test.late,
			"late-binding-no-cancel": test.late, "batch": test.batch}))
		if got != test.want {
			t.Errorf("%+v: %s", test, got)
		}
	}
	if got := listVerdicts(fake(late, 0.8, map[string]float64{"late-binding": 0.04, "batch": 0.9})); got != "yyn" {
		t.Error(got)
	}

	f := mustFigure(t, "additions-10ms")
	checks := fake(f, 0.9, map[string]float64{"phoebe-overlap": 0.1, "phoebe-share": -0.1, "phoebe-sticky": -0.005})
	for _, want := range []Check{
		{true, "overlap, in % without it: pays in mean response +10.0±0.0 at 0.9; p99 response +10.0±0.0 at 0.9; " +
			"messages per task +10.0±0.0 at 0.9."},
		{false, "share, in % without it: costs in mean response -10.0±0.0 at 0.9; p99 response -10.0±0.0 at 0.9; " +
			"messages per task -10.0±0.0 at 0.9."},
		{true, "sticky, in % without it: costs in mean response -0.5±0.0 at 0.9; p99 response -0.5±0.0 at 0.9; " +
			"messages per task -0.5±0.0 at 0.9."},
		{true, "resample, in % without it: no difference."},
	} {
		if !slices.Contains(checks, want) {
			t.Errorf("%+v is not in %+v", want, checks)
		}
	}
}

// Runs that do not depend on the axis are made once, and stand at every place.
func TestRunsEverywhere(t *testing.T) {
	setup := func(names ...string) Sweep { return newSweep(5, 20, "2", "fixed:10ms", 0, names...) }
	f := &Figure{Name: "x", locate: byPart, check: func(*figureData) []Check { return nil },
		parts: func(FigureScale) []part {
			return []part{{x: 1, sweep: setup("random")}, {x: 2, sweep: setup("random")},
				{sweep: setup("omniscient"), everywhere: true}}
		}}
	r, err := f.Run(t.Context(), FigureOptions{Seed: 1, Seeds: 1})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, p := range r.Points {
		got = append(got, fmt.Sprint(p.Line, " ", p.X))
	}
	if want := []string{"random 1", "random 2", "omniscient 1", "omniscient 2"}; !slices.Equal(got, want) ||
		r.Points[2].ResponseMS != r.Points[3].ResponseMS {
		t.Errorf("%q, want %q", got, want)
	}
}

// The checks on rivals follow from the numbers, seed by seed.
func TestRivalFiguresAreChecked(t *testing.T) {
	run := func(lastStart, busy float64) *bench.SimRun {
		r := &bench.SimRun{Kinds: map[string]*bench.SimGroup{}, Deciders: map[string]bench.SimDecider{}}
		for _, kind := range []string{"batch", "service"} {
			g := &bench.SimGroup{}
			g.LastStartMS.P90, g.LastStartMS.Mean = lastStart*1000, lastStart*1000
			r.Kinds[kind] = g
			r.Deciders[kind] = bench.SimDecider{Busy: busy}
		}
		return r
	}
	for _, test := range []struct {
		phoebe, priced float64 // time until the last start
		busy           float64
		want           string
	}{
		{0.01, 1, 0.1, "yyyyyyyyyyyy"}, // the last check is a bound, for information
		{0.2, 1, 0.1, "yyyynyyyyyyy"}, {0.01, 1.1, 0.1, "yyyyynnnnyyy"},
		{0.01, 1, 0.2, "yyyyyyyyynny"},
	} {
		d := &figureData{runs: map[figurePoint][]*bench.SimRun{}}
		for _, x := range []float64{0.1, 100} {
			for seed := range 3 {
				v := 1 + 1e-4*float64(seed)
				slow := 1.0
				if x == 100 {
					slow = 50
				}
				for _, line := range []string{"single-path", "multi-path", "two-level"} {
					d.addRun(line, x, run(slow*v, 0.1))
				}
				d.addRun("shared-state", x, run(v, 0.1*v))
				d.addRun("phoebe", x, run(test.phoebe, 0))
				d.addRun(pricedPhoebe, x, run(test.priced*v, test.busy*v))
			}
		}
		if got := listVerdicts(decisionFigure.check(d)); got != test.want {
			t.Errorf("%+v: %s", test, got)
		}
	}
}

func TestFigureReports(t *testing.T) {
	f := mustFigure(t, "additions-1ms")
	var all [2]string
	for i := range all {
		r, err := f.Run(t.Context(), FigureOptions{Jobs: 20, Seed: 7, Seeds: 2})
		if err != nil {
			t.Fatal(err)
		}
		for k := range r.Points {
			r.Points[k].WallS = 0
		}
		var text, page, doc bytes.Buffer
		for _, err := range []error{r.WriteText(&text), WriteFiguresHTML(&page, []*FigureResult{r}),
			WriteFiguresJSON(&doc, []*FigureResult{r})} {
			if err != nil {
				t.Fatal(err)
			}
		}
		for _, want := range []string{f.Title, f.Claim, "task-exp:1ms", "means of seeds 7 to 8", "phoebe-share",
			"0.95", r.Verdict() + "\n"} {
			if !strings.Contains(text.String(), want) {
				t.Errorf("no %q in\n%s", want, &text)
			}
		}
		if strings.Count(page.String(), "<svg viewBox=\"0 0 520") != len(f.views) {
			t.Errorf("%d plots", strings.Count(page.String(), "<svg viewBox=\"0 0 520"))
		}
		var back struct {
			Figures []struct {
				Name   string
				Holds  bool
				Points []struct {
					Line, Policy string
					X, Load      float64
					Seed         uint64
					Jobs         int
				}
			}
		}
		if err := json.Unmarshal(doc.Bytes(), &back); err != nil {
			t.Fatal(err)
		}
		if b := back.Figures[0]; b.Name != f.Name || b.Holds != r.Holds || len(b.Points) != len(r.Points) ||
			b.Points[1].Seed != 8 || b.Points[2].X != 0.3 || b.Points[2].Load != 0.3 ||
			b.Points[2].Policy != b.Points[2].Line || b.Points[0].Jobs != 16 ||
			r.Points[0].ResponseMS == r.Points[1].ResponseMS {
			t.Errorf("%+v", b)
		}
		all[i] = text.String() + page.String() + doc.String()
	}
	if all[0] != all[1] {
		t.Error("the same seed gave another output")
	}
}
