//go:build !linux

package exec

const processesSupported = false

type launcher struct{}

func newLauncher() *launcher { return &launcher{} }

func (l *launcher) close() {}

func (p *Pool) startProcess(*Attempt, func(Result)) (Running, Result, bool) {
	panic("exec: AllowProcesses refuses here")
}
