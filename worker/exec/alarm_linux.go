package exec

import (
	"container/heap"
	"fmt"
	"math"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// Alarm calls functions at given moments, usually less than a microsecond late. It has a heap of deadlines, a
// timerfd read through Go's netpoller, and one goroutine. Safe for concurrent use.
//
// The first table is for 40 sleeps of 10 ms, started at any time on a quiet virtual machine of 2 cores. Its numbers
// are delays in us, at p50 / p99: idle, then with echoes in the same process taking 0.35 cores.
//
//	time.Sleep                        215 / 335   188 / 1176
//	timerfd on a locked OS thread      36 / 245    32 /  616
//	timerfd, netpoller                 32 / 110    30 /  138
//
// The second table is for ten processes with 320 sleeps a second each, on a busy machine. Its numbers are medians
// of four runs: CPU per sleep, then the delay in us at p50, alone and beside two processes that want both cores. At
// p99 the two processes delay every variant by milliseconds.
//
//	woken early by up to 200 us, yielding while it spins       77 us    2.5    2.8
//	the netpoller alone, its ticks not read                    31 us     43     39
//	the same, woken early by up to 50 us, not yielding: this   34 us    2.5     12
//
// If goroutines occupy every P for milliseconds without blocking, as the function spin does, the alarm is late,
// like any goroutine.
type Alarm struct {
	epoch        time.Time // zero of all deadlines
	nextDeadline atomic.Int64
	done         chan struct{} // closed at the end of the goroutine

	mu       sync.Mutex
	timers   timerHeap
	firing   bool     // the goroutine is in fireDue and will set the timerfd
	nextTick int64    // when the timerfd will tick; never: not set
	file     *os.File // the timerfd
	fd       int      // descriptor of file; -1 once closed
	lead     int64    // how long before a deadline the alarm wakes, ns
	budget   int64    // time left for spinning, ns, at most maxBudget
	earnedAt int64    // when budget was last topped up
}

const (
	never = math.MaxInt64 // deadline of an empty heap, and tick of a timerfd that is not set

	// The kernel and Go's scheduler need 30 to 160 us on a virtual machine to wake a goroutine. So the alarm is
	// woken early, by the median delay of its wakes, and spins until the deadline. maxLead bounds the early wake.
	// On a busy machine a larger lead would help, but the spinning would cost other processes as much as it gains.
	maxLead  = 50_000 // ns
	leadStep = 300    // step by which the lead grows after a wake later than the lead, and shrinks otherwise, ns
	// Spinning may take only 1/50 of a core, because a machine may have many workers. Beyond the budget the alarm
	// stops spinning and loses precision.
	spinShare = 50
	maxBudget = 2_000_000 // ns
)

var shared struct {
	sync.Mutex
	alarm *Alarm
	users int
}

// OpenAlarm returns the alarm of this process. All users share one alarm, because several alarms would spin against
// each other. Each call needs a Close; the last Close stops the alarm.
func OpenAlarm() (*Alarm, error) {
	shared.Lock()
	defer shared.Unlock()
	if shared.users == 0 {
		a, err := newAlarm()
		if err != nil {
			return nil, err
		}
		shared.alarm = a
	}
	shared.users++
	return shared.alarm, nil
}

// Close gives up a user's share of the alarm. The last Close stops the alarm, and waits for a function in progress.
// Timers that have not fired never will.
func (a *Alarm) Close() error {
	shared.Lock()
	defer shared.Unlock()
	if shared.users--; shared.users > 0 {
		return nil
	}
	return a.stop()
}

// newAlarm opens a timerfd and starts the alarm's goroutine.
func newAlarm() (*Alarm, error) {
	fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_CLOEXEC|unix.TFD_NONBLOCK)
	if err != nil {
		return nil, fmt.Errorf("open a timerfd for precise sleeps: %w", err)
	}
	a := &Alarm{
		epoch:    time.Now(),
		done:     make(chan struct{}),
		nextTick: never,
		file:     os.NewFile(uintptr(fd), "timerfd"),
		fd:       fd,
		lead:     30_000, // until fireDue has seen delays
	}
	a.nextDeadline.Store(never)
	go a.watchTimerfd()
	return a, nil
}

// stop drops all timers, closes the timerfd and waits for the goroutine, and so for a function in progress.
func (a *Alarm) stop() error {
	a.mu.Lock()
	a.fd = -1
	a.timers = nil
	a.nextDeadline.Store(math.MinInt64) // ends spinToNext
	a.mu.Unlock()
	err := a.file.Close()
	<-a.done
	return err
}

func (a *Alarm) sinceEpoch() int64 { return int64(time.Since(a.epoch)) }

// At calls f once, on the alarm's goroutine, at t, or soon if t has passed. The time t needs its monotonic reading
// (as from time.Now). The function f must not block, because later timers wait for f.
func (a *Alarm) At(t time.Time, f func()) *Timer { return a.addTimer(t, f, false) }

