package serve

import (
	"context"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/phoebe-sched/phoebe/idl/gen/phoebe/v1"
	"github.com/phoebe-sched/phoebe/probe/proxy"
	"github.com/phoebe-sched/phoebe/probe/sock"
	"github.com/phoebe-sched/phoebe/worker/exec"
	wserve "github.com/phoebe-sched/phoebe/worker/serve"
)

// runOverSlowLink runs a task over a link with a rate in bytes a second. The test fails if the link breaks.
func runOverSlowLink(t *testing.T, rate int, lease time.Duration, payload, result int) {
	t.Helper()
	r := exec.NewRegistry()
	if err := r.Register("blob", func(context.Context, []byte) ([]byte, error) {
		return make([]byte, result), nil
	}); err != nil {
		t.Fatal(err)
	}
	w, err := wserve.New(wserve.Config{Listen: "127.0.0.1:0", Name: "w", Registry: r, Goroutines: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.Close() })
	link := proxy.NewSlow(t, w.Addr().String(), rate)
	c := startCluster(t, 0, 0, func(cfg *Config) { cfg.Workers, cfg.Lease = Static{link.Addr}, lease })
	c.awaitWorkers(t, 1)
	res, err := c.client.Run(context.Background(),
		&v1.RunRequest{Job: newJob("blob", string(make([]byte, payload)))})
	if err != nil {
		t.Fatal(err)
	}
	if o := res.Outcomes[0]; o.Kind != v1.OutcomeKind_RESULT || len(o.Result_) != result || o.Attempts != 1 {
		t.Errorf("a result of %d bytes came as %v of %d bytes, after %d attempts", result, o.Kind, len(o.Result_),
			o.Attempts)
	}
	if n := c.metrics.linksLost.Get(); n != 0 {
		t.Errorf("the link broke %d times", n)
	}
}

// A result that takes four leases to come does not break the link, because bytes come all the time.
func TestSlowResult(t *testing.T) { runOverSlowLink(t, 256<<10, time.Second, 0, 1<<20) }

// byteConn is a connection on which each read brings a byte.
type byteConn struct{ net.Conn }

func (byteConn) Read(b []byte) (int, error) { return copy(b[:1], "x"), nil }

// Few bytes extend the time of a silent worker only a little, and without Welcome no bytes do.
func TestTrickle(t *testing.T) {
	const silence = int64(time.Minute)
	l := &link{}
	c := &linkConn{Conn: sock.New(byteConn{}), link: l, writeEnded: sync.Cond{L: &l.mu}}
	for _, c.up = range []bool{false, true} {
		l.heardAt.Store(monotonicNow() - silence)
		before, b := l.heardAt.Load(), make([]byte, 512)
		for range minLinkRate {
			if _, err := c.Read(b); err != nil {
				t.Fatal(err)
			}
		}
		got, want := time.Duration(l.heardAt.Load()-before), time.Duration(0)
		if c.up {
			want = time.Second
		}
		if got.Round(time.Millisecond) != want {
			t.Errorf("welcomed: %t: %d bytes extend the time by %v, want %v", c.up, minLinkRate, got, want)
		}
	}
}
