package heartbeat

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/phoebe-sched/phoebe/probe"
	"github.com/phoebe-sched/phoebe/probe/gossip/rows"
	"github.com/phoebe-sched/phoebe/probe/identity"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m, goleak.IgnoreCurrent()) } // fastrpc's clock never ends

func serve(t *testing.T, cfg Config) (*Server, string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := Serve(l, cfg)
	t.Cleanup(func() { s.Close() })
	return s, l.Addr().String()
}

func dial(t *testing.T, addr string) *Conn {
	t.Helper()
	c, err := Dial(context.Background(), addr, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// patience bounds the wait for an expected event.
const patience = 20 * time.Second

func beat(c *Conn, h *rows.Heartbeat) (a rows.Answer, err error) {
	err = c.Beat(time.Now().Add(patience), h, &a)
	return a, err
}

// firstBeat makes a worker's first heartbeat.
func firstBeat(secret string, labels ...string) *rows.Heartbeat {
	return &rows.Heartbeat{Speaks: probe.Spoken, Secret: secret, Row: rows.Row{Incarnation: 7, Seq: 3, ProfileRev: 1,
		Profile: &rows.Profile{Name: "w", Addr: "h:1", Labels: labels}}}
}

func TestBeats(t *testing.T) {
	var names atomic.Int64
	s, addr := serve(t, Config{Secrets: identity.NewSecrets("sesame"), MaxConns: 10,
		Answer: func(h *rows.Heartbeat) rows.Answer {
			names.Add(int64(len(h.Row.Name())))
			return rows.Answer{Seq: h.Row.Seq, Version: 5, Members: []rows.Member{{Name: "f", Heartbeat: "f:1"}}}
		}})
	c := dial(t, addr)
	for range 3 { // on one connection, also with a body longer than any buffer
		for _, labels := range [][]string{nil, {strings.Repeat("x", 4000), strings.Repeat("y", 4000),
			strings.Repeat("z", 4000)}} {
			a, err := beat(c, firstBeat("sesame", labels...))
			if err != nil || a.Seq != 3 || a.Version != 5 || len(a.Members) != 1 || a.Members[0].Heartbeat != "f:1" {
				t.Fatalf("%+v, %v", a, err)
			}
		}
	}
	var no *RefusedError
	if _, err := beat(dial(t, addr), firstBeat("simsim")); !errors.As(err, &no) ||
		!strings.Contains(no.Reason, "secret") {
		t.Errorf("with a wrong secret: %v", err)
	}
	old := firstBeat("sesame")
	old.Speaks = probe.Dialect{Min: 1, Max: probe.MinVersion - 1}
	if _, err := beat(c, old); !errors.As(err, &no) || !strings.Contains(no.Reason, "upgrade the worker") {
		t.Errorf("of an older release: %v", err)
	}
	if got := s.Stats(); got.Versions != 1 || got.Answered != 6 || got.Unauthorized != 1 ||
		got.Errors+got.Limit != 0 || names.Load() != 6 {
		t.Errorf("%+v, %d bytes of names", got, names.Load())
	}
}

// failing is a listener that refuses the first connection.
type failing struct {
	net.Listener
	failed atomic.Bool
}

func (l *failing) Accept() (net.Conn, error) {
	if !l.failed.Swap(true) {
		return nil, &net.OpError{Op: "accept", Net: "tcp", Err: syscall.ENOMEM}
	}
	return l.Listener.Accept()
}

// A machine without memory for a connection may have memory for the next.
func TestAcceptFails(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := Serve(&failing{Listener: l},
		Config{MaxConns: 1, Answer: func(*rows.Heartbeat) rows.Answer { return rows.Answer{} }})
	defer s.Close()
	if _, err := beat(dial(t, l.Addr().String()), firstBeat("")); err != nil {
		t.Error(err)
	}
}

// expectClose waits until the server closes a connection, after the test said something.
func expectClose(t *testing.T, addr string, say []byte) {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Write(say); err != nil {
		t.Fatal(err)
	}
	if err := c.SetReadDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, c); err != nil && errors.As(err, new(net.Error)) && err.(net.Error).Timeout() {
		t.Errorf("a connection that said %.30q is still open", say)
	}
}

func TestGarbage(t *testing.T) {
	s, addr := serve(t, Config{MaxConns: 2, Answer: func(*rows.Heartbeat) rows.Answer { return rows.Answer{} }})
	request := func(size uint32, body string) []byte {
		b := binary.LittleEndian.AppendUint32(append([]byte(nil), greeting...), 1)
		return append(binary.LittleEndian.AppendUint32(b, size), body...)
	}
	bad := [][]byte{
		[]byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n"),
		[]byte(strings.Repeat("\xff", 4096)),
		request(maxRequest+1, ""),
	}
	for i, say := range bad {
		expectClose(t, addr, say)
		waitUntil(t, "it is counted", func() bool { return s.Stats().Errors == uint64(i+1) })
	}
	// It may be from an older release: that is answered.
	for i, body := range []string{"\xff\xff\xff\xff", "abc", ""} {
		c := dial(t, addr)
		if _, err := c.Write(request(uint32(len(body)), body)); err != nil {
			t.Fatal(err)
		}
		want := fmt.Sprintf("this frontend speaks %v", probe.Spoken)
		got := make([]byte, len(greeting)+9+len(want))
		if _, err := io.ReadFull(c, got); err != nil || got[len(greeting)+8] != kindRefused ||
			!strings.HasSuffix(string(got), want) {
			t.Errorf("%q is answered with %q, %v", body, got, err)
		}
		if n := s.Stats().Errors; n != uint64(len(bad)+i+1) {
			t.Errorf("%d errors are counted", n)
		}
		c.Close()
	}
	waitUntil(t, "they are gone", func() bool { return s.door.Strangers() == 0 })
	first, second := dial(t, addr), dial(t, addr)
	for _, c := range []*Conn{first, second} {
		if _, err := beat(c, firstBeat("")); err != nil {
			t.Error(err)
		}
	}
	expectClose(t, addr, nil) // too many connections
	if n := s.Stats().Limit; n != 1 {
		t.Errorf("%d connections were too many", n)
	}
	first.Close()
	waitUntil(t, "there is room again", func() bool {
		_, err := beat(dial(t, addr), firstBeat(""))
		return err == nil
	})
}

// Strangers keep no worker out, however many connect and say nothing.
func TestSilentStrangers(t *testing.T) {
	_, addr := serve(t, Config{Secrets: identity.NewSecrets("sesame"), MaxConns: 5,
		Answer: func(*rows.Heartbeat) rows.Answer { return rows.Answer{} }})
	known := dial(t, addr)
	if _, err := beat(known, firstBeat("sesame")); err != nil {
		t.Fatal(err)
	}
	var strangers []net.Conn
	for range 20 {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		strangers = append(strangers, c)
	}
	for _, c := range []*Conn{dial(t, addr), known} {
		if _, err := beat(c, firstBeat("sesame")); err != nil {
			t.Errorf("beside silent strangers: %v", err)
		}
	}
	strangers[0].SetReadDeadline(time.Now().Add(patience))
	if _, err := strangers[0].Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("the oldest stranger: %v", err)
	}
}

