package lite

import (
	"cmp"
	"database/sql/driver"
	"fmt"
	"math"
	"slices"

	"modernc.org/sqlite"
)

// statistics are the aggregates that SQLite lacks. Each computes from all pairs of values, in two passes. The
// second value of a pair is 0 if the aggregate has one argument.
var statistics = map[string]struct {
	args    int32
	compute func(l []pair) driver.Value
}{
	"var_pop":     {1, func(l []pair) driver.Value { return sumDeviations(l, 0, 0) / float64(len(l)) }},
	"var_samp":    {1, func(l []pair) driver.Value { return divideByRest(sumDeviations(l, 0, 0), l) }},
	"stddev_pop":  {1, func(l []pair) driver.Value { return math.Sqrt(sumDeviations(l, 0, 0) / float64(len(l))) }},
	"stddev_samp": {1, func(l []pair) driver.Value { return takeRoot(divideByRest(sumDeviations(l, 0, 0), l)) }},
	"covar_pop":   {2, func(l []pair) driver.Value { return sumDeviations(l, 0, 1) / float64(len(l)) }},
	"covar_samp":  {2, func(l []pair) driver.Value { return divideByRest(sumDeviations(l, 0, 1), l) }},
	"corr": {2, func(l []pair) driver.Value {
		r := sumDeviations(l, 0, 1) / math.Sqrt(sumDeviations(l, 0, 0)) / math.Sqrt(sumDeviations(l, 1, 1))
		if math.IsNaN(r) { // of equal values
			return NotANumber
		}
		return r
	}},
	"median": {1, func(l []pair) driver.Value {
		slices.SortFunc(l, func(a, b pair) int { return cmp.Compare(a[0], b[0]) })
		return (l[(len(l)-1)/2][0] + l[len(l)/2][0]) / 2
	}},
}

func init() {
	for name, s := range statistics {
		sqlite.MustRegisterFunction(name, &sqlite.FunctionImpl{NArgs: s.args, Deterministic: true,
			MakeAggregate: func(sqlite.FunctionContext) (sqlite.AggregateFunction, error) {
				return &statistic{compute: s.compute}, nil
			}})
	}
}

// NotANumber stands for NaN, which SQLite lacks: NaN of DuckDB is greater than all numbers, too.
var NotANumber = math.Inf(1)

type pair [2]float64

// sumDeviations returns the sum of the products of deviations from the mean, of the values i and j of the pairs.
func sumDeviations(l []pair, i, j int) float64 {
	var mean pair
	for k := range mean {
		equal := true
		for _, p := range l {
			mean[k] += p[k] / float64(len(l))
			equal = equal && p[k] == l[0][k]
		}
		if equal { // without an error of rounding
			mean[k] = l[0][k]
		}
	}
	sum := 0.0
	for _, p := range l {
		sum += (p[i] - mean[i]) * (p[j] - mean[j])
	}
	return sum
}

// divideByRest divides by the number of pairs less one. Of a single pair the result is NULL.
func divideByRest(sum float64, l []pair) driver.Value {
	if len(l) < 2 {
		return nil
	}
	return sum / float64(len(l)-1)
}

func takeRoot(v driver.Value) driver.Value {
	if v == nil {
		return nil
	}
	return math.Sqrt(v.(float64))
}

// statistic collects the pairs of a group.
type statistic struct {
	compute func(l []pair) driver.Value
	pairs   []pair
}

// readPair returns the arguments of a row, and whether none is NULL.
func readPair(row []driver.Value) (p pair, ok bool, err error) {
	for i, v := range row {
		switch v := v.(type) {
		case nil:
			return p, false, nil
		case int64:
			p[i] = float64(v)
		case float64:
			p[i] = v
		default:
			return p, false, fmt.Errorf("a %T is no number", v)
		}
	}
	return p, true, nil
}

func (s *statistic) Step(_ *sqlite.FunctionContext, row []driver.Value) error {
	p, ok, err := readPair(row)
	if ok {
		s.pairs = append(s.pairs, p)
	}
	return err
}

func (s *statistic) WindowInverse(_ *sqlite.FunctionContext, row []driver.Value) error {
	_, ok, err := readPair(row)
	if ok {
		s.pairs = s.pairs[1:]
	}
	return err
}

func (s *statistic) WindowValue(*sqlite.FunctionContext) (driver.Value, error) {
	if len(s.pairs) == 0 {
		return nil, nil
	}
	return s.compute(slices.Clone(s.pairs)), nil
}

func (s *statistic) Final(*sqlite.FunctionContext) {}
