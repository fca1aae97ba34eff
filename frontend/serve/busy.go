package serve

import (
	"io"
	"net"
	"runtime"
	"sync"
	"time"

	"github.com/phoebe-sched/phoebe/frontend"
)

// defaultMessageCPU stands for messageCPU on a machine without a loopback.
const defaultMessageCPU = 10 * time.Microsecond

// messageCPU is about the CPU time of a message, measured once: the time to write and read a small message. One end
// of a connection pays half of the time, and phoebe's work on a message takes about as long as that half. The least
// of 50 times counts, because the least was disturbed least.
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
	from.SetDeadline(time.Now().Add(time.Second)) // another process may have connected
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
	used, idle time.Duration // of all CPUs, since the machine's start; idle is 0 if not known
}

// measureBusy returns the present cost of messages, from the CPU times since the last call.
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
