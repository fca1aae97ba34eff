package frontend

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/phoebe-sched/phoebe/frontend/estimate"
	"github.com/phoebe-sched/phoebe/probe"
)

// machines simulates workers of a slot each, w0 at h0 and so on. In each round every worker may send a message.
type machines struct {
	core    *Core
	now     time.Time
	ws      []machine
	checkT  *testing.T // nil: do not check the core's state
	w0Fails bool       // tasks fail at w0 with retry elsewhere, and w0 speaks 100 times as often as other workers
	done    int
	sent    int // messages from the frontend
	rounds  int
}

// machine is a simulated worker.
type machine struct {
	queue     []probe.ResID // in order; some places are gone
	live      map[probe.ResID]bool
	runs      []probe.Launch
	ridesBack []probe.ResID // places of rides that found no room
	saidReady bool          // has said Ready, and waits for the answer
}

func newMachines(workers int) *machines {
	s := &machines{
		core: New(Config{ID: 1}, rand.New(rand.NewPCG(1, 2))), now: time.Unix(1000, 0), ws: make([]machine, workers),
	}
	for i := range workers {
		s.ws[i].live = map[probe.ResID]bool{}
		s.core.Step(s.now, WorkerUp{Worker(i), probe.Welcome{
			Worker: fmt.Sprint("w", i), Host: fmt.Sprint("h", i), Incarnation: 1,
			Functions: []string{"f"}, Capacity: probe.Slot,
		}}, nil)
	}
	return s
}

// playJob runs a job to the end.
func (s *machines) playJob(j *Job) {
	s.done, s.sent = 0, 0
	s.takeActions(s.core.Step(s.now, Submit{j}, nil))
	var acts []Action
	for n := len(j.Tasks); s.done < n; {
		s.now = s.now.Add(time.Millisecond)
		s.rounds++
		for i := range s.ws {
			if s.w0Fails && i > 0 && s.rounds%100 > 0 {
				break
			}
			if msg := s.ws[i].nextMessage(); msg != nil {
				if end, ok := msg.(*probe.Finished); ok && s.w0Fails && i == 0 {
					end.Status, end.Retry = probe.Failed, probe.Elsewhere
				}
				acts = s.core.Step(s.now, frameFrom(Worker(i), msg), acts[:0])
				s.takeActions(acts)
			}
		}
		if s.checkT != nil {
			if err := s.core.Check(); err != nil {
				s.checkT.Fatal(err)
			}
		}
		if at := s.core.NextWake(); !at.IsZero() && !at.After(s.now) {
			acts = s.core.Step(s.now, Wake{}, acts[:0])
			s.takeActions(acts)
		}
	}
}

// nextMessage returns the worker's next message, or nil.
func (m *machine) nextMessage() probe.Msg {
	for len(m.queue) > 0 && !m.live[m.queue[0]] {
		m.queue = m.queue[1:]
	}
	load := probe.Load{Queued: uint32(len(m.live)), Running: uint32(len(m.runs))}
	switch {
	case len(m.ridesBack) > 0:
		id := m.ridesBack[0]
		m.ridesBack = m.ridesBack[1:]
		m.push(id)
		return probe.Queued{First: id, Count: 1, Load: load}
	case len(m.runs) > 0:
		l := m.runs[0]
		if m.runs = m.runs[1:]; len(m.runs) == 0 && len(m.live) == 0 {
			load.Free = probe.Slot
		}
		return &probe.Finished{Attempt: l.Attempt, Status: probe.Succeeded, Run: time.Millisecond, Load: load}
	case !m.saidReady && len(m.queue) > 0:
		m.saidReady = true
		return probe.Ready{Res: m.queue[0], Load: load}
	}
	return nil
}

func (s *machines) takeActions(acts []Action) {
	for _, a := range acts {
		switch a := a.(type) {
		case Refused:
			panic(a.Err)
		case *Done:
			s.done++
		case Send:
			s.sent++
			s.ws[a.Worker].takeMessage(a.Msg)
		}
	}
}

