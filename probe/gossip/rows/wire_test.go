package rows

import (
	"bytes"
	"encoding/binary"
	"reflect"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/phoebe-sched/phoebe/probe"
	"github.com/phoebe-sched/phoebe/probe/corpus"
	"github.com/phoebe-sched/phoebe/probe/purity"
)

func TestPure(t *testing.T) { purity.Check(t, ".") }

// drawMatrix draws a matrix with rising waits.
func drawMatrix(t *rapid.T) (m probe.WaitMatrix) {
	if rapid.Bool().Draw(t, "idle") {
		return m
	}
	steps := rapid.SliceOfN(rapid.Uint32Range(0, 5000), 64, 64).Draw(t, "steps")
	never := rapid.IntRange(0, 15).Draw(t, "never")
	for i := range m.Cells {
		for j := range m.Cells[i] {
			w := probe.Wait(0)
			if i > 0 {
				w = m.Cells[i-1][j]
			}
			if j > 0 {
				w = max(w, m.Cells[i][j-1])
			}
			switch s := steps[8*i+j]; {
			case i+j > 16-never:
				w = probe.NeverFits
			case s%3 == 0:
				w += probe.Wait(s)
			}
			m.Cells[i][j] = w
		}
	}
	return m
}

func drawProfile(t *rapid.T, name string) *Profile {
	return &Profile{
		Name: name, Addr: "10.0.0.1:7", Host: rapid.StringN(0, 5, 20).Draw(t, "host"), Rack: "r1",
		Capacity: probe.Demand{CPU: 8000, Mem: 4096},
		Labels:   rapid.SliceOfN(rapid.StringN(0, 8, 20), 1, 4).Draw(t, "labels"),
	}
}

func drawRow(t *rapid.T) Row {
	millis := func(name string) time.Duration {
		return time.Duration(rapid.Int64Range(0, 1e6).Draw(t, name)) * time.Millisecond
	}
	r := Row{
		Incarnation: rapid.Uint64().Draw(t, "incarnation"),
		Seq:         rapid.Uint64Range(1, 1e9).Draw(t, "seq"),
		Age:         millis("age"),
		State:       rapid.SampledFrom([]State{Up, Up, Left}).Draw(t, "state"),
		Draining:    rapid.Bool().Draw(t, "draining"),
		Speed:       float64(rapid.IntRange(10, 100_000).Draw(t, "speed")) / 1000,
		Finished:    rapid.Uint64().Draw(t, "finished"),
		Flaws:       Flaws(rapid.Byte().Draw(t, "flaws")),
		Matrix:      drawMatrix(t),
		ProfileRev:  rapid.Uint32Range(1, 9).Draw(t, "profileRev"),
		FilesRev:    rapid.Uint32Range(1, 9).Draw(t, "filesRev"),
	}
	r.Failed = r.Finished / 2
	if rapid.Bool().Draw(t, "maintenance") {
		r.Maintenance = Maintenance{In: millis("in"), Lasts: millis("lasts") + time.Millisecond}
	}
	if rapid.Bool().Draw(t, "files") {
		r.Files = &Files{3, 77, 1 << 63}
	}
	name := rapid.StringN(1, 10, 40).Draw(t, "name")
	r.Key = KeyOf(name, r.Incarnation)
	if rapid.Bool().Draw(t, "full") {
		r.Profile = drawProfile(t, name)
	} else {
		r.Incarnation = 0
	}
	return r
}

func TestMessagesSurviveTheWire(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := drawRow(t)
		var got Row
		rest, err := ReadRow(append(AppendRow(nil, &r), 1, 2), &got)
		if err != nil || len(rest) != 2 || !reflect.DeepEqual(got, r) {
			t.Fatalf("%v, %d bytes rest\nsent %+v\nread %+v", err, len(rest), r, got)
		}
		h := Heartbeat{Speaks: probe.Dialect{Min: 6, Max: 8, Features: 1 << 40}, Secret: "s", Members: 17, Row: r}
		var gotH Heartbeat
		if err := ReadHeartbeat(AppendHeartbeat(nil, &h), &gotH); err != nil || !reflect.DeepEqual(gotH, h) {
			t.Fatalf("%v\nsent %+v\nread %+v", err, h, gotH)
		}
		a := Answer{Seq: r.Seq, Full: r.Draining, Incarnation: r.Incarnation, Version: 5}
		for i := range rapid.IntRange(0, 3).Draw(t, "members") {
			a.Members = append(a.Members, Member{Name: string(rune('a' + i)), Heartbeat: "h:1"})
		}
		var gotA Answer
		if err := ReadAnswer(AppendAnswer(nil, &a), &gotA); err != nil || !reflect.DeepEqual(gotA, a) {
			t.Fatalf("%v\nsent %+v\nread %+v", err, a, gotA)
		}
	})
}

