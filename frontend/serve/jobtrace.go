package serve

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cloudwego/kitex/client/callopt"

	"github.com/phoebe-sched/phoebe/frontend"
	rec "github.com/phoebe-sched/phoebe/frontend/record"
	"github.com/phoebe-sched/phoebe/idl/gen/phoebe/v1"
	"github.com/phoebe-sched/phoebe/probe"
)

const (
	defaultJobs = 100
	maxJobs     = 1000
	// maxAttempts bounds the attempts in an answer to Trace.
	maxAttempts = 20_000
)

// Jobs implements the API.
func (h *handler) Jobs(ctx context.Context, req *v1.JobsRequest) (*v1.JobsResponse, error) {
	if tenant, isBound := h.boundTenant(ctx, req.Caller); isBound {
		if req.Filter == nil {
			req.Filter = v1.NewJobFilter()
		}
		if asked := req.Filter.Tenant; asked == nil || !probe.TenantCovers(tenant, *asked) {
			req.Filter.Tenant = &tenant
		}
	}
	after, err := parseCursor(req.Cursor)
	if err != nil {
		return nil, err
	}
	most := int(req.MaxJobs)
	if most <= 0 {
		most = defaultJobs
	}
	most = min(most, maxJobs)
	end, err := h.beginLook()
	if err != nil {
		return nil, err
	}
	defer end()
	answers := askAllPeers(ctx, h, req.Caller,
		func(ctx context.Context, p *peer, within callopt.Option) (*v1.JobsResponse, error) {
			return p.client.Jobs(ctx,
				&v1.JobsRequest{Caller: p.newCaller(ctx), Filter: req.Filter, Cursor: req.Cursor, MaxJobs: int32(most)},
				within)
		})
	res := &v1.JobsResponse{Jobs: h.jobsHere(req.Filter, after, most+1), Frontends: []*v1.Told{h.describeSelf()}}
	more := false
	for _, a := range answers {
		res.Frontends = append(res.Frontends, a.peerReport((*v1.JobsResponse).GetFrontends))
		if a.res != nil {
			res.Jobs = append(res.Jobs, a.res.Jobs...)
			more = more || a.res.NextPage != ""
		}
	}
	slices.SortStableFunc(res.Jobs, func(a, b *v1.JobSummary) int { return positionOf(a).compareTo(positionOf(b)) })
	if len(res.Jobs) > most {
		res.Jobs, more = res.Jobs[:most], true
	}
	if more && len(res.Jobs) > 0 {
		res.NextPage = positionOf(res.Jobs[len(res.Jobs)-1]).String()
	}
	return res, nil
}

// position is the place of a job among the jobs of all frontends, the latest first.
type position struct {
	came  int64 // microseconds since 1970
	job   string
	owner string
}

func positionOf(j *v1.JobSummary) position { return position{j.CameUs, j.Job, j.Owner} }

// compareTo is negative if p comes before o.
func (p position) compareTo(o position) int {
	return cmp.Or(cmp.Compare(o.came, p.came), cmp.Compare(p.job, o.job), cmp.Compare(p.owner, o.owner))
}

// String returns the cursor of the jobs behind p.
func (p position) String() string { return strconv.FormatInt(p.came, 10) + " " + p.job + " " + p.owner }

// parseCursor takes any text with a number and two more fields. A made-up cursor shows the jobs behind its
// position.
func parseCursor(text string) (p position, err error) {
	if text == "" {
		return position{came: math.MaxInt64}, nil
	}
	fields := strings.SplitN(text, " ", 3)
	if len(fields) == 3 {
		p.came, err = strconv.ParseInt(fields[0], 10, 64)
		p.job, p.owner = fields[1], fields[2]
	}
	if len(fields) < 3 || err != nil {
		return p, newRefused(v1.RefusedReason_INVALID,
			"the cursor is not one that Jobs has returned: start with an empty one")
	}
	return p, nil
}

// listing is a job in an answer to Jobs.
type listing struct {
	*v1.JobSummary
	id   probe.JobID
	kept rec.Kept // empty: the job is under way
}

