package frame

import (
	"encoding/binary"
	"slices"

	"github.com/cloudwego/gopkg/protocol/thrift"

	"github.com/phoebe-sched/phoebe/idl/gen/phoebe/v1"
)

// RunAnswer is the frame that answers a Run, made as the outcomes come: they take much less memory so than as structs, and
// are none of the garbage collector's business.
type RunAnswer struct {
	b     []byte
	seq   int // where the number of the call stands
	first int // where the outcomes begin, after their number
	n     int // outcomes
	taken bool
}

// outcomeSize is how many bytes an outcome takes, more or less, besides its result.
const outcomeSize = 100

// NewRunAnswer begins the answer to a job of so many tasks.
func NewRunAnswer(h *v1.Handle, tasks int) *RunAnswer {
	a := &RunAnswer{}
	b := make([]byte, prefix, 128+outcomeSize*min(tasks, 1000))
	b = thrift.Binary.AppendMessageBegin(b, "Run", thrift.REPLY, 0)
	a.seq = len(b) - 4
	b = thrift.Binary.AppendFieldBegin(b, thrift.STRUCT, 0) // what it returns
	b = thrift.Binary.AppendFieldBegin(b, thrift.STRUCT, 1)
	b = appendStruct(b, h)
	b = thrift.Binary.AppendFieldBegin(b, thrift.LIST, 2)
	b = thrift.Binary.AppendListBegin(b, thrift.STRUCT, 0)
	a.b, a.first = b, len(b)
	return a
}

// Add adds an outcome.
func (a *RunAnswer) Add(o *v1.Outcome) {
	a.b = appendStruct(a.b, o)
	a.n++
}

// Len is how many bytes it has.
func (a *RunAnswer) Len() int { return len(a.b) }

// Outcomes decodes those that were added.
func (a *RunAnswer) Outcomes() []*v1.Outcome {
	list := make([]*v1.Outcome, a.n)
	at := a.first
	for i := range list {
		list[i] = v1.NewOutcome()
		n, err := list[i].FastRead(a.b[at:])
		if err != nil {
			panic(err) // we wrote it
		}
		at += n
	}
	return list
}

// End completes the frame: nothing may be added.
func (a *RunAnswer) End() {
	a.b = end(append(a.b, byte(thrift.STOP), byte(thrift.STOP)))
	binary.BigEndian.PutUint32(a.b[a.first-4:], uint32(a.n))
}

// To is the complete frame for the call with this number. Nobody may write to it.
func (a *RunAnswer) To(seq int32) []byte {
	b := a.b
	if a.taken { // and perhaps being written
		b = slices.Clone(b)
	}
	a.taken = true
	binary.BigEndian.PutUint32(b[a.seq:], uint32(seq))
	return b
}
