package client

import (
	"context"
	"sync"
	"testing"

	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/phoebe-sched/phoebe/frontend/client/local"
	"github.com/phoebe-sched/phoebe/worker/exec"
)

// recordingTracer is a tracer that keeps the name and the state of each span.
type recordingTracer struct {
	noop.Tracer
	mu    sync.Mutex
	spans []*recordedSpan
}

// recordedSpan is a span of recordingTracer.
type recordedSpan struct {
	noop.Span
	mu     sync.Mutex
	name   string
	status codes.Code
	ended  int
}

func (r *recordingTracer) Start(
	ctx context.Context, name string, _ ...trace.SpanStartOption,
) (context.Context, trace.Span) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := &recordedSpan{name: name}
	r.spans = append(r.spans, s)
	return trace.ContextWithSpan(ctx, s), s
}

func (s *recordedSpan) SetStatus(c codes.Code, _ string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.status = c
}

func (s *recordedSpan) End(...trace.SpanEndOption) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended++
}

func TestTracer(t *testing.T) {
	f := newFake(t)
	f.run = f.runEcho
	tracer := &recordingTracer{}
	c := newClient(t, []string{f.addr}, WithTracer(tracer))
	if _, err := c.Run(t.Context(), echoJob(2)); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Run(t.Context(), Job{Policy: "no such policy", Tasks: echoJob(1).Tasks}); err == nil {
		t.Fatal("a bad job was accepted")
	}
	if len(tracer.spans) != 2 {
		t.Fatalf("%d spans for two jobs", len(tracer.spans))
	}
	for i, want := range []codes.Code{codes.Unset, codes.Error} {
		if s := tracer.spans[i]; s.name != "phoebe.Run" || s.ended != 1 || s.status != want {
			t.Errorf("span %d: %q ended %d times with status %v, want %v", i, s.name, s.ended, s.status, want)
		}
	}
}

// errorTracer is a tracer that reports the parent and the error of each span.
type errorTracer struct {
	noop.Tracer
	parents chan trace.SpanContext // gets the parent at the start of a span
	errs    chan error             // gets the error at the end of a span
}

// errorSpan is a span of errorTracer.
type errorSpan struct {
	noop.Span
	tracer *errorTracer
	err    error
}

func (t *errorTracer) Start(ctx context.Context, _ string, _ ...trace.SpanStartOption) (context.Context, trace.Span) {
	t.parents <- trace.SpanContextFromContext(ctx)
	s := &errorSpan{tracer: t}
	return trace.ContextWithSpan(ctx, s), s
}

func (s *errorSpan) RecordError(err error, _ ...trace.EventOption) { s.err = err }
func (s *errorSpan) End(...trace.SpanEndOption)                    { s.tracer.errs <- s.err }

// A function's span belongs to the trace of its job's submission. If the function panics, its span ends, too.
func TestTraceReachesWorkers(t *testing.T) {
	tracer := &errorTracer{parents: make(chan trace.SpanContext, 9), errs: make(chan error, 9)}
	registry := exec.NewRegistry()
	registry.Use(exec.Traced(tracer))
	registry.Register("fine", func(context.Context, []byte) ([]byte, error) { return nil, nil })
	registry.Register("panics", func(context.Context, []byte) ([]byte, error) { panic("oh") })
	cluster, err := local.Start(local.Config{Registry: registry})
	if err != nil {
		t.Fatal(err)
	}
	defer cluster.Close()
	c := newClient(t, cluster.Frontends())
	own := trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: trace.TraceID{1, 2}, SpanID: trace.SpanID{3}, TraceFlags: trace.FlagsSampled, Remote: true,
	})
	for _, tc := range []struct {
		function string
		ctx      context.Context
		parent   trace.SpanContext
		fails    bool
	}{
		{"fine", t.Context(), trace.SpanContext{}, false},
		{"fine", trace.ContextWithSpanContext(t.Context(), own), own, false},
		{"panics", trace.ContextWithSpanContext(t.Context(), own), own, true},
	} {
		c.Run(tc.ctx, Job{Tasks: []Task{{Function: tc.function}}})
		if parent := <-tracer.parents; !parent.Equal(tc.parent) {
			t.Errorf("%s: the parent is %v, want %v", tc.function, parent, tc.parent)
		}
		if err := <-tracer.errs; (err != nil) != tc.fails {
			t.Errorf("%s: the span's error is %v", tc.function, err)
		}
	}
}

// numberingTracer is a tracer with numbered spans. It keeps each span and its parent by name.
type numberingTracer struct {
	noop.Tracer
	mu      sync.Mutex
	spans   map[string]trace.SpanID
	parents map[string]trace.SpanID
}

func (t *numberingTracer) Start(
	ctx context.Context, name string, _ ...trace.SpanStartOption,
) (context.Context, trace.Span) {
	t.mu.Lock()
	defer t.mu.Unlock()
	parent := trace.SpanContextFromContext(ctx)
	t.spans[name], t.parents[name] = trace.SpanID{byte(len(t.spans) + 1)}, parent.SpanID()
	ctx = trace.ContextWithSpanContext(ctx, parent.WithTraceID(trace.TraceID{7}).WithSpanID(t.spans[name]))
	return ctx, trace.SpanFromContext(ctx)
}

// A function's span is a child of its job's span, with Run and with Submit. The job's span is a child of the caller's.
func TestSpansOfAJob(t *testing.T) {
	tracer := &numberingTracer{spans: map[string]trace.SpanID{}, parents: map[string]trace.SpanID{}}
	registry := exec.NewRegistry()
	registry.Use(exec.Traced(tracer))
	for _, name := range []string{"run", "submitted"} {
		registry.Register(name, func(context.Context, []byte) ([]byte, error) { return nil, nil })
	}
	cluster, err := local.Start(local.Config{Registry: registry})
	if err != nil {
		t.Fatal(err)
	}
	defer cluster.Close()
	c := newClient(t, cluster.Frontends(), WithTracer(tracer))
	ctx, _ := tracer.Start(t.Context(), "query")
	if _, err := c.Run(ctx, Job{Tasks: []Task{{Function: "run"}}}); err != nil {
		t.Fatal(err)
	}
	r, err := c.Submit(ctx, Job{Tasks: []Task{{Function: "submitted"}}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Wait(); err != nil {
		t.Fatal(err)
	}
	for name, above := range map[string]string{"phoebe.Run": "query", "phoebe.Submit": "query", "run": "phoebe.Run",
		"submitted": "phoebe.Submit"} {
		if got := tracer.parents[name]; got != tracer.spans[above] {
			t.Errorf("the span %q is below %v, want %v, which is %q: %v", name, got, tracer.spans[above], above,
				tracer.spans)
		}
	}
}

// OpenTelemetry writes the same traceparent.
func TestTraceparent(t *testing.T) {
	for _, flags := range []trace.TraceFlags{0, trace.FlagsSampled, 0xff} {
		ctx := trace.ContextWithSpanContext(t.Context(), trace.NewSpanContext(trace.SpanContextConfig{
			TraceID: trace.TraceID{1, 0xab}, SpanID: trace.SpanID{2, 0xcd}, TraceFlags: flags,
		}))
		want := propagation.MapCarrier{}
		propagation.TraceContext{}.Inject(ctx, want)
		if got := traceparentOf(ctx); got == nil || *got != want.Get("traceparent") {
			t.Errorf("%q, want %q", *got, want.Get("traceparent"))
		}
	}
	if got := traceparentOf(t.Context()); got != nil {
		t.Errorf("%q without a span", *got)
	}
}
