package exposition

import (
	"io"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/VictoriaMetrics/metrics"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/phoebe-sched/phoebe/probe/histogram"
)

// parseWritten writes the metrics of set and parses the text with Prometheus' own parser.
func parseWritten(t *testing.T, set *metrics.Set, buckets Histograms) (map[string]*dto.MetricFamily, string) {
	t.Helper()
	var b strings.Builder
	if err := Write(&b, set, "v1", buckets); err != nil {
		t.Fatal(err)
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(b.String()))
	if err != nil {
		t.Fatalf("%v in\n%s", err, b.String())
	}
	return families, b.String()
}

// exampleSet has a histogram of a tenant with a hostile name, twice, as from two frontends.
func exampleSet() *metrics.Set {
	set := metrics.NewSet()
	set.GetOrCreateCounter(`phoebe_frontend_tasks_total{outcome="result"}`).Add(3)
	for range 2 {
		var h histogram.Histogram
		for _, d := range []time.Duration{time.Microsecond, time.Millisecond, time.Millisecond, time.Second,
			100 * time.Hour} {
			h.Add(d)
		}
		set.RegisterMetricsWriter(func(w io.Writer) {
			var t Text
			t.Histogram("phoebe_frontend_job_response_seconds", Labels("tenant", hostile), &h, time.Second)
			t.Value("phoebe_frontend_jobs", "", 2)
			t.WriteTo(w)
		})
	}
	return set
}

const hostile = "a\"} 7\nphoebe_x{vmrange=\"le=\"\\\xff b"

func TestWrite(t *testing.T) {
	families, text := parseWritten(t, exampleSet(), LE)
	for name, f := range families {
		if f.GetHelp() == "" || !strings.HasPrefix(name, "phoebe_") && f.GetType() != dto.MetricType_UNTYPED {
			t.Errorf("%s is a %v with help %q", name, f.GetType(), f.GetHelp())
		}
	}
	if f := families["phoebe_frontend_jobs"]; f.GetType() != dto.MetricType_GAUGE || f.Metric[0].Gauge.GetValue() != 4 {
		t.Errorf("two frontends with two jobs each have %v", f)
	}
	if f := families["phoebe_frontend_tasks_total"]; f.GetType() != dto.MetricType_COUNTER ||
		f.Metric[0].Counter.GetValue() != 3 {
		t.Errorf("counter %v", f)
	}
	if f := families["phoebe_build_info"]; len(f.GetMetric()) != 1 || f.Metric[0].Gauge.GetValue() != 1 {
		t.Errorf("build info %v", f)
	}
	f := families["phoebe_frontend_job_response_seconds"]
	if f.GetType() != dto.MetricType_HISTOGRAM || len(f.Metric) != 1 {
		t.Fatalf("histogram %v in\n%s", f, text)
	}
	if l := f.Metric[0].Label; len(l) != 1 || l[0].GetValue() != strings.ToValidUTF8(hostile, "\uFFFD") {
		t.Errorf("labels %v", l)
	}
	h := f.Metric[0].Histogram
	if h.GetSampleCount() != 10 || math.Abs(h.GetSampleSum()-2*(360_000+1.002001)) > 1e-6 {
		t.Errorf("%d, %v", h.GetSampleCount(), h.GetSampleSum())
	}
	last := uint64(0)
	for i, b := range h.Bucket {
		if i > 0 && b.GetUpperBound() <= h.Bucket[i-1].GetUpperBound() || b.GetCumulativeCount() < last {
			t.Errorf("bucket %d is %v", i, b)
		}
		last = b.GetCumulativeCount()
		if d := b.GetUpperBound(); d > 0.002 && d < 0.9 && last != 6 {
			t.Errorf("%d are under %v", last, d)
		}
	}
	if !math.IsInf(h.Bucket[len(h.Bucket)-1].GetUpperBound(), 1) || last != 10 || strings.Contains(text, `,vmrange="`) {
		t.Errorf("the last bucket is %v in\n%s", h.Bucket[len(h.Bucket)-1], text)
	}
}

func TestBuckets(t *testing.T) {
	for _, c := range []struct {
		buckets    Histograms
		le, range_ bool
	}{{LE, true, false}, {VMRange, false, true}, {Both, true, true}} {
		_, text := parseWritten(t, exampleSet(), c.buckets)
		if le, ranges := strings.Contains(text, `",le="`), strings.Contains(text, `",vmrange="`); le != c.le ||
			ranges != c.range_ {
			t.Errorf("%s has le %t, vmrange %t:\n%s", c.buckets, le, ranges, text)
		}
	}
	_, text := parseWritten(t, exampleSet(), VMRange)
	if n := strings.Count(text, "phoebe_frontend_job_response_seconds_bucket"); n != 4 {
		t.Errorf("%d ranges, want the 4 in which there is something:\n%s", n, text)
	}
	if !strings.Contains(text, `...+Inf"} 2`) || !strings.Contains(text, `vmrange="0...1.024e-06"} 2`) {
		t.Errorf("the first or the last range is missing:\n%s", text)
	}
}

// The table's types and help texts have the form that promtool wants.
func TestTable(t *testing.T) {
	if len(Table()) < 60 {
		t.Fatalf("the table has %d metrics", len(Table()))
	}
	for name, m := range Table() {
		if !slices.Contains([]string{"counter", "gauge", "histogram"}, m.Type) || !strings.HasSuffix(m.Help, ".") {
			t.Errorf("%s is a %q: %q", name, m.Type, m.Help)
		}
		if total := strings.HasSuffix(name, "_total"); total != (m.Type == "counter") {
			t.Errorf("%s is a %s", name, m.Type)
		}
	}
}
