package client_test

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/phoebe-sched/phoebe/probe"
)

// linkTap relays the connections to a worker, and stamps each message between departure and arrival.
type linkTap struct {
	addr     string // to connect to
	listener net.Listener
	worker   string
	running  sync.WaitGroup

	mu    sync.Mutex
	conns []net.Conn
	err   error
	taken []tapped
}

// tapped is a message with its stamp.
type tapped struct {
	at  time.Time
	msg probe.Msg
}

// tapLink starts a linkTap for the worker at an address.
func tapLink(t *testing.T, worker string) *linkTap {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	tap := &linkTap{addr: l.Addr().String(), listener: l, worker: worker}
	tap.running.Go(tap.acceptConns)
	t.Cleanup(func() {
		l.Close()
		tap.mu.Lock()
		for _, c := range tap.conns {
			c.Close()
		}
		tap.mu.Unlock()
		tap.running.Wait()
		if tap.err != nil {
			t.Error(tap.err)
		}
	})
	return tap
}

func (tap *linkTap) acceptConns() {
	for {
		in, err := tap.listener.Accept()
		if err != nil {
			return
		}
		out, err := net.Dial("tcp", tap.worker)
		if err != nil {
			in.Close()
			continue
		}
		tap.mu.Lock()
		tap.conns = append(tap.conns, in, out)
		tap.mu.Unlock()
		tap.running.Go(func() { tap.relay(in, out) })
		tap.running.Go(func() { tap.relay(out, in) })
	}
}

// relay carries whole frames from one end to the other, and stamps the messages.
func (tap *linkTap) relay(from, to net.Conn) {
	defer from.Close()
	defer to.Close()
	frame := make([]byte, len(probe.SniffHeader)+3) // at first the greeting
	_, err := io.ReadFull(from, frame)
	var decoder probe.Decoder
	for err == nil {
		if _, err = to.Write(frame); err != nil {
			return // the other end has gone
		}
		header := make([]byte, probe.PushHeader)
		if _, err = io.ReadFull(from, header); err != nil {
			break
		}
		body := make([]byte, binary.LittleEndian.Uint32(header[probe.PushHeader-probe.FrameHeader:]))
		if _, err = io.ReadFull(from, body); err != nil {
			break
		}
		frame = append(header, body...)
		var msgs []probe.Msg
		if _, msgs, err = decoder.Decode(body, nil); err == nil {
			tap.note(msgs, time.Now())
		}
	}
	// An end that closes a connection with unread bytes resets the connection.
	if !errors.Is(err, io.EOF) && !errors.Is(err, net.ErrClosed) && !errors.Is(err, io.ErrUnexpectedEOF) &&
		!errors.Is(err, syscall.ECONNRESET) {
		tap.mu.Lock()
		defer tap.mu.Unlock()
		tap.err = err
	}
}

func (tap *linkTap) note(msgs []probe.Msg, at time.Time) {
	tap.mu.Lock()
	defer tap.mu.Unlock()
	for _, m := range msgs {
		tap.taken = append(tap.taken, tapped{at, m})
	}
}

// listTaken returns all messages so far.
func (tap *linkTap) listTaken() []tapped {
	tap.mu.Lock()
	defer tap.mu.Unlock()
	return slices.Clone(tap.taken)
}
