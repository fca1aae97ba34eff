package exec

import (
	"context"
	"fmt"
	"net"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"
)

func BenchmarkStartEcho(b *testing.B) {
	p := newPool(b, NewRegistry())
	task := Attempt{Function: "echo", Payload: []byte("x"), MaxResult: 1 << 20}
	b.ReportAllocs()
	for b.Loop() {
		if _, res, ended := p.Start(task, nil); !ended || res.Status != Succeeded {
			b.Fatal(res)
		}
	}
}

// BenchmarkStartFunc has 16 tasks in flight, like a worker with 16 slots.
func BenchmarkStartFunc(b *testing.B) {
	r := NewRegistry()
	if err := r.Register("echo-go", echoPayload); err != nil {
		b.Fatal(err)
	}
	p := newPool(b, r)
	task := Attempt{Function: "echo-go", Payload: []byte("x"), MaxResult: 1 << 20}
	slots := make(chan struct{}, 16)
	b.ReportAllocs()
	for b.Loop() {
		slots <- struct{}{}
		p.Start(task, func(Result) { <-slots })
	}
}

func BenchmarkStartSleep(b *testing.B) {
	p := newPool(b, NewRegistry())
	task := Attempt{Function: "sleep", Payload: []byte("1h")}
	b.ReportAllocs()
	for b.Loop() {
		p.Start(task, func(Result) {})
	}
}

// BenchmarkSleepOvershoot keeps 40 sleeps going; each iteration is a sleep. It reports how far each sleep ran
// beyond its payload. In the busy cases, echoes over TCP with some work on both sides take most of both cores.
func BenchmarkSleepOvershoot(b *testing.B) {
	for _, busy := range []int{0, 2, 3} {
		for _, d := range []time.Duration{10 * time.Millisecond, time.Millisecond} {
			b.Run(fmt.Sprintf("echoes=%d/%v", busy, d), func(b *testing.B) {
				p := newPool(b, NewRegistry())
				defer startEchoes(b, busy)()
				benchOvershoot(b, p, d)
			})
		}
	}
}

func benchOvershoot(b *testing.B, p *Pool, d time.Duration) {
	const sleepers = 40
	var mu sync.Mutex
	var overshoots []time.Duration
	var all sync.WaitGroup
	remaining := b.N
	cpu := cpuTime()
	start := time.Now()
	var next func(r Result)
	task := Attempt{Function: "sleep", Payload: []byte(d.String())}
	again := func() {
		mu.Lock()
		remaining--
		more := remaining >= 0
		mu.Unlock()
		if !more {
			all.Done()
		} else {
			p.Start(task, next)
		}
	}
	next = func(r Result) {
		mu.Lock()
		overshoots = append(overshoots, r.Run-d)
		mu.Unlock()
		again()
	}
	all.Add(sleepers)
	for range sleepers {
		again()
		time.Sleep(d / sleepers)
	}
	all.Wait()
	b.ReportMetric((cpuTime()-cpu).Seconds()/time.Since(start).Seconds(), "cores")
	slices.Sort(overshoots)
	us := func(q float64) float64 { return float64(overshoots[int(q*float64(len(overshoots)-1))]) / 1e3 }
	b.ReportMetric(us(0.5), "p50-us")
	b.ReportMetric(us(0.9), "p90-us")
	b.ReportMetric(us(0.99), "p99-us")
	b.ReportMetric(0, "ns/op")
}

func cpuTime() time.Duration {
	var ru syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &ru); err != nil {
		panic(err)
	}
	return time.Duration(ru.Utime.Nano() + ru.Stime.Nano())
}

// startEchoes starts n loops of echo round trips, and returns a function to end the loops.
func startEchoes(b *testing.B, n int) (stop func()) {
	work := func() {
		for t := time.Now(); time.Since(t) < 10*time.Microsecond; {
		}
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	var all sync.WaitGroup
	var conns []net.Conn
	for range n {
		out, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			b.Fatal(err)
		}
		in, err := l.Accept()
		if err != nil {
			b.Fatal(err)
		}
		conns = append(conns, out, in)
		for _, c := range []net.Conn{in, out} {
			all.Go(func() {
				var buf [64]byte
				for {
					if c == out {
						if _, err := c.Write(buf[:]); err != nil {
							return
						}
					}
					if _, err := c.Read(buf[:]); err != nil {
						return
					}
					work()
					if c == in {
						if _, err := c.Write(buf[:]); err != nil {
							return
						}
					}
				}
			})
		}
	}
	return func() {
		l.Close()
		for _, c := range conns {
			c.Close()
		}
		all.Wait()
	}
}

func newPool(tb testing.TB, r *Registry) *Pool {
	tb.Helper()
	p := openPool(tb, r)
	tb.Cleanup(func() {
		if err := p.Close(context.Background()); err != nil {
			tb.Error(err)
		}
	})
	return p
}

// openPool opens a pool that the test closes.
func openPool(tb testing.TB, r *Registry) *Pool {
	tb.Helper()
	p, err := NewPool(r)
	if err != nil {
		tb.Fatal(err)
	}
	return p
}
