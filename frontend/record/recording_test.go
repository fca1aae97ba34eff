package record

import (
	"bytes"
	"testing"
	"time"
)

// The recording names the worker with the slowest tasks, and the phase to blame. The summary repeats both.
func TestRecordingBlames(t *testing.T) {
	ms := time.Millisecond
	names := map[uint32]string{1: "good", 2: "bad"}
	var attempts []Attempt
	for i := range 100 {
		at, launched := 5*ms, 1*ms
		if i%10 == 0 {
			launched = 100 * ms // only at the bad worker
		}
		a := Attempt{Worker: 1}
		if i%10 == 0 {
			a.Worker = 2
		}
		a.Ends = [Phases]time.Duration{at, at + 1*ms, at + 2*ms, at + 3*ms, at + 3*ms + launched, at + 13*ms + launched,
			at + 14*ms + launched}
		attempts = append(attempts, a)
	}
	x := Recording{Summary: Summary{Format: RecordingFormat, Broken: "p99=1ms"},
		Workers: []RecordedWorker{{Name: "good"}, {Name: "bad"}, {Name: "idle"}}}
	x.SetAttempts(attempts, names)
	if len(x.Suspects) != 2 || x.Slowest != "bad" || x.Phase != "launch" || x.Suspects[0].Excess != 10*(114-2*15)*ms {
		t.Errorf("%q by %q: %+v", x.Slowest, x.Phase, x.Suspects)
	}
	var file bytes.Buffer
	if err := x.Write(&file); err != nil {
		t.Fatal(err)
	}
	s, err := ReadSummary(bytes.NewReader(file.Bytes()))
	if err != nil || s != x.Summary {
		t.Errorf("%+v: %v", s, err)
	}
	back, err := ReadRecording(&file)
	if err != nil || back.Suspects[0] != x.Suspects[0] || !bytes.Equal(back.Attempts, x.Attempts) {
		t.Errorf("%+v: %v", back, err)
	}
}
