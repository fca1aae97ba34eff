package client

import (
	"sync"
	"sync/atomic"

	v1 "github.com/phoebe-sched/phoebe/idl/gen/phoebe/v1"
)

// process is a frontend by the address that it gives as its own, which handles name as owner. Behind a balancer, one
// address leads to several. Safe for concurrent use.
type process struct {
	name     string
	answers  atomic.Uint64 // to calls that waited for it
	draining atomic.Bool   // it takes no new jobs
	listed   atomic.Bool   // others have told of it
	lost     atomic.Bool   // others have told of it, and do no more
}

// processes are the frontends that a client has heard of. Safe for concurrent use.
type processes struct {
	mu        sync.Mutex
	byName    map[string]*process
	onMembers func(addrs []string) // hears which frontends there are; nil: nobody wants to know
}

// findOrAdd is the frontend that handles call so.
func (ps *processes) findOrAdd(name string) *process {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	return ps.findOrAddLocked(name)
}

func (ps *processes) findOrAddLocked(name string) *process {
	p := ps.byName[name]
	if p == nil {
		p = &process{name: name}
		ps.byName[name] = p
	}
	return p
}

// noteGreeting takes in what a frontend tells of itself and of the others.
func (ps *processes) noteGreeting(r *v1.ClusterResponse) *process {
	var addrs []string
	ps.mu.Lock()
	p := ps.findOrAddLocked(r.Address)
	p.draining.Store(r.Draining)
	present := map[string]bool{r.Address: true}
	for _, m := range r.Members {
		if m.Address == "" {
			continue
		}
		addrs = append(addrs, m.Address)
		present[m.Address] = true
		ps.findOrAddLocked(m.Address).listed.Store(true)
	}
	for name, q := range ps.byName {
		q.lost.Store(q.listed.Load() && !present[name])
	}
	ps.mu.Unlock()
	if ps.onMembers != nil && len(addrs) > 0 {
		ps.onMembers(addrs)
	}
	return p
}
