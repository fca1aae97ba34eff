package serve

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/phoebe-sched/phoebe/idl/gen/phoebe/v1"
	"github.com/phoebe-sched/phoebe/probe"
)

// Reads from the cache of a worker that hangs take a quarter of all reads at most. Further reads from the cache are
// refused at once, and are to be tried again.
func TestHungCache(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	c := startOn(t, newSwitchboard(t), func(cfg *Config) { cfg.Lease = time.Minute })
	c.dial = func(context.Context, string) (net.Conn, error) { return net.Dial("tcp", ln.Addr().String()) }
	c.setWorkers([]string{"w"})
	w := acceptWorker(t, ln)
	welcome := w.newWelcome(probe.Spoken)
	welcome.Cache = startHung(t)
	w.writeMsg(welcome)
	c.awaitWorkers(t, 1)
	ended := make(chan error, maxReads)
	for range maxReads {
		go func() {
			_, err := c.client.ReadFile(context.Background(),
				&v1.ReadFileRequest{Sha256: strings.Repeat("ab", 32), Worker: "w"})
			ended <- err
		}()
	}
	for range maxReads - maxCacheReads {
		err := <-ended
		refused, ok := errors.AsType[*v1.Refused](err)
		if !ok || refused.Reason != v1.RefusedReason_OVERLOADED ||
			!strings.Contains(refused.Message, "being read from") {
			t.Fatal(err)
		}
	}
	pollUntil(t, "the refused reads to end", func() bool { return len(c.readSlots) == maxCacheReads })
}
