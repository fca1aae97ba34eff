// Package heartbeat carries workers' heartbeats to frontends, and the answers: fastrpc's server at the frontend, and
// a connection that speaks its format at the worker. Package view has what they say.
//
// Requests and answers are framed by a length (4 bytes, little-endian). The body of a request is a view.Heartbeat,
// that of an answer a byte that says what follows: a view.Answer, or a text why the heartbeat was refused.
package heartbeat

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"slices"
)

// What both ends tell fastrpc to begin a connection with.
const (
	sniffHeader     = "phoebe-heartbeat"
	protocolVersion = 1
)

// greeting is how each end begins: the sniff header, the version, no compression (fastrpc's 1), no TLS.
var greeting = []byte(sniffHeader + string([]byte{protocolVersion, 1, 0}))

const (
	maxRequest = 128 << 10 // bytes of a heartbeat: a good one has some 20 KiB at most
	maxAnswer  = 4 << 20   // of an answer, which may name thousands of frontends
	keptBuffer = 16 << 10  // the largest buffer that is kept for reuse
)

// Kinds of answers. Numbers are never reused.
const (
	kindAnswered = iota + 1
	kindRefused
)

// readBody appends a frame's body to b, which takes no more memory than twice what has arrived.
func readBody(br *bufio.Reader, b []byte, limit int) ([]byte, error) {
	var head [4]byte
	if _, err := io.ReadFull(br, head[:]); err != nil {
		return b, err
	}
	size := binary.LittleEndian.Uint32(head[:])
	if uint64(size) > uint64(limit) {
		return b, fmt.Errorf("heartbeat: a frame of %d bytes, of %d at most", size, limit)
	}
	for n := int(size); len(b) < n; {
		if len(b) == cap(b) {
			b = slices.Grow(b, min(n-len(b), max(len(b), 512)))
		}
		got, err := io.ReadFull(br, b[len(b):min(n, cap(b))])
		if b = b[:len(b)+got]; err != nil {
			return b, err
		}
	}
	return b, nil
}

// appendBody appends a frame whose body is appended by body.
func appendBody(b []byte, body func([]byte) []byte) []byte {
	at := len(b)
	b = body(append(b, 0, 0, 0, 0))
	binary.LittleEndian.PutUint32(b[at:], uint32(len(b)-at-4))
	return b
}
