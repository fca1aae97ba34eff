package serve

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"time"

	"github.com/VictoriaMetrics/metrics"

	"github.com/phoebe-sched/phoebe/frontend"
	"github.com/phoebe-sched/phoebe/frontend/tenants"
	"github.com/phoebe-sched/phoebe/probe"
	"github.com/phoebe-sched/phoebe/probe/audit"
	"github.com/phoebe-sched/phoebe/probe/identity"
	"github.com/phoebe-sched/phoebe/probe/names"
)

// Config is what a Server is told once. Zero fields take the defaults that their comments name.
type Config struct {
	// Listen is the host:port that clients connect to; port 0 takes a free one. Without a Secret it must be a
	// loopback address. Default 127.0.0.1:7410.
	Listen string
	// Advertise is the address by which clients and other frontends reach this one: the owner in the handles
	// of its jobs. Default: the address that it listens on.
	Advertise string
	// ProxyFrom are the addresses of balancers that say for whom they connect, by the PROXY protocol, version 2: those that
	// do not are refused. From others such a header is garbage. Nobody else may connect from there. Empty: none says so.
	ProxyFrom []netip.Prefix
	Name      string // in logs and on screens; default: Advertise

	// Secret is what workers, clients and other frontends must know; all have the same. Empty: none, on
	// loopback only, or with Keys.
	Secret string
	// Secrets are several, which may be replaced while it runs, instead of Secret.
	Secrets *identity.Secrets
	// Keys are this frontend's certificates, by which alone connections count then: the secret is only that of gossip. Nil: it
	// speaks in plain.
	Keys *identity.Keys

	// Workers tells which workers there are, besides those that gossip tells of.
	Workers Workers
	// Tenants is the name of a file that says what tenants may have, which is read again when it changes. The newest revision
	// that any frontend has holds for all. Empty: there is none, and all tenants weigh the same.
	Tenants string
	// Peers are the addresses of other frontends: calls for their jobs are forwarded to them, and to those that
	// gossip tells of.
	Peers []string

	// Gossip is the host:port, TCP and UDP, at which this frontend and the others tell each other which workers and
	// frontends there are; port 0 takes a free one. Without a Secret it must be a loopback address. The others know
	// this frontend by its Name. Empty: no gossip.
	Gossip string
	// GossipAdvertise is the host:port at which the others reach Gossip; a host alone is enough where the ports are
	// the same. Default: Gossip.
	GossipAdvertise string
	// Join are the gossip addresses of some other frontends: one that answers is enough. Its own may be among them.
	// Default: it waits for others to join it.
	Join []string
	// Heartbeat is the host:port at which workers announce themselves, if there is gossip. They are told to reach it
	// under the host of GossipAdvertise, if that is given. Default: port 7412 of Gossip's host.
	Heartbeat string

	Core    frontend.Config // its ID is drawn at random if zero
	Policy  frontend.Policy // of jobs that name none; default the first of frontend.Policies
	Seed    uint64          // of all sampling; 0: drawn at random
	Version string          // for Cluster

	Lease        time.Duration // silence after which a link is taken for broken; default 3 s
	DialTimeout  time.Duration // default 2 s
	ClientGrace  time.Duration // without Events after which a submitted job is cancelled; default 30 s
	MaxConns     int           // of clients; those over it are closed at once; default 10,000
	MaxRequest   int           // bytes; default 64 MiB
	MaxRunResult int           // bytes of all results that Run answers with; default 64 MiB
	MaxKept      int           // bytes of results of submitted jobs that clients have not fetched: a job has as many at most as are left, or no more tasks of it start; default 256 MiB
	SLOs         []SLO         // when one is broken, what happens is recorded
	RecordDir    string        // where; empty: nowhere
	FileLimit    uint64        // files that the process may have open, to be told to operators; 0: not known

	Audit *audit.Log // of who asked for what; nil: none

	Logger  *slog.Logger // default: none
	Metrics *metrics.Set // frontends may share one; default: a set of its own
}

