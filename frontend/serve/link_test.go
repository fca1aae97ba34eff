package serve

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/phoebe-sched/phoebe/frontend"
	"github.com/phoebe-sched/phoebe/idl/gen/phoebe/v1"
	"github.com/phoebe-sched/phoebe/probe"
	"github.com/phoebe-sched/phoebe/probe/sock"
	"github.com/phoebe-sched/phoebe/worker/exec"
	wserve "github.com/phoebe-sched/phoebe/worker/serve"
)

// switchboard connects a frontend with workers. It decides who is found at an address, and how long a dial takes.
type switchboard struct {
	tb testing.TB

	mu      sync.Mutex
	workers map[string]*wserve.Server // by address; nil: no worker listens there
	conns   map[string][]net.Conn     // made to an address
	held    map[string]chan struct{}  // dials of an address wait until the channel is closed
	dialled map[string]int            // counts the dials of an address
}

func newSwitchboard(tb testing.TB) *switchboard {
	b := &switchboard{tb: tb, workers: map[string]*wserve.Server{}, conns: map[string][]net.Conn{},
		held: map[string]chan struct{}{}, dialled: map[string]int{}}
	tb.Cleanup(func() {
		for _, w := range b.workers {
			if w != nil {
				w.Close()
			}
		}
	})
	return b
}

// dialAddr connects to the worker at an address. The caller may have lost interest by then.
func (b *switchboard) dialAddr(_ context.Context, addr string) (net.Conn, error) {
	b.mu.Lock()
	held := b.held[addr]
	b.dialled[addr]++
	b.mu.Unlock()
	if held != nil {
		<-held
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.workers[addr] == nil {
		return nil, syscall.ECONNREFUSED
	}
	conn, err := net.Dial("tcp", b.workers[addr].Addr().String())
	if err == nil {
		b.conns[addr] = append(b.conns[addr], conn)
	}
	return conn, err
}

// cutConns breaks the connections to an address.
func (b *switchboard) cutConns(addr string) {
	for _, c := range b.conns[addr] {
		c.Close()
	}
	delete(b.conns, addr)
}

// startWorkerAt starts a worker at an address. Its function "who" returns its name.
func (b *switchboard) startWorkerAt(addr, name string) *wserve.Server {
	b.tb.Helper()
	r := exec.NewRegistry()
	if err := r.Register("who",
		func(context.Context, []byte) ([]byte, error) { return []byte(name), nil }); err != nil {
		b.tb.Fatal(err)
	}
	w, err := wserve.New(wserve.Config{Listen: "127.0.0.1:0", Name: name, Registry: r, Goroutines: true})
	if err != nil {
		b.tb.Fatal(err)
	}
	if err := w.Start(); err != nil {
		b.tb.Fatal(err)
	}
	b.workers[addr] = w
	return w
}

// holdDials holds up dials of an address until release is called.
func (b *switchboard) holdDials(addr string) (release func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	held := make(chan struct{})
	b.held[addr] = held
	return sync.OnceFunc(func() {
		b.mu.Lock()
		if b.held[addr] == held {
			delete(b.held, addr)
		}
		b.mu.Unlock()
		close(held)
	})
}

// startOn starts a frontend that finds its workers by way of b. The list of workers is empty at first.
func startOn(tb testing.TB, b *switchboard, change ...func(*Config)) *testCluster {
	tb.Helper()
	cfg := Config{Listen: "127.0.0.1:0", Seed: 1}
	for _, f := range change {
		f(&cfg)
	}
	s, err := New(cfg)
	if err != nil {
		tb.Fatal(err)
	}
	s.dial = b.dialAddr
	if err := s.Start(); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { s.Close() })
	return &testCluster{Server: s, client: dialAPI(tb, s.Addr())}
}

