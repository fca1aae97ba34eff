package estimate

import (
	"math/bits"
	"time"

	"github.com/phoebe-sched/phoebe/probe"
)

// ageSteps returns the eighths of a worker added to a demand because of the matrix's age (Apollo, section 3.4,
// confidence). It is 0 up to fresh, then grows by 1 each time the age doubles.
func ageSteps(age, fresh time.Duration) int {
	if age <= fresh {
		return 0
	}
	return min(bits.Len64(uint64((age-1)/fresh)), probe.MatrixSide-1)
}

// waitOf returns the wait of a task, short or long.
func waitOf(m *probe.WaitMatrix, d probe.Demand, short bool) probe.Wait {
	if short {
		return m.ShortWait(d)
	}
	return m.Wait(d)
}

// pessimisticWait returns the wait of a task with n eighths of the worker added to d, but at most the whole worker.
func pessimisticWait(m *probe.WaitMatrix, d probe.Demand, short bool, n int) probe.Wait {
	if n == 0 || !d.Fits(m.Capacity) {
		return waitOf(m, d, short)
	}
	return waitOf(m, probe.Demand{
		CPU: min(d.CPU+probe.Millicores(int64(m.Capacity.CPU)*int64(n)/probe.MatrixSide), m.Capacity.CPU),
		Mem: min(d.Mem+probe.MiB(int64(m.Capacity.Mem)*int64(n)/probe.MatrixSide), m.Capacity.Mem),
	}, short)
}

// Occupied returns the matrix m as it should be after a task went to the worker: a short or long task of demand d
// that runs for run. Use it until the worker sends a new matrix. A later task needs room for both tasks, or waits
// until the first is done. So no wait is too short, if m was right.
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
			room := probe.Demand{ // demand of the largest task that reads this cell
				CPU: probe.MatrixStep(m.Capacity.CPU, i),
				Mem: probe.MatrixStep(m.Capacity.Mem, j),
			}
			after.Cells[i][j] = max(m.Cells[i][j], min(m.Wait(room.Add(d)), end))
		}
	}
	return after
}
