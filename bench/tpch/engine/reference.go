package engine

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/phoebe-sched/phoebe/bench/tpch/data"
	"github.com/phoebe-sched/phoebe/bench/tpch/lite"
	"github.com/phoebe-sched/phoebe/bench/tpch/plan"
)

// Reference is a single DuckDB over the same files. The answers of the reference count as right.
type Reference struct {
	slot *slot
}

// NewReference makes a reference with the given number of threads, and memory in MiB. DuckDB spills to the
// folder temp.
func NewReference(m *data.Manifest, threads int, memory int64, temp string) (*Reference, error) {
	s, err := newSlot(threads, memory, temp)
	if err != nil {
		return nil, err
	}
	if err := s.execSQL(context.Background(), m.Views()); err != nil {
		s.close()
		return nil, err
	}
	return &Reference{slot: s}, nil
}

// Close closes the DuckDB of the reference.
func (r *Reference) Close() { r.slot.close() }

// Rows runs a query, and returns the rows as text. Doubles have all digits. The query runs without the optimizer
// `deliminator`, which makes some answers wrong (plan.Stage.NoDeliminator).
func (r *Reference) Rows(ctx context.Context, text string) ([][]string, error) {
	if err := r.slot.allowDeliminator(ctx, false); err != nil {
		return nil, err
	}
	text = strings.ReplaceAll(text, "approx_count_distinct(", "count(DISTINCT ") // the engine counts exactly, too
	var out [][]string
	err := r.slot.runQuery(ctx, text, func(_ *arrow.Schema, batch arrow.RecordBatch) error {
		out = append(out, Text(batch)...)
		return nil
	})
	return out, err
}

// Run runs a query with all optimizers, and throws the rows away.
func (r *Reference) Run(ctx context.Context, text string) error {
	if err := r.slot.allowDeliminator(ctx, true); err != nil {
		return err
	}
	return r.slot.runQuery(ctx, text, func(*arrow.Schema, arrow.RecordBatch) error { return nil })
}

// Text returns the rows of a batch as text.
func Text(b arrow.RecordBatch) [][]string {
	out := make([][]string, b.NumRows())
	for i := range out {
		out[i] = make([]string, b.NumCols())
		for j, c := range b.Columns() {
			out[i][j] = formatValue(c, i)
		}
	}
	return out
}

// Text returns the rows of the result as text.
func (r *Result) Text(ctx context.Context) ([][]string, error) {
	var out [][]string
	for b, err := range r.Batches(ctx) {
		if err != nil {
			return nil, err
		}
		out = append(out, Text(b)...)
	}
	return out, nil
}

// CompareSQLite says how rows differ from SQLite's; "" if the rows agree. Decimals agree as doubles do. If SQLite
// has no answer, the error is a *lite.IncomparableError.
func CompareSQLite(ctx context.Context, o *lite.Oracle, query string, got [][]string, orderBy []int) (string, error) {
	want, cols, err := o.Rows(ctx, query)
	if err != nil {
		return "", err
	}
	got = slices.Clone(got)
	for i := range got {
		got[i] = slices.Clone(got[i])
		for j, v := range got[i] {
			if v == "NaN" {
				got[i][j] = strconv.FormatFloat(lite.NotANumber, 'g', 17, 64)
			}
		}
	}
	return Compare(got, want, cols, orderBy), nil
}

// Compare says how rows differ from the wanted rows; "" if the rows agree. Doubles agree within a relative
// error of 1e-9, and all other values must be equal. The rows are ordered by the columns orderBy. Rows with
// equal values in the columns orderBy may come in any order. The columns of orderBy behind the first double do not
// count for the order.
func Compare(got, want [][]string, cols []plan.Column, orderBy []int) string {
	if len(got) != len(want) {
		return fmt.Sprintf("%d rows, want %d", len(got), len(want))
	}
	float := make([]bool, len(cols))
	for i, c := range cols {
		float[i] = c.Type == "DOUBLE" || c.Type == "FLOAT"
	}
	sameValue := func(a, b string, float bool) bool {
		if a == b {
			return true
		}
		x, errX := strconv.ParseFloat(a, 64)
		y, errY := strconv.ParseFloat(b, 64)
		return float && errX == nil && errY == nil && (x == y || math.Abs(x-y) <= 1e-9*max(math.Abs(x), math.Abs(y)))
	}
	for i := range want {
		for _, c := range orderBy {
			if !sameValue(got[i][c], want[i][c], float[c]) {
				return fmt.Sprintf("row %d is out of order: %v, want %v", i, got[i], want[i])
			}
			if float[c] { // rounding decides which of two almost equal doubles comes first
				break
			}
		}
	}
	compareRows := func(a, b []string) int {
		for _, f := range []bool{false, true} {
			for i := range a {
				if float[i] != f || a[i] == b[i] {
					continue
				}
				if f && sameValue(a[i], b[i], true) {
					continue
				}
				x, errX := strconv.ParseFloat(a[i], 64)
				y, errY := strconv.ParseFloat(b[i], 64)
				if f && errX == nil && errY == nil && (x < y || x > y) { // NULL and NaN come after the numbers
					if x < y {
						return -1
					}
					return 1
				}
				return strings.Compare(a[i], b[i])
			}
		}
		return 0
	}
	got, want = slices.Clone(got), slices.Clone(want)
	slices.SortFunc(got, compareRows)
	slices.SortFunc(want, compareRows)
	for i := range want {
		for c := range want[i] {
			if !sameValue(got[i][c], want[i][c], float[c]) {
				return fmt.Sprintf("column %s of a row is %s, want %s: row %v, want %v", cols[c].Name, got[i][c],
					want[i][c], got[i], want[i])
			}
		}
	}
	return ""
}
