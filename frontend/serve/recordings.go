package serve

import (
	"cmp"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/cloudwego/kitex/client/callopt"

	rec "github.com/phoebe-sched/phoebe/frontend/record"
	"github.com/phoebe-sched/phoebe/idl/gen/phoebe/v1"
)

// Recordings implements the API.
func (h *handler) Recordings(ctx context.Context, req *v1.RecordingsRequest) (*v1.RecordingsResponse, error) {
	end, err := h.beginRecordingLook(ctx, req.Caller)
	if err != nil {
		return nil, err
	}
	defer end()
	res := &v1.RecordingsResponse{Recordings: h.listRecordings(), Frontends: []*v1.Told{h.describeSelf()}}
	for _, a := range askAllPeers(ctx, h, req.Caller,
		func(ctx context.Context, p *peer, within callopt.Option) (*v1.RecordingsResponse, error) {
			return p.client.Recordings(ctx, &v1.RecordingsRequest{Caller: p.newCaller(ctx)}, within)
		}) {
		res.Frontends = append(res.Frontends, a.peerReport((*v1.RecordingsResponse).GetFrontends))
		if a.res != nil {
			res.Recordings = append(res.Recordings, a.res.Recordings...)
		}
	}
	slices.SortStableFunc(res.Recordings,
		func(a, b *v1.Recording) int { return cmp.Or(cmp.Compare(b.AtUs, a.AtUs), cmp.Compare(a.Name, b.Name)) })
	// several frontends may share a folder
	res.Recordings = slices.CompactFunc(res.Recordings, func(a, b *v1.Recording) bool { return a.Name == b.Name })
	return res, nil
}

// beginRecordingLook lets operators look at recordings.
func (h *handler) beginRecordingLook(ctx context.Context, caller *v1.Caller) (end func(), err error) {
	if tenant, isBound := h.boundTenant(ctx, caller); isBound {
		return nil, newRefused(v1.RefusedReason_FORBIDDEN,
			"only operators may see recordings, which show all tenants: your certificate names tenant %q", tenant)
	}
	return h.beginLook()
}

// listRecordings lists the recordings of this frontend. Files that cannot be read are left out.
func (h *handler) listRecordings() []*v1.Recording {
	list := []*v1.Recording{}
	if h.cfg.RecordDir == "" {
		return list
	}
	files, err := recordingFiles(h.cfg.RecordDir)
	if err != nil {
		return list
	}
	for _, name := range files {
		f, err := os.Open(name)
		if err != nil {
			continue
		}
		r := &v1.Recording{Frontend: h.cfg.Name, Name: filepath.Base(name)}
		x, err := rec.ReadSummary(f)
		if info, errInfo := f.Stat(); err == nil && errInfo == nil {
			r.SizeBytes, r.AtUs, r.Broken, r.ObservedUs, r.Slowest, r.Phase = info.Size(), x.At.UnixMicro(), x.Broken,
				x.Observed.Microseconds(), x.Slowest, x.Phase
			list = append(list, r)
		}
		f.Close()
	}
	return list
}

// recordingPart bounds the bytes of a recording in one answer.
const recordingPart = 1 << 20

// Recording implements the API.
func (h *handler) Recording(ctx context.Context, req *v1.RecordingRequest) (*v1.RecordingResponse, error) {
	end, err := h.beginRecordingLook(ctx, req.Caller)
	if err != nil {
		return nil, err
	}
	defer end()
	if req.Frontend != h.cfg.Name {
		return forwardTo(ctx, h, req.Caller, req.Frontend,
			func(ctx context.Context, p *peer, within callopt.Option) (*v1.RecordingResponse, error) {
				return p.client.Recording(ctx,
					&v1.RecordingRequest{Caller: p.newCaller(ctx), Frontend: req.Frontend, Name: req.Name,
						FromByte: req.FromByte}, within)
			})
	}
	files, err := recordingFiles(h.cfg.RecordDir)
	i := slices.IndexFunc(files, func(name string) bool { return filepath.Base(name) == req.Name })
	if err != nil || h.cfg.RecordDir == "" || i < 0 {
		return nil, newRefused(v1.RefusedReason_INVALID,
			"frontend %s has no recording %q, or not any more: it keeps the last %d", h.cfg.Name, req.Name,
			maxRecordings)
	}
	f, err := os.Open(files[i])
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	part := make([]byte, recordingPart)
	n, err := f.ReadAt(part, max(req.FromByte, 0))
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	return &v1.RecordingResponse{Data: part[:n], SizeBytes: info.Size()}, nil
}
