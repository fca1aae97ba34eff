package client_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/phoebe-sched/phoebe/frontend/client"
	"github.com/phoebe-sched/phoebe/frontend/client/admin"
	"github.com/phoebe-sched/phoebe/frontend/client/local"
	"github.com/phoebe-sched/phoebe/worker/exec"
)

// A spare function is told to stop for regular work, but goes on. Then another spare task is stopped instead, and
// starts again later. The deaf function is not told again, keeps its slot, and its result counts in the end.
func TestDeafFunction(t *testing.T) {
	registry := exec.NewRegistry()
	heeds := newGate(t, registry)
	began, stopped, release := make(chan struct{}), make(chan struct{}), make(chan struct{})
	err := registry.Register("deaf", func(ctx context.Context, payload []byte) ([]byte, error) {
		close(began) // twice would panic
		<-ctx.Done()
		close(stopped)
		<-release
		return payload, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	cluster := startCluster(t, local.Config{Workers: 1, Slots: 2, Registry: registry})
	c := connectClient(t, cluster.Frontends())
	submit := func(function string) *client.Running {
		t.Helper()
		r, err := c.Submit(t.Context(), client.Job{
			Class: client.Spare,
			Tasks: []client.Task{{Function: function, Payload: []byte(function), Estimate: time.Hour}},
		})
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	older := submit("gate")
	<-heeds.begun
	deaf := submit("deaf") // the younger task is stopped first
	<-began
	regular := func() {
		t.Helper()
		if _, err := c.Run(t.Context(), client.Job{Tasks: []client.Task{{Function: "echo"}}}); err != nil {
			t.Error(err)
		}
	}
	regular()
	<-stopped
	<-heeds.begun // again
	regular()
	<-heeds.begun
	if n := heeds.ended.Load(); n != 2 {
		t.Errorf("the one that heeds was stopped %d times", n)
	}
	close(release)
	close(heeds.open)
	for i, r := range []*client.Running{older, deaf} {
		outs, err := r.Wait()
		if want := []string{"gate after 3", "deaf after 1"}[i]; err != nil || len(outs) != 1 ||
			fmt.Sprintf("%s after %d", outs[0].Result, outs[0].Attempts) != want {
			t.Errorf("%+v, %v, want %s", outs, err, want)
		}
	}
	said, err := admin.New(c).Cluster(t.Context())
	if err != nil || said.Preempted != 2 {
		t.Errorf("%d were preempted, %v", said.Preempted, err)
	}
}
