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

type simFigureCmd struct {
	Name  string `arg:"" placeholder:"NAME" help:"Name of the figure, or all; list shows the names."`
	Scale string `default:"small" enum:"small,full" help:"small takes up to a minute on one core, full some minutes: ${enum}. Default ${default}."`
	Jobs  int    `placeholder:"N" help:"Jobs of each run, with a fifth to warm up. Default: the figure's own number."`
	Seed  uint64 `default:"1" placeholder:"N" help:"Seed of the first run; further runs take the seeds that follow. Default ${default}."`
	Seeds int    `placeholder:"N" help:"Number of runs of everything, each with its own jobs. Default: the figure's own number."`

	JSON jsonFile `name:"json" placeholder:"FILE" help:"Write all measurements as JSON to this file. ${jsonFile}"`
	HTML string   `name:"html" placeholder:"FILE" help:"Write the plots to this file. Default: none."`
}

// Help returns the text below the usage line.
func (c *simFigureCmd) Help() string {
	return `A figure is a claim about placing tasks, with simulated runs that show whether the claim
holds. Runs with the same seed have the same jobs, even if other settings differ.

  phoebe sim figure list
  phoebe sim figure late-binding --scale full --html late-binding.html`
}

// Run prints the figures.
func (c *simFigureCmd) Run(ctx context.Context, out *streams) error {
	if c.Name == "list" {
		for i := range sim.Figures {
			if _, err := fmt.Fprintf(out.out, "%-16s %s\n", sim.Figures[i].Name, sim.Figures[i].Title); err != nil {
				return err
			}
		}
		return nil
	}
	figures := make([]*sim.Figure, 0, len(sim.Figures))
	if c.Name == "all" {
		for i := range sim.Figures {
			figures = append(figures, &sim.Figures[i])
		}
	} else {
		f, err := sim.FindFigure(c.Name)
		if err != nil {
			return usageError(err)
		}
		figures = append(figures, f)
	}
	if c.Jobs < 0 || c.Seeds < 0 {
		return usageError(errors.New("--jobs and --seeds must be 1 or more, or left out"))
	}
	options := sim.FigureOptions{Jobs: c.Jobs, Seed: c.Seed, Seeds: c.Seeds}
	if c.Scale == "full" {
		options.Scale = sim.FullScale
	}
	write, text, err := createReports(out.out,
		jsonReport(c.JSON, sim.WriteFiguresJSON),
		report[[]*sim.FigureResult]{"html", c.HTML, sim.WriteFiguresHTML})
	if err != nil {
		return err
	}

	progress, began := bench.NewProgress(os.Stderr), time.Now()
	var results []*sim.FigureResult
	for i, f := range figures {
		options.Progress = func(share float64) {
			progress.Set("%s (%d of %d): %.0f %%, %s", f.Name, i+1, len(figures), 100*share,
				time.Since(began).Round(time.Second))
		}
		result, err := f.Run(ctx, options)
		progress.Clear()
		if err != nil {
			exit := interruptionExit(ctx)
			if exit == nil {
				return err
			}
			if len(results) == 0 {
				return exit
			}
			return errors.Join(write(results), exit)
		}
		if i > 0 {
			fmt.Fprintln(text)
		}
		if err := result.WriteText(text); err != nil {
			return err
		}
		results = append(results, result)
	}
	return write(results)
}
