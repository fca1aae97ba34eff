package record

import (
	"fmt"
	"testing"
)

// Names keep their numbers. However many names come, the latest are known, and the memory is bounded.
func TestWorkerNames(t *testing.T) {
	var w WorkerNames
	if w.IsKnown(0) || w.IsKnown(1) {
		t.Error("an empty list knows a number")
	}
	for i := range 3 * maxNames {
		n := w.NumberOf(fmt.Sprint("w", i))
		if again := w.NumberOf(fmt.Sprint("w", i)); again != n || n != uint32(i+1) {
			t.Fatalf("name %d has the numbers %d and %d", i, n, again)
		}
	}
	for n := range uint32(3*maxNames + 2) {
		name, known := w.Name(n)
		isLate := n > 3*maxNames-maxNames/2 && n <= 3*maxNames
		if isLate && !known || known != w.IsKnown(n) || known && name != fmt.Sprint("w", n-1) {
			t.Fatalf("number %d is of %q, known %t", n, name, known)
		}
	}
	if len(w.names) > maxNames || len(w.names) != len(w.numbers) {
		t.Errorf("%d names and %d numbers are kept", len(w.names), len(w.numbers))
	}
}
