package rows

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
	MaxPacket  = 1350    // bytes of a message sent as a datagram
	MaxStream  = 1 << 20 // bytes of a message sent over a stream, about
	maxPackets = 8       // an answer of more packets goes over a stream
	maxWants   = 4096    // rows in a single request
)

// FlushEvery is the interval between calls of Tick. A pushed row waits for half an interval on average.
const FlushEvery = 50 * time.Millisecond

// Config configures a Core.
type Config struct {
	Limits
	Heartbeat time.Duration // interval between heartbeats of an unchanged worker
}

// DefaultConfig fits heartbeats once per second.
var DefaultConfig = Config{Limits: DefaultLimits, Heartbeat: time.Second}

// Validate returns all problems of c, or nil.
func (c Config) Validate() error {
	var err error
	if c.Heartbeat <= 0 || c.Heartbeat > c.Expire/3 {
		err = fmt.Errorf("gossip: heartbeats every %v: must be positive, and at most a third of the expiry of %v",
			c.Heartbeat, c.Expire)
	}
	return errors.Join(c.Limits.Validate(), err)
}

// Send is a message for another frontend.
type Send struct {
	To     string // name of the member; "": every other member
	Stream bool   // too long for a datagram
	Msg    []byte // owned by the shell
}

// Stats are counts of a core since its start.
type Stats struct {
	Heard    uint64 // rows from workers themselves
	Pushed   uint64 // rows pushed to every other frontend
	Received uint64 // rows pushed by other frontends
	Wanted   uint64 // rows requested
	Supplied uint64 // rows sent on request
	Garbage  uint64 // unreadable messages
	Skipped  uint64 // messages of unknown kinds, sent by newer frontends
}

// Core holds the rows of a frontend and its part in the gossip. Its owner locks it.
type Core struct {
	cfg     Config
	self    Member
	hash    uint64 // of self's name
	rand    *rand.Rand
	table   *Table
	members memberSet

	pushedVersion uint64        // version of the table up to which Tick has pushed
	pullAt        time.Duration // when to pull next
	heardAt       time.Duration // when the last message came from another frontend

	terms       Terms
	termsDigest uint64
	farRevision uint64 // latest revision of a peer out of reach; 0: none
	termsAreNew bool   // Tick must tell the members of new terms

	needs    map[string]*frontendNeeds // by the frontend that told the needs
	needsSeq uint64                    // number of this frontend's last TellNeeds

	lessons       []byte
	lessonsDigest uint64        // of lessons; 0: no lessons
	lessonsAt     time.Duration // when to ask for lessons next
	heardLessons  [][]byte      // of other frontends, not yet taken

	Stats Stats
}

// parts are the optional parts of a row.
type parts uint8

const (
	partProfile parts = 1 << iota
	partFiles
	partAll = partProfile | partFiles
)

// pushState decides when this frontend pushes an entry's row, and with which parts.
type pushState struct {
	heardSeq       uint64        // last sequence number heard from the worker itself
	pushedSeq      uint64        // last sequence number pushed by this frontend
	pushedAt       time.Duration // time of that push
	othersPushedAt time.Duration // time of the last push by another frontend, or of the entry's creation
	profileRev     uint32        // last revision known at another frontend, or pushed to all
	filesRev       uint32        // likewise
}

// New makes a core that is the only member. chance picks the members to pull from.
func New(cfg Config, self Member, now time.Time, chance *rand.Rand) *Core {
	c := &Core{cfg: cfg, self: self, hash: hashName(self.Name), rand: chance,
		table: NewTable(cfg.Limits, now), needs: map[string]*frontendNeeds{}}
	c.SetMembers(nil)
	return c
}

// SetMembers replaces the list of frontends. This frontend is a member in any case.
func (c *Core) SetMembers(list []Member) {
	c.members = newMembers(append(slices.Clone(list), c.self))
	c.dropNeeds()
}

// Members returns all frontends by name, including this frontend. The caller must not write to the slice.
func (c *Core) Members() []Member { return c.members.list }

// Len, Get, Since and Version are methods of the table.
func (c *Core) Len() int                                             { return c.table.Len() }
func (c *Core) Version() uint64                                      { return c.table.Version() }
func (c *Core) Get(now time.Time, name string) (Row, bool)           { return c.table.Get(now, name) }
func (c *Core) Since(now time.Time, v uint64) iter.Seq2[uint64, Row] { return c.table.Since(now, v) }

