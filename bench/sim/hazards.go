package sim

import (
	"cmp"
	"slices"
)

// crashWorker kills a worker's process; with trace, the machine lives on and closes its connections.
func (c *cluster) crashWorker(w *workerNode, trace bool) {
	for _, f := range c.frontends {
		if cn := f.conns[w.index]; cn != nil && cn.wOpen && !cn.linked {
			c.closeByDeath(cn, true, trace) // its Hello is under way
		}
	}
	slices.SortFunc(w.links, func(a, b *conn) int { return cmp.Compare(a.id, b.id) })
	for _, cn := range w.links {
		cn.linked = false
		c.closeByDeath(cn, true, trace)
	}
	for _, r := range w.running {
		r.life++ // the run never ends
	}
	w.life++
	w.core, w.links, w.running = nil, nil, nil
	w.down, w.diedSilently, w.hung = true, !trace, nil
}

// crashFrontend kills a frontend's process; with trace, the machine lives on and closes its connections.
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

// closeByDeath closes one end of cn because its process died. Without a trace the other end does not learn of the
// death.
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

// breakConn resets a connection. Both ends learn of the break.
func (c *cluster) breakConn(cn *conn) {
	c.hangUp(cn, true)
	c.hangUp(cn, false)
	cn.cut = true
}

// resumeFrontend lets a hung frontend go on. The frontend does not take its own absence for silence of the
// workers.
func (c *cluster) resumeFrontend(f *frontendNode) {
	if h := f.hung; h != nil {
		for _, cn := range f.conns {
			if cn != nil {
				cn.fHeard = min(cn.fHeard+c.now-h.since, c.now)
			}
		}
	}
	c.resumeProcess(&f.hung)
}

// resumeProcess lets a hung process go on, with all events of the meantime.
func (c *cluster) resumeProcess(h **hang) {
	if *h == nil {
		return
	}
	for _, e := range (*h).events {
		switch e.kind { // a wake-up at another time than wakeAt is void
		case wakeWorker:
			e.w.wakeAt = c.now
		case wakeFrontend:
			e.f.wakeAt = c.now
		}
		c.schedule(c.now, e)
	}
	*h = nil
}
