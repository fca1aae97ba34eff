package serve

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/valyala/fastrpc"

	"github.com/phoebe-sched/phoebe/probe"
	"github.com/phoebe-sched/phoebe/worker"
	"github.com/phoebe-sched/phoebe/worker/exec"
)

func TestWelcome(t *testing.T) {
	s := newServer(t, 4, func(c *Config) {
		c.Name, c.Host, c.Labels, c.Secret = "w1", "h1", []string{"zone=a"}, "xyzzy"
		c.MaxResult, c.Core.MaxPayload, c.Speed = 1000, 2000, 1.5
	})
	p := dial(t, s)
	h := hello(7)
	h.Secret, h.Epoch, p.epoch = "xyzzy", 5, 5
	p.send(h)
	w := expect[probe.Welcome](p)
	if w.Incarnation == 0 {
		t.Error("no incarnation")
	}
	w.Incarnation = 0
	want := probe.Welcome{
		Speaks: probe.Spoken, Epoch: 5, Worker: "w1", Host: "h1", Capacity: capacity(4), Open: capacity(4),
		Labels:    []string{"zone=a"},
		Functions: []string{"echo", "fail", "sleep", "spin"}, MaxPayload: 2000, MaxResult: 1000, Speed: 1500,
	}
	if !reflect.DeepEqual(w, want) {
		t.Errorf("got  %+v\nwant %+v", w, want)
	}
	wantMetric(t, s, "phoebe_worker_links", "1")
	wantMetric(t, s, "phoebe_worker_connections", "1")
	p.conn.Close()
	wantMetric(t, s, "phoebe_worker_links", "0")
	wantMetric(t, s, "phoebe_worker_connections", "0")
}

func TestConversation(t *testing.T) {
	s := newServer(t, 1, nil)
	p, _ := join(t, s, 7)

	p.send(reserve(1, launch(7, 1, "echo", "tweet")))
	f := expect[*probe.Finished](p)
	if f.Attempt.Seq != 1 || f.Status != probe.Succeeded || string(f.Result) != "tweet" || f.Job != (probe.JobID{1}) {
		t.Errorf("the ride-along ends as %+v", f)
	}
	p.send(probe.Ack{Attempts: []probe.AttemptID{f.Attempt}})

	p.send(reserveOne(2), reserveOne(3))
	r := expect[probe.Ready](p)
	if r.Res != 2 || r.Expiry <= 0 || r.Load.Queued != 0 {
		t.Errorf("the first place gets %+v", r)
	}
	p.send(probe.Bind{Res: 2, Turn: r.Turn, Launch: launch(7, 2, "sleep", "1ms")})
	r = expect[probe.Ready](p) // before the result
	if r.Res != 3 {
		t.Errorf("the second place gets %+v", r)
	}
	f = expect[*probe.Finished](p)
	if f.Attempt.Seq != 2 || f.Status != probe.Succeeded || f.Run < time.Millisecond {
		t.Errorf("the bound task ends as %+v", f)
	}
	p.send(probe.Bind{Res: 3, Turn: r.Turn, Launch: launch(7, 3, "fail", "oh no")})
	if f = expect[*probe.Finished](p); f.Status != probe.Failed || f.Error != "oh no" {
		t.Errorf("the failing task ends as %+v", f)
	}

	p.send(probe.Ping{Seq: 9})
	if m := expect[probe.Pong](p); m.Seq != 9 || m.Load.Free != capacity(1) {
		t.Errorf("the ping gets %+v", m)
	}
	p.send(reserve(4, launch(7, 4, "swim", "")))
	if m := expect[probe.Refused](p); m.Reason != probe.NoFunction || m.First != 4 {
		t.Errorf("an unknown function gets %+v", m)
	}

	p.send(reserve(5, launch(7, 5, "sleep", "1h")), reserveOne(6))
	p.send(probe.Cancel{First: 6, Count: 1}, probe.Ping{Seq: 10})
	if m := expect[probe.Pong](p); m.Load.Running != 1 || m.Load.Queued != 0 {
		t.Errorf("with one task and no place, the ping gets %+v", m)
	}
	p.send(reserveOne(7), probe.Kill{Attempt: probe.AttemptID{Frontend: 7, Seq: 5}})
	if m := expect[probe.Ready](p); m.Res != 7 {
		t.Errorf("the slot of the killed task goes to %+v", m)
	}

	for name, want := range map[string]string{
		`phoebe_worker_tasks_total{status="succeeded"}`:        "2",
		`phoebe_worker_tasks_total{status="failed"}`:           "1",
		`phoebe_worker_tasks_total{status="killed"}`:           "1",
		`phoebe_worker_reservations_total{outcome="started"}`:  "2",
		`phoebe_worker_reservations_total{outcome="queued"}`:   "4",
		`phoebe_worker_reservations_total{outcome="bound"}`:    "2",
		`phoebe_worker_reservations_total{outcome="refused"}`:  "1",
		`phoebe_worker_reservation_wait_seconds_count`:         "3",
		`phoebe_worker_task_run_seconds_count`:                 "4",
		`phoebe_worker_running`:                                "0",
		`phoebe_worker_queue_places`:                           "0",
		`phoebe_worker_reservations_total{outcome="declined"}`: "0",
	} {
		wantMetric(t, s, name, want)
	}
}

