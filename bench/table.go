package bench

import (
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"

	"golang.org/x/term"
)

// WriteTable writes the document for a terminal: per workload and load a row for each policy, beside them the
// omniscient and the ideal response of the group's first run, then the phases, then the no-op figures.
func WriteTable(w io.Writer, doc *Document) error {
	var b strings.Builder
	for _, line := range doc.Meta.Settings {
		fmt.Fprintln(&b, line)
	}
	for i, group := range groupRuns(doc.Runs) {
		if i > 0 || len(doc.Meta.Settings) > 0 {
			b.WriteByte('\n')
		}
		fmt.Fprintf(&b, "%s, load %s, %d slots, response in ms\n", group[0].Workload, number(group[0].Load), group[0].Slots)
		responseGrid(group).write(&b)
		if grid := phaseGrid(group); len(grid) > 1 {
			b.WriteString("\nphases of a task, us: p50 / p99\n")
			grid.write(&b)
		}
		if grid := simulatedGrid(group); len(grid) > 1 {
			b.WriteString("\nthe same jobs simulated, response in ms, and how many times that was measured\n")
			grid.write(&b)
		}
		for _, run := range group {
			if line := troubles(run); line != "" {
				fmt.Fprintf(&b, "%s: %s\n", run.Policy, line)
			}
		}
	}
	if doc.Noop != nil {
		if len(doc.Runs) > 0 {
			b.WriteByte('\n')
		}
		noopGrid(doc.Noop).write(&b)
	}
	writeCut(&b, doc.CutShort)
	_, err := io.WriteString(w, b.String())
	return err
}

// writeCut ends a table that lacks something.
func writeCut(b *strings.Builder, why string) {
	if why != "" {
		fmt.Fprintf(b, "\ncut short: %s\n", why)
	}
}

// groupRuns puts runs of the same workload, load and slots together, in the order of their first.
func groupRuns(runs []Run) [][]Run {
	var groups [][]Run
	for _, run := range runs {
		i := slices.IndexFunc(groups, func(g []Run) bool {
			return g[0].Workload == run.Workload && g[0].Load == run.Load && g[0].Slots == run.Slots
		})
		if i < 0 {
			groups = append(groups, []Run{run})
		} else {
			groups[i] = append(groups[i], run)
		}
	}
	return groups
}

// grid is a table: the first row is the header, the first column is flush left, the others flush right.
type grid [][]string

