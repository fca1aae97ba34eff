package view

import (
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"time"
)

// Sizes of messages between frontends.
const (
	MaxPacket = 1350    // bytes of a message that goes as one datagram
	MaxStream = 1 << 20 // bytes of one that goes over a stream, about
	packets   = 8       // with more of them than this, an answer goes over a stream
	maxWants  = 4096    // rows asked for at once
)

// FlushEvery is how often Tick is to be called: rows that are pushed wait for half of it on average.
const FlushEvery = 50 * time.Millisecond

// Config of a Core.
type Config struct {
	Limits
	Heartbeat time.Duration // how often workers send one, while nothing changes
}

// DefaultConfig is for heartbeats of one per second.
var DefaultConfig = Config{Limits: DefaultLimits, Heartbeat: time.Second}

// Validate names what is wrong with c.
func (c Config) Validate() error {
	var err error
	if c.Heartbeat <= 0 || c.Heartbeat > c.Expire/3 {
		err = fmt.Errorf("heartbeats of a view: %v must be positive, and at most a third of the expiry of %v", c.Heartbeat, c.Expire)
	}
	return errors.Join(c.Limits.Validate(), err)
}

// Send is a message for another frontend.
type Send struct {
	To     string // name of the member; "": every other one
	Stream bool   // too long for a datagram
	Msg    []byte // the shell's to keep
}

// Stats count what a core did.
type Stats struct {
	Heard    uint64 // rows from workers themselves
	Pushed   uint64 // rows sent to every other frontend
	Told     uint64 // rows that others pushed
	Wanted   uint64 // rows asked for
	Supplied uint64 // rows sent to one that asked
	Garbage  uint64 // messages that could not be read
	Skipped  uint64 // messages of kinds that only a newer frontend knows
}

// Core is one frontend's view and its part in the gossip. Its owner locks it.
type Core struct {
	cfg     Config
	self    Member
	hash    uint64 // of self's name
	rand    *rand.Rand
	table   *Table
	members members

	flushed uint64        // version of the table up to which Tick has pushed
	pullAt  time.Duration // when to ask another frontend next
	heardAt time.Duration // when anything came from another frontend

	terms       Terms
	termsDigest uint64
	tellTerms   bool // the others are to be told that there are new ones

	needs    map[string]*needs // by the frontend that told them
	needsSeq uint64            // how often this one has

	Stats Stats
}

// parts of a row besides those that are always sent.
type parts uint8

const (
	wantProfile parts = 1 << iota
	wantFiles
	wantAll = wantProfile | wantFiles
)

// spread is what an entry's frontend knows of who told whom.
type spread struct {
	heard   uint64        // the last sequence number that came from the worker itself
	sent    uint64        // the last one that was pushed by this frontend
	at      time.Duration // when
	told    time.Duration // when another frontend pushed this row last, or when the entry was made
	profile uint32        // the last revision that another frontend has, or that was pushed to all
	files   uint32
}

// New makes a core that is the only member. Chance decides whom it asks.
func New(cfg Config, self Member, now time.Time, chance *rand.Rand) *Core {
	c := &Core{cfg: cfg, self: self, hash: hashName(self.Name), rand: chance, table: NewTable(cfg.Limits, now), needs: map[string]*needs{}}
	c.SetMembers(nil)
	return c
}

// SetMembers tells which frontends there are. Self is one in any case.
func (c *Core) SetMembers(list []Member) {
	c.members = newMembers(append(slices.Clone(list), c.self))
	c.dropNeeds()
}

// Members are the frontends that there are, self among them, by name. Not to be written to.
func (c *Core) Members() []Member { return c.members.list }

// Len, Get, Since and Version are the table's.
func (c *Core) Len() int                                             { return c.table.Len() }
func (c *Core) Version() uint64                                      { return c.table.Version() }
func (c *Core) Get(now time.Time, name string) (Row, bool)           { return c.table.Get(now, name) }
func (c *Core) Since(now time.Time, v uint64) iter.Seq2[uint64, Row] { return c.table.Since(now, v) }

