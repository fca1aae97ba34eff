package client

import (
	"strings"
	"testing"

	v1 "github.com/phoebe-sched/phoebe/idl/gen/phoebe/v1"
)

// The client refuses partitions that do not exist. Otherwise a task would start without its data.
func TestPartitionsThatDoNotExist(t *testing.T) {
	f := newFake(t)
	f.submit = func(r *v1.SubmitRequest) (*v1.SubmitResponse, error) {
		return &v1.SubmitResponse{Handle: f.handleOf(r.Job)}, nil
	}
	f.extend = func(*v1.ExtendRequest) (*v1.ExtendResponse, error) { return &v1.ExtendResponse{}, nil }
	hang := make(chan struct{})
	t.Cleanup(func() { close(hang) })
	f.events = func(*v1.EventsRequest) (*v1.EventsResponse, error) {
		<-hang
		return eventsAnswer(0, true), nil
	}
	f.cancel = func(*v1.CancelRequest) (*v1.CancelResponse, error) { return &v1.CancelResponse{}, nil }
	c := newClient(t, []string{f.addr})
	tasks := []Task{{Stage: "a", Function: "f"}, {Stage: "a", Function: "f"}}
	stages := []Stage{{Name: "a"}, {Name: "b", After: []string{"a"}, Along: []string{"a"}}}
	for _, c2 := range []struct {
		task Task
		why  string // "": the task is right
	}{
		{Task{Along: []int{0, 1}}, ""},
		{Task{Along: []int{5}}, "no partition 5"},
		{Task{Along: []int{-1}}, "no partition -1"},
		{Task{Along: []int{1<<32 + 1}}, "no partition 4294967297"},
		{Task{Inputs: []Input{{Stage: "a", Pass: Inline, Partition: 1<<32 + 1}}}, "partition 4294967297"},
		{Task{Inputs: []Input{{Stage: "a", Pass: Inline, Partition: -1}}}, "partition -1"},
	} {
		check := func(call string, err error) {
			t.Helper()
			if c2.why == "" && err != nil ||
				c2.why != "" && (!refusedFor(err, Invalid) || !strings.Contains(err.Error(), c2.why)) {
				t.Errorf("%s with %+v: %v", call, c2.task, err)
			}
		}
		c2.task.Stage, c2.task.Function = "b", "f"
		_, err := c.Submit(t.Context(), Job{Stages: stages, Tasks: append(tasks[:2:2], c2.task)})
		check("Submit", err)
		r, err := c.Submit(t.Context(), Job{Open: true, Stages: stages[:1], Tasks: tasks})
		if err != nil {
			t.Fatal(err)
		}
		check("Extend", r.Extend(t.Context(), stages[1:], []Task{c2.task}))
	}
}
