package probe

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestWaitOf(t *testing.T) {
	for _, c := range []struct {
		d    time.Duration
		want Wait
	}{
		{math.MinInt64, 0}, {-1, 0}, {0, 0}, {1, 1}, {WaitStep, 1}, {WaitStep + 1, 2}, {time.Second, 10_000},
		{100 * time.Hour, 3_600_000_000}, {120 * time.Hour, NeverFits - 1}, {math.MaxInt64, NeverFits - 1},
	} {
		if got := WaitOf(c.d); got != c.want {
			t.Errorf("the wait of %v is %d, want %d", c.d, got, c.want)
		}
	}
	if d := WaitOf(1500 * time.Microsecond).Duration(); d != 1500*time.Microsecond {
		t.Errorf("1.5 ms became %v", d)
	}
}

// Beside gives the waits that a task as large as each cell and the further task would read together.
func TestBeside(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := WaitMatrix{Capacity: Demand{
			CPU: Millicores(rapid.IntRange(1, 64_000).Draw(t, "CPU")),
			Mem: MiB(rapid.IntRange(1, 300).Draw(t, "memory")),
		}}
		for i := range MatrixSide {
			m.Short[i] = Wait(100 * i)
			for j := range MatrixSide {
				m.Cells[i][j] = Wait(10*i + j)
			}
		}
		d := Demand{
			CPU: Millicores(rapid.IntRange(0, 70_000).Draw(t, "further CPU")),
			Mem: MiB(rapid.IntRange(0, 320).Draw(t, "further memory")),
		}
		cells, short := m.Beside(d)
		for i := range MatrixSide {
			for j := range MatrixSide {
				both := d.Add(Demand{CPU: MatrixStep(m.Capacity.CPU, i), Mem: MatrixStep(m.Capacity.Mem, j)})
				if cells[i][j] != m.Wait(both) || i == j && short[i] != m.ShortWait(both) {
					t.Fatalf("beside %v the waits of cell %d, %d are %d and %d, want %d and %d",
						d, i, j, cells[i][j], short[i], m.Wait(both), m.ShortWait(both))
				}
			}
		}
	})
}

func TestWait(t *testing.T) {
	m := WaitMatrix{Capacity: Demand{CPU: 16_000, Mem: 30}}
	for i := range MatrixSide {
		for j := range MatrixSide {
			m.Cells[i][j] = Wait(10*i + j)
		}
	}
	for _, c := range []struct {
		d    Demand
		want Wait
	}{
		{Demand{}, 0}, {Demand{1, 0}, 0}, {Demand{500, 0}, 0}, {Demand{501, 0}, 10}, {Demand{500, 1}, 1},
		{Demand{1000, 1}, 11}, {Demand{2000, 3}, 22}, {Demand{4000, 7}, 33}, {Demand{6000, 11}, 44},
		{Demand{8000, 15}, 55},
		{Demand{12_000, 22}, 66}, {Demand{12_001, 23}, 77}, {Demand{16_000, 30}, 77},
		{Demand{16_001, 30}, NeverFits}, {Demand{1, 31}, NeverFits}, {Demand{-5, -5}, 0},
	} {
		if got := m.Wait(c.d); got != c.want {
			t.Errorf("%v waits %d, want %d", c.d, got, c.want)
		}
	}
	big := WaitMatrix{Capacity: Demand{math.MaxInt32, math.MaxInt32}}
	big.Cells[MatrixSide-1][MatrixSide-1] = 1
	if w := big.Wait(big.Capacity); w != 1 {
		t.Errorf("all of the largest worker waits %d", w)
	}
	if w := new(WaitMatrix).Wait(Slot); w != NeverFits {
		t.Errorf("a worker of no size has room after %d", w)
	}
}

// WaitMatrix looks a demand up in the smallest cell that holds it.
func TestWaitInSmallestCell(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		capacity := rapid.Int64Range(1, math.MaxInt32).Draw(t, "capacity")
		amount := rapid.Int64Range(1, capacity).Draw(t, "amount")
		got := stepIndex(amount, capacity)
		if MatrixStep(Millicores(capacity), got) < Millicores(amount) || got > 0 &&
			MatrixStep(Millicores(capacity), got-1) >= Millicores(amount) {
			t.Fatalf("%d of %d is in cell %d", amount, capacity, got)
		}
	})
}
