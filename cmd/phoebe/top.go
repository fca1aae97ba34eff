package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"
	"golang.org/x/term"

	"github.com/phoebe-sched/phoebe/frontend/client"
	"github.com/phoebe-sched/phoebe/frontend/client/admin"
	"github.com/phoebe-sched/phoebe/probe/units"
)

type topCmd struct {
	Every time.Duration `default:"1s" placeholder:"D" help:"Time between two refreshes. Default ${default}."`

	clientFlags
}

// Help returns the text below the usage line.
func (c *topCmd) Help() string {
	return `Shows the counts of all frontends over the last minute (press w for 10 min, 6 h or 10 s): how
long the phases of tasks took (phoebe trace --help explains them), the functions with most tasks and
their slots (TASK is the time from a task's release to its result), how jobs ended, the slowest jobs
and where their time went, and the workers where a task would wait longest. The CPU of a worker is
the share that regular tasks use, without spare tasks. In a terminal the screen refreshes until q.
Elsewhere phoebe top prints the screen once.

Exit codes: 0 shown, 2 wrong usage, 3 no frontend answers.`
}

// spans are the periods to show, each as a number of windows.
var spans = []struct {
	window  time.Duration
	windows int
	text    string
}{
	{time.Second, 60, "minute"}, {10 * time.Second, 60, "10 min"}, {5 * time.Minute, 72, "6 h"},
	{time.Second, 10, "10 s"},
}

// Run shows the fleet until q on a terminal, and once elsewhere.
func (c *topCmd) Run(ctx context.Context, out *streams, log *slog.Logger) error {
	if c.Every < 100*time.Millisecond {
		return usageError(fmt.Errorf("--every is %v: it must be at least 100ms", c.Every))
	}
	cl, err := c.newClient(log, c.Connect)
	if err != nil {
		return err
	}
	defer cl.Close()
	m := topModel{ctx: ctx, client: cl, every: c.Every, timeout: c.RetryFor, width: 1 << 16, height: 1 << 16}
	if f, isFile := out.rawOut.(*os.File); !isFile || !term.IsTerminal(int(f.Fd())) {
		first := m.fetchSnapshot()
		if first.err != nil {
			return &exitError{exitUnavailable, fmt.Errorf("show the fleet: %w", first.err)}
		}
		m.snapshot = first
		_, err := io.WriteString(out.out, m.screenText())
		return err
	}
	_, err = tea.NewProgram(m, tea.WithContext(ctx), tea.WithOutput(out.rawOut), tea.WithoutSignalHandler()).Run()
	if errors.Is(err, tea.ErrProgramKilled) && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// topModel is the state of the screen, for bubbletea.
type topModel struct {
	ctx            context.Context
	client         *admin.Client
	every, timeout time.Duration
	span           int
	width, height  int
	snapshot       topSnapshot
}

// topSnapshot holds the frontends' answers, all asked at the same time.
type topSnapshot struct {
	at      time.Time
	span    int
	watched *admin.Watched
	figures *admin.Figures // nil: no frontend told
	err     error
}

// refreshDue is the message to fetch a new snapshot.
type refreshDue struct{}

// Init fetches the first snapshot.
func (m topModel) Init() tea.Cmd { return m.fetchMessage }

// fetchMessage is fetchSnapshot as a tea.Cmd.
func (m topModel) fetchMessage() tea.Msg { return m.fetchSnapshot() }

// fetchSnapshot asks the frontends. An error is part of the snapshot.
func (m topModel) fetchSnapshot() topSnapshot {
	ctx, cancel := context.WithTimeout(m.ctx, m.timeout)
	defer cancel()
	seen := topSnapshot{at: time.Now(), span: m.span}
	if seen.watched, seen.err = m.client.Watch(ctx, spans[m.span].window, time.Time{}, 10); seen.err != nil {
		return seen
	}
	seen.figures, _ = m.client.Figures(ctx, "", 0)
	return seen
}

// Update implements tea.Model.
func (m topModel) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.width, m.height = msg.Width, msg.Height
	case tea.KeyPressMsg:
		switch msg.String() {
		case "q", "ctrl+c", "esc":
			return m, tea.Quit
		case "w":
			m.span = (m.span + 1) % len(spans)
		}
	case topSnapshot:
		if msg.err != nil {
			m.snapshot.err = msg.err
		} else {
			m.snapshot = msg
		}
		return m, tea.Tick(m.every, func(time.Time) tea.Msg { return refreshDue{} })
	case refreshDue:
		return m, m.fetchMessage
	}
	return m, nil
}

