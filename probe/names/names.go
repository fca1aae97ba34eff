// Package names looks up addresses in the DNS, again and again: dns:host:port stands for every address of host, and
// srv:_phoebe._tcp.example.org for every target of that service record. Addresses without a prefix stand for
// themselves.
package names

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	hostPrefix    = "dns:"
	servicePrefix = "srv:"
)

// Is reports whether addr must be looked up.
func Is(addr string) bool {
	return strings.HasPrefix(addr, hostPrefix) || strings.HasPrefix(addr, servicePrefix)
}

// Plain returns the addresses that stand for themselves.
func Plain(addrs []string) []string { return slices.DeleteFunc(slices.Clone(addrs), Is) }

// Check returns an error if addr is neither an address nor a name to look up.
func Check(addr string) error {
	if name, ok := strings.CutPrefix(addr, servicePrefix); ok {
		if labels := strings.Split(name, "."); len(labels) < 3 || !strings.HasPrefix(labels[0], "_") ||
			!strings.HasPrefix(labels[1], "_") {
			return fmt.Errorf("%q: want a service record, such as srv:_phoebe._tcp.example.org", addr)
		}
		return nil
	}
	if h, port, err := net.SplitHostPort(strings.TrimPrefix(addr, hostPrefix)); err != nil || h == "" || port == "" {
		return fmt.Errorf("%q: want host:port, such as 10.0.0.7:7420, dns:host:port or srv:_phoebe._tcp.example.org",
			addr)
	}
	return nil
}

// Watcher looks addresses up.
type Watcher struct {
	Addrs    []string      // HOST:PORT, dns:HOST:PORT or srv:NAME; checked
	Every    time.Duration // default 5 s
	Resolver *net.Resolver // default: the system's
	// Warn is called when a name cannot be looked up, once until a look-up succeeds. Nil: no call.
	Warn func(error)
}

// lookupTimeout bounds a look-up.
const lookupTimeout = 5 * time.Second

// Watch calls set with the addresses: first before Watch returns, then after each change, until ctx ends. If a name
// cannot be looked up, the addresses found last stay. A name never found stands for no address.
func (w Watcher) Watch(ctx context.Context, set func(addrs []string)) {
	if w.Every == 0 {
		w.Every = 5 * time.Second
	}
	if w.Resolver == nil {
		w.Resolver = net.DefaultResolver
	}
	if w.Warn == nil {
		w.Warn = func(error) {}
	}
	found, failed := map[string][]string{}, map[string]bool{}
	lookUpAll := func() []string {
		var all []string
		for _, addr := range w.Addrs {
			if !Is(addr) {
				all = append(all, addr)
				continue
			}
			addrs, err := w.lookUpName(ctx, addr)
			if err == nil {
				found[addr] = addrs
			} else if !failed[addr] && ctx.Err() == nil {
				w.Warn(fmt.Errorf("look up %s: %w: the addresses found before stay", addr, err))
			}
			failed[addr] = err != nil
			all = append(all, found[addr]...)
		}
		slices.Sort(all)
		return slices.Compact(all)
	}
	known := lookUpAll()
	set(known)
	if !slices.ContainsFunc(w.Addrs, Is) {
		return
	}
	go func() {
		tick := time.NewTicker(w.Every)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			if latest := lookUpAll(); ctx.Err() == nil && !slices.Equal(latest, known) {
				known = latest
				set(known)
			}
		}
	}()
}

func (w Watcher) lookUpName(ctx context.Context, name string) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, lookupTimeout)
	defer cancel()
	var addrs []string
	if name, ok := strings.CutPrefix(name, servicePrefix); ok {
		_, records, err := w.Resolver.LookupSRV(ctx, "", "", name)
		if err != nil {
			return nil, err
		}
		for _, r := range records {
			addrs = append(addrs, net.JoinHostPort(strings.TrimSuffix(r.Target, "."),
				strconv.Itoa(int(r.Port))))
		}
	} else {
		h, port, _ := net.SplitHostPort(strings.TrimPrefix(name, hostPrefix))
		ips, err := w.Resolver.LookupHost(ctx, h)
		if err != nil {
			return nil, err
		}
		for _, ip := range ips {
			addrs = append(addrs, net.JoinHostPort(ip, port))
		}
	}
	if len(addrs) == 0 {
		return nil, errors.New("no address is found")
	}
	slices.Sort(addrs)
	return addrs, nil
}
