package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/VictoriaMetrics/metrics"

	"github.com/phoebe-sched/phoebe/frontend/client"
	"github.com/phoebe-sched/phoebe/frontend/client/admin"
)

type uiCmd struct {
	clientFlags
	serviceFlags
}

// Help returns the text below the usage line.
func (c *uiCmd) Help() string {
	return `Serves a web page for the cluster of --connect, and prints "page http://HOST:PORT/ui/".
The page shows response times and where they went, workers, jobs and tasks. Frontends and phoebe dev
serve the same page at their --admin. Default of --admin: port 7414 of loopback, open to all users
of this machine. Before you open the page to others, put a proxy with accounts in front.`
}

// Run serves the page until ctx ends.
func (c *uiCmd) Run(ctx context.Context, out *streams, log *slog.Logger) error {
	if c.Admin == "" {
		c.Admin = "127.0.0.1:7414"
	}
	if err := c.checkAdmin(); err != nil {
		return usageError(err)
	}
	page, err := pageClient(c.Connect, &c.secretFlags, log, client.WithTokenFile(c.TokenFile))
	if err != nil {
		return usageError(err)
	}
	return c.servePage(ctx, log, page, func(page string) { fmt.Fprintf(out.out, "page %s\n", page) })
}

// servePage serves the web page at --admin until ctx ends. note gets the page's address.
func (f *serviceFlags) servePage(ctx context.Context, log *slog.Logger, page *admin.Client, note func(string)) error {
	var peers trust
	set := metrics.NewSet()
	if err := peers.openAudit(f.AuditLog, set); err != nil {
		return errors.Join(err, page.Close())
	}
	return f.runService(ctx, log, set, peers, service{
		ready:    func() error { return nil },
		failed:   func(ctx context.Context) error { <-ctx.Done(); return nil },
		drain:    func(context.Context) error { return nil },
		close:    func() error { return nil },
		page:     page,
		notePage: note,
	})
}

// pageTimeout bounds the wait for a frontend's answer. Then the page asks another frontend.
const pageTimeout = 2 * time.Second

// pageClient returns a client for the web page.
func pageClient(addrs []string, secrets *secretFlags, log *slog.Logger, more ...client.Option) (*admin.Client, error) {
	c, err := client.New(addrs, append(more, client.WithSecret(os.Getenv(secretVariable)),
		client.WithSecretFile(secrets.SecretFile), client.WithTLS(secrets.TLSDir),
		client.WithName("web page"), client.WithRPCTimeout(pageTimeout), client.WithLogger(log))...)
	if err != nil {
		return nil, fmt.Errorf("the web page: %w", err)
	}
	return admin.New(c), nil
}
