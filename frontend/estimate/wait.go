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

// tenantWait returns the wait of a task of a tenant: the tenant's share of the wait. Without a tenant (0), the task
// comes after all others.
func tenantWait(m *probe.WaitMatrix, d probe.Demand, short bool, tenant probe.TenantCode) probe.Wait {
	return m.Shares.For(tenant).PartOf(waitOf(m, d, short))
}

// pessimisticWait returns the wait of a task with n eighths of the worker added to d, but at most the whole worker. The
// task comes after all others.
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
//
// If the tenant waits for a share of the waits, the tenant's next task waits longer by the run time over the number of
// tasks that the worker runs at once. Shares change so that other tenants wait as before.
func Occupied(m probe.WaitMatrix, d probe.Demand, short bool, run time.Duration,
	tenant probe.TenantCode,
) probe.WaitMatrix {
	start := waitOf(&m, d, short)
	if start == probe.NeverFits {
		return m
	}
	end := probe.WaitOf(start.Duration() + run)
	after := m
	cellsBeside, shortBeside := m.Beside(d)
	for i := range probe.MatrixSide {
		after.Short[i] = max(m.Short[i], min(shortBeside[i], end))
		for j := range probe.MatrixSide {
			after.Cells[i][j] = max(m.Cells[i][j], min(cellsBeside[i][j], end))
		}
	}
	if m.Shares == (probe.Shares{}) {
		return after
	}
	old, whole := waitOf(&m, d, short), waitOf(&after, d, short)
	after.Shares.Others = probe.ShareOf(m.Shares.Others.PartOf(old), whole)
	for i := range after.Shares.Tenants {
		t := &after.Shares.Tenants[i]
		t.Share = probe.ShareOf(t.Share.PartOf(old), whole)
	}
	if tenant != 0 {
		portion := max(float64(d.CPU)/float64(max(m.Capacity.CPU, 1)), float64(d.Mem)/float64(max(m.Capacity.Mem, 1)))
		next := tenantWait(&m, d, short, tenant).Duration() + time.Duration(portion*float64(run))
		after.Shares.Set(tenant, probe.ShareOf(probe.WaitOf(next), whole))
	}
	return after
}