// Counts are the rows merged so far, by what became of them; how many had a flaw; and how often the clock went
// back.
func (c *Core) Counts() (by map[string]uint64, flawed, back uint64) {
	by = make(map[string]uint64, len(c.table.Counts))
	for o, n := range c.table.Counts {
		by[Outcome(o).String()] = n
	}
	return by, c.table.Flawed, c.table.Back
}

// Silence is for how long nothing came from any other frontend; since the start, if nothing ever did.
func (c *Core) Silence(now time.Time) time.Duration {
	c.table.tick(now)
	return c.table.now - c.heardAt
}

// Hear takes what a worker itself said. lacking means that it must send the whole row, since the table does not
// have the parts that this one names.
func (c *Core) Hear(now time.Time, r Row) (o Outcome, lacking bool) {
	c.table.tick(now)
	c.Stats.Heard++
	e, o := c.table.merge(&r)
	switch o {
	case Unknown:
		return o, true
	case Started, Newer:
		if e.row.Seq == r.Seq {
			e.spread.heard = r.Seq
		}
		fallthrough
	case Old:
		return o, e.lacks(&r) != 0
	}
	return o, false
}

// lacks is which parts r names that e does not have.
func (e *entry) lacks(r *Row) (p parts) {
	if r.ProfileRev > e.row.ProfileRev {
		p |= wantProfile
	}
	if r.FilesRev > e.row.FilesRev {
		p |= wantFiles
	}
	return p
}

// Tick appends what is to be sent now: the rows that workers sent since the last time, and twice per heartbeat
// the questions to another frontend.
func (c *Core) Tick(now time.Time, out []Send) []Send {
	c.table.tick(now)
	out = c.push(out)
	if c.tellTerms && len(c.members.list) > 1 {
		c.tellTerms = false
		out = append(out, Send{Msg: c.haveTerms()})
	}
	if c.table.now >= c.pullAt {
		c.pullAt = c.table.now + c.cfg.Heartbeat/2
		c.table.Expire(now)
		out = c.pull(out)
	}
	return out
}

// patience is for how many hundredths of a heartbeat no push of a row may have come before a frontend that heard
// it pushes it: the first home, the second one, and the others.
var patience = [...]time.Duration{0, 140, 240}

// pushGap is how many hundredths of a heartbeat lie between two pushes of a row in which no part is new.
const pushGap = 60

func (c *Core) push(out []Send) []Send {
	var p parcel
	alone := len(c.members.list) == 1
	for e := c.table.after(c.flushed); e != &c.table.list && !alone; e = e.next {
		s := &e.spread
		if s.heard != e.row.Seq || s.sent == e.row.Seq || e.row.State == Lost {
			continue
		}
		rank := c.members.rank(e.nameHash, c.hash)
		if c.table.now-s.told < patience[rank]*c.cfg.Heartbeat/100 && rank > 0 {
			continue
		}
		r := c.table.at(e)
		if r.ProfileRev <= s.profile {
			r.Profile = nil
		}
		if r.FilesRev <= s.files {
			r.Files = nil
		}
		news := r.Profile != nil || r.Files != nil || r.State != Up
		if !news && s.sent > 0 && c.table.now-s.at < pushGap*c.cfg.Heartbeat/100 {
			continue
		}
		s.sent, s.at, s.profile, s.files = e.row.Seq, c.table.now, e.row.ProfileRev, e.row.FilesRev
		p.row(&r, MaxPacket-len(c.self.Name)-3)
		c.Stats.Pushed++
	}
	c.flushed = c.table.version
	return p.send(out, c.header(msgPush), "", false)
}

