package rows

import (
	"cmp"
	"slices"
)

// Member is a frontend.
type Member struct {
	Name      string
	Run       uint64 // like a worker's incarnation: of two members under one name, the higher run is newer
	Gossip    string // host:port for other frontends
	API       string // for clients, and for forwarded calls
	Heartbeat string // for workers
}

// Homes returns the frontends that get a worker's heartbeats, best first: two, or fewer if there are fewer members.
// Homes uses rendezvous hashing, so a frontend that comes or goes changes only its own share of the homes. The
// order of members does not matter. All names must differ.
func Homes(worker string, members []Member) []Member {
	h := hashName(worker)
	ranked := make([]Member, 0, 2)
	for _, m := range members {
		at := len(ranked)
		for at > 0 && isBetterHome(h, m.Name, ranked[at-1].Name) {
			at--
		}
		if at < 2 {
			ranked = slices.Insert(ranked, at, m)
			ranked = ranked[:min(len(ranked), 2)]
		}
	}
	return ranked
}

// isBetterHome reports whether a is a better home than b for the worker whose name has the hash h.
func isBetterHome(h uint64, a, b string) bool {
	return cmp.Or(cmp.Compare(homeWeight(h, hashName(b)), homeWeight(h, hashName(a))), cmp.Compare(a, b)) < 0
}

// homeWeight is the rendezvous weight of a member for a worker, by the hashes of their names. The highest weight
// wins.
func homeWeight(worker, member uint64) uint64 { return mixBits(worker ^ mixBits(member)) }

// hashName returns the FNV-1a hash of s, with its bits mixed.
func hashName(s string) uint64 {
	h := uint64(14695981039346656037)
	for i := range len(s) {
		h = (h ^ uint64(s[i])) * 1099511628211
	}
	return mixBits(h)
}

// memberSet is a set of frontends.
type memberSet struct {
	list    []Member // by name
	hashes  []uint64
	version uint64 // stands for the names and heartbeat addresses of the set; never 0
}

// newMembers keeps the newest run under each name.
func newMembers(list []Member) memberSet {
	list = slices.Clone(list)
	slices.SortStableFunc(list, func(a, b Member) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(b.Run, a.Run))
	})
	list = slices.CompactFunc(list, func(a, b Member) bool { return a.Name == b.Name })
	ms := memberSet{list: list}
	for _, m := range list {
		h := hashName(m.Name)
		ms.hashes = append(ms.hashes, h)
		ms.version = mixBits(ms.version ^ h ^ mixBits(hashName(m.Heartbeat)))
	}
	ms.version |= 1
	return ms
}

// homeRank returns how many members are better homes for the worker than self, at most 2.
func (ms *memberSet) homeRank(worker, self uint64) int {
	own, rank := homeWeight(worker, self), 0
	for _, h := range ms.hashes {
		if w := homeWeight(worker, h); w > own {
			if rank++; rank == 2 {
				break
			}
		}
	}
	return rank
}
