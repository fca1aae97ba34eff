package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/phoebe-sched/phoebe/frontend/client"
	"github.com/phoebe-sched/phoebe/frontend/client/admin"
	"github.com/phoebe-sched/phoebe/probe/units"
)

type jobsCmd struct {
	JobPolicy string        `name:"policy" placeholder:"NAME" help:"Only jobs of this policy. Default: any."`
	Tenant    *string       `placeholder:"NAME" help:"Only jobs of this tenant; the empty name selects jobs without a tenant. Default: any."`
	Failed    bool          `help:"Only jobs with a task that has no result. Default: any."`
	Running   bool          `help:"Only running jobs. Default: any."`
	Slower    time.Duration `placeholder:"D" help:"Only jobs that took, or have taken so far, at least D. Default: any."`
	Since     time.Duration `placeholder:"D" help:"Only jobs of the last D, by this machine's clock. Default: any."`
	Most      int           `default:"20" placeholder:"N" help:"How many to show. Default ${default}."`
	JSON      jsonFile      `name:"json" placeholder:"FILE" help:"Write each job as a line of JSON to this file. ${jsonFile}"`

	fleetFlags
}

// Help returns the text below the usage line.
func (c *jobsCmd) Help() string {
	return `Shows the jobs of all frontends, newest first: all running jobs, and the ended jobs that
frontends keep in memory (64 MiB at each frontend): failed jobs, the 64 slowest of each minute and
policy, and a sample. A listed job can be opened with phoebe trace for at least a minute, unless too many jobs
were listed lately (16 MiB at each frontend): then the command says so on stderr.

CLASS of a spare job shows behind a slash when the job becomes regular. COPIES counts second
attempts of late tasks. PREEMPTED counts attempts that were stopped for regular work. Both count
only tasks that have ended. BLAME is the part of the critical path that took most of the response;
phoebe trace shows all parts, and its help explains them. STATE of an ended job shows in parentheses
why its frontend keeps the job.

Exit codes: 0 shown, 2 wrong usage, 3 no frontend answers. Frontends that do not answer are named on
stderr.`
}

// Run lists jobs.
func (c *jobsCmd) Run(ctx context.Context, out *streams, log *slog.Logger) error {
	if c.Most < 0 || c.Slower < 0 || c.Since < 0 {
		return usageError(fmt.Errorf("--most, --slower and --since must not be negative"))
	}
	write, text, err := createReports(out.out, jsonReport(c.JSON, writeLines[jobJSON]))
	if err != nil {
		return err
	}
	cl, err := c.newClient(log, c.Connect)
	if err != nil {
		return err
	}
	defer cl.Close()
	ctx, cancel := context.WithTimeout(ctx, c.RetryFor)
	defer cancel()
	f := admin.JobFilter{Policy: c.JobPolicy, Tenant: c.Tenant, Failed: c.Failed, Running: c.Running,
		SlowerThan: c.Slower, Frontend: c.Only}
	if c.Since > 0 {
		f.From = time.Now().Add(-c.Since)
	}
	var all []client.JobSummary
	var reports []admin.FrontendReport
	for cursor := ""; len(all) < c.Most; {
		page, err := cl.Jobs(ctx, f, cursor, min(c.Most-len(all), 1000))
		if err != nil {
			return &exitError{exitUnavailable, fmt.Errorf("list jobs: %w", err)}
		}
		all, reports = append(all, page.Jobs...), page.Frontends
		if cursor = page.Next; cursor == "" {
			break
		}
	}
	if c.Only != "" {
		i := slices.IndexFunc(reports, func(f admin.FrontendReport) bool {
			return f.Name == c.Only || f.Address == c.Only
		})
		if i < 0 {
			return usageError(fmt.Errorf("--only %s: no frontend with this name or address is known: phoebe status "+
				"lists the frontends", c.Only))
		}
		reports = reports[i : i+1]
	}
	nameSilent(out.err, reports)
	nameFleeting(out.err, all)
	lines := make([]jobJSON, len(all))
	for i := range all {
		lines[i] = jobOf(&all[i])
	}
	return errors.Join(printJobs(text, all), write(lines))
}

// nameSilent prints the frontends that have not answered.
func nameSilent(w io.Writer, reports []admin.FrontendReport) {
	for _, f := range reports {
		if f.Err != "" {
			fmt.Fprintf(w, "frontend %s does not answer: %s\n", quoteUnprintable([]byte(f.Name)),
				quoteUnprintable([]byte(f.Err)))
		}
	}
}

