package files

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"math/rand/v2"
	"os"
	"strings"
	"syscall"
	"time"
)

const (
	chunk            = 256 << 10 // bytes; a source must send a chunk within timeoutsPerChunk times Options.Timeout
	timeoutsPerChunk = 10

	// firstPauseDivisor: an origin is asked again after Options.Timeout / firstPauseDivisor. Each later pause is
	// twice the pause before.
	firstPauseDivisor = 30
)

// runFetch brings or checks e, and ends the fetch.
func (c *Cache) runFetch(e *entry, w *fetch) {
	s, err := c.checkOrFetch(e, w)
	if w.ctx.Err() != nil && err != nil {
		err = context.Cause(w.ctx)
	}
	c.endFetch(e, w, s, err)
}

// checkOrFetch checks an entry left by an earlier process, and fetches the file if it is missing or has changed.
func (c *Cache) checkOrFetch(e *entry, w *fetch) (fileStamp, error) {
	if e.state == stateFound { // only this goroutine changes e.state now
		s, err := c.runLimited(w.ctx, "", func() (fileStamp, error) { return c.checkFile(w.ctx, e) })
		if err == nil || w.ctx.Err() != nil {
			return s, err
		}
		c.opts.Logger.Warn("a cached file from before the start has changed", "file", hex.EncodeToString(e.digest[:]),
			"err", err)
		c.mu.Lock()
		if e.dropped {
			c.mu.Unlock()
			return fileStamp{}, errReplaced
		}
		c.removeFile(e.digest)
		c.noteChange(e.digest, false)
		e.state = stateComing
		c.comingCount++
		c.stats.Spoilt++
		c.stats.Misses++
		c.unlockAndDelete()
	}
	return c.fetchFromSources(e, w)
}

// runLimited runs do, with at most Options.Parallel calls for a host at a time. Hosts have separate limits, so a
// host that hangs does not delay other hosts.
func (c *Cache) runLimited(ctx context.Context, host string, do func() (fileStamp, error)) (fileStamp, error) {
	c.mu.Lock()
	q := c.hostLimits[host]
	if q == nil {
		q = &hostLimit{running: make(chan struct{}, c.opts.Parallel)}
		c.hostLimits[host] = q
	}
	q.users++
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if q.users--; q.users == 0 {
			delete(c.hostLimits, host)
		}
	}()
	select {
	case q.running <- struct{}{}:
		defer func() { <-q.running }()
		return do()
	case <-ctx.Done():
		return fileStamp{}, ctx.Err()
	}
}

// checkFile hashes the file of an entry in place.
func (c *Cache) checkFile(ctx context.Context, e *entry) (fileStamp, error) {
	s, err := stampOf(c.pathOf(e.digest))
	if err != nil {
		return fileStamp{}, err
	}
	file, err := os.OpenFile(c.pathOf(e.digest), os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return fileStamp{}, err
	}
	defer file.Close()
	sum := sha256.New()
	if err := copyExactly(ctx, sum, file, e.bytes, func() {}); err != nil {
		return fileStamp{}, err
	}
	return s, checkSum(sum, e.digest)
}

// fetchFromSources tries the sources of w one after the other. Its error is an *Error unless w was cancelled.
func (c *Cache) fetchFromSources(e *entry, w *fetch) (fileStamp, error) {
	sources, err := c.sourcesOf(w.file, w.peers)
	var tried []string // failed sources, except the last
	for i, s := range sources {
		var put fileStamp
		if put, err = c.fetchWithRetries(e, w, s); err == nil {
			return put, nil
		}
		if w.ctx.Err() != nil {
			return fileStamp{}, err
		}
		if r := reasonOf(err); r == Disk || r == NoSpace {
			return fileStamp{}, &Error{w.file, r, err} // another source would not help
		}
		if s.kind == fromPeer {
			c.mu.Lock()
			c.stats.PeerFailures++
			c.mu.Unlock()
			c.opts.Logger.Debug("a peer did not give a file", "file", hex.EncodeToString(w.file.Digest[:]), "peer",
				s.name, "err", err)
		}
		if i < len(sources)-1 {
			tried = append(tried, fmt.Sprintf("%s: %v", s.name, withoutHint(err)))
		} else if s.kind == fromPeer {
			err = newFailure(reasonOf(err), "give the file a URL", "%s: %w; and the file has no URL", s.name,
				withoutHint(err))
		}
	}
	if len(tried) > 0 {
		err = fmt.Errorf("%w (before that, %s)", err, strings.Join(tried, "; "))
	}
	return fileStamp{}, &Error{w.file, reasonOf(err), err}
}

