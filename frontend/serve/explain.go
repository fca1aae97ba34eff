package serve

import (
	"context"
	"math"
	"sync"
	"time"

	"github.com/phoebe-sched/phoebe/frontend"
	"github.com/phoebe-sched/phoebe/frontend/estimate"
	"github.com/phoebe-sched/phoebe/idl/gen/phoebe/v1"
	"github.com/phoebe-sched/phoebe/probe"
)

// Explain implements the API. Any frontend may be asked, unlike with calls that change a job. The frontend that
// placed the job knows the reasons, even after the client has taken the job to another frontend.
func (h *handler) Explain(ctx context.Context, req *v1.ExplainRequest) (*v1.ExplainResponse, error) {
	id, err := probe.ParseJobID(req.Handle.Job)
	if err != nil {
		return nil, newRefused(v1.RefusedReason_INVALID, "%v", err)
	}
	if req.Task < -1 {
		return nil, newRefused(v1.RefusedReason_INVALID, "task %d: give its index, from 0 on, or -1 for all", req.Task)
	}
	var res *v1.ExplainResponse
	refused := h.whyMayNotLook(ctx, req.Caller, id)
	h.auditCall(ctx, req.Caller, "explain", req.Handle.Job, "", orNil(refused))
	if refused == nil {
		res, refused = h.explainHere(id, req.Task)
	}
	if res != nil || refused.Reason != v1.RefusedReason_UNKNOWN_JOB || isForwarded(req.Caller) {
		return res, orNil(refused)
	}
	asked := h.peers.listPresent()
	if len(asked) == 0 {
		return nil, refused
	}
	h.metrics.forwarded.Inc()
	if res, refusal := explainAny(ctx, asked, req); res != nil || refusal != nil {
		return res, orNil(refusal)
	}
	return nil, newRefused(v1.RefusedReason_UNKNOWN_JOB,
		"decisions on job %v are known neither here nor at %d other frontends: the job ended too long ago, its "+
			"frontend was restarted, or only the owner in the job's handle can tell", id, len(asked))
}

// orNil keeps a nil *v1.Refused from becoming an error that is not nil.
func orNil(r *v1.Refused) error {
	if r == nil {
		return nil
	}
	return r
}

// explainHere answers from the frontend's own decisions.
func (h *handler) explainHere(id probe.JobID, task int32) (*v1.ExplainResponse, *v1.Refused) {
	now := time.Now()
	h.mu.Lock()
	decisions := h.core.Explain(id, int(task), now)
	otherTasks := len(decisions) == 0 && task >= 0 && len(h.core.Explain(id, -1, now)) > 0
	h.mu.Unlock()
	switch {
	case otherTasks:
		return nil, newRefused(v1.RefusedReason_INVALID,
			"no decision on task %d of job %v is known here, but decisions on other tasks: ask for all tasks", task, id)
	case len(decisions) == 0:
		return nil, newRefused(v1.RefusedReason_UNKNOWN_JOB,
			"decisions on job %v are not known here: the job ended too long ago, or another frontend placed it; name "+
				"the owner in the job's handle, or ask that frontend", id)
	}
	res := &v1.ExplainResponse{Decisions: make([]*v1.Decision, len(decisions)), Frontend: h.cfg.Name}
	for i := range decisions {
		res.Decisions[i] = decisionToAPI(&decisions[i])
	}
	return res, nil
}

// explainAny asks all these frontends at once. The first answer counts. Without an answer, the refusal with most to
// say counts: any refusal except UNKNOWN_JOB. Without either, both results are nil.
func explainAny(ctx context.Context, peers []*peer, req *v1.ExplainRequest) (*v1.ExplainResponse, *v1.Refused) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var mu sync.Mutex
	var found *v1.ExplainResponse
	var refusal *v1.Refused
	var wg sync.WaitGroup
	for _, p := range peers {
		wg.Go(func() {
			res, refused := p.Explain(ctx, req)
			mu.Lock()
			defer mu.Unlock()
			switch {
			case res != nil && found == nil:
				found = res
				cancel()
			case refused != nil && refused.Reason != v1.RefusedReason_UNKNOWN_JOB:
				refusal = refused
			}
		})
	}
	wg.Wait()
	if found != nil {
		return found, nil
	}
	return nil, refusal
}

