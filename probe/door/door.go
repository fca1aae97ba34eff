// Package door is the rule for the connections of all listeners. A peer is a stranger until it has shown a secret, a
// token or a certificate. Strangers share a small room: if the room is full, the oldest stranger leaves. A stranger
// that stays unknown for too long leaves, too. A peer that shows three wrong secrets leaves. The process keeps file
// descriptors free for its own work. So strangers keep nobody out and exhaust nothing, at any port.
package door

import (
	"container/list"
	"context"
	"errors"
	"net"
	"sync"
	"syscall"
	"time"
)

const (
	maxStrangers = 1000             // in the room of a door, if the process may open enough files
	strangerTime = 10 * time.Second // from the connection until the peer is known
	filesFree    = 512              // descriptors kept free
	wrongSecrets = 3                // a connection ends at this number
	acceptPause  = 10 * time.Millisecond
)

// Rule sets the bounds of a Door. Zero fields take the defaults.
type Rule struct {
	MaxConns     int           // strangers and known peers together; default: no bound
	StrangerTime time.Duration // from the connection until the peer is known; default 10 s, negative: no bound
	FilesFree    int           // descriptors kept free, a quarter of all at most; default 512
	// Closed is called with the reason of each connection that the rule closes. Nil: no call.
	Closed func(Reason)
}

// Reason says why the rule closed a connection.
type Reason string

const (
	NoRoom    Reason = "no room"    // the oldest stranger left for a newer one, or all peers are known
	Late      Reason = "late"       // a stranger's time was over
	NoFile    Reason = "no file"    // too few descriptors are free
	NotOpened Reason = "not opened" // the system could not open the connection
)

// Door counts the connections of a listener.
type Door struct {
	rule Rule

	mu        sync.Mutex
	guests    map[*Guest]bool
	strangers list.List   // of *Guest, oldest first
	timer     *time.Timer // for the oldest stranger; nil: there was no stranger yet
}

// Guest is a connection. All methods may be called with a nil Guest, and by anyone.
type Guest struct {
	door  *Door
	evict func()
	// The door's mutex guards these.
	elem         *list.Element // among the strangers; nil: known, or gone
	since        time.Time     // when the guest came
	wrongSecrets int
}

// New makes a door.
func New(r Rule) *Door {
	if r.StrangerTime == 0 {
		r.StrangerTime = strangerTime
	}
	if r.FilesFree == 0 {
		r.FilesFree = filesFree
	}
	if r.Closed == nil {
		r.Closed = func(Reason) {}
	}
	return &Door{rule: r, guests: map[*Guest]bool{}}
}

// Enter takes in a new connection, as a stranger. If the result is nil, the caller must close the connection. fd is
// the descriptor of the connection, or -1. The door calls evict at most once, to have the connection closed. evict
// must not wait.
func (d *Door) Enter(fd int, evict func()) *Guest {
	g := &Guest{door: d, evict: evict, since: time.Now()}
	d.mu.Lock()
	reason, out := d.makeRoom(fd)
	if reason == "" || out != nil {
		d.guests[g] = true
		g.elem = d.strangers.PushBack(g)
		if d.rule.StrangerTime < 0 {
			// the caller has deadlines of its own
		} else if d.timer == nil {
			d.timer = time.AfterFunc(d.rule.StrangerTime, func() { d.CloseLate(time.Now()) })
		} else if d.strangers.Len() == 1 {
			d.timer.Reset(d.rule.StrangerTime)
		}
	}
	d.mu.Unlock()
	if reason != "" {
		d.rule.Closed(reason)
	}
	switch {
	case out != nil:
		out.evict()
	case reason != "":
		return nil
	}
	return g
}

// makeRoom returns why there is no room for another connection, or "", and the oldest stranger, which makes room.
// out is nil if there is room, or no stranger. The caller holds mu.
func (d *Door) makeRoom(fd int) (why Reason, out *Guest) {
	files := fileLimit()
	room := maxStrangers
	if files > 0 {
		room = min(room, max(files/16, 8)) // other doors have strangers, too
	}
	switch {
	case d.rule.MaxConns > 0 && len(d.guests) >= d.rule.MaxConns, d.strangers.Len() >= room:
		why = NoRoom
	case files > 0 && fd+min(d.rule.FilesFree, files/4) > files:
		why = NoFile
	default:
		return "", nil
	}
	if oldest := d.strangers.Front(); oldest != nil {
		out = oldest.Value.(*Guest)
		d.remove(out)
	}
	return why, out
}

