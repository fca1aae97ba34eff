package main

import (
	"fmt"

	"github.com/phoebe-sched/phoebe/bench"
)

// floorCmd serves a part of the lower bound for phoebe bench noop --processes: an echo server, or a relay to it.
type floorCmd struct {
	To string `placeholder:"HOST:PORT" help:"Address of the echo server to relay to. Default: none, be the echo server."`
}

// Run serves until the process is killed.
func (c *floorCmd) Run(out *streams) error {
	return bench.ServeFloor(c.To, func(addr string) { fmt.Fprintf(out.out, "floor %s\n", addr) })
}