// awaitLinks waits until the frontend's links are up, each to the worker expected at its address.
func (c *testCluster) awaitLinks(tb testing.TB, names map[string]string) {
	tb.Helper()
	var found map[string]string
	pollUntil(tb, fmt.Sprintf("links to %v", names), func() bool {
		found = map[string]string{}
		c.mu.Lock()
		defer c.mu.Unlock()
		for addr, l := range c.byAddr {
			if status, ok := c.core.Status(l.key); ok && status.State == "up" {
				found[addr] = status.Welcome.Worker
			}
		}
		return fmt.Sprint(found) == fmt.Sprint(names)
	})
}

// wantReached runs a task at each worker in names, and asks the worker's name. Some links that seemed up may have
// broken.
func (c *testCluster) wantReached(tb testing.TB, names map[string]string) {
	tb.Helper()
	j := newJob("who")
	j.DeadlineUs = 20e6
	for _, name := range names {
		t := v1.NewTask()
		t.FunctionName, t.Index = "who", int32(len(j.Tasks))
		t.Constraint = &v1.Constraint{Hosts: []string{name}}
		j.Tasks = append(j.Tasks, t)
	}
	var res *v1.RunResponse
	pollUntil(tb, "all workers", func() bool {
		var err error
		res, err = c.client.Run(context.Background(), &v1.RunRequest{Job: j})
		if refused := (*v1.Refused)(nil); err != nil &&
			(!errors.As(err, &refused) || refused.Reason != v1.RefusedReason_NO_WORKER) {
			tb.Fatal(err)
		}
		return err == nil
	})
	for _, o := range res.Outcomes {
		want := j.Tasks[o.Task].Constraint.Hosts[0]
		if o.Kind != v1.OutcomeKind_RESULT || string(o.Result_) != want || o.Worker != want {
			tb.Fatalf("the task for %s: %v at %s, of %q", want, o, o.Worker, o.Result_)
		}
	}
}

// A dial outlasts its worker's time on the list. The dial must not become the link of another worker.
func TestDialOutlivesLink(t *testing.T) {
	b := newSwitchboard(t)
	b.startWorkerAt("x:1", "x")
	b.startWorkerAt("b:1", "b")
	c := startOn(t, b)
	release := b.holdDials("x:1")
	c.setWorkers([]string{"x:1"})
	pollUntil(t, "the dial", func() bool { b.mu.Lock(); defer b.mu.Unlock(); return b.dialled["x:1"] > 0 })
	c.setWorkers(nil)
	c.setWorkers([]string{"b:1"})
	release()
	names := map[string]string{"b:1": "b"}
	c.awaitLinks(t, names)
	c.wantReached(t, names)
}

// Two workers go while they are dialled and come back in reverse order.
func TestComeBackInTheOtherOrder(t *testing.T) {
	b := newSwitchboard(t)
	b.startWorkerAt("a:1", "a")
	b.startWorkerAt("b:1", "b")
	c := startOn(t, b)
	releaseA, releaseB := b.holdDials("a:1"), b.holdDials("b:1")
	c.setWorkers([]string{"a:1", "b:1"})
	pollUntil(t, "the dials",
		func() bool { b.mu.Lock(); defer b.mu.Unlock(); return b.dialled["a:1"] > 0 && b.dialled["b:1"] > 0 })
	c.setWorkers(nil)
	c.setWorkers([]string{"b:1"})
	c.setWorkers([]string{"b:1", "a:1"})
	releaseA()
	releaseB()
	names := map[string]string{"a:1": "a", "b:1": "b"}
	c.awaitLinks(t, names)
	c.wantReached(t, names)
}

