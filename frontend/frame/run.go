package frame

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/cloudwego/gopkg/protocol/thrift"

	"github.com/phoebe-sched/phoebe/idl/gen/phoebe/v1"
)

// Buffered is a connection's reader.
type Buffered interface {
	Peeker
	Skip(n int) error
	Release(error) error
}

// AppendCall appends the frame of a call to b. b must be empty.
func AppendCall(b []byte, method string, seq int32, req thrift.FastCodec) []byte {
	b = thrift.Binary.AppendMessageBegin(append(b, make([]byte, prefixSize)...), method, thrift.CALL, seq)
	b = thrift.Binary.AppendFieldBegin(b, thrift.STRUCT, 1)
	b = appendStruct(b, req)
	return endFrame(append(b, byte(thrift.STOP)))
}

// ReadAnswer reads the answer to a call into the result of the method. An error is a *thrift.ApplicationException,
// which any Thrift server may throw, or a broken connection. After an error the connection may not be used again: a
// server closes the connection after some exceptions. most bounds the bytes of an answer.
func ReadAnswer(in Buffered, method string, seq int32, most int, result thrift.FastCodec) error {
	h, b, err := PeekAnswer(in, most)
	if err != nil {
		return err
	}
	if string(h.Method) != method || h.Seq != seq {
		return fmt.Errorf("read an answer: it answers call %d of %q, not call %d of %s", h.Seq, h.Method, seq, method)
	}
	var thrown *thrift.ApplicationException
	switch h.Type {
	case thrift.REPLY:
		err = h.Decode(b, result)
	case thrift.EXCEPTION:
		thrown, err = readException(b[h.argsStart:h.Size])
	default:
		err = fmt.Errorf("its type is %d", h.Type)
	}
	if err != nil {
		return fmt.Errorf("decode an answer: %w", err)
	}
	in.Skip(h.Size)
	in.Release(nil)
	if thrown != nil {
		return thrown
	}
	return nil
}

// RunAnswer is the frame that answers a Run. Outcomes are encoded as they come. They take much less memory than as
// structs, and cost the garbage collector nothing.
type RunAnswer struct {
	b          []byte
	seqAt      int // offset of the call's number
	outcomesAt int // offset of the outcomes, behind their number
	count      int // outcomes
	handedOut  bool
}

// outcomeSize is about the size of an outcome without its result, in bytes.
const outcomeSize = 100

// NewRunAnswer begins the answer to a job. tasks is the job's number of tasks.
func NewRunAnswer(h *v1.Handle, tasks int) *RunAnswer {
	a := &RunAnswer{}
	b := make([]byte, prefixSize, 128+outcomeSize*min(tasks, 1000))
	b = thrift.Binary.AppendMessageBegin(b, "Run", thrift.REPLY, 0)
	a.seqAt = len(b) - 4
	b = thrift.Binary.AppendFieldBegin(b, thrift.STRUCT, 0) // the returned value
	b = thrift.Binary.AppendFieldBegin(b, thrift.STRUCT, 1)
	b = appendStruct(b, h)
	b = thrift.Binary.AppendFieldBegin(b, thrift.LIST, 2)
	b = thrift.Binary.AppendListBegin(b, thrift.STRUCT, 0)
	a.b, a.outcomesAt = b, len(b)
	return a
}

// Add adds an outcome.
func (a *RunAnswer) Add(o *v1.Outcome) {
	a.b = appendStruct(a.b, o)
	a.count++
}

// Len returns the size of the answer in bytes.
func (a *RunAnswer) Len() int { return len(a.b) }

// Outcomes decodes the outcomes added so far.
func (a *RunAnswer) Outcomes() []*v1.Outcome {
	list := make([]*v1.Outcome, a.count)
	at := a.outcomesAt
	for i := range list {
		list[i] = v1.NewOutcome()
		n, err := list[i].FastRead(a.b[at:])
		if err != nil {
			panic(err) // the frame is phoebe's own
		}
		at += n
	}
	return list
}

// End completes the frame. No outcome may be added afterwards.
func (a *RunAnswer) End() {
	a.b = endFrame(append(a.b, byte(thrift.STOP), byte(thrift.STOP)))
	binary.BigEndian.PutUint32(a.b[a.outcomesAt-4:], uint32(a.count))
}

// FrameFor returns the complete frame for the call with number seq. The caller must not change the frame.
func (a *RunAnswer) FrameFor(seq int32) []byte {
	b := a.b
	if a.handedOut { // the first frame may still be written
		b = slices.Clone(b)
	}
	a.handedOut = true
	binary.BigEndian.PutUint32(b[a.seqAt:], uint32(seq))
	return b
}

// readException decodes an exception. thrift.ApplicationException cannot do so: to skip a field that is not known, the
// library (cloudwego/gopkg 0.2.0) measures the first field again, and then reads past the end.
func readException(b []byte) (*thrift.ApplicationException, error) {
	var message string
	var kind int32
	for {
		tp, id, n, err := thrift.Binary.ReadFieldBegin(b)
		if err != nil {
			return nil, err
		}
		if b = b[n:]; tp == thrift.STOP {
			return thrift.NewApplicationException(kind, message), nil
		}
		switch {
		case id == 1 && tp == thrift.STRING:
			message, n, err = thrift.Binary.ReadString(b)
		case id == 2 && tp == thrift.I32:
			kind, n, err = thrift.Binary.ReadI32(b)
		default:
			n, err = thrift.Binary.Skip(b, tp)
		}
		if err != nil {
			return nil, err
		}
		b = b[n:]
	}
}
