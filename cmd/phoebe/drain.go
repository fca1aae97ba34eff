package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/phoebe-sched/phoebe/frontend/client"
	"github.com/phoebe-sched/phoebe/frontend/client/admin"
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
command returns when no frontend has a link to the worker, or the worker was started anew. If you interrupt the
command, the worker drains on.

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
	return c.awaitDeparture(ctx, out, log)
}

// awaitDeparture waits until no frontend has a link to the worker. If a supervisor starts the worker anew, the wait
// ends when drained or broken links are up again. If no look saw such a link, because the restart was fast, the wait
// ends after --retry-for.
func (c *drainCmd) awaitDeparture(ctx context.Context, out *streams, log *slog.Logger) error {
	orderedAt, seenLeaving := time.Now(), false
	for {
		answers, err := c.askFleet(ctx, log, admin.ClusterQuery{Worker: c.Worker})
		if ctx.Err() != nil {
			return interruptionExit(ctx)
		}
		if err != nil {
			return err
		}
		isUp := hasLinkIn(answers, "up")
		isLeaving := hasLinkIn(answers, "draining") || hasLinkIn(answers, "adrift")
		seenLeaving = seenLeaving || isLeaving
		if !isLeaving && (!isUp || seenLeaving || time.Since(orderedAt) > c.RetryFor) {
			nameUnanswered(out.err, answers)
			again := ""
			if isUp {
				again = ", and is linked again: it was started anew"
			}
			_, err := fmt.Fprintf(out.out, "worker %s has left%s\n", c.Worker, again)
			return err
		}
		select {
		case <-time.After(drainPoll):
		case <-ctx.Done():
		}
	}
}

// hasLinkIn reports whether a frontend's link to the asked worker is in a state.
func hasLinkIn(answers []answer, state string) bool {
	return slices.ContainsFunc(answers, func(a answer) bool {
		return a.err == nil &&
			slices.ContainsFunc(a.cluster.Workers, func(w admin.Worker) bool { return w.State == state })
	})
}
