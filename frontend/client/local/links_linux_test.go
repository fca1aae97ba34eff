package local

import (
	"fmt"
	"os"
	"syscall"
	"testing"
	"time"

	wserve "github.com/phoebe-sched/phoebe/worker/serve"
)

func cpu() time.Duration {
	var u syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// TestLinks measures what links take, and how long it takes until all are up. PHOEBE_LINKS is "frontends workers", such as
// "20 100".
func TestLinks(t *testing.T) {
	var frontends, workers int
	if _, err := fmt.Sscan(os.Getenv("PHOEBE_LINKS"), &frontends, &workers); err != nil {
		t.Skip(`wants PHOEBE_LINKS="frontends workers"`)
	}
	wserve.RaiseFileLimit(1 << 16)
	dir := keysOf(t, "frontend+worker")["frontend+worker"]
	for range 3 {
		for _, dir := range []string{"", dir} {
			before, used := memory(), cpu()
			began := time.Now()
			c, err := start(Config{Frontends: frontends, Workers: workers, TLSDir: dir})
			if err == nil {
				err = c.awaitLinks(t.Context())
			}
			if err != nil {
				t.Fatal(err)
			}
			took, n := time.Since(began), frontends*workers
			t.Logf("TLS %v: %d links up after %v and %v of CPU, %.1f KB each for both ends and their parts", dir != "", n,
				took.Round(time.Millisecond), (cpu() - used).Round(time.Millisecond), float64(memory()-before)/1024/float64(n))
			if err := c.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
}
