package bench

import (
	"bytes"
	"encoding/json"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

func someSimRuns() *SimDocument {
	doc := &SimDocument{Seed: 7, Settings: []string{"a setting"}}
	rng := rand.New(rand.NewPCG(1, 2))
	for _, load := range []float64{0.5, 0.9} {
		for _, ratio := range []float64{1, 2} {
			for _, policy := range []string{"phoebe", "omniscient"} {
				var short, long SimSample
				for range 500 {
					for i, s := range []*SimSample{&short, &long} {
						d := time.Duration(1+99*i) * time.Millisecond
						s.Ideal = append(s.Ideal, d)
						s.Response = append(s.Response, d+time.Duration(rng.ExpFloat64()*load*1e6))
						s.Omniscient = append(s.Omniscient, d)
						s.Wait = append(s.Wait, time.Duration(load*1e6), 0)
						s.Tasks += 2
					}
				}
				run := SimRun{Policy: policy, Load: load, ProbeRatio: ratio, Workers: 10, Slots: 4,
					MessagesPerTask: 3.5, Utilisation: load, Events: 99}
				run.Short, run.Long = short.Group(), long.Group()
				short.Add(&long)
				run.SimGroup = *short.Group()
				doc.Runs = append(doc.Runs, run)
			}
		}
	}
	return doc
}

func TestSimStatsAreExact(t *testing.T) {
	sample := &SimSample{Tasks: 4}
	for i := range 1000 {
		sample.Response = append(sample.Response, time.Duration(1000-i)*time.Millisecond)
		sample.Ideal = append(sample.Ideal, 500*time.Millisecond)
	}
	g := sample.Group()
	if want := (Stats{Mean: 500.5, P50: 500, P90: 900, P95: 950, P99: 990, P999: 999,
		Max: 1000}); g.ResponseMS != want || g.Jobs != 1000 || g.Tasks != 4 {
		t.Errorf("%+v, want %+v", g.ResponseMS, want)
	}
	if g.Ratio.P99 != 990.0/500 || g.Ratio.Mean != 500.5/500 || g.OmniscientMS != nil {
		t.Errorf("%+v", g)
	}
	if s := SampleStats([]time.Duration{3 * time.Hour}); s.P50 != 3*3600*1000 || s.Max != s.P50 || s.P999 != s.P50 {
		t.Errorf("%+v", s)
	}
	if g := new(SimSample).Group(); g.Jobs != 0 || g.Ratio != (Stats{}) {
		t.Errorf("%+v", g)
	}
	for _, p := range sampleCDF([]time.Duration{1e6, 2e6, 3e6, 4e6}) {
		if want := math.Ceil(max(p.share*4, 0.1)); p.ms != want {
			t.Errorf("a share of %g within %g ms, want %g", p.share, p.ms, want)
		}
	}
}

func TestSimReports(t *testing.T) {
	doc := someSimRuns()
	var text bytes.Buffer
	if err := WriteSimJSON(&text, doc); err != nil {
		t.Fatal(err)
	}
	var back struct {
		Seed uint64
		Runs []map[string]any
	}
	if err := json.Unmarshal(text.Bytes(), &back); err != nil || back.Seed != 7 || len(back.Runs) != 8 {
		t.Fatalf("%v in %s", err, text.String())
	}
	for _, key := range strings.Fields(
		"policy load probe_ratio workers slots jobs response_ms ideal_ms wait_ms ratio messages_per_task utilisation events wall_s") {
		v, ok := back.Runs[0][key]
		if !ok {
			t.Errorf("no %s", key)
		}
		if stats, isStats := v.(map[string]any); isStats {
			for _, q := range []string{"mean", "p50", "p95", "p99"} {
				if _, ok := stats[q].(float64); !ok {
					t.Errorf("no %s.%s", key, q)
				}
			}
		}
	}
	if strings.Contains(text.String(), `"wall_s": 0,`) || !strings.Contains(text.String(), "\n      \"wall_s\": 0\n") {
		t.Error("wall_s is to be the last field of a run, on a line of its own")
	}

	// A page is 1132 pixels wide. A character takes up to 8 pixels, a cell 16 more. Headers wrap between words.
	var html bytes.Buffer
	if err := WriteSimHTML(&html, doc); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(html.String(), "th { color: var(--soft); font-weight: 600; white-space: normal;") {
		t.Error("headers do not wrap")
	}
	row, _, _ := strings.Cut(html.String()[strings.Index(html.String(), "<thead>"):], "</thead>")
	pixels := 0
	for _, cell := range strings.Split(row, "</th>")[1:] {
		longest := 0
		for _, word := range strings.Fields(cell[strings.LastIndex(cell, ">")+1:]) {
			longest = max(longest, len(word))
		}
		pixels += 8*max(longest, 6) + 16
	}
	if pixels > 1132 {
		t.Errorf("the table takes %d pixels and is cut off", pixels)
	}

	text.Reset()
	if err := WriteSimTable(&text, doc); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"a setting\n",
		"load 0.5, probe ratio 1, 10 workers of 4 slots, 1000 jobs of 2000 tasks, times in ms\n", "response",
		"slowdown", "wait", "phoebe", "omniscient", "  short", "  long", "ideal", "used", "0.900"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("no %q in\n%s", want, text.String())
		}
	}
	if n := strings.Count(text.String(), "times in ms"); n != 4 {
		t.Errorf("%d groups in\n%s", n, text.String())
	}
	for line := range strings.Lines(text.String()) {
		if len([]rune(strings.TrimSpace(line))) > 100 {
			t.Errorf("wide: %s", line)
		}
	}

	text.Reset()
	if err := WriteSimHTML(&text, doc); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"<h1>phoebe sim</h1>", "a setting", "By load, at probe ratio 2",
		"By probe ratio, at load 0.9", "slowdown p99", "msgs each", `class="line omni"`, `class="line c1"`,
		"--page:"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("no %q", want)
		}
	}
	if n := strings.Count(text.String(), "<svg viewBox=\"0 0 520"); n != 4+4*4 {
		t.Errorf("%d plots", n)
	}
	for _, bad := range []string{"http:", "https:", "NaN", "Inf", "<no value>", "ZgotmplZ"} {
		if strings.Contains(text.String(), bad) {
			t.Errorf("%q in the page", bad)
		}
	}
}
