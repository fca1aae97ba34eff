package sim

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/phoebe-sched/phoebe/bench"
)

// Figure is a claim, with the runs that show whether the claim holds.
type Figure struct {
	Name, Title, Claim string // Claim is a sentence, or a few

	// axis is the horizontal axis: what varies.
	axis bench.Axis
	// views are plotted and printed, each over the axis with the figure's lines.
	views []view
	// seeds is the number of seeds at each scale. All runs are made once for each seed, with jobs of its own.
	seeds [FullScale + 1]int
	parts func(s FigureScale) []part
	// playSeed, if not nil, makes the runs of one seed, in place of parts and locate. setup describes the runs.
	playSeed func(o FigureOptions, seed uint64, add func(line string, x float64, r *bench.SimRun))
	setup    string
	// locate returns the line of a run, and its place on the axis.
	locate func(p *part, r *Result) (line string, x float64)
	// check returns which parts of the claim hold.
	check func(d *figureData) []Check
}

// FigureScale is the size of a figure's clusters, and the length of its runs.
type FigureScale uint8

// The scales: under a minute, and some minutes, on one core.
const (
	SmallScale FigureScale = iota
	FullScale
)

func (s FigureScale) String() string { return [...]string{"small", "full"}[s] }

// part is a sweep of a figure, at place x of the axis. The runs of a part everywhere do not depend on the axis: they
// are made once, and stand at every place of the other parts.
type part struct {
	x          float64
	sweep      Sweep
	everywhere bool
	// times multiplies FigureOptions.Jobs, because the part needs more jobs for as many jobs of a tenant; 0: 1.
	times float64
}

// view is one measurement over the axis of a figure.
type view struct {
	title  string
	scale  bench.Scale
	metric metric
	base   string // if not "": the line to compare with; the view shows the change from its metric, in %
}

// metric is one number of a run.
type metric func(r *bench.SimRun) float64

func meanResponse(r *bench.SimRun) float64    { return r.ResponseMS.Mean }
func p99Response(r *bench.SimRun) float64     { return r.ResponseMS.P99 }
func messagesPerTask(r *bench.SimRun) float64 { return r.MessagesPerTask }
func slotUtilisation(r *bench.SimRun) float64 { return r.Utilisation }

// overOmniscient is the mean response, divided by the omniscient response to the same jobs.
func overOmniscient(r *bench.SimRun) float64    { return r.RatioOmniscient.Mean }
func p99OverOmniscient(r *bench.SimRun) float64 { return r.RatioOmniscient.P99 }

// Check is a part of a claim, and the numbers that decide whether the part holds.
type Check struct {
	Holds bool   `json:"holds"`
	Text  string `json:"text"`
}

// newCheck makes a Check with a formatted text.
func newCheck(holds bool, format string, args ...any) Check {
	return Check{holds, fmt.Sprintf(format, args...)}
}

// FigureOptions says how to run a figure.
type FigureOptions struct {
	Scale FigureScale
	Jobs  int    // of each run, the first fifth to warm up; 0: as the figure says
	Seed  uint64 // of the first run of everything; the others follow
	Seeds int    // number of seeds; 0: as the figure says

	// Progress, if not nil, is called now and then with the share done, from 0 to 1, by one goroutine at a time.
	Progress func(share float64)
}

// FigureResult is the outcome of a figure. The outcome depends on the options only, except the wall times.
type FigureResult struct {
	Name     string        `json:"name"`
	Title    string        `json:"title"`
	Claim    string        `json:"claim"`
	Holds    bool          `json:"holds"`
	Checks   []Check       `json:"checks"`
	Scale    string        `json:"scale"`
	Settings []string      `json:"settings"`
	XLabel   string        `json:"x_label"`
	Points   []FigurePoint `json:"points"` // by line, then x, then seed, in the order of the figure

	figure *Figure
	data   *figureData
}

// FigurePoint is a run of a figure.
type FigurePoint struct {
	Line string  `json:"line"`
	X    float64 `json:"x"`
	Seed uint64  `json:"seed"`
	bench.SimRun
}

// FindFigure finds a figure by name.
func FindFigure(name string) (*Figure, error) {
	var names []string
	for i := range Figures {
		if Figures[i].Name == name {
			return &Figures[i], nil
		}
		names = append(names, Figures[i].Name)
	}
	return nil, fmt.Errorf("figure %q is unknown: use one of %s", name, strings.Join(names, ", "))
}

