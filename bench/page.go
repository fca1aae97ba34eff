package bench

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
)

// Page is a report of sections with text, a table and plots.
type Page struct {
	Title    string
	Text     []string // paragraphs
	Sections []PageSection
}

// PageSection is a part of a Page. Each field may be empty.
type PageSection struct {
	Title  string
	Text   []string
	Table  [][]string // the first row is the header
	Charts []Chart
}

// Chart is a plot of lines over two axes.
type Chart struct {
	Title, Note string
	X, Y        Axis
	Lines       []Line
}

// Axis is an axis of a Chart.
type Axis struct {
	Label string
	Scale Scale
}

// Scale places values along an axis.
type Scale uint8

// The scales. Nines are for shares: 90 %, 99 % and 99.9 % lie equally far apart.
const (
	Linear Scale = iota
	Log          // for values above 0; all other values are left out
	Nines
)

// Line is a line of a Chart. On a Page, lines of the same name have the same colour.
type Line struct {
	Name   string
	Dashed bool // a reference, not a contender
	Points [][2]float64
	Marks  bool // every point gets a dot with its values
}

// WritePage writes p as an HTML file without references to the outside.
func WritePage(w io.Writer, p *Page) error {
	m, colours := &markup{}, map[string]string{}
	m.begin(p.Title, p.Title)
	m.addParagraphs(p.Text...)
	for _, s := range p.Sections {
		m.addf("<h2>%s</h2>\n", s.Title)
		m.addParagraphs(s.Text...)
		if len(s.Table) > 0 {
			m.addTable(s.Table)
		}
		m.WriteString("<div class=\"plots\">\n")
		for i := range s.Charts {
			c := &s.Charts[i]
			if drawing, legend := c.drawPlot(s.Title, colours); len(legend) > 0 {
				m.addFigure(c.Title, c.Note, legend, lineMark, drawing)
			}
		}
		m.WriteString("</div>\n")
	}
	m.end()
	_, err := io.WriteString(w, m.String())
	return err
}

// drawPlot returns the plot and a legend of its lines. If no point can be shown, there are no lines.
func (c *Chart) drawPlot(section string, colours map[string]string) (svg, []legendItem) {
	var lines []series
	var legend []legendItem
	var x, y extent
	for _, l := range c.Lines {
		line := series{name: l.Name, class: "omni", marks: l.Marks}
		if !l.Dashed {
			if colours[l.Name] == "" {
				colours[l.Name] = fmt.Sprintf("c%d", len(colours)%8)
			}
			line.class = colours[l.Name]
		}
		for _, p := range l.Points {
			if c.X.Scale == Log && !(p[0] > 0) || c.Y.Scale == Log && !(p[1] > 0) || math.IsInf(p[0], 0) ||
				math.IsInf(p[1], 0) {
				continue
			}
			line.points = append(line.points, p)
			x.extendTo(p[0])
			y.extendTo(p[1])
		}
		if len(line.points) > 0 {
			lines = append(lines, line)
			legend = append(legend, legendItem{line.name, line.class})
		}
	}
	if len(lines) == 0 {
		return "", nil
	}
	return linePlot(c.Title+", "+section, c.X.newScale(x, true), c.Y.newScale(y, false), lines), legend
}

// extent is the range of some values.
type extent struct {
	lo, hi    float64
	hasValues bool
}

func (e *extent) extendTo(v float64) {
	if !e.hasValues {
		e.lo, e.hi, e.hasValues = v, v, true
	}
	e.lo, e.hi = min(e.lo, v), max(e.hi, v)
}

func (a *Axis) newScale(e extent, pad bool) scale {
	switch a.Scale {
	case Log:
		return logScale(a.Label, e.lo, e.hi)
	case Nines:
		return ninesScale(a.Label, e.hi)
	}
	if !pad {
		return linearScale(a.Label, min(0, e.lo), e.hi+(e.hi-min(0, e.lo))*0.05)
	}
	space := (e.hi - e.lo) * 0.05
	return linearScale(a.Label, e.lo-space, e.hi+space)
}

