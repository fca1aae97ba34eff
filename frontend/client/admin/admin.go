// Package admin has the calls of operators: whole views of the fleet, lists of jobs, recordings, drains.
//
// Make a [Client] from a client of package client, with an operator's certificate or the fleet's secret:
//
//	c, err := client.New([]string{"127.0.0.1:7410"}, client.WithTLS(dir))
//	if err != nil {
//		return err
//	}
//	defer c.Close()
//	operator := admin.New(c)
//	err = operator.Drain(ctx, "w7")
//
// A call is here if its answer is about the fleet, or about jobs of all clients. A call is in package client if a
// program needs the call for its own jobs: to run, follow, cancel and explain them, and to see the workers and files
// that the jobs meet. A client with a tenant's certificate or token may make some calls of this package, too, and then
// sees its own jobs alone. Frontends refuse all other calls of such a client as Forbidden.
package admin

import (
	"context"
	"time"

	"github.com/phoebe-sched/phoebe/frontend/client"
	"github.com/phoebe-sched/phoebe/frontend/client/internal/inner"
	v1 "github.com/phoebe-sched/phoebe/idl/gen/phoebe/v1"
)

// Client has an operator's calls, beside all calls of a client.Client. Safe for concurrent use.
type Client struct{ *client.Client }

// New gives the calls of this package to the user of c. Close of either client closes both.
func New(c *client.Client) *Client { return &Client{c} }

// ask makes a call with rpc at the frontends one by one, until a frontend answers or refuses.
func ask[R any](
	ctx context.Context, c *Client, rpc func(context.Context, v1.Phoebe, *v1.Caller) (*R, error),
) (resp *R, err error) {
	err = inner.Ask(ctx, c.Client, func(ctx context.Context, to v1.Phoebe, caller *v1.Caller) (bool, error) {
		resp, err = rpc(ctx, to, caller)
		return resp != nil, err
	})
	return resp, err
}

// fromMicros converts microseconds to a Duration.
func fromMicros(us int64) time.Duration { return time.Duration(us) * time.Microsecond }
