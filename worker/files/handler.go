package files

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/phoebe-sched/phoebe/probe/door"
)

// Handler serves the cache's files to peers: GET or HEAD of /files/ followed by the digest in 64 lowercase hex
// digits. The answer is the whole file, or the part named by a Range of the form bytes=FIRST-LAST. If Options has
// Secrets, each request must carry a valid secret. Otherwise only loopback may reach the handler. A request for a
// client of a tenant names the tenant, and finds only the files that tasks of the tenant have written or read.
//
// A file evicted while being sent keeps its disk space until then. Sending does not hold a file in the cache,
// because peers must not keep out this worker's own tasks.
func (c *Cache) Handler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		guest := door.GuestOf(r.Context())
		if !c.opts.Secrets.Takes(r.Header.Get(secretHeader)) {
			if guest.NoteWrongSecret() {
				w.Header().Set("Connection", "close")
			}
			http.Error(w, "the secret is missing or wrong: give all workers the same secret", http.StatusUnauthorized)
			return
		}
		guest.MarkKnown()
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			w.Header().Set("Allow", "GET, HEAD")
			http.Error(w, "files can only be read", http.StatusMethodNotAllowed)
			return
		}
		digest, ok := parsePath(r.URL.EscapedPath())
		if !ok {
			http.Error(w, "want "+filesPath+" and a sha256 in lowercase hex", http.StatusBadRequest)
			return
		}
		if tenant, bound := r.Header[tenantHeader]; bound {
			if name, err := url.PathUnescape(tenant[0]); err != nil || !c.mayRead(digest, name) {
				http.Error(w, "not in this cache", http.StatusNotFound) // as for a file that is not there
				return
			}
		}
		c.serveFile(w, r, digest)
	})
}

// parsePath returns the digest in a request's path. The path must be unescaped, exactly as sent.
func parsePath(path string) (digest [32]byte, ok bool) {
	hexed, ok := strings.CutPrefix(path, filesPath)
	if !ok {
		return digest, false
	}
	return parseDigest(hexed)
}

// parseDigest parses a digest of 64 lowercase hex digits.
func parseDigest(s string) (digest [32]byte, ok bool) {
	if len(s) != hex.EncodedLen(len(digest)) || strings.ToLower(s) != s {
		return digest, false
	}
	_, err := hex.Decode(digest[:], []byte(s))
	return digest, err == nil
}

