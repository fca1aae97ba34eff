package heartbeat

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"github.com/phoebe-sched/phoebe/probe/gossip/rows"
	"github.com/phoebe-sched/phoebe/probe/identity"
)

// RefusedError is a frontend's refusal of a heartbeat.
type RefusedError struct{ Reason string }

func (e *RefusedError) Error() string { return "refused: " + e.Reason }

var errNotHeartbeats = errors.New(
	"the peer does not answer like the heartbeat address of a frontend: give that address, and no other")

var errNoAnswer = errors.New("the peer closed the connection without an answer: it has no room for another " +
	"connection or is about to end, or the address is no heartbeat address of a frontend")

// Conn is a worker's connection to a frontend. One goroutine at a time may use a Conn, but any goroutine may close
// it. After an error the Conn must be closed.
type Conn struct {
	net.Conn
	br  *bufio.Reader
	id  uint32
	buf []byte
}

// Dial connects to the heartbeat address of a frontend.
func Dial(ctx context.Context, addr string, keys *identity.Keys) (*Conn, error) {
	var d net.Dialer
	raw, err := keys.Connect(ctx, d.DialContext, addr, identity.Frontend)
	if err != nil {
		return nil, err
	}
	return &Conn{Conn: raw}, nil
}

// greetServer exchanges greetings, before the first heartbeat.
func (c *Conn) greetServer() error {
	if _, err := c.Write(greeting); err != nil {
		return err
	}
	c.br = bufio.NewReaderSize(c, bufferSize)
	answer := make([]byte, len(greeting))
	switch n, err := io.ReadFull(c.br, answer); {
	case errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, net.ErrClosed):
		return err
	case err != nil && n == 0:
		return errNoAnswer
	case err != nil || string(answer) != string(greeting):
		return errNotHeartbeats
	}
	return nil
}

// Beat sends h and waits for the answer, until the deadline. If the frontend refuses h, the error is a
// *RefusedError.
func (c *Conn) Beat(deadline time.Time, h *rows.Heartbeat, a *rows.Answer) error {
	if err := c.SetDeadline(deadline); err != nil {
		return err
	}
	if c.br == nil {
		if err := c.greetServer(); err != nil {
			return err
		}
	}
	c.id = max(c.id+1, 1) // id 0 would ask for no answer
	c.buf = binary.LittleEndian.AppendUint32(c.buf[:0], c.id)
	c.buf = appendBody(c.buf, func(b []byte) []byte { return rows.AppendHeartbeat(b, h) })
	if _, err := c.Write(c.buf); err != nil {
		return err
	}
	var id [4]byte
	if _, err := io.ReadFull(c.br, id[:]); err != nil {
		return err
	}
	body, err := readBody(c.br, c.buf[:0], maxAnswer)
	switch c.buf = body; {
	case err != nil:
		return err
	case binary.LittleEndian.Uint32(id[:]) != c.id || len(body) == 0:
		return errNotHeartbeats
	}
	switch body[0] {
	case kindAnswered:
		err = rows.ReadAnswer(body[1:], a)
	case kindRefused:
		err = &RefusedError{Reason: string(body[1:])}
	default:
		err = fmt.Errorf("heartbeat: answer of an unknown kind %d: upgrade this worker", body[0])
	}
	if cap(c.buf) > keptBuffer {
		c.buf = nil
	}
	return err
}
