package serve

import (
	"context"

	"github.com/phoebe-sched/phoebe/frontend"
	"github.com/phoebe-sched/phoebe/idl/gen/phoebe/v1"
)

// maxLocated bounds the files in one call.
const maxLocated = 100

// Locate implements the API.
func (h *handler) Locate(_ context.Context, req *v1.LocateRequest) (*v1.LocateResponse, error) {
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
	res := &v1.LocateResponse{Copies: make([][]*v1.Copy, len(digests))}
	h.mu.Lock()
	defer h.mu.Unlock()
	for i, digest := range digests {
		res.Copies[i] = []*v1.Copy{}
		for _, c := range h.core.FileHolders(frontend.FileID(digest)) {
			res.Copies[i] = append(res.Copies[i], &v1.Copy{At: c.At, Rack: c.Rack, Tier: v1.Tier_DISK})
		}
	}
	return res, nil
}
