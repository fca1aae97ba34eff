package serve

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/VictoriaMetrics/metrics"

	"github.com/phoebe-sched/phoebe/idl/gen/phoebe/v1"
	"github.com/phoebe-sched/phoebe/probe/audit"
)

// The audit log tells the first poll of a job's events, counts guesses, and tells them once.
func TestAuditOfPollsAndGuesses(t *testing.T) {
	file := filepath.Join(t.TempDir(), "audit")
	log, err := audit.Open(file, new(metrics.Counter))
	if err != nil {
		t.Fatal(err)
	}
	c := startCluster(t, 1, 1, func(cfg *Config) { cfg.Secret, cfg.Audit = "sesame", log })
	const guesses = 60
	for range guesses / 3 {
		guesser := connectRaw(t, c)
		for range 3 {
			guesser.writeBytes(runFrame("simsim", newJob("echo", "x")))
			guesser.wantRefused(v1.RefusedReason_UNAUTHORIZED, "secret")
		}
		guesser.wantClosed()
	}
	secret := "sesame"
	caller := &v1.Caller{Secret: &secret}
	job := newJob("echo", "x")
	job.Open = true
	res, err := c.client.Submit(context.Background(), &v1.SubmitRequest{Caller: caller, Job: job})
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if _, err := c.client.Events(context.Background(),
			&v1.EventsRequest{Caller: caller, Handle: res.Handle}); err != nil {
			t.Fatal(err)
		}
	}
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var known []string
	refused, refusals := 0, 0
	for line := range bytes.Lines(text) {
		var e audit.Entry
		if err := json.Unmarshal(line, &e); err != nil {
			t.Fatal(err)
		}
		if e.Decision == "refused" {
			refused += max(e.Count, 1)
			refusals++
		} else {
			known = append(known, e.What+" "+e.Job)
		}
	}
	if want := []string{"submit " + job.Id, "events " + job.Id}; !slices.Equal(known, want) {
		t.Errorf("got %q, want %q", known, want)
	}
	if refused != guesses || refusals == guesses {
		t.Errorf("%d entries tell %d refusals, want %d", refusals, refused, guesses)
	}
}
