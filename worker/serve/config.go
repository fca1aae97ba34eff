package serve

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"runtime"
	"strings"
	"time"

	"github.com/VictoriaMetrics/metrics"

	"github.com/phoebe-sched/phoebe/probe"
	"github.com/phoebe-sched/phoebe/probe/audit"
	"github.com/phoebe-sched/phoebe/probe/identity"
	"github.com/phoebe-sched/phoebe/worker"
	"github.com/phoebe-sched/phoebe/worker/exec"
)

// Config is what a Server is told once. Zero fields take the defaults that their comments name.
type Config struct {
	// Listen is the host:port that frontends connect to; port 0 takes a free one. Without a Secret it must
	// be a loopback address. Default 127.0.0.1:7420.
	Listen string

	Name   string   // of this worker, in logs and on clients' screens; default: Host and the port
	Host   string   // that constraints on hosts are compared with; default: that of the machine
	Rack   string   // that it shares with workers near it; default: none
	Labels []string // "key=value", for constraints

	// Join are the heartbeat addresses of some frontends, to which this worker announces itself: one that answers is
	// enough. Default: none, frontends must have it in their lists.
	Join []string
	// Advertise is the host:port by which frontends reach this worker, and other workers its host. Default: where it
	// listens.
	Advertise string

	// Secret is what frontends must know; both sides have the same. Empty: none, on loopback only, or with Keys.
	Secret string
	// Secrets are several, which may be replaced while it runs, instead of Secret.
	Secrets *identity.Secrets
	// Keys are this worker's certificates, by which connections count then, and not by the secret. They go with Goroutines.
	// Nil: it speaks in plain.
	Keys *identity.Keys

	// Speed is how fast this worker runs tasks: one of speed 2 needs half the time that hints of runtimes tell, and that
	// workers of speed 1, the reference, need. Frontends that place tasks by estimation heed it. From 0.01 to 100;
	// default 1.
	Speed float64

	// CacheDir is the folder of the cache of files that tasks need, of this worker alone. Default: none, the worker
	// gets no tasks that need files.
	CacheDir string
	// CacheSize is how large the files in it are at most, in bytes. Default 10 GiB.
	CacheSize int64
	// FilesListen is the host:port where other workers read what is in the cache; port 0 takes a free one. Without a
	// Secret it must be a loopback address. They are told this host, or that of Advertise if it is set. Default: the
	// host of Listen, and a free port.
	FilesListen string
	// FileRoots are the folders, as absolute paths, below which file URLs may name files. Default: none, so that no
	// file URL is accepted.
	FileRoots []string
	// FileHosts are those that http and https URLs may name, as host or host:port. Default: all but those whose
	// addresses are loopback, link-local or multicast.
	FileHosts []string
	// FileTimeout is how long the source of a file may send nothing, and a tenth of how long it may take for 256 KiB.
	// Each URL is tried three times. Default 30 s.
	FileTimeout time.Duration

	// Core is the configuration of the queue and the slots. Its Functions are those of Registry, its default Capacity is a
	// slot for each CPU.
	Core worker.Config

	Registry  *exec.Registry // functions to run; default exec.NewRegistry()
	AllowExec bool           // have it allow processes: any command then, with the rights of this one

	// Goroutines has a goroutine read each connection, by Go's own poller, instead of a few event loops of gnet
	// reading all of them. That is the quicker one: messages, the ends of sleeps and what the frontends of the same
	// process say then need no other thread to wake, while an event loop that finds nothing more to do wakes one.
	// An idle connection takes it 4.5 KB, and gnet 1.2 KB.
	Goroutines bool

	EventLoops       int           // that read and write connections; default 1, from 8 CPUs on 2: the core is one
	MaxConns         int           // connections over it are closed at once; default 10000
	MaxFrame         int           // bytes of a frame that is accepted; default and most probe.MaxFrame; must hold a payload
	MaxResult        int           // bytes of a task's result; default 1 MiB, at most probe.MaxBlob
	HandshakeTimeout time.Duration // from the connection to a good Hello; default 3 s
	MaxLease         time.Duration // the longest lease that a Hello may ask for; default 1 min
	OutboundLimit    int           // bytes that wait for a peer that does not read; over it, it is closed; default 64 MiB

	Audit *audit.Log // of frontends that were refused, and of what they had this worker do; nil: none

	OnLeave func(frontend string) // an operator asks by a frontend that this worker drains. Default: it drains, and goes on to be there

	Logger  *slog.Logger // default: none
	Metrics *metrics.Set // where metrics go; workers may share one, it then has their sums. Default: a set of its own
}

// minLease keeps a frontend from asking for a lease that scheduling delays alone would break.
const minLease = 10 * time.Millisecond