// frame is a request or a response of fastrpc.
type frame struct {
	msgs []probe.Msg
	got  chan probe.Msg
}

func (f *frame) WriteRequest(bw *bufio.Writer) error {
	_, err := bw.Write(probe.AppendFrame(nil, 1, f.msgs...))
	return err
}

func (f *frame) ReadResponse(br *bufio.Reader) error {
	header := make([]byte, probe.FrameHeader)
	if _, err := io.ReadFull(br, header); err != nil {
		return err
	}
	n, err := probe.BodySize(header, probe.MaxFrame)
	if err != nil {
		return err
	}
	body := make([]byte, n)
	if _, err := io.ReadFull(br, body); err != nil {
		return err
	}
	var d probe.Decoder
	_, msgs, err := d.Decode(body, nil)
	for _, m := range msgs {
		f.got <- m
	}
	return err
}

// The test uses the client of the frontends.
func TestFastrpc(t *testing.T) {
	s := newServer(t, 1, nil)
	got := make(chan probe.Msg, 10)
	c := fastrpc.Client{
		Addr: s.Addr().String(), SniffHeader: probe.SniffHeader, ProtocolVersion: probe.ProtocolVersion,
		CompressType: fastrpc.CompressNone, NewResponse: func() fastrpc.ResponseReader { return &frame{got: got} },
		Dial: func(addr string) (net.Conn, error) { return net.Dial("tcp", addr) },
	}
	c.SendNowait(&frame{msgs: []probe.Msg{hello(7), reserve(1, launch(7, 1, "echo", "x"))}}, nil)
	if m, ok := (<-got).(probe.Welcome); !ok {
		t.Fatalf("got %+v", m)
	}
	if m, ok := (<-got).(*probe.Finished); !ok || string(m.Result) != "x" {
		t.Fatalf("got %+v", m)
	}
}

// Frames of another epoch do not count, nor does a second Hello.
func TestStaleFrames(t *testing.T) {
	s := newServer(t, 1, nil)
	p := dial(t, s)
	p.epoch = 2
	h := hello(7)
	h.Epoch = 2
	p.write(pushFrame(1)) // empty
	p.write(pushFrame(2, h, reserve(3, launch(7, 3, "echo", "x"))))
	p.write(pushFrame(1, reserve(4, launch(7, 4, "echo", "x"))))
	p.write(pushFrame(1, hello(7)))
	p.send(h)
	p.send(probe.Ping{Seq: 1})
	expect[probe.Welcome](p)
	if f := expect[*probe.Finished](p); f.Attempt.Seq != 3 {
		t.Errorf("a task of an earlier epoch ran: %+v", f)
	}
	expect[probe.Pong](p)
	wantMetric(t, s, faultMetric("stale_frame"), "2")
	wantMetric(t, s, "phoebe_worker_links", "1")
}

func TestReconnectAndClaim(t *testing.T) {
	release := make(chan struct{})
	s := newServer(t, 1, func(cfg *Config) {
		cfg.Registry = exec.NewRegistry()
		_ = cfg.Registry.Register("hold", func(ctx context.Context, _ []byte) ([]byte, error) {
			select {
			case <-release:
			case <-ctx.Done():
			}
			return nil, nil
		})
	})
	p, _ := join(t, s, 7)
	p.send(reserve(1, launch(7, 1, "hold", "")), probe.Ping{Seq: 1})
	expect[probe.Pong](p)

	q, _ := join(t, s, 7) // replaces the old connection
	p.waitClosed()
	q.send(probe.Claim{Attempt: probe.AttemptID{Frontend: 7, Seq: 1}})
	expect[probe.Started](q)
	close(release)
	if f := expect[*probe.Finished](q); f.Status != probe.Succeeded {
		t.Errorf("the claimed attempt ends as %+v", f)
	}
}

