package client

import (
	"sync"
	"sync/atomic"

	v1 "github.com/phoebe-sched/phoebe/idl/gen/phoebe/v1"
)

// process is a frontend by the address that it gives as its own, which handles name as owner. Behind a balancer, one
// address leads to several. Safe for concurrent use.
type process struct {
	name    string
	answers atomic.Uint64 // to calls that waited for it
	leaves  atomic.Bool   // it takes no new jobs
	listed  atomic.Bool   // others have told of it
	lost    atomic.Bool   // others have told of it, and do no more
}

// processes are the frontends that a client has heard of. Safe for concurrent use.
type processes struct {
	mu     sync.Mutex
	byName map[string]*process
	tell   func(addrs []string) // hears which frontends there are; nil: nobody wants to know
}

// named is the frontend that handles call so.
func (ps *processes) named(name string) *process {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	return ps.namedLocked(name)
}

func (ps *processes) namedLocked(name string) *process {
	p := ps.byName[name]
	if p == nil {
		p = &process{name: name}
		ps.byName[name] = p
	}
	return p
}

// heard takes in what a frontend tells of itself and of the others.
func (ps *processes) heard(r *v1.ClusterResponse) *process {
	var addrs []string
	ps.mu.Lock()
	p := ps.namedLocked(r.Address)
	p.leaves.Store(r.Draining)
	there := map[string]bool{r.Address: true}
	for _, m := range r.Members {
		if m.Address == "" {
			continue
		}
		addrs = append(addrs, m.Address)
		there[m.Address] = true
		ps.namedLocked(m.Address).listed.Store(true)
	}
	for name, q := range ps.byName {
		q.lost.Store(q.listed.Load() && !there[name])
	}
	ps.mu.Unlock()
	if ps.tell != nil && len(addrs) > 0 {
		ps.tell(addrs)
	}
	return p
}
