package probe

import (
	"iter"
	"strings"
)

// MaxParts is how many parts a tenant's path has at most. What comes after belongs to the last one.
const MaxParts = 8

// TenantPaths yields a tenant's path and those above it, the topmost first: of ads/etl, these are ads and ads/etl.
func TenantPaths(tenant string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for at, n := 0, 1; n < MaxParts; n++ {
			end := strings.IndexByte(tenant[at:], '/')
			if end < 0 {
				break
			}
			if at += end + 1; !yield(tenant[:at-1]) {
				return
			}
		}
		yield(tenant)
	}
}
