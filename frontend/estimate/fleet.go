package estimate

import (
	"fmt"
	"slices"
	"time"

	"github.com/phoebe-sched/phoebe/probe"
)

// FileID stands for a file's digest. The owner of the Fleet numbers the digests.
type FileID uint64

// Server is the knowledge about a worker.
type Server struct {
	Key    int32  // numbers the workers, densely from 0
	Name   string // name of the worker, the same in each incarnation
	Host   string // name of its machine; "": Name
	Rack   string // "": not known
	Matrix *probe.WaitMatrix
	Heard  time.Time // when Matrix was computed, by the clock passed to Decide
	Speed  float64   // of the worker's CPU; 1 or 0: the fleet's average
	// Draining workers are no candidates.
	Draining bool
	// Maintenance is the time when the worker goes away for maintenance; zero: not announced.
	Maintenance time.Time
	Files       []FileID // files in its cache, ascending, without duplicates
}

// serverRow is a Server with its positions in the indexes of the fleet.
type serverRow struct {
	Server
	rack           *siteWorkers // nil: unknown
	host           *siteWorkers
	rackPos        int // position in rack.members
	hostPos        int
	files          []int // files[i] is the position in Fleet.files[Files[i]]
	lightPositions [lightLists]lightPosition
	history        *failureHistory // nil: the worker never failed
	epoch          uint32          // last collection that met the worker
}

// siteWorkers is the workers of a rack or host.
type siteWorkers struct {
	name    string
	members []int32
	epoch   uint32 // last collection that met the site
}

// Fleet holds the workers that may run tasks, indexed by rack, host, cached files and wait. The Fleet keeps the
// values passed to Put: callers may replace a matrix but must not change it. Not safe for concurrent use.
type Fleet struct {
	cfg      Config
	servers  []*serverRow // by key
	count    int
	names    map[string]int32
	hosts    map[string]*siteWorkers
	racks    map[string]*siteWorkers
	files    map[FileID][]int32
	lights   [lightLists]lightWorkers
	failures failures
	rates    rates

	allowUnheard bool   // collectCandidates accepts workers without matrices
	epoch        uint32 // scratch of collectCandidates, with the fields below
	candidates   []foundWorker
	inputSites   []inputSite
	best         []Candidate
	nearbyRacks  []*siteWorkers
}

// NewFleet returns a fleet without workers. It panics if cfg, with its zero fields filled, is not valid.
func NewFleet(cfg Config) *Fleet {
	cfg = cfg.Defaults()
	if err := cfg.Validate(); err != nil {
		panic(fmt.Sprintf("estimate: %v", err))
	}
	return &Fleet{
		cfg:      cfg,
		names:    map[string]int32{},
		hosts:    map[string]*siteWorkers{},
		racks:    map[string]*siteWorkers{},
		files:    map[FileID][]int32{},
		failures: newFailures(cfg),
		rates:    rates{Rates: cfg.Rates, peer: cfg.Rates.Across},
	}
}

// Len returns the number of workers.
func (f *Fleet) Len() int { return f.count }

// Get returns the worker of a key, or nil. The Server belongs to the fleet.
func (f *Fleet) Get(key int32) *Server {
	if s := f.rowOf(key); s != nil {
		return &s.Server
	}
	return nil
}

// rowOf returns the row of a key, or nil.
func (f *Fleet) rowOf(key int32) *serverRow {
	if key >= 0 && int(key) < len(f.servers) {
		return f.servers[key]
	}
	return nil
}

// positionsIn returns a function that finds a worker's position in a light list, by key.
func (f *Fleet) positionsIn(list int) func(int32) *lightPosition {
	return func(key int32) *lightPosition { return &f.servers[key].lightPositions[list] }
}

// Put adds a worker, or replaces the knowledge about it. Put is cheap if only matrix, age and speed changed. If two
// workers have the same name, lookups by name find the later.
func (f *Fleet) Put(s Server) {
	if s.Host == "" {
		s.Host = s.Name
	}
	if old := f.rowOf(s.Key); old != nil && old.Name != s.Name {
		f.Remove(s.Key) // the key now belongs to another worker
	}
	for int(s.Key) >= len(f.servers) {
		f.servers = append(f.servers, nil)
	}
	row := f.servers[s.Key]
	if row == nil {
		row = &serverRow{history: f.failures.byName[s.Name]}
		row.Key, row.Name = s.Key, s.Name
		f.servers[s.Key] = row
		f.count++
		f.names[s.Name] = s.Key
	}
	if row.host == nil || row.Host != s.Host {
		f.leaveSite(f.hosts, row.host, row.hostPos, func(s *serverRow) *int { return &s.hostPos })
		row.host, row.hostPos = joinSite(f.hosts, s.Host, s.Key)
	}
	if row.Rack != s.Rack {
		f.leaveSite(f.racks, row.rack, row.rackPos, func(s *serverRow) *int { return &s.rackPos })
		row.rack, row.rackPos = joinSite(f.racks, s.Rack, s.Key)
	}
	if !slices.Equal(row.Files, s.Files) {
		f.dropFiles(row)
		row.files = make([]int, len(s.Files))
		for i, id := range s.Files {
			row.files[i] = len(f.files[id])
			f.files[id] = append(f.files[id], s.Key)
		}
	}
	row.Server = s
	for list := range f.lights {
		f.updateLight(row, list)
	}
}

