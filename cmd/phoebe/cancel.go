package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"github.com/phoebe-sched/phoebe/frontend/client"
	"github.com/phoebe-sched/phoebe/frontend/client/admin"
	"github.com/phoebe-sched/phoebe/probe"
)

type cancelCmd struct {
	Handle string `arg:"" name:"job" help:"The job: JOB@OWNER, as phoebe run prints, or JOB alone to look for the job at all frontends."`
	Reason string `default:"cancelled by phoebe cancel" placeholder:"TEXT" help:"Reason in the outcomes of the cancelled tasks. Default ${default}."`

	fleetFlags
}

// Help returns the text below the usage line.
func (c *cancelCmd) Help() string {
	return `Cancels the unfinished tasks of the job, at the frontend with the job. If the job is not found, the error
names the frontends without an answer.

Exit codes: 0 cancelled, 1 the job is unknown, 2 wrong usage, 3 refused or unreachable.`
}

// Run cancels a job.
func (c *cancelCmd) Run(ctx context.Context, out *streams, log *slog.Logger) error {
	h, n, err := askOwner(ctx, &c.clientFlags, log, "cancel", c.Handle,
		func(ctx context.Context, cl *admin.Client, h client.Handle) (int, error) {
			if c.Only != "" {
				return cl.CancelAt(ctx, c.Only, h.Job, c.Reason)
			}
			return cl.Cancel(ctx, h, c.Reason)
		})
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(out.out, "job %s: %d tasks are cancelled\n", h.Job, n)
	return err
}

// askOwner asks a question about a job. If the handle names an owner, the client dials the owner first. Errors name
// the verb, such as cancel. A job unknown to all frontends is no exitError: the command fails with exit code 1.
func askOwner[T any](ctx context.Context, flags *clientFlags, log *slog.Logger, verb, handle string,
	question func(context.Context, *admin.Client, client.Handle) (T, error)) (h client.Handle, answer T, err error) {
	if h, err = parseHandle(handle); err != nil {
		return h, answer, usageError(err)
	}
	addrs := flags.Connect
	if h.Owner != "" && !slices.Contains(addrs, h.Owner) {
		addrs = append([]string{h.Owner}, addrs...)
	}
	cl, err := flags.newClient(log, addrs)
	if err != nil {
		return h, answer, err
	}
	defer cl.Close()
	asking, done := context.WithTimeout(ctx, flags.RetryFor)
	defer done()
	if answer, err = question(asking, cl, h); err == nil {
		return h, answer, nil
	}
	err = fmt.Errorf("%s job %s: %w", verb, handle, err)
	var refused *client.RefusedError
	if errors.As(err, &refused) && refused.Reason == client.UnknownJob {
		return h, answer, err
	}
	return h, answer, jobError(ctx, err)
}

// handleText formats a handle as JOB@OWNER.
func handleText(h client.Handle) string { return h.Job + "@" + h.Owner }

// parseHandle parses JOB@OWNER, or JOB alone: the owner is then empty.
func parseHandle(text string) (client.Handle, error) {
	job, owner, _ := strings.Cut(text, "@")
	if _, err := probe.ParseJobID(job); err != nil {
		return client.Handle{}, fmt.Errorf("handle %q: %w: want JOB@OWNER, as phoebe run prints it", text, err)
	}
	return client.Handle{Job: job, Owner: owner}, nil
}
