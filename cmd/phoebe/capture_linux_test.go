package main_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/phoebe-sched/phoebe/frontend/client"
	"github.com/phoebe-sched/phoebe/probe/identity"
	"github.com/phoebe-sched/phoebe/worker/exec"
	wserve "github.com/phoebe-sched/phoebe/worker/serve"
)

// capturePackets searches all packets on loopback for texts. The returned function ends the capture, and returns in
// how many packets each text was. The test is skipped without the right to capture.
func capturePackets(t *testing.T, texts ...string) (end func() []int) {
	t.Helper()
	const all = 0x0300 // ETH_P_ALL in network byte order
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
	var ended atomic.Bool
	mark := rand.Text() // marks the last packet
	go func() {
		defer close(done)
		defer syscall.Close(fd)
		b := make([]byte, 128<<10)
		for {
			n, _, err := syscall.Recvfrom(fd, b, 0)
			if n <= 0 || err != nil {
				if ended.Load() {
					return // no packets are left
				}
				continue
			}
			if ended.Load() && bytes.Contains(b[:n], []byte(mark)) {
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
		ended.Store(true)
		c, err := net.Dial("udp", "127.0.0.1:9") // on a busy loopback, silence may never come
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

const passedBytes = 1 << 20 // too large to travel through the frontend

// passFileJob returns a job that passes a file between two workers. It starts the two workers, embedded in the
// test. The first task writes text again and again, and the second task counts the occurrences.
func passFileJob(t *testing.T, text string, worker wserve.Config) client.Job {
	t.Helper()
	worker.Registry = exec.NewRegistry()
	for name, f := range map[string]exec.Func{
		"leave": func(ctx context.Context, _ []byte) ([]byte, error) {
			out, err := exec.Output(ctx, 0)
			if err == nil {
				_, err = io.WriteString(out, strings.Repeat(text, passedBytes/len(text)))
			}
			if err != nil {
				return nil, err
			}
			return nil, out.Close()
		},
		"count": func(ctx context.Context, _ []byte) ([]byte, error) {
			in, err := exec.Inputs(ctx)[0].Open(ctx)
			if err != nil {
				return nil, err
			}
			defer in.Close()
			all, err := io.ReadAll(in)
			return strconv.AppendInt(nil, int64(bytes.Count(all, []byte(text))), 10), err
		},
	} {
		if err := worker.Registry.Register(name, f); err != nil {
			t.Fatal(err)
		}
	}
	worker.Listen, worker.Goroutines = "127.0.0.1:0", true
	for _, name := range []string{"leaves", "counts"} {
		worker.Name, worker.Host, worker.CacheDir = name, name, filepath.Join(t.TempDir(), name)
		w, err := wserve.New(worker)
		if err == nil {
			t.Cleanup(func() { w.Close() })
			err = w.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return client.Job{
		Stages: []client.Stage{{Name: "a"}, {Name: "b", After: []string{"a"}}},
		Tasks: []client.Task{
			{Stage: "a", Function: "leave", Constraint: client.Constraint{Hosts: []string{"leaves"}}},
			{Stage: "b", Function: "count", Constraint: client.Constraint{Hosts: []string{"counts"}},
				Inputs: []client.Input{{Stage: "a", Pass: client.AsFile}}},
		},
	}
}

// With TLS, no packet of a fleet in use contains a payload, result, passed file, tenant, secret or token. In plain,
// packets contain all of the texts.
func TestCapture(t *testing.T) {
	for _, by := range []string{"plain", "TLS"} {
		payload, passed, tenant, result := "payload "+rand.Text(), "passed "+rand.Text(),
			"tenant-"+strings.ToLower(rand.Text()), rand.Text()
		dir := t.TempDir()
		tokens, hash := makeToken(t, dir, "token")
		shown, err := os.ReadFile(tokens)
		if err != nil {
			t.Fatal(err)
		}
		tenants := &tenantsFile{t: t, name: filepath.Join(dir, "tenants.yaml")}
		tenants.writeTenants("  " + tenant + ": {token-hashes: [" + hash + "]}\n")
		end := capturePackets(t, payload, passed, tenant, result, strings.TrimSpace(string(shown)))
		secretFile := filepath.Join(dir, "secret")
		if err := os.WriteFile(secretFile, []byte(result), 0o600); err != nil {
			t.Fatal(err)
		}
		keys := filepath.Join(dir, "keys")
		runPhoebe(t, "tls", keys, "--for", "frontend,worker,operator,client/"+tenant).wantExit(t, 0)
		options := []client.Option{client.WithTokenFile(tokens)}
		flags := func(who string) []string { return []string{"--secret-file", secretFile} }
		if by == "TLS" {
			options = []client.Option{client.WithTokenFile(tokens),
				client.WithTLS(filepath.Join(keys, "client-"+tenant))}
			flags = func(who string) []string {
				return []string{"--secret-file", secretFile, "--tls-dir", filepath.Join(keys, who)}
			}
		}
		one := awaitGossiper(startPhoebe(t, append(append(gossipFlags, "--tenants", tenants.name),
			flags("frontend")...)...))
		two := awaitGossiper(startPhoebe(t, append(append(gossipFlags, "--join", one.gossip), flags("frontend")...)...))
		for i, name := range []string{"w0", "w1"} {
			startPhoebe(t, append([]string{"worker", "--listen", "127.0.0.1:0", "--name", name, "--join",
				[]string{one.heartbeat, two.heartbeat}[i], "--allow-exec"}, flags("worker")...)...)
		}
		for _, api := range []string{one.api, two.api} {
			c, err := client.New([]string{api}, append(options, client.WithRetryFor(10*time.Second))...)
			if err != nil {
				t.Fatal(err)
			}
			for _, worker := range []string{"w0", "w1"} {
				job := client.Job{Tenant: tenant, Constraint: client.Constraint{Hosts: []string{worker}},
					Tasks: []client.Task{{Function: "echo", Payload: []byte(payload)}}}
				waitUntil(t, func() error {
					_, err := c.Run(t.Context(), job)
					return err
				})
			}
			r, err := c.Submit(t.Context(),
				client.Job{Tenant: tenant, Tasks: []client.Task{{Function: "echo", Payload: []byte(payload)}}})
			if err == nil {
				_, err = r.Wait()
			}
			if err != nil {
				t.Error(err)
			}
			c.Close()
		}
		worker := wserve.Config{Join: []string{one.heartbeat}, Secret: result}
		if by == "TLS" {
			if worker.Keys, err = identity.Open(filepath.Join(keys, "worker")); err != nil {
				t.Fatal(err)
			}
		}
		job := passFileJob(t, passed, worker)
		job.Tenant = tenant
		c, err := client.New([]string{one.api}, options...)
		if err != nil {
			t.Fatal(err)
		}
		waitUntil(t, func() error {
			outs, err := c.Run(t.Context(), job)
			if err == nil && string(outs[1].Result) != strconv.Itoa(passedBytes/len(passed)) {
				t.Errorf("%+v", outs)
			}
			return err
		})
		c.Close()
		found := end()
		t.Logf("%s: payload, passed file, tenant, secret and token are in %d packets", by, found)
		for i, n := range found {
			if by == "plain" && n == 0 || by == "TLS" && n > 0 {
				t.Errorf("%s: %s is in %d packets", by, []string{"the payload", "the passed file", "the tenant",
					"the secret", "the token"}[i], n)
			}
		}
	}
}
