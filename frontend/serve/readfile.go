package serve

import (
	"context"
	"errors"
	"time"

	"github.com/phoebe-sched/phoebe/frontend"
	"github.com/phoebe-sched/phoebe/idl/gen/phoebe/v1"
	"github.com/phoebe-sched/phoebe/worker/files"
)

const (
	// maxFilePart is how many bytes of a file one answer has at most, and mostReads how many answers there are in memory at a time.
	maxFilePart = 1 << 20
	maxReads    = 64
	// retryReadAfter is when a client comes back whose part nobody could send just now.
	retryReadAfter = 100 * time.Millisecond
)

// ReadFile implements the API. It needs nothing of the job that made the file, and whoever knows the digest has seen the outcome, or
// has the file.
func (h *handler) ReadFile(ctx context.Context, req *v1.ReadFileRequest) (*v1.ReadFileResponse, error) {
	digest, ok := parseDigest(req.Sha256)
	switch {
	case !ok:
		return nil, newRefused(v1.RefusedReason_INVALID, "sha256 is %q: give it as the outcome said it", clipText(req.Sha256))
	case req.FromByte < 0 || req.MaxBytes < 0:
		return nil, newRefused(v1.RefusedReason_INVALID, "from_byte %d, max_bytes %d: give 0 or more", req.FromByte, req.MaxBytes)
	}
	most := int(req.MaxBytes)
	if most == 0 || most > maxFilePart {
		most = maxFilePart
	}
	select {
	case h.readSlots <- struct{}{}:
		defer func() { <-h.readSlots }()
	case <-time.After(retryReadAfter):
		return nil, newRefusedForNow(v1.RefusedReason_OVERLOADED, "%d parts of files are being read: come back later", maxReads)
	}
	h.mu.Lock()
	caches := h.core.Caches(req.Worker, frontend.FileID(digest))
	h.mu.Unlock()
	var failed error
	allMissing := true
	for _, cache := range caches {
		data, whole, err := h.files.Read(h.ctx, cache, digest, uint64(req.FromByte), most)
		if err == nil {
			return &v1.ReadFileResponse{Data: data, SizeBytes: int64(whole)}, nil
		}
		var why *files.Error
		allMissing = allMissing && errors.As(err, &why) && why.Reason == files.Missing
		failed = err
	}
	switch {
	case failed == nil:
		return nil, newRefusedForNow(v1.RefusedReason_NO_FILE, "no worker that this frontend is linked to is said to have file %s, as worker %q is not there: run the task again that made it", clipText(req.Sha256), clipText(req.Worker))
	case allMissing:
		return nil, newRefused(v1.RefusedReason_NO_FILE, "%v, its worker has thrown it away for others (--cache-size): run the task again that made it", failed)
	}
	return nil, newRefusedForNow(v1.RefusedReason_OVERLOADED, "%v", failed)
}

// newRefusedForNow refuses what may be possible soon.
func newRefusedForNow(reason v1.RefusedReason, format string, args ...any) *v1.Refused {
	r := newRefused(reason, format, args...)
	r.RetryAfterUs = retryReadAfter.Microseconds()
	return r
}
