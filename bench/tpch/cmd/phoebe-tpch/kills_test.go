package main

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/phoebe-sched/phoebe/bench/tpch/data"
	"github.com/phoebe-sched/phoebe/bench/tpch/engine"
	"github.com/phoebe-sched/phoebe/frontend/client"
)

// cutableLink is the connection between frontends and a worker. While the link is cut, no end sees an error.
// Bytes sent meanwhile arrive when the link is whole again.
type cutableLink struct {
	ln    net.Listener
	mu    sync.Mutex
	whole *sync.Cond
	cut   bool
}

func newCutableLink(t *testing.T, to *process) *cutableLink {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	w := &cutableLink{ln: ln}
	w.whole = sync.NewCond(&w.mu)
	go func() {
		for {
			near, err := ln.Accept()
			if err != nil {
				return
			}
			far, err := net.Dial("tcp", to.addr)
			if err != nil {
				near.Close()
				continue
			}
			go w.copyBytes(near, far)
			go w.copyBytes(far, near)
		}
	}()
	return w
}

func (w *cutableLink) copyBytes(from, to net.Conn) {
	defer from.Close()
	defer to.Close()
	b := make([]byte, 64<<10)
	for {
		n, err := from.Read(b)
		w.mu.Lock()
		for w.cut {
			w.whole.Wait()
		}
		w.mu.Unlock()
		if _, failed := to.Write(b[:n]); err != nil || failed != nil {
			return
		}
	}
}

// setCut cuts the link or mends the link.
func (w *cutableLink) setCut(cut bool) {
	w.mu.Lock()
	w.cut = cut
	w.mu.Unlock()
	w.whole.Broadcast()
}

// Clients run the 22 queries. Meanwhile the test kills workers and frontends, and cuts links between frontends
// and workers, one fault at a time. All queries end without failure and with the right rows.
func TestKills(t *testing.T) {
	dir := t.TempDir()
	for bin, from := range map[string]string{"phoebe": "../../../../cmd/phoebe", "phoebe-tpch": "."} {
		build := exec.Command("go", "build", "-tags", "duckdb_arrow", "-o", filepath.Join(dir, bin), ".")
		build.Dir = from
		if out, err := build.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	root := filepath.Join(dir, "data")
	if err := data.Gen(root, 0.01, 4, io.Discard); err != nil {
		t.Fatal(err)
	}
	m, err := data.Read(root, 0.01)
	if err != nil {
		t.Fatal(err)
	}
	var all, frontends []*process
	var links []*cutableLink
	var at []string
	startProcess := func(p *process) *process {
		if err := p.start(); err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
		return p
	}
	t.Cleanup(func() {
		for _, p := range all {
			p.kill()
		}
	})
	for _, n := range m.Nodes {
		w := newCutableLink(t, startProcess(&process{bin: filepath.Join(dir, "phoebe-tpch"),
			args: []string{"--data", root, "worker", "--node", n}}))
		links, at = append(links, w), append(at, w.ln.Addr().String())
	}
	var connect []string
	for range 2 {
		p := startProcess(&process{bin: filepath.Join(dir, "phoebe"),
			args: []string{"frontend", "--workers", strings.Join(at, ","), "--lease", "500ms"}})
		frontends, connect = append(frontends, p), append(connect, p.addr)
	}
	ref, err := engine.NewReference(m, 1, 1024, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer ref.Close()
	c, err := client.New(connect)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	e, err := engine.New(c, data.NewCatalog(m, 20_000))
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	want := make([][][]string, len(m.Queries))
	for i, q := range m.Queries {
		if want[i], err = ref.Rows(t.Context(), q); err != nil {
			t.Fatal(err)
		}
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{}, 100)
	var wg sync.WaitGroup
	var mu sync.Mutex
	done, failed := 0, map[string]int{}
	for g := range 3 {
		wg.Go(func() {
			for i := g; ; i += 3 {
				if ctx.Err() != nil && i >= len(m.Queries) {
					return
				}
				i := i % len(m.Queries)
				err := func() error {
					ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
					defer cancel()
					r, err := e.Query(ctx, m.Queries[i], engine.Options{})
					if err != nil {
						return err
					}
					defer r.Close()
					got, err := r.Text(ctx)
					if err != nil {
						return err
					}
					if d := engine.Compare(got, want[i], r.Columns, nil); d != "" {
						t.Errorf("Q%d: %s", i+1, d)
					}
					return nil
				}()
				mu.Lock()
				done++
				if err != nil {
					failed[err.Error()]++
				}
				mu.Unlock()
				select {
				case ended <- struct{}{}:
				default:
				}
				if errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("Q%d hangs", i+1)
				}
			}
		})
	}
	random := rand.New(rand.NewPCG(1, 0))
	const faults = 9
	awaitQueries := func() { // wait for a few queries, however slow the machine is
		for range 3 {
			<-ended
		}
	}
	for i := range faults {
		awaitQueries()
		p := all[random.IntN(len(m.Nodes))]
		switch i % 3 {
		case 1:
			p = frontends[random.IntN(len(frontends))]
		case 2:
			w := links[random.IntN(len(links))]
			w.setCut(true)
			awaitQueries()
			w.setCut(false)
			continue
		}
		p.kill()
		if err := p.start(); err != nil {
			t.Fatal(err)
		}
	}
	stop()
	wg.Wait()
	t.Logf("%d queries with %d faults; failed queries, by error: %v", done, faults, failed)
	if len(failed) > 0 {
		t.Error("some queries failed")
	}
}
