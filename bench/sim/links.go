package sim

import (
	"slices"
	"time"

	"github.com/phoebe-sched/phoebe/frontend"
	"github.com/phoebe-sched/phoebe/probe"
	"github.com/phoebe-sched/phoebe/worker"
)

// conn is one connection between a frontend and a worker. Each end has its own belief of the connection's state.
type conn struct {
	w      *workerNode
	f      *frontendNode
	id     worker.LinkID
	fOpen  bool // Welcome has arrived, and the frontend has not given the connection up
	wOpen  bool // Hello has arrived, and the worker has not given the connection up
	linked bool // Hello has arrived: the worker's core knows the connection
	closed bool // by the frontend, before Welcome arrived
	cut    bool // half-open: every message is lost, and neither end knows

	fHeard, wHeard time.Duration // when each end last heard of the other
	fLast, wLast   time.Duration // the latest arrival at each end
	lastCache      time.Duration // the arrival of the last Cache
	fLife, wLife   int32         // of the process at each end
	pings          uint64
	waiting        []probe.Msg // of the frontend: these wait for another message to travel with
	partialFrame   []probe.Msg // arrived at the frontend, before the end of their frame
	outgoing       []probe.Msg // leave at the end of the current turn

	fUnread, wUnread *turn // of each end: waits until the process has time
}

// redialAfter is the time from a failed attempt to reach a worker to the next attempt.
const redialAfter = 100 * time.Millisecond

// dialWorker lets f begin a connection to w.
func (c *cluster) dialWorker(f *frontendNode, w *workerNode) {
	cn := &conn{id: worker.LinkID(len(c.conns) + 1), f: f, w: w, fLife: f.life, wLife: w.life}
	c.conns = append(c.conns, cn)
	f.conns[w.index] = cn
	if w.down && !w.diedSilently {
		c.schedule(c.now+2*c.net.delay, event{kind: dialAnswered, conn: cn})
		return
	}
	c.schedule(c.now+c.net.lease, event{kind: dialTimesOut, conn: cn})
	if w.down {
		return
	}
	cn.wOpen = true // the kernel accepts, whether the process runs or hangs
	c.schedule(c.drawOrderedArrival(c.now, &cn.wLast), event{kind: toWorker, conn: cn})
}

// receiveHello is the arrival of the first message of a connection at its worker.
func (c *cluster) receiveHello(cn *conn) error {
	w := cn.w
	cn.wHeard = c.now
	cn.linked = true
	w.links = append(w.links, cn)
	if !cn.cut {
		c.schedule(c.drawOrderedArrival(c.now, &cn.fLast),
			event{kind: dialAnswered, conn: cn, content: c.recodeMsg(w.welcome)})
	}
	if c.net.workersWatch {
		c.schedule(c.now+c.net.ping, event{kind: watchDue, conn: cn})
	}
	return c.stepWorker(w, worker.LinkUp{Link: cn.id, Frontend: cn.f.id, Features: probe.Spoken.Features})
}

// finishDial is the end of dialling: m is a Welcome, or nil if the worker refused or was silent.
func (c *cluster) finishDial(cn *conn, m any) error {
	f, key := cn.f, frontend.Worker(cn.w.index)
	if cn.fOpen || cn.closed || f.conns[cn.w.index] != cn {
		return nil
	}
	if m == nil {
		cn.closed = true
		c.hangUp(cn, false)
		c.schedule(c.now+redialAfter, event{kind: dialDue, f: f, w: cn.w, life: f.life})
		return c.stepFrontend(f, frontend.WorkerGone{Worker: key})
	}
	cn.fOpen, cn.fHeard = true, c.now
	c.schedule(c.now+c.net.ping, event{kind: pingDue, conn: cn})
	return c.stepFrontend(f, frontend.WorkerUp{Worker: key, Welcome: m.(probe.Welcome)})
}

// pingWorker is the frontend's regular check of a connection.
func (c *cluster) pingWorker(cn *conn) error {
	switch {
	case !cn.fOpen:
		return nil
	case c.now-cn.fHeard > c.net.lease:
		return c.dropSilentWorkers(cn.f)
	}
	cn.pings++
	c.sendToWorker(cn, probe.Ping{Seq: cn.pings})
	c.schedule(c.now+c.net.ping, event{kind: pingDue, conn: cn})
	return nil
}

// dropSilentWorkers gives up the connections of all silent workers before any of their tasks goes elsewhere.
func (c *cluster) dropSilentWorkers(f *frontendNode) error {
	var silent []*conn
	for _, cn := range f.conns {
		if cn == nil || !cn.fOpen || c.now-cn.fHeard <= c.net.lease {
			continue
		}
		silent = append(silent, cn)
		if err := c.closeAtFrontend(cn); err != nil {
			return err
		}
		c.hangUp(cn, false)
	}
	for _, cn := range silent {
		if err := c.stepFrontend(f, frontend.WorkerGone{Worker: frontend.Worker(cn.w.index)}); err != nil {
			return err
		}
	}
	return nil
}

// watchFrontend is the worker's regular check of a connection.
func (c *cluster) watchFrontend(cn *conn) error {
	if c.now-cn.wHeard > c.net.lease {
		c.hangUp(cn, true)
		return c.closeAtWorker(cn)
	}
	c.schedule(c.now+c.net.ping, event{kind: watchDue, conn: cn})
	return nil
}

// hangUp tells the other end of the close of a connection. The caller has closed its own end.
func (c *cluster) hangUp(cn *conn, byWorker bool) {
	switch {
	case cn.cut:
	case byWorker:
		c.schedule(c.drawOrderedArrival(c.now, &cn.fLast), event{kind: connBroken, conn: cn, f: cn.f})
	default:
		c.schedule(c.drawOrderedArrival(c.now, &cn.wLast), event{kind: connBroken, conn: cn, w: cn.w})
	}
}

// closeAtWorker closes the worker's end of cn, and tells the worker's core.
func (c *cluster) closeAtWorker(cn *conn) error {
	if !cn.wOpen || cn.w.life != cn.wLife {
		return nil
	}
	cn.wOpen = false
	if !cn.linked {
		return nil // its Hello never arrived
	}
	cn.w.forgetLink(cn)
	return c.stepWorker(cn.w, worker.LinkDown{Link: cn.id})
}

// closeAtFrontend closes the frontend's end of cn, tells the frontend's core, and schedules the next dial.
func (c *cluster) closeAtFrontend(cn *conn) error {
	f := cn.f
	if f.life != cn.fLife || f.conns[cn.w.index] != cn || cn.closed {
		return nil
	}
	wasOpen := cn.fOpen
	cn.fOpen, cn.closed = false, true
	c.schedule(c.now+redialAfter/10, event{kind: dialDue, f: f, w: cn.w, life: f.life})
	if !wasOpen {
		return nil
	}
	return c.stepFrontend(f, frontend.LinkLost{Worker: frontend.Worker(cn.w.index)})
}

// forgetLink notes that the worker's core no longer knows cn.
func (w *workerNode) forgetLink(cn *conn) {
	cn.linked = false
	w.links = slices.DeleteFunc(w.links, func(x *conn) bool { return x == cn })
}