// A connection ends at its third wrong secret.
func TestGuesses(t *testing.T) {
	s, addr := serve(t, Config{Secrets: identity.NewSecrets("sesame"), MaxConns: 5,
		Answer: func(*rows.Heartbeat) rows.Answer { return rows.Answer{} }})
	c := dial(t, addr)
	for {
		var refused *RefusedError
		if _, err := beat(c, firstBeat("simsim")); err == nil {
			t.Fatal("a wrong secret was taken")
		} else if !errors.As(err, &refused) {
			break
		}
		if n := s.Stats().Unauthorized; n > 3 {
			t.Fatalf("%d guesses on a connection", n)
		}
	}
}

func waitUntil(t *testing.T, event string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(patience); !ok(); <-tick.C {
		if time.Now().After(end) {
			t.Fatalf("waited in vain until %s", event)
		}
	}
}

// The worker connects to a different kind of server, or to nobody.
func TestNotAFrontend(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	answers := make(chan string, 3)
	go func() {
		for text := range answers {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = io.ReadFull(c, make([]byte, len(greeting)))
			_, _ = c.Write([]byte(text))
			c.Close()
		}
	}()
	defer close(answers)
	for text, want := range map[string]error{
		"": errNoAnswer, "HTTP/1.1 400 Bad Request\r\n\r\n": errNotHeartbeats, "phoebe/1\x01\x01\x00": errNotHeartbeats,
	} {
		answers <- text
		if _, err := beat(dial(t, l.Addr().String()), firstBeat("")); !errors.Is(err, want) {
			t.Errorf("after %q: %v", text, err)
		}
	}
	if c, err := Dial(context.Background(), "127.0.0.1:1", nil); err == nil {
		c.Close()
		t.Error("connected to nobody")
	}
}
