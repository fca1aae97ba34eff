package record

import (
	"cmp"
	"slices"
)

// maxUses bounds the tenants, and the functions, with slots of their own in a window. The rest counts as Other.
const maxUses = 16

// SlotUse counts the slots that the tasks of a tenant, or of a function, take at workers, in thousandths.
type SlotUse struct {
	Name  string
	Slots int64
}

// Uses holds the slots in use in a window. All numbers are sums over the samples of the window; Means divides.
type Uses struct {
	Samples            int
	Capacity           int64 // slots of the workers up, in thousandths
	Tenants, Functions []SlotUse
}

// NewUses makes a sample from the slots in use by tenant and by function.
func NewUses(capacity int64, tenants, functions []SlotUse) Uses {
	return Uses{1, capacity, boundUses(tenants), boundUses(functions)}
}

// Add adds the samples of another window.
func (u *Uses) Add(o *Uses) {
	u.Samples, u.Capacity = u.Samples+o.Samples, u.Capacity+o.Capacity
	u.Tenants, u.Functions = addUses(u.Tenants, o.Tenants), addUses(u.Functions, o.Functions)
}

// Means returns the means over the samples. If there is no sample, the result is zero.
func (u *Uses) Means() (m Uses) {
	if u.Samples == 0 {
		return m
	}
	divide := func(list []SlotUse) []SlotUse {
		means := slices.Clone(list)
		for i := range means {
			means[i].Slots /= int64(u.Samples)
		}
		return means
	}
	return Uses{1, u.Capacity / int64(u.Samples), divide(u.Tenants), divide(u.Functions)}
}

// MergeUses merges the means of several frontends at the same time. Uses add up. All frontends see the same workers,
// so the largest capacity counts.
func MergeUses(list []Uses) (sum Uses) {
	for i := range list {
		capacity := max(sum.Capacity, list[i].Capacity)
		sum.Add(&list[i])
		sum.Samples, sum.Capacity = min(sum.Samples, 1), capacity
	}
	return sum
}

// addUses returns the sums of two lists, and changes neither list.
func addUses(a, b []SlotUse) []SlotUse {
	if len(a) == 0 || len(b) == 0 {
		return slices.Concat(a, b)
	}
	sum := slices.Clone(a)
	for _, x := range b {
		if i := slices.IndexFunc(sum, func(y SlotUse) bool { return y.Name == x.Name }); i >= 0 {
			sum[i].Slots += x.Slots
		} else {
			sum = append(sum, x)
		}
	}
	return boundUses(sum)
}

// boundUses sorts a list, the largest use first, and sums up the uses beyond maxUses as Other, at the end of the list.
// It changes the list.
func boundUses(list []SlotUse) []SlotUse {
	slices.SortFunc(list, func(a, b SlotUse) int {
		return cmp.Or(cmp.Compare(b.Slots, a.Slots), cmp.Compare(a.Name, b.Name))
	})
	others := SlotUse{Name: Other}
	named := list[:0]
	for _, u := range list {
		if u.Name == Other || len(named) == maxUses {
			others.Slots += u.Slots
		} else {
			named = append(named, u)
		}
	}
	if len(named) < len(list) {
		return append(named, others)
	}
	return named
}
