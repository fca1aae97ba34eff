package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/phoebe-sched/phoebe/frontend/client"
)

type drainCmd struct {
	Worker string `arg:"" help:"Name or address of the worker."`
	Detach bool   `help:"Return when the worker has been told. Default: wait until it has left."`

	fleetFlags
}

// Help returns the text below the usage line.
func (c *drainCmd) Help() string {
	return `The worker takes no more tasks, ends the running tasks, and exits (--drain-timeout of the worker bounds
the time). Queued tasks go to other workers. Any frontend with a link to the worker passes the order on. The
command returns when no frontend has a link to the worker. If you interrupt the command, the worker drains on.

With --tls-dir, the certificate must be an operator's. To announce an absence instead, use the worker's
admin port (see OPERATIONS.md, Maintenance).

Exit codes: 0 the worker has left (with --detach: has been told), 1 no frontend has a link to the worker, 2 wrong
usage, 3 refused or unreachable.`
}

// drainPoll is the time between two looks at a leaving worker.
const drainPoll = 200 * time.Millisecond

// Run drains a worker.
func (c *drainCmd) Run(ctx context.Context, out *streams, log *slog.Logger) error {
	cl, err := c.newClient(log, c.Connect)
	if err != nil {
		return err
	}
	defer cl.Close()
	asking, done := context.WithTimeout(ctx, c.RetryFor)
	defer done()
	if err := cl.DrainAt(asking, c.Only, c.Worker); err != nil {
		err = fmt.Errorf("drain worker %s: %w", c.Worker, err)
		var refused *client.RefusedError
		if errors.As(err, &refused) && refused.Reason == client.NoWorker {
			return err
		}
		return jobError(ctx, err)
	}
	if _, err := fmt.Fprintf(out.out, "worker %s drains\n", c.Worker); err != nil || c.Detach {
		return err
	}
	for {
		answers, err := c.askFleet(ctx, log, client.ClusterQuery{Worker: c.Worker})
		switch {
		case ctx.Err() != nil:
			return interruptionExit(ctx)
		case err != nil:
			return err
		case !slices.ContainsFunc(answers, func(a answer) bool { return a.hasLink() }):
			nameUnanswered(out.err, answers)
			_, err := fmt.Fprintf(out.out, "worker %s has left\n", c.Worker)
			return err
		}
		select {
		case <-time.After(drainPoll):
		case <-ctx.Done():
		}
	}
}

// hasLink reports whether the frontend has a link to the asked worker, or may get the link back.
func (a *answer) hasLink() bool {
	return a.err == nil && slices.ContainsFunc(a.cluster.Workers, func(w client.Worker) bool {
		return w.State == "up" || w.State == "draining" || w.State == "adrift"
	})
}
