package main_test

import (
	"bufio"
	"errors"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
)

// endWithTests makes the kernel kill a process when this test program ends, however the program ends: cleanups of
// tests do not run after a timeout, a panic or a kill.
func endWithTests(cmd *exec.Cmd) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = new(syscall.SysProcAttr)
	}
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
}

// hangVariable makes this program start a worker, print the address and hang.
const hangVariable = "PHOEBE_TEST_HANG"

// If a test program is killed, no process of its tests lives on.
func TestNoProcessOutlivesTests(t *testing.T) {
	if os.Getenv(hangVariable) != "" {
		println(startPhoebe(t, "worker", "--listen", "127.0.0.1:0", "--join", "127.0.0.1:1").workerAddr())
		select {}
	}
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	tests := exec.CommandContext(t.Context(), self, "-test.run", "^TestNoProcessOutlivesTests$")
	tests.Env = append(os.Environ(), hangVariable+"=1", binaryVariable+"="+binary)
	endWithTests(tests)
	said, err := tests.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := tests.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(said)
	lines.Scan()
	address := strings.TrimSpace(lines.Text())
	if !listens(address) {
		t.Fatal("the worker does not listen before the kill")
	}
	if err := tests.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = tests.Wait()
	waitUntil(t, func() error {
		if listens(address) {
			return errors.New("the worker of a killed test lives on")
		}
		return nil
	})
}

// listens reports whether a process takes connections at an address.
func listens(address string) bool {
	c, err := net.Dial("tcp", address)
	if err == nil {
		c.Close()
	}
	return err == nil
}
