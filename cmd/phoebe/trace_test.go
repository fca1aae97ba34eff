package main

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
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

// Attempts under way, their stages and the job itself have a beginning and no end.
func TestChromeUnderWay(t *testing.T) {
	const ms = time.Millisecond
	ended := client.TaskTrace{Task: 0, Worker: "w0", Outcome: "result", Known: true, Released: 1 * ms}
	for m := range ended.Ends {
		ended.Ends[m] = time.Duration(2+m) * ms
	}
	x := &client.Trace{
		Job:    client.JobSummary{Handle: client.Handle{Job: "J"}, Running: true, Response: 100 * ms},
		Stages: []client.Stage{{Name: "scan"}, {Name: "merge"}, {Name: "never"}},
		Tasks:  []client.TaskTrace{ended},
		UnderWay: []client.UnderWay{
			{Task: 1, Worker: "w0", State: "runs", Tries: 2, Binding: "late", Sent: 20 * ms, Started: 30 * ms},
			{Task: 2, Stage: 1, Worker: "w0", State: "queued", Tries: 1, Binding: "early", Sent: 40 * ms},
		},
		AttemptsUnderWay: 2,
	}
	var chrome strings.Builder
	if err := writeChrome(&chrome, x); err != nil {
		t.Fatal(err)
	}
	var file struct {
		TraceEvents []struct {
			Name     string   `json:"name"`
			Phase    string   `json:"ph"`
			Process  int      `json:"pid"`
			Thread   int      `json:"tid"`
			At       float64  `json:"ts"`
			Duration *float64 `json:"dur"`
		}
	}
	if err := json.Unmarshal([]byte(chrome.String()), &file); err != nil {
		t.Fatal(err)
	}
	var open []string
	lanes := map[int][]string{} // of the worker
	for _, e := range file.TraceEvents {
		if e.Phase == "B" {
			open = append(open, fmt.Sprintf("%s at %v", e.Name, e.At))
		}
		if (e.Phase == "X") != (e.Duration != nil) {
			t.Errorf("%+v: only slices with an end have a duration", e)
		}
		if e.Process == 2 && strings.HasPrefix(e.Name, "task") {
			lanes[e.Thread] = append(lanes[e.Thread], e.Name)
		}
		if strings.HasPrefix(e.Name, "stage never") {
			t.Error("a stage that has not begun has a slice")
		}
	}
	want := []string{"job at 0", "stage scan at 1000", "stage merge at 40000", "task 1, runs at 20000", "run at 30000",
		"task 2, queued at 40000"}
	if !slices.Equal(open, want) {
		t.Errorf("%q is open, want %q", open, want)
	}
	if want := map[int][]string{0: {"task 0", "task 1, runs"}, 1: {"task 2, queued"}}; !reflect.DeepEqual(lanes, want) {
		t.Errorf("lanes %v, want %v", lanes, want)
	}
}
