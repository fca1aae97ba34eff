package rows

import (
	"encoding/binary"
	"math"
	"time"
)

// Need is a frontend's need of a tenant. Package rows does not interpret the numbers.
type Need struct {
	Path   string
	Counts [5]int64 // never negative
}

const (
	// maxNeeds bounds the tenants kept for a frontend.
	maxNeeds = 1024
	// keepNeedsFor is the time for which the needs of a lost frontend are kept. If gossip finds the frontend again,
	// the frontend is silent until the next needs arrive, and no other frontend takes the part meanwhile.
	keepNeedsFor = 10 * time.Minute
)

// frontendNeeds are the needs told by a frontend.
type frontendNeeds struct {
	run        uint64
	seq        uint64 // of the last message
	receivedAt time.Duration
	byPath     map[string]datedNeed
}

// datedNeed is a need with the sequence number of its last message.
type datedNeed struct {
	Need
	seq uint64
}

// TellNeeds appends messages that tell all needs of this frontend to the members. Call TellNeeds again and again: a
// need left out twice ends, so a single message may get lost.
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

// Needs returns the needs told by the other present frontends, by frontend. silent are the frontends that have told
// nothing for longer than silentAfter.
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

// dropNeeds forgets the needs of lost frontends, keepNeedsFor after the frontends last told needs.
func (c *Core) dropNeeds() {
	present := map[string]bool{}
	for _, m := range c.members.list {
		present[m.Name] = true
	}
	for name, sender := range c.needs {
		if !present[name] && c.table.now-sender.receivedAt > keepNeedsFor {
			delete(c.needs, name)
		}
	}
}

// takeNeeds takes a msgNeeds. Messages of an unknown run and overtaken messages do not count.
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
		return // overtaken by a later message
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
