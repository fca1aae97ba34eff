package view

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/phoebe-sched/phoebe/probe"
)

// Announcer makes a worker's heartbeats: it numbers its rows, decides to which frontends they go and which parts
// they carry. Its owner locks it and sends what it makes.
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
	knownRevs      map[string]revs // revisions that the frontend at an address has, as far as is known
	failing        map[string]bool // addresses at which the last heartbeat failed
	rotation       int             // whose turn it is among those that are failing, and among the seeds

	newerRun uint64
}

type revs struct{ profile, files uint32 }

// Beat is a heartbeat to send to Addr.
type Beat struct {
	Addr      string
	Heartbeat Heartbeat
	revs      revs
}

// NewAnnouncer starts with the addresses of some frontends, of which one that answers is enough.
func NewAnnouncer(seeds []string, p Profile, incarnation uint64) (*Announcer, error) {
	if p.Name == "" {
		return nil, fmt.Errorf("a worker needs a name to announce itself")
	}
	for _, s := range []string{p.Name, p.Addr, p.Host, p.Rack} {
		if len(s) > MaxName {
			return nil, fmt.Errorf("a worker announces names and addresses of at most %d bytes, not one of %d", MaxName, len(s))
		}
	}
	return &Announcer{seeds: seeds, key: KeyOf(p.Name, incarnation), run: incarnation, profile: &p, revs: revs{profile: 1},
		knownRevs: map[string]revs{}, failing: map[string]bool{}}, nil
}

// SetSeeds changes the addresses of those frontends.
func (a *Announcer) SetSeeds(addrs []string) { a.seeds = addrs }

// SetProfile changes the profile. The name stays what it was.
func (a *Announcer) SetProfile(p Profile) {
	p.Name = a.profile.Name
	if !p.equalTo(a.profile) {
		a.profile = &p
		a.revs.profile++
	}
}

// SetFiles names the files in the cache, those used last first: only MaxFiles of them are told. It reports whether they
// are others than before. That may be so every some seconds at most, since a change is sent to every frontend.
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

// NextSeq numbers the next row that goes to any frontend on any way.
func (a *Announcer) NextSeq() uint64 {
	a.seq++
	return a.seq
}

// Row completes load with what identifies it: a short row, for frontends that this worker is linked to.
func (a *Announcer) Row(load Row) Row {
	load.Key, load.Incarnation, load.Seq = a.key, a.run, a.NextSeq()
	load.ProfileRev, load.FilesRev = a.revs.profile, a.revs.files
	load.Profile, load.Files = nil, nil
	return load
}

// Beats makes the heartbeats that tell load: to both homes, or to others in their place while they do not answer.
func (a *Announcer) Beats(load Row, secret string) []Beat {
	row := a.Row(load)
	var beats []Beat
	for _, addr := range a.pickTargets() {
		b := Beat{Addr: addr, Heartbeat: Heartbeat{Speaks: probe.Spoken, Secret: secret, Members: a.membersVersion, Row: row}, revs: a.revs}
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

// pickTargets are the addresses for the next heartbeats: the two best homes that are not failing, and in turn one of
// those that are and would be better. If all are failing, a seed in turn as well.
func (a *Announcer) pickTargets() []string {
	h := hashName(a.profile.Name)
	ranked := slices.SortedFunc(slices.Values(a.members), func(x, y Member) int {
		return cmp.Or(cmp.Compare(homeWeight(h, hashName(y.Name)), homeWeight(h, hashName(x.Name))), cmp.Compare(x.Name, y.Name))
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

// Answered takes the answer to a beat. again means that the frontend wants a full heartbeat, and it is best sent
// at once.
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

// Failed notes that a beat was not answered.
func (a *Announcer) Failed(b *Beat) {
	a.failing[b.Addr] = true
	delete(a.knownRevs, b.Addr)
}

// Superseded is the incarnation of a newer run that frontends know under the worker's name; 0 if there is none.
func (a *Announcer) Superseded() uint64 { return a.newerRun }

// Members are the frontends that the worker knows of.
func (a *Announcer) Members() []Member { return a.members }
