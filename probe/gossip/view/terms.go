package view

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"math"
)

// MaxTerms is how long the text of Terms may be.
const MaxTerms = 512 << 10

// Terms say what tenants may have. What their text means is not known here: of all that frontends have, the one with the
// highest revision gets to all of them.
type Terms struct {
	Revision uint64 // 0: there are none
	Text     []byte // nobody writes to it
}

// textDigest stands for the text, so that all decide alike between two of one revision.
func (t *Terms) textDigest() uint64 {
	if t.Revision == 0 {
		return 0
	}
	sum := sha256.Sum256(t.Text)
	return binary.LittleEndian.Uint64(sum[:])
}

// SetTerms takes terms of this frontend's own, or does not if it has later ones.
func (c *Core) SetTerms(t Terms) {
	if c.adoptTerms(Terms{t.Revision, bytes.Clone(t.Text)}) {
		c.termsAreNew = true
	}
}

// Terms are the latest that are known.
func (c *Core) Terms() Terms { return c.terms }

func (c *Core) adoptTerms(t Terms) bool {
	digest := t.textDigest()
	if len(t.Text) > MaxTerms || !isLater(t.Revision, digest, c.terms.Revision, c.termsDigest) {
		return false
	}
	c.terms, c.termsDigest = t, digest
	return true
}

func isLater(revision, digest, otherRevision, otherDigest uint64) bool {
	return revision > otherRevision || revision == otherRevision && digest > otherDigest
}

// haveTermsMsg says which terms there are here.
func (c *Core) haveTermsMsg() []byte {
	b := binary.AppendUvarint(c.msgHeader(msgHave), c.terms.Revision)
	return binary.LittleEndian.AppendUint64(b, c.termsDigest)
}

// answerHave answers a msgHave: with the terms, if those of the sender are older, or with which ones there are here, if
// these are, so that it sends its own.
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
