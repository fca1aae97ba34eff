package estimate

import (
	"strings"
	"testing"
	"time"
)

func TestRoute(t *testing.T) {
	by := func(d time.Duration, s Source) Work { return Work{Mean: d, Source: s, Samples: 5} }
	const s = time.Second
	for _, test := range []struct {
		mode   Mode
		needs  Needs
		work   Work
		want   Path
		reason string
	}{
		{Auto, Needs{}, by(9*s, FromNothing), Sampling, "nothing is known"},
		{Auto, Needs{}, by(s-1, FromHint), Sampling, "short and indifferent"},
		{Auto, Needs{}, by(s, FromHint), Estimation, "long: runs 1.000s by its hint, threshold 1.000s"},
		{Auto, Needs{}, by(3*s, FromFunction), Estimation, "by function (5 finished)"},
		{Auto, Needs{}, by(s/10, FromHintCorrected), Sampling, "by corrected hint"},
		{Auto, Needs{Inputs: true}, by(s/10, FromHint), Estimation, "has inputs"},
		{Auto, Needs{Files: true}, by(s/10, FromHint), Estimation, "needs files"},
		{Auto, Needs{Place: true}, by(0, FromNothing), Estimation, "placement needs"},
		{Sample, Needs{true, true, true}, by(9*s, FromHint), Sampling, "the job's mode says so"},
		{Estimate, Needs{}, by(s/10, FromHint), Estimation, "the job's mode says so"},
	} {
		path, reason := Route(test.mode, test.needs, test.work, s)
		if path != test.want || !strings.Contains(reason.String(), test.reason) {
			t.Errorf("%s, %+v, %s: %s, %q; want %s, %q", test.mode, test.needs, test.work, path, reason, test.want, test.reason)
		}
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
