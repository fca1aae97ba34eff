package files

import (
	"container/list"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/phoebe-sched/phoebe/probe"
)

// partialPrefix begins the names of files that are not entries: files being fetched, written, or deleted.
const partialPrefix = "partial-"

// lockName is the file in the folder that a cache locks.
const lockName = "lock"

// block is the unit of an entry's charge, in bytes, as on the disk. It also bounds the number of small entries.
const block = 4096

// Cache is a folder of files, named by their digests in hex. Safe for concurrent use.
type Cache struct {
	dir        string // absolute path
	maxBytes   uint64 // bytes
	opts       Options
	lockFile   *os.File
	roomWaiter chan struct{} // has an element while a FetchAll waits for room, first in line
	peers      *http.Client
	origin     *http.Client
	ctx        context.Context // ends at Close
	cancelAll  context.CancelCauseFunc
	goroutines sync.WaitGroup // of fetches, watchDisk and reportChanges

	disk disk

	mu             sync.Mutex
	closed         bool
	entries        map[[32]byte]*entry
	evictable      list.List             // of *entry, most recently used first
	usedBytes      uint64                // charges of all entries and drafts
	evictableBytes uint64                // charges of the evictable entries
	comingCount    int                   // entries not yet in place
	abandoned      map[*fetch]struct{}   // cancelled fetches that have not ended
	trash          []string              // paths to delete outside the lock
	partialSerial  uint64                // number of the last partial file
	sending        [numReceivers]sending // files being sent
	hostLimits     map[string]*hostLimit // of fetches, by host; "": work on this machine only
	freedRoom      chan struct{}         // closed when room is freed; nil: no listener
	changes        map[[32]byte]bool     // not yet passed to OnChange: true: came, false: left
	changeSignal   chan struct{}         // has an element while there are changes
	stats          Stats
}

// hostLimit lets only Options.Parallel of its users run at a time.
type hostLimit struct {
	users   int           // running or waiting; guarded by the cache's lock
	running chan struct{} // an element for each running user
}

type entryState uint8

const (
	stateComing   entryState = iota // being fetched: its charge is reserved, no file is in place
	stateFound                      // left by an earlier process, with the right name, not hashed yet
	stateVerified                   // hashed by this process
)

// entry is a file in the cache, or a file being fetched. An entry is in Cache.evictable exactly if it is in place,
// and has no fetch and no pins. The cache's lock guards all fields except digest, bytes and charge.
type entry struct {
	digest  [32]byte
	bytes   uint64
	charge  uint64
	state   entryState
	pins    int           // waiting calls, and tasks that hold the file
	fetch   *fetch        // running fetch or check; nil: none
	element *list.Element // in Cache.evictable; nil: not evictable
	stamp   fileStamp     // of the file when its content was right
	dropped bool          // no longer in Cache.entries
	tenants []string      // whose tasks have written or read the file, as far as this process knows
}

// fetch brings or checks an entry. All callers waiting for the entry share its fetch.
type fetch struct {
	file   probe.File
	peers  []string
	ctx    context.Context
	cancel context.CancelCauseFunc
	done   chan struct{} // closed at the end; the fields below are fixed from then on
	err    error
	bytes  uint64 // received from sources
}

var errAbandoned = errors.New("no caller waits for the file any more")

// Open makes dir a cache of at most maxBytes, and takes over the files of an earlier cache. If dir is missing, Open
// creates it with its parents. Otherwise dir must belong to this process's user, and no other user may have access.
// The cache owns dir until Close. The bound counts files in blocks of 4 KiB, including files being fetched. Files
// in dir with other names are left alone.
func Open(dir string, maxBytes int64, opts Options) (*Cache, error) {
	if err := opts.Validate(); err != nil {
		return nil, fmt.Errorf("file cache: %w", err)
	}
	if maxBytes < block {
		return nil, fmt.Errorf("file cache: a limit of %d bytes: it must be at least %d", maxBytes, block)
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("file cache: %w", err)
	}
	c := &Cache{
		dir: dir, maxBytes: uint64(maxBytes), opts: opts.withDefaults(),
		entries: map[[32]byte]*entry{}, abandoned: map[*fetch]struct{}{},
		changes: map[[32]byte]bool{}, changeSignal: make(chan struct{}, 1),
		hostLimits: map[string]*hostLimit{}, roomWaiter: make(chan struct{}, 1),
		disk: disk{failed: make(chan struct{}, 1)},
	}
	c.peers, c.origin = newPeerClient(c.opts.Keys, c.opts.Timeout), c.newOriginClient()
	if err := c.takeFolder(); err != nil {
		return nil, fmt.Errorf("file cache: %w", err)
	}
	c.ctx, c.cancelAll = context.WithCancelCause(context.Background())
	c.goroutines.Go(c.watchDisk)
	if c.opts.OnChange != nil {
		c.goroutines.Go(c.reportChanges)
	}
	return c, nil
}