// jobsHere lists up to most jobs of this frontend behind a position.
func (h *handler) jobsHere(f *v1.JobFilter, after position, most int) []*v1.JobSummary {
	if f == nil {
		f = &v1.JobFilter{}
	}
	if f.Frontend != "" && !h.isThisFrontend(f.Frontend) {
		return []*v1.JobSummary{}
	}
	var list []listing
	add := func(j listing) {
		if positionOf(j.JobSummary).compareTo(after) > 0 && matchesFilter(f, j.JobSummary) {
			list = append(list, j)
		}
	}
	now := time.Now()
	for number := uint64(math.MaxUint64); number > 0 && len(list) < most; {
		var part []listing
		h.mu.Lock()
		number = h.recorder.openJobs.listBefore(number, workersPerLook,
			func(r *clientJob) { part = append(part, listing{JobSummary: h.openSummary(r, now), id: r.id}) })
		h.mu.Unlock()
		for _, j := range part {
			add(j)
		}
	}
	if !f.Running {
		h.collectJobs()
		kept := h.recorder.listKept()
		for i := range kept {
			if kept[i].Came.UnixMicro() <= after.came && matchesKept(f, &kept[i]) {
				add(listing{h.keptSummary(&kept[i]), kept[i].ID, kept[i]})
			}
		}
	}
	slices.SortFunc(list, func(a, b listing) int {
		return positionOf(a.JobSummary).compareTo(positionOf(b.JobSummary))
	})
	return h.noteListed(list[:min(len(list), most)], now)
}

// noteListed has the frontend remember listed jobs for rec.ListedFor, and returns the summaries of the jobs. A job
// without room is marked as fleeting. If a job has ended since its summary, and is not kept, noteListed leaves the job
// out.
func (h *handler) noteListed(list []listing, now time.Time) []*v1.JobSummary {
	recorder := &h.recorder
	recorder.mu.Lock()
	for _, j := range list {
		if j.kept.Job == nil {
			j.Fleeting = !recorder.keptJobs.NoteListedOpen(now, j.id, rec.OpenJobBytes(int(j.Tasks)))
		} else {
			j.Fleeting = !recorder.keptJobs.NoteListed(now, j.kept)
		}
	}
	recorder.mu.Unlock()
	for part := range slices.Chunk(list, workersPerLook) {
		h.mu.Lock()
		for i := range part {
			if j := &part[i]; j.kept.Job == nil && !j.Fleeting {
				if r := h.jobs[j.id]; r != nil && !r.ended {
					r.timing.listedUntil = now.Add(rec.ListedFor)
				} else {
					j.JobSummary = nil
				}
			}
		}
		h.mu.Unlock()
	}
	summaries := make([]*v1.JobSummary, 0, len(list))
	for _, j := range list {
		if j.JobSummary == nil {
			h.collectJobs()
			k, found := recorder.findKept(j.id)
			if !found {
				continue
			}
			j.JobSummary = h.keptSummary(&k)
			recorder.mu.Lock()
			j.Fleeting = !recorder.keptJobs.NoteListed(now, k)
			recorder.mu.Unlock()
		}
		summaries = append(summaries, j.JobSummary)
	}
	return summaries
}

// matchesFilter reports whether a job meets a filter. It does not look at the frontend.
func matchesFilter(f *v1.JobFilter, j *v1.JobSummary) bool {
	return (f.Policy == "" || f.Policy == j.Policy) && (f.Tenant == nil || *f.Tenant == j.Tenant) &&
		(!f.Failed || j.Failed > 0) &&
		(!f.Running || j.Running) && j.ResponseUs >= f.SlowerUs && j.CameUs >= f.FromUs &&
		(f.UntilUs <= 0 || j.CameUs < f.UntilUs) &&
		strings.HasPrefix(j.Job, f.Id)
}

