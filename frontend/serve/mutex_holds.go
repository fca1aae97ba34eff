//go:build holds

package serve

import (
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// mutex records the length of each hold since holdTimes was emptied. Lengths are CPU time of the thread, because
// further processes may use the machine, too.
type mutex struct {
	sync.Mutex
	lockedAt  time.Duration
	holdTimes []time.Duration
}

func (m *mutex) Lock() {
	m.Mutex.Lock()
	m.lockedAt = threadTime()
}

func (m *mutex) Unlock() {
	m.holdTimes = append(m.holdTimes, threadTime()-m.lockedAt)
	m.Mutex.Unlock()
}

func threadTime() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t); err != nil {
		panic(err) // every Linux has this clock
	}
	return time.Duration(t.Nano())
}
