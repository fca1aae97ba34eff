package rows

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/phoebe-sched/phoebe/probe"
)

// Announcer makes a worker's heartbeats. It numbers the rows, and chooses the receivers and the parts of each
// heartbeat. Its owner locks it and sends the heartbeats.
type Announcer struct {
	seeds   []string
	key     Key
	run     uint64
	seq     uint64
	profile *Profile
	files   *Files
	revs    revs

	members        []Member
	membersVersion uint64
	knownRevs      map[string]revs // revisions known to be at the frontend with this address
	failing        map[string]bool // addresses whose last heartbeat failed
	rotation       int             // counts rounds: picks a failing home and a seed for each round

	// newerRun is the answer of Superseded.
	newerRun uint64
}

// revs are the revisions of a row's parts.
type revs struct{ profile, files uint32 }

// Beat is a heartbeat for the frontend at Addr.
type Beat struct {
	Addr      string
	Heartbeat Heartbeat
	revs      revs
}

// NewAnnouncer starts with the addresses of some frontends. A single answering frontend is enough.
func NewAnnouncer(seeds []string, p Profile, incarnation uint64) (*Announcer, error) {
	if p.Name == "" {
		return nil, fmt.Errorf("a worker needs a name to announce itself")
	}
	for _, s := range []string{p.Name, p.Addr, p.Host, p.Rack} {
		if len(s) > MaxName {
			return nil, fmt.Errorf("a worker's name, address, host or rack may have at most %d bytes, not %d",
				MaxName, len(s))
		}
	}
	return &Announcer{seeds: seeds, key: KeyOf(p.Name, incarnation), run: incarnation, profile: &p,
		revs:      revs{profile: 1},
		knownRevs: map[string]revs{}, failing: map[string]bool{}}, nil
}

// SetSeeds replaces the addresses given to NewAnnouncer.
func (a *Announcer) SetSeeds(addrs []string) { a.seeds = addrs }

// SetProfile replaces the profile, but keeps the name.
func (a *Announcer) SetProfile(p Profile) {
	p.Name = a.profile.Name
	if !p.equalTo(a.profile) {
		a.profile = &p
		a.revs.profile++
	}
}

// SetFiles names the files in the cache, most recently used first. Only the first MaxFiles are announced. SetFiles
// reports whether the announced files have changed. Call SetFiles with changes at most once in some seconds,
// because a change goes to every frontend.
func (a *Announcer) SetFiles(ids []FileID) (changed bool) {
	f := Files(slices.Clone(ids[:min(len(ids), MaxFiles)]))
	slices.Sort(f)
	f = slices.Compact(f)
	if a.files == nil && len(f) == 0 || a.files != nil && slices.Equal(*a.files, f) {
		return false
	}
	a.files = &f
	a.revs.files++
	return true
}

// NextSeq numbers the next row, for any frontend and any way.
func (a *Announcer) NextSeq() uint64 {
	a.seq++
	return a.seq
}

// Row completes load with the worker's identity. The result is a short row, for frontends linked to this worker.
func (a *Announcer) Row(load Row) Row {
	load.Key, load.Incarnation, load.Seq = a.key, a.run, a.NextSeq()
	load.ProfileRev, load.FilesRev = a.revs.profile, a.revs.files
	load.Profile, load.Files = nil, nil
	return load
}

// Beats makes the heartbeats that carry load: for both homes, or for substitutes while homes do not answer.
func (a *Announcer) Beats(load Row, secret string) []Beat {
	row := a.Row(load)
	var beats []Beat
	for _, addr := range a.pickTargets() {
		b := Beat{Addr: addr, Heartbeat: Heartbeat{Speaks: probe.Spoken, Secret: secret, Members: a.membersVersion,
			Row: row}, revs: a.revs}
		known := a.knownRevs[addr]
		if known.profile != a.revs.profile {
			b.Heartbeat.Row.Profile = a.profile
		}
		if known.files != a.revs.files {
			b.Heartbeat.Row.Files = a.files
		}
		beats = append(beats, b)
	}
	return beats
}

// pickTargets returns the addresses for the next heartbeats: the two best homes that work, and in turn a failing
// home that would be better. If all homes fail, a seed joins, in turn.
func (a *Announcer) pickTargets() []string {
	h := hashName(a.profile.Name)
	ranked := slices.SortedFunc(slices.Values(a.members), func(x, y Member) int {
		return cmp.Or(cmp.Compare(homeWeight(h, hashName(y.Name)), homeWeight(h, hashName(x.Name))),
			cmp.Compare(x.Name, y.Name))
	})
	var addrs, failing []string
	for _, m := range ranked {
		switch {
		case len(addrs) == 2:
		case a.failing[m.Heartbeat]:
			failing = append(failing, m.Heartbeat)
		default:
			addrs = append(addrs, m.Heartbeat)
		}
	}
	allFail := len(addrs) == 0
	if len(failing) > 0 {
		addrs = append(addrs, failing[a.rotation%len(failing)])
	}
	if allFail && len(a.seeds) > 0 {
		addrs = append(addrs, a.seeds[a.rotation%len(a.seeds)])
	}
	a.rotation++
	slices.Sort(addrs)
	return slices.Compact(addrs)
}

// Answered takes the answer to a beat. resend means that the frontend wants a full heartbeat, best sent at once.
func (a *Announcer) Answered(b *Beat, ans *Answer) (resend bool) {
	delete(a.failing, b.Addr)
	switch {
	case ans.Full:
		resend = a.knownRevs[b.Addr] != revs{}
		delete(a.knownRevs, b.Addr)
	default:
		a.knownRevs[b.Addr] = b.revs
	}
	a.newerRun = ans.Incarnation
	if len(ans.Members) > 0 && ans.Version != a.membersVersion {
		a.members, a.membersVersion = ans.Members, ans.Version
		gone := func(addr string) bool {
			return !slices.ContainsFunc(a.members, func(m Member) bool { return m.Heartbeat == addr })
		}
		maps.DeleteFunc(a.knownRevs, func(addr string, _ revs) bool { return gone(addr) })
		maps.DeleteFunc(a.failing, func(addr string, _ bool) bool { return gone(addr) })
	}
	return resend
}

// Failed notes that a beat got no answer.
func (a *Announcer) Failed(b *Beat) {
	a.failing[b.Addr] = true
	delete(a.knownRevs, b.Addr)
}

// Superseded returns the incarnation of a newer run under the worker's name, known to a frontend; 0 if there is no
// newer run.
func (a *Announcer) Superseded() uint64 { return a.newerRun }

// Members returns the frontends known to the worker.
func (a *Announcer) Members() []Member { return a.members }
