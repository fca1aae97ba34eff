package gossip

import (
	"context"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"sync"
	"time"
)

const (
	// resolveTimeout bounds the look-up of a seed's host name.
	resolveTimeout = 5 * time.Second
	// maxJoins bounds the addresses that the node tries to join at a time. A mute address takes dialTimeout.
	maxJoins = 16
)

// resolveSeeds looks up the seeds with host names, because members are known by IP address. If a look-up fails, the
// addresses found last stay.
func (n *Node) resolveSeeds() {
	n.peersMu.Lock()
	seeds := slices.Clone(n.seedAddrs)
	n.peersMu.Unlock()
	found := map[string][]netip.AddrPort{}
	var mu sync.Mutex
	var lookUps sync.WaitGroup
	for _, seed := range seeds {
		host, port, err := net.SplitHostPort(seed)
		number, err2 := strconv.ParseUint(port, 10, 16)
		if _, isName := netip.ParseAddr(host); err != nil || err2 != nil || isName == nil {
			continue
		}
		lookUps.Go(func() {
			ctx, cancel := context.WithTimeout(n.ctx, resolveTimeout)
			defer cancel()
			ips, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
			if err != nil {
				return
			}
			mu.Lock()
			defer mu.Unlock()
			for _, ip := range ips {
				found[seed] = append(found[seed], netip.AddrPortFrom(ip.Unmap(), uint16(number)))
			}
		})
	}
	lookUps.Wait()
	n.peersMu.Lock()
	defer n.peersMu.Unlock()
	for _, seed := range seeds {
		if addrs := found[seed]; addrs != nil {
			n.seedIPs[seed] = addrs
		}
	}
	for seed := range n.seedIPs {
		if !slices.Contains(n.seedAddrs, seed) {
			delete(n.seedIPs, seed)
		}
	}
}

// isSeedPresent reports whether a present member, or this frontend, has the seed's address, or one of the addresses
// of its host name. present holds the addresses of members. The caller holds peersMu.
func (n *Node) isSeedPresent(seed string, present map[string]bool) bool {
	isPresent := func(a netip.AddrPort) bool { return present[a.String()] || n.isOwn(a) }
	if addr, err := netip.ParseAddrPort(seed); err == nil {
		return isPresent(netip.AddrPortFrom(addr.Addr().Unmap(), addr.Port()))
	}
	return present[seed] || slices.ContainsFunc(n.seedIPs[seed], isPresent)
}

// isOwn reports whether addr is an address of this frontend's gossip. A frontend that binds to no particular
// address has all addresses of its machine.
func (n *Node) isOwn(addr netip.AddrPort) bool {
	if int(addr.Port()) != n.bindPort {
		return false
	}
	if !n.bindIP.IsUnspecified() {
		return addr.Addr() == n.bindIP
	}
	if addr.Addr().IsLoopback() {
		return true
	}
	own, err := net.InterfaceAddrs()
	return err == nil && slices.ContainsFunc(own, func(a net.Addr) bool {
		p, err := netip.ParsePrefix(a.String())
		return err == nil && p.Addr().Unmap() == addr.Addr()
	})
}

// join tries to join all addresses, some at a time, and returns the errors.
func (n *Node) join(addrs []string) (errs []error) {
	results := make([]error, len(addrs))
	slots := make(chan struct{}, maxJoins)
	var joins sync.WaitGroup
	for i, addr := range addrs {
		slots <- struct{}{}
		joins.Go(func() {
			defer func() { <-slots }()
			if n.ctx.Err() == nil {
				_, results[i] = n.list.Join([]string{addr})
			}
		})
	}
	joins.Wait()
	return slices.DeleteFunc(results, func(err error) bool { return err == nil })
}