// Readers ignore appended bytes and unknown messages of a newer peer.
func TestNewerPeer(t *testing.T) {
	r := fullRow("w", 1, 7)
	wire := AppendRow(nil, &r)
	size, n := binary.Uvarint(wire)
	extra := append(binary.AppendUvarint(nil, size+3), wire[n:]...)
	extra = append(extra, 1, 2, 3)
	var got Row
	if rest, err := ReadRow(append(bytes.Clone(extra), 9), &got); err != nil || len(rest) != 1 ||
		!reflect.DeepEqual(got, r) {
		t.Errorf("%v, %d bytes rest, %+v", err, len(rest), got)
	}
	h := Heartbeat{Speaks: probe.Spoken, Secret: "s", Members: 17, Row: r}
	var gotH Heartbeat
	if err := ReadHeartbeat(append(AppendHeartbeat(nil, &h), 1, 2), &gotH); err != nil || !reflect.DeepEqual(gotH, h) {
		t.Errorf("%v, %+v", err, gotH)
	}
	a := Answer{Seq: 3, Version: 5, Members: []Member{{Name: "f", Heartbeat: "f:1"}}}
	var gotA Answer
	if err := ReadAnswer(append(AppendAnswer(nil, &a), 1, 2), &gotA); err != nil || !reflect.DeepEqual(gotA, a) {
		t.Errorf("%v, %+v", err, gotA)
	}
	c := newTestCore("f1")
	if out, err := c.Receive(epoch, appendString([]byte{99}, "f2"), nil); err != nil || len(out) > 0 ||
		c.Stats.Skipped != 1 || c.Stats.Garbage > 0 {
		t.Errorf("%v, %v, %+v", out, err, c.Stats)
	}
	if _, err := c.Receive(epoch, append(appendString([]byte{msgPush}, "f2"), append(extra, wire...)...),
		nil); err != nil || c.Stats.Received != 2 {
		t.Errorf("%v, %+v", err, c.Stats)
	}
}

func TestCorpora(t *testing.T) {
	full := fullRow("w", 1, 7)
	full.Age, full.State, full.Draining, full.Speed, full.Finished, full.Failed = 20*time.Millisecond, Left, true,
		1.5, 300, 2
	full.Maintenance, full.Flaws = Maintenance{time.Hour, time.Minute}, BadSpeed|BadOutage
	full.Matrix.Cells[7][7], full.Matrix.Short = 500, [probe.MatrixSide]probe.Wait{1, 2, 3, 4, 5, 6, 7, 8}
	full.Profile.Labels, full.Profile.Flaws = []string{"gpu=no"}, BadLabels
	full.FilesRev, full.Files = 4, &Files{3, 77}
	brief := shortRow(full)
	corpus.Check(t, probe.MinVersion, probe.Version, []corpus.Example{
		{Name: "row", Msg: brief, Wire: AppendRow(nil, &brief), Decode: func(b []byte) (any, error) {
			var r Row
			_, err := ReadRow(b, &r)
			return r, err
		}},
		example("heartbeat", Heartbeat{Speaks: probe.Dialect{Min: 6, Max: 7, Features: 5}, Secret: "s",
			Members: 300, Row: full}, AppendHeartbeat, ReadHeartbeat),
		example("answer", Answer{Seq: 7, Full: true, Incarnation: 2, Version: 300,
			Members: []Member{{Name: "f", Heartbeat: "f:1"}}}, AppendAnswer, ReadAnswer),
	})
}

func example[M any](name string, m M, write func([]byte, *M) []byte, read func([]byte, *M) error) corpus.Example {
	return corpus.Example{Name: name, Msg: m, Wire: write(nil, &m), Decode: func(b []byte) (any, error) {
		var m M
		err := read(b, &m)
		return m, err
	}}
}

