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
	// ErrMalformed: the bytes end too early, or are no Thrift message.
	ErrMalformed = errors.New("the bytes are no Thrift message, or end too early")
	// ErrHeavy: decoded, the message would take more memory than allowed.
	ErrHeavy = errors.New("the message would take too much memory")
)

// Shape describes a generated struct for Weigh. A Shape does not change.
type Shape struct {
	size   int     // of the struct in memory
	fields []field // by id; missing fields have no type
}

// field is a field of a struct, or an element of a list.
type field struct {
	wire  thrift.TType
	elem  *field // of a list
	shape *Shape // of a struct
}

// ShapeOf returns the shape of the struct behind ptr, a pointer to a generated struct. Maps and sets are not
// supported, because the API has none.
func ShapeOf(ptr any) *Shape { return shapeOf(reflect.TypeOf(ptr).Elem()) }

// shapeOf returns the shape of a generated struct type. It panics if a field has no id.
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
		if t.Elem().Kind() != reflect.Struct { // an optional field
			return fieldOf(t.Elem())
		}
		return field{wire: thrift.STRUCT, shape: shapeOf(t.Elem())}
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return field{wire: thrift.STRING}
		}
		elem := fieldOf(t.Elem())
		return field{wire: thrift.LIST, elem: &elem}
	}
	panic(fmt.Sprintf("frame: %v is in no struct of the API", t))
}

// Weigh returns the number of bytes that decoding the struct in b would allocate, up to the allocator's rounding.
// It walks the whole struct, so each string and list is known to be as long as it claims. Weigh itself allocates
// nothing. If the weight exceeds most, the error is ErrHeavy.
func (s *Shape) Weigh(b []byte, most int) (int, error) {
	w := weigher{b: b, budget: most}
	if w.addBytes(s.size); w.err == nil {
		w.weighStruct(s)
	}
	return most - w.budget, w.err
}

// weigher walks b. The bytes before offset have been weighed. After an error the walk must end.
type weigher struct {
	b      []byte
	offset int
	budget int // bytes left to weigh
	err    error
}

// maxDepth bounds the nesting of values unknown to the API. They are skipped level by level.
const maxDepth = 16

var fixedSizes = [16]int{thrift.BOOL: 1, thrift.BYTE: 1, thrift.DOUBLE: 8, thrift.I16: 2, thrift.I32: 4, thrift.I64: 8}

// fixedSize returns the size of a type whose values all have the same size. It returns 0 for other types.
func fixedSize(wire thrift.TType) int {
	if i := uint8(wire); int(i) < len(fixedSizes) {
		return fixedSizes[i]
	}
	return 0
}

// roundUp rounds n up to a multiple of 16, about as the allocator does.
func roundUp(n int) int { return (n + 15) &^ 15 }

// addBytes counts n bytes of memory.
func (w *weigher) addBytes(n int) {
	if w.budget -= n; w.budget < 0 && w.err == nil {
		w.err = ErrHeavy
	}
}

// takeBytes steps over n bytes and returns them, or nil if there are fewer.
func (w *weigher) takeBytes(n int) []byte {
	if n > len(w.b)-w.offset {
		w.err = ErrMalformed
		return nil
	}
	w.offset += n
	return w.b[w.offset-n : w.offset]
}

// takeLength steps over a length. Each element takes a byte or more, so a length beyond the rest of b is an error.
func (w *weigher) takeLength() int {
	if b := w.b[w.offset:]; len(b) >= 4 {
		if n := int(int32(binary.BigEndian.Uint32(b))); n >= 0 && n <= len(b)-4 {
			w.offset += 4
			return n
		}
	}
	w.err = ErrMalformed
	return 0
}

// weighStruct walks a struct with shape s up to its end.
func (w *weigher) weighStruct(s *Shape) {
	for w.err == nil {
		b := w.b[w.offset:]
		if len(b) > 0 && thrift.TType(b[0]) == thrift.STOP {
			w.offset++
			return
		}
		if len(b) < 3 {
			w.err = ErrMalformed
			return
		}
		wire, id := thrift.TType(b[0]), int(binary.BigEndian.Uint16(b[1:]))
		w.offset += 3
		if id >= len(s.fields) || s.fields[id].wire != wire {
			w.skipValue(wire, maxDepth) // as the generated code does
			continue
		}
		w.weighValue(&s.fields[id])
	}
}

func (w *weigher) weighValue(f *field) {
	switch f.wire {
	case thrift.STRING:
		n := w.takeLength()
		w.offset += n
		w.addBytes(roundUp(n))
	case thrift.STRUCT:
		if w.addBytes(f.shape.size); w.err == nil {
			w.weighStruct(f.shape)
		}
	case thrift.LIST:
		w.weighList(f.elem)
	default:
		w.takeBytes(fixedSizes[f.wire])
	}
}

func (w *weigher) weighList(elem *field) {
	b := w.takeBytes(1)
	if b == nil {
		return
	}
	n := w.takeLength()
	if n > 0 && thrift.TType(b[0]) != elem.wire && w.err == nil {
		w.err = ErrMalformed // the generated code would decode the elements as the expected type
	}
	if w.err != nil {
		return
	}
	switch elem.wire {
	case thrift.STRUCT: // weighValue adds the struct; here the pointer to it counts
		w.addBytes(roundUp(n * 8))
	case thrift.STRING:
		w.addBytes(roundUp(n * 16))
	default:
		w.addBytes(roundUp(n * 8))
	}
	for i := 0; i < n && w.err == nil; i++ {
		w.weighValue(elem)
	}
}

// skipValue steps over a value that is not decoded.
func (w *weigher) skipValue(wire thrift.TType, depth int) {
	switch {
	case depth == 0:
		w.err = ErrMalformed
	case wire == thrift.STRING:
		w.takeBytes(w.takeLength())
	case wire == thrift.STRUCT:
		for w.err == nil {
			b := w.takeBytes(1)
			if b == nil || thrift.TType(b[0]) == thrift.STOP {
				return
			}
			if w.takeBytes(2); w.err == nil {
				w.skipValue(thrift.TType(b[0]), depth-1)
			}
		}
	case wire == thrift.LIST || wire == thrift.SET || wire == thrift.MAP:
		kinds := w.takeBytes(1)
		if wire == thrift.MAP && w.err == nil {
			w.takeBytes(1)
			kinds = w.b[w.offset-2 : w.offset]
		}
		for _, k := range kinds {
			if int(k) >= len(fixedSizes) { // the library panics on such a kind, even without elements
				w.err = ErrMalformed
			}
		}
		if w.err != nil {
			return
		}
		for n := w.takeLength(); n > 0 && w.err == nil; n-- {
			for _, k := range kinds {
				if w.err == nil {
					w.skipValue(thrift.TType(k), depth-1)
				}
			}
		}
	case fixedSize(wire) > 0:
		w.takeBytes(fixedSize(wire))
	default:
		w.err = ErrMalformed
	}
}
