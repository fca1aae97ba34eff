package serve

import (
	"errors"
	"fmt"

	"github.com/phoebe-sched/phoebe/probe"
)

// greeting is the first message of both ends: the sniff header, the version, no compression (fastrpc's 1), no
// TLS.
var greeting = []byte(probe.SniffHeader + string([]byte{probe.ProtocolVersion, 1, 0}))

var (
	errNotPhoebe  = errors.New("the peer does not speak phoebe's protocol")
	errProtocol   = fmt.Errorf("the peer does not speak version %d of phoebe's protocol", probe.ProtocolVersion)
	errCompressed = errors.New("the peer compresses, which is not supported: set fastrpc's CompressNone")
	errTLS        = errors.New("the peer wants TLS, which this port does not speak")
)

// parser cuts the received bytes of a connection into frame bodies, however the bytes were split on the way. The
// zero parser expects the greeting. For an incomplete frame it holds at most twice the memory of the received
// part.
type parser struct {
	greeted  bool
	head     []byte // an incomplete greeting or header
	body     []byte // an incomplete body
	bodySize int    // length of the body after a complete header; 0: no header
}

// takeGreeting takes the greeting off data. After errNotPhoebe the peer deserves no answer. After another error
// the peer gets an answer once greeted is set.
func (p *parser) takeGreeting(data []byte) (rest []byte, err error) {
	n := min(len(greeting)-len(p.head), len(data))
	p.head, rest = append(p.head, data[:n]...), data[n:]
	sniff := min(len(p.head), len(probe.SniffHeader))
	if string(p.head[:sniff]) != probe.SniffHeader[:sniff] {
		return rest, errNotPhoebe
	}
	if len(p.head) < len(greeting) {
		return rest, nil
	}
	asked := p.head[sniff:]
	p.head, p.greeted = nil, true
	switch {
	case asked[0] != probe.ProtocolVersion:
		return rest, errProtocol
	case asked[2] != 0:
		return rest, errTLS
	case asked[1] != 1:
		return rest, errCompressed
	}
	return rest, nil
}

// nextFrame takes a frame off data, together with earlier bytes. A nil body means that data is used up. The
// caller may keep the body. A body longer than limit, or too short for an epoch, is an error as soon as the
// header is complete.
func (p *parser) nextFrame(data []byte, limit int) (body, rest []byte, err error) {
	if p.bodySize == 0 {
		header := data
		if len(p.head) > 0 || len(data) < probe.PushHeader {
			n := min(probe.PushHeader-len(p.head), len(data))
			p.head, data = append(p.head, data[:n]...), data[n:]
			header = p.head
			if len(header) < probe.PushHeader {
				return nil, nil, nil
			}
		} else {
			data = data[probe.PushHeader:]
		}
		// The request id before the length is ignored: nobody waits for an answer with this id.
		if p.bodySize, err = probe.BodySize(header[probe.PushHeader-probe.FrameHeader:], limit); err != nil {
			return nil, nil, err
		}
		p.head = p.head[:0]
	}
	n := min(p.bodySize-len(p.body), len(data))
	if need := len(p.body) + n; need > cap(p.body) {
		p.body = append(make([]byte, 0, min(p.bodySize, max(need, 2*cap(p.body)))), p.body...)
	}
	p.body = append(p.body, data[:n]...)
	if len(p.body) < p.bodySize {
		return nil, nil, nil
	}
	body, p.body, p.bodySize = p.body, nil, 0
	return body, data[n:], nil
}
