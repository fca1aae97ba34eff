package serve

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/phoebe-sched/phoebe/probe"
	"github.com/phoebe-sched/phoebe/worker"
)

func TestMain(m *testing.M) {
	// gnet's pool of goroutines starts with the program, and fastrpc's clients never end.
	goleak.VerifyTestMain(bothEngines{m}, goleak.IgnoreCurrent(),
		goleak.IgnoreAnyFunction("github.com/valyala/fastrpc.(*Client).worker"),
		goleak.IgnoreAnyFunction("github.com/valyala/fastrpc.(*Client).init.func1"))
}

// bothEngines runs all tests twice.
type bothEngines struct{ *testing.M }

var withGoroutines bool

func (m bothEngines) Run() int {
	if code := m.M.Run(); code != 0 {
		return code
	}
	fmt.Println("the same with a goroutine for each connection")
	withGoroutines = true
	return m.M.Run()
}

// patience bounds the wait of a test for an expected event.
const patience = 20 * time.Second

func init() { closeWait = time.Minute } // a busy machine needs more time

// newServer starts a worker with this number of slots, with a configuration changed by change.
func newServer(tb testing.TB, slots int, change func(*Config)) *Server {
	tb.Helper()
	cfg := Config{Listen: "127.0.0.1:0", Core: worker.Config{Capacity: capacity(slots)}, Goroutines: withGoroutines}
	if change != nil {
		change(&cfg)
	}
	s, err := New(cfg)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := s.Close(); err != nil {
			tb.Error(err)
		}
	})
	if err := s.Start(); err != nil {
		tb.Fatal(err)
	}
	return s
}

func capacity(slots int) probe.Demand {
	return probe.Demand{CPU: probe.Slot.CPU * probe.Millicores(slots), Mem: probe.Slot.Mem * probe.MiB(slots)}
}

// peer is the frontend's end of a connection, driven by the test.
type peer struct {
	tb      testing.TB
	conn    net.Conn
	in      *bufio.Reader
	epoch   probe.Epoch
	decoder probe.Decoder
	msgs    []probe.Msg
}

// connect opens a connection without a greeting.
func connect(tb testing.TB, s *Server) *peer {
	tb.Helper()
	return connectTo(tb, s.Addr().String())
}

func connectTo(tb testing.TB, addr string) *peer {
	tb.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { conn.Close() })
	return &peer{tb: tb, conn: conn, in: bufio.NewReaderSize(conn, 1<<16), epoch: 1}
}

// dial opens a connection and exchanges greetings.
func dial(tb testing.TB, s *Server) *peer {
	tb.Helper()
	return greet(connect(tb, s))
}

// greet exchanges greetings.
func greet(p *peer) *peer {
	p.tb.Helper()
	p.write(greeting)
	p.expectGreeting()
	return p
}

// join opens a link of frontend id, and returns its Welcome.
func join(tb testing.TB, s *Server, id probe.FrontendID) (*peer, probe.Welcome) {
	tb.Helper()
	p := dial(tb, s)
	p.send(hello(id))
	return p, expect[probe.Welcome](p)
}

func hello(id probe.FrontendID) probe.Hello {
	return probe.Hello{Speaks: probe.Spoken, Frontend: id, Name: fmt.Sprint("f", uint64(id)), Epoch: 1,
		Lease: time.Minute}
}

func (p *peer) expectGreeting() {
	p.tb.Helper()
	p.conn.SetReadDeadline(time.Now().Add(patience))
	got := make([]byte, len(greeting))
	if _, err := io.ReadFull(p.in, got); err != nil || !bytes.Equal(got, greeting) {
		p.tb.Fatalf("the greeting is answered with %q, %v", got, err)
	}
}

func (p *peer) write(b []byte) {
	p.tb.Helper()
	if _, err := p.conn.Write(b); err != nil {
		p.tb.Fatal(err)
	}
}

func (p *peer) send(msgs ...probe.Msg) {
	p.tb.Helper()
	p.write(pushFrame(p.epoch, msgs...))
}

func pushFrame(e probe.Epoch, msgs ...probe.Msg) []byte {
	b, body := probe.BeginPush(nil, e)
	for _, m := range msgs {
		b = probe.AppendMsg(b, m)
	}
	return probe.EndFrame(b, body)
}

