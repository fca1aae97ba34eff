package typed_test

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"reflect"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/phoebe-sched/phoebe/idl/typed"
	"github.com/phoebe-sched/phoebe/idl/typed/msgpack"
	"github.com/phoebe-sched/phoebe/idl/typed/protobuf"
)

type resize struct {
	Width, Height int
	Name          string
	Raw           []byte
	Tags          map[string]any
}

var full = resize{3, 4, "picture", []byte{0, 255}, map[string]any{"a": "b"}}

// Each codec decodes the encoded values. JSON and msgpack decode no bytes as the zero value.
func TestCodecsRoundTrip(t *testing.T) {
	for name, c := range map[string]typed.Codec{"none": nil, "json": typed.JSON, "msgpack": msgpack.Codec} {
		f := typed.Func[resize, *resize]{Name: "area", Codec: c}
		for _, in := range []resize{{}, full} {
			payload, err := f.EncodeIn(in)
			if err != nil {
				t.Fatal(name, err)
			}
			if back, err := f.DecodeIn(payload); err != nil || !reflect.DeepEqual(back, in) {
				t.Errorf("%s: %+v became %+v, %v", name, in, back, err)
			}
			result, err := f.EncodeOut(&in)
			if err != nil {
				t.Fatal(name, err)
			}
			if back, err := f.DecodeOut(result); err != nil || !reflect.DeepEqual(*back, in) {
				t.Errorf("%s: %+v became %+v, %v", name, in, back, err)
			}
		}
		if zero, err := f.DecodeIn(nil); err != nil || !reflect.DeepEqual(zero, resize{}) {
			t.Errorf("%s: no bytes became %+v, %v", name, zero, err)
		}
		if _, err := f.DecodeIn([]byte{'{', 0xc1}); err == nil {
			t.Errorf("%s: damaged bytes were decoded", name)
		}
	}
}

func TestProtobuf(t *testing.T) {
	f := typed.Func[*durationpb.Duration, *durationpb.Duration]{Name: "wait", Codec: protobuf.Codec}
	for _, d := range []time.Duration{0, time.Minute} {
		payload, err := f.EncodeIn(durationpb.New(d))
		if err != nil {
			t.Fatal(err)
		}
		if back, err := f.DecodeIn(payload); err != nil || !proto.Equal(back, durationpb.New(d)) {
			t.Errorf("%v became %v, %v", d, back, err)
		}
	}
	if _, err := f.DecodeOut([]byte{0xff}); err == nil {
		t.Error("damaged bytes were decoded")
	}
	noMessage := typed.Func[int, *int]{Name: "wait", Codec: protobuf.Codec}
	_, errIn := noMessage.EncodeIn(1)
	_, errOut := noMessage.DecodeOut(nil)
	_, errValue := noMessage.DecodeIn(nil)
	if errIn == nil || errOut == nil || errValue == nil {
		t.Errorf("a number passed for a message: %v, %v, %v", errIn, errOut, errValue)
	}
}

// No codec changes a []byte.
func TestRawBytes(t *testing.T) {
	f := typed.Func[[]byte, []byte]{Name: "echo", Codec: protobuf.Codec}
	payload, err := f.EncodeIn([]byte{1, 0xff})
	if back, err2 := f.DecodeOut(payload); err != nil || err2 != nil || !bytes.Equal(back, []byte{1, 0xff}) {
		t.Errorf("%v: %v, %v", back, err, err2)
	}
}

type tooSmall struct{ Least float64 }

func (e *tooSmall) Error() string { return fmt.Sprintf("less than %v", e.Least) }

type notAllowed struct{ Who string }

func (e notAllowed) Error() string { return e.Who + " may not" }

// Declared errors come back with type and fields, from any depth of the chain.
func TestErrorTypes(t *testing.T) {
	f := typed.Func[int, int]{
		Name:   "f",
		Errors: []typed.ErrorType{typed.Error[*tooSmall]("TOO_SMALL"), typed.Error[notAllowed]("NOT_ALLOWED")},
	}
	code, detail := f.EncodeError(fmt.Errorf("resize: %w", &tooSmall{3}))
	if e, ok := errors.AsType[*tooSmall](f.DecodeError(code, detail)); !ok || e.Least != 3 || code != "TOO_SMALL" {
		t.Errorf("%s %s became %v", code, detail, e)
	}
	code, detail = f.EncodeError(errors.Join(errors.New("one"), notAllowed{"bob"}))
	if e, ok := errors.AsType[notAllowed](f.DecodeError(code, detail)); !ok || e.Who != "bob" || code != "NOT_ALLOWED" {
		t.Errorf("%s %s became %v", code, detail, e)
	}
	for _, err := range []error{errors.New("other"), &tooSmall{math.NaN()}} {
		if code, detail := f.EncodeError(err); code != "" || detail != nil {
			t.Errorf("%v became %s %s", err, code, detail)
		}
	}
	for _, c := range [][2]string{{"OTHER", "{}"}, {"TOO_SMALL", `{"Least": 3`}, {"TOO_SMALL", "null"}} {
		if err := f.DecodeError(c[0], []byte(c[1])); err != nil {
			t.Errorf("%v became %v", c, err)
		}
	}
}