func (g grid) write(b *strings.Builder) {
	var widths []int
	for _, row := range g {
		for i, cell := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	for _, row := range g {
		var line strings.Builder
		for i, cell := range row {
			pad := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
			if i == 0 {
				line.WriteString(cell + pad)
			} else {
				line.WriteString("  " + pad + cell)
			}
		}
		b.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
}

// responseGrid has a row per run of a group and two for reference.
func responseGrid(group []Run) grid {
	g := grid{{"policy", "jobs", "errors", "tasks/s", "mean", "p50", "p90", "p95", "p99", "p99.9", "max",
		"p50/ideal", "p99/ideal", "p50/omni", "p99/omni"}}
	times := func(s Stats) []string {
		cells := make([]string, 0, 7)
		for _, v := range []float64{s.Mean, s.P50, s.P90, s.P95, s.P99, s.P999, s.Max} {
			cells = append(cells, number(v))
		}
		return cells
	}
	for _, r := range group {
		row := append([]string{r.Policy, strconv.Itoa(r.Jobs), strconv.Itoa(r.Errors), number(r.AchievedTasksPerS)}, times(r.ResponseMS)...)
		g = append(g, append(row, number(r.Ratio.P50), number(r.Ratio.P99), number(r.RatioOmniscient.P50), number(r.RatioOmniscient.P99)))
	}
	first := group[0]
	versusIdeal := first.OmniscientMS.over(first.IdealMS)
	row := append([]string{"omniscient", "", "", number(first.OfferedTasksPerS)}, times(first.OmniscientMS)...)
	g = append(g, append(row, number(versusIdeal.P50), number(versusIdeal.P99)))
	return append(g, append([]string{"ideal", "", "", ""}, times(first.IdealMS)...))
}

// phaseGrid has a row per run and a column per phase.
func phaseGrid(group []Run) grid {
	names := phasesOf(group)
	g := grid{append([]string{"policy"}, names...)}
	for _, r := range group {
		if len(r.PhasesUS) == 0 {
			continue
		}
		row := []string{r.Policy}
		for _, name := range names {
			p, ok := r.PhasesUS[name]
			if !ok {
				row = append(row, "-")
				continue
			}
			row = append(row, number(p.P50)+" / "+number(p.P99))
		}
		g = append(g, row)
	}
	return g
}

// simulatedGrid has a row per run that was simulated, too.
func simulatedGrid(group []Run) grid {
	g := grid{{"policy", "messages", "mean", "p50", "p90", "p99", "mean/sim", "p50/sim", "p90/sim", "p99/sim"}}
	for _, r := range group {
		if s := r.Simulated; s != nil {
			g = append(g, []string{
				r.Policy, number(s.DelayUS) + " us", number(s.ResponseMS.Mean), number(s.ResponseMS.P50), number(s.ResponseMS.P90), number(s.ResponseMS.P99),
				number(s.Ratio.Mean), number(s.Ratio.P50), number(s.Ratio.P90), number(s.Ratio.P99),
			})
		}
	}
	return g
}

// phasesOf lists the phases that any of the runs has, in their order.
func phasesOf(runs []Run) []string {
	var names []string
	for _, name := range phaseNames {
		if slices.ContainsFunc(runs, func(r Run) bool { _, ok := r.PhasesUS[name]; return ok }) {
			names = append(names, name)
		}
	}
	return names
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// troubles says what else happened in a run, "" if nothing did.
func troubles(r Run) string {
	var parts []string
	if r.CutShortS > 0 {
		parts = append(parts, fmt.Sprintf("cut short after %s s that count, without the jobs that were under way", number(r.CutShortS)))
	}
	for _, reason := range sortedKeys(r.Refused) {
		parts = append(parts, fmt.Sprintf("%d refused (%s)", r.Refused[reason], reason))
	}
	if r.Retries > 0 {
		parts = append(parts, fmt.Sprintf("%d retries", r.Retries))
	}
	return strings.Join(parts, ", ")
}

func noopGrid(n *Noop) grid {
	return grid{
		{"no-op", "p50", "p99"},
		{"round trip of a one-task job, us", number(n.RTTUS.P50), number(n.RTTUS.P99)},
		{"floor: relayed echo, us", number(n.FloorUS.P50), number(n.FloorUS.P99)},
		{"times the floor", ratio(n.RTTUS.P50, n.FloorUS.P50), ratio(n.RTTUS.P99, n.FloorUS.P99)},
		{"tasks/s, 1 job in flight", number(n.TasksPerS1)},
		{"tasks/s, 16 jobs in flight", number(n.TasksPerS16)},
		{"CPU per task, us", number(n.CPUUSPerTask)},
	}
}

func ratio(a, b float64) string {
	if b == 0 {
		return "-"
	}
	return number(a / b)
}

// number writes v with three significant digits, and all digits before the point.
func number(v float64) string {
	switch a := max(v, -v); {
	case v == 0:
		return "0"
	case a >= 100:
		return strconv.FormatFloat(v, 'f', 0, 64)
	case a >= 10:
		return strconv.FormatFloat(v, 'f', 1, 64)
	case a >= 1:
		return strconv.FormatFloat(v, 'f', 2, 64)
	default:
		return strconv.FormatFloat(v, 'g', 3, 64)
	}
}

// Progress is a line that is written over as a benchmark goes on. It shows only where a person may be
// watching: elsewhere it writes nothing. Its methods may be called from many goroutines.
type Progress struct {
	mu    sync.Mutex
	out   io.Writer // nil: nobody watches
	width func() int
}

// NewProgress returns a progress line on f, normally os.Stderr.
func NewProgress(f *os.File) *Progress {
	fd := int(f.Fd())
	if !term.IsTerminal(fd) {
		return &Progress{}
	}
	return &Progress{out: f, width: func() int {
		if width, _, err := term.GetSize(fd); err == nil && width > 0 {
			return width
		}
		return 80
	}}
}

// Set replaces the line, cut to the terminal's width.
func (p *Progress) Set(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.out == nil {
		return
	}
	line := []rune(fmt.Sprintf(format, args...))
	// One column less than there are: a full line would wrap, and then it could not be written over.
	line = line[:min(len(line), max(0, p.width()-1))]
	fmt.Fprintf(p.out, "\r%s\x1b[K", string(line))
}

// Clear removes the line, so that other output starts on a clean one.
func (p *Progress) Clear() { p.Set("") }
