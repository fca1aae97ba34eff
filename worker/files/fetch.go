package files

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"strings"
	"syscall"
	"time"
)

// chunk is what a source has Options.Timeout for.
const chunk = 256 << 10

// run brings or checks e.
func (c *Cache) run(e *entry, w *fetch) {
	written, err := c.work(e, w)
	if w.ctx.Err() != nil && err != nil {
		err = context.Cause(w.ctx)
	}
	c.end(e, w, written, err)
}

func (c *Cache) work(e *entry, w *fetch) (time.Time, error) {
	select {
	case c.slots <- struct{}{}:
		defer func() { <-c.slots }()
	case <-w.ctx.Done():
		return time.Time{}, w.ctx.Err()
	}
	if e.state == found { // only this goroutine changes that now
		written, err := c.check(w.ctx, e)
		if err == nil || w.ctx.Err() != nil {
			return written, err
		}
		c.opts.Logger.Warn("a cached file from before the start is not what it was", "file", hex.EncodeToString(e.digest[:]), "err", err)
		c.mu.Lock()
		c.remove(e.digest)
		c.note(e.digest, false)
		e.state = coming
		c.coming++
		c.stats.Spoilt++
		c.stats.Misses++
		c.unlock()
	}
	return c.bring(e, w)
}

// check hashes what an earlier process left and returns its modification time.
func (c *Cache) check(ctx context.Context, e *entry) (time.Time, error) {
	file, err := os.OpenFile(c.path(e.digest), os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return time.Time{}, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return time.Time{}, err
	}
	if !info.Mode().IsRegular() {
		return time.Time{}, errors.New("it is no regular file")
	}
	sum := sha256.New()
	if err := pour(ctx, sum, file, e.bytes, func() {}); err != nil {
		return time.Time{}, err
	}
	return info.ModTime(), checkSum(sum, e.digest)
}

// bring tries the sources of w in turn. Its errors are *Error unless w was called off.
func (c *Cache) bring(e *entry, w *fetch) (time.Time, error) {
	sources, err := c.sources(w.file, w.peers)
	var tried []string // and failed, but for the last one
	for i, s := range sources {
		var written time.Time
		if written, err = c.take(e, w, s); err == nil {
			return written, nil
		}
		if w.ctx.Err() != nil {
			return time.Time{}, err
		}
		if r := reasonOf(err); r == Disk || r == NoSpace {
			return time.Time{}, &Error{w.file, r, err} // another source does not help
		}
		if s.kind == fromPeer {
			c.mu.Lock()
			c.stats.PeerFailures++
			c.mu.Unlock()
			c.opts.Logger.Debug("a peer did not give a file", "file", hex.EncodeToString(w.file.Digest[:]), "peer", s.name, "err", err)
		}
		if i < len(sources)-1 {
			tried = append(tried, fmt.Sprintf("%s: %v", s.name, bare(err)))
		} else if s.kind == fromPeer {
			err = fail(reasonOf(err), "give it one", "%s: %w; and it has no URL", s.name, bare(err))
		}
	}
	if len(tried) > 0 {
		err = fmt.Errorf("%w (before that, %s)", err, strings.Join(tried, "; "))
	}
	return time.Time{}, &Error{w.file, reasonOf(err), err}
}

