package client

import (
	"sync"
	"sync/atomic"
	"time"

	v1 "github.com/phoebe-sched/phoebe/idl/gen/phoebe/v1"
)

// process is a frontend under its own address. Handles name a job's owner by this address. Behind a balancer, the
// balancer's address leads to several processes. Safe for concurrent use.
type process struct {
	name     string
	answers  atomic.Uint64 // number of answers so far
	draining atomic.Bool   // takes no new jobs
	listed   atomic.Bool   // has been in another frontend's list of members
	lost     atomic.Bool   // was listed, and is missing from the latest list
	lostAt   time.Time     // if lost: since when; guarded by the mutex of processes
	silentAt time.Time     // end of the last ping without an answer; zero: answered since; guarded like lostAt
}

// processes holds all frontends that a client knows by name. Safe for concurrent use.
type processes struct {
	mu        sync.Mutex
	byName    map[string]*process
	onMembers func(addrs []string) // called with each list of members; nil: not called
}

// findOrAdd returns the process of a name, as in handles, and adds a new process if the name is new.
func (ps *processes) findOrAdd(name string) *process {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	return ps.findOrAddLocked(name)
}

// findOrAddLocked is findOrAdd with the mutex held.
func (ps *processes) findOrAddLocked(name string) *process {
	p := ps.byName[name]
	if p == nil {
		p = &process{name: name}
		ps.byName[name] = p
	}
	return p
}

// noteSilent notes that p has not answered a ping.
func (ps *processes) noteSilent(p *process) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	p.silentAt = time.Now()
}

// wasSilent reports whether the process of a name has not answered a ping within the last d.
func (ps *processes) wasSilent(name string, d time.Duration) bool {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	p := ps.byName[name]
	return p != nil && time.Since(p.silentAt) < d
}

// noteGreeting notes the facts in the answer to identifyPeer, about the answering frontend and about the other members.
// It returns the answering frontend.
func (ps *processes) noteGreeting(r *v1.ClusterResponse) *process {
	var addrs []string
	ps.mu.Lock()
	p := ps.findOrAddLocked(r.Address)
	p.draining.Store(r.Draining)
	p.silentAt = time.Time{}
	present := map[string]bool{r.Address: true}
	for _, m := range r.Members {
		if m.Address == "" {
			continue
		}
		addrs = append(addrs, m.Address)
		present[m.Address] = true
		ps.findOrAddLocked(m.Address).listed.Store(true)
	}
	now := time.Now()
	for name, q := range ps.byName {
		lost := q.listed.Load() && !present[name]
		switch wasLost := q.lost.Swap(lost); {
		case lost && !wasLost:
			q.lostAt = now
		case lost && now.Sub(q.lostAt) > forgetAfter:
			delete(ps.byName, name)
		}
	}
	ps.mu.Unlock()
	if ps.onMembers != nil && len(addrs) > 0 {
		ps.onMembers(addrs)
	}
	return p
}
