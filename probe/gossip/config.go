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

	"github.com/phoebe-sched/phoebe/probe/gossip/view"
	"github.com/phoebe-sched/phoebe/probe/identity"
	"github.com/phoebe-sched/phoebe/probe/names"
)

// Config of a Node.
type Config struct {
	// Name of this frontend, other than those of the others, and the same when it comes back.
	Name string
	// Bind is the host:port for gossip, TCP and UDP; port 0 takes a free one. Without a Secret it must be a
	// loopback address.
	Bind string
	// Advertise is the host:port at which the others reach Bind; without a port, or with 0, that of Bind. Empty:
	// Bind, or if that is no particular address a private one of this machine.
	Advertise string
	// API and Heartbeat are the host:port that clients and workers use; told to all.
	API, Heartbeat string
	// Seeds are gossip addresses of some frontends, host:port; those that do not answer are tried again and again.
	// This frontend's own may be among them. Empty: it waits for others to join it.
	Seeds []string
	// Secrets are what all frontends share. They should be long and random: who records packets can try secrets
	// offline. Nil: nothing is encrypted, on loopback only. They may be replaced while the Node runs, but not appear or vanish.
	Secrets *identity.Secrets
	// View bounds and times the view. Zero: view.DefaultConfig.
	View view.Config
	// OnRows is called with the rows that changed, those that ended among them, some 50 ms after it at most. Calls
	// do not overlap, and it may call the Node. The slice is used again. Nil: nobody wants to know.
	OnRows func(rows []view.Row)
	// OnMembers is called with all members, this one among them, before Start returns and whenever they change;
	// otherwise like OnRows.
	OnMembers func(members []view.Member)
	// OnTerms is called with the latest terms, whenever they change; otherwise like
	// OnMembers.
	OnTerms func(view.Terms)
	// Log is told what happens to members. Nil: nobody is.
	Log *slog.Logger

	tune func(*memberlist.Config) // tests cannot wait as long as networks must
}

// Validate names what is wrong with c.
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
		addProblem("bind address %q is not of loopback: that needs a secret", c.Bind)
	}
	for _, s := range c.Seeds {
		if err := names.Check(s); err != nil {
			addProblem("seed %w", err)
		}
	}
	if n := len(encodeMeta(view.Member{Name: c.Name, API: c.API, Heartbeat: c.Heartbeat})); n > memberlist.MetaMaxSize {
		addProblem("name and addresses are %d bytes too long together", n-memberlist.MetaMaxSize)
	}
	if c.View != (view.Config{}) {
		if err := c.View.Validate(); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// resolveHost finds the address of host; "" is any.
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
	// IPv4 first, which is what "localhost" means to most.
	slices.SortStableFunc(ips, func(a, b net.IP) int { return len(b.To4()) - len(a.To4()) })
	return ips[0], nil
}

// deriveKeys are made from the secrets: packets are encrypted with the first, and decrypted with any.
func (c *Config) deriveKeys() (keys [][]byte) {
	for _, secret := range c.Secrets.All() {
		key, err := hkdf.Key(sha256.New, []byte(secret), nil, "phoebe gossip 1", 32)
		if err != nil {
			panic(err) // of a length that there is
		}
		keys = append(keys, key)
	}
	return keys
}

// libraryConfig is c for the library, without delegates.
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
	m.HandoffQueueDepth = 4096  // packets: what comes while a garbage collection takes long
	m.TCPTimeout = dialTimeout
	if c.tune != nil {
		c.tune(m)
	}
	return m, nil
}
