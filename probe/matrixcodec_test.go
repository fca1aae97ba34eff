package probe

import (
	"bytes"
	"encoding/hex"
	"errors"
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// newGrid makes a matrix of a worker of 64 cores and 256 GiB. newGrid raises a cell if the invariant demands it.
func newGrid(cell func(i, j int) Wait) *WaitMatrix {
	m := &WaitMatrix{Capacity: Demand{CPU: 64_000, Mem: 256 << 10}}
	for i := range MatrixSide {
		for j := range MatrixSide {
			m.Cells[i][j] = max(cell(i, j), m.leastWait(uint8(i), uint8(j)))
		}
		m.Short[i] = m.Cells[i][i] / 2
	}
	return m
}

var matrices = []struct {
	name string
	m    *WaitMatrix
	size int // bytes
}{
	{"of no worker", &WaitMatrix{}, 4},
	{"idle", newGrid(func(int, int) Wait { return 0 }), 8},
	{"one wait for all", newGrid(func(int, int) Wait { return WaitOf(40 * time.Millisecond) }), 12},
	{"short tasks", newGrid(func(i,
		j int) Wait {
		return WaitOf(time.Duration(max(3*i, 2*j)) * 1700 * time.Microsecond)
	}), 32},
	{"long tasks", newGrid(func(i, j int) Wait { return WaitOf(time.Duration(max(7*i, 5*j)) * 3 * time.Second) }), 74},
	{"no structure", newGrid(func(i, j int) Wait { return WaitOf(time.Duration(i*i+3*i*j+j*j) * time.Second) }), 226},
	{"nothing ever fits", newGrid(func(int, int) Wait { return NeverFits }), 18},
	{"worst", worstMatrix(), 381},
}

// worstMatrix has the greatest rise in each cell that a matrix of 64 cells can hold.
func worstMatrix() *WaitMatrix {
	m := newGrid(func(i, j int) Wait { return Wait(i+j+1) * (NeverFits / (2*MatrixSide - 1)) })
	m.Capacity = Demand{math.MaxInt32, math.MaxInt32}
	return m
}

func TestMatrixSizes(t *testing.T) {
	for _, c := range matrices {
		b := AppendMatrix([]byte("ahead"), c.m)
		if len(b)-5 != c.size {
			t.Errorf("%s: %d bytes, want %d", c.name, len(b)-5, c.size)
		}
		got, rest, err := ReadMatrix(append(b, "behind"...)[5:])
		if err != nil || got != *c.m || string(rest) != "behind" {
			t.Errorf("%s: read as %v with %q behind, error %v", c.name, got, rest, err)
		}
		for n := range b[5:] {
			if _, _, err := ReadMatrix(b[5 : 5+n]); err == nil {
				t.Errorf("%s: cut to %d of %d bytes, and read", c.name, n, len(b)-5)
			}
		}
	}
}

// This test fails if the format changes by accident.
func TestMatrixGolden(t *testing.T) {
	// Two cells stand out: the first by 946 steps, the third by 1. Short tasks wait 473 steps.
	const want = "80f40380801005" + "b207" + "01" + "01d903"
	m := newGrid(func(i, j int) Wait {
		if j >= 2 {
			return 947
		}
		return 946
	})
	if got := hex.EncodeToString(AppendMatrix(nil, m)); got != want {
		t.Errorf("written as %s, want %s", got, want)
	}
}

func TestMatrixRefused(t *testing.T) {
	uint := func(vs ...uint64) (b []byte) {
		for _, v := range vs {
			b = appendUint(b, v)
		}
		return b
	}
	for _, c := range []struct {
		name    string
		b       []byte
		problem string
	}{
		{"nothing", nil, cutShort},
		{"more CPU than there can be", uint(math.MaxInt32+1, 1, 0), outOfRange},
		{"more memory than there can be", uint(1, math.MaxInt32+1, 0), outOfRange},
		{"more cells than 64", append(uint(1, 1), 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1),
			outOfRange},
		{"a wait longer than any", uint(1, 1, 1, math.MaxUint32+1), outOfRange},
		{"waits that add up to more than any", uint(1, 1, 3, math.MaxUint32, 1), outOfRange},
		{"fewer waits than in the mask", uint(1, 1, 3, 1), cutShort},
	} {
		_, rest, err := ReadMatrix(c.b)
		var e *DecodeError
		if !errors.As(err, &e) || rest != nil || e.Problem != c.problem || e.Field != "matrix" {
			t.Errorf("%s: %v, %q", c.name, err, rest)
		}
	}
}

// AppendMatrix repairs a matrix that breaks the invariant, and never makes a wait shorter.
func TestMatrixRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var any WaitMatrix
		any.Capacity = Demand{Millicores(rapid.Int32().Draw(t, "cpu")), MiB(rapid.Int32().Draw(t, "mem"))}
		few := rapid.SampledFrom([]uint32{0, 1, 1000, math.MaxUint32}).Draw(t, "up to")
		for i := range MatrixSide {
			for j := range MatrixSide {
				any.Cells[i][j] = Wait(rapid.Uint32Range(0, few).Draw(t, "wait"))
			}
			any.Short[i] = Wait(rapid.Uint32Range(0, few).Draw(t, "short"))
		}
		want := *newGrid(func(i, j int) Wait { return any.Cells[i][j] })
		most := Wait(0)
		for i, w := range any.Short {
			most = max(most, w)
			want.Short[i] = most
		}
		want.Capacity = Demand{max(any.Capacity.CPU, 0), max(any.Capacity.Mem, 0)}
		b := AppendMatrix(nil, &any)
		got, rest, err := ReadMatrix(b)
		if err != nil || len(rest) > 0 || got != want {
			t.Fatalf("%v\nread as %v, %d bytes behind, %v", want, got, len(rest), err)
		}
		if len(b) > 382 {
			t.Fatalf("%d bytes", len(b))
		}
		if !bytes.Equal(AppendMatrix(nil, &got), b) {
			t.Fatal("written differently the second time")
		}
	})
}