// About is At for a call that may be some 40 us late: the alarm does not spin for it.
func (a *Alarm) About(t time.Time, f func()) *Timer { return a.addTimer(t, f, true) }

// addTimer adds a timer. After stop it returns a timer that never fires. If rough, the alarm does not wake early.
func (a *Alarm) addTimer(t time.Time, f func(), rough bool) *Timer {
	tm := &Timer{alarm: a, deadline: int64(t.Sub(a.epoch)), f: f, rough: rough, index: -1}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.fd < 0 {
		return tm
	}
	heap.Push(&a.timers, tm)
	if tm.index == 0 {
		a.nextDeadline.Store(tm.deadline)
		a.armTimerfd()
	}
	return tm
}

// Timer is a pending call of an Alarm.
type Timer struct {
	alarm    *Alarm
	deadline int64 // since the alarm's epoch, ns
	f        func()
	rough    bool // the alarm does not wake early for the timer
	index    int  // in the heap; -1: not in the heap
}

// Stop cancels the call, and reports whether it prevented the call.
func (t *Timer) Stop() bool {
	a := t.alarm
	a.mu.Lock()
	defer a.mu.Unlock()
	if t.index < 0 || a.fd < 0 {
		return false
	}
	heap.Remove(&a.timers, t.index) // if t was the first timer, one wake is useless
	return true
}

// armTimerfd sets the timerfd for the first timer, unless the timerfd is set already.
func (a *Alarm) armTimerfd() {
	if a.firing || a.fd < 0 || len(a.timers) == 0 {
		return
	}
	at := a.timers[0].deadline
	if a.budget > 0 && !a.timers[0].rough {
		at -= a.lead
	}
	if at >= a.nextTick {
		return
	}
	now := a.sinceEpoch()
	at = max(at, now+1) // a deadline in the past must not count as a late wake
	a.nextTick = at
	spec := unix.ItimerSpec{Value: unix.NsecToTimespec(at - now)}
	if err := unix.TimerfdSettime(a.fd, 0, &spec, nil); err != nil {
		panic(fmt.Sprintf("exec: timerfd_settime: %v", err)) // cannot happen with these arguments
	}
}

// watchTimerfd is the alarm's goroutine: it calls fireDue at each tick, until the timerfd is closed.
func (a *Alarm) watchTimerfd() {
	defer close(a.done)
	raw, err := a.file.SyscallConn()
	if err != nil {
		return // closed already
	}
	// Read calls fireDue at each tick, until stop closes the file. The netpoller reports each new tick, whether or not
	// the ticks before were read. Reading a tick is a system call that wakes Go's monitor thread, which then takes more
	// CPU than the whole alarm. So the alarm never reads its ticks.
	_ = raw.Read(func(uintptr) bool { a.fireDue(); return false })
}

// fireDue calls the functions of all due timers, and spins for deadlines within the lead. It also adapts the lead.
func (a *Alarm) fireDue() {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := a.sinceEpoch()
	if late := now - a.nextTick; late > a.lead {
		a.lead = min(a.lead+leadStep, maxLead)
	} else if late >= 0 {
		a.lead = max(a.lead-leadStep, 0)
	}
	a.budget = min(a.budget+(now-a.earnedAt)/spinShare, maxBudget)
	a.earnedAt = now
	a.firing = true
	for len(a.timers) > 0 {
		t := a.timers[0]
		now = a.sinceEpoch()
		if t.deadline <= now {
			heap.Pop(&a.timers)
			a.mu.Unlock()
			t.f()
			a.mu.Lock()
			continue
		}
		a.nextDeadline.Store(t.deadline)
		if t.rough || t.deadline-now > a.lead || a.budget <= 0 {
			break
		}
		a.mu.Unlock()
		spent := a.spinToNext()
		a.mu.Lock()
		a.budget -= spent
	}
	a.firing = false
	a.nextTick = never
	a.armTimerfd()
}

// spinToNext spins until the next deadline, which At may bring forward, and returns the time spent in ns. It does
// not yield, because at each yield Go would wake another thread to look for work.
func (a *Alarm) spinToNext() (spent int64) {
	start := a.sinceEpoch()
	now := start
	for now < a.nextDeadline.Load() {
		now = a.sinceEpoch()
	}
	return now - start
}

// timerHeap is a heap of timers by deadline.
type timerHeap []*Timer

func (h timerHeap) Len() int           { return len(h) }
func (h timerHeap) Less(i, j int) bool { return h[i].deadline < h[j].deadline }
func (h timerHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i]; h[i].index, h[j].index = i, j }

func (h *timerHeap) Push(x any) {
	t := x.(*Timer)
	t.index = len(*h)
	*h = append(*h, t)
}

func (h *timerHeap) Pop() any {
	old := *h
	n := len(old) - 1
	t := old[n]
	old[n] = nil
	t.index = -1
	*h = old[:n]
	return t
}