// Run makes the figure's runs, as many at a time as there are processors to use, and checks the figure's claim.
func (f *Figure) Run(ctx context.Context, o FigureOptions) (*FigureResult, error) {
	seeds := o.Seeds
	if seeds == 0 {
		seeds = f.seeds[o.Scale]
	}
	d := &figureData{runs: map[figurePoint][]*bench.SimRun{}}
	var settings []string
	var err error
	if f.playSeed != nil {
		settings, err = f.playAll(ctx, d, o, seeds)
	} else {
		settings, err = f.sweepAll(ctx, d, o, seeds)
	}
	if err != nil {
		return nil, err
	}
	res := &FigureResult{
		Name: f.Name, Title: f.Title, Claim: f.Claim, Scale: o.Scale.String(), XLabel: f.axis.Label, Holds: true,
		figure: f, data: d,
		Settings: settings,
	}
	for _, line := range d.lines {
		for _, x := range d.xs {
			for i, r := range d.runs[figurePoint{line, x}] {
				res.Points = append(res.Points, FigurePoint{line, x, o.Seed + uint64(i), *r})
			}
		}
	}
	res.Checks = f.check(d)
	for _, c := range res.Checks {
		res.Holds = res.Holds && c.Holds
	}
	return res, nil
}

// playAll makes the runs of a figure with playSeed, and returns the settings for people to read.
func (f *Figure) playAll(ctx context.Context, d *figureData, o FigureOptions, seeds int) ([]string, error) {
	for i := range seeds {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		f.playSeed(o, o.Seed+uint64(i), d.addRun)
		if o.Progress != nil {
			o.Progress(float64(i+1) / float64(seeds))
		}
	}
	return []string{f.setup + ", " + nameSeeds(o.Seed, seeds)}, nil
}

// sweepAll is playAll for a figure of sweeps.
func (f *Figure) sweepAll(ctx context.Context, d *figureData, o FigureOptions, seeds int) ([]string, error) {
	parts := f.parts(o.Scale)
	var settings []string
	for i := range seeds {
		for k := range parts {
			p := &parts[k]
			p.sweep.Seed = o.Seed + uint64(i)
			if o.Jobs > 0 {
				p.sweep.Jobs = int(float64(o.Jobs) * cmp.Or(p.times, 1))
			}
			p.sweep.WarmupJobs = p.sweep.Jobs / 5
			results, err := p.sweep.Run(ctx, func(share float64) {
				if o.Progress != nil {
					o.Progress((float64(i*len(parts)+k) + share) / float64(seeds*len(parts)))
				}
			})
			if err != nil {
				return nil, fmt.Errorf("%s, seed %d: %w", f.Name, p.sweep.Seed, err)
			}
			for _, r := range results {
				line, x := f.locate(p, r)
				if !p.everywhere {
					d.addRun(line, x, &r.SimRun)
					continue
				}
				for _, x := range axisOf(parts) {
					d.addRun(line, x, &r.SimRun)
				}
			}
			settings = appendNew(settings, results[0].Settings...)
		}
	}
	if len(settings) > 1 {
		settings = []string{settings[0] + ", and so on by " + f.axis.Label}
	}
	return append(settings, f.describeSweeps(parts, o.Seed, seeds)), nil
}

// axisOf returns the places of parts.
func axisOf(parts []part) (xs []float64) {
	for i := range parts {
		if !parts[i].everywhere && !slices.Contains(xs, parts[i].x) {
			xs = append(xs, parts[i].x)
		}
	}
	return xs
}

// nameSeeds names the seeds of runs.
func nameSeeds(seed uint64, seeds int) string {
	if seeds == 1 {
		return fmt.Sprintf("seed %d", seed)
	}
	return fmt.Sprintf("means of seeds %d to %d", seed, seed+uint64(seeds)-1)
}

// appendNew appends the strings that all does not have yet.
func appendNew(all []string, more ...string) []string {
	for _, s := range more {
		if !slices.Contains(all, s) {
			all = append(all, s)
		}
	}
	return all
}

