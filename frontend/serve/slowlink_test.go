package serve

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/phoebe-sched/phoebe/frontend"
	"github.com/phoebe-sched/phoebe/idl/gen/phoebe/v1"
	"github.com/phoebe-sched/phoebe/probe"
	"github.com/phoebe-sched/phoebe/probe/proxy"
	"github.com/phoebe-sched/phoebe/probe/sock"
	"github.com/phoebe-sched/phoebe/worker/exec"
	wserve "github.com/phoebe-sched/phoebe/worker/serve"
)

// resultSize is the size of a large result, in bytes.
const resultSize = 8 << 20

// startOverLink starts a frontend with a worker at the far end of a link. A task of function blob has a result of
// resultSize bytes.
func startOverLink(t *testing.T, lease time.Duration) (*testCluster, *proxy.Proxy) {
	t.Helper()
	r := exec.NewRegistry()
	if err := r.Register("blob", func(context.Context, []byte) ([]byte, error) {
		return make([]byte, resultSize), nil
	}); err != nil {
		t.Fatal(err)
	}
	w, err := wserve.New(wserve.Config{Listen: "127.0.0.1:0", Name: "w", Registry: r, Goroutines: true,
		MaxResult: resultSize})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.Close() })
	link := proxy.New(t, w.Addr().String())
	c := startCluster(t, 0, 0, func(cfg *Config) { cfg.Workers, cfg.Lease = Static{link.Addr}, lease })
	c.awaitWorkers(t, 1)
	return c, link
}

// A result that takes four leases to come does not break the link, because bytes come all the time. The leases pass with
// the bytes, and not by the clock of the machine: before each part of the result, the test makes the silence of the
// worker longer. The part comes once the frontend has read the part before.
func TestSlowResult(t *testing.T) {
	const lease = 30 * time.Second
	c, proxied := startOverLink(t, lease)
	l := c.links[0]
	var mu sync.Mutex // guards all below
	var passed time.Duration
	broken, ended := false, false
	heardAt := int64(0) // as the test set it; bytes that the frontend reads change it
	proxied.OnAnswer(func(n int) {
		mu.Lock()
		defer mu.Unlock()
		if ended || broken {
			return
		}
		for end := time.Now().Add(lease / 2); !broken && l.heardAt.Load() == heardAt; time.Sleep(time.Millisecond) {
			broken = time.Now().After(end)
		}
		silence := 4 * lease * time.Duration(n) / resultSize
		passed += silence
		heardAt = l.heardAt.Add(-int64(silence))
		broken = broken || l.checkConn(lease)
	})
	res, err := c.client.Run(context.Background(), &v1.RunRequest{Job: newJob("blob", "x")})
	if err != nil {
		t.Fatal(err)
	}
	if o := res.Outcomes[0]; o.Kind != v1.OutcomeKind_RESULT || len(o.Result_) != resultSize || o.Attempts != 1 {
		t.Errorf("a result came as %v of %d bytes, after %d attempts", o.Kind, len(o.Result_), o.Attempts)
	}
	mu.Lock()
	defer mu.Unlock()
	ended = true // the frontend will read no more
	if n := c.metrics.linksLost.Get(); n != 0 || broken || passed < 4*lease {
		t.Errorf("after %v the link broke %d times; the worker seemed silent: %t", passed, n, broken)
	}
}

// payloadSize is the size of a large payload, in bytes.
const payloadSize = 4 << 20

// sendPayload sends a payload of payloadSize bytes to the worker, and returns the link.
func (c *testCluster) sendPayload() *link {
	c.mu.Lock()
	defer c.unlockAndFlush()
	launch := probe.Launch{Payload: make([]byte, payloadSize)}
	c.carryOut(frontend.Send{Worker: 0, Msg: probe.Bind{Res: 1, Launch: launch}})
	return c.links[0]
}