// View implements tea.Model.
func (m topModel) View() tea.View {
	lines := strings.Split(strings.TrimSuffix(m.screenText(), "\n"), "\n")
	lines = lines[:min(len(lines), max(m.height-1, 0))]
	for i := range lines {
		lines[i] = ansi.Truncate(lines[i], m.width, "…")
	}
	v := tea.NewView(strings.Join(append(lines, ansi.Truncate("q quit  w window", m.width, "…")), "\n"))
	v.AltScreen = true
	return v
}

// screenText returns the snapshot as text, with all lines.
func (m topModel) screenText() string {
	var b strings.Builder
	seen := &m.snapshot
	if seen.err != nil {
		fmt.Fprintf(&b, "no frontend answers: %s\n", quoteUnprintable([]byte(seen.err.Error())))
	}
	if seen.watched == nil {
		return b.String()
	}
	w := seen.watched
	windows := w.Windows[max(len(w.Windows)-spans[seen.span].windows, 0):]
	var sum admin.LastMinute
	var phases admin.Histograms
	refused, queueAge := int64(0), time.Duration(0)
	for i := range windows {
		x := &windows[i]
		sum.Length, sum.Tasks, sum.Failed = sum.Length+x.Length, sum.Tasks+x.Tasks, sum.Failed+x.Failed
		queueAge = max(queueAge, x.QueueAge)
		for _, n := range x.Refused {
			refused += n
		}
		for k := range x.Series {
			phases.Add(&x.Series[k])
		}
	}
	sum.Responses = phases[client.MeasureResponse]
	sum.Jobs = int64(sum.Responses.Count)
	fmt.Fprintf(&b, "%s  last %s: %s, %d jobs refused, longest wait for a first task %s\n\n",
		seen.at.Format("15:04:05"), spans[seen.span].text, countsText(&sum), refused, units.Time(queueAge))
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "FRONTEND\tADDRESS\tJOBS\tPENDING\tRUNNING\tWORKERS\tUPTIME\tVERSION\tSTATE")
	for _, f := range w.Frontends {
		if f.Err != "" {
			fmt.Fprintf(t, "%s\t%s\t-\t-\t-\t-\t-\t-\t%s\n", quoteUnprintable([]byte(f.Name)),
				quoteUnprintable([]byte(f.Address)),
				quoteUnprintable([]byte(f.Err)))
			continue
		}
		state := "serving"
		switch {
		case f.Draining:
			state = "draining"
		case f.Warning != "":
			state = quoteUnprintable([]byte(f.Warning))
		}
		fmt.Fprintf(t, "%s\t%s\t%d\t%d\t%d\t%d\t%s\t%s\t%s\n", quoteUnprintable([]byte(f.Name)),
			quoteUnprintable([]byte(f.Address)),
			f.Jobs, f.TasksPending, f.TasksRunning,
			f.Workers, units.Time(f.Uptime), quoteUnprintable([]byte(f.Version)), state)
	}
	fmt.Fprintln(t, "\nPHASE\tP50\tP99\tP99.9\tMEAN\tCOUNT")
	for i := range phases {
		h := &phases[i]
		if h.Count == 0 {
			continue
		}
		m := client.Measure(i)
		text := func(d time.Duration) string {
			if m == client.MeasureSlowdown {
				return fmt.Sprintf("%.2f", d.Seconds()*1000)
			}
			return units.Time(d)
		}
		fmt.Fprintf(t, "%v\t%s\t%s\t%s\t%s\t%d\n", m, text(h.Quantile(0.5)), text(h.Quantile(0.99)),
			text(h.Quantile(0.999)), text(h.Sum/time.Duration(h.Count)), h.Count)
	}
	writeFunctions(t, windows, sum.Length)
	t.Flush() // a strings.Builder returns no error
	if len(w.Slowest) > 0 {
		fmt.Fprintln(&b, "\nslowest jobs that are kept:")
		_ = printJobs(&b, w.Slowest) // a strings.Builder returns no error
	}
	seen.writeWorkers(&b)
	return b.String()
}

