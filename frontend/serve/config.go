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

// Config configures a Server. Zero fields take the defaults named in the comments.
type Config struct {
	// Listen is the host:port that clients connect to; port 0 takes a free port. Without Secret, Secrets and Keys
	// it must be a loopback address. Default 127.0.0.1:7410.
	Listen string
	// Clients and peers reach the frontend at Advertise. The handles of its jobs name Advertise as owner. Default:
	// the address of the listener.
	Advertise string
	// ProxyFrom are the addresses of balancers. They name their clients by the PROXY protocol, version 2. A
	// connection without the protocol's header is refused. No client may connect from the addresses itself. From
	// any other address a header is garbage. Empty: there are no balancers.
	ProxyFrom []netip.Prefix
	Name      string // in logs and on screens; default: Advertise

	// Secret is the secret that workers, clients and frontends share. Empty: no secret, allowed on loopback or with
	// Keys.
	Secret string
	// Secrets replaces Secret. Secrets may hold several secrets, and may change while the frontend runs.
	Secrets *identity.Secrets
	// GossipSecrets encrypt gossip in place of Secrets. No worker and no client should have them: whoever has them
	// can gossip. Nil: Secrets.
	GossipSecrets *identity.Secrets
	// Keys are this frontend's certificates. With Keys, only certificates count on connections, and the secret is
	// only for gossip. Nil: connections are in plain.
	Keys *identity.Keys

	// Workers is the source of workers' addresses, besides gossip.
	Workers Workers
	// Tenants is the name of the tenants file: the rights and shares of tenants. The file is read again when it
	// changes. The newest revision at any frontend is in force for all. Empty: no file, and all tenants weigh the
	// same.
	Tenants string
	// Peers are the addresses of further frontends. Calls for a peer's jobs are forwarded to it. Frontends known by
	// gossip are peers, too.
	Peers []string

	// Gossip is the host:port, TCP and UDP, for gossip. By gossip, frontends tell each other the workers and
	// frontends of the fleet. Port 0 takes a free port. Without a secret it must be a loopback address. The peers
	// know the frontend by Name. Empty: no gossip.
	Gossip string
	// Peers reach Gossip at GossipAdvertise, a host:port. A host alone is enough if the ports are the same.
	// Default: Gossip.
	GossipAdvertise string
	// Join are the gossip addresses of peers. One answer is enough. The frontend's own address may be among them.
	// Default: the frontend waits for peers to join.
	Join []string
	// Heartbeat is the host:port at which workers announce themselves, if there is gossip. Workers are told the
	// host of GossipAdvertise, if that is given. Default: port 7412 of Gossip's host.
	Heartbeat string

	Core    frontend.Config // a zero ID is replaced by a random ID
	Policy  frontend.Policy // of jobs without a policy; default the first of frontend.Policies
	Seed    uint64          // of all sampling; 0: drawn at random
	Version string          // for Cluster

	Lease       time.Duration // silence after which a link counts as broken; default 3 s
	DialTimeout time.Duration // default 2 s
	ClientGrace time.Duration // time without Events after which a submitted job is cancelled; default 30 s
	MaxGrace    time.Duration // limit of a job's own grace (Job.grace_us); default 10 min
	// limit of clients' connections; a further connection closes a stranger's, or is closed; default 10,000
	MaxConns     int
	MaxRequest   int // bytes; default 64 MiB
	MaxRunResult int // bytes of all results in the answer to a Run; default 64 MiB
	// Bytes of unfetched results of submitted jobs. A job may have as many as all jobs leave free. Beyond the
	// limit, no more tasks of the job start. Default 256 MiB.
	MaxUnread int
	SLOs      []SLO  // if an objective is broken, a recording is written
	RecordDir string // folder of recordings; empty: none are written
	FileLimit uint64 // limit of open files of the process, shown to operators; 0: not known

	Audit *audit.Log // log of calls and callers; nil: none

	Logger  *slog.Logger // default: none
	Metrics *metrics.Set // frontends may share a set; default: a new set
}

// withDefaults returns c with defaults for its zero fields.
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
	if c.GossipSecrets == nil {
		c.GossipSecrets = c.Secrets
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
	setDuration(&c.MaxGrace, 10*time.Minute)
	setInt(&c.MaxConns, 10_000)
	setInt(&c.MaxRequest, 64<<20)
	setInt(&c.MaxRunResult, 64<<20)
	setInt(&c.MaxUnread, 256<<20)
	c.Core = c.Core.Defaults()
	return c
}

