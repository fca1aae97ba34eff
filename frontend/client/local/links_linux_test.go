package local

import (
	"fmt"
	"os"
	"syscall"
	"testing"
	"time"

	wserve "github.com/phoebe-sched/phoebe/worker/serve"
)

func cpuUsed() time.Duration {
	var u syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// TestLinks measures what links take, and how long it takes until all are up. PHOEBE_LINKS is "frontends workers plain", or tls
// in its place, such as "20 100 tls". A process measures one of them: what one leaves behind, the other would use.
func TestLinks(t *testing.T) {
	var frontends, workers int
	var by, dir string
	if _, err := fmt.Sscan(os.Getenv("PHOEBE_LINKS"), &frontends, &workers, &by); err != nil {
		t.Skip(`wants PHOEBE_LINKS="frontends workers tls", or plain`)
	}
	if by == "tls" {
		dir = makeKeys(t, "frontend+worker")["frontend+worker"]
	}
	wserve.RaiseFileLimit(1 << 16)
	before, used, began := memoryInUse(), cpuUsed(), time.Now()
	c, err := startParts(Config{Frontends: frontends, Workers: workers, TLSDir: dir})
	if err == nil {
		err = c.awaitLinks(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	took, n := time.Since(began), frontends*workers
	t.Logf("%s: %d links up after %v and %v of CPU, %.1f KB each for both ends and their parts", by, n,
		took.Round(time.Millisecond), (cpuUsed() - used).Round(time.Millisecond), float64(memoryInUse()-before)/1024/float64(n))
}
