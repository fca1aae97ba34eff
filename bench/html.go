package bench

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
)

// WriteHTML writes the document as a page without references to the outside. Runs read back from JSON have no
// curves, because curves exist only in the process that recorded the run.
func WriteHTML(w io.Writer, doc *Document) error {
	p, m := newReportPage(doc), &markup{}
	m.begin("phoebe bench, "+doc.Meta.Date.Format("2006-01-02 15:04"), "phoebe bench")
	m.addf("<p><code>%s</code></p>\n", doc.Meta.Command)
	if doc.CutShort != "" {
		m.addf("<p class=\"note\"><b>Cut short</b>: %s</p>\n", doc.CutShort)
	}
	for _, warning := range doc.Warnings() {
		m.addf("<p class=\"warning\"><b>Warning</b>: %s</p>\n", warning)
	}
	m.addf("<dl>\n<dt>date</dt><dd>%s</dd>\n", doc.Meta.Date.Format("2006-01-02 15:04:05 MST"))
	for _, f := range p.Facts {
		m.addf("<dt>%s</dt><dd>%s</dd>\n", f.Name, f.Text)
	}
	m.WriteString("</dl>\n")
	if len(p.Sections) > 0 {
		m.WriteString(responsesNote)
	}
	for i := range p.Sections {
		m.addSection(&p, &p.Sections[i])
	}
	for _, s := range p.Loads {
		m.addf("<h2>Percentiles by load: %s</h2>\n", s.Title)
		m.addLegend(p.Legend, lineMark)
		m.addPlots(s.Plots)
	}
	if len(p.Compared) > 0 {
		m.WriteString("<h2>Two fleets</h2>\n")
		m.addParagraphs(p.ComparedNote)
		m.addTable(p.Compared)
	}
	if len(p.Noop) > 0 {
		m.WriteString("<h2>No-op jobs</h2>\n" + floorNote)
		m.addParagraphs(p.NoopNote)
		m.addTable(p.Noop)
	}
	m.end()
	_, err := io.WriteString(w, m.String())
	return err
}

// addSection adds the policies of a workload at a load.
func (m *markup) addSection(p *reportPage, s *section) {
	m.addf("<h2>%s</h2>\n<h3>Response, ms</h3>\n", s.Title)
	m.addParagraphs(s.Note)
	m.addTable(s.Responses)
	for _, trouble := range s.Troubles {
		m.addf("<p class=\"note\">%s</p>\n", trouble)
	}
	m.WriteString("<div class=\"plots\">\n")
	if s.CDF != "" {
		m.addFigure("Response by share of jobs", "up and to the left is better; every nine gets the same height",
			p.Legend, lineMark, s.CDF)
	}
	if len(s.PhasePlots) > 0 {
		m.WriteString("<div>\n")
		note, legend := "means over all tasks, which add up; the run itself takes "+s.RunTimeMean+" µs", p.Phases
		for _, plot := range s.PhasePlots {
			m.addFigure(plot.Title, note, legend, areaMark, plot.SVG)
			note, legend = "", nil // once
		}
		m.WriteString("</div>\n")
	}
	m.WriteString("</div>\n")
	if len(s.OverTime) > 0 {
		m.WriteString("<h3>Response over time</h3>\n" + overTimeNote)
		m.addLegend(p.Legend, lineMark)
		m.addPlots(s.OverTime)
	}
	if len(s.PhaseTable) > 0 {
		m.WriteString("<h3>Phases of a task, µs: p50 / p99</h3>\n")
		m.addTable(s.PhaseTable)
	}
}

// Texts of the page.
const (
	responsesNote = `<p>Responses run from a job's intended send time to its last result. <b>Ideal</b> is the job's
longest task, on an empty cluster. <b>Omniscient</b> is one central first-come queue that knows every slot and needs
no time to act, given the very arrivals and measured durations of the run: what lies up to it is the queueing that
the load makes, what lies beyond is the scheduler's doing. Ratios divide statistic by statistic.</p>
`
	overTimeNote = `<p>By when jobs were sent, 100 or more for each point where there are so many; run after run, as
they were made. Where a line drifts from the dashed one of the same jobs, the scheduler, or the machine, became
slower.</p>
`
	floorNote = `<p>The floor is a bare 128-byte TCP echo over loopback, relayed through one hop, taken in turns with
the round trips; for a cluster of processes, client, relay and echo are processes, too.</p>
`
)