// matchesKept checks the conditions of a filter that are cheap to check for a kept job.
func matchesKept(f *v1.JobFilter, j *rec.Kept) bool {
	return (f.Policy == "" || f.Policy == j.Policy) && (f.Tenant == nil || *f.Tenant == j.Tenant) &&
		(!f.Failed || j.Failed > 0)
}

// openSummary summarizes a job under way. The mutex is held.
func (h *handler) openSummary(r *clientJob, now time.Time) *v1.JobSummary {
	t := &r.timing
	j := &v1.JobSummary{
		Job: r.id.String(), Owner: h.cfg.Advertise, Frontend: h.cfg.Name, Policy: t.policy, Tenant: t.tenant,
		CameUs:     r.receivedAt.UnixMicro(),
		ResponseUs: max(now.Sub(r.receivedAt), 0).Microseconds(), Tasks: int32(t.endedTasks + r.unfinished),
		Ended: int32(t.endedTasks), Failed: int32(t.failedTasks),
		Running: true, Stages: int32(len(t.stageNames)), JobClass: jobClassToAPI(t.class), Blame: []*v1.PartOf{},
		Kept: []string{}, Functions: t.listFunctions(),
		DueUs: t.due.Microseconds(), Copies: int32(t.copies), Preempted: int32(t.preempted),
	}
	if t.endedTasks > 0 {
		j.Path = pathNames[t.path]
	}
	return j
}

func jobClassToAPI(c frontend.Class) *v1.JobClass { return v1.JobClassPtr(v1.JobClass(c)) }

// keptReasons are the API's words for the reasons to keep a job.
var keptReasons = []struct {
	why  rec.Why
	word string
}{{rec.Failed, "failed"}, {rec.Slow, "slow"}, {rec.Sampled, "sample"}, {rec.Listed, "listed"}}

func (h *handler) keptSummary(k *rec.Kept) *v1.JobSummary {
	j := &v1.JobSummary{
		Job: k.ID.String(), Owner: h.cfg.Advertise, Frontend: h.cfg.Name, Policy: k.Policy, Tenant: k.Tenant,
		Path: k.Path, CameUs: k.Came.UnixMicro(),
		ResponseUs: k.Response.Microseconds(), Tasks: int32(k.Tasks), Ended: int32(k.Tasks), Failed: int32(k.Failed),
		Stages: int32(len(k.Stages)), JobClass: jobClassToAPI(k.Class),
		Blame: blameToAPI(&k.Blame), Kept: []string{}, DueUs: k.Due.Microseconds(), Copies: int32(k.Copies),
		Preempted: int32(k.Preempted), Functions: k.Functions,
	}
	for _, r := range keptReasons {
		if k.Why&r.why != 0 {
			j.Kept = append(j.Kept, r.word)
		}
	}
	return j
}

// blameToAPI rounds the parts to microseconds. The rounded parts add up to the rounded response.
func blameToAPI(b *rec.Blame) []*v1.PartOf {
	list, sum := []*v1.PartOf{}, time.Duration(0)
	for part, d := range b {
		before := sum.Microseconds()
		if sum += d; sum.Microseconds() > before {
			list = append(list, &v1.PartOf{Part: v1.Part(part), Us: sum.Microseconds() - before})
		}
	}
	return list
}