// takeFolder creates or checks the folder, locks it, and takes over its files.
func (c *Cache) takeFolder() error {
	if err := c.lockDir(); err != nil {
		return err
	}
	if err := c.scanFolder(); err != nil {
		c.lockFile.Close()
		return err
	}
	return nil
}

// lockDir creates or checks the folder, and takes its lock unless the cache holds the lock already.
func (c *Cache) lockDir() error {
	mode, _ := c.opts.modes()
	if err := os.MkdirAll(c.dir, mode); err != nil {
		return err
	}
	info, err := os.Stat(c.dir)
	if err != nil {
		return err
	}
	if err := checkOwner(c.dir, info); err != nil {
		return err
	}
	perm := info.Mode().Perm()
	isOpen := perm&0o077&^mode != 0
	if isOpen && (perm&0o022 != 0 || !isEmpty(c.dir)) {
		return fmt.Errorf("%s is open to other users (mode %#o): chmod %o it, or name another folder", c.dir, perm, mode)
	}
	if isOpen || perm != mode && c.opts.Public {
		if err := os.Chmod(c.dir, mode); err != nil {
			return err
		}
	}
	if c.holdsLock() {
		return nil
	}
	lock, err := lockFolder(c.dir)
	if err != nil {
		return err
	}
	if c.lockFile != nil {
		c.lockFile.Close() // of a folder that somebody deleted
	}
	c.lockFile = lock
	return nil
}

// isEmpty reports whether a folder is readable and has no files. Such a folder may be closed to other users without
// harm: os.MkdirAll and testing.T.TempDir make folders that others may read.
func isEmpty(dir string) bool {
	entries, err := os.ReadDir(dir)
	return err == nil && len(entries) == 0
}

// scanFolder takes over the entries of an earlier cache: an entry fetched later counts as used later. It deletes
// partial files.
func (c *Cache) scanFolder() error {
	names, err := os.ReadDir(c.dir)
	if err != nil {
		return err
	}
	var leftover []*entry
	for _, n := range names {
		if strings.HasPrefix(n.Name(), partialPrefix) {
			if err := os.Remove(filepath.Join(c.dir, n.Name())); err != nil {
				return err
			}
			continue
		}
		digest, ok := parseDigest(n.Name())
		if !ok {
			continue
		}
		info, err := n.Info()
		if err != nil {
			return err
		}
		if !info.Mode().IsRegular() {
			continue
		}
		if _, mode := c.opts.modes(); c.opts.Public && info.Mode().Perm() != mode {
			if err := os.Chmod(filepath.Join(c.dir, n.Name()), mode); err != nil {
				return err
			}
		}
		e := newEntry(digest, uint64(info.Size()))
		e.state, e.stamp.written = stateFound, info.ModTime()
		leftover = append(leftover, e)
	}
	slices.SortFunc(leftover, func(a, b *entry) int { return a.stamp.written.Compare(b.stamp.written) })
	c.mu.Lock()
	defer c.unlockAndDelete()
	for _, e := range leftover {
		c.entries[e.digest] = e
		c.usedBytes += e.charge
		c.makeEvictable(e)
	}
	for c.usedBytes > c.maxBytes {
		c.evictOldest()
	}
	clear(c.changes)
	return nil
}

func newEntry(digest [32]byte, bytes uint64) *entry {
	return &entry{digest: digest, bytes: bytes, charge: chargeOf(bytes)}
}

// chargeOf returns the bytes that a file of this size counts for. bytes must not be near the largest uint64.
func chargeOf(bytes uint64) uint64 { return max(1, (bytes+block-1)/block) * block }

// Close cancels all fetches, waits for their ends and gives up the folder. The files stay, also for tasks that
// still hold them. Earlier requests to Handler may continue.
func (c *Cache) Close() error {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return nil
	}
	c.closed = true
	c.unlockAndDelete()
	c.cancelAll(ErrClosed)
	c.goroutines.Wait()
	c.peers.CloseIdleConnections()
	c.origin.CloseIdleConnections()
	return c.lockFile.Close()
}

