package bench

import (
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"time"
)

// Machine describes the machine of a benchmark.
type Machine struct {
	OS         string `json:"os"`
	Kernel     string `json:"kernel"` // release; "" if the system does not tell
	Arch       string `json:"arch"`
	CPU        string `json:"cpu"` // model
	CPUs       int    `json:"cpus"`
	GOMAXPROCS int    `json:"gomaxprocs"`
}

func thisMachine() Machine {
	kernel, _ := os.ReadFile("/proc/sys/kernel/osrelease")
	return Machine{
		OS: runtime.GOOS, Kernel: strings.TrimSpace(string(kernel)), Arch: runtime.GOARCH,
		CPU: cpuModel(), CPUs: runtime.NumCPU(), GOMAXPROCS: runtime.GOMAXPROCS(0),
	}
}

// cpuModel returns the processor's name, or "" if the system does not tell.
func cpuModel() string {
	info, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(info)) {
		if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// buildStamp returns the version of this program and the commit of its sources, as stamped by the go command; ""
// without a stamp.
func buildStamp() (version, commit string) {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "", ""
	}
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			commit = s.Value + commit
		case s.Key == "vcs.modified" && s.Value == "true":
			commit += " (modified)"
		}
	}
	return info.Main.Version, commit
}

// LoadAverage returns the number of threads that ran or wanted to run, averaged over a minute; 0 if the system does
// not tell.
func LoadAverage() float64 {
	text, _ := os.ReadFile("/proc/loadavg")
	first, _, _ := strings.Cut(string(text), " ")
	v, _ := strconv.ParseFloat(first, 64)
	return v
}

// CPUUse says who used the machine's CPUs for some time: 2 means two CPUs all the time. If the system does not
// tell, only Seconds and Own are known.
type CPUUse struct {
	Seconds  float64 `json:"seconds"`        // length of the time
	Own      float64 `json:"own_cpus"`       // used by this process and its child processes
	Others   float64 `json:"others_cpus"`    // used by all other processes
	Stolen   float64 `json:"stolen_cpus"`    // taken by the host of this virtual machine
	Pressure float64 `json:"pressure_share"` // share of the time, 0 to 1, in which some thread waited for a CPU
}

// addMean sets u to the mean of u and v, weighted by time.
func (u *CPUUse) addMean(v CPUUse) {
	total := u.Seconds + v.Seconds
	if total == 0 {
		return
	}
	mean := func(a, b float64) float64 { return (a*u.Seconds + b*v.Seconds) / total }
	*u = CPUUse{total, mean(u.Own, v.Own), mean(u.Others, v.Others), mean(u.Stolen, v.Stolen),
		mean(u.Pressure, v.Pressure)}
}

// busyShare is the share of the machine's CPUs that other processes and the host may use without a warning.
const busyShare = 0.05

// Busy describes the disturbance by other processes on a machine with the given number of CPUs, or returns "" if
// the disturbance does not matter.
func (u CPUUse) Busy(cpus int) string {
	if u.Others+u.Stolen <= busyShare*float64(cpus) {
		return ""
	}
	text := fmt.Sprintf("others used %.2f of %d CPUs", u.Others, cpus)
	if u.Stolen > 0.01 {
		text += fmt.Sprintf(", and this machine's host took %.2f", u.Stolen)
	}
	return text
}

// CPUMeter measures the use of this machine's CPUs since the meter was made.
type CPUMeter struct {
	pids   []int
	before cpuTimes
}

// NewCPUMeter starts a meter. The processes pids count as this process's own.
func NewCPUMeter(pids ...int) *CPUMeter {
	m := &CPUMeter{pids: append([]int{os.Getpid()}, pids...)}
	m.before = readCPUTimes(m.pids)
	return m
}

// Use returns the use so far.
func (m *CPUMeter) Use() CPUUse {
	now := readCPUTimes(m.pids)
	took := now.at.Sub(m.before.at).Seconds()
	rate := func(now, before time.Duration) float64 { return max(0, (now-before).Seconds()/took) }
	use := CPUUse{
		Seconds: took, Own: rate(now.own, m.before.own), Stolen: rate(now.stolen, m.before.stolen),
		Pressure: min(1, rate(now.waited, m.before.waited)),
	}
	if now.idle > 0 {
		idle := rate(now.idle, m.before.idle)
		use.Others = max(0, float64(runtime.NumCPU())-idle-use.Stolen-use.Own)
	}
	return use
}

// cpuTimes are totals since some moment.
type cpuTimes struct {
	at     time.Time
	own    time.Duration // user and system time of this process and pids
	idle   time.Duration // of all CPUs; 0 if the system does not tell
	stolen time.Duration // of all CPUs
	waited time.Duration // time in which some thread waited for a CPU
}
