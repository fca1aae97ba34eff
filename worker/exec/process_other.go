//go:build !linux

package exec

const processesSupported = false

type launcher struct{}

func newLauncher(*Processes) (*launcher, error) { return &launcher{}, nil }

func (l *launcher) close() {}

func (l *launcher) describeRights() (text string, open bool) { return "", false }

func (p *Pool) startProcess(*Attempt, func(Result)) (Running, Result, bool) {
	panic("exec: AllowProcesses refuses here")
}
