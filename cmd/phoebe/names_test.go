package main_test

import (
	"fmt"
	"net"
	"testing"
)

// Frontends, workers and clients find each other by looking up names.
func TestNames(t *testing.T) {
	t.Parallel()
	byName := func(addr string) string {
		_, port, err := net.SplitHostPort(addr)
		if err != nil {
			t.Fatal(err)
		}
		return "dns:localhost:" + port
	}
	gossips := func(args ...string) *process {
		return startPhoebe(t, append([]string{"frontend", "--listen", "127.0.0.1:0", "--gossip", "127.0.0.1:0",
			"--heartbeat", "127.0.0.1:0"}, args...)...)
	}
	a := gossips()
	b := gossips("--join", byName(a.awaitLines("gossip", 1)[0]))
	startPhoebe(t, "worker", "--listen", "127.0.0.1:0", "--join", byName(b.awaitLines("heartbeat", 1)[0]))
	api := a.awaitLines("frontend", 1)[0]
	awaitLinked(t, api, 1)
	listed := startPhoebe(t, "worker", "--listen", "127.0.0.1:0").awaitLines("worker", 1)[0]
	c := startPhoebe(t, "frontend", "--listen", "127.0.0.1:0", "--workers", byName(listed)).awaitLines("frontend", 1)[0]
	// localhost may have a second address where nobody listens
	waitUntil(t, func() error {
		if s := runPhoebe(t, "run", "--connect", byName(c), "--function", "echo", "--payload", "hello"); s.code != 0 {
			return fmt.Errorf("%s", s.err)
		}
		return nil
	})
	runPhoebe(t, "run", "--connect", byName(api), "--function", "echo", "--payload", "hello").wantExit(t, 0, "hello")
	runPhoebe(t, "frontend", "--workers", "srv:nonsense").wantExit(t, 2, "--workers", "srv:_phoebe._tcp.example.org")
	runPhoebe(t, "frontend", "--gossip", "127.0.0.1:0", "--join", "nonsense").wantExit(t, 2, "join", "dns:host:port")
}
