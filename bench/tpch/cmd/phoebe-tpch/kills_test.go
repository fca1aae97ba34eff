package main

import (
	"bufio"
	"context"
	"errors"
	"io"
	"math/rand/v2"
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

// process is one that is killed and started again at its address.
type process struct {
	bin  string
	args []string
	addr string
	cmd  *exec.Cmd
}

func (p *process) start(t *testing.T) {
	t.Helper()
	listen := p.addr
	if listen == "" {
		listen = "127.0.0.1:0"
	}
	p.cmd = exec.Command(p.bin, append(append([]string{}, p.args...), "--listen", listen)...)
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	f := strings.Fields(line)
	if err != nil || len(f) < 2 {
		t.Fatalf("%s says %q: %v", p.bin, line, err)
	}
	p.addr = f[1]
	go io.Copy(io.Discard, out)
}

func (p *process) kill() {
	p.cmd.Process.Kill()
	p.cmd.Wait()
}

// Workers and frontends are killed, one after the other, under the 22 queries: none of these is answered wrongly, none hangs, and none
// fails.
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
	var at []string
	for _, n := range m.Nodes {
		p := &process{bin: filepath.Join(dir, "phoebe-tpch"), args: []string{"--data", root, "worker", "--node", n}}
		p.start(t)
		all, at = append(all, p), append(at, p.addr)
	}
	var connect []string
	for range 2 {
		p := &process{bin: filepath.Join(dir, "phoebe"), args: []string{"frontend", "--workers", strings.Join(at, ",")}}
		p.start(t)
		all, frontends, connect = append(all, p), append(frontends, p), append(connect, p.addr)
	}
	t.Cleanup(func() {
		for _, p := range all {
			p.kill()
		}
	})
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
	const kills = 8
	for i := range kills {
		for range 4 { // a few queries between kills, however slow the machine is
			<-ended
		}
		p := all[random.IntN(len(m.Nodes))]
		if i%3 == 2 {
			p = frontends[random.IntN(len(frontends))]
		}
		p.kill()
		p.start(t)
	}
	stop()
	wg.Wait()
	t.Logf("%d queries while %d processes were killed, of which failed: %v", done, kills, failed)
	if len(failed) > 0 {
		t.Error("a query fails")
	}
}
