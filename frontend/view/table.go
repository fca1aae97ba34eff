package view

import (
	"strings"
	"time"

	"github.com/phoebe-sched/phoebe/probe/list"
	"github.com/phoebe-sched/phoebe/probe/pq"
)

// maxRuns bounds the Runs remembered, over all tenants.
const maxRuns = 4096

// runsTable holds the Runs of all tenants. If the table is full, a new entry pushes out an entry of the tenant with the
// most entries, counted with the tenants below. Among the tenants below, the same rule chooses again, and in the end
// the least recently requested entry goes. So a tenant pushes out only entries of tenants with more entries.
type runsTable struct {
	entries map[runsKey]*Runs
	others  map[string]*Runs   // by name, of all tenants: kept while a tenant has an entry of the name
	holders map[string]*holder // by tenant; tenants without entries have none
	root    holder
	uses    uint64 // number of requests so far
	// lessonsUntil is a time up to which all lessons of other frontends are young enough; zero: there is no lesson.
	lessonsUntil time.Time
}

// runsKey stands for the tasks of a tenant that are remembered together.
type runsKey struct{ tenant, name string }

// holder is a tenant with entries, or with such a tenant below.
type holder struct {
	tenant   string
	parent   *holder
	children pq.Heap[*holder]
	recent   list.List[*Runs] // the tenant's own entries, most recently requested last
	entries  int              // of the tenant and of the tenants below
	lastUse  uint64
	pos      int
}

// Before puts the holder with the most entries first, and of equals the least recently used.
func (h *holder) Before(other *holder) bool {
	if h.entries != other.entries {
		return h.entries > other.entries
	}
	return h.lastUse < other.lastUse
}

// Pos makes a holder an item of heaps.
func (h *holder) Pos() *int { return &h.pos }

func newRunsTable() runsTable {
	return runsTable{entries: map[runsKey]*Runs{}, others: map[string]*Runs{}, holders: map[string]*holder{}}
}

// EnsureRuns returns the runs of a tenant remembered by a name, and creates an empty entry if there is none. A new
// entry may push out another.
func (v *View) EnsureRuns(tenant, name string) *Runs {
	t, key := &v.runs, runsKey{tenant, name}
	r := t.entries[key]
	if r == nil {
		if len(t.entries) >= maxRuns {
			t.dropEntry(t.pickVictim())
		}
		others := t.others[name]
		if others == nil {
			others = &Runs{}
			t.others[name] = others
		}
		others.users++
		r = &Runs{key: key, others: others, holder: t.ensureHolder(tenant)}
		t.entries[key] = r
		t.addEntries(r.holder, 1)
	} else {
		r.holder.recent.Remove(r)
	}
	r.holder.recent.Push(r)
	t.uses++
	for h := r.holder; h.parent != nil; h = h.parent {
		h.lastUse = t.uses
		h.parent.children.Fix(h)
	}
	return r
}

// KnownRuns returns the runs of a tenant remembered by a name. If the tenant has no entry, the result is the runs of
// the other tenants, or nil.
func (v *View) KnownRuns(tenant, name string) *Runs {
	if r := v.runs.entries[runsKey{tenant, name}]; r != nil {
		return r
	}
	return v.runs.others[name]
}

// ensureHolder returns the holder of a tenant, and creates missing holders of the tenant and of the tenants above.
func (t *runsTable) ensureHolder(tenant string) *holder {
	h := t.holders[tenant]
	if h == nil {
		h = &holder{tenant: tenant, parent: &t.root}
		if i := strings.LastIndexByte(tenant, '/'); i > 0 {
			h.parent = t.ensureHolder(tenant[:i])
		}
		t.holders[tenant] = h
		h.parent.children.Push(h)
	}
	return h
}

// addEntries adds n to the entries of a holder and of the holders above. Holders without entries go.
func (t *runsTable) addEntries(h *holder, n int) {
	for ; h.parent != nil; h = h.parent {
		h.entries += n
		if h.entries == 0 {
			h.parent.children.Remove(h)
			delete(t.holders, h.tenant)
			continue
		}
		h.parent.children.Fix(h)
	}
}

// pickVictim returns the entry that a new entry pushes out.
func (t *runsTable) pickVictim() *Runs {
	h := &t.root
	for h.children.Len() > 0 && h.children.Min().entries >= h.recent.Len() {
		h = h.children.Min()
	}
	return h.recent.First()
}

// dropEntry takes an entry out of the table. Groups that use the entry go on with it.
func (t *runsTable) dropEntry(r *Runs) {
	delete(t.entries, r.key)
	r.holder.recent.Remove(r)
	t.addEntries(r.holder, -1)
	if r.others.users--; r.others.users == 0 {
		delete(t.others, r.key.name)
	}
}
