package main

import (
	"errors"
	"log/slog"
	"math"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"

	"github.com/KimMachineGun/automemlimit/memlimit"
)

// heapFloor is a size of the heap in bytes below which garbage is not collected. A worker or frontend has few live
// objects and makes many objects of short life. With Go's default, a collection whenever the heap has doubled, a
// process of 10 MiB spent a seventh of its CPU on collections.
const heapFloor = 64 << 20

// collectLess sets the percentage of the garbage collector anew after each collection, so that the next collection
// comes at heapFloor or later. A larger heap keeps Go's default. With GOGC set, collectLess does nothing.
func collectLess() {
	if os.Getenv("GOGC") != "" {
		return
	}
	type sentinel struct{ _ *sentinel } // a struct with a pointer gets a block of its own
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	last := 100
	var again func(*sentinel)
	again = func(s *sentinel) {
		metrics.Read(live)
		percent := max(100, heapFloor/(int(live[0].Value.Uint64())/100+1)-100)
		if percent > last+last/8 || percent < last-last/8 {
			debug.SetGCPercent(percent)
			last = percent
		}
		runtime.SetFinalizer(s, again)
	}
	runtime.SetFinalizer(&sentinel{}, again)
}

// limitMemory tells the garbage collector the memory limit of the process's cgroup, usually a container's. A tenth of
// the limit stays for memory outside of the collector's heap. With GOMEMLIMIT set, GOMEMLIMIT holds.
func limitMemory(log *slog.Logger, cgroup memlimit.Provider) {
	from := "GOMEMLIMIT"
	if _, byUser := os.LookupEnv(from); !byUser {
		from = "cgroup"
		_, err := memlimit.SetGoMemLimitWithOpts(memlimit.WithProvider(cgroup))
		if err != nil && !errors.Is(err, memlimit.ErrNoCgroup) && !errors.Is(err, memlimit.ErrCgroupsNotSupported) {
			log.Warn("the memory limit of the cgroup is unknown: set GOMEMLIMIT to 9/10 of the limit", "err", err)
		}
	}
	if bytes := debug.SetMemoryLimit(-1); bytes < math.MaxInt64 {
		log.Info("the garbage collector keeps the heap below a limit", "bytes", bytes, "from", from)
	}
}
