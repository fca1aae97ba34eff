package lent

import "testing"

func TestLend(t *testing.T) {
	var o Of[int]
	var before []*int
	for step := range 3 {
		var lent []*int
		for i := range maxKept + step - 1 {
			lent = append(lent, o.Lend(i))
		}
		for i, p := range lent {
			if *p != i {
				t.Fatalf("step %d: what was lent as %d is %d", step, i, *p)
			}
		}
		before = lent
		o.TakeBack()
	}
	if o.Lend(7); *before[0] != 0 {
		t.Error("the memory of too many was kept")
	}
	if n := testing.AllocsPerRun(10, func() { o.Lend(1); o.TakeBack() }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}
