package frontend

import (
	"slices"

	"github.com/phoebe-sched/phoebe/probe"
)

// withPeers is files, each with the addresses of some workers that are said to have it, for w to ask.
func (c *Core) withPeers(files []probe.File, w *worker) []probe.File {
	files = slices.Clone(files)
	for i := range files {
		files[i].Peers = c.view.Peers(FileID(files[i].Digest), w.Worker)
	}
	return files
}
