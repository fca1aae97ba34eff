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

// needs is what a frontend has told.
type needs struct {
	run uint64
	seq uint64 // the last time
	at  time.Duration
	all map[string]toldNeed
}

type toldNeed struct {
	Need
	seq uint64
}

// TellNeeds appends what tells the others all that this frontend needs. It is called once in a while: what is left out twice
// is needed no more, so that one time may get lost.
func (c *Core) TellNeeds(list []Need, out []Send) []Send {
	c.needsSeq++
	header := binary.LittleEndian.AppendUint64(c.header(msgNeeds), c.self.Run)
	header = binary.AppendUvarint(header, c.needsSeq)
	var p parcel
	for i := range list {
		p.buf = appendString(p.buf, list[i].Path)
		for _, n := range list[i].Counts {
			p.buf = binary.AppendUvarint(p.buf, uint64(n))
		}
		p.end()
	}
	if len(list) == 0 {
		return append(out, Send{Msg: header})
	}
	return p.send(out, header, "", false)
}

// Needs is what the other frontends that there are have told. Silent are those that have told nothing more for within.
func (c *Core) Needs(now time.Time, within time.Duration) (told map[string][]Need, silent []string) {
	c.table.tick(now)
	told = map[string][]Need{}
	for _, m := range c.members.list {
		of := c.needs[m.Name]
		if of == nil || of.run != m.Run {
			continue
		}
		for _, n := range of.all {
			told[m.Name] = append(told[m.Name], n.Need)
		}
		if c.table.now-of.at > within {
			silent = append(silent, m.Name)
		}
	}
	return told, silent
}

// dropNeeds forgets what those have told that are there no more.
func (c *Core) dropNeeds() {
	there := map[string]bool{}
	for _, m := range c.members.list {
		there[m.Name] = true
	}
	for name := range c.needs {
		if !there[name] {
			delete(c.needs, name)
		}
	}
}

func (c *Core) takeNeeds(rd *reader, from string) {
	run, seq := rd.uint64(), rd.uint()
	known := false
	for _, m := range c.members.list {
		known = known || m.Name == from && m.Run == run
	}
	if rd.err != nil || !known {
		return
	}
	of := c.needs[from]
	if of == nil || of.run != run {
		of = &needs{run: run, all: map[string]toldNeed{}}
		c.needs[from] = of
	}
	if seq < of.seq {
		return // it was overtaken
	}
	of.seq, of.at = seq, c.table.now
	for len(rd.buf) > 0 {
		n := toldNeed{seq: seq}
		n.Path = rd.string(MaxName)
		for i := range n.Counts {
			n.Counts[i] = int64(rd.upTo(math.MaxInt64 / 4))
		}
		if rd.err != nil {
			return
		}
		if _, told := of.all[n.Path]; told || len(of.all) < maxNeeds {
			of.all[n.Path] = n
		}
	}
	for path, n := range of.all {
		if n.seq+1 < seq {
			delete(of.all, path)
		}
	}
}
