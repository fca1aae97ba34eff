package main_test

import (
	"bufio"
	"errors"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"
)

// starts takes commands to a thread that lives as long as this program: the kernel kills a process with the thread that
// started the process, and a thread of Go may end with a goroutine.
var starts = make(chan func())

func init() {
	go func() {
		runtime.LockOSThread()
		for start := range starts {
			start()
		}
	}()
}

// startWithTests starts a process. The kernel kills the process when this test program ends, however the program ends:
// cleanups of tests do not run after a timeout, a panic or a kill.
func startWithTests(cmd *exec.Cmd) (err error) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = new(syscall.SysProcAttr)
	}
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	started := make(chan struct{})
	starts <- func() {
		err = cmd.Start()
		close(started)
	}
	<-started
	return err
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
	said, err := tests.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := startWithTests(tests); err != nil {
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
