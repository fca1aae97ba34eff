package tenants

import (
	"slices"
	"testing"

	"github.com/phoebe-sched/phoebe/probe/purity"
)

func TestPure(t *testing.T) { purity.Check(t, ".") }

// A path has at most MaxDepth parts, however many slashes its name has.
func TestPaths(t *testing.T) {
	for tenant, want := range map[string][]string{
		"": {""}, "a": {"a"}, "a/b": {"a", "a/b"}, "/": {"", "/"},
		"1/2/3/4/5/6/7/8/9/10": {"1", "1/2", "1/2/3", "1/2/3/4", "1/2/3/4/5", "1/2/3/4/5/6", "1/2/3/4/5/6/7", "1/2/3/4/5/6/7/8/9/10"},
	} {
		if got := slices.Collect(Paths(tenant)); !slices.Equal(got, want) {
			t.Errorf("paths of %q: %q, want %q", tenant, got, want)
		}
	}
}