// serveFile answers a request for a file or a part.
func (c *Cache) serveFile(w http.ResponseWriter, r *http.Request, digest [32]byte) {
	kind, host := receiverOf(r)
	if !c.beginSending(kind, host) {
		http.Error(w, errServing.Error(), http.StatusServiceUnavailable)
		return
	}
	defer c.endSending(kind, host)
	file, bytes, err := c.openToServe(r.Context(), digest)
	switch {
	case errors.Is(err, os.ErrNotExist):
		http.Error(w, "not in this cache", http.StatusNotFound)
		return
	case err != nil:
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	defer file.Close()
	w.Header().Set("Content-Type", "application/octet-stream")
	status, whole := http.StatusOK, bytes
	if part := r.Header.Get("Range"); part != "" {
		first, last, ok := parseRange(part, whole)
		if ok {
			_, err = file.Seek(int64(first), io.SeekStart)
		}
		if !ok || err != nil {
			http.Error(w, fmt.Sprintf("no such part of %d bytes", whole), http.StatusRequestedRangeNotSatisfiable)
			return
		}
		status, bytes = http.StatusPartialContent, last-first+1
		w.Header().Set("Content-Range", fmt.Sprintf(rangeFormat, first, last, whole))
	}
	w.Header().Set("Content-Length", strconv.FormatUint(bytes, 10))
	w.WriteHeader(status)
	if r.Method == http.MethodHead {
		return
	}
	control := http.NewResponseController(w)
	var sent uint64
	for sent < bytes && err == nil {
		control.SetWriteDeadline(time.Now().Add(c.opts.Timeout)) // cuts off a peer that stops reading
		var n int64
		n, err = io.CopyN(w, file, int64(min(chunk, bytes-sent)))
		sent += uint64(n)
	}
	c.mu.Lock()
	c.stats.ServedBytes += sent
	if err == nil {
		c.stats.Served++
	}
	c.mu.Unlock()
	if err != nil {
		panic(http.ErrAbortHandler) // closes the connection, so the peer stops waiting for the rest
	}
	control.SetWriteDeadline(time.Time{})
}

// rangeFormat is the format of Content-Range: first byte, last byte, and size of the file.
const rangeFormat = "bytes %d-%d/%d"

// parseRange returns the first and last byte of a Range header, for a file of whole bytes.
func parseRange(text string, whole uint64) (first, last uint64, ok bool) {
	n, err := fmt.Sscanf(text, "bytes=%d-%d", &first, &last)
	if err != nil || n != 2 || first > last || first >= whole {
		return 0, 0, false
	}
	return first, min(last, whole-1), true
}

// receiver is a kind of receivers of files. Each kind has its own room.
type receiver uint8

const (
	peer   receiver = iota // a worker, which fetches whole files
	reader                 // a frontend, which reads parts of results for clients
	numReceivers
)

// receiverOf returns the kind and the host of the receiver.
func receiverOf(r *http.Request) (kind receiver, host string) {
	host, _, _ = net.SplitHostPort(r.RemoteAddr)
	if r.Header.Get("Range") != "" {
		return reader, host
	}
	return peer, host
}

// sending is the files being sent to a kind of receivers.
type sending struct {
	total  int
	byHost map[string]int // each is above 0
}

var errServing = errors.New("this worker already sends its maximum of files: try another worker, or later")

// beginSending takes room for a file to be sent. A single host gets at most half of the room. endSending gives the
// room back.
func (c *Cache) beginSending(kind receiver, host string) bool {
	most := [...]int{peer: c.opts.Serve, reader: c.opts.ServeParts}[kind]
	c.mu.Lock()
	defer c.mu.Unlock()
	s := &c.sending[kind]
	if s.total >= most || s.byHost[host] >= max(1, most/2) {
		return false
	}
	if s.byHost == nil {
		s.byHost = map[string]int{}
	}
	s.total++
	s.byHost[host]++
	return true
}

func (c *Cache) endSending(kind receiver, host string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := &c.sending[kind]
	s.total--
	if s.byHost[host]--; s.byHost[host] == 0 {
		delete(s.byHost, host)
	}
}

// openToServe opens an entry to be sent. If the file is missing or was changed, openToServe drops the entry.
func (c *Cache) openToServe(ctx context.Context, digest [32]byte) (_ *os.File, bytes uint64, _ error) {
	c.mu.Lock()
	e := c.entries[digest]
	switch {
	case c.closed:
		c.mu.Unlock()
		return nil, 0, ErrClosed
	case e == nil || e.state == stateComing:
		c.mu.Unlock()
		return nil, 0, os.ErrNotExist
	}
	if e.element != nil {
		c.evictable.MoveToFront(e.element)
	}
	bytes = e.bytes
	isVerified := e.state == stateVerified
	c.mu.Unlock()

	file, err := c.openIntact(ctx, e, isVerified)
	if err == nil {
		return file, bytes, nil
	}
	c.mu.Lock()
	defer c.unlockAndDelete()
	if !isSpoilt(err) {
		return nil, 0, fmt.Errorf("it cannot be read now: %w", err)
	}
	if !e.dropped && e.fetch == nil { // a check under way notices, too
		c.dropEntry(e)
		c.stats.Spoilt++
	}
	return nil, 0, os.ErrNotExist
}

// openIntact opens the file of e. If e is verified, openIntact checks the content. Receivers hash all content again.
func (c *Cache) openIntact(ctx context.Context, e *entry, isVerified bool) (*os.File, error) {
	if isVerified {
		if err := c.checkIntact(ctx, e); err != nil {
			return nil, err
		}
	}
	file, err := os.OpenFile(c.pathOf(e.digest), os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	info, err := file.Stat()
	if err == nil && (!info.Mode().IsRegular() || uint64(info.Size()) != e.bytes) {
		err = errNotRegular
	}
	if err != nil {
		file.Close()
		return nil, err
	}
	return file, nil
}