// writeFunctions writes the functions with most tasks in the windows. length is the sum of the windows' lengths.
func writeFunctions(t io.Writer, windows []admin.Window, length time.Duration) {
	type function struct {
		times admin.Histograms
		slots float64
	}
	functions, counts := map[string]*function{}, 0
	find := func(name string) *function {
		if functions[name] == nil {
			functions[name] = &function{}
		}
		return functions[name]
	}
	for i := range windows {
		for k := range windows[i].Functions {
			s := &windows[i].Functions[k]
			find(s.Function).times.AddFunction(s)
		}
		if windows[i].Capacity > 0 {
			counts++
		}
		for _, u := range windows[i].FunctionSlots {
			find(u.Name).slots += u.Slots
		}
	}
	if len(functions) == 0 {
		return
	}
	names := slices.SortedFunc(maps.Keys(functions), func(a, b string) int {
		x, y := functions[a], functions[b]
		return cmp.Or(cmp.Compare(y.times[admin.MeasureWhole].Count, x.times[admin.MeasureWhole].Count),
			cmp.Compare(y.slots, x.slots), cmp.Compare(a, b))
	})
	fmt.Fprintln(t, "\nFUNCTION\tTASKS/S\tFAILED\tSLOTS\tTASK P50\tP99\tRUN P50\tP99")
	for _, name := range names[:min(len(names), maxFunctionsShown)] {
		f := functions[name]
		whole, run := &f.times[admin.MeasureWhole], &f.times[client.MeasureRun]
		fmt.Fprintf(t, "%s\t%s\t%d\t%.1f\t%s\t%s\t%s\t%s\n", dashIfEmpty(name),
			units.Rate(float64(whole.Count)/length.Seconds()), f.times[admin.MeasureFailure].Count,
			f.slots/float64(max(counts, 1)), quantileText(whole, 0.5), quantileText(whole, 0.99),
			quantileText(run, 0.5), quantileText(run, 0.99))
	}
}

// quantileText formats a quantile, or returns a dash if there are no counts.
func quantileText(h *admin.Histogram, q float64) string {
	if h.Count == 0 {
		return "-"
	}
	return units.Time(h.Quantile(q))
}

// maxFunctionsShown bounds the functions on the screen.
const maxFunctionsShown = 10

// writeWorkers writes the 10 workers where a task would wait longest.
func (s *topSnapshot) writeWorkers(b *strings.Builder) {
	f := s.figures
	if f == nil || len(f.Names) != len(f.Workers) || len(f.Workers) == 0 {
		return
	}
	order := make([]int, len(f.Workers))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(x, y int) int {
		a, b := &f.Workers[x], &f.Workers[y]
		return cmp.Or(cmp.Compare(admin.FigureValue(b.Wait), admin.FigureValue(a.Wait)),
			cmp.Compare(b.Queued, a.Queued), cmp.Compare(b.RoundTrip, a.RoundTrip))
	})
	fmt.Fprintf(b, "\nworkers, of %d:\n", len(order))
	t := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "WORKER\tADDRESS\tRACK\tSTATE\tCPU\tQUEUED\tRUNNING\tWAIT\tRTT\tHEARD")
	for _, i := range order[:min(len(order), 10)] {
		w := &f.Workers[i]
		state := "?"
		if states := []string{"connecting", "up", "adrift", "draining", "down"}; int(w.State) < len(states) {
			state = states[w.State]
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%d %%\t%.0f\t%.0f\t%s\t%s\t%s\n", dashIfEmpty(f.Names[i]),
			dashIfEmpty(f.Addresses[i]),
			dashIfEmpty(f.Racks[i]), state, int(w.CPU)*100/255,
			admin.FigureValue(w.Queued), admin.FigureValue(w.Running), figureText(w.Wait), figureText(w.RoundTrip),
			figureText(w.Silence))
	}
	t.Flush() // a strings.Builder returns no error
}

// figureText formats a packed figure, in microseconds. The figure is rough.
func figureText(n uint8) string {
	us := admin.FigureValue(n)
	if us < 0 {
		return units.Unknown
	}
	return units.About(time.Duration(us * float64(time.Microsecond)))
}
