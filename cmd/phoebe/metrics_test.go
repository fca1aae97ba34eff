package main_test

import (
	"fmt"
	"maps"
	"net"
	"os/exec"
	"slices"
	"strings"
	"testing"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/phoebe-sched/phoebe/frontend/client"
	"github.com/phoebe-sched/phoebe/probe/exposition"
)

// Frontend and worker expose exactly the metrics in the table of METRICS.md, with the same labels, as Prometheus
// parses them.
func TestMetrics(t *testing.T) {
	t.Parallel()
	g := startGossiper(t)
	w := startPhoebe(t, "--log-level", "info", "worker", "--listen", "127.0.0.1:0", "--name", "w", "--join",
		g.heartbeat,
		"--admin", "127.0.0.1:0")
	g.awaitWorkers(w.workerAddr())
	if _, err := newClient(t, g.api).Run(t.Context(),
		client.Job{Tenant: `a "tenant"`, Tasks: []client.Task{{Function: "echo"}}}); err != nil {
		t.Fatal(err)
	}
	garbage, err := net.Dial("tcp", w.workerAddr())
	if err != nil {
		t.Fatal(err)
	}
	defer garbage.Close()
	fmt.Fprint(garbage, strings.Repeat("garbage", 100))

	families := map[string]*dto.MetricFamily{}
	waitUntil(t, func() error {
		for _, p := range []*process{g.process, w} {
			text := getAdmin(t, p, "/metrics")
			parser := expfmt.NewTextParser(model.UTF8Validation)
			parsed, err := parser.TextToMetricFamilies(strings.NewReader(text))
			if err != nil {
				t.Fatalf("%v in\n%s", err, text)
			}
			maps.Copy(families, parsed)
		}
		for name := range exposition.Table() {
			if families[name] == nil {
				return fmt.Errorf("%s is not exposed", name)
			}
		}
		return nil
	})
	lintMetrics(t, getAdmin(t, g.process, "/metrics"))
	lintMetrics(t, getAdmin(t, w, "/metrics"))
	for name, f := range families {
		if !strings.HasPrefix(name, "phoebe_") {
			continue
		}
		row, ok := exposition.Table()[name]
		if !ok {
			t.Errorf("%s is not in METRICS.md", name)
			continue
		}
		if got := strings.ToLower(f.GetType().String()); got != row.Type {
			t.Errorf("%s is a %s, METRICS.md has %s", name, got, row.Type)
		}
		var labels []string
		for _, l := range f.Metric[0].Label {
			labels = append(labels, l.GetName())
		}
		slices.Sort(labels)
		if want := slices.Sorted(slices.Values(row.Labels)); !slices.Equal(labels, want) {
			t.Errorf("%s has labels %v, METRICS.md has %v", name, labels, want)
		}
	}
	phases := map[string]uint64{}
	for _, m := range families["phoebe_frontend_task_phase_seconds"].GetMetric() {
		labels := map[string]string{}
		for _, l := range m.Label {
			labels[l.GetName()] = l.GetValue()
		}
		if labels["tenant"] != `a "tenant"` || labels["path"] != "sampling" || labels["policy"] != "phoebe" {
			t.Errorf("a phase of %v", labels)
		}
		phases[labels["phase"]] = m.Histogram.GetSampleCount()
	}
	if fmt.Sprint(phases) != "map[binding:1 delivery:1 launch:1 link:1 queue:1 run:1 sampling:1]" {
		t.Errorf("phases %v", phases)
	}
}

// lintMetrics checks metrics with promtool, if promtool is installed.
func lintMetrics(t *testing.T, text string) {
	t.Helper()
	promtool, err := exec.LookPath("promtool")
	if err != nil {
		return
	}
	c := exec.Command(promtool, "check", "metrics")
	c.Stdin = strings.NewReader(text)
	if out, err := c.CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("promtool check metrics: %v\n%s", err, out)
	}
}
