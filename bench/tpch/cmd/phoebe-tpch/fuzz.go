package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/phoebe-sched/phoebe/bench/tpch/fuzz"
	"github.com/phoebe-sched/phoebe/bench/tpch/plan"
)

type fuzzCmd struct {
	clusterFlags
	N    int     `default:"1000" help:"Number of queries. Default ${default}."`
	Seed uint64  `default:"1" help:"Seed of the queries: the same seed gives the same queries. Default ${default}."`
	SF   float64 `name:"sf" default:"0.01" placeholder:"X" help:"Scale factor of the data. Default ${default}."`
}

func (f *fuzzCmd) Run(ctx context.Context, c *cli) error {
	e, m, close, err := f.openEngine(c, f.SF)
	if err != nil {
		return err
	}
	defer close()
	o, err := openOracles(ctx, m, 1)
	if err != nil {
		return err
	}
	defer o.closeAll()
	start := time.Now()
	refusals := map[string]int{}
	planned, wrong, failed := 0, 0, 0
	r := rand.New(rand.NewPCG(f.Seed, 0))
	for i := 0; i < f.N && ctx.Err() == nil; i++ {
		q := fuzz.Query(r, m)
		bound, cancel := context.WithTimeout(ctx, time.Minute)
		want, refErr := o.duckdb.Rows(bound, q)
		cancel()
		if errors.Is(refErr, context.DeadlineExceeded) {
			i-- // the right rows are unknown, so the query does not count
			continue
		}
		p, err := e.Plan(ctx, q)
		if refused, ok := errors.AsType[*plan.RefusedError](err); ok {
			refusals[refused.What]++
			continue
		}
		planned++
		fail := func(what string, args ...any) {
			wrong++
			fmt.Printf("query %d of seed %d: %s\n  %s\n", i, f.Seed, fmt.Sprintf(what, args...), q)
		}
		if err != nil {
			if refErr == nil {
				fail("not planned: %v", err)
			} else {
				failed++
			}
			continue
		}
		res, err := e.Query(ctx, q, f.queryOptions())
		if err != nil {
			if refErr == nil {
				fail("%v", err)
			} else {
				failed++
			}
			continue
		}
		got, err := res.Text(ctx)
		res.Close()
		switch {
		case err != nil:
			fail("%v", err)
		case refErr != nil:
			fail("DuckDB says %v", refErr)
		default:
			if err := o.compareRows(ctx, q, got, want, p.Columns, p.Order); err != nil {
				fail("%v", err)
			}
		}
	}
	fmt.Printf("%d queries: %d planned (%.1f %%), %d wrong, in %v\n", f.N, planned, 100*float64(planned)/float64(f.N),
		wrong, time.Since(start).Round(time.Second))
	fmt.Printf("%d failed in DuckDB, too\n", failed)
	o.printCounts()
	for _, w := range sortByCount(refusals) {
		fmt.Printf("  refused %d times: %s\n", refusals[w], strings.TrimSpace(w))
	}
	if wrong > 0 {
		return errors.New("some queries have wrong rows or fail: see the lines above")
	}
	return nil
}
