package serve

import (
	"context"
	"sync"
	"time"

	"github.com/phoebe-sched/phoebe/frontend"
	"github.com/phoebe-sched/phoebe/idl/gen/phoebe/v1"
)

const (
	// maxLocated bounds the files in one call.
	maxLocated = 100
	// locateTimeout bounds the time of workers to confirm files of a tenant. A worker without an answer counts as a
	// worker without the file.
	locateTimeout = 2 * time.Second
)

// Locate implements the API.
func (h *handler) Locate(ctx context.Context, req *v1.LocateRequest) (*v1.LocateResponse, error) {
	if n := len(req.Sha256); n > maxLocated {
		return nil, newRefused(v1.RefusedReason_TOO_LARGE, "%d files at once: ask for %d at most", n, maxLocated)
	}
	digests := make([][32]byte, len(req.Sha256))
	for i, text := range req.Sha256 {
		var ok bool
		if digests[i], ok = parseDigest(text); !ok {
			return nil, newRefused(v1.RefusedReason_INVALID,
				"sha256[%d] is %q: give 64 hexadecimal digits, as sha256sum prints them", i, clipText(text))
		}
	}
	holders := make([][]frontend.FileHolder, len(digests))
	h.mu.Lock()
	for i, digest := range digests {
		holders[i] = h.core.FileHolders(frontend.FileID(digest))
	}
	h.mu.Unlock()
	if tenant, isBound := h.boundTenant(ctx, req.Caller); isBound {
		if err := h.keepReadable(ctx, tenant, digests, holders); err != nil {
			return nil, err
		}
	}
	res := &v1.LocateResponse{Copies: make([][]*v1.Copy, len(digests))}
	for i := range holders {
		res.Copies[i] = []*v1.Copy{}
		for _, w := range holders[i] {
			res.Copies[i] = append(res.Copies[i], &v1.Copy{At: w.Worker, Rack: w.Rack, Tier: v1.Tier_DISK})
		}
	}
	return res, nil
}

// keepReadable removes the holders that do not confirm that a task of tenant has written or read the file there.
func (h *handler) keepReadable(ctx context.Context, tenant string, digests [][32]byte,
	holders [][]frontend.FileHolder) error {
	select {
	case h.readSlots <- struct{}{}:
		defer func() { <-h.readSlots }()
	case <-time.After(retryReadAfter):
		return newRefusedForNow(v1.RefusedReason_OVERLOADED, "%d files are being read: come back later", maxReads)
	}
	ctx, cancel := context.WithTimeout(ctx, locateTimeout)
	defer cancel()
	for i, list := range holders {
		confirmed := make([]bool, len(list))
		var wg sync.WaitGroup
		for k := range list {
			wg.Go(func() { confirmed[k] = h.files.Has(ctx, list[k].Cache, digests[i], tenant) })
		}
		wg.Wait()
		holders[i] = nil
		for k := range list {
			if confirmed[k] {
				holders[i] = append(holders[i], list[k])
			}
		}
	}
	return nil
}
