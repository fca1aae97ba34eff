package serve

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/phoebe-sched/phoebe/idl/gen/phoebe/v1"
	"github.com/phoebe-sched/phoebe/probe/ports/porttest"
	"github.com/phoebe-sched/phoebe/probe/proxy"
)

// startPair starts a frontend, and another that forwards calls to the first. Both have the first's workers.
func startPair(t *testing.T, workers, slots int, change ...func(*Config)) (owner, other *testCluster) {
	t.Helper()
	owner = startCluster(t, workers, slots, change...)
	var addrs Static
	for _, w := range owner.workers {
		addrs = append(addrs, w.Addr().String())
	}
	other = startCluster(t, 0, 0, func(cfg *Config) { cfg.Workers, cfg.Peers = addrs, []string{owner.Advertised()} })
	other.awaitWorkers(t, workers)
	return owner, other
}

// A forwarded Run ends with its client: the owner gives up the job, and the forwarder can drain.
func TestForwardedRunEndsWithItsClient(t *testing.T) {
	owner, other := startPair(t, 1, 2)
	j := newJob("sleep", "1h")
	first, second := connectRaw(t, owner), connectRaw(t, other)
	first.writeBytes(runFrame("", j))
	jobs := func() int {
		owner.mu.Lock()
		defer owner.mu.Unlock()
		return owner.core.Jobs()
	}
	waitingRuns := func() (n int) {
		owner.mu.Lock()
		defer owner.mu.Unlock()
		for _, r := range owner.jobs {
			n += len(r.waitingRuns)
		}
		return n
	}
	pollUntil(t, "the job", func() bool { return jobs() == 1 })
	again := *j
	again.Resubmission = &v1.Resubmission{PreviousOwner: owner.Advertised()}
	second.writeBytes(runFrame("", &again))
	pollUntil(t, "the forwarded Run", func() bool { return waitingRuns() == 2 })
	first.hangUp(owner)
	owner.sweepLater(time.Hour)
	if jobs() != 1 {
		t.Fatal("the job ended, although the client of the forwarded Run waits")
	}
	second.hangUp(other)
	pollUntil(t, "the job to end with its last client", func() bool { return jobs() == 0 })
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	if err := other.Drain(ctx); err != nil {
		t.Errorf("the forwarder waits for a client that is gone: %v", err)
	}
}

// A poll forwarded for a client that hangs up ends at the owner, too.
func TestForwardedPollEndsWithItsClient(t *testing.T) {
	owner, other := startPair(t, 1, 1, func(cfg *Config) { cfg.ClientGrace = time.Hour })
	j := newJob("sleep", "1h")
	res, err := owner.client.Submit(context.Background(), &v1.SubmitRequest{Job: j})
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	r := connectRaw(t, other)
	r.writeBytes(eventsFrame(res.Handle, 0, time.Minute))
	pollUntil(t, "the poll", func() bool { return owner.countPolls(j.Id) == 1 })
	r.Close()
	pollUntil(t, "the poll to end", func() bool { return owner.countPolls(j.Id) == 0 })
	if d := time.Since(began); d > 45*time.Second {
		t.Errorf("the poll went on to its end, for %v", d)
	}
}

// A dead connection between two frontends is no sign that a job's owner is lost. The frontend may know of the end of
// the connection, or learn of the end from a call.
func TestDeadPeerConnections(t *testing.T) {
	var link *proxy.Proxy
	owner := startCluster(t, 1, 2, func(cfg *Config) {
		cfg.Listen = porttest.FreeAddress(t)
		link = proxy.New(t, cfg.Listen)
		cfg.Advertise = link.Addr
	})
	other := startCluster(t, 0, 0, func(cfg *Config) { cfg.Peers = []string{owner.Advertised()} })
	ctx := context.Background()
	j := newJob("sleep", "1h")
	res, err := owner.client.Submit(ctx, &v1.SubmitRequest{Job: j})
	if err != nil {
		t.Fatal(err)
	}
	warmUp := func() { // makes several idle connections
		var calls sync.WaitGroup
		for range 4 {
			calls.Go(func() {
				_, err := dialAPI(t, other.Addr()).Events(ctx, &v1.EventsRequest{Handle: res.Handle, MaxWaitUs: 20_000})
				if err != nil {
					t.Error(err)
				}
			})
		}
		calls.Wait()
	}
	for name, kill := range map[string]func(){"rotten": func() { link.Rot() }, "cut": link.Cut} {
		warmUp()
		kill()
		for range 5 {
			if _, err := other.client.Events(ctx, &v1.EventsRequest{Handle: res.Handle}); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		warmUp()
		kill()
		if owns, err := other.peers.findPeer(owner.Advertised()).ownsJob(ctx, j.Id); !owns || err != nil {
			t.Errorf("%s: the owner counts as lost", name)
		}
	}
	if err := owner.Close(); err != nil {
		t.Error(err)
	}
	_, err = other.client.Events(ctx, &v1.EventsRequest{Handle: res.Handle})
	wantRefused(t, err, v1.RefusedReason_OWNER_LOST, "does not answer")
}

// A client that repeats a Run again and again, on a new connection each time, leaves no trace of its old connections.
func TestRepeatedRunForgetsClosedConnections(t *testing.T) {
	c := startCluster(t, 1, 1)
	j := newJob("sleep", "1h")
	runs := func() (list []waitingRun) {
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, r := range c.jobs {
			list = append(list, r.waitingRuns...)
		}
		return list
	}
	stays := connectRaw(t, c)
	stays.writeBytes(runFrame("", j))
	pollUntil(t, "the job", func() bool { return len(runs()) == 1 })
	for range 20 {
		again := connectRaw(t, c)
		again.writeBytes(runFrame("", j))
		pollUntil(t, "the repeated Run", func() bool {
			conn := again.serverConn(c)
			return slices.ContainsFunc(runs(), func(a waitingRun) bool { return a.conn == conn })
		})
		again.hangUp(c)
	}
	if n := len(runs()); n > 2 {
		t.Errorf("%d Runs wait, and one of them has a connection", n)
	}
}
