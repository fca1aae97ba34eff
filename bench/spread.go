package bench

import (
	"fmt"
	"math"
	"reflect"
	"slices"
)

// Spread sums up the repeats of a measurement, figure by figure. Low and High bound the median of endless repeats,
// without an assumption about its distribution. The bounds are order statistics of the repeats: the closest pair
// that holds the median with 95 % confidence. Fewer than 6 repeats do not reach 95 %; then the bounds are the
// lowest and the highest repeat.
type Spread[T any] struct {
	Repeats    int     `json:"repeats"`
	Confidence float64 `json:"confidence"` // that each figure's median lies from Low to High, 0 to 1
	Median     T       `json:"median"`
	Low        T       `json:"low"`
	High       T       `json:"high"`
}

// spreadOf sums up the repeats, at least one repeat, figure by figure.
func spreadOf[T any](repeats []T) Spread[T] {
	n := len(repeats)
	rank, confidence := medianInterval(n)
	s := Spread[T]{Repeats: n, Confidence: confidence}
	for _, c := range []struct {
		to   *T
		pick func(sorted []float64) float64
	}{
		{&s.Median, func(v []float64) float64 { return (v[(n-1)/2] + v[n/2]) / 2 }},
		{&s.Low, func(v []float64) float64 { return v[rank-1] }},
		{&s.High, func(v []float64) float64 { return v[n-rank] }},
	} {
		all := make([]reflect.Value, n)
		for i := range repeats {
			all[i] = reflect.ValueOf(&repeats[i]).Elem()
		}
		pickEach(reflect.ValueOf(c.to).Elem(), all, c.pick)
	}
	return s
}

// pickEach sets every number within target by picking from the numbers at the same place in all, sorted. Fields of
// other types stay zero, and so does a figure missing in a repeat.
func pickEach(target reflect.Value, all []reflect.Value, pick func(sorted []float64) float64) {
	each := func(descend func(reflect.Value) reflect.Value) []reflect.Value {
		inner := make([]reflect.Value, len(all))
		for i, v := range all {
			inner[i] = descend(v)
		}
		return inner
	}
	switch target.Kind() {
	case reflect.Float64, reflect.Int:
		values := make([]float64, len(all))
		for i, v := range all {
			values[i] = v.Convert(reflect.TypeFor[float64]()).Float()
		}
		slices.Sort(values)
		target.Set(reflect.ValueOf(pick(values)).Convert(target.Type()))
	case reflect.Struct:
		for i := range target.NumField() {
			if target.Type().Field(i).IsExported() {
				pickEach(target.Field(i), each(func(v reflect.Value) reflect.Value { return v.Field(i) }), pick)
			}
		}
	case reflect.Pointer:
		if !slices.ContainsFunc(all, reflect.Value.IsNil) {
			target.Set(reflect.New(target.Type().Elem()))
			pickEach(target.Elem(), each(reflect.Value.Elem), pick)
		}
	case reflect.Map:
		target.Set(reflect.MakeMap(target.Type()))
		for _, key := range all[0].MapKeys() {
			values := each(func(v reflect.Value) reflect.Value { return v.MapIndex(key) })
			if slices.ContainsFunc(values, func(v reflect.Value) bool { return !v.IsValid() }) {
				continue
			}
			value := reflect.New(target.Type().Elem()).Elem()
			pickEach(value, values, pick)
			target.SetMapIndex(key, value)
		}
	}
}

// medianInterval returns the rank, counted from either end of n sorted repeats, that bounds the median, and the
// confidence. Each draw is below the median with chance 1/2. The median lies below the k-th lowest draw if fewer
// than k of n draws are below the median.
func medianInterval(n int) (rank int, confidence float64) {
	if n > 1000 { // a normal distribution is as good, and 0.5 to the power n is 0
		return int((float64(n) - 1.96*math.Sqrt(float64(n))) / 2), 0.95
	}
	chances := make([]float64, n+1) // of each number of draws below the median
	chances[0] = math.Pow(0.5, float64(n))
	for below := range n {
		chances[below+1] = chances[below] * float64(n-below) / float64(below+1)
	}
	return closestBounds(n, chances)
}

// closestBounds returns the rank, counted from either end of n sorted values, of the closest pair of values that holds
// the true value with 95 % confidence, and the confidence. chances[i] is the chance that i values lie below the true
// value. The distribution is symmetric. Without such a pair, the lowest and the highest value are the bounds.
func closestBounds(n int, chances []float64) (rank int, confidence float64) {
	outside := 2 * chances[0]
	rank, confidence = 1, max(0, 1-outside)
	for k := 2; 2*k <= n; k++ {
		outside += 2 * chances[k-1]
		if 1-outside < 0.95 {
			break
		}
		rank, confidence = k, 1-outside
	}
	return rank, confidence
}

// boundsNote explains the rows of a table made from Low and High; "" if there are no such rows.
func (s *Spread[T]) boundsNote() string {
	if s.Repeats < 2 {
		return ""
	}
	rank, _ := medianInterval(s.Repeats)
	bounds := "the lowest and the highest"
	if rank > 1 {
		bounds = fmt.Sprintf("no. %d and no. %d of them by size", rank, s.Repeats+1-rank)
	}
	return fmt.Sprintf("medians of %d repeats; from/to: %s, with %.3g %% confidence around the true median",
		s.Repeats, bounds, 100*s.Confidence)
}
