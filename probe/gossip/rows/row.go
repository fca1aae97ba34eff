package rows

import (
	"crypto/sha256"
	"encoding/binary"
	"slices"
	"time"

	"github.com/phoebe-sched/phoebe/probe"
)

// Limits of a row. The codec refuses values over a hard limit; the table replaces and flags absurd values.
const (
	MaxName   = 255 // bytes of a name or an address
	MaxLabel  = 255 // bytes of a label; longer ones are dropped
	MaxLabels = 64  // labels; further ones are dropped
	MaxFiles  = 64  // files named by a row: the most recently used

	maxRawLabel  = 4096 // bytes of a label accepted by the codec, for the table to flag
	maxRawLabels = 1024

	maxCPU  probe.Millicores = 4096 * 1000 // of a worker
	maxMem  probe.MiB        = 64 << 20
	maxAge                   = 24 * time.Hour
	maxPlan                  = 90 * 24 * time.Hour // of announced maintenance
	maxWait                  = 7 * 24 * time.Hour / 2
)

// Key names a worker's run in short rows: a hash of name and incarnation.
type Key uint64

// KeyOf returns the key of a run.
func KeyOf(name string, incarnation uint64) Key {
	b := make([]byte, 8, 8+MaxName)
	binary.LittleEndian.PutUint64(b, incarnation)
	sum := sha256.Sum256(append(b, name...))
	return Key(binary.LittleEndian.Uint64(sum[:]))
}

// NewIncarnation makes the incarnation of a run that starts now. Of two runs under one name, the run with the
// higher incarnation counts as newer. If somebody sets a clock back, the order is wrong until the old run's row
// expires.
func NewIncarnation(unixMilli int64, random uint64) uint64 {
	return uint64(unixMilli)<<22 | random&(1<<22-1)
}

// State says whether a worker is present.
type State uint8

const (
	Up   State = iota
	Left       // said goodbye
	Lost       // silent for too long. Never sent: ages tell every frontend the same
)

func (s State) String() string { return [...]string{"up", "left", "lost"}[s] }

// Row is a frontend's knowledge of a worker. The parts behind pointers are shared and never written to.
type Row struct {
	Key         Key
	Incarnation uint64
	// Seq is the number of the worker's heartbeat or answer, from 1. It versions all fields except Profile and
	// Files.
	Seq         uint64
	Age         time.Duration // since the worker made this version
	State       State
	Draining    bool
	Speed       float64 // run speed as a multiple of the reference; 0: not known
	Finished    uint64  // ended attempts of this run
	Failed      uint64  // ended attempts of this run without success
	Maintenance Maintenance
	Matrix      probe.WaitMatrix
	Flaws       Flaws // of all fields except Profile

	ProfileRev uint32   // of Profile, or of the Profile to ask for; from 1
	FilesRev   uint32   // likewise for Files; 0: the worker never had files
	Profile    *Profile // nil in a short row
	Files      *Files   // nil: not carried, or no files
}

// Profile is the part of a row that seldom changes.
type Profile struct {
	Name     string
	Addr     string // of the worker's probe server
	Host     string
	Rack     string
	Capacity probe.Demand
	Labels   []string // "key=value"
	Flaws    Flaws    // of the profile
}

// Maintenance is an announced outage. In and Lasts count from the moment when the worker made the row, like Age.
// Lasts 0: no outage.
type Maintenance struct{ In, Lasts time.Duration }

// Outage returns the time until the announced outage begins (0 if it has begun), and the rest of its length. ok is
// false without an announced outage, and after its end.
func (r *Row) Outage() (in, lasts time.Duration, ok bool) {
	in, lasts = r.Maintenance.In-r.Age, r.Maintenance.Lasts
	if in < 0 {
		in, lasts = 0, lasts+in
	}
	return in, lasts, lasts > 0
}

// Name returns the worker's name; "" in a short row.
func (r *Row) Name() string {
	if r.Profile == nil {
		return ""
	}
	return r.Profile.Name
}

// FileID is the first 8 bytes of a file's SHA-256 digest: enough to expect a file, not to trust it.
type FileID uint64

// FileIDOf returns the id of the file with this digest.
func FileIDOf(digest [sha256.Size]byte) FileID { return FileID(binary.BigEndian.Uint64(digest[:])) }