func TestBadHello(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*probe.Hello)
		want   string
	}{
		"too new": {func(h *probe.Hello) {
			h.Speaks = probe.Dialect{Min: probe.Version + 1, Max: probe.Version + 3}
		}, "upgrade this worker"},
		"too old": {func(h *probe.Hello) { h.Speaks = probe.Dialect{Min: 1, Max: probe.MinVersion - 1} },
			"upgrade the frontend"},
		"no secret":   {func(h *probe.Hello) { h.Secret = "" }, "secret"},
		"bad secret":  {func(h *probe.Hello) { h.Secret = "xyzzx" }, "secret"},
		"no lease":    {func(h *probe.Hello) { h.Lease = 0 }, "lease"},
		"long lease":  {func(h *probe.Hello) { h.Lease = time.Hour }, "lease"},
		"no frontend": {func(h *probe.Hello) { h.Frontend = 0 }, "without an id"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer(t, 1, func(c *Config) { c.Secret = "xyzzy" })
			p := dial(t, s)
			h := hello(7)
			h.Secret = "xyzzy"
			test.change(&h)
			p.send(h, reserve(1, launch(7, 1, "echo", "x")))
			if reason := p.waitClosed(); !strings.Contains(reason, test.want) {
				t.Errorf("the reason given is %q, it should speak of %q", reason, test.want)
			}
			wantMetric(t, s, faultMetric("rejected"), "1")
			wantMetric(t, s, `phoebe_worker_tasks_total{status="succeeded"}`, "0")
		})
	}
}

// A frontend from before messages were framed gets its answer in the old encoding.
func TestOldHello(t *testing.T) {
	s := newServer(t, 1, nil)
	p := dial(t, s)
	b, body := probe.BeginPush(nil, 300)
	b = append(b, 1, 6, 0) // Hello, version, no secret
	b = append(b, "\x01\x02\x03\x04\x05\x06\x07\x08"...)
	b = append(b, 2, 'f', '1', 0xac, 2, 0xff, 1) // name, epoch, lease
	p.write(probe.EndFrame(b, body))
	p.conn.SetReadDeadline(time.Now().Add(patience))
	got, err := io.ReadAll(p.in)
	const head = probe.PushHeader + 2 // and the epoch
	if err != nil || len(got) < head+2 {
		t.Fatalf("%q, %v", got, err)
	}
	if epoch := got[probe.PushHeader:head]; string(epoch) != "\xac\x02" || got[head] != 65 ||
		int(got[head+1]) != len(got)-head-2 {
		t.Errorf("not a Rejected of its epoch: %q", got)
	}
	if reason := string(got[head+2:]); !strings.Contains(reason, probe.Spoken.String()) ||
		!strings.HasSuffix(reason, "upgrade the frontend") {
		t.Errorf("the reason given is %q", reason)
	}
	wantMetric(t, s, faultMetric("garbage"), "1")
}

// A message of a newer frontend is skipped and counted.
func TestUnknownMessages(t *testing.T) {
	s := newServer(t, 1, nil)
	p, _ := join(t, s, 7)
	b, body := probe.BeginPush(nil, 1)
	b = append(b, 200, 3, 0, 0, 'x', 'y', 'z')
	b = probe.AppendMsg(b, probe.Ping{Seq: 5})
	p.write(probe.EndFrame(b, body))
	if pong := expect[probe.Pong](p); pong.Seq != 5 {
		t.Errorf("got %+v", pong)
	}
	wantMetric(t, s, "phoebe_worker_messages_skipped_total", "1")
}

