package serve

import (
	"context"

	"github.com/phoebe-sched/phoebe/idl/gen/phoebe/v1"
	"github.com/phoebe-sched/phoebe/probe"
	"github.com/phoebe-sched/phoebe/probe/audit"
	"github.com/phoebe-sched/phoebe/probe/identity"
)

// asks is who makes a call, by the certificate of the connection.
func asks(ctx context.Context) (id identity.Identity) {
	if v, ok := ctx.Value(visitorKey{}).(*visitor); ok {
		id = v.client.id
	}
	return id
}

// bound is the tenant that a call is bound to: it is for its jobs, and about them alone. Operators and frontends are bound to
// none, nor is anyone where no certificates tell who is who.
func (h *handler) bound(ctx context.Context, caller *v1.Caller) (tenant string, is bool) {
	id := asks(ctx)
	if id.Roles&identity.Frontend != 0 && forwarded(caller) && caller.OnBehalf != nil {
		var err error
		if id, err = identity.Parse(*caller.OnBehalf); err != nil {
			return "", true // whoever that is
		}
	}
	if h.cfg.Keys == nil || id.Roles&(identity.Operator|identity.Frontend) != 0 {
		return "", false
	}
	return id.Tenant, true
}

// note has it written down what was asked of a job, and err, if it was refused.
func (h *handler) note(ctx context.Context, caller *v1.Caller, what, job, tenant string, err error) {
	if h.cfg.Audit == nil {
		return
	}
	e := audit.Entry{What: what, Who: asks(ctx).String(), Job: job, Tenant: tenant}
	if v, ok := ctx.Value(visitorKey{}).(*visitor); ok {
		e.From = v.client.RemoteAddr().String()
	}
	if caller != nil {
		e.Name = caller.GetName()
	}
	if forwarded(caller) {
		e.Who = caller.GetOnBehalf() + " by " + e.Who
	}
	h.cfg.Audit.Note(e, err)
}

// mayTouch refuses a call about a job that is not of the caller's tenant.
func (h *handler) mayTouch(ctx context.Context, caller *v1.Caller, id probe.JobID, tenant string) *v1.Refused {
	if own, is := h.bound(ctx, caller); is && own != tenant {
		return refuse(v1.RefusedReason_FORBIDDEN, "job %v is of another tenant than %q, which your certificate names: only its own clients and operators may ask for it", id, own)
	}
	return nil
}

// mayLook is mayTouch of a job that may be over. What has been forgotten is nobody's but operators'.
func (h *handler) mayLook(ctx context.Context, caller *v1.Caller, id probe.JobID) *v1.Refused {
	if _, is := h.bound(ctx, caller); !is {
		return nil
	}
	h.mu.Lock()
	r := h.jobs[id]
	tenant, known := "", r != nil
	if known {
		tenant = r.timed.tenant
	}
	h.mu.Unlock()
	if !known {
		h.collectJobs()
		h.recorder.mu.Lock()
		for _, k := range h.recorder.jobs.All() {
			if k.ID == id {
				tenant, known = k.Tenant, true
			}
		}
		h.recorder.mu.Unlock()
	}
	if !known {
		return refuse(v1.RefusedReason_UNKNOWN_JOB, "whose job %v is is not known here, or not any more: ask its owner, as its handle names it", id)
	}
	return h.mayTouch(ctx, caller, id, tenant)
}
