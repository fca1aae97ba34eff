package bench

import (
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// readCPUTimes relies on the idle time of the CPUs, because the kernel measures idle time exactly. The kernel
// counts use by ticks, and ticks miss much of the work that timers start.
func readCPUTimes(pids []int) cpuTimes {
	t := cpuTimes{at: time.Now()}
	for _, pid := range pids {
		t.own += processTime(pid)
	}
	stat, _ := os.ReadFile("/proc/stat")
	line, _, _ := strings.Cut(string(stat), "\n")
	if fields := strings.Fields(line); len(fields) > 8 {
		const tick = time.Second / 100 // USER_HZ
		column := func(i int) time.Duration {
			n, _ := strconv.ParseInt(fields[i], 10, 64)
			return time.Duration(n) * tick
		}
		t.idle, t.stolen = column(4)+column(5), column(8) // of the columns idle and iowait; steal
	}
	pressure, _ := os.ReadFile("/proc/pressure/cpu")
	some, _, _ := strings.Cut(string(pressure), "\n")
	if _, total, ok := strings.Cut(some, "total="); ok {
		us, _ := strconv.ParseInt(total, 10, 64)
		t.waited = time.Duration(us) * time.Microsecond
	}
	return t
}

// processTime returns the user and system time used by a process, 0 without such a process.
func processTime(pid int) time.Duration {
	const sched = 2 // CPUCLOCK_SCHED: the clock of clock_getcpuclockid(3)
	var ts unix.Timespec
	if unix.ClockGettime(int32(^pid<<3|sched), &ts) != nil {
		return 0
	}
	return time.Duration(ts.Nano())
}
