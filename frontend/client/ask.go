package client

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	v1 "github.com/phoebe-sched/phoebe/idl/gen/phoebe/v1"
)

// findAskable returns the frontends to ask a question, most likely to answer first: seeds before members, each time
// with another seed first, and frontends whose last call failed behind all others. Before the first lookup of names has
// ended, findAskable waits. If there is no frontend, the error says why.
func (c *Client) findAskable(ctx context.Context) ([]*frontend, error) {
	r := c.roster.Load()
	if len(r.seeds) == 0 {
		timer := time.NewTimer(c.cfg.rpcTimeout)
		defer timer.Stop()
		select {
		case <-c.lookedUp:
		case <-timer.C:
		case <-ctx.Done():
			return nil, contextError(ctx)
		case <-c.closing:
			return nil, ErrClosed
		}
		r = c.roster.Load()
	}
	all := r.allFrontends()
	if len(all) == 0 {
		return nil, c.whyNoneAnswers()
	}
	if n := len(r.seeds); n > 0 {
		start := int(c.nextStart.Add(1) % uint32(n))
		copy(all, slices.Concat(r.seeds[start:], r.seeds[:start]))
	}
	slices.SortStableFunc(all, func(a, b *frontend) int {
		return min(a.countFailures(), 1) - min(b.countFailures(), 1)
	})
	return all, nil
}

// whyNoneAnswers returns the error of a client that can ask no frontend.
func (c *Client) whyNoneAnswers() error {
	if err := c.lookupErr.Load(); err != nil {
		return fmt.Errorf("%w: %w", errNoneAnswers, *err)
	}
	return errNoneAnswers
}

// Ping asks the frontends for a sign of life, and returns nil at the first answer. New makes no connection,
// and Run and Submit look for a frontend for 30 s (WithRetryFor). So a program with a wrong address, secret or
// certificate learns of the mistake at once by Ping. If a frontend refused the client, the error is a *RefusedError.
// Otherwise the error says for each frontend why no answer came. If one frontend answers and others are silent, the log
// of WithLogger names the silent frontends.
func (c *Client) Ping(ctx context.Context) error {
	_, err := c.askCluster(ctx, &v1.ClusterRequest{FrontendsOnly: true})
	return err
}

// contextError returns why ctx has ended. The error is ctx.Err and, if the caller gave another cause, the cause.
func contextError(ctx context.Context) error {
	err, cause := ctx.Err(), context.Cause(ctx)
	if err == nil || cause == nil || cause == err {
		return err
	}
	return fmt.Errorf("%w: %w", err, cause)
}

// joinFailures joins the errors of frontends asked one after the other. A RefusedError among them stays in reach of
// errors.As. If all frontends refused, the last refusal stands for all.
func joinFailures(errs []error) error {
	if !slices.ContainsFunc(errs, func(err error) bool { return !errors.As(err, new(*RefusedError)) }) {
		return errs[len(errs)-1]
	}
	return errors.Join(errs...)
}

// askUntilAnswered makes a call with rpc at the frontends one by one, until a frontend answers or refuses. If the
// address first is a frontend's, it is asked first. The refusals UnknownJob and NoFile are not final, because the next
// frontend may know the job or the file.
func askUntilAnswered[R any](
	ctx context.Context, c *Client, first string, rpc func(context.Context, *frontend) (*R, error),
) (*R, error) {
	if err := c.holdOpen(ctx); err != nil {
		return nil, err
	}
	defer c.background.Done()
	order, err := c.findAskable(ctx)
	if err != nil {
		return nil, err
	}
	if i := slices.IndexFunc(order, func(f *frontend) bool { return f.addr == first }); i > 0 {
		order[0], order[i] = order[i], order[0]
	}
	var errs []error
	for _, f := range order {
		var resp *R
		err := f.makeCall(ctx, &call{}, c.cfg.rpcTimeout, func(ctx context.Context) (err error) {
			resp, err = rpc(ctx, f)
			return err
		})
		var refused *RefusedError
		switch {
		case err == nil && resp == nil:
			err = &callError{addr: f.addr, err: errEmptyAnswer}
		case err == nil:
			return resp, nil
		case errors.As(err, &refused) && refused.Reason != UnknownJob && refused.Reason != NoFile:
			return nil, refused
		}
		errs = append(errs, err)
		if ctx.Err() != nil {
			break
		}
	}
	return nil, joinFailures(errs)
}
