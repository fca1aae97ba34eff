package exec

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// BadPayload is the Code of the [*Error] for a payload that a function of [Register] cannot read.
const BadPayload = "BAD_PAYLOAD"

// Register adds a function of Go values to r. The payload holds the argument as JSON, and the result is written as
// JSON. So clients use json.Marshal for the payload and json.Unmarshal for the result. Without a payload the
// argument is its zero value. A payload that is not valid JSON for T fails the task for good.
func Register[T, R any](r *Registry, name string, f func(context.Context, T) (R, error), opts ...Option) error {
	if f == nil {
		return r.Register(name, nil)
	}
	return r.Register(name, func(ctx context.Context, payload []byte) ([]byte, error) {
		var in T
		if len(payload) > 0 {
			if err := json.Unmarshal(payload, &in); err != nil {
				return nil, &Error{
					Code: BadPayload, Retry: Never, Err: fmt.Errorf("%s: the payload is no %T: %w", name, in, err),
				}
			}
		}
		out, err := f(ctx, in)
		if err != nil {
			return nil, err
		}
		return json.Marshal(out)
	}, opts...)
}

// Middleware returns a replacement for the function f of this name. Normally the replacement calls f.
type Middleware func(name string, f Func) Func

// Use wraps m around every function registered later. The first Middleware given to Use is the outermost. Use does
// not wrap built-in functions and processes.
func (r *Registry) Use(m Middleware) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.middleware = append(r.middleware, m)
}

// Traced runs each function in a span of t. If the job's client traces the job, the span belongs to the client's
// trace.
func Traced(t trace.Tracer) Middleware {
	return func(name string, f Func) Func {
		return func(ctx context.Context, payload []byte) (out []byte, err error) {
			task := Task(ctx)
			parent := propagation.TraceContext{}.Extract(ctx, propagation.MapCarrier{"traceparent": task.Traceparent})
			ctx, span := t.Start(parent, name, trace.WithSpanKind(trace.SpanKindServer), trace.WithAttributes(
				attribute.String("phoebe.job", task.Job), attribute.String("phoebe.stage", task.Stage),
				attribute.Int("phoebe.task", task.Index), attribute.Int("phoebe.attempt", task.Attempt),
				attribute.String("phoebe.tenant", task.Tenant), attribute.String("phoebe.worker", task.Worker)))
			err = errors.New("the function did not return") // for a panic
			defer func() {
				if err != nil {
					span.RecordError(err)
					span.SetStatus(codes.Error, err.Error())
				}
				span.End()
			}()
			return f(ctx, payload)
		}
	}
}
