package main_test

import (
	"os"
	"syscall"
	"testing"
)

// On a machine without pressure stall information, no command prints the line that a library logs as it starts.
func TestMachineWithoutPressureInformation(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can hide a folder")
	}
	t.Parallel()
	cmd := phoebeCommand(t.Context(), "--version")
	hidden := `mount -t tmpfs none /sys/fs/cgroup && exec "$0" "$@"`
	cmd.Path, cmd.Args = "/bin/sh", append([]string{"sh", "-c", hidden}, cmd.Args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS}
	out, err := cmd.CombinedOutput()
	if err != nil || len(out) == 0 || out[0] != 'p' {
		t.Errorf("%v: %s", err, out)
	}
}
