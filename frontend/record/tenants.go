package record

import (
	"cmp"
	"slices"
)

const (
	maxTenants = 16 // that are told apart: those with most tasks
	candidates = 64 // tenants whose tasks are counted to find these
)

// tenants finds those with most tasks, by counting those of a few only: who is not among them takes the place of who has
// fewest, and its count (Metwally et al., ICDT 2005, Space-Saving).
type tenants struct {
	list   []candidate
	named  int
	recent int // that was added last: most are the same one
}

type candidate struct {
	name  string
	tasks uint64
	named bool
}

// add counts tasks of a tenant. As long as there are few, each gets a name of its own at once.
func (t *tenants) add(name string, tasks uint64) {
	if at := t.recent; at < len(t.list) && t.list[at].name == name {
		t.list[at].tasks += tasks
		return
	}
	at := slices.IndexFunc(t.list, func(c candidate) bool { return c.name == name })
	switch {
	case at >= 0:
	case len(t.list) < candidates:
		at = len(t.list)
		t.list = append(t.list, candidate{name: name, named: t.named < maxTenants})
		if t.list[at].named {
			t.named++
		}
	default:
		for i := range t.list {
			if c := &t.list[i]; !c.named && (at < 0 || c.tasks < t.list[at].tasks) {
				at = i
			}
		}
		t.list[at].name = name
	}
	t.list[at].tasks += tasks
	t.recent = at
}

// has reports whether a tenant is told apart from the others.
func (t *tenants) has(name string) bool {
	return slices.ContainsFunc(t.list, func(c candidate) bool { return c.named && c.name == name })
}

// elect gives a name to each tenant that has twice as many tasks as one that has a name, instead of it, and lets half of what
// was counted be forgotten. It reports whether something changed.
func (t *tenants) elect() (changed bool) {
	slices.SortStableFunc(t.list, func(a, b candidate) int { return cmp.Compare(b.tasks, a.tasks) })
	for i := range t.list {
		in := &t.list[i]
		if in.named {
			continue
		}
		last := len(t.list) - 1
		for !t.list[last].named {
			last--
		}
		out := &t.list[last]
		if last < i || in.tasks < 2*out.tasks {
			break
		}
		in.named, out.named, changed = true, false, true
	}
	for i := range t.list {
		t.list[i].tasks /= 2
	}
	return changed
}
