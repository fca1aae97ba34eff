package frontend

import (
	"fmt"
	"maps"
	"time"

	"github.com/phoebe-sched/phoebe/frontend/tenants"
	"github.com/phoebe-sched/phoebe/probe"
)

// ensureTenant returns the tenant of a name, and makes missing tenants on the path.
func (c *jobs) ensureTenant(name string) (t *tenant) {
	if t = c.tenants[name]; t != nil {
		return t
	}
	for path := range probe.TenantPaths(name) {
		above := t
		if t = c.tenants[path]; t == nil {
			t = &tenant{name: path, code: probe.CodeOf(path), parent: above, weights: c.terms.Weights(path)}
			c.tenants[path] = t
		}
	}
	return t
}

// nearestTenant returns the tenant of a name, or else the tenant of the longest known path above, or nil.
func (c *jobs) nearestTenant(name string) (t *tenant) {
	for path := range probe.TenantPaths(name) {
		if c.tenants[path] == nil {
			break
		}
		t = c.tenants[path]
	}
	return t
}

// setTerms notes what tenants may have from now on. Accepted jobs stay accepted.
func (c *jobs) setTerms(terms *tenants.File) {
	c.terms = terms
	c.quotas.UseFile(terms)
	for _, t := range c.tenants {
		t.weights = terms.Weights(t.name)
		c.batchQueue.updateWeights(t)
		c.roomSleepers.updateWeights(t)
	}
}

// refuseRate refuses a job if its tenant, or a tenant above, has submitted as many jobs as the rate allows in a
// second. The jobs of a second may come at once. So a job is admitted if rateClocks, with the job counted, is at
// most a second ahead of now.
func (c *jobs) refuseRate(name string, now time.Time) *RefusedError {
	for path := range probe.TenantPaths(name) {
		rate := c.terms.Entry(path).Rate
		if rate == 0 {
			continue
		}
		if tooEarlyBy := laterOf(c.rateClocks[path],
			now).Add(time.Second/time.Duration(rate)).Sub(now) - time.Second; tooEarlyBy > 0 {
			return &RefusedError{
				Reason: Overloaded,
				Message: fmt.Sprintf("tenant %q may submit %d jobs in a second to a frontend: come back later",
					path, rate),
				RetryAfter: tooEarlyBy,
			}
		}
	}
	return nil
}

// countAgainstRate counts a job against the rates of the tenant, and of the tenants above.
func (c *jobs) countAgainstRate(name string, now time.Time) {
	for path := range probe.TenantPaths(name) {
		rate := c.terms.Entry(path).Rate
		if rate == 0 {
			continue
		}
		if len(c.rateClocks) >= c.rateClocksLimit {
			maps.DeleteFunc(c.rateClocks, func(_ string, until time.Time) bool { return !until.After(now) })
			c.rateClocksLimit = 2*len(c.rateClocks) + 64
		}
		c.rateClocks[path] = laterOf(c.rateClocks[path], now).Add(time.Second / time.Duration(rate))
	}
}

// laterOf returns the later of two times.
func laterOf(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// refuseFullQueue refuses a job with n tasks if its tenant, or a tenant above, would have more pending tasks than the
// tenants file allows.
func (c *jobs) refuseFullQueue(name string, n int) *RefusedError {
	for path := range probe.TenantPaths(name) {
		limit, pending := c.terms.Entry(path).Queue, 0
		if t := c.tenants[path]; t != nil {
			pending = t.pending
		}
		switch {
		case limit == 0:
		case n > limit:
			return &RefusedError{Reason: TooBigJob, Message: fmt.Sprintf(
				"the job has %d tasks, and tenant %q may have %d pending at a frontend: split it", n, path, limit)}
		case pending+n > limit:
			return &RefusedError{Reason: Overloaded, Message: fmt.Sprintf(
				"%d tasks of tenant %q are pending and the job has %d: at a frontend it may have %d; come back later",
				pending, path, n, limit), RetryAfter: time.Second}
		}
	}
	return nil
}
