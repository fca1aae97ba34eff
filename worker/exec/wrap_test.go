package exec

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/phoebe-sched/phoebe/idl/typed"
)

type area struct{ Width, Height int }

type tooWide struct{ Most int }

func (e *tooWide) Error() string { return fmt.Sprintf("over %d", e.Most) }

func TestRegisterValues(t *testing.T) {
	r := NewRegistry()
	if err := Register[int, int](r, typed.Func[int, int]{Name: "nil"}, nil); err == nil {
		t.Error("a function that is nil was registered")
	}
	areaFunc := typed.Func[area, int]{Name: "area", Errors: []typed.ErrorType{typed.Error[*tooWide]("TOO_WIDE")}}
	if err := Register(r, areaFunc, func(_ context.Context, a area) (int, error) {
		switch {
		case a.Width < 0:
			return 0, errors.New("narrower than nothing")
		case a.Width > 100:
			return 0, fmt.Errorf("area: %w", &tooWide{100})
		case a.Width > 50:
			return 0, Permanent(&tooWide{50})
		case a.Width > 20:
			return 0, &Error{Code: "MINE", Err: &tooWide{20}}
		}
		return a.Width * a.Height, nil
	}); err != nil {
		t.Fatal(err)
	}
	if err := Register(r, typed.Func[*int, chan int]{Name: "channel"},
		func(context.Context, *int) (chan int, error) { return make(chan int), nil }); err != nil {
		t.Fatal(err)
	}
	p := newPool(t, r)
	for _, tc := range []struct {
		function, payload         string
		output, code, detail, err string
		retry                     Retry
	}{
		{function: "area", payload: `{"Width": 3, "Height": 4}`, output: "12"},
		{function: "area", payload: `{"Width": -1}`, err: "narrower than nothing"},
		{function: "area", payload: `{"Width": "wide"}`, code: BadPayload, retry: Never,
			err: "area: the payload: decode exec.area"},
		{function: "area", payload: "{", code: BadPayload, retry: Never, err: "JSON"},
		{function: "area", output: "0"},
		{function: "area", payload: `{"Width": 101}`, code: "TOO_WIDE", detail: `{"Most":100}`, err: "area: over 100"},
		{function: "area", payload: `{"Width": 51}`, code: "TOO_WIDE", detail: `{"Most":50}`, err: "over 50",
			retry: Never},
		{function: "area", payload: `{"Width": 21}`, code: "MINE", err: "over 20"},
		{function: "channel", payload: "null", err: "unsupported type"},
	} {
		res := runTask(t, p, Attempt{Function: tc.function, Payload: []byte(tc.payload)})
		if string(res.Output) != tc.output || res.Code != tc.code || res.Retry != tc.retry ||
			string(res.Detail) != tc.detail || !strings.Contains(res.Err, tc.err) || (res.Err == "") != (tc.err == "") {
			t.Errorf("%s(%s): %q, %s %s, %v, %s", tc.function, tc.payload, res.Output, res.Code, res.Detail, res.Retry,
				res.Err)
		}
	}
}

// The first Middleware is outermost, and functions registered earlier stay as they are.
func TestUse(t *testing.T) {
	r := NewRegistry()
	appendWord := func(what string) Middleware {
		return func(name string, f Func) Func {
			return func(ctx context.Context, payload []byte) ([]byte, error) {
				out, err := f(ctx, payload)
				return append(out, " "+what+":"+name...), err
			}
		}
	}
	register := func(name string, opts ...Option) {
		if err := r.Register(name, echoPayload, opts...); err != nil {
			t.Fatal(err)
		}
	}
	register("early")
	r.Use(appendWord("outer"))
	r.Use(appendWord("inner"))
	register("late")
	register("inline", Inline())
	p := newPool(t, r)
	for name, want := range map[string]string{
		"echo": "hi", "early": "hi", "late": "hi inner:late outer:late", "inline": "hi inner:inline outer:inline",
	} {
		if res := runTask(t, p, Attempt{Function: name, Payload: []byte("hi")}); string(res.Output) != want {
			t.Errorf("%s: %q, want %q", name, res.Output, want)
		}
	}
}
