// Package protobuf is a codec of typed functions for generated protobuf messages:
//
//	var Area = typed.Func[*pb.Resize, *pb.Size]{Name: "area", Codec: protobuf.Codec}
package protobuf

import (
	"fmt"
	"reflect"

	"google.golang.org/protobuf/proto"

	"github.com/phoebe-sched/phoebe/idl/typed"
)

// Codec encodes pointers to protobuf messages in the binary format.
var Codec typed.Codec = codec{}

type codec struct{}

func (codec) Marshal(v any) ([]byte, error) {
	m, ok := v.(proto.Message)
	if !ok {
		return nil, fmt.Errorf("%T is no protobuf message: use a pointer to a generated type", v)
	}
	return proto.Marshal(m)
}

func (codec) Unmarshal(data []byte, v any) error {
	pointer := reflect.ValueOf(v).Elem()
	if pointer.Kind() != reflect.Pointer {
		return fmt.Errorf("%v is no protobuf message: use a pointer to a generated type", pointer.Type())
	}
	pointer.Set(reflect.New(pointer.Type().Elem()))
	m, ok := pointer.Interface().(proto.Message)
	if !ok {
		return fmt.Errorf("%v is no protobuf message: use a pointer to a generated type", pointer.Type())
	}
	return proto.Unmarshal(data, m)
}
