package serve

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/phoebe-sched/phoebe/frontend"
	"github.com/phoebe-sched/phoebe/idl/gen/phoebe/v1"
	"github.com/phoebe-sched/phoebe/idl/gen/phoebe/v1/phoebe"
	"github.com/phoebe-sched/phoebe/probe"
)

// hostileCall is a call by a client of tenant evil about a job of tenant ads. "own" says that the call concerns only
// jobs of evil, "nothing" that the answer is empty. Other results are reasons of refusals.
type hostileCall struct {
	name string // the method of the API, and what is sent
	// The results: at the owner of the job, at another frontend, which knows the owner, and at both if the caller poses
	// as a frontend that forwards a call of an operator.
	owner, other, posing, posingElsewhere string
	call                                  func(h *hostile) (empty bool, err error)
}

// hostile holds the parts of the calls.
type hostile struct {
	ctx    context.Context
	api    phoebe.Client
	caller *v1.Caller
	victim *v1.Handle
	here   string // address of the asked frontend
}

// newJob returns a job of evil with the id of the victim's job.
func (h *hostile) newJob(change func(*v1.Job)) *v1.Job {
	j := newJob("echo", "mine", "mine")
	j.Id = h.victim.Job
	if change != nil {
		change(j)
	}
	return j
}

// submitJob submits a job with the id of the victim's job, and checks that only results of its own tasks come.
func (h *hostile) submitJob(change func(*v1.Job)) (bool, error) {
	res, err := h.api.Submit(h.ctx, &v1.SubmitRequest{Caller: h.caller, Job: h.newJob(change)})
	if err != nil {
		return false, err
	}
	for cursor := int64(0); ; {
		ev, err := h.api.Events(h.ctx, &v1.EventsRequest{Caller: h.caller, Handle: res.Handle, Cursor: cursor,
			MaxWaitUs: 10e6})
		if err != nil {
			return false, fmt.Errorf("events of its own job: %w", err)
		}
		for _, e := range ev.Events {
			if string(e.Outcome.Result_) != "mine" {
				return false, fmt.Errorf("it gets %v", e.Outcome)
			}
		}
		if cursor = ev.Cursor; ev.Done {
			return false, nil
		}
	}
}

// resubmitJob is submitJob with a resubmission.
func (h *hostile) resubmitJob(r *v1.Resubmission) (bool, error) {
	return h.submitJob(func(j *v1.Job) { j.Resubmission = r })
}

const (
	own, nothing  = "own", "nothing"
	forbidden     = "FORBIDDEN"
	unknown, lost = "UNKNOWN_JOB", "OWNER_LOST"
	noFile        = "NO_FILE"
)

