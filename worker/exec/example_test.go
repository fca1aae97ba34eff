package exec_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"log"
	"strings"

	"github.com/phoebe-sched/phoebe/frontend/client"
	"github.com/phoebe-sched/phoebe/frontend/client/local"
	"github.com/phoebe-sched/phoebe/idl/typed"
	"github.com/phoebe-sched/phoebe/worker/exec"
)

// add is declared once, in a package that clients and workers import.
var add = typed.Func[[]int, int]{Name: "add"}

// A function of Go values: the worker registers the declaration, and clients call the declaration.
func ExampleRegister() {
	registry := exec.NewRegistry()
	must(exec.Register(registry, add, func(_ context.Context, numbers []int) (sum int, err error) {
		for _, n := range numbers {
			sum += n
		}
		return sum, nil
	}))
	cluster, err := local.Start(local.Config{Registry: registry})
	must(err)
	defer cluster.Close()

	c, err := client.New(cluster.Frontends())
	must(err)
	defer c.Close()
	sum, err := client.Call(context.Background(), c, add, []int{1, 2, 3})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(sum)
	// Output:
	// 6
}

// A Middleware wraps code common to all functions around each function.
func ExampleRegistry_Use() {
	registry := exec.NewRegistry()
	registry.Use(func(name string, f exec.Func) exec.Func {
		return func(ctx context.Context, payload []byte) ([]byte, error) {
			if exec.Task(ctx).Tenant != "etl" {
				return nil, &exec.Error{Code: "NOT_YOURS", Retry: exec.Never}
			}
			return f(ctx, payload)
		}
	})
	must(registry.Register("export", func(context.Context, []byte) ([]byte, error) { return []byte("exported"), nil }))

	for _, tenant := range []string{"etl", "dashboards"} {
		outcomes, err := runJob(registry, client.Job{Tenant: tenant, Tasks: []client.Task{{Function: "export"}}})
		if failed, ok := errors.AsType[*client.TaskError](err); ok {
			fmt.Println(tenant, failed.Code)
			continue
		}
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%s %s\n", tenant, outcomes[0].Result)
	}
	// Output:
	// etl exported
	// dashboards NOT_YOURS
}

// A function asks for its partition, CPU and memory.
func ExampleTask() {
	registry := exec.NewRegistry()
	must(registry.Register("scan", func(ctx context.Context, _ []byte) ([]byte, error) {
		task := exec.Task(ctx)
		return fmt.Appendf(nil, "%s %d: %d threads, %d MiB, attempt %d",
			task.Stage, task.Partition, task.CPU/1000, task.Memory, task.Attempt), nil
	}))

	scan := client.Task{Stage: "scan", Function: "scan", Demand: client.Demand{CPU: 2000, Memory: 512}}
	outcomes, err := runJob(registry,
		client.Job{Stages: []client.Stage{{Name: "scan"}}, Tasks: []client.Task{scan, scan}})
	if err != nil {
		log.Fatal(err)
	}
	for _, o := range outcomes {
		fmt.Printf("%s\n", o.Result)
	}
	// Output:
	// scan 0: 2 threads, 512 MiB, attempt 1
	// scan 1: 2 threads, 512 MiB, attempt 1
}

