package rows

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"math"
)

// MaxTerms bounds the text of Terms, in bytes.
const MaxTerms = 512 << 10

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

// adoptTerms takes t if t is later than the known terms and not too long, and reports whether it did.
func (c *Core) adoptTerms(t Terms) bool {
	digest := t.textDigest()
	if len(t.Text) > MaxTerms || !isLater(t.Revision, digest, c.terms.Revision, c.termsDigest) {
		return false
	}
	c.terms, c.termsDigest = t, digest
	return true
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
	case isLater(revision, digest, c.terms.Revision, c.termsDigest):
		return append(out, Send{To: to, Msg: c.haveTermsMsg()})
	}
	return out
}

func (c *Core) takeTerms(rd *reader) {
	t := Terms{Revision: rd.readUpTo(math.MaxInt64), Text: bytes.Clone(rd.buf)}
	if rd.err == nil {
		c.adoptTerms(t)
	}
}
