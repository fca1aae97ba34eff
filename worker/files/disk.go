package files

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"
)

const (
	diskProbeEvery = time.Second // between two attempts to write to a folder that failed
	diskProbeBytes = 1 << 20     // written by an attempt
)

// disk is the state of the cache's folder. While the folder is out of service, the cache lends its files, and takes no
// new files.
type disk struct {
	mu      sync.Mutex    // callers may hold the cache's lock
	problem error         // why the folder cannot be written; nil: in service
	failed  chan struct{} // has an element after a first failure
}

// whyOutOfService returns why the folder cannot be written, or nil.
func (d *disk) whyOutOfService() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.problem
}

// diskFailure turns an error of the cache's folder into a failure with a remedy, and takes the folder out of service.
func (c *Cache) diskFailure(err error) error {
	problem := newFailure(Disk, "make the folder writable for the worker's user, or restart the worker with another",
		"cannot write to the cache: %w", err)
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		problem = newFailure(Disk, "free space, or give the cache a limit that fits the disk",
			"the disk of %s is full", c.dir)
	}
	c.disk.mu.Lock()
	defer c.disk.mu.Unlock()
	if c.disk.problem == nil {
		c.disk.problem = problem
		c.disk.failed <- struct{}{}
	}
	return problem
}

// watchDisk reports each failure of the folder, tries to write until a write succeeds, and reports the success, until
// Close.
func (c *Cache) watchDisk() {
	for {
		select {
		case <-c.disk.failed:
		case <-c.ctx.Done():
			return
		}
		problem := c.disk.whyOutOfService()
		c.opts.Logger.Error("the file cache is out of service until its folder can be written", "folder", c.dir,
			"err", problem)
		c.opts.OnDisk(problem)
		for problem != nil && c.ctx.Err() == nil {
			sleepUntilDone(c.ctx, diskProbeEvery)
			problem = c.probeDisk()
		}
		if problem != nil {
			return
		}
		c.disk.mu.Lock()
		c.disk.problem = nil
		c.disk.mu.Unlock()
		c.opts.Logger.Info("the file cache is in service again", "folder", c.dir)
		c.opts.OnDisk(nil)
	}
}

func sleepUntilDone(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// probeDisk writes a file to the folder and deletes it. If somebody deleted the folder, probeDisk makes a new one.
func (c *Cache) probeDisk() error {
	if err := c.lockDir(); err != nil {
		return err
	}
	c.mu.Lock()
	path := c.newPartialPath()
	c.mu.Unlock()
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(make([]byte, diskProbeBytes))
	return errors.Join(err, file.Sync(), file.Close(), os.Remove(path))
}

// holdsLock reports whether the cache has locked the lock file now in the folder.
func (c *Cache) holdsLock() bool {
	if c.lockFile == nil {
		return false
	}
	locked, err := c.lockFile.Stat()
	if err != nil {
		return false
	}
	found, err := os.Stat(filepath.Join(c.dir, lockName))
	return err == nil && os.SameFile(locked, found)
}
