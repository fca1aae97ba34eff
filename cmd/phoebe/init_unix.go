//go:build unix

package main

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

// runUnderInit runs this command again in a child process, passes signals on to the child, and reaps every orphan.
// Process 1 of a container becomes the parent of all orphans of tasks. A worker must not reap orphans, because the
// worker could also reap a task, and then the task's own waiter would miss the exit.
func runUnderInit() error {
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT)
	defer signal.Stop(signals)
	program, err := os.Executable()
	if err != nil {
		return fmt.Errorf("run as process 1: %w", err)
	}
	child, err := os.StartProcess(program, os.Args,
		&os.ProcAttr{Env: os.Environ(), Files: []*os.File{os.Stdin, os.Stdout, os.Stderr}})
	if err != nil {
		return fmt.Errorf("run as process 1: %w", err)
	}
	ended := make(chan struct{})
	defer close(ended)
	go func() {
		for {
			select {
			case s := <-signals:
				_ = child.Signal(s) // an error means that the child has ended
			case <-ended:
				return
			}
		}
	}()
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, 0, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
		case err != nil:
			return fmt.Errorf("run as process 1: wait for children: %w", err)
		case pid == child.Pid && status.Exited():
			return &exitError{code: status.ExitStatus()}
		case pid == child.Pid && status.Signaled():
			return &exitError{code: 128 + int(status.Signal())}
		}
	}
}
