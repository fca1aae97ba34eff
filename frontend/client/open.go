package client

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"slices"
	"time"

	v1 "github.com/phoebe-sched/phoebe/idl/gen/phoebe/v1"
)

// Open reads the result of a task, however large it is: one that was too large to travel comes part by part, as it is read, and is never
// in memory as a whole. It is read from the worker that made it, by way of any frontend, so that the loss of the one that had the job
// only delays it. The end of ctx ends the reading.
//
// Such a result stays in its worker's cache (--cache-size) until room is needed there for what was used later. If it is gone, or its
// worker is, reading fails with a *TaskError whose Reason is ResultLost: run the task again.
func (c *Client) Open(ctx context.Context, o Outcome) (io.ReadCloser, error) {
	switch {
	case o.Err != nil:
		return nil, o.Err
	case o.File.SHA256 == "":
		return io.NopCloser(bytes.NewReader(o.Result)), nil
	}
	r := &reader{ctx: ctx, c: c, outcome: o, sum: sha256.New()}
	r.fetchPart() // so that a file that is gone is an error here
	return r, r.err
}

// reader reads a file in a worker's cache.
type reader struct {
	ctx      context.Context
	c        *Client
	outcome  Outcome
	sum      hash.Hash // of what came
	received int64     // how much that is
	unread   []byte    // of it, what has not been read
	err      error
}

func (r *reader) Read(p []byte) (int, error) {
	if len(r.unread) == 0 && r.err == nil {
		r.fetchPart()
	}
	if len(r.unread) == 0 {
		return 0, r.err
	}
	n := copy(p, r.unread)
	r.unread = r.unread[n:]
	return n, nil
}

func (r *reader) Close() error {
	r.unread, r.err = nil, errors.New("the result was closed")
	return nil
}

// fetchPart gets the next part, or the error that there is none.
func (r *reader) fetchPart() {
	f := &r.outcome.File
	if r.received == f.Bytes {
		if r.err = io.EOF; hex.EncodeToString(r.sum.Sum(nil)) != f.SHA256 {
			r.err = r.lostError("what its worker has is not what it was")
		}
		return
	}
	resp, err := r.requestPart()
	var refused *RefusedError
	switch {
	case errors.As(err, &refused) && refused.Reason == NoFile:
		r.err = r.lostError(refused.Message)
	case err != nil:
		r.err = err
	case len(resp.Data) == 0 || resp.SizeBytes != f.Bytes || int64(len(resp.Data)) > f.Bytes-r.received:
		r.err = r.lostError(fmt.Sprintf("it has %d bytes, and had %d", resp.SizeBytes, f.Bytes))
	default:
		r.unread = resp.Data
		r.received += int64(len(r.unread))
		r.sum.Write(r.unread)
	}
}

func (r *reader) lostError(why string) error {
	return &TaskError{Task: r.outcome.Task, Reason: ResultLost, Message: why, Worker: r.outcome.Worker, Attempts: r.outcome.Attempts}
}

// requestPart asks for the next part until some frontend has it, or there is none.
func (r *reader) requestPart() (*v1.ReadFileResponse, error) {
	req := &v1.ReadFileRequest{Caller: r.c.cfg.wireCaller(), Sha256: r.outcome.File.SHA256, Worker: r.outcome.Worker, FromByte: r.received}
	began, pause, patience := time.Now(), r.c.cfg.backoffMin, r.c.cfg.retryFor
	for {
		order := slices.Concat(r.c.seedsInTurn(), r.c.roster.Load().members)
		resp, err := askUntilAnswered(r.ctx, r.c, order, func(ctx context.Context, f *frontend) (*v1.ReadFileResponse, error) { return f.rpc.ReadFile(ctx, req) })
		var refused *RefusedError
		pause = min(2*pause, r.c.cfg.backoffMax)
		if errors.As(err, &refused) {
			if pause = refused.RetryAfter; refused.Reason == NoFile {
				patience = r.c.cfg.rpcTimeout // its worker may come back
			}
		}
		if err == nil || pause == 0 || errors.Is(err, ErrClosed) || time.Since(began) >= patience {
			return resp, err
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-r.ctx.Done():
			timer.Stop()
			return nil, context.Cause(r.ctx)
		}
	}
}
