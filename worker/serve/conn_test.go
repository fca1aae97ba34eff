package serve

import (
	"bytes"
	"net"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/phoebe-sched/phoebe/probe"
	"github.com/phoebe-sched/phoebe/worker"
)

// memTransport is a transport that keeps the written bytes.
type memTransport struct {
	bytes.Buffer
	closed bool
	broken bool
}

func (m *memTransport) Write(b []byte) (int, error) {
	if m.broken {
		panic("broken")
	}
	return m.Buffer.Write(b)
}
func (m *memTransport) TryWrite(b []byte) int {
	m.Buffer.WriteByte(b[0]) // a kernel that takes a byte at a time
	return 1
}
func (m *memTransport) OutboundBuffered() int { return 0 }
func (m *memTransport) Tune(time.Duration)    {}
func (m *memTransport) Later(f func())        { f() }
func (m *memTransport) RemoteAddr() net.Addr  { return &net.TCPAddr{} }
func (m *memTransport) Close() error          { m.closed = true; return nil }

// unstartedServer returns a server that does not listen.
func unstartedServer(tb testing.TB) *Server {
	s, err := New(Config{Core: worker.Config{Capacity: capacity(2)}})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { s.Close() })
	return s
}

func TestPanicWhileWriting(t *testing.T) {
	s := unstartedServer(t)
	m := &memTransport{broken: true}
	c := newConn(s, m, m)
	s.withCore(m, func(time.Time) { s.queueMsg(c, probe.Drain{}) })
	c.handleClosed()
	if !m.closed || s.Err() != nil {
		t.Errorf("closed %v, %v", m.closed, s.Err())
	}
}

// A frontend stays while it pings within its lease, and while the bytes of a large frame come. A silent frontend goes.
// The leases pass by the test, and not by the clock of the machine.
func TestBytesKeepTheLease(t *testing.T) {
	s := unstartedServer(t)
	m := &memTransport{}
	c := newConn(s, m, m)
	defer c.handleClosed()
	c.timer.Stop()
	h := hello(7)
	c.receiveData(slices.Concat(greeting, pushFrame(1, h)))
	letPass := func(received []byte) { // a lease, with bytes at the end
		c.heardAt = c.heardAt.Add(-h.Lease)
		if received != nil {
			c.receiveData(received)
		}
		c.checkSilence()
		c.timer.Stop()
	}
	frame := pushFrame(1, reserveOne(1))
	for _, received := range [][]byte{pushFrame(1, probe.Ping{}), frame[:1], frame[1:2], frame[2 : len(frame)-1]} {
		if letPass(received); m.closed {
			t.Fatalf("the connection was closed, although %d bytes came", len(received))
		}
	}
	if letPass(nil); !m.closed {
		t.Error("the connection of a silent frontend stays")
	}
}

// If the kernel does not take several frames at once, home writes the rest, in order.
func TestWriteAwayFromHome(t *testing.T) {
	s := unstartedServer(t)
	m := &memTransport{}
	c := newConn(s, m, m)
	defer c.handleClosed()
	var want []byte
	s.withCore(nil, func(time.Time) {
		for i := range byte(4) {
			f := &probe.Finished{Status: probe.Succeeded, Result: bytes.Repeat([]byte{i}, maxReusedOutbox)}
			s.queueMsg(c, f)
			want = append(want, pushFrame(0, f)...)
		}
	})
	if !bytes.Equal(m.Bytes(), want) {
		t.Errorf("%d bytes were written, %d of them as they should be", m.Len(), len(want))
	}
	if s.withCore(nil, func(time.Time) { s.queueMsg(c, probe.Drain{}) }); m.Len() == len(want) {
		t.Error("nothing is written after that")
	}
}

func TestPanicInTheCore(t *testing.T) {
	s := unstartedServer(t)
	func() {
		defer s.recoverPanic("testing", nil)
		s.withCore(nil, func(now time.Time) { s.stepCore(now, nil) })
	}()
	<-s.Done()
	if s.Err() == nil {
		t.Error("no error")
	}
}

// FuzzOnTraffic feeds a connection arbitrary bytes, whole and in pieces. The messages must be the same, and
// nothing may panic.
func FuzzOnTraffic(f *testing.F) {
	talk := bytes.Join([][]byte{
		greeting,
		pushFrame(4, probe.Ping{Seq: 3}),
		pushFrame(5, probe.Hello{Speaks: probe.Spoken, Frontend: 7, Epoch: 5, Lease: time.Minute}),
		pushFrame(5, reserve(1, launch(7, 1, "echo", "abc"), launch(7, 2, "fail", "x")), reserveOne(3), reserveOne(4)),
		pushFrame(5, probe.Bind{Res: 3, Keep: true, Launch: launch(7, 3, "echo", "z")}, probe.Decline{Res: 4}),
		pushFrame(5, probe.Ack{Attempts: []probe.AttemptID{{Frontend: 7, Seq: 1}}}, probe.Cancel{First: 9, Count: 2}),
		pushFrame(5, probe.Sync{Next: 9, Live: []probe.Range{{First: 1, Count: 5}}}, probe.Claim{Job: probe.JobID{1}}),
		pushFrame(5, probe.Kill{Attempt: probe.AttemptID{Frontend: 7, Seq: 9}}, probe.Probe{Seq: 1}, probe.Ping{}),
	}, nil)
	f.Add(talk, []byte{1})
	f.Add(talk, []byte{3, 9, 30})
	f.Add(talk[:len(talk)-5], []byte{11})
	f.Add([]byte("GET / HTTP/1.1\r\n"), []byte{4})
	f.Add(append(bytes.Clone(greeting), 0, 0, 0, 0, 255, 255, 255, 255), []byte{2})
	f.Add(append(bytes.Clone(greeting),
		pushFrame(1, reserve(1, launch(7, 1, "echo", string(make([]byte, 20<<10)))))...),
		[]byte{200})
	f.Fuzz(func(t *testing.T, data, cuts []byte) {
		s := unstartedServer(t)
		whole := newConn(s, &memTransport{}, nil)
		wholeFault := whole.parseFrames(data)

		pieces := newConn(s, &memTransport{}, nil)
		var piecesFault *fault
		eachPiece(data, cuts, func(b []byte) bool {
			b = bytes.Clone(b)
			piecesFault = pieces.parseFrames(b)
			for i := range b {
				b[i] = 0xff // the loop uses its buffer again
			}
			return piecesFault == nil
		})
		whole.timer.Stop()
		pieces.timer.Stop()
		if !reflect.DeepEqual(whole.batch, pieces.batch) {
			t.Fatalf("whole  %+v\npieces %+v", whole.batch, pieces.batch)
		}
		if (wholeFault == nil) != (piecesFault == nil) || wholeFault != nil &&
			wholeFault.reason != piecesFault.reason {
			t.Fatalf("whole %v, pieces %v", wholeFault, piecesFault)
		}

		m := &memTransport{}
		live := newConn(s, m, m)
		eachPiece(data, cuts, func(b []byte) bool { live.receiveData(b); return !m.closed })
		live.handleClosed()
		if s.Err() != nil {
			t.Fatal(s.Err())
		}
	})
}

// eachPiece calls f with pieces of data, until f returns false. The lengths of the pieces come from cuts in turn.
func eachPiece(data, cuts []byte, f func([]byte) bool) {
	for i := 0; len(data) > 0; i++ {
		n := len(data)
		if len(cuts) > 0 {
			n = min(n, 1+int(cuts[i%len(cuts)]))
		}
		if !f(data[:n]) {
			return
		}
		data = data[n:]
	}
}
