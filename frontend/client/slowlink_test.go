package client

import (
	"bytes"
	"testing"
	"time"

	v1 "github.com/phoebe-sched/phoebe/idl/gen/phoebe/v1"
	"github.com/phoebe-sched/phoebe/probe/proxy"
)

// A large job, and a large result, may take much longer than the timeout of a call, as long as bytes move.
func TestLargeJobOverSlowLink(t *testing.T) {
	t.Parallel() // mostly waits
	f := newFake(t)
	var job *v1.Job
	f.submit = func(r *v1.SubmitRequest) (*v1.SubmitResponse, error) {
		if r.Job.Resubmission != nil {
			t.Error("the job was taken for lost")
		}
		return f.keepJob(&job)(r)
	}
	f.events = func(r *v1.EventsRequest) (*v1.EventsResponse, error) {
		return eventsAnswer(1, true, echoOutcome(job, 0)), nil
	}
	const size = 4 << 20
	link := proxy.NewSlow(t, f.addr, size/6) // each way takes six seconds
	c := newClient(t, []string{link.Addr}, WithRetryFor(4*time.Second), func(c *config) {
		c.rpcTimeout, c.pollFor = 4*time.Second, time.Millisecond
	})
	payload := bytes.Repeat([]byte{7}, size)
	r, err := c.Submit(t.Context(), Job{Tasks: []Task{{Function: "echo", Payload: payload}}})
	if err != nil {
		t.Fatal(err)
	}
	outs, err := r.Wait()
	if err != nil || !bytes.Equal(outs[0].Result, payload) {
		t.Fatal(err)
	}
}

// If a link freezes in the middle of a large job, the client notices, and gives the job to another frontend.
func TestFrozenLink(t *testing.T) {
	t.Parallel() // mostly waits
	a, b := newFake(t), newFake(t)
	b.submit = nil
	b.run = b.runEcho
	link := proxy.NewSlow(t, a.addr, 8<<20)
	c := newClient(t, []string{link.Addr, b.addr}, func(c *config) {
		c.rpcTimeout, c.pingTimeout = 4*time.Second, 2*time.Second
	})
	chooseFirst(c)
	time.AfterFunc(200*time.Millisecond, link.Freeze)
	r, err := c.Submit(t.Context(), Job{Tasks: []Task{{Function: "echo", Payload: make([]byte, 8<<20)}}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Wait(); err != nil {
		t.Fatal(err)
	}
	if h := r.Handle(); h.Owner != b.addr {
		t.Errorf("the job is at %s", h.Owner)
	}
}

// If a link is cut in the middle of a large job, the client sends the job again.
func TestCutLink(t *testing.T) {
	a := newFake(t)
	a.run = a.runEcho
	link := proxy.NewSlow(t, a.addr, 8<<20)
	c := newClient(t, []string{link.Addr})
	time.AfterFunc(200*time.Millisecond, link.Cut)
	r, err := c.Submit(t.Context(), Job{Tasks: []Task{{Function: "echo", Payload: make([]byte, 4<<20)}}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Wait(); err != nil {
		t.Fatal(err)
	}
}