// Validate returns all errors in c. Zero fields count as their defaults.
func (c Config) Validate() error {
	c = c.withDefaults()
	var errs []error
	addError := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if addr, err := net.ResolveTCPAddr("tcp", c.Listen); err != nil {
		addError("listen on %q: %w: want host:port, such as 127.0.0.1:7410", c.Listen, err)
	} else if c.Secrets.Tell() == "" && c.Keys == nil && !addr.IP.IsLoopback() {
		addError("listen on %q: anyone who can reach the address could run tasks on the workers: give certificates "+
			"(--tls-dir) or set a secret (--secret-file), the same as the workers', or listen on 127.0.0.1", c.Listen)
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
		addError("the probe ratio is %v: it must be from 1 to %d; below 1 a task might never be placed", r,
			frontend.MaxProbeRatio)
	}
	if s := c.Core.Copies; !(s >= 0 && s <= 1) {
		addError("the share of tasks with a copy is %v: it must be from 0, for none, to 1", s)
	}
	if c.Core.LongTask < 0 {
		addError("the run time from which a task is long is %v: it must be more than 0", c.Core.LongTask)
	}
	if err := c.Core.Estimate.Validate(); err != nil {
		addError("estimates: %w", err)
	}
	for _, d := range []struct {
		what  string
		value time.Duration
	}{
		{"the lease", c.Lease}, {"the dial timeout", c.DialTimeout}, {"the client grace", c.ClientGrace},
		{"the limit of grace", c.MaxGrace},
	} {
		if d.value < 10*time.Millisecond {
			addError("%s is %v: it must be 10ms or more", d.what, d.value)
		}
	}
	for _, n := range []struct {
		what        string
		value, most int
	}{
		{"the connection limit", c.MaxConns, 1 << 20}, {"the request limit", c.MaxRequest, 1 << 30},
		{"the limit of Run's results", c.MaxRunResult, 1 << 30}, {"the limit of kept results", c.MaxUnread, 1 << 40},
		{"the payload limit", c.Core.MaxPayload, probe.MaxBlob},
		{"the limit of pending tasks", c.Core.MaxPending, 1 << 30},
		{"the limit of payloads", c.Core.MaxPayloads, 1 << 40},
		{"the limit of tasks in a job", c.Core.MaxTasksPerJob, 1 << 24},
	} {
		if n.value < 1 || n.value > n.most {
			addError("%s is %d: it must be from 1 to %d", n.what, n.value, n.most)
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

// connSecrets returns the secrets for connections, to ask for and to show: nil if certificates identify callers.
func (c *Config) connSecrets() *identity.Secrets {
	if c.Keys != nil {
		return nil
	}
	return c.Secrets
}

// CheckTenants reports why a tenants file may not be in force here. If callers without a token may do everything,
// tokens are worth nothing. And no client should show a token in plain over a network.
func (c Config) CheckTenants(f *tenants.File) error {
	c = c.withDefaults()
	if !f.TakesTokens() || c.Keys != nil {
		return nil
	}
	if c.Secrets.Tell() == "" {
		return errors.New(
			"token-hashes keep nobody out here, because callers without a token may do everything: give --tls-dir or " +
				"--secret-file")
	}
	if addr, err := net.ResolveTCPAddr("tcp", c.Listen); err == nil && !addr.IP.IsLoopback() {
		return fmt.Errorf(
			"token-hashes: clients would tell their tokens in plain to %s: give --tls-dir, or listen on 127.0.0.1",
			c.Listen)
	}
	return nil
}

// checkGossip returns the errors in the settings of gossip. Errors found only by gossip.Config come from Start.
func (c *Config) checkGossip() (errs []error) {
	addError := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if c.Gossip == "" {
		if c.GossipAdvertise != "" || len(c.Join) > 0 || c.Heartbeat != "" {
			addError("--gossip-advertise, --join or --heartbeat without --gossip: give --gossip HOST:PORT too")
		}
		return errs
	}
	for _, a := range []struct {
		what, addr string
		isOpen     bool // to everybody
	}{
		{"gossip", c.Gossip, c.GossipSecrets.Tell() == ""},
		{"take heartbeats", c.Heartbeat, c.Secrets.Tell() == "" && c.Keys == nil},
	} {
		if addr, err := net.ResolveTCPAddr("tcp", a.addr); err != nil {
			addError("%s on %q: %w: want host:port", a.what, a.addr, err)
		} else if a.isOpen && !addr.IP.IsLoopback() {
			addError("%s on %q: anyone who can reach the address could name workers: set a secret (--secret-file), "+
				"the same as at all frontends, or use 127.0.0.1; a secret is needed even with certificates, because "+
				"gossip is encrypted by it (--gossip-secret-file sets one for gossip alone)", a.what, a.addr)
		}
	}
	if c.Advertise == "" && isUnspecified(c.Listen) {
		addError("listen on %q: no peer can reach the frontend there: give --advertise HOST:PORT", c.Listen)
	}
	if host, _, err := net.SplitHostPort(c.Advertise); err == nil && isAnyHost(host) {
		addError("advertise %q: no peer can reach the frontend there: give --advertise an address of this machine",
			c.Advertise)
	}
	if c.GossipAdvertise == "" && isUnspecified(c.Heartbeat) {
		addError("take heartbeats on %q: no worker can reach the frontend there: give --gossip-advertise "+
			"HOST:PORT, because workers are told that host", c.Heartbeat)
	}
	for _, j := range c.Join {
		if err := names.Check(j); err != nil {
			addError("join %w: want the gossip address of a frontend", err)
		}
	}
	return errs
}

// isAnyHost reports whether host stands for all addresses of a machine.
func isAnyHost(host string) bool {
	ip := net.ParseIP(host)
	return host == "" || ip != nil && ip.IsUnspecified()
}

// isUnspecified reports whether addr has no host. A process may listen on such an address, but no client can
// connect to it from elsewhere.
func isUnspecified(addr string) bool {
	a, err := net.ResolveTCPAddr("tcp", addr)
	return err == nil && (a.IP == nil || a.IP.IsUnspecified())
}
