package main

import (
	"fmt"

	"github.com/phoebe-sched/phoebe/bench"
)

// floorCmd is a part of what phoebe bench noop --processes compares with.
type floorCmd struct {
	To string `placeholder:"HOST:PORT" help:"Echo that this one is the relay of. Default: none, it is the echo."`
}

// Run serves until it is killed.
func (c *floorCmd) Run(out *streams) error {
	return bench.ServeFloor(c.To, func(addr string) { fmt.Fprintf(out.out, "floor %s\n", addr) })
}
