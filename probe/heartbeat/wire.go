// Package heartbeat carries heartbeats from workers to frontends, and answers back. The frontend runs fastrpc's
// server; the worker has a connection that speaks the same format. Package rows defines the content.
//
// Requests and answers are frames: a length (4 bytes, little-endian) and a body. The body of a request is a
// rows.Heartbeat. The body of an answer is a kind byte, then a rows.Answer or the reason for a refusal.
package heartbeat

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"slices"
)

// Both ends tell fastrpc to begin a connection with this header.
const (
	sniffHeader     = "phoebe-heartbeat"
	protocolVersion = 1
)

// greeting is the first message of each end: the sniff header, the version, no compression (fastrpc's 1), no TLS.
var greeting = []byte(sniffHeader + string([]byte{protocolVersion, 1, 0}))

const (
	maxRequest = 128 << 10 // bytes of a heartbeat: a good heartbeat has some 20 KiB at most
	maxAnswer  = 4 << 20   // bytes of an answer, which may name thousands of frontends
	keptBuffer = 16 << 10  // bytes: larger buffers are not kept for reuse
)

// Kinds of answers. Numbers are never reused.
const (
	kindAnswered = iota + 1
	kindRefused
)

// readBody appends a frame's body to b. b grows to at most twice the received bytes, whatever length the frame
// claims.
func readBody(br *bufio.Reader, b []byte, limit int) ([]byte, error) {
	var head [4]byte
	if _, err := io.ReadFull(br, head[:]); err != nil {
		return b, err
	}
	size := binary.LittleEndian.Uint32(head[:])
	if uint64(size) > uint64(limit) {
		return b, fmt.Errorf("heartbeat: a frame of %d bytes is over the limit of %d", size, limit)
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

// appendBody appends a frame. body appends the frame's body.
func appendBody(b []byte, body func([]byte) []byte) []byte {
	at := len(b)
	b = body(append(b, 0, 0, 0, 0))
	binary.LittleEndian.PutUint32(b[at:], uint32(len(b)-at-4))
	return b
}
