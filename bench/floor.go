package bench

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"sync"
	"time"
)

// floorPayload is about the size of a small request on the wire, in bytes.
const floorPayload = 128

// Floor is the least cost of a relayed request on this machine at this moment. 128 bytes travel over loopback TCP
// from a client to a relay, on to an echo server, and back. Goroutines serve blocking connections. Client, relay
// and server are in one process or in three, like the cluster in comparison. A benchmark alternates a Floor with
// the figure bounded by the Floor, because an idle machine's wake-up times drift. RoundTrip and Close belong to one
// goroutine.
type Floor struct {
	client    net.Conn
	seq       uint64
	out, back [floorPayload]byte
	listeners []net.Listener
	conns     []net.Conn
	running   sync.WaitGroup
}

// StartFloor connects client, relay and server on ports of the system's choice.
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

// DialFloor connects to a relay in another process, run by ServeFloor.
func DialFloor(relay string) (*Floor, error) {
	conn, err := net.Dial("tcp", relay)
	if err != nil {
		return nil, fmt.Errorf("connect to the echo floor: %w", err)
	}
	return &Floor{client: conn, conns: []net.Conn{conn}}, nil
}

// ServeFloor runs the echo server of a floor, or its relay if echo is the server's address. The port is the
// system's choice: ServeFloor passes its address to listening. ServeFloor returns after an error of its listener.
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

// connectPair makes both ends of a loopback TCP connection. Close closes them.
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

// forwardBytes copies until an end closes. io.Copy would splice inside the kernel, and no program that looks at the
// relayed bytes can do so.
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

// RoundTrip sends a payload around and returns its travel time.
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

// Close ends the connections and waits for their goroutines. Close may be called again.
func (f *Floor) Close() {
	for _, ln := range f.listeners {
		ln.Close()
	}
	for _, c := range f.conns {
		c.Close()
	}
	f.running.Wait()
}
