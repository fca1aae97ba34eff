package frontend

import (
	"cmp"
	"strings"

	"github.com/phoebe-sched/phoebe/probe/pq"
)

// maxRefused bounds the tenants of which it is counted how many of their jobs were refused.
const maxRefused = 1024

// refusals counts the jobs that were refused by tenant, of those of whom most were: anybody may make up names. A name that is not
// counted takes the place of the one of fewest, and of its rank: so one of more than one in maxRefused of all that were ever refused is
// counted for certain (Metwally et al., 2005, Space-Saving).
type refusals struct {
	byTenant map[string]*tenantRefusals
	fewest   pq.Heap[*tenantRefusals]
}

// tenantRefusals is the refused jobs of a tenant.
type tenantRefusals struct {
	tenant string
	n      int // since it is counted
	missed int // before that, at most
	pos    int
}

func (r *tenantRefusals) upperBound() int { return r.n + r.missed }

func (r *tenantRefusals) Before(s *tenantRefusals) bool {
	return cmp.Or(cmp.Compare(r.upperBound(), s.upperBound()), cmp.Compare(r.tenant, s.tenant)) < 0
}

func (r *tenantRefusals) Pos() *int { return &r.pos }

// addRefusal counts one.
func (c *refusals) addRefusal(tenant string) {
	r := c.byTenant[tenant]
	if r == nil {
		tenant = strings.Clone(tenant) // not the request that it came with
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

// countFor is how many were, since the tenant is counted.
func (c *refusals) countFor(tenant string) int {
	if r := c.byTenant[tenant]; r != nil {
		return r.n
	}
	return 0
}
