package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/phoebe-sched/phoebe/bench/tpch/data"
	"github.com/phoebe-sched/phoebe/bench/tpch/engine"
	"github.com/phoebe-sched/phoebe/bench/tpch/plan"
)

type checkCmd struct {
	clusterFlags
	SF []float64 `name:"sf" default:"0.01" placeholder:"X,..." help:"Scale factors. Default ${default}."`
}

func (k *checkCmd) Run(ctx context.Context, c *cli) error {
	right, total := 0, 0
	for _, sf := range k.SF {
		n, err := k.checkScale(ctx, c, sf)
		if err != nil {
			return err
		}
		right, total = right+n, total+22
	}
	fmt.Printf("%d of %d queries have the right rows\n", right, total)
	if right < total {
		return errors.New("some queries have wrong rows: see the lines with WRONG")
	}
	return nil
}

// checkScale checks the 22 queries at a scale factor, prints a line for each, and returns how many are right.
func (k *checkCmd) checkScale(ctx context.Context, c *cli, sf float64) (right int, err error) {
	e, m, close, err := k.openEngine(c, sf)
	if err != nil {
		return 0, err
	}
	defer close()
	o, err := openOracles(ctx, m, 2)
	if err != nil {
		return 0, err
	}
	defer o.closeAll()
	for i, q := range m.Queries {
		verdict, err := k.checkQuery(ctx, e, o, m, i, q)
		if err != nil {
			verdict = "WRONG: " + err.Error()
		} else {
			right++
		}
		fmt.Printf("sf %g Q%d %s\n", sf, i+1, verdict)
	}
	o.printCounts()
	return right, nil
}

// checkQuery compares the rows of a query with the oracles, and with the published answer, if any. The result
// is the verdict, or an error if the rows are wrong.
func (k *checkCmd) checkQuery(ctx context.Context, e *engine.Engine, o *oracles, m *data.Manifest, i int,
	q string) (string, error) {
	r, err := e.Query(ctx, q, k.queryOptions())
	if err != nil {
		return "", err
	}
	defer r.Close()
	got, err := r.Text(ctx)
	if err != nil {
		return "", err
	}
	p, err := e.Plan(ctx, q)
	if err != nil {
		return "", err
	}
	want, err := o.duckdb.Rows(ctx, q)
	if err != nil {
		return "", err
	}
	before := o.bySQLite
	if err := o.compareRows(ctx, q, got, want, r.Columns, p.Order); err != nil {
		return "", err
	}
	verdict := "is DuckDB's"
	if o.bySQLite > before {
		verdict += ", SQLite's"
	}
	if len(m.Answers) > 0 {
		if d := engine.Compare(formatAnswer(got, r.Columns), formatAnswer(parseAnswer(m.Answers[i]), r.Columns),
			r.Columns, p.Order); d != "" {
			return "", errors.New("the rows differ from the published answer: " + d)
		}
		verdict += " and the published answer"
	}
	return fmt.Sprintf("%s: %d rows, %v", verdict, len(got), r.Stats.Total), nil
}

// parseAnswer returns the rows of a published answer: a line of names, then lines of fields between |.
func parseAnswer(text string) [][]string {
	var out [][]string
	for _, l := range strings.Split(strings.TrimSuffix(text, "\n"), "\n")[1:] {
		out = append(out, strings.Split(l, "|"))
	}
	return out
}

// formatAnswer returns rows in the form of published answers: NULL is empty, and decimals have no trailing
// zeros.
func formatAnswer(rows [][]string, cols []plan.Column) [][]string {
	out := make([][]string, len(rows))
	for i, r := range rows {
		out[i] = slices.Clone(r)
		for j, v := range r {
			switch {
			case v == "NULL":
				out[i][j] = ""
			case strings.HasPrefix(cols[j].Type, "DECIMAL") && strings.Contains(v, "."):
				out[i][j] = strings.TrimSuffix(strings.TrimRight(v, "0"), ".")
			}
		}
	}
	return out
}
