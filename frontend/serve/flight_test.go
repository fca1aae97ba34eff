package serve

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	rec "github.com/phoebe-sched/phoebe/frontend/record"
	"github.com/phoebe-sched/phoebe/idl/gen/phoebe/v1"
)

func TestParseSLO(t *testing.T) {
	for _, text := range []string{"policy=phoebe,p99=50ms,window=10s", "p999=1s,window=1m0s", "p5=1ms,window=1s"} {
		if o, err := ParseSLO(text); err != nil || o.String() != text {
			t.Errorf("%q is %q: %v", text, o, err)
		}
	}
	if o, err := ParseSLO("p99.9=1s"); err != nil || o.String() != "p999=1s,window=10s" {
		t.Errorf("p99.9 is %q: %v", o, err)
	}
	for _, text := range []string{"", "p99", "p99=-1s", "p=1s", "p99=1s,window=1h", "policy=none,p99=1s", "p-1=1s",
		"p9e1=1s,x=1", "p99=1s,window=0s", "pNaN=1s"} {
		if o, err := ParseSLO(text); err == nil || !strings.Contains(err.Error(), "policy=phoebe,p99=50ms,window=10s") {
			t.Errorf("%q is %v: %v", text, o, err)
		}
	}
}

// The latest recordings of a folder stay, whatever the frontend's name is.
func TestRecordings(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "[a-b]") // which no pattern may take for a
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	at := time.Unix(1_000_000, 0)
	// What a frontend that died has left goes; what another one writes just now stays.
	for name, age := range map[string]time.Duration{"unfinished-1": time.Hour, "unfinished-2": 0} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("half"), 0o600); err != nil {
			t.Fatal(err)
		}
		written := time.Now().Add(-age)
		if err := os.Chtimes(filepath.Join(dir, name), written, written); err != nil {
			t.Fatal(err)
		}
	}
	for i := range maxRecordings + 3 {
		x := &rec.Recording{
			Summary: rec.Summary{Format: rec.RecordingFormat, Frontend: "../" + strings.Repeat("\x00é", 100),
				At: at.Add(time.Duration(i) * time.Second)}}
		x.Workers = []rec.RecordedWorker{{Name: "w"}}
		x.SetAttempts([]rec.Attempt{{Worker: 7, Ends: [rec.Phases]time.Duration{1, 2, 3, 4, 5, 6, 7}}},
			map[uint32]string{7: "w"})
		name, removed, err := writeRecording(dir, x)
		if err != nil || filepath.Dir(name) != dir || (removed == 1) != (i >= maxRecordings) {
			t.Fatal(name, removed, err)
		}
		f, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		back, err := rec.ReadRecording(f)
		f.Close()
		if err != nil || !back.At.Equal(x.At) || back.Frontend == "" {
			t.Fatalf("%+v: %v", back, err)
		}
		if s := back.Suspects; len(s) != 1 || s[0].Tasks != 1 || s[0].Worst != 6 {
			t.Errorf("%+v", s)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "unfinished-1")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("what a dead frontend left is still there: %v", err)
	}
	if err := os.Remove(filepath.Join(dir, "unfinished-2")); err != nil {
		t.Error(err)
	}
	files, err := os.ReadDir(dir)
	if err != nil || len(files) != maxRecordings ||
		!strings.Contains(files[0].Name(), at.Add(3*time.Second).UTC().Format("150405")) {
		t.Errorf("%v, %v", files, err)
	}
}

// Each attempt is copied once, and forgotten attempts are counted.
func TestRecordAttempts(t *testing.T) {
	var r rec.Attempts
	total := 1<<18 + 1000
	for i := range total {
		a, _ := r.NewAttempt()
		a.Waited = time.Duration(i)
	}
	part, after, lost, n := make([]rec.Attempt, 1000), uint64(500), 0, 0
	for {
		got, skipped := r.Copy(part, after)
		lost += skipped
		after += uint64(skipped + got)
		for _, a := range part[:got] {
			if a.Waited != time.Duration(500+lost+n) {
				t.Fatal(fmt.Sprint("attempt ", n, " is ", a.Waited))
			}
			n++
		}
		if got < len(part) {
			break
		}
	}
	if lost != 500 || n != 1<<18 {
		t.Errorf("%d are lost, %d come", lost, n)
	}
}

// Written, failed and removed recordings are counted, as are looks refused for lack of a slot.
func TestRecordingsCounted(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(dir, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"failed", "written"} {
		s, err := New(Config{Listen: "127.0.0.1:0", Seed: 1, RecordDir: []string{dir, t.TempDir()}[i]})
		if err != nil {
			t.Fatal(err)
		}
		s.stop() // without a wait for the time after the moment
		s.recordFlight(SLO{Share: 0.99, Most: time.Millisecond, Window: time.Second}, time.Second, time.Now(), 0)
		for range maxLooks {
			if _, err := (&handler{s}).beginLook(); err != nil {
				t.Fatal(err)
			}
		}
		_, err = (&handler{s}).beginLook()
		wantRefused(t, err, v1.RefusedReason_OVERLOADED, "too many")
		var text strings.Builder
		s.metrics.set.WritePrometheus(&text)
		for _, line := range []string{fmt.Sprintf("phoebe_frontend_recordings_total{outcome=%q} 1\n", want),
			"phoebe_frontend_looks_refused_total 1\n"} {
			if !strings.Contains(text.String(), line) {
				t.Errorf("%q is not exposed: %s", line, text.String())
			}
		}
	}
}