// A worker listed under two addresses has one link. With two links, the worker would drop each connection in favour
// of the other, without end. When the linked address is taken off the list, the other address gets the link.
func TestWorkerWithTwoAddresses(t *testing.T) {
	b := newSwitchboard(t)
	w := b.startWorkerAt("a:1", "w")
	b.workers["b:1"] = w
	c := startOn(t, b)
	c.setWorkers([]string{"a:1"})
	names := map[string]string{"a:1": "w"}
	c.awaitLinks(t, names)
	c.setWorkers([]string{"a:1", "b:1"})
	pollUntil(t, "the second link says why it is none", func() bool {
		c.mu.Lock()
		l := c.byAddr["b:1"]
		c.mu.Unlock()
		_, problem, _, _ := l.linkStatus()
		return strings.Contains(problem, "it is worker w, linked as a:1")
	})
	c.awaitLinks(t, names)
	c.wantReached(t, names)
	dials, since := 0, time.Now()
	pollUntil(t, "nobody to dial any more", func() bool {
		b.mu.Lock()
		defer b.mu.Unlock()
		if n := b.dialled["a:1"] + b.dialled["b:1"]; n != dials {
			dials, since = n, time.Now()
		}
		return time.Since(since) > 2*redialDelay
	})
	b.mu.Lock()
	b.workers["a:1"] = nil
	b.cutConns("a:1")
	b.mu.Unlock()
	c.setWorkers([]string{"b:1"})
	names = map[string]string{"b:1": "w"}
	c.awaitLinks(t, names)
	c.wantReached(t, names)
}

// Workers go and come back in any order, at their own and at each other's addresses. Meanwhile dials are under way
// and connections break. In the end each link leads to the right worker, and all workers are reached.
func TestComeAndGo(t *testing.T) { comeAndGo(t, 30) }

func TestSoakComeAndGo(t *testing.T) {
	if os.Getenv("PHOEBE_SOAK") == "" {
		t.Skip("PHOEBE_SOAK is not set")
	}
	comeAndGo(t, 1000)
}

func comeAndGo(t *testing.T, rounds int) {
	const workers = 6
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	chance := rand.New(rand.NewPCG(seed, 0))
	b := newSwitchboard(t)
	names := map[string]string{}
	var addrs []string
	for i := range workers {
		addr, name := fmt.Sprintf("%d:1", i), fmt.Sprintf("w%d", i)
		b.startWorkerAt(addr, name)
		addrs, names[addr] = append(addrs, addr), name
	}
	c := startOn(t, b)
	for range rounds {
		some := func() []string {
			chance.Shuffle(workers, func(i, k int) { addrs[i], addrs[k] = addrs[k], addrs[i] })
			return addrs[:chance.IntN(workers+1)]
		}
		var releases []func()
		for _, addr := range some() {
			if chance.IntN(2) == 0 {
				releases = append(releases, b.holdDials(addr))
			}
		}
		for range chance.IntN(4) {
			c.setWorkers(some())
		}
		switch x, y := addrs[0], addrs[1]; chance.IntN(4) {
		case 0: // two workers exchange addresses
			b.mu.Lock()
			b.workers[x], b.workers[y] = b.workers[y], b.workers[x]
			names[x], names[y] = names[y], names[x]
			b.cutConns(x)
			b.cutConns(y)
			b.mu.Unlock()
		case 1: // each ends and starts again under the name of the other
			b.mu.Lock()
			b.workers[x].Close()
			b.workers[y].Close()
			names[x], names[y] = names[y], names[x]
			b.startWorkerAt(x, names[x])
			b.startWorkerAt(y, names[y])
			b.mu.Unlock()
		case 2:
			b.mu.Lock()
			b.cutConns(x)
			b.mu.Unlock()
		}
		for range chance.IntN(3) {
			c.setWorkers(some())
		}
		some()
		c.setWorkers(addrs)
		for _, release := range releases {
			release()
		}
		c.awaitLinks(t, names)
		c.wantReached(t, names)
	}
}

// handWorker is the worker's end of a link, by hand.
type handWorker struct {
	tb      testing.TB
	conn    net.Conn
	in      *bufio.Reader
	decoder probe.Decoder
	hello   probe.Hello
}