// reportPage is what the page shows.
type reportPage struct {
	Facts        []fact
	Legend       []legendItem
	Phases       []legendItem
	Sections     []section
	Loads        []loadSection
	NoopNote     string
	Compared     grid
	ComparedNote string
	Noop         grid
}

type legendItem struct{ Name, Class string }

// section shows all policies for a workload at a load, side by side.
type section struct {
	Title, Note string
	Responses   grid
	CDF         svg
	OverTime    []namedPlot
	PhasePlots  []namedPlot
	PhaseTable  grid
	Troubles    []string
	RunTimeMean string
}

// loadSection shows a workload over all its loads.
type loadSection struct {
	Title string
	Plots []namedPlot
}

type namedPlot struct {
	Title string
	SVG   svg
}

func newReportPage(doc *Document) reportPage {
	p := reportPage{Facts: doc.listFacts(), Compared: comparisonGrid(doc.Comparisons),
		ComparedNote: comparisonNote}
	groups := groupRuns(doc.Runs)
	all := slices.Concat(groups...)
	classes := make(map[string]string) // of policies, the same in every plot
	for _, s := range all {
		if classes[s.label] == "" {
			class := fmt.Sprintf("c%d", len(classes)%8)
			classes[s.label] = class
			p.Legend = append(p.Legend, legendItem{s.label, class})
		}
	}
	if len(all) > 0 {
		p.Legend = append(p.Legend, legendItem{"omniscient", "omni"})
	}
	for i, name := range phaseNames {
		if Phase(i) != PhaseFinished && slices.Contains(phasesOf(all), name) {
			p.Phases = append(p.Phases, legendItem{name, fmt.Sprintf("p%d", i)})
		}
	}
	for _, group := range groups {
		p.Sections = append(p.Sections, newSection(group, classes))
	}
	p.Loads = loadSections(all, classes)
	if noop := summarizeNoop(doc.NoopRuns); len(noop) > 0 {
		p.Noop, p.NoopNote = noopGrid(noop), noop[0].boundsNote()
	}
	return p
}

// newSection builds the section of a group of summaries. classes has the style of each policy.
func newSection(group []Summary, classes map[string]string) section {
	s := section{Title: group[0].titleText(), Note: group[0].boundsNote(), Responses: responseGrid(group)}
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
	add("omniscient", "omni", medianCDF(group[0].runs, func(r *Run) []cdfPoint { return r.omniscientCDF }))
	for _, summary := range group {
		add(summary.label, classes[summary.label],
			medianCDF(summary.runs, func(r *Run) []cdfPoint { return r.responseCDF }))
	}
	if hi > 0 {
		s.CDF = linePlot("Response by share of jobs, "+s.Title,
			logScale("response, ms (log)", lo, hi), ninesScale("share of jobs answered", most), lines)
	}

	s.OverTime = overTimePlots(group, s.Title, classes)
	for _, summary := range group {
		if note := summary.describeTroubles(); note != "" {
			s.Troubles = append(s.Troubles, summary.label+": "+note)
		}
	}
	if table := phaseGrid(group); len(table) > 1 {
		s.PhaseTable = table
		s.PhasePlots = []namedPlot{
			{"Where a task's time goes outside its run", phasePlot(group, s.Title, PhaseFinished)},
			{"The same without the wait in a worker's queue", phasePlot(group, s.Title, PhaseFinished, PhaseReady)},
		}
		s.RunTimeMean = formatNumber(group[0].Median.PhasesUS[PhaseFinished.String()].Mean)
	}
	return s
}

// medianCDF returns the median of the repeats at each share. A share needs more than half of the repeats to have
// enough jobs for it.
func medianCDF(runs []Run, cdfOf func(*Run) []cdfPoint) []cdfPoint {
	var points []cdfPoint
	for i := 0; ; i++ {
		var ms []float64
		var share float64
		for k := range runs {
			if cdf := cdfOf(&runs[k]); i < len(cdf) {
				ms, share = append(ms, cdf[i].ms), cdf[i].share
			}
		}
		if len(ms) <= len(runs)/2 {
			return points
		}
		points = append(points, cdfPoint{spreadOf(ms).Median, share})
	}
}

