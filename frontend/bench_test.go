package frontend

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/phoebe-sched/phoebe/frontend/estimate"
	"github.com/phoebe-sched/phoebe/probe"
)

// BenchmarkJob measures the cost of a short job: ten tasks that ride along to idle workers, or are bound when busy
// workers are ready.
func BenchmarkJob(b *testing.B) {
	for _, workers := range []int{10, 1000} {
		for _, busy := range []bool{false, true} {
			b.Run(fmt.Sprintf("workers=%d/busy=%t", workers, busy), func(b *testing.B) {
				benchmarkJob(b, workers, busy)
			})
		}
	}
}

func benchmarkJob(b *testing.B, workers int, busy bool) {
	c := New(Config{ID: 1}, rand.New(rand.NewPCG(1, 2)))
	now := time.Unix(1000, 0)
	load := probe.Load{Free: probe.Demand{CPU: 8000, Mem: 8 * 256}}
	if busy {
		load = probe.Load{Queued: 4}
	}
	for i := range workers {
		name := fmt.Sprint("w", i)
		c.Step(now, WorkerUp{Worker(i), probe.Welcome{
			Worker: name, Host: name, Incarnation: 1, Functions: []string{"f"},
			Capacity: probe.Demand{CPU: 8000, Mem: 8 * 256},
		}}, nil)
		c.Step(now, frameFrom(Worker(i), probe.Pong{Load: load}), nil)
	}
	payload := make([]byte, 16)
	var acts []Action
	var events []Event
	reply := func(w Worker, l *probe.Launch) {
		events = append(events, frameFrom(w, &probe.Finished{
			Attempt: l.Attempt, Task: l.Task, Status: probe.Succeeded, Run: 10 * time.Millisecond, Load: load,
		}))
	}
	b.ReportAllocs()
	b.ResetTimer()
	for n := range b.N {
		j := &Job{
			ID:     probe.JobID{0: byte(n), 1: byte(n >> 8), 2: byte(n >> 16), 3: byte(n >> 24)},
			Policy: Policies[0], Tasks: make([]Task, 10),
		}
		for i := range j.Tasks {
			j.Tasks[i] = Task{
				Index: probe.TaskIndex(i), Function: "f", Payload: payload,
				Estimate: 10 * time.Millisecond, Retryable: true,
			}
		}
		events = append(events[:0], Submit{j})
		ended := false
		for i := 0; i < len(events); i++ {
			acts = c.Step(now, events[i], acts[:0])
			for _, a := range acts {
				switch a := a.(type) {
				case Send:
					switch m := a.Msg.(type) {
					case probe.Reserve:
						for k := range m.Launches {
							reply(a.Worker, &m.Launches[k])
						}
						if len(m.Launches) == 0 {
							events = append(events, frameFrom(a.Worker, probe.Ready{Res: m.First, Load: load}))
						}
					case probe.Bind:
						reply(a.Worker, &m.Launch)
						if m.Keep {
							events = append(events, frameFrom(a.Worker, probe.Ready{Res: m.Res, Turn: m.Turn + 1, Load: load}))
						}
					}
				case Ended:
					ended = true
				}
			}
			now = now.Add(time.Microsecond)
			if at := c.NextWake(); !at.IsZero() && !now.Before(at) {
				acts = c.Step(now, Wake{}, acts[:0])
			}
		}
		if !ended {
			b.Fatal("a job did not end")
		}
	}
}

// BenchmarkBatch measures the cost of placing a full batch of long tasks, which holds up short tasks for that time.
func BenchmarkBatch(b *testing.B) {
	for _, workers := range []int{100, 20_000} {
		for _, inputs := range []int{0, 2} {
			b.Run(fmt.Sprintf("workers=%d/inputs=%d", workers, inputs), func(b *testing.B) {
				benchmarkBatch(b, workers, inputs)
			})
		}
	}
}

func benchmarkBatch(b *testing.B, workers, inputs int) {
	c := New(Config{ID: 1}, rand.New(rand.NewPCG(1, 2)))
	now := time.Unix(1000, 0)
	size := probe.Demand{CPU: 8000, Mem: 8 * 256}
	tell := func(i int) {
		wait := time.Duration(i%50) * time.Second
		c.Step(now, Heard{
			Worker: Worker(i), Incarnation: 1, Seq: uint64(now.UnixNano()), Matrix: flatMatrix(size, wait),
		}, nil)
	}
	for i := range workers {
		c.Step(now, WorkerUp{Worker(i), probe.Welcome{
			Worker: fmt.Sprint("w", i), Host: fmt.Sprint("h", i), Rack: fmt.Sprint("r", i/20),
			Incarnation: 1, Functions: []string{"f"}, Capacity: size,
		}}, nil)
		tell(i)
	}
	b.ReportAllocs()
	b.ResetTimer()
	for n := range b.N {
		j := &Job{
			ID:     probe.JobID{0: byte(n), 1: byte(n >> 8), 2: byte(n >> 16)},
			Policy: Policies[0], Tasks: make([]Task, estimate.MaxBatch),
		}
		for i := range j.Tasks {
			j.Tasks[i] = Task{Index: probe.TaskIndex(i), Function: "f", Estimate: 10 * time.Second}
			for k := range inputs {
				at := fmt.Sprint("w", (n*estimate.MaxBatch+i*7+k*1001)%workers)
				j.Tasks[i].Inputs = append(j.Tasks[i].Inputs, Input{Bytes: 1e9, Copies: []estimate.Copy{{At: at}}})
			}
		}
		acts := c.Step(now, Submit{j}, nil)
		b.StopTimer()
		if c.Stats.Asked > 0 || c.Stats.Enqueued == 0 {
			b.Fatalf("%+v", c.Stats)
		}
		c.Step(now, Cancel{Job: j.ID}, nil)
		for _, a := range acts {
			if s, ok := a.(Send); ok {
				now = now.Add(1)
				tell(int(s.Worker))
			}
		}
		b.StartTimer()
	}
}
