package bench

import (
	"cmp"
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

// WriteTable writes the document for a terminal. First comes the origin of the numbers. Then each workload and load
// has a row for each policy, with the omniscient and the ideal response of the group's first policy. The phases and
// the no-op figures follow.
func WriteTable(w io.Writer, doc *Document) error {
	var b strings.Builder
	for _, f := range doc.listFacts() {
		fmt.Fprintf(&b, "%-9s %s\n", f.Name, f.Text)
	}
	for _, group := range groupRuns(doc.Runs) {
		fmt.Fprintf(&b, "\n%s, response in ms\n", group[0].titleText())
		if note := group[0].boundsNote(); note != "" {
			fmt.Fprintln(&b, note)
		}
		responseGrid(group).writeText(&b)
		if grid := phaseGrid(group); len(grid) > 1 {
			b.WriteString("\nphases of a task, us: p50 / p99\n")
			grid.writeText(&b)
		}
		if grid := simulatedGrid(group); len(grid) > 1 {
			b.WriteString("\nthe same jobs simulated, response in ms, and how many times that was measured\n")
			grid.writeText(&b)
		}
		for _, s := range group {
			if line := s.describeTroubles(); line != "" {
				fmt.Fprintf(&b, "%s: %s\n", s.label, line)
			}
		}
	}
	if len(doc.Comparisons) > 0 {
		fmt.Fprintf(&b, "\n%s\n", comparisonNote)
		comparisonGrid(doc.Comparisons).writeText(&b)
	}
	if noop := summarizeNoop(doc.NoopRuns); len(noop) > 0 {
		b.WriteByte('\n')
		if note := noop[0].boundsNote(); note != "" {
			fmt.Fprintln(&b, note)
		}
		noopGrid(noop).writeText(&b)
	}
	for i, check := range doc.Checks {
		if i == 0 {
			b.WriteByte('\n')
		}
		fmt.Fprintln(&b, "check:", check)
	}
	for i, warning := range doc.Warnings() {
		if i == 0 {
			b.WriteByte('\n')
		}
		fmt.Fprintln(&b, "warning:", warning)
	}
	writeCut(&b, doc.CutShort)
	_, err := io.WriteString(w, b.String())
	return err
}

// writeCut ends the table of a document that was cut short.
func writeCut(b *strings.Builder, why string) {
	if why != "" {
		fmt.Fprintf(b, "\ncut short: %s\n", why)
	}
}

// fact is a fact about the origin of the numbers.
type fact struct{ Name, Text string }

func (d *Document) listFacts() []fact {
	var facts []fact
	add := func(name, format string, args ...any) {
		facts = append(facts, fact{name, fmt.Sprintf(format, args...)})
	}
	m := &d.Meta
	if m.Version != "" || m.Commit != "" {
		add("phoebe", "%s",
			strings.Join(slices.DeleteFunc([]string{m.Version, m.nameCommit(), m.Go},
				func(s string) bool { return s == "" }), ", "))
	}
	if m.Machine.CPUs > 0 {
		add("machine", "%d x %s, %s/%s, kernel %s, GOMAXPROCS %d", m.Machine.CPUs, cmp.Or(m.Machine.CPU, "unknown CPU"),
			m.Machine.OS, m.Machine.Arch, cmp.Or(m.Machine.Kernel, "unknown"), m.Machine.GOMAXPROCS)
	}
	if use := d.CPU(); use.Seconds > 0 {
		add("CPUs", "of %d, this benchmark used %.2f, others %.2f (%.2f before it), the host %.2f", m.Machine.CPUs,
			use.Own, use.Others, m.CPUBefore.Others, use.Stolen)
		add("", "pressure: %.1f %% of the time something waited for a CPU; load average %.2f before, %.2f after",
			100*use.Pressure, m.LoadBefore, m.LoadAfter)
	}
	if seeds := d.listSeeds(); seeds != "" {
		add("seeds", "%s", seeds)
	}
	for i, line := range m.Settings {
		add([]string{"settings", ""}[min(i, 1)], "%s", line)
	}
	return facts
}

// listSeeds lists the seeds of the repeats.
func (d *Document) listSeeds() string {
	var seeds []string
	for _, r := range d.Runs {
		if seed := strconv.FormatUint(r.Seed, 10); !slices.Contains(seeds, seed) {
			seeds = append(seeds, seed)
		}
	}
	return strings.Join(seeds, ", ")
}

func (s *Summary) titleText() string {
	return fmt.Sprintf("%s, load %s, %d slots", s.Workload, formatNumber(s.Load), s.Slots)
}

// groupRuns groups the summaries of runs by workload, load and slots, in the order of their first.
func groupRuns(runs []Run) [][]Summary {
	var groups [][]Summary
	for _, s := range summarizeRuns(runs) {
		i := slices.IndexFunc(groups, func(g []Summary) bool {
			return g[0].Workload == s.Workload && g[0].Load == s.Load && g[0].Slots == s.Slots
		})
		if i < 0 {
			groups = append(groups, []Summary{s})
		} else {
			groups[i] = append(groups[i], s)
		}
	}
	return groups
}

// grid is a table. The first row is the header. The first column is flush left, all other columns flush right.
type grid [][]string

func (g grid) writeText(b *strings.Builder) {
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

// responseGrid has a row for each summary of a group, two rows of bounds for repeated runs, and two rows for
// reference.
func responseGrid(group []Summary) grid {
	g := grid{{"policy", "jobs", "errors", "tasks/s", "mean", "p50", "p90", "p95", "p99", "p99.9", "max",
		"p50/ideal", "p99/ideal", "p50/omni", "p99/omni"}}
	row := func(name, jobs, errors string, rate float64, times Stats, ratios ...float64) {
		cells := []string{name, jobs, errors, formatNumber(rate)}
		for _, v := range append([]float64{times.Mean, times.P50, times.P90, times.P95, times.P99, times.P999,
			times.Max}, ratios...) {
			cells = append(cells, formatNumber(v))
		}
		g = append(g, cells)
	}
	figures := func(name, jobs, errors string, f *Figures) {
		row(name, jobs, errors, f.AchievedTasksPerS, f.ResponseMS, f.Ratio.P50, f.Ratio.P99, f.RatioOmniscient.P50,
			f.RatioOmniscient.P99)
	}
	for i := range group {
		s := &group[i]
		figures(s.label, strconv.Itoa(s.Jobs), strconv.Itoa(s.Errors), &s.Median)
		if s.Repeats > 1 {
			figures("  from", "", "", &s.Low)
			figures("  to", "", "", &s.High)
		}
	}
	first := &group[0].Median
	versusIdeal := first.OmniscientMS.dividedBy(first.IdealMS)
	row("omniscient", "", "", first.OfferedTasksPerS, first.OmniscientMS, versusIdeal.P50, versusIdeal.P99)
	row("ideal", "", "", 0, first.IdealMS)
	g[len(g)-1][3] = ""
	return g
}

// phaseGrid has a row for each summary of a group, and a column per phase.
func phaseGrid(group []Summary) grid {
	names := phasesOf(group)
	g := grid{append([]string{"policy"}, names...)}
	for _, s := range group {
		if len(s.Median.PhasesUS) == 0 {
			continue
		}
		row := []string{s.label}
		for _, name := range names {
			p, ok := s.Median.PhasesUS[name]
			if !ok {
				row = append(row, "-")
				continue
			}
			row = append(row, formatNumber(p.P50)+" / "+formatNumber(p.P99))
		}
		g = append(g, row)
	}
	return g
}

// simulatedGrid has a row for each summary with a simulation, and two rows of bounds for repeated runs.
func simulatedGrid(group []Summary) grid {
	g := grid{{"policy", "messages", "mean", "p50", "p90", "p99", "mean/sim", "p50/sim", "p90/sim", "p99/sim"}}
	row := func(name string, s *Simulated) {
		g = append(g, []string{
			name, formatNumber(s.DelayUS) + " us", formatNumber(s.ResponseMS.Mean), formatNumber(s.ResponseMS.P50),
			formatNumber(s.ResponseMS.P90), formatNumber(s.ResponseMS.P99),
			formatNumber(s.Ratio.Mean), formatNumber(s.Ratio.P50), formatNumber(s.Ratio.P90), formatNumber(s.Ratio.P99),
		})
	}
	for i := range group {
		s := &group[i]
		if s.Median.Simulated == nil {
			continue
		}
		row(s.label, s.Median.Simulated)
		if s.Repeats > 1 {
			row("  from", s.Low.Simulated)
			row("  to", s.High.Simulated)
		}
	}
	return g
}

// phasesOf lists the phases of a group in order.
func phasesOf(group []Summary) []string {
	var names []string
	for _, name := range phaseNames {
		if slices.ContainsFunc(group, func(s Summary) bool { _, ok := s.Median.PhasesUS[name]; return ok }) {
			names = append(names, name)
		}
	}
	return names
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// describeTroubles describes cuts, refusals, retries and copies, or returns "".
func (s *Summary) describeTroubles() string {
	var parts []string
	for _, r := range s.runs {
		if r.CutShortS > 0 {
			parts = append(parts,
				fmt.Sprintf("cut short after %s s that count, without the jobs that were under way",
					formatNumber(r.CutShortS)))
		}
	}
	for _, reason := range sortedKeys(s.Refused) {
		parts = append(parts, fmt.Sprintf("%d refused (%s)", s.Refused[reason], reason))
	}
	for _, cause := range sortedKeys(s.Retried) {
		parts = append(parts, fmt.Sprintf("%d retried (%s)", s.Retried[cause], cause))
	}
	if s.Copies > 0 {
		parts = append(parts, fmt.Sprintf("%d copies", s.Copies))
	}
	return strings.Join(parts, ", ")
}

// noopGrid has a column for each cluster, and two columns of bounds for repeated runs.
func noopGrid(clusters []NoopSummary) grid {
	g := grid{
		{"no-op"},
		{"round trip, one task, us: p50"},
		{"  p99"},
		{"floor, a relayed echo, us: p50"},
		{"  p99"},
		{"times the floor: p50"},
		{"  p99"},
		{"tasks/s, 1 job in flight"},
		{"tasks/s, 16 jobs in flight"},
		{"CPU per task, us"},
	}
	column := func(name string, n *Noop) {
		cells := []string{name}
		for _, v := range []float64{
			n.RTTUS.P50, n.RTTUS.P99, n.FloorUS.P50, n.FloorUS.P99, n.OverFloor.P50, n.OverFloor.P99, n.TasksPerS1,
			n.TasksPerS16, n.CPUUSPerTask,
		} {
			cells = append(cells, formatNumber(v))
		}
		for i := range g {
			g[i] = append(g[i], cells[i])
		}
	}
	for i := range clusters {
		s := &clusters[i]
		column(s.Cluster, &s.Median)
		if s.Repeats > 1 {
			column("from", &s.Low)
			column("to", &s.High)
		}
	}
	return g
}

// formatNumber writes v with three significant digits, and with all digits before the point.
func formatNumber(v float64) string {
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

// Progress is a line on a terminal, overwritten as a benchmark goes on. Without a terminal, Progress writes
// nothing. Any goroutine may call its methods.
type Progress struct {
	mu    sync.Mutex
	out   io.Writer // nil: not a terminal
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
	// A full line would wrap, and then Set could not overwrite it: so the last column stays free.
	line = line[:min(len(line), max(0, p.width()-1))]
	fmt.Fprintf(p.out, "\r%s\x1b[K", string(line))
}

// Clear removes the line, so that further output starts on a clean line.
func (p *Progress) Clear() { p.Set("") }
