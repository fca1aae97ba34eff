package frontend

import (
	"slices"

	"github.com/phoebe-sched/phoebe/frontend/estimate"
	"github.com/phoebe-sched/phoebe/probe"
)

// maxHolders bounds the workers that are looked at for one file.
const maxHolders = 32

// withPeers is files, each with the addresses of some workers that are said to have it, for w to ask.
func (c *Core) withPeers(files []probe.File, w *worker) []probe.File {
	files = slices.Clone(files)
	for i := range files {
		files[i].Peers = c.peers(FileID(files[i].Digest), w)
	}
	return files
}

// peers are the addresses of workers other than w that are said to have a file: at random, but those of w's rack first.
func (c *Core) peers(id estimate.FileID, w *worker) (near []string) {
	holders := c.long.fleet.Holders(id)
	if len(holders) == 0 {
		return nil
	}
	rack := ""
	if row := c.long.fleet.Get(int32(w.key)); row != nil {
		rack = row.Rack
	}
	var far []string
	first := c.rand.IntN(len(holders))
	for i := range min(len(holders), maxHolders) {
		key := holders[(first+i)%len(holders)]
		v := c.worker(Worker(key))
		if v == nil || v == w || v.welcome.Cache == "" || v.state != up && v.state != draining {
			continue
		}
		if rack == "" || c.long.fleet.Get(key).Rack != rack {
			far = append(far, v.welcome.Cache)
			continue
		}
		if near = append(near, v.welcome.Cache); len(near) == probe.MaxPeers {
			return near
		}
	}
	return append(near, far[:min(len(far), probe.MaxPeers-len(near))]...)
}