// overTimePlots plots percentiles by the send time of jobs since the first run began. The runs of a group follow
// one another, each with the omniscient response to the same jobs.
func overTimePlots(group []Summary, title string, classes map[string]string) []namedPlot {
	var plots []namedPlot
	for _, pick := range []struct {
		title string
		value func(Moment) (response, omniscient float64)
	}{
		{"Median over time", func(m Moment) (float64, float64) { return m.P50MS, m.OmniscientP50MS }},
		{"99th percentile over time", func(m Moment) (float64, float64) { return m.P99MS, m.OmniscientP99MS }},
	} {
		var lines []series
		var x, y extent
		for _, s := range group {
			for _, r := range s.runs {
				response, omniscient := series{name: s.label, class: classes[s.label]},
					series{name: "omniscient", class: "omni"}
				for _, m := range r.OverTime {
					at := r.StartedS + m.AtS
					got, best := pick.value(m)
					response.points, omniscient.points = append(response.points, [2]float64{at, got}),
						append(omniscient.points, [2]float64{at, best})
					x.extendTo(at)
					y.extendTo(max(got, 1e-3))
					y.extendTo(max(best, 1e-3))
				}
				lines = append(lines, omniscient, response)
			}
		}
		if x.hasValues {
			plots = append(plots, namedPlot{pick.title, linePlot(pick.title+", "+title,
				linearScale("sent, s after the first run began", x.lo, x.hi),
				logScale("response, ms (log)", y.lo, y.hi), lines)})
		}
	}
	return plots
}

// phasePlot stacks the mean times of all phases except without: a bar for each run.
func phasePlot(group []Summary, title string, without ...Phase) svg {
	var bars []bar
	for _, s := range group {
		b := bar{name: s.label}
		for i, name := range phaseNames {
			if !slices.Contains(without, Phase(i)) {
				b.segments = append(b.segments, segment{name, fmt.Sprintf("p%d", i), s.Median.PhasesUS[name].Mean})
			}
		}
		bars = append(bars, b)
	}
	return stackPlot("Mean times of a task by phase, "+title, "mean time per task, µs", bars)
}

// loadSections plots percentiles over the load, for workloads with more than one load.
func loadSections(all []Summary, classes map[string]string) []loadSection {
	type key struct {
		workload string
		slots    int
	}
	var keys []key
	byKey := make(map[key][]Summary)
	for _, r := range all {
		k := key{r.Workload, r.Slots}
		if byKey[k] == nil {
			keys = append(keys, k)
		}
		byKey[k] = append(byKey[k], r)
	}
	var sections []loadSection
	for _, k := range keys {
		group := slices.Clone(byKey[k])
		slices.SortStableFunc(group, func(a, b Summary) int { return cmp.Compare(a.Load, b.Load) })
		if group[0].Load == group[len(group)-1].Load {
			continue
		}
		s := loadSection{Title: fmt.Sprintf("%s, %d slots", k.workload, k.slots)}
		for _, pick := range []struct {
			title string
			value func(Stats) float64
		}{
			{"Median", func(s Stats) float64 { return s.P50 }},
			{"99th percentile", func(s Stats) float64 { return s.P99 }},
			{"99.9th percentile", func(s Stats) float64 { return s.P999 }},
		} {
			s.Plots = append(s.Plots,
				namedPlot{pick.title, loadPlot(pick.title+" by load, "+s.Title, group, pick.value, classes)})
		}
		sections = append(sections, s)
	}
	return sections
}

func loadPlot(title string, group []Summary, statOf func(Stats) float64, classes map[string]string) svg {
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
	for _, s := range group {
		if !seen[s.Load] { // omniscient responses of policies differ only by measured durations
			seen[s.Load] = true
			add("", s.Load, statOf(s.Median.OmniscientMS))
		}
		add(s.label, s.Load, statOf(s.Median.ResponseMS))
	}
	if hi == 0 {
		return ""
	}
	var ordered []series
	for _, policy := range slices.Sorted(maps.Keys(lines)) {
		ordered = append(ordered, *lines[policy])
	}
	first, last := group[0].Load, group[len(group)-1].Load
	pad := (last - first) * 0.05
	return linePlot(title, linearScale("load (1 = all slots busy)", first-pad, last+pad),
		logScale("response, ms (log)", lo, hi), ordered)
}