// fetchWithRetries fetches e's file from s. It retries an origin after a pause, if the failure is transient.
func (c *Cache) fetchWithRetries(e *entry, w *fetch, s source) (fileStamp, error) {
	pause := max(c.opts.Timeout/firstPauseDivisor, 1)
	for try := 1; ; try++ {
		put, err := c.runLimited(w.ctx, s.host, func() (fileStamp, error) { return c.fetchOnce(e, w, s) })
		if err == nil || w.ctx.Err() != nil || s.kind != fromWeb || !isTransient(err) {
			return put, err
		}
		if try == c.opts.Tries {
			f, _ := errors.AsType[*failure](err)
			return fileStamp{}, newFailure(f.reason, f.hint, "%w (tried %d times)", f.err, try)
		}
		select {
		case <-time.After(pause/2 + rand.N(pause)): // spreads the retries of workers refused at the same time
		case <-w.ctx.Done():
			return fileStamp{}, w.ctx.Err()
		}
		pause *= 2
	}
}

// fetchOnce copies e's file from s into its place in the cache, if digest and size are as announced. It gives up a
// source that sends nothing for Options.Timeout, or less than chunk bytes in timeoutsPerChunk times
// Options.Timeout.
func (c *Cache) fetchOnce(e *entry, w *fetch, s source) (_ fileStamp, err error) {
	ctx, cancel := context.WithCancelCause(w.ctx)
	defer cancel(nil)
	silence, crawl := c.opts.Timeout, timeoutsPerChunk*c.opts.Timeout
	silent := time.AfterFunc(silence, func() { cancel(newTransient(isUpHint, "it sent nothing for %v", silence)) })
	defer silent.Stop()
	crawling := time.AfterFunc(crawl,
		func() { cancel(newTransient(isUpHint, "it sent less than %d KiB within %v", chunk>>10, crawl)) })
	defer crawling.Stop()
	defer func() { // if a timer cut the source off, the timer's error tells why
		if err != nil && isTransient(context.Cause(ctx)) {
			err = context.Cause(ctx)
		}
	}()

	body, size, err := s.open(ctx)
	if err != nil {
		return fileStamp{}, err
	}
	defer body.Close()
	switch {
	case size < 0 && !sizeKnown(w.file):
		return fileStamp{}, newFailure(WrongSize, "announce it",
			"its size was neither announced nor sent by the server")
	case !sizeKnown(w.file):
		if err := c.setBytes(e, w, uint64(size)); err != nil {
			return fileStamp{}, err
		}
	case size >= 0 && uint64(size) != e.bytes:
		return fileStamp{}, newFailure(WrongSize, "announce its true size", "it has %d bytes, announced were %d",
			size, e.bytes)
	}
	counted := &countingReader{r: body, onRead: func() { silent.Reset(silence) }}
	defer func() { c.countBytes(w, s.kind, counted.n) }()

	c.mu.Lock()
	path := c.newPartialPath()
	c.mu.Unlock()
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return fileStamp{}, c.diskFailure(err)
	}
	defer func() {
		file.Close()
		if err != nil {
			os.Remove(path)
		}
	}()
	sum := sha256.New()
	if err := copyExactly(ctx, io.MultiWriter(sum, diskWriter{c, file}), counted, e.bytes,
		func() { crawling.Reset(crawl) }); err != nil {
		return fileStamp{}, err
	}
	if err := checkSum(sum, w.file.Digest); err != nil {
		return fileStamp{}, err
	}
	_, mode := c.opts.modes()
	put, err := moveIntoPlace(file, path, c.pathOf(w.file.Digest), mode)
	if err != nil {
		return fileStamp{}, c.diskFailure(err)
	}
	return put, nil
}

