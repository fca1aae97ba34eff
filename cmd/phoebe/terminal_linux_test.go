package main_test

import (
	"bytes"
	"fmt"
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// On a terminal, phoebe run has a progress bar. The bar is gone at the end.
func TestProgressBar(t *testing.T) {
	t.Parallel()
	c := startDev(t)
	ours, theirs := openTerminal(t)
	cmd := phoebeCommand(t.Context(), "run", "--connect", c.connect, "--task-duration", "fixed:20ms", "--tasks", "12")
	cmd.Stderr = theirs
	shown := make(chan []byte)
	go func() {
		var all bytes.Buffer
		_, _ = all.ReadFrom(ours) // ends with an error when nobody has the terminal any more
		shown <- all.Bytes()
	}()
	err := cmd.Run()
	theirs.Close()
	text := <-shown
	if err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	if !bytes.Contains(text, []byte("[#####")) || !bytes.Contains(text, []byte("6 of 12 tasks")) {
		t.Errorf("no progress bar: %q", text)
	}
	if !bytes.Contains(text, []byte("\r\x1b[K12 of 12 tasks have results")) {
		t.Errorf("the bar is not gone at the end: %q", text)
	}
}

// In a terminal, phoebe top shows the fleet until somebody presses q.
func TestTop(t *testing.T) {
	t.Parallel()
	c := startDev(t)
	ours, theirs := openTerminal(t)
	cmd := phoebeCommand(t.Context(), "top", "--connect", c.connect, "--every", "100ms")
	cmd.Env = append(cmd.Env, "TERM=xterm")
	cmd.Stdin, cmd.Stdout = theirs, theirs
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	theirs.Close()
	var all []byte
	for seen := false; !seen; {
		b := make([]byte, 4096)
		n, err := ours.Read(b)
		if all = append(all, b[:n]...); err != nil {
			t.Fatalf("%v: %q", err, all)
		}
		seen = bytes.Contains(all, []byte("FRONTEND")) && bytes.Contains(all, []byte("worker-2"))
	}
	go func() { _, _ = bytes.NewBuffer(nil).ReadFrom(ours) }() // discard the rest
	if _, err := ours.WriteString("wq"); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}

// openTerminal opens both sides of a pseudo-terminal.
func openTerminal(t testing.TB) (ours, theirs *os.File) {
	t.Helper()
	ours, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { ours.Close() })
	if err := unix.IoctlSetPointerInt(int(ours.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(int(ours.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.IoctlSetWinsize(int(ours.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: 80}); err != nil {
		t.Fatal(err)
	}
	theirs, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	return ours, theirs
}
