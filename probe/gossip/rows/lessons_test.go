package rows

import (
	"bytes"
	"encoding/binary"
	"slices"
	"testing"
	"time"
)

// mergeLessons adds the heard lessons of each frontend to the frontend's lessons. A lesson is a byte here. The result is
// the number of bytes heard by a frontend.
func (n *fakeNet) mergeLessons(name string) (heard int) {
	for _, from := range n.order {
		c := n.cores[from]
		known := bytes.Clone(c.lessons)
		for _, lessons := range c.TakeHeardLessons() {
			known = append(known, lessons...)
			if from == name {
				heard += len(lessons)
			}
		}
		slices.Sort(known)
		c.SetLessons(slices.Compact(known))
	}
	return heard
}

// A frontend that starts has the lessons of the others within a pull. Lessons spread to all frontends although
// messages are lost, and then frontends send only digests. A frontend with lasting differences gets lessons every ten
// heartbeats.
func TestLessonsSpread(t *testing.T) {
	n := newFakeNet(3, 4, 0)
	n.loss = 0.1
	for i, name := range n.order {
		n.cores[name].SetLessons([]byte{'a' + byte(i)})
	}
	for range 400 {
		n.run(FlushEvery * 2)
		n.mergeLessons("")
	}
	for _, name := range n.order {
		if got := n.cores[name].lessons; string(got) != "abcd" {
			t.Errorf("%s has lessons %q", name, got)
		}
	}
	for range 200 {
		n.run(FlushEvery * 2)
		if n.mergeLessons("f0") > 0 {
			t.Fatal("equal lessons are sent")
		}
	}

	n.loss = 0
	n.stop("f0")
	n.start("f0")
	n.run(time.Second/2 + 4*FlushEvery) // a pull, and two messages
	n.mergeLessons("")
	if got := n.cores["f0"].lessons; string(got) != "abcd" {
		t.Errorf("a new frontend has lessons %q", got)
	}

	heard, huge := 0, bytes.Repeat([]byte{'z'}, MaxLessons)
	n.cores["f1"].SetLessons(append(huge, 'z'))
	if n.cores["f1"].lessonsDigest != n.cores["f0"].lessonsDigest {
		t.Error("lessons above the bound are taken")
	}
	for _, name := range []string{"f1", "f2", "f3"} {
		n.cores[name].SetLessons(huge)
	}
	for range 1000 {
		n.run(FlushEvery * 2)
		for _, lessons := range n.cores["f0"].TakeHeardLessons() {
			heard += len(lessons)
		}
	}
	if heard < 8*MaxLessons || heard > 11*MaxLessons {
		t.Errorf("a frontend with other lessons hears %d times the bound in 100 heartbeats", heard/MaxLessons)
	}
}

// An older frontend sends no digest, and gets no lessons.
func TestLessonsAndOlderFrontends(t *testing.T) {
	c := newTestCore("f1")
	c.SetMembers([]Member{{Name: "old"}})
	c.SetLessons([]byte("lessons"))
	sums := append(appendString([]byte{msgSums}, "old"), make([]byte, 4*Buckets)...)
	if out, err := c.Receive(epoch, sums, nil); err != nil || len(out) != 0 {
		t.Errorf("a message without a digest is answered by %v, %v", out, err)
	}
	out, err := c.Receive(epoch, append(sums, make([]byte, 8)...), nil)
	if err != nil || len(out) != 1 || out[0].Stream {
		t.Errorf("a message with another digest is answered by %v, %v", out, err)
	}
	same := binary.LittleEndian.AppendUint64(sums, c.lessonsDigest)
	if out, err := c.Receive(epoch, append(same, 1, 2, 3), nil); err != nil || len(out) != 0 {
		t.Errorf("a message with the same digest is answered by %v, %v", out, err)
	}
	for _, lessons := range []int{0, MaxLessons + 1} {
		msg := append(c.msgHeader(msgLessons), make([]byte, lessons)...)
		if _, err := c.Receive(epoch, msg, nil); err == nil || len(c.TakeHeardLessons()) > 0 {
			t.Errorf("lessons of %d bytes are taken", lessons)
		}
	}
}
