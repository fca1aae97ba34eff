package serve

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cloudwego/gopkg/protocol/thrift"

	"github.com/phoebe-sched/phoebe/idl/gen/phoebe/v1"
	"github.com/phoebe-sched/phoebe/probe/sock"
)

// rawConn is a connection on which a test sends any bytes.
type rawConn struct {
	*testing.T
	net.Conn
}

func connectRaw(t *testing.T, c *testCluster) *rawConn {
	t.Helper()
	conn, err := net.Dial("tcp", c.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	conn.SetDeadline(time.Now().Add(time.Minute))
	return &rawConn{t, conn}
}

// serverConn returns the server's end of the connection.
func (r *rawConn) serverConn(c *testCluster) *clientConn {
	c.listener.mu.Lock()
	defer c.listener.mu.Unlock()
	for conn := range c.listener.conns {
		if conn.RemoteAddr().String() == r.LocalAddr().String() {
			return conn
		}
	}
	return nil
}

// frameOf makes the frame of a call.
func frameOf(method string, args thrift.FastCodec) []byte {
	b := thrift.Binary.AppendMessageBegin(make([]byte, 4), method, thrift.CALL, 1)
	body := make([]byte, args.BLength())
	b = append(b, body[:args.FastWriteNocopy(body, nil)]...)
	binary.BigEndian.PutUint32(b, uint32(len(b)-4))
	return b
}

// runFrame makes a call of Run by a client with this secret.
func runFrame(secret string, j *v1.Job) []byte {
	return frameOf("Run", &v1.PhoebeRunArgs{Request: &v1.RunRequest{Caller: &v1.Caller{Secret: &secret}, Job: j}})
}

func (r *rawConn) writeBytes(b []byte) {
	r.Helper()
	if _, err := r.Write(b); err != nil {
		r.Fatal(err)
	}
}

// readRunResult reads the answer to a Run.
func (r *rawConn) readRunResult() *v1.PhoebeRunResult {
	r.Helper()
	head := make([]byte, 4)
	if _, err := io.ReadFull(r, head); err != nil {
		r.Fatal(err)
	}
	b := make([]byte, binary.BigEndian.Uint32(head))
	if _, err := io.ReadFull(r, b); err != nil {
		r.Fatal(err)
	}
	_, kind, _, n, err := thrift.Binary.ReadMessageBegin(b)
	res := &v1.PhoebeRunResult{}
	if _, err2 := res.FastRead(b[n:]); err != nil || err2 != nil || kind != thrift.REPLY {
		r.Fatalf("an answer of type %d: %v %v", kind, err, err2)
	}
	return res
}

func (r *rawConn) wantRefused(reason v1.RefusedReason, says string) {
	r.Helper()
	res := r.readRunResult()
	if res.Refused == nil {
		r.Fatalf("it was not refused: %+v", res)
	}
	wantRefused(r.T, res.Refused, reason, says)
}

func (r *rawConn) wantClosed() {
	r.Helper()
	if n, err := io.Copy(io.Discard, r); n > 0 || err != nil {
		r.Fatalf("%d bytes and %v, want the end", n, err)
	}
}

// wantGone fails unless the connection is closed or reset.
func (r *rawConn) wantGone() {
	r.Helper()
	if n, err := io.Copy(io.Discard, r); n > 0 || err != nil && !errors.Is(err, syscall.ECONNRESET) {
		r.Fatalf("%d bytes and %v, want the end", n, err)
	}
}

// paddedJob makes a job with payloads of size bytes.
func paddedJob(size int) *v1.Job {
	j := newJob("echo", "x")
	j.Tenant = "t"
	for size > 0 {
		t := v1.NewTask()
		t.FunctionName, t.Payload = "echo", bytes.Repeat([]byte("p"), min(size, 1<<20))
		j.Tasks = append(j.Tasks, t)
		size -= len(t.Payload)
	}
	return j
}

// The frontend answers a stranger after a few KiB of the call at most.
func TestStrangers(t *testing.T) {
	c := startCluster(t, 0, 1, func(cfg *Config) { cfg.Secret = "sesame" })
	polite := connectRaw(t, c)
	for range 3 {
		polite.writeBytes(runFrame("parsley", newJob("echo", "x")))
		polite.wantRefused(v1.RefusedReason_UNAUTHORIZED, "secret")
	}
	polite.wantClosed() // three guesses are enough
	if n := c.metrics.unauthorized.Get(); n < 3 {
		t.Errorf("%d unauthorized calls were counted", n)
	}
	for name, frame := range map[string][]byte{
		"wrong":  runFrame("parsley", paddedJob(1<<20)),
		"none":   frameOf("Run", &v1.PhoebeRunArgs{Request: &v1.RunRequest{Job: paddedJob(1 << 20)}}),
		"prefix": runFrame("sesam", paddedJob(1<<20)),
	} {
		t.Run(name, func(t *testing.T) {
			greedy := connectRaw(t, c)
			greedy.writeBytes(frame[:100]) // the rest never comes
			greedy.wantRefused(v1.RefusedReason_UNAUTHORIZED, "secret")
			greedy.wantClosed()
		})
	}
	slow := connectRaw(t, c)
	slow.writeBytes(runFrame("parsley", newJob("echo", "x"))[:50])
	idle := connectRaw(t, c)
	friend := connectRaw(t, c)
	friend.writeBytes(runFrame("sesame", newJob("echo", "x")))
	friend.wantRefused(
		v1.RefusedReason_NO_WORKER, "") // its connection came last, so all connections have been accepted
	c.listener.door.CloseLate(time.Now().Add(time.Minute))
	slow.wantGone() // reset, if the frontend had not read all bytes
	idle.wantClosed()
	friend.writeBytes(runFrame("sesame", newJob("echo", "x")))
	friend.wantRefused(v1.RefusedReason_NO_WORKER, "")
}

// A large request waits for room. If there is none in time, the request is refused and the connection goes on.
func TestRoom(t *testing.T) {
	c := startCluster(t, 1, 1, func(cfg *Config) { cfg.MaxRequest = 4 << 20; cfg.Core.MaxTasksPerJob = 100 })
	c.gate.patience = time.Millisecond
	r := connectRaw(t, c)
	for name, take := range map[string]func() (giveBack func()){
		"to read": func() func() {
			first, second := c.gate.readingRoom.addRequest("first"), c.gate.readingRoom.addRequest("second")
			if !first.addBytes(c.cfg.MaxRequest, 0) || !second.addBytes(c.cfg.MaxRequest, 0) {
				t.Fatal("the room to read is taken")
			}
			third := c.gate.readingRoom.addRequest("third")
			if !third.addBytes(c.cfg.MaxRequest/4, 0) || third.addBytes(64<<10, 0) {
				t.Fatal("a third tenant gets no share of the rest, or more than its share")
			}
			fourth := c.gate.readingRoom.addRequest("") // of the callers of this test
			for fourth.addBytes(4<<10, 0) {
			}
			return func() { first.release(); second.release(); third.release(); fourth.release() }
		},
		"to decode": func() func() {
			if !c.gate.decodedBytes.TryAcquire(maxDecoded) {
				t.Fatal("the room to decode is taken")
			}
			return func() { c.gate.decodedBytes.Release(maxDecoded) }
		},
	} {
		giveBack := take()
		r.writeBytes(runFrame("", paddedJob(1<<20)))
		res := r.readRunResult()
		if res.Refused == nil || res.Refused.Reason != v1.RefusedReason_OVERLOADED || res.Refused.RetryAfterUs <= 0 {
			t.Fatalf("no room %s: %+v", name, res)
		}
		r.writeBytes(runFrame("", newJob("echo", "small")))
		if res := r.readRunResult(); res.Success == nil {
			t.Fatalf("no room %s: a small request was refused, too: %v", name, res.Refused)
		}
		if name == "to decode" {
			r.writeBytes(runFrame("", newJob("echo", make([]string, 50)...)))
			r.wantRefused(v1.RefusedReason_OVERLOADED, "come back later")
		}
		giveBack()
		r.writeBytes(runFrame("", paddedJob(1<<20)))
		if res := r.readRunResult(); res.Success == nil {
			t.Fatalf("room %s: %v", name, res.Refused)
		}
		take()() // the request was answered, and its room freed before the answer
	}
}

// Clients that announce large requests, and send only the beginnings, keep no other request out. Neither do clients
// of one tenant that send half.
func TestAnnouncedBytesTakeNoRoom(t *testing.T) {
	c := startCluster(t, 1, 1, func(cfg *Config) { cfg.MaxRequest = 4 << 20 })
	head := runFrame("", paddedJob(4<<20-1<<16))[:144]
	for range 40 {
		connectRaw(t, c).writeBytes(head)
	}
	victim := connectRaw(t, c)
	for range 2 {
		victim.writeBytes(runFrame("", paddedJob(20<<10)))
		if res := victim.readRunResult(); res.Success == nil {
			t.Fatalf("beside requests of which only the heads came: %v", res.Refused)
		}
	}
	whole := connectRaw(t, c)
	whole.writeBytes(runFrame("", paddedJob(2<<20)))
	if res := whole.readRunResult(); res.Success == nil {
		t.Fatalf("a request of 2 MiB beside them: %v", res.Refused)
	}
}

// Requests that are read at the same time come to their ends, one after the other, if the room is too small for all.
func TestLargestRequestsAtOnce(t *testing.T) {
	room := newReadingRoom(1 << 20)
	requests := []*requestBytes{room.addRequest("a"), room.addRequest("a"), room.addRequest("b"), room.addRequest("b")}
	ended := make(chan bool)
	for _, r := range requests {
		go func() {
			got := 0
			for got < 8 && r.addBytes(1<<17, time.Minute) { // 8 are the most bytes that a request may have
				got++
			}
			r.release()
			ended <- got == 8
		}()
	}
	for range requests {
		if !<-ended {
			t.Error("a request found no room")
		}
	}
	if room.free != newReadingRoom(1<<20).free || len(room.taken)+room.requests.Len() > 0 || room.favoured != nil {
		t.Errorf("after all requests: %d bytes free, taken %v", room.free, room.taken)
	}
	waits := []*requestBytes{room.addRequest("a"), room.addRequest("a"), room.addRequest("b")}
	if waits[0].release(); room.favoured != waits[2] {
		t.Error("the next favoured request is of the same tenant as the last")
	}
}

// A client may be late by requestGrace, not longer, however much it has sent before.
func TestPace(t *testing.T) {
	ours, theirs := net.Pipe()
	defer ours.Close()
	defer theirs.Close()
	client := &clientConn{Conn: sock.New(ours), listener: &listener{}}
	client.settled.L = &client.mu
	p := &pacedReader{client, client, requestGrace}
	go theirs.Write(make([]byte, 64<<10))
	if _, err := io.ReadFull(p, make([]byte, 64<<10)); err != nil || p.timeLeft > requestGrace {
		t.Fatalf("%v, %v left after quick bytes", err, p.timeLeft)
	}
	p.timeLeft = time.Millisecond
	if n, err := p.Read(make([]byte, 1)); n != 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("%d bytes, %v from a silent client", n, err)
	}
}