// WriteSimHTML writes the document as a page with tables and plots. Runs read back from JSON have no curves.
func WriteSimHTML(w io.Writer, doc *SimDocument) error {
	page := &Page{Title: "phoebe sim", Text: append(slices.Clone(doc.Settings),
		"Response: from a job's arrival at a frontend until that has the last result. Ideal: the job's longest task. "+
			"Slowdown: response over ideal, by statistic. Wait: from a job's arrival to the start of each task.")}
	if doc.CutShort != "" {
		page.Text = slices.Insert(page.Text, 0, "Cut short: "+doc.CutShort)
	}
	for _, group := range groupSimRuns(doc.Runs) {
		rows := simGrid(group)
		header := make([]string, len(rows[0]))
		heading := ""
		for i := range header {
			heading = cmp.Or(rows[0][i], heading)
			header[i] = heading + " " + rows[1][i]
		}
		header[0] = rows[1][0]
		header[len(header)-1] = rows[1][len(header)-1]
		s := PageSection{Title: simTitle(&group[0]), Table: append([][]string{header}, rows[2:]...)}
		cdf := Chart{
			Title: "Response by share of jobs", Note: "up and to the left is better; every nine gets the same height",
			X: Axis{"response, ms (log)", Log}, Y: Axis{"share of jobs answered", Nines},
			Lines: []Line{{Name: "ideal", Dashed: true, Points: plotPoints(group[0].idealCDF)}},
		}
		for i := range group {
			if line := group[i].describeCut(); line != "" {
				s.Text = append(s.Text, line)
			}
			cdf.Lines = append(cdf.Lines, Line{Name: group[i].Policy, Points: plotPoints(group[i].responseCDF)})
		}
		s.Charts = []Chart{cdf}
		page.Sections = append(page.Sections, s)
	}
	page.Sections = append(page.Sections, simSweep(doc.Runs, "load", "probe ratio",
		func(r *SimRun) float64 { return r.Load }, func(r *SimRun) float64 { return r.ProbeRatio })...)
	page.Sections = append(page.Sections, simSweep(doc.Runs, "probe ratio", "load",
		func(r *SimRun) float64 { return r.ProbeRatio }, func(r *SimRun) float64 { return r.Load })...)
	return WritePage(w, page)
}

func plotPoints(cdf []cdfPoint) [][2]float64 {
	var ps [][2]float64
	for _, p := range cdf {
		ps = append(ps, [2]float64{max(p.ms, 1e-3), p.share})
	}
	return ps
}

// simSweep plots figures over x, a plot for each value of the setting fixedValue. Values of fixedValue with a
// single x get no plot.
func simSweep(runs []SimRun, name, fixedName string, x, fixedValue func(*SimRun) float64) []PageSection {
	var sections []PageSection
	var values []float64
	for i := range runs {
		if v := fixedValue(&runs[i]); !slices.Contains(values, v) {
			values = append(values, v)
		}
	}
	for _, value := range values {
		s := PageSection{Title: fmt.Sprintf("By %s, at %s %.4g", name, fixedName, value)}
		several := false
		for _, pick := range []struct {
			title string
			value func(*SimRun) float64
		}{
			{"Slowdown, mean", func(r *SimRun) float64 { return r.Ratio.Mean }},
			{"Slowdown, median", func(r *SimRun) float64 { return r.Ratio.P50 }},
			{"Slowdown, 99th percentile", func(r *SimRun) float64 { return r.Ratio.P99 }},
			{"Wait of a task, mean, ms", func(r *SimRun) float64 { return r.WaitMS.Mean }},
		} {
			c := Chart{Title: pick.title, X: Axis{Label: name}, Y: Axis{pick.title + " (log)", Log}}
			for i := range runs {
				r := &runs[i]
				if fixedValue(r) != value {
					continue
				}
				k := slices.IndexFunc(c.Lines, func(l Line) bool { return l.Name == r.Policy })
				if k < 0 {
					k = len(c.Lines)
					c.Lines = append(c.Lines, Line{Name: r.Policy, Marks: true})
				}
				c.Lines[k].Points = append(c.Lines[k].Points, [2]float64{x(r), pick.value(r)})
			}
			for _, l := range c.Lines {
				slices.SortFunc(l.Points, func(a, b [2]float64) int { return cmp.Compare(a[0], b[0]) })
				several = several || len(l.Points) > 1
			}
			s.Charts = append(s.Charts, c)
		}
		if several {
			sections = append(sections, s)
		}
	}
	return sections
}
