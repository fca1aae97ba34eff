package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/phoebe-sched/phoebe/worker/exec"
)

// jobOfText reads a job from a file with this text.
func jobOfText(text string) (payloads []string, err error) {
	job, err := readJob("-", strings.NewReader(text))
	for _, t := range job.Tasks {
		payloads = append(payloads, string(t.Payload))
	}
	return payloads, err
}

// A text in a job file stays as written, with and without quotes.
func TestJobFileKeepsText(t *testing.T) {
	for _, text := range []string{"007", "1.10", "0x1F", "0o17", "1_000", "1e3", "-0", "+5", ".inf", "True", "false",
		"18446744073709551616", "1.0000000000000000001", "2001-01-01", "yes"} {
		for _, format := range []string{
			"tasks: [{function: echo, payload: %s}]", "tasks:\n- function: echo\n  payload: %s # a comment\n",
			"tasks:\n- function: echo\n  payload: '%s'\n",
			"---\n{\"tasks\": [{\"function\": \"echo\", \"payload\": \"%s\"}]}\n",
			"tasks: [{function: echo, payload: !!str %s}]", "\ufefftasks: [{function: echo, payload: %s}]",
		} {
			file := fmt.Sprintf(format, text)
			if got, err := jobOfText(file); err != nil || !slices.Equal(got, []string{text}) {
				t.Errorf("payloads %q, %v of %q", got, err, file)
			}
		}
		job, err := readJob("-", strings.NewReader(fmt.Sprintf(
			"tenant: %[1]s\nlabels: [a, %[1]s]\ntasks: [{command: {argv: [echo, %[1]s], env: {%[1]s: %[1]s}}}]", text)))
		if err != nil || job.Tenant != text || job.Constraint.Labels[1] != text {
			t.Errorf("%+v, %v of %s", job, err, text)
			continue
		}
		want, err := exec.Command{Argv: []string{"echo", text}, Env: map[string]string{text: text}}.Encode()
		if err != nil || string(job.Tasks[0].Payload) != string(want) {
			t.Errorf("command %s, %v, want %s", job.Tasks[0].Payload, err, want)
		}
	}
}

// Keys without a value count as absent.
func TestJobFileEmptyValues(t *testing.T) {
	if got, err := jobOfText("tenant:\ntasks:\n- function: echo\n  payload:\n  count:\n"); err != nil ||
		!slices.Equal(got, []string{""}) {
		t.Errorf("payloads %q, %v", got, err)
	}
}

// A whole number may be written in any way that YAML knows.
func TestJobFileWholeNumbers(t *testing.T) {
	for text, want := range map[string]int{"3": 3, "0x10": 16, "1e1": 10, "2.0": 2, `"4"`: 4, "1_0": 10} {
		if got, err := jobOfText("tasks: [{function: echo, count: " + text + "}]"); err != nil || len(got) != want {
			t.Errorf("%d tasks, %v, of count: %s", len(got), err, text)
		}
	}
}

// The file is refused, with the place and a remedy, if its text has no single meaning.
func TestJobFileRefusals(t *testing.T) {
	for text, want := range map[string][]string{
		"tasks: [{function: echo, count: 1.5}]":                                      {"[1:33]", "want a whole number"},
		"tasks: [{function: echo, count: '1.5'}]":                                    {"[1:33]", "want a whole number"},
		"priority: -0.5\ntasks: [{function: echo}]":                                  {"[1:11]", "want a whole number"},
		"tasks: [{function: echo, memory: 5000000000}]":                              {"[1:34]", "5000000000"},
		"tasks: [{function: echo, payload: null}]":                                   {"[1:35]", "quote"},
		"tasks: [{command: {argv: [echo, ~]}}]":                                      {"[1:33]", "quote"},
		"tasks: [{function: echo, once: 'yes'}]":                                     {"[1:32]", "true or false"},
		"tasks: [{function: echo}]\n---\ntasks: []\n":                                {"[2:1]", "a second document"},
		"tasks: [&a {function: echo, payload: x}, *a, *a]":                           {"[1:9]", "write the values out"},
		"id: &a x\ntasks: [{function: echo, payload: *a}]":                           {"[1:5]", "write the values out"},
		"tasks: [{<<: {function: echo}}]":                                            {"[1:10]", "write the values out"},
		"none: &a [1]\ntasks: [{function: echo}]":                                    {"[1:7]", "write the values out"},
		"tasks: [{function: echo, count: 9223372036854775807}]":                      {"tasks[0]", "9223372036854775807"},
		"tasks: [{function: echo}, {function: echo, count: 9223372036854775807}]":    {"tasks[1]", "at most 1048576"},
		"tasks: [{function: echo, count: -9223372036854775808}]":                     {"tasks[0]", "1 or more"},
		"tasks: [{function: echo, count: 1048576}, {function: echo, payload: more}]": {"tasks[1]", "at most 1048576"},
		"- tasks\n": {"[1:1]"}, "tasks\n": {"[1:1]"},
		"tasks: " + strings.Repeat("[", 1000): {"[1:107]", "nested more than 100 levels deep: nest less"},
	} {
		_, err := jobOfText(text)
		if err == nil {
			t.Errorf("accepted: %q", text)
			continue
		}
		for _, part := range want {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%q, want %q, for %q", err, part, text)
			}
		}
	}
}
