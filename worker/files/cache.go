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

// partialPrefix begins the names of files that are no entries: being fetched, or about to be deleted.
const partialPrefix = "partial-"

// block is the unit in which entries count, as on the disk: it bounds how many small ones there are.
const block = 4096

// Cache is a folder of files, each named by its digest in hex. Safe for concurrent use.
type Cache struct {
	dir        string // absolute
	maxBytes   uint64 // bytes
	opts       Options
	lockFile   *os.File
	roomWaiter chan struct{} // one element while somebody waits for room, at the head of all who do
	peers      *http.Client
	origin     *http.Client
	ctx        context.Context // ends with Close
	cancelAll  context.CancelCauseFunc
	goroutines sync.WaitGroup // fetches, and the teller of changes

	mu             sync.Mutex
	closed         bool
	entries        map[[32]byte]*entry
	evictable      list.List             // of *entry: what may be evicted, used last first
	usedBytes      uint64                // charges of all entries
	evictableBytes uint64                // the part of used that is idle
	comingCount    int                   // entries that are not in place yet
	abandoned      map[*fetch]struct{}   // fetches that were called off and have not ended
	trash          []string              // paths to delete once the lock is free: that may take long
	partialSerial  uint64                // of names of partial files
	servingCount   int                   // files that are being sent to peers
	hostLimits     map[string]*hostLimit // of fetches, by the host that they ask; "" of what needs this machine only
	freedRoom      chan struct{}         // closed when room is given back; nil if nobody listens
	changes        map[[32]byte]bool     // not told yet: true if it came, false if it left
	changeSignal   chan struct{}         // holds an element while there are changes
	stats          Stats
}

// hostLimit lets only some of its users go on at a time.
type hostLimit struct {
	users   int           // guarded by the cache's lock
	running chan struct{} // one element for each that goes on
}

type entryState uint8

const (
	stateComing   entryState = iota // being fetched: its charge is reserved, nothing is in place
	stateFound                      // left by an earlier process: right in name and size
	stateVerified                   // hashed by this process
)

// entry is a file in the cache, or about to be. It is in idle exactly if it is in place, has no fetch and no pins.
// All but digest, bytes and charge is under the lock of the cache.
type entry struct {
	digest  [32]byte
	bytes   uint64
	charge  uint64
	state   entryState
	pins    int           // calls that wait for it and tasks that hold it
	fetch   *fetch        // that is to bring or check it; nil if none
	element *list.Element // in idle; nil if not there
	stamp   fileStamp     // of the file whose content was right
	dropped bool          // no longer the entry of its digest
}

// fetch is the work on one entry, shared by all who wait for it.
type fetch struct {
	file   probe.File
	peers  []string
	ctx    context.Context
	cancel context.CancelCauseFunc
	done   chan struct{} // closed at the end; what follows is then fixed
	err    error
	bytes  uint64 // that sources sent
}

var errAbandoned = errors.New("nobody waits for the file any more")

// Open makes dir a cache of at most maxBytes, with what an earlier one left in it. dir is created with its parents if
// it is not there; otherwise it must belong to this process' user, and nobody else may have rights to it. The cache
// owns it until Close. The bound counts files in blocks of 4 KiB, those that are being fetched included. Names in dir
// that are none of ours are left alone.
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
	}
	c.peers, c.origin = newPeerClient(c.opts.Keys, c.opts.Timeout), c.newOriginClient()
	if err := c.takeFolder(); err != nil {
		return nil, fmt.Errorf("file cache: %w", err)
	}
	c.ctx, c.cancelAll = context.WithCancelCause(context.Background())
	if c.opts.OnChange != nil {
		c.goroutines.Go(c.tellChanges)
	}
	return c, nil
}

// takeFolder takes the folder and what is in it.
func (c *Cache) takeFolder() error {
	if err := os.MkdirAll(c.dir, 0o700); err != nil {
		return err
	}
	info, err := os.Stat(c.dir)
	if err != nil {
		return err
	}
	if err := checkOwner(c.dir, info); err != nil {
		return err
	}
	if perm := info.Mode().Perm(); perm&0o077 != 0 {
		return fmt.Errorf("%s is open to other users (mode %#o): chmod 700 it, or name another folder", c.dir, perm)
	}
	if c.lockFile, err = lockFolder(c.dir); err != nil {
		return err
	}
	if err := c.scanFolder(); err != nil {
		c.lockFile.Close()
		return err
	}
	return nil
}

// scanFolder takes over what an earlier cache left: entries, the one fetched last as the one used last, and partial files,
// which go.
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

// chargeOf is what a file of that size counts. It must not be near the largest uint64.
func chargeOf(bytes uint64) uint64 { return max(1, (bytes+block-1)/block) * block }

// Close calls off all fetches, waits for their ends and gives up the folder. What is in it stays, also for those who
// still hold it. Requests to Handler that came before may go on.
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
	Path    string        // absolute; for reading (and executing) only
	Fetched uint64        // bytes that sources sent for it: zero on a hit, and for all but the first who share a fetch
	Took    time.Duration // that Fetch took

	cache    *Cache
	entry    *entry
	released atomic.Bool
}

