package rows

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/phoebe-sched/phoebe/probe"
)

// Encoding: integers are uvarints. Keys, incarnations, runs and file ids take 8 bytes, little-endian. Strings and
// lists begin with their length. Ages and durations are in milliseconds.
//
//	row = length of the rest | flags | incarnation if hasProfile, else key | seq | age | profile rev | files rev |
//	      speed in thousandths | finished | failed | [maintenance] | [flaws] | matrix without capacity |
//	      [profile] | [files] | [shares of the matrix]
//
// Readers ignore bytes behind the known fields, so fields can be appended, as in messages of package probe. An older
// frontend passes the row on without such fields. Readers refuse unknown flags, because the fields of an unknown flag
// would stand in the middle of the row.

// The first byte of a row has flags: for the parts that follow, and for some booleans.
const (
	hasProfile = 1 << iota
	hasFiles
	hasMaintenance
	hasFlaws
	hasLeft
	isDraining
	firstUnused
)

var (
	errShort = errors.New("cut short")
	errRange = errors.New("out of range")
	errLimit = errors.New("over the limit")
)

// reader takes fields off the front of buf. The first problem sticks: all later fields read as zero.
type reader struct {
	buf []byte
	err error
}

func (r *reader) fail(err error) {
	if r.err == nil {
		r.err = err
	}
	r.buf = nil
}

func (r *reader) readByte() byte {
	if len(r.buf) == 0 {
		r.fail(errShort)
		return 0
	}
	c := r.buf[0]
	r.buf = r.buf[1:]
	return c
}

func (r *reader) readUint() uint64 {
	if len(r.buf) > 0 && r.buf[0] < 0x80 { // most numbers take one byte
		c := r.buf[0]
		r.buf = r.buf[1:]
		return uint64(c)
	}
	v, n := binary.Uvarint(r.buf)
	switch {
	case n == 0:
		r.fail(errShort)
		return 0
	case n < 0:
		r.fail(errRange)
		return 0
	}
	r.buf = r.buf[n:]
	return v
}

func (r *reader) readUpTo(most uint64) uint64 {
	v := r.readUint()
	if v > most {
		r.fail(errRange)
		return 0
	}
	return v
}

func (r *reader) readUint64() uint64 {
	if len(r.buf) < 8 {
		r.fail(errShort)
		return 0
	}
	v := binary.LittleEndian.Uint64(r.buf)
	r.buf = r.buf[8:]
	return v
}

func (r *reader) readMillis() time.Duration {
	return time.Duration(r.readUpTo(uint64(math.MaxInt64/time.Millisecond))) * time.Millisecond
}

func (r *reader) readString(most int) string {
	n := r.readCount(most, 1)
	s := string(r.buf[:n])
	r.buf = r.buf[n:]
	return s
}

// readCount reads the number of elements that follow, each of at least size bytes. If the elements do not fit into
// the rest, readCount fails before anything is allocated for them.
func (r *reader) readCount(most, size int) int {
	n := r.readUint()
	switch {
	case n > uint64(most):
		r.fail(errLimit)
		return 0
	case n > uint64(len(r.buf)/size):
		r.fail(errShort)
		return 0
	}
	return int(n)
}

func appendMillis(b []byte, d time.Duration) []byte {
	return binary.AppendUvarint(b, uint64(max(d, 0)/time.Millisecond))
}

// appendAge rounds up: a row never gets younger on its way.
func appendAge(b []byte, d time.Duration) []byte {
	n := uint64(max(d, 0) / time.Millisecond)
	if d%time.Millisecond > 0 {
		n++
	}
	return binary.AppendUvarint(b, n)
}

