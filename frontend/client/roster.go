package client

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/phoebe-sched/phoebe/probe/names"
)

// roster is the frontends that a client may ask.
type roster struct {
	seeds   []*frontend // that it was told of
	members []*frontend // that these, in turn, have told of: where none of the seeds can be reached
}

// all is the seeds, then the members.
func (r *roster) all() []*frontend { return slices.Concat(r.seeds, r.members) }

// follow keeps the seeds to what the addresses stand for.
func (c *Client) follow(addrs []string) error {
	if !slices.ContainsFunc(addrs, names.Is) {
		return c.enroll(addrs, nil)
	}
	ctx, cancel := context.WithCancel(context.Background())
	c.background.Go(func() {
		<-c.closing
		cancel()
	})
	warn := func(err error) { c.cfg.log.Warn("frontends cannot be looked up", "err", err) }
	c.background.Go(func() {
		names.Watcher{Addrs: addrs, Resolver: c.cfg.resolver, Every: c.cfg.lookupEvery, Warn: warn}.Watch(ctx, func(addrs []string) {
			if err := c.enroll(addrs, nil); err != nil {
				c.cfg.log.Warn("frontends are left as they were", "err", err)
			}
		})
	})
	return nil
}

// met takes in the addresses of frontends that another one has told of.
func (c *Client) met(addrs []string) {
	r := c.roster.Load()
	known := func(addr string) bool {
		return slices.ContainsFunc(r.all(), func(f *frontend) bool { return f.addr == addr })
	}
	gone := func(f *frontend) bool { return !slices.Contains(addrs, f.addr) }
	if slices.IndexFunc(addrs, func(addr string) bool { return !known(addr) }) < 0 && !slices.ContainsFunc(r.members, gone) {
		return
	}
	if err := c.enroll(nil, addrs); err != nil {
		c.cfg.log.Warn("frontends are left as they were", "err", err)
	}
}

// forgetAfter is how long after its last call a frontend that is on no list may be forgotten: no job is there any more.
const forgetAfter = time.Minute

// enroll changes the seeds, or the members: nil leaves them as they are. Those that are on no list any more finish what they
// are asked.
func (c *Client) enroll(seeds, members []string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil
	}
	old := c.roster.Load()
	var next roster
	var had []*frontend // that are not on the new roster
	had = append(append(had, old.all()...), c.retired...)
	take := func(addrs []string) (list []*frontend, err error) {
		for _, addr := range addrs {
			if slices.ContainsFunc(next.seeds, func(f *frontend) bool { return f.addr == addr }) {
				continue
			}
			if i := slices.IndexFunc(had, func(f *frontend) bool { return f.addr == addr }); i >= 0 {
				list, had = append(list, had[i]), slices.Delete(had, i, i+1)
				continue
			}
			f, err := newFrontend(addr, &c.cfg, c.processes, &c.background, c.closing)
			if err != nil {
				return nil, err
			}
			list = append(list, f)
		}
		return list, nil
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
	var errs [2]error
	next.seeds, errs[0] = take(seeds)
	next.members, errs[1] = take(members)
	if err := errors.Join(errs[:]...); err != nil {
		return err
	}
	c.retired = slices.DeleteFunc(had, func(f *frontend) bool {
		f.pool.dropIdle(nil)
		return f.unused() > forgetAfter
	})
	c.roster.Store(&next)
	return nil
}