// Counts returns the merged rows by outcome, the rows with a flaw, and how often the clock went back.
func (c *Core) Counts() (byOutcome map[string]uint64, flawed, clockBack uint64) {
	byOutcome = make(map[string]uint64, len(c.table.Counts))
	for o, n := range c.table.Counts {
		byOutcome[Outcome(o).String()] = n
	}
	return byOutcome, c.table.Flawed, c.table.ClockBack
}

// Silence returns the time since the last message of another frontend, or since the start.
func (c *Core) Silence(now time.Time) time.Duration {
	c.table.advanceClock(now)
	return c.table.now - c.heardAt
}

// Hear takes a row from its worker. wantsWholeRow means that the worker must send the whole row, because r names
// parts that the table does not have.
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

// missingParts returns the parts that r names and e does not have.
func (e *entry) missingParts(r *Row) (p parts) {
	if r.ProfileRev > e.row.ProfileRev {
		p |= partProfile
	}
	if r.FilesRev > e.row.FilesRev {
		p |= partFiles
	}
	return p
}

// Tick appends the messages due now: the rows that workers sent since the last Tick, and twice per heartbeat a
// pull.
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

// patience is the wait for a push, in hundredths of a heartbeat: after the wait, a frontend that heard a row pushes
// the row itself. The values are for the first home, the second home, and all other frontends.
var patience = [...]time.Duration{0, 140, 240}

// pushGap is the minimum time between two pushes of a row without new parts, in hundredths of a heartbeat.
const pushGap = 60

// pushRows pushes the changed rows since the last Tick, where this frontend is due to push.
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

// pullFromMember asks a random member for newer rows, and sends the sums of all buckets.
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
	out = append(out, Send{To: member, Msg: c.askForLessons(msg)})
	if c.terms.Revision > 0 {
		out = append(out, Send{To: member, Msg: c.haveTermsMsg()})
	}

	// Entries unchanged for one and a half heartbeats are at the front of the table's list.
	var wants []want
	for e := c.table.list.next; e != &c.table.list && c.table.now-e.changedAt > c.cfg.Heartbeat*3/2; e = e.next {
		if e.row.State == Up {
			wants = append(wants, want{e.row.Key, e.row.Seq, 0})
		}
	}
	// A different range each time: otherwise dead workers could hide the remaining rows.
	if n := len(wants) - maxWants; n > 0 {
		from := c.rand.IntN(n + 1)
		wants = wants[from : from+maxWants]
	}
	return c.askForRows(member, wants, out)
}

// want asks for a row newer than seq, and for parts of the row in any case.
type want struct {
	key   Key
	seq   uint64
	parts parts
}

// askForRows requests at most maxWants rows.
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

// A message between frontends begins with its kind and the sender's name. Numbers are never reused.
const (
	msgPush    = iota + 1 // rows that the sender heard from workers
	msgRows               // rows requested by the receiver
	msgWant               // rows that the sender requests
	msgSums               // sums of the sender's buckets
	msgIndex              // the sender's rows in the buckets that differ
	msgHave               // revision and digest of the sender's terms
	msgTerms              // the terms
	msgNeeds              // the sender's needs by tenant
	msgLessons            // the sender's lessons
)

func (c *Core) msgHeader(kind byte) []byte { return appendString([]byte{kind}, c.self.Name) }

// Receive takes a message from another frontend and appends the answers to out. An error says that the message
// could not be read to its end; Receive keeps everything read before the error.
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
		case msgLessons:
			c.takeLessons(&rd)
		case 0: // no sender writes kind 0
			rd.fail(errRange)
		default:
			c.Stats.Skipped++
		}
	}
	if rd.err != nil {
		c.Stats.Garbage++
		return out, fmt.Errorf("gossip: message %d from %q: %w", kind, from, rd.err)
	}
	return out, nil
}

// takeRows merges rows of a msgPush or a msgRows.
func (c *Core) takeRows(rd *reader, pushed bool) {
	var r Row
	for len(rd.buf) > 0 {
		rd.readRow(&r)
		if rd.err != nil {
			return
		}
		e, o := c.table.mergeRow(&r)
		if pushed {
			c.Stats.Received++
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

// answerSums answers a msgSums with an index of the buckets that differ.
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
	out = c.answerLessons(rd, to, out)
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

// answerIndex answers a msgIndex: it asks for rows and parts that the sender has and the table does not.
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

// parcel holds items to send together, in one or several messages.
type parcel struct {
	buf  []byte
	ends []int // end of each item in buf
}

func (p *parcel) endItem() { p.ends = append(p.ends, len(p.buf)) }

// addRow adds a row. If the row is longer than maxSize, addRow drops the Files, then the Profile.
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

// appendSends appends the messages to out: datagrams, or a single stream if stream is set and the datagrams would
// be too many or too long.
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
