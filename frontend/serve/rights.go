package serve

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"slices"

	rec "github.com/phoebe-sched/phoebe/frontend/record"
	"github.com/phoebe-sched/phoebe/frontend/tenants"
	"github.com/phoebe-sched/phoebe/idl/gen/phoebe/v1"
	"github.com/phoebe-sched/phoebe/probe"
	"github.com/phoebe-sched/phoebe/probe/audit"
	"github.com/phoebe-sched/phoebe/probe/identity"
)

// callerIdentity says who makes a call. The zero value may do everything: the caller has shown the secret, or the
// frontend asks for none.
type callerIdentity struct {
	identity.Identity
	// The hash of the token that the caller has shown. Zero: the caller is known by its certificate, if at all.
	token tenants.Hash
}

// identifyCaller finds out who makes a call: by the secret or token shown in the call, and by the connection's
// certificate. false: the caller may not call.
func (s *Server) identifyCaller(shown []byte, cert identity.Identity) (callerIdentity, bool) {
	file := s.terms.current.Load()
	if s.cfg.Keys == nil && s.cfg.Secrets.Takes(string(shown)) {
		return callerIdentity{}, true
	}
	if file.TakesTokens() && len(shown) > 0 {
		token := tenants.Hash(sha256.Sum256(shown))
		if tenant, known := file.OfToken(token); known {
			return callerIdentity{identity.Identity{Roles: identity.Client, Tenant: tenant}, token}, true
		}
		if s.cfg.Keys != nil && (s.cfg.Secrets.Tell() == "" || !s.cfg.Secrets.Takes(string(shown))) {
			// The token is no longer valid. Its owner must not act with the rights of the connection's certificate.
			return callerIdentity{}, false
		}
	}
	if cert.Roles&identity.Client != 0 {
		cert.Tenant = file.OfCertificate(cert.Tenant)
	}
	return callerIdentity{Identity: cert}, s.cfg.Keys != nil
}

// clientOf returns the connection of a call, or nil.
func clientOf(ctx context.Context) *clientConn {
	if v, ok := ctx.Value(visitorKey{}).(*visitor); ok {
		return v.client
	}
	return nil
}

// callerOf says who makes a call.
func callerOf(ctx context.Context) callerIdentity {
	if v, ok := ctx.Value(visitorKey{}).(*visitor); ok {
		return v.caller
	}
	return callerIdentity{}
}

// whyRevoked refuses a call if the token has lost validity since the call began. nil: the call may go on.
func (s *Server) whyRevoked(ctx context.Context) *v1.Refused {
	w := callerOf(ctx)
	if w.token == (tenants.Hash{}) {
		return nil
	}
	if tenant, known := s.terms.current.Load().OfToken(w.token); known && tenant == w.Tenant {
		return nil
	}
	return s.newRefusedUnknown()
}

// newRefusedUnknown refuses a call of an unknown caller.
func (s *Server) newRefusedUnknown() *v1.Refused {
	s.metrics.unauthorized.Inc()
	if s.terms.current.Load().TakesTokens() {
		return newRefused(v1.RefusedReason_UNAUTHORIZED,
			"the token is missing or unknown here: give one whose hash is in the tenants file (client.WithTokenFile, "+
				"phoebe run --token-file), or the secret, in the caller, at the start of the request")
	}
	return newRefused(v1.RefusedReason_UNAUTHORIZED,
		"the secret is missing or wrong: give the frontend's secret in the caller, at the start of the request")
}

// isFromPeer reports whether another frontend forwarded a call. A client that poses as a frontend has not the rights of
// a frontend.
func (h *handler) isFromPeer(ctx context.Context, caller *v1.Caller) bool {
	id := callerOf(ctx)
	return isForwarded(caller) && (id.Roles&identity.Frontend != 0 || h.cfg.Keys == nil && id.Roles == 0)
}

// boundTenant returns the tenant that a call is bound to. The call may concern only jobs of the tenant and of
// tenants below. A frontend that forwards a call tells the tenant that its caller is bound to.
func (h *handler) boundTenant(ctx context.Context, caller *v1.Caller) (tenant string, isBound bool) {
	switch {
	case !h.isFromPeer(ctx, caller):
		return h.cfg.tenantOf(callerOf(ctx).Identity)
	case caller.BoundTo != nil:
		return *caller.BoundTo, true
	case caller.OnBehalf == nil:
		return "", false
	}
	// An older frontend tells only on_behalf. A tenant's name could pass for roles there, as in client/ads+operator.
	if id, err := identity.Parse(*caller.OnBehalf); err == nil && id.Roles == identity.Client {
		return id.Tenant, true
	}
	return noTenant, true
}

// noTenant is the name of no tenant.
const noTenant = "\x00"

// tenantOf returns the tenant that a caller is bound to. Operators and frontends are bound to no tenant. If there are
// no certificates, callers with the secret are not bound, either.
func (c *Config) tenantOf(id identity.Identity) (tenant string, isBound bool) {
	if c.Keys == nil && id.Roles == 0 || id.Roles&(identity.Operator|identity.Frontend) != 0 {
		return "", false
	}
	return id.Tenant, true
}

// guardsJobs reports whether clients may be bound to tenants, by tokens or certificates.
func (s *Server) guardsJobs() bool { return s.cfg.Keys != nil || s.terms.current.Load().TakesTokens() }

