package main_test

import (
	"bytes"
	"crypto/rand"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/phoebe-sched/phoebe/frontend/client"
)

// capture looks at all packets on loopback for texts, until it is ended; then it tells how often each was there.
func capture(t *testing.T, texts ...string) (end func() []int) {
	t.Helper()
	const all = 0x0300 // ETH_P_ALL, as the network has it
	fd, err := syscall.Socket(syscall.AF_PACKET, syscall.SOCK_RAW|syscall.SOCK_CLOEXEC, all)
	if err != nil {
		t.Skipf("capturing packets takes more rights: %v", err)
	}
	lo, err := net.InterfaceByName("lo")
	if err != nil {
		t.Skip(err)
	}
	for _, err := range []error{
		syscall.Bind(fd, &syscall.SockaddrLinklayer{Protocol: all, Ifindex: lo.Index}),
		syscall.SetsockoptTimeval(fd, syscall.SOL_SOCKET, syscall.SO_RCVTIMEO, &syscall.Timeval{Usec: 100_000}),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	_ = syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_RCVBUFFORCE, 64<<20)
	found, done := make([]int, len(texts)), make(chan struct{})
	var over atomic.Bool
	mark := rand.Text() // of the last packet
	go func() {
		defer close(done)
		defer syscall.Close(fd)
		b := make([]byte, 128<<10)
		for {
			n, _, err := syscall.Recvfrom(fd, b, 0)
			if n <= 0 || err != nil {
				if over.Load() {
					return // nothing is left to be read
				}
				continue
			}
			if over.Load() && bytes.Contains(b[:n], []byte(mark)) {
				return
			}
			for i, text := range texts {
				if bytes.Contains(b[:n], []byte(text)) {
					found[i]++
				}
			}
		}
	}()
	return func() []int {
		over.Store(true)
		c, err := net.Dial("udp", "127.0.0.1:9") // it may be too busy ever to be silent
		if err == nil {
			c.Write([]byte(mark))
			c.Close()
		}
		select {
		case <-done:
		case <-time.After(patience):
			t.Error("the capture does not end")
		}
		return found
	}
}

// A capture of all ports of a fleet in use holds no payload, result, tenant, secret or token; in plain it does.
func TestCapture(t *testing.T) {
	for _, by := range []string{"plain", "TLS"} {
		payload, tenant, told := "payload "+rand.Text(), "tenant-"+strings.ToLower(rand.Text()), rand.Text()
		dir := t.TempDir()
		tokens, hash := token(t, dir, "token")
		shown, err := os.ReadFile(tokens)
		if err != nil {
			t.Fatal(err)
		}
		tenants := &tenantsFile{t: t, name: filepath.Join(dir, "tenants.yaml")}
		tenants.put("  " + tenant + ": {token-hashes: [" + hash + "]}\n")
		end := capture(t, payload, tenant, told, strings.TrimSpace(string(shown)))
		secretFile := filepath.Join(dir, "secret")
		if err := os.WriteFile(secretFile, []byte(told), 0o600); err != nil {
			t.Fatal(err)
		}
		keys := filepath.Join(dir, "keys")
		phoebe(t, "tls", keys, "--for", "frontend,worker,operator,client/"+tenant).want(t, 0)
		options := []client.Option{client.WithTokenFile(tokens)}
		flags := func(who string) []string { return []string{"--secret-file", secretFile} }
		if by == "TLS" {
			options = []client.Option{client.WithTokenFile(tokens), client.WithTLS(filepath.Join(keys, "client-"+tenant))}
			flags = func(who string) []string {
				return []string{"--secret-file", secretFile, "--tls-dir", filepath.Join(keys, who)}
			}
		}
		one := meet(start(t, append(append(gossipFlags, "--tenants", tenants.name), flags("frontend")...)...))
		two := meet(start(t, append(append(gossipFlags, "--join", one.gossip), flags("frontend")...)...))
		for i, name := range []string{"w0", "w1"} {
			start(t, append([]string{"worker", "--listen", "127.0.0.1:0", "--name", name, "--join", []string{one.heartbeat, two.heartbeat}[i], "--allow-exec"}, flags("worker")...)...)
		}
		for _, api := range []string{one.api, two.api} {
			c, err := client.New([]string{api}, append(options, client.WithRetryFor(10*time.Second))...)
			if err != nil {
				t.Fatal(err)
			}
			for _, worker := range []string{"w0", "w1"} {
				job := client.Job{Tenant: tenant, Constraint: client.Constraint{Hosts: []string{worker}}, Tasks: []client.Task{{Function: "echo", Payload: []byte(payload)}}}
				eventually(t, func() error {
					_, err := c.Run(t.Context(), job)
					return err
				})
			}
			r, err := c.Submit(t.Context(), client.Job{Tenant: tenant, Tasks: []client.Task{{Function: "echo", Payload: []byte(payload)}}})
			if err == nil {
				_, err = r.Wait()
			}
			if err != nil {
				t.Error(err)
			}
			c.Close()
		}
		found := end()
		t.Logf("%s: payload, tenant, secret and token are in %d packets", by, found)
		for i, n := range found {
			if by == "plain" && n == 0 || by == "TLS" && n > 0 {
				t.Errorf("%s: %s is in %d packets", by, []string{"the payload", "the tenant", "the secret", "the token"}[i], n)
			}
		}
	}
}
