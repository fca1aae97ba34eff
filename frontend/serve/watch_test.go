package serve

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	rec "github.com/phoebe-sched/phoebe/frontend/record"
	"github.com/phoebe-sched/phoebe/idl/gen/phoebe/v1"
	"github.com/phoebe-sched/phoebe/probe/histogram"
)

// Any frontend answers with the counts of all frontends, and names frontends without an answer.
func TestWatchAll(t *testing.T) {
	a := startCluster(t, 2, 2, func(cfg *Config) { cfg.Name = "a" })
	hung := startHung(t)
	b := startCluster(t, 1, 2, func(cfg *Config) { cfg.Name, cfg.Peers = "b", []string{a.Advertised(), hung} })
	ctx := context.Background()
	for i, c := range []*testCluster{a, b, b} {
		j := newJob("echo", "x", "y")
		j.Tenant = "t"
		if i == 2 {
			j = newJob("fail", "why")
		}
		if _, err := c.client.Run(ctx, &v1.RunRequest{Job: j}); err != nil {
			t.Fatal(err)
		}
	}
	a.putWindow(time.Now().Add(minWindow))
	b.putWindow(time.Now().Add(minWindow))
	var res *v1.WatchResponse
	wantEnd(t, "Watch", func() (err error) { // although a frontend does not answer
		res, err = b.client.Watch(ctx, &v1.WatchRequest{WindowUs: 300e6, Top: 2})
		return err
	})
	count, functions := map[string]uint64{}, map[string]uint64{}
	accepted, tasks, failed := int64(0), int64(0), int64(0)
	for _, w := range res.Windows {
		if w.LengthUs != 300e6 || w.AtUs%w.LengthUs != 0 {
			t.Errorf("a window of %d us at %d", w.LengthUs, w.AtUs)
		}
		accepted, tasks, failed = accepted+w.Accepted, tasks+w.Tasks, failed+w.Failed
		for _, s := range w.Series {
			var h [rec.Measures]histogram.Histogram
			rest := s.Histograms
			for m := range h {
				var ok bool
				if rest, ok = h[m].MergeFrom(rest); !ok {
					t.Fatalf("series %v", s)
				}
			}
			count[s.Tenant] += h[rec.Run].Count
		}
	}
	for _, w := range res.Windows {
		for _, f := range w.Functions {
			p := rec.Packed{Data: f.Histograms}
			for _, m := range []rec.Measure{rec.Whole, rec.Failure} {
				var h histogram.Histogram
				p.Add(m, &h)
				functions[fmt.Sprint(f.FunctionName, " ", m)] += h.Count
			}
		}
	}
	if got := fmt.Sprint(functions); got != "map[echo response:4 echo slowdown:0 fail response:0 fail slowdown:1]" {
		t.Errorf("the functions are %s", got)
	}
	if accepted != 3 || tasks != 5 || failed != 1 || count["t"] != 4 || count[""] != 0 {
		t.Errorf("%d jobs, %d tasks, %d failed, runs %v", accepted, tasks, failed, count)
	}
	if len(res.Slowest) != 2 || res.Slowest[0].ResponseUs < res.Slowest[1].ResponseUs {
		t.Errorf("the slowest are %v", res.Slowest)
	}
	heard := map[string]bool{}
	for _, f := range res.Frontends {
		heard[f.Name] = f.Error == ""
	}
	if len(heard) != 3 || !heard["a"] || !heard["b"] || heard[hung] || res.Frontends[0].Name != "b" ||
		res.Frontends[0].Workers != 1 {
		t.Errorf("frontends: %v", res.Frontends)
	}
}

