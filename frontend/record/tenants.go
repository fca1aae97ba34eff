package record

import (
	"cmp"
	"slices"
)

const (
	maxTenants    = 16 // tenants, or functions, with series of their own: those with most tasks
	maxCandidates = 64 // names counted to find these
)

// heavyNames finds the tenants, or functions, with most tasks, and counts only a few. A name not in the list takes the
// place of the name with fewest tasks, and the count of that name (Metwally et al., ICDT 2005, Space-Saving).
type heavyNames struct {
	list       []candidate
	namedCount int
	recent     int // index of the latest name: most calls repeat it
}

// candidate is a tenant, or function, whose tasks are counted.
type candidate struct {
	name    string
	tasks   uint64
	isNamed bool
}

// addTasks counts tasks under a name. While few names have series of their own, a new name gets series at once.
func (t *heavyNames) addTasks(name string, tasks uint64) {
	if at := t.recent; at < len(t.list) && t.list[at].name == name {
		t.list[at].tasks += tasks
		return
	}
	at := slices.IndexFunc(t.list, func(c candidate) bool { return c.name == name })
	switch {
	case at >= 0:
	case len(t.list) < maxCandidates:
		at = len(t.list)
		t.list = append(t.list, candidate{name: name, isNamed: t.namedCount < maxTenants})
		if t.list[at].isNamed {
			t.namedCount++
		}
	default:
		for i := range t.list {
			if c := &t.list[i]; !c.isNamed && (at < 0 || c.tasks < t.list[at].tasks) {
				at = i
			}
		}
		t.list[at].name = name
	}
	t.list[at].tasks += tasks
	t.recent = at
}

// hasName reports whether tasks are counted under this name, and not as Other.
func (t *heavyNames) hasName(name string) bool {
	return slices.ContainsFunc(t.list, func(c candidate) bool { return c.isNamed && c.name == name })
}

// electNames takes the series from names, and gives them to names with at least twice as many tasks. With a smaller
// factor, names of about the same size would take series from each other again and again. Then all counts are halved.
// changed says whether any series moved.
func (t *heavyNames) electNames() (changed bool) {
	slices.SortStableFunc(t.list, func(a, b candidate) int { return cmp.Compare(b.tasks, a.tasks) })
	for i := range t.list {
		entering := &t.list[i]
		if entering.isNamed {
			continue
		}
		last := len(t.list) - 1
		for !t.list[last].isNamed {
			last--
		}
		leaving := &t.list[last]
		if last < i || entering.tasks < 2*leaving.tasks {
			break
		}
		entering.isNamed, leaving.isNamed, changed = true, false, true
	}
	for i := range t.list {
		t.list[i].tasks /= 2
	}
	return changed
}
