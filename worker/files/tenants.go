package files

import (
	"slices"

	"github.com/phoebe-sched/phoebe/probe"
)

// Bounds of the tenants noted for a file. Clients choose the names of tenants.
const (
	maxTenants    = 16
	maxTenantName = 256 // bytes; tenants with tokens have shorter names
)

// NoteTenant notes that a task of tenant has written or read a file. Clients of the tenant, and of tenants above, may
// then read the file by way of a frontend. A file that is not in the cache is ignored. After a restart of the process
// the cache knows no tenants.
func (c *Cache) NoteTenant(digest [32]byte, tenant string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.entries[digest]
	if e == nil || len(tenant) > maxTenantName || len(e.tenants) == maxTenants || slices.Contains(e.tenants, tenant) {
		return
	}
	e.tenants = append(e.tenants, tenant)
}

// mayRead reports whether a client of tenant may read a file.
func (c *Cache) mayRead(digest [32]byte, tenant string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.entries[digest]
	return e != nil &&
		slices.ContainsFunc(e.tenants, func(noted string) bool { return probe.TenantCovers(tenant, noted) })
}