// acceptWorker takes the next connection, and reads Hello.
func acceptWorker(tb testing.TB, ln net.Listener) *handWorker {
	tb.Helper()
	conn, err := ln.Accept()
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { conn.Close() })
	w := &handWorker{tb: tb, conn: conn, in: bufio.NewReader(conn)}
	greeting := make([]byte, len(probe.SniffHeader)+3)
	if _, err := io.ReadFull(w.in, greeting); err != nil {
		tb.Fatal(err)
	}
	conn.Write(greeting)
	w.hello = w.readFrame()[0].(probe.Hello)
	return w
}

func (w *handWorker) readFrame() []probe.Msg {
	w.tb.Helper()
	head := make([]byte, probe.PushHeader)
	if _, err := io.ReadFull(w.in, head); err != nil {
		w.tb.Fatal(err)
	}
	n, err := probe.BodySize(head[probe.PushHeader-probe.FrameHeader:], probe.MaxFrame)
	if err != nil {
		w.tb.Fatal(err)
	}
	body := make([]byte, n)
	if _, err := io.ReadFull(w.in, body); err != nil {
		w.tb.Fatal(err)
	}
	_, msgs, err := w.decoder.Decode(body, nil)
	if err != nil {
		w.tb.Fatal(err)
	}
	return msgs
}

// writeMsg writes a frame: the messages in before, encoded, then m.
func (w *handWorker) writeMsg(m probe.Msg, before ...byte) {
	b, body := probe.BeginPush(nil, w.hello.Epoch)
	w.conn.Write(probe.EndFrame(probe.AppendMsg(append(b, before...), m), body))
}

func (w *handWorker) newWelcome(speaks probe.Dialect) probe.Welcome {
	return probe.Welcome{Speaks: speaks, Epoch: w.hello.Epoch, Worker: "w", Capacity: probe.Slot}
}

// A worker without a common version is not linked, and status shows the reason. Once another release runs there,
// the worker is linked.
func TestVersions(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	c := startOn(t, newSwitchboard(t), func(cfg *Config) { cfg.Lease = time.Minute })
	c.dial = func(context.Context, string) (net.Conn, error) { return net.Dial("tcp", ln.Addr().String()) }
	c.setWorkers([]string{"w"})
	for _, test := range []struct {
		answer  func(w *handWorker) probe.Msg
		problem string
	}{
		{func(w *handWorker) probe.Msg {
			return w.newWelcome(probe.Dialect{Min: probe.Version + 1, Max: probe.Version + 2})
		}, "upgrade this frontend"},
		{func(w *handWorker) probe.Msg {
			return w.newWelcome(probe.Dialect{Min: 1, Max: probe.MinVersion - 1})
		}, "upgrade the worker"},
		{func(*handWorker) probe.Msg { return probe.Rejected{Reason: "upgrade the frontend"} },
			"rejected: upgrade the frontend"},
	} {
		w := acceptWorker(t, ln)
		if w.hello.Speaks != probe.Spoken {
			t.Errorf("it says that it speaks %+v", w.hello.Speaks)
		}
		if _, problem, _, _ := c.links[0].linkStatus(); !strings.Contains(problem, "its process hangs") {
			t.Errorf("a worker that does not answer Hello: %q", problem)
		}
		w.writeMsg(test.answer(w))
		pollUntil(t, "the problem to be told", func() bool {
			up, problem, _, _ := c.links[0].linkStatus()
			return !up && strings.HasSuffix(problem, test.problem)
		})
	}
	w := acceptWorker(t, ln)
	w.writeMsg(w.newWelcome(probe.Dialect{Min: probe.Version, Max: probe.Version + 2, Features: 1 << 63}), 200, 1, 0, 0,
		'x')
	c.awaitWorkers(t, 1)
	if n := c.metrics.skipped.Get(); n != 1 {
		t.Errorf("%d messages of unknown kinds were skipped", n)
	}
}