// Files are the files in a worker's cache, ascending, without repetition, at most MaxFiles.
type Files []FileID

// Has reports whether the worker announces the file. f may be nil.
func (f *Files) Has(id FileID) bool {
	if f == nil {
		return false
	}
	_, found := slices.BinarySearch(*f, id)
	return found
}

// Flaws are the problems found in a row. The table has replaced the flawed values.
type Flaws uint8

const (
	BadMatrix   Flaws = 1 << iota // waits fall or are absurd: nothing fits
	BadCapacity                   // no capacity, or an absurd capacity: nothing fits
	BadLabels                     // too many or too long: the remaining labels are kept
	BadSpeed                      // not a factor from 0.01 to 100: taken as not known
	BadOutage                     // maintenance absurdly far away or long: taken as no maintenance
	BadCounts                     // more failed than ended: both counts are taken as 0
)

var flawNames = []string{"matrix", "capacity", "labels", "speed", "outage", "counts"}

// Names lists the flaws.
func (f Flaws) Names() []string {
	var names []string
	for i, name := range flawNames {
		if f&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	return names
}

// noRoom is the wait matrix of a worker with no room for any task, without the capacity.
var noRoom = func() (m probe.WaitMatrix) {
	for i := range m.Cells {
		for j := range m.Cells[i] {
			m.Cells[i][j] = probe.NeverFits
		}
		m.Short[i] = probe.NeverFits
	}
	return m
}()

// replaceAbsurd replaces absurd values in r, and flags them.
func (r *Row) replaceAbsurd() {
	if !isBelievable(&r.Matrix) {
		r.Matrix.Cells, r.Matrix.Short = noRoom.Cells, noRoom.Short
		r.Flaws |= BadMatrix
	}
	if r.Speed != 0 && !(r.Speed >= 0.01 && r.Speed <= 100) {
		r.Speed = 0
		r.Flaws |= BadSpeed
	}
	if m := r.Maintenance; m.In < 0 || m.Lasts < 0 || m.In > maxPlan || m.Lasts > maxPlan {
		r.Maintenance = Maintenance{}
		r.Flaws |= BadOutage
	}
	if r.Failed > r.Finished {
		r.Finished, r.Failed = 0, 0
		r.Flaws |= BadCounts
	}
	if r.Profile != nil {
		r.Profile = r.Profile.withoutAbsurd()
	}
}

// isBelievable reports whether m keeps the invariant of a WaitMatrix and has no absurdly long wait.
func isBelievable(m *probe.WaitMatrix) bool {
	longest := probe.WaitOf(maxWait)
	for i, w := range m.Short {
		if i > 0 && w < m.Short[i-1] || w > longest && w != probe.NeverFits {
			return false
		}
	}
	for i := range m.Cells {
		for j, w := range m.Cells[i] {
			if i > 0 && w < m.Cells[i-1][j] || j > 0 && w < m.Cells[i][j-1] || w > longest && w != probe.NeverFits {
				return false
			}
		}
	}
	return true
}

// withoutAbsurd returns p without absurd values: p itself if all values are fine, else a changed copy.
func (p *Profile) withoutAbsurd() *Profile {
	tooLong := func(l string) bool { return len(l) > MaxLabel }
	c := p.Capacity
	q := *p
	if len(p.Labels) > MaxLabels || slices.ContainsFunc(p.Labels, tooLong) {
		q.Labels = slices.DeleteFunc(slices.Clone(p.Labels), tooLong)
		q.Labels = q.Labels[:min(len(q.Labels), MaxLabels)]
		q.Flaws |= BadLabels
	}
	if q.Flaws&BadCapacity == 0 && (c.CPU <= 0 || c.Mem <= 0 || c.CPU > maxCPU || c.Mem > maxMem) {
		q.Capacity = probe.Demand{}
		q.Flaws |= BadCapacity
	}
	if q.Flaws == p.Flaws {
		return p
	}
	return &q
}

// equalTo reports whether the worker announced the same values in p and q.
func (p *Profile) equalTo(q *Profile) bool {
	return p.Name == q.Name && p.Addr == q.Addr && p.Host == q.Host && p.Rack == q.Rack &&
		p.Capacity == q.Capacity && slices.Equal(p.Labels, q.Labels)
}
