// Package porttest gives tests the addresses of package ports.
package porttest

import (
	"testing"

	"github.com/phoebe-sched/phoebe/probe/ports"
)

// FreeAddress returns an address of loopback for a server that starts later, or once more. It may be called
// concurrently.
func FreeAddress(t testing.TB) string {
	t.Helper()
	l, err := ports.Listen()
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}
