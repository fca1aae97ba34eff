package client

import (
	"context"
	"fmt"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
)

// WithTracer makes a span of each job with the caller's tracer, from the submission to the last outcome. By default
// nothing is traced. If the workers' programs use exec.Traced, functions run in spans of the same trace.
func WithTracer(t trace.Tracer) Option { return func(c *config) { c.tracer = t } }

// startSpan starts a job's span, if there is a tracer. It returns the context to use from then on, and a function that
// ends the span with the job's error. If the job has no id yet, startSpan makes one for the span.
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

// traceparentOf returns ctx's span as a W3C traceparent for the job, or nil if ctx has no span. Package propagation of
// OpenTelemetry would bring net/http.
func traceparentOf(ctx context.Context) *string {
	span := trace.SpanContextFromContext(ctx)
	if !span.IsValid() {
		return nil
	}
	const known = trace.FlagsSampled | trace.FlagsRandom
	parent := fmt.Sprintf("00-%s-%s-%02x", span.TraceID(), span.SpanID(), byte(span.TraceFlags()&known))
	return &parent
}
