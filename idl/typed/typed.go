// Package typed describes the functions of workers by Go types. A program declares each function once, in a package for
// clients and workers:
//
//	var Area = typed.Func[Resize, Size]{Name: "area"}
//
// The worker registers Area by exec.Register. A client calls Area by client.Call, client.Map or client.Stream. So the
// compiler checks both sides against the same types. Package typed imports neither client nor worker.
package typed

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
)

// Func describes a function by name, argument type In and result type Out. Clients and workers need equal fields. A Func
// is read-only after the declaration.
type Func[In, Out any] struct {
	Name   string      // under which workers register the function
	Codec  Codec       // for In and Out; nil: JSON
	Errors []ErrorType // errors that reach the client with type and fields
}

// Codec turns values into bytes, and bytes into values. A []byte needs no Codec: the bytes travel unchanged.
// Package protobuf and package msgpack have further codecs.
type Codec interface {
	Marshal(v any) ([]byte, error)
	Unmarshal(data []byte, v any) error // v is a pointer to the value
}

// JSON is the Codec of a Func without one. No bytes stand for the zero value, so a task needs no payload.
var JSON Codec = jsonCodec{}

type jsonCodec struct{}

func (jsonCodec) Marshal(v any) ([]byte, error) { return json.Marshal(v) }

func (jsonCodec) Unmarshal(data []byte, v any) error {
	if len(data) == 0 {
		return nil
	}
	return json.Unmarshal(data, v)
}

// EncodeIn returns the payload of a task with the argument in.
func (f Func[In, Out]) EncodeIn(in In) ([]byte, error) { return encodeValue(f.Codec, in) }

// DecodeIn returns the argument in a payload.
func (f Func[In, Out]) DecodeIn(payload []byte) (In, error) { return decodeValue[In](f.Codec, payload) }

// EncodeOut returns the result of a task that returned out.
func (f Func[In, Out]) EncodeOut(out Out) ([]byte, error) { return encodeValue(f.Codec, out) }

// DecodeOut returns the value in a task's result.
func (f Func[In, Out]) DecodeOut(result []byte) (Out, error) {
	return decodeValue[Out](f.Codec, result)
}

// EncodeError returns code and detail of err for a type in f.Errors. The code is empty if err's chain has no error of
// these types, or if JSON cannot hold the error.
func (f Func[In, Out]) EncodeError(err error) (code string, detail []byte) {
	for _, t := range f.Errors {
		if detail := t.encode(err); detail != nil {
			return t.code, detail
		}
	}
	return "", nil
}

// DecodeError returns the error behind a code and a detail of EncodeError. If f.Errors lacks the code, or the detail is
// damaged, the result is nil.
func (f Func[In, Out]) DecodeError(code string, detail []byte) error {
	for _, t := range f.Errors {
		if t.code == code {
			return t.decode(detail)
		}
	}
	return nil
}

// ErrorType is a type of errors for the way from worker to client. See [Error].
type ErrorType struct {
	code   string
	encode func(error) []byte // nil: no E in the error's chain
	decode func([]byte) error // nil: the bytes are damaged
}

// Error makes an ErrorType for Func.Errors. If the function returns an error with an E in its chain, clients find an
// equal E by errors.As. E travels as JSON of at most 8 KiB. Each error of a function needs a code of its own:
//
//	Errors: []typed.ErrorType{typed.Error[*TooSmall]("TOO_SMALL")}
func Error[E error](code string) ErrorType {
	return ErrorType{
		code: code,
		encode: func(err error) []byte {
			e, ok := errors.AsType[E](err)
			if !ok {
				return nil
			}
			detail, err := json.Marshal(e)
			if err != nil {
				return nil
			}
			return detail
		},
		decode: func(detail []byte) error {
			var e E
			if json.Unmarshal(detail, &e) != nil || bytes.Equal(detail, []byte("null")) {
				return nil
			}
			return e
		},
	}
}

// encodeValue encodes v with c, unless v is a []byte.
func encodeValue(c Codec, v any) ([]byte, error) {
	if b, ok := v.([]byte); ok {
		return b, nil
	}
	if c == nil {
		c = JSON
	}
	data, err := c.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("encode %T: %w", v, err)
	}
	return data, nil
}

// decodeValue decodes data with c, unless T is []byte.
func decodeValue[T any](c Codec, data []byte) (v T, err error) {
	if b, ok := any(&v).(*[]byte); ok {
		*b = data
		return v, nil
	}
	if c == nil {
		c = JSON
	}
	if err = c.Unmarshal(data, &v); err != nil {
		return v, fmt.Errorf("decode %T: %w", v, err)
	}
	return v, nil
}
