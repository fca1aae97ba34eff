package client

import (
	"context"

	"github.com/phoebe-sched/phoebe/frontend/client/internal/inner"
	v1 "github.com/phoebe-sched/phoebe/idl/gen/phoebe/v1"
)

// Worker is a frontend's view of a worker. Queued, Running and Free are the last values from the worker.
type Worker struct {
	Name      string
	Address   string
	State     string // connecting, up, adrift, draining or down
	Host      string
	Rack      string
	Labels    []string
	Functions []string
	Capacity  Demand
	Free      Demand // room for regular tasks: the room of spare tasks counts as free, because they are stopped
	Queued    int    // places in the worker's queue, of all frontends
	Running   int    // tasks, of all frontends
}

// Workers returns the workers that the first answering frontend knows. An engine that cuts a query into as many tasks
// as there are slots counts slots by Workers. Package admin shows more of each worker to operators.
func (c *Client) Workers(ctx context.Context) ([]Worker, error) {
	resp, err := c.askCluster(ctx, &v1.ClusterRequest{})
	if err != nil {
		return nil, err
	}
	workers := make([]Worker, len(resp.Workers))
	for i, w := range resp.Workers {
		workers[i] = fromWorker(w)
	}
	return workers, nil
}

// askCluster makes one Cluster call.
func (c *Client) askCluster(ctx context.Context, req *v1.ClusterRequest) (*v1.ClusterResponse, error) {
	req.Caller = c.cfg.wireCaller()
	return askUntilAnswered(ctx, c, "",
		func(ctx context.Context, f *frontend) (*v1.ClusterResponse, error) {
			return f.rpc.Cluster(ctx, req)
		})
}

// fromWorker converts a worker of an answer.
func fromWorker(w *v1.WorkerStatus) Worker {
	return Worker{
		Name: w.Name, Address: w.Address, State: w.State, Host: w.Host, Rack: w.Rack, Labels: w.Labels,
		Functions: w.Functions, Capacity: fromDemand(w.Capacity), Free: fromDemand(w.Free), Queued: int(w.Queued),
		Running: int(w.Running),
	}
}

// fromDemand converts a demand; nil gives zero.
func fromDemand(d *v1.Demand) Demand {
	if d == nil {
		return Demand{}
	}
	return Demand{CPU: d.CpuMillicores, Memory: d.MemoryMib}
}

// init gives package admin what it shares with this package.
func init() {
	inner.Ask = func(
		ctx context.Context, c any, rpc func(context.Context, v1.Phoebe, *v1.Caller) (bool, error),
	) error {
		client := c.(*Client)
		_, err := askUntilAnswered(ctx, client, "", func(ctx context.Context, f *frontend) (*struct{}, error) {
			if answered, err := rpc(ctx, f.rpc, client.cfg.wireCaller()); err != nil || !answered {
				return nil, err
			}
			return &struct{}{}, nil
		})
		return err
	}
	inner.Summary = func(s *v1.JobSummary) any { return fromSummary(s) }
	inner.Trace = func(r *v1.TraceResponse, from int) (any, error) { return fromTrace(r, from) }
	inner.Worker = func(w *v1.WorkerStatus) any { return fromWorker(w) }
}
