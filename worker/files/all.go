package files

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/phoebe-sched/phoebe/probe"
)

// FetchAll returns all files of a task, in order, fetched at the same time; peers names those that may have a file, as
// for Fetch. On an error, the first, it holds none.
//
// Unlike Fetch it waits where others hold the room that it needs. It holds nothing meanwhile, so callers that hold
// files only for what ends by itself never wait for each other in a circle. Who waits is served in turn; later calls
// wait behind it unless all that they need is there. Lack of room is an error only if the files do not fit together
// into an empty cache, or if one whose size was unknown turns out not to fit now.
func (c *Cache) FetchAll(ctx context.Context, files []probe.File, peers func(probe.File) []string) ([]*Held, error) {
	if err := c.checkTogether(files); err != nil {
		return nil, err
	}
	first := false // of those who wait for room
	for {
		fits, allPresent, changed := c.countRoom(files)
		switch {
		case allPresent, first && fits, fits && len(c.roomWaiter) == 0:
			held, err := c.fetchTogether(ctx, files, peers)
			if e, ok := errors.AsType[*Error](err); !ok || e.Reason != NoSpace || !allSizesKnown(files) {
				return held, err
			}
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

// checkTogether tells whether files fit into an empty cache, and are good each by itself.
func (c *Cache) checkTogether(files []probe.File) error {
	sum := uint64(0)
	seen := make(map[[32]byte]bool, len(files))
	for _, f := range files {
		if err := c.Check(f); err != nil {
			return err
		}
		if !seen[f.Digest] {
			seen[f.Digest] = true
			sum += chargeOf(f.Bytes) // at most c.max each
		}
		if sum > c.maxBytes {
			return &Error{f, TooLarge, fmt.Errorf("with the task's other files it needs %d bytes, the whole cache of this worker has %d: give the worker a larger cache, or the task fewer files", sum, c.maxBytes)}
		}
	}
	return nil
}

// countRoom tells whether files fit beside what others hold, and whether they all are there already. The channel is closed
// when either may have changed for the better.
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
		if e != nil && e.element == nil { // counted once, whoever holds it
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

// fetchTogether fetches files at the same time.
func (c *Cache) fetchTogether(ctx context.Context, files []probe.File, peers func(probe.File) []string) ([]*Held, error) {
	inner, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	held := make([]*Held, len(files))
	var wg sync.WaitGroup
	for i, f := range files {
		wg.Go(func() {
			h, err := c.Fetch(inner, f, peers(f))
			if err != nil {
				cancel(err) // the first one counts
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
