package frontend

import (
	"cmp"
	"strings"

	"github.com/phoebe-sched/phoebe/probe/pq"
)

// maxRefused bounds the tenants of which it is counted how many of their jobs were refused.
const maxRefused = 1024

// turnedAway counts the jobs that were refused by tenant, of those of whom most were: anybody may make up names. A name that is not
// counted takes the place of the one of fewest, and of its rank: so one of more than one in maxRefused of all that were ever refused is
// counted for certain (Metwally et al., 2005, Space-Saving).
type turnedAway struct {
	of     map[string]*turned
	fewest pq.Heap[*turned]
}

// turned is the refused jobs of a tenant.
type turned struct {
	tenant string
	n      int // since it is counted
	missed int // before that, at most
	pos    int
}

func (r *turned) rank() int { return r.n + r.missed }

func (r *turned) Before(s *turned) bool {
	return cmp.Or(cmp.Compare(r.rank(), s.rank()), cmp.Compare(r.tenant, s.tenant)) < 0
}

func (r *turned) Pos() *int { return &r.pos }

// add counts one.
func (c *turnedAway) add(tenant string) {
	r := c.of[tenant]
	if r == nil {
		tenant = strings.Clone(tenant) // not the request that it came with
		if len(c.of) < maxRefused {
			r = &turned{tenant: tenant}
			c.fewest.Push(r)
		} else {
			r = c.fewest.Min()
			delete(c.of, r.tenant)
			r.tenant, r.missed, r.n = tenant, r.rank(), 0
		}
		c.of[tenant] = r
	}
	r.n++
	c.fewest.Fix(r)
}

// count is how many were, since the tenant is counted.
func (c *turnedAway) count(tenant string) int {
	if r := c.of[tenant]; r != nil {
		return r.n
	}
	return 0
}
