package names

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/phoebe-sched/phoebe/probe/names/zone"
)

// Watch finds the addresses of names, follows changes, and keeps the addresses while the name server fails.
func TestWatch(t *testing.T) {
	z := zone.New(t)
	warned := make(chan error, 100)
	got := make(chan []string, 100)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	w := Watcher{
		Addrs: []string{"10.0.0.1:7410", "dns:fleet.test.:7410", "srv:_phoebe._tcp.test."},
		Every: 5 * time.Millisecond, Resolver: z.Resolver,
		Warn: func(err error) { warned <- err },
	}
	w.Watch(ctx, func(addrs []string) { got <- addrs })
	want := func(addrs ...string) {
		t.Helper()
		select {
		case now := <-got:
			if !slices.Equal(now, addrs) {
				t.Fatalf("%q, want %q", now, addrs)
			}
		case <-time.After(time.Minute):
			t.Fatalf("waited in vain for %q", addrs)
		}
	}
	want("10.0.0.1:7410")
	<-warned
	<-warned // once per name, until the name is found
	z.Set("fleet.test. 1 A 10.0.0.3", "fleet.test. 1 A 10.0.0.2", "_phoebe._tcp.test. 1 SRV 0 0 7411 f1.test.")
	want("10.0.0.1:7410", "10.0.0.2:7410", "10.0.0.3:7410", "f1.test:7411")
	z.Set()
	<-warned
	<-warned
	z.Set("fleet.test. 1 A 10.0.0.4", "_phoebe._tcp.test. 1 SRV 0 0 7411 f1.test.")
	want("10.0.0.1:7410", "10.0.0.4:7410", "f1.test:7411")
}

func TestCheck(t *testing.T) {
	for addr, ok := range map[string]bool{
		"h:1": true, "dns:h:1": true, "srv:_phoebe._tcp.example.org": true,
		"h": false, "dns:h": false, "dns::1": false, "srv:h:1": false, "srv:_phoebe._tcp": false, "": false,
	} {
		if err := Check(addr); (err == nil) != ok {
			t.Errorf("%q: %v", addr, err)
		}
	}
}