// pull asks a member at random.
func (c *Core) pull(out []Send) []Send {
	others := slices.DeleteFunc(slices.Clone(c.members.list), func(m Member) bool { return m.Name == c.self.Name })
	if len(others) == 0 {
		return out
	}
	to := others[c.rand.IntN(len(others))].Name

	msg := c.header(msgSums)
	for _, s := range c.table.sums {
		msg = binary.LittleEndian.AppendUint32(msg, s)
	}
	out = append(out, Send{To: to, Msg: msg})
	if c.terms.Revision > 0 {
		out = append(out, Send{To: to, Msg: c.haveTerms()})
	}

	// What did not change for one and a half heartbeats is at the front of the table's list.
	var wants []want
	for e := c.table.list.next; e != &c.table.list && c.table.now-e.changed > c.cfg.Heartbeat*3/2; e = e.next {
		if e.row.State == Up {
			wants = append(wants, want{e.row.Key, e.row.Seq, 0})
		}
	}
	if n := len(wants) - maxWants; n > 0 { // others each time, so that dead ones do not hide the rest
		from := c.rand.IntN(n + 1)
		wants = wants[from : from+maxWants]
	}
	return c.ask(to, wants, out)
}

// want asks for a row if it is newer than seq, and for parts of it in any case.
type want struct {
	key   Key
	seq   uint64
	parts parts
}

func (c *Core) ask(to string, wants []want, out []Send) []Send {
	var p parcel
	for _, w := range wants[:min(len(wants), maxWants)] {
		p.buf = binary.LittleEndian.AppendUint64(p.buf, uint64(w.key))
		p.buf = binary.AppendUvarint(p.buf, w.seq)
		p.buf = append(p.buf, byte(w.parts))
		p.end()
		c.Stats.Wanted++
	}
	return p.send(out, c.header(msgWant), to, true)
}

// What messages between frontends begin with: this and the sender's name. Numbers are never reused.
const (
	msgPush  = iota + 1 // rows that the sender heard from workers
	msgRows             // rows that the receiver asked for
	msgWant             // rows that the sender asks for
	msgSums             // the sums of the sender's buckets
	msgIndex            // what the sender has in the buckets that differ
	msgHave             // which terms the sender has
	msgTerms            // the terms themselves
	msgNeeds            // what the sender needs of tenants
)

func (c *Core) header(kind byte) []byte { return appendString([]byte{kind}, c.self.Name) }

// Receive takes a message from another frontend and appends the answers to out. An error says that it could not
// be read to the end; what was read until then has been taken.
func (c *Core) Receive(now time.Time, msg []byte, out []Send) ([]Send, error) {
	c.table.tick(now)
	rd := reader{buf: msg}
	kind, from := rd.byte(), rd.string(MaxName)
	if rd.err == nil {
		c.heardAt = c.table.now
		switch kind {
		case msgPush, msgRows:
			c.takeRows(&rd, kind == msgPush)
		case msgWant:
			out = c.supply(&rd, from, out)
		case msgSums:
			out = c.compare(&rd, from, out)
		case msgIndex:
			out = c.askFor(&rd, from, out)
		case msgHave:
			out = c.compareTerms(&rd, from, out)
		case msgTerms:
			c.takeTerms(&rd)
		case msgNeeds:
			c.takeNeeds(&rd, from)
		case 0: // nothing is written so
			rd.fail(errRange)
		default:
			c.Stats.Skipped++
		}
	}
	if rd.err != nil {
		c.Stats.Garbage++
		return out, fmt.Errorf("view: message %d from %q: %w", kind, from, rd.err)
	}
	return out, nil
}

func (c *Core) takeRows(rd *reader, pushed bool) {
	var r Row
	for len(rd.buf) > 0 {
		rd.row(&r)
		if rd.err != nil {
			return
		}
		e, o := c.table.merge(&r)
		if pushed {
			c.Stats.Told++
		}
		if o == Started || o == Newer || o == Old {
			s := &e.spread
			s.profile, s.files = max(s.profile, r.ProfileRev), max(s.files, r.FilesRev)
			if pushed {
				s.told = c.table.now
			}
		}
	}
}

