package frontend

import (
	"fmt"
	"time"

	"github.com/phoebe-sched/phoebe/frontend/tenants"
	"github.com/phoebe-sched/phoebe/probe"
)

// tenant is the one of a name, which it now knows if it did not.
func (c *jobs) tenant(name string) (t *tenant) {
	if t = c.tenants[name]; t != nil {
		return t
	}
	for path := range probe.TenantPaths(name) {
		above := t
		if t = c.tenants[path]; t == nil {
			t = &tenant{name: path, above: above, weights: c.terms.Weights(path)}
			c.tenants[path] = t
		}
	}
	return t
}

// nearest is the tenant of a name, or else of the longest path above it that is known; nil: none is.
func (c *jobs) nearest(name string) (t *tenant) {
	for path := range probe.TenantPaths(name) {
		if c.tenants[path] == nil {
			break
		}
		t = c.tenants[path]
	}
	return t
}

// setTerms notes what tenants may have from now on. What was accepted stays so.
func (c *jobs) setTerms(terms *tenants.File) {
	c.terms = terms
	for _, t := range c.tenants {
		t.weights = terms.Weights(t.name)
	}
}

// overfull says whether a job with so many tasks is too much for what a tenant, or one above it, may have pending.
func (c *jobs) overfull(name string, n int) *RefusedError {
	for path := range probe.TenantPaths(name) {
		limit, pending := c.terms.Entry(path).Queue, 0
		if t := c.tenants[path]; t != nil {
			pending = t.pending
		}
		switch {
		case limit == 0:
		case n > limit:
			return &RefusedError{Reason: TooBigJob, Message: fmt.Sprintf("the job has %d tasks, and tenant %q may have %d pending at a frontend: split it", n, path, limit)}
		case pending+n > limit:
			return &RefusedError{
				Reason:     Overloaded,
				Message:    fmt.Sprintf("%d tasks of tenant %q are pending and the job has %d: at a frontend it may have %d; come back later", pending, path, n, limit),
				RetryAfter: time.Second,
			}
		}
	}
	return nil
}