// A payload that takes four leases to go does not break the link, although the worker's Pongs wait for the payload. The
// leases pass with the bytes, and not by the clock of the machine: before each part of the payload, the test makes the
// silence of the worker longer.
func TestSlowPayload(t *testing.T) {
	const lease = 20 * time.Second
	c, proxied := startOverLink(t, lease)
	l := c.links[0]
	var mu sync.Mutex // guards all below
	var passed time.Duration
	broken := false
	proxied.OnRequest(func(n int) {
		mu.Lock()
		defer mu.Unlock()
		if broken || passed >= 4*lease { // each checkConn sends a Ping
			return
		}
		silence := 4 * lease * time.Duration(n) / payloadSize
		passed += silence
		l.heardAt.Add(-int64(silence))
		broken = l.checkConn(lease)
	})
	c.sendPayload()
	seq := l.sendPing()
	pollUntil(t, "the worker to have the payload", func() bool { return l.hasAnswered(seq) })
	mu.Lock()
	defer mu.Unlock()
	if n := c.metrics.linksLost.Get(); n != 0 || broken || passed < 4*lease {
		t.Errorf("after %v the link broke %d times; the worker seemed silent: %t", passed, n, broken)
	}
}

// A payload takes three times as long as a worker holds a slot without an answer. The payload still reaches its task,
// because the worker sees bytes come.
func TestSlowBind(t *testing.T) {
	const size, rate = 1<<20 - 100, 700 << 10
	c, link := startOverLink(t, time.Minute)
	link.SetRate(rate)
	j := newJob("echo", "x")
	j.Tasks[0].Payload = make([]byte, size)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	res, err := c.client.Run(ctx, &v1.RunRequest{Job: j})
	if err != nil {
		t.Fatal(err)
	}
	if o := res.Outcomes[0]; o.Kind != v1.OutcomeKind_RESULT || len(o.Result_) != size {
		t.Errorf("the outcome is %v, of %d bytes", o.Kind, len(o.Result_))
	}
}

// If no more bytes of a payload move, the link breaks.
func TestStalledPayload(t *testing.T) {
	c, link := startOverLink(t, time.Second)
	link.SetRate(1 << 20)
	c.sendPayload()
	link.Freeze()
	pollUntil(t, "the link to break", func() bool { return c.metrics.linksLost.Get() > 0 })
}

// byteConn is a connection on which each read brings a byte.
type byteConn struct{ net.Conn }

func (byteConn) Close() error { return nil }

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

// A connection keeps the payloads of all jobs that a frontend may have, and 64 MiB of other messages.
func TestLargeOutbox(t *testing.T) {
	const payloads = 1 << 20
	for _, test := range []struct {
		waiting int
		kept    bool
	}{{maxOutbox + payloads, true}, {maxOutbox + payloads + 1, false}} {
		l := &link{server: &Server{cfg: Config{Core: frontend.Config{MaxPayloads: payloads}}}, pipe: &pipe{}}
		l.pipe.flushScheduled.Store(true) // nothing writes
		c := &linkConn{Conn: sock.New(byteConn{}), link: l, outbox: make([]byte, test.waiting)}
		c.closeOnce.Do(func() {})
		l.conn = c
		l.heardAt.Store(monotonicNow())
		l.checkConn(time.Minute)
		if _, problem, _, _ := l.linkStatus(); (problem == "") != test.kept {
			t.Errorf("with %d bytes in the outbox: %q", test.waiting, problem)
		}
	}
}

// A client that reads a large answer slowly gets the whole answer. A client that stops reading does not.
func TestSlowReader(t *testing.T) {
	for _, stops := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			const piece, size = 64 << 10, 2 << 20 // 32 s of reading
			near, far := net.Pipe()
			defer far.Close()
			c := &clientConn{Conn: sock.New(near)}
			var reader sync.WaitGroup
			reader.Go(func() {
				for n := 0; !stops || n < size/2; n += piece {
					if _, err := io.ReadFull(far, make([]byte, piece)); err != nil {
						return
					}
					time.Sleep(time.Second)
				}
			})
			n, err := c.Write(make([]byte, size))
			if stops != (n < size) || stops != errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("the reader stops: %t. %d bytes of %d were written: %v", stops, n, size, err)
			}
			near.Close()
			reader.Wait()
		})
	}
}
