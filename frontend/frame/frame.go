// Package frame looks at messages of the API before Kitex does. The beginning of a message holds its length and its
// caller. The weight of a message is the memory that decoding takes. Kitex and its generated code make room for
// anything that a message claims to hold. Kitex also accepts several protocols; the API uses only framed transport
// with the strict binary protocol.
package frame

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/cloudwego/gopkg/protocol/thrift"

	"github.com/phoebe-sched/phoebe/idl/gen/phoebe/v1"
)

const (
	prefixSize = 4  // bytes at the start of a frame that hold the length of the rest
	maxMethod  = 64 // bytes of a method's name
	// maxHead bounds the bytes in which ReadHead looks for the secret.
	maxHead = 8 << 10
)

// Head is the beginning of a frame. Its slices alias the peeked bytes.
type Head struct {
	Size   int // of the whole frame
	Type   thrift.TMessageType
	Method []byte
	Seq    int32
	// Secret is the caller's secret, if the frame is a call. Before the secret, the request and the caller may hold
	// only numbers and truth values. Generated code writes such frames: fields in the order of ids, or fields of a
	// fixed size first.
	Secret    []byte
	argsStart int // offset of the arguments
}

// Peeker shows the first n bytes of a frame as soon as they have arrived.
type Peeker interface {
	Peek(n int) ([]byte, error)
}

// ReadHead reads the beginning of a frame. It peeks no further than necessary to find the secret.
func ReadHead(in Peeker) (h Head, err error) {
	b, err := in.Peek(prefixSize + 4 + 4)
	if err != nil {
		return h, err
	}
	size, version, name := binary.BigEndian.Uint32(b), binary.BigEndian.Uint32(b[4:]), binary.BigEndian.Uint32(b[8:])
	if version&0xffff0000 != 0x80010000 || name > maxMethod {
		return h, ErrMalformed
	}
	h.Size, h.Type = prefixSize+int(size), thrift.TMessageType(version&0xff)
	h.argsStart = len(b) + int(name) + 4
	if h.argsStart > h.Size {
		return h, ErrMalformed
	}
	if b, err = in.Peek(h.argsStart); err != nil {
		return h, err
	}
	h.Method, h.Seq = b[12:h.argsStart-4], int32(binary.BigEndian.Uint32(b[h.argsStart-4:]))
	if h.Type == thrift.CALL {
		h.Secret, err = h.findSecret(in)
	}
	return h, err
}

// secretPath leads to the secret, by the types of the fields: the request, the caller, the secret. Each field has
// the id 1.
var secretPath = [...]thrift.TType{thrift.STRUCT, thrift.STRUCT, thrift.STRING}

// findSecret returns the caller's secret, or nil if the expected place holds none.
func (h *Head) findSecret(in Peeker) ([]byte, error) {
	const fieldHead, lengthSize = 3, 4
	at, limit := h.argsStart, min(h.Size, maxHead)
	for depth := 0; depth < len(secretPath); {
		if at += fieldHead; at > limit {
			return nil, nil
		}
		b, err := in.Peek(at)
		if err != nil {
			return nil, err
		}
		wire, id := thrift.TType(b[at-fieldHead]), binary.BigEndian.Uint16(b[at-2:])
		if id == 1 && wire == secretPath[depth] {
			depth++
		} else if n := fixedSize(wire); n > 0 {
			at += n
		} else {
			return nil, nil
		}
	}
	if at += lengthSize; at > limit {
		return nil, nil
	}
	b, err := in.Peek(at)
	if err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(b[at-lengthSize:])
	if n > uint32(limit-at) {
		return nil, nil
	}
	b, err = in.Peek(at + int(n))
	if err != nil {
		return nil, err
	}
	return b[at:], nil
}

