package local

import (
	"fmt"
	"os"
	"syscall"
	"testing"
	"time"

	wserve "github.com/phoebe-sched/phoebe/worker/serve"
)

// cpuUsed returns the CPU time of the process so far.
func cpuUsed() time.Duration {
	var u syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// TestLinks measures the memory and CPU of links, and the time until all links are up. PHOEBE_LINKS holds the number of
// frontends, the number of workers, and plain or tls, for example "20 100 tls". Use a new process for each measurement,
// because a second measurement would reuse memory of the first.
func TestLinks(t *testing.T) {
	var frontends, workers int
	var by, dir string
	if _, err := fmt.Sscan(os.Getenv("PHOEBE_LINKS"), &frontends, &workers, &by); err != nil {
		t.Skip(`set PHOEBE_LINKS="FRONTENDS WORKERS tls", or plain, to measure links`)
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
		took.Round(time.Millisecond), (cpuUsed() - used).Round(time.Millisecond),
		float64(memoryInUse()-before)/1024/float64(n))
}
