package client

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/phoebe-sched/phoebe/probe/names"
)

// roster lists the frontends that a client may ask.
type roster struct {
	seeds   []*frontend // at the addresses given to New
	members []*frontend // named by the seeds; asked if no seed can be reached
}

// allFrontends returns the seeds, then the members.
func (r *roster) allFrontends() []*frontend { return slices.Concat(r.seeds, r.members) }

// followSeeds makes seeds of the addresses. If some addresses are names, a goroutine looks up the names again and
// again, until the client is closed.
func (c *Client) followSeeds(addrs []string) {
	if !slices.ContainsFunc(addrs, names.Is) {
		close(c.lookedUp)
		c.updateRoster(addrs, nil)
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	c.background.Go(func() {
		<-c.closing
		cancel()
	})
	warn := func(err error) {
		c.lookupErr.Store(&err)
		c.cfg.log.Warn("frontends cannot be looked up", "err", err)
	}
	first := sync.OnceFunc(func() { close(c.lookedUp) })
	c.background.Go(func() {
		names.Watcher{
			Addrs: addrs, Resolver: c.cfg.resolver, Every: c.cfg.lookupEvery, Warn: warn,
		}.Watch(ctx, func(addrs []string) {
			c.updateRoster(addrs, nil)
			first()
		})
	})
}

// noteMembers makes the given addresses the members. It does nothing if all are known and no member is missing.
func (c *Client) noteMembers(addrs []string) {
	r := c.roster.Load()
	known := func(addr string) bool {
		return slices.ContainsFunc(r.allFrontends(), func(f *frontend) bool { return f.addr == addr })
	}
	gone := func(f *frontend) bool { return !slices.Contains(addrs, f.addr) }
	if slices.IndexFunc(addrs, func(addr string) bool { return !known(addr) }) < 0 &&
		!slices.ContainsFunc(r.members, gone) {
		return
	}
	c.updateRoster(nil, addrs)
}

// forgetAfter is the time that the client remembers a frontend off the roster after the last call. By then the frontend
// has no job of the client any more.
const forgetAfter = time.Minute

// updateRoster replaces the seeds and the members; nil leaves a list unchanged. Frontends on neither list finish their
// calls.
func (c *Client) updateRoster(seeds, members []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return
	}
	old := c.roster.Load()
	var next roster
	var unlisted []*frontend // known frontends not on the new roster (yet)
	unlisted = append(append(unlisted, old.allFrontends()...), c.retired...)
	pickOrMake := func(addrs []string) (list []*frontend) {
		for _, addr := range addrs {
			if slices.ContainsFunc(next.seeds, func(f *frontend) bool { return f.addr == addr }) {
				continue
			}
			if i := slices.IndexFunc(unlisted, func(f *frontend) bool { return f.addr == addr }); i >= 0 {
				list, unlisted = append(list, unlisted[i]), slices.Delete(unlisted, i, i+1)
				continue
			}
			list = append(list, newFrontend(addr, &c.cfg, c.processes, &c.background, c.closing))
		}
		return list
	}
	addrsOf := func(list []*frontend) (addrs []string) {
		for _, f := range list {
			addrs = append(addrs, f.addr)
		}
		return addrs
	}
	if seeds == nil {
		seeds = addrsOf(old.seeds)
	}
	if members == nil {
		members = addrsOf(old.members)
	}
	next.seeds = pickOrMake(seeds)
	next.members = pickOrMake(members)
	c.retired = slices.DeleteFunc(unlisted, func(f *frontend) bool {
		f.pool.dropIdle(nil)
		return f.unusedFor() > forgetAfter
	})
	c.roster.Store(&next)
}
