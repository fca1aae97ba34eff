package sim

import (
	"cmp"
	"slices"

	"github.com/phoebe-sched/phoebe/worker"
)

// crashWorker kills a worker's process; with trace, the machine lives on and closes its connections.
func (c *cluster) crashWorker(w *workerNode, trace bool) {
	for _, f := range c.frontends {
		if cn := f.conns[w.index]; cn != nil && cn.wOpen && w.links[cn.id] == nil {
			c.closeByDeath(cn, true, trace) // its Hello is on the way
		}
	}
	for _, cn := range inOrder(w.links) {
		c.closeByDeath(cn, true, trace)
	}
	w.life++
	w.core, w.links, w.running = nil, nil, nil
	w.down, w.dark, w.hung = true, !trace, nil
}

// crashFrontend kills a frontend's process.
func (c *cluster) crashFrontend(f *frontendNode, trace bool) {
	for _, cn := range f.conns {
		if cn != nil {
			c.closeByDeath(cn, false, trace)
		}
	}
	f.life++
	f.core = nil
	f.down, f.hung = true, nil
}

func (c *cluster) closeByDeath(cn *conn, ofWorker, trace bool) {
	if ofWorker {
		cn.wOpen = false
	} else {
		cn.fOpen, cn.closed = false, true
	}
	if !trace {
		cn.cut = true
	}
	c.hangUp(cn, ofWorker)
}

// breakConn resets a connection: both ends learn of it.
func (c *cluster) breakConn(cn *conn) {
	c.hangUp(cn, true)
	c.hangUp(cn, false)
	cn.cut = true
}

// resume lets a process that hung go on, with all that came in the meantime.
func (c *cluster) resume(h **hang) {
	if *h == nil {
		return
	}
	for _, e := range (*h).events {
		p := c.at(c.now, e)
		if e.kind == exit {
			e.run.end = p
		}
	}
	*h = nil
}

func inOrder(links map[worker.LinkID]*conn) []*conn {
	list := make([]*conn, 0, len(links))
	for _, cn := range links {
		list = append(list, cn)
	}
	slices.SortFunc(list, func(a, b *conn) int { return cmp.Compare(a.id, b.id) })
	return list
}
