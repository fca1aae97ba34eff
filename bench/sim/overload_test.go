package sim

import (
	"testing"
	"time"
)

// Half more jobs arrive than the fleet can run. Refused jobs come again when told to. Few are refused again, and
// the jobs come soon enough to keep the fleet busy until all are done.
func TestRefusedJobsComeAgain(t *testing.T) {
	const lasts, load = 8 * time.Second, 1.5
	for _, frontends := range []int{1, 3} {
		fleet := sharing{workers: 10, frontends: frontends, end: lasts,
			tenants: []tenantLoad{{name: "t", tasks: 10, run: 5 * time.Millisecond, loads: []float64{load}}}}
		r, err := fleet.playSeed(1)
		if err != nil {
			t.Fatal(err)
		}
		each, least := float64(r.refusals)/float64(r.jobCount), time.Duration(load*float64(lasts))
		t.Logf("%d frontends: %d jobs were refused %.2f times each; all were done after %.2f times the least",
			frontends, r.jobCount, each, r.now.Seconds()/least.Seconds())
		if each > 2 || r.now > least*5/4 {
			t.Errorf("%d frontends: %d jobs were refused %.2f times each; all were done after %v, not %v", frontends,
				r.jobCount, each, r.now, least)
		}
	}
}
