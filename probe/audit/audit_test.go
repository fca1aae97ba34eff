package audit

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

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
	if e[0].Decision != "done" || e[0].Who != "client/acme" || e[0].At.IsZero() || e[1].Decision != "refused" || e[1].Why != "it is\nof another tenant" || len(e[1].Name) > maxText {
		t.Errorf("%+v", e)
	}
	if info, err := os.Stat(name); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	(*Log)(nil).Note(Entry{}, nil)
}

// A disk that takes nothing holds up nobody, and what is lost is counted.
func TestFullDisk(t *testing.T) {
	l, err := Open("/dev/full", new(metrics.Counter))
	if err != nil {
		t.Skip(err)
	}
	for range 3 * room {
		l.Note(Entry{What: "submit"}, nil)
	}
	l.Close()
	if n := l.dropped.Get(); n != 3*room {
		t.Errorf("%d of %d entries are counted as dropped", n, 3*room)
	}
}
