package serve

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"slices"

	"github.com/phoebe-sched/phoebe/frontend/tenants"
	"github.com/phoebe-sched/phoebe/idl/gen/phoebe/v1"
	"github.com/phoebe-sched/phoebe/probe"
	"github.com/phoebe-sched/phoebe/probe/audit"
	"github.com/phoebe-sched/phoebe/probe/identity"
)

// callerIdentity makes a call. The zero one has shown the secret, or there is none, and may do everything.
type callerIdentity struct {
	identity.Identity
	token tenants.Hash // of the token by which it is known; zero: it is known by its certificate, if at all
}

// identifyCaller says who makes a call by what it tells, the secret or a token, and by the certificate of its connection; false: it
// may not call.
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
			return callerIdentity{}, false // a token that is gone: its owner is not to pass for who the certificate is of
		}
	}
	if cert.Roles&identity.Client != 0 {
		cert.Tenant = file.OfCertificate(cert.Tenant)
	}
	return callerIdentity{Identity: cert}, s.cfg.Keys != nil
}

// clientOf is the connection on which a call came, or nil.
func clientOf(ctx context.Context) *clientConn {
	if v, ok := ctx.Value(visitorKey{}).(*visitor); ok {
		return v.client
	}
	return nil
}

// callerOf is who makes a call.
func callerOf(ctx context.Context) callerIdentity {
	if v, ok := ctx.Value(visitorKey{}).(*visitor); ok {
		return v.caller
	}
	return callerIdentity{}
}

// whyRevoked tells whether the token by which somebody called does not count any more.
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

// newRefusedUnknown refuses a call of nobody who is known.
func (s *Server) newRefusedUnknown() *v1.Refused {
	s.metrics.unauthorized.Inc()
	if s.terms.current.Load().TakesTokens() {
		return newRefused(v1.RefusedReason_UNAUTHORIZED, "the token is missing or unknown here: give one whose hash is in the tenants file (client.WithTokenFile, phoebe run --token-file), or the secret, in the caller, which comes first in the request")
	}
	return newRefused(v1.RefusedReason_UNAUTHORIZED, "the secret is missing or wrong: give the one that this frontend was started with, in the caller, which comes first in the request")
}

// onBehalfOf is for whom a frontend has forwarded a call; nil: it is nobody's who is bound to a tenant, or has not been forwarded.
func (h *handler) onBehalfOf(ctx context.Context, caller *v1.Caller) *string {
	id := callerOf(ctx)
	if peer := id.Roles&identity.Frontend != 0 || h.cfg.Keys == nil && id.Roles == 0; peer && isForwarded(caller) {
		return caller.OnBehalf
	}
	return nil
}

// boundTenant is the tenant that a call is bound to: it is for its jobs and those of tenants below it, and about them alone. Operators and
// frontends are bound to none, nor is who has the secret, where no certificates tell who is who.
func (h *handler) boundTenant(ctx context.Context, caller *v1.Caller) (tenant string, isBound bool) {
	id := callerOf(ctx).Identity
	if principal := h.onBehalfOf(ctx, caller); principal != nil {
		var err error
		if id, err = identity.Parse(*principal); err != nil {
			return "\x00", true // whoever that is: no tenant
		}
	}
	if h.cfg.Keys == nil && id.Roles == 0 || id.Roles&(identity.Operator|identity.Frontend) != 0 {
		return "", false
	}
	return id.Tenant, true
}

// bindToTenant makes a job one of the tenant that its call is bound to, or refuses it, as it refuses functions that its tenant may not run.
func (h *handler) bindToTenant(ctx context.Context, caller *v1.Caller, job *v1.Job) *v1.Refused {
	if tenant, isBound := h.boundTenant(ctx, caller); isBound {
		if job.Tenant == "" {
			job.Tenant = tenant
		}
		if !tenants.Covers(tenant, job.Tenant) {
			return newRefused(v1.RefusedReason_FORBIDDEN, "the job names tenant %q, and you are known as a client of %q: name no tenant, that one or one below it, or show a token or a certificate of the other one", job.Tenant, tenant)
		}
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

// whyMayNotRun refuses functions that a tenant may not run.
func (h *handler) whyMayNotRun(tenant string, tasks []*v1.Task) *v1.Refused {
	file := h.terms.current.Load()
	for i, t := range tasks {
		if t == nil || i > 0 && tasks[i-1] != nil && t.FunctionName == tasks[i-1].FunctionName {
			continue
		}
		if entry, may := file.MayRun(tenant, t.FunctionName); !may {
			return newRefused(v1.RefusedReason_FORBIDDEN, "task %d: tenant %q may not run %q: the entry of %q in the tenants file says which functions it may, add it there or run another one", i, tenant, t.FunctionName, entry)
		}
	}
	return nil
}

// auditCall has it written down what was asked of a job, and err, if it was refused.
func (h *handler) auditCall(ctx context.Context, caller *v1.Caller, action, job, tenant string, err error) {
	if h.cfg.Audit == nil {
		return
	}
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
	if principal := h.onBehalfOf(ctx, caller); principal != nil {
		e.Who = *principal + " by " + e.Who
	}
	h.cfg.Audit.Note(e, err)
}

// whyMayNotTouch refuses a call about a job that is not of the caller's tenant.
func (h *handler) whyMayNotTouch(ctx context.Context, caller *v1.Caller, id probe.JobID, tenant string) *v1.Refused {
	if bound, isBound := h.boundTenant(ctx, caller); isBound && !tenants.Covers(bound, tenant) {
		return newRefused(v1.RefusedReason_FORBIDDEN, "job %v is of another tenant than %q, as whose client you are known: only its own clients and operators may ask for it", id, bound)
	}
	return nil
}

// whyMayNotLook is mayTouch of a job that may be over. What has been forgotten is nobody's but operators'.
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
		h.recorder.mu.Lock()
		for _, k := range h.recorder.keptJobs.All() {
			if k.ID == id {
				tenant, known = k.Tenant, true
			}
		}
		h.recorder.mu.Unlock()
	}
	if !known {
		return newRefused(v1.RefusedReason_UNKNOWN_JOB, "whose job %v is is not known here, or not any more: ask its owner, as its handle names it", id)
	}
	return h.whyMayNotTouch(ctx, caller, id, tenant)
}
