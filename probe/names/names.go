// Package names looks addresses up again and again in the DNS, where that is asked for: dns:host:port stands for every address
// of host, srv:_phoebe._tcp.example.org for every target of that service record. Other addresses stand for themselves.
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

// Is reports whether addr is to be looked up.
func Is(addr string) bool {
	return strings.HasPrefix(addr, hostPrefix) || strings.HasPrefix(addr, servicePrefix)
}

// Plain is those of the addresses that stand for themselves.
func Plain(addrs []string) []string { return slices.DeleteFunc(slices.Clone(addrs), Is) }

// Check says what is wrong with an address, or a name of some.
func Check(addr string) error {
	if name, ok := strings.CutPrefix(addr, servicePrefix); ok {
		if labels := strings.Split(name, "."); len(labels) < 3 || !strings.HasPrefix(labels[0], "_") || !strings.HasPrefix(labels[1], "_") {
			return fmt.Errorf("%q: want a service record, such as srv:_phoebe._tcp.example.org", addr)
		}
		return nil
	}
	if h, port, err := net.SplitHostPort(strings.TrimPrefix(addr, hostPrefix)); err != nil || h == "" || port == "" {
		return fmt.Errorf("%q: want host:port, such as 10.0.0.7:7420, dns:host:port or srv:_phoebe._tcp.example.org", addr)
	}
	return nil
}

// Watcher looks addresses up.
type Watcher struct {
	Addrs    []string      // HOST:PORT, dns:HOST:PORT or srv:NAME; checked
	Every    time.Duration // default 5 s
	Resolver *net.Resolver // default: the system's
	Warn     func(error)   // told when a name cannot be looked up, once until it can again; nil: nobody is
}

// lookupTimeout bounds one look-up.
const lookupTimeout = 5 * time.Second

// Watch calls set with what the addresses stand for, first before it returns and then whenever that changes, until ctx ends. Of
// a name that cannot be looked up what was found last stays; before it was found at all, it stands for nothing.
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
				w.Warn(fmt.Errorf("look up %s: %w: what was found before stays", addr, err))
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
			addrs = append(addrs, net.JoinHostPort(strings.TrimSuffix(r.Target, "."), strconv.Itoa(int(r.Port))))
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
