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
	MaxPacket  = 1350    // bytes of a message that goes as one datagram
	MaxStream  = 1 << 20 // bytes of one that goes over a stream, about
	maxPackets = 8       // with more of them than this, an answer goes over a stream
	maxWants   = 4096    // rows asked for at once
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
	members memberSet

	pushedVersion uint64        // version of the table up to which Tick has pushed
	pullAt        time.Duration // when to ask another frontend next
	heardAt       time.Duration // when anything came from another frontend

	terms       Terms
	termsDigest uint64
	termsAreNew bool // the others are to be told that there are new ones

	needs    map[string]*frontendNeeds // by the frontend that told them
	needsSeq uint64                    // how often this one has

	Stats Stats
}

// parts of a row besides those that are always sent.
type parts uint8

const (
	partProfile parts = 1 << iota
	partFiles
	partAll = partProfile | partFiles
)

// pushState is what an entry's frontend knows of who told whom.
type pushState struct {
	heardSeq       uint64        // the last sequence number that came from the worker itself
	pushedSeq      uint64        // the last one that was pushed by this frontend
	pushedAt       time.Duration // when
	othersPushedAt time.Duration // when another frontend pushed this row last, or when the entry was made
	profileRev     uint32        // the last revision that another frontend has, or that was pushed to all
	filesRev       uint32
}

