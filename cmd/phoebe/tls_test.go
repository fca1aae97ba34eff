package main_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/phoebe-sched/phoebe/frontend/client"
	"github.com/phoebe-sched/phoebe/frontend/client/admin"
	"github.com/phoebe-sched/phoebe/probe/audit"
	"github.com/phoebe-sched/phoebe/probe/identity"
	"github.com/phoebe-sched/phoebe/probe/ports/porttest"
)

// secured is a fleet with TLS: a frontend with gossip, and a worker with a cache that has announced itself.
type secured struct {
	t        *testing.T
	keys     string // a folder with one folder for each role
	frontend *gossiper
	worker   *process
}

// startSecured starts the fleet, and waits until it is linked.
func startSecured(t *testing.T) *secured {
	t.Helper()
	s := &secured{t: t, keys: filepath.Join(t.TempDir(), "keys")}
	runPhoebe(t, "tls", s.keys, "--for", "frontend,worker,operator,client/acme,client/other").wantExit(t, 0)
	s.frontend = awaitGossiper(startPhoebe(t, append(gossipFlags, "--tls-dir", s.keysDir("frontend"), "--audit-log",
		s.auditFile())...))
	s.worker = startPhoebe(t, "--log-level", "info", "worker", "--listen", "127.0.0.1:0", "--name", "w", "--join",
		s.frontend.heartbeat, "--tls-dir", s.keysDir("worker"),
		"--cache-dir", filepath.Join(t.TempDir(), "cache"), "--files-listen", porttest.FreeAddress(t), "--admin",
		"127.0.0.1:0", "--allow-exec")
	s.awaitLinked(1)
	return s
}

func (s *secured) keysDir(who string) string {
	return filepath.Join(s.keys, strings.ReplaceAll(who, "/", "-"))
}

// auditFile is the frontend's audit log.
func (s *secured) auditFile() string { return filepath.Join(filepath.Dir(s.keys), "audit") }

// newClient makes a client with the keys of who, at addrs, or at the frontend if addrs is empty.
func (s *secured) newClient(who string, addrs ...string) *admin.Client {
	s.t.Helper()
	if len(addrs) == 0 {
		addrs = []string{s.frontend.api}
	}
	c, err := client.New(addrs, client.WithTLS(s.keysDir(who)), client.WithRetryFor(5*time.Second))
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { c.Close() })
	return admin.New(c)
}

func (s *secured) awaitLinked(n int) {
	s.t.Helper()
	awaitLinkedBy(s.t, s.newClient("operator").Client, n)
}

// port is a port with TLS, and the roles allowed there.
type port struct{ name, addr, roles string }

// listPorts returns all ports of the fleet.
func (s *secured) listPorts() []port {
	files := s.worker.args[slices.Index(s.worker.args, "--files-listen")+1]
	return []port{
		{"the API", s.frontend.api, "frontend operator client/acme"},
		{"heartbeats", s.frontend.heartbeat, "worker"},
		{"probe links", s.worker.workerAddr(), "frontend"},
		{"files", files, "frontend worker"},
		{"a frontend's admin", adminAddr(s.t, s.frontend.process), "frontend worker operator client/acme"},
		{"a worker's admin", adminAddr(s.t, s.worker), "frontend worker operator client/acme"},
	}
}

// readLargeResult reads a result too large to travel with its outcome.
func (s *secured) readLargeResult() {
	s.t.Helper()
	const size = 3_000_000
	c := s.newClient("client/acme")
	outs, err := c.Run(s.t.Context(),
		client.Job{LargeResults: true,
			Tasks: []client.Task{scriptTask(s.t, "/dev/null", fmt.Sprintf("head -c %d /dev/zero", size))}})
	if err != nil {
		s.t.Fatal(err)
	}
	r, err := c.Open(s.t.Context(), outs[0])
	if err != nil {
		s.t.Fatal(err)
	}
	defer r.Close()
	if n, err := io.Copy(io.Discard, r); n != size || err != nil || len(outs[0].Result) > 0 {
		s.t.Errorf("%d bytes, %v", n, err)
	}
}