var hostileCalls = []hostileCall{
	{"Run, the id", forbidden, own, forbidden, own, func(h *hostile) (bool, error) {
		res, err := h.api.Run(h.ctx, &v1.RunRequest{Caller: h.caller, Job: h.newJob(nil)})
		if err == nil && (len(res.Outcomes) != 2 || string(res.Outcomes[0].Result_) != "mine") {
			err = fmt.Errorf("it gets %v", res)
		}
		return false, err
	}},
	{"Run, the id and the owner", forbidden, forbidden, forbidden, own, func(h *hostile) (bool, error) {
		_, err := h.api.Run(h.ctx, &v1.RunRequest{Caller: h.caller, Job: h.newJob(func(j *v1.Job) {
			j.Resubmission = &v1.Resubmission{PreviousOwner: h.victim.Owner, Count: 1}
		})})
		return false, err
	}},
	{"Submit, the id", forbidden, own, forbidden, own, func(h *hostile) (bool, error) { return h.submitJob(nil) }},
	{"Submit, the tenant", forbidden, forbidden, forbidden, forbidden, func(h *hostile) (bool, error) {
		return h.submitJob(func(j *v1.Job) { j.Id, j.Tenant = newID(), "ads/etl" })
	}},
	{"Submit, the owner", forbidden, forbidden, forbidden, own, func(h *hostile) (bool, error) {
		return h.resubmitJob(&v1.Resubmission{PreviousOwner: h.victim.Owner, Count: 1})
	}},
	{"Submit, an unknown owner", forbidden, forbidden, forbidden, own, func(h *hostile) (bool, error) {
		return h.resubmitJob(&v1.Resubmission{PreviousOwner: "nobody:1", Count: 1})
	}},
	{"Submit, the asked frontend as owner", forbidden, own, forbidden, own, func(h *hostile) (bool, error) {
		return h.resubmitJob(&v1.Resubmission{PreviousOwner: h.here, Count: 1})
	}},
	{"Submit, the highest count", forbidden, own, forbidden, own, func(h *hostile) (bool, error) {
		return h.resubmitJob(&v1.Resubmission{PreviousOwner: h.here, Count: maxResubmissions})
	}},
	{"Submit, a higher count", "INVALID", "INVALID", "INVALID", "INVALID", func(h *hostile) (bool, error) {
		return h.resubmitJob(&v1.Resubmission{PreviousOwner: h.here, Count: maxResubmissions + 1})
	}},
	{"Submit, an age and a number of tasks", forbidden, own, forbidden, own, func(h *hostile) (bool, error) {
		return h.resubmitJob(&v1.Resubmission{PreviousOwner: h.here, Count: 9, AgeUs: 1, Tasks: 2})
	}},
	{"Submit, runs and outputs of stages", forbidden, own, forbidden, own, func(h *hostile) (bool, error) {
		return h.submitJob(func(j *v1.Job) {
			j.Stages = []*v1.Stage{{Name: "map"}, {Name: "sum", After: []string{"map"}}}
			for i, task := range j.Tasks {
				task.Stage, task.Index, task.Partition = "sum", int32(i+1), int32(i)
			}
			j.Resubmission = &v1.Resubmission{PreviousOwner: h.here, Count: 9, Tasks: 3,
				Ran:  []*v1.StageRun{{Stage: "map", Worker: "w0", Tasks: 1}},
				Made: []*v1.Made{{Stage: "map", Task: 0, Worker: "w0", Outputs: []*v1.Output{}}}}
		})
	}},
	{"Events", forbidden, forbidden, forbidden, unknown, func(h *hostile) (bool, error) {
		_, err := h.api.Events(h.ctx, &v1.EventsRequest{Caller: h.caller, Handle: h.victim, Cursor: 1})
		return false, err
	}},
	{"Events, only_ask", forbidden, forbidden, forbidden, unknown, func(h *hostile) (bool, error) {
		_, err := h.api.Events(h.ctx, &v1.EventsRequest{Caller: h.caller, Handle: h.victim, OnlyAsk: true})
		return false, err
	}},
	{"Events, another owner", lost, lost, forbidden, unknown, func(h *hostile) (bool, error) {
		_, err := h.api.Events(h.ctx,
			&v1.EventsRequest{Caller: h.caller, Handle: &v1.Handle{Job: h.victim.Job, Owner: "nobody:1"}})
		return false, err
	}},
	{"Cancel", forbidden, forbidden, forbidden, unknown, func(h *hostile) (bool, error) {
		_, err := h.api.Cancel(h.ctx, &v1.CancelRequest{Caller: h.caller, Handle: h.victim})
		return false, err
	}},
	{"CancelTasks", forbidden, forbidden, forbidden, unknown, func(h *hostile) (bool, error) {
		_, err := h.api.CancelTasks(h.ctx,
			&v1.CancelTasksRequest{Caller: h.caller, Handle: h.victim, Tasks: []int32{0, 1}})
		return false, err
	}},
	{"Extend", forbidden, forbidden, forbidden, unknown, func(h *hostile) (bool, error) {
		_, err := h.api.Extend(h.ctx, &v1.ExtendRequest{Caller: h.caller, Handle: h.victim, FromTask: 2, Last: true,
			Tasks: newJob("echo", "mine").Tasks})
		return false, err
	}},
	{"Explain", forbidden, forbidden, forbidden, unknown, func(h *hostile) (bool, error) {
		_, err := h.api.Explain(h.ctx, &v1.ExplainRequest{Caller: h.caller, Handle: h.victim, Task: -1})
		return false, err
	}},
	{"Trace", forbidden, unknown, forbidden, unknown, func(h *hostile) (bool, error) {
		_, err := h.api.Trace(h.ctx, &v1.TraceRequest{Caller: h.caller, Job: h.victim.Job})
		return false, err
	}},
	{"Jobs, the tenant and the id", nothing, nothing, nothing, nothing, func(h *hostile) (bool, error) {
		ads, filter := "ads", v1.NewJobFilter()
		filter.Tenant, filter.Id = &ads, h.victim.Job
		res, err := h.api.Jobs(h.ctx, &v1.JobsRequest{Caller: h.caller, Filter: filter})
		return err == nil && len(res.Jobs) == 0, err
	}},
	{"Watch", forbidden, forbidden, forbidden, forbidden, func(h *hostile) (bool, error) {
		_, err := h.api.Watch(h.ctx, &v1.WatchRequest{Caller: h.caller, Top: 9})
		return false, err
	}},
	{"Cluster, tenants", nothing, nothing, nothing, nothing, func(h *hostile) (bool, error) {
		res, err := h.api.Cluster(h.ctx, &v1.ClusterRequest{Caller: h.caller, Tenants: true})
		if err != nil {
			return false, err
		}
		for _, s := range res.Tenants {
			if s.Path == "ads" {
				return false, nil
			}
		}
		return true, nil
	}},
	{"Recordings", forbidden, forbidden, forbidden, forbidden, func(h *hostile) (bool, error) {
		_, err := h.api.Recordings(h.ctx, &v1.RecordingsRequest{Caller: h.caller})
		return false, err
	}},
	{"Recording", forbidden, forbidden, forbidden, forbidden, func(h *hostile) (bool, error) {
		_, err := h.api.Recording(h.ctx, &v1.RecordingRequest{Caller: h.caller, Frontend: h.here, Name: "recording-x"})
		return false, err
	}},
	{"Leave", forbidden, forbidden, forbidden, forbidden, func(h *hostile) (bool, error) {
		_, err := h.api.Leave(h.ctx, &v1.LeaveRequest{Caller: h.caller, Worker: "w0", Drain: true})
		return false, err
	}},
	{"Locate", nothing, nothing, nothing, nothing, func(h *hostile) (bool, error) {
		res, err := h.api.Locate(h.ctx, &v1.LocateRequest{Caller: h.caller, Sha256: []string{strings.Repeat("ab", 32)}})
		return err == nil && len(res.Copies[0]) == 0, err
	}},
	{"ReadFile", noFile, noFile, noFile, noFile, func(h *hostile) (bool, error) {
		_, err := h.api.ReadFile(h.ctx,
			&v1.ReadFileRequest{Caller: h.caller, Sha256: strings.Repeat("ab", 32), Worker: "w0"})
		return false, err
	}},
}

