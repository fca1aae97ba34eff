package estimate

import (
	"math/bits"
	"time"

	"github.com/phoebe-sched/phoebe/probe"
)

// ageSteps is how many eighths of a worker larger a task is taken for because its matrix is of age: 0 up to
// fresh, then one more each time the age doubles.
func ageSteps(age, fresh time.Duration) int {
	if age <= fresh {
		return 0
	}
	return min(bits.Len64(uint64((age-1)/fresh)), probe.MatrixSide-1)
}

// waitOf is the wait of a task, which is short or long.
func waitOf(m *probe.WaitMatrix, d probe.Demand, short bool) probe.Wait {
	if short {
		return m.ShortWait(d)
	}
	return m.Wait(d)
}

// pessimisticWait is the wait of a task that demands n eighths of the worker more than d, though never more than
// all of it.
func pessimisticWait(m *probe.WaitMatrix, d probe.Demand, short bool, n int) probe.Wait {
	if n == 0 || !d.Fits(m.Capacity) {
		return waitOf(m, d, short)
	}
	return waitOf(m, probe.Demand{
		CPU: min(d.CPU+probe.Millicores(int64(m.Capacity.CPU)*int64(n)/probe.MatrixSide), m.Capacity.CPU),
		Mem: min(d.Mem+probe.MiB(int64(m.Capacity.Mem)*int64(n)/probe.MatrixSide), m.Capacity.Mem),
	}, short)
}

// Occupied is the matrix m after a short or long task of demand d that runs for run was sent to the worker and before the
// worker says so itself. Whoever comes next needs the room of both, or waits until that task is done; so no
// wait is too short, if m was right.
func Occupied(m probe.WaitMatrix, d probe.Demand, short bool, run time.Duration) probe.WaitMatrix {
	start := waitOf(&m, d, short)
	if start == probe.NeverFits {
		return m
	}
	end := probe.WaitOf(start.Duration() + run)
	after := m
	for i := range probe.MatrixSide {
		room := probe.Demand{CPU: probe.MatrixStep(m.Capacity.CPU, i), Mem: probe.MatrixStep(m.Capacity.Mem, i)}
		after.Short[i] = max(m.Short[i], min(m.ShortWait(room.Add(d)), end))
		for j := range probe.MatrixSide {
			room := probe.Demand{ // of the largest task that reads this cell
				CPU: probe.MatrixStep(m.Capacity.CPU, i),
				Mem: probe.MatrixStep(m.Capacity.Mem, j),
			}
			after.Cells[i][j] = max(m.Cells[i][j], min(m.Wait(room.Add(d)), end))
		}
	}
	return after
}
