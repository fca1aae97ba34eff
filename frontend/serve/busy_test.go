package serve

import (
	"runtime"
	"testing"
	"time"
)

// The meter shows a CPU that is kept busy, and never more than all CPUs.
func TestBusy(t *testing.T) {
	var m cpuMeter
	m.measureBusy()
	for end := time.Now().Add(300 * time.Millisecond); time.Now().Before(end); {
	}
	b := m.measureBusy()
	if least := 0.5 / float64(runtime.NumCPU()); b.Share < least || b.Share > 1.1 {
		t.Errorf("a share of %.2f was used, want %.2f at least, and 1 at most", b.Share, least)
	}
	if b.Message <= 0 || b.Message >= time.Second {
		t.Errorf("a message takes %v", b.Message)
	}
}
