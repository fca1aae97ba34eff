package client_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"slices"
	"testing"

	"github.com/phoebe-sched/phoebe/frontend/client"
	"github.com/phoebe-sched/phoebe/frontend/client/local"
	"github.com/phoebe-sched/phoebe/idl/typed"
)

// asTenant runs all jobs for a tenant, and says how they end.
type asTenant struct {
	client.Runner
	tenant string
}

func (a asTenant) Run(ctx context.Context, job client.Job) ([]client.Outcome, error) {
	job.Tenant = a.tenant
	outcomes, err := a.Runner.Run(ctx, job)
	fmt.Println(job.Tenant, "ran", len(outcomes), "tasks:", err)
	return outcomes, err
}

// A Middleware wraps the methods that it has, here Run. It inherits the others, here Submit.
func ExampleWithMiddleware() {
	cluster, err := local.Start(local.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer cluster.Close()
	c, err := client.New(cluster.Frontends(),
		client.WithMiddleware(func(next client.Runner) client.Runner { return asTenant{next, "pictures"} }))
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	word, err := client.Call(context.Background(), c, typed.Func[[]byte, []byte]{Name: "echo"}, []byte("hello"))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s\n", word)
	// Output:
	// pictures ran 1 tasks: <nil>
	// hello
}

// spy notes the calls that pass.
type spy struct {
	client.Runner
	name  string
	calls *[]string
	ended chan error // of submitted jobs
}

func (s spy) Run(ctx context.Context, job client.Job) ([]client.Outcome, error) {
	*s.calls = append(*s.calls, s.name+" run")
	return s.Runner.Run(ctx, job)
}

func (s spy) Submit(ctx context.Context, job client.Job) (*client.Running, error) {
	*s.calls = append(*s.calls, s.name+" submit")
	r, err := s.Runner.Submit(ctx, job)
	if err == nil {
		go func() {
			<-r.Done()
			s.ended <- r.Err()
		}()
	}
	return r, err
}

// The first Middleware is outermost. A large job of Run passes each Middleware once. Done and Err tell how a submitted
// job ends.
func TestMiddleware(t *testing.T) {
	var calls []string
	ended := make(chan error, 2)
	wrapAs := func(name string) client.Middleware {
		return func(next client.Runner) client.Runner { return spy{next, name, &calls, ended} }
	}
	c := connectClient(t, startCluster(t, local.Config{}).Frontends(),
		client.WithMiddleware(wrapAs("a"), wrapAs("b")), client.WithMiddleware(wrapAs("c")))
	echo := typed.Func[int, int]{Name: "echo"}
	if _, err := client.Map(t.Context(), c, echo, make([]int, 1000)); err != nil {
		t.Error(err)
	}
	for _, err := range client.Stream(t.Context(), c, echo, []int{1, 2}) {
		if err != nil {
			t.Error(err)
		}
	}
	if want := []string{"a run", "b run", "c run", "a submit", "b submit", "c submit"}; !slices.Equal(calls, want) {
		t.Errorf("%q, want %q", calls, want)
	}
	for range 3 {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}

	ctx, cancel := context.WithCancel(t.Context())
	r, err := c.Submit(ctx, client.Job{Tasks: []client.Task{{Function: "sleep", Payload: []byte("1h")}}})
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Err(); err != nil {
		t.Error(err)
	}
	cancel()
	for range 3 {
		if err := <-ended; !errors.As(err, new(*client.UnfinishedError)) {
			t.Error(err)
		}
	}
}
