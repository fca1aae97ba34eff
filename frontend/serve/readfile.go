package serve

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/phoebe-sched/phoebe/frontend"
	"github.com/phoebe-sched/phoebe/idl/gen/phoebe/v1"
	"github.com/phoebe-sched/phoebe/worker/files"
)

const (
	// maxFilePart bounds the bytes of a file in one answer. maxReads bounds the answers in memory at a time.
	maxFilePart = 1 << 20
	maxReads    = 64
	// maxCacheReads bounds the parts that are read from a single worker's cache at a time. A worker that hangs holds up
	// each part for 10 s. Without the bound, such a worker could use all maxReads, and hold up the files of all
	// workers.
	maxCacheReads = maxReads / 4
	// retryReadAfter is the pause before a client asks again for a part, after no worker could send the part.
	retryReadAfter = 100 * time.Millisecond
)

// ReadFile implements the API. The job that made the file need not be known here: the worker that has the file knows
// the tenants whose tasks have written or read the file.
func (h *handler) ReadFile(ctx context.Context, req *v1.ReadFileRequest) (*v1.ReadFileResponse, error) {
	digest, ok := parseDigest(req.Sha256)
	switch {
	case !ok:
		return nil, newRefused(v1.RefusedReason_INVALID, "sha256 is %q: copy the value from the outcome",
			clipText(req.Sha256))
	case req.FromByte < 0 || req.MaxBytes < 0:
		return nil, newRefused(v1.RefusedReason_INVALID, "from_byte %d, max_bytes %d: give 0 or more", req.FromByte,
			req.MaxBytes)
	}
	most := int(req.MaxBytes)
	if most == 0 || most > maxFilePart {
		most = maxFilePart
	}
	select {
	case h.readSlots <- struct{}{}:
		defer func() { <-h.readSlots }()
	case <-time.After(retryReadAfter):
		return nil, newRefusedForNow(v1.RefusedReason_OVERLOADED, "%d parts of files are being read: come back later",
			maxReads)
	}
	h.mu.Lock()
	caches := h.core.Caches(req.Worker, frontend.FileID(digest))
	h.mu.Unlock()
	var forTenant *string
	if tenant, isBound := h.boundTenant(ctx, req.Caller); isBound {
		forTenant = &tenant
	}
	var failed error
	allMissing := true
	for _, cache := range caches {
		if !h.cacheReads.beginRead(cache) {
			allMissing = false
			failed = fmt.Errorf("%d parts are being read from %s: come back later", maxCacheReads, cache)
			continue
		}
		data, whole, err := h.files.Read(h.ctx, cache, digest, forTenant, uint64(req.FromByte), most)
		h.cacheReads.endRead(cache)
		if err == nil {
			h.auditRead(ctx, req.Caller, digest)
			return &v1.ReadFileResponse{Data: data, SizeBytes: int64(whole)}, nil
		}
		var why *files.Error
		allMissing = allMissing && errors.As(err, &why) && why.Reason == files.Missing
		failed = err
	}
	switch {
	case failed == nil:
		return nil, newRefusedForNow(v1.RefusedReason_NO_FILE,
			"no linked worker is known to have file %s, and worker %q is not linked: run the file's task again",
			clipText(req.Sha256), clipText(req.Worker))
	case allMissing && forTenant != nil:
		return nil, newRefused(v1.RefusedReason_NO_FILE,
			"%v: its worker dropped the file to make room (--cache-size), was restarted, or no task of tenant %q has "+
				"written or read the file there: run the file's task again", failed, *forTenant)
	case allMissing:
		return nil, newRefused(v1.RefusedReason_NO_FILE,
			"%v, its worker dropped the file to make room (--cache-size): run the file's task again", failed)
	}
	return nil, newRefusedForNow(v1.RefusedReason_OVERLOADED, "%v", failed)
}

// cacheReads counts the parts that are being read, by the address of the cache. It is safe for concurrent use.
type cacheReads struct {
	mu     sync.Mutex
	counts map[string]int
}

// beginRead reports whether the caller may read a part of a cache: fewer than maxCacheReads parts are being read. After
// the read, the caller calls endRead.
func (r *cacheReads) beginRead(cache string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.counts[cache] >= maxCacheReads {
		return false
	}
	if r.counts == nil {
		r.counts = map[string]int{}
	}
	r.counts[cache]++
	return true
}

// endRead ends a read that beginRead allowed.
func (r *cacheReads) endRead(cache string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.counts[cache]--; r.counts[cache] == 0 {
		delete(r.counts, cache)
	}
}

// newRefusedForNow refuses a call that may succeed soon.
func newRefusedForNow(reason v1.RefusedReason, format string, args ...any) *v1.Refused {
	r := newRefused(reason, format, args...)
	r.RetryAfterUs = retryReadAfter.Microseconds()
	return r
}
