package sim

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"strings"
	"text/tabwriter"

	"github.com/phoebe-sched/phoebe/bench"
)

// Verdict says whether the claim holds.
func (r *FigureResult) Verdict() string {
	if r.Holds {
		return "holds"
	}
	return "does not hold"
}

// listParagraphs returns the text of a figure: claim, settings, checks and verdict.
func (r *FigureResult) listParagraphs() []string {
	text := append([]string{"Claim: " + r.Claim}, r.Settings...)
	for _, c := range r.Checks {
		mark := "yes: "
		if !c.Holds {
			mark = "no: "
		}
		text = append(text, mark+c.Text)
	}
	return append(text, fmt.Sprintf("%s: %s", r.Name, r.Verdict()))
}

// viewTable returns a view as a header, a row for each line, and a column for each value of the axis.
func (r *FigureResult) viewTable(v *view) [][]string {
	header := []string{v.title + ", by " + r.XLabel}
	for _, x := range r.data.xs {
		header = append(header, fmt.Sprintf("%.4g", x))
	}
	rows := [][]string{header}
	for _, line := range r.data.lines {
		if line == v.base {
			continue
		}
		row := []string{line}
		for _, x := range r.data.xs {
			cell := ""
			if y, ok := r.data.viewValue(v, line, x); ok && v.base != "" {
				cell = fmt.Sprintf("%+.1f", y)
			} else if ok && !math.IsNaN(y) {
				cell = fmt.Sprintf("%.4g", y)
			}
			row = append(row, cell)
		}
		rows = append(rows, row)
	}
	return rows
}

// WriteText writes the figure for a terminal.
func (r *FigureResult) WriteText(w io.Writer) error {
	var b strings.Builder
	text := r.listParagraphs()
	introCount := 1 + len(r.Settings)
	fmt.Fprintf(&b, "%s\n%s\n", r.Title, strings.Join(text[:introCount], "\n"))
	for i := range r.figure.views {
		fmt.Fprintln(&b)
		t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
		rows := r.viewTable(&r.figure.views[i])
		widest := 0
		for _, row := range rows {
			widest = max(widest, len([]rune(row[0])))
		}
		for _, row := range rows {
			fmt.Fprintf(t, "%-*s\t%s\t\n", widest, row[0], strings.Join(row[1:], "\t"))
		}
		if err := t.Flush(); err != nil {
			return err
		}
	}
	fmt.Fprintf(&b, "\n%s\n", strings.Join(text[introCount:], "\n"))
	_, err := io.WriteString(w, b.String())
	return err
}

// WriteFiguresHTML writes figures as a page with plots and tables.
func WriteFiguresHTML(w io.Writer, results []*FigureResult) error {
	page := &bench.Page{Title: "phoebe sim figure"}
	for _, r := range results {
		s := bench.PageSection{Title: r.Title, Text: r.listParagraphs()}
		for i := range r.figure.views {
			v := &r.figure.views[i]
			c := bench.Chart{Title: v.title, X: r.figure.axis, Y: bench.Axis{Label: v.title, Scale: v.scale}}
			for _, line := range r.data.lines {
				l := bench.Line{Name: line, Marks: true, Dashed: line == "omniscient"}
				for _, x := range r.data.xs {
					if y, ok := r.data.viewValue(v, line, x); ok && !math.IsNaN(y) {
						l.Points = append(l.Points, [2]float64{x, y})
					}
				}
				c.Lines = append(c.Lines, l)
			}
			s.Charts = append(s.Charts, c)
		}
		page.Sections = append(page.Sections, s)
		for i := range r.figure.views {
			page.Sections = append(page.Sections, bench.PageSection{Title: r.Title + ": the numbers",
				Table: r.viewTable(&r.figure.views[i])})
		}
	}
	return bench.WritePage(w, page)
}

// WriteFiguresJSON writes figures for programs, indented for people.
func WriteFiguresJSON(w io.Writer, results []*FigureResult) error {
	out := json.NewEncoder(w)
	out.SetIndent("", "  ")
	out.SetEscapeHTML(false)
	return out.Encode(struct {
		Figures []*FigureResult `json:"figures"`
	}{results})
}
