package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"

	"github.com/phoebe-sched/phoebe/bench/tpch/data"
	"github.com/phoebe-sched/phoebe/bench/tpch/engine"
	"github.com/phoebe-sched/phoebe/bench/tpch/lite"
	"github.com/phoebe-sched/phoebe/bench/tpch/plan"
)

// oracles are the programs whose rows count as right: DuckDB alone, and SQLite where it has the functions.
type oracles struct {
	duckdb *engine.Reference
	sqlite *lite.Oracle // nil if the tables are too large
	temp   string

	byDuckDB, bySQLite int            // numbers of compared queries
	incomparable       map[string]int // numbers of queries that SQLite did not answer, by reason
	tooLarge           string         // why there is no SQLite
}

// openOracles opens the oracles for a manifest, with the given number of threads for DuckDB.
func openOracles(ctx context.Context, m *data.Manifest, threads int) (*oracles, error) {
	o := &oracles{incomparable: map[string]int{}}
	var err error
	if o.temp, err = os.MkdirTemp("", "phoebe-tpch"); err != nil {
		return nil, err
	}
	if o.duckdb, err = engine.NewReference(m, threads, 4096, o.temp); err != nil {
		o.closeAll()
		return nil, err
	}
	o.sqlite, err = lite.Open(ctx, m)
	if why, ok := errors.AsType[*lite.IncomparableError](err); ok {
		o.tooLarge, err = why.Why, nil
	}
	if err != nil {
		o.closeAll()
		return nil, err
	}
	return o, nil
}

// closeAll closes the oracles that are open.
func (o *oracles) closeAll() {
	if o.duckdb != nil {
		o.duckdb.Close()
	}
	if o.sqlite != nil {
		o.sqlite.Close()
	}
	os.RemoveAll(o.temp)
}

// compareRows returns an error if the rows of a query are not the oracles'. DuckDB's rows are want.
func (o *oracles) compareRows(ctx context.Context, query string, got, want [][]string, cols []plan.Column,
	orderBy []int) error {
	o.byDuckDB++
	var errs []error
	if d := engine.Compare(got, want, cols, orderBy); d != "" {
		errs = append(errs, errors.New("the rows differ from DuckDB's: "+d))
	}
	if o.sqlite == nil {
		o.incomparable[o.tooLarge]++
		return errors.Join(errs...)
	}
	d, err := engine.CompareSQLite(ctx, o.sqlite, query, got, orderBy)
	if why, ok := errors.AsType[*lite.IncomparableError](err); ok {
		o.incomparable[why.Why]++
		return errors.Join(errs...)
	}
	o.bySQLite++
	if d != "" {
		err = errors.New("the rows differ from SQLite's: " + d)
	}
	return errors.Join(append(errs, err)...)
}

// printCounts prints how many queries were compared with each oracle, and why the rest was not.
func (o *oracles) printCounts() {
	sum := 0
	for _, n := range o.incomparable {
		sum += n
	}
	fmt.Printf("%d compared with DuckDB, %d with SQLite, %d not comparable with SQLite\n", o.byDuckDB, o.bySQLite, sum)
	for _, why := range sortByCount(o.incomparable) {
		fmt.Printf("  not comparable %d times: %s\n", o.incomparable[why], why)
	}
}

// sortByCount returns the keys of m, those with the largest counts first.
func sortByCount(m map[string]int) []string {
	return slices.SortedFunc(maps.Keys(m), func(a, b string) int {
		return cmp.Or(cmp.Compare(m[b], m[a]), cmp.Compare(a, b))
	})
}
