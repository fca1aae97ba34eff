package local

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/phoebe-sched/phoebe/frontend/client"
	"github.com/phoebe-sched/phoebe/frontend/client/admin"
	fserve "github.com/phoebe-sched/phoebe/frontend/serve"
	"github.com/phoebe-sched/phoebe/probe/identity"
	wserve "github.com/phoebe-sched/phoebe/worker/serve"
)

// makeKeys makes a folder with keys for each name, and returns the folders by name. A single authority signs all
// keys.
func makeKeys(t *testing.T, names ...string) map[string]string {
	t.Helper()
	ca, err := identity.NewAuthority("test", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	dirs := map[string]string{}
	for _, name := range names {
		id, err := identity.Parse(name)
		if err != nil {
			t.Fatal(err)
		}
		dirs[name] = t.TempDir()
		if err := ca.Issue(dirs[name], id, time.Hour, ca); err != nil {
			t.Fatal(err)
		}
	}
	return dirs
}

// A client's certificate decides the client's rights, at the owner of a job and by way of another frontend. The
// client's jobs belong to its tenant. The client has no access to the jobs of other tenants.
func TestRights(t *testing.T) {
	dirs := makeKeys(t, "frontend+worker", "client/acme", "client/other", "operator")
	c, err := Start(Config{Frontends: 2, TLSDir: dirs["frontend+worker"]})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	dial := func(who string, frontend int) *client.Client {
		cl, err := client.New(c.Frontends()[frontend:frontend+1], client.WithTLS(dirs[who]))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { cl.Close() })
		return cl
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	acme := dial("client/acme", 0)
	long := []client.Task{{Function: "sleep", Payload: []byte("1h")}}
	running, err := acme.Submit(ctx, client.Job{Tasks: long})
	if err != nil {
		t.Fatal(err)
	}
	job := running.Handle()
	forbidden := func(what string, err error) {
		t.Helper()
		var refused *client.RefusedError
		if !errors.As(err, &refused) || refused.Reason != client.Forbidden {
			t.Errorf("%s: %v", what, err)
		}
	}
	_, err = acme.Submit(ctx, client.Job{Tenant: "other", Tasks: long})
	forbidden("a job of another tenant", err)
	for frontend := range 2 {
		other := dial("client/other", frontend)
		_, err := other.Cancel(ctx, job, "mine is more important")
		forbidden("cancel", err)
		_, err = other.Explain(ctx, job, -1)
		forbidden("explain", err)
		if frontend == 0 {
			_, err = other.Submit(ctx, client.Job{ID: job.Job, Tasks: []client.Task{{Function: "echo"}}})
			forbidden("the same job again", err)
		}
		_, err = admin.New(other).Watch(ctx, time.Second, time.Time{}, 10)
		forbidden("watch", err)
		if _, err = other.Trace(ctx, job.Job, 0, 0); err == nil {
			t.Error("another tenant's trace is told")
		}
		for _, who := range []struct {
			name string
			jobs []string
		}{{"client/acme", []string{"acme"}}, {"operator", []string{"acme"}}} {
			list, err := admin.New(dial(who.name, frontend)).Jobs(ctx, admin.JobFilter{ID: job.Job}, "", 10)
			if err != nil {
				t.Fatal(err)
			}
			var tenants []string
			for _, j := range list.Jobs {
				tenants = append(tenants, j.Tenant)
			}
			if !slices.Equal(tenants, who.jobs) {
				t.Errorf("%s sees jobs of %q, want %q", who.name, tenants, who.jobs)
			}
		}
		if list, err := admin.New(other).Jobs(ctx, admin.JobFilter{}, "", 10); err != nil || len(list.Jobs) > 0 {
			t.Errorf("another tenant sees jobs: %+v, %v", list, err)
		}
		if _, err := dial("client/acme", frontend).Explain(ctx, job, -1); err != nil {
			t.Errorf("its own: %v", err)
		}
	}
	if n, err := dial("operator", 1).Cancel(ctx, job, "by its operator"); err != nil || n != 1 {
		t.Errorf("an operator cancels: %d, %v", n, err)
	}
	if _, err := running.Wait(); err == nil {
		t.Error("it was not cancelled")
	}
}

// startByTLS starts a cluster with TLS, and connects a client of tenant acme.
func startByTLS(t *testing.T, cfg Config) (*Cluster, *client.Client) {
	t.Helper()
	dirs := makeKeys(t, "frontend+worker", "client/acme")
	cfg.TLSDir = dirs["frontend+worker"]
	c, err := Start(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	cl, err := client.New(c.Frontends(), client.WithTLS(dirs["client/acme"]))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cl.Close() })
	return c, cl
}

