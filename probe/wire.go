package probe

import (
	"encoding/binary"
	"math"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/phoebe-sched/phoebe/probe/lent"
)

// DecodeError describes a frame that breaks the protocol. The receiver closes the connection.
type DecodeError struct {
	Message string // "Bind"; "" for an error in the frame itself
	Field   string // "launch.function"
	Offset  int    // of the field in the frame's body
	Problem string // "cut short"
}

func (e *DecodeError) Error() string {
	where := "frame"
	if e.Message != "" {
		where = e.Message
	}
	return "probe: " + where + ", " + e.Field + " at byte " + strconv.Itoa(e.Offset) + ": " + e.Problem
}

const (
	cutShort   = "cut short"
	outOfRange = "out of range"
	overLimit  = "over the limit"
	notKnown   = "unknown value"
)

// reader takes fields off the front of a body. The first problem sticks: all later fields read as zero.
type reader struct {
	buf   []byte
	pos   int
	kind  kind // of the current message; 0 before the first
	err   *DecodeError
	names *nameCache

	lentLaunches **lent.Of[Launch]
	matrices     int // matrices read so far
}

func (r *reader) fail(field string, at int, problem string) {
	if r.err == nil {
		r.err = &DecodeError{Message: r.kind.String(), Field: field, Offset: at, Problem: problem}
	}
	r.pos = len(r.buf) // all later reads find the body cut short, and loops end
}

// hasMore reports whether the message has further fields. Messages of an older peer end before the fields appended
// since MinVersion: read such fields only if hasMore.
func (r *reader) hasMore() bool { return r.pos < len(r.buf) }

func (r *reader) readByte(field string) byte {
	if r.pos >= len(r.buf) {
		r.fail(field, r.pos, cutShort)
		return 0
	}
	c := r.buf[r.pos]
	r.pos++
	return c
}

func (r *reader) readBool(field string) bool { return r.readEnum(field, 0, 1) == 1 }

// readEnum reads a byte from low to high.
func (r *reader) readEnum(field string, low, high byte) byte {
	at := r.pos
	c := r.readByte(field)
	if r.err == nil && (c < low || c > high) {
		r.fail(field, at, notKnown)
		return 0
	}
	return c
}

func (r *reader) readUint(field string) uint64 {
	if r.pos < len(r.buf) && r.buf[r.pos] < 0x80 { // most numbers take one byte
		r.pos++
		return uint64(r.buf[r.pos-1])
	}
	v, n := binary.Uvarint(r.buf[r.pos:])
	switch {
	case n == 0:
		r.fail(field, r.pos, cutShort)
		return 0
	case n < 0:
		r.fail(field, r.pos, outOfRange)
		return 0
	}
	r.pos += n
	return v
}

// readUpTo reads a uint of at most max.
func (r *reader) readUpTo(field string, max uint64, problem string) uint64 {
	at := r.pos
	v := r.readUint(field)
	if v > max {
		r.fail(field, at, problem)
		return 0
	}
	return v
}

func (r *reader) readUint32(field string) uint32 {
	return uint32(r.readUpTo(field, math.MaxUint32, outOfRange))
}

func (r *reader) readInt32(field string) int32 {
	v := r.readUint32(field)
	return int32(v>>1) ^ -int32(v&1)
}

func (r *reader) readUint64(field string) uint64 {
	if len(r.buf)-r.pos < 8 {
		r.fail(field, r.pos, cutShort)
		return 0
	}
	r.pos += 8
	return binary.LittleEndian.Uint64(r.buf[r.pos-8:])
}

func (r *reader) readFixed32(field string) uint32 {
	if b := r.readFixed(field, 4); b != nil {
		return binary.LittleEndian.Uint32(b)
	}
	return 0
}

func (r *reader) readDuration(field string) time.Duration {
	return time.Duration(r.readUpTo(field, math.MaxInt64, outOfRange))
}

// readBytes reads a byte slice that aliases the body; nil if empty.
func (r *reader) readBytes(field string, max int) []byte {
	at := r.pos
	n := r.readUpTo(field, uint64(max), overLimit)
	if n == 0 {
		return nil
	}
	if n > uint64(len(r.buf)-r.pos) {
		r.fail(field, at, cutShort)
		return nil
	}
	r.pos += int(n)
	return r.buf[r.pos-int(n) : r.pos : r.pos]
}

func (r *reader) readText(field string, max int) string { return string(r.readBytes(field, max)) }

// readName reads a string that is likely to repeat, such as a tenant or a function.
func (r *reader) readName(field string) string {
	return r.names.internString(r.readBytes(field, MaxString))
}

// readCount reads the number of elements that follow, each of at least size bytes. If the elements do not fit into
// the rest of the body, readCount fails before anything is allocated for them.
func (r *reader) readCount(field string, max, size int) int {
	at := r.pos
	n := r.readUpTo(field, uint64(max), overLimit)
	if n > uint64((len(r.buf)-r.pos)/size) {
		r.fail(field, at, cutShort)
		return 0
	}
	return int(n)
}

func (r *reader) readTexts(field string) []string {
	n := r.readCount(field, MaxList, 1)
	if n == 0 {
		return nil
	}
	list := make([]string, n)
	for i := range list {
		list[i] = r.readText(field, MaxString)
	}
	return list
}

func (r *reader) readJob(field string) (j JobID) {
	copy(j[:], r.readFixed(field, len(j)))
	return j
}