// Held is a file that stays in the cache until Release.
type Held struct {
	Path    string        // absolute; for reading and executing only
	Fetched uint64        // bytes received from sources: zero on a hit, and for callers that joined a fetch
	Took    time.Duration // duration of Fetch

	cache    *Cache
	entry    *entry
	released atomic.Bool
}

// Release allows the cache to evict the file. Further calls do nothing.
func (h *Held) Release() {
	if !h.released.Swap(true) {
		h.cache.unpinEntry(h.entry)
	}
}

// Fetch returns f from the cache if present, otherwise from the first source that has it. The sources are the first
// few peers (URLs of workers with a Handler), then f's URL. Calls for the same file share a fetch, which goes on
// while a call waits for it. A file of 0 Bytes has an unknown size: its source must give the size. The error is an
// *Error, ErrClosed, or wraps the cause of ctx.
//
// To make room the cache evicts files that no task holds, least recently used first. If that is not enough, Fetch
// fails at once with NoSpace. Waiting for the holders of files could last forever, if the holders wait for room
// themselves.
func (c *Cache) Fetch(ctx context.Context, f probe.File, peers []string) (*Held, error) {
	start := time.Now()
	for {
		if ctx.Err() != nil {
			return nil, cancelledError(ctx, f)
		}
		e, w, started, err := c.pinOrFetch(f, peers)
		if err != nil {
			return nil, err
		}
		switch {
		case e == nil: // another fetch is in the way
			select {
			case <-w.done:
			case <-ctx.Done():
			}
			continue
		case w == nil: // the entry is in place
			if err := c.checkIntact(ctx, e); ctx.Err() != nil {
				c.unpinEntry(e)
				continue
			} else if err != nil {
				c.dropSpoilt(e, err)
				continue
			}
		default:
			select {
			case <-w.done:
			case <-ctx.Done():
				if c.leaveFetch(e, w) {
					return nil, cancelledError(ctx, f)
				}
				<-w.done
			}
			if w.err != nil {
				if errors.Is(w.err, errReplaced) {
					continue // the file has come
				}
				if !started && (w.file.URL != f.URL || !slices.Equal(w.peers, peers)) {
					continue // this call's own sources may be better
				}
				return nil, w.err
			}
		}
		h := &Held{Path: c.pathOf(e.digest), Took: time.Since(start), cache: c, entry: e}
		if started {
			h.Fetched = w.bytes
		}
		return h, nil
	}
}

func cancelledError(ctx context.Context, f probe.File) error {
	return fmt.Errorf("%s: %w", describeFile(f), context.Cause(ctx))
}

// pinOrFetch returns f's entry with a pin, and the fetch to wait for, nil if the entry is in place. If started is
// set, the call began the fetch. If the entry is nil, another fetch is in the way: try again after its end.
func (c *Cache) pinOrFetch(f probe.File, peers []string) (_ *entry, _ *fetch, started bool, _ error) {
	c.mu.Lock()
	defer c.unlockAndDelete()
	if c.closed {
		return nil, nil, false, ErrClosed
	}
	e := c.entries[f.Digest]
	switch {
	case e == nil:
	case e.fetch != nil:
		if _, abandoned := c.abandoned[e.fetch]; abandoned || !sizeFits(e, f) {
			return nil, e.fetch, false, nil
		}
		e.pins++
		c.stats.Shared++
		return e, e.fetch, false, nil
	case e.state == stateVerified:
		if !sizeFits(e, f) {
			return nil, nil, false, &Error{f, WrongSize, fmt.Errorf(
				"it is announced with %d bytes and has %d: announce its true size", f.Bytes, e.bytes)}
		}
		c.pinEntry(e)
		c.stats.Hits++
		return e, nil, false, nil
	}
	if e == nil || !sizeFits(e, f) {
		// Check f before anything leaves the cache, as far as possible without asking a source.
		if err := c.Check(f); err != nil {
			return nil, nil, false, err
		}
		if f.URL == "" && len(peers) == 0 {
			return nil, nil, false, &Error{
				f, Missing,
				errors.New("no worker has the file in its cache, and the file has no URL: give the file a URL"),
			}
		}
		if problem := c.disk.whyOutOfService(); problem != nil {
			return nil, nil, false, &Error{f, Disk, problem}
		}
		if e != nil { // found at start, with another size: probably cut off by a crash
			c.dropEntry(e)
			c.stats.Spoilt++
		}
		if sizeKnown(f) {
			if w, err := c.makeRoom(f.Bytes); w != nil || err != nil {
				if err != nil {
					err = &Error{f, reasonOf(err), err}
				}
				return nil, w, false, err
			}
			e = newEntry(f.Digest, f.Bytes)
		} else {
			e = &entry{digest: f.Digest} // setBytes sets the charge
		}
		c.entries[f.Digest] = e
		c.usedBytes += e.charge
		c.comingCount++
		c.stats.Misses++
	}
	c.pinEntry(e)
	w := &fetch{file: f, peers: slices.Clone(peers), done: make(chan struct{})}
	w.ctx, w.cancel = context.WithCancelCause(c.ctx)
	e.fetch = w
	c.goroutines.Go(func() { c.runFetch(e, w) })
	return e, w, true, nil
}