var paths = [...]v1.Path{estimate.Sampling: v1.Path_SAMPLING, estimate.Estimation: v1.Path_ESTIMATION}

var causes = [...]v1.Cause{
	estimate.ByMode: v1.Cause_BY_MODE, estimate.ByPolicy: v1.Cause_BY_POLICY, estimate.ByInputs: v1.Cause_BY_INPUTS,
	estimate.ByFiles: v1.Cause_BY_FILES, estimate.ByIgnorance: v1.Cause_BY_IGNORANCE,
	estimate.ByLength: v1.Cause_BY_LENGTH, estimate.ByBrevity: v1.Cause_BY_BREVITY, estimate.ByClass: v1.Cause_BY_CLASS,
}

var sources = [...]v1.Source{
	estimate.FromNothing: v1.Source_NOTHING, estimate.FromHint: v1.Source_HINT,
	estimate.FromHintCorrected: v1.Source_CORRECTED_HINT,
	estimate.FromStage:         v1.Source_STAGE, estimate.FromFunction: v1.Source_FUNCTION,
	estimate.FromPeers: v1.Source_FUNCTION_AT_PEERS,
}

func decisionToAPI(d *frontend.Decision) *v1.Decision {
	out := v1.NewDecision()
	out.Alike = int32(d.Alike)
	out.Task, out.Path, out.Cause, out.Why = int32(d.Task), paths[d.Path], causes[d.Why.Cause], d.Why.String()
	out.ThresholdUs = d.Why.Threshold.Microseconds()
	out.Work = workToAPI(d.Why.Work)
	if d.Tries > 0 { // by now more may be known than when the path was chosen
		out.Work = workToAPI(d.Choice.Work)
	}
	out.AtUs, out.Tries = d.At.Microseconds(), int32(d.Tries)
	if d.Attempt != (probe.AttemptID{}) {
		out.Attempt = d.Attempt.String()
	}
	out.Worker, out.Outcome = d.Worker, d.Outcome
	if d.Unbegun { // nobody placed the task, so the path has no reason
		out.Why, out.Outcome = "", "never began"
	}
	out.WaitedUs, out.RanUs, out.Usage = d.Waited.Microseconds(), d.Ran.Microseconds(), usageToAPI(&d.Usage)
	out.Candidates = make([]*v1.Candidate, len(d.Choice.Candidates))
	for i := range d.Choice.Candidates {
		out.Candidates[i] = candidateToAPI(&d.Choice.Candidates[i])
	}
	out.Seen, out.Reason, out.Text = int32(d.Choice.Seen), d.Choice.Reason, d.String()
	if len(out.Candidates) > 0 {
		out.Chosen = int32(d.Choice.Chosen)
	}
	out.Samples = make([]*v1.Sample, len(d.Samples))
	for i := range d.Samples {
		out.Samples[i] = sampleToAPI(&d.Samples[i])
	}
	for i := range d.Near {
		s := &d.Near[i]
		out.Near = append(out.Near, &v1.Site{At: s.Where(), ReadUs: s.Read.Microseconds(), Workers: s.Workers})
	}
	out.TaskClass, out.ClassWhy, out.DueUs = d.Class.Class.String(), d.Class.Why, d.Class.Due.Microseconds()
	out.Demand, out.DemandWhy = demandToAPI(d.Demand.Demand), d.Demand.Why
	out.Tokens, out.Copies = d.Budget, d.Copies
	if d.CopyOf != (probe.AttemptID{}) {
		out.CopyOf = d.CopyOf.String()
	}
	out.ReadUs, out.DelayUs, out.Far = d.Read.Microseconds(), d.Delay.Microseconds(), d.Far.String()
	return out
}

