package serve

import (
	"bytes"
	"context"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/phoebe-sched/phoebe/idl/gen/phoebe/v1"
)

// longJob makes a job of tasks with an estimate of two seconds that do nothing.
func longJob(tasks int) *v1.Job {
	j := newJob("echo", make([]string, tasks)...)
	for _, t := range j.Tasks {
		t.EstimateUs = 2e6
	}
	return j
}

// For a task placed by estimation, Explain shows the candidates, their terms and the outcome, even after the task
// has ended.
func TestExplain(t *testing.T) {
	c := startCluster(t, 3, 2)
	ctx := context.Background()
	var res *v1.RunResponse
	var x *v1.ExplainResponse
	for end := time.Now().Add(time.Minute); ; { // on a busy machine a worker may answer too late to be a candidate
		var err error
		if res, err = c.client.Run(ctx, &v1.RunRequest{Job: longJob(1)}); err != nil {
			t.Fatal(err)
		}
		if x, err = c.client.Explain(ctx, &v1.ExplainRequest{Handle: res.Handle, Task: -1}); err != nil {
			t.Fatal(err)
		}
		if len(x.Decisions) != 1 || x.Frontend != c.cfg.Name {
			t.Fatalf("%v", x)
		}
		if len(x.Decisions[0].Candidates) == 3 || time.Now().After(end) {
			break
		}
	}
	d := x.Decisions[0]
	if d.Path != v1.Path_ESTIMATION || d.Cause != v1.Cause_BY_LENGTH || d.ThresholdUs != 1e6 || d.Work == nil ||
		d.Work.MeanUs != 2e6 ||
		d.Work.Source != v1.Source_HINT || d.Tries < 1 || d.Attempt == "" || d.Worker != res.Outcomes[0].Worker ||
		d.Outcome != "succeeded" ||
		len(d.Candidates) != 3 || d.Seen != 3 || d.Reason == "" {
		t.Fatalf("%v", d)
	}
	for _, k := range d.Candidates {
		if k.RUs != 2e6 || k.EUs != k.IUs+k.WUs+k.RUs || k.CUs < k.EUs || !(k.Success > 0.99 && k.Success <= 1) ||
			k.AgeUs < 0 || k.Kind == "" {
			t.Errorf("%v", k)
		}
	}
	if at := d.Candidates[d.Chosen]; at.Worker != d.Worker {
		t.Errorf("chose %s, ran at %s", at.Worker, d.Worker)
	}
	for _, says := range []string{"task 0 is placed by estimation", "w0", "w1", "w2", "Psucc", "succeeded"} {
		if !strings.Contains(d.Text, says) {
			t.Errorf("%q lacks %q", d.Text, says)
		}
	}
	if st, err := c.client.Cluster(ctx, &v1.ClusterRequest{}); err != nil || len(st.Workers[0].WaitUs) != 64 ||
		st.Workers[0].WaitUsAgo < 0 {
		t.Errorf("no matrix of a worker that was asked for it: %v %v", st, err)
	}

	_, err := c.client.Explain(ctx, &v1.ExplainRequest{Handle: res.Handle, Task: 7})
	wantRefused(t, err, v1.RefusedReason_INVALID, "task 7")
	_, err = c.client.Explain(ctx, &v1.ExplainRequest{Handle: res.Handle, Task: -2})
	wantRefused(t, err, v1.RefusedReason_INVALID, "-1 for all")
	_, err = c.client.Explain(ctx, &v1.ExplainRequest{Handle: &v1.Handle{Job: "x"}})
	wantRefused(t, err, v1.RefusedReason_INVALID, "ULID")
	_, err = c.client.Explain(ctx, &v1.ExplainRequest{Handle: &v1.Handle{Job: newID()}})
	wantRefused(t, err, v1.RefusedReason_UNKNOWN_JOB, "name the owner")
}

// Waits expected for long tasks are no longer shown once the workers are idle.
func TestNoWaitAtIdleWorkers(t *testing.T) {
	c := startCluster(t, 2, 1)
	ctx := context.Background()
	j := longJob(6)
	for _, task := range j.Tasks {
		task.EstimateUs = (90 * time.Minute).Microseconds() // far above the real time
	}
	if _, err := c.client.Run(ctx, &v1.RunRequest{Job: j}); err != nil {
		t.Fatal(err)
	}
	st, err := c.client.Cluster(ctx, &v1.ClusterRequest{})
	for end := time.Now().Add(time.Minute); err == nil && time.Now().Before(end); st,
		err = c.client.Cluster(ctx, &v1.ClusterRequest{}) {
		waits := int64(0)
		for _, w := range st.Workers {
			waits += slices.Max(append(w.WaitUs, 0))
		}
		if waits == 0 {
			return
		}
		time.Sleep(time.Millisecond)
	}
	t.Errorf("%v %v", st.Workers, err)
}

