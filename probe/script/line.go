package script

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/phoebe-sched/phoebe/probe"
)

// Line is an event, or a story's settings, in words: words without "=" in order, and words with "=" by name. Each
// word is taken once. Unreadable words are errors of the line, and so are words that nobody takes.
type Line struct {
	words []string
	named map[string]string
	err   error
}

func parseLine(text string) *Line {
	l := &Line{named: map[string]string{}}
	for w := range strings.FieldsSeq(text) {
		if key, val, ok := strings.Cut(w, "="); ok {
			l.named[key] = val
		} else {
			l.words = append(l.words, w)
		}
	}
	return l
}

// Fail notes err as an error of the line, if err is not nil.
func (l *Line) Fail(err error) { l.err = errors.Join(l.err, err) }

// finishLine returns the errors of the line. Words not taken are an error.
func (l *Line) finishLine() error {
	if l.err == nil && len(l.words)+len(l.named) > 0 {
		l.err = fmt.Errorf("unknown words: %q %v", l.words, slices.Sorted(maps.Keys(l.named)))
	}
	return l.err
}

// WordsLeft returns the number of words not yet taken.
func (l *Line) WordsLeft() int { return len(l.words) }

// Word takes the next word.
func (l *Line) Word() string {
	if len(l.words) == 0 {
		l.Fail(errors.New("words are missing"))
		return ""
	}
	w := l.words[0]
	l.words = l.words[1:]
	return w
}

// Flag takes a word if the line has the word, and reports whether it did.
func (l *Line) Flag(word string) bool {
	i := slices.Index(l.words, word)
	if i < 0 {
		return false
	}
	l.words = slices.Delete(l.words, i, i+1)
	return true
}

// Text takes the text behind key=, or "".
func (l *Line) Text(key string) string {
	v := l.named[key]
	delete(l.named, key)
	return v
}

// List takes the text behind key= and splits it at commas.
func (l *Line) List(key string) []string {
	if v := l.Text(key); v != "" {
		return strings.Split(v, ",")
	}
	return nil
}

// Number takes the number behind key=, or returns fallback.
func (l *Line) Number(key string, fallback int) int {
	if v := l.Text(key); v != "" {
		return l.Int(v)
	}
	return fallback
}

// Float takes the number behind key=, or returns 0.
func (l *Line) Float(key string) float64 {
	v := l.Text(key)
	if v == "" {
		return 0
	}
	x, err := strconv.ParseFloat(v, 64)
	l.Fail(err)
	return x
}

// Duration takes the duration behind key=, or returns 0.
func (l *Line) Duration(key string) time.Duration {
	v := l.Text(key)
	if v == "" {
		return 0
	}
	d, err := time.ParseDuration(v)
	l.Fail(err)
	return d
}

// Int reads a number.
func (l *Line) Int(s string) int {
	n, err := strconv.Atoi(s)
	l.Fail(err)
	return n
}

// Places reads "3" or "3-5".
func (l *Line) Places(s string) probe.Range {
	first, last, ok := strings.Cut(s, "-")
	from := l.Int(first)
	if !ok {
		return probe.Range{First: probe.ResID(from), Count: 1}
	}
	return probe.Range{First: probe.ResID(from), Count: uint32(l.Int(last) - from + 1)}
}

// Turn reads "3" or "3.1".
func (l *Line) Turn(s string) (probe.ResID, probe.Turn) {
	res, turn, ok := strings.Cut(s, ".")
	if !ok {
		turn = "0"
	}
	return probe.ResID(l.Int(res)), probe.Turn(l.Int(turn))
}

// Attempt reads "a1".
func (l *Line) Attempt(s string) probe.AttemptID {
	if !IsAttempt(s) {
		l.Fail(fmt.Errorf("%q is not an attempt", s))
		return probe.AttemptID{}
	}
	return probe.AttemptID{Frontend: probe.FrontendID(s[0]), Seq: uint64(l.Int(s[1:]))}
}

// IsAttempt reports whether s is a letter and a number.
func IsAttempt(s string) bool {
	return len(s) > 1 && 'a' <= s[0] && s[0] <= 'z' && '0' <= s[1] && s[1] <= '9'
}

// Size returns the demand of n slots.
func Size(n int) probe.Demand {
	return probe.Demand{CPU: probe.Slot.CPU * probe.Millicores(n), Mem: probe.Slot.Mem * probe.MiB(n)}
}

// Job returns the id of the job called name. A name has at most 16 letters.
func Job(name string) (id probe.JobID) {
	copy(id[:], name)
	return id
}

// ShowJob returns a job's name.
func ShowJob(id probe.JobID) string { return strings.TrimRight(string(id[:]), "\x00") }

// ShowAttempt returns an attempt in the form "a1".
func ShowAttempt(id probe.AttemptID) string { return fmt.Sprintf("%c%d", rune(id.Frontend), id.Seq) }

// ShowTurn returns a turn in the form "3" or "3.1".
func ShowTurn(res probe.ResID, turn probe.Turn) string {
	if turn == 0 {
		return fmt.Sprint(res)
	}
	return fmt.Sprintf("%d.%d", res, turn)
}

// ShowPlaces returns places in the form "3" or "3-5".
func ShowPlaces(first probe.ResID, count uint32) string {
	if count == 1 {
		return fmt.Sprint(first)
	}
	return fmt.Sprintf("%d-%d", first, first+probe.ResID(count)-1)
}

// Optional returns a setting such as " name=5ms", or "" for 0. The space is part of name.
func Optional(name string, d time.Duration) string {
	if d == 0 {
		return ""
	}
	return name + "=" + d.String()
}
