package rows

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
)

// MaxLessons bounds the lessons of a frontend, in bytes. With one exchange in lessonsEvery heartbeats, a frontend sends
// and receives at most 13 kB/s of lessons. The rows of 20,000 workers take a hundred times as much.
const MaxLessons = 64 << 10

// lessonsEvery is the number of heartbeats after an exchange of lessons until the next. The number was chosen.
const lessonsEvery = 10

// SetLessons replaces the lessons of this frontend for other frontends. Package rows does not interpret lessons.
// Frontends with the same knowledge must have equal lessons, because frontends compare digests. Nobody may write to the
// lessons afterwards.
func (c *Core) SetLessons(lessons []byte) {
	if len(lessons) > MaxLessons || bytes.Equal(lessons, c.lessons) {
		return
	}
	c.lessons, c.lessonsDigest = lessons, 0
	if len(lessons) > 0 {
		sum := sha256.Sum256(lessons)
		c.lessonsDigest = binary.LittleEndian.Uint64(sum[:])
	}
}

// LessonBytes returns the size of the lessons of this frontend.
func (c *Core) LessonBytes() int { return len(c.lessons) }

// TakeHeardLessons returns the lessons of other frontends since the last call.
func (c *Core) TakeHeardLessons() [][]byte {
	heard := c.heardLessons
	c.heardLessons = nil
	return heard
}

// askForLessons appends the digest of the lessons to a msgSums, if an exchange is due. A receiver with other lessons
// sends its lessons. An older frontend ignores the digest.
func (c *Core) askForLessons(sums []byte) []byte {
	if c.table.now < c.lessonsAt {
		return sums
	}
	return binary.LittleEndian.AppendUint64(sums, c.lessonsDigest)
}

// answerLessons answers the digest behind the sums of a msgSums. An older frontend sends no digest.
func (c *Core) answerLessons(rd *reader, to string, out []Send) []Send {
	if len(rd.buf) < 8 {
		return out
	}
	if rd.readUint64() == c.lessonsDigest || len(c.lessons) == 0 {
		return out
	}
	msg := append(c.msgHeader(msgLessons), c.lessons...)
	return append(out, Send{To: to, Stream: len(msg) > MaxPacket, Msg: msg})
}

// takeLessons takes a msgLessons, unless this frontend has just taken another. So few lessons take up memory.
func (c *Core) takeLessons(rd *reader) {
	switch {
	case len(rd.buf) == 0 || len(rd.buf) > MaxLessons:
		rd.fail(errLimit)
		return
	case c.table.now < c.lessonsAt:
		rd.buf = nil
		return
	}
	c.lessonsAt = c.table.now + lessonsEvery*c.cfg.Heartbeat
	c.heardLessons = append(c.heardLessons, bytes.Clone(rd.buf))
	rd.buf = nil
}
