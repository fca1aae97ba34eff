package files

import (
	"crypto/sha256"
	"errors"
	"hash"
	"os"
	"sync"
	"time"
)

// Draft is a file written by a task of this worker. Commit makes it an entry. A Draft is not for concurrent use.
// The writer must call Commit or Abort.
type Draft struct {
	cache  *Cache
	file   *os.File
	path   string
	sum    hash.Hash
	bytes  uint64
	charge uint64 // bytes reserved in the cache
}

// draftStep is the room reserved at a time by a draft, in bytes.
const draftStep = 1 << 20

// Create begins a file.
func (c *Cache) Create() (*Draft, error) {
	c.mu.Lock()
	path, closed := c.newPartialPath(), c.closed
	c.mu.Unlock()
	if closed {
		return nil, ErrClosed
	}
	if problem := c.disk.whyOutOfService(); problem != nil {
		return nil, problem
	}
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, c.diskFailure(err)
	}
	return &Draft{cache: c, file: file, path: path, sum: sha256.New()}, nil
}

// Write implements io.Writer. It fails if the cache has no room.
func (d *Draft) Write(b []byte) (int, error) {
	if end := d.bytes + uint64(len(b)); end > d.charge {
		if err := d.reserveBytes(chargeOf(end + draftStep)); err != nil {
			if err := d.reserveBytes(chargeOf(end)); err != nil { // perhaps there is just enough room
				return 0, err
			}
		}
	}
	n, err := diskWriter{d.cache, d.file}.Write(b)
	d.sum.Write(b[:n])
	d.bytes += uint64(n)
	return n, err
}

// reserveBytes sets the draft's reservation in the cache to bytes. On an error the old reservation stays.
func (d *Draft) reserveBytes(bytes uint64) error {
	c := d.cache
	c.mu.Lock()
	defer c.unlockAndDelete()
	c.usedBytes -= d.charge
	other, err := c.makeRoom(bytes)
	if other != nil { // an abandoned fetch will free room soon, but the draft does not wait
		err = newFailure(NoSpace, "", "there is no room for %d bytes now", bytes)
	}
	if err == nil {
		d.charge = bytes
	}
	c.usedBytes += d.charge
	return err
}

// Commit makes the file an entry, the most recently used of all, and returns the digest and the absolute path. The
// path is for reading and executing only. The file stays in the cache until the caller calls release.
//
// Commit does not wait for a fetch of the same content. Callers of Fetch that wait get the committed file.
func (d *Draft) Commit() (digest [32]byte, path string, release func(), err error) {
	d.sum.Sum(digest[:0])
	_, mode := d.cache.opts.modes()
	if err := errors.Join(d.file.Chmod(mode), d.file.Close()); err != nil {
		d.Abort()
		return digest, "", nil, d.cache.diskFailure(err)
	}
	e, placed, err := d.putFile(digest)
	if err != nil || !placed {
		d.Abort()
	}
	if err != nil {
		return digest, "", nil, err
	}
	if placed {
		d.cache.awaitStampTick(e)
	}
	return digest, d.cache.pathOf(digest), sync.OnceFunc(func() { d.cache.unpinEntry(e) }), nil
}

// putFile makes the file the entry of its digest, and returns the entry with a pin. If the cache surely has the same
// content already, the entry keeps its file, and placed is false. Otherwise the entry's old file may be missing or
// changed, and putFile replaces the file. So a repeated task mends a spoilt entry.
func (d *Draft) putFile(digest [32]byte) (_ *entry, placed bool, err error) {
	c := d.cache
	c.mu.Lock()
	defer c.unlockAndDelete()
	if c.closed {
		return nil, false, ErrClosed
	}
	e := c.entries[digest]
	if e != nil && e.state == stateVerified && e.fetch == nil {
		now, err := stampOf(c.pathOf(digest))
		if err == nil && e.stamp.provesUnchanged(now) {
			c.pinEntry(e)
			return e, false, nil
		}
	}
	announced := e != nil && e.state != stateComing
	if err := os.Rename(d.path, c.pathOf(digest)); err != nil {
		return nil, false, c.diskFailure(err)
	}
	switch {
	case e == nil:
	case e.fetch != nil:
		c.replaceFetched(e)
		e = nil
	case e.bytes != d.bytes: // of an earlier process, and cut off
		c.forgetEntry(e)
		c.stats.Spoilt++
		e = nil
	}
	if e == nil {
		e = newEntry(digest, d.bytes)
		c.entries[digest] = e
		c.usedBytes += e.charge
	}
	c.usedBytes -= d.charge
	d.charge = 0
	e.state = stateVerified
	e.stamp, _ = stampOf(c.pathOf(digest)) // if the file is gone, the next hit notices
	c.pinEntry(e)
	if !announced {
		c.noteChange(digest, true)
	}
	return e, true, nil
}

var errReplaced = errors.New("a task of this worker has written the file meanwhile")

// replaceFetched takes e out of the cache while its fetch still runs, and cancels the fetch. The end of the fetch
// gives back the room.
func (c *Cache) replaceFetched(e *entry) {
	delete(c.entries, e.digest)
	e.dropped = true
	if e.state == stateComing {
		c.comingCount--
	}
	e.fetch.cancel(errReplaced)
}

// awaitStampTick makes the stamp of a large entry older than a tick, so that the stamp can prove later reads unchanged.
// The wait takes less time than hashing a large file again.
func (c *Cache) awaitStampTick(e *entry) {
	if e.bytes < largeFile {
		return
	}
	time.Sleep(tick)
	c.mu.Lock()
	defer c.unlockAndDelete()
	e.stamp.taken = time.Now()
}

// Abort deletes the file and frees its room.
func (d *Draft) Abort() {
	d.file.Close()
	os.Remove(d.path)
	c := d.cache
	c.mu.Lock()
	defer c.unlockAndDelete()
	c.usedBytes -= d.charge
	d.charge = 0
	c.announceFreedRoom()
}
