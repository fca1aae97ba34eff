package client

import (
	"context"
	"log/slog"
	"net"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/phoebe-sched/phoebe/probe/identity"
)

// Option changes a default of New.
type Option func(*config)

// config holds everything that the options of New set.
type config struct {
	name           string
	secretFile     string
	secrets        *identity.Secrets // nil: none
	tokenFile      string
	tokens         *identity.Secrets // sent instead of secrets; nil: none
	tlsDir         string
	keys           *identity.Keys // in tlsDir; nil: no TLS
	log            *slog.Logger
	tracer         trace.Tracer // nil: none
	middleware     []Middleware // the first is outermost
	store          StoreFunc    // nil: none
	rpcTimeout     time.Duration
	connectTimeout time.Duration
	retryFor       time.Duration
	refusalsFinal  bool
	refusalHook    func(context.Context, *RefusedError) // nil: none
	balancerOnly   bool
	backoffMin     time.Duration
	backoffMax     time.Duration
	pingEvery      time.Duration // interval of pings to a silent frontend with unanswered calls
	pingTimeout    time.Duration // longest time for the answer to a ping
	lookupEvery    time.Duration // interval of name lookups; 0: the default of names.Watcher
	resolver       *net.Resolver // for names; nil: the system's resolver
	drainPause     time.Duration // time for which a draining frontend is left alone; there may be no other frontend
	pollFor        time.Duration // longest time that a frontend may hold a poll for events
	maxRequest     int           // size in bytes of the largest request
}

// defaultConfig returns the configuration of a New without options.
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
		drainPause:     time.Second,
		pollFor:        20 * time.Second,
		maxRequest:     maxRequest,
	}
}

// WithSecret sends a secret with each call. It is needed if the frontends were started with a secret.
func WithSecret(secret string) Option {
	return func(c *config) { c.secrets = identity.NewSecrets(secret) }
}

// WithSecretFile is WithSecret with the first line of a file. The file may be replaced at any time.
func WithSecretFile(file string) Option { return func(c *config) { c.secretFile = file } }

// WithToken identifies the client by a token. The client then belongs to the tenant whose entry in the frontends'
// tenants file has the token's hash. The token is sent instead of the secret, and leaves this machine only over TLS.
func WithToken(token string) Option {
	return func(c *config) { c.tokens = identity.NewSecrets(token) }
}

// WithTokenFile is WithToken with the first line of a file. The file may be replaced at any time.
func WithTokenFile(file string) Option { return func(c *config) { c.tokenFile = file } }

// WithTLS connects by TLS. The folder dir holds ca.crt, tls.crt and tls.key. The files may be replaced at any time. The
// certificate is a client's, and then names the tenant that its jobs are for, or an operator's or a frontend's. The
// certificate replaces the secret.
func WithTLS(dir string) Option { return func(c *config) { c.tlsDir = dir } }

// WithName names the caller in the frontends' logs.
func WithName(name string) Option { return func(c *config) { c.name = name } }

// WithLogger logs frontends that do not answer, at level warn, and jobs that move to another frontend, at level
// debug. By default nothing is logged.
func WithLogger(log *slog.Logger) Option { return func(c *config) { c.log = log } }

// WithMiddleware wraps m around Run and Submit, and so around Call, Map and Stream. The first Middleware is the
// outermost. A Middleware may change the job or its context, refuse the job, or look at outcomes. After Submit, a
// Middleware waits for Running.Done to learn of the job's end.
func WithMiddleware(m ...Middleware) Option {
	return func(c *config) { c.middleware = append(c.middleware, m...) }
}

// StoreFunc stores outcomes of a job, given by id, and must not change them. The context is the job's. Several
// goroutines may call a StoreFunc at the same time, for different jobs.
type StoreFunc func(ctx context.Context, job string, outcomes []Outcome) error

// WithStore stores outcomes before the client acknowledges them. The client calls store with the outcomes of each
// answer. After store has returned, the client tells the frontend that the outcomes have arrived, hands the outcomes
// out, and leaves their tasks out of a resubmission. So if the program is killed at any moment, each outcome is stored,
// or still at a frontend or a worker. The program then submits the job again, with the same Job.Key, and with the
// stored tasks in Job.Stored.
//
// If store fails, the job ends with a *StoreError in an *UnfinishedError. The client does not cancel the job, so that
// another try may fetch the outcomes. If store takes longer than 30 s (phoebe frontend --client-grace), set Job.Grace:
// otherwise the frontend takes the client for dead. The client itself ends some tasks, for instance after a Cancel
// while no frontend has the job. The store does not get the outcomes of such tasks.
func WithStore(store StoreFunc) Option { return func(c *config) { c.store = store } }

// WithRPCTimeout bounds each call that a frontend answers at once, such as Submit, Cancel and Cluster. As long as bytes
// of a large request or answer move, the call goes on. Default 5 s.
func WithRPCTimeout(d time.Duration) Option { return func(c *config) { c.rpcTimeout = d } }

// WithConnectTimeout bounds the time to make a connection. Default 1 s.
func WithConnectTimeout(d time.Duration) Option { return func(c *config) { c.connectTimeout = d } }

// WithRetryFor bounds how long a job looks for a frontend while the client can connect to no frontend, or only to
// frontends without any worker. After that time the job ends with an UnfinishedError, or with the RefusedError of a
// frontend without workers. A frontend that refuses for another reason counts as found. Default 30 s.
func WithRetryFor(d time.Duration) Option { return func(c *config) { c.retryFor = d } }

// WithRefusalsFinal lets a job fail at once with the RefusedError of an overloaded frontend, for callers that shed
// load rather than wait. By default the client tries again after the time that the frontend names, until the context
// ends.
func WithRefusalsFinal() Option { return func(c *config) { c.refusalsFinal = true } }

// WithRefusalHook calls hook if a frontend refuses a job and the client tries again. Programs count refusals by a hook.
// ctx is the context of the job's Run or Submit. Several goroutines may call hook at the same time.
func WithRefusalHook(hook func(ctx context.Context, refused *RefusedError)) Option {
	return func(c *config) { c.refusalHook = hook }
}

// WithLoadBalancerOnly restricts the client to the given addresses. By default, if the client can reach no given
// address, it asks further frontends that the given frontends have named. Behind a load balancer, clients may have
// no route to those frontends.
func WithLoadBalancerOnly() Option { return func(c *config) { c.balancerOnly = true } }

// WithBackoff bounds how long the client leaves a failed frontend alone. The time begins at shortest and doubles with
// each further failure, up to longest. Half of the time is random. Default 20 ms to 2 s.
func WithBackoff(shortest, longest time.Duration) Option {
	return func(c *config) { c.backoffMin, c.backoffMax = shortest, longest }
}