// makeRoom evicts files until bytes more fit. If eviction is not enough, makeRoom returns an abandoned fetch whose
// end will free room, or an error.
func (c *Cache) makeRoom(bytes uint64) (*fetch, error) {
	if err := c.checkLimit(bytes); err != nil {
		return nil, err
	}
	need := chargeOf(bytes)
	if c.usedBytes-c.evictableBytes+need > c.maxBytes {
		for w := range c.abandoned {
			return w, nil
		}
		return nil, newFailure(NoSpace, "try another worker, or give this worker a larger cache",
			"its %d bytes do not fit now: tasks at this worker hold %d of the cache's %d bytes",
			bytes, c.usedBytes-c.evictableBytes, c.maxBytes)
	}
	for c.usedBytes+need > c.maxBytes {
		c.evictOldest()
	}
	return nil, nil
}

// checkLimit returns an error if a file of this size is larger than the whole cache.
func (c *Cache) checkLimit(bytes uint64) error {
	if bytes > c.maxBytes || chargeOf(bytes) > c.maxBytes {
		return newFailure(TooLarge, "give the worker a larger cache, or split the file",
			"it has %d bytes, the whole cache of this worker %d", bytes, c.maxBytes)
	}
	return nil
}

// setBytes sets the size of e to the size that a source of its fetch w gives, and reserves the room. It waits for
// abandoned fetches that will free room.
func (c *Cache) setBytes(e *entry, w *fetch, bytes uint64) error {
	for {
		c.mu.Lock()
		c.usedBytes -= e.charge // an earlier source may have given another size
		e.charge = 0
		other, err := c.makeRoom(bytes)
		if other == nil && err == nil {
			e.bytes, e.charge = bytes, chargeOf(bytes)
			c.usedBytes += e.charge
		}
		c.unlockAndDelete()
		if other == nil {
			return err
		}
		select {
		case <-other.done:
		case <-w.ctx.Done():
			return w.ctx.Err()
		}
	}
}

// sizeKnown reports whether f.Bytes is f's size. 0 means unknown, except for the empty file.
func sizeKnown(f probe.File) bool { return f.Bytes > 0 || f.Digest == emptyDigest }

var emptyDigest = sha256.Sum256(nil)

// sizeFits reports whether e has the size announced by f.
func sizeFits(e *entry, f probe.File) bool { return e.bytes == f.Bytes || !sizeKnown(f) }

// endFetch records the end of w, the fetch of e, and wakes all callers waiting for w.
func (c *Cache) endFetch(e *entry, w *fetch, s fileStamp, err error) {
	c.mu.Lock()
	e.fetch = nil
	delete(c.abandoned, w)
	w.err = err
	switch {
	case e.dropped: // by replaceFetched
		w.err = errReplaced
		c.usedBytes -= e.charge
		c.announceFreedRoom()
	case err == nil:
		if e.state == stateComing {
			c.comingCount--
			c.noteChange(e.digest, true)
		} else {
			c.stats.Hits++
		}
		e.state, e.stamp = stateVerified, s
		c.makeEvictable(e)
	case e.state == stateFound: // the check was cancelled
		e.pins = 0
		c.makeEvictable(e)
	default:
		delete(c.entries, e.digest)
		c.usedBytes -= e.charge
		c.comingCount--
		e.dropped = true
		c.announceFreedRoom()
		if _, ok := errors.AsType[*Error](err); ok {
			c.stats.Failures++
		}
	}
	c.unlockAndDelete()
	w.cancel(nil)
	close(w.done)
}

