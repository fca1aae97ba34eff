package estimate

import (
	"strings"
	"testing"
	"time"
)

func TestRoute(t *testing.T) {
	by := func(d time.Duration, s Source) Work { return Work{Run: d, Source: s, Samples: 5} }
	const s = time.Second
	for _, test := range []struct {
		mode   Mode
		needs  Needs
		work   Work
		want   Path
		reason string
	}{
		{Auto, Needs{}, by(9*s, FromNothing), Sampling, "its run time is unknown"},
		{Auto, Needs{}, by(s-1, FromHint), Sampling, "short: "},
		{Auto, Needs{}, by(s, FromHint), Estimation, "it is long: expected to run for 1s (its estimate); 1s or more is long"},
		{Auto, Needs{}, by(3*s, FromFunction), Estimation, "by 5 finished tasks of its function"},
		{Auto, Needs{}, by(s/10, FromHintCorrected), Sampling, "its estimate, corrected by 5 finished tasks"},
		{Auto, Needs{Reads: s}, by(s/10, FromHint), Estimation, "its inputs may take 1s to read"},
		{Auto, Needs{Reads: s}, by(s, FromNothing), Estimation, "its inputs may take 1s to read"},
		{Auto, Needs{Reads: 9 * s / 10}, by(s/10, FromHint), Estimation, "its inputs may take 900ms to read"},
		{Auto, Needs{Reads: 9*s/10 - 1}, by(s/10, FromHint), Sampling, "short: "},
		{Auto, Needs{Reads: s / 2}, by(s, FromNothing), Sampling, "its run time is unknown"},
		{Auto, Needs{Files: true}, by(s/10, FromHint), Estimation, "needs files"},
		{Sample, Needs{s, true}, by(9*s, FromHint), Sampling, "the job's mode asks for it"},
		{Estimate, Needs{}, by(s/10, FromHint), Estimation, "the job's mode asks for it"},
	} {
		path, reason := Route(test.mode, test.needs, test.work, 0, s)
		if path != test.want || !strings.Contains(reason.String(), test.reason) {
			t.Errorf("%s, %+v, %s: %s, %q; want %s, %q", test.mode, test.needs, test.work, path, reason, test.want,
				test.reason)
		}
	}
}

// A task somewhat longer than the threshold is sampled if the tasks of its job are short on average.
func TestRouteStrays(t *testing.T) {
	const s = time.Second
	for _, test := range []struct {
		run, usual time.Duration
		want       Path
		reason     string
	}{
		{2 * s, s / 5, Sampling, "its job is short on the whole: it is expected to run for 2s (its estimate), " +
			"and the tasks of its job run for 200ms on average"},
		{Stray*s - 1, s - 1, Sampling, "short on the whole"},
		{Stray * s, s / 5, Estimation, "long: "},
		{2 * s, s, Estimation, "long: "},
		{2 * s, 0, Estimation, "long: "},
		{s / 2, s / 5, Sampling, "short: "},
	} {
		path, reason := Route(Auto, Needs{}, Work{Run: test.run, Source: FromHint}, test.usual, s)
		if path != test.want || !strings.Contains(reason.String(), test.reason) {
			t.Errorf("%v among %v: %s, %q; want %s, %q", test.run, test.usual, path, reason, test.want, test.reason)
		}
	}
	if path, _ := Route(Auto, Needs{Reads: s}, Work{Run: 2 * s, Source: FromHint}, s/5, s); path != Estimation {
		t.Error("a task whose inputs take long to read is sampled")
	}
}

func TestParseMode(t *testing.T) {
	for _, m := range []Mode{Auto, Sample, Estimate} {
		if got, err := ParseMode(m.String()); got != m || err != nil {
			t.Errorf("%s: %v, %v", m, got, err)
		}
	}
	if _, err := ParseMode("fast"); err == nil {
		t.Error("no error for an unknown mode")
	}
}
