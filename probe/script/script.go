// Package script lets a deciding core's test play the stories in its testdata. A story tells the core's reactions,
// event by event:
//
//	# A comment on the story.
//	story slots=2                    a new core; words with "=" are its settings
//	----
//	a reserve 1 job=x -> a ready 1   an event and, behind the arrow, the actions that follow
//	+5ms              -> -           time passes, with a Wake whenever a wake is due; nothing follows
//	state             -> free=1      the core's counts, except zeros
//
// To write a story, leave the arrows out and run go test -rewrite. Long actions may stand one per line, each behind
// an arrow. The test defines the words. Some words have the same form in all stories:
//
//   - Places are numbers, 3 or 3-5. Place 3 in its turn 1 is 3.1; turns count from 0, and 0 is left out.
//   - Attempts are a1, b7, ..., by their frontend's letter.
//   - Sizes and room are in slots.
package script

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
)

// Story is a core, and the words for its events E and its actions A.
type Story[E, A any] struct {
	Core interface {
		Step(now time.Time, ev E, acts []A) []A
		NextWake() time.Time
		Check() error
	}
	Wake  E
	Event func(*Line) E
	Show  func([]A) string // at least one action; each line of the result becomes a line of the story
	State func() string
	Width int // maximum width of the column of events; longer events stick out

	now time.Time
}

// Run plays all stories in testdata. After each event, Run calls the core's own Check.
func Run[E, A any](t *testing.T, start func(settings *Line) *Story[E, A]) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		if filepath.Ext(path) != ".txt" {
			return
		}
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		played := 0
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			played++
			settings := &Line{named: map[string]string{}}
			for _, arg := range d.CmdArgs {
				settings.named[arg.Key] = strings.Join(arg.Vals, ",")
			}
			s := start(settings)
			if err := settings.finishLine(); err != nil {
				d.Fatalf(t, "%v", err)
			}
			s.now = time.Unix(1_000_000, 0)
			var events, answers []string
			width := 0
			for line := range strings.Lines(d.Expected) {
				event, _, _ := strings.Cut(line, " -> ")
				event = strings.TrimSpace(event)
				if event == "" || strings.HasPrefix(event, "->") {
					continue // another line of actions
				}
				answer, err := s.playLine(event)
				if err != nil {
					d.Fatalf(t, "%s: %v", event, err)
				}
				events, answers, width = append(events, event), append(answers, answer), max(width, len(event))
			}
			if len(events) == 0 {
				d.Fatalf(t, "a story without events")
			}
			var out strings.Builder
			for i, event := range events {
				event = fmt.Sprintf("%-*s", min(width, s.Width), event)
				answer := strings.ReplaceAll(answers[i], "\n", "\n"+strings.Repeat(" ", len(event))+" -> ")
				fmt.Fprintf(&out, "%s -> %s\n", event, answer)
			}
			return out.String()
		})
		// A story whose separator is not "----" would be no story, and never fail.
		if written := strings.Count("\n"+string(text), "\nstory"); played != written && !t.Failed() {
			t.Errorf("%s has %d stories, and %d were played: the line after each story's first line is ----", path,
				written, played)
		}
	})
}

// playLine lets an event happen and returns the actions in words.
func (s *Story[E, A]) playLine(text string) (string, error) {
	if text == "state" {
		return s.State(), nil
	}
	var acts []A
	var err error
	if wait, ok := strings.CutPrefix(text, "+"); ok {
		acts, err = s.passTime(wait)
	} else {
		l := parseLine(text)
		ev := s.Event(l)
		if err = l.finishLine(); err == nil {
			acts = s.Core.Step(s.now, ev, nil)
		}
	}
	if err == nil {
		err = s.Core.Check()
	}
	if err != nil || len(acts) == 0 {
		return "-", err
	}
	return s.Show(acts), nil
}

// passTime lets time pass as a shell does: with a wake whenever the core wants a wake.
func (s *Story[E, A]) passTime(wait string) ([]A, error) {
	d, err := time.ParseDuration(wait)
	if err != nil {
		return nil, err
	}
	var acts []A
	for end := s.now.Add(d); ; {
		at := s.Core.NextWake()
		if at.IsZero() || at.After(end) {
			s.now = end
			return acts, nil
		}
		if at.Before(s.now) {
			return nil, fmt.Errorf("a wake was due %v ago", s.now.Sub(at))
		}
		s.now = at
		acts = s.Core.Step(s.now, s.Wake, acts)
		if next := s.Core.NextWake(); !next.IsZero() && !next.After(at) {
			return nil, errors.New("the wake that was due changed nothing")
		}
	}
}
