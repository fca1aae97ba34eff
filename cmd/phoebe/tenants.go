package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"slices"
	"text/tabwriter"

	"github.com/phoebe-sched/phoebe/frontend/client"
)

type tenantsCmd struct {
	JSON bool `name:"json" help:"Print what each frontend says as JSON. Default: a table."`

	clientFlags
}

// Help explains the columns.
func (c *tenantsCmd) Help() string {
	return `Shows the tenants that have jobs, or have had jobs refused, at those frontends that --connect names and that these know, each with what all of these say together, and with what each says.
Amounts are slots of the tenant's own jobs, without those of tenants below it. USED is what tasks at workers take, SPARE what of
that is not regular or not covered by tokens, WAITING what is wanted beyond it. TOKENS and MAX are what it may have there
by the tenants file. HELD are tasks that its maximum keeps waiting, and REFUSED jobs since the frontend started: it counts those of 1024 tenants, of whom
most were; a name that comes later than these starts from 0.
What keeps a frontend from going by its tenants file is printed on standard error.

Exit codes: 0 some frontend answered, 2 wrong usage, 3 none did.`
}

// tenantJSON is what a frontend has of a tenant, as a line of `phoebe tenants --json`.
type tenantJSON struct {
	Frontend string   `json:"frontend"`
	Tenant   string   `json:"tenant"`
	Used     float64  `json:"used"`
	Spare    float64  `json:"spare"`
	Wanted   float64  `json:"wanted"`
	Tokens   *float64 `json:"tokens,omitempty"` // none: not limited
	Max      *float64 `json:"max,omitempty"`
	Held     int      `json:"held"`
	Refused  int      `json:"refused"`
}

// Run asks all frontends, and prints what they say.
func (c *tenantsCmd) Run(ctx context.Context, out *streams, log *slog.Logger) error {
	ctx, cancel := context.WithTimeout(ctx, c.RetryFor)
	defer cancel()
	answers, err := c.askAll(ctx, log, client.ClusterQuery{Tenants: true})
	if err != nil {
		return err
	}
	for _, a := range answers {
		if a.err != nil {
			fmt.Fprintf(out.err, "frontend %s is missing: %v\n", a.connect, a.err)
		}
	}
	said := map[string][]tenantJSON{}
	for _, a := range heard(answers) {
		if a.said.Warning != "" {
			fmt.Fprintf(out.err, "frontend %s: %s\n", a.said.Frontend, a.said.Warning)
		}
		for _, t := range a.said.Tenants {
			said[t.Path] = append(said[t.Path], tenantJSON{
				Frontend: a.said.Frontend, Tenant: t.Path, Used: t.Used, Spare: t.Spare, Wanted: t.Wanted, Tokens: limited(t.Tokens), Max: limited(t.Most),
				Held: t.Held, Refused: t.Refused,
			})
		}
	}
	if c.JSON {
		e := json.NewEncoder(out.out)
		for _, path := range slices.Sorted(maps.Keys(said)) {
			for _, t := range said[path] {
				if err := e.Encode(t); err != nil {
					return err
				}
			}
		}
		return nil
	}
	return printTenants(out.out, said)
}

func printTenants(w io.Writer, said map[string][]tenantJSON) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "TENANT\tFRONTEND\tUSED\tSPARE\tWAITING\tTOKENS\tMAX\tHELD\tREFUSED")
	for _, path := range slices.Sorted(maps.Keys(said)) {
		all := tenantJSON{Frontend: "all", Tenant: path}
		for i, one := range said[path] {
			all.Used, all.Spare, all.Wanted, all.Held, all.Refused = all.Used+one.Used, all.Spare+one.Spare, all.Wanted+one.Wanted, all.Held+one.Held, all.Refused+one.Refused
			if i == 0 {
				all.Tokens, all.Max = one.Tokens, one.Max
			} else {
				all.Tokens, all.Max = sum(all.Tokens, one.Tokens), sum(all.Max, one.Max)
			}
		}
		for _, x := range append([]tenantJSON{all}, said[path]...) {
			fmt.Fprintf(t, "%s\t%s\t%.4g\t%.4g\t%.4g\t%s\t%s\t%d\t%d\n", dash(x.Tenant), plain([]byte(x.Frontend)), x.Used, x.Spare, x.Wanted-x.Used,
				limitText(x.Tokens), limitText(x.Max), x.Held, x.Refused)
		}
	}
	return t.Flush()
}

// limited is nil for what is not.
func limited(n float64) *float64 {
	if n < 0 {
		return nil
	}
	return &n
}

// sum is what two frontends may have together.
func sum(a, b *float64) *float64 {
	if a == nil || b == nil {
		return nil
	}
	return limited(*a + *b)
}

func limitText(n *float64) string {
	if n == nil {
		return "-"
	}
	return fmt.Sprintf("%.4g", *n)
}
