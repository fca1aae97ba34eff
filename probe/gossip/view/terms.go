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

// digest stands for the text, so that all decide alike between two of one revision.
func (t *Terms) digest() uint64 {
	if t.Revision == 0 {
		return 0
	}
	sum := sha256.Sum256(t.Text)
	return binary.LittleEndian.Uint64(sum[:])
}

// SetTerms takes terms of this frontend's own, or does not if it has later ones.
func (c *Core) SetTerms(t Terms) {
	if c.adopt(Terms{t.Revision, bytes.Clone(t.Text)}) {
		c.tellTerms = true
	}
}

// Terms are the latest that are known.
func (c *Core) Terms() Terms { return c.terms }

func (c *Core) adopt(t Terms) bool {
	digest := t.digest()
	if len(t.Text) > MaxTerms || !later(t.Revision, digest, c.terms.Revision, c.termsDigest) {
		return false
	}
	c.terms, c.termsDigest = t, digest
	return true
}

func later(revision, digest, than, thanDigest uint64) bool {
	return revision > than || revision == than && digest > thanDigest
}

// haveTerms says which terms there are here.
func (c *Core) haveTerms() []byte {
	b := binary.AppendUvarint(c.header(msgHave), c.terms.Revision)
	return binary.LittleEndian.AppendUint64(b, c.termsDigest)
}

// compareTerms answers a msgHave: with the terms, if those of the sender are older, or with which ones there are here, if
// these are, so that it sends its own.
func (c *Core) compareTerms(rd *reader, to string, out []Send) []Send {
	revision, digest := rd.uint(), rd.uint64()
	switch {
	case rd.err != nil:
	case later(c.terms.Revision, c.termsDigest, revision, digest):
		msg := binary.AppendUvarint(c.header(msgTerms), c.terms.Revision)
		return append(out, Send{To: to, Stream: true, Msg: append(msg, c.terms.Text...)})
	case later(revision, digest, c.terms.Revision, c.termsDigest):
		return append(out, Send{To: to, Msg: c.haveTerms()})
	}
	return out
}

func (c *Core) takeTerms(rd *reader) {
	t := Terms{Revision: rd.upTo(math.MaxInt64), Text: bytes.Clone(rd.buf)}
	if rd.err == nil {
		c.adopt(t)
	}
}
