package files

import (
	"encoding/hex"
	"errors"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"
)

// Handler gives peers what is in the cache: GET or HEAD of /files/ and the digest in 64 lowercase hex digits, always
// the whole file. With Secrets in the options requests must carry one; without, nothing but loopback must reach the
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
		c.serve(w, r, digest)
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

func (c *Cache) serve(w http.ResponseWriter, r *http.Request, digest [32]byte) {
	file, bytes, err := c.lend(digest)
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
		c.serving--
		c.mu.Unlock()
	}()
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("Content-Length", strconv.FormatUint(bytes, 10))
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

var errServing = errors.New("this worker sends as many files as it may: try another")

// lend opens an entry to be sent and counts that it is.
func (c *Cache) lend(digest [32]byte) (_ *os.File, bytes uint64, _ error) {
	c.mu.Lock()
	e := c.entries[digest]
	switch {
	case c.closed:
		c.mu.Unlock()
		return nil, 0, ErrClosed
	case e == nil || e.state == coming:
		c.mu.Unlock()
		return nil, 0, os.ErrNotExist
	case c.serving >= c.opts.Serve:
		c.mu.Unlock()
		return nil, 0, errServing
	}
	c.serving++
	if e.place != nil {
		c.idle.MoveToFront(e.place)
	}
	bytes = e.bytes
	c.mu.Unlock()

	file, err := os.Open(c.path(digest))
	if err == nil {
		if info, statErr := file.Stat(); statErr == nil && info.Mode().IsRegular() && uint64(info.Size()) == bytes {
			return file, bytes, nil
		}
		file.Close()
	}
	c.mu.Lock()
	c.serving--
	c.mu.Unlock()
	return nil, 0, os.ErrNotExist // evicted just now, or spoilt: the next hit finds that out
}