// Common holds a stage's plan, sent once; each task has its own part of the work.
func ExampleCommon() {
	registry := exec.NewRegistry()
	must(registry.Register("filter", func(ctx context.Context, payload []byte) ([]byte, error) {
		var kept []string
		for row := range strings.FieldsSeq(string(payload)) {
			if strings.Contains(row, string(exec.Common(ctx))) {
				kept = append(kept, row)
			}
		}
		return []byte(strings.Join(kept, " ")), nil
	}))

	outcomes, err := runJob(registry, client.Job{
		Stages: []client.Stage{{Name: "filter", Common: []byte("an")}},
		Tasks: []client.Task{
			{Stage: "filter", Function: "filter", Payload: []byte("apple banana cherry")},
			{Stage: "filter", Function: "filter", Payload: []byte("orange plum")},
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	for _, o := range outcomes {
		fmt.Printf("%s\n", o.Result)
	}
	// Output:
	// banana
	// orange
}

// A function writes rows for the next stage; each task of the next stage reads its partition.
func ExampleOutput() {
	registry := exec.NewRegistry()
	must(registry.Register("split", func(ctx context.Context, rows []byte) ([]byte, error) {
		for partition, prefix := range []string{"a", "b"} {
			out, err := exec.Output(ctx, partition)
			if err != nil {
				return nil, err
			}
			for row := range strings.FieldsSeq(string(rows)) {
				if strings.HasPrefix(row, prefix) {
					fmt.Fprintln(out, row)
				}
			}
			if err := out.Close(); err != nil { // from here on the output counts
				return nil, err
			}
		}
		return nil, nil
	}))
	must(registry.Register("join", func(ctx context.Context, _ []byte) ([]byte, error) {
		var joined []string
		for _, in := range exec.Inputs(ctx) { // an input from each task of the stage before
			r, err := in.Open(ctx)
			if err != nil {
				return nil, err // the scheduler makes the input again, then retries this task
			}
			defer r.Close()
			rows := bufio.NewScanner(r)
			for rows.Scan() {
				joined = append(joined, rows.Text())
			}
			if err := rows.Err(); err != nil {
				return nil, err
			}
		}
		return []byte(strings.Join(joined, " ")), nil
	}))

	outcomes, err := runJob(registry, client.Job{
		Stages: []client.Stage{{Name: "split"}, {Name: "join", After: []string{"split"}}},
		Tasks: []client.Task{
			{Stage: "split", Function: "split", Payload: []byte("apple banana")},
			{Stage: "split", Function: "split", Payload: []byte("avocado blueberry")},
			{Stage: "join", Function: "join",
				Inputs: []client.Input{{Stage: "split", Partition: 0, Pass: client.Inline}}},
			{Stage: "join", Function: "join",
				Inputs: []client.Input{{Stage: "split", Partition: 1, Pass: client.Inline}}},
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	for _, o := range outcomes[2:] {
		fmt.Printf("%s\n", o.Result)
	}
	// Output:
	// apple avocado
	// banana blueberry
}

// A function returns an error code for programs, and says where a retry makes sense.
func ExampleError() {
	registry := exec.NewRegistry()
	must(registry.Register("scan", func(ctx context.Context, _ []byte) ([]byte, error) {
		if exec.Task(ctx).Attempt == 1 {
			return nil, &exec.Error{Code: "DISK_READ", Retry: exec.Elsewhere} // the next attempt runs at another worker
		}
		return nil, &exec.Error{Code: "NO_COLUMN", Detail: []byte("l_tax"), Retry: exec.Never}
	}))

	_, err := runJob(registry, client.Job{Tasks: []client.Task{{Function: "scan", Retries: 5}}})
	if failed, ok := errors.AsType[*client.TaskError](err); ok {
		fmt.Printf("%s: %s, attempt %d\n", failed.Code, failed.Detail, failed.Attempts)
	}
	// Output:
	// NO_COLUMN: l_tax, attempt 2
}

// A long function reports its progress.
func ExampleProgress() {
	registry := exec.NewRegistry()
	must(registry.Register("sort", func(ctx context.Context, payload []byte) ([]byte, error) {
		parts := bytes.Split(payload, []byte(","))
		for i := range parts {
			if ctx.Err() != nil {
				return nil, context.Cause(ctx) // the result is no longer wanted
			}
			parts[i] = bytes.ToUpper(parts[i]) // in place of minutes of work
			exec.Progress(ctx, float64(i+1)/float64(len(parts)))
		}
		return bytes.Join(parts, []byte(",")), nil
	}))

	outcomes, err := runJob(registry, client.Job{Tasks: []client.Task{{Function: "sort", Payload: []byte("a,b,c")}}})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s\n", outcomes[0].Result)
	// Output:
	// A,B,C
}

// runJob runs a job on a cluster of workers with these functions.
func runJob(registry *exec.Registry, job client.Job) ([]client.Outcome, error) {
	cluster, err := local.Start(local.Config{Registry: registry})
	must(err)
	defer cluster.Close()
	c, err := client.New(cluster.Frontends())
	must(err)
	defer c.Close()
	return c.Run(context.Background(), job)
}

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
