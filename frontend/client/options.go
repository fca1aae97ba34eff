package client

import (
	"log/slog"
	"net"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/phoebe-sched/phoebe/probe/identity"
)

// Option changes a default of New.
type Option func(*config)

type config struct {
	name           string
	secretFile     string
	secrets        *identity.Secrets // nil: none
	tokenFile      string
	tokens         *identity.Secrets // told instead of the secrets; nil: none
	tlsDir         string
	keys           *identity.Keys // in tlsDir; nil: in plain
	log            *slog.Logger
	tracer         trace.Tracer // nil: none
	rpcTimeout     time.Duration
	connectTimeout time.Duration
	retryFor       time.Duration
	refusalsFinal  bool
	balancerOnly   bool
	backoffMin     time.Duration
	backoffMax     time.Duration
	pingEvery      time.Duration // how often a silent frontend that owes answers is asked for a sign of life
	pingTimeout    time.Duration // how long it may take for that
	lookupEvery    time.Duration // how often names are looked up; 0: as others are
	resolver       *net.Resolver // of names; nil: the system's
	pollFor        time.Duration // how long the frontend may sit on a poll for events
}

func defaultConfig() config {
	return config{
		log:            slog.New(slog.DiscardHandler),
		rpcTimeout:     5 * time.Second,
		connectTimeout: time.Second,
		retryFor:       30 * time.Second,
		backoffMin:     20 * time.Millisecond,
		backoffMax:     2 * time.Second,
		pingEvery:      500 * time.Millisecond,
		pingTimeout:    2 * time.Second,
		pollFor:        20 * time.Second,
	}
}

// WithSecret is needed where the frontends were started with a secret.
func WithSecret(secret string) Option {
	return func(c *config) { c.secrets = identity.NewSecrets(secret) }
}

// WithSecretFile is WithSecret with what is in a file, the first line of it, which may be replaced at any time.
func WithSecretFile(file string) Option { return func(c *config) { c.secretFile = file } }

// WithToken has the client known by a token, as one of the tenant whose entry in the frontends' tenants file has its hash. It is told in
// the place of the secret, to nobody beyond this machine but by TLS.
func WithToken(token string) Option {
	return func(c *config) { c.tokens = identity.NewSecrets(token) }
}

// WithTokenFile is WithToken with what is in a file, the first line of it, which may be replaced at any time.
func WithTokenFile(file string) Option { return func(c *config) { c.tokenFile = file } }

// WithTLS connects by TLS. The folder has ca.crt, tls.crt and tls.key, which may be replaced at any time. The certificate is
// that of a client, and names the tenant that its jobs are for, or of an operator; it stands in the place of the secret.
func WithTLS(dir string) Option { return func(c *config) { c.tlsDir = dir } }

// WithName says who calls, for the frontends' logs.
func WithName(name string) Option { return func(c *config) { c.name = name } }

// WithLogger is told, at level warn, which frontends do not answer; at debug, which jobs moved. By default
// nothing is logged.
func WithLogger(log *slog.Logger) Option { return func(c *config) { c.log = log } }

// WithRPCTimeout bounds the calls that a frontend answers at once: Submit, Cancel, Cluster. Default 5 s.
func WithRPCTimeout(d time.Duration) Option { return func(c *config) { c.rpcTimeout = d } }

// WithConnectTimeout bounds the making of a connection. Default 1 s.
func WithConnectTimeout(d time.Duration) Option { return func(c *config) { c.connectTimeout = d } }

// WithRetryFor bounds how long a job looks for a frontend while none can be connected to, or those that can have
// no worker at all; then it ends in an UnfinishedError or in that RefusedError. A frontend that asks for any other
// reason to come back later counts as found. Default 30 s.
func WithRetryFor(d time.Duration) Option { return func(c *config) { c.retryFor = d } }

// WithRefusalsFinal lets a job that a frontend refuses as overloaded fail with its RefusedError at once, for
// callers that would rather shed load than wait. By default the client comes back after the time that the
// frontend names, until the context ends.
func WithRefusalsFinal() Option { return func(c *config) { c.refusalsFinal = true } }

// WithLoadBalancerOnly keeps the client to the addresses that it was given. By default it asks the frontends that these
// tell of where none of the given ones can be reached: behind a load balancer, they may not be reachable at all.
func WithLoadBalancerOnly() Option { return func(c *config) { c.balancerOnly = true } }

// WithBackoff bounds how long a frontend that failed is left alone: shortest at first, doubling up to
// longest, with jitter. Default 20 ms to 2 s.
func WithBackoff(shortest, longest time.Duration) Option {
	return func(c *config) { c.backoffMin, c.backoffMax = shortest, longest }
}