// Whatever a connection does, tasks of other connections run.
func TestMisbehaviour(t *testing.T) {
	s := newServer(t, 1, func(c *Config) { c.MaxFrame, c.Core.MaxPayload = 1<<20, 1<<19 })
	good, _ := join(t, s, 7)
	seq := uint64(0)
	works := func(t *testing.T) {
		t.Helper()
		seq++
		good.tb = t
		good.send(reserve(probe.ResID(seq), launch(7, seq, "echo", "x")))
		if f := expect[*probe.Finished](good); f.Attempt.Seq != seq {
			t.Errorf("got %+v", f)
		}
		good.send(probe.Ack{Attempts: []probe.AttemptID{{Frontend: 7, Seq: seq}}})
	}
	greet := func(version, compress, tls byte) []byte {
		return append([]byte(probe.SniffHeader), version, compress, tls)
	}
	long := []byte{0, 0, 0, 0, 1, 0, 0x10, 0}      // 1 MiB + 1
	huge := []byte{0, 0, 0, 0, 255, 255, 255, 255} // 4 GiB
	for name, test := range map[string]struct {
		bytes   []byte
		answers bool
		reason  string
	}{
		"http":      {[]byte("GET / HTTP/1.1\r\n\r\n"), false, "handshake"},
		"nearly":    {[]byte("phoebe/2"), false, "handshake"},
		"version":   {greet(2, 1, 0), true, "handshake"},
		"flate":     {greet(1, 0, 0), true, "handshake"},
		"tls":       {greet(1, 1, 1), true, "handshake"},
		"garbage":   {append(slices.Clone(greeting), 0, 0, 0, 0, 3, 0, 0, 0, 1, 99, 99), true, "garbage"},
		"empty":     {append(slices.Clone(greeting), 0, 0, 0, 0, 0, 0, 0, 0), true, "oversized"},
		"oversized": {append(slices.Clone(greeting), huge...), true, "oversized"},
		"oversized after Hello": {append(append(slices.Clone(greeting), pushFrame(1, hello(8))...), long...), true,
			"oversized"},
		"garbage after Hello": {append(append(slices.Clone(greeting), pushFrame(1, hello(8))...), 0, 0, 0, 0, 2, 0, 0,
			0, 1, 200), true, "garbage"},
		"long before Hello": {append(slices.Clone(greeting),
			pushFrame(1, reserve(1, launch(8, 1, "echo", strings.Repeat("x", probe.MaxHello))))...), true, "oversized"},
		"no Hello": {append(slices.Clone(greeting), pushFrame(1, probe.Ping{}, hello(8))...), true,
			"rejected"},
		"Hello of other epoch": {append(slices.Clone(greeting), pushFrame(2, hello(8))...), true, "rejected"},
	} {
		t.Run(name, func(t *testing.T) {
			before := metricValue(s, faultMetric(test.reason))
			p := connect(t, s)
			p.write(test.bytes)
			if test.answers {
				p.expectGreeting()
			}
			p.waitClosed()
			works(t)
			waitUntil(t, "the fault to be counted",
				func() bool { return metricValue(s, faultMetric(test.reason)) != before })
		})
	}
	wantMetric(t, s, "phoebe_worker_links", "1")
}

// If a peer goes on sending after a fault, the server stops reading.
func TestFlood(t *testing.T) {
	s := newServer(t, 1, nil)
	p := connect(t, s)
	p.conn.SetWriteDeadline(time.Now().Add(patience))
	flood := append(slices.Clone(greeting), make([]byte, 1<<20)...) // frames without a body
	for {
		if _, err := p.conn.Write(flood); err != nil {
			if errors.Is(err, os.ErrDeadlineExceeded) {
				t.Error("the connection stays open")
			}
			break
		}
	}
	wantMetric(t, s, "phoebe_worker_connections", "0")
}

// A peer that sends and does not read is cut, whether its answers are many or large. Until then its results take
// bounded memory, and others get answers.
func TestPeerThatNeverReads(t *testing.T) {
	const unsent, size, slots = 2 << 20, 1 << 20, 4
	s := newServer(t, slots, func(c *Config) { c.OutboundLimit, c.Core.MaxUnsent = 5<<20, unsent })
	good, _ := join(t, s, 7)
	payload := strings.Repeat("x", size)
	for name, send := range map[string]func(seq uint64) []byte{
		"many answers": func(uint64) []byte {
			return pushFrame(1, slices.Repeat([]probe.Msg{probe.Ping{Matrix: true}}, 1000)...)
		},
		"large results": func(seq uint64) []byte {
			return pushFrame(1, reserve(probe.ResID(seq), launch(8, seq, "echo", payload)))
		},
	} {
		bad := dial(t, s)
		h := hello(8)
		h.Lease = time.Second
		bad.send(h)
		bad.conn.SetWriteDeadline(time.Now().Add(patience))
		for seq := uint64(1); ; seq++ {
			if _, err := bad.conn.Write(send(seq)); err != nil {
				if ne, ok := err.(net.Error); ok && ne.Timeout() {
					t.Errorf("%s: the connection stays", name)
				}
				break
			}
			if held := heldBytes(s); held > unsent+(slots+1)*(size+1000) {
				t.Fatalf("%s: %d bytes of results wait", name, held)
			}
		}
		wantMetric(t, s, "phoebe_worker_links", "1")
		good.send(probe.Ping{})
		expect[probe.Pong](good)
	}
	wantMetric(t, s, "phoebe_worker_held_result_bytes", "0")
	wantMetric(t, s, "phoebe_worker_full_links", "0")
}