// largeFile is the size, in bytes, from which hashing a file takes longer than a tick.
const largeFile = 32 << 20

// moveIntoPlace makes the file at path an entry with the permissions mode.
func moveIntoPlace(file *os.File, path, entry string, mode os.FileMode) (fileStamp, error) {
	if err := file.Chmod(mode); err != nil {
		return fileStamp{}, err
	}
	if err := file.Close(); err != nil {
		return fileStamp{}, err
	}
	if err := os.Rename(path, entry); err != nil {
		return fileStamp{}, err
	}
	s, err := stampOf(entry)
	if s.bytes >= largeFile { // a smaller file is hashed again at its next use
		time.Sleep(tick)
		s.taken = time.Now()
	}
	return s, err
}

// copyExactly copies exactly bytes from r to w and calls progress after each chunk. To notice a longer content it
// reads at most one byte more.
func copyExactly(ctx context.Context, w io.Writer, r io.Reader, bytes uint64, progress func()) error {
	buf := make([]byte, min(chunk, bytes+1))
	remaining := bytes
	for {
		n, err := io.ReadFull(r, buf[:min(uint64(len(buf)), remaining+1)])
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if uint64(n) > remaining {
			return newFailure(WrongSize, "announce its true size", "it is longer than the %d bytes announced", bytes)
		}
		remaining -= uint64(n)
		if _, err := w.Write(buf[:n]); err != nil {
			return err
		}
		progress()
		switch {
		case err == nil:
		case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
			if remaining > 0 {
				return newFailure(WrongSize, "announce its true size", "it ended after %d of the %d bytes announced",
					bytes-remaining, bytes)
			}
			return nil
		default:
			return newTransient(isUpHint, "it broke off after %d of %d bytes: %w", bytes-remaining, bytes, err)
		}
	}
}

// checkSum compares a hash with the announced digest.
func checkSum(sum hash.Hash, want [32]byte) error {
	if got := sum.Sum(nil); [32]byte(got) != want {
		return newFailure(WrongDigest, "announce the digest of the content", "its content has another sha256")
	}
	return nil
}

// diskWriter marks write errors of the cache's folder, to tell them from errors of a source.
type diskWriter struct {
	c    *Cache
	file *os.File
}

func (d diskWriter) Write(p []byte) (int, error) {
	n, err := d.file.Write(p)
	if err != nil {
		err = d.c.diskFailure(err)
	}
	return n, err
}

// countingReader counts the bytes from a source, and marks a cut connection.
type countingReader struct {
	r      io.Reader
	n      uint64
	onRead func() // called after each read with data
}

var errCut = errors.New("the connection was cut")

func (c *countingReader) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	if n > 0 {
		c.n += uint64(n)
		c.onRead()
	}
	if errors.Is(err, io.ErrUnexpectedEOF) { // io.ReadFull returns the same error at a regular end
		err = errCut
	}
	return n, err
}

// countBytes counts n bytes from a source.
func (c *Cache) countBytes(w *fetch, k sourceKind, n uint64) {
	w.bytes += n
	c.mu.Lock()
	defer c.mu.Unlock()
	switch k {
	case fromPeer:
		c.stats.FromPeers += n
	case fromWeb:
		c.stats.FromHTTP += n
	case fromDisk:
		c.stats.FromFiles += n
	}
}
