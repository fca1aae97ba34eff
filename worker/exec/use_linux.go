package exec

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

const (
	// useFrom is the run time from which a process is watched. Shorter tasks end before anybody could act.
	useFrom = time.Second
	// maxWatched bounds the processes of a task whose files are read for a sample. Further processes do not count.
	maxWatched = 64
	// clockTick is the unit of CPU times in /proc, the same on all machines.
	clockTick = time.Second / 100
)

// useMeter measures the CPU time and the memory of a process with its children. The kernel counts the CPU time of a
// cgroup. Without a cgroup, the meter adds up the process, its children, and all children that these have awaited.
// If a child ends and leaves children behind, the CPU time of these is lost.
type useMeter struct {
	pid       int
	cgroup    *cgroup       // nil: none
	cpuBefore time.Duration // of earlier processes in the cgroup
}

// newUseMeter makes a meter. With a cgroup, the process must not have started yet.
func newUseMeter(c *cgroup) *useMeter {
	m := &useMeter{cgroup: c}
	if c != nil {
		m.cpuBefore, _ = c.readCPU()
	}
	return m
}

// measure returns the CPU time so far, and the memory in use in bytes. ok is false if the process has ended.
func (m *useMeter) measure() (cpu time.Duration, memory int64, ok bool) {
	var treeCPU time.Duration
	pids := []int{m.pid}
	if m.cgroup != nil {
		pids = m.cgroup.readPids()
	}
	for i := 0; i < len(pids); i++ {
		p, isAlive := readProcess(pids[i])
		treeCPU += p.cpu // also of a child that has ended and is not awaited yet
		if !isAlive {
			continue
		}
		ok = true
		memory += p.memory
		if m.cgroup == nil && len(pids) < maxWatched {
			pids = appendChildren(pids, pids[i])
			pids = pids[:min(len(pids), maxWatched)]
		}
	}
	if m.cgroup == nil {
		return treeCPU, memory, ok
	}
	all, counted := m.cgroup.readCPU()
	return max(all-m.cpuBefore, 0), memory, ok && counted
}

// readCPU returns the CPU time of all processes ever in the cgroup.
func (c *cgroup) readCPU() (cpu time.Duration, ok bool) {
	stat, err := os.ReadFile(filepath.Join(c.dir.Name(), "cpu.stat"))
	if err != nil {
		return 0, false
	}
	_, rest, found := strings.Cut(string(stat), "usage_usec ")
	text, _, _ := strings.Cut(rest, "\n")
	micros, err := strconv.ParseInt(text, 10, 64)
	return time.Duration(micros) * time.Microsecond, found && err == nil
}

// readPids returns the processes in the cgroup, at most maxWatched.
func (c *cgroup) readPids() (pids []int) {
	procs, err := os.ReadFile(filepath.Join(c.dir.Name(), "cgroup.procs"))
	if err != nil {
		return nil
	}
	pids = appendPids(nil, procs)
	return pids[:min(len(pids), maxWatched)]
}

// processUse is the consumption of a process.
type processUse struct {
	cpu    time.Duration // with children that ended and were awaited
	memory int64         // resident bytes
}

// readProcess reads the consumption of a process. isAlive is false for a zombie, too, but a zombie has a CPU time.
func readProcess(pid int) (u processUse, isAlive bool) {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return u, false
	}
	// The name of the program may have spaces and brackets. The fields behind the last bracket begin with the state.
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(fields) < 22 {
		return u, false
	}
	for _, field := range fields[11:15] { // user and system time, of the process and of awaited children
		ticks, _ := strconv.ParseInt(string(field), 10, 64)
		u.cpu += time.Duration(ticks) * clockTick
	}
	pages, _ := strconv.ParseInt(string(fields[21]), 10, 64)
	u.memory = pages * int64(os.Getpagesize())
	return u, fields[0][0] != 'Z'
}

// appendChildren appends the children of all threads of a process to pids.
func appendChildren(pids []int, pid int) []int {
	folder := fmt.Sprintf("/proc/%d/task", pid)
	threads, err := os.ReadDir(folder)
	if err != nil {
		return pids
	}
	for _, thread := range threads {
		if children, err := os.ReadFile(filepath.Join(folder, thread.Name(), "children")); err == nil {
			pids = appendPids(pids, children)
		}
	}
	return pids
}

// appendPids appends the numbers in text to pids.
func appendPids(pids []int, text []byte) []int {
	for _, field := range bytes.Fields(text) {
		if pid, err := strconv.Atoi(string(field)); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}