func TestIdleConnections(t *testing.T) {
	for timeout := 50 * time.Millisecond; !closesIdleConnections(t, timeout); {
		if timeout *= 4; timeout > patience {
			t.Fatal("no Hello comes in time")
		}
	}
}

// closesIdleConnections checks that a worker closes idle connections after a timeout, and keeps a link. It returns
// false if the machine was too busy for the Hello of the link to come within the timeout.
func closesIdleConnections(t *testing.T, timeout time.Duration) bool {
	t.Helper()
	s := newServer(t, 1, func(c *Config) { c.HandshakeTimeout = timeout })
	good := connect(t, s)
	good.write(slices.Concat(greeting, pushFrame(1, hello(7))))
	isLinked := func() bool { return metricValue(s, "phoebe_worker_links") == "1" }
	waitUntil(t, "a link or a timeout", func() bool {
		return isLinked() || metricValue(s, faultMetric("handshake_timeout")) == "1"
	})
	if !isLinked() {
		return false
	}
	good.expectGreeting()
	expect[probe.Welcome](good)
	peers := make([]*peer, 900) // fewer than the room of strangers takes
	for i := range peers {
		peers[i] = connect(t, s)
	}
	mute := connect(t, s) // greets, and falls silent
	mute.write(greeting)
	for _, p := range append(peers, mute) {
		p.waitGone()
	}
	wantMetric(t, s, faultMetric("handshake_timeout"), "901")
	wantMetric(t, s, "phoebe_worker_connections", "1")
	good.send(probe.Ping{})
	expect[probe.Pong](good)
	return true
}

func TestConnectionLimit(t *testing.T) {
	s := newServer(t, 1, func(c *Config) { c.MaxConns = 2 })
	a, _ := join(t, s, 7)
	join(t, s, 8)
	connect(t, s).waitClosed()
	wantMetric(t, s, faultMetric("too_many_connections"), "1")
	a.conn.Close()
	wantMetric(t, s, "phoebe_worker_connections", "1")
	join(t, s, 9)
}

// Silent connections keep no frontend out.
func TestSilentLinks(t *testing.T) {
	s := newServer(t, 1, func(c *Config) { c.MaxConns, c.HandshakeTimeout = 5, time.Minute })
	old, _ := join(t, s, 7)
	first := connect(t, s)
	for range 10 {
		connect(t, s)
	}
	join(t, s, 8)
	old.send(probe.Ping{})
	expect[probe.Pong](old)
	first.waitClosed()
}

func TestSilentPeer(t *testing.T) {
	s := newServer(t, 1, func(c *Config) { c.Core.Grace = 20 * time.Millisecond })
	good, _ := join(t, s, 7)
	mute := dial(t, s)
	h := hello(8)
	h.Lease = 50 * time.Millisecond
	mute.send(h, reserve(1, launch(8, 1, "sleep", "1h")))
	expect[probe.Welcome](mute)
	good.send(reserveOne(1))
	mute.waitClosed()
	wantMetric(t, s, faultMetric("lease"), "1")
	if r := expect[probe.Ready](good); r.Res != 1 { // after the orphan's grace
		t.Errorf("got %+v", r)
	}
	wantMetric(t, s, `phoebe_worker_orphans_total{outcome="abandoned"}`, "1")
}

// A Pong tells the progress of tasks that report it.
func TestPongReportsProgress(t *testing.T) {
	reported := make(chan struct{})
	s := newServer(t, 1, func(cfg *Config) {
		cfg.Registry = exec.NewRegistry()
		_ = cfg.Registry.Register("tells", func(ctx context.Context, _ []byte) ([]byte, error) {
			exec.Progress(ctx, 0.25)
			reported <- struct{}{}
			<-ctx.Done()
			return nil, nil
		})
	})
	p, _ := join(t, s, 7)
	p.send(reserve(1, launch(7, 1, "tells", "")))
	<-reported
	p.send(probe.Ping{Seq: 1})
	m := expect[probe.Pong](p)
	if len(m.Progress) != 1 || m.Progress[0].Attempt.Seq != 1 || m.Progress[0].Done != 250_000 ||
		m.Progress[0].Left <= 0 {
		t.Errorf("the ping gets %+v", m)
	}
	p.send(probe.Kill{Attempt: probe.AttemptID{Frontend: 7, Seq: 1}})
}