// bindToTenant makes job a job of the tenant that the call is bound to. Jobs of tenants beyond the caller's rights
// are refused, as are priorities above the tenant's bound and tasks with functions forbidden to the tenant.
func (h *handler) bindToTenant(ctx context.Context, caller *v1.Caller, job *v1.Job) *v1.Refused {
	if tenant, isBound := h.boundTenant(ctx, caller); isBound {
		if job.Tenant == "" {
			job.Tenant = tenant
		}
		if !probe.TenantCovers(tenant, job.Tenant) {
			return newRefused(v1.RefusedReason_FORBIDDEN,
				"the job names tenant %q, and you are known as a client of %q: name no tenant, your tenant or a "+
					"tenant below, or show a token or a certificate of the job's tenant", job.Tenant, tenant)
		}
		if id, err := probe.ParseJobID(job.Id); err == nil && !id.MayBelongTo(job.Tenant) {
			return newRefused(v1.RefusedReason_FORBIDDEN,
				"job %v: the id belongs to a key of another tenant than %q: if the job has a key of yours, name the "+
					"tenant %[2]q in the job", id, job.Tenant)
		}
	}
	if entry, may := h.terms.current.Load().MayPrioritize(job.Tenant, job.Priority); !may {
		return newRefused(v1.RefusedReason_FORBIDDEN,
			"priority %d: the entry of %q in the tenants file allows tenant %q at most %d: give the job a lower "+
				"priority, or change the entry", job.Priority, entry.Path, job.Tenant, *entry.Priority)
	}
	tasks := job.Tasks
	if r := job.Resubmission; r != nil {
		tasks = slices.Clone(tasks)
		for _, m := range r.Made {
			tasks = append(tasks, m.Spec)
		}
	}
	return h.whyMayNotRun(job.Tenant, tasks)
}

// whyMayNotRun refuses tasks with functions forbidden to the tenant. nil: the tenant may run all tasks.
func (h *handler) whyMayNotRun(tenant string, tasks []*v1.Task) *v1.Refused {
	file := h.terms.current.Load()
	for i, t := range tasks {
		if t == nil || i > 0 && tasks[i-1] != nil && t.FunctionName == tasks[i-1].FunctionName {
			continue
		}
		if entry, may := file.MayRun(tenant, t.FunctionName); !may {
			return newRefused(v1.RefusedReason_FORBIDDEN,
				"task %d: tenant %q may not run %q: the entry of %q in the tenants file lists the allowed functions: "+
					"add it there, or run another function", i, tenant, t.FunctionName, entry)
		}
	}
	return nil
}

// auditCall writes a call to the audit log, with err if the call was refused. action names the call.
func (h *handler) auditCall(ctx context.Context, caller *v1.Caller, action, job, tenant string, err error) {
	if h.cfg.Audit != nil {
		h.cfg.Audit.Note(h.newAuditEntry(ctx, caller, action, job, tenant), err)
	}
}

// auditEvents writes the first call of a caller for the events of r to the audit log. The mutex is held.
func (h *handler) auditEvents(ctx context.Context, caller *v1.Caller, r *clientJob) {
	if h.cfg.Audit == nil {
		return
	}
	id := callerOf(ctx)
	if r.auditedEvents != nil && *r.auditedEvents == id {
		return
	}
	r.auditedEvents = new(id)
	h.cfg.Audit.NoteOnce(h.newAuditEntry(ctx, caller, "events", r.id.String(), r.timing.tenant))
}

// auditRead writes the first read of a file by a caller to the audit log.
func (h *handler) auditRead(ctx context.Context, caller *v1.Caller, digest [32]byte) {
	if h.cfg.Audit != nil {
		e := h.newAuditEntry(ctx, caller, "read file", "", "")
		e.File = hex.EncodeToString(digest[:])
		h.cfg.Audit.NoteOnce(e)
	}
}

// newAuditEntry describes a call and its caller. action names the call.
func (h *handler) newAuditEntry(ctx context.Context, caller *v1.Caller, action, job, tenant string) audit.Entry {
	id := callerOf(ctx)
	e := audit.Entry{What: action, Who: id.String(), Job: job, Tenant: tenant}
	if c := clientOf(ctx); c != nil {
		e.From = c.RemoteAddr().String()
		if id.token != (tenants.Hash{}) {
			e.Token = hex.EncodeToString(id.token[:4])
		} else if c.trusted {
			e.Who = c.id.String()
		}
	}
	if caller != nil {
		e.Name = caller.GetName()
	}
	if h.isFromPeer(ctx, caller) && caller.OnBehalf != nil {
		e.Who = *caller.OnBehalf + " by " + e.Who
	}
	return e
}

// whyMayNotTouch refuses a call about a job beyond the caller's tenant. nil: the caller may touch the job.
func (h *handler) whyMayNotTouch(ctx context.Context, caller *v1.Caller, id probe.JobID, tenant string) *v1.Refused {
	if bound, isBound := h.boundTenant(ctx, caller); isBound && !probe.TenantCovers(bound, tenant) {
		return newRefused(v1.RefusedReason_FORBIDDEN,
			"job %v belongs to another tenant than yours, %q: only its clients and operators may ask for it", id, bound)
	}
	return nil
}

// whyMayNotLook is whyMayNotTouch for a job that may have ended. A forgotten job is visible only to callers without
// a bound tenant, such as operators.
func (h *handler) whyMayNotLook(ctx context.Context, caller *v1.Caller, id probe.JobID) *v1.Refused {
	if _, isBound := h.boundTenant(ctx, caller); !isBound {
		return nil
	}
	h.mu.Lock()
	r := h.jobs[id]
	tenant, known := "", r != nil
	if known {
		tenant = r.timing.tenant
	}
	h.mu.Unlock()
	if !known {
		h.collectJobs()
		var k rec.Kept
		if k, known = h.recorder.findKept(id); known {
			tenant = k.Tenant
		}
	}
	if !known {
		return newRefused(v1.RefusedReason_UNKNOWN_JOB,
			"the tenant of job %v is not known here, or no longer: ask the owner in the job's handle", id)
	}
	return h.whyMayNotTouch(ctx, caller, id, tenant)
}