// Jobs of all frontends are listed page by page, each once, and traced from anywhere.
func TestJobsOfAll(t *testing.T) {
	a := startCluster(t, 1, 4)
	b := startCluster(t, 1, 4, func(cfg *Config) { cfg.Peers = []string{a.Advertised()} })
	ctx := context.Background()
	want := map[string]bool{}
	for i := range 20 {
		c, j := []*testCluster{a, b}[i%2], newJob("echo", "x", "y", "z")
		if i%5 == 0 {
			j = newJob("fail", "why")
		}
		if _, err := c.client.Run(ctx, &v1.RunRequest{Job: j}); err != nil {
			t.Fatal(err)
		}
		want[j.Id] = true
	}
	slow := newJob("sleep", "1h")
	if _, err := a.client.Submit(ctx, &v1.SubmitRequest{Job: slow}); err != nil {
		t.Fatal(err)
	}
	want[slow.Id] = true
	var all []*v1.JobSummary
	for cursor := ""; ; {
		res, err := b.client.Jobs(ctx, &v1.JobsRequest{Cursor: cursor, MaxJobs: 3})
		if err != nil {
			t.Fatal(err)
		}
		if all = append(all, res.Jobs...); res.NextPage == "" {
			break
		}
		cursor = res.NextPage
	}
	for i, j := range all {
		if f := fmt.Sprint(j.Functions); f != "[echo]" && f != "[fail]" && f != "[sleep]" {
			t.Errorf("a job has the functions %s", f)
		}
		if !want[j.Job] || i > 0 && all[i-1].CameUs < j.CameUs {
			t.Errorf("job %d is %v", i, j)
		}
		delete(want, j.Job)
		sum := int64(0)
		for _, p := range j.Blame {
			sum += p.Us
		}
		if !j.Running && sum != j.ResponseUs {
			t.Errorf("%v is blamed, of %d us", j.Blame, j.ResponseUs)
		}
		trace, err := b.client.Trace(ctx, &v1.TraceRequest{Job: j.Job, MaxAttempts: 2})
		if err != nil {
			t.Fatal(err)
		}
		n := j.Ended
		if trace.Total != n || trace.Job.Owner != j.Owner || (trace.NextPage != 0) != (n > 2) || n > 0 &&
			!slices.Equal(trace.Workers, []string{"w0"}) {
			t.Errorf("the trace of %v is %v", j, trace)
		}
		if n > 2 {
			rest, err := b.client.Trace(ctx, &v1.TraceRequest{Job: j.Job, First: trace.NextPage})
			if err != nil || rest.NextPage != 0 || len(rest.Attempts) >= len(trace.Attempts) ||
				bytes.Equal(rest.Attempts, trace.Attempts) {
				t.Errorf("the rest of the trace: %v, %v", rest, err)
			}
		}
	}
	if len(want) > 0 {
		t.Errorf("not listed: %v", want)
	}
	failed := true
	for name, f := range map[string]*v1.JobFilter{"failed": {Failed: failed}, "running": {Running: true},
		"id": {Id: slow.Id[:20], Running: true}} {
		res, err := b.client.Jobs(ctx, &v1.JobsRequest{Filter: f})
		n := map[string]int{"failed": 4, "running": 1, "id": 1}[name]
		if err != nil || len(res.Jobs) != n {
			t.Errorf("%s: %d jobs, %v", name, len(res.Jobs), err)
		}
	}
	for _, cursor := range []string{"x", "1 2", "9999999999999999999 a b", string(make([]byte, 5000))} {
		_, err := b.client.Jobs(ctx, &v1.JobsRequest{Cursor: cursor})
		wantRefused(t, err, v1.RefusedReason_INVALID, "cursor")
	}
	for _, cursor := range []string{"-1 a b", "9223372036854775807   ",
		fmt.Sprint(time.Now().UnixMicro(), " \xff \x00")} {
		if _, err := b.client.Jobs(ctx, &v1.JobsRequest{Cursor: cursor}); err != nil {
			t.Errorf("cursor %q: %v", cursor, err)
		}
	}
	_, err := b.client.Trace(ctx, &v1.TraceRequest{Job: newID()})
	wantRefused(t, err, v1.RefusedReason_UNKNOWN_JOB, "was not kept")
}

// Workers come page by page, or as figures. The names come only to callers with another list of names.
func TestClusterPages(t *testing.T) {
	c := startCluster(t, 5, 2)
	other := startCluster(t, 0, 0, func(cfg *Config) { cfg.Peers = []string{c.Advertised()} })
	ctx := context.Background()
	var names []string
	for after := ""; ; {
		res, err := c.client.Cluster(ctx, &v1.ClusterRequest{After: after, MaxWorkers: 2})
		if err != nil || res.Total != 5 {
			t.Fatal(res, err)
		}
		for _, w := range res.Workers {
			names = append(names, w.Name)
		}
		if after = res.NextPage; after == "" {
			break
		}
	}
	if slices.Sort(names); !slices.Equal(names, []string{"w0", "w1", "w2", "w3", "w4"}) {
		t.Errorf("workers %v", names)
	}
	res, err := other.client.Cluster(ctx, &v1.ClusterRequest{Frontend: c.Advertised(), Worker: "w3"})
	if err != nil || len(res.Workers) != 1 || res.Workers[0].Name != "w3" || res.Frontend != c.cfg.Name {
		t.Errorf("%v, %v", res, err)
	}
	_, err = other.client.Cluster(ctx, &v1.ClusterRequest{Frontend: "nobody"})
	wantRefused(t, err, v1.RefusedReason_INVALID, "nobody")
	res, err = c.client.Cluster(ctx, &v1.ClusterRequest{Figures: true})
	if err != nil || len(res.Workers) != 0 || len(res.Figures.Names) != 5 || len(res.Figures.Figures) != 5*8 ||
		res.Figures.Figures[0] != 1 {
		t.Fatalf("%v, %v", res, err)
	}
	res, err = c.client.Cluster(ctx, &v1.ClusterRequest{Figures: true, Known: res.Figures.Number})
	if err != nil || len(res.Figures.Names) != 0 || len(res.Figures.Figures) != 5*8 {
		t.Errorf("%v, %v", res, err)
	}
}