// A row never gets younger on its way.
func TestAgesAreRoundedUp(t *testing.T) {
	r := fullRow("w", 1, 7)
	for age, want := range map[time.Duration]time.Duration{1: 1e6, 1500e3: 2e6, 2e6: 2e6, 0: 0} {
		r.Age = age
		var got Row
		if _, err := ReadRow(AppendRow(nil, &r), &got); err != nil || got.Age != want {
			t.Errorf("an age of %v is read as %v, %v", age, got.Age, err)
		}
	}
}

// A message cut short anywhere is an error.
func TestCutShort(t *testing.T) {
	r := fullRow("w", 1, 7)
	r.Files = &Files{1, 2}
	r.FilesRev = 1
	r.Matrix.Cells[7][7] = 500
	whole := AppendRow(nil, &r)
	for n := range whole {
		var got Row
		if _, err := ReadRow(whole[:n], &got); err == nil {
			t.Errorf("%d of %d bytes are read as a row", n, len(whole))
		}
	}
}

// fullRow makes a whole row of a worker.
func fullRow(name string, incarnation, seq uint64) Row {
	return Row{Key: KeyOf(name, incarnation), Incarnation: incarnation, Seq: seq, Speed: 1, ProfileRev: 1,
		Profile: &Profile{Name: name, Addr: name + ":7420", Host: "h", Rack: "r",
			Capacity: probe.Demand{CPU: 8000, Mem: 8192}}}
}

// shortRow returns r without its parts.
func shortRow(r Row) Row {
	r.Incarnation, r.Profile, r.Files = 0, nil, nil
	return r
}

func FuzzMessages(f *testing.F) {
	r := fullRow("w", 1, 7)
	r.Matrix.Cells = noRoom.Cells
	f.Add(AppendHeartbeat(nil, &Heartbeat{Secret: "s", Members: 3, Row: r}))
	f.Add(AppendAnswer(nil, &Answer{Seq: 3, Full: true, Version: 3, Members: []Member{{Name: "f", Heartbeat: "h"}}}))
	push := appendString([]byte{msgPush}, "f2")
	s := shortRow(r)
	f.Add(AppendRow(AppendRow(push, &r), &s))
	row := AppendRow(nil, &s)
	f.Add(append(append(push, byte(len(row)+1)), append(row[1:], 9)...)) // appended bytes
	f.Add(append(append(push, byte(len(row)-9)), row[1:len(row)-8]...))  // missing bytes
	f.Add(appendString([]byte{99}, "f2"))
	f.Add(append(appendString([]byte{msgSums}, "f2"), make([]byte, 4*Buckets)...))
	f.Add(append(appendString([]byte{msgWant}, "f2"), 1, 2, 3, 4, 5, 6, 7, 8, 0, 3))
	f.Add(append(appendString([]byte{msgIndex}, "f2"), 1, 2, 3, 4, 5, 6, 7, 8, 1, 1))
	f.Fuzz(func(t *testing.T, msg []byte) {
		var h Heartbeat
		if ReadHeartbeat(msg, &h) == nil {
			again := AppendHeartbeat(nil, &h)
			var h2 Heartbeat
			if err := ReadHeartbeat(again, &h2); err != nil {
				t.Fatalf("what was read cannot be read again: %v", err)
			}
		}
		var a Answer
		if ReadAnswer(msg, &a) == nil {
			var a2 Answer
			if err := ReadAnswer(AppendAnswer(nil, &a), &a2); err != nil || !reflect.DeepEqual(a, a2) {
				t.Fatalf("what was read cannot be read again: %v", err)
			}
		}
		c := newTestCore("f1")
		c.SetMembers([]Member{{Name: "f2"}})
		c.Hear(epoch, fullRow("known", 1, 1))
		out, _ := c.Receive(epoch, msg, nil)
		for _, s := range out {
			if len(s.Msg) > MaxPacket && !s.Stream {
				t.Fatalf("a datagram of %d bytes", len(s.Msg))
			}
		}
		c.table.checkInvariants()
		c.Tick(epoch.Add(time.Minute), nil)
		c.table.checkInvariants()
	})
}
