package rows

import (
	"fmt"
	"iter"
	"time"
)

// Outcome is the result of merging a row.
type Outcome uint8

const (
	Old     Outcome = iota // no part was new
	Newer                  // at least one part was new
	Started                // a new worker, a new run, or a lost worker that returned
	Unknown                // a short row of an unknown run: its profile must be asked for
	Ended                  // a run superseded by another run of its worker
	Expired                // older than Limits.Expire
	Full                   // no room for another worker
	Invalid                // no worker could have written this row
	numOutcomes
)

func (o Outcome) String() string {
	return [...]string{"old", "newer", "started", "unknown", "ended", "expired", "full", "invalid"}[o]
}

// Limits bound a table. All limits must be positive.
type Limits struct {
	Rows   int           // workers, including ended workers that are not yet forgotten
	Expire time.Duration // age at which a worker counts as lost
	Forget time.Duration // memory of a worker that left or was lost, against revival by late copies
}

// DefaultLimits fit heartbeats once per second.
var DefaultLimits = Limits{Rows: 100_000, Expire: 30 * time.Second, Forget: 2 * time.Minute}

// Validate returns the problem of l, or nil.
func (l Limits) Validate() error {
	if l.Rows <= 0 || l.Expire <= 0 || l.Forget <= 0 {
		return fmt.Errorf("gossip: limits of rows %d, expiry %v and forgetting %v: all must be positive", l.Rows,
			l.Expire, l.Forget)
	}
	return nil
}

// Table holds the rows of all workers, one row per name. Its owner locks it.
//
// Invariant: byKey and byName hold the same entries. The list holds all entries by ascending version. sums and
// upCount cover the entries that are Up.
type Table struct {
	limits  Limits
	start   time.Time     // start of the table's clock
	now     time.Duration // latest time of any call, since start
	byKey   map[Key]*entry
	byName  map[string]*entry
	version uint64 // of the last change
	list    entry  // ring, oldest change first
	sums    [Buckets]uint32
	upCount int

	Counts    [numOutcomes]uint64 // merged rows by outcome
	Flawed    uint64              // merged rows with a flaw
	ClockBack uint64              // times that the clock went back, and the table kept its time
}

// entry is the table's entry of a worker. The row's Age is valid at the time made+Age.
type entry struct {
	row        Row
	madeAt     time.Duration // when the worker made this version of the row, on the table's clock
	changedAt  time.Duration // time of the entry's last change
	version    uint64        // of the table, at the entry's last change
	next, prev *entry

	nameHash  uint64
	pushState pushState
}

// NewTable returns an empty table whose clock starts at now.
func NewTable(l Limits, now time.Time) *Table {
	t := &Table{limits: l, start: now, byKey: map[Key]*entry{}, byName: map[string]*entry{}}
	t.list.next, t.list.prev = &t.list, &t.list
	return t
}

// advanceClock moves the clock forward, never back.
func (t *Table) advanceClock(now time.Time) {
	switch d := now.Sub(t.start); {
	case d >= t.now:
		t.now = d
	default:
		t.ClockBack++
	}
}

// Len returns the number of workers that are up.
func (t *Table) Len() int { return t.upCount }

// Version returns the number of the last change.
func (t *Table) Version() uint64 { return t.version }

// Merge takes the newer parts of r into the table. Merge replaces and flags absurd values in r. The table keeps the
// parts behind r's pointers: nobody may write to them afterwards.
func (t *Table) Merge(now time.Time, r Row) Outcome {
	t.advanceClock(now)
	_, o := t.mergeRow(&r)
	return o
}

// mergeRow is Merge, and also returns the entry of r's run, or nil if the table has no entry.
func (t *Table) mergeRow(r *Row) (*entry, Outcome) {
	flawed := r.Flaws
	r.replaceAbsurd()
	e, o := t.applyRow(r)
	t.Counts[o]++
	if (r.Flaws|flawed) != 0 || r.Profile != nil && r.Profile.Flaws != 0 {
		t.Flawed++
	}
	return e, o
}

// applyRow finds the entry of r, or makes an entry, and applies r.
func (t *Table) applyRow(r *Row) (*entry, Outcome) {
	e := t.byKey[r.Key]
	switch {
	case r.Seq == 0 || r.State == Lost || r.Age < 0:
		return e, Invalid
	case r.Age > t.limits.Expire:
		return e, Expired
	case e != nil:
		return e, t.updateEntry(e, r)
	case r.Profile == nil:
		return nil, Unknown
	case r.Key != KeyOf(r.Profile.Name, r.Incarnation):
		return nil, Invalid
	}
	old := t.byName[r.Profile.Name]
	switch {
	case old != nil && old.row.Incarnation > r.Incarnation:
		return old, Ended
	case old != nil:
		t.removeEntry(old)
	case len(t.byName) >= t.limits.Rows:
		return nil, Full
	}
	e = &entry{row: *r, madeAt: t.now - r.Age, nameHash: hashName(r.Profile.Name)}
	e.row.Matrix.Capacity = r.Profile.Capacity
	if r.Files == nil {
		e.row.FilesRev = 0 // the revision in the table, not the worker's latest
	}
	e.pushState.othersPushedAt = t.now
	t.byKey[r.Key] = e
	t.byName[r.Profile.Name] = e
	e.next, e.prev = e, e
	t.countEntry(e)
	t.noteChange(e)
	return e, Started
}

