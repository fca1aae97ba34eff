package client

import (
	"context"
	"sync"
	"testing"

	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
)

// recorder is a tracer that keeps what its spans were told.
type recorder struct {
	noop.Tracer
	mu    sync.Mutex
	spans []*recorded
}

type recorded struct {
	noop.Span
	mu     sync.Mutex
	name   string
	status codes.Code
	ended  int
}

func (r *recorder) Start(ctx context.Context, name string, _ ...trace.SpanStartOption) (context.Context, trace.Span) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := &recorded{name: name}
	r.spans = append(r.spans, s)
	return trace.ContextWithSpan(ctx, s), s
}

func (s *recorded) SetStatus(c codes.Code, _ string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.status = c
}

func (s *recorded) End(...trace.SpanEndOption) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended++
}

func TestTracer(t *testing.T) {
	f := newFake(t)
	f.run = f.runEcho
	tracer := &recorder{}
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
