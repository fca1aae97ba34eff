package view

import (
	"encoding/binary"
	"fmt"
	"time"

	"github.com/phoebe-sched/phoebe/probe"
)

// maxMembers is how many frontends an Answer names at most.
const maxMembers = 4096

// Heartbeat is what a worker sends to its homes, every second or when its state changed much. With a Profile in
// the row it is a full one: the first to a frontend, one after a change, or when Answer.Full asks for it.
type Heartbeat struct {
	Speaks  probe.Dialect
	Secret  string // as in Hello
	Members uint64 // version of the list of frontends that the worker has; 0: none
	Row     Row
}

// Answer is a frontend's answer to a Heartbeat.
type Answer struct {
	Seq         uint64   // of the row that it answers
	Full        bool     // the next one must be full, and may be sent at once
	Incarnation uint64   // not 0: a newer run under the worker's name, which therefore does not count
	Version     uint64   // of the list of frontends
	Members     []Member // names and heartbeat addresses; nil if the worker has this version
}

// AppendHeartbeat appends h.
func AppendHeartbeat(b []byte, h *Heartbeat) []byte {
	b = probe.AppendDialect(b, h.Speaks)
	b = appendString(b, h.Secret)
	b = binary.LittleEndian.AppendUint64(b, h.Members)
	return AppendRow(b, &h.Row)
}

// ReadHeartbeat reads b into h; what was appended to it since is ignored.
func ReadHeartbeat(b []byte, h *Heartbeat) (err error) {
	rd := reader{}
	if h.Speaks, rd.buf, err = probe.ReadDialect(b); err != nil {
		return err
	}
	h.Secret = rd.readString(maxRawLabel)
	h.Members = rd.readUint64()
	rd.readRow(&h.Row)
	return rd.errorFor("heartbeat")
}

// AppendAnswer appends a.
func AppendAnswer(b []byte, a *Answer) []byte {
	b = binary.AppendUvarint(b, a.Seq)
	var full byte
	if a.Full {
		full = 1
	}
	b = append(b, full)
	b = binary.LittleEndian.AppendUint64(b, a.Incarnation)
	b = binary.LittleEndian.AppendUint64(b, a.Version)
	b = binary.AppendUvarint(b, uint64(len(a.Members)))
	for i := range a.Members {
		b = appendString(b, a.Members[i].Name)
		b = appendString(b, a.Members[i].Heartbeat)
	}
	return b
}

// ReadAnswer reads b into a; what was appended to it since is ignored.
func ReadAnswer(b []byte, a *Answer) error {
	rd := reader{buf: b}
	*a = Answer{Seq: rd.readUint(), Full: rd.readByte() == 1, Incarnation: rd.readUint64(), Version: rd.readUint64()}
	if n := rd.readCount(maxMembers, 2); n > 0 {
		a.Members = make([]Member, n)
		for i := range a.Members {
			a.Members[i] = Member{Name: rd.readString(MaxName), Heartbeat: rd.readString(MaxName)}
		}
	}
	return rd.errorFor("answer")
}

// errorFor is the reader's problem.
func (rd *reader) errorFor(message string) error {
	if rd.err != nil {
		return fmt.Errorf("view: %s: %w", message, rd.err)
	}
	return nil
}

// Heartbeat takes a worker's heartbeat, whose secret the caller has checked. The Members of the answer are shared
// and not to be written to.
func (c *Core) Heartbeat(now time.Time, h *Heartbeat) Answer {
	o, full := c.Hear(now, h.Row)
	a := Answer{Seq: h.Row.Seq, Full: full, Version: c.members.version}
	if o == Ended {
		a.Incarnation = c.table.byName[h.Row.Profile.Name].row.Incarnation
	}
	if h.Members != a.Version {
		a.Members = c.members.list[:min(len(c.members.list), maxMembers)]
	}
	return a
}
