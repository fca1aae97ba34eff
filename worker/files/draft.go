package files

import (
	"crypto/sha256"
	"errors"
	"hash"
	"os"
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

// Commit makes the file an entry, the most recently used of all, and returns its digest.
func (d *Draft) Commit() (digest [32]byte, err error) {
	d.sum.Sum(digest[:0])
	if err := errors.Join(d.file.Chmod(0o500), d.file.Close()); err != nil {
		d.Abort()
		return digest, d.cache.diskFailure(err)
	}
	for {
		e, other, err := d.putFile(digest)
		switch {
		case other != nil:
			<-other.done
		case err != nil || e == nil: // the cache has the entry already
			d.Abort()
			return digest, err
		default:
			d.cache.awaitStampTick(e)
			return digest, nil
		}
	}
}

// putFile makes the file the entry of its digest. It returns nil if the cache has the entry already, and other if a
// fetch for the digest is running.
func (d *Draft) putFile(digest [32]byte) (_ *entry, other *fetch, err error) {
	c := d.cache
	c.mu.Lock()
	defer c.unlockAndDelete()
	switch e := c.entries[digest]; {
	case c.closed:
		return nil, nil, ErrClosed
	case e != nil && e.state == stateComing:
		return nil, e.fetch, nil
	case e != nil:
		return nil, nil, nil
	}
	if err := os.Rename(d.path, c.pathOf(digest)); err != nil {
		return nil, nil, c.diskFailure(err)
	}
	e := newEntry(digest, d.bytes)
	e.state = stateVerified
	e.stamp, _ = stampOf(c.pathOf(digest)) // if the file is gone, the next hit notices
	c.entries[digest] = e
	c.usedBytes += e.charge - d.charge
	d.charge = 0
	c.makeEvictable(e)
	c.noteChange(digest, true)
	return e, nil, nil
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
