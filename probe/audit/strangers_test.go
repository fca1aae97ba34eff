package audit

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/VictoriaMetrics/metrics"
)

// readLog returns the entries of a log, and closes the log.
func readLog(t *testing.T, l *Log, name string) (all []Entry) {
	t.Helper()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	for line := range bytes.Lines(text) {
		var e Entry
		if err := json.Unmarshal(line, &e); err != nil {
			t.Fatal(err)
		}
		all = append(all, e)
	}
	return all
}

// The refusals of a stranger are all counted, and told once a second.
func TestGuessesAreCounted(t *testing.T) {
	name := filepath.Join(t.TempDir(), "audit")
	l, err := Open(name, new(metrics.Counter))
	if err != nil {
		t.Fatal(err)
	}
	const guesses = 50_000
	begun, wrong := time.Now(), errors.New("wrong secret")
	for i := range guesses {
		l.NoteStranger(Entry{What: "Submit", From: fmt.Sprintf("192.0.2.1:%d", 1024+i%60_000)}, wrong)
	}
	seconds := int(time.Since(begun)/time.Second) + 1
	entries := readLog(t, l, name)
	refused := 0
	for _, e := range entries {
		if refused += max(e.Count, 1); e.Decision != "refused" || e.Why != "wrong secret" {
			t.Errorf("%+v", e)
		}
	}
	if refused != guesses || len(entries) > seconds+1 {
		t.Errorf("%d entries in %d s tell %d guesses, want %d", len(entries), seconds, refused, guesses)
	}
}

func TestSources(t *testing.T) {
	r := refusals{due: make(chan struct{}, 1), bySource: map[string]*refusal{}}
	defer r.stopTimer()
	begun := time.Now()
	at := func(from string, ms int) Entry {
		return Entry{From: from, At: begun.Add(time.Duration(ms) * time.Millisecond)}
	}
	for _, c := range []struct {
		from  string
		first bool
	}{
		{"192.0.2.1:1", true}, {"192.0.2.1:2", false}, {"192.0.2.2:1", true}, {"[::ffff:192.0.2.1]:9", false},
		{"[2001:db8::1]:1", true}, {"[2001:db8::2]:1", false}, {"[2001:db8:0:1::1]:1", true}, {"pipe", true},
	} {
		if first := r.isFirst(at(c.from, 0)); first != c.first {
			t.Errorf("%s is told at once: %v", c.from, first)
		}
	}
	if early := r.takeEntries(begun.Add(tellEvery - 1)); len(early) > 0 {
		t.Errorf("told within a second: %+v", early)
	}
	second := r.takeEntries(begun.Add(tellEvery))
	counts := map[string]int{}
	for _, e := range second {
		counts[sourceOf(e.From)] = e.Count
	}
	if len(second) != 2 || counts["192.0.2.1"] != 2 || counts["2001:db8::/64"] != 0 {
		t.Errorf("%+v", second)
	}
	if again := r.takeEntries(begun.Add(2 * tellEvery)); len(again) > 0 || len(r.bySource) != 0 {
		t.Errorf("%+v, %d sources, want none", again, len(r.bySource))
	}
	firsts := 0
	for i := range 2 * maxSources {
		if r.isFirst(at(fmt.Sprintf("10.0.%d.%d:1", i/256, i%256), 0)) {
			firsts++
		}
	}
	if len(r.bySource) != maxSources+1 || firsts != maxSources+1 || r.bySource[""].count != maxSources-1 {
		t.Errorf("%d sources are remembered, %d were told", len(r.bySource), firsts)
	}
}

// However many strangers come, and however slow the disk is, a known caller's entry has room.
func TestRoomForKnownCallers(t *testing.T) {
	dropped := new(metrics.Counter)
	l := &Log{dropped: dropped, entries: make(chan Entry, maxWaiting),
		strangers: refusals{due: make(chan struct{}, 1), bySource: map[string]*refusal{}}}
	defer l.strangers.stopTimer()
	for i := range maxSources + 1 {
		l.NoteStranger(Entry{From: fmt.Sprintf("10.0.%d.%d:1", i/256, i%256)}, errors.New("wrong"))
	}
	for i := range maxStrange + 10 {
		l.queueEntry(Entry{Name: fmt.Sprint(i)}, maxStrange)
	}
	if len(l.entries) != maxStrange || dropped.Get() == 0 {
		t.Fatalf("%d entries of strangers wait, %d dropped", len(l.entries), dropped.Get())
	}
	for range maxWaiting - maxStrange {
		l.Note(Entry{What: "submit", Who: "client/acme"}, nil)
	}
	if len(l.entries) != maxWaiting {
		t.Errorf("%d entries wait: known callers found no room", len(l.entries))
	}
}

func TestNoteOnce(t *testing.T) {
	name := filepath.Join(t.TempDir(), "audit")
	l, err := Open(name, new(metrics.Counter))
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		l.NoteOnce(Entry{What: "events", Who: "client/a", Job: "1"})
		l.NoteOnce(Entry{What: "events", Who: "client/b", Job: "1"})
		l.NoteOnce(Entry{What: "read file", Who: "client/a", File: "1"})
	}
	if all := readLog(t, l, name); len(all) != 3 || all[2].File != "1" || all[1].Who != "client/b" {
		t.Errorf("%+v", all)
	}
	var s onceSet
	for i := range 10 * maxSeen {
		if !s.addKey(onceKey{job: fmt.Sprint(i)}) || s.addKey(onceKey{job: fmt.Sprint(max(0, i-10))}) {
			t.Fatalf("key %d is known, or a key shortly before is not", i)
		}
	}
	if len(s.newer)+len(s.older) > 2*maxSeen {
		t.Errorf("%d keys are remembered", len(s.newer)+len(s.older))
	}
	(*Log)(nil).NoteOnce(Entry{})
	(*Log)(nil).NoteStranger(Entry{}, nil)
}