// readFixed returns the next n bytes of the body itself; nil if the body is too short.
func (r *reader) readFixed(field string, n int) []byte {
	if len(r.buf)-r.pos < n {
		r.fail(field, r.pos, cutShort)
		return nil
	}
	r.pos += n
	return r.buf[r.pos-n : r.pos]
}

func (r *reader) readAttempt(field string) AttemptID {
	return AttemptID{Frontend: FrontendID(r.readUint64(field)), Seq: r.readUint(field)}
}

func (r *reader) readAttempts(field string) []AttemptID {
	n := r.readCount(field, MaxFrame, attemptSize)
	if n == 0 {
		return nil
	}
	list := make([]AttemptID, n)
	for i := range list {
		list[i] = r.readAttempt(field)
	}
	return list
}

// readRes reads the id of a place.
func (r *reader) readRes(field string) ResID {
	at := r.pos
	id := ResID(r.readUint(field))
	if r.err == nil && (id == 0 || id == math.MaxUint64) {
		r.fail(field, at, outOfRange)
		return 0
	}
	return id
}

// readPlaces reads First and Count. Count is at least min, and First+Count does not overflow.
func (r *reader) readPlaces(min uint32) (first ResID, count uint32) {
	at := r.pos
	first = ResID(r.readUint("first"))
	count = uint32(r.readUpTo("count", MaxPlaces, overLimit))
	if r.err == nil && (count < min || count > 0 && first == 0 || first+ResID(count) < first) {
		r.fail("first, count", at, outOfRange)
		return 0, 0
	}
	return first, count
}

func (r *reader) readRanges(field string) []Range {
	n := r.readCount(field, MaxFrame, rangeSize)
	if n == 0 {
		return nil
	}
	list := make([]Range, n)
	for i := range list {
		list[i].First, list[i].Count = r.readPlaces(1)
	}
	return list
}

func (r *reader) readDemand(field string) Demand {
	return Demand{
		CPU: Millicores(r.readUpTo(field, math.MaxInt32, outOfRange)),
		Mem: MiB(r.readUpTo(field, math.MaxInt32, outOfRange)),
	}
}

// readFlagged reads a number and a flag, as written by appendFlagged.
func (r *reader) readFlagged(field string, max uint64) (v uint64, flag bool) {
	v = r.readUpTo(field, max<<1|1, outOfRange)
	return v >> 1, v&1 == 1
}

// nameCache avoids a new allocation for a string that repeats. When the cache is full, all strings are dropped: so
// a peer that invents names costs at most maxNames*maxName bytes.
type nameCache struct{ known map[string]string }

const (
	maxNames = 256
	maxName  = 128 // bytes; longer strings are copied each time
)

func (n *nameCache) internString(b []byte) string {
	if s, ok := n.known[string(b)]; ok { // does not allocate
		return s
	}
	s := string(b)
	if len(b) == 0 || len(b) > maxName {
		return s
	}
	if n.known == nil {
		n.known = make(map[string]string)
	}
	if len(n.known) >= maxNames {
		clear(n.known)
	}
	n.known[s] = s
	return s
}

func appendUint(b []byte, v uint64) []byte {
	if v < 0x80 {
		return append(b, byte(v))
	}
	return binary.AppendUvarint(b, v)
}

// appendFlagged writes a number below 1<<63 and a flag in one uvarint. An optional field behind the number then
// costs no extra byte if it is absent.
func appendFlagged(b []byte, v uint64, flag bool) []byte {
	v <<= 1
	if flag {
		v |= 1
	}
	return appendUint(b, v)
}

func appendInt32(b []byte, v int32) []byte { return appendUint(b, uint64(uint32(v<<1)^uint32(v>>31))) }

func appendBool(b []byte, v bool) []byte {
	if v {
		return append(b, 1)
	}
	return append(b, 0)
}

func appendDuration(b []byte, d time.Duration) []byte { return appendUint(b, uint64(max(d, 0))) }

func appendString(b []byte, s string) []byte { return append(appendUint(b, uint64(len(s))), s...) }

func appendBytes(b, s []byte) []byte { return append(appendUint(b, uint64(len(s))), s...) }

// appendText cuts texts that are too long: texts are for people only.
func appendText(b []byte, s string) []byte {
	if len(s) > MaxText {
		n := MaxText
		for n > MaxText-utf8.UTFMax && !utf8.RuneStart(s[n]) {
			n--
		}
		s = s[:n]
	}
	return appendString(b, s)
}

func appendStrings(b []byte, list []string) []byte {
	b = appendUint(b, uint64(len(list)))
	for _, s := range list {
		b = appendString(b, s)
	}
	return b
}

func appendAttempt(b []byte, a AttemptID) []byte {
	return appendUint(binary.LittleEndian.AppendUint64(b, uint64(a.Frontend)), a.Seq)
}

func appendAttempts(b []byte, list []AttemptID) []byte {
	b = appendUint(b, uint64(len(list)))
	for _, a := range list {
		b = appendAttempt(b, a)
	}
	return b
}

func appendPlaces(b []byte, first ResID, count uint32) []byte {
	return appendUint(appendUint(b, uint64(first)), uint64(count))
}

func appendRanges(b []byte, list []Range) []byte {
	b = appendUint(b, uint64(len(list)))
	for _, p := range list {
		b = appendPlaces(b, p.First, p.Count)
	}
	return b
}

// appendDemand writes negative amounts as 0.
func appendDemand(b []byte, d Demand) []byte {
	return appendUint(appendUint(b, uint64(max(d.CPU, 0))), uint64(max(d.Mem, 0)))
}