// A job runs over TLS. Each port lets in the roles that fit. Other roles get no byte. A connection in plain, or by
// TLS without a certificate, gets at most an alert.
func TestTLSPorts(t *testing.T) {
	t.Parallel()
	s := startSecured(t)
	outs, err := s.newClient("client/acme").Run(t.Context(),
		client.Job{Tasks: []client.Task{{Function: "echo", Payload: []byte("hello")}}})
	if err != nil || string(outs[0].Result) != "hello" {
		t.Fatalf("%+v, %v", outs, err)
	}
	runPhoebe(t, "run", "--connect", s.frontend.api, "--tls-dir", s.keysDir("client/other"), "--function", "echo",
		"--payload", "by the command line").wantExit(t, 0, "by the command line")
	s.readLargeResult()
	runPhoebe(t, "status", "--connect", s.frontend.api).wantExit(t, 3, s.frontend.api+" speaks TLS: give --tls-dir")
	for _, p := range s.listPorts() {
		if strings.HasSuffix(p.name, "admin") {
			runPhoebe(t, "ready", p.addr, "--tls-dir", s.keysDir("worker")).wantExit(t, 0, "ok")
			runPhoebe(t, "ready", p.addr, "--live", "--tls-dir", s.keysDir("client/acme")).wantExit(t, 0, "ok")
			runPhoebe(t, "ready", p.addr).wantExit(t, 3)
		}
		for _, who := range []string{"frontend", "worker", "operator", "client/acme"} {
			keys, err := identity.Open(s.keysDir(who))
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			c, err := keys.Connect(ctx, new(net.Dialer).DialContext, p.addr, identity.Anyone)
			cancel()
			if err != nil {
				t.Errorf("%s: %v", p.name, err) // in TLS 1.3, a client learns later that its certificate is refused
				continue
			}
			letIn, want := true, strings.Contains(" "+p.roles+" ", " "+who+" ")
			patient := patience // the refusal comes
			if want {
				patient = 300 * time.Millisecond // nothing comes
			}
			c.SetReadDeadline(time.Now().Add(patient))
			if n, err := c.Read(make([]byte, 1)); err != nil &&
				strings.Contains(err.Error(), "remote error: tls: bad certificate") {
				letIn = false
			} else if n > 0 {
				t.Errorf("%s spoke to %s unasked", p.name, who)
			}
			if letIn != want {
				t.Errorf("%s lets %s in: %v", p.name, who, letIn)
			}
			c.Close()
		}
		for what, says := range map[string]string{"HTTP": "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n",
			"a probe link": "phoebe-probe\x01\x01\x00", "nothing": ""} {
			c, err := net.Dial("tcp", p.addr)
			if err != nil {
				t.Fatal(err)
			}
			c.Write([]byte(says))
			c.(*net.TCPConn).CloseWrite()
			c.SetReadDeadline(time.Now().Add(patience))
			got := make([]byte, 1000)
			n := 0
			for err == nil {
				var more int
				more, err = c.Read(got[n:])
				n += more
			}
			if n > 0 && (n != 7 || got[0] != 21) { // a TLS alert reveals no state
				t.Errorf("%s answers %q to %s in plain", p.name, got[:n], what)
			}
			c.Close()
		}
	}
}

// A configuration that is not allowed beyond loopback is refused with a remedy.
func TestNotInTheOpen(t *testing.T) {
	t.Parallel()
	keys := filepath.Join(t.TempDir(), "keys")
	runPhoebe(t, "tls", keys).wantExit(t, 0)
	for _, c := range []struct {
		args []string
		text string
	}{
		{[]string{"frontend", "--listen", "0.0.0.0:0", "--advertise", "a:1", "--workers", "127.0.0.1:1"},
			"give certificates (--tls-dir) or set a secret (--secret-file)"},
		{[]string{"worker", "--listen", "0.0.0.0:0"}, "give certificates (--tls-dir), or set a secret (--secret-file)"},
		{[]string{"frontend", "--listen", "127.0.0.1:0", "--gossip", "0.0.0.0:0", "--tls-dir",
			filepath.Join(keys, "frontend")}, "set a secret (--secret-file)"},
		{[]string{"frontend", "--listen", "127.0.0.1:0", "--workers", "127.0.0.1:1", "--tls-dir",
			filepath.Join(keys, "worker")}, "is for worker, and a certificate for frontend is needed here"},
		{[]string{"worker", "--listen", "127.0.0.1:0", "--tls-dir", filepath.Join(keys, "client-default")},
			"is for client/default, and a certificate for worker is needed here"},
		{[]string{"worker", "--listen", "127.0.0.1:0", "--tls-dir", keys},
			"a folder with keys has ca.crt, tls.crt and tls.key"},
		{[]string{"worker", "--listen", "127.0.0.1:0", "--event-loops", "1", "--tls-dir",
			filepath.Join(keys, "worker")}, "event loops, which know no TLS"},
		{[]string{"run", "--tls-dir", filepath.Join(keys, "worker"), "--function", "echo"},
			"a certificate for frontend or client or operator is needed here"},
		{[]string{"tls", keys}, "is not empty"},
		{[]string{"tls", keys + "x", "--for", "boss"}, `unknown role "boss"`},
	} {
		runPhoebe(t, c.args...).wantExit(t, 2, c.text)
	}
}