// Large requests that must be refused.
func TestLargeRequests(t *testing.T) {
	c := startCluster(t, 1, 1, func(cfg *Config) { cfg.MaxRequest = 4 << 20; cfg.Core.MaxTasksPerJob = 100 })
	ctx := context.Background()
	crowded := newJob("echo", make([]string, 40_000)...)
	_, err := c.client.Submit(ctx, &v1.SubmitRequest{Job: crowded})
	wantRefused(t, err, v1.RefusedReason_TOO_LARGE, "bytes of memory: split it")
	_, err = c.client.Cancel(ctx,
		&v1.CancelRequest{Handle: &v1.Handle{Job: newID()}, Reason: strings.Repeat("r", 10_000)})
	wantRefused(t, err, v1.RefusedReason_TOO_LARGE, "only Run, Submit and Extend")
	big := connectRaw(t, c)
	big.writeBytes(runFrame("", paddedJob(5<<20))[:1000])
	big.wantRefused(v1.RefusedReason_TOO_LARGE, "the limit is 4194304: split the job")
	big.wantClosed()

	// As large as allowed, and half of the bytes never come.
	half := connectRaw(t, c)
	half.writeBytes(runFrame("", paddedJob(3<<20))[:1<<20])
	whole := connectRaw(t, c)
	whole.writeBytes(runFrame("", paddedJob(3<<20)))
	if res := whole.readRunResult(); res.Success == nil {
		t.Errorf("beside a slow client: %v", res.Refused)
	}
	half.Close()
	pollUntil(t, "the room of one that hung up", func() bool {
		c.gate.readingRoom.mu.Lock()
		defer c.gate.readingRoom.mu.Unlock()
		return c.gate.readingRoom.requests.Len() == 0
	})
}
