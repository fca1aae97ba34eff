package probe

import (
	"iter"
	"strings"
)

// MaxParts is the maximum number of parts in a tenant's path. Further slashes belong to the last part.
const MaxParts = 8

// TenantPaths yields a tenant's path and all paths above, the topmost first: for ads/etl, yields ads and ads/etl.
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

// TenantCovers reports whether a client of tenant may act for other: other must be tenant itself or a path below.
func TenantCovers(tenant, other string) bool {
	rest, below := strings.CutPrefix(other, tenant)
	return below && (rest == "" || tenant != "" && rest[0] == '/')
}