// take copies e's file from s into its place in the cache, if it is what was announced.
func (c *Cache) take(e *entry, w *fetch, s source) (_ time.Time, err error) {
	slow := fail(Unreachable, "is it up, and the network between us?", "it sent less than %d KiB within %v", chunk>>10, c.opts.Timeout)
	ctx, cancel := context.WithCancelCause(w.ctx)
	defer cancel(nil)
	watchdog := time.AfterFunc(c.opts.Timeout, func() { cancel(slow) })
	defer watchdog.Stop()
	defer func() {
		if err != nil && context.Cause(ctx) == slow {
			err = slow
		}
	}()

	body, size, err := s.open(ctx)
	if err != nil {
		return time.Time{}, err
	}
	defer body.Close()
	switch {
	case size < 0 && !sizeKnown(w.file):
		return time.Time{}, fail(WrongSize, "announce it", "its size was not announced, and the server does not tell it")
	case !sizeKnown(w.file):
		if err := c.setBytes(e, w, uint64(size)); err != nil {
			return time.Time{}, err
		}
	case size >= 0 && uint64(size) != e.bytes:
		return time.Time{}, fail(WrongSize, "announce its true size", "it has %d bytes, announced were %d", size, e.bytes)
	}
	counted := &counter{r: body}
	defer func() { c.count(w, s.kind, counted.n) }()

	c.mu.Lock()
	path := c.partial()
	c.mu.Unlock()
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return time.Time{}, c.diskFailure(err)
	}
	defer func() {
		file.Close()
		if err != nil {
			os.Remove(path)
		}
	}()
	sum := sha256.New()
	if err := pour(ctx, io.MultiWriter(sum, disk{c, file}), counted, e.bytes, func() { watchdog.Reset(c.opts.Timeout) }); err != nil {
		return time.Time{}, err
	}
	if err := checkSum(sum, w.file.Digest); err != nil {
		return time.Time{}, err
	}
	written, err := settle(file, path, c.path(w.file.Digest))
	if err != nil {
		return time.Time{}, c.diskFailure(err)
	}
	return written, nil
}

// settle makes the file at path an entry. It is readable, and can be executed: it may be a program.
func settle(file *os.File, path, entry string) (time.Time, error) {
	if err := file.Chmod(0o500); err != nil {
		return time.Time{}, err
	}
	info, err := file.Stat()
	if err != nil {
		return time.Time{}, err
	}
	if err := file.Close(); err != nil {
		return time.Time{}, err
	}
	return info.ModTime(), os.Rename(path, entry)
}

// pour copies exactly bytes from r to w and calls progress after each chunk. It reads one byte more at most.
func pour(ctx context.Context, w io.Writer, r io.Reader, bytes uint64, progress func()) error {
	buf := make([]byte, min(chunk, bytes+1))
	left := bytes
	for {
		n, err := io.ReadFull(r, buf[:min(uint64(len(buf)), left+1)])
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if uint64(n) > left {
			return fail(WrongSize, "announce its true size", "it is longer than the %d bytes that were announced", bytes)
		}
		left -= uint64(n)
		if _, err := w.Write(buf[:n]); err != nil {
			return err
		}
		progress()
		switch {
		case err == nil:
		case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
			if left > 0 {
				return fail(WrongSize, "announce its true size, if the transfer was not cut off", "it ended after %d of the %d bytes that were announced", bytes-left, bytes)
			}
			return nil
		default:
			return fail(Unreachable, "", "it broke off after %d of %d bytes: %w", bytes-left, bytes, err)
		}
	}
}

func checkSum(sum hash.Hash, want [32]byte) error {
	if got := sum.Sum(nil); [32]byte(got) != want {
		return fail(WrongDigest, "announce that of the content", "its sha256 is %x, announced was %x", got, want)
	}
	return nil
}

// disk tells the errors of the cache's folder from those of a source.
type disk struct {
	c    *Cache
	file *os.File
}

func (d disk) Write(p []byte) (int, error) {
	n, err := d.file.Write(p)
	if err != nil {
		err = d.c.diskFailure(err)
	}
	return n, err
}

func (c *Cache) diskFailure(err error) error {
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return fail(Disk, "free some of it, or give the cache a limit that fits the disk", "the disk of %s is full", c.dir)
	}
	return fail(Disk, "", "cannot write to the cache: %w", err)
}

type counter struct {
	r io.Reader
	n uint64
}

func (c *counter) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += uint64(n)
	return n, err
}

// count adds what a source sent.
func (c *Cache) count(w *fetch, k kind, n uint64) {
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