func (c Config) withDefaults() Config {
	setInt := func(p *int, v int) {
		if *p == 0 {
			*p = v
		}
	}
	setDuration := func(p *time.Duration, v time.Duration) {
		if *p == 0 {
			*p = v
		}
	}
	if c.Listen == "" {
		c.Listen = "127.0.0.1:7410"
	}
	if c.Gossip != "" && c.Heartbeat == "" {
		if host, _, err := net.SplitHostPort(c.Gossip); err == nil {
			c.Heartbeat = net.JoinHostPort(host, "7412")
		}
	}
	if c.Secrets == nil {
		c.Secrets = identity.NewSecrets(c.Secret)
	}
	if c.Workers == nil {
		c.Workers = Static(nil)
	}
	if c.Policy.Name == "" {
		c.Policy = frontend.Policies[0]
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Metrics == nil {
		c.Metrics = metrics.NewSet()
	}
	setDuration(&c.Lease, 3*time.Second)
	setDuration(&c.DialTimeout, 2*time.Second)
	setDuration(&c.ClientGrace, 30*time.Second)
	setInt(&c.MaxConns, 10_000)
	setInt(&c.MaxRequest, 64<<20)
	setInt(&c.MaxRunResult, 64<<20)
	setInt(&c.MaxKept, 256<<20)
	c.Core = c.Core.Defaults()
	return c
}

// Validate says all that is wrong with c, zero fields standing for their defaults.
func (c Config) Validate() error {
	c = c.withDefaults()
	var errs []error
	addError := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if addr, err := net.ResolveTCPAddr("tcp", c.Listen); err != nil {
		addError("listen on %q: %w: want host:port, such as 127.0.0.1:7410", c.Listen, err)
	} else if c.Secrets.Tell() == "" && c.Keys == nil && !addr.IP.IsLoopback() {
		addError("listen on %q: anyone who can reach it could run tasks on the workers: give certificates (--tls-dir) or set a secret (--secret-file), the same as theirs, or listen on 127.0.0.1", c.Listen)
	}
	if err := c.Keys.Check(identity.Frontend); err != nil {
		errs = append(errs, err)
	}
	for _, secret := range c.Secrets.All() {
		if len(secret) > probe.MaxString {
			addError("the secret has %d bytes: at most %d are allowed", len(secret), probe.MaxString)
		}
	}
	if r := c.Core.ProbeRatio; !(r >= 1 && r <= frontend.MaxProbeRatio) {
		addError("the probe ratio is %v: it must be from 1 to %d; below 1 a task might never be placed", r, frontend.MaxProbeRatio)
	}
	if s := c.Core.Copies; !(s >= 0 && s <= 1) {
		addError("copies of %v of the tasks: it must be from 0, for none, to 1", s)
	}
	if c.Core.LongTask < 0 {
		addError("long tasks are those of %v and more: it must be more than 0", c.Core.LongTask)
	}
	if err := c.Core.Estimate.Validate(); err != nil {
		addError("estimates: %w", err)
	}
	for _, d := range []struct {
		what string
		is   time.Duration
	}{{"the lease", c.Lease}, {"the dial timeout", c.DialTimeout}, {"the client grace", c.ClientGrace}} {
		if d.is < 10*time.Millisecond {
			addError("%s is %v: it must be 10ms or more", d.what, d.is)
		}
	}
	for _, n := range []struct {
		what     string
		is, most int
	}{
		{"the connection limit", c.MaxConns, 1 << 20}, {"the request limit", c.MaxRequest, 1 << 30},
		{"the limit of Run's results", c.MaxRunResult, 1 << 30}, {"the limit of kept results", c.MaxKept, 1 << 40},
		{"the payload limit", c.Core.MaxPayload, probe.MaxBlob}, {"the limit of pending tasks", c.Core.MaxPending, 1 << 30},
		{"the limit of payloads", c.Core.MaxPayloads, 1 << 40},
		{"the limit of tasks in a job", c.Core.MaxTasksPerJob, 1 << 24},
	} {
		if n.is < 1 || n.is > n.most {
			addError("%s is %d: it must be from 1 to %d", n.what, n.is, n.most)
		}
	}
	for _, p := range c.Peers {
		if _, _, err := net.SplitHostPort(p); err != nil {
			addError("peer %q: %w: want host:port", p, err)
		}
	}
	errs = append(errs, c.checkGossip()...)
	if len(errs) == 0 {
		return nil
	}
	return fmt.Errorf("frontend configuration: %w", errors.Join(errs...))
}

// connSecrets are the secrets that are asked for, and told, on connections: none where certificates tell who is who.
func (c *Config) connSecrets() *identity.Secrets {
	if c.Keys != nil {
		return nil
	}
	return c.Secrets
}

// CheckTenants tells whether a tenants file may hold here: tokens are worth nothing where anybody may do everything without one, and
// nobody should tell one in plain over a network.
func (c Config) CheckTenants(f *tenants.File) error {
	c = c.withDefaults()
	if !f.TakesTokens() || c.Keys != nil {
		return nil
	}
	if c.Secrets.Tell() == "" {
		return errors.New("token-hashes keep nobody out here, as who tells no token may do everything: give --tls-dir or --secret-file")
	}
	if addr, err := net.ResolveTCPAddr("tcp", c.Listen); err == nil && !addr.IP.IsLoopback() {
		return fmt.Errorf("token-hashes: clients would tell their tokens in plain to %s: give --tls-dir, or listen on 127.0.0.1", c.Listen)
	}
	return nil
}

// checkGossip says what is wrong with the settings of gossip. What only gossip.Config can tell, Start does.
func (c *Config) checkGossip() (errs []error) {
	addError := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if c.Gossip == "" {
		if c.GossipAdvertise != "" || len(c.Join) > 0 || c.Heartbeat != "" {
			addError("an advertised gossip address, frontends to join or a heartbeat address without a gossip address: give that too")
		}
		return errs
	}
	for _, a := range []struct{ what, addr string }{{"gossip", c.Gossip}, {"take heartbeats", c.Heartbeat}} {
		if addr, err := net.ResolveTCPAddr("tcp", a.addr); err != nil {
			addError("%s on %q: %w: want host:port", a.what, a.addr, err)
		} else if c.Secrets.Tell() == "" && !addr.IP.IsLoopback() && (c.Keys == nil || a.addr == c.Gossip) {
			addError("%s on %q: anyone who can reach it could name workers: set a secret (--secret-file), the same as the others', also where there are certificates, for gossip is encrypted by it, or use 127.0.0.1", a.what, a.addr)
		}
	}
	if c.Advertise == "" && isUnspecified(c.Listen) {
		addError("listen on %q: others are told to reach this frontend there, and cannot: set the address to advertise", c.Listen)
	}
	if c.GossipAdvertise == "" && isUnspecified(c.Heartbeat) {
		addError("take heartbeats on %q: workers are told to reach it there, and cannot: set the gossip address to advertise, whose host they are told then", c.Heartbeat)
	}
	for _, j := range c.Join {
		if err := names.Check(j); err != nil {
			addError("join %w: the gossip address of another frontend", err)
		}
	}
	return errs
}

// isUnspecified reports whether addr is one that a process listens on but that nobody can connect to from elsewhere.
func isUnspecified(addr string) bool {
	a, err := net.ResolveTCPAddr("tcp", addr)
	return err == nil && (a.IP == nil || a.IP.IsUnspecified())
}
