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

// BadPayload is the Code of the [*Error] of a task whose payload a function of [Register] cannot read.
const BadPayload = "BAD_PAYLOAD"

// Register adds a function of Go values to r: its argument is read from the payload as JSON, and what it returns is written as
// JSON, so that clients make the one by json.Marshal and read the other by json.Unmarshal. Without a payload the argument is its zero
// value. A payload that cannot be read fails the task for good.
func Register[T, R any](r *Registry, name string, f func(context.Context, T) (R, error), opts ...Option) error {
	if f == nil {
		return r.Register(name, nil)
	}
	return r.Register(name, func(ctx context.Context, payload []byte) ([]byte, error) {
		var in T
		if len(payload) > 0 {
			if err := json.Unmarshal(payload, &in); err != nil {
				return nil, &Error{Code: BadPayload, Retry: Never, Err: fmt.Errorf("%s: the payload is no %T: %w", name, in, err)}
			}
		}
		out, err := f(ctx, in)
		if err != nil {
			return nil, err
		}
		return json.Marshal(out)
	}, opts...)
}

// Middleware returns what is run instead of the function of this name, and calls it, as a rule.
type Middleware func(name string, f Func) Func

// Use has every function that is registered later run in m, within what was given to Use before. Built-in functions and
// processes are not.
func (r *Registry) Use(m Middleware) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.middleware = append(r.middleware, m)
}

// Traced runs each function in a span of t, which belongs to the trace of the job's client, if there is one.
func Traced(t trace.Tracer) Middleware {
	return func(name string, f Func) Func {
		return func(ctx context.Context, payload []byte) (out []byte, err error) {
			task := Task(ctx)
			parent := propagation.TraceContext{}.Extract(ctx, propagation.MapCarrier{"traceparent": task.Traceparent})
			ctx, span := t.Start(parent, name, trace.WithSpanKind(trace.SpanKindServer), trace.WithAttributes(
				attribute.String("phoebe.job", task.Job), attribute.String("phoebe.stage", task.Stage), attribute.Int("phoebe.task", task.Index),
				attribute.Int("phoebe.attempt", task.Attempt), attribute.String("phoebe.tenant", task.Tenant), attribute.String("phoebe.worker", task.Worker)))
			err = errors.New("the function did not return") // if it panics
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