// leaveFetch stops waiting for w. The last caller cancels w. leaveFetch returns false if w has ended.
func (c *Cache) leaveFetch(e *entry, w *fetch) bool {
	c.mu.Lock()
	defer c.unlockAndDelete()
	if e.fetch != w {
		return false
	}
	if e.pins--; e.pins == 0 {
		c.abandoned[w] = struct{}{}
		w.cancel(errAbandoned)
	}
	return true
}

// unpinEntry removes a pin from e.
func (c *Cache) unpinEntry(e *entry) {
	c.mu.Lock()
	defer c.unlockAndDelete()
	e.pins--
	c.makeEvictable(e)
}

// pinEntry adds a pin to e, so that e cannot be evicted.
func (c *Cache) pinEntry(e *entry) {
	e.pins++
	if e.element != nil {
		c.evictable.Remove(e.element)
		e.element = nil
		c.evictableBytes -= e.charge
	}
}

// makeEvictable puts e at the recently used end of the evictable entries, if e has no pin and no fetch.
func (c *Cache) makeEvictable(e *entry) {
	if e.pins == 0 && e.fetch == nil && !e.dropped {
		e.element = c.evictable.PushFront(e)
		c.evictableBytes += e.charge
		c.announceFreedRoom()
	}
}

// announceFreedRoom wakes the calls of FetchAll that wait for room.
func (c *Cache) announceFreedRoom() {
	if c.freedRoom != nil {
		close(c.freedRoom)
		c.freedRoom = nil
	}
}

// evictOldest drops the least recently used entry. There must be an evictable entry.
func (c *Cache) evictOldest() {
	c.dropEntry(c.evictable.Back().Value.(*entry))
	c.stats.Evictions++
}

// dropEntry takes e and its file out of the cache. e must be in place and have no fetch.
func (c *Cache) dropEntry(e *entry) {
	c.forgetEntry(e)
	c.removeFile(e.digest)
	c.noteChange(e.digest, false)
}

// forgetEntry takes e out of the cache, and leaves the file to the caller. e must be in place and have no fetch.
func (c *Cache) forgetEntry(e *entry) {
	if e.element != nil {
		c.evictable.Remove(e.element)
		e.element = nil
		c.evictableBytes -= e.charge
	}
	delete(c.entries, e.digest)
	c.usedBytes -= e.charge
	e.dropped = true
	c.announceFreedRoom()
}

// removeFile frees the file name of an entry at once. unlockAndDelete deletes the file later, outside the lock,
// because deleting may take long.
func (c *Cache) removeFile(digest [32]byte) {
	to := c.newPartialPath()
	switch err := os.Rename(c.pathOf(digest), to); {
	case err == nil:
		c.trash = append(c.trash, to)
	case !errors.Is(err, fs.ErrNotExist):
		c.opts.Logger.Warn("a cached file cannot be removed", "file", hex.EncodeToString(digest[:]), "err", err)
	}
}

// unlockAndDelete releases the lock, then deletes the files removed under the lock.
func (c *Cache) unlockAndDelete() {
	trash := c.trash
	c.trash = nil
	c.mu.Unlock()
	for _, path := range trash {
		if err := os.Remove(path); err != nil {
			c.opts.Logger.Warn("an evicted file cannot be deleted", "err", err)
		}
	}
}

// checkIntact returns an error if the file of a verified entry has changed. It hashes the file again unless the
// stamp proves the file unchanged.
func (c *Cache) checkIntact(ctx context.Context, e *entry) error {
	c.mu.Lock()
	before := e.stamp
	c.mu.Unlock()
	if now, err := stampOf(c.pathOf(e.digest)); err != nil || before.provesUnchanged(now) {
		return err
	}
	now, err := c.runLimited(ctx, "", func() (fileStamp, error) { return c.checkFile(ctx, e) })
	if err == nil {
		c.mu.Lock()
		e.stamp = now
		c.mu.Unlock()
	}
	return err
}

// fileStamp shows changes of a file. A user with write access can set back the time of the last write, but not the
// time of the last change (ctime).
type fileStamp struct {
	bytes, inode     uint64
	written, changed time.Time // changed is zero where the system has no such time
	taken            time.Time // when the stamp was taken, before the other fields
}

var errNotRegular = errors.New("it is no regular file")

// tick is the largest distance of two changes with the same time, in common kernels and on common disks.
const tick = 20 * time.Millisecond

