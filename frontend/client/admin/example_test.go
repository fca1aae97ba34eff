package admin_test

import (
	"context"
	"fmt"
	"log"

	"github.com/phoebe-sched/phoebe/frontend/client"
	"github.com/phoebe-sched/phoebe/frontend/client/admin"
	"github.com/phoebe-sched/phoebe/frontend/client/local"
)

// An operator looks at the fleet, and drains a worker. The worker ends its tasks and leaves.
func Example() {
	cluster, err := local.Start(local.Config{Workers: 2})
	check(err)
	defer cluster.Close()
	c, err := client.New(cluster.Frontends()) // of a real fleet: client.WithTLS, with an operator's certificate
	check(err)
	defer c.Close()

	ctx, operator := context.Background(), admin.New(c)
	fleet, err := operator.Cluster(ctx)
	check(err)
	fmt.Println(len(fleet.Workers), "workers, jobs under way:", fleet.Jobs)
	leaving := fleet.Workers[0].Name
	check(operator.Drain(ctx, leaving))
	for up := len(fleet.Workers); up > 1; {
		workers, err := operator.Workers(ctx)
		check(err)
		up = 0
		for _, w := range workers {
			if w.State == "up" {
				up++
			}
		}
	}
	fmt.Println("one is up")
	// Output:
	// 2 workers, jobs under way: 0
	// one is up
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
