// Package frame looks at the messages of the API before Kitex does: at their beginning, which says how long they are
// and who calls, and at their weight, which is the memory that decoding them takes. Kitex and what it generates make
// room for whatever a message claims to hold, and tell several protocols apart of which the API is one: framed
// transport, strict binary protocol.
package frame

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/cloudwego/gopkg/protocol/thrift"
	"github.com/cloudwego/kitex/pkg/remote"
	"github.com/cloudwego/kitex/pkg/remote/codec"

	"github.com/phoebe-sched/phoebe/idl/gen/phoebe/v1"
	"github.com/phoebe-sched/phoebe/idl/gen/phoebe/v1/phoebe"
)

const (
	prefixSize = 4  // bytes of a frame that tell how many follow
	maxMethod  = 64 // bytes of a method's name
	// maxHead is how much of a frame ReadHead looks at in search of the secret.
	maxHead = 8 << 10
)

// Head is the beginning of a frame. Its slices are part of what was peeked.
type Head struct {
	Size   int // of the whole frame
	Type   thrift.TMessageType
	Method []byte
	Seq    int32
	// Secret is the caller's, of a call. In the caller and in the request only numbers and truth values may come before
	// it: generated code writes fields in the order of their ids, or those of a fixed size first.
	Secret    []byte
	argsStart int // where they begin
}

// Peeker shows the first n bytes of a frame as soon as they are there.
type Peeker interface {
	Peek(n int) ([]byte, error)
}

// ReadHead reads the beginning of a frame, but no more of it than it has to in order to find the secret.
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

// secretPath leads to the secret, by the types of the fields, each of which has the id 1: the request, its caller, the secret.
var secretPath = [...]thrift.TType{thrift.STRUCT, thrift.STRUCT, thrift.STRING}

// findSecret finds the caller's secret; nil if there is none where it should be.
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

// argShapes and results are the shapes of each method's.
var argShapes, resultShapes = map[string]*Shape{}, map[string]*Shape{}

func init() {
	for name, m := range phoebe.NewServiceInfo().Methods {
		argShapes[name], resultShapes[name] = ShapeOf(m.NewArgs()), ShapeOf(m.NewResult())
	}
}

// Weigh is how many bytes decoding the whole frame b, which h is the beginning of, would allocate. Of a method that the
// API does not have that is nothing.
func (h *Head) Weigh(b []byte, most int) (int, error) {
	var s *Shape
	switch h.Type {
	case thrift.CALL:
		s = argShapes[string(h.Method)]
	case thrift.REPLY:
		s = resultShapes[string(h.Method)]
	}
	if s == nil {
		s = &Shape{}
	}
	return s.Weigh(b[h.argsStart:h.Size], most)
}

// Decode decodes the arguments of the whole frame b, which h is the beginning of, into args. They share nothing with b.
func (h *Head) Decode(b []byte, args thrift.FastCodec) error {
	_, err := args.FastRead(b[h.argsStart:h.Size])
	return err
}

// Refusal is the frame that answers the call: every method of the API throws r, as its first exception.
func (h *Head) Refusal(r *v1.Refused) []byte {
	b := thrift.Binary.AppendMessageBegin(make([]byte, prefixSize), string(h.Method), thrift.REPLY, h.Seq)
	b = thrift.Binary.AppendFieldBegin(b, thrift.STRUCT, 1)
	b = appendStruct(b, r)
	b = append(b, byte(thrift.STOP))
	return endFrame(b)
}

// endFrame completes a frame: it says how long it is.
func endFrame(b []byte) []byte {
	binary.BigEndian.PutUint32(b, uint32(len(b)-prefixSize))
	return b
}

func appendStruct(b []byte, s thrift.FastCodec) []byte {
	n, size := len(b), s.BLength()
	b = slices.Grow(b, size)[:n+size]
	s.FastWriteNocopy(b[n:], nil)
	return b
}

// Codec is Kitex's for a client that takes answers of at most so many bytes, and of four times as many once they are
// decoded.
func Codec(most int) remote.Codec {
	return &answerCodec{codec.NewDefaultCodecWithConfig(codec.CodecConfig{MaxSize: most}), most}
}

type answerCodec struct {
	remote.Codec
	maxAnswer int
}

// Decode implements remote.Codec.
func (c *answerCodec) Decode(ctx context.Context, msg remote.Message, in remote.ByteBuffer) error {
	if _, _, err := readAnswer(in, c.maxAnswer); err != nil {
		return err
	}
	return c.Codec.Decode(ctx, msg, in)
}

// readAnswer peeks at all of an answer of at most so many bytes, and of four times as many once it is decoded.
func readAnswer(in Peeker, most int) (h Head, b []byte, err error) {
	if h, err = ReadHead(in); err != nil {
		return h, nil, fmt.Errorf("read an answer: %w", err)
	}
	if h.Size > most {
		return h, nil, fmt.Errorf("read an answer: it has %d bytes, the limit is %d", h.Size, most)
	}
	if b, err = in.Peek(h.Size); err != nil {
		return h, nil, fmt.Errorf("read an answer: %w", err)
	}
	if _, err := h.Weigh(b, 4*most); err != nil {
		return h, nil, fmt.Errorf("decode an answer: %w", err)
	}
	return h, b, nil
}
