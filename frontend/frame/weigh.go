package frame

import (
	"encoding/binary"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"

	"github.com/cloudwego/gopkg/protocol/thrift"
)

var (
	// ErrMalformed: the bytes end too early, or are no Thrift.
	ErrMalformed = errors.New("it is no Thrift message, or not all of one")
	// ErrHeavy: decoded, the message would take more memory than it may.
	ErrHeavy = errors.New("it would take too much memory")
)

// Shape is what Weigh knows of a generated struct. It does not change.
type Shape struct {
	size   int     // of the struct in memory
	fields []field // by id; those that do not exist have no type
}

// field is a field of a struct, or an element of a list.
type field struct {
	wire thrift.TType
	elem *field // of a list
	of   *Shape // of a struct
}

// ShapeOf is that of a pointer to a generated struct. Maps and sets it does not know: the API has none.
func ShapeOf(ptr any) *Shape { return shapeOf(reflect.TypeOf(ptr).Elem()) }

func shapeOf(t reflect.Type) *Shape {
	s := &Shape{size: roundUp(int(t.Size()))}
	for i := range t.NumField() {
		tag := strings.Split(t.Field(i).Tag.Get("thrift"), ",")
		id, err := strconv.Atoi(tag[min(1, len(tag)-1)])
		if err != nil {
			panic(fmt.Sprintf("frame: %v.%s is not generated: it has no field id", t, t.Field(i).Name))
		}
		for len(s.fields) <= id {
			s.fields = append(s.fields, field{})
		}
		s.fields[id] = fieldOf(t.Field(i).Type)
	}
	return s
}

func fieldOf(t reflect.Type) field {
	switch t.Kind() {
	case reflect.Bool:
		return field{wire: thrift.BOOL}
	case reflect.Int32:
		return field{wire: thrift.I32}
	case reflect.Int64: // or an enum, which is an i32 on the wire
		if t != reflect.TypeFor[int64]() {
			return field{wire: thrift.I32}
		}
		return field{wire: thrift.I64}
	case reflect.Float64:
		return field{wire: thrift.DOUBLE}
	case reflect.String:
		return field{wire: thrift.STRING}
	case reflect.Pointer:
		if t.Elem().Kind() != reflect.Struct { // of an optional one
			return fieldOf(t.Elem())
		}
		return field{wire: thrift.STRUCT, of: shapeOf(t.Elem())}
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return field{wire: thrift.STRING}
		}
		elem := fieldOf(t.Elem())
		return field{wire: thrift.LIST, elem: &elem}
	}
	panic(fmt.Sprintf("frame: %v is in no struct of the API", t))
}

// Weigh is how many bytes decoding the struct in b would allocate, to within what the allocator rounds up: it walks
// all of it, so that each string and list is known to be as long as it claims. It allocates nothing itself. If that
// is more than most, the error is ErrHeavy.
func (s *Shape) Weigh(b []byte, most int) (int, error) {
	w := weigher{b: b, left: most}
	if w.add(s.size); w.err == nil {
		w.structure(s)
	}
	return most - w.left, w.err
}

// weigher walks b, of which what comes before at has been weighed. After an error it must not go on.
type weigher struct {
	b    []byte
	at   int
	left int // of what it may weigh
	err  error
}

// maxDepth is how deep what the API does not know may be nested: it is skipped, level by level.
const maxDepth = 16

var sizes = [16]int{thrift.BOOL: 1, thrift.BYTE: 1, thrift.DOUBLE: 8, thrift.I16: 2, thrift.I32: 4, thrift.I64: 8}

// fixed is the size of values of a type that all have the same; 0 if there is none, or no such type.
func fixed(wire thrift.TType) int {
	if i := uint8(wire); int(i) < len(sizes) {
		return sizes[i]
	}
	return 0
}

func roundUp(n int) int { return (n + 15) &^ 15 }

func (w *weigher) add(n int) {
	if w.left -= n; w.left < 0 && w.err == nil {
		w.err = ErrHeavy
	}
}

// take steps over n bytes and returns them, or nil if there are not so many.
func (w *weigher) take(n int) []byte {
	if n > len(w.b)-w.at {
		w.err = ErrMalformed
		return nil
	}
	w.at += n
	return w.b[w.at-n : w.at]
}

// length steps over a length; what it is of takes one byte each, at least.
func (w *weigher) length() int {
	if b := w.b[w.at:]; len(b) >= 4 {
		if n := int(int32(binary.BigEndian.Uint32(b))); n >= 0 && n <= len(b)-4 {
			w.at += 4
			return n
		}
	}
	w.err = ErrMalformed
	return 0
}

func (w *weigher) structure(s *Shape) {
	for w.err == nil {
		b := w.b[w.at:]
		if len(b) > 0 && thrift.TType(b[0]) == thrift.STOP {
			w.at++
			return
		}
		if len(b) < 3 {
			w.err = ErrMalformed
			return
		}
		wire, id := thrift.TType(b[0]), int(binary.BigEndian.Uint16(b[1:]))
		w.at += 3
		if id >= len(s.fields) || s.fields[id].wire != wire {
			w.skip(wire, maxDepth) // as the generated code does
			continue
		}
		w.value(&s.fields[id])
	}
}

func (w *weigher) value(f *field) {
	switch f.wire {
	case thrift.STRING:
		n := w.length()
		w.at += n
		w.add(roundUp(n))
	case thrift.STRUCT:
		if w.add(f.of.size); w.err == nil {
			w.structure(f.of)
		}
	case thrift.LIST:
		w.list(f.elem)
	default:
		w.take(sizes[f.wire])
	}
}

func (w *weigher) list(elem *field) {
	b := w.take(1)
	if b == nil {
		return
	}
	n := w.length()
	if n > 0 && thrift.TType(b[0]) != elem.wire && w.err == nil {
		w.err = ErrMalformed // the generated code would take them for what they should be
	}
	if w.err != nil {
		return
	}
	switch elem.wire {
	case thrift.STRUCT: // which value adds, and a pointer to it
		w.add(roundUp(n * 8))
	case thrift.STRING:
		w.add(roundUp(n * 16))
	default:
		w.add(roundUp(n * 8))
	}
	for i := 0; i < n && w.err == nil; i++ {
		w.value(elem)
	}
}

// skip steps over a value that is not decoded.
func (w *weigher) skip(wire thrift.TType, depth int) {
	switch {
	case depth == 0:
		w.err = ErrMalformed
	case wire == thrift.STRING:
		w.take(w.length())
	case wire == thrift.STRUCT:
		for w.err == nil {
			b := w.take(1)
			if b == nil || thrift.TType(b[0]) == thrift.STOP {
				return
			}
			if w.take(2); w.err == nil {
				w.skip(thrift.TType(b[0]), depth-1)
			}
		}
	case wire == thrift.LIST || wire == thrift.SET || wire == thrift.MAP:
		kinds := w.take(1)
		if wire == thrift.MAP && w.err == nil {
			w.take(1)
			kinds = w.b[w.at-2 : w.at]
		}
		for _, k := range kinds {
			if int(k) >= len(sizes) { // there may be no element, and the library panics all the same
				w.err = ErrMalformed
			}
		}
		if w.err != nil {
			return
		}
		for n := w.length(); n > 0 && w.err == nil; n-- {
			for _, k := range kinds {
				if w.err == nil {
					w.skip(thrift.TType(k), depth-1)
				}
			}
		}
	case fixed(wire) > 0:
		w.take(fixed(wire))
	default:
		w.err = ErrMalformed
	}
}
