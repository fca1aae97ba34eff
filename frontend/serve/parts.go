package serve

import (
	"context"
	"time"

	"github.com/phoebe-sched/phoebe/idl/gen/phoebe/v1"
)

// A resubmitted job too large for one call comes in parts (Resubmission in the IDL). The frontend keeps the parts until
// the last part has come, and then treats the whole as one call.

// maxPartsPause bounds the time between two parts of a job. After that the frontend forgets the parts.
const maxPartsPause = 30 * time.Second

// A part counts with its bytes, and with the memory around them, about: partBytes, and taskBytes for each task.
const (
	partBytes = 1 << 10
	taskBytes = 512
)

// jobParts holds the first parts of a job.
type jobParts struct {
	tenant string
	count  int32 // Resubmission.Count
	part   int32 // the last part
	tasks  []*v1.Task
	bytes  int
	expire *time.Timer
}

// isInParts reports whether the call brings a part of a job.
func isInParts(job *v1.Job) bool {
	return job != nil && job.Resubmission != nil && job.Resubmission.Parts > 1
}

// addPart keeps a part of a job. After the last part, the tasks of all parts are in req, and whole is true.
func (h *handler) addPart(ctx context.Context, req *v1.SubmitRequest) (whole bool, err error) {
	defer releaseRequestRoom(ctx)
	job := req.Job
	if refused := h.bindToTenant(ctx, req.Caller, job); refused != nil {
		return false, refused
	}
	r := job.Resubmission
	size := job.BLength() + partBytes + taskBytes*len(job.Tasks)
	h.mu.Lock()
	defer h.unlockAndFlush()
	parts := h.jobParts[job.Id]
	if r.Part == 0 {
		h.dropParts(job.Id)
		parts = &jobParts{tenant: job.Tenant, count: r.Count, part: -1}
		id := job.Id
		parts.expire = time.AfterFunc(maxPartsPause, func() { h.expireParts(id, parts) })
		h.jobParts[id] = parts
	}
	total := h.partsBytes + size
	switch limit := h.cfg.Core.MaxPayloads + taskBytes*h.cfg.Core.MaxTasksPerJob; {
	case parts == nil || parts.tenant != job.Tenant || parts.count != r.Count || parts.part != r.Part-1 ||
		r.Part >= r.Parts:
		return false, newRefused(v1.RefusedReason_OWNER_LOST,
			"part %d of job %s is not the next part here: begin again with part 0", r.Part, job.Id)
	case total > limit:
		h.dropParts(job.Id)
		refused := newRefused(v1.RefusedReason_OVERLOADED,
			"jobs in parts would take %d bytes here, and the limit is %d: come back later", total, limit)
		refused.RetryAfterUs = time.Second.Microseconds()
		return false, refused
	}
	parts.expire.Reset(maxPartsPause)
	parts.part = r.Part
	parts.bytes += size
	h.partsBytes += size
	parts.tasks = append(parts.tasks, job.Tasks...)
	if r.Part < r.Parts-1 {
		return false, nil
	}
	h.dropParts(job.Id)
	job.Tasks = parts.tasks
	return true, nil
}

// expireParts forgets parts whose next part has not come in time.
func (s *Server) expireParts(id string, parts *jobParts) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.jobParts[id] == parts {
		s.dropParts(id)
	}
}

// dropParts forgets the parts of a job. The mutex is held.
func (s *Server) dropParts(id string) {
	if parts := s.jobParts[id]; parts != nil {
		parts.expire.Stop()
		s.partsBytes -= parts.bytes
		delete(s.jobParts, id)
	}
}
