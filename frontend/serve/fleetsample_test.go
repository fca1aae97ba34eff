package serve

import (
	"context"
	"fmt"
	"testing"
	"time"

	rec "github.com/phoebe-sched/phoebe/frontend/record"
	"github.com/phoebe-sched/phoebe/idl/gen/phoebe/v1"
)

// A sample tells the slots in use by tenant and by function, and remembers workers that left.
func TestFleetSample(t *testing.T) {
	c := startCluster(t, 2, 2)
	ctx := context.Background()
	for _, tenant := range []string{"ads", "etl"} {
		j := newJob("sleep", "1h")
		j.Tenant = tenant
		if _, err := c.client.Submit(ctx, &v1.SubmitRequest{Job: j}); err != nil {
			t.Fatal(err)
		}
	}
	var uses string
	pollUntil(t, "the slots of both tenants", func() bool {
		now := time.Now().Add(minWindow)
		c.sampleFleet(now)
		c.putWindow(now)
		res, err := c.client.Watch(ctx, &v1.WatchRequest{WindowUs: 1e6})
		if err != nil {
			t.Fatal(err)
		}
		w := res.Windows[len(res.Windows)-1]
		uses = fmt.Sprint(w.GetCapacity(), usesFromAPI(w.TenantSlots), usesFromAPI(w.FunctionSlots))
		return len(w.TenantSlots) == 2
	})
	if want := "4000 [{ads 1000} {etl 1000}] [{sleep 2000}]"; uses != want {
		t.Errorf("the slots in use are %s, want %s", uses, want)
	}
	c.workers[1].Close()
	pollUntil(t, "a worker to leave", func() bool {
		c.sampleFleet(time.Now())
		res, err := c.client.Cluster(ctx, &v1.ClusterRequest{FrontendsOnly: true, History: true})
		if err != nil {
			t.Fatal(err)
		}
		h := res.History
		if n := len(h.AtUs) * rec.FigureBytes; len(h.Addresses) != 2 || len(h.Figures) != 2*n {
			t.Fatalf("%v with %d bytes for %d samples", h.Addresses, len(h.Figures), len(h.AtUs))
		}
		if len(h.Gone) != 1 {
			return false
		}
		if w := h.Gone[0]; w.Name != "w1" || w.Off {
			t.Errorf("%v left", w)
		}
		return true
	})
}

// Frontends sample at even seconds, even if a tick comes a little early or late.
func TestSampleDue(t *testing.T) {
	for _, off := range []time.Duration{-50 * time.Millisecond, 0, 400 * time.Millisecond} {
		if !isSampleDue(time.Unix(100, 0).Add(off)) || isSampleDue(time.Unix(101, 0).Add(off)) {
			t.Errorf("with a tick %v off, other seconds are sampled", off)
		}
	}
}

// The slots of two frontends in the same second add up. A window without a count adds nothing.
func TestMergeUses(t *testing.T) {
	window := func(uses rec.Uses) []*v1.Window {
		return []*v1.Window{windowToAPI(&rec.Window{At: time.Unix(9, 0), Length: time.Second, Uses: uses}, 1)}
	}
	use := func(slots int64) []rec.SlotUse { return []rec.SlotUse{{Name: "f", Slots: slots}} }
	w := mergeWindows([][]*v1.Window{window(rec.NewUses(8000, nil, use(1000))), window(rec.Uses{}),
		window(rec.NewUses(8000, nil, use(500)))})
	if len(w) != 1 || w[0].GetCapacity() != 8000 || w[0].FunctionSlots[0].Slots != 1500 {
		t.Errorf("together %v", w)
	}
}
