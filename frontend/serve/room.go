package serve

import (
	"container/list"
	"io"
	"sync"
	"time"
)

// readingRoom is the memory for large requests while their bytes arrive. A request takes firstRoom, and then at most
// roomGrowth bytes for each byte that has arrived, so a client that announces bytes and sends none keeps nobody out.
// One request at a time is favoured, and has as much room as the largest request. So some request always comes to its
// end. The other requests share a third more than that. A tenant may take as much of the shared room as leaves a
// quarter to tenants that come later.
type readingRoom struct {
	mu       sync.Mutex
	free     int            // bytes of the shared room
	taken    map[string]int // bytes of the shared room, by tenant
	requests list.List      // of *requestBytes, oldest first
	favoured *requestBytes  // nil: no request is being read
	changed  chan struct{}  // closed at the end of a request
}

// requestBytes are the bytes of a large request that is being read.
type requestBytes struct {
	room   *readingRoom
	tenant string // of the caller, "" for callers bound to none
	shared int    // bytes taken of the shared room
	elem   *list.Element
}

// newReadingRoom makes the room for requests of most bytes.
func newReadingRoom(most int) *readingRoom {
	return &readingRoom{free: (most + 2) / 3 * 4, taken: map[string]int{}, changed: make(chan struct{})}
}

// addRequest begins a request, which has no room yet.
func (p *readingRoom) addRequest(tenant string) *requestBytes {
	p.mu.Lock()
	defer p.mu.Unlock()
	r := &requestBytes{room: p, tenant: tenant}
	r.elem = p.requests.PushBack(r)
	if p.favoured == nil {
		p.favoured = r
	}
	return r
}

// addBytes waits up to patience for room for n more bytes, and reports whether there is any.
func (r *requestBytes) addBytes(n int, patience time.Duration) bool {
	p := r.room
	var timeout <-chan time.Time
	p.mu.Lock()
	defer p.mu.Unlock()
	for !p.tryAdd(r, n) {
		if timeout == nil {
			timeout = time.After(patience)
		}
		changed := p.changed
		p.mu.Unlock()
		expired := false
		select {
		case <-changed:
		case <-timeout:
			expired = true
		}
		if p.mu.Lock(); expired {
			return p.tryAdd(r, n)
		}
	}
	return true
}

// tryAdd takes room for n bytes of r, if there is any now. The caller holds mu.
func (p *readingRoom) tryAdd(r *requestBytes, n int) bool {
	if r == p.favoured {
		return true
	}
	if rest := p.free - n; rest < 0 || p.taken[r.tenant]+n > 3*rest {
		return false
	}
	p.free -= n
	p.taken[r.tenant] += n
	r.shared += n
	return true
}

// release gives the room back. It may be called twice.
func (r *requestBytes) release() {
	p := r.room
	p.mu.Lock()
	defer p.mu.Unlock()
	if r.elem == nil {
		return
	}
	p.requests.Remove(r.elem)
	r.elem = nil
	p.free += r.shared
	if p.taken[r.tenant] -= r.shared; p.taken[r.tenant] == 0 {
		delete(p.taken, r.tenant)
	}
	if r == p.favoured {
		p.favoured = p.nextFavoured(r.tenant)
	}
	close(p.changed)
	p.changed = make(chan struct{})
}

// nextFavoured returns the oldest request of another tenant than last, or else the oldest; nil: there is none.
func (p *readingRoom) nextFavoured(last string) *requestBytes {
	for e := p.requests.Front(); e != nil; e = e.Next() {
		if r := e.Value.(*requestBytes); r.tenant != last {
			return r
		}
	}
	if oldest := p.requests.Front(); oldest != nil {
		return oldest.Value.(*requestBytes)
	}
	return nil
}

// pacedReader reads the bytes of a request, and demands minRequestRate. A sender may be late by requestGrace at most,
// however fast the earlier bytes came.
type pacedReader struct {
	r        io.Reader
	client   *clientConn
	timeLeft time.Duration // how long the next byte may take
}

func (p *pacedReader) Read(b []byte) (int, error) {
	begun := time.Now()
	p.client.SetReadDeadline(begun.Add(p.timeLeft))
	n, err := p.r.Read(b)
	p.timeLeft = min(p.timeLeft-time.Since(begun)+time.Duration(n)*time.Second/minRequestRate, requestGrace)
	return n, err
}