// Release allows the file to be evicted. Calls after the first do nothing.
func (h *Held) Release() {
	if !h.released.Swap(true) {
		h.cache.unpinEntry(h.entry)
	}
}

// Fetch returns f, from the cache if it is there, else from the first source that has it: the first few of peers (URLs
// of workers whose Handler answers), then f's URL. Calls for the same file share one fetch, which goes on as long as
// one of them waits. The size of a file of 0 Bytes is unknown: its source must tell it. An error is an *Error, ErrClosed
// or wraps the cause of ctx.
//
// Room is made by evicting what is not held, used longest ago first. If that is not enough Fetch fails at once with
// NoSpace: waiting for those who hold files could wait forever, if they wait for room themselves.
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
		case e == nil: // something is in the way
			select {
			case <-w.done:
			case <-ctx.Done():
			}
			continue
		case w == nil: // it is there
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
				if !started && (w.file.URL != f.URL || !slices.Equal(w.peers, peers)) {
					continue // our own sources may be better
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

// pinOrFetch returns f's entry with a pin, and the fetch to wait for: nil if it is in place, mine if it was begun here.
// Without an entry, the fetch has to end before another try makes sense.
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
			return nil, nil, false, &Error{f, WrongSize, fmt.Errorf("it is announced with %d bytes and has %d: announce that", f.Bytes, e.bytes)}
		}
		c.pinEntry(e)
		c.stats.Hits++
		return e, nil, false, nil
	}
	if e == nil || !sizeFits(e, f) {
		// What can be said without asking anybody is said before anything leaves the cache.
		if err := c.Check(f); err != nil {
			return nil, nil, false, err
		}
		if f.URL == "" && len(peers) == 0 {
			return nil, nil, false, &Error{f, Missing, errors.New("no worker has it in its cache, and it has no URL: give it one")}
		}
		if e != nil { // found, probably cut off by a crash
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
			e = &entry{digest: f.Digest} // its charge comes with its size
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

// makeRoom evicts until bytes more fit. If they cannot it returns a fetch after whose end they may, or an error.
func (c *Cache) makeRoom(bytes uint64) (*fetch, error) {
	if err := c.checkLimit(bytes); err != nil {
		return nil, err
	}
	need := chargeOf(bytes)
	if c.usedBytes-c.evictableBytes+need > c.maxBytes {
		for w := range c.abandoned {
			return w, nil
		}
		return nil, newFailure(NoSpace, "try another worker, or give this one a larger cache", "its %d bytes do not fit now: tasks that run or wait here hold %d of the cache's %d bytes",
			bytes, c.usedBytes-c.evictableBytes, c.maxBytes)
	}
	for c.usedBytes+need > c.maxBytes {
		c.evictOldest()
	}
	return nil, nil
}

func (c *Cache) checkLimit(bytes uint64) error {
	if bytes > c.maxBytes || chargeOf(bytes) > c.maxBytes {
		return newFailure(TooLarge, "give the worker a larger cache, or split the file", "it has %d bytes, the whole cache of this worker %d", bytes, c.maxBytes)
	}
	return nil
}

// setBytes gives e, which w brings, the size that a source told.
func (c *Cache) setBytes(e *entry, w *fetch, bytes uint64) error {
	for {
		c.mu.Lock()
		c.usedBytes -= e.charge // of a source before
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

// sizeKnown tells whether f's Bytes are its size, not the 0 of an unknown one.
func sizeKnown(f probe.File) bool { return f.Bytes > 0 || f.Digest == emptyDigest }

var emptyDigest = sha256.Sum256(nil)

// sizeFits tells whether e has the size that f announces.
func sizeFits(e *entry, f probe.File) bool { return e.bytes == f.Bytes || !sizeKnown(f) }

// endFetch records how w, the fetch of e, ended.
func (c *Cache) endFetch(e *entry, w *fetch, s fileStamp, err error) {
	c.mu.Lock()
	e.fetch = nil
	delete(c.abandoned, w)
	w.err = err
	switch {
	case err == nil:
		if e.state == stateComing {
			c.comingCount--
			c.noteChange(e.digest, true)
		} else {
			c.stats.Hits++
		}
		e.state, e.stamp = stateVerified, s
		c.makeEvictable(e)
	case e.state == stateFound: // the check was called off
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

// leaveFetch gives up waiting for w, unless it has ended. The last one calls it off.
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

func (c *Cache) unpinEntry(e *entry) {
	c.mu.Lock()
	defer c.unlockAndDelete()
	e.pins--
	c.makeEvictable(e)
}

// pinEntry takes e out of what may be evicted.
func (c *Cache) pinEntry(e *entry) {
	e.pins++
	if e.element != nil {
		c.evictable.Remove(e.element)
		e.element = nil
		c.evictableBytes -= e.charge
	}
}

// makeEvictable lets e be evicted, as the last of all, if nobody needs it.
func (c *Cache) makeEvictable(e *entry) {
	if e.pins == 0 && e.fetch == nil && !e.dropped {
		e.element = c.evictable.PushFront(e)
		c.evictableBytes += e.charge
		c.announceFreedRoom()
	}
}

func (c *Cache) announceFreedRoom() {
	if c.freedRoom != nil {
		close(c.freedRoom)
		c.freedRoom = nil
	}
}

// evictOldest drops what was used longest ago. There must be something idle.
func (c *Cache) evictOldest() {
	c.dropEntry(c.evictable.Back().Value.(*entry))
	c.stats.Evictions++
}

// dropEntry takes e, which is in place and has no fetch, and its file out of the cache.
func (c *Cache) dropEntry(e *entry) {
	if e.element != nil {
		c.evictable.Remove(e.element)
		e.element = nil
		c.evictableBytes -= e.charge
	}
	delete(c.entries, e.digest)
	c.usedBytes -= e.charge
	e.dropped = true
	c.announceFreedRoom()
	c.removeFile(e.digest)
	c.noteChange(e.digest, false)
}

// removeFile frees the name of an entry at once and deletes its file soon after.
func (c *Cache) removeFile(digest [32]byte) {
	to := c.newPartialPath()
	switch err := os.Rename(c.pathOf(digest), to); {
	case err == nil:
		c.trash = append(c.trash, to)
	case !errors.Is(err, fs.ErrNotExist):
		c.opts.Logger.Warn("a cached file cannot be removed", "file", hex.EncodeToString(digest[:]), "err", err)
	}
}

// unlockAndDelete releases the lock, then deletes what was removed under it.
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

// checkIntact tells whether the file of a verified entry is still what was put there: it hashes it again unless its stamp
// says that nobody has changed it.
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

// fileStamp is what tells that somebody has changed a file. Who may write to it can also set the time back when it was
// written, but not the time of the last change to anything about it.
type fileStamp struct {
	bytes, inode     uint64
	written, changed time.Time // the second is zero where the system does not tell
	taken            time.Time // before the others
}

var errNotRegular = errors.New("it is no regular file")

// tick is how far apart two changes may be and yet have the same time, in kernels and on disks that people use.
const tick = 20 * time.Millisecond

// provesUnchanged tells whether now, of the same path, is of the same file without a change since.
func (s fileStamp) provesUnchanged(now fileStamp) bool {
	return s.bytes == now.bytes && s.inode == now.inode && s.written.Equal(now.written) && s.changed.Equal(now.changed) &&
		s.taken.Sub(s.changed) > tick // else a change right after that would have the same time
}

// dropSpoilt drops e, whose file somebody changed or removed, and the caller's pin. Others who hold it find it again at the
// same path once it was fetched again.
func (c *Cache) dropSpoilt(e *entry, why error) {
	c.opts.Logger.Warn("a cached file was spoilt: is something else writing to the cache's folder?",
		"file", hex.EncodeToString(e.digest[:]), "err", why)
	c.mu.Lock()
	defer c.unlockAndDelete()
	e.pins--
	c.stats.Spoilt++
	if !e.dropped {
		c.dropEntry(e)
	}
}

func (c *Cache) pathOf(digest [32]byte) string {
	return c.dir + string(filepath.Separator) + hex.EncodeToString(digest[:])
}

// newPartialPath returns a new path for a file that is no entry.
func (c *Cache) newPartialPath() string {
	c.partialSerial++
	return c.dir + string(filepath.Separator) + partialPrefix + strconv.FormatUint(c.partialSerial, 10)
}

// noteChange has OnChange told that digest came or left.
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

// tellChanges calls OnChange until Close.
func (c *Cache) tellChanges() {
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

// Digests returns what is in the cache, most files of it at most: first what is held, in no particular order, then the
// rest, what was used last first. The slice is the caller's.
func (c *Cache) Digests(most int) [][32]byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	held := min(len(c.entries)-c.comingCount-c.evictable.Len(), most)
	digests := make([][32]byte, 0, min(len(c.entries), most))
	for d, e := range c.entries {
		if len(digests) == held {
			break
		}
		if e.state != stateComing && e.element == nil {
			digests = append(digests, d)
		}
	}
	for p := c.evictable.Front(); p != nil && len(digests) < most; p = p.Next() {
		digests = append(digests, p.Value.(*entry).digest)
	}
	return digests
}

// Stats counts since Open, but for the last three, which are of now.
type Stats struct {
	Hits   uint64 // calls of Fetch for what was there
	Misses uint64 // that began a fetch
	Shared uint64 // that joined one
	// Bytes that came from each kind of source, whether they were good or not.
	FromPeers, FromHTTP, FromFiles uint64
	PeerFailures                   uint64 // peers that did not have what was asked of them, or sent something else
	Failures                       uint64 // fetches that no source could satisfy; those called off do not count
	Evictions                      uint64
	Spoilt                         uint64 // entries that were found changed, cut off or gone
	Served, ServedBytes            uint64 // files and bytes that went to peers

	Entries int    // in the cache
	Bytes   uint64 // of disk, with what is being fetched, in blocks of 4 KiB
	Held    uint64 // the part of Bytes that cannot be evicted
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
