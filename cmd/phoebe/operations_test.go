package main

import (
	"bytes"
	"io"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/VictoriaMetrics/metrics"

	"github.com/phoebe-sched/phoebe/frontend/serve"
	"github.com/phoebe-sched/phoebe/frontend/tenants"
	wserve "github.com/phoebe-sched/phoebe/worker/serve"
)

// limitFlags matches flags that the operations guide lists as limits.
var limitFlags = regexp.MustCompile(
	`^(max-.*|cache-size|lease|client-grace|grace|retain|ready-expiry|starvation-bound|file-timeout|drain-timeout|drain-delay)$`)

// The operations guide lists each limit of a frontend, of a worker and of a tenant, with its default. The metrics
// in the list exist.
func TestLimitsInGuide(t *testing.T) {
	text, err := os.ReadFile("OPERATIONS.md")
	if err != nil {
		t.Fatal(err)
	}
	type row struct{ value, metric string }
	rows := map[string]row{}
	for _, r := range regexp.MustCompile(
		"(?m)^\\| (frontend|worker|tenant) \\| `([a-z-]+)` \\| ([^|]+) \\| [^|]+ \\| ([^|]+) \\|$").FindAllStringSubmatch(string(text), -1) {
		rows[r[1]+" "+r[2]] = row{r[3], strings.Trim(r[4], "` ")}
	}
	set := metrics.NewSet()
	if _, err := serve.New(serve.Config{Metrics: set}); err != nil { // a server that has not started needs no close
		t.Fatal(err)
	}
	w, err := wserve.New(wserve.Config{Metrics: set})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	var page bytes.Buffer
	set.WritePrometheus(&page)
	var c cli
	parser, err := newParser(&c, io.Discard, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	check := func(name, value string) {
		r, ok := rows[name]
		if !ok {
			t.Errorf("%s is missing: its default is %s", name, value)
			return
		}
		delete(rows, name)
		if r.value != value {
			t.Errorf("%s: the guide says %q, the default is %q", name, r.value, value)
		}
		if r.metric != "-" && !strings.Contains(page.String(), "\n"+r.metric) &&
			!strings.HasPrefix(page.String(), r.metric) {
			t.Errorf("%s: there is no metric %s", name, r.metric)
		}
	}
	for _, n := range parser.Model.Children {
		if !slices.Contains([]string{"frontend", "worker"}, n.Name) {
			continue
		}
		for _, flag := range n.Flags {
			if !limitFlags.MatchString(flag.Name) {
				continue
			}
			check(n.Name+" "+flag.Name, flag.Default)
		}
	}
	for _, f := range reflect.VisibleFields(reflect.TypeFor[tenants.Entry]()) {
		if f.Type.Kind() == reflect.Int && f.Name != "Tokens" {
			check("tenant "+strings.ToLower(f.Name), "none")
		}
	}
	for name := range rows {
		t.Errorf("%s is no limit", name)
	}
}
