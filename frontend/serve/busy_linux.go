package serve

import (
	"os"
	"strconv"
	"strings"
	"time"
)

// cpuTimes returns the used and idle time of the machine's CPUs. Stolen time counts as used.
func cpuTimes() (used, idle time.Duration) {
	stat, _ := os.ReadFile("/proc/stat")
	line, _, _ := strings.Cut(string(stat), "\n")
	for i, field := range strings.Fields(line) {
		n, _ := strconv.ParseInt(field, 10, 64)
		const tick = time.Second / 100 // USER_HZ
		switch {
		case i == 4 || i == 5: // idle and iowait
			idle += time.Duration(n) * tick
		case i > 0 && i <= 8: // the last field is steal; user time includes the guests' time
			used += time.Duration(n) * tick
		}
	}
	return used, idle
}
