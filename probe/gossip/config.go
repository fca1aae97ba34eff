package gossip

import (
	"crypto/hkdf"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strconv"

	"github.com/hashicorp/memberlist"

	"github.com/phoebe-sched/phoebe/probe/gossip/rows"
	"github.com/phoebe-sched/phoebe/probe/identity"
	"github.com/phoebe-sched/phoebe/probe/names"
)

// Config configures a Node.
type Config struct {
	// Name is the name of the frontend: unique among the frontends, and the same after a restart.
	Name string
	// Bind is the host:port for gossip, TCP and UDP; port 0 takes a free port. Without Secrets, Bind must be a
	// loopback address.
	Bind string
	// Advertise is the host:port of Bind as seen by other frontends. An absent port, or port 0, means the port of
	// Bind. Empty: Bind, or a private address of the machine if Bind names no particular address.
	Advertise string
	// API and Heartbeat are the host:port for clients and for workers. Gossip spreads the addresses to all members.
	API, Heartbeat string
	// Seeds are gossip addresses of some frontends, host:port. The node tries silent seeds again and again. The
	// frontend's own address may be among the seeds. Empty: the node waits for other frontends to join.
	Seeds []string
	// Secrets are shared by all frontends. Secrets should be long and random, because an attacker can record
	// packets and try secrets offline. Nil: no encryption, on loopback only. Secrets may change while the Node
	// runs, but must not appear or vanish.
	Secrets *identity.Secrets
	// View bounds and times the table of rows. Zero: rows.DefaultConfig.
	View rows.Config
	// OnRows is called with the changed rows, also rows of ended workers, at most some 50 ms after the change.
	// Calls do not overlap, and OnRows may call the Node. The Node reuses the slice. Nil: no call.
	OnRows func(rows []rows.Row)
	// OnMembers is called with all members, including the own frontend: first before Start returns, then after each
	// change. Otherwise like OnRows.
	OnMembers func(members []rows.Member)
	// OnTerms is called with the latest terms after each change. Otherwise like OnMembers.
	OnTerms func(rows.Terms)
	// OnLessons is called with the lessons of another member. Otherwise like OnMembers.
	OnLessons func([]byte)
	// Log receives events about members. Nil: no log.
	Log *slog.Logger

	tune func(*memberlist.Config) // for tests, which cannot wait for network timeouts
}

// Validate returns all problems of c, or nil.
func (c *Config) Validate() error {
	var errs []error
	addProblem := func(format string, args ...any) { errs = append(errs, fmt.Errorf("gossip: "+format, args...)) }
	if c.Name == "" {
		addProblem("a frontend needs a name")
	}
	host, _, err := net.SplitHostPort(c.Bind)
	if err != nil {
		addProblem("bind address %q: %w", c.Bind, err)
	} else if ip, err := resolveHost(host); err != nil {
		addProblem("bind address %q: %w", c.Bind, err)
	} else if c.Secrets.Tell() == "" && !ip.IsLoopback() {
		addProblem("bind address %q is not a loopback address, and so needs a secret", c.Bind)
	}
	for _, s := range c.Seeds {
		if err := names.Check(s); err != nil {
			addProblem("seed %w", err)
		}
	}
	if n := len(encodeMeta(rows.Member{Name: c.Name, API: c.API, Heartbeat: c.Heartbeat})); n > memberlist.MetaMaxSize {
		addProblem("name and addresses are %d bytes too long together", n-memberlist.MetaMaxSize)
	}
	if c.View != (rows.Config{}) {
		if err := c.View.Validate(); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// resolveHost returns the address of host; "" is any address.
func resolveHost(host string) (net.IP, error) {
	if host == "" {
		return net.IPv4zero, nil
	}
	if ip := net.ParseIP(host); ip != nil {
		return ip, nil
	}
	ips, err := net.LookupIP(host)
	if err != nil {
		return nil, err
	}
	// IPv4 first, the usual meaning of "localhost".
	slices.SortStableFunc(ips, func(a, b net.IP) int { return len(b.To4()) - len(a.To4()) })
	return ips[0], nil
}

// deriveKeys makes a key from each secret. The first key encrypts packets; any key decrypts packets.
func (c *Config) deriveKeys() (keys [][]byte) {
	for _, secret := range c.Secrets.All() {
		key, err := hkdf.Key(sha256.New, []byte(secret), nil, "phoebe gossip 1", 32)
		if err != nil {
			panic(err) // hkdf refuses only overlong keys
		}
		keys = append(keys, key)
	}
	return keys
}

// libraryConfig translates c into a configuration of the library, without delegates. name is the name of the run.
func (c *Config) libraryConfig(name string) (*memberlist.Config, error) {
	m := memberlist.DefaultLANConfig()
	m.Name = name
	host, port, err := net.SplitHostPort(c.Bind)
	if err != nil {
		return nil, err
	}
	ip, err := resolveHost(host)
	if err != nil {
		return nil, err
	}
	m.BindAddr = ip.String()
	if m.BindPort, err = net.LookupPort("tcp", port); err != nil {
		return nil, err
	}
	m.AdvertisePort = m.BindPort
	if c.Advertise != "" {
		host, port := c.Advertise, ""
		if h, p, err := net.SplitHostPort(c.Advertise); err == nil {
			host, port = h, p
		}
		ip, err := resolveHost(host)
		if err != nil {
			return nil, fmt.Errorf("advertised address: %w", err)
		}
		m.AdvertiseAddr = ip.String()
		if n, err := strconv.ParseUint(port, 10, 16); err == nil && n > 0 {
			m.AdvertisePort = int(n)
		}
	}
	if keys := c.deriveKeys(); len(keys) > 0 {
		if m.Keyring, err = memberlist.NewKeyring(keys, keys[0]); err != nil {
			return nil, err
		}
	}
	m.EnableCompression = false // rows are compact, and LZW would take most of the time
	m.HandoffQueueDepth = 4096  // packets: room for arrivals during a long garbage collection
	m.TCPTimeout = dialTimeout
	if c.tune != nil {
		c.tune(m)
	}
	return m, nil
}