func FuzzReadMatrix(f *testing.F) {
	for _, c := range matrices {
		f.Add(AppendMatrix(nil, c.m))
	}
	f.Add(append(AppendMatrix(nil, worstMatrix()), 1, 2, 3))
	f.Fuzz(func(t *testing.T, data []byte) {
		m, rest, err := ReadMatrix(data)
		if err != nil {
			var e *DecodeError
			if !errors.As(err, &e) || e.Field == "" || e.Problem == "" || e.Offset < 0 || e.Offset > len(data) ||
				m != (WaitMatrix{}) {
				t.Fatalf("%#v with %v", err, m)
			}
			return
		}
		if !bytes.HasSuffix(data, rest) {
			t.Fatalf("%d bytes that were not there are behind", len(rest))
		}
		if m.Capacity.CPU < 0 || m.Capacity.Mem < 0 {
			t.Fatalf("capacity %v", m.Capacity)
		}
		for i := range MatrixSide {
			for j := range MatrixSide {
				if m.Cells[i][j] < m.leastWait(uint8(i), uint8(j)) {
					t.Fatalf("the wait falls at %d, %d: %v", i, j, m.Cells)
				}
			}
		}
		b := AppendMatrix(nil, &m)
		if len(b) > len(data)-len(rest) {
			t.Fatalf("%d bytes became %d", len(data)-len(rest), len(b))
		}
		if again, _, err := ReadMatrix(b); err != nil || again != m {
			t.Fatalf("%v became %v, %v", m, again, err)
		}
	})
}

func TestDiffers(t *testing.T) {
	all := func(d time.Duration) *WaitMatrix { return newGrid(func(int, int) Wait { return WaitOf(d) }) }
	one := func(d, last time.Duration) *WaitMatrix {
		m := all(d)
		m.Cells[MatrixSide-1][MatrixSide-1] = WaitOf(last)
		return m
	}
	never := newGrid(func(int, int) Wait { return NeverFits })
	smaller := all(0)
	smaller.Capacity.Mem--
	for _, c := range []struct {
		name          string
		previous, now *WaitMatrix
		ago           time.Duration
		want          bool
	}{
		{"the same", all(time.Hour), all(time.Hour), time.Second, false},
		{"less memory", all(0), smaller, 0, true},
		{"100 ms more", all(0), all(100 * time.Millisecond), 0, false},
		{"more than 100 ms more", all(0), all(100*time.Millisecond + 1), 0, true},
		{"one cell", all(0), one(0, 200*time.Millisecond), 0, true},
		{"a tenth more", all(10 * time.Second), all(11 * time.Second), 0, false},
		{"more than a tenth more", all(10 * time.Second), all(11*time.Second + 1), 0, true},
		{"a tenth less", all(10 * time.Second), all(9 * time.Second), 0, false},
		{"more than a tenth less", all(10 * time.Second), all(9*time.Second - WaitStep), 0, true},
		{"less, as time passed", all(10 * time.Second), all(7 * time.Second), 2 * time.Second, false},
		{"less than that", all(10 * time.Second), all(7*time.Second - WaitStep), 2 * time.Second, true},
		{"over, as time passed", all(time.Second), all(0), time.Second, false},
		{"longer for a time", all(time.Second), all(time.Second), time.Hour, false},
		{"fits no longer", one(0, 110*time.Hour), never, 0, true},
		{"fits at last", never, all(115 * time.Hour), math.MaxInt64, true},
		{"the longest", all(100 * time.Hour), all(119 * time.Hour), 0, true},
	} {
		if got := c.now.Differs(c.previous, c.ago); got != c.want {
			t.Errorf("%s: %t", c.name, got)
		}
	}
}

func BenchmarkMatrixCodec(b *testing.B) {
	m := matrices[4].m
	buf := AppendMatrix(nil, m)
	b.Run("append", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			buf = AppendMatrix(buf[:0], m)
		}
	})
	b.Run("read", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, _, err := ReadMatrix(buf); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("differs", func(b *testing.B) {
		previous := *m
		b.ReportAllocs()
		for b.Loop() {
			if m.Differs(&previous, time.Second) {
				b.Fatal("differs from itself")
			}
		}
	})
}
