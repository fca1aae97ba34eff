package rows

import (
	"encoding/binary"
	"fmt"
	"time"

	"github.com/phoebe-sched/phoebe/probe"
)

// maxMembers bounds the frontends named in an Answer.
const maxMembers = 4096

// Heartbeat goes from a worker to its homes, every second and after great changes. A full heartbeat has a Profile
// in its row: the first heartbeat to a frontend, the first after a change, and any that Answer.Full asks for.
type Heartbeat struct {
	Speaks  probe.Dialect
	Secret  string // as in Hello
	Members uint64 // version of the worker's list of frontends; 0: no list
	Row     Row
}

// Answer is a frontend's answer to a Heartbeat.
type Answer struct {
	Seq         uint64   // of the answered row
	Full        bool     // the next heartbeat must be full, and may follow at once
	Incarnation uint64   // not 0: a newer run under the worker's name, so this run does not count
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

// ReadHeartbeat reads b into h, and ignores bytes appended by a newer release.
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

// ReadAnswer reads b into a, and ignores bytes appended by a newer release.
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

// errorFor returns the reader's problem, if any, with the name of the message.
func (rd *reader) errorFor(message string) error {
	if rd.err != nil {
		return fmt.Errorf("gossip: %s: %w", message, rd.err)
	}
	return nil
}

// Heartbeat takes a worker's heartbeat. The caller has checked its secret. The Members of the answer are shared:
// nobody may write to them.
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