// shapes holds the shapes of each method's arguments and results.
var shapes = map[string]struct{ args, result *Shape }{
	"Run":         {ShapeOf((*v1.PhoebeRunArgs)(nil)), ShapeOf((*v1.PhoebeRunResult)(nil))},
	"Submit":      {ShapeOf((*v1.PhoebeSubmitArgs)(nil)), ShapeOf((*v1.PhoebeSubmitResult)(nil))},
	"Events":      {ShapeOf((*v1.PhoebeEventsArgs)(nil)), ShapeOf((*v1.PhoebeEventsResult)(nil))},
	"Cancel":      {ShapeOf((*v1.PhoebeCancelArgs)(nil)), ShapeOf((*v1.PhoebeCancelResult)(nil))},
	"CancelTasks": {ShapeOf((*v1.PhoebeCancelTasksArgs)(nil)), ShapeOf((*v1.PhoebeCancelTasksResult)(nil))},
	"Extend":      {ShapeOf((*v1.PhoebeExtendArgs)(nil)), ShapeOf((*v1.PhoebeExtendResult)(nil))},
	"Explain":     {ShapeOf((*v1.PhoebeExplainArgs)(nil)), ShapeOf((*v1.PhoebeExplainResult)(nil))},
	"Cluster":     {ShapeOf((*v1.PhoebeClusterArgs)(nil)), ShapeOf((*v1.PhoebeClusterResult)(nil))},
	"Watch":       {ShapeOf((*v1.PhoebeWatchArgs)(nil)), ShapeOf((*v1.PhoebeWatchResult)(nil))},
	"Jobs":        {ShapeOf((*v1.PhoebeJobsArgs)(nil)), ShapeOf((*v1.PhoebeJobsResult)(nil))},
	"Trace":       {ShapeOf((*v1.PhoebeTraceArgs)(nil)), ShapeOf((*v1.PhoebeTraceResult)(nil))},
	"Recordings":  {ShapeOf((*v1.PhoebeRecordingsArgs)(nil)), ShapeOf((*v1.PhoebeRecordingsResult)(nil))},
	"Recording":   {ShapeOf((*v1.PhoebeRecordingArgs)(nil)), ShapeOf((*v1.PhoebeRecordingResult)(nil))},
	"Leave":       {ShapeOf((*v1.PhoebeLeaveArgs)(nil)), ShapeOf((*v1.PhoebeLeaveResult)(nil))},
	"Locate":      {ShapeOf((*v1.PhoebeLocateArgs)(nil)), ShapeOf((*v1.PhoebeLocateResult)(nil))},
	"ReadFile":    {ShapeOf((*v1.PhoebeReadFileArgs)(nil)), ShapeOf((*v1.PhoebeReadFileResult)(nil))},
}

// Weigh returns the number of bytes that decoding the whole frame b would allocate. h is the beginning of b. The
// arguments of a method unknown to the API weigh nothing.
func (h *Head) Weigh(b []byte, most int) (int, error) {
	var s *Shape
	switch h.Type {
	case thrift.CALL:
		s = shapes[string(h.Method)].args
	case thrift.REPLY:
		s = shapes[string(h.Method)].result
	}
	if s == nil {
		s = &Shape{}
	}
	return s.Weigh(b[h.argsStart:h.Size], most)
}

// Decode decodes the arguments of the whole frame b into args. h is the beginning of b. args shares no memory with
// b.
func (h *Head) Decode(b []byte, args thrift.FastCodec) error {
	_, err := args.FastRead(b[h.argsStart:h.Size])
	return err
}

// Refusal returns the frame that answers the call by throwing r. In the results of every method of the API, Refused
// is the exception with field id 1.
func (h *Head) Refusal(r *v1.Refused) []byte {
	b := thrift.Binary.AppendMessageBegin(make([]byte, prefixSize), string(h.Method), thrift.REPLY, h.Seq)
	b = thrift.Binary.AppendFieldBegin(b, thrift.STRUCT, 1)
	b = appendStruct(b, r)
	b = append(b, byte(thrift.STOP))
	return endFrame(b)
}

// endFrame completes a frame: it sets the length.
func endFrame(b []byte) []byte {
	binary.BigEndian.PutUint32(b, uint32(len(b)-prefixSize))
	return b
}

// appendStruct appends the encoded struct to b.
func appendStruct(b []byte, s thrift.FastCodec) []byte {
	n, size := len(b), s.BLength()
	b = slices.Grow(b, size)[:n+size]
	s.FastWriteNocopy(b[n:], nil)
	return b
}

// readError is an error of the connection while an answer is read. Type readError implements net.Error, because Kitex
// tells a timeout only by the error's own type. Kitex logs the other errors of calls that have ended.
type readError struct{ cause error }

func (e *readError) Error() string   { return "read an answer: " + e.cause.Error() }
func (e *readError) Unwrap() error   { return e.cause }
func (e *readError) Timeout() bool   { return errors.Is(e.cause, os.ErrDeadlineExceeded) }
func (e *readError) Temporary() bool { return false }

// PeekAnswer peeks at the whole of an answer. It refuses an answer of more than most bytes, or of more than four
// times as many bytes once decoded.
func PeekAnswer(in Peeker, most int) (h Head, b []byte, err error) {
	if h, err = ReadHead(in); err != nil {
		return h, nil, &readError{err}
	}
	if h.Size > most {
		return h, nil, fmt.Errorf("read an answer: %d bytes exceed the limit of %d", h.Size, most)
	}
	if b, err = in.Peek(h.Size); err != nil {
		return h, nil, &readError{err}
	}
	if _, err := h.Weigh(b, 4*most); err != nil {
		return h, nil, fmt.Errorf("decode an answer: %w", err)
	}
	return h, b, nil
}