func sampleToAPI(s *frontend.Sample) *v1.Sample {
	out := &v1.Sample{AtUs: s.At.Microseconds(), Tasks: int32(s.Tasks), Tactic: s.Tactic.String(), More: int32(s.More),
		Chosen: make([]*v1.Sampled, len(s.Chosen))}
	for i := range s.Chosen {
		d := &s.Chosen[i]
		out.Chosen[i] = &v1.Sampled{Worker: d.Worker, Why: d.Why.String(), Rides: int32(d.Rides),
			Places: int32(d.Places), Bound: d.Bound}
		for _, c := range d.Fates.Counts() {
			out.Chosen[i].Fates = append(out.Chosen[i].Fates, &v1.Fate{What: c.What, Times: int32(c.Times)})
		}
	}
	return out
}

func workToAPI(w estimate.Work) *v1.Work {
	if w == (estimate.Work{}) {
		return nil
	}
	return &v1.Work{MeanUs: w.Run.Microseconds(), DeviationUs: w.Dev.Microseconds(), Source: sources[w.Source],
		Samples: int32(w.Samples)}
}

func candidateToAPI(c *estimate.Candidate) *v1.Candidate {
	return &v1.Candidate{
		Worker: c.Name, Kind: c.Kind.String(), IUs: c.I.Microseconds(), WUs: c.W.Microseconds(),
		RUs:    c.R.Microseconds(),
		ReadUs: c.Read.Microseconds(), Success: c.Psucc, EUs: c.E.Microseconds(), CUs: c.C.Microseconds(),
		NoiseUs: c.Noise.Microseconds(),
		AgeUs:   c.Age.Microseconds(), Steps: int32(c.Steps), FetchBytes: c.Fetch,
		MemoryBytes: c.Bytes[estimate.Memory],
		DiskBytes:   c.Bytes[estimate.Disk], RackBytes: c.Bytes[estimate.Rack], AcrossBytes: c.Bytes[estimate.Across],
	}
}

// usageToAPI is nil if nothing was measured.
func usageToAPI(u *probe.Usage) *v1.Usage { return fillUsage(&v1.Usage{}, u) }

// fillUsage fills into from u. It returns into, or nil if u is empty.
func fillUsage(into *v1.Usage, u *probe.Usage) *v1.Usage {
	if *u == (probe.Usage{}) {
		return nil
	}
	*into = v1.Usage{
		CpuUs: u.CPU.Microseconds(), MemoryMib: int32(min(u.Memory, math.MaxInt32)),
		FetchedBytes: int64(min(u.Fetched, math.MaxInt64)), FetchUs: u.Fetch.Microseconds(),
	}
	return into
}

// describeView completes ws with the frontend's view of a worker: the facts for placing long tasks.
func describeView(ws *v1.WorkerStatus, view *estimate.Server, now time.Time) {
	ws.WaitUsAgo, ws.MaintenanceUs = -1, -1
	if view.Matrix != nil {
		ws.WaitUs, ws.WaitUsAgo = waitsToAPI(view.Matrix), max(now.Sub(view.Heard), 0).Microseconds()
	}
	ws.Speed, ws.Files = view.Speed, int32(len(view.Files))
	if !view.Maintenance.IsZero() {
		ws.MaintenanceUs = max(view.Maintenance.Sub(now), 0).Microseconds()
	}
}

// waitsToAPI returns a matrix as the API has it: row by row in microseconds; -1 where the task never fits.
func waitsToAPI(m *probe.WaitMatrix) []int64 {
	list := make([]int64, 0, probe.MatrixSide*probe.MatrixSide)
	for _, row := range m.Cells {
		for _, w := range row {
			us := int64(-1)
			if w != probe.NeverFits {
				us = w.Duration().Microseconds()
			}
			list = append(list, us)
		}
	}
	return list
}
