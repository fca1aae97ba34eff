package main

import (
	"fmt"
	"net"
	"os"
	"strconv"
	"time"
)

// notify tells systemd of the state of a service that it has started with Type=notify.
func notify(state string) error {
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

// watchdog is how often systemd must hear from this process lest it be killed; 0: it need not.
func watchdog() time.Duration {
	if pid := os.Getenv("WATCHDOG_PID"); pid != "" && pid != strconv.Itoa(os.Getpid()) {
		return 0
	}
	us, err := strconv.ParseInt(os.Getenv("WATCHDOG_USEC"), 10, 64)
	if err != nil || us < 0 {
		return 0
	}
	return time.Duration(us) * time.Microsecond
}

// feedWatchdog tells systemd until done is closed that the service lives: as long as asking it for its state brings an answer,
// whichever.
func feedWatchdog(ask func() error, every time.Duration, done <-chan struct{}) {
	tick := time.NewTicker(every / 3)
	defer tick.Stop()
	for {
		_ = ask()
		_ = notify("WATCHDOG=1") // systemd finds out, and acts
		select {
		case <-tick.C:
		case <-done:
			return
		}
	}
}
