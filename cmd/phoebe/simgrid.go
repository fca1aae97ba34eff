package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/phoebe-sched/phoebe/bench"
	"github.com/phoebe-sched/phoebe/bench/sim"
)

type simGridCmd struct {
	Price  []time.Duration `default:"200ns,10us,50us" placeholder:"D" help:"CPU that each end of a message needs. Between processes on a machine of two busy cores it is 10us. Default ${default}."`
	Tasks  []string        `placeholder:"NAME" help:"Kinds of tasks: 10us, 1ms, 10ms, 100ms and mixed. Default: all."`
	Policy []string        `placeholder:"NAME" help:"Policies, as for phoebe sim. Default: phoebe, and phoebe without each of its parts."`
	Jobs   float64         `default:"1" placeholder:"N" help:"Multiply the number of jobs by N. Default ${default}."`
	Seed   uint64          `default:"1" placeholder:"N" help:"Seed of the first run; further runs take the seeds that follow. Default ${default}."`
	Seeds  int             `default:"1" placeholder:"N" help:"Number of runs of everything, each with its own jobs. Default ${default}."`

	JSON    jsonFile `name:"json" placeholder:"FILE" help:"Write the numbers as JSON to this file. ${jsonFile}"`
	Against string   `placeholder:"FILE" help:"Print how much the numbers differ, in %, from the numbers in this file of --json. Default: none."`
}

// Help returns the text below the usage line.
func (c *simGridCmd) Help() string {
	return `Runs tasks of several lengths at three loads each. Messages cost next to nothing, as
much as on a small machine, or a lot. Each process has its own core. The table shows for each policy
the mean, p50 and p99 of the response, divided by the response of an omniscient scheduler to the
same jobs. It also shows messages and CPU for each task, for the first policy.

  phoebe sim grid --json before.json
  phoebe sim grid --against before.json        (after a change)
  phoebe sim grid --tasks 1ms --policy phoebe,late-binding --seeds 5`
}

// Run prints the grid.
func (c *simGridCmd) Run(ctx context.Context, out *streams) error {
	g := sim.Grid{Tasks: c.Tasks, Prices: c.Price, Policies: sim.GridPolicies(), Jobs: c.Jobs, Seed: c.Seed,
		Seeds: c.Seeds}
	if len(g.Tasks) == 0 {
		g.Tasks = sim.GridTasks()
	}
	if len(c.Policy) > 0 {
		g.Policies = nil
	}
	for _, name := range c.Policy {
		p, err := sim.ParsePolicy(name)
		if err != nil {
			return usageError(fmt.Errorf("--policy: %w", err))
		}
		g.Policies = append(g.Policies, p)
	}
	if !(c.Jobs > 0) {
		return usageError(errors.New("--jobs must be above 0"))
	}
	var baseline []sim.GridCell
	if c.Against != "" {
		f, err := os.Open(c.Against)
		if err != nil {
			return usageError(fmt.Errorf("--against: %w", err))
		}
		defer f.Close()
		if baseline, err = sim.ReadGridJSON(f); err != nil {
			return usageError(fmt.Errorf("--against %s: %w", c.Against, err))
		}
	}
	write, text, err := createReports(out.out, jsonReport(c.JSON, sim.WriteGridJSON))
	if err != nil {
		return err
	}
	progress, began := bench.NewProgress(os.Stderr), time.Now()
	cells, err := g.Run(ctx, func(share float64) {
		progress.Set("%.0f %%, %s", 100*share, time.Since(began).Round(time.Second))
	})
	progress.Clear()
	if err != nil {
		if exit := interruptionExit(ctx); exit != nil {
			return exit
		}
		return err
	}
	return errors.Join(sim.WriteGridText(text, cells, baseline), write(cells))
}