// The expected time for reading inputs follows from the places of their copies.
func TestExplainInputs(t *testing.T) {
	c := startCluster(t, 1, 2)
	ctx := context.Background()
	j := newJob("echo", "")
	j.Tasks[0].Inputs = []*v1.Input{
		{Bytes: 3e8, Copies: []*v1.Copy{{At: "w0", Tier: v1.Tier_MEMORY}}},
		{Bytes: 5e8, Copies: []*v1.Copy{{At: "w0"}}}, {Bytes: 7e8, Copies: []*v1.Copy{{Rack: "far"}}},
	}
	res, err := c.client.Run(ctx, &v1.RunRequest{Job: j})
	if err != nil {
		t.Fatal(err)
	}
	x, err := c.client.Explain(ctx, &v1.ExplainRequest{Handle: res.Handle})
	if err != nil {
		t.Fatal(err)
	}
	if k := x.Decisions[0].Candidates[0]; k.MemoryBytes != 3e8 || k.DiskBytes != 5e8 || k.RackBytes != 0 ||
		k.AcrossBytes != 7e8 || k.ReadUs <= 0 {
		t.Errorf("%v", k)
	}
	var b bytes.Buffer
	c.cfg.Metrics.WritePrometheus(&b)
	for _, line := range []string{"phoebe_frontend_tasks_estimated_total 1\n",
		`phoebe_frontend_estimates_total{of="wait"} 1` + "\n"} {
		if !strings.Contains(b.String(), line) {
			t.Errorf("%q is not in\n%s", line, b.String())
		}
	}
}

// While a task waits for earlier stages, Explain says so.
func TestExplainUnderWay(t *testing.T) {
	c := startCluster(t, 1, 2)
	ctx := context.Background()
	j := stagedJob()
	j.Tasks[0].FunctionName, j.Tasks[0].Payload = "sleep", []byte("10m")
	res, err := c.client.Submit(ctx, &v1.SubmitRequest{Job: j})
	if err != nil {
		t.Fatal(err)
	}
	x, err := c.client.Explain(ctx, &v1.ExplainRequest{Handle: res.Handle, Task: 2})
	if err != nil {
		t.Fatal(err)
	}
	if d := x.Decisions[0]; len(x.Decisions) != 1 || d.Path != v1.Path_ESTIMATION || d.Tries != 0 || d.Chosen != -1 ||
		d.Outcome != "waits for other stages" {
		t.Errorf("%v", x)
	}
	if _, err := c.client.Cancel(ctx, &v1.CancelRequest{Handle: res.Handle}); err != nil {
		t.Fatal(err)
	}
}

// Any frontend can be asked, whoever owns the job, and whatever the handle says.
func TestExplainElsewhere(t *testing.T) {
	owner := startCluster(t, 2, 2)
	var dead string
	{
		s := startCluster(t, 0, 1)
		dead = s.Advertised()
		s.Close()
	}
	other := startCluster(t, 0, 1, func(cfg *Config) { cfg.Peers = []string{owner.Advertised(), dead} })
	ctx := context.Background()
	res, err := owner.client.Run(ctx, &v1.RunRequest{Job: longJob(2)})
	if err != nil {
		t.Fatal(err)
	}
	for _, named := range []string{"", owner.Advertised(), other.Advertised(), dead, "198.51.100.1:1"} {
		x, err := other.client.Explain(ctx,
			&v1.ExplainRequest{Handle: &v1.Handle{Job: res.Handle.Job, Owner: named}, Task: 1})
		if err != nil {
			t.Fatalf("owner %q: %v", named, err)
		}
		if len(x.Decisions) != 1 || x.Decisions[0].Task != 1 || x.Frontend != owner.cfg.Name {
			t.Errorf("owner %q: %v", named, x)
		}
	}
	_, err = other.client.Explain(ctx, &v1.ExplainRequest{Handle: res.Handle, Task: 7})
	wantRefused(t, err, v1.RefusedReason_INVALID, "task 7")
	_, err = other.client.Explain(ctx, &v1.ExplainRequest{Handle: &v1.Handle{Job: newID()}, Task: -1})
	wantRefused(t, err, v1.RefusedReason_UNKNOWN_JOB, "2 other frontends")
}

// A hung frontend does not delay the answer of another.
func TestExplainWithAHungPeer(t *testing.T) {
	defer func(d time.Duration) { ownerTimeout = d }(ownerTimeout)
	ownerTimeout = time.Hour // for the answer of the hung frontend
	owner := startCluster(t, 1, 2)
	hung := startHung(t)
	other := startCluster(t, 0, 1, func(cfg *Config) { cfg.Peers = []string{owner.Advertised(), hung} })
	ctx := context.Background()
	res, err := owner.client.Run(ctx, &v1.RunRequest{Job: longJob(1)})
	if err != nil {
		t.Fatal(err)
	}
	wantEnd(t, "Explain", func() error {
		_, err := other.client.Explain(ctx,
			&v1.ExplainRequest{Handle: &v1.Handle{Job: res.Handle.Job}, Task: -1})
		return err
	})
}

// startHung listens at an address and never answers.
func startHung(t *testing.T) (addr string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l.Addr().String()
}

// Explain shows that a task was cancelled at its worker.
func TestExplainCancelled(t *testing.T) {
	c := startCluster(t, 1, 1)
	ctx := context.Background()
	j := longJob(1)
	j.Tasks[0].FunctionName, j.Tasks[0].Payload = "sleep", []byte("10m")
	res, err := c.client.Submit(ctx, &v1.SubmitRequest{Job: j})
	if err != nil {
		t.Fatal(err)
	}
	explain := func() *v1.Decision {
		t.Helper()
		x, err := c.client.Explain(ctx, &v1.ExplainRequest{Handle: res.Handle})
		if err != nil {
			t.Fatal(err)
		}
		return x.Decisions[0]
	}
	for end := time.Now().Add(time.Minute); explain().Worker == "" && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
	if _, err := c.client.Cancel(ctx, &v1.CancelRequest{Handle: res.Handle, Reason: "tired of it"}); err != nil {
		t.Fatal(err)
	}
	if d := explain(); d.Worker != "w0" || d.Outcome != "stopped: tired of it" ||
		!strings.Contains(d.Text, "at w0: stopped: tired of it") {
		t.Errorf("%v", d)
	}
}
