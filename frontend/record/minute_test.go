package record

import (
	"fmt"
	"testing"
	"time"
)

// The counts of the last minute are exact for each named tenant, at any rate, and the rest is counted together.
func TestLastMinute(t *testing.T) {
	in, h := newIntake(), NewHistory()
	now := start
	length := time.Second
	second := func(tenants, tasks int) {
		for k := range tenants {
			slot := in.Slot(Key{"sampling", "phoebe", fmt.Sprint("t", k)})
			for i := range tasks * (k + 1) {
				if n := in.SampleTask(slot); n > 0 {
					in.AddTask(slot, "t1", &Attempt{}, n) // a function with the name of a tenant
				}
				if i%10 == 0 {
					in.NoteFailed(slot)
					in.AddFailure("f", &Attempt{})
				}
			}
			in.AddJob(slot, time.Duration(k+1)*time.Millisecond, 0)
		}
		now = now.Add(length)
		b := in.Take(now, nil)
		for _, c := range b.counts {
			b.Tasks, b.Failed = b.Tasks+c.Tasks, b.Failed+c.Failed
		}
		h.Add(b)
	}
	for k := range maxTenants + 3 {
		in.NoteSubmitted(fmt.Sprint("t", k), 1)
	}
	second(maxTenants+3, 100)
	for range 3 {
		second(4, 1000)
	}
	all, by := h.LastMinute(now)
	if all.Length != 4*time.Second {
		t.Errorf("counts of %v", all.Length)
	}
	sum := Counts{}
	for tenant, m := range by {
		sum.Tasks, sum.Failed = sum.Tasks+m.Tasks, sum.Failed+m.Failed
		if m.Length != all.Length {
			t.Errorf("%s: counts of %v", tenant, m.Length)
		}
	}
	if sum != all.Counts || all.Responses.Count != maxTenants+3+12 {
		t.Errorf("%+v, and all tenants have %+v; %d jobs", all.Counts, sum, all.Responses.Count)
	}
	for k := range 4 {
		n := uint64((k + 1) * 3100)
		if m := by[fmt.Sprint("t", k)]; m.Tasks != n+n/10 || m.Failed != n/10 || m.Responses.Count != 4 {
			t.Errorf("tenant %d: %+v, %d jobs", k, m.Counts, m.Responses.Count)
		} else if p := m.Responses.Quantile(0.99); (p - time.Duration(k+1)*time.Millisecond).Abs() > p/10 {
			t.Errorf("tenant %d: p99 is %v", k, p)
		}
	}
	if m := by["f"]; m != nil {
		t.Errorf("a function counts as a tenant: %+v", m)
	}
	if m := by[Other]; m == nil || m.Responses.Count != 3 {
		t.Errorf("other tenants: %+v", m)
	}
	for range 56 {
		second(0, 0)
	}
	second(1, 1)
	if all, by = h.LastMinute(now); all.Length < 59*time.Second || by["t1"].Responses.Count != 3 {
		t.Errorf("%v, %d jobs after a minute", all.Length, by["t1"].Responses.Count)
	}
	length = 2 * time.Second // as on a machine without rest
	for range 60 {
		second(1, 1)
	}
	if all, _ = h.LastMinute(now); all.Length != time.Minute || all.Responses.Count != 30 {
		t.Errorf("%v, %d jobs, with a window each two seconds", all.Length, all.Responses.Count)
	}
}
