package main

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/phoebe-sched/phoebe/frontend/client"
)

// Hostile names are shown as text, on a terminal and in a file for a browser.
func TestTraceHostile(t *testing.T) {
	const hostile = "</script>\"}]}\n\x1b[2J\u2028<img src=x>"
	x := &client.Trace{
		Job: client.JobSummary{Running: true, Frontend: hostile, Tenant: hostile, Policy: hostile,
			Blame: []client.PartOf{{Part: "run", Took: time.Second}}},
		Stages: []client.Stage{{Name: hostile}},
		Tasks: []client.TaskTrace{{Worker: hostile, Outcome: "result", Known: true},
			{Worker: "w\xff\x00", Outcome: "result", Known: true}},
		UnderWay: []client.UnderWay{{Worker: hostile, State: "runs"}}, AttemptsUnderWay: 1,
	}
	var text, chrome strings.Builder
	if err := printTrace(&text, x, 10); err != nil {
		t.Fatal(err)
	}
	for _, r := range text.String() {
		if r != '\n' && !unicode.IsPrint(r) {
			t.Fatalf("%q is written to a terminal: %q", r, text.String())
		}
	}
	if err := writeChrome(&chrome, x); err != nil {
		t.Fatal(err)
	}
	for _, bad := range []string{"<", "\x1b", "\u2028", "\x00", "\xff"} {
		if strings.Contains(chrome.String(), bad) {
			t.Errorf("the file contains %q: %q", bad, chrome.String())
		}
	}
	var file struct{ TraceEvents []chromeEvent }
	if err := json.Unmarshal([]byte(chrome.String()), &file); err != nil {
		t.Fatal(err)
	}
	names := ""
	for _, e := range file.TraceEvents {
		if e.Phase == "M" {
			names += "|" + e.Args["name"].(string)
		}
	}
	if want := "|job |worker " + hostile + "|worker w\ufffd\x00"; names != want {
		t.Errorf("processes are %q, want %q", names, want)
	}
}