// updateLight moves a worker within a light list, after a change of its row.
func (f *Fleet) updateLight(row *serverRow, list int) {
	l := &f.lights[list]
	if row.Matrix == nil || row.Draining {
		l.removeWorker(&row.lightPositions[list], f.positionsIn(list))
		return
	}
	room, d := row.Matrix.Capacity, lightSizes[list%len(lightSizes)]
	wait := waitOf(row.Matrix, probe.Demand{CPU: min(d.CPU, room.CPU), Mem: min(d.Mem, room.Mem)},
		list >= len(lightSizes))
	l.putWorker(row.Key, &row.lightPositions[list], wait, f.positionsIn(list))
}

// Remove forgets a worker, but not its failures.
func (f *Fleet) Remove(key int32) {
	row := f.rowOf(key)
	if row == nil {
		return
	}
	for list := range f.lights {
		f.lights[list].removeWorker(&row.lightPositions[list], f.positionsIn(list))
	}
	f.leaveSite(f.hosts, row.host, row.hostPos, func(s *serverRow) *int { return &s.hostPos })
	f.leaveSite(f.racks, row.rack, row.rackPos, func(s *serverRow) *int { return &s.rackPos })
	f.dropFiles(row)
	if f.names[row.Name] == key {
		delete(f.names, row.Name)
	}
	f.servers[key] = nil
	f.count--
}

// joinSite adds a worker to the site of this name. It returns nil for an empty name.
func joinSite(groups map[string]*siteWorkers, name string, key int32) (*siteWorkers, int) {
	if name == "" {
		return nil, 0
	}
	g := groups[name]
	if g == nil {
		g = &siteWorkers{name: name}
		groups[name] = g
	}
	g.members = append(g.members, key)
	return g, len(g.members) - 1
}

// leaveSite removes the worker at pos from its site. posOf returns the position field for the site in a row.
func (f *Fleet) leaveSite(groups map[string]*siteWorkers, g *siteWorkers, pos int, posOf func(*serverRow) *int) {
	if g == nil {
		return
	}
	last := len(g.members) - 1
	moved := g.members[last]
	g.members[pos] = moved
	*posOf(f.servers[moved]) = pos
	g.members = g.members[:last]
	if last == 0 {
		delete(groups, g.name)
	}
}

// WorkersNamed returns the keys of the workers at a host, and of the worker with this name. A key may occur twice.
func (f *Fleet) WorkersNamed(name string) []int32 {
	var keys []int32
	if host := f.hosts[name]; host != nil {
		keys = append(keys, host.members...)
	}
	if key, ok := f.names[name]; ok {
		keys = append(keys, key)
	}
	return keys
}

// Holders returns the keys of the workers with a file, in no order. The slice belongs to the fleet, until the next
// Put.
func (f *Fleet) Holders(id FileID) []int32 { return f.files[id] }

// dropFiles removes a worker from the index of files.
func (f *Fleet) dropFiles(row *serverRow) {
	for i, id := range row.Files {
		keys := f.files[id]
		last := len(keys) - 1
		moved := f.servers[keys[last]]
		at, _ := slices.BinarySearch(moved.Files, id)
		keys[row.files[i]] = keys[last]
		moved.files[at] = row.files[i]
		if f.files[id] = keys[:last]; last == 0 {
			delete(f.files, id)
		}
	}
	row.Files, row.files = nil, nil
}

// Check returns an error if the indexes disagree with the rows. It takes time in proportion to the fleet, and is
// for tests and the simulator.
func (f *Fleet) Check() error {
	count, inLight := 0, [lightLists]int{}
	inHosts, inRacks, inFiles := 0, 0, 0
	for key, row := range f.servers {
		if row == nil {
			continue
		}
		count++
		if row.Key != int32(key) {
			return fmt.Errorf("worker %d is at %d", row.Key, key)
		}
		if row.host == nil || row.host.name != row.Host || f.hosts[row.Host] != row.host ||
			row.host.members[row.hostPos] != row.Key {
			return fmt.Errorf("worker %d is not where its host says", key)
		}
		inHosts++
		if (row.rack != nil) != (row.Rack != "") {
			return fmt.Errorf("worker %d of rack %q is in none, or the reverse", key, row.Rack)
		}
		if row.rack != nil {
			if f.racks[row.Rack] != row.rack || row.rack.members[row.rackPos] != row.Key {
				return fmt.Errorf("worker %d is not where its rack says", key)
			}
			inRacks++
		}
		for i, id := range row.Files {
			if f.files[id][row.files[i]] != row.Key {
				return fmt.Errorf("worker %d is not where file %d says", key, id)
			}
			inFiles++
		}
		for list, at := range row.lightPositions {
			if (at.pos > 0) != (row.Matrix != nil && !row.Draining) {
				return fmt.Errorf("worker %d in light list %d: %t", key, list, at.pos > 0)
			}
			if at.pos > 0 {
				if f.lights[list].buckets[at.bucket][at.pos-1] != row.Key {
					return fmt.Errorf("worker %d is not where light list %d says", key, list)
				}
				inLight[list]++
			}
		}
	}
	for list := range f.lights {
		n := 0
		for _, b := range f.lights[list].buckets {
			n += len(b)
		}
		if n != inLight[list] || n != f.lights[list].size {
			return fmt.Errorf("light list %d has %d workers and says %d, want %d", list, n, f.lights[list].size,
				inLight[list])
		}
	}
	for _, g := range f.hosts {
		inHosts -= len(g.members)
	}
	for _, g := range f.racks {
		inRacks -= len(g.members)
	}
	for _, keys := range f.files {
		inFiles -= len(keys)
	}
	if count != f.count || inHosts != 0 || inRacks != 0 || inFiles != 0 {
		return fmt.Errorf("%d workers, want %d; hosts off by %d, racks by %d, files by %d", f.count, count, inHosts,
			inRacks, inFiles)
	}
	return nil
}