// The audit log names each request, the caller, and the decision. It contains no payload.
func TestAuditLog(t *testing.T) {
	t.Parallel()
	s := startSecured(t)
	running, err := s.newClient("client/acme").Submit(t.Context(),
		client.Job{Tasks: []client.Task{{Function: "sleep", Payload: []byte("3600.25s")}}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.newClient("client/other").Cancel(t.Context(), running.Handle(), "no"); err == nil {
		t.Error("another tenant cancels it")
	}
	if _, err := s.newClient("operator").Explain(t.Context(), running.Handle(), -1); err != nil {
		t.Error(err)
	}
	if _, err := s.newClient("client/acme").Cancel(t.Context(), running.Handle(), "yes"); err != nil {
		t.Error(err)
	}
	if _, err := running.Wait(); err == nil { // from here on, the client has polled
		t.Error("it was not cancelled")
	}
	keys, err := identity.Open(s.keysDir("worker"))
	if err != nil {
		t.Fatal(err)
	}
	c, err := keys.Connect(t.Context(), new(net.Dialer).DialContext, s.frontend.api, identity.Frontend)
	if err == nil {
		c.Read(make([]byte, 1))
		c.Close()
	}
	s.frontend.sendSignal(syscall.SIGTERM)
	s.frontend.awaitEnd()
	text, err := os.ReadFile(s.auditFile())
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for line := range bytes.Lines(text) {
		var e audit.Entry
		if err := json.Unmarshal(line, &e); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		if e.Job != "" && (e.Job != running.Handle().Job || !strings.HasPrefix(e.From, "127.0.0.1:")) {
			t.Errorf("%+v", e)
		}
		got = append(got, strings.TrimSpace(e.What+" "+e.Who+" "+e.Decision))
	}
	events := slices.Index(got, "events client/acme done") // the client's polls, at any time
	if events < 0 {
		t.Fatalf("no poll among %q", got)
	}
	got = slices.Delete(got, events, events+1)
	want := []string{
		"submit client/acme done", "cancel client/other refused", "explain operator done", "cancel client/acme done",
		"connect  refused", "drain  done",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	if bytes.Contains(text, []byte("3600.25")) {
		t.Errorf("it tells payloads: %s", text)
	}
}

// phoebe doctor checks the caller's certificates, and the certificates shown by frontends.
func TestDoctorOfKeys(t *testing.T) {
	t.Parallel()
	s := startSecured(t)
	doctor := func(dir string) output {
		return runPhoebe(t, "doctor", "--connect", s.frontend.api, "--tls-dir", dir, "--retry-for", "2s")
	}
	runPhoebe(t, "doctor", "--connect", s.frontend.api, "--tls-dir", s.keysDir("operator"), "--retry-for",
		"30s").wantExit(t, 0, "asked 1 frontends, which know 1 workers: 0 findings")
	doctor(s.keysDir("worker")).wantExit(t, 1,
		"tls.crt is for worker, and a certificate for frontend or client or operator is needed here",
		"Put a certificate with that role in place")
	others := filepath.Join(t.TempDir(), "others")
	runPhoebe(t, "tls", others, "--last", "5m").wantExit(t, 0)
	doctor(filepath.Join(others, "operator")).wantExit(t, 1,
		"problem: frontend "+s.frontend.api+": its certificate is not signed by a CA in ca.crt", "no frontend answers")
	doctor(filepath.Join(others, "none")).wantExit(t, 1, "a folder with keys has ca.crt, tls.crt and tls.key")
}
