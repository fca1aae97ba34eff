package sim

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/phoebe-sched/phoebe/frontend"
	"github.com/phoebe-sched/phoebe/probe"
	"github.com/phoebe-sched/phoebe/worker"
)

// injectFault lets the n-th fault happen.
func (r *faultRun) injectFault(n int) {
	d := rand.New(rand.NewPCG(r.seed, 'f'<<32|uint64(n)))
	w, f := drawOne(d, r.workers...), drawOne(d, r.frontends...)
	countFault := func(format string, args ...any) {
		name := fmt.Sprintf(format, args...)
		if r.log != nil {
			r.log("fault %d: w%d, f%d: %s", n, w.index, f.index, name)
		}
		r.stats.Faults[name]++
	}
	r.claimAsStranger(f, w, rand.New(rand.NewPCG(r.seed, 'x'<<32|uint64(n))))
	downFor := drawBetween(d, 10*time.Millisecond, time.Second)
	kind := d.IntN(16)
	if r.frontendsOnly {
		kind = drawOne(d, 2, 4, 4, 13)
	}
	switch kind {
	case 0, 1:
		if !w.down {
			countFault("worker crashes")
			r.killWorker(w, d, downFor)
		}
	case 2:
		if !f.down {
			countFault("frontend crashes")
			r.killFrontend(f, drawChance(d, 0.7))
			r.callAt(r.now+downFor, func() { r.reviveFrontend(f) })
		}
	case 3:
		if !w.down && w.hung == nil {
			countFault("worker hangs")
			r.noteHarm("worker hangs", nil, w, downFor)
			h := &hang{since: r.now}
			w.hung = h
			r.callAt(r.now+downFor, func() {
				if w.hung == h {
					r.resumeProcess(&w.hung)
				}
			})
		}
	case 4:
		if !f.down && f.hung == nil {
			countFault("frontend hangs")
			r.noteHarm("frontend hangs", f, nil, downFor)
			h := &hang{since: r.now}
			f.hung = h
			for _, j := range r.jobs { // some of its clients notice after a lease
				if j.owner == f && !j.ended && drawChance(d, 0.5) {
					r.callAt(r.now+r.net.lease, func() {
						if f.hung == h && j.owner == f {
							r.leaveFrontend(j)
						}
					})
				}
			}
			r.callAt(r.now+downFor, func() {
				if f.hung == h {
					r.resumeFrontend(f)
				}
			})
		}
	case 5, 6, 7:
		if cn := connOf(f, w); cn != nil {
			countFault("connection breaks")
			r.noteHarm("connection breaks", f, w, 0)
			r.breakConn(cn)
		}
	case 8:
		if cn := connOf(f, w); cn != nil {
			countFault("connection goes dead")
			r.noteHarm("connection goes dead", f, w, 0)
			cn.cut = true
		}
	case 9:
		if !w.down && w.hung == nil {
			countFault("worker drains")
			r.drainWorker(w, downFor)
		}
	case 10:
		if !w.down {
			countFault("worker is slow")
			w.speed = 0.1
			r.callAt(r.now+downFor, func() { w.speed = 1 })
		}
	case 11:
		if n := slices.IndexFunc(r.workers,
			func(v *workerNode) bool { return v != w && v.welcome.Rack == w.welcome.Rack && !v.down }); n >= 0 &&
			!w.down {
			countFault("rack crashes")
			for _, v := range r.workers {
				if v.welcome.Rack == w.welcome.Rack && !v.down {
					r.killWorker(v, d, downFor)
				}
			}
		}
	case 12:
		if !w.down && w.hung == nil {
			countFault("worker is maintained")
			r.announceOutage(w, drawBetween(d, 0, time.Second), downFor)
		}
	case 15:
		if !w.down && w.hung == nil && w.welcome.Cache != "" && r.deadCaches[w.index] != w.life {
			countFault("cache dies")
			r.killCache(w, downFor)
		}
	case 14:
		countFault("messages become dear or cheap")
		r.tellFrontend(f, frontend.Busy{Message: 10 * time.Microsecond, Share: d.Float64()},
			func() bool { return true })
	case 13:
		if !f.down && len(r.frontends) > 1 {
			countFault("frontend leaves")
			r.tellFrontend(f, frontend.Leave{}, func() bool { return true })
			r.callAt(r.now+downFor, func() {
				if !f.down {
					r.killFrontend(f, drawChance(d, 0.7))
					r.callAt(r.now+10*time.Millisecond, func() { r.reviveFrontend(f) })
				}
			})
		}
	}
}

