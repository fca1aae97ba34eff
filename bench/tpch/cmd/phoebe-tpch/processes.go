package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/phoebe-sched/phoebe/bench/tpch/engine"
	"github.com/phoebe-sched/phoebe/frontend"
	"github.com/phoebe-sched/phoebe/frontend/serve"
)

// process is a part of a cluster, which may be killed and started again at its address.
type process struct {
	bin  string
	args []string
	addr string
	cmd  *exec.Cmd
}

// start starts it, and returns when it has told its address.
func (p *process) start() error {
	listen := p.addr
	if listen == "" {
		listen = "127.0.0.1:0"
	}
	p.cmd = exec.Command(p.bin, append(append([]string{}, p.args...), "--listen", listen)...)
	p.cmd.Stderr = os.Stderr
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := p.cmd.Start(); err != nil {
		return err
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	f := strings.Fields(line)
	if err != nil || len(f) < 2 {
		p.kill()
		return fmt.Errorf("%s tells no address, but %q: %v", p.cmd, line, err)
	}
	if p.addr == "" {
		p.addr = f[1]
	}
	go io.Copy(io.Discard, out)
	return nil
}

func (p *process) kill() {
	p.cmd.Process.Kill()
	p.cmd.Wait()
}

// nodes are processes of workers, one for each node of the data, and a frontend in this process.
type nodes struct {
	workers  []*process
	frontend *serve.Server
}

func startNodes(root string, names []string) (n *nodes, err error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	n = &nodes{}
	defer func() {
		if err != nil {
			n.close()
		}
	}()
	var at []string
	for _, name := range names {
		p := &process{bin: self, args: []string{"--data", root, "worker", "--node", name}}
		if err := p.start(); err != nil {
			return n, err
		}
		n.workers, at = append(n.workers, p), append(at, p.addr)
	}
	cfg := serve.Config{Listen: "127.0.0.1:0", Workers: serve.Static(at)}
	cfg.Core.Copies = frontend.FewCopies
	cfg.Core.MaxWait = -1 // queries of seconds wait for each other for longer than a second, and are not to be sent away for that
	if n.frontend, err = serve.New(cfg); err != nil {
		return n, err
	}
	return n, n.frontend.Start()
}

// await returns when so many slots are there.
func await(ctx context.Context, e *engine.Engine, slots int) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	for {
		n, err := e.Slots(ctx)
		if err != nil || n >= slots {
			return err
		}
		select {
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
			return fmt.Errorf("%d of %d slots are there", n, slots)
		}
	}
}

// pids are those of the workers; n may be nil.
func (n *nodes) pids() (l []int) {
	if n != nil {
		for _, w := range n.workers {
			l = append(l, w.cmd.Process.Pid)
		}
	}
	return l
}

func (n *nodes) close() {
	if n.frontend != nil {
		n.frontend.Close()
	}
	for _, w := range n.workers {
		w.kill()
	}
}