// nameFleeting says how many jobs frontends may forget within a minute.
func nameFleeting(w io.Writer, jobs []client.JobSummary) {
	n := 0
	for i := range jobs {
		if jobs[i].Fleeting {
			n++
		}
	}
	if n > 0 {
		fmt.Fprintf(w, "frontends may forget %d of the jobs within a minute: too many jobs were listed lately\n",
			n)
	}
}

// printJobs prints a table of jobs.
func printJobs(w io.Writer, jobs []client.JobSummary) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "JOB\tFUNCTIONS\tFRONTEND\tPOLICY\tTENANT\tCLASS\tARRIVED\tRESPONSE\tTASKS\tFAILED\tCOPIES\tPREEMPTED\tSTATE\tBLAME")
	for i := range jobs {
		j := &jobs[i]
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%d/%d\t%d\t%d\t%d\t%s\t%s\n",
			quoteUnprintable([]byte(j.Handle.Job)), dashIfEmpty(strings.Join(j.Functions, ",")),
			quoteUnprintable([]byte(j.Frontend)), quoteUnprintable([]byte(j.Policy)), dashIfEmpty(j.Tenant), classOf(j),
			j.Came.Local().Format("15:04:05.000"), units.Time(j.Response), j.Ended, j.Tasks, j.Failed, j.Copies,
			j.Preempted, stateOf(j), mainBlame(j))
	}
	return t.Flush()
}

// stateOf returns "running", or "ended" with the reasons to keep the job.
func stateOf(j *client.JobSummary) string {
	if j.Running {
		return "running"
	}
	return "ended (" + quoteUnprintable([]byte(strings.Join(j.Kept, ","))) + ")"
}

// classOf returns a job's class, and the time when its spare tasks become regular.
func classOf(j *client.JobSummary) string {
	if j.Due == 0 {
		return string(j.Class)
	}
	return fmt.Sprintf("%s/%s", j.Class, units.Time(j.Due))
}

// dashIfEmpty returns a dash for an empty name, and else the name without unprintable runes.
func dashIfEmpty(name string) string {
	if name == "" {
		return "-"
	}
	return quoteUnprintable([]byte(name))
}

// mainBlame returns the part of the critical path that took most of the job's response.
func mainBlame(j *client.JobSummary) string {
	if len(j.Blame) == 0 || j.Response <= 0 {
		return "-"
	}
	most := slices.MaxFunc(j.Blame, func(a, b client.PartOf) int { return int(a.Took - b.Took) })
	return fmt.Sprintf("%s %.0f %%", most.Part, 100*most.Took.Seconds()/j.Response.Seconds())
}

// jobJSON is a line of `phoebe jobs --json`.
type jobJSON struct {
	Job            string           `json:"job"`
	Owner          string           `json:"owner"`
	Frontend       string           `json:"frontend"`
	Functions      []string         `json:"functions,omitempty"`
	Policy         string           `json:"policy"`
	Tenant         string           `json:"tenant"`
	Class          string           `json:"class"`
	DueMicros      int64            `json:"due_us"`
	Copies         int              `json:"copies"`
	Preempted      int              `json:"preempted"`
	Path           string           `json:"path,omitempty"`
	Came           time.Time        `json:"came"`
	ResponseMicros int64            `json:"response_us"`
	Tasks          int              `json:"tasks"`
	Ended          int              `json:"ended"`
	Failed         int              `json:"failed"`
	Stages         int              `json:"stages"`
	Running        bool             `json:"running"`
	Kept           []string         `json:"kept,omitempty"`
	BlameMicros    map[string]int64 `json:"blame_us,omitempty"`
	Fleeting       bool             `json:"fleeting,omitempty"` // the frontend may forget the job within a minute
}

// jobOf converts a job to JSON.
func jobOf(j *client.JobSummary) jobJSON {
	to := jobJSON{
		Job: j.Handle.Job, Owner: j.Handle.Owner, Frontend: j.Frontend, Policy: j.Policy, Tenant: j.Tenant,
		Class: string(j.Class), Path: j.Path, Came: j.Came.UTC(),
		ResponseMicros: j.Response.Microseconds(), Tasks: j.Tasks, Ended: j.Ended, Failed: j.Failed, Stages: j.Stages,
		Running: j.Running, Kept: j.Kept, Functions: j.Functions,
		DueMicros: j.Due.Microseconds(), Copies: j.Copies, Preempted: j.Preempted, Fleeting: j.Fleeting,
	}
	for _, p := range j.Blame {
		if to.BlameMicros == nil {
			to.BlameMicros = map[string]int64{}
		}
		to.BlameMicros[p.Part] += p.Took.Microseconds()
	}
	return to
}
