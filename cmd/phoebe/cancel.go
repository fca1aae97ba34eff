package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"github.com/phoebe-sched/phoebe/frontend/client"
	"github.com/phoebe-sched/phoebe/probe"
)

type cancelCmd struct {
	Handle string `arg:"" help:"The job: JOB@OWNER, as phoebe run prints it, or JOB alone, which asks every frontend in --connect."`
	Reason string `default:"cancelled by phoebe cancel" placeholder:"TEXT" help:"What the tasks that are cancelled say. Default ${default}."`

	clientFlags
}

// Run cancels a job.
func (c *cancelCmd) Run(ctx context.Context, out *streams, log *slog.Logger) error {
	h, err := parseHandle(c.Handle)
	if err != nil {
		return usage(err)
	}
	addrs := c.Connect
	if h.Owner != "" && !slices.Contains(addrs, h.Owner) {
		addrs = append([]string{h.Owner}, addrs...)
	}
	cl, err := c.dial(log, addrs)
	if err != nil {
		return err
	}
	defer cl.Close()
	asking, done := context.WithTimeout(ctx, c.RetryFor)
	defer done()
	n, err := cl.Cancel(asking, h, c.Reason)
	var refused *client.RefusedError
	switch {
	case errors.As(err, &refused) && refused.Reason == client.UnknownJob:
		return fmt.Errorf("cancel job %s: %w", c.Handle, err)
	case err != nil:
		return jobError(ctx, fmt.Errorf("cancel job %s: %w", c.Handle, err))
	}
	_, err = fmt.Fprintf(out.out, "job %s: %d tasks are cancelled\n", h.Job, n)
	return err
}

func handleText(h client.Handle) string { return h.Job + "@" + h.Owner }

func parseHandle(text string) (client.Handle, error) {
	job, owner, _ := strings.Cut(text, "@")
	if _, err := probe.ParseJobID(job); err != nil {
		return client.Handle{}, fmt.Errorf("handle %q: %w: want JOB@OWNER, as phoebe run prints it", text, err)
	}
	return client.Handle{Job: job, Owner: owner}, nil
}
