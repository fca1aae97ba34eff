package audit

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/VictoriaMetrics/metrics"
)

func TestLog(t *testing.T) {
	name := filepath.Join(t.TempDir(), "audit")
	l, err := Open(name, new(metrics.Counter))
	if err != nil {
		t.Fatal(err)
	}
	l.Note(Entry{What: "submit", Who: "client/acme", Job: "J"}, nil)
	l.Note(Entry{What: "cancel", Name: strings.Repeat("n", 10_000)}, errors.New("it is\nof another tenant"))
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	l.Note(Entry{What: "late"}, nil)
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	lines := bytes.Split(bytes.TrimSpace(text), []byte("\n"))
	if len(lines) != 2 {
		t.Fatalf("%d lines:\n%s", len(lines), text)
	}
	var e [2]Entry
	for i := range e {
		if err := json.Unmarshal(lines[i], &e[i]); err != nil {
			t.Fatal(err)
		}
	}
	if e[0].Decision != "done" || e[0].Who != "client/acme" || e[0].At.IsZero() || e[1].Decision != "refused" ||
		e[1].Why != "it is\nof another tenant" || len(e[1].Name) > maxText {
		t.Errorf("%+v", e)
	}
	if info, err := os.Stat(name); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	(*Log)(nil).Note(Entry{}, nil)
}

// A full disk holds up nobody, and the log counts the lost entries.
func TestFullDisk(t *testing.T) {
	l, err := Open("/dev/full", new(metrics.Counter))
	if err != nil {
		t.Skip(err)
	}
	// A round has more entries than the log writes at once. The second round finds the disk still full.
	for round := range uint64(3) {
		for range maxWaiting {
			l.Note(Entry{What: "submit"}, nil)
		}
		for end := time.Now().Add(time.Minute); l.dropped.Get() != (round+1)*maxWaiting; runtime.Gosched() {
			if time.Now().After(end) {
				t.Fatalf("%d of %d entries are counted as dropped", l.dropped.Get(), (round+1)*maxWaiting)
			}
		}
	}
	l.Close()
}

// smallDisk takes so many bytes until it is full.
type smallDisk struct {
	bytes.Buffer
	room int
}

func (d *smallDisk) Write(b []byte) (int, error) {
	n := min(len(b), d.room)
	d.room -= n
	d.Buffer.Write(b[:n])
	if n < len(b) {
		return n, errors.New("full")
	}
	return n, nil
}

// If the disk is full in the middle of a line, the lines after are whole.
func TestLinesAfterFullDisk(t *testing.T) {
	for room := range len("first\nsecond\n") {
		disk := &smallDisk{room: room}
		w := &lineWriter{to: disk}
		for _, part := range []string{"fir", "st\nsec", "ond\n"} { // a buffer ends anywhere
			if _, err := w.Write([]byte(part)); err != nil {
				break
			}
		}
		if _, err := w.Write([]byte("lost\n")); err == nil {
			t.Errorf("the disk is full after %d bytes, and a line was written", room)
		}
		disk.room = 100
		for range 2 {
			if _, err := w.Write([]byte("later\n")); err != nil {
				t.Fatal(err)
			}
		}
		if text := disk.String(); !strings.HasSuffix("\n"+text, "\nlater\nlater\n") || strings.Contains(text, "\n\n") {
			t.Errorf("after %d bytes: %q", room, text)
		}
	}
}
