package main

import (
	"fmt"
	"os"
	"text/tabwriter"
	"time"

	rec "github.com/phoebe-sched/phoebe/frontend/record"
	"github.com/phoebe-sched/phoebe/probe/units"
	"github.com/phoebe-sched/phoebe/probe/whole"
)

type recordCmd struct {
	Open recordOpenCmd `cmd:"" help:"Show a recording that a frontend made when an objective was broken."`
}

type recordOpenCmd struct {
	File    string `arg:"" help:"A file of --record-dir."`
	Profile string `placeholder:"FILE" help:"Write the CPU profile to this file, for go tool pprof. Default: none."`
}

// Help returns the text below the usage line.
func (c *recordOpenCmd) Help() string {
	return `Shows the broken objective, and the workers whose tasks took longer than others at the
time. EXCESS sums the time that a worker's tasks took beyond twice the median of all tasks. Look at
the first worker first.

Exit codes: 0 shown, 1 the file cannot be read, 2 wrong usage.`
}

// Run shows a recording.
func (c *recordOpenCmd) Run(out *streams) error {
	f, err := os.Open(c.File)
	if err != nil {
		return err
	}
	defer f.Close()
	x, err := rec.ReadRecording(f)
	if err != nil {
		return fmt.Errorf("open %s: %w", c.File, err)
	}
	if c.Profile != "" {
		if len(x.Profile) == 0 {
			return fmt.Errorf("%s has no profile: the process was being profiled already", c.File)
		}
		if err := whole.WriteBytes(c.Profile, 0o600, x.Profile); err != nil {
			return err
		}
	}
	w := out.out
	fmt.Fprintf(w, "frontend %s, %s: %s was broken: the value was %s\n", quoteUnprintable([]byte(x.Frontend)),
		x.At.Local().Format("2006-01-02 15:04:05.000"), quoteUnprintable([]byte(x.Broken)), units.Time(x.Observed))
	fmt.Fprintf(w, "%d attempts were forgotten before they could be recorded\n", x.Lost)
	worst, all := time.Duration(0), time.Duration(0)
	for _, p := range x.GC {
		worst, all = max(worst, p.Took), all+p.Took
	}
	fmt.Fprintf(w, "%d pauses of the garbage collection, %s together, %s the longest\n", len(x.GC), units.Time(all),
		units.Time(worst))
	if x.Slowest != "" {
		fmt.Fprintf(w, "slowest worker: %s, most of it %s\n", quoteUnprintable([]byte(x.Slowest)),
			quoteUnprintable([]byte(x.Phase)))
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "\nWORKER\tADDRESS\tSTATE\tTASKS\tMEDIAN\tWORST\tEXCESS\tRTT\tHEARD\tQUEUED\tRUNNING")
	for _, s := range x.Suspects[:min(len(x.Suspects), 20)] {
		fmt.Fprintf(t, "%s\t%s\t%s\t%d\t%s\t%s\t%s\t%s\t%s\t%d\t%d\n", dashIfEmpty(s.Name), dashIfEmpty(s.Address),
			dashIfEmpty(s.State),
			s.Tasks, units.Time(s.Median), units.Time(s.Worst), units.Time(s.Excess),
			units.Time(s.RoundTrip), units.Time(s.Silence), s.Queued, s.Running)
	}
	return t.Flush()
}
