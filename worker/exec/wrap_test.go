package exec

import (
	"context"
	"errors"
	"strings"
	"testing"
)

type area struct{ Width, Height int }

func TestRegisterValues(t *testing.T) {
	r := NewRegistry()
	if err := Register[int, int](r, "nil", nil); err == nil {
		t.Error("a function that is nil was registered")
	}
	if err := Register(r, "area", func(_ context.Context, a area) (int, error) {
		if a.Width < 0 {
			return 0, errors.New("narrower than nothing")
		}
		return a.Width * a.Height, nil
	}); err != nil {
		t.Fatal(err)
	}
	if err := Register(r, "channel",
		func(context.Context, *int) (chan int, error) { return make(chan int), nil }); err != nil {
		t.Fatal(err)
	}
	p := newPool(t, r)
	for _, tc := range []struct {
		function, payload string
		output, code, err string
		retry             Retry
	}{
		{function: "area", payload: `{"Width": 3, "Height": 4}`, output: "12"},
		{function: "area", payload: `{"Width": -1}`, err: "narrower than nothing"},
		{function: "area", payload: `{"Width": "wide"}`, code: BadPayload, retry: Never,
			err: "area: the payload is no exec.area"},
		{function: "area", payload: "{", code: BadPayload, retry: Never, err: "JSON"},
		{function: "area", output: "0"},
		{function: "channel", payload: "null", err: "unsupported type"},
	} {
		res := runTask(t, p, Attempt{Function: tc.function, Payload: []byte(tc.payload)})
		if string(res.Output) != tc.output || res.Code != tc.code || res.Retry != tc.retry ||
			!strings.Contains(res.Err, tc.err) || (res.Err == "") != (tc.err == "") {
			t.Errorf("%s(%s): %q, %s, %v, %s", tc.function, tc.payload, res.Output, res.Code, res.Retry, res.Err)
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
