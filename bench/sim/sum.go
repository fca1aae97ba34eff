package sim

import "reflect"

// addStats adds the counters of a core to a sum.
func addStats[T any](sum, more *T) {
	addValues(reflect.ValueOf(sum).Elem(), reflect.ValueOf(more).Elem())
}

// addValues adds uint64 counters, and the counters in arrays and structures. Values of other kinds, such as durations,
// stay as they are in sum.
func addValues(sum, more reflect.Value) {
	switch sum.Kind() {
	case reflect.Uint64:
		sum.SetUint(sum.Uint() + more.Uint())
	case reflect.Array:
		for i := range sum.Len() {
			addValues(sum.Index(i), more.Index(i))
		}
	case reflect.Struct:
		for i := range sum.NumField() {
			addValues(sum.Field(i), more.Field(i))
		}
	}
}
