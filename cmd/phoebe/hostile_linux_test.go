package main_test

import (
	wire "encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// hostileRequests returns requests of 20 MiB, by name. To believe the claims in a request, or to decode the
// request, takes much more memory.
func hostileRequests() map[string][]byte {
	const (
		n   = 20 << 20
		job = "\x0c\x00\x01\x0c\x00\x02" // the request and its job
	)
	u32 := func(n int) string { return string(wire.BigEndian.AppendUint32(nil, uint32(n))) }
	zeros := func(n int) string { return strings.Repeat("\x00", n) }
	frames := map[string][]byte{}
	for name, args := range map[string]string{
		"tasks":  job + "\x0f\x00\x09\x0c" + u32(n) + zeros(n) + zeros(3),
		"stages": job + "\x0f\x00\x0c\x0c" + u32(n) + zeros(n) + zeros(3),
		"labels": job + "\x0c\x00\x08\x0f\x00\x01\x0b" + u32(n/4) + zeros(n) + zeros(4),
		"inputs": job + "\x0f\x00\x09\x0c" + u32(1) + "\x0f\x00\x0b\x0c" + u32(n) + zeros(n) + zeros(4),
		"copies": job + "\x0f\x00\x09\x0c" + u32(1) + "\x0f\x00\x0b\x0c" + u32(1) + "\x0f\x00\x02\x0c" + u32(n) +
			zeros(n) + zeros(5),
		"files":    job + "\x0f\x00\x09\x0c" + u32(1) + "\x0f\x00\x0c\x0c" + u32(n) + zeros(n) + zeros(4),
		"ran":      job + "\x0c\x00\x0a\x0f\x00\x02\x0c" + u32(n) + zeros(n) + zeros(4),
		"claim":    job + "\x0f\x00\x09\x0c" + u32(1<<31-1) + zeros(n),
		"payload":  job + "\x0f\x00\x09\x0c" + u32(1) + "\x0b\x00\x02" + u32(n) + zeros(n) + zeros(4),
		"repeated": job + strings.Repeat("\x0c\x00\x08\x00", n/4) + zeros(3),
		"unknown":  job + "\x0f\x00\x63\x0c" + u32(n) + zeros(n) + zeros(3),
		"map":      job + "\x0d\x00\x63\x03\x03" + u32(n/2) + zeros(n) + zeros(3),
		"deep":     job + strings.Repeat("\x0c\x00\x63", n/3) + zeros(3),
		// Just accepted: tiny elements and a large element, all within limits.
		"crafted": job + "\x0f\x00\x09\x0c" + u32(1) + "\x0f\x00\x0b\x0c" + u32(n/25) + zeros(n/25) + "\x0b\x00\x02" +
			u32(n-n/25) + zeros(n-n/25) + zeros(4),
	} {
		body := "\x80\x01\x00\x01" + u32(3) + "Run" + u32(1) + args
		frames[name] = []byte(u32(len(body)) + body)
	}
	return frames
}

// For two hostile requests at a time, a frontend takes less than 200 MiB, and goes on serving.
func TestMemoryOfRequests(t *testing.T) {
	bound := 200 << 20
	if slices.Contains(buildFlags, "-race") { // the race detector keeps several bytes for each byte
		bound *= 4
	}
	frames := hostileRequests()
	for name, env := range map[string][]string{"a stranger's": {"PHOEBE_SECRET=right"}, "without a secret": nil} {
		t.Run(name, func(t *testing.T) {
			p := startPhoebeIn(t, env, "frontend", "--listen", "127.0.0.1:0", "--workers", "127.0.0.1:1")
			addr := p.awaitLines("frontend", 1)[0]
			var names []string
			for name := range frames {
				names = append(names, name)
			}
			slices.Sort(names)
			for _, name := range names {
				before := peakMemory(t, p)
				var both sync.WaitGroup
				for range 2 {
					both.Go(func() {
						if err := sendRequest(addr, frames[name]); err != nil {
							t.Errorf("%s: %v", name, err)
						}
					})
				}
				both.Wait()
				if after := peakMemory(t, p); after > bound {
					t.Fatalf("%s: %d MiB after %d MiB, the limit is %d", name, after>>20, before>>20, bound>>20)
				}
			}
			t.Logf("%d MiB at most", peakMemory(t, p)>>20)
			runPhoebeIn(t, "", env, "status", "--connect", addr).wantExit(t, 0, addr)
		})
	}
}

// sendRequest sends a request, and waits for an answer or for the end of the connection.
func sendRequest(addr string, frame []byte) error {
	c, err := net.Dial("tcp", addr)
	if err != nil {
		return err
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(patience))
	_, err = c.Write(frame)
	if err == nil {
		_, err = c.Read(make([]byte, 1000))
	}
	if errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET) {
		return nil // the frontend closed before the end of the request
	}
	return err
}

// peakMemory returns the most memory that a process has had, in bytes.
func peakMemory(t testing.TB, p *process) int {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "VmHWM:")
	kb, err := strconv.Atoi(strings.Fields(rest)[0])
	if err != nil {
		t.Fatal(err)
	}
	return kb << 10
}
