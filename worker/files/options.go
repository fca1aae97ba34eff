package files

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/phoebe-sched/phoebe/probe/identity"
)

// Options configure a Cache. Zero fields take the defaults named in their comments.
type Options struct {
	// Roots are the folders, as absolute paths, below which file URLs may name files. A symbolic link out of a root
	// is refused too. Default: no roots, so every file URL is refused.
	Roots []string

	// Hosts are the hosts allowed in http and https URLs and redirects: "host" or "host:port". Default: all hosts,
	// except loopback and private addresses. Services there (the worker's own admin port, a database) may trust
	// their neighbours. Whatever the options, the cache never asks link-local addresses, metadata services of
	// clouds, carrier-grade NAT or multicast addresses. The cache uses no proxy.
	Hosts []string
	// Private are the ranges of private addresses that URLs may lead to, without Hosts. Default: none.
	Private []netip.Prefix

	// Secrets authenticate workers to each other; all workers have the same. Nil: no secrets, for loopback only, or
	// with Keys.
	Secrets *identity.Secrets
	// Keys are this worker's certificates, for connections to other workers; nil: without TLS.
	Keys *identity.Keys

	Parallel int // fetches at a time from a host, and checks at a time; default 4
	// Serve bounds the files sent to peers at a time; more peers must go to the origin. Default 8. ServeParts bounds
	// the parts of results sent to frontends at a time. Default 32. A single host gets at most half of each.
	Serve, ServeParts int

	// Timeout is the longest silence of a source, connecting included, and the time for a peer to read 256 KiB. A
	// source may take ten times as long for 256 KiB. A faster source always gets its file through, however large
	// the file is. Default 30 s.
	Timeout time.Duration
	// Tries bounds the requests to an origin that does not answer, breaks off, or fails for now (503 and the like).
	// The pause before the second request is about a thirtieth of Timeout, and each later pause is twice as long.
	// Any other answer is final. Peers are asked once. Default 3.
	Tries int

	// Public lets other users of the machine read a file by digest, for tasks with own users. Other users cannot list
	// the folder.
	Public bool

	// OnChange gets the digests that came into the cache and left it since the last call: the net effect. Calls
	// come one at a time, without a lock held. Close waits for a running call. OnChange does not get the files
	// found by Open; Digests has them.
	OnChange func(added, removed [][32]byte)

	// OnDisk gets the problem if the cache's folder cannot be written, and nil when the folder can be written again.
	// Meanwhile the cache takes no new files. Calls come one at a time, without a lock held. Close waits for a
	// running call.
	OnDisk func(problem error)

	Logger *slog.Logger // default: none
}

// withDefaults returns o with its zero fields filled.
func (o Options) withDefaults() Options {
	if o.Parallel == 0 {
		o.Parallel = 4
	}
	if o.Serve == 0 {
		o.Serve = 8
	}
	if o.ServeParts == 0 {
		o.ServeParts = 32
	}
	if o.Tries == 0 {
		o.Tries = 3
	}
	if o.Timeout == 0 {
		o.Timeout = 30 * time.Second
	}
	if o.OnDisk == nil {
		o.OnDisk = func(error) {}
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}

// modes returns the permissions of the cache's folder and of the entries. An entry may be a program, and so is
// executable.
func (o *Options) modes() (folder, entry fs.FileMode) {
	if o.Public {
		return 0o711, 0o555
	}
	return 0o700, 0o500
}

// Validate returns all errors of o, joined.
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
	for _, p := range o.Private {
		if !slices.ContainsFunc(privateRanges, func(r netip.Prefix) bool {
			return r.Overlaps(p) && r.Bits() <= p.Bits()
		}) {
			wrong("the private range %s for files: give a part of %s", p, joinRanges(privateRanges))
		}
	}
	if o.Parallel < 0 {
		wrong("%d fetches at a time: it must be at least 1", o.Parallel)
	}
	if o.Serve < 0 || o.ServeParts < 0 {
		wrong("%d files and %d parts served at a time: each must be at least 1", o.Serve, o.ServeParts)
	}
	if o.Tries < 0 {
		wrong("%d tries of an origin: it must be at least 1", o.Tries)
	}
	if o.Timeout < 0 {
		wrong("a time-out of %v for files: it must be above 0", o.Timeout)
	}
	return errors.Join(errs...)
}

// hasHost reports whether Hosts allows host, reached at port.
func (o *Options) hasHost(host, port string) bool {
	for _, h := range o.Hosts {
		if strings.EqualFold(h, host) || strings.EqualFold(h, net.JoinHostPort(host, port)) {
			return true
		}
	}
	return false
}

func joinRanges(ranges []netip.Prefix) string {
	texts := make([]string, len(ranges))
	for i, p := range ranges {
		texts[i] = p.String()
	}
	return strings.Join(texts, ", ")
}
