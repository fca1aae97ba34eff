package live

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/phoebe-sched/phoebe/bench"
)

func TestExplore(t *testing.T) {
	text := os.Getenv("PHOEBE_LIVE")
	if text == "" {
		t.Skip()
	}
	f := strings.Fields(text) // policies durations load for estimates
	o := options(t, strings.Split(f[0], ","), f[1], 0.8)
	o.Workers, o.Slots, o.TasksPerJob, o.Estimates = 10, 4, 10, f[4] == "est"
	if len(f) > 5 {
		o.Frontends, o.Workers = int(f[5][0]-48), int(f[6][0]-48)
	}
	o.Warmup = 2 * time.Second
	o.For, _ = time.ParseDuration(f[3])
	if f[0] == "noop" {
		o.Policies = []string{"phoebe"}
		doc, err := Noop(context.Background(), o, bench.NewProgress(os.Stderr))
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%+v", *doc.Noop)
		return
	}
	doc, err := Run(context.Background(), o, bench.NewProgress(os.Stderr))
	if err != nil {
		t.Fatal(err)
	}
	bench.WriteTable(os.Stdout, doc)
}
