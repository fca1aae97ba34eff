package sim

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/phoebe-sched/phoebe/bench"
)

// Grid compares policies over tasks of several lengths, at several loads and prices of a message. A change of
// tactics is judged by the grid. Every policy meets the same jobs.
type Grid struct {
	Policies []Policy
	Tasks    []string        // names from GridTasks
	Prices   []time.Duration // CPU time of a message at either end, with one core for each process
	Jobs     float64         // factor on the grid's numbers of jobs; 0: 1
	Seed     uint64          // of the first run of everything; the others follow
	Seeds    int             // number of seeds
}

// gridRow is a kind of tasks in a grid.
type gridRow struct {
	name  string
	loads []float64
	sweep Sweep
}

// gridRows returns the kinds of tasks. With the given numbers of frontends, the frontends are busy if a message
// costs 10 us, and fall behind if a message costs 50 us.
func gridRows() []gridRow {
	usual := []float64{0.3, 0.8, 0.95}
	with := func(s Sweep, frontends int) Sweep {
		s.Frontends = frontends
		return s
	}
	mixed := with(newSweep(20, 600, "10", "mix:90%5ms,10%200ms", 500*time.Microsecond), 2)
	mixed.Estimates = Estimates{Absent: true}
	return []gridRow{
		{"10us", []float64{0.01, 0.03, 0.06}, with(newSweep(10, 100, "100", "fixed:10us", 50*time.Microsecond), 2)},
		{"1ms", usual, with(newSweep(10, 1000, "10", "task-exp:1ms", 50*time.Microsecond), 2)},
		{"10ms", usual, with(newSweep(40, 800, "10", "task-exp:10ms", 500*time.Microsecond), 2)},
		{"100ms", usual, with(newSweep(100, 120, "100", "job-exp:100ms", 500*time.Microsecond), 2)},
		{"mixed", usual, mixed},
	}
}

// GridTasks returns the names of the kinds of tasks.
func GridTasks() []string {
	var names []string
	for _, row := range gridRows() {
		names = append(names, row.name)
	}
	return names
}

// GridPolicies returns phoebe, and phoebe without each addition to late binding.
func GridPolicies() []Policy {
	all := mustPolicies("phoebe")
	for _, name := range additionNames() {
		if name != "resample" { // nothing breaks in a grid
			all = append(all, mustPolicies("phoebe-"+name)...)
		}
	}
	return all
}

// GridCell is the result of a policy with one kind of tasks, at a load and a price: means over the seeds.
type GridCell struct {
	Tasks   string  `json:"tasks"`
	Load    float64 `json:"load"`
	PriceUS float64 `json:"price_us"`
	Policy  string  `json:"policy"`
	// Mean, P50 and P99 are responses, divided by the responses of an omniscient scheduler without costs.
	Mean     float64 `json:"mean"`
	P50      float64 `json:"p50"`
	P99      float64 `json:"p99"`
	Messages float64 `json:"messages_per_task"`
	CPUUS    float64 `json:"cpu_per_task_us"`
}

// Run makes the grid's runs, as many at a time as there are processors to use.
//
// If progress is not nil, one goroutine at a time calls progress now and then with the share done, from 0 to 1.
func (g *Grid) Run(ctx context.Context, progress func(share float64)) ([]GridCell, error) {
	rows := gridRows()
	for _, name := range g.Tasks {
		if !slices.ContainsFunc(rows, func(r gridRow) bool { return r.name == name }) {
			return nil, fmt.Errorf("tasks %q are unknown: use some of %s", name, strings.Join(GridTasks(), ", "))
		}
	}
	rows = slices.DeleteFunc(rows, func(r gridRow) bool { return !slices.Contains(g.Tasks, r.name) })
	if len(rows)*len(g.Prices)*len(g.Policies) == 0 || g.Seeds < 1 {
		return nil, errors.New("name at least one kind of tasks, a price, a policy and a seed")
	}
	var cells []GridCell
	done, all := 0, len(rows)*len(g.Prices)*g.Seeds
	for _, row := range rows {
		for _, price := range g.Prices {
			first := len(cells)
			for seed := range g.Seeds {
				s := row.sweep
				s.Policies, s.Loads, s.Seed, s.CPU.Message = g.Policies, row.loads, g.Seed+uint64(seed), price
				if g.Jobs > 0 {
					s.Jobs = max(10, int(float64(s.Jobs)*g.Jobs))
				}
				s.WarmupJobs = s.Jobs / 5
				results, err := s.Run(ctx, func(share float64) {
					if progress != nil {
						progress((float64(done) + share) / float64(all))
					}
				})
				if err != nil {
					return nil, fmt.Errorf("tasks %s, messages of %v: %w", row.name, price, err)
				}
				for i, r := range results {
					if seed == 0 {
						cells = append(cells,
							GridCell{Tasks: row.name, Load: r.Load,
								PriceUS: float64(price) / float64(time.Microsecond), Policy: r.Policy})
					}
					cells[first+i].addRun(&r.SimRun, 1/float64(g.Seeds))
				}
				done++
			}
		}
	}
	return cells, nil
}

