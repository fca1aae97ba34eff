package serve

import (
	"io"
	"net"
	"runtime"
	"sync"
	"time"

	"github.com/phoebe-sched/phoebe/frontend"
)

// defaultMessageCPU stands for messageCPU where there is no loopback to measure it on.
const defaultMessageCPU = 10 * time.Microsecond

// messageCPU is about the CPU that a message takes, measured once: what it takes to write a small one and to read it, of which one
// end has half, and our own work on it about as much. The least of several is that of one which nothing else held up.
var messageCPU = sync.OnceValue(func() time.Duration {
	l, err := net.Listen("tcp", "localhost:0")
	if err != nil {
		return defaultMessageCPU
	}
	defer l.Close()
	to, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		return defaultMessageCPU
	}
	defer to.Close()
	from, err := l.Accept()
	if err != nil {
		return defaultMessageCPU
	}
	defer from.Close()
	from.SetDeadline(time.Now().Add(time.Second)) // it may be somebody else's
	var message [100]byte
	least := time.Second
	for range 50 {
		began := time.Now()
		if _, err := to.Write(message[:]); err != nil {
			return defaultMessageCPU
		}
		if _, err := io.ReadFull(from, message[:]); err != nil {
			return defaultMessageCPU
		}
		least = min(least, time.Since(began))
	}
	return least
})

// cpuMeter measures how busy this machine is.
type cpuMeter struct {
	measuredAt time.Time
	used, idle time.Duration // of all CPUs, ever; idle is 0 where it is not known
}

// measureBusy is what messages cost at present, by what was measured since the last call.
func (m *cpuMeter) measureBusy() frontend.Busy {
	now := cpuMeter{measuredAt: time.Now()}
	now.used, now.idle = cpuTimes()
	used, all := now.used-m.used, time.Duration(runtime.NumCPU())*now.measuredAt.Sub(m.measuredAt)
	if now.idle > 0 {
		all = used + now.idle - m.idle
	}
	*m = now
	return frontend.Busy{Message: messageCPU(), Share: float64(used) / float64(max(all, 1))}
}
