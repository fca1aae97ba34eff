package serve

import (
	"context"
	"io"
	"net"
	"sync"
	"testing"

	"github.com/panjf2000/gnet/v2"

	"github.com/phoebe-sched/phoebe/probe"
	"github.com/phoebe-sched/phoebe/worker/exec"
)

// BenchmarkEcho is the floor of BenchmarkNoop: the same number of bytes there and back over an echoing
// connection. One server is Go's net, the other server is gnet.
func BenchmarkEcho(b *testing.B) {
	b.Run("net", func(b *testing.B) {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			b.Fatal(err)
		}
		var done sync.WaitGroup
		done.Go(func() {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			defer conn.Close()
			buf := make([]byte, 1<<16)
			for {
				n, err := conn.Read(buf)
				if err != nil {
					return
				}
				if _, err := conn.Write(buf[:n]); err != nil {
					return
				}
			}
		})
		pingPong(b, l.Addr())
		l.Close()
		done.Wait()
	})
	b.Run("gnet", func(b *testing.B) {
		e := &echoEngine{booted: make(chan struct{})}
		stopped := make(chan error)
		go func() {
			stopped <- gnet.Run(e, "tcp://127.0.0.1:0", gnet.WithNumEventLoop(1),
				gnet.WithLogger(gnetLog{Config{}.withDefaults().Logger}))
		}()
		<-e.booted
		pingPong(b, e.addr)
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		_ = e.gnet.Stop(ctx)
		<-stopped
	})
}

type echoEngine struct {
	gnet.BuiltinEventEngine
	gnet   gnet.Engine
	addr   net.Addr
	booted chan struct{}
}

func (e *echoEngine) OnBoot(g gnet.Engine) gnet.Action {
	e.gnet = g
	e.addr, _ = listenAddr(g)
	close(e.booted)
	return gnet.None
}

func (e *echoEngine) OnTraffic(g gnet.Conn) gnet.Action {
	data, _ := g.Next(-1)
	g.Write(data)
	return gnet.None
}

func pingPong(b *testing.B, addr net.Addr) {
	conn, err := net.Dial("tcp", addr.String())
	if err != nil {
		b.Fatal(err)
	}
	defer conn.Close()
	buf := make([]byte, len(pushFrame(1, reserve(1, launch(7, 1, "echo", "x")))))
	for b.Loop() {
		if _, err := conn.Write(buf); err != nil {
			b.Fatal(err)
		}
		if _, err := io.ReadFull(conn, buf); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkNoop measures the round trip of a ride-along task. Its result is acknowledged with the next task. The
// event loop itself calls the first function; the second function has a goroutine of its own.
func BenchmarkNoop(b *testing.B) {
	reg := exec.NewRegistry()
	err := reg.Register("echo-go", func(_ context.Context, payload []byte) ([]byte, error) { return payload, nil })
	if err != nil {
		b.Fatal(err)
	}
	s := newServer(b, 4, func(c *Config) { c.Registry = reg })
	for id, function := range []string{"echo", "echo-go"} {
		b.Run(function, func(b *testing.B) {
			id := probe.FrontendID(id + 1)
			p, _ := join(b, s, id)
			acks := make([]probe.AttemptID, 1)
			b.ReportAllocs()
			for seq := uint64(1); b.Loop(); seq++ {
				p.send(reserve(probe.ResID(seq), launch(id, seq, function, "x")), probe.Ack{Attempts: acks})
				f := expect[*probe.Finished](p)
				acks[0] = f.Attempt
				p.msgs = p.msgs[:0]
			}
		})
	}
}

// BenchmarkBatch measures Reserves of 100 ride-along tasks, one after the other (frames=1) or with several under
// way, over as many connections as frontends. An iteration is a task.
func BenchmarkBatch(b *testing.B) {
	for _, c := range []struct {
		name                     string
		frontends, frames, loops int
	}{
		{"frontends=1/frames=1/loops=1", 1, 1, 1},
		{"frontends=1/frames=4/loops=1", 1, 4, 1},
		{"frontends=2/frames=4/loops=1", 2, 4, 1},
		{"frontends=2/frames=4/loops=2", 2, 4, 2},
	} {
		b.Run(c.name, func(b *testing.B) {
			s := newServer(b, 1000, func(cfg *Config) { cfg.EventLoops = c.loops })
			b.ReportAllocs()
			var all sync.WaitGroup
			for i := range c.frontends {
				p, _ := join(b, s, probe.FrontendID(i+1))
				all.Go(func() { p.runBatches(probe.FrontendID(i+1), b.N/c.frontends/100, c.frames) })
			}
			all.Wait()
		})
	}
}

// runBatches sends n frames of 100 launches, with at most window frames unanswered.
func (p *peer) runBatches(id probe.FrontendID, n, window int) {
	const size = 100
	slots := make(chan struct{}, window)
	var acks []probe.AttemptID
	var mu sync.Mutex
	go func() {
		launches := make([]probe.Launch, size)
		var b []byte
		for i := range n {
			slots <- struct{}{}
			for k := range launches {
				launches[k] = launch(id, uint64(i*size+k+1), "echo", "x")
			}
			mu.Lock()
			acked := acks
			acks = nil
			mu.Unlock()
			var body int
			b, body = probe.BeginPush(b[:0], 1)
			b = probe.AppendMsg(b, probe.Ack{Attempts: acked})
			b = probe.AppendMsg(b, reserve(probe.ResID(i*size+1), launches...))
			if _, err := p.conn.Write(probe.EndFrame(b, body)); err != nil {
				return
			}
		}
	}()
	for got := 0; got < n*size; {
		if err := p.read(); err != nil {
			p.tb.Error(err)
			return
		}
		mu.Lock()
		for _, m := range p.msgs {
			if f, ok := m.(*probe.Finished); ok {
				acks = append(acks, f.Attempt)
				if got++; got%size == 0 {
					<-slots
				}
			}
		}
		mu.Unlock()
		p.msgs = p.msgs[:0]
	}
}
