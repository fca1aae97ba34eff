package serve

import (
	"context"

	"github.com/cloudwego/kitex/pkg/remote"
	"github.com/cloudwego/kitex/pkg/remote/codec"

	"github.com/phoebe-sched/phoebe/frontend/frame"
)

// newAnswerCodec returns Kitex's codec for the calls of peers. A frontend takes answers of up to most bytes, and of four times as many
// bytes once decoded.
func newAnswerCodec(most int) remote.Codec {
	return &answerCodec{codec.NewDefaultCodecWithConfig(codec.CodecConfig{MaxSize: most}), most}
}

// answerCodec checks the size of an answer before Kitex decodes it.
type answerCodec struct {
	remote.Codec
	maxAnswer int
}

// Decode implements remote.Codec.
func (c *answerCodec) Decode(ctx context.Context, msg remote.Message, in remote.ByteBuffer) error {
	if _, _, err := frame.PeekAnswer(in, c.maxAnswer); err != nil {
		return err
	}
	return c.Codec.Decode(ctx, msg, in)
}
