package admin

import (
	"context"
	"time"

	"github.com/phoebe-sched/phoebe/frontend/client"
	"github.com/phoebe-sched/phoebe/frontend/client/internal/inner"
	v1 "github.com/phoebe-sched/phoebe/idl/gen/phoebe/v1"
)

// JobFilter selects jobs. A job must meet all conditions that are set.
type JobFilter struct {
	Policy     string
	Tenant     *string       // nil: any; there is a tenant without a name
	Failed     bool          // only jobs with a task without a result
	Running    bool          // only jobs under way
	SlowerThan time.Duration // minimum of the response time, so far
	From       time.Time     // earliest arrival
	Until      time.Time     // arrival before
	ID         string        // beginning of the job's id
	Frontend   string        // name of the owner
}

// JobPage is a page of the jobs of all frontends, latest arrival first.
type JobPage struct {
	Jobs      []client.JobSummary
	Next      string // cursor of the next page; empty: this page is the last
	Frontends []FrontendReport
}

// Jobs lists the jobs of all frontends that are under way or kept. A page holds up to limit jobs (0: 100; at most
// 1000). The cursor is empty for the first page, and then Next of the previous page. The asked frontend asks the
// others.
func (c *Client) Jobs(ctx context.Context, f JobFilter, cursor string, limit int) (*JobPage, error) {
	filter := &v1.JobFilter{
		Policy: f.Policy, Tenant: f.Tenant, Failed: f.Failed, Running: f.Running,
		SlowerUs: f.SlowerThan.Microseconds(), Id: f.ID, Frontend: f.Frontend,
	}
	if !f.From.IsZero() {
		filter.FromUs = f.From.UnixMicro()
	}
	if !f.Until.IsZero() {
		filter.UntilUs = f.Until.UnixMicro()
	}
	resp, err := ask(ctx, c, func(ctx context.Context, to v1.Phoebe, by *v1.Caller) (*v1.JobsResponse, error) {
		return to.Jobs(ctx, &v1.JobsRequest{
			Caller: by, Filter: filter, Cursor: cursor, MaxJobs: inner.ClampInt32(limit),
		})
	})
	if err != nil {
		return nil, err
	}
	page := &JobPage{Jobs: fromSummaries(resp.Jobs), Next: resp.NextPage}
	page.Frontends, err = fromReports(resp.Frontends)
	return page, err
}

// fromSummaries converts a list of jobs.
func fromSummaries(list []*v1.JobSummary) []client.JobSummary {
	jobs := make([]client.JobSummary, len(list))
	for i, j := range list {
		jobs[i] = inner.Summary(j).(client.JobSummary)
	}
	return jobs
}

// Trace is a client.Trace, with a report of each frontend that was asked.
type Trace struct {
	client.Trace

	Frontends []FrontendReport
}

// Trace is Trace of client.Client, and also reports which frontends answered.
func (c *Client) Trace(ctx context.Context, job string, from, limit int) (*Trace, error) {
	resp, err := ask(ctx, c, func(ctx context.Context, to v1.Phoebe, by *v1.Caller) (*v1.TraceResponse, error) {
		return to.Trace(ctx, &v1.TraceRequest{
			Caller: by, Job: job, First: inner.ClampInt32(from), MaxAttempts: inner.ClampInt32(limit),
		})
	})
	if err != nil {
		return nil, err
	}
	t, err := inner.Trace(resp, from)
	if err != nil {
		return nil, err
	}
	reports, err := fromReports(resp.Frontends)
	if err != nil {
		return nil, err
	}
	return &Trace{*t.(*client.Trace), reports}, nil
}

// CancelAt is Cancel at a single frontend, given by name or address.
func (c *Client) CancelAt(ctx context.Context, only, job, why string) (int, error) {
	resp, err := ask(ctx, c, func(ctx context.Context, to v1.Phoebe, by *v1.Caller) (*v1.CancelResponse, error) {
		return to.Cancel(ctx, &v1.CancelRequest{
			Caller: by, Handle: &v1.Handle{Job: job}, Reason: why, Frontend: only,
		})
	})
	if err != nil {
		return 0, err
	}
	return int(resp.Cancelled), nil
}