// Messages on a link arrive whole and in order. It does not matter whether the worker pauses its reading, and
// whether fastrpc or the sender writes.
func TestOrderOfWrites(t *testing.T) {
	const senders, each, size = 4, 500, 16 << 10
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	// the worker of this test answers no Ping
	c := startOn(t, newSwitchboard(t), func(cfg *Config) { cfg.Lease = time.Minute })
	c.dial = func(context.Context, string) (net.Conn, error) { return net.Dial("tcp", ln.Addr().String()) }
	c.setWorkers([]string{"w"})
	w := acceptWorker(t, ln)
	w.writeMsg(w.newWelcome(probe.Spoken))
	c.awaitWorkers(t, 1)

	next := uint64(1 << 32) // beyond the numbers of the link's own Pings
	var wait sync.WaitGroup
	for range senders {
		wait.Go(func() {
			for range each {
				c.mu.Lock()
				next++
				c.carryOut(
					frontend.Send{Worker: 0,
						Msg: probe.Bind{Res: 1,
							Launch: probe.Launch{Attempt: probe.AttemptID{Seq: next}, Payload: make([]byte, size)}}})
				if next%3 == 0 {
					c.links[0].flush(false)
				}
				c.unlockAndFlush()
			}
		})
	}
	l := c.links[0]
	pollUntil(t, "the connection to be full", func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.conn.writing && len(l.conn.outbox) > 1<<20
	})
	for want := uint64(1 << 32); want < 1<<32+senders*each; {
		for _, m := range w.readFrame() {
			if m, ok := m.(probe.Bind); ok {
				if want++; m.Launch.Attempt.Seq != want {
					t.Fatalf("message %d comes when %d should", m.Launch.Attempt.Seq, want)
				}
			}
		}
	}
	wait.Wait()
}

// recordedWrites keeps the bytes of each Write.
type recordedWrites struct {
	net.Conn
	all [][]byte
}

func (w *recordedWrites) Write(b []byte) (int, error) {
	w.all = append(w.all, slices.Clone(b))
	return len(b), nil
}

func (w *recordedWrites) SetWriteDeadline(time.Time) error { return nil }

// writeOutbox empties an outbox of at most a piece, and fastrpc's buffer, by a single write. Afterwards further callers
// may write.
func TestOutboxIsWrittenWhole(t *testing.T) {
	l := &link{}
	w := &recordedWrites{}
	c := &linkConn{Conn: sock.New(w), link: l, writeEnded: sync.Cond{L: &l.mu}}
	for _, size := range []int{0, 10, 1000, writePiece - 1000} {
		c.appendMsg(probe.Bind{Res: 1, Launch: probe.Launch{Payload: make([]byte, size)}})
		bw := bufio.NewWriterSize(c, 512)
		bw.Write([]byte("id.."))
		if err := c.writeOutbox(bw); err != nil || bw.Buffered() > 0 || len(c.outbox) > 0 || c.writing {
			t.Errorf("%d bytes stay in fastrpc's buffer and %d in the outbox, %v", bw.Buffered(), len(c.outbox), err)
		}
		if len(w.all) != 1 {
			t.Fatalf("%d bytes are written by %d writes", size, len(w.all))
		}
		n, err := probe.BodySize(w.all[0][probe.PushHeader-probe.FrameHeader:], probe.MaxFrame)
		if err != nil || probe.PushHeader+n != len(w.all[0]) || n < size ||
			!bytes.Equal(w.all[0][:4], make([]byte, 4)) {
			t.Errorf("of %d bytes, %d are written: %v", size, len(w.all[0]), err)
		}
		w.all = nil
	}
}

// With a closed connection, writeOutbox returns an error even without bytes to write. Otherwise fastrpc would be
// asked for a flush again and again.
func TestClosedConnectionEndsWrites(t *testing.T) {
	l := &link{}
	c := &linkConn{Conn: sock.New(&recordedWrites{}), link: l, writeEnded: sync.Cond{L: &l.mu}, closed: true}
	if err := c.writeOutbox(bufio.NewWriter(c)); !errors.Is(err, net.ErrClosed) || !c.wantsFlush() {
		t.Errorf("a flush of nothing: %v", err)
	}
}
