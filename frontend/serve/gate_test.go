package serve

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cloudwego/gopkg/protocol/thrift"
	"golang.org/x/sync/semaphore"

	"github.com/phoebe-sched/phoebe/idl/gen/phoebe/v1"
)

// raw is a connection on which a test says what it likes.
type raw struct {
	*testing.T
	net.Conn
}

func connect(t *testing.T, c *cluster) *raw {
	t.Helper()
	conn, err := net.Dial("tcp", c.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	conn.SetDeadline(time.Now().Add(time.Minute))
	return &raw{t, conn}
}

// at is the connection as the server has it.
func (r *raw) at(c *cluster) *clientConn {
	c.listener.mu.Lock()
	defer c.listener.mu.Unlock()
	for conn := range c.listener.conns {
		if conn.RemoteAddr().String() == r.LocalAddr().String() {
			return conn
		}
	}
	return nil
}

// frame is that of a call.
func frameOf(method string, args thrift.FastCodec) []byte {
	b := thrift.Binary.AppendMessageBegin(make([]byte, 4), method, thrift.CALL, 1)
	body := make([]byte, args.BLength())
	b = append(b, body[:args.FastWriteNocopy(body, nil)]...)
	binary.BigEndian.PutUint32(b, uint32(len(b)-4))
	return b
}

// runFrame is the call of Run by a client with this secret.
func runFrame(secret string, j *v1.Job) []byte {
	return frameOf("Run", &v1.PhoebeRunArgs{Request: &v1.RunRequest{Caller: &v1.Caller{Secret: &secret}, Job: j}})
}

func (r *raw) says(b []byte) {
	r.Helper()
	if _, err := r.Write(b); err != nil {
		r.Fatal(err)
	}
}

// hears reads the answer to a Run.
func (r *raw) hears() *v1.PhoebeRunResult {
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

func (r *raw) refused(reason v1.RefusedReason, says string) {
	r.Helper()
	res := r.hears()
	if res.Refused == nil {
		r.Fatalf("it was not refused: %+v", res)
	}
	refusal(r.T, res.Refused, reason, says)
}

func (r *raw) closed() {
	r.Helper()
	if n, err := io.Copy(io.Discard, r); n > 0 || err != nil {
		r.Fatalf("%d bytes and %v, want the end", n, err)
	}
}

// gone is closed, or cut.
func (r *raw) gone() {
	r.Helper()
	if n, err := io.Copy(io.Discard, r); n > 0 || err != nil && !errors.Is(err, syscall.ECONNRESET) {
		r.Fatalf("%d bytes and %v, want the end", n, err)
	}
}

// padded is a job of so many bytes.
func padded(size int) *v1.Job {
	j := job("echo", "x")
	j.Tenant = "t"
	for size > 0 {
		t := v1.NewTask()
		t.FunctionName, t.Payload = "echo", bytes.Repeat([]byte("p"), min(size, 1<<20))
		j.Tasks = append(j.Tasks, t)
		size -= len(t.Payload)
	}
	return j
}

// A stranger is answered before more than a few KiB of what it says are read.
func TestStrangers(t *testing.T) {
	c := startCluster(t, 0, 1, func(cfg *Config) { cfg.Secret = "sesame" })
	polite := connect(t, c)
	for range 3 {
		polite.says(runFrame("parsley", job("echo", "x")))
		polite.refused(v1.RefusedReason_UNAUTHORIZED, "secret")
	}
	if n := c.metrics.unauthorized.Get(); n < 3 {
		t.Errorf("%d unauthorized calls were counted", n)
	}
	for name, frame := range map[string][]byte{
		"wrong":  runFrame("parsley", padded(1<<20)),
		"none":   frameOf("Run", &v1.PhoebeRunArgs{Request: &v1.RunRequest{Job: padded(1 << 20)}}),
		"prefix": runFrame("sesam", padded(1<<20)),
	} {
		t.Run(name, func(t *testing.T) {
			greedy := connect(t, c)
			greedy.says(frame[:100]) // it never says the rest
			greedy.refused(v1.RefusedReason_UNAUTHORIZED, "secret")
			greedy.closed()
		})
	}
	slow := connect(t, c)
	slow.says(runFrame("parsley", job("echo", "x"))[:50])
	idle := connect(t, c)
	friend := connect(t, c)
	friend.says(runFrame("sesame", job("echo", "x")))
	friend.refused(v1.RefusedReason_NO_WORKER, "") // it came last: the others have arrived, too
	c.listener.mu.Lock()
	for conn := range c.listener.conns {
		conn.since = conn.since.Add(-strangeFor)
	}
	c.listener.mu.Unlock()
	c.listener.sweep()
	slow.gone() // what it said may not have been read yet
	idle.closed()
	friend.says(runFrame("sesame", job("echo", "x")))
	friend.refused(v1.RefusedReason_NO_WORKER, "")
}

// A large request waits for room, and is refused if there is none in time; the connection goes on.
func TestRoom(t *testing.T) {
	c := startCluster(t, 1, 1, func(cfg *Config) { cfg.MaxRequest = 4 << 20; cfg.Core.MaxTasksPerJob = 100 })
	c.gate.patience = time.Millisecond
	all := int64(2 * c.cfg.MaxRequest)
	r := connect(t, c)
	for name, room := range map[string]struct {
		of    *semaphore.Weighted
		taken int64
	}{
		"to read":   {c.gate.reading, all},
		"to decode": {c.gate.decoded, crowd},
	} {
		if !room.of.TryAcquire(room.taken) {
			t.Fatalf("something holds room %s", name)
		}
		r.says(runFrame("", padded(1<<20)))
		res := r.hears()
		if res.Refused == nil || res.Refused.Reason != v1.RefusedReason_OVERLOADED || res.Refused.RetryAfterUs <= 0 {
			t.Fatalf("no room %s: %+v", name, res)
		}
		r.says(runFrame("", job("echo", "small")))
		if res := r.hears(); res.Success == nil {
			t.Fatalf("no room %s: a small request was refused, too: %v", name, res.Refused)
		}
		if room.of == c.gate.decoded {
			r.says(runFrame("", job("echo", make([]string, 50)...)))
			r.refused(v1.RefusedReason_OVERLOADED, "come back later")
		}
		room.of.Release(room.taken)
		r.says(runFrame("", padded(1<<20)))
		if res := r.hears(); res.Success == nil {
			t.Fatalf("room %s: %v", name, res.Refused)
		}
		if !room.of.TryAcquire(room.taken) { // the request was answered, and its room freed before
			t.Fatalf("something still holds room %s", name)
		}
		room.of.Release(room.taken)
	}
}

// What a large request may not be.
func TestLargeRequests(t *testing.T) {
	c := startCluster(t, 1, 1, func(cfg *Config) { cfg.MaxRequest = 4 << 20; cfg.Core.MaxTasksPerJob = 100 })
	ctx := context.Background()
	crowded := job("echo", make([]string, 40_000)...)
	_, err := c.client.Submit(ctx, &v1.SubmitRequest{Job: crowded})
	refusal(t, err, v1.RefusedReason_TOO_LARGE, "bytes of memory: split it")
	_, err = c.client.Cancel(ctx, &v1.CancelRequest{Handle: &v1.Handle{Job: newID()}, Reason: strings.Repeat("r", 10_000)})
	refusal(t, err, v1.RefusedReason_TOO_LARGE, "only Run, Submit and Extend")
	big := connect(t, c)
	big.says(runFrame("", padded(5<<20))[:1000])
	big.refused(v1.RefusedReason_TOO_LARGE, "the limit is 4194304: split the job")
	big.closed()

	// As much as may be, and half of it never comes.
	half := connect(t, c)
	half.says(runFrame("", padded(3<<20))[:1<<20])
	whole := connect(t, c)
	whole.says(runFrame("", padded(3<<20)))
	if res := whole.hears(); res.Success == nil {
		t.Errorf("beside one who is slow: %v", res.Refused)
	}
	half.Close()
	poll(t, "the room of one that hung up", func() bool {
		if !c.gate.reading.TryAcquire(8 << 20) {
			return false
		}
		c.gate.reading.Release(8 << 20)
		return true
	})
}
