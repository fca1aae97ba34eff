package sim

import (
	"testing"
	"time"

	"github.com/phoebe-sched/phoebe/bench"
)

// Tasks report their progress here. Then copies keep to their budget, go to tasks slow because of the machine,
// and shorten the mean response.
func TestStragglers(t *testing.T) {
	run := func(share float64) *bench.SimRun {
		w := longSweep(10, 240, "phoebe")
		w.Estimates, w.Stragglers, w.SecondAttempts, w.Racks, w.Loads, w.Seed =
			Estimates{Absent: true}, Stragglers{0.05, 5}, share, 1, []float64{0.5}, 1
		w.Spells, w.ReportsProgress, w.Ping = longSpells, true, time.Second
		results, err := w.Run(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		return &results[0].SimRun
	}
	without, with := run(0), run(0.1)
	a, b := without.Stragglers, with.Stragglers
	if a.Machine < 30 || b.Machine < 30 || a.Data < 30 || b.Data < 30 {
		t.Errorf("of %d tasks %+v are slow, and with copies %+v", without.Tasks, a, b)
	}
	if a.Copies != 0 || a.Work != 0 || b.Copies == 0 || 10*b.Caught < 7*(b.Machine-b.Spared) ||
		10*b.InVain > b.Data || b.Caught+b.InVain > b.Copies || float64(b.Copies) > 0.11*float64(with.Tasks) {
		t.Errorf("%+v have copies where there are none, and %+v of %d tasks where every tenth may", a, b, with.Tasks)
	}
	if with.ResponseMS.Mean > 0.95*without.ResponseMS.Mean {
		t.Errorf("the mean response is %v with copies and %v without", with.ResponseMS.Mean, without.ResponseMS.Mean)
	}
}
