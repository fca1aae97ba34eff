package protobuf_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/phoebe-sched/phoebe/frontend/client"
	"github.com/phoebe-sched/phoebe/frontend/client/local"
	"github.com/phoebe-sched/phoebe/idl/typed"
	"github.com/phoebe-sched/phoebe/idl/typed/protobuf"
	"github.com/phoebe-sched/phoebe/worker/exec"
)

// Double is declared once, for workers and clients.
var Double = typed.Func[*durationpb.Duration, *durationpb.Duration]{Name: "double", Codec: protobuf.Codec}

// Arguments and results of a function are generated protobuf messages.
func Example() {
	registry := exec.NewRegistry()
	check(exec.Register(registry, Double,
		func(_ context.Context, d *durationpb.Duration) (*durationpb.Duration, error) {
			return durationpb.New(2 * d.AsDuration()), nil
		}))
	cluster, err := local.Start(local.Config{Workers: 1, Registry: registry})
	check(err)
	defer cluster.Close()
	c, err := client.New(cluster.Frontends())
	check(err)
	defer c.Close()

	doubled, err := client.Call(context.Background(), c, Double, durationpb.New(time.Minute))
	check(err)
	fmt.Println(doubled.AsDuration())
	// Output:
	// 2m0s
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
