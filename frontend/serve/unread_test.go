package serve

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/phoebe-sched/phoebe/idl/gen/phoebe/v1"
	"github.com/phoebe-sched/phoebe/probe"
)

// fetchAll fetches and acknowledges all outcomes of a job, and returns their number.
func (c *testCluster) fetchAll(t *testing.T, h *v1.Handle) (n int) {
	t.Helper()
	for cursor, done := int64(0), false; ; {
		res, err := c.client.Events(context.Background(),
			&v1.EventsRequest{Handle: h, Cursor: cursor, MaxWaitUs: time.Minute.Microseconds(), MaxEvents: 5})
		if err != nil {
			t.Fatal(err)
		}
		if done {
			return n
		}
		cursor, done = res.Cursor, res.Done
		n += len(res.Events)
	}
}

// awaitPaused waits until a job is paused and none of its tasks runs. It returns the number of unfinished tasks and
// the unread bytes.
func (c *testCluster) awaitPaused(t *testing.T, job string) (unfinished int, unread int) {
	t.Helper()
	id, err := probe.ParseJobID(job)
	if err != nil {
		t.Fatal(err)
	}
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for range tick.C {
		c.mu.Lock()
		_, running := c.core.Pending()
		r := c.jobs[id]
		full := r.paused
		unfinished, unread = r.unfinished, c.unreadBytes
		c.mu.Unlock()
		if full && running == 0 {
			return unfinished, unread
		}
	}
	return
}

// A job starts no more tasks than its client takes results, and goes on when the client reads. No result is lost.
func TestUnreadResultsPauseTheirJob(t *testing.T) {
	const limit, result, slots, tasks = 400_000, 10_000, 2, 300
	c := startCluster(t, 1, slots, func(cfg *Config) { cfg.MaxUnread = limit })
	payloads := make([]string, tasks)
	for i := range payloads {
		payloads[i] = strings.Repeat("x", result)
	}
	var handles []*v1.Handle
	for range 3 {
		res, err := c.client.Submit(context.Background(), &v1.SubmitRequest{Job: newJob("echo", payloads...)})
		if err != nil {
			t.Fatal(err)
		}
		handles = append(handles, res.Handle)
	}
	for _, h := range handles {
		unfinished, unread := c.awaitPaused(t, h.Job)
		if unfinished == 0 || unread > limit+3*(slots+64)*result {
			t.Errorf("%d tasks are unfinished, and %d bytes are unread: the limit is %d", unfinished, unread, limit)
		}
	}
	for _, h := range handles {
		if n := c.fetchAll(t, h); n != tasks {
			t.Errorf("%d outcomes of %d tasks", n, tasks)
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.unreadBytes != 0 || c.endedJobs.bytes != 0 {
		t.Errorf("%d bytes are counted as unread, and %d as kept, when all has been fetched", c.unreadBytes,
			c.endedJobs.bytes)
	}
}

// A paused job whose client has gone is cancelled as soon as any other.
func TestFullJobOfAClientThatIsGone(t *testing.T) {
	c := startCluster(t, 1, 1, func(cfg *Config) { cfg.MaxUnread, cfg.ClientGrace = 100, 50*time.Millisecond })
	res, err := c.client.Submit(context.Background(),
		&v1.SubmitRequest{Job: newJob("echo", strings.Repeat("x", 99), "2", "3", "4", "5")})
	if err != nil {
		t.Fatal(err)
	}
	id, _ := probe.ParseJobID(res.Handle.Job)
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for range tick.C {
		c.mu.Lock()
		jobs, known, unread := c.core.Jobs(), c.jobs[id], c.unreadBytes
		c.mu.Unlock()
		if jobs == 0 && known == nil {
			if unread != 0 {
				t.Errorf("%d bytes are unread of a job that is forgotten", unread)
			}
			return
		}
	}
}
