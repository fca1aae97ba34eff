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

// Alarm calls functions at given moments, usually less than a microsecond late. One heap of deadlines,
// one timerfd that is read through Go's netpoller, one goroutine. Safe for concurrent use.
//
// How late, in us, p50 / p99, with 40 sleeps of 10 ms at any time on a quiet virtual machine of 2 cores: idle, and with
// echoes in the same process taking 0.35 cores:
//
//	time.Sleep                        215 / 335   188 / 1176
//	timerfd on a locked OS thread      36 / 245    32 /  616
//	timerfd, netpoller                 32 / 110    30 /  138
//
// Ten processes, each with 320 sleeps a second, on a busy machine, medians of four: CPU for a sleep, and how late at p50
// without others and beside two that want both cores (at p99 these cost any of them milliseconds):
//
//	woken early by up to 200 us, yielding while it spins       77 us    2.5    2.8
//	the netpoller alone, its ticks not read                    31 us     43     39
//	the same, woken early by up to 50 us, not yielding: this   34 us    2.5     12
//
// Goroutines that occupy every P for milliseconds without blocking (the function spin) delay it as they
// delay any goroutine.
type Alarm struct {
	epoch        time.Time // all deadlines count from here
	nextDeadline atomic.Int64
	done         chan struct{} // closed when the goroutine has ended

	mu       sync.Mutex
	timers   timerHeap
	firing   bool     // the goroutine is in fire and will arm
	nextTick int64    // when the timerfd will tick; never if it will not
	file     *os.File // the timerfd
	fd       int      // of file; -1 once closed
	lead     int64    // how long before a deadline to be woken, ns
	budget   int64    // ns of spinning that may be spent, at most maxBudget
	earnedAt int64    // when budget was last topped up
}

const (
	never = math.MaxInt64 // deadline of an empty heap

	// A woken goroutine is late by what the kernel and Go's scheduler need, 30 to 160 us on a virtual machine. So it has
	// itself woken early, by what half of the wakes need, and spins out the rest. More than maxLead is needed on a busy
	// machine, where to spin costs others what it gains.
	maxLead  = 50_000 // ns
	leadStep = 300    // added to the lead after a wake later than it, and taken off otherwise, ns
	// Spinning may take a fiftieth of one core, as a machine may have many workers; what is above costs precision instead.
	spinShare = 50
	maxBudget = 2_000_000 // ns
)

var shared struct {
	sync.Mutex
	alarm *Alarm
	users int
}

// OpenAlarm returns the alarm of this process, which all users share so that they do not spin against
// each other. Each call needs a Close; the last one stops it.
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

// Close gives up one user's share of the alarm. The last one to do so ends it, and waits for a
// function that is being called; timers that have not fired never will.
func (a *Alarm) Close() error {
	shared.Lock()
	defer shared.Unlock()
	if shared.users--; shared.users > 0 {
		return nil
	}
	return a.stop()
}

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
		lead:     30_000,
	}
	a.nextDeadline.Store(never)
	go a.watchTimerfd()
	return a, nil
}

func (a *Alarm) stop() error {
	a.mu.Lock()
	a.fd = -1
	a.timers = nil
	a.nextDeadline.Store(math.MinInt64) // whoever waits for it in spin goes on
	a.mu.Unlock()
	err := a.file.Close()
	<-a.done
	return err
}

func (a *Alarm) sinceEpoch() int64 { return int64(time.Since(a.epoch)) }

// At calls f once, on the alarm's goroutine, when t comes, or soon if it has passed. t needs its
// monotonic reading (as from time.Now). f must not block: the timers behind it wait.
func (a *Alarm) At(t time.Time, f func()) *Timer { return a.addTimer(t, f, false) }

// About is At for what may be some 40 us late: nothing spins for it.
func (a *Alarm) About(t time.Time, f func()) *Timer { return a.addTimer(t, f, true) }

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

// Timer is one call that an Alarm owes.
type Timer struct {
	alarm    *Alarm
	deadline int64 // since the alarm's epoch, ns
	f        func()
	rough    bool // it is not to be woken early for
	index    int  // in the heap, -1 outside
}

// Stop says whether it prevented the call of f.
func (t *Timer) Stop() bool {
	a := t.alarm
	a.mu.Lock()
	defer a.mu.Unlock()
	if t.index < 0 || a.fd < 0 {
		return false
	}
	heap.Remove(&a.timers, t.index) // if it was the first: one wake for nothing
	return true
}

// armTimerfd sets the timerfd for the first timer, unless it is set for that already.
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
	at = max(at, now+1) // what is due already must not count as a late wake
	a.nextTick = at
	spec := unix.ItimerSpec{Value: unix.NsecToTimespec(at - now)}
	if err := unix.TimerfdSettime(a.fd, 0, &spec, nil); err != nil {
		panic(fmt.Sprintf("exec: timerfd_settime: %v", err)) // cannot happen with these arguments
	}
}

func (a *Alarm) watchTimerfd() {
	defer close(a.done)
	raw, err := a.file.SyscallConn()
	if err != nil {
		return // closed already
	}
	// Fires with each tick, until stop closes the file. The netpoller tells of ticks that nobody has read, too. To read them
	// would be a system call of the kind that wakes Go's monitor thread from its sleep, which then takes more CPU than all
	// of this.
	_ = raw.Read(func(uintptr) bool { a.fireDue(); return false })
}

// fireDue calls what is due, and waits for what is due within the lead.
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

// spinToNext waits for the next deadline, which At may bring forward, and returns how long it took. It does not yield: each
// time, Go would wake another thread to look for work.
func (a *Alarm) spinToNext() (spent int64) {
	start := a.sinceEpoch()
	now := start
	for now < a.nextDeadline.Load() {
		now = a.sinceEpoch()
	}
	return now - start
}

// timerHeap is a heap by deadline.
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
