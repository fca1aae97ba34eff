package rows

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
)

// MaxTerms bounds the text of Terms, in bytes.
const MaxTerms = 512 << 10

const (
	// MaxRevision bounds the revision of Terms, and leaves room for later revisions.
	MaxRevision = 1<<62 - 1
	// MaxRevisionStep bounds the step from one revision to a later revision. A larger step would use up all
	// revisions by a few mistakes, or a few forged messages. Dates and times in milliseconds fit.
	MaxRevisionStep = 1 << 40
)

// IsOutOfReach reports whether the step from the revision in use to a later revision is too large. Any revision may
// follow no terms at all (revision 0).
func IsOutOfReach(revision, inUse uint64) bool { return inUse > 0 && revision > inUse+MaxRevisionStep }

// Terms say which share of the fleet each tenant may have. Package rows does not interpret the text. The terms with
// the highest revision reach all frontends.
type Terms struct {
	Revision uint64 // 0: no terms
	Text     []byte // nobody writes to it
}

// textDigest stands for the text. If two texts have the same revision, all frontends choose the text with the
// higher digest.
func (t *Terms) textDigest() uint64 {
	if t.Revision == 0 {
		return 0
	}
	sum := sha256.Sum256(t.Text)
	return binary.LittleEndian.Uint64(sum[:])
}

// SetTerms offers this frontend's own terms. Later terms, if known, stay.
func (c *Core) SetTerms(t Terms) {
	if c.adoptTerms(Terms{t.Revision, bytes.Clone(t.Text)}) {
		c.termsAreNew = true
	}
}

// Terms returns the latest known terms.
func (c *Core) Terms() Terms { return c.terms }

// FarRevision returns the latest revision of a peer that was out of reach, or 0.
func (c *Core) FarRevision() uint64 { return c.farRevision }

// adoptTerms takes t if t is later than the known terms, within reach and not too long. adoptTerms reports whether it
// took t.
func (c *Core) adoptTerms(t Terms) bool {
	digest := t.textDigest()
	if len(t.Text) > MaxTerms || !c.wantsTerms(t.Revision, digest) {
		return false
	}
	c.terms, c.termsDigest = t, digest
	return true
}

// wantsTerms reports whether terms are later than the known terms, and within reach.
func (c *Core) wantsTerms(revision, digest uint64) bool {
	if IsOutOfReach(revision, c.terms.Revision) {
		c.farRevision = revision
		return false
	}
	return isLater(revision, digest, c.terms.Revision, c.termsDigest)
}

// isLater orders terms by revision, then by digest.
func isLater(revision, digest, otherRevision, otherDigest uint64) bool {
	return revision > otherRevision || revision == otherRevision && digest > otherDigest
}

// haveTermsMsg makes a msgHave about the known terms.
func (c *Core) haveTermsMsg() []byte {
	b := binary.AppendUvarint(c.msgHeader(msgHave), c.terms.Revision)
	return binary.LittleEndian.AppendUint64(b, c.termsDigest)
}

// answerHave answers a msgHave. If the sender's terms are older, the answer is the known terms. If the sender's
// terms are later, the answer is a msgHave, so that the sender sends its terms.
func (c *Core) answerHave(rd *reader, to string, out []Send) []Send {
	revision, digest := rd.readUint(), rd.readUint64()
	switch {
	case rd.err != nil:
	case isLater(c.terms.Revision, c.termsDigest, revision, digest):
		msg := binary.AppendUvarint(c.msgHeader(msgTerms), c.terms.Revision)
		return append(out, Send{To: to, Stream: true, Msg: append(msg, c.terms.Text...)})
	case c.wantsTerms(revision, digest):
		return append(out, Send{To: to, Msg: c.haveTermsMsg()})
	}
	return out
}

func (c *Core) takeTerms(rd *reader) {
	t := Terms{Revision: rd.readUpTo(MaxRevision), Text: bytes.Clone(rd.buf)}
	if rd.err == nil {
		c.adoptTerms(t)
	}
}
