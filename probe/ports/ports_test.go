package ports

import (
	"net"
	"testing"
)

// Listen skips ports that are taken, begins again after the last port, and leaves the system's ports alone.
func TestListen(t *testing.T) {
	next.Store(end - first - 1)
	seen := map[string]bool{}
	for range 5 {
		l, err := Listen()
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		addr := l.Addr().(*net.TCPAddr)
		if addr.Port < first || addr.Port >= end || !addr.IP.IsLoopback() {
			t.Errorf("listens on %v", addr)
		}
		if seen[addr.String()] {
			t.Errorf("%v comes twice", addr)
		}
		seen[addr.String()] = true
		next.Store(end - first - 1)
	}
}
