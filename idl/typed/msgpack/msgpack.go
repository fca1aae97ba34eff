// Package msgpack is a codec of typed functions in the format MessagePack:
//
//	var Area = typed.Func[Resize, Size]{Name: "area", Codec: msgpack.Codec}
//
// Fields keep their Go names, or take the name of a tag such as `codec:"width"`.
package msgpack

import (
	"github.com/hashicorp/go-msgpack/v2/codec"

	"github.com/phoebe-sched/phoebe/idl/typed"
)

// Codec encodes any Go value. No bytes stand for the zero value.
var Codec typed.Codec = msgpackCodec{}

type msgpackCodec struct{}

// handle follows the present format, which tells strings from bytes.
var handle = func() *codec.MsgpackHandle {
	h := &codec.MsgpackHandle{WriteExt: true}
	h.RawToString = true
	return h
}()

func (msgpackCodec) Marshal(v any) (data []byte, err error) {
	err = codec.NewEncoderBytes(&data, handle).Encode(v)
	return data, err
}

func (msgpackCodec) Unmarshal(data []byte, v any) error {
	if len(data) == 0 {
		return nil
	}
	return codec.NewDecoderBytes(data, handle).Decode(v)
}
