package serve

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/phoebe-sched/phoebe/probe"
	"github.com/phoebe-sched/phoebe/probe/proxy"
	"github.com/phoebe-sched/phoebe/worker/exec"
)

// heldBytes returns the bytes of results that the core holds back.
func heldBytes(s *Server) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	held, _ := s.core.Unsent()
	return held
}

// A slow link carries large results without a cut, each result once. Waiting results take bounded memory.
func TestSlowLink(t *testing.T) {
	const size, unsent, slots, tasks = 256 << 10, 1 << 20, 8, 40
	s := newServer(t, slots, func(c *Config) {
		c.Core.MaxUnsent = unsent
		c.Registry = exec.NewRegistry()
		err := c.Registry.Register("blob", func(context.Context, []byte) ([]byte, error) {
			return make([]byte, size), nil
		})
		if err != nil {
			t.Fatal(err)
		}
	})
	link := proxy.NewSlow(t, s.Addr().String(), 4<<20)
	p := greet(connectTo(t, link.Addr))
	p.send(hello(7))
	expect[probe.Welcome](p)
	for i := range uint64(tasks) {
		p.send(probe.Enqueue{Res: probe.ResID(i + 1), Job: probe.JobID{1}, Demand: probe.Slot,
			Launch: launch(7, i+1, "blob", "")})
	}
	var order []uint64
	for len(order) < tasks {
		if m, ok := p.next().(*probe.Finished); ok {
			if m.Status != probe.Succeeded || len(m.Result) != size {
				t.Fatalf("task %d: %v with %d bytes", m.Attempt.Seq, m.Status, len(m.Result))
			}
			if held := heldBytes(s); held > unsent+slots*(size+1000) {
				t.Fatalf("%d bytes of results wait", held)
			}
			order = append(order, m.Attempt.Seq)
			p.send(probe.Ack{Attempts: []probe.AttemptID{m.Attempt}})
		}
	}
	slices.Sort(order)
	if order = slices.Compact(order); len(order) != tasks {
		t.Errorf("%d of %d results came", len(order), tasks)
	}
	wantMetric(t, s, "phoebe_worker_held_result_bytes", "0")
	wantMetric(t, s, "phoebe_worker_full_links", "0")
	if n := metricValue(s, faultMetric("slow_reader")); n != "none" {
		t.Errorf("the connection was cut %s times", n)
	}
}

// tap is a transport whose peer reads a byte at each look, up to stallsAt.
type tap struct {
	memTransport
	waiting, stallsAt int
}

func (m *tap) OutboundBuffered() int {
	m.waiting = max(m.waiting-1, m.stallsAt)
	return m.waiting
}

// Later drops what the connection's timer asks for: the test looks itself.
func (m *tap) Later(func()) {}

// A peer that reads ever so slowly keeps its connection. A peer that stops reading loses the connection.
func TestStalledPeer(t *testing.T) {
	s := unstartedServer(t)
	for _, stallsAt := range []int{0, 100} {
		m := &tap{waiting: 300, stallsAt: stallsAt}
		c := newConn(s, m, m)
		c.timer.Stop()
		c.helloDone, c.lease = true, 50*time.Millisecond // far less than 300 looks take
		c.writeAtHome([]byte("x"))
		for m.waiting > 0 && !m.closed {
			time.Sleep(outflowEvery)
			c.checkOutflow()
		}
		if m.closed != (stallsAt > 0) {
			t.Errorf("with a stall at %d bytes, closed: %t", stallsAt, m.closed)
		}
	}
	wantMetric(t, s, faultMetric("slow_reader"), "1")
}
