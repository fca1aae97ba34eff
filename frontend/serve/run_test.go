package serve

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/phoebe-sched/phoebe/idl/gen/phoebe/v1"
	"github.com/phoebe-sched/phoebe/probe"
)

// readSeqResult reads the answer to the next Run on a connection, with the number of the call.
func (r *rawConn) readSeqResult() (*v1.PhoebeRunResult, int32) {
	r.Helper()
	head := make([]byte, 4)
	if _, err := io.ReadFull(r, head); err != nil {
		r.Fatal(err)
	}
	b := make([]byte, binary.BigEndian.Uint32(head))
	if _, err := io.ReadFull(r, b); err != nil {
		r.Fatal(err)
	}
	res := &v1.PhoebeRunResult{}
	if n, err := res.FastRead(b[15:]); err != nil || n != len(b)-15 {
		r.Fatalf("%d bytes of %d: %v", n, len(b)-15, err)
	}
	return res, int32(binary.BigEndian.Uint32(b[11:]))
}

// numberedRun makes a Run with a given number.
func numberedRun(seq uint32, j *v1.Job) []byte {
	b := runFrame("", j)
	binary.BigEndian.PutUint32(b[4+4+4+len("Run"):], seq)
	return b
}

// Calls sent before the first is answered are answered in order, even if a later job ends first.
func TestRunsInTurn(t *testing.T) {
	c := startCluster(t, 1, 4)
	r := connectRaw(t, c)
	r.writeBytes(append(numberedRun(7, newJob("sleep", "30ms")), numberedRun(8, newJob("echo", "eight"))...))
	r.writeBytes(numberedRun(9, newJob("no such function", "x")))
	r.writeBytes(numberedRun(10, newJob("echo", "ten")))
	for _, want := range []struct {
		seq    int32
		result string
	}{{7, ""}, {8, "eight"}, {9, "refused"}, {10, "ten"}} {
		res, seq := r.readSeqResult()
		if seq != want.seq {
			t.Fatalf("the answer to call %d, want %d", seq, want.seq)
		}
		if want.result == "refused" {
			wantRefused(t, res.Refused, v1.RefusedReason_NO_WORKER, "")
		} else if res.Success == nil || string(res.Success.Outcomes[0].Result_) != want.result {
			t.Errorf("call %d: %v", seq, res)
		}
	}
}

// A client that falls silent after its call still gets the answer.
func TestRunOfOneThatIsSilent(t *testing.T) {
	c := startCluster(t, 1, 4)
	r := connectRaw(t, c)
	r.writeBytes(numberedRun(1, newJob("sleep", "30ms")))
	if err := r.Conn.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if res, _ := r.readSeqResult(); res.Success == nil {
		t.Errorf("%v", res)
	}
	r.wantClosed()
}

// A client's time limit to send a call does not run while the client waits for an answer.
func TestRunForLong(t *testing.T) {
	c := startCluster(t, 1, 4)
	r := connectRaw(t, c)
	r.writeBytes(numberedRun(1, newJob("sleep", "100ms")))
	pollUntil(t, "the job to run", func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.core.Jobs() == 1
	})
	conn := r.serverConn(c)
	pollUntil(t, "the connection to be read", conn.reading.Load)
	conn.Conn.SetReadDeadline(time.Now())
	for _, seq := range []uint32{1, 2} {
		if res, _ := r.readSeqResult(); res.Success == nil {
			t.Errorf("%v", res)
		}
		if seq == 1 {
			r.writeBytes(numberedRun(2, newJob("echo", "x")))
		}
	}
}

// If a client does not read an answer, no further client is delayed. Once the client reads, it gets the whole
// answer.
func TestRunOfOneThatDoesNotRead(t *testing.T) {
	c := startCluster(t, 1, 4)
	r := connectRaw(t, c)
	payload := strings.Repeat("p", 1<<19)
	payloads := make([]string, 30)
	for i := range payloads {
		payloads[i] = payload
	}
	r.writeBytes(numberedRun(1, newJob("echo", payloads...)))
	r.writeBytes(numberedRun(2, newJob("echo", "two")))
	conn := r.serverConn(c)
	pollUntil(t, "the answer to be on its way", func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.core.Jobs() == 0 && conn.usedAt.Load() > 0 && len(c.endedJobs.list) == 1
	})
	for range 10 {
		if _, err := c.client.Run(context.Background(), &v1.RunRequest{Job: newJob("echo", "x")}); err != nil {
			t.Fatal(err)
		}
	}
	res, _ := r.readSeqResult()
	if res.Success == nil || len(res.Success.Outcomes) != len(payloads) {
		t.Fatalf("refused: %v", res.Refused)
	}
	for _, o := range res.Success.Outcomes {
		if !bytes.Equal(o.Result_, []byte(payload)) {
			t.Fatalf("task %d has %d bytes", o.Task, len(o.Result_))
		}
	}
	if res, seq := r.readSeqResult(); seq != 2 || res.Success == nil {
		t.Errorf("the next call: %d, %v", seq, res)
	}
}

