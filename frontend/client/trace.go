package client

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// WithTracer has each job traced by a span of the caller's tracer, from its submission to its last outcome. By
// default nothing is traced. Workers' functions run in spans of the same trace if their programs use exec.Traced.
func WithTracer(t trace.Tracer) Option { return func(c *config) { c.tracer = t } }

// startSpan starts a job's span, if there is a tracer.
func (c *Client) startSpan(ctx context.Context, name string, job *Job) (context.Context, func(error)) {
	if c.cfg.tracer == nil {
		return ctx, func(error) {}
	}
	if job.ID == "" {
		job.ID = NewJobID()
	}
	ctx, span := c.cfg.tracer.Start(ctx, name, trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(
		attribute.String("phoebe.job", job.ID), attribute.String("phoebe.tenant", job.Tenant),
		attribute.String("phoebe.policy", string(job.Policy)), attribute.Int("phoebe.tasks", len(job.Tasks))))
	return ctx, func(err error) {
		if err != nil {
			span.RecordError(err)
			span.SetStatus(codes.Error, err.Error())
		}
		span.End()
	}
}

// traceparentOf is the span of ctx, as workers are told it; nil: there is none.
func traceparentOf(ctx context.Context) *string {
	if !trace.SpanContextFromContext(ctx).IsValid() {
		return nil
	}
	header := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(ctx, header)
	parent := header.Get("traceparent")
	return &parent
}