func appendString(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// AppendRow appends r with the parts that it has. AppendRow checks no limits, because rows of a table keep them.
func AppendRow(b []byte, r *Row) []byte {
	at := len(b)
	b = append(b, 0) // flags
	var flags byte
	if r.Profile != nil {
		flags |= hasProfile
		b = binary.LittleEndian.AppendUint64(b, r.Incarnation)
	} else {
		b = binary.LittleEndian.AppendUint64(b, uint64(r.Key))
	}
	b = binary.AppendUvarint(b, r.Seq)
	b = appendAge(b, r.Age)
	b = binary.AppendUvarint(b, uint64(r.ProfileRev))
	b = binary.AppendUvarint(b, uint64(r.FilesRev))
	b = binary.AppendUvarint(b, speedThousandths(r.Speed))
	b = binary.AppendUvarint(b, r.Finished)
	b = binary.AppendUvarint(b, r.Failed)
	if r.State == Left {
		flags |= hasLeft
	}
	if r.Draining {
		flags |= isDraining
	}
	if r.Maintenance.Lasts > 0 {
		flags |= hasMaintenance
		b = appendMillis(b, r.Maintenance.In)
		b = appendMillis(b, r.Maintenance.Lasts)
	}
	if r.Flaws != 0 {
		flags |= hasFlaws
		b = append(b, byte(r.Flaws))
	}
	cells := probe.WaitMatrix{Cells: r.Matrix.Cells, Short: r.Matrix.Short} // the capacity is in the profile
	b = probe.AppendMatrix(b, &cells)
	if p := r.Profile; p != nil {
		b = appendString(b, p.Name)
		b = appendString(b, p.Addr)
		b = appendString(b, p.Host)
		b = appendString(b, p.Rack)
		b = binary.AppendUvarint(b, uint64(max(p.Capacity.CPU, 0)))
		b = binary.AppendUvarint(b, uint64(max(p.Capacity.Mem, 0)))
		b = append(b, byte(p.Flaws))
		b = binary.AppendUvarint(b, uint64(len(p.Labels)))
		for _, l := range p.Labels {
			b = appendString(b, l)
		}
	}
	if r.Files != nil {
		flags |= hasFiles
		b = binary.AppendUvarint(b, uint64(len(*r.Files)))
		for _, id := range *r.Files {
			b = binary.LittleEndian.AppendUint64(b, uint64(id))
		}
	}
	b = probe.AppendShares(b, &r.Matrix.Shares)
	b[at] = flags
	var size [binary.MaxVarintLen64]byte
	return slices.Insert(b, at, binary.AppendUvarint(size[:0], uint64(len(b)-at))...)
}

// speedThousandths encodes a speed factor. An absurd factor stays absurd.
func speedThousandths(speed float64) uint64 {
	switch {
	case speed > 0 && speed <= 100:
		return uint64(math.Round(speed * 1000))
	case speed == 0:
		return 0
	}
	return 1e6
}

// readRow reads a row into r. A short row allocates nothing.
func (rd *reader) readRow(r *Row) {
	n := rd.readCount(math.MaxInt32, 1)
	rowReader := reader{buf: rd.buf[:n], err: rd.err}
	rd.buf = rd.buf[n:]
	if rowReader.readFields(r); rowReader.err != nil {
		rd.fail(rowReader.err)
	}
}

// readFields reads the fields behind the row's length.
func (rd *reader) readFields(r *Row) {
	*r = Row{}
	flags := rd.readByte()
	if flags >= firstUnused {
		rd.fail(errRange)
	}
	if flags&hasProfile != 0 {
		r.Incarnation = rd.readUint64()
	} else {
		r.Key = Key(rd.readUint64())
	}
	if r.Seq = rd.readUint(); r.Seq == 0 {
		rd.fail(errRange)
	}
	r.Age = rd.readMillis()
	r.ProfileRev = uint32(rd.readUpTo(math.MaxUint32))
	r.FilesRev = uint32(rd.readUpTo(math.MaxUint32))
	r.Speed = float64(rd.readUint()) / 1000
	r.Finished, r.Failed = rd.readUint(), rd.readUint()
	if flags&hasLeft != 0 {
		r.State = Left
	}
	r.Draining = flags&isDraining != 0
	if flags&hasMaintenance != 0 {
		r.Maintenance = Maintenance{In: rd.readMillis(), Lasts: rd.readMillis()}
	}
	if flags&hasFlaws != 0 {
		r.Flaws = Flaws(rd.readByte())
	}
	rd.readMatrix(&r.Matrix)
	if flags&hasProfile != 0 {
		r.Profile = rd.readProfile()
		r.Key = KeyOf(r.Profile.Name, r.Incarnation)
	}
	if flags&hasFiles != 0 {
		r.Files = rd.readFiles()
	}
	rd.readShares(&r.Matrix)
	if r.Profile != nil && r.ProfileRev == 0 || r.Files != nil && r.FilesRev == 0 {
		rd.fail(errRange)
	}
}

func (rd *reader) readMatrix(m *probe.WaitMatrix) {
	if rd.err != nil {
		return
	}
	var err error
	if *m, rd.buf, err = probe.ReadMatrix(rd.buf); err != nil {
		rd.fail(err)
	}
	m.Capacity = probe.Demand{}
}

// readShares reads the shares of m. An older worker sends none.
func (rd *reader) readShares(m *probe.WaitMatrix) {
	if rd.err != nil {
		return
	}
	var err error
	if m.Shares, rd.buf, err = probe.ReadShares(rd.buf); err != nil {
		rd.fail(err)
	}
}

func (rd *reader) readProfile() *Profile {
	p := &Profile{Name: rd.readString(MaxName), Addr: rd.readString(MaxName), Host: rd.readString(MaxName),
		Rack: rd.readString(MaxName)}
	p.Capacity.CPU = probe.Millicores(rd.readUpTo(math.MaxInt32))
	p.Capacity.Mem = probe.MiB(rd.readUpTo(math.MaxInt32))
	p.Flaws = Flaws(rd.readByte())
	if n := rd.readCount(maxRawLabels, 1); n > 0 {
		p.Labels = make([]string, n)
		for i := range p.Labels {
			p.Labels[i] = rd.readString(maxRawLabel)
		}
	}
	if p.Name == "" {
		rd.fail(errRange)
	}
	return p
}

func (rd *reader) readFiles() *Files {
	f := make(Files, rd.readCount(MaxFiles, 8))
	for i := range f {
		f[i] = FileID(rd.readUint64())
		if i > 0 && f[i] <= f[i-1] {
			rd.fail(errRange)
		}
	}
	return &f
}

// ReadRow reads a row off the front of b and returns the rest of b.
func ReadRow(b []byte, r *Row) (rest []byte, err error) {
	rd := reader{buf: b}
	rd.readRow(r)
	if rd.err != nil {
		return nil, fmt.Errorf("gossip: row: %w", rd.err)
	}
	return rd.buf, nil
}
