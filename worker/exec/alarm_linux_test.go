package exec

import (
	"runtime"
	"testing"
	"time"
)

// An alarm stopped while it spins for a deadline stops spinning.
func TestAlarmStopsWhileItSpins(t *testing.T) {
	a, err := newAlarm()
	if err != nil {
		t.Fatal(err)
	}
	a.mu.Lock()
	a.lead, a.budget = int64(time.Hour), int64(time.Hour)
	a.mu.Unlock()
	fired := false
	a.At(time.Now().Add(time.Minute), func() { fired = true })
	for spins := false; !spins; runtime.Gosched() {
		a.mu.Lock()
		spins = a.firing
		a.mu.Unlock()
	}
	stopped := make(chan error, 1)
	go func() { stopped <- a.stop() }()
	select {
	case err := <-stopped:
		if err != nil || fired {
			t.Errorf("%v, fired: %t", err, fired)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("stop does not return")
	}
	if a.At(time.Now(), func() {}).Stop() {
		t.Error("a closed alarm took a timer")
	}
}

// The alarm neither wakes early nor spins for a timer of About, even with a large budget.
func TestAlarmIsNotEarlyForRoughTimers(t *testing.T) {
	a, err := newAlarm()
	if err != nil {
		t.Fatal(err)
	}
	defer a.stop()
	a.mu.Lock()
	a.lead, a.budget = int64(time.Hour), int64(time.Hour)
	a.mu.Unlock()
	at := time.Now().Add(10 * time.Minute)
	rough := a.About(at, func() { t.Error("the rough timer fired") })
	a.At(at.Add(time.Microsecond), func() {})
	a.fireDue() // as if woken
	a.mu.Lock()
	armed := a.nextTick
	a.mu.Unlock()
	if armed != rough.deadline {
		t.Errorf("armed %v before", time.Duration(rough.deadline-armed))
	}
	rough.Stop()
	fired := make(chan bool)
	a.About(time.Now().Add(time.Millisecond), func() { close(fired) })
	<-fired
}