// Trace implements the API.
func (h *handler) Trace(ctx context.Context, req *v1.TraceRequest) (*v1.TraceResponse, error) {
	id, err := probe.ParseJobID(req.Job)
	if err != nil {
		return nil, newRefused(v1.RefusedReason_INVALID, "%v", err)
	}
	end, err := h.beginLook()
	if err != nil {
		return nil, err
	}
	defer end()
	most := int(req.MaxAttempts)
	if most <= 0 {
		most = maxAttempts
	}
	most = min(most, maxAttempts)
	res := h.traceHere(id, int(req.First), most)
	if res != nil {
		if err := h.whyMayNotTouch(ctx, req.Caller, id, res.Job.Tenant); err != nil {
			h.auditCall(ctx, req.Caller, "trace", req.Job, res.Job.Tenant, err)
			return nil, err
		}
		res.Frontends = []*v1.Told{h.describeSelf()}
		return res, nil
	}
	reports := []*v1.Told{h.describeSelf()}
	for _, a := range askAllPeers(ctx, h, req.Caller,
		func(ctx context.Context, p *peer, within callopt.Option) (*v1.TraceResponse, error) {
			return p.client.Trace(ctx,
				&v1.TraceRequest{Caller: p.newCaller(ctx), Job: req.Job, First: req.First, MaxAttempts: int32(most)},
				within)
		}) {
		reports = append(reports, a.peerReport((*v1.TraceResponse).GetFrontends))
		// several frontends may have records of a job that moved: the longest counts
		if a.res != nil && (res == nil || a.res.Total+a.res.AttemptsUnderWay > res.Total+res.AttemptsUnderWay) {
			res = a.res
		}
	}
	if res == nil {
		var silent []string
		for _, t := range reports[1:] {
			if t.Error != "" {
				silent = append(silent, t.Name+": "+t.Error)
			}
		}
		why := fmt.Sprintf(
			"job %v is not under way, and was not kept: failed jobs, the slowest jobs and a sample are kept", id)
		if len(silent) > 0 {
			why += "; frontends without an answer: " + strings.Join(silent, ", ")
		}
		return nil, newRefused(v1.RefusedReason_UNKNOWN_JOB, "%s", why)
	}
	res.Frontends = reports
	return res, nil
}

// traceHere returns the frontend's own records of a job, or nil.
func (h *handler) traceHere(id probe.JobID, from, most int) *v1.TraceResponse {
	h.collectJobs()
	if k, found := h.recorder.findKept(id); found {
		return h.traceToAPI(h.keptSummary(&k), k.Stages, k.After, &k.Trace, from, most)
	}
	h.mu.Lock()
	r := h.jobs[id]
	if r == nil || r.ended {
		h.mu.Unlock()
		return nil
	}
	summary, t := h.openSummary(r, time.Now()), r.timing
	h.mu.Unlock()
	_, trace, _ := h.collectAttempts(t.refs) // the trace is empty if some attempts are forgotten
	res := h.traceToAPI(summary, t.stageNames, t.after, &trace, from, most)
	if from <= 0 {
		h.addUnderWay(res, id, t.leadTime, most)
	}
	return res
}

// tasksPerLock bounds the tasks that are searched under a single hold of the mutex.
const tasksPerLock = 1024

// addUnderWay adds up to most attempts that have not ended to the trace of a job.
func (h *handler) addUnderWay(res *v1.TraceResponse, id probe.JobID, lead time.Duration, most int) {
	var list []frontend.UnderWay
	for from, more := 0, true; more; more = from > 0 {
		h.mu.Lock()
		list, from = h.core.AppendUnderWay(list, id, from, tasksPerLock, time.Now())
		h.mu.Unlock()
	}
	res.AttemptsUnderWay = int32(len(list))
	numbers := map[string]int{}
	for i, name := range res.Workers {
		numbers[name] = i + 1
	}
	res.UnderWay = rec.PackUnderWay(list[:min(len(list), most)], lead, func(name string) int {
		if numbers[name] == 0 {
			res.Workers = append(res.Workers, name)
			numbers[name] = len(res.Workers)
		}
		return numbers[name]
	})
}

func (h *handler) traceToAPI(j *v1.JobSummary, names []string, after [][]int, t *rec.Trace, from,
	most int) *v1.TraceResponse {
	res := &v1.TraceResponse{Job: j, Workers: t.Workers, Total: int32(t.N), Frontend: h.cfg.Name, Stages: []*v1.Stage{}}
	for i, name := range names {
		stage := &v1.Stage{Name: name, After: []string{}}
		for _, k := range after[i] {
			stage.After = append(stage.After, names[k])
		}
		res.Stages = append(res.Stages, stage)
	}
	next := 0
	res.Attempts, res.Earlier, next = t.Page(from, most)
	res.NextPage = int32(next)
	return res
}
