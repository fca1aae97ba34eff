package door

import (
	"io"
	"net"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"
)

// visit is a connection without a network.
type visit struct {
	*Guest
	closed bool
}

// doorUnderTest notes why connections were closed.
type doorUnderTest struct {
	*Door
	reasons []Reason
}

func newDoor(r Rule) *doorUnderTest {
	d := &doorUnderTest{}
	r.Closed = func(why Reason) { d.reasons = append(d.reasons, why) }
	d.Door = New(r)
	return d
}

func (d *doorUnderTest) enter(fd int) *visit {
	v := &visit{}
	v.Guest = d.Enter(fd, func() { v.closed = true })
	return v
}

func (d *doorUnderTest) wantReasons(t *testing.T, want ...Reason) {
	t.Helper()
	if !slices.Equal(d.reasons, want) {
		t.Errorf("closed for %q, want %q", d.reasons, want)
	}
	d.reasons = nil
}

func TestOldestStrangerLeaves(t *testing.T) {
	d := newDoor(Rule{MaxConns: 3})
	known, first, second := d.enter(-1), d.enter(-1), d.enter(-1)
	known.MarkKnown()
	third := d.enter(-1)
	if !first.closed || known.closed || second.closed || third.Guest == nil {
		t.Errorf("first %v, known %v, second %v", first.closed, known.closed, second.closed)
	}
	d.wantReasons(t, NoRoom)
	second.MarkKnown()
	third.MarkKnown()
	if d.enter(-1).Guest != nil {
		t.Error("a stranger entered among known peers only")
	}
	d.wantReasons(t, NoRoom)
	known.Leave()
	known.Leave()
	fourth := d.enter(-1)
	if fourth.Guest == nil {
		t.Error("no room after a known peer left")
	}
	fourth.MarkKnown()
	third.Leave()
	if third.MarkKnown(); d.enter(-1).Guest == nil || d.Strangers() != 1 {
		t.Errorf("%d strangers", d.Strangers())
	}
}

func TestStrangersLeaveInTime(t *testing.T) {
	d := newDoor(Rule{})
	late, known := d.enter(-1), d.enter(-1)
	known.MarkKnown()
	d.CloseLate(time.Now())
	if late.closed {
		t.Error("closed before its time")
	}
	d.CloseLate(time.Now().Add(strangerTime))
	if !late.closed || known.closed {
		t.Errorf("late %v, known %v", late.closed, known.closed)
	}
	d.wantReasons(t, Late)

	var reasons sync.WaitGroup
	reasons.Add(3)
	quick := New(Rule{StrangerTime: time.Millisecond, Closed: func(Reason) { reasons.Done() }})
	quick.Enter(-1, func() {})
	quick.Enter(-1, func() {})
	quick.Enter(-1, func() {})
	reasons.Wait() // the door's own timer
	if quick.Strangers() != 0 {
		t.Error("strangers after their time")
	}
	unbound := newDoor(Rule{StrangerTime: -1})
	if unbound.enter(-1); unbound.timer != nil {
		t.Error("a door without a bound has a timer")
	}
}

func TestRoomOfStrangers(t *testing.T) {
	d := newDoor(Rule{})
	room := min(maxStrangers, max(fileLimit()/16, 8))
	all := make([]*visit, room+1)
	for i := range all {
		all[i] = d.enter(-1)
	}
	if !all[0].closed || all[1].closed || d.Strangers() != room {
		t.Errorf("%d strangers, the first closed: %v", d.Strangers(), all[0].closed)
	}
	d.CloseAll()
	if !all[room].closed || d.Strangers() != 0 || len(d.guests) != 0 {
		t.Error("connections are open after CloseAll")
	}
}

func TestDescriptorsStayFree(t *testing.T) {
	d := newDoor(Rule{FilesFree: 100})
	limit := fileLimit()
	fits := d.enter(limit - 100)
	if fits.Guest == nil {
		t.Fatal("closed while enough descriptors were free")
	}
	fits.MarkKnown()
	if d.enter(limit-99).Guest != nil {
		t.Error("entered although too few descriptors are free")
	}
	d.wantReasons(t, NoFile)
	stranger := d.enter(-1)
	if d.enter(limit-1).Guest == nil || !stranger.closed {
		t.Error("a stranger gave its descriptor to nobody")
	}
}

func TestWrongSecrets(t *testing.T) {
	g := newDoor(Rule{}).enter(-1)
	for n := 1; n <= 3; n++ {
		if ends := g.NoteWrongSecret(); ends != (n == 3) {
			t.Errorf("wrong secret %d: the connection ends: %t", n, ends)
		}
	}
	var none *Guest
	none.MarkKnown()
	none.Leave()
	if none.NoteWrongSecret() {
		t.Error("a nil guest counts")
	}
}

// brittle fails to accept once.
type brittle struct {
	net.Listener
	failed bool
}

func (b *brittle) Accept() (net.Conn, error) {
	if !b.failed {
		b.failed = true
		return nil, syscall.EMFILE
	}
	return b.Listener.Accept()
}

func TestListen(t *testing.T) {
	raw, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	d := newDoor(Rule{MaxConns: 1})
	l := d.Listen(&brittle{Listener: raw})
	connect := func() (ours net.Conn, theirs *Conn) {
		t.Helper()
		ours, err := net.Dial("tcp", raw.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { ours.Close() })
		accepted, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		return ours, accepted.(*Conn)
	}
	ours, theirs := connect()
	d.wantReasons(t, NotOpened)
	if Descriptor(theirs.Conn) <= 0 || Descriptor(theirs) != -1 {
		t.Errorf("descriptor %d", Descriptor(theirs.Conn))
	}
	_, second := connect()
	if _, err := io.Copy(io.Discard, ours); err != nil {
		t.Error(err)
	}
	d.wantReasons(t, NoRoom)
	second.Guest.MarkKnown()
	refused, err := net.Dial("tcp", raw.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer refused.Close()
	ended := make(chan error, 1)
	go func() { _, err := l.Accept(); ended <- err }()
	if _, err := io.Copy(io.Discard, refused); err != nil {
		t.Error(err)
	}
	raw.Close()
	if err := <-ended; err == nil {
		t.Error("accepted at the closed listener")
	}
	second.Close()
	theirs.Close()
	if len(d.guests) != 0 || d.Strangers() != 0 {
		t.Error("guests after the end of their connections")
	}
}
