package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"github.com/phoebe-sched/phoebe/frontend/client/admin"
	"github.com/phoebe-sched/phoebe/probe/identity"
)

type readyCmd struct {
	Admin string        `arg:"" optional:"" help:"HOST:PORT of an admin port to ask, in place of the frontends in --connect."`
	Live  bool          `help:"Ask only whether the process lives, as /livez does. Default: whether it is ready, as /readyz does."`
	Wait  time.Duration `default:"1s" placeholder:"D" help:"How long to wait for the answer of the admin port. Default ${default}."`

	clientFlags
}

// Help returns the text below the usage line.
func (c *readyCmd) Help() string {
	return `Asks every frontend in --connect. A frontend is ready if it takes jobs and has a link to a worker.
With the address of the admin port of a frontend or a worker, asks /readyz there. Use this for checks
that cannot show a certificate, such as the checks of Kubernetes, with --tls-dir. A certificate of
any role will do.

Exit codes: 0 all are ready, 1 one is not ready, 2 wrong usage, 3 no answer.`
}

// Run asks the admin port, or the frontends.
func (c *readyCmd) Run(ctx context.Context, line *kong.Context, out *streams, log *slog.Logger) error {
	if c.Admin == "" {
		return c.askFrontends(ctx, out, log)
	}
	if isOnLine(line, "connect") {
		return usageError(fmt.Errorf("--connect and the admin port %s: leave out one of them", c.Admin))
	}
	return c.askAdmin(ctx, out)
}

// readyPage is the number of workers that a question of askFrontends gets. Most often one of the first workers is
// linked, so a check of a large fleet moves few of its workers.
const readyPage = 100

// askFrontends asks each frontend in --connect.
func (c *readyCmd) askFrontends(ctx context.Context, out *streams, log *slog.Logger) error {
	clients, err := c.dialEach(log)
	if err != nil {
		return err
	}
	defer closeEach(clients)
	for i, cl := range clients {
		q := admin.ClusterQuery{Max: readyPage}
		a := askOne(ctx, cl, c.RetryFor, c.Connect[i], q)
		for !c.Live && a.err == nil && a.countLinks() == 0 && a.cluster.Next != "" {
			q.After = a.cluster.Next
			a = askOne(ctx, cl, c.RetryFor, c.Connect[i], q)
		}
		switch {
		case a.err != nil:
			return jobError(ctx, fmt.Errorf("ask frontend %s: %w", a.connect, a.err))
		case !c.Live && a.cluster.Draining:
			return fmt.Errorf("frontend %s: draining", a.connect)
		case !c.Live && a.countLinks() == 0:
			return fmt.Errorf("frontend %s: no worker is linked", a.connect)
		}
		fmt.Fprintf(out.out, "frontend %s: ok\n", quoteUnprintable([]byte(a.cluster.Frontend)))
		if a.cluster.Warning != "" {
			fmt.Fprintln(out.out, "warning:", a.cluster.Warning)
		}
	}
	return nil
}

// askAdmin asks the admin port.
func (c *readyCmd) askAdmin(ctx context.Context, out *streams) error {
	keys, err := c.openKeys()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, c.Wait)
	defer cancel()
	path := "/readyz"
	if c.Live {
		path = "/livez"
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+c.Admin+path, nil)
	if err != nil {
		return usageError(err)
	}
	transport := &http.Transport{DialContext: func(ctx context.Context, _, addr string) (net.Conn, error) {
		return keys.Connect(ctx, new(net.Dialer).DialContext, addr, identity.Anyone)
	}}
	defer transport.CloseIdleConnections()
	res, err := transport.RoundTrip(req)
	if err != nil {
		return &exitError{exitUnavailable, fmt.Errorf("no answer from %s: %w: is it the address of --admin?", c.Admin, err)}
	}
	defer res.Body.Close()
	text, err := io.ReadAll(io.LimitReader(res.Body, 64<<10))
	if err != nil {
		return &exitError{exitUnavailable, err}
	}
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", res.Status, strings.TrimSpace(string(text)))
	}
	_, err = out.out.Write(text)
	return err
}
