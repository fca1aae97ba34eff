package msgpack_test

import (
	"context"
	"fmt"
	"log"

	"github.com/phoebe-sched/phoebe/frontend/client"
	"github.com/phoebe-sched/phoebe/frontend/client/local"
	"github.com/phoebe-sched/phoebe/idl/typed"
	"github.com/phoebe-sched/phoebe/idl/typed/msgpack"
	"github.com/phoebe-sched/phoebe/worker/exec"
)

type Rectangle struct {
	Width  int `codec:"w"`
	Height int `codec:"h"`
}

// Area is declared once, for workers and clients.
var Area = typed.Func[Rectangle, int]{Name: "area", Codec: msgpack.Codec}

// Arguments and results of a function travel as MessagePack.
func Example() {
	registry := exec.NewRegistry()
	check(exec.Register(registry, Area, func(_ context.Context, r Rectangle) (int, error) {
		return r.Width * r.Height, nil
	}))
	cluster, err := local.Start(local.Config{Workers: 1, Registry: registry})
	check(err)
	defer cluster.Close()
	c, err := client.New(cluster.Frontends())
	check(err)
	defer c.Close()

	area, err := client.Call(context.Background(), c, Area, Rectangle{3, 4})
	check(err)
	fmt.Println(area)
	// Output:
	// 12
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
