package client_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"path/filepath"
	"strings"
	"testing"

	"github.com/phoebe-sched/phoebe/frontend/client"
	"github.com/phoebe-sched/phoebe/frontend/client/local"
	"github.com/phoebe-sched/phoebe/idl/typed"
	"github.com/phoebe-sched/phoebe/idl/typed/msgpack"
	wexec "github.com/phoebe-sched/phoebe/worker/exec"
	wserve "github.com/phoebe-sched/phoebe/worker/serve"
)

// A program declares these types and functions in a package that clients and workers import.
type (
	Resize struct{ Width, Height int }
	Size   struct{ Pixels int }

	// TooSmall is an error that clients find by errors.As.
	TooSmall struct{ Least int }
)

func (e *TooSmall) Error() string { return fmt.Sprintf("each side needs %d pixels", e.Least) }

var Area = typed.Func[Resize, Size]{Name: "area", Errors: []typed.ErrorType{typed.Error[*TooSmall]("TOO_SMALL")}}

// computeArea is the function behind Area, in the worker.
func computeArea(_ context.Context, r Resize) (Size, error) {
	if r.Width < 1 || r.Height < 1 {
		return Size{}, wexec.Permanent(&TooSmall{Least: 1})
	}
	return Size{Pixels: r.Width * r.Height}, nil
}

// startArea starts a cluster with Area, and a client.
func startArea() (c *client.Client, end func()) {
	registry := wexec.NewRegistry()
	must(wexec.Register(registry, Area, computeArea))
	cluster, err := local.Start(local.Config{Registry: registry})
	must(err)
	c, err = client.New(cluster.Frontends())
	must(err)
	return c, func() {
		must(c.Close())
		must(cluster.Close())
	}
}

// The worker registers Area, and the client calls Area. Values and errors keep their types.
func ExampleCall() {
	c, end := startArea()
	defer end()

	size, err := client.Call(context.Background(), c, Area, Resize{3, 4})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(size.Pixels)

	_, err = client.Call(context.Background(), c, Area, Resize{Width: 3})
	if small, ok := errors.AsType[*TooSmall](err); ok {
		fmt.Println("at least", small.Least)
	}
	// Output:
	// 12
	// at least 1
}

// All calls are tasks of a single job. The options change the job.
func ExampleMap() {
	c, end := startArea()
	defer end()

	sizes, err := client.Map(context.Background(), c, Area, []Resize{{1, 2}, {3, 4}, {5, 6}},
		func(job *client.Job) { job.Tenant = "pictures" })
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(sizes)
	// Output:
	// [{2} {12} {30}]
}

// Each result comes at the end of the task.
func ExampleStream() {
	c, end := startArea()
	defer end()

	ins := []Resize{{1, 2}, {0, 4}, {5, 6}}
	for result, err := range client.Stream(context.Background(), c, Area, ins) {
		switch {
		case err == nil:
			fmt.Println(ins[result.Task], "has", result.Value.Pixels)
		case errors.As(err, new(*TooSmall)):
			fmt.Println(ins[result.Task], "is too small")
		default:
			log.Fatal(err)
		}
	}
	// Unordered output:
	// {1 2} has 2
	// {0 4} is too small
	// {5 6} has 30
}

// Callers of typed functions learn of mistakes and failures, and get large results.
func TestTypedCalls(t *testing.T) {
	area := typed.Func[Resize, Size]{Name: "area", Codec: msgpack.Codec}
	noArea := typed.Func[string, Size]{Name: "area", Codec: msgpack.Codec}
	large := typed.Func[int, []byte]{Name: "large"}
	registry := wexec.NewRegistry()
	err := errors.Join(wexec.Register(registry, area, computeArea),
		wexec.Register(registry, large, func(_ context.Context, n int) ([]byte, error) { return make([]byte, n), nil }))
	if err != nil {
		t.Fatal(err)
	}
	cluster := startCluster(t, local.Config{Registry: registry, Worker: func(i int, cfg *wserve.Config) {
		cfg.CacheDir = filepath.Join(t.TempDir(), "cache")
	}})
	c := connectClient(t, cluster.Frontends())
	ctx := t.Context()

	sizes, err := client.Map(ctx, c, area, []Resize{{2, 3}, {}, {4, 5}})
	if failed, ok := errors.AsType[*client.TaskError](err); !ok || failed.Task != 1 || failed.Cause != nil ||
		len(sizes) != 3 || sizes[0].Pixels != 6 || sizes[1] != (Size{}) || sizes[2].Pixels != 20 {
		t.Errorf("%v, %v", sizes, err)
	}
	if sizes, err := client.Map(ctx, c, area, nil); sizes != nil || err != nil {
		t.Errorf("no arguments became %v, %v", sizes, err)
	}
	_, err = client.Call(ctx, c, noArea, "wide")
	if failed, ok := errors.AsType[*client.TaskError](err); !ok || failed.Code != wexec.BadPayload {
		t.Error(err)
	}
	_, err = client.Call(ctx, c, typed.Func[string, string]{Name: "echo"}, "")
	if err != nil {
		t.Error(err)
	}
	if _, err = client.Call(ctx, c, typed.Func[string, Size]{Name: "echo"}, "no size"); err == nil ||
		!strings.Contains(err.Error(), "task 0: result of echo: decode client_test.Size") {
		t.Error(err)
	}
	out, err := client.Call(ctx, c, large, 3<<20, func(j *client.Job) { j.LargeResults = true })
	if err != nil || len(out) != 3<<20 {
		t.Errorf("%d bytes, %v", len(out), err)
	}

	for name, o := range map[string]client.JobOption{
		"fewer tasks": func(j *client.Job) { j.Tasks = j.Tasks[1:] },
		"open":        func(j *client.Job) { j.Open = true },
	} {
		_, err := client.Map(ctx, c, area, []Resize{{2, 3}}, o)
		if refused, ok := errors.AsType[*client.RefusedError](err); !ok || refused.Reason != client.Invalid {
			t.Errorf("%s: %v", name, err)
		}
	}
	noJSON := typed.Func[chan int, int]{Name: "echo"}
	_, err = client.Call(ctx, c, noJSON, make(chan int))
	if err == nil || !strings.Contains(err.Error(), "argument 0") {
		t.Error(err)
	}
	for r, err := range client.Stream(ctx, c, noJSON, []chan int{nil, make(chan int)}) {
		if r.Task != -1 || err == nil {
			t.Errorf("task %d, %v", r.Task, err)
		}
	}
}

// After a break the rest of the job is cancelled.
func TestStreamIsLeft(t *testing.T) {
	hang := typed.Func[bool, bool]{Name: "hang"}
	registry := wexec.NewRegistry()
	stopped := make(chan struct{})
	if err := wexec.Register(registry, hang, func(ctx context.Context, forEver bool) (bool, error) {
		if forEver {
			<-ctx.Done()
			close(stopped)
		}
		return forEver, nil
	}); err != nil {
		t.Fatal(err)
	}
	c := connectClient(t, startCluster(t, local.Config{Registry: registry}).Frontends())
	for r, err := range client.Stream(t.Context(), c, hang, []bool{true, false}) {
		if err != nil || r.Task != 1 {
			t.Errorf("task %d: %v", r.Task, err)
		}
		break
	}
	<-stopped
}