// read waits for a frame.
func (p *peer) read() error {
	p.conn.SetReadDeadline(time.Now().Add(patience))
	var header [probe.PushHeader]byte
	if _, err := io.ReadFull(p.in, header[:]); err != nil {
		return err
	}
	if id := binary.LittleEndian.Uint32(header[:]); id != 0 {
		return fmt.Errorf("a frame with request id %d", id)
	}
	n, err := probe.BodySize(header[4:], probe.MaxFrame)
	if err != nil {
		return err
	}
	body := make([]byte, n)
	if _, err := io.ReadFull(p.in, body); err != nil {
		return err
	}
	epoch, msgs, err := p.decoder.Decode(body, p.msgs)
	if err != nil {
		return err
	}
	if epoch != p.epoch {
		return fmt.Errorf("a frame of epoch %d in epoch %d", epoch, p.epoch)
	}
	p.msgs = msgs
	return nil
}

func (p *peer) next() probe.Msg {
	p.tb.Helper()
	for len(p.msgs) == 0 {
		if err := p.read(); err != nil {
			p.tb.Fatalf("wait for a message: %v", err)
		}
	}
	m := p.msgs[0]
	p.msgs = p.msgs[1:]
	return m
}

// expect returns the next message, which must be a T.
func expect[T probe.Msg](p *peer) T {
	p.tb.Helper()
	m := p.next()
	t, ok := m.(T)
	if !ok {
		p.tb.Fatalf("got %T%+v, want a %T", m, m, t)
	}
	return t
}

// waitClosed waits for the worker to close the connection, and returns the reason of a Rejected.
func (p *peer) waitClosed() (reason string) {
	p.tb.Helper()
	for {
		err := p.read()
		if ne, ok := err.(net.Error); ok && ne.Timeout() {
			p.tb.Fatal("the connection is still open")
		}
		for _, m := range p.msgs {
			if r, ok := m.(probe.Rejected); ok {
				reason = r.Reason
			}
		}
		p.msgs = nil
		if err != nil {
			return reason
		}
	}
}

// waitGone waits until the worker has closed the connection, whatever comes before.
func (p *peer) waitGone() {
	p.tb.Helper()
	p.conn.SetReadDeadline(time.Now().Add(patience))
	if _, err := io.Copy(io.Discard, p.conn); errors.Is(err, os.ErrDeadlineExceeded) {
		p.tb.Fatal("the connection is still open")
	}
}

// reserve asks for a place for each launch, with ids from first on.
func reserve(first probe.ResID, launches ...probe.Launch) probe.Reserve {
	return probe.Reserve{First: first, Count: uint32(len(launches)), Job: probe.JobID{1}, Demand: probe.Slot,
		Launches: launches}
}

// reserveOne asks for a place without a task.
func reserveOne(id probe.ResID) probe.Reserve {
	return probe.Reserve{First: id, Count: 1, Job: probe.JobID{1}, Demand: probe.Slot}
}

func launch(owner probe.FrontendID, seq uint64, function, payload string) probe.Launch {
	l := probe.Launch{Attempt: probe.AttemptID{Frontend: owner, Seq: seq}, Function: function}
	if payload != "" {
		l.Payload = []byte(payload)
	}
	return l
}

// waitUntil polls for a condition without a signal.
func waitUntil(tb testing.TB, label string, ok func() bool) {
	tb.Helper()
	for deadline := time.Now().Add(patience); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			tb.Fatalf("waited in vain for: %s", label)
		}
	}
}

// metricValue returns the value of a metric, by its full name.
func metricValue(s *Server, name string) string {
	var b strings.Builder
	s.cfg.Metrics.WritePrometheus(&b)
	for line := range strings.Lines(b.String()) {
		if value, ok := strings.CutPrefix(strings.TrimSpace(line), name+" "); ok {
			return value
		}
	}
	return "none"
}

func wantMetric(tb testing.TB, s *Server, name, want string) {
	tb.Helper()
	waitUntil(tb, name+" "+want, func() bool { return metricValue(s, name) == want })
}

func faultMetric(reason string) string {
	return `phoebe_worker_protocol_errors_total{reason="` + reason + `"}`
}
