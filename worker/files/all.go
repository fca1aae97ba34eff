package files

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/phoebe-sched/phoebe/probe"
)

// FetchAll returns all files of a task, in order, fetched at the same time. peers names the workers that may have a
// file, as for Fetch. On an error FetchAll returns the first error and holds no file.
//
// Unlike Fetch, FetchAll waits while other tasks hold the room it needs. It holds no file while it waits. So
// callers never wait for each other in a circle, if every caller holds files only for work without further waits.
// Waiting calls are served in order. A later call waits behind earlier calls unless all its files are present. Lack
// of room is an error in two cases only. Either the files do not fit together into an empty cache, or a file of
// unknown size turns out not to fit now.
func (c *Cache) FetchAll(ctx context.Context, files []probe.File, peers func(probe.File) []string) ([]*Held, error) {
	if err := c.checkTogether(files); err != nil {
		return nil, err
	}
	first := false // this call is first in line for room
	for {
		fits, allPresent, changed := c.countRoom(files)
		switch {
		case allPresent, first && fits, fits && len(c.roomWaiter) == 0:
			held, err := c.fetchTogether(ctx, files, peers)
			if e, ok := errors.AsType[*Error](err); !ok || e.Reason != NoSpace || !allSizesKnown(files) {
				return held, err
			}
			// Another call took the room meanwhile: wait again.
		case first:
			select {
			case <-changed:
			case <-ctx.Done():
				return nil, cancelledError(ctx, files[0])
			}
			continue
		}
		if !first {
			select {
			case c.roomWaiter <- struct{}{}:
				first = true
				defer func() { <-c.roomWaiter }()
			case <-ctx.Done():
				return nil, cancelledError(ctx, files[0])
			}
		}
	}
}

// checkTogether checks each file by itself, and whether all files fit into an empty cache.
func (c *Cache) checkTogether(files []probe.File) error {
	sum := uint64(0)
	seen := make(map[[32]byte]bool, len(files))
	for _, f := range files {
		if err := c.Check(f); err != nil {
			return err
		}
		if !seen[f.Digest] {
			seen[f.Digest] = true
			sum += chargeOf(f.Bytes) // at most c.maxBytes each
		}
		if sum > c.maxBytes {
			return &Error{f, TooLarge, fmt.Errorf(
				"the task's files need %d bytes, the whole cache has %d: enlarge the cache, or name fewer files",
				sum, c.maxBytes)}
		}
	}
	return nil
}

// HasAll reports whether all files are in the cache, as far as known without looking at the disk.
func (c *Cache) HasAll(files []probe.File) bool {
	_, allPresent, _ := c.countRoom(files)
	return allPresent
}

// countRoom reports whether files fit next to the files held by other tasks, and whether all files are present
// already. The channel is closed at the next change that may turn either answer into yes.
func (c *Cache) countRoom(files []probe.File) (enough, allPresent bool, changed <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	heldBytes, need := c.usedBytes-c.evictableBytes, uint64(0)
	allPresent = true
	seen := make(map[[32]byte]bool, len(files))
	for _, f := range files {
		if seen[f.Digest] {
			continue
		}
		seen[f.Digest] = true
		e := c.entries[f.Digest]
		allPresent = allPresent && e != nil && e.state != stateComing
		if e != nil && e.element == nil { // counted once, however many tasks hold the file
			heldBytes -= e.charge
		}
		if e != nil && sizeFits(e, f) {
			need += e.charge
		} else {
			need += chargeOf(f.Bytes)
		}
	}
	if c.freedRoom == nil {
		c.freedRoom = make(chan struct{})
	}
	return heldBytes+need <= c.maxBytes, allPresent, c.freedRoom
}

// fetchTogether fetches files at the same time. If a fetch fails, fetchTogether cancels the others and holds no
// file.
func (c *Cache) fetchTogether(ctx context.Context, files []probe.File, peers func(probe.File) []string) ([]*Held,
	error) {
	inner, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	held := make([]*Held, len(files))
	var wg sync.WaitGroup
	for i, f := range files {
		wg.Go(func() {
			h, err := c.Fetch(inner, f, peers(f))
			if err != nil {
				cancel(err) // the first error counts
			}
			held[i] = h
		})
	}
	wg.Wait()
	if inner.Err() == nil {
		return held, nil
	}
	for _, h := range held {
		if h != nil {
			h.Release()
		}
	}
	return nil, context.Cause(inner)
}

func allSizesKnown(files []probe.File) bool {
	for _, f := range files {
		if !sizeKnown(f) {
			return false
		}
	}
	return true
}
