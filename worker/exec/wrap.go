package exec

import (
	"context"
	"errors"
	"fmt"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/phoebe-sched/phoebe/idl/typed"
)

// BadPayload is the Code of the [*Error] for a payload that a function of [Register] cannot read.
const BadPayload = "BAD_PAYLOAD"

// Register adds f to r under the name of fn. The payload holds the argument, and the result the returned value, both in
// the codec of fn. Clients call fn by client.Call, client.Map and client.Stream. A payload that the codec cannot read
// fails the task for good.
//
// If f returns an error of a type in fn.Errors, the client gets an error of this type. An [*Error] in the same chain
// says where to retry.
func Register[In, Out any](r *Registry, fn typed.Func[In, Out], f func(context.Context, In) (Out, error),
	opts ...Option) error {
	if f == nil {
		return r.Register(fn.Name, nil)
	}
	return r.Register(fn.Name, func(ctx context.Context, payload []byte) ([]byte, error) {
		in, err := fn.DecodeIn(payload)
		if err != nil {
			return nil, &Error{Code: BadPayload, Retry: Never, Err: fmt.Errorf("%s: the payload: %w", fn.Name, err)}
		}
		out, err := f(ctx, in)
		if err != nil {
			return nil, addErrorType(err, fn.EncodeError)
		}
		return fn.EncodeOut(out)
	}, opts...)
}

// addErrorType returns err with the code and detail that encode gives it, and with err's own advice on retries. If err
// has a code already, or encode gives none, err stays as it is.
func addErrorType(err error, encode func(error) (code string, detail []byte)) error {
	known, isError := errors.AsType[*Error](err)
	if isError && known.Code != "" {
		return err
	}
	code, detail := encode(err)
	if code == "" {
		return err
	}
	e := &Error{Code: code, Detail: detail, Err: err}
	if isError {
		e.Retry = known.Retry
	}
	return e
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