func TestEveryByteAlone(t *testing.T) {
	s := newServer(t, 1, nil)
	p := connect(t, s)
	all := slices.Concat(greeting, pushFrame(1, hello(7)),
		pushFrame(1, reserve(1, launch(7, 1, "echo", "one")), probe.Ping{Seq: 1}), pushFrame(1, probe.Ping{Seq: 2}))
	for _, b := range all {
		p.write([]byte{b})
	}
	p.expectGreeting()
	expect[probe.Welcome](p)
	if f := expect[*probe.Finished](p); string(f.Result) != "one" {
		t.Errorf("got %+v", f)
	}
	expect[probe.Pong](p)
	expect[probe.Pong](p)
}

// All answers to a frame come back in a single frame.
func TestOneFrame(t *testing.T) {
	s := newServer(t, 100, nil)
	p, _ := join(t, s, 7)
	var ls []probe.Launch
	for i := range 100 {
		ls = append(ls, launch(7, uint64(i+1), "echo", "x"))
	}
	p.send(reserve(1, ls...), probe.Ping{})
	if err := p.read(); err != nil {
		t.Fatal(err)
	}
	if len(p.msgs) != 101 {
		t.Errorf("the first frame has %d messages", len(p.msgs))
	}
}

// The kernel does not take large results at once. The event loop and other goroutines write the rest.
func TestBigResults(t *testing.T) {
	s := newServer(t, 8, func(c *Config) {
		c.Core.MaxPayload, c.MaxResult = probe.MaxBlob, probe.MaxBlob
		c.Registry = exec.NewRegistry()
		err := c.Registry.Register("echo-go",
			func(_ context.Context, payload []byte) ([]byte, error) { return payload, nil })
		if err != nil {
			t.Fatal(err)
		}
	})
	p, _ := join(t, s, 7)
	big := strings.Repeat("x", probe.MaxBlob)
	go func() { // meanwhile the test reads: the worker cuts a peer that reads nothing for 10 s
		for i := range probe.ResID(8) {
			m := reserve(i+1, launch(7, uint64(i+1), []string{"echo", "echo-go"}[i%2], big))
			if _, err := p.conn.Write(pushFrame(p.epoch, m)); err != nil {
				t.Error(err)
			}
		}
	}()
	for range 8 {
		if f := expect[*probe.Finished](p); string(f.Result) != big {
			t.Errorf("the result has %d bytes", len(f.Result))
		}
	}
}

// Tasks end on goroutines of their own, and each turn depends on tasks of other frontends.
func TestManyFrontends(t *testing.T) {
	const frontends, tasks = 8, 300
	s := newServer(t, 3, func(c *Config) {
		c.EventLoops = 2
		c.Core.ReadyExpiry = time.Minute // the frontends may be slow on a slow machine
		c.Registry = exec.NewRegistry()
		err := c.Registry.Register("echo-go",
			func(_ context.Context, payload []byte) ([]byte, error) { return payload, nil })
		if err != nil {
			t.Fatal(err)
		}
	})
	done := make(chan struct{})
	for i := range probe.FrontendID(frontends) {
		p, _ := join(t, s, i+1)
		go func() {
			defer func() { done <- struct{}{} }()
			if err := p.runTasks(i+1, tasks); err != nil {
				t.Error(err)
			}
		}()
	}
	for range frontends {
		<-done
	}
	wantMetric(t, s, `phoebe_worker_tasks_total{status="succeeded"}`, "2400")
	wantMetric(t, s, "phoebe_worker_running", "0")
	wantMetric(t, s, "phoebe_worker_queue_places", "0")
}

// runTasks runs n tasks by way of places.
func (p *peer) runTasks(id probe.FrontendID, n uint64) error {
	if _, err := p.conn.Write(pushFrame(1,
		probe.Reserve{First: 1, Count: uint32(n), Job: probe.JobID{byte(id)}, Demand: probe.Slot})); err != nil {
		return err
	}
	bound, ended := uint64(0), uint64(0)
	for ended < n {
		if err := p.read(); err != nil {
			return err
		}
		var out []probe.Msg
		for _, m := range p.msgs {
			switch m := m.(type) {
			case probe.Ready:
				bound++
				function := []string{"echo", "echo-go", "sleep"}[bound%3]
				out = append(out, probe.Bind{Res: m.Res, Turn: m.Turn, Launch: launch(id, bound, function, "10us")})
			case probe.Refused:
				return fmt.Errorf("of %d bound, %d ended, one was refused: %+v", bound, ended, m)
			case *probe.Finished:
				ended++
				out = append(out, probe.Ack{Attempts: []probe.AttemptID{m.Attempt}})
			}
		}
		p.msgs = p.msgs[:0]
		if len(out) == 0 {
			continue
		}
		if _, err := p.conn.Write(pushFrame(1, out...)); err != nil {
			return err
		}
	}
	return nil
}

