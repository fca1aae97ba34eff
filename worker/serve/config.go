package serve

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
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

// Config holds the settings of a Server. A zero field takes the default named in its comment.
type Config struct {
	// Listen is the host:port for connections of frontends; port 0 takes a free port. Without a Secret or Keys, the
	// host must be a loopback address. Default 127.0.0.1:7420.
	Listen string

	Name   string   // of this worker, in logs and on clients' screens; default: Host and the port
	Host   string   // for constraints on hosts; default: the machine's host name
	Rack   string   // shared with nearby workers; default: none
	Labels []string // "key=value", for constraints

	// Join lists the heartbeat addresses of some frontends. The worker announces itself there. An answer of a
	// single frontend is enough. Default: none; the lists of the frontends must name the worker.
	Join []string
	// Advertise is the host:port for frontends to reach this worker. Other workers use its host. Default: the
	// address of Listen.
	Advertise string

	// Secret must be the same at the worker and at all frontends. Empty: no secret, on loopback only, or with
	// Keys.
	Secret string
	// Secrets takes the place of Secret. It may hold several secrets, which may be replaced while the worker
	// runs.
	Secrets *identity.Secrets
	// Keys are this worker's certificates. With Keys, certificates admit connections, and the secret does not
	// count. Keys need Goroutines. Nil: connections are not encrypted.
	Keys *identity.Keys

	// Speed compares this worker with a reference worker of speed 1. A worker of speed 2 needs half the hinted
	// run time. Frontends use Speed to place tasks by estimation. From 0.01 to 100; default 1.
	Speed float64

	// CacheDir is the folder of the cache for files of tasks. Each worker needs a folder of its own. Default:
	// none; the worker gets no tasks that need files.
	CacheDir string
	// CacheSize bounds the files in the cache, in bytes. Default 10 GiB.
	CacheSize int64
	// FilesListen is the host:port where other workers read the cache; port 0 takes a free port. Without a
	// Secret or Keys, the host must be a loopback address. Other workers learn this host, or the host of Advertise
	// if set. Default: the host of Listen, and a free port.
	FilesListen string
	// FileRoots are folders, as absolute paths. A file URL may name only files below these folders. Default:
	// none, and the worker accepts no file URL.
	FileRoots []string
	// FileHosts are the hosts that http and https URLs may name, as host or host:port. Default: all hosts, except
	// loopback and private addresses.
	FileHosts []string
	// FilePrivate are the ranges of private addresses that URLs may lead to, without FileHosts. Default: none.
	FilePrivate []netip.Prefix
	// MaxFilesSent bounds the files sent to other workers at a time, and MaxResultsSent the parts of results sent to
	// frontends. A single host gets at most half. Defaults 8 and 32.
	MaxFilesSent, MaxResultsSent int
	// FileTimeout is the longest silence of the source of a file. A source may take ten times FileTimeout for 256
	// KiB. Each URL is tried three times. Default 30 s.
	FileTimeout time.Duration

	// Core configures the queue and the slots. Its Functions come from Registry. The default Capacity is a slot
	// for each CPU.
	Core worker.Config

	Registry  *exec.Registry // functions to run; default exec.NewRegistry()
	AllowExec bool           // allow any command as a process
	// Processes names the users and rights of AllowExec's processes. With users, other users of the machine may read
	// a cached file by digest. The zero value: the processes run as this process's user.
	Processes exec.Processes

	// Goroutines has a goroutine read each connection, by Go's poller. Otherwise a few event loops of gnet read
	// all connections. Goroutines is quicker: no other thread has to wake when a message arrives, when a sleep
	// ends, or when a frontend in the same process sends. An event loop that runs out of work wakes another thread.
	// An idle connection takes 4.5 KB with Goroutines, and 1.2 KB with gnet.
	Goroutines bool

	// EventLoops is the number of event loops for connections. Default 1, or 2 with 8 CPUs or more: as the core
	// cannot run in parallel, more event loops would not help.
	EventLoops int
	// MaxConns bounds the connections. A further connection takes the place of the oldest stranger, or is closed.
	// Default 10000.
	MaxConns int
	// MaxFrame bounds the bytes of a received frame, and must leave room for a payload. Default and maximum:
	// probe.MaxFrame.
	MaxFrame int
	// MaxResult bounds the bytes of a task's result. Default 1 MiB, at most probe.MaxBlob.
	MaxResult int
	// HandshakeTimeout is the longest time from the connection to a good Hello. Default 3 s.
	HandshakeTimeout time.Duration
	// MaxLease is the longest lease that a Hello may ask for. Default 1 min.
	MaxLease time.Duration
	// OutboundLimit bounds the bytes that wait for a peer that sends and does not read. Beyond it the worker closes
	// the connection. Results do not reach the limit: see Core.MaxUnsent. At least 4 MiB more than MaxResult;
	// default 64 MiB.
	OutboundLimit int

	// Audit logs refused frontends, and orders of frontends to this worker; nil: no log.
	Audit *audit.Log

	// OnLeave is called when an operator asks, through a frontend, that this worker drain. Default: the worker
	// drains and keeps running.
	OnLeave func(frontend string)

	Logger *slog.Logger // default: none
	// Metrics gets the metrics. Workers may share a set, which then has the sums over the workers. Default: a set
	// of its own.
	Metrics *metrics.Set
}

// minLease bounds the leases from below: scheduling delays alone would break a shorter lease.
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

// Validate reports all errors in c. Zero fields stand for their defaults.
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
		wrong("certificates with gnet's event loops, which know no TLS: set Goroutines, or leave out the certificates")
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
	errs = append(errs, c.Processes.Validate())
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
	// The frame around the payload needs FullFrame.
	between("the payload limit", c.Core.MaxPayload, 1, min(probe.MaxBlob, c.MaxFrame-probe.FullFrame))
	between("the result limit", c.MaxResult, 1, probe.MaxBlob)
	between("the outbound limit", c.OutboundLimit, c.MaxResult+4<<20, huge)
	between("the queue limit", c.Core.MaxQueue, 1, 1<<24)
	between("the limit of results kept", c.Core.MaxRetained, 1, huge)
	between("the limit of results not sent", c.Core.MaxUnsent, 1<<16, huge)
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("worker configuration: %w", err)
	}
	return nil
}

// checkListen refuses an address that others can reach without a secret or a certificate.
func (c *Config) checkListen() error {
	addr, err := net.ResolveTCPAddr("tcp", c.Listen)
	if err != nil {
		return fmt.Errorf("listen on %q: %w: want host:port, such as 127.0.0.1:7420", c.Listen, err)
	}
	if c.Secrets.Tell() == "" && c.Keys == nil && !addr.IP.IsLoopback() {
		return fmt.Errorf("listen on %q: anyone on the network could run tasks here: give certificates (--tls-dir), "+
			"or set a secret (--secret-file) as at the frontends, or listen on 127.0.0.1", c.Listen)
	}
	return nil
}

// connSecrets returns the secrets that connections use; nil if certificates identify the peers.
func (c *Config) connSecrets() *identity.Secrets {
	if c.Keys != nil {
		return nil
	}
	return c.Secrets
}
