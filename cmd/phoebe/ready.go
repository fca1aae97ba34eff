package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/phoebe-sched/phoebe/probe/identity"
)

type readyCmd struct {
	Admin string        `arg:"" help:"HOST:PORT of the admin port."`
	Live  bool          `help:"Ask only whether the process lives, as /livez does. Default: whether it is ready, as /readyz does."`
	Wait  time.Duration `default:"1s" placeholder:"D" help:"How long to wait for the answer. Default ${default}."`

	secretFlags
}

// Help returns the text below the usage line.
func (c *readyCmd) Help() string {
	return `Asks /readyz at the admin port of a frontend or a worker. Use this command for checks
that cannot show a certificate, such as the checks of Kubernetes, with --tls-dir. A certificate of
any role will do.

Exit codes: 0 ready, 1 not ready, 2 wrong usage, 3 no answer.`
}

// Run asks the admin port.
func (c *readyCmd) Run(ctx context.Context, out *streams) error {
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