// addRun adds a run with a weight, for means.
func (c *GridCell) addRun(r *bench.SimRun, weight float64) {
	c.Mean += weight * r.RatioOmniscient.Mean
	c.P50 += weight * r.RatioOmniscient.P50
	c.P99 += weight * r.RatioOmniscient.P99
	c.Messages += weight * r.MessagesPerTask
	if r.CPU != nil {
		c.CPUUS += weight * r.CPU.PerTaskUS
	}
}

// isAt reports whether c and d have the same tasks, load and price.
func (c *GridCell) isAt(d *GridCell) bool {
	return c.Tasks == d.Tasks && c.Load == d.Load && c.PriceUS == d.PriceUS
}

// WriteGridText writes a row for each kind of tasks, load and price. The row has the mean, p50 and p99 over
// omniscient of each policy, and the messages and CPU time for each task of the first policy. With cells to
// compare with, the row shows changes from these cells in %.
func WriteGridText(w io.Writer, cells, with []GridCell) error {
	t := tabwriter.NewWriter(w, 0, 0, 1, ' ', tabwriter.AlignRight)
	for i := 0; i < len(cells); {
		n := i
		for n < len(cells) && cells[n].isAt(&cells[i]) {
			n++
		}
		row := cells[i:n]
		if i == 0 {
			fmt.Fprint(t, "price us\ttasks\tload\t")
			for _, c := range row {
				fmt.Fprintf(t, "\t\t%s\t", shortName(c.Policy))
			}
			fmt.Fprint(t, "messages\tCPU us\t\n")
		}
		fmt.Fprintf(t, "%g\t%s\t%g\t", row[0].PriceUS, row[0].Tasks, row[0].Load)
		for _, c := range row {
			k := slices.IndexFunc(with, func(d GridCell) bool { return d.isAt(&c) && d.Policy == c.Policy })
			for _, valueOf := range []func(*GridCell) float64{
				func(c *GridCell) float64 { return c.Mean }, func(c *GridCell) float64 { return c.P50 },
				func(c *GridCell) float64 { return c.P99 },
			} {
				switch {
				case with == nil:
					fmt.Fprintf(t, "%s\t", formatRatio(valueOf(&c)))
				case k < 0:
					fmt.Fprint(t, "?\t")
				default:
					fmt.Fprintf(t, "%+.1f\t", 100*(valueOf(&c)/valueOf(&with[k])-1))
				}
			}
		}
		fmt.Fprintf(t, "%.1f\t%.1f\t\n", row[0].Messages, row[0].CPUUS)
		i = n
	}
	return t.Flush()
}

// shortName shortens a policy's name, in a row that begins with phoebe.
func shortName(policy string) string {
	if rest, ok := strings.CutPrefix(policy, "phoebe-"); ok {
		return "-" + rest
	}
	return policy
}

// formatRatio formats x with three digits at least.
func formatRatio(x float64) string {
	return fmt.Sprintf("%.*f", max(0, 2-int(math.Log10(max(x, 1)))), x)
}

// WriteGridJSON writes cells for ReadGridJSON and other programs.
func WriteGridJSON(w io.Writer, cells []GridCell) error {
	out := json.NewEncoder(w)
	out.SetIndent("", "  ")
	return out.Encode(cells)
}

// ReadGridJSON reads the output of WriteGridJSON.
func ReadGridJSON(r io.Reader) (cells []GridCell, err error) {
	return cells, json.NewDecoder(r).Decode(&cells)
}
