package live

import (
	"context"
	"fmt"
	"sync"
	"syscall"
	"time"

	"github.com/phoebe-sched/phoebe/bench"
	"github.com/phoebe-sched/phoebe/frontend/client"
)

const (
	noopRounds  = 5000 // round trips that count
	noopWarmup  = 500
	noopTasks   = 20_000
	noopPerJob  = 100
	noopFlights = 16
)

// Noop measures what a job costs that does nothing: the round trip of a one-task job in turns with the floor, and
// how many tasks a second go through in jobs of 100, one and 16 in flight.
func Noop(ctx context.Context, o Options, progress *bench.Progress) (*bench.Document, error) {
	t, err := o.open(ctx)
	if err != nil {
		return nil, err
	}
	defer t.close()
	floor, err := bench.StartFloor()
	if err != nil {
		return nil, err
	}
	defer floor.Close()

	policy := client.Policy("")
	if len(o.Policies) > 0 {
		policy = client.Policy(o.Policies[0])
	}
	run := func(tasks int) error {
		job := client.Job{Policy: policy, ProbeRatio: o.ProbeRatio, Tasks: make([]client.Task, tasks)}
		for i := range job.Tasks {
			job.Tasks[i].Function = "echo"
		}
		_, err := t.client.Run(ctx, job)
		return err
	}

	rtts, floors := bench.NewHistogram(), bench.NewHistogram()
	for i := range noopWarmup + noopRounds {
		atFloor, err := floor.RoundTrip()
		if err != nil {
			return nil, fmt.Errorf("floor: %w", err)
		}
		begin := time.Now()
		if err := run(1); err != nil {
			return nil, fmt.Errorf("no-op job: %w", err)
		}
		if i >= noopWarmup {
			rtts.Record(time.Since(begin))
			floors.Record(atFloor)
		}
		if i%500 == 0 {
			progress.Set("round trips: %d of %d", i, noopWarmup+noopRounds)
		}
	}

	noop := &bench.Noop{RTTUS: rtts.Quantiles(time.Microsecond), FloorUS: floors.Quantiles(time.Microsecond)}
	for _, flights := range []int{1, noopFlights} {
		progress.Set("throughput: %d jobs in flight", flights)
		if _, _, err := throughput(flights, run); err != nil { // once to warm up
			return nil, err
		}
		rate, cpu, err := throughput(flights, run)
		if err != nil {
			return nil, err
		}
		if flights == 1 {
			noop.TasksPerS1 = rate
		} else {
			noop.TasksPerS16 = rate
			noop.CPUUSPerTask = float64(cpu) / float64(time.Microsecond) / noopTasks
		}
	}
	progress.Clear()
	doc := &bench.Document{Noop: noop}
	doc.Meta.Settings = append(t.settings, fmt.Sprintf("%d round trips of one echo task, in turns with the floor; %d echo tasks in jobs of %d", noopRounds, noopTasks, noopPerJob))
	if len(o.Connect) > 0 {
		doc.Meta.Settings = append(doc.Meta.Settings, "CPU per task is that of the load generator alone")
	}
	return doc, nil
}

// throughput runs all tasks with so many jobs in flight: tasks per second, and the CPU time of this process.
func throughput(flights int, run func(tasks int) error) (rate float64, cpu time.Duration, err error) {
	jobs := make(chan struct{}, noopTasks/noopPerJob)
	for range cap(jobs) {
		jobs <- struct{}{}
	}
	close(jobs)
	var wait sync.WaitGroup
	errs := make(chan error, flights)
	before, begin := cpuTime(), time.Now()
	for range flights {
		wait.Go(func() {
			for range jobs {
				if err := run(noopPerJob); err != nil {
					errs <- fmt.Errorf("no-op jobs, %d in flight: %w", flights, err)
					return
				}
			}
		})
	}
	wait.Wait()
	took := time.Since(begin)
	cpu = cpuTime() - before
	select {
	case err := <-errs:
		return 0, 0, err
	default:
		return noopTasks / took.Seconds(), cpu, nil
	}
}

// cpuTime is what this process has used, user and system.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
