package audit

import (
	"net/netip"
	"sync"
	"time"
)

// refusals counts the refusals of strangers by source.
type refusals struct {
	mu       sync.Mutex
	bySource map[string]*refusal
	timer    *time.Timer   // runs while bySource has sources
	due      chan struct{} // has an element when takeEntries should be called
}

// refusal is a source that was refused lately.
type refusal struct {
	last      Entry
	count     int       // refusals since the last entry
	writtenAt time.Time // when the last entry was made
}

// isFirst counts the refusal e, and reports whether e should be told at once.
func (r *refusals) isFirst(e Entry) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	source := sourceOf(e.From)
	if r.bySource[source] == nil && len(r.bySource) >= maxSources {
		source = "" // further sources share a count
	}
	if known := r.bySource[source]; known != nil {
		known.last = e
		known.count++
		return false
	}
	if r.bySource[source] = (&refusal{writtenAt: e.At}); len(r.bySource) == 1 {
		r.startTimer()
	}
	return true
}

// startTimer has takeEntries called in a second. The caller holds mu.
func (r *refusals) startTimer() {
	r.timer = time.AfterFunc(tellEvery, func() {
		select {
		case r.due <- struct{}{}:
		default:
		}
	})
}

// takeEntries returns the entries to be written at now, and forgets the sources without refusals since the entry before.
func (r *refusals) takeEntries(now time.Time) (entries []Entry) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for source, known := range r.bySource {
		switch {
		case now.Sub(known.writtenAt) < tellEvery:
		case known.count == 0:
			delete(r.bySource, source)
		default:
			e := known.last
			if known.count > 1 {
				e.Count = known.count
			}
			entries = append(entries, e)
			known.count, known.writtenAt = 0, now
		}
	}
	if len(r.bySource) > 0 {
		r.startTimer()
	}
	return entries
}

func (r *refusals) stopTimer() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.timer != nil {
		r.timer.Stop()
	}
}

// sourceOf returns the machine, or the network of IPv6, that an address belongs to.
func sourceOf(from string) string {
	at, err := netip.ParseAddrPort(from)
	if err != nil {
		return from
	}
	ip := at.Addr().Unmap()
	if ip.Is4() {
		return ip.String()
	}
	network, err := ip.Prefix(64) // a machine has many addresses of its network
	if err != nil {
		return ip.String()
	}
	return network.String()
}

// onceKey names a request that is told once.
type onceKey struct{ what, who, token, job, file string }

// onceSet remembers the latest maxSeen keys, and up to twice as many.
type onceSet struct {
	mu           sync.Mutex
	newer, older map[onceKey]struct{}
}

// addKey remembers k, and reports whether k is new.
func (s *onceSet) addKey(k onceKey) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, known := s.newer[k]; known {
		return false
	}
	_, known := s.older[k]
	if s.newer == nil || len(s.newer) >= maxSeen {
		s.older, s.newer = s.newer, make(map[onceKey]struct{})
	}
	s.newer[k] = struct{}{}
	return !known
}
