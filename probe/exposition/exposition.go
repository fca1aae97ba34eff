// Package exposition writes metrics in the text format of Prometheus and VictoriaMetrics. Families come in order,
// with help and type from METRICS.md, and histograms with the chosen buckets.
package exposition

import (
	"bytes"
	_ "embed"
	"fmt"
	"io"
	"maps"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/VictoriaMetrics/metrics"

	"github.com/phoebe-sched/phoebe/probe/histogram"
)

// Text is a list of samples in the text format, one per line. The zero Text has no samples.
type Text struct{ lines []byte }

// Labels makes labels from pairs of name and value.
func Labels(pairs ...string) string {
	var b strings.Builder
	for i := 0; i < len(pairs); i += 2 {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `%s="%s"`, pairs[i], labelEscaper.Replace(strings.ToValidUTF8(pairs[i+1], "\uFFFD")))
	}
	return b.String()
}

var labelEscaper = strings.NewReplacer(`\`, `\\`, "\n", `\n`, `"`, `\"`)

// Value adds a sample. labels may be "".
func (t *Text) Value(name, labels string, value float64) {
	t.lines = append(t.lines, name...)
	if labels != "" {
		t.lines = append(append(append(t.lines, '{'), labels...), '}')
	}
	t.lines = append(strconv.AppendFloat(append(t.lines, ' '), value, 'g', -1, 64), '\n')
}

// Histogram adds a histogram, in units of unit, with the buckets of both formats. Write drops the unwanted buckets.
func (t *Text) Histogram(name, labels string, h *histogram.Histogram, unit time.Duration) {
	comma := ""
	if labels != "" {
		comma = ","
	}
	number := func(d time.Duration) string {
		return strconv.FormatFloat(float64(d)/float64(unit), 'g', -1, 64)
	}
	bucket := func(kind, bound string, n uint64) {
		t.Value(name+"_bucket", labels+comma+kind+`="`+bound+`"`, float64(n))
	}
	for limit, n := range h.Cumulative {
		bucket("le", number(limit), n)
	}
	bucket("le", "+Inf", h.Count)
	for r, n := range h.All {
		upper := number(r.To)
		if r.Last() {
			upper = "+Inf"
		}
		bucket("vmrange", number(r.From)+"..."+upper, n)
	}
	t.Value(name+"_sum", labels, float64(h.Sum)/float64(unit))
	t.Value(name+"_count", labels, float64(h.Count))
}

// WriteTo writes the samples.
func (t *Text) WriteTo(w io.Writer) (int64, error) {
	n, err := w.Write(t.lines)
	return int64(n), err
}

// Histograms chooses the buckets of histograms.
type Histograms string

const (
	LE      Histograms = "le"      // Prometheus' buckets: counts of values less or equal
	VMRange Histograms = "vmrange" // VictoriaMetrics' buckets: finer, and only buckets with values
	Both    Histograms = "both"
)

// leavesOut reports whether a sample belongs to an unwanted bucket.
func (h Histograms) leavesOut(series string) bool {
	return h != VMRange && h != Both && strings.Contains(series, `vmrange="`) || h == VMRange &&
		strings.Contains(series, `le="`)
}

// Write writes the metrics of a set, and the metrics of this process, labelled with version. Several frontends or
// workers may have samples with the same name and labels: Write adds such samples up.
func Write(w io.Writer, set *metrics.Set, version string, buckets Histograms) error {
	var b bytes.Buffer
	set.WritePrometheus(&b)
	var build Text
	build.Value("phoebe_build_info", Labels("version", version, "goversion", runtime.Version()), 1)
	build.WriteTo(&b)
	metrics.WriteProcessMetrics(&b)

	families := map[string]*samples{}
	for line := range strings.Lines(b.String()) {
		series, value, ok := cutLast(strings.TrimSuffix(line, "\n"))
		if !ok || buckets.leavesOut(series) {
			continue
		}
		name := familyName(series)
		f := families[name]
		if f == nil {
			f = &samples{values: map[string]string{}}
			families[name] = f
		}
		f.addSample(series, value)
	}
	b.Reset()
	for _, name := range slices.Sorted(maps.Keys(families)) {
		kind, help := "untyped", "Of the process or its Go runtime: see github.com/VictoriaMetrics/metrics."
		if m, ok := Table()[name]; ok {
			kind, help = m.Type, m.Help
		}
		fmt.Fprintf(&b, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, kind)
		f := families[name]
		for _, series := range f.order {
			fmt.Fprintf(&b, "%s %s\n", series, f.values[series])
		}
	}
	_, err := b.WriteTo(w)
	return err
}

// samples are the samples of a family, in their first order.
type samples struct {
	order  []string
	values map[string]string
}

// addSample adds a sample. If the series exists already, addSample adds the values.
func (f *samples) addSample(series, value string) {
	old, repeated := f.values[series]
	if !repeated {
		f.order = append(f.order, series)
	} else if a, err := strconv.ParseFloat(old, 64); err == nil {
		if b, err := strconv.ParseFloat(value, 64); err == nil {
			value = strconv.FormatFloat(a+b, 'g', -1, 64)
		}
	}
	f.values[series] = value
}

// cutLast cuts a line before its last word. Labels may have spaces.
func cutLast(line string) (series, value string, ok bool) {
	at := strings.LastIndexByte(line, ' ')
	if at <= 0 {
		return "", "", false
	}
	return line[:at], line[at+1:], true
}

// familyName returns the family of a sample: histograms drop the suffix of the sample.
func familyName(series string) string {
	name, _, _ := strings.Cut(series, "{")
	for _, suffix := range []string{"_bucket", "_sum", "_count"} {
		if base, ok := strings.CutSuffix(name, suffix); ok && Table()[base].Type == "histogram" {
			return base
		}
	}
	return name
}

// Metric is a row of METRICS.md.
type Metric struct {
	Type   string // counter, gauge or histogram
	Labels []string
	Help   string
}

//go:embed METRICS.md
var metricsDoc string

// Table returns the rows of METRICS.md by the name of the metric.
var Table = sync.OnceValue(func() map[string]Metric {
	table := map[string]Metric{}
	for line := range strings.Lines(metricsDoc) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		if len(cells) != 4 || !strings.Contains(cells[0], "`phoebe_") {
			continue
		}
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		m := Metric{Type: cells[1], Help: cells[3]}
		if cells[2] != "" {
			m.Labels = strings.Split(cells[2], ", ")
		}
		table[strings.Trim(cells[0], "`")] = m
	}
	return table
})
