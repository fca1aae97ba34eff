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
	"time"

	v1 "github.com/phoebe-sched/phoebe/idl/gen/phoebe/v1"
)

// Open opens the result of a task for reading, whatever its size. A result that was too large to travel comes part by
// part as you read, and is never in memory as a whole. The parts come from the worker that made the result, by way of
// any frontend. So the loss of the job's frontend only delays reading. When ctx ends, reading ends.
//
// A large result stays in the worker's cache (--cache-size) until the cache needs its room for files used later. If the
// result or the worker is gone, Open or Read fails with a *TaskError whose Reason is ResultLost: run the task again.
func (c *Client) Open(ctx context.Context, o Outcome) (io.ReadCloser, error) {
	switch {
	case ctx == nil:
		return nil, errNilContext
	case o.Err != nil:
		return nil, o.Err
	case o.File.SHA256 == "":
		return io.NopCloser(bytes.NewReader(o.Result)), nil
	}
	r := &reader{ctx: ctx, c: c, outcome: o, sum: sha256.New()}
	if r.fetchPart(); r.err != nil { // for instance, the file is missing
		return nil, r.err
	}
	return r, nil
}

// reader reads a result file from a worker's cache.
type reader struct {
	ctx      context.Context
	c        *Client
	outcome  Outcome
	sum      hash.Hash // of the received bytes
	received int64     // number of received bytes
	unread   []byte    // received bytes not read yet
	err      error     // of the next Read after unread
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
	r.unread, r.err = nil, errors.New("the result is closed")
	return nil
}

// fetchPart fetches the next part into unread, or sets err: io.EOF at the end, or the reason for failure. At the end it
// checks the digest.
func (r *reader) fetchPart() {
	f := &r.outcome.File
	if r.received == f.Bytes {
		if r.err = io.EOF; hex.EncodeToString(r.sum.Sum(nil)) != f.SHA256 {
			r.err = r.lostError("the file at the worker has another content than the result")
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
		r.err = r.lostError(fmt.Sprintf(
			"the file at the worker has %d bytes, and the result had %d", resp.SizeBytes, f.Bytes))
	default:
		r.unread = resp.Data
		r.received += int64(len(r.unread))
		r.sum.Write(r.unread)
	}
}

// lostError returns the ResultLost error of the task.
func (r *reader) lostError(why string) error {
	return &TaskError{
		Task: r.outcome.Task, Reason: ResultLost, Message: why, Worker: r.outcome.Worker, Attempts: r.outcome.Attempts,
	}
}

// requestPart requests the next part until a frontend delivers the part. It gives up after retryFor, or after
// rpcTimeout if the frontends answer that no worker has the file.
func (r *reader) requestPart() (*v1.ReadFileResponse, error) {
	req := &v1.ReadFileRequest{
		Caller: r.c.cfg.wireCaller(), Sha256: r.outcome.File.SHA256, Worker: r.outcome.Worker, FromByte: r.received,
	}
	began, pause, patience := time.Now(), r.c.cfg.backoffMin, r.c.cfg.retryFor
	for {
		resp, err := askUntilAnswered(r.ctx, r.c, "",
			func(ctx context.Context, f *frontend) (*v1.ReadFileResponse, error) {
				return f.rpc.ReadFile(ctx, req)
			})
		var refused *RefusedError
		pause = min(2*pause, r.c.cfg.backoffMax)
		if errors.As(err, &refused) {
			if pause = refused.RetryAfter; refused.Reason == NoFile {
				patience = r.c.cfg.rpcTimeout // the worker may come back
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
			return nil, contextError(r.ctx)
		}
	}
}
