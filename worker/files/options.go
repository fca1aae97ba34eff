package files

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"
	"strings"
	"time"

	"github.com/phoebe-sched/phoebe/probe/identity"
)

// Options are what a Cache is told once. Zero fields take the defaults that their comments name.
type Options struct {
	// Roots are the folders, as absolute paths, below which file URLs may name files. What symbolic links lead out of
	// them is refused too. Default: none, so that no file URL is accepted.
	Roots []string

	// Hosts are those that http and https URLs may name and redirect to: "host" or "host:port". Default: any, except
	// those whose addresses are loopback, link-local or multicast: what listens there (the worker's own admin port, a
	// cloud's metadata service) may trust whoever reaches it. No proxy is used.
	Hosts []string

	// Secrets are what workers ask of each other; all have the same. Nil: none, for loopback only, or with Keys.
	Secrets *identity.Secrets
	// Keys are this worker's certificates, by which it connects to other workers; nil: in plain.
	Keys *identity.Keys

	Parallel int // fetches at a time from one host, also checks; default 4
	Serve    int // files sent to peers at a time, over it they go to the origin; default 8

	// Timeout is how long a source may send nothing, connecting included, and a peer may take to read 256 KiB. 256 KiB
	// from a source may take ten times as long: whatever makes that much progress arrives, however large it is.
	// Default 30 s.
	Timeout time.Duration
	// Tries is how often an origin is asked that does not answer, breaks off, or says that it cannot now (503 and the
	// like), with a pause of about a thirtieth of Timeout before the second time, of twice as long before each that follows. What else it
	// says counts at once, and peers are asked once. Default 3.
	Tries int

	// OnChange tells which digests came into the cache and left it since the last call, the net effect of what
	// happened in between. Calls come one at a time, without a lock held; Close waits for one under way. What Open
	// finds is not told, Digests has it.
	OnChange func(added, removed [][32]byte)

	Logger *slog.Logger // default: none
}

func (o Options) withDefaults() Options {
	if o.Parallel == 0 {
		o.Parallel = 4
	}
	if o.Serve == 0 {
		o.Serve = 8
	}
	if o.Tries == 0 {
		o.Tries = 3
	}
	if o.Timeout == 0 {
		o.Timeout = 30 * time.Second
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}

// Validate says all that is wrong with o.
func (o Options) Validate() error {
	var errs []error
	wrong := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	for _, r := range o.Roots {
		if !filepath.IsAbs(r) {
			wrong("the root %q for file URLs: it must be an absolute path", r)
		}
	}
	for _, h := range o.Hosts {
		if strings.ContainsAny(h, "/@? ") || h == "" {
			wrong("the host %q for files: give host or host:port, not a URL", h)
		}
	}
	if o.Parallel < 0 {
		wrong("%d fetches at a time: it must be at least 1", o.Parallel)
	}
	if o.Serve < 0 {
		wrong("%d files served at a time: it must be at least 1", o.Serve)
	}
	if o.Tries < 0 {
		wrong("%d tries of an origin: it must be at least 1", o.Tries)
	}
	if o.Timeout < 0 {
		wrong("a time-out of %v for files: it must be above 0", o.Timeout)
	}
	return errors.Join(errs...)
}

// hasHost tells whether Hosts has host, which is reached at port.
func (o *Options) hasHost(host, port string) bool {
	for _, h := range o.Hosts {
		if strings.EqualFold(h, host) || strings.EqualFold(h, net.JoinHostPort(host, port)) {
			return true
		}
	}
	return false
}
