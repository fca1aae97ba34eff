package sim

import "reflect"

// addStats adds the counters of a core to a sum.
func addStats[T any](sum, more *T) { add(reflect.ValueOf(sum).Elem(), reflect.ValueOf(more).Elem()) }

func add(sum, more reflect.Value) {
	switch sum.Kind() {
	case reflect.Uint64:
		sum.SetUint(sum.Uint() + more.Uint())
	case reflect.Array:
		for i := range sum.Len() {
			add(sum.Index(i), more.Index(i))
		}
	case reflect.Struct:
		for i := range sum.NumField() {
			add(sum.Field(i), more.Field(i))
		}
	}
}