// supply answers a msgWant.
func (c *Core) supply(rd *reader, to string, out []Send) []Send {
	var p parcel
	for len(rd.buf) > 0 {
		k, seq, which := Key(rd.uint64()), rd.uint(), parts(rd.byte())
		if rd.err != nil {
			break
		}
		e := c.table.byKey[k]
		if e == nil || e.row.State == Lost || e.row.Seq <= seq && which == 0 || len(p.buf) > MaxStream {
			continue
		}
		r := c.table.at(e)
		if which&wantProfile == 0 {
			r.Profile = nil
		}
		if which&wantFiles == 0 {
			r.Files = nil
		}
		p.row(&r, MaxStream)
		c.Stats.Supplied++
	}
	return p.send(out, c.header(msgRows), to, true)
}

// compare answers a msgSums.
func (c *Core) compare(rd *reader, to string, out []Send) []Send {
	var differs [Buckets]bool
	any := false
	for i := range differs {
		if len(rd.buf) < 4 {
			rd.fail(errShort)
			return out
		}
		differs[i] = binary.LittleEndian.Uint32(rd.buf) != c.table.sums[i]
		any = any || differs[i]
		rd.buf = rd.buf[4:]
	}
	if !any {
		return out
	}
	var p parcel
	for e := c.table.list.next; e != &c.table.list && len(p.buf) < MaxStream; e = e.next {
		if e.row.State == Up && differs[e.row.Key.bucket()] {
			p.buf = binary.LittleEndian.AppendUint64(p.buf, uint64(e.row.Key))
			p.buf = binary.AppendUvarint(p.buf, uint64(e.row.ProfileRev))
			p.buf = binary.AppendUvarint(p.buf, uint64(e.row.FilesRev))
			p.end()
		}
	}
	return p.send(out, c.header(msgIndex), to, true)
}

// askFor answers a msgIndex: it asks for what the sender has and the table has not.
func (c *Core) askFor(rd *reader, to string, out []Send) []Send {
	var wants []want
	for len(rd.buf) > 0 {
		k := Key(rd.uint64())
		r := Row{ProfileRev: uint32(rd.uint()), FilesRev: uint32(rd.uint())}
		if rd.err != nil {
			break
		}
		w := want{key: k, parts: wantAll}
		if e := c.table.byKey[k]; e != nil {
			w.seq, w.parts = e.row.Seq, e.lacks(&r)
			if w.parts == 0 {
				continue
			}
		}
		wants = append(wants, w)
	}
	return c.ask(to, wants, out)
}

// parcel is things that are sent together, in one message or in several.
type parcel struct {
	buf  []byte
	ends []int // of each thing in buf
}

func (p *parcel) end() { p.ends = append(p.ends, len(p.buf)) }

// row adds a row, without those parts that would make it longer than most.
func (p *parcel) row(r *Row, most int) {
	at := len(p.buf)
	for {
		p.buf = AppendRow(p.buf[:at], r)
		switch {
		case len(p.buf)-at <= most:
			p.end()
			return
		case r.Files != nil:
			r.Files = nil
		default:
			r.Profile = nil
		}
	}
}

// send appends the messages to out: datagrams, or one stream if it may and there were too many of them.
func (p *parcel) send(out []Send, header []byte, to string, stream bool) []Send {
	if len(p.ends) == 0 {
		return out
	}
	room := MaxPacket - len(header)
	fits := true
	for i, end := range p.ends {
		fits = fits && (i == 0 && end <= room || i > 0 && end-p.ends[i-1] <= room)
	}
	if stream && (!fits || len(p.buf) > packets*room) {
		return append(out, Send{To: to, Stream: true, Msg: append(header, p.buf...)})
	}
	for from, i := 0, 0; i < len(p.ends); {
		end := p.ends[i]
		for i++; i < len(p.ends) && p.ends[i]-from <= room; i++ {
			end = p.ends[i]
		}
		out = append(out, Send{To: to, Msg: slices.Concat(header, p.buf[from:end])})
		from = end
	}
	return out
}