// Thousands of half-open handshakes take little memory, and do not keep other clients out.
func TestHalfOpenHandshakes(t *testing.T) {
	const many = 2000
	if limit := wserve.RaiseFileLimit(5 * many); limit < 5*many {
		t.Skipf("only %d open files are allowed", limit)
	}
	c, cl := startByTLS(t, Config{Workers: 1})
	echo := func() time.Duration {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		began := time.Now()
		if _, err := cl.Run(ctx, client.Job{Tasks: []client.Task{{Function: "echo"}}}); err != nil {
			t.Fatal(err)
		}
		return time.Since(began)
	}
	echo()
	before := memoryInUse()
	hello := append([]byte{22, 3, 1, 2, 0, 1, 0, 1, 252, 3, 3}, make([]byte, 200)...) // the beginning of a handshake
	for _, addr := range []string{c.Frontends()[0], c.Workers()[0]} {
		for range many {
			conn, err := net.Dial("tcp", addr)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			conn.Write(hello)
		}
	}
	took := echo()
	grown := memoryInUse() - before
	t.Logf("with %d half-open handshakes at each of two ports: %d KB more, %.1f KB each; an echo takes %v", many,
		grown>>10, float64(grown)/1024/(2*many), took)
	if grown > 2*many*64<<10 {
		t.Errorf("they take %d MB", grown>>20)
	}
}

// memoryInUse returns the bytes of heap and stacks in use.
func memoryInUse() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapInuse + m.StackInuse)
}

// A recording of a frontend's messages to a worker is worth nothing to an attacker, although it begins with a Hello.
func TestReplay(t *testing.T) {
	dirs := makeKeys(t, "frontend+worker")
	var at string // address of the worker
	var said lockedBuffer
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c, err := Start(Config{Workers: 1, TLSDir: dirs["frontend+worker"], Frontend: func(_ int, cfg *fserve.Config) {
		at = cfg.Workers.(fserve.Static)[0]
		cfg.Workers = fserve.Static{l.Addr().String()}
		go func() {
			from, err := l.Accept()
			if err != nil {
				return
			}
			to, err := net.Dial("tcp", at)
			if err != nil {
				return
			}
			go func() { io.Copy(from, to); from.Close() }()
			io.Copy(io.MultiWriter(to, &said), from)
			to.Close()
		}()
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	again, err := net.Dial("tcp", at)
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	again.Write(said.bytes())
	again.SetReadDeadline(time.Now().Add(30 * time.Second))
	answer, err := io.ReadAll(again)
	if err, ok := err.(net.Error); ok && err.Timeout() {
		t.Error("the worker keeps the connection")
	}
	if len(answer) > 4096 { // the worker's part of the handshake, and an alert
		t.Errorf("the worker answers with %d bytes", len(answer))
	}
	if w := c.frontends[0].Cluster().Workers[0]; w.State != "up" {
		t.Errorf("the frontend's own link is %s (%s)", w.State, w.Error)
	}
}

type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) bytes() []byte {
	b.mu.Lock()
	defer b.mu.Unlock()
	return bytes.Clone(b.buf.Bytes())
}
