package client

import (
	"context"
	"fmt"
	"net"
	"testing"
	"time"

	v1 "github.com/phoebe-sched/phoebe/idl/gen/phoebe/v1"
	"github.com/phoebe-sched/phoebe/probe/names/zone"
)

// If the client cannot reach its only address, jobs go to the frontends that the address has named before.
func TestMembersAreAskedWhereSeedsAreDown(t *testing.T) {
	for _, only := range []bool{false, true} {
		a, b := newFake(t), newFake(t)
		a.run, b.run = a.runEcho, b.runEcho
		asked := 0
		b.run = func(r *v1.RunRequest) (*v1.RunResponse, error) {
			asked++
			return b.runEcho(r)
		}
		a.greeting = func() *v1.ClusterResponse {
			return &v1.ClusterResponse{
				Address: a.addr, Members: []*v1.Member{{Name: "a", Address: a.addr}, {Name: "b", Address: b.addr}},
			}
		}
		var opts []Option
		if only {
			opts = append(opts, WithLoadBalancerOnly())
		}
		c := newClient(t, []string{a.addr}, opts...)
		for range 3 {
			if _, err := c.Run(t.Context(), echoJob(1)); err != nil {
				t.Fatal(err)
			}
		}
		fence()
		if asked > 0 {
			t.Error("a member was asked while the seed answers")
		}
		a.stop()
		ctx, cancel := t.Context(), func() {}
		if only { // otherwise the client takes WithRetryFor
			ctx, cancel = context.WithTimeout(ctx, 200*time.Millisecond)
		}
		_, err := c.Run(ctx, echoJob(1))
		cancel()
		fence()
		if (err != nil) != only || (asked == 0) != only {
			t.Errorf("with the balancer only %v, the member was asked %d times: %v", only, asked, err)
		}
	}
}

// Jobs follow the names of frontends. While names cannot be looked up, jobs go to the last known addresses.
func TestFrontendsByName(t *testing.T) {
	a, b := newFake(t), newFake(t)
	at := func(f *fake) string {
		_, port, _ := net.SplitHostPort(f.addr)
		return fmt.Sprintf("_phoebe._tcp.test. 1 SRV 0 0 %s localhost.", port)
	}
	ran := map[string]int{}
	for _, f := range []*fake{a, b} {
		f.run = func(r *v1.RunRequest) (*v1.RunResponse, error) {
			ran[f.addr]++
			return f.runEcho(r)
		}
	}
	z := zone.New(t)
	c := newClient(t, []string{"srv:_phoebe._tcp.test."},
		func(c *config) { c.resolver, c.lookupEvery = z.Resolver, 5*time.Millisecond })
	run := func() {
		t.Helper()
		if _, err := c.Run(t.Context(), echoJob(1)); err != nil {
			t.Fatal(err)
		}
		fence()
	}
	ended := make(chan error, 1)
	go func() { // before the first lookup succeeds
		_, err := c.Run(t.Context(), echoJob(1))
		ended <- err
	}()
	z.Set(at(a))
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	fence()
	if ran[a.addr] != 1 {
		t.Fatal(ran)
	}
	z.Set(at(b))
	for ran[b.addr] == 0 {
		run()
	}
	z.Set()
	before := ran[a.addr]
	for range 20 {
		run()
	}
	if ran[a.addr] != before {
		t.Error("jobs went to an address that the name has lost")
	}
}