// remove forgets a guest. The caller holds mu.
func (d *Door) remove(g *Guest) {
	delete(d.guests, g)
	if g.elem != nil {
		d.strangers.Remove(g.elem)
		g.elem = nil
	}
}

// CloseLate closes the connections of strangers whose time is over at now. The door calls it by itself in time.
func (d *Door) CloseLate(now time.Time) {
	var late []*Guest
	d.mu.Lock()
	for e := d.strangers.Front(); e != nil; e = d.strangers.Front() {
		g := e.Value.(*Guest)
		if rest := d.rule.StrangerTime - now.Sub(g.since); rest > 0 {
			d.timer.Reset(rest)
			break
		}
		d.remove(g)
		late = append(late, g)
	}
	d.mu.Unlock()
	for _, g := range late {
		d.rule.Closed(Late)
		g.evict()
	}
}

// Strangers returns the number of strangers.
func (d *Door) Strangers() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.strangers.Len()
}

// CloseAll has all connections closed.
func (d *Door) CloseAll() {
	d.mu.Lock()
	var all []*Guest
	for g := range d.guests {
		d.remove(g)
		all = append(all, g)
	}
	d.mu.Unlock()
	for _, g := range all {
		g.evict()
	}
}

// MarkKnown notes that the peer has shown who it is.
func (g *Guest) MarkKnown() {
	if g == nil {
		return
	}
	g.door.mu.Lock()
	defer g.door.mu.Unlock()
	if g.elem != nil {
		g.door.strangers.Remove(g.elem)
		g.elem = nil
	}
}

// NoteWrongSecret counts a wrong secret, and reports whether the connection has to end.
func (g *Guest) NoteWrongSecret() (end bool) {
	if g == nil {
		return false
	}
	g.door.mu.Lock()
	defer g.door.mu.Unlock()
	g.wrongSecrets++
	return g.wrongSecrets >= wrongSecrets
}

// Leave notes that the connection is closed. It may be called twice.
func (g *Guest) Leave() {
	if g == nil {
		return
	}
	g.door.mu.Lock()
	defer g.door.mu.Unlock()
	g.door.remove(g)
}

// Listen makes the connections of l guests of the door, as values of type *Conn.
func (d *Door) Listen(l net.Listener) net.Listener { return &listener{l, d} }

type listener struct {
	net.Listener
	door *Door
}

// Conn is a connection with its guest.
type Conn struct {
	net.Conn
	Guest *Guest
}

// Accept returns the next connection of l. Accept goes on after all errors but the end of the listener, and calls
// failed after each: the machine may lack memory for a connection, or the process a descriptor.
func Accept(l net.Listener, failed func()) (net.Conn, error) {
	for {
		c, err := l.Accept()
		if err == nil || errors.Is(err, net.ErrClosed) {
			return c, err
		}
		failed()
		time.Sleep(acceptPause)
	}
}

// Accept implements net.Listener.
func (l *listener) Accept() (net.Conn, error) {
	for {
		raw, err := Accept(l.Listener, func() { l.door.rule.Closed(NotOpened) })
		if err != nil {
			return nil, err
		}
		c := &Conn{Conn: raw}
		if c.Guest = l.door.Enter(Descriptor(raw), func() { raw.Close() }); c.Guest != nil {
			return c, nil
		}
		raw.Close()
	}
}

// Close implements net.Conn.
func (c *Conn) Close() error {
	c.Guest.Leave()
	return c.Conn.Close()
}

// Descriptor returns the descriptor of a connection, or -1.
func Descriptor(c net.Conn) int {
	number := -1
	if s, ok := c.(syscall.Conn); ok {
		if raw, err := s.SyscallConn(); err == nil {
			_ = raw.Control(func(fd uintptr) { number = int(fd) }) // an error: closed already, and so -1
		}
	}
	return number
}

type guestKey struct{}

// ConnContext is for http.Server. It makes GuestOf work for requests on a *Conn.
func ConnContext(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, guestKey{}, c.(*Conn).Guest)
}

// GuestOf returns the guest that makes a request, or nil.
func GuestOf(ctx context.Context) *Guest {
	g, _ := ctx.Value(guestKey{}).(*Guest)
	return g
}
