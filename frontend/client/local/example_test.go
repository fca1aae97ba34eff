package local_test

import (
	"context"
	"fmt"
	"log"
	"slices"

	"github.com/phoebe-sched/phoebe/frontend/client"
	"github.com/phoebe-sched/phoebe/frontend/client/local"
	"github.com/phoebe-sched/phoebe/worker/exec"
)

// A test of an engine stops the owner of a query's job, and checks that the query still gets its result.
func Example() {
	registry := exec.NewRegistry() // of the workers
	began, release := make(chan bool, 1), make(chan bool)
	err := registry.Register("scan", func(ctx context.Context, _ []byte) ([]byte, error) {
		select {
		case began <- true:
		default: // a further run
		}
		select {
		case <-release:
			return []byte("ten rows"), nil
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	})
	if err != nil {
		log.Fatal(err)
	}
	cluster, err := local.Start(local.Config{Frontends: 2, Registry: registry})
	if err != nil {
		log.Fatal(err)
	}
	defer cluster.Close()
	c, err := client.New(cluster.Frontends())
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	running, err := c.Submit(context.Background(), client.Job{Tasks: []client.Task{{Function: "scan"}}})
	if err != nil {
		log.Fatal(err)
	}
	<-began
	owner := slices.Index(cluster.Frontends(), running.Handle().Owner)
	if err := cluster.StopFrontend(owner); err != nil {
		log.Fatal(err)
	}
	close(release)
	outcomes, err := running.Wait()
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s\n", outcomes[0].Result)
	// Output:
	// ten rows
}