// A frontend's task leaves a slot, and the slot goes to another frontend, whatever event loop serves it.
func TestTwoFrontends(t *testing.T) {
	for _, loops := range []int{1, 2} {
		s := newServer(t, 1, func(c *Config) { c.EventLoops = loops })
		a, _ := join(t, s, 7)
		b, _ := join(t, s, 8)
		a.send(reserveOne(1))
		turn := expect[probe.Ready](a)
		b.send(reserveOne(1), probe.Ping{})
		expect[probe.Pong](b)
		a.send(probe.Bind{Res: 1, Turn: turn.Turn, Launch: launch(7, 1, "echo", "x")})
		expect[probe.Ready](b)
		expect[*probe.Finished](a)
	}
}

func TestDrain(t *testing.T) {
	s := newServer(t, 1, nil)
	p, _ := join(t, s, 7)
	p.send(reserve(1, launch(7, 1, "sleep", "50ms")), reserveOne(2), probe.Ping{})
	expect[probe.Pong](p)
	drained := make(chan error, 1)
	go func() { drained <- s.Drain(t.Context()) }()
	expect[probe.Drain](p)
	if m := expect[probe.Evicted](p); m.First != 2 || m.Reason != probe.Leaving {
		t.Errorf("the waiting place gets %+v", m)
	}
	p.send(reserveOne(3))
	if m := expect[probe.Refused](p); m.Reason != probe.Leaving {
		t.Errorf("a new place gets %+v", m)
	}
	if _, w := join(t, s, 8); !w.Draining {
		t.Error("a new frontend is not told that the worker drains")
	}
	f := expect[*probe.Finished](p)
	select {
	case err := <-drained:
		t.Errorf("drained before the result was acknowledged: %v", err)
	default:
	}
	p.send(probe.Ack{Attempts: []probe.AttemptID{f.Attempt}})
	if err := <-drained; err != nil {
		t.Error(err)
	}
}

// A frontend may send a task before it learns that the worker leaves. The task gets an answer.
func TestDrainAnswersLateMessages(t *testing.T) {
	s := newServer(t, 1, func(c *Config) { c.Core.ReadyExpiry = time.Minute })
	p, _ := join(t, s, 7)
	q, _ := join(t, s, 8)
	p.send(reserveOne(1))
	turn := expect[probe.Ready](p)
	gone := make(chan error, 1)
	go func() { gone <- errors.Join(s.Drain(t.Context()), s.Close()) }()
	expect[probe.Drain](p)
	expect[probe.Drain](q)
	q.send(reserve(1, launch(8, 1, "echo", "x")))
	if m := expect[probe.Refused](q); m.First != 1 || m.Reason != probe.Leaving {
		t.Errorf("a task gets %+v", m)
	}
	p.send(probe.Bind{Res: 1, Turn: turn.Turn, Launch: launch(7, 1, "echo", "x")})
	p.send(probe.Ack{Attempts: []probe.AttemptID{expect[*probe.Finished](p).Attempt}}, probe.Ping{})
	expect[probe.Pong](p)
	select {
	case err := <-gone:
		t.Errorf("gone before the minute is over: %v", err)
	default:
	}
	p.conn.Close()
	q.conn.Close() // a frontend that is gone needs no answer
	if err := <-gone; err != nil {
		t.Error(err)
	}
}

func TestDrainThatTakesTooLong(t *testing.T) {
	s := newServer(t, 1, nil)
	p, _ := join(t, s, 7)
	p.send(reserve(1, launch(7, 1, "sleep", "1h")), probe.Ping{})
	expect[probe.Pong](p)
	late := errors.New("late")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(late)
	if err := s.Drain(ctx); !errors.Is(err, late) {
		t.Errorf("got %v", err)
	}
	if s.Err() != nil {
		t.Error(s.Err())
	}
	if err := s.Close(); err != nil { // with the task still running
		t.Error(err)
	}
	p.waitClosed()
	<-s.Done()
	if err := s.Err(); err != nil {
		t.Errorf("after Close, Err is %v", err)
	}
	wantMetric(t, s, "phoebe_worker_running", "0")
}

