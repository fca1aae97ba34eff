package main_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/phoebe-sched/phoebe/frontend/client"
	wserve "github.com/phoebe-sched/phoebe/worker/serve"
)

// strangers are connections to a port that are silent, stop in the middle of a greeting, or send a byte a second.
type strangers struct {
	addr  string
	says  string // the beginning of a conversation at the port
	most  int    // connections at a time
	alike bool   // all connections send all of says, and then nothing
	conns []net.Conn
}

// connect makes another connection, and closes the oldest if there are too many. Errors are those of a port that
// defends itself.
func (s *strangers) connect() {
	c, err := net.DialTimeout("tcp", s.addr, 5*time.Second)
	if err != nil {
		return
	}
	if s.alike || len(s.conns)%3 == 1 {
		fmt.Fprint(c, s.says)
	}
	if s.conns = append(s.conns, c); len(s.conns) > s.most {
		s.conns[0].Close()
		s.conns = s.conns[1:]
	}
}

// press keeps most connections open, makes five more each tenth of a second, and feeds the slow, until ctx ends.
func (s *strangers) press(ctx context.Context, ready func()) {
	for range s.most {
		s.connect()
	}
	ready()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for round := 0; ; round++ {
		select {
		case <-ctx.Done():
			for _, c := range s.conns {
				c.Close()
			}
			return
		case <-tick.C:
		}
		for range 5 {
			s.connect()
		}
		for i := 2; i < len(s.conns) && round%10 == 0 && !s.alike; i += 3 {
			fmt.Fprint(s.conns[i], s.says[round/10%len(s.says):][:1])
		}
	}
}

// Strangers at the bound of every port, with more of them coming, keep no client, worker, frontend or monitor out, and
// take no more than their part of the descriptors.
func TestStrangersOnEveryPort(t *testing.T) {
	const each, files = 600, 2000
	if limit := wserve.RaiseFileLimit(8 * each); limit < 8*each {
		t.Skipf("only %d open files are allowed", limit)
	}
	env := []string{"PHOEBE_SECRET=sesame"}
	start := func(args ...string) *process { // with few descriptors
		cmd := phoebeCommand(context.Background(), args...)
		cmd.Args = slices.Concat([]string{"sh", "-c", fmt.Sprintf(`ulimit -n %d && exec "$0" "$@"`, files), cmd.Path},
			args)
		cmd.Path = "/bin/sh"
		cmd.Env = append(cmd.Env, env...)
		return startCommand(t, cmd, args)
	}
	g := awaitGossiper(start(append(slices.Clone(gossipFlags), "--max-clients", "1000")...))
	join := func(name string) *process {
		return start("--log-level", "info", "worker", "--listen", "127.0.0.1:0", "--name", name, "--max-links", "50",
			"--join", g.heartbeat, "--admin", "127.0.0.1:0")
	}
	w := join("first")
	dial := func() *client.Client {
		c, err := client.New([]string{g.api}, client.WithSecret("sesame"), client.WithRetryFor(patience))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return c
	}
	old := dial()
	awaitLinkedBy(t, old, 1)

	ctx, stop := context.WithCancel(t.Context())
	var pressing, ready sync.WaitGroup
	defer pressing.Wait()
	defer stop()
	const call, greeting = "\x00\x00\x20\x00\x80\x01\x00\x01\x00\x00\x00\x06Submit\x00\x00\x00\x01", "phoebe/1"
	const post = "POST /maintenance HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\ni"
	for _, s := range []*strangers{
		{addr: g.api, says: call}, {addr: g.gossip, says: "\x0a\x00\x00\x20\x00aaaa"},
		{addr: g.heartbeat, says: greeting},
		{addr: adminAddr(t, g.process), says: post}, {addr: w.workerAddr(), says: greeting},
		{addr: adminAddr(t, w), says: post},
	} {
		s.most = each
		ready.Add(1)
		pressing.Go(func() { s.press(ctx, ready.Done) })
	}
	ready.Wait()

	var took []time.Duration
	run := func(who string, c *client.Client) {
		t.Helper()
		begun := time.Now()
		if _, err := c.Run(t.Context(), client.Job{Tasks: eightEchoes()}); err != nil {
			t.Errorf("a job of %s: %v", who, err)
		}
		took = append(took, time.Since(begun))
	}
	for range 20 {
		run("a known client", old)
		run("a new client", dial())
	}
	join("second")
	awaitLinkedBy(t, old, 2)
	h := awaitGossiper(startPhoebeIn(t, env, append(slices.Clone(gossipFlags), "--join", g.gossip)...))
	h.awaitMembers(2)
	for _, p := range []*process{g.process, w} {
		waitUntil(t, func() error {
			res, err := http.Get("http://" + adminAddr(t, p) + "/readyz")
			if err != nil {
				return err
			}
			defer res.Body.Close()
			if res.StatusCode != http.StatusOK {
				return fmt.Errorf("/readyz answers %s", res.Status)
			}
			return nil
		})
		open, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", p.cmd.Process.Pid))
		if err == nil && len(open) > files*3/4 {
			t.Errorf("phoebe %q has %d open files of %d", p.args, len(open), files)
		}
	}
	run("a known client at the end", old)
	slices.Sort(took)
	t.Logf("jobs beside strangers: p50 %v, p99 %v", took[len(took)/2], took[len(took)*99/100])
}

// Requests whose bodies never come end in time, and keep no monitor out.
func TestSlowRequestsToAdmin(t *testing.T) {
	t.Parallel()
	at := adminAddr(t, startPhoebe(t, "--log-level", "info", "worker", "--listen", "127.0.0.1:0",
		"--admin", "127.0.0.1:0"))
	var slow []net.Conn
	for i := range 300 {
		c, err := net.Dial("tcp", at)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		slow = append(slow, c)
		if i%3 > 0 { // the third is silent
			fmt.Fprintf(c, "POST /maintenance HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\ni")
		}
	}
	monitor := &http.Client{Transport: &http.Transport{}}
	defer monitor.CloseIdleConnections()
	res, err := monitor.Get("http://" + at + "/livez")
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	end := time.Now().Add(time.Minute)
	for i, c := range slow {
		c.SetReadDeadline(end)
		if _, err := io.Copy(io.Discard, c); os.IsTimeout(err) {
			t.Fatalf("slow request %d is still open after a minute", i)
		}
	}
}

// A connection to the admin port ends at its third wrong token.
func TestGuessesOfAdminToken(t *testing.T) {
	t.Parallel()
	file := t.TempDir() + "/token"
	if err := os.WriteFile(file, []byte("sesame"), 0o600); err != nil {
		t.Fatal(err)
	}
	at := adminAddr(t, startPhoebe(t, "--log-level", "info", "worker", "--listen", "127.0.0.1:0",
		"--admin", "127.0.0.1:0", "--admin-token-file", file))
	c, err := net.Dial("tcp", at)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(time.Minute))
	for range 5 {
		fmt.Fprintf(c, "GET /debug/pprof/cmdline HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer simsim\r\n\r\n")
	}
	text, err := io.ReadAll(c)
	if n := strings.Count(string(text), "401 Unauthorized"); n != 3 || os.IsTimeout(err) {
		t.Errorf("%d guesses on a connection, %v", n, err)
	}
}
