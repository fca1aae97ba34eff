package probe

import (
	"slices"
	"testing"
)

// A path has at most MaxParts parts, however many slashes the name of the tenant has.
func TestTenantPaths(t *testing.T) {
	for tenant, want := range map[string][]string{
		"": {""}, "a": {"a"}, "a/b": {"a", "a/b"}, "/": {"", "/"}, "a/": {"a", "a/"},
		"1/2/3/4/5/6/7/8/9/10": {"1", "1/2", "1/2/3", "1/2/3/4", "1/2/3/4/5", "1/2/3/4/5/6", "1/2/3/4/5/6/7",
			"1/2/3/4/5/6/7/8/9/10"},
	} {
		if got := slices.Collect(TenantPaths(tenant)); !slices.Equal(got, want) {
			t.Errorf("paths of %q: %q, want %q", tenant, got, want)
		}
	}
}
