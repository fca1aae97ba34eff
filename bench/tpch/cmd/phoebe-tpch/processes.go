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

// process is a process of a cluster. A test may kill the process and start it again at the same address.
type process struct {
	bin  string
	args []string
	addr string
	cmd  *exec.Cmd
}

// start starts the process, and returns when the process has printed its address.
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
		return fmt.Errorf("%s did not print an address, but %q: %v", p.cmd, line, err)
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

// workerNodes are worker processes, each for a node of the data, and a frontend in this process.
type workerNodes struct {
	workers  []*process
	frontend *serve.Server
}

// startNodes starts a worker process for each named node, and a frontend. root is the folder of the data.
func startNodes(root string, names []string) (n *workerNodes, err error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	n = &workerNodes{}
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
	cfg.Core.MaxWait = -1 // never refuse: queries of seconds wait for other queries longer than a second
	if n.frontend, err = serve.New(cfg); err != nil {
		return n, err
	}
	return n, n.frontend.Start()
}

// awaitSlots returns when the cluster has this many slots. awaitSlots waits for at most 30 s.
func awaitSlots(ctx context.Context, e *engine.Engine, slots int) error {
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
			return fmt.Errorf("the cluster has %d of %d slots: look at the workers' errors above", n, slots)
		}
	}
}

// workerPIDs returns the process IDs of the workers; n may be nil.
func (n *workerNodes) workerPIDs() (l []int) {
	if n != nil {
		for _, w := range n.workers {
			l = append(l, w.cmd.Process.Pid)
		}
	}
	return l
}

func (n *workerNodes) close() {
	if n.frontend != nil {
		n.frontend.Close()
	}
	for _, w := range n.workers {
		w.kill()
	}
}