func TestStubbornTask(t *testing.T) {
	release := make(chan struct{})
	reg := exec.NewRegistry()
	if err := reg.Register("stubborn",
		func(context.Context, []byte) ([]byte, error) { <-release; return nil, nil }); err != nil {
		t.Fatal(err)
	}
	s, err := New(Config{Listen: "127.0.0.1:0", Registry: reg, Goroutines: withGoroutines})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	p, _ := join(t, s, 7)
	p.send(reserve(1, launch(7, 1, "stubborn", "")), probe.Ping{})
	expect[probe.Pong](p)
	if err := s.Close(); err == nil || !strings.Contains(err.Error(), "1 task") {
		t.Errorf("Close says %v", err)
	}
	wantMetric(t, s, "phoebe_worker_running", "0")
	close(release)
	if err := s.pool.Close(t.Context()); err != nil { // now the pool can let go of its alarm
		t.Error(err)
	}
}

// A function of an embedding program may panic or block, without harm to other tasks.
func TestPanickingTask(t *testing.T) {
	reg := exec.NewRegistry()
	if err := reg.Register("boom", func(context.Context, []byte) ([]byte, error) { panic("boom") }); err != nil {
		t.Fatal(err)
	}
	s := newServer(t, 1, func(c *Config) { c.Registry = reg })
	p, _ := join(t, s, 7)
	p.send(reserve(1, launch(7, 1, "boom", "")))
	if f := expect[*probe.Finished](p); f.Status != probe.Panicked || !strings.Contains(f.Error, "boom") {
		t.Errorf("got %+v", f)
	}
}

func TestEngineThatStops(t *testing.T) {
	s := newServer(t, 1, nil)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	switch e := s.engine.(type) {
	case *gnetEngine:
		_ = e.gnet.Stop(ctx)
	case *goEngine:
		e.listener.Close()
	}
	<-s.Done()
	if err := s.Err(); err == nil || !strings.Contains(err.Error(), "stopped by itself") {
		t.Errorf("got %v", err)
	}
}

func TestStartTwice(t *testing.T) {
	s := newServer(t, 1, nil)
	if err := s.Start(); err == nil {
		t.Error("started twice")
	}
	other, err := New(Config{Listen: s.Addr().String(), Goroutines: withGoroutines})
	if err != nil {
		t.Fatal(err)
	}
	if err := other.Start(); err == nil || !strings.Contains(err.Error(), "in use") {
		t.Errorf("listening where another does gives %v", err)
	}
	if err := other.Close(); err != nil {
		t.Error(err)
	}
}

func TestValidate(t *testing.T) {
	if n := probe.Slot.Times((Config{}).withDefaults().Core.Capacity); int(n) != runtime.NumCPU() {
		t.Errorf("%d slots by default, on %d CPUs", n, runtime.NumCPU())
	}
	if err := (Config{}).Validate(); err != nil {
		t.Errorf("the zero Config: %v", err)
	}
	if err := (Config{Listen: "0.0.0.0:0", Secret: "xyzzy"}).Validate(); err != nil {
		t.Error(err)
	}
	for _, listen := range []string{":0", "0.0.0.0:7420", "[::]:7420", "192.0.2.1:7420"} {
		if err := (Config{Listen: listen}).Validate(); err == nil || !strings.Contains(err.Error(), "set a secret") {
			t.Errorf("listening on %s without a secret: %v", listen, err)
		}
	}
	for _, listen := range []string{"127.0.0.2:1", "[::1]:1", "localhost:1"} {
		if err := (Config{Listen: listen}).Validate(); err != nil {
			t.Errorf("listening on %s without a secret: %v", listen, err)
		}
	}
	err := Config{
		Listen: "here", Labels: []string{"blue"}, MaxConns: -1, MaxFrame: 1, MaxLease: 1, OutboundLimit: 1,
		Core: worker.Config{Capacity: probe.Demand{CPU: -5, Mem: 1}, Grace: -1},
	}.Validate()
	for _, want := range []string{`"here"`, `"blue"`, "connection limit is -1", "frame limit", "lease", "outbound",
		"millicores is -5", "grace"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not speak of %s", err, want)
		}
	}
}

func TestRaiseFileLimit(t *testing.T) {
	if n := RaiseFileLimit(1); n < 1 {
		t.Errorf("%d files", n)
	}
	if n := RaiseFileLimit(64); n < 64 {
		t.Errorf("%d files", n)
	}
}
