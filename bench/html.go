package bench

import (
	"cmp"
	"embed"
	"fmt"
	"html/template"
	"io"
	"maps"
	"math"
	"slices"
)

//go:embed *.html.tmpl
var templates embed.FS

var reports = template.Must(template.New("").Funcs(template.FuncMap{
	"number": number,
	"ratio":  func(a, b float64) string { return ratio(a, b) },
}).ParseFS(templates, "*.html.tmpl"))

// WriteHTML writes the document as one page that refers to nothing outside itself. Runs that were read back
// from JSON have no curves: those exist only where the run was recorded.
func WriteHTML(w io.Writer, doc *Document) error {
	return reports.ExecuteTemplate(w, "report.html.tmpl", page(doc))
}

// reportPage is what the template shows.
type reportPage struct {
	Doc      *Document
	Legend   []legendItem
	Phases   []legendItem
	Sections []section
	Loads    []loadSection
	Noop     grid
}

type legendItem struct{ Name, Class string }

// section is one workload at one load: all policies side by side.
type section struct {
	Title       string
	Responses   grid
	CDF         template.HTML
	PhasePlots  []namedPlot
	PhaseTable  grid
	Troubles    []string
	RunTimeMean string
}

// loadSection is one workload over all its loads.
type loadSection struct {
	Title string
	Plots []namedPlot
}

type namedPlot struct {
	Title string
	SVG   template.HTML
}

func page(doc *Document) reportPage {
	p := reportPage{Doc: doc}
	classes := make(map[string]string) // of policies, the same in every plot
	for _, r := range doc.Runs {
		if classes[r.Policy] == "" {
			class := fmt.Sprintf("c%d", len(classes)%8)
			classes[r.Policy] = class
			p.Legend = append(p.Legend, legendItem{r.Policy, class})
		}
	}
	if len(doc.Runs) > 0 {
		p.Legend = append(p.Legend, legendItem{"omniscient", "omni"})
	}
	for i, name := range phaseNames {
		if Phase(i) != PhaseFinished && slices.Contains(phasesOf(doc.Runs), name) {
			p.Phases = append(p.Phases, legendItem{name, fmt.Sprintf("p%d", i)})
		}
	}
	for _, group := range groupRuns(doc.Runs) {
		p.Sections = append(p.Sections, newSection(group, classes))
	}
	p.Loads = loadSections(doc.Runs, classes)
	if doc.Noop != nil {
		p.Noop = noopGrid(doc.Noop)
	}
	return p
}

func newSection(group []Run, classes map[string]string) section {
	s := section{
		Title:     fmt.Sprintf("%s, load %s, %d slots", group[0].Workload, number(group[0].Load), group[0].Slots),
		Responses: responseGrid(group),
	}
	var lines []series
	lo, hi, most := math.Inf(1), 0.0, 0.0
	add := func(name, class string, cdf []cdfPoint) {
		line := series{name: name, class: class}
		for _, p := range cdf {
			v := max(p.ms, 1e-3)
			lo, hi, most = min(lo, v), max(hi, v), max(most, p.share)
			line.points = append(line.points, [2]float64{v, p.share})
		}
		lines = append(lines, line)
	}
	add("omniscient", "omni", group[0].omniscientCDF)
	for _, r := range group {
		add(r.Policy, classes[r.Policy], r.responseCDF)
	}
	if hi > 0 {
		s.CDF = linePlot("Response by share of jobs, "+s.Title,
			logScale("response, ms (log)", lo, hi), ninesScale("share of jobs answered", most), lines)
	}

	for _, r := range group {
		if note := troubles(r); note != "" {
			s.Troubles = append(s.Troubles, r.Policy+": "+note)
		}
	}
	if table := phaseGrid(group); len(table) > 1 {
		s.PhaseTable = table
		s.PhasePlots = []namedPlot{
			{"Where a task's time goes outside its run", phasePlot(group, s.Title, PhaseFinished)},
			{"The same without the wait in a worker's queue", phasePlot(group, s.Title, PhaseFinished, PhaseReady)},
		}
		s.RunTimeMean = number(group[0].PhasesUS[PhaseFinished.String()].Mean)
	}
	return s
}

// phasePlot stacks the mean times of all phases but some, a bar for each run.
func phasePlot(group []Run, title string, without ...Phase) template.HTML {
	var bars []bar
	for _, r := range group {
		b := bar{name: r.Policy}
		for i, name := range phaseNames {
			if !slices.Contains(without, Phase(i)) {
				b.segments = append(b.segments, segment{name, fmt.Sprintf("p%d", i), r.PhasesUS[name].Mean})
			}
		}
		bars = append(bars, b)
	}
	return stackPlot("Mean times of a task by phase, "+title, "mean time per task, µs", bars)
}

// loadSections plots percentiles over the load, for workloads that ran at more than one.
func loadSections(runs []Run, classes map[string]string) []loadSection {
	type key struct {
		workload string
		slots    int
	}
	var keys []key
	byKey := make(map[key][]Run)
	for _, r := range runs {
		k := key{r.Workload, r.Slots}
		if byKey[k] == nil {
			keys = append(keys, k)
		}
		byKey[k] = append(byKey[k], r)
	}
	var sections []loadSection
	for _, k := range keys {
		runs := slices.Clone(byKey[k])
		slices.SortStableFunc(runs, func(a, b Run) int { return cmp.Compare(a.Load, b.Load) })
		if runs[0].Load == runs[len(runs)-1].Load {
			continue
		}
		s := loadSection{Title: fmt.Sprintf("%s, %d slots", k.workload, k.slots)}
		for _, pick := range []struct {
			title string
			of    func(Stats) float64
		}{
			{"Median", func(s Stats) float64 { return s.P50 }},
			{"99th percentile", func(s Stats) float64 { return s.P99 }},
			{"99.9th percentile", func(s Stats) float64 { return s.P999 }},
		} {
			s.Plots = append(s.Plots, namedPlot{pick.title, loadPlot(pick.title+" by load, "+s.Title, runs, pick.of, classes)})
		}
		sections = append(sections, s)
	}
	return sections
}

func loadPlot(title string, runs []Run, of func(Stats) float64, classes map[string]string) template.HTML {
	lines := map[string]*series{"": {name: "omniscient", class: "omni", marks: true}}
	lo, hi := math.Inf(1), 0.0
	add := func(policy string, load, v float64) {
		if v <= 0 {
			return
		}
		line := lines[policy]
		if line == nil {
			line = &series{name: policy, class: classes[policy], marks: true}
			lines[policy] = line
		}
		line.points = append(line.points, [2]float64{load, v})
		lo, hi = min(lo, v), max(hi, v)
	}
	seen := make(map[float64]bool)
	for _, r := range runs {
		if !seen[r.Load] { // the policies' omniscient responses differ by their measured durations only
			seen[r.Load] = true
			add("", r.Load, of(r.OmniscientMS))
		}
		add(r.Policy, r.Load, of(r.ResponseMS))
	}
	if hi == 0 {
		return ""
	}
	var ordered []series
	for _, policy := range slices.Sorted(maps.Keys(lines)) {
		ordered = append(ordered, *lines[policy])
	}
	first, last := runs[0].Load, runs[len(runs)-1].Load
	pad := (last - first) * 0.05
	return linePlot(title, linearScale("load (1 = all slots busy)", first-pad, last+pad),
		logScale("response, ms (log)", lo, hi), ordered)
}