// updateEntry merges r into the entry of the same run.
func (t *Table) updateEntry(e *entry, r *Row) Outcome {
	old := &e.row
	profile := r.Profile != nil && r.ProfileRev > old.ProfileRev
	files := r.Files != nil && r.FilesRev > old.FilesRev
	load := r.Seq > old.Seq
	if profile && r.Profile.Name != old.Profile.Name {
		return Invalid
	}
	if !profile && !files && !load {
		return Old
	}
	t.uncountEntry(e)
	ended := old.State != Up
	if load {
		prev := *old
		*old = *r
		old.Incarnation = prev.Incarnation
		old.ProfileRev, old.Profile, old.FilesRev, old.Files = prev.ProfileRev, prev.Profile, prev.FilesRev, prev.Files
		e.madeAt = t.now - r.Age
	}
	if profile {
		old.ProfileRev, old.Profile = r.ProfileRev, r.Profile
	}
	if files {
		old.FilesRev, old.Files = r.FilesRev, r.Files
	}
	old.Matrix.Capacity = old.Profile.Capacity
	t.countEntry(e)
	t.noteChange(e)
	if ended && old.State == Up {
		return Started
	}
	return Newer
}

// countEntry and uncountEntry keep sums and upCount in step with a change of e.
func (t *Table) countEntry(e *entry) {
	if e.row.State == Up {
		t.upCount++
		t.sums[e.row.Key.bucketIndex()] += e.row.revisionSum()
	}
}

func (t *Table) uncountEntry(e *entry) {
	if e.row.State == Up {
		t.upCount--
		t.sums[e.row.Key.bucketIndex()] -= e.row.revisionSum()
	}
}

// noteChange moves e to the end of the list, as the last changed entry.
func (t *Table) noteChange(e *entry) {
	t.version++
	e.version, e.changedAt = t.version, t.now
	e.prev.next, e.next.prev = e.next, e.prev
	e.prev, e.next = t.list.prev, &t.list
	e.prev.next, e.next.prev = e, e
}

// removeEntry forgets e.
func (t *Table) removeEntry(e *entry) {
	t.uncountEntry(e)
	e.prev.next, e.next.prev = e.next, e.prev
	delete(t.byKey, e.row.Key)
	delete(t.byName, e.row.Profile.Name)
}

// Expire marks silent workers as lost, and forgets workers that ended long ago. Expire looks only at entries
// unchanged for an eighth of Limits.Expire. So Expire may be late by an eighth for an entry whose last news was
// already old on arrival.
func (t *Table) Expire(now time.Time) {
	t.advanceClock(now)
	for e := t.list.next; e != &t.list; {
		cur := e
		e = e.next
		idle := t.now - cur.changedAt
		switch {
		case idle < t.limits.Expire/8:
			return
		case cur.row.State == Up && t.now-cur.madeAt > t.limits.Expire:
			t.uncountEntry(cur)
			cur.row.State = Lost
			t.noteChange(cur)
		case cur.row.State != Up && idle > t.limits.Forget:
			t.removeEntry(cur)
		}
	}
}

// Get returns the row of a worker as of now. A worker that ended has a row until the table forgets it.
func (t *Table) Get(now time.Time, name string) (Row, bool) {
	t.advanceClock(now)
	e := t.byName[name]
	if e == nil {
		return Row{}, false
	}
	return t.rowOf(e), true
}

// rowOf returns e's row with its present age.
func (t *Table) rowOf(e *entry) Row {
	r := e.row
	r.Age = t.now - e.madeAt
	return r
}

// Since yields the rows that changed after version v, each once, in the order of their last changes, with the
// version of the change. A caller that remembers the last version can ask for later changes. Since(now, 0) yields
// all rows. Forgotten workers are not among them: their end was a change before. The table must not change during
// the iteration.
func (t *Table) Since(now time.Time, v uint64) iter.Seq2[uint64, Row] {
	t.advanceClock(now)
	return func(yield func(uint64, Row) bool) {
		for e := t.firstAfter(v); e != &t.list; e = e.next {
			if !yield(e.version, t.rowOf(e)) {
				return
			}
		}
	}
}

// firstAfter returns the first entry that changed after v, or the list's head.
func (t *Table) firstAfter(v uint64) *entry {
	e := &t.list
	for e.prev != &t.list && e.prev.version > v {
		e = e.prev
	}
	return e
}

// checkInvariants panics if an invariant is broken.
func (t *Table) checkInvariants() {
	var sums [Buckets]uint32
	live, n, version := 0, 0, uint64(0)
	for e := t.list.next; e != &t.list; e = e.next {
		n++
		if t.byKey[e.row.Key] != e || t.byName[e.row.Profile.Name] != e || e.version <= version || e.next.prev != e {
			panic(fmt.Sprintf("gossip: the entry of %s is in the wrong place of the table", e.row.Profile.Name))
		}
		version = e.version
		if e.row.State == Up {
			live++
			sums[e.row.Key.bucketIndex()] += e.row.revisionSum()
		}
	}
	if n != len(t.byKey) || n != len(t.byName) || live != t.upCount || sums != t.sums || version > t.version {
		panic(fmt.Sprintf("gossip: %d entries, %d by key, %d by name; %d count as up, %d are up", n,
			len(t.byKey), len(t.byName), t.upCount, live))
	}
}

// Buckets is the number of parts into which rows are divided by key. Two frontends compare sums of buckets to find
// rows that differ.
const Buckets = 256

func (k Key) bucketIndex() int { return int(k >> 56) }

// revisionSum stands for the run of a row and the revisions of its parts.
func (r *Row) revisionSum() uint32 {
	return uint32(mixBits(uint64(r.Key)^mixBits(uint64(r.ProfileRev)<<32|uint64(r.FilesRev))) >> 32)
}

// mixBits spreads all bits of x over all bits of the result (the finalizer of splitmix64).
func mixBits(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
