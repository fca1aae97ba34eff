package files

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"
)

// Handler gives peers what is in the cache: GET or HEAD of /files/ and the digest in 64 lowercase hex digits, the whole file, or
// the part that a Range of the form bytes=FIRST-LAST names. With Secrets in the options requests must carry one; without, nothing but loopback must reach the
// handler. A file that is evicted while it is sent keeps its disk space until it is sent: peers do not count as those
// who hold it, for they must not keep out this worker's own tasks.
func (c *Cache) Handler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !c.opts.Secrets.Takes(r.Header.Get(secretHeader)) {
			http.Error(w, "the secret is missing or not this worker's: give all workers the same one", http.StatusUnauthorized)
			return
		}
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
		c.serveFile(w, r, digest)
	})
}

// parsePath returns the digest of a request's path, as it came.
func parsePath(path string) (digest [32]byte, ok bool) {
	hexed, ok := strings.CutPrefix(path, filesPath)
	if !ok {
		return digest, false
	}
	return parseDigest(hexed)
}

func parseDigest(s string) (digest [32]byte, ok bool) {
	if len(s) != hex.EncodedLen(len(digest)) || strings.ToLower(s) != s {
		return digest, false
	}
	_, err := hex.Decode(digest[:], []byte(s))
	return digest, err == nil
}

func (c *Cache) serveFile(w http.ResponseWriter, r *http.Request, digest [32]byte) {
	file, bytes, err := c.openToServe(digest)
	switch {
	case errors.Is(err, os.ErrNotExist):
		http.Error(w, "not in this cache", http.StatusNotFound)
		return
	case err != nil:
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	defer func() {
		file.Close()
		c.mu.Lock()
		c.servingCount--
		c.mu.Unlock()
	}()
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
		control.SetWriteDeadline(time.Now().Add(c.opts.Timeout)) // a peer that does not read gets no more
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
		panic(http.ErrAbortHandler) // closes the connection, so that the peer does not wait for the rest
	}
	control.SetWriteDeadline(time.Time{})
}

// rangeFormat is how a part of a file is told: its first and last byte, and how many bytes the file has.
const rangeFormat = "bytes %d-%d/%d"

// parseRange returns the first and the last byte of a part of so many bytes.
func parseRange(text string, whole uint64) (first, last uint64, ok bool) {
	n, err := fmt.Sscanf(text, "bytes=%d-%d", &first, &last)
	if err != nil || n != 2 || first > last || first >= whole {
		return 0, 0, false
	}
	return first, min(last, whole-1), true
}

var errServing = errors.New("this worker sends as many files as it may: try another")

// openToServe opens an entry to be sent and counts that it is.
func (c *Cache) openToServe(digest [32]byte) (_ *os.File, bytes uint64, _ error) {
	c.mu.Lock()
	e := c.entries[digest]
	switch {
	case c.closed:
		c.mu.Unlock()
		return nil, 0, ErrClosed
	case e == nil || e.state == stateComing:
		c.mu.Unlock()
		return nil, 0, os.ErrNotExist
	case c.servingCount >= c.opts.Serve:
		c.mu.Unlock()
		return nil, 0, errServing
	}
	c.servingCount++
	if e.element != nil {
		c.evictable.MoveToFront(e.element)
	}
	bytes = e.bytes
	c.mu.Unlock()

	file, err := os.Open(c.pathOf(digest))
	if err == nil {
		if info, statErr := file.Stat(); statErr == nil && info.Mode().IsRegular() && uint64(info.Size()) == bytes {
			return file, bytes, nil
		}
		file.Close()
	}
	c.mu.Lock()
	c.servingCount--
	c.mu.Unlock()
	return nil, 0, os.ErrNotExist // evicted just now, or spoilt: the next hit finds that out
}