// withDefaults fills the zero fields.
func (c Config) withDefaults() Config {
	set := func(p *int, v int) {
		if *p == 0 {
			*p = v
		}
	}
	if c.Listen == "" {
		c.Listen = "127.0.0.1:7420"
	}
	if c.Host == "" {
		c.Host = "localhost"
		if name, err := os.Hostname(); err == nil {
			c.Host = name
		}
	}
	if c.Secrets == nil {
		c.Secrets = identity.NewSecrets(c.Secret)
	}
	if c.Registry == nil {
		c.Registry = exec.NewRegistry()
	}
	if c.Speed == 0 {
		c.Speed = 1
	}
	if c.CacheSize == 0 {
		c.CacheSize = defaultCacheSize
	}
	if c.HandshakeTimeout == 0 {
		c.HandshakeTimeout = 3 * time.Second
	}
	if c.MaxLease == 0 {
		c.MaxLease = time.Minute
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Metrics == nil {
		c.Metrics = metrics.NewSet()
	}
	set(&c.EventLoops, 1+min(1, runtime.NumCPU()/8))
	set(&c.MaxConns, 10_000)
	set(&c.MaxFrame, probe.MaxFrame)
	set(&c.MaxResult, 1<<20)
	set(&c.OutboundLimit, 64<<20)
	if n := runtime.NumCPU(); c.Core.Capacity == (probe.Demand{}) {
		c.Core.Capacity = probe.Demand{CPU: probe.Slot.CPU * probe.Millicores(n), Mem: probe.Slot.Mem * probe.MiB(n)}
	}
	c.Core = c.Core.Defaults()
	return c
}

// Validate says all that is wrong with c, zero fields standing for their defaults.
func (c Config) Validate() error {
	c = c.withDefaults()
	var errs []error
	wrong := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	between := func(name string, n, low, high int) {
		if n < low || n > high {
			wrong("%s is %d: it must be from %d to %d", name, n, low, high)
		}
	}
	errs = append(errs, c.checkListen(), c.Keys.Check(identity.Worker))
	if c.Keys != nil && !c.Goroutines {
		wrong("certificates, and gnet's event loops, which know no TLS: leave one of them out")
	}
	short := func(name, s string) {
		if len(s) > probe.MaxString {
			wrong("%s has %d bytes: at most %d are allowed", name, len(s), probe.MaxString)
		}
	}
	short("the worker's name", c.Name)
	short("the worker's host name", c.Host)
	for _, secret := range c.Secrets.All() {
		short("the secret", secret)
	}
	between("the number of labels", len(c.Labels), 0, probe.MaxList)
	for _, l := range c.Labels {
		if key, _, ok := strings.Cut(l, "="); !ok || key == "" {
			wrong("label %q: want key=value", l)
		}
		short("label "+l[:min(len(l), 32)], l)
	}
	short("the worker's rack", c.Rack)
	errs = append(errs, c.checkAnnouncement()...)
	errs = append(errs, c.checkFiles()...)
	if !(c.Speed >= 0.01 && c.Speed <= 100) {
		wrong("the speed is %v: it must be from 0.01 to 100, with 1 for the reference", c.Speed)
	}
	between("the number of functions", len(c.Registry.Names()), 1, probe.MaxList)
	// Sums of two capacities must not overflow.
	between("the CPU capacity in millicores", int(c.Core.Capacity.CPU), 1, 1<<30)
	between("the memory capacity in MiB", int(c.Core.Capacity.Mem), 1, 1<<30)
	if c.Core.Order > worker.Shortest {
		wrong("the queue order %d is unknown", c.Core.Order)
	}
	for tenant, w := range c.Core.Weights {
		if !(w > 0) {
			wrong("the weight of tenant %q is %v: it must be above 0", tenant, w)
		}
	}
	for _, d := range []struct {
		what string
		is   time.Duration
	}{
		{"the starvation bound", c.Core.StarvationBound}, {"the ready expiry", c.Core.ReadyExpiry},
		{"the grace period", c.Core.Grace}, {"the time that results are kept", c.Core.Retain},
		{"the handshake timeout", c.HandshakeTimeout},
	} {
		if d.is < time.Millisecond {
			wrong("%s is %v: it must be 1ms or more", d.what, d.is)
		}
	}
	if c.MaxLease < minLease {
		wrong("the longest lease is %v: it must be %v or more", c.MaxLease, minLease)
	}
	const huge = 1 << 40
	between("the number of event loops", c.EventLoops, 1, 256)
	between("the connection limit", c.MaxConns, 1, 1<<20)
	between("the frame limit", c.MaxFrame, 2*probe.FullFrame, probe.MaxFrame)
	between("the payload limit", c.Core.MaxPayload, 1, min(probe.MaxBlob, c.MaxFrame-probe.FullFrame)) // with what comes before it
	between("the result limit", c.MaxResult, 1, probe.MaxBlob)
	between("the outbound limit", c.OutboundLimit, 1<<16, huge)
	between("the queue limit", c.Core.MaxQueue, 1, 1<<24)
	between("the limit of results kept", c.Core.MaxRetained, 1, huge)
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("worker configuration: %w", err)
	}
	return nil
}

// checkListen refuses an address that others can reach while nothing is asked of them.
func (c *Config) checkListen() error {
	addr, err := net.ResolveTCPAddr("tcp", c.Listen)
	if err != nil {
		return fmt.Errorf("listen on %q: %w: want host:port, such as 127.0.0.1:7420", c.Listen, err)
	}
	if c.Secrets.Tell() == "" && c.Keys == nil && !addr.IP.IsLoopback() {
		return fmt.Errorf("listen on %q: anyone who can reach it could run tasks here: give certificates (--tls-dir) or set a secret (--secret-file), the same as the frontends', or listen on 127.0.0.1", c.Listen)
	}
	return nil
}

// connSecrets are the secrets that are asked for, and told, on connections: none where certificates tell who is who.
func (c *Config) connSecrets() *identity.Secrets {
	if c.Keys != nil {
		return nil
	}
	return c.Secrets
}
