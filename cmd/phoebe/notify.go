package main

import (
	"fmt"
	"net"
	"os"
	"strconv"
	"time"
)

// notifySystemd tells systemd the state of this service. systemd sets NOTIFY_SOCKET for Type=notify; without
// NOTIFY_SOCKET, nothing happens.
func notifySystemd(state string) error {
	name := os.Getenv("NOTIFY_SOCKET")
	if name == "" {
		return nil
	}
	conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: name, Net: "unixgram"})
	if err != nil {
		return fmt.Errorf("notify systemd: %w", err)
	}
	defer conn.Close()
	if _, err := conn.Write([]byte(state)); err != nil {
		return fmt.Errorf("notify systemd: %w", err)
	}
	return nil
}

// watchdogInterval returns how often systemd must hear from this process; otherwise systemd kills the process. 0:
// no watchdog.
func watchdogInterval() time.Duration {
	if pid := os.Getenv("WATCHDOG_PID"); pid != "" && pid != strconv.Itoa(os.Getpid()) {
		return 0
	}
	us, err := strconv.ParseInt(os.Getenv("WATCHDOG_USEC"), 10, 64)
	if err != nil || us < 0 {
		return 0
	}
	return time.Duration(us) * time.Microsecond
}

// feedWatchdog tells systemd every third of an interval that the service lives, until done is closed. If ask hangs,
// systemd hears nothing. The answer of ask does not matter.
func feedWatchdog(ask func() error, every time.Duration, done <-chan struct{}) {
	tick := time.NewTicker(every / 3)
	defer tick.Stop()
	for {
		_ = ask()
		_ = notifySystemd("WATCHDOG=1") // systemd notices, and acts
		select {
		case <-tick.C:
		case <-done:
			return
		}
	}
}