func (m *machine) takeMessage(msg probe.Msg) {
	switch msg := msg.(type) {
	case probe.Reserve:
		for i := range msg.Count {
			switch id := msg.First + probe.ResID(i); {
			case int(i) >= len(msg.Launches):
				m.push(id)
			case len(m.runs) == 0 && !m.saidReady:
				m.runs = append(m.runs, msg.Launches[i])
			default:
				m.ridesBack = append(m.ridesBack, id)
			}
		}
	case probe.Bind:
		m.saidReady = false
		if m.runs = append(append(m.runs, msg.Launch), msg.Bundle...); !msg.Keep {
			delete(m.live, msg.Res)
		}
	case probe.Decline:
		m.saidReady = false
		delete(m.live, msg.Res)
	case probe.Cancel:
		for i := range msg.Count {
			delete(m.live, msg.First+probe.ResID(i))
		}
		m.saidReady = m.saidReady && m.live[m.queue[0]]
	}
}

func (m *machine) push(id probe.ResID) {
	m.queue = append(m.queue, id)
	m.live[id] = true
}

// jobOfGroups makes a job of n tasks. Each task names another combination of three of the hosts, so each is a group.
func jobOfGroups(n, hosts int) *Job {
	j := jobWith("x", make([]Task, n)...)
	for i := range j.Tasks {
		t := &j.Tasks[i]
		t.Estimate = time.Millisecond
		t.Constraint.Hosts = []string{
			fmt.Sprint("h", i%hosts), fmt.Sprint("h", i/hosts%hosts), fmt.Sprint("h", i/hosts/hosts%hosts),
		}
	}
	return j
}

// A job has more groups than the core looks at for a message. It is sampled like any job, and all tasks run.
func TestManyGroups(t *testing.T) {
	const n = 3 * maxGroupsLooked
	for _, policy := range Policies[:2] {
		s := newMachines(16)
		s.checkT = t
		j := jobOfGroups(n, 16)
		j.Policy = policy
		s.playJob(j)
		if got := s.core.Stats.Estimated; got != 0 || s.sent > 8*n {
			t.Errorf("policy %s: %d tasks by estimation, %d messages", policy.Name, got, s.sent)
		}
	}
}

// BenchmarkManyGroups: a job with a group for each task takes hardly longer than a job with a single group.
func BenchmarkManyGroups(b *testing.B) {
	for _, n := range []int{1000, 10_000, 100_000} {
		for _, kind := range []string{"hosts", "inputs", "one"} {
			b.Run(fmt.Sprint(n, "/", kind), func(b *testing.B) {
				s := newMachines(64)
				for b.Loop() {
					j := jobOfGroups(n, 64)
					for i := range j.Tasks {
						t := &j.Tasks[i]
						if kind == "inputs" {
							for _, at := range t.Constraint.Hosts {
								t.Inputs = append(t.Inputs, Input{Bytes: 100_000, Copies: []estimate.Copy{{At: at}}})
							}
						}
						if kind != "hosts" {
							t.Constraint = Constraint{}
						}
					}
					s.playJob(j)
					if s.done != n {
						b.Fatalf("%d of %d tasks are done", s.done, n)
					}
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/task")
				b.ReportMetric(float64(s.sent)/float64(n), "messages/task")
			})
		}
	}
}

// BenchmarkShunned: the cost of a task does not depend on how many tasks shun a worker. Here w0 is quick to take tasks,
// all tasks fail at w0, and then shun w0.
func BenchmarkShunned(b *testing.B) {
	for _, n := range []int{1000, 10_000, 100_000} {
		for _, kind := range []string{"anywhere", "inputs"} {
			b.Run(fmt.Sprint(n, "/", kind), func(b *testing.B) {
				s := newMachines(2)
				s.w0Fails = true
				for b.Loop() {
					j := jobWith("x", make([]Task, n)...)
					for i := range j.Tasks {
						t := &j.Tasks[i]
						t.Estimate, t.Retryable, t.Retries = time.Millisecond, true, 2
						if kind == "inputs" {
							t.Inputs = []Input{{Bytes: 100_000, Copies: []estimate.Copy{{At: fmt.Sprint("h", i%2)}}}}
						}
					}
					if s.playJob(j); s.done != n {
						b.Fatalf("%d of %d tasks are done", s.done, n)
					}
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/task")
			})
		}
	}
}
