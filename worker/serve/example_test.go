package serve_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/phoebe-sched/phoebe/frontend/client"
	fserve "github.com/phoebe-sched/phoebe/frontend/serve"
	"github.com/phoebe-sched/phoebe/idl/typed"
	"github.com/phoebe-sched/phoebe/worker/exec"
	"github.com/phoebe-sched/phoebe/worker/serve"
)

// greet is declared once, in a package that clients and workers import.
var greet = typed.Func[string, string]{Name: "greet"}

// A program is a worker. It registers its functions, announces itself to a frontend, runs tasks, and ends well.
func Example() {
	registry := exec.NewRegistry()
	must(exec.Register(registry, greet, func(_ context.Context, whom string) (string, error) {
		return "hello, " + whom, nil
	}))
	frontend := startFrontend() // in other programs, as a rule: phoebe frontend --gossip HOST:PORT
	defer frontend.Close()
	w, err := serve.New(serve.Config{
		Listen:     "127.0.0.1:0",
		Name:       "greeter-1",
		Join:       []string{frontend.HeartbeatAddr()},
		Registry:   registry,
		Goroutines: true,
	})
	if err != nil {
		log.Fatal(err)
	}
	defer w.Close()
	must(w.Start())

	// A client's program. Jobs wait for the first worker.
	c, err := client.New([]string{frontend.Addr()})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	greeting, err := client.Call(context.Background(), c, greet, "world")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(greeting)

	// A worker's program would now wait for a signal, by signal.NotifyContext, or for w.Done. Running tasks may
	// end.
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	must(w.Drain(ctx))
	must(w.Close())
	<-w.Done()
	fmt.Println("ended:", w.Err())
	// Output:
	// hello, world
	// ended: <nil>
}

// startFrontend starts a frontend. Workers announce themselves there.
func startFrontend() *fserve.Server {
	f, err := fserve.New(fserve.Config{Listen: "127.0.0.1:0", Gossip: "127.0.0.1:0", Heartbeat: "127.0.0.1:0"})
	must(err)
	must(f.Start())
	return f
}

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