// New makes a core that is the only member. Chance decides whom it asks.
func New(cfg Config, self Member, now time.Time, chance *rand.Rand) *Core {
	c := &Core{cfg: cfg, self: self, hash: hashName(self.Name), rand: chance, table: NewTable(cfg.Limits, now), needs: map[string]*frontendNeeds{}}
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
func (c *Core) Counts() (byOutcome map[string]uint64, flawed, clockBack uint64) {
	byOutcome = make(map[string]uint64, len(c.table.Counts))
	for o, n := range c.table.Counts {
		byOutcome[Outcome(o).String()] = n
	}
	return byOutcome, c.table.Flawed, c.table.ClockBack
}

// Silence is for how long nothing came from any other frontend; since the start, if nothing ever did.
func (c *Core) Silence(now time.Time) time.Duration {
	c.table.advanceClock(now)
	return c.table.now - c.heardAt
}

// Hear takes what a worker itself said. lacking means that it must send the whole row, since the table does not
// have the parts that this one names.
func (c *Core) Hear(now time.Time, r Row) (o Outcome, wantsWholeRow bool) {
	c.table.advanceClock(now)
	c.Stats.Heard++
	e, o := c.table.mergeRow(&r)
	switch o {
	case Unknown:
		return o, true
	case Started, Newer:
		if e.row.Seq == r.Seq {
			e.pushState.heardSeq = r.Seq
		}
		fallthrough
	case Old:
		return o, e.missingParts(&r) != 0
	}
	return o, false
}

// missingParts is which parts r names that e does not have.
func (e *entry) missingParts(r *Row) (p parts) {
	if r.ProfileRev > e.row.ProfileRev {
		p |= partProfile
	}
	if r.FilesRev > e.row.FilesRev {
		p |= partFiles
	}
	return p
}

// Tick appends what is to be sent now: the rows that workers sent since the last time, and twice per heartbeat
// the questions to another frontend.
func (c *Core) Tick(now time.Time, out []Send) []Send {
	c.table.advanceClock(now)
	out = c.pushRows(out)
	if c.termsAreNew && len(c.members.list) > 1 {
		c.termsAreNew = false
		out = append(out, Send{Msg: c.haveTermsMsg()})
	}
	if c.table.now >= c.pullAt {
		c.pullAt = c.table.now + c.cfg.Heartbeat/2
		c.table.Expire(now)
		out = c.pullFromMember(out)
	}
	return out
}

// patience is for how many hundredths of a heartbeat no push of a row may have come before a frontend that heard
// it pushes it: the first home, the second one, and the others.
var patience = [...]time.Duration{0, 140, 240}

// pushGap is how many hundredths of a heartbeat lie between two pushes of a row in which no part is new.
const pushGap = 60

func (c *Core) pushRows(out []Send) []Send {
	var p parcel
	alone := len(c.members.list) == 1
	for e := c.table.firstAfter(c.pushedVersion); e != &c.table.list && !alone; e = e.next {
		s := &e.pushState
		if s.heardSeq != e.row.Seq || s.pushedSeq == e.row.Seq || e.row.State == Lost {
			continue
		}
		rank := c.members.homeRank(e.nameHash, c.hash)
		if c.table.now-s.othersPushedAt < patience[rank]*c.cfg.Heartbeat/100 && rank > 0 {
			continue
		}
		r := c.table.rowOf(e)
		if r.ProfileRev <= s.profileRev {
			r.Profile = nil
		}
		if r.FilesRev <= s.filesRev {
			r.Files = nil
		}
		isNews := r.Profile != nil || r.Files != nil || r.State != Up
		if !isNews && s.pushedSeq > 0 && c.table.now-s.pushedAt < pushGap*c.cfg.Heartbeat/100 {
			continue
		}
		s.pushedSeq, s.pushedAt, s.profileRev, s.filesRev = e.row.Seq, c.table.now, e.row.ProfileRev, e.row.FilesRev
		p.addRow(&r, MaxPacket-len(c.self.Name)-3)
		c.Stats.Pushed++
	}
	c.pushedVersion = c.table.version
	return p.appendSends(out, c.msgHeader(msgPush), "", false)
}

// pullFromMember asks a member at random.
func (c *Core) pullFromMember(out []Send) []Send {
	others := slices.DeleteFunc(slices.Clone(c.members.list), func(m Member) bool { return m.Name == c.self.Name })
	if len(others) == 0 {
		return out
	}
	member := others[c.rand.IntN(len(others))].Name

	msg := c.msgHeader(msgSums)
	for _, s := range c.table.sums {
		msg = binary.LittleEndian.AppendUint32(msg, s)
	}
	out = append(out, Send{To: member, Msg: msg})
	if c.terms.Revision > 0 {
		out = append(out, Send{To: member, Msg: c.haveTermsMsg()})
	}

	// What did not change for one and a half heartbeats is at the front of the table's list.
	var wants []want
	for e := c.table.list.next; e != &c.table.list && c.table.now-e.changedAt > c.cfg.Heartbeat*3/2; e = e.next {
		if e.row.State == Up {
			wants = append(wants, want{e.row.Key, e.row.Seq, 0})
		}
	}
	if n := len(wants) - maxWants; n > 0 { // others each time, so that dead ones do not hide the rest
		from := c.rand.IntN(n + 1)
		wants = wants[from : from+maxWants]
	}
	return c.askForRows(member, wants, out)
}

// want asks for a row if it is newer than seq, and for parts of it in any case.
type want struct {
	key   Key
	seq   uint64
	parts parts
}

func (c *Core) askForRows(to string, wants []want, out []Send) []Send {
	var p parcel
	for _, w := range wants[:min(len(wants), maxWants)] {
		p.buf = binary.LittleEndian.AppendUint64(p.buf, uint64(w.key))
		p.buf = binary.AppendUvarint(p.buf, w.seq)
		p.buf = append(p.buf, byte(w.parts))
		p.endItem()
		c.Stats.Wanted++
	}
	return p.appendSends(out, c.msgHeader(msgWant), to, true)
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

func (c *Core) msgHeader(kind byte) []byte { return appendString([]byte{kind}, c.self.Name) }

// Receive takes a message from another frontend and appends the answers to out. An error says that it could not
// be read to the end; what was read until then has been taken.
func (c *Core) Receive(now time.Time, msg []byte, out []Send) ([]Send, error) {
	c.table.advanceClock(now)
	rd := reader{buf: msg}
	kind, from := rd.readByte(), rd.readString(MaxName)
	if rd.err == nil {
		c.heardAt = c.table.now
		switch kind {
		case msgPush, msgRows:
			c.takeRows(&rd, kind == msgPush)
		case msgWant:
			out = c.answerWant(&rd, from, out)
		case msgSums:
			out = c.answerSums(&rd, from, out)
		case msgIndex:
			out = c.answerIndex(&rd, from, out)
		case msgHave:
			out = c.answerHave(&rd, from, out)
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
		rd.readRow(&r)
		if rd.err != nil {
			return
		}
		e, o := c.table.mergeRow(&r)
		if pushed {
			c.Stats.Told++
		}
		if o == Started || o == Newer || o == Old {
			s := &e.pushState
			s.profileRev, s.filesRev = max(s.profileRev, r.ProfileRev), max(s.filesRev, r.FilesRev)
			if pushed {
				s.othersPushedAt = c.table.now
			}
		}
	}
}

// answerWant answers a msgWant.
func (c *Core) answerWant(rd *reader, to string, out []Send) []Send {
	var p parcel
	for len(rd.buf) > 0 {
		k, seq, wanted := Key(rd.readUint64()), rd.readUint(), parts(rd.readByte())
		if rd.err != nil {
			break
		}
		e := c.table.byKey[k]
		if e == nil || e.row.State == Lost || e.row.Seq <= seq && wanted == 0 || len(p.buf) > MaxStream {
			continue
		}
		r := c.table.rowOf(e)
		if wanted&partProfile == 0 {
			r.Profile = nil
		}
		if wanted&partFiles == 0 {
			r.Files = nil
		}
		p.addRow(&r, MaxStream)
		c.Stats.Supplied++
	}
	return p.appendSends(out, c.msgHeader(msgRows), to, true)
}

// answerSums answers a msgSums.
func (c *Core) answerSums(rd *reader, to string, out []Send) []Send {
	var differs [Buckets]bool
	anyDiffers := false
	for i := range differs {
		if len(rd.buf) < 4 {
			rd.fail(errShort)
			return out
		}
		differs[i] = binary.LittleEndian.Uint32(rd.buf) != c.table.sums[i]
		anyDiffers = anyDiffers || differs[i]
		rd.buf = rd.buf[4:]
	}
	if !anyDiffers {
		return out
	}
	var p parcel
	for e := c.table.list.next; e != &c.table.list && len(p.buf) < MaxStream; e = e.next {
		if e.row.State == Up && differs[e.row.Key.bucketIndex()] {
			p.buf = binary.LittleEndian.AppendUint64(p.buf, uint64(e.row.Key))
			p.buf = binary.AppendUvarint(p.buf, uint64(e.row.ProfileRev))
			p.buf = binary.AppendUvarint(p.buf, uint64(e.row.FilesRev))
			p.endItem()
		}
	}
	return p.appendSends(out, c.msgHeader(msgIndex), to, true)
}

// answerIndex answers a msgIndex: it asks for what the sender has and the table has not.
func (c *Core) answerIndex(rd *reader, to string, out []Send) []Send {
	var wants []want
	for len(rd.buf) > 0 {
		k := Key(rd.readUint64())
		r := Row{ProfileRev: uint32(rd.readUint()), FilesRev: uint32(rd.readUint())}
		if rd.err != nil {
			break
		}
		w := want{key: k, parts: partAll}
		if e := c.table.byKey[k]; e != nil {
			w.seq, w.parts = e.row.Seq, e.missingParts(&r)
			if w.parts == 0 {
				continue
			}
		}
		wants = append(wants, w)
	}
	return c.askForRows(to, wants, out)
}

// parcel is things that are sent together, in one message or in several.
type parcel struct {
	buf  []byte
	ends []int // of each thing in buf
}

func (p *parcel) endItem() { p.ends = append(p.ends, len(p.buf)) }

// addRow adds a row, without those parts that would make it longer than most.
func (p *parcel) addRow(r *Row, maxSize int) {
	at := len(p.buf)
	for {
		p.buf = AppendRow(p.buf[:at], r)
		switch {
		case len(p.buf)-at <= maxSize:
			p.endItem()
			return
		case r.Files != nil:
			r.Files = nil
		default:
			r.Profile = nil
		}
	}
}

// appendSends appends the messages to out: datagrams, or one stream if it may and there were too many of them.
func (p *parcel) appendSends(out []Send, header []byte, to string, stream bool) []Send {
	if len(p.ends) == 0 {
		return out
	}
	room := MaxPacket - len(header)
	fits := true
	for i, end := range p.ends {
		fits = fits && (i == 0 && end <= room || i > 0 && end-p.ends[i-1] <= room)
	}
	if stream && (!fits || len(p.buf) > maxPackets*room) {
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
