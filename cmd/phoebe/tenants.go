package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"slices"
	"text/tabwriter"

	"github.com/phoebe-sched/phoebe/frontend/client/admin"
)

type tenantsCmd struct {
	JSON jsonFile `name:"json" placeholder:"FILE" help:"Write each line of a frontend as a line of JSON to this file. ${jsonFile}"`

	fleetFlags
}

// Help returns the text below the usage line.
func (c *tenantsCmd) Help() string {
	return `Shows the tenants with jobs, or with refused jobs, at the frontends in --connect and at
all frontends that these know. Each tenant has a line for all frontends together, and a line for
each frontend.

Amounts are slots of the tenant's own jobs, without jobs of tenants below:
  USED          taken by tasks at workers, running or in queues
  SPARE         the part of USED that is not regular, or not covered by tokens
  WAITING       wanted beyond USED
  TOKENS, MAX   allowed at the frontend by the tenants file

1 MIN: JOBS/S and the next three columns are of the last minute: ended jobs, tasks with an outcome, the number of
tasks without a result, and the 99th percentile of the jobs' response times. A frontend counts the 16 tenants with
the most tasks separately. The line "other tenants" counts the rest.

HELD counts tasks that wait because the tenant's maximum is used. REFUSED counts refused jobs since
the frontend started, for the 1024 tenants with the most refusals; a tenant that comes later starts
from 0.

Problems of a frontend's tenants file are printed on stderr.

Exit codes: 0 a frontend answered, 2 wrong usage, 3 no frontend answered.`
}

// tenantJSON is a frontend's figures of a tenant, a line of `phoebe tenants --json`.
type tenantJSON struct {
	Frontend string   `json:"frontend"`
	Tenant   string   `json:"tenant"`
	Others   bool     `json:"others,omitempty"` // the line counts all tenants without lines of their own
	Used     float64  `json:"used"`
	Spare    float64  `json:"spare"`
	Wanted   float64  `json:"wanted"`
	Tokens   *float64 `json:"tokens,omitempty"` // nil: not limited
	Max      *float64 `json:"max,omitempty"`
	Held     int      `json:"held"`
	Refused  int      `json:"refused"`

	LastMinute *minuteJSON `json:"last_minute,omitempty"` // null: no task ended, or the tenant is among the others

	minute *admin.LastMinute
}

// Run asks all frontends, and prints their answers.
func (c *tenantsCmd) Run(ctx context.Context, out *streams, log *slog.Logger) error {
	write, text, err := createReports(out.out, jsonReport(c.JSON, writeLines[tenantJSON]))
	if err != nil {
		return err
	}
	answers, err := c.askFleet(ctx, log, admin.ClusterQuery{Tenants: true})
	if err != nil {
		return err
	}
	nameUnanswered(out.err, answers)
	byTenant, others := map[string][]tenantJSON{}, []tenantJSON(nil)
	for _, a := range distinctAnswers(answers) {
		if a.cluster.Warning != "" {
			fmt.Fprintf(out.err, "frontend %s: %s\n", a.cluster.Frontend, a.cluster.Warning)
		}
		for _, t := range a.cluster.Tenants {
			byTenant[t.Path] = append(byTenant[t.Path], tenantJSON{
				Frontend: a.cluster.Frontend, Tenant: t.Path, Used: t.Used, Spare: t.Spare, Wanted: t.Wanted,
				Tokens: optionalLimit(t.Tokens), Max: optionalLimit(t.Most),
				Held: t.Held, Refused: t.Refused, LastMinute: minuteOf(t.LastMinute), minute: t.LastMinute,
			})
		}
		if m := a.cluster.OtherTenants; m != nil {
			others = append(others,
				tenantJSON{Frontend: a.cluster.Frontend, Others: true, LastMinute: minuteOf(m), minute: m})
		}
	}
	lines := tenantLines(byTenant, others)
	return errors.Join(write(slices.Concat(lines...)), printTenants(text, lines))
}

// tenantLines returns the lines of each tenant, in the order of names. The last lines are others: the sums of all
// tenants without lines of their own.
func tenantLines(byTenant map[string][]tenantJSON, others []tenantJSON) (list [][]tenantJSON) {
	for _, path := range slices.Sorted(maps.Keys(byTenant)) {
		list = append(list, byTenant[path])
	}
	if len(others) > 0 {
		list = append(list, others)
	}
	return list
}

// printTenants prints a table, with a line of sums for each tenant.
func printTenants(w io.Writer, tenants [][]tenantJSON) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t,
		"TENANT\tFRONTEND\tUSED\tSPARE\tWAITING\tTOKENS\tMAX\tHELD\tREFUSED\t1 MIN: JOBS/S\tTASKS/S\tFAILED\tP99")
	for _, entries := range tenants {
		all := tenantJSON{Frontend: "all", Tenant: entries[0].Tenant, Others: entries[0].Others,
			minute: &admin.LastMinute{}}
		for i, entry := range entries {
			addMinute(all.minute, entry.minute)
			all.Used, all.Spare, all.Wanted, all.Held, all.Refused = all.Used+entry.Used, all.Spare+entry.Spare,
				all.Wanted+entry.Wanted, all.Held+entry.Held, all.Refused+entry.Refused
			if i == 0 {
				all.Tokens, all.Max = entry.Tokens, entry.Max
			} else {
				all.Tokens, all.Max = addLimits(all.Tokens, entry.Tokens), addLimits(all.Max, entry.Max)
			}
		}
		for _, x := range append([]tenantJSON{all}, entries...) {
			name := dashIfEmpty(x.Tenant)
			if x.Others {
				name = "other tenants"
			}
			fmt.Fprintf(t, "%s\t%s\t%.4g\t%.4g\t%.4g\t%s\t%s\t%d\t%d\t%s\n", name,
				quoteUnprintable([]byte(x.Frontend)),
				x.Used, x.Spare, x.Wanted-x.Used,
				limitText(x.Tokens), limitText(x.Max), x.Held, x.Refused, minuteColumns(x.minute))
		}
	}
	return t.Flush()
}

// optionalLimit returns nil for a negative n: not limited.
func optionalLimit(n float64) *float64 {
	if n < 0 {
		return nil
	}
	return &n
}

// addLimits adds two frontends' limits. Nil is no limit, so nil if either is nil.
func addLimits(a, b *float64) *float64 {
	if a == nil || b == nil {
		return nil
	}
	return optionalLimit(*a + *b)
}

// limitText formats a limit, or a dash for nil.
func limitText(n *float64) string {
	if n == nil {
		return "-"
	}
	return fmt.Sprintf("%.4g", *n)
}