// A tenant's client sends the ids of another tenant's job in every call, and in every field of a resubmission. It
// learns nothing and changes nothing, wherever it asks. OPERATIONS.md has the table for readers.
func TestHostileTenants(t *testing.T) {
	for i := range reflect.TypeFor[v1.Phoebe]().NumMethod() {
		method, tried := reflect.TypeFor[v1.Phoebe]().Method(i).Name, false
		for _, c := range hostileCalls {
			name, _, _ := strings.Cut(c.name, ",")
			tried = tried || name == method
		}
		if !tried {
			t.Errorf("no hostile call of %s", method)
		}
	}
	for _, c := range hostileCalls {
		t.Run(c.name, func(t *testing.T) {
			for i, want := range []string{c.owner, c.other, c.posing, c.posingElsewhere} {
				if got := playHostile(t, &c, i%2 == 1, i >= 2); got != want {
					t.Errorf("elsewhere: %t, posing: %t: %s, want %s", i%2 == 1, i >= 2, got, want)
				}
			}
		})
	}
}

// playHostile makes a hostile call in a new fleet, and returns the result. The victim's job must go on.
func playHostile(t *testing.T, c *hostileCall, elsewhere, posing bool) string {
	ctx := context.Background()
	owner, other := startFleet(t, true, "ads", "evil")
	j := newJob("sleep", "1h", "0s")
	j.Open = true
	sub, err := owner.client.Submit(ctx, &v1.SubmitRequest{Caller: callerWith("ads"), Job: j})
	if err != nil {
		t.Fatal(err)
	}
	pollUntil(t, "a result waits", func() bool { return owner.coreStats().Outcomes[frontend.Result] == 1 })
	asked, caller := owner, callerWith("evil")
	if elsewhere {
		asked = other
	}
	if operator, ads := "operator", "ads"; posing {
		caller.Forwarded, caller.OnBehalf, caller.BoundTo = true, &operator, &ads
	}
	id, err := probe.ParseJobID(j.Id)
	if err != nil {
		t.Fatal(err)
	}
	look := func() clientJob {
		owner.mu.Lock()
		defer owner.mu.Unlock()
		return *owner.jobs[id]
	}
	before := look()
	empty, err := c.call(&hostile{ctx, asked.client, caller, sub.Handle, asked.Advertised()})
	if after := look(); after.polledAt != before.polledAt || after.unfinished != 1 || len(after.outcomes) != 1 ||
		after.moved || after.totalTasks != 2 {
		t.Errorf("the job has become %+v, was %+v", after, before)
	}
	ev, victimErr := owner.client.Events(ctx, &v1.EventsRequest{Caller: callerWith("ads"), Handle: sub.Handle})
	if victimErr != nil || len(ev.Events) != 1 || ev.Done {
		t.Errorf("the owner gets %v, %v", ev, victimErr)
	}
	var refused *v1.Refused
	switch {
	case errors.As(err, &refused):
		return refused.Reason.String()
	case err != nil:
		return err.Error()
	case empty:
		return nothing
	}
	return own
}