// A repeated Run on another connection is answered, too: while the job is under way, and when the job has ended.
func TestRunAgain(t *testing.T) {
	c := startCluster(t, 1, 4)
	j := newJob("sleep", "100ms", "1ms")
	first, second := connectRaw(t, c), connectRaw(t, c)
	first.writeBytes(numberedRun(1, j))
	second.writeBytes(numberedRun(2, j))
	for seq, r := range []*rawConn{1: first, 2: second} {
		if r == nil {
			continue
		}
		if res, n := r.readSeqResult(); int(n) != seq || res.Success == nil || len(res.Success.Outcomes) != 2 {
			t.Errorf("answer %d: %v", n, res)
		}
	}
	first.writeBytes(numberedRun(3, j))
	if res, n := first.readSeqResult(); n != 3 || res.Success == nil || len(res.Success.Outcomes) != 2 ||
		res.Success.Handle.Job != j.Id {
		t.Errorf("answer %d: %v", n, res)
	}
	events, err := c.client.Events(context.Background(), &v1.EventsRequest{Handle: &v1.Handle{Job: j.Id}, Cursor: 1})
	if err != nil || len(events.Events) != 1 || !events.Done || events.Cursor != 2 ||
		events.Events[0].Outcome.Task != 0 {
		t.Errorf("events of a Run: %v, %v", events, err)
	}
	if n := c.coreStats().Tasks; n != 2 {
		t.Errorf("%d tasks were run", n)
	}
}

// A client that makes the next call on a connection has the last answer. So the workers may forget the results.
func TestRunArrives(t *testing.T) {
	c := startCluster(t, 1, 4)
	client := connectRaw(t, c)
	unheard := func(j *v1.Job) int {
		id, err := probe.ParseJobID(j.Id)
		if err != nil {
			t.Fatal(err)
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		return len(c.jobs[id].receipts)
	}
	first, second := newJob("echo", "a", "b"), newJob("echo", "c")
	began := time.Now()
	client.writeBytes(numberedRun(1, first))
	client.readSeqResult()
	if n := unheard(first); n != 2 && time.Since(began) < arrivesWithin {
		t.Errorf("%d results are kept before the next call, want both", n)
	}
	client.writeBytes(numberedRun(2, second))
	client.readSeqResult()
	if n := unheard(first); n != 0 {
		t.Errorf("%d results are kept after the next call", n)
	}
}

// A Run whose results are too large is told to use Submit. The Submit runs the job again under its id, unless a task
// may start only once.
func TestSubmitAfterTooLargeRun(t *testing.T) {
	c := startCluster(t, 1, 2, func(cfg *Config) { cfg.MaxRunResult = 1000 })
	ctx := context.Background()
	big := strings.Repeat("p", 600)
	for _, retryable := range []bool{true, false} {
		j := newJob("echo", big, big)
		for _, task := range j.Tasks {
			task.Retryable = retryable
		}
		for range 2 { // also when asked again
			_, err := c.client.Run(ctx, &v1.RunRequest{Job: j})
			wantRefused(t, err, v1.RefusedReason_TOO_LARGE, "use Submit and Events")
		}
		_, err := c.client.Events(ctx, &v1.EventsRequest{Handle: &v1.Handle{Job: j.Id}, MaxWaitUs: 30e6})
		wantRefused(t, err, v1.RefusedReason_TOO_LARGE, "use Submit and Events")
		res, err := c.client.Submit(ctx, &v1.SubmitRequest{Job: j})
		if !retryable {
			wantRefused(t, err, v1.RefusedReason_TOO_LARGE, "under another id")
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if tasks, done := readAll(t, c, res.Handle, 9); len(tasks) != 2 || !done {
			t.Errorf("outcomes of tasks %v, done %t", tasks, done)
		}
		again, err := c.client.Submit(ctx, &v1.SubmitRequest{Job: j})
		if err != nil || *again.Handle != *res.Handle {
			t.Errorf("submitted again: %v, %v", again, err)
		}
	}
	if n := c.coreStats().Tasks; n != 6 {
		t.Errorf("%d tasks were run, want 4 by Run and 2 by Submit", n)
	}
}

// A connection whose client waits for the answer to a Run is not idle, however long the job takes.
func TestLongRunIsNotIdle(t *testing.T) {
	c := startCluster(t, 1, 1)
	waits, idle := connectRaw(t, c), connectRaw(t, c)
	idle.writeBytes(runFrame("", newJob("echo", "a")))
	idle.readRunResult()
	waits.writeBytes(runFrame("", newJob("sleep", "1h")))
	pollUntil(t, "the job", func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.core.Jobs() == 1
	})
	pollUntil(t, "the other client's next call", func() bool { return idle.serverConn(c).reading.Load() })
	for _, conn := range []*rawConn{waits, idle} {
		conn.serverConn(c).usedAt.Store(monotonicNow() - int64(idleTimeout) - 1)
	}
	c.listener.sweepIdle()
	if waits.serverConn(c) == nil {
		t.Error("the connection was closed, although its client waits for the answer")
	}
	idle.wantClosed()
}
