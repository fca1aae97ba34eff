// Package ports finds ports of loopback for programs that start later. A balancer is such a program, and a frontend
// that must keep its address over a restart.
package ports

import (
	"fmt"
	"math/rand/v2"
	"net"
	"sync/atomic"
)

// Ports from first to end-1 are below the ranges of Linux, macOS and Windows. From its range a system takes a port for a
// listener on port 0, and for each outgoing connection.
const (
	first = 10_000
	end   = 32_768
)

// next counts the ports tried. Processes start at random, so two of them rarely try the same ports at a time.
var next atomic.Uint32

func init() { next.Store(rand.Uint32N(end - first)) }

// Listen listens on a port of loopback outside the ranges of the system. After the listener closes, the port stays free
// for the program meant to use it, as the system gives the port to nobody else. Listen may be called concurrently.
func Listen() (net.Listener, error) {
	for range end - first {
		port := first + (next.Add(1)-1)%(end-first)
		if l, err := net.Listen("tcp", fmt.Sprint("127.0.0.1:", port)); err == nil {
			return l, nil
		}
	}
	return nil, fmt.Errorf("no port of 127.0.0.1 from %d to %d is free: end a program that listens there", first, end-1)
}