// describeSweeps describes the settings of the sweeps; where settings differ, all values.
func (f *Figure) describeSweeps(parts []part, seed uint64, seeds int) string {
	values := func(valueOf func(s *Sweep) any) string {
		var all []string
		for i := range parts {
			all = appendNew(all, fmt.Sprint(valueOf(&parts[i].sweep)))
		}
		return strings.Join(all, " / ")
	}
	text := fmt.Sprintf("%s workers of %s slots, worker speeds %s, %s frontends, messages take %s, estimates %s, %s "+
		"jobs a run",
		values(func(s *Sweep) any { return s.Workers }), values(func(s *Sweep) any { return s.Slots }),
		values(func(s *Sweep) any { return s.Speeds }),
		values(func(s *Sweep) any { return s.Frontends }), values(func(s *Sweep) any { return s.Delay }),
		values(func(s *Sweep) any { return s.Estimates }), values(func(s *Sweep) any { return s.Jobs }))
	if slices.ContainsFunc(parts[0].sweep.Policies, func(p Policy) bool { return p.rival != nil && p.rival.pays }) &&
		parts[0].sweep.DecisionCost > 0 {
		text += ", centralized takes " + values(func(s *Sweep) any { return s.DecisionCost }) + " for each task"
	}
	if slices.ContainsFunc(parts[0].sweep.Policies, func(p Policy) bool { return p.Name == "eagle" }) {
		text += ", eagle keeps " + values(func(s *Sweep) any { return s.Reserved }) + " of the workers for short jobs"
	}
	if slices.ContainsFunc(parts, func(p part) bool { return len(p.sweep.Think) > 0 }) {
		text += ", decisions for each job and each task " + values(func(s *Sweep) any {
			var all []string
			for _, t := range s.Think {
				all = append(all, t.String())
			}
			return cmp.Or(strings.Join(all, ", "), "none")
		})
	}
	if slices.ContainsFunc(parts, func(p part) bool { return p.sweep.LocalityWait > 0 }) {
		text += ", jobs wait for their data " + values(func(s *Sweep) any { return s.LocalityWait })
	}
	if slices.ContainsFunc(parts, func(p part) bool { return p.sweep.Gossip.Period != 0 }) {
		text += ", heartbeats every " + values(func(s *Sweep) any { return s.Gossip.Period })
	}
	if slices.ContainsFunc(parts, func(p part) bool { return p.sweep.Input != 0 }) {
		text += fmt.Sprintf(", %s racks, inputs with %s copies", values(func(s *Sweep) any { return s.Racks }),
			values(func(s *Sweep) any { return s.Copies }))
	}
	return text + ", " + nameSeeds(seed, seeds)
}

// figurePoint is a place in a figure.
type figurePoint struct {
	line string
	x    float64
}

// figureData holds the runs of a figure: at each place a run for each seed.
type figureData struct {
	lines []string
	xs    []float64
	runs  map[figurePoint][]*bench.SimRun
}

// addRun adds a run at place x of a line. Runs of one place must come in the order of seeds.
func (d *figureData) addRun(line string, x float64, r *bench.SimRun) {
	if !slices.Contains(d.lines, line) {
		d.lines = append(d.lines, line)
	}
	if i, ok := slices.BinarySearch(d.xs, x); !ok {
		d.xs = slices.Insert(d.xs, i, x)
	}
	at := figurePoint{line, x}
	d.runs[at] = append(d.runs[at], r)
}

// meanOf returns the mean of a metric over the seeds; NaN where nothing was run.
func (d *figureData) meanOf(line string, x float64, m metric) float64 {
	runs := d.runs[figurePoint{line, x}]
	sum := 0.0
	for _, r := range runs {
		sum += m(r)
	}
	return sum / float64(len(runs))
}

// ratioOf returns the mean of a metric at one place, divided by the mean at another place.
func (d *figureData) ratioOf(line string, x float64, other string, y float64, m metric) float64 {
	return d.meanOf(line, x, m) / d.meanOf(other, y, m)
}

// changeOf returns the relative change of a metric on line against base, as the mean over the seeds. within is
// half of the 95 % confidence interval, +Inf with one seed. Runs of one seed have the same jobs, so their effect
// cancels out.
func (d *figureData) changeOf(line, base string, x float64, m metric) (mean, within float64) {
	a, b := d.runs[figurePoint{line, x}], d.runs[figurePoint{base, x}]
	n := float64(len(a))
	for i := range a {
		mean += (m(a[i])/m(b[i]) - 1) / n
	}
	if len(a) < 2 {
		return mean, math.Inf(1)
	}
	squares := 0.0
	for i := range a {
		squares += math.Pow(m(a[i])/m(b[i])-1-mean, 2)
	}
	return mean, student[min(len(a), len(student)+1)-2] * math.Sqrt(squares/(n-1)/n)
}

// student holds 97.5 % quantiles of Student's t, from 2 samples on.
var student = [...]float64{12.71, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201}

// viewValue returns the value of a view at a place; false if there is nothing to show.
func (d *figureData) viewValue(v *view, line string, x float64) (float64, bool) {
	if len(d.runs[figurePoint{line, x}]) == 0 {
		return 0, false
	}
	if v.base == "" {
		return d.meanOf(line, x, v.metric), true
	}
	if line == v.base {
		return 0, false
	}
	c, _ := d.changeOf(line, v.base, x, v.metric)
	return 100 * c, true
}
