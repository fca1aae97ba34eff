package client

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cloudwego/gopkg/protocol/thrift"

	"github.com/phoebe-sched/phoebe/frontend/frame"
	v1 "github.com/phoebe-sched/phoebe/idl/gen/phoebe/v1"
)

// newServedPool returns a pool for a listener. The function serve serves the connections, one by one.
func newServedPool(t *testing.T, serve func(net.Conn)) *pool {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			serve(c)
			c.Close()
		}
	}()
	p := newPool(l.Addr().String(), time.Second, nil)
	t.Cleanup(func() { p.abort(ErrClosed); l.Close(); <-ended })
	return p
}

// readCall reads a call of Run in pieces, and returns the call's bytes, or nil at the end of the connection.
func readCall(c net.Conn, piece int) []byte {
	var b []byte
	for size := 4; len(b) < size; {
		p := make([]byte, min(piece, size-len(b)))
		if _, err := io.ReadFull(c, p); err != nil {
			return nil
		}
		if b = append(b, p...); len(b) >= 4 {
			size = 4 + int(binary.BigEndian.Uint32(b))
		}
	}
	return b
}

// A connection serves several calls in turn, refused calls included. A call may be larger than a socket takes at once,
// and an answer may come in pieces.
func TestCallsOfRun(t *testing.T) {
	job := v1.NewJob()
	job.Tasks = []*v1.Task{{FunctionName: "echo", Payload: make([]byte, 16<<20)}}
	small := v1.NewJob()
	p := newServedPool(t, func(c net.Conn) {
		for seq := int32(1); ; seq++ {
			b := readCall(c, 100_000)
			want := small
			if seq%2 == 1 {
				want = job
			}
			if b == nil || !bytes.Equal(b, frame.AppendCall(nil, "Run", seq, &v1.RunRequest{Job: want})) {
				return
			}
			h := frame.Head{Method: []byte("Run"), Seq: seq}
			answer := h.Refusal(&v1.Refused{Message: "no"})
			if seq%2 == 1 {
				a := frame.NewRunAnswer(&v1.Handle{Job: "job"}, 1)
				a.Add(&v1.Outcome{Worker: "w"})
				a.End()
				answer = a.FrameFor(seq)
			}
			for len(answer) > 0 {
				n := min(len(answer), 7)
				c.Write(answer[:n])
				answer = answer[n:]
			}
		}
	})
	for range 3 {
		cl := &call{ctx: context.Background(), pool: p}
		if res, err := (rpcs{}).Run(cl, &v1.RunRequest{Job: job}); err != nil || res.Handle.Job != "job" ||
			res.Outcomes[0].Worker != "w" {
			t.Fatalf("%v, %v", res, err)
		}
		cl = &call{ctx: context.Background(), pool: p}
		var refused *v1.Refused
		_, err := (rpcs{}).Run(cl, &v1.RunRequest{Job: small})
		if !errors.As(err, &refused) || refused.Message != "no" {
			t.Fatal(err)
		}
		if !cl.sent || cl.conn != nil {
			t.Errorf("the call was sent: %v, and has its connection still: %v", cl.sent, cl.conn != nil)
		}
	}
	if len(p.conns) != 1 || cap(p.idle[0].outBuf) > maxOutBuf {
		t.Errorf("%d connections, which keep %d bytes", len(p.conns), cap(p.idle[0].outBuf))
	}
}

// If a connection delivers no answer, half an answer or the answer to another call, the pool drops the connection.
func TestCallsOfRunWithoutAnswer(t *testing.T) {
	other := frame.NewRunAnswer(&v1.Handle{Job: "another"}, 0)
	other.End()
	for name, said := range map[string][]byte{
		"nothing": nil, "half": other.FrameFor(1)[:20], "another": other.FrameFor(77),
	} {
		p := newServedPool(t, func(c net.Conn) {
			readCall(c, 100)
			c.Write(said)
		})
		cl := &call{ctx: context.Background(), pool: p}
		if res, err := (rpcs{}).Run(cl, &v1.RunRequest{Job: v1.NewJob()}); err == nil {
			t.Errorf("%s: %v", name, res)
		}
		if len(p.conns) != 0 || !cl.sent {
			t.Errorf("%s: %d connections stay, the call was sent: %v", name, len(p.conns), cl.sent)
		}
	}
}

// After an exception the server may close the connection, so the next call uses a new connection.
func TestCallAfterException(t *testing.T) {
	conns := 0
	p := newServedPool(t, func(c net.Conn) {
		readCall(c, 100)
		conns++
		answer := (&frame.Head{Method: []byte("Run"), Seq: 1}).Refusal(&v1.Refused{})
		if conns == 1 {
			answer = thrift.Binary.AppendMessageBegin(make([]byte, 4), "Run", thrift.EXCEPTION, 1)
			answer = append(answer, byte(thrift.STOP))
			binary.BigEndian.PutUint32(answer, uint32(len(answer)-4))
		}
		c.Write(answer)
	})
	callRun := func() error {
		_, err := (rpcs{}).Run(&call{ctx: context.Background(), pool: p}, &v1.RunRequest{Job: v1.NewJob()})
		return err
	}
	var thrown *thrift.ApplicationException
	if err := callRun(); !errors.As(err, &thrown) {
		t.Fatal(err)
	}
	if len(p.conns) > 0 {
		t.Error("the pool keeps the connection")
	}
	var refused *v1.Refused
	if err := callRun(); !errors.As(err, &refused) {
		t.Errorf("the next call: %v", err)
	}
}

// A token leaves this machine only over TLS.
func TestTokenInPlain(t *testing.T) {
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	at := slices.IndexFunc(addrs, func(a net.Addr) bool {
		n, ok := a.(*net.IPNet)
		return ok && n.IP.To4() != nil && !n.IP.IsLoopback()
	})
	if at < 0 {
		t.Skip("this machine has no address but those of loopback")
	}
	l, err := net.Listen("tcp", net.JoinHostPort(addrs[at].(*net.IPNet).IP.String(), "0"))
	if err != nil {
		t.Skip(err)
	}
	defer l.Close()
	received := make(chan int, 1)
	go func() {
		c, err := l.Accept()
		if err != nil {
			return
		}
		n, _ := c.Read(make([]byte, 1000))
		received <- n
	}()
	c, err := New([]string{l.Addr().String()}, WithToken("a token"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Workers(t.Context()); err == nil ||
		!strings.Contains(err.Error(), "would leave this machine unencrypted: use TLS") {
		t.Error(err)
	}
	if n := <-received; n > 0 {
		t.Errorf("the client sent %d bytes", n)
	}
}
