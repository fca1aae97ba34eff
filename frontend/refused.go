package frontend

import (
	"cmp"
	"strings"

	"github.com/phoebe-sched/phoebe/probe/pq"
)

// maxRefused bounds the tenants with a count of refused jobs.
const maxRefused = 1024

// refusals counts refused jobs by tenant, for the tenants with the most. Anybody may make up names, so the count
// is bounded: a new name replaces the name with the fewest refusals, and inherits the number as a possible error.
// So a tenant with more than a share of 1/maxRefused of all refusals certainly has a count (Metwally et al., 2005,
// Space-Saving).
type refusals struct {
	byTenant map[string]*tenantRefusals
	fewest   pq.Heap[*tenantRefusals]
}

// tenantRefusals is the refused jobs of a tenant.
type tenantRefusals struct {
	tenant string
	n      int // since the tenant is counted
	missed int // upper bound of the refusals before that: the count of the replaced name
	pos    int
}

// upperBound returns how many jobs of the tenant were refused at most.
func (r *tenantRefusals) upperBound() int { return r.n + r.missed }

func (r *tenantRefusals) Before(s *tenantRefusals) bool {
	return cmp.Or(cmp.Compare(r.upperBound(), s.upperBound()), cmp.Compare(r.tenant, s.tenant)) < 0
}

func (r *tenantRefusals) Pos() *int { return &r.pos }

// addRefusal counts a refused job of a tenant.
func (c *refusals) addRefusal(tenant string) {
	r := c.byTenant[tenant]
	if r == nil {
		tenant = strings.Clone(tenant) // a copy: the name is a part of the request
		if len(c.byTenant) < maxRefused {
			r = &tenantRefusals{tenant: tenant}
			c.fewest.Push(r)
		} else {
			r = c.fewest.Min()
			delete(c.byTenant, r.tenant)
			r.tenant, r.missed, r.n = tenant, r.upperBound(), 0
		}
		c.byTenant[tenant] = r
	}
	r.n++
	c.fewest.Fix(r)
}

// countFor returns how many jobs of a tenant were refused since the tenant is counted.
func (c *refusals) countFor(tenant string) int {
	if r := c.byTenant[tenant]; r != nil {
		return r.n
	}
	return 0
}
