package bench

import (
	_ "embed"
	"fmt"
	"html"
	"strings"
)

//go:embed report.css
var reportStyle string

// svg is a drawing that is already escaped.
type svg string

// markup builds an HTML page. html/template would do the same. But it finds methods by names that are known only at
// run time, and a program with such a search keeps every method of every type: 16 MiB of phoebe.
type markup struct{ strings.Builder }

// addf adds HTML by a format of package fmt. Text arguments are escaped, drawings are not.
func (m *markup) addf(format string, args ...any) {
	for i, arg := range args {
		if text, ok := arg.(string); ok {
			args[i] = html.EscapeString(text)
		}
	}
	fmt.Fprintf(m, format, args...)
}

// begin adds everything before the first section of a page.
func (m *markup) begin(title, heading string) {
	m.addf("<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"+
		"<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>%s</title>\n<style>\n", title)
	m.WriteString(reportStyle)
	m.addf("</style>\n</head>\n<body>\n<h1>%s</h1>\n", heading)
}

func (m *markup) end() { m.WriteString("</body>\n</html>\n") }

// addParagraphs adds each text that is not empty as a paragraph.
func (m *markup) addParagraphs(texts ...string) {
	for _, text := range texts {
		if text != "" {
			m.addf("<p>%s</p>\n", text)
		}
	}
}

// addTable adds a table. The first row is the header. A row that begins with two spaces is a detail of the row above.
func (m *markup) addTable(rows [][]string) {
	m.WriteString("<div class=\"scroll\"><table>\n")
	for i, row := range rows {
		begin, cell, end := "<tr>", "td", "</tr>\n"
		switch {
		case i == 0:
			begin, cell, end = "<thead><tr>", "th", "</tr></thead><tbody>\n"
		case strings.HasPrefix(row[0], "  "):
			begin = `<tr class="detail">`
		}
		m.WriteString(begin)
		for _, text := range row {
			m.addf("<"+cell+">%s</"+cell+">", text)
		}
		m.WriteString(end)
	}
	m.WriteString("</tbody></table></div>\n")
}

// addLegend adds the names of lines or areas. mark is the sample of an item, a format with the item's class.
func (m *markup) addLegend(items []legendItem, mark string) {
	m.WriteString("<ul class=\"legend\">\n")
	for _, item := range items {
		m.addf(`<li><svg viewBox="0 0 26 12" aria-hidden="true">`+mark+"</svg>%s</li>\n", item.Class, item.Name)
	}
	m.WriteString("</ul>\n")
}

// The marks of legends.
const (
	lineMark = `<path class="line %s" d="M0 6h26"/>`
	areaMark = `<rect class="%s" x="7" width="12" height="12"/>`
)

// addFigure adds a drawing below its title. note and legend may be empty.
func (m *markup) addFigure(title, note string, legend []legendItem, mark string, drawing svg) {
	m.addf("<figure><figcaption>%s", title)
	if note != "" {
		m.addf(" <small>%s</small>", note)
	}
	m.WriteString("</figcaption>\n")
	if len(legend) > 0 {
		m.addLegend(legend, mark)
	}
	m.addf("%s</figure>\n", drawing)
}

// addPlots adds drawings side by side.
func (m *markup) addPlots(plots []namedPlot) {
	m.WriteString("<div class=\"plots\">\n")
	for _, plot := range plots {
		m.addFigure(plot.Title, "", nil, "", plot.SVG)
	}
	m.WriteString("</div>\n")
}
