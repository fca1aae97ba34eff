package client

import (
	"context"
	"errors"
	"slices"
)

// seedsInTurn returns the seeds, each time with another seed first.
func (c *Client) seedsInTurn() []*frontend {
	seeds := c.roster.Load().seeds
	if len(seeds) == 0 {
		return nil
	}
	start := int(c.nextStart.Add(1) % uint32(len(seeds)))
	return slices.Concat(seeds[start:], seeds[:start])
}

// askUntilAnswered makes a call with rpc at the frontends in order, until a frontend answers or refuses. The
// refusals UnknownJob and NoFile are not final, because the next frontend may know the job or the file.
func askUntilAnswered[R any](
	ctx context.Context, c *Client, order []*frontend, rpc func(context.Context, *frontend) (*R, error),
) (*R, error) {
	if err := c.holdOpen(); err != nil {
		return nil, err
	}
	defer c.background.Done()
	var refused *RefusedError
	var errs []error
	for _, f := range order {
		var resp *R
		err := f.makeCall(ctx, &call{}, c.cfg.rpcTimeout, func(ctx context.Context) (err error) {
			resp, err = rpc(ctx, f)
			return err
		})
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
	if refused != nil {
		return nil, refused
	}
	if len(errs) == 0 {
		return nil, errNoneAnswers
	}
	return nil, errors.Join(errs...)
}
