package serve

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/phoebe-sched/phoebe/idl/gen/phoebe/v1"
	"github.com/phoebe-sched/phoebe/probe"
)

// eventsFrame makes a call of Events.
func eventsFrame(h *v1.Handle, cursor int64, wait time.Duration) []byte {
	return frameOf("Events", &v1.PhoebeEventsArgs{
		Request: &v1.EventsRequest{Handle: h, Cursor: cursor, MaxWaitUs: wait.Microseconds()}})
}

// countPolls returns the number of Events calls that wait for a job, or -1 if the job is not known.
func (c *testCluster) countPolls(job string) int {
	id, err := probe.ParseJobID(job)
	if err != nil {
		panic(err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if r := c.jobs[id]; r != nil {
		return len(r.waitingPolls)
	}
	return -1
}

// sweepLater looks for clients that are gone as if d had passed.
func (c *testCluster) sweepLater(d time.Duration) {
	c.mu.Lock()
	defer c.unlockAndFlush()
	c.sweepJobsLocked(time.Now().Add(d))
}

// hangUp closes a connection, and returns when the server's end can tell.
func (r *rawConn) hangUp(c *testCluster) {
	r.Helper()
	conn := r.serverConn(c)
	r.Close()
	pollUntil(r.T, "the connection to be seen closed", conn.hasHungUp)
}

// runOpenEcho submits an open job with a task, and fetches the outcome of the task.
func runOpenEcho(t *testing.T, c *testCluster) (*v1.Job, *v1.Handle) {
	t.Helper()
	j := newJob("echo", "a")
	j.Open = true
	res, err := c.client.Submit(context.Background(), &v1.SubmitRequest{Job: j})
	if err != nil {
		t.Fatal(err)
	}
	readAll(t, c, res.Handle, 1)
	return j, res.Handle
}

// readAll fetches outcomes from cursor 0 on until the job is done, or has n outcomes.
func readAll(t *testing.T, c *testCluster, h *v1.Handle, n int) (tasks []int32, done bool) {
	t.Helper()
	for cursor := int64(0); !done && len(tasks) < n; {
		res, err := c.client.Events(context.Background(), &v1.EventsRequest{Handle: h, Cursor: cursor, MaxWaitUs: 30e6})
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range res.Events {
			tasks = append(tasks, e.Outcome.Task)
		}
		cursor, done = res.Cursor, res.Done
	}
	slices.Sort(tasks)
	return tasks, done
}

// A job goes to another frontend and comes back. A poll of the earlier stay takes no outcome of the later stay.
func TestPollOfEarlierStay(t *testing.T) {
	c := startCluster(t, 1, 1)
	ctx := context.Background()
	j := newJob("echo", "a", "b")
	j.Open = true
	res, err := c.client.Submit(ctx, &v1.SubmitRequest{Job: j})
	if err != nil {
		t.Fatal(err)
	}
	if tasks, _ := readAll(t, c, res.Handle, 2); len(tasks) != 2 {
		t.Fatalf("outcomes of %v", tasks)
	}
	stale := make(chan error, 1)
	go func() {
		_, err := dialAPI(t, c.Addr()).Events(ctx, &v1.EventsRequest{Handle: res.Handle, Cursor: 2, MaxWaitUs: 60e6})
		stale <- err
	}()
	pollUntil(t, "the poll", func() bool { return c.countPolls(j.Id) == 1 })

	again := newJob("echo", "a", "b", "c", "d", "e")
	again.Id = j.Id
	again.Resubmission = &v1.Resubmission{PreviousOwner: "127.0.0.1:1", Count: 1}
	if res, err = c.client.Submit(ctx, &v1.SubmitRequest{Job: again}); err != nil {
		t.Fatal(err)
	}
	wantRefused(t, <-stale, v1.RefusedReason_OWNER_LOST, "lost the job")
	// A call with a cursor of the earlier stay that arrives only now.
	_, err = c.client.Events(ctx, &v1.EventsRequest{Handle: res.Handle, Cursor: 20, MaxWaitUs: 60e6})
	wantRefused(t, err, v1.RefusedReason_OWNER_LOST, "cursor 20")
	// A call that was on its way when its client hung up.
	late := connectRaw(t, c)
	late.writeBytes(eventsFrame(res.Handle, 0, 0)) // makes the server know the connection
	pollUntil(t, "the connection", func() bool { return late.serverConn(c) != nil })
	gone := late.serverConn(c)
	late.hangUp(c)
	ctxGone := context.WithValue(ctx, visitorKey{}, &visitor{client: gone})
	_, err = (&handler{c.Server}).Events(ctxGone, &v1.EventsRequest{Handle: res.Handle, Cursor: 1})
	wantRefused(t, err, v1.RefusedReason_OWNER_LOST, "closed")

	if tasks, done := readAll(t, c, res.Handle, 9); len(tasks) != 5 || !done {
		t.Errorf("outcomes of %v, done %t; want all 5", tasks, done)
	}
}

// A cursor below zero asks from the start, and a wait as long as can be waits.
func TestEventsAtTheLimits(t *testing.T) {
	c := startCluster(t, 1, 1)
	ctx := context.Background()
	j := newJob("echo", "a", "b", "c")
	h, err := c.client.Submit(ctx, &v1.SubmitRequest{Job: j})
	if err != nil {
		t.Fatal(err)
	}
	readAll(t, c, h.Handle, 2)
	for _, cursor := range []int64{1, -1 << 63, -1} { // 1 acknowledges an outcome
		res, err := c.client.Events(ctx, &v1.EventsRequest{Handle: h.Handle, Cursor: cursor, MaxWaitUs: 30e6})
		if err != nil || len(res.Events) == 0 {
			t.Errorf("cursor %d: %v, %v", cursor, res, err)
		}
	}
	slow := newJob("sleep", "1h")
	if h, err = c.client.Submit(ctx, &v1.SubmitRequest{Job: slow}); err != nil {
		t.Fatal(err)
	}
	answer := make(chan error, 1)
	go func() {
		_, err := dialAPI(t, c.Addr()).Events(ctx, &v1.EventsRequest{Handle: h.Handle, MaxWaitUs: 1<<63 - 1})
		answer <- err
	}()
	pollUntil(t, "the poll to wait", func() bool { return c.countPolls(slow.Id) == 1 || len(answer) > 0 })
	if len(answer) > 0 {
		t.Errorf("a poll with the longest wait returned at once: %v", <-answer)
	}
}

// A job lives as long as one of its clients: if a second reader hangs up, the first keeps the job.
func TestOneOfTwoClientsHangsUp(t *testing.T) {
	c := startCluster(t, 1, 2)
	j := newJob("sleep", "1h")
	res, err := c.client.Submit(context.Background(), &v1.SubmitRequest{Job: j})
	if err != nil {
		t.Fatal(err)
	}
	run := newJob("sleep", "1h")
	for _, test := range []struct {
		name, job string
		first     []byte
		second    []byte
	}{
		{"events", j.Id, eventsFrame(res.Handle, 0, time.Hour), eventsFrame(res.Handle, 0, time.Hour)},
		{"two runs", run.Id, runFrame("", run), runFrame("", run)},
		{"a run, and a reader", run.Id, runFrame("", run), eventsFrame(&v1.Handle{Job: run.Id}, 0, time.Hour)},
		{"a reader, and a run", run.Id, eventsFrame(&v1.Handle{Job: run.Id}, 0, time.Hour), runFrame("", run)},
	} {
		t.Run(test.name, func(t *testing.T) {
			id, err := probe.ParseJobID(test.job)
			if err != nil {
				t.Fatal(err)
			}
			isKnown := func() bool {
				c.mu.Lock()
				defer c.mu.Unlock()
				return c.jobs[id] != nil
			}
			waiting := func() int {
				c.mu.Lock()
				defer c.mu.Unlock()
				if r := c.jobs[id]; r != nil {
					return len(r.waitingPolls) + len(r.waitingRuns)
				}
				return 0
			}
			if test.name == "a reader, and a run" { // which needs a job to read of
				starter := connectRaw(t, c)
				starter.writeBytes(runFrame("", run))
				pollUntil(t, "the job", isKnown)
				defer starter.Close()
			}
			before := waiting()
			first, second := connectRaw(t, c), connectRaw(t, c)
			first.writeBytes(test.first)
			pollUntil(t, "the first client", func() bool { return waiting() == before+1 })
			second.writeBytes(test.second)
			pollUntil(t, "the second client", func() bool { return waiting() == before+2 })
			second.hangUp(c)
			c.sweepLater(time.Hour)
			if !isKnown() {
				t.Fatal("the job ended, although its first client waits")
			}
			if before > 0 {
				return
			}
			first.hangUp(c)
			c.sweepLater(time.Hour)
			if isKnown() {
				t.Error("the job goes on without a client")
			}
		})
	}
}

// A client that vanishes during a poll gives its place to others at once, not at the end of the poll.
func TestVanishedPollersMakeRoom(t *testing.T) {
	c := startCluster(t, 1, 1, func(cfg *Config) { cfg.MaxConns, cfg.ClientGrace = 3, time.Hour })
	j := newJob("sleep", "1h")
	res, err := c.client.Submit(context.Background(), &v1.SubmitRequest{Job: j})
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	var readers []*rawConn
	for i := range 2 {
		r := connectRaw(t, c)
		r.writeBytes(eventsFrame(res.Handle, 0, time.Minute))
		pollUntil(t, "the poll", func() bool { return c.countPolls(j.Id) == i+1 })
		readers = append(readers, r)
	}
	for _, r := range readers {
		r.Close()
	}
	pollUntil(t, "the places of the polls", func() bool {
		c.listener.mu.Lock()
		defer c.listener.mu.Unlock()
		return len(c.listener.conns) == 1
	})
	if d := time.Since(began); d > 45*time.Second {
		t.Errorf("the places were free after %v, at the end of the polls", d)
	}
}

// The process was stopped until jobs are given up. The first call then is an Extend, or a repeated Submit.
func TestFirstCallAfterPause(t *testing.T) {
	c := startCluster(t, 1, 1)
	ctx := context.Background()
	submitAndPause := func() (*v1.Job, *v1.Handle) {
		t.Helper()
		j, handle := runOpenEcho(t, c)
		id, err := probe.ParseJobID(j.Id)
		if err != nil {
			t.Fatal(err)
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		c.jobs[id].polledAt = time.Now().Add(-time.Hour)
		c.sweptAt = c.jobs[id].polledAt
		return j, handle
	}
	_, h := submitAndPause()
	more := newJob("echo", "b").Tasks
	more[0].Index = 1
	res, err := c.client.Extend(ctx, &v1.ExtendRequest{Handle: h, Tasks: more})
	if err == nil {
		t.Fatalf("a job that was given up grows: %v", res)
	}
	wantRefused(t, err, v1.RefusedReason_UNKNOWN_JOB, "not under way here")
	j, h := submitAndPause()
	if _, err := c.client.Submit(ctx, &v1.SubmitRequest{Job: j}); err != nil {
		t.Fatal(err)
	}
	events, err := c.client.Events(ctx, &v1.EventsRequest{Handle: h, MaxWaitUs: 30e6})
	if err != nil || len(events.Events) != 1 || events.Events[0].Outcome.Kind != v1.OutcomeKind_RESULT || events.Done {
		t.Errorf("a job submitted again after the pause: %v, %v", events, err)
	}
}
