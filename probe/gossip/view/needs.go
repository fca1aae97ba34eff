package view

import (
	"encoding/binary"
	"math"
	"time"
)

// Need is what a frontend says of a tenant. What its numbers mean is not known here.
type Need struct {
	Path   string
	Counts [5]int64 // none is negative
}

// maxNeeds bounds the tenants that are kept of what one frontend tells.
const maxNeeds = 1024

// frontendNeeds is what a frontend has told.
type frontendNeeds struct {
	run        uint64
	seq        uint64 // the last time
	receivedAt time.Duration
	byPath     map[string]datedNeed
}

type datedNeed struct {
	Need
	seq uint64
}

// TellNeeds appends what tells the others all that this frontend needs. It is called once in a while: what is left out twice
// is needed no more, so that one time may get lost.
func (c *Core) TellNeeds(list []Need, out []Send) []Send {
	c.needsSeq++
	header := binary.LittleEndian.AppendUint64(c.msgHeader(msgNeeds), c.self.Run)
	header = binary.AppendUvarint(header, c.needsSeq)
	var p parcel
	for i := range list {
		p.buf = appendString(p.buf, list[i].Path)
		for _, n := range list[i].Counts {
			p.buf = binary.AppendUvarint(p.buf, uint64(n))
		}
		p.endItem()
	}
	if len(list) == 0 {
		return append(out, Send{Msg: header})
	}
	return p.appendSends(out, header, "", false)
}

// Needs is what the other frontends that there are have told. Silent are those that have told nothing more for within.
func (c *Core) Needs(now time.Time, silentAfter time.Duration) (needs map[string][]Need, silent []string) {
	c.table.advanceClock(now)
	needs = map[string][]Need{}
	for _, m := range c.members.list {
		sender := c.needs[m.Name]
		if sender == nil || sender.run != m.Run {
			continue
		}
		for _, n := range sender.byPath {
			needs[m.Name] = append(needs[m.Name], n.Need)
		}
		if c.table.now-sender.receivedAt > silentAfter {
			silent = append(silent, m.Name)
		}
	}
	return needs, silent
}

// dropNeeds forgets what those have told that are there no more.
func (c *Core) dropNeeds() {
	present := map[string]bool{}
	for _, m := range c.members.list {
		present[m.Name] = true
	}
	for name := range c.needs {
		if !present[name] {
			delete(c.needs, name)
		}
	}
}

func (c *Core) takeNeeds(rd *reader, from string) {
	run, seq := rd.readUint64(), rd.readUint()
	known := false
	for _, m := range c.members.list {
		known = known || m.Name == from && m.Run == run
	}
	if rd.err != nil || !known {
		return
	}
	sender := c.needs[from]
	if sender == nil || sender.run != run {
		sender = &frontendNeeds{run: run, byPath: map[string]datedNeed{}}
		c.needs[from] = sender
	}
	if seq < sender.seq {
		return // it was overtaken
	}
	sender.seq, sender.receivedAt = seq, c.table.now
	for len(rd.buf) > 0 {
		n := datedNeed{seq: seq}
		n.Path = rd.readString(MaxName)
		for i := range n.Counts {
			n.Counts[i] = int64(rd.readUpTo(math.MaxInt64 / 4))
		}
		if rd.err != nil {
			return
		}
		if _, listed := sender.byPath[n.Path]; listed || len(sender.byPath) < maxNeeds {
			sender.byPath[n.Path] = n
		}
	}
	for path, n := range sender.byPath {
		if n.seq+1 < seq {
			delete(sender.byPath, path)
		}
	}
}
