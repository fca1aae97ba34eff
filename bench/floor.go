package bench

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"sync"
	"time"
)

// floorPayload is about the size of a small request on the wire.
const floorPayload = 128

// Floor is the least a relayed request can cost on this machine at this moment: 128 bytes over loopback TCP
// from a client to a relay, on to an echo server, and back the same way, by goroutines on blocking
// connections. The three are in one process, or each in its own, as what they are compared with is. A benchmark alternates it with the figure that it bounds, because an idle machine's wake-up
// times drift. RoundTrip and Close belong to one goroutine.
type Floor struct {
	client    net.Conn
	seq       uint64
	out, back [floorPayload]byte
	listeners []net.Listener
	conns     []net.Conn
	running   sync.WaitGroup
}

// StartFloor connects the three parties on ports of the system's choice.
func StartFloor() (*Floor, error) {
	f := &Floor{}
	if err := f.connectAll(); err != nil {
		f.Close()
		return nil, fmt.Errorf("start the echo floor: %w", err)
	}
	return f, nil
}

func (f *Floor) connectAll() error {
	toEcho, echo, err := f.connectPair()
	if err != nil {
		return err
	}
	toRelay, relay, err := f.connectPair()
	if err != nil {
		return err
	}
	f.client = toRelay
	f.running.Go(func() { forwardBytes(echo, echo) })
	f.running.Go(func() { forwardBytes(relay, toEcho) })
	f.running.Go(func() { forwardBytes(toEcho, relay) })
	return nil
}

// DialFloor has its relay elsewhere: one that ServeFloor runs.
func DialFloor(relay string) (*Floor, error) {
	conn, err := net.Dial("tcp", relay)
	if err != nil {
		return nil, fmt.Errorf("connect to the echo floor: %w", err)
	}
	return &Floor{client: conn, conns: []net.Conn{conn}}, nil
}

// ServeFloor is the echo server of a floor or, told that one's address, its relay, on a port of the system's choice that
// it tells. It returns when it cannot go on.
func ServeFloor(echo string, listening func(addr string)) error {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	defer ln.Close()
	listening(ln.Addr().String())
	for {
		from, err := ln.Accept()
		if err != nil {
			return err
		}
		to := from
		if echo != "" {
			if to, err = net.Dial("tcp", echo); err != nil {
				return err
			}
			go forwardBytes(to, from)
		}
		go forwardBytes(from, to)
	}
}

// connectPair makes the two ends of one loopback TCP connection; Close closes them.
func (f *Floor) connectPair() (dialled, accepted net.Conn, err error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, nil, err
	}
	f.listeners = append(f.listeners, ln)
	if dialled, err = net.Dial("tcp", ln.Addr().String()); err != nil {
		return nil, nil, err
	}
	f.conns = append(f.conns, dialled)
	if accepted, err = ln.Accept(); err != nil {
		return nil, nil, err
	}
	f.conns = append(f.conns, accepted)
	for _, c := range []net.Conn{dialled, accepted} {
		if err := c.(*net.TCPConn).SetNoDelay(true); err != nil {
			return nil, nil, err
		}
	}
	return dialled, accepted, nil
}

// forwardBytes copies until an end closes. It is not io.Copy, which would splice inside the kernel: no program
// that looks at what it relays can do that.
func forwardBytes(from, to net.Conn) {
	var buf [2 * floorPayload]byte
	for {
		n, err := from.Read(buf[:])
		if err != nil {
			return
		}
		if _, err := to.Write(buf[:n]); err != nil {
			return
		}
	}
}

// RoundTrip sends one payload around and returns how long it was under way.
func (f *Floor) RoundTrip() (time.Duration, error) {
	f.seq++
	binary.LittleEndian.PutUint64(f.out[:], f.seq)
	start := time.Now()
	if _, err := f.client.Write(f.out[:]); err != nil {
		return 0, fmt.Errorf("echo floor: send: %w", err)
	}
	if _, err := io.ReadFull(f.client, f.back[:]); err != nil {
		return 0, fmt.Errorf("echo floor: receive: %w", err)
	}
	took := time.Since(start)
	if f.back != f.out {
		return 0, fmt.Errorf("echo floor: request %d came back changed", f.seq)
	}
	return took, nil
}

// Close ends the connections and waits for the goroutines behind them. It may be called again.
func (f *Floor) Close() {
	for _, ln := range f.listeners {
		ln.Close()
	}
	for _, c := range f.conns {
		c.Close()
	}
	f.running.Wait()
}
