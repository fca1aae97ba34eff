package engine

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/phoebe-sched/phoebe/frontend/client/local"
	"github.com/phoebe-sched/phoebe/probe"
	"github.com/phoebe-sched/phoebe/worker/exec"
	"github.com/phoebe-sched/phoebe/worker/serve"
)

// maxMessage (8 MiB) is the size of the largest payload or result.
const maxMessage = 8 << 20

// Configure makes a phoebe worker run the fragments of w. The worker has the data of the node with this name.
func (w *Worker) Configure(c *serve.Config, node string) error {
	r := exec.NewRegistry()
	if err := exec.Register(r, Function, w.Run); err != nil {
		return err
	}
	c.Registry, c.Host = r, node
	c.CacheDir = filepath.Join(w.cfg.Temp, "cache") // outputs of stages, for later stages
	c.Labels = append(slices.Clone(c.Labels), "data="+w.Addr())
	c.MaxResult, c.Core.MaxPayload = maxMessage, maxMessage
	c.Core.Capacity = probe.Demand{CPU: probe.Millicores(1000 * w.cfg.Slots), Mem: probe.MiB(w.cfg.Memory)}
	return nil
}

// Cluster is a phoebe cluster in this process with workers for fragments: for tests, and for commands without
// --connect.
type Cluster struct {
	*local.Cluster
	Workers []*Worker
}

// StartCluster starts a cluster with a frontend, and a worker for each node. Each worker has the given number
// of slots, and memory in MiB. The folder root holds the folders of the nodes.
func StartCluster(root string, nodes []string, slots int, memory int64) (*Cluster, error) {
	c := &Cluster{}
	var failed error
	for _, n := range nodes {
		temp, err := os.MkdirTemp("", "phoebe-tpch")
		if err != nil {
			return nil, errors.Join(err, c.Close())
		}
		w, err := NewWorker(WorkerConfig{Data: filepath.Join(root, n), Temp: temp, Slots: slots, Memory: memory})
		if err != nil {
			return nil, errors.Join(err, c.Close())
		}
		c.Workers = append(c.Workers, w)
	}
	var err error
	c.Cluster, err = local.Start(local.Config{Workers: len(nodes), Worker: func(i int, s *serve.Config) {
		s.Name = fmt.Sprintf("worker-%d", i)
		failed = errors.Join(failed, c.Workers[i].Configure(s, nodes[i]))
	}})
	if err = errors.Join(err, failed); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// Close stops the frontend and the workers.
func (c *Cluster) Close() error {
	var err error
	if c.Cluster != nil {
		err = c.Cluster.Close()
	}
	for _, w := range c.Workers {
		err = errors.Join(err, w.Close())
	}
	return err
}
