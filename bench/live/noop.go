package live

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/phoebe-sched/phoebe/bench"
	"github.com/phoebe-sched/phoebe/frontend/client"
)

const (
	noopPerJob  = 100
	noopFlights = 16
)

// Noop measures the cost of a job that does nothing, in each repeat on each cluster. First, round trips of jobs
// with one task run in turns with the floor. Then jobs of 100 tasks give the tasks per second, with 1 and 16 jobs
// in flight. Each measurement takes o.For, after o.Warmup. After an error, Noop also returns the measurements so
// far.
func Noop(ctx context.Context, o Options, progress *bench.Progress) (*bench.Document, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	o.Again = true // a closed loop overloads no frontend: at a refusal the machine stood still
	doc := &bench.Document{}
	doc.Meta.Settings = append(o.describeClusters(),
		fmt.Sprintf(
			"policy %s; round trips of an echo task, in turns with the floor; echo jobs of %d tasks; %v each, after %v",
			o.Policies[0], noopPerJob, o.For, o.Warmup))
	if len(o.Connect) > 0 {
		doc.Meta.Settings = append(doc.Meta.Settings, "CPU per task is that of the load generator alone")
	}
	defer progress.Clear()
	for repeat := range o.Repeat {
		for _, cluster := range rotatedBy(o.clusterNames(), repeat) {
			run, err := o.measureNoop(ctx, cluster, func(step string) {
				progress.Set("%d of %d: %s, %s", repeat+1, o.Repeat, cluster, step)
			})
			if err != nil {
				return doc, err
			}
			run.Repeat = repeat + 1
			doc.NoopRuns = append(doc.NoopRuns, run)
		}
	}
	return doc, nil
}

// measureNoop measures once, on a cluster of its own.
func (o *Options) measureNoop(ctx context.Context, cluster string, progress func(step string)) (run bench.NoopRun,
	err error) {
	t, err := o.openTarget(ctx, cluster, o.Policies[0])
	if err != nil {
		return run, err
	}
	defer func() { err = errors.Join(err, t.close()) }()
	floor, err := t.openFloor(ctx)
	if err != nil {
		return run, err
	}
	defer floor.Close()
	job := func(tasks int) error {
		job := client.Job{Policy: t.policy, ProbeRatio: o.ProbeRatio, Tasks: make([]client.Task, tasks)}
		for i := range job.Tasks {
			job.Tasks[i].Function = "echo"
		}
		_, err := t.client.Run(ctx, job)
		return err
	}

	meter := bench.NewCPUMeter(t.processes.processIDs()...)
	rtts, floors := bench.NewHistogram(), bench.NewHistogram()
	progress("round trips")
	start, counted := time.Now(), 0
	for since := time.Duration(0); since < o.Warmup+o.For || counted == 0; since = time.Since(start) {
		atFloor, err := floor.RoundTrip()
		if err != nil {
			return run, err
		}
		begin := time.Now()
		if err := job(1); err != nil {
			return run, fmt.Errorf("no-op job: %w", err)
		}
		if since >= o.Warmup {
			rtts.Record(time.Since(begin))
			floors.Record(atFloor)
			counted++
		}
	}
	run = bench.NoopRun{Cluster: cluster, Noop: bench.Noop{RTTUS: rtts.Quantiles(time.Microsecond),
		FloorUS: floors.Quantiles(time.Microsecond)}}
	run.OverFloor = bench.Quantiles{P50: run.RTTUS.P50 / run.FloorUS.P50, P99: run.RTTUS.P99 / run.FloorUS.P99}

	for _, flights := range []int{1, noopFlights} {
		progress(fmt.Sprintf("throughput, %d jobs in flight", flights))
		if _, err := measureThroughput(flights, o.Warmup, job); err != nil {
			return run, err
		}
		own := bench.NewCPUMeter(t.processes.processIDs()...)
		rate, err := measureThroughput(flights, o.For, job)
		if err != nil {
			return run, err
		}
		if flights == 1 {
			run.TasksPerS1 = rate
		} else {
			run.TasksPerS16 = rate
			run.CPUUSPerTask = own.Use().Own / rate * 1e6
		}
	}
	run.CPU = meter.Use()
	return run, nil
}

// openFloor opens the floor for a cluster's round trips: in processes if the cluster is.
func (t *target) openFloor(ctx context.Context) (*bench.Floor, error) {
	if t.processes == nil {
		return bench.StartFloor()
	}
	echo, err := t.processes.startProcess(ctx, "floor", "floor")
	if err != nil {
		return nil, err
	}
	relay, err := t.processes.startProcess(ctx, "floor", "floor", "--to", echo)
	if err != nil {
		return nil, err
	}
	return bench.DialFloor(relay)
}

// measureThroughput keeps flights jobs in flight for a time and returns the tasks per second.
func measureThroughput(flights int, span time.Duration, job func(tasks int) error) (rate float64, err error) {
	var wait sync.WaitGroup
	var jobs atomic.Int64
	errs := make([]error, flights)
	begin := time.Now()
	for i := range flights {
		wait.Go(func() {
			for time.Since(begin) < span && errs[i] == nil {
				errs[i] = job(noopPerJob)
				jobs.Add(1)
			}
		})
	}
	wait.Wait()
	took := time.Since(begin)
	if err := errors.Join(errs...); err != nil {
		return 0, fmt.Errorf("no-op jobs, %d in flight: %w", flights, err)
	}
	return float64(noopPerJob*jobs.Load()) / took.Seconds(), nil
}
