package client_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/phoebe-sched/phoebe/frontend/client"
	"github.com/phoebe-sched/phoebe/frontend/client/local"
	fserve "github.com/phoebe-sched/phoebe/frontend/serve"
	"github.com/phoebe-sched/phoebe/worker/exec"
	wserve "github.com/phoebe-sched/phoebe/worker/serve"
)

func Example() {
	cluster, err := local.Start(local.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer cluster.Close()

	c, err := client.New(cluster.Frontends()) // any frontend, for instance of phoebe dev
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	ctx := context.Background()
	if err := c.Ping(ctx); err != nil { // a wrong address, secret or certificate is known at once
		log.Fatal(err)
	}
	outcomes, err := c.Run(ctx, client.Job{Tasks: []client.Task{
		{Function: "echo", Payload: []byte("hello")},
		{Function: "echo", Payload: []byte("again")},
	}})
	if err != nil {
		log.Fatal(err) // the type of the error says what happened
	}
	for _, o := range outcomes {
		fmt.Println(o.Task, string(o.Result))
	}
	// Output:
	// 0 hello
	// 1 again
}

// The documentation begins with the lines of Example, after the start of the cluster.
func TestDocumentationBeginsWithExample(t *testing.T) {
	read := func(name, from, to string) string {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		_, rest, _ := strings.Cut(string(text), from)
		part, _, _ := strings.Cut(rest, to)
		return part
	}
	example := read("example_test.go", "defer cluster.Close()\n\n", "\t// Output:")
	example = strings.ReplaceAll(example, "cluster.Frontends()", `[]string{"127.0.0.1:7410"}`)
	doc := strings.ReplaceAll(read("doc.go", "under a name:\n//\n", "//\n"), "//\t", "\t")
	if doc != example {
		t.Errorf("doc.go begins with\n%s\nand the example has\n%s", doc, example)
	}
}

func ExampleClient_Submit() {
	cluster, err := local.Start(local.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer cluster.Close()
	c, err := client.New(cluster.Frontends())
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	ctx, cancel := context.WithCancel(context.Background()) // cancel ends the job
	defer cancel()
	running, err := c.Submit(ctx, client.Job{Tasks: []client.Task{
		{Function: "sleep", Payload: []byte("200ms")},
		{Function: "fail", Payload: []byte("no such table")},
	}})
	if err != nil {
		log.Fatal(err)
	}
	for o, err := range running.Results() {
		if err != nil {
			fmt.Println("task", o.Task, "failed")
			continue
		}
		fmt.Println("task", o.Task, "is done")
	}
	// Unordered output:
	// task 0 is done
	// task 1 failed
}

// The tasks of a stage start when all earlier stages in After have results. phoebe places the tasks near the results.
func ExampleStage() {
	cluster, err := local.Start(local.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer cluster.Close()
	c, err := client.New(cluster.Frontends())
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	ctx := context.Background()
	running, err := c.Submit(ctx, client.Job{
		Stages: []client.Stage{{Name: "scan"}, {Name: "join", After: []string{"scan"}}},
		Tasks: []client.Task{
			{Stage: "scan", Function: "echo", Payload: []byte("left")},
			{Stage: "scan", Function: "sleep", Payload: []byte("20ms")},
			{Stage: "join", Function: "echo", Payload: []byte("joined"),
				Inputs: []client.Input{{Stage: "scan", Bytes: 1 << 30}}},
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	outcomes, err := running.Wait()
	if err != nil {
		log.Fatal(err)
	}
	for _, o := range outcomes {
		fmt.Printf("task %d: %q\n", o.Task, o.Result)
	}
	x, err := c.Explain(ctx, running.Handle(), 2)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("task 2 went by %s because of its %s\n", x.Decisions[0].Path, x.Decisions[0].Cause)
	// Output:
	// task 0: "left"
	// task 1: ""
	// task 2: "joined"
	// task 2 went by estimation because of its inputs
}

// Tasks write outputs for tasks of later stages. In the example, each word goes to the task that counts the word,
// whichever task has read it.
func ExampleInput() {
	registry := exec.NewRegistry() // of the workers
	must(registry.Register("split", split))
	must(registry.Register("count", count))
	// The outputs of the example are small. Large outputs need wserve.Config.CacheDir.
	cluster, err := local.Start(local.Config{Registry: registry})
	if err != nil {
		log.Fatal(err)
	}
	defer cluster.Close()
	c, err := client.New(cluster.Frontends())
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	job := client.Job{Stages: []client.Stage{
		{Name: "split", Common: []byte("2")}, // the number of partitions, sent once to each worker
		{Name: "count", After: []string{"split"}},
	}}
	for _, text := range []string{"to be or not", "not to be"} {
		job.Tasks = append(job.Tasks, client.Task{Stage: "split", Function: "split", Payload: []byte(text)})
	}
	for p := range 2 {
		job.Tasks = append(job.Tasks, client.Task{
			Stage: "count", Function: "count",
			Inputs: []client.Input{{Stage: "split", Partition: p, Pass: client.Inline}},
		})
	}
	outcomes, err := c.Run(context.Background(), job)
	if err != nil {
		log.Fatal(err)
	}
	for _, o := range outcomes[2:] {
		fmt.Printf("%s\n", o.Result)
	}
	// Output:
	// map[be:2 not:2 to:2]
	// map[or:1]
}

// If an earlier task has fetched a file, Locate finds the worker, and the next task goes there.
func ExampleClient_Locate() {
	dir, err := os.MkdirTemp("", "phoebe")
	must(err)
	defer os.RemoveAll(dir)
	name, rows := filepath.Join(dir, "part-7"), bytes.Repeat([]byte("a row\n"), 1_000_000)
	must(os.WriteFile(name, rows, 0o600))
	part := client.File{URL: "file://" + name, SHA256: fmt.Sprintf("%x", sha256.Sum256(rows)), Bytes: int64(len(rows))}

	registry := exec.NewRegistry() // of the workers
	must(registry.Register("scan", func(ctx context.Context, _ []byte) ([]byte, error) {
		rows, err := os.ReadFile(exec.Files(ctx)[0])
		return fmt.Appendf(nil, "%d rows", bytes.Count(rows, []byte("\n"))), err
	}))
	cluster, err := local.Start(local.Config{Gossip: true, Registry: registry, Worker: func(i int, w *wserve.Config) {
		w.CacheDir, w.FileRoots = filepath.Join(dir, w.Name), []string{dir}
	}})
	if err != nil {
		log.Fatal(err)
	}
	defer cluster.Close()
	c, err := client.New(cluster.Frontends())
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	ctx := context.Background()
	scan := client.Task{Function: "scan", Files: []client.File{part}}
	first, err := c.Run(ctx, client.Job{Tasks: []client.Task{scan}})
	if err != nil {
		log.Fatal(err)
	}
	var copies []client.Copy
	for len(copies) == 0 { // wait for the gossip to reach the frontend; an engine would not wait
		at, err := c.Locate(ctx, part.SHA256)
		if err != nil {
			log.Fatal(err)
		}
		copies = at[0]
		time.Sleep(time.Millisecond)
	}
	scan.Inputs = []client.Input{{Bytes: part.Bytes, Copies: copies}}
	again, err := c.Run(ctx, client.Job{Tasks: []client.Task{scan}})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s, at the same worker: %t\n", again[0].Result, again[0].Worker == first[0].Worker)
	// Output:
	// 1000000 rows, at the same worker: true
}

// With Along, each partition goes through the stages by itself: partition 1 does not wait for the slow partition 0.
func ExampleStage_along() {
	c, done := withCaches(nil)
	defer done()
	ctx := context.Background()
	running, err := c.Submit(ctx, client.Job{
		Stages: []client.Stage{{Name: "scan"}, {Name: "filter", After: []string{"scan"}, Along: []string{"scan"}}},
		Tasks: []client.Task{
			{Stage: "scan", Function: "sleep", Payload: []byte("1h")},
			{Stage: "scan", Function: "echo", Payload: []byte("scan, partition 1")},
			{Stage: "filter", Function: "echo", Payload: []byte("filter, partition 0")},
			{Stage: "filter", Function: "echo", Payload: []byte("filter, partition 1")},
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	for range 2 {
		o, err := running.Next(ctx)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%s\n", o.Result)
	}
	must(running.Satisfied(ctx)) // partition 0 is no longer wanted
	// Output:
	// scan, partition 1
	// filter, partition 1
}

// A plan may depend on the results of its first stage. The job is open, and gets the next stage after those results.
func ExampleRunning_Extend() {
	cluster, err := local.Start(local.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer cluster.Close()
	c, err := client.New(cluster.Frontends())
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	ctx := context.Background()
	running, err := c.Submit(ctx, client.Job{
		Open:   true,
		Stages: []client.Stage{{Name: "sample"}},
		Tasks:  []client.Task{{Stage: "sample", Function: "echo", Payload: []byte("few rows")}},
	})
	if err != nil {
		log.Fatal(err)
	}
	found, err := running.Next(ctx)
	if err != nil {
		log.Fatal(err)
	}
	join := client.Task{Stage: "join", Function: "echo", Payload: []byte("partitioned")}
	if string(found.Result) == "few rows" {
		join.Payload = []byte("broadcast")
	}
	must(running.Extend(ctx, []client.Stage{{Name: "join", After: []string{"sample"}}}, []client.Task{join}))
	must(running.Seal(ctx)) // no more stages or tasks
	outcomes, err := running.Wait()
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("task %d: %s\n", outcomes[0].Task, outcomes[0].Result)
	// Output:
	// task 1: broadcast
}

// Next returns the results one by one. While 1 MiB of results is unread, further results stay at the frontend. If too
// many stay there, the frontend starts no more of the job's tasks.
func ExampleRunning_Next() {
	c, done := withCaches(nil)
	defer done()
	ctx := context.Background()
	job := client.Job{Window: 1 << 20}
	for i := range 100 {
		job.Tasks = append(job.Tasks, client.Task{Function: "echo", Payload: []byte(strings.Repeat("row ", i))})
	}
	running, err := c.Submit(ctx, job)
	if err != nil {
		log.Fatal(err)
	}
	rows := 0
	for {
		o, err := running.Next(ctx)
		if err == io.EOF {
			break
		}
		if err != nil {
			log.Fatal(err)
		}
		rows += len(strings.Fields(string(o.Result)))
	}
	fmt.Println(rows, "rows")
	// Output:
	// 4950 rows
}

// A function writes a result that is too large for memory, and the client reads the result as a stream. The workers
// need a cache.
func ExampleClient_Open() {
	registry := exec.NewRegistry() // of the workers
	must(registry.Register("table", func(ctx context.Context, _ []byte) ([]byte, error) {
		result, err := exec.ResultWriter(ctx)
		if err != nil {
			return nil, err
		}
		for row := range 1_000_000 {
			if _, err := fmt.Fprintln(result, row); err != nil {
				return nil, err
			}
		}
		return nil, result.Close()
	}))
	c, done := withCaches(registry)
	defer done()
	ctx := context.Background()
	outcomes, err := c.Run(ctx, client.Job{LargeResults: true, Tasks: []client.Task{{Function: "table"}}})
	if err != nil {
		log.Fatal(err)
	}
	result, err := c.Open(ctx, outcomes[0])
	if err != nil {
		log.Fatal(err)
	}
	defer result.Close()
	rows := bufio.NewScanner(result)
	n := 0
	for rows.Scan() {
		n++
	}
	if err := rows.Err(); err != nil { // a *client.TaskError with Reason ResultLost: run the task again
		log.Fatal(err)
	}
	fmt.Println(n, "rows")
	// Output:
	// 1000000 rows
}

// An engine runs all its fragments with one function. With Class, run times are learnt for each query's scan
// separately.
func ExampleTask_class() {
	c, done := withCaches(nil)
	defer done()
	ctx := context.Background()
	for _, class := range []string{"query 1, scan", "query 1, scan", "query 2, scan"} {
		job := client.Job{}
		for range 8 {
			job.Tasks = append(job.Tasks, client.Task{Function: "sleep", Payload: []byte("1ms"), Class: class})
		}
		running, err := c.Submit(ctx, job)
		if err != nil {
			log.Fatal(err)
		}
		if _, err := running.Wait(); err != nil {
			log.Fatal(err)
		}
		x, err := c.Explain(ctx, running.Handle(), 0)
		if err != nil {
			log.Fatal(err)
		}
		by := x.Decisions[0].Work // the expected run time by which the tasks were placed
		fmt.Printf("%s: known from %s, %d times\n", class, by.Source, by.Samples)
	}
	// Output:
	// query 1, scan: known from nothing, 0 times
	// query 1, scan: known from function, 8 times
	// query 2, scan: known from nothing, 0 times
}

// The client gives up a slow partition, and the next stage goes on with the outputs of the rest.
func ExampleRunning_CancelTasks() {
	c, done := withCaches(nil)
	defer done()
	ctx := context.Background()
	running, err := c.Submit(ctx, client.Job{
		Stages: []client.Stage{{Name: "scan"}, {Name: "merge", After: []string{"scan"}}},
		Tasks: []client.Task{
			{Stage: "scan", Function: "echo", Payload: []byte("ten rows")},
			{Stage: "scan", Function: "sleep", Payload: []byte("1h")},
			{Stage: "merge", Function: "echo", Payload: []byte("merged")},
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	if _, err := running.Next(ctx); err != nil {
		log.Fatal(err)
	}
	must(running.CancelTasks(ctx, 1))
	for o, err := range running.Results() {
		if failed, ok := errors.AsType[*client.TaskError](err); ok && failed.Reason == client.Cancelled {
			fmt.Println("task", o.Task, "is given up")
			continue
		}
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("task %d: %s\n", o.Task, o.Result)
	}
	// Output:
	// task 1 is given up
	// task 2: merged
}

// If regular work needs the room, a spare task is stopped, and started again when there is room.
func ExampleClass() {
	registry := exec.NewRegistry() // of the workers
	began := make(chan bool, 1)
	must(registry.Register("compact", func(ctx context.Context, _ []byte) ([]byte, error) {
		if exec.Task(ctx).Attempt > 1 {
			return []byte("compacted"), nil
		}
		began <- true
		<-ctx.Done() // in place of hours of work
		return nil, ctx.Err()
	}))
	cluster, err := local.Start(local.Config{Workers: 1, Slots: 1, Registry: registry})
	if err != nil {
		log.Fatal(err)
	}
	defer cluster.Close()
	c, err := client.New(cluster.Frontends())
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	ctx := context.Background()
	spare, err := c.Submit(ctx, client.Job{
		Class: client.Spare, Tasks: []client.Task{{Function: "compact", Estimate: time.Hour}},
	})
	if err != nil {
		log.Fatal(err)
	}
	<-began
	query, err := c.Run(ctx, client.Job{Tasks: []client.Task{{Function: "echo", Payload: []byte("ten rows")}}})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s\n", query[0].Result)
	outcomes, err := spare.Wait()
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s, in %d attempts\n", outcomes[0].Result, outcomes[0].Attempts)
	// Output:
	// ten rows
	// compacted, in 2 attempts
}

// The type of the error says what an engine should do about a failed job.
func ExampleClient_Run() {
	c, done := withCaches(nil)
	defer done()
	short, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	for _, query := range []struct {
		ctx  context.Context
		task client.Task
	}{
		{context.Background(), client.Task{Function: "fail", Payload: []byte("no such column")}},
		{context.Background(), client.Task{Function: "no such function"}},
		{short, client.Task{Function: "sleep", Payload: []byte("1h")}},
	} {
		_, err := c.Run(query.ctx, client.Job{Tasks: []client.Task{query.task}})
		if failed, ok := errors.AsType[*client.TaskError](err); ok { // the task ended without a result
			fmt.Printf("task %d: %s: %s\n", failed.Task, failed.Reason, failed.Message)
		} else if refused, ok := errors.AsType[*client.RefusedError](err); ok { // nothing was started
			fmt.Println("refused:", refused.Reason)
		} else if unfinished, ok := errors.AsType[*client.UnfinishedError](err); ok { // the tasks may have run, or not
			fmt.Printf("unfinished: tasks %d: %v\n", unfinished.Tasks, unfinished.Err)
		}
	}
	// Output:
	// task 0: task error: no such column
	// refused: no worker
	// unfinished: tasks [0]: context deadline exceeded
}

// A refused job has not begun. The Reason says what to do. If the refusal has a RetryAfter, the client tries again by
// itself, unless the client was made WithRefusalsFinal.
func ExampleRefusedError() {
	cluster, err := local.Start(local.Config{Frontend: func(_ int, f *fserve.Config) { f.Core.MaxPending = 3 }})
	if err != nil {
		log.Fatal(err)
	}
	defer cluster.Close()
	c, err := client.New(cluster.Frontends(), client.WithRefusalsFinal())
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	ctx := context.Background()
	background, err := c.Submit(ctx, client.Job{
		Tasks: []client.Task{{Function: "sleep", Payload: []byte("1h")}, {Function: "sleep", Payload: []byte("1h")}},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer background.Cancel(ctx)
	for _, job := range []client.Job{
		{Tasks: []client.Task{{Function: "ecco"}}},
		{Tasks: []client.Task{{Function: "echo"}, {Function: "echo"}}},
	} {
		_, err := c.Run(ctx, job)
		refused, ok := errors.AsType[*client.RefusedError](err)
		if !ok {
			log.Fatal(err)
		}
		switch refused.Reason {
		case client.Overloaded:
			fmt.Println("come back after", refused.RetryAfter)
		case client.NoWorker:
			fmt.Println("no worker runs this")
		default:
			log.Fatal(err)
		}
	}
	// Output:
	// no worker runs this
	// come back after 1s
}

// An engine cuts a query into as many tasks as there are slots. A task without a Demand takes a slot: 1000 millicores.
func ExampleClient_Workers() {
	cluster, err := local.Start(local.Config{Workers: 3, Slots: 4})
	must(err)
	defer cluster.Close()
	c, err := client.New(cluster.Frontends())
	must(err)
	defer c.Close()
	workers, err := c.Workers(context.Background())
	must(err)
	slots := 0
	for _, w := range workers {
		if w.State == "up" {
			slots += int(w.Capacity.CPU) / 1000
		}
	}
	fmt.Println(slots, "slots")
	// Output:
	// 12 slots
}

// A query comes with a trace. The spans of the query's job and functions join the trace.
func ExampleWithTracer() {
	tracer := noop.NewTracerProvider().Tracer("engine") // otel.Tracer("engine"), where spans are exported
	registry := exec.NewRegistry()                      // of the workers
	registry.Use(exec.Traced(tracer))
	must(registry.Register("scan", func(ctx context.Context, _ []byte) ([]byte, error) {
		span := trace.SpanFromContext(ctx) // to add attributes and events to
		return []byte(span.SpanContext().TraceID().String()), nil
	}))
	cluster, err := local.Start(local.Config{Registry: registry})
	if err != nil {
		log.Fatal(err)
	}
	defer cluster.Close()
	c, err := client.New(cluster.Frontends(), client.WithTracer(tracer))
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	// the headers of the query
	request := propagation.MapCarrier{"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}
	ctx := propagation.TraceContext{}.Extract(context.Background(), request)
	outcomes, err := c.Run(ctx, client.Job{Tasks: []client.Task{{Function: "scan"}}})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("scanned in the trace %s\n", outcomes[0].Result)
	// Output:
	// scanned in the trace 0af7651916cd43dd8448eb211c80319c
}

// Trace shows where the time of a job went. The job may still run or have ended. Any client with the id may ask.
func ExampleClient_Trace() {
	c, done := withCaches(nil)
	defer done()
	ctx := context.Background()
	id := client.NewJobID()
	if _, err := c.Run(ctx, client.Job{ID: id,
		Tasks: []client.Task{{Function: "sleep", Payload: []byte("20ms")}}}); err != nil {
		log.Fatal(err)
	}
	trace, err := c.Trace(ctx, id, 0, 0)
	if err != nil {
		log.Fatal(err)
	}
	for _, t := range trace.Tasks {
		ran := t.Ends[client.MeasureRun] - t.Ends[client.MeasureLaunch]
		fmt.Printf("task %d: a %s by %s, in which it ran for more than 10 ms: %t\n", t.Task, t.Outcome, t.Path,
			ran > 10*time.Millisecond)
	}
	// Output:
	// task 0: a result by sampling, in which it ran for more than 10 ms: true
}

// A query with a LIMIT may have enough rows before all its tasks have run.
func ExampleRunning_Satisfied() {
	c, done := withCaches(nil)
	defer done()
	ctx := context.Background()
	running, err := c.Submit(ctx, client.Job{Tasks: []client.Task{
		{Function: "echo", Payload: []byte("ten rows")},
		{Function: "sleep", Payload: []byte("1h")},
	}})
	if err != nil {
		log.Fatal(err)
	}
	first, err := running.Next(ctx)
	if err != nil {
		log.Fatal(err)
	}
	must(running.Satisfied(ctx)) // stops the second task without an error
	if _, err := running.Wait(); err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s\n", first.Result)
	// Output:
	// ten rows
}

// A function reports a code for its failure, and forbids further tries. The client acts on the code.
func ExampleTaskError() {
	registry := exec.NewRegistry() // of the workers
	must(registry.Register("scan", func(ctx context.Context, table []byte) ([]byte, error) {
		return nil, &exec.Error{Code: "NO_TABLE", Detail: table, Retry: exec.Never}
	}))
	c, done := withCaches(registry)
	defer done()
	_, err := c.Run(context.Background(), client.Job{
		Tasks: []client.Task{{Function: "scan", Payload: []byte("orders"), Retries: 3}},
	})
	var failed *client.TaskError
	if errors.As(err, &failed) {
		fmt.Printf("%s of %s, in %d attempt\n", failed.Code, failed.Detail, failed.Attempts)
	}
	// Output:
	// NO_TABLE of orders, in 1 attempt
}

// withCaches starts a cluster whose workers have caches, and connects a client. The caller calls done at the end.
func withCaches(registry *exec.Registry) (c *client.Client, done func()) {
	dir, err := os.MkdirTemp("", "phoebe")
	must(err)
	cluster, err := local.Start(local.Config{Registry: registry, Worker: func(i int, w *wserve.Config) {
		w.CacheDir = filepath.Join(dir, fmt.Sprint(i))
	}})
	must(err)
	c, err = client.New(cluster.Frontends())
	must(err)
	return c, func() {
		must(errors.Join(c.Close(), cluster.Close(), os.RemoveAll(dir)))
	}
}

// split writes each word into a partition chosen by the word's first letter.
func split(ctx context.Context, text []byte) ([]byte, error) {
	var partitions int
	if _, err := fmt.Sscan(string(exec.Common(ctx)), &partitions); err != nil {
		return nil, exec.Permanent(err) // trying again would not help
	}
	outputs := make([]io.WriteCloser, partitions)
	for p := range outputs {
		var err error
		if outputs[p], err = exec.Output(ctx, p); err != nil {
			return nil, err
		}
	}
	for word := range strings.FieldsSeq(string(text)) {
		if _, err := fmt.Fprintln(outputs[int(word[0])%partitions], word); err != nil {
			return nil, err
		}
	}
	for _, o := range outputs {
		if err := o.Close(); err != nil {
			return nil, err
		}
	}
	return nil, nil
}

// count counts the words of the task's partition.
func count(ctx context.Context, _ []byte) ([]byte, error) {
	counts := map[string]int{}
	for _, in := range exec.Inputs(ctx) {
		r, err := in.Open(ctx)
		if err != nil {
			return nil, err
		}
		words, err := io.ReadAll(r)
		r.Close()
		if err != nil {
			return nil, err
		}
		for word := range strings.FieldsSeq(string(words)) {
			counts[word]++
		}
	}
	return fmt.Append(nil, counts), nil
}

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
