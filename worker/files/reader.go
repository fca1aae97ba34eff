package files

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/phoebe-sched/phoebe/probe"
	"github.com/phoebe-sched/phoebe/probe/identity"
)

// Reader reads files in the caches of workers, part by part. Safe for concurrent use.
type Reader struct {
	client  *http.Client
	secrets *identity.Secrets
}

// NewReader makes a reader. With keys the reader connects by TLS; with secrets it sends a secret.
func NewReader(keys *identity.Keys, secrets *identity.Secrets) *Reader {
	return &Reader{newPeerClient(keys, readTimeout), secrets}
}

// readTimeout bounds the time for a part.
const readTimeout = 10 * time.Second

// Read returns at most limit bytes of a file, starting at byte from, and the size of the whole file. worker is the
// address from Welcome.Cache. If tenant is not nil, the file must be a file of the tenant's tasks, or is missing. The
// error is an *Error, or wraps the cause of ctx.
func (r *Reader) Read(ctx context.Context, worker string, digest [32]byte, tenant *string, from uint64,
	limit int) (data []byte, whole uint64, err error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	data, whole, err = r.readPart(ctx, worker, digest, tenant, from, limit)
	if err != nil && ctx.Err() == nil {
		err = &Error{probe.File{Digest: digest}, reasonOf(err), err}
	}
	return data, whole, err
}

// readPart requests a part of a file by HTTP, and checks the range of the answer.
func (r *Reader) readPart(ctx context.Context, worker string, digest [32]byte, tenant *string, from uint64,
	limit int) (data []byte, whole uint64, err error) {
	last := from + uint64(limit) - 1
	resp, err := r.send(ctx, http.MethodGet, worker, digest, tenant, fmt.Sprintf("bytes=%d-%d", from, last))
	if err != nil {
		return nil, 0, err
	}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusOK {
		return nil, 0, newFailure(Unreachable, "upgrade the worker", "it sends whole files only")
	}
	var first, end uint64
	n, err := fmt.Sscanf(resp.Header.Get("Content-Range"), rangeFormat, &first, &end, &whole)
	if err != nil || n != 3 || first != from || end < first || end > last || end >= whole {
		return nil, 0, newFailure(WrongSize, "", "the worker sent a part other than requested: %q",
			resp.Header.Get("Content-Range"))
	}
	data = make([]byte, end-first+1)
	if _, err := io.ReadFull(resp.Body, data); err != nil {
		if errors.Is(err, io.ErrUnexpectedEOF) {
			err = errCut
		}
		return nil, 0, newTransient(isUpHint, "it broke off: %w", err)
	}
	return data, whole, nil
}

// Has reports whether a worker has a file of the tenant's tasks. A worker that does not answer has none.
func (r *Reader) Has(ctx context.Context, worker string, digest [32]byte, tenant string) bool {
	resp, err := r.send(ctx, http.MethodHead, worker, digest, &tenant, "")
	if err != nil {
		return false
	}
	resp.Body.Close()
	return true
}

// send sends a request for a file, or for the part of a file.
func (r *Reader) send(ctx context.Context, method, worker string, digest [32]byte, tenant *string,
	part string) (*http.Response, error) {
	u := &url.URL{Scheme: "http", Host: worker, Path: filesPath + hex.EncodeToString(digest[:])}
	req, err := http.NewRequestWithContext(ctx, method, u.String(), nil)
	if err != nil {
		return nil, newFailure(BadURL, "", "its URL is not valid")
	}
	if tenant != nil {
		req.Header.Set(tenantHeader, url.PathEscape(*tenant))
	}
	return sendRequest(r.client, req, r.secrets.Tell(), part)
}

// Close closes the idle connections.
func (r *Reader) Close() { r.client.CloseIdleConnections() }
