package main_test

import (
	"fmt"
	"net"
	"testing"
)

// Frontends, workers and clients find each other by looking up names.
func TestNames(t *testing.T) {
	byName := func(addr string) string {
		_, port, err := net.SplitHostPort(addr)
		if err != nil {
			t.Fatal(err)
		}
		return "dns:localhost:" + port
	}
	gossips := func(args ...string) *process {
		return start(t, append([]string{"frontend", "--listen", "127.0.0.1:0", "--gossip", "127.0.0.1:0",
			"--heartbeat", "127.0.0.1:0"}, args...)...)
	}
	a := gossips()
	b := gossips("--join", byName(a.said("gossip", 1)[0]))
	start(t, "worker", "--listen", "127.0.0.1:0", "--join", byName(b.said("heartbeat", 1)[0]))
	api := a.said("frontend", 1)[0]
	linked(t, api, 1)
	listed := start(t, "worker", "--listen", "127.0.0.1:0").said("worker", 1)[0]
	c := start(t, "frontend", "--listen", "127.0.0.1:0", "--workers", byName(listed)).said("frontend", 1)[0]
	// localhost may have a second address where nobody listens
	eventually(t, func() error {
		if s := phoebe(t, "run", "--connect", byName(c), "--function", "echo", "--payload", "hello"); s.code != 0 {
			return fmt.Errorf("%s", s.err)
		}
		return nil
	})
	phoebe(t, "run", "--connect", byName(api), "--function", "echo", "--payload", "hello").want(t, 0, "hello")
	phoebe(t, "frontend", "--workers", "srv:nonsense").want(t, 2, "--workers", "srv:_phoebe._tcp.example.org")
	phoebe(t, "frontend", "--gossip", "127.0.0.1:0", "--join", "nonsense").want(t, 2, "join", "dns:host:port")
}
