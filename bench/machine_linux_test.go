package bench

import (
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"
)

func TestCPUMeter(t *testing.T) {
	child := exec.Command("/bin/sh", "-c", "while :; do :; done")
	if err := child.Start(); err != nil {
		t.Skip(err)
	}
	defer func() {
		_ = child.Process.Kill()
		_ = child.Wait()
	}()
	with, without := NewCPUMeter(child.Process.Pid), NewCPUMeter()
	const work = 100 * time.Millisecond
	for own := func() time.Duration { return readCPUTimes([]int{child.Process.Pid}).own }; own() < work; {
		time.Sleep(time.Millisecond)
	}
	all, self := with.Use(), without.Use()
	if all.Own*all.Seconds < work.Seconds() || all.Own < self.Own {
		t.Errorf("with a child that has worked for %v: %+v, without it %+v", work, all, self)
	}
	for _, u := range []CPUUse{all, self} {
		if sum := u.Own + u.Others + u.Stolen; u.Pressure < 0 || u.Pressure > 1 || sum > 1.5*float64(runtime.NumCPU()) {
			t.Errorf("%+v on %d CPUs", u, runtime.NumCPU())
		}
	}
	if m := NewMeta(nil, 1, time.Now()); m.Machine.Kernel == "" || strings.Contains(m.Machine.Kernel, "\n") ||
		m.LoadBefore < 0 {
		t.Errorf("%+v", m)
	}
	if ended := processTime(1 << 23); ended != 0 {
		t.Errorf("no process has used %v", ended)
	}
	if processTime(os.Getpid()) <= 0 {
		t.Error("this process has used no CPU")
	}
}

func TestCPUUse(t *testing.T) {
	sum := CPUUse{}
	sum.addMean(CPUUse{})
	sum.addMean(CPUUse{Seconds: 1, Own: 2, Pressure: 0.4})
	sum.addMean(CPUUse{Seconds: 3, Own: 1, Others: 0.2, Stolen: 0.04})
	if sum != (CPUUse{Seconds: 4, Own: 1.25, Others: 0.15000000000000002, Stolen: 0.03, Pressure: 0.1}) {
		t.Errorf("%+v", sum)
	}
	if got := sum.Busy(2); got != "others used 0.15 of 2 CPUs, and this machine's host took 0.03" {
		t.Error(got)
	}
	if got := sum.Busy(4); got != "" {
		t.Error(got)
	}
}