// connOf returns the connection of f and w; nil if there is none in use.
func connOf(f *frontendNode, w *workerNode) *conn {
	if f.down || w.down {
		return nil
	}
	if cn := f.conns[w.index]; cn != nil && !cn.cut && !cn.closed {
		return cn
	}
	return nil
}

// killFrontend crashes a frontend. Its clients notice and go elsewhere.
func (r *faultRun) killFrontend(f *frontendNode, trace bool) {
	r.noteHarm("frontend crashes", f, nil, 0)
	r.crashFrontend(f, trace)
	r.visits[f.index] = map[probe.JobID]*visit{}
	for _, j := range r.jobs {
		if j.owner == f && !j.ended {
			r.leaveFrontend(j)
		}
	}
}

// reviveFrontend starts a dead frontend again.
func (r *faultRun) reviveFrontend(f *frontendNode) {
	if f.down {
		r.startFrontend(f, r.seed+uint64(f.index)<<32)
	}
}

// killWorker crashes a worker, and lets the worker start again after a time.
func (r *faultRun) killWorker(w *workerNode, d *rand.Rand, downFor time.Duration) {
	r.noteHarm("worker crashes", nil, w, noEndYet)
	r.crashWorker(w, drawChance(d, 0.7))
	r.callAt(r.now+downFor, func() { r.restartWorker(w) })
}

// restartWorker begins another life of a worker, perhaps with other labels.
func (r *faultRun) restartWorker(w *workerNode) {
	if w.down {
		r.furnishWorker(w, rand.New(rand.NewPCG(r.seed, 'w'<<32|uint64(w.index)<<16|uint64(w.life))))
		r.startWorker(w)
		r.endHarms(w)
		w.speed = 1
		r.outages[w.index] = outage{}
	}
}

// announceOutage lets a worker announce a maintenance, and drain when the maintenance begins.
func (r *faultRun) announceOutage(w *workerNode, startsIn, lasts time.Duration) {
	r.outages[w.index] = outage{at: r.now + startsIn, lasts: lasts}
	life := w.life
	r.callAt(r.now+startsIn, func() {
		if w.life == life && w.hung == nil && r.now < r.faultsEnd {
			r.drainWorker(w, lasts)
		}
	})
}

// killCache lets the disk of a worker's cache fail for a time. The worker takes no new files meanwhile.
func (r *faultRun) killCache(w *workerNode, downFor time.Duration) {
	life := w.life
	r.deadCaches[w.index], r.deadSince[w.index], r.cacheDeaths = life, r.now, r.cacheDeaths+1
	r.tellWorker(w, life, func() worker.Event { return worker.CacheChanged{Problem: "the disk fails"} })
	r.callAt(r.now+downFor, func() {
		r.tellWorker(w, life, func() worker.Event {
			r.deadCaches[w.index] = 0
			return worker.CacheChanged{}
		})
	})
}

// drainWorker lets a worker leave, and start again some time after it has left.
func (r *faultRun) drainWorker(w *workerNode, downFor time.Duration) {
	if err := r.stepWorker(w, worker.Leave{}); err != nil {
		r.failRun("%w", err)
		return
	}
	r.noteHarm("worker drains", nil, w, noEndYet)
	r.drainingLife[w.index] = w.life
	life := w.life
	var look func()
	look = func() {
		switch {
		case w.life != life:
			return
		case w.hung == nil && (w.core.Idle() || r.now > r.faultsEnd+2*time.Second):
			r.crashWorker(w, true)
			r.callAt(r.now+downFor, func() { r.restartWorker(w) })
			return
		}
		r.callAt(r.now+20*time.Millisecond, look)
	}
	look()
}

// endFaults ends all faults: dead processes start, hung processes go on.
func (r *faultRun) endFaults() {
	r.net.repeatShare, r.net.reorder = 0, 0
	for _, w := range r.workers {
		r.resumeProcess(&w.hung)
		r.restartWorker(w)
		w.speed = 1
	}
	for _, f := range r.frontends {
		r.resumeFrontend(f)
		r.reviveFrontend(f)
	}
}
