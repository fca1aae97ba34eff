package client

import (
	"context"
	"testing"
	"time"

	v1 "github.com/phoebe-sched/phoebe/idl/gen/phoebe/v1"
)

// BenchmarkRun measures a round trip to a frontend that answers at once: through the client, and by the call alone on
// the same connections. The difference is the cost of the client.
func BenchmarkRun(b *testing.B) {
	for _, tasks := range []int{1, 100} {
		name := map[int]string{1: "1task", 100: "100tasks"}[tasks]
		f := newFake(b)
		f.run = f.runEcho
		c := newClient(b, []string{f.addr}, func(c *config) { c.pingEvery = time.Second })
		ctx, cancel := context.WithCancel(b.Context())
		defer cancel()
		job := echoJob(tasks)
		b.Run(name+"/client", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := c.Run(ctx, job); err != nil {
					b.Fatal(err)
				}
			}
		})
		s, err := c.newSession(b.Context(), job)
		if err != nil {
			b.Fatal(err)
		}
		b.Run(name+"/call", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				f := c.roster.Load().seeds[0]
				if _, err := f.rpc.Run(&call{ctx: ctx, pool: f.pool}, &v1.RunRequest{Job: &s.job}); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(name+"/client16", func(b *testing.B) {
			b.SetParallelism(8)
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					if _, err := c.Run(ctx, job); err != nil {
						b.Error(err)
					}
				}
			})
		})
	}
}
