package probe

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
)

// FrontendID names one run of a frontend process; it is drawn at random when the process starts.
type FrontendID uint64

func (f FrontendID) String() string { return fmt.Sprintf("%016x", uint64(f)) }

// Epoch numbers the connections of a link. A frame is stale if its epoch is not the epoch of the connection.
type Epoch uint64

// JobID is a ULID chosen by the client.
type JobID [16]byte

const crockford = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"

// String is the ULID's canonical form: 26 characters of Crockford's base 32.
func (j JobID) String() string {
	hi, lo := binary.BigEndian.Uint64(j[:8]), binary.BigEndian.Uint64(j[8:])
	var b [26]byte
	for i := len(b) - 1; i >= 0; i-- {
		b[i] = crockford[lo&31]
		lo = lo>>5 | hi<<59
		hi >>= 5
	}
	return string(b[:])
}

// ParseJobID reads a ULID in its canonical form; lower case is accepted.
func ParseJobID(s string) (JobID, error) {
	var j JobID
	if len(s) != 26 {
		return j, fmt.Errorf("job id %q: a ULID has 26 characters, not %d", s, len(s))
	}
	var hi, lo uint64
	for i := range len(s) {
		c := s[i]
		if 'a' <= c && c <= 'z' {
			c -= 'a' - 'A'
		}
		v := strings.IndexByte(crockford, c)
		if v < 0 || i == 0 && v > 7 {
			return j, fmt.Errorf(
				"job id %q: character %d does not belong to a ULID (Crockford's base 32, first character 0 to 7)",
				s, i+1)
		}
		hi = hi<<5 | lo>>59
		lo = lo<<5 | uint64(v)
	}
	binary.BigEndian.PutUint64(j[:8], hi)
	binary.BigEndian.PutUint64(j[8:], lo)
	return j, nil
}

// NewJobID makes a ULID from a Unix time in milliseconds and 80 random bits, taken from the 128 bits of hi and lo.
func NewJobID(unixMilli int64, hi, lo uint64) JobID {
	var j JobID
	binary.BigEndian.PutUint64(j[:8], uint64(unixMilli)<<16|hi&0xffff)
	binary.BigEndian.PutUint64(j[8:], lo)
	return j
}

// keyedBit marks the ids of jobs with a key, in the first byte. The times of other ULIDs do not reach the bit until the
// year 6429.
const keyedBit = 0x80

// KeyedJobID returns the id of a tenant's jobs with a key. The first half depends on the tenant alone, see MayBelongTo.
// So clients know the id without a frontend, and frontends know the tenant without the key.
func KeyedJobID(tenant, key string) (j JobID) {
	owner := keyedHalf(tenant)
	job := sha256.Sum256([]byte(strconv.Itoa(len(tenant)) + " " + tenant + " " + key))
	copy(j[:8], owner[:])
	copy(j[8:], job[:])
	return j
}

// keyedHalf returns the first half of the ids of a tenant's jobs with a key.
func keyedHalf(tenant string) (half [8]byte) {
	owner := sha256.Sum256([]byte(tenant))
	copy(half[:], owner[:])
	half[0] |= keyedBit
	return half
}

// MayBelongTo reports whether the tenant may submit a job with the id j. The id of a job with a key belongs to the
// tenant of the job; any other id belongs to the first tenant that submits a job with the id.
func (j JobID) MayBelongTo(tenant string) bool {
	return j[0]&keyedBit == 0 || [8]byte(j[:8]) == keyedHalf(tenant)
}

// Generation counts a job's submissions: 0 is the first submission, and each time its client turns to a frontend
// again, the generation grows by 1. If two frontends have the job, the client turned last to the frontend with the
// higher generation.
type Generation uint32

// TaskIndex is a task's position in its job, from 0.
type TaskIndex uint32

// ResID names a reservation, or the place of a task bound early, on one link. The frontend counts ResIDs from 1,
// across the epochs of the link. The numbers are dense, so the worker remembers seen ids in a small window.
type ResID uint64

// Turn counts the turns of a reservation, from 0: a kept place comes round again.
type Turn uint32

// AttemptID names an attempt at a task, across all links and for all time.
type AttemptID struct {
	Frontend FrontendID
	Seq      uint64 // counted by the frontend, from 1
}

// String returns FRONTEND-SEQ in hexadecimal, the form shown to clients.
func (a AttemptID) String() string { return fmt.Sprintf("%s-%x", a.Frontend, a.Seq) }

// ParseAttemptID reads the form written by String.
func ParseAttemptID(s string) (AttemptID, error) {
	front, seq, ok := strings.Cut(s, "-")
	raw, err := hex.DecodeString(front)
	n, err2 := strconv.ParseUint(seq, 16, 64)
	if !ok || err != nil || err2 != nil || len(raw) != 8 {
		return AttemptID{}, fmt.Errorf("attempt id %q: want FRONTEND-SEQ in hexadecimal", s)
	}
	return AttemptID{FrontendID(binary.BigEndian.Uint64(raw)), n}, nil
}

// Millicores is CPU: 1000 is one core. MiB is memory.
type (
	Millicores int32
	MiB        int32
)

// Demand is the room that a task occupies on a worker while the task runs, or the room of a worker.
type Demand struct {
	CPU Millicores
	Mem MiB
}

// Slot is the default demand of a task: one slot.
var Slot = Demand{CPU: 1000, Mem: 256}

// Fits reports whether d fits into room.
func (d Demand) Fits(room Demand) bool { return d.CPU <= room.CPU && d.Mem <= room.Mem }

// Add returns d + e.
func (d Demand) Add(e Demand) Demand { return Demand{d.CPU + e.CPU, d.Mem + e.Mem} }

// Sub returns d - e.
func (d Demand) Sub(e Demand) Demand { return Demand{d.CPU - e.CPU, d.Mem - e.Mem} }

// Times returns how many tasks of demand d fit into room at once.
func (d Demand) Times(room Demand) int {
	n := int(^uint(0) >> 1)
	if d.CPU > 0 {
		n = int(room.CPU / d.CPU)
	}
	if d.Mem > 0 {
		n = min(n, int(room.Mem/d.Mem))
	}
	return max(n, 0)
}

func (d Demand) String() string { return fmt.Sprintf("%dm CPU, %d MiB", d.CPU, d.Mem) }
