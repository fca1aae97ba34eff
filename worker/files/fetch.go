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
	chunk   = 256 << 10 // what a source has slowest times Options.Timeout for
	slowest = 10

	// firstPause is the part of Options.Timeout after which an origin is asked again. Later pauses are twice the one
	// before.
	firstPause = 30
)

// run brings or checks e.
func (c *Cache) run(e *entry, w *fetch) {
	s, err := c.work(e, w)
	if w.ctx.Err() != nil && err != nil {
		err = context.Cause(w.ctx)
	}
	c.end(e, w, s, err)
}

func (c *Cache) work(e *entry, w *fetch) (stamp, error) {
	if e.state == found { // only this goroutine changes that now
		s, err := c.inTurn(w.ctx, "", func() (stamp, error) { return c.check(w.ctx, e) })
		if err == nil || w.ctx.Err() != nil {
			return s, err
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

// inTurn does what only some may do at a time with a host, so that one that hangs keeps nobody from the others.
func (c *Cache) inTurn(ctx context.Context, host string, do func() (stamp, error)) (stamp, error) {
	c.mu.Lock()
	q := c.queues[host]
	if q == nil {
		q = &queue{slots: make(chan struct{}, c.opts.Parallel)}
		c.queues[host] = q
	}
	q.users++
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if q.users--; q.users == 0 {
			delete(c.queues, host)
		}
	}()
	select {
	case q.slots <- struct{}{}:
		defer func() { <-q.slots }()
		return do()
	case <-ctx.Done():
		return stamp{}, ctx.Err()
	}
}

// check hashes the file of an entry that is in place.
func (c *Cache) check(ctx context.Context, e *entry) (stamp, error) {
	s, err := stampOf(c.path(e.digest))
	if err != nil {
		return stamp{}, err
	}
	file, err := os.OpenFile(c.path(e.digest), os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return stamp{}, err
	}
	defer file.Close()
	sum := sha256.New()
	if err := pour(ctx, sum, file, e.bytes, func() {}); err != nil {
		return stamp{}, err
	}
	return s, checkSum(sum, e.digest)
}

// bring tries the sources of w in turn. Its errors are *Error unless w was called off.
func (c *Cache) bring(e *entry, w *fetch) (stamp, error) {
	sources, err := c.sources(w.file, w.peers)
	var tried []string // and failed, but for the last one
	for i, s := range sources {
		var put stamp
		if put, err = c.insist(e, w, s); err == nil {
			return put, nil
		}
		if w.ctx.Err() != nil {
			return stamp{}, err
		}
		if r := reasonOf(err); r == Disk || r == NoSpace {
			return stamp{}, &Error{w.file, r, err} // another source does not help
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
	return stamp{}, &Error{w.file, reasonOf(err), err}
}

// insist takes e's file from s, after pauses again and again if s is an origin that fails in a way that may pass.
func (c *Cache) insist(e *entry, w *fetch, s source) (stamp, error) {
	pause := max(c.opts.Timeout/firstPause, 1)
	for try := 1; ; try++ {
		put, err := c.inTurn(w.ctx, s.host, func() (stamp, error) { return c.take(e, w, s) })
		if err == nil || w.ctx.Err() != nil || s.kind != fromWeb || !mayPass(err) {
			return put, err
		}
		if try == c.opts.Tries {
			f, _ := errors.AsType[*failure](err)
			return stamp{}, fail(f.reason, f.hint, "%w (tried %d times)", f.err, try)
		}
		select {
		case <-time.After(pause/2 + rand.N(pause)): // workers that were turned away at once do not come back at once
		case <-w.ctx.Done():
			return stamp{}, w.ctx.Err()
		}
		pause *= 2
	}
}

// take copies e's file from s into its place in the cache, if it is what was announced.
func (c *Cache) take(e *entry, w *fetch, s source) (_ stamp, err error) {
	ctx, cancel := context.WithCancelCause(w.ctx)
	defer cancel(nil)
	silence, crawl := c.opts.Timeout, slowest*c.opts.Timeout
	silent := time.AfterFunc(silence, func() { cancel(falter(isUp, "it sent nothing for %v", silence)) })
	defer silent.Stop()
	crawling := time.AfterFunc(crawl, func() { cancel(falter(isUp, "it sent less than %d KiB within %v", chunk>>10, crawl)) })
	defer crawling.Stop()
	defer func() {
		if err != nil && mayPass(context.Cause(ctx)) {
			err = context.Cause(ctx)
		}
	}()

	body, size, err := s.open(ctx)
	if err != nil {
		return stamp{}, err
	}
	defer body.Close()
	switch {
	case size < 0 && !sizeKnown(w.file):
		return stamp{}, fail(WrongSize, "announce it", "its size was not announced, and the server does not tell it")
	case !sizeKnown(w.file):
		if err := c.setBytes(e, w, uint64(size)); err != nil {
			return stamp{}, err
		}
	case size >= 0 && uint64(size) != e.bytes:
		return stamp{}, fail(WrongSize, "announce its true size", "it has %d bytes, announced were %d", size, e.bytes)
	}
	counted := &counter{r: body, heard: func() { silent.Reset(silence) }}
	defer func() { c.count(w, s.kind, counted.n) }()

	c.mu.Lock()
	path := c.partial()
	c.mu.Unlock()
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return stamp{}, c.diskFailure(err)
	}
	defer func() {
		file.Close()
		if err != nil {
			os.Remove(path)
		}
	}()
	sum := sha256.New()
	if err := pour(ctx, io.MultiWriter(sum, disk{c, file}), counted, e.bytes, func() { crawling.Reset(crawl) }); err != nil {
		return stamp{}, err
	}
	if err := checkSum(sum, w.file.Digest); err != nil {
		return stamp{}, err
	}
	put, err := settle(file, path, c.path(w.file.Digest))
	if err != nil {
		return stamp{}, c.diskFailure(err)
	}
	return put, nil
}

// large is how many bytes take longer to hash than a tick.
const large = 32 << 20

// settle makes the file at path an entry. It is readable, and can be executed: it may be a program.
func settle(file *os.File, path, entry string) (stamp, error) {
	if err := file.Chmod(0o500); err != nil {
		return stamp{}, err
	}
	if err := file.Close(); err != nil {
		return stamp{}, err
	}
	if err := os.Rename(path, entry); err != nil {
		return stamp{}, err
	}
	s, err := stampOf(entry)
	if s.bytes >= large { // otherwise it is hashed again at its next use
		time.Sleep(tick)
		s.taken = time.Now()
	}
	return s, err
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
				return fail(WrongSize, "announce its true size", "it ended after %d of the %d bytes that were announced", bytes-left, bytes)
			}
			return nil
		default:
			return falter(isUp, "it broke off after %d of %d bytes: %w", bytes-left, bytes, err)
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
	r     io.Reader
	n     uint64
	heard func() // when something came
}

var errCut = errors.New("the connection was cut")

func (c *counter) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	if n > 0 {
		c.n += uint64(n)
		c.heard()
	}
	if errors.Is(err, io.ErrUnexpectedEOF) { // io.ReadFull says that of a source's regular end
		err = errCut
	}
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
