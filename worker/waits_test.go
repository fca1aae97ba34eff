package worker

import (
	"testing"
	"time"

	"github.com/phoebe-sched/phoebe/probe"
)

// A wait is split by the users of the worker meanwhile. Here other tasks use a slot or both slots.
func TestWaits(t *testing.T) {
	const ms = time.Millisecond
	for _, test := range []struct {
		name string
		// runs and ends tell who uses each slot, and until when: a tenant, "long" for a long task, or "asked".
		runs [2]string
		ends [2]time.Duration
		want probe.Waits
	}{
		{"its own tenant and another", [2]string{"a", "b"}, [2]time.Duration{6 * ms, 8 * ms},
			probe.Waits{Own: 3 * ms, Others: 3 * ms}},
		{"others", [2]string{"b", "c"}, [2]time.Duration{6 * ms, 8 * ms}, probe.Waits{Others: 6 * ms}},
		{"long tasks", [2]string{"long", "a"}, [2]time.Duration{8 * ms, 6 * ms},
			probe.Waits{Own: 3 * ms, Long: 3 * ms}},
		{"a turn that is not answered", [2]string{"asked", "b"}, [2]time.Duration{8 * ms, 6 * ms},
			probe.Waits{Others: 3 * ms, Idle: 3 * ms}},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := New(Config{Capacity: size(2), Functions: []string{"f"}, ShortShare: -1})
			now := time.Unix(1_000_000, 0)
			start := now
			step := func(ev Event) (acts []Action) {
				acts = c.Step(now, ev, nil)
				if err := c.Check(); err != nil {
					t.Fatal(err)
				}
				return acts
			}
			step(LinkUp{Link: 1, Frontend: 1})
			res := probe.ResID(0)
			reserve := func(tenant string, launch *probe.Launch) {
				res++
				m := probe.Reserve{First: res, Count: 1, Job: probe.JobID{byte(res)}, Tenant: tenant, Demand: size(1)}
				if launch != nil {
					m.Launches = []probe.Launch{*launch}
				}
				step(Received{1, m})
			}
			for i, label := range test.runs {
				l := &probe.Launch{Attempt: probe.AttemptID{Frontend: 1, Seq: uint64(i + 1)}, Function: "f"}
				switch label {
				case "long":
					res++
					step(Received{1, probe.Enqueue{Res: res, Job: probe.JobID{9}, Tenant: "z", Demand: size(1),
						Long: true, Launch: *l}})
				case "asked":
					reserve("b", nil)
				default:
					reserve(label, l)
				}
			}
			reserve("a", nil)
			waiting := res
			first := 0
			if test.ends[1] < test.ends[0] {
				first = 1
			}
			now = start.Add(test.ends[first])
			acts := step(&Exited{Attempt: probe.AttemptID{Frontend: 1, Seq: uint64(first + 1)},
				Status: probe.Succeeded})
			asked := false
			for _, a := range acts {
				if s, ok := a.(*Send); ok {
					if m, ok := s.Msg.(probe.Ready); ok && m.Res == waiting {
						asked = true
					}
				}
			}
			if !asked {
				t.Fatalf("the turn of the place that waits has not come: %v", acts)
			}
			now = now.Add(ms)
			id := probe.AttemptID{Frontend: 1, Seq: 9}
			step(Received{1, probe.Bind{Res: waiting, Launch: probe.Launch{Attempt: id, Function: "f"}}})
			for _, a := range step(&Exited{Attempt: id, Status: probe.Succeeded}) {
				if s, ok := a.(*Send); ok {
					if m, ok := s.Msg.(*probe.Finished); ok {
						if m.Waits != test.want || m.Waited != test.ends[first] {
							t.Errorf("waited %v, for %+v, want %+v", m.Waited, m.Waits, test.want)
						}
						return
					}
				}
			}
			t.Error("no Finished was sent")
		})
	}
}