// provesUnchanged reports whether now, a stamp of the same path, shows the same file without a change since.
func (s fileStamp) provesUnchanged(now fileStamp) bool {
	return s.bytes == now.bytes && s.inode == now.inode && s.written.Equal(now.written) &&
		s.changed.Equal(now.changed) &&
		s.taken.Sub(s.changed) > tick // otherwise a change right after that could have the same time
}

// dropSpoilt drops e, whose file was changed or removed, and the caller's pin. Tasks that still hold e find the
// file at the same path again after the next fetch.
func (c *Cache) dropSpoilt(e *entry, why error) {
	c.opts.Logger.Warn("a cached file was spoilt: does another program write to the cache's folder?",
		"file", hex.EncodeToString(e.digest[:]), "err", why)
	c.mu.Lock()
	defer c.unlockAndDelete()
	e.pins--
	c.stats.Spoilt++
	if !e.dropped {
		c.dropEntry(e)
	}
}

// isSpoilt reports whether err, of checkIntact, means that an entry's file is missing or was changed. Other errors
// tell nothing about the file.
func isSpoilt(err error) bool {
	_, ours := errors.AsType[*failure](err)
	return ours || errors.Is(err, fs.ErrNotExist) || errors.Is(err, errNotRegular)
}

func (c *Cache) pathOf(digest [32]byte) string {
	return c.dir + string(filepath.Separator) + hex.EncodeToString(digest[:])
}

// newPartialPath returns a new path for a file that is not an entry.
func (c *Cache) newPartialPath() string {
	c.partialSerial++
	return c.dir + string(filepath.Separator) + partialPrefix + strconv.FormatUint(c.partialSerial, 10)
}

// noteChange records for OnChange: digest came or left. A digest that came and left again cancels out.
func (c *Cache) noteChange(digest [32]byte, came bool) {
	if c.opts.OnChange == nil {
		return
	}
	if was, ok := c.changes[digest]; ok && was != came {
		delete(c.changes, digest)
		return
	}
	c.changes[digest] = came
	select {
	case c.changeSignal <- struct{}{}:
	default:
	}
}

// reportChanges calls OnChange until Close.
func (c *Cache) reportChanges() {
	for {
		select {
		case <-c.changeSignal:
		case <-c.ctx.Done():
			return
		}
		c.mu.Lock()
		changes := c.changes
		c.changes = map[[32]byte]bool{}
		c.mu.Unlock()
		var added, removed [][32]byte
		for d, came := range changes {
			if came {
				added = append(added, d)
			} else {
				removed = append(removed, d)
			}
		}
		if len(changes) > 0 {
			c.opts.OnChange(added, removed)
		}
	}
}

// Digests returns at most limit digests of entries: first the entries held by tasks, in no particular order, then
// the others, most recently used first. The caller owns the slice.
func (c *Cache) Digests(limit int) [][32]byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	held := min(len(c.entries)-c.comingCount-c.evictable.Len(), limit)
	digests := make([][32]byte, 0, min(len(c.entries), limit))
	for d, e := range c.entries {
		if len(digests) == held {
			break
		}
		if e.state != stateComing && e.element == nil {
			digests = append(digests, d)
		}
	}
	for p := c.evictable.Front(); p != nil && len(digests) < limit; p = p.Next() {
		digests = append(digests, p.Value.(*entry).digest)
	}
	return digests
}

// Stats counts since Open. The last three fields describe the present.
type Stats struct {
	Hits   uint64 // calls of Fetch for a file in the cache
	Misses uint64 // calls that began a fetch
	Shared uint64 // calls that joined a running fetch
	// Bytes received from each kind of source, good or not.
	FromPeers, FromHTTP, FromFiles uint64
	PeerFailures                   uint64 // requests failed by peers: no answer, no such file, other content
	Failures                       uint64 // fetches failed by every source; cancelled fetches do not count
	Evictions                      uint64
	Spoilt                         uint64 // entries found changed, cut off or gone
	Served, ServedBytes            uint64 // files and bytes sent to peers

	Entries int    // without entries being fetched
	Bytes   uint64 // of disk, in blocks of 4 KiB, including files being fetched
	Held    uint64 // the part of Bytes held by tasks or fetches
}

// Stats returns the counters.
func (c *Cache) Stats() Stats {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.stats
	s.Entries = len(c.entries) - c.comingCount
	s.Bytes, s.Held = c.usedBytes, c.usedBytes-c.evictableBytes
	return s
}
